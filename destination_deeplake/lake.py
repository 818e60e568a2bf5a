"""The datasets of streams at the destination: found or made, on the branch that the connection writes."""

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass

import lakebed
from destination_deeplake.catalog import StreamPlan
from destination_deeplake.config import Place
from destination_deeplake.failures import without_advice
from destination_deeplake.naming import dataset_folder
from lakebed.errors import LockedException
from lakebed.runtime.failures import OnFailure

_PATIENCE = float(os.environ.get("LAKEBED_LEASE_SECONDS") or 300) + 15
"""Seconds after which a sync that was killed keeps nobody out any more; a living one renews its lease in good time."""

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def hold(dataset: lakebed.Dataset) -> Iterator[lakebed.Dataset]:
    """Hold the writer's lock of a dataset; what a block that fails has not published is forgotten.

    Otherwise the dataset would try to publish it once more when it is closed, or when the process ends: rows that were
    not acknowledged, from a step that was left in the middle.
    """
    with dataset, OnFailure(dataset.discard):
        yield dataset


@dataclass(frozen=True, slots=True)
class Lake:
    """Places of the datasets of a connection.

    Attributes
    ----------
    place : Place
        Folder or bucket, and what opens it.
    branch : str or None
        Branch of each dataset that the connection writes; None is the main one.
    """

    place: Place
    branch: str | None = None

    def address(self, plan: StreamPlan) -> str:
        """Return the address of a stream's dataset."""
        return self.place.dataset(dataset_folder(plan.namespace, plan.name))

    def open(self, plan: StreamPlan) -> lakebed.Dataset:
        """Open the dataset of a stream for writing, or make it.

        A branch that is missing begins with what the main branch holds. In a bucket nobody can tell whether another
        sync is at work or was killed: if it was, waiting helps.

        Raises
        ------
        lakebed.errors.LakebedError, OSError
            If it cannot be opened or made.
        """
        url, creds = self.address(plan), self.place.creds
        dataset = self._load(url) if lakebed.exists(url, creds=creds) else lakebed.empty(url, creds=creds)
        if self.branch is not None and self.branch != dataset.branch:
            dataset.checkout(self.branch, create=self.branch not in dataset.branches)
        return dataset

    def _load(self, url: str) -> lakebed.Dataset:
        creds = self.place.creds
        try:
            return lakebed.load(url, read_only=False, creds=creds)
        except LockedException as error:
            if self.place.folder is not None:
                raise
            _log.warning("%s. Waiting %.0f s for it.", without_advice(error), _PATIENCE)
        return lakebed.load(url, read_only=False, creds=creds, lock_timeout=_PATIENCE)
