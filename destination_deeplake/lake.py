"""Datasets of streams at the destination, opened or created on the branch of the connection."""

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
"""Seconds to wait for another writer: the lease of a killed sync has expired by then."""

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def hold(dataset: lakebed.Dataset) -> Iterator[lakebed.Dataset]:
    """Hold the writer's lock of a dataset; if the block fails, unpublished changes are discarded.

    Otherwise the dataset would publish them when it is closed or when the process ends: unacknowledged rows of an
    incomplete step.
    """
    with dataset, OnFailure(dataset.discard):
        yield dataset


@dataclass(frozen=True, slots=True)
class Lake:
    """The datasets of a connection.

    Attributes
    ----------
    place : Place
        Folder or bucket, and its credentials.
    branch : str or None
        Branch of each dataset that the connection writes; None is the main branch.
    """

    place: Place
    branch: str | None = None

    def address(self, plan: StreamPlan) -> str:
        """Return the address of a stream's dataset."""
        return self.place.dataset(dataset_folder(plan.namespace, plan.name))

    def open(self, plan: StreamPlan) -> lakebed.Dataset:
        """Open the dataset of a stream for writing, or create it.

        A missing branch begins as a copy of the main branch. In a bucket, an active sync cannot be distinguished from a
        killed one, so this waits until the lease of a killed sync would expire.

        Raises
        ------
        lakebed.errors.LakebedError, OSError
            If the dataset cannot be opened or created.
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
