"""The command `check`: whether datasets can be written, read back and deleted at the destination path."""

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lakebed
from destination_deeplake.config import DestinationConfig, Place
from destination_deeplake.failures import FailureType, describe
from lakebed.errors import StorageUnavailableError
from lakebed.runtime.failures import outcome

_ROW = "destination-deeplake check"
_PATIENCE = 4.0
"""Seconds for which a request to a store is repeated. A sync waits longer, but here a user is waiting."""


def problem_with(config: DestinationConfig) -> str | None:
    """Write, read back and delete a unique dataset; return advice for the user, None if all is well.

    Folders that the probe created are removed again.

    Raises
    ------
    Exception
        If the test failed for a reason that no change of the configuration can fix.
    """
    place = config.place
    missing = [] if place.folder is None else _missing(place.folder)
    try:
        with _impatience():
            error = outcome(_round_trip, place, kind=Exception).error
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()
    if error is None:
        return None
    failure = describe(error)
    if failure.failure_type is not FailureType.SYSTEM:
        return f"destination_path {place}: {failure.message}"
    if isinstance(error, OSError):
        return f"destination_path {place} cannot be used ({error}); choose another folder."
    raise error


def _round_trip(place: Place) -> None:
    # No stream has this folder, because leading dots of names are encoded.
    url = place.dataset(f".airbyte-check-{uuid.uuid4().hex}")
    found = outcome(_written_and_read, url, place.creds, kind=Exception)
    if isinstance(found.error, StorageUnavailableError):
        raise found.error  # a store that does not answer holds nothing to delete
    deleted = outcome(partial(lakebed.delete, url, creds=place.creds), kind=Exception)
    if found.result() != _ROW:  # report the first error rather than that of the deletion
        raise OSError(errno.EIO, "the data that was read back is not the data that was written", url)
    deleted.result()


def _written_and_read(url: str, creds: Any) -> str:
    dataset = lakebed.empty(url, creds=creds)
    dataset.create_tensor("probe", htype="text", create_id_tensor=False)
    dataset.extend({"probe": [_ROW]})
    dataset.close()
    found: str = lakebed.load(url, read_only=True, creds=creds)["probe"][0].text()
    return found


@contextlib.contextmanager
def _impatience() -> Iterator[None]:
    """Limit the retries of requests within the block."""
    before = lakebed.config.RETRY_SECONDS
    lakebed.config.RETRY_SECONDS = min(before, _PATIENCE)
    try:
        yield
    finally:
        lakebed.config.RETRY_SECONDS = before


def _missing(folder: Path) -> list[Path]:
    """Return the folders of the path that do not exist, innermost first."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = folder.parent
    return missing
