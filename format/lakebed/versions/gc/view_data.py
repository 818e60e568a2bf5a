"""Data in `.queries/` that belong to no saved view: of a save that was cut off, or of a view that was deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakebed.documents.lock import DatasetLock
from lakebed.documents.saved_views import FILE, FOLDER, SavedViews
from lakebed.errors import FormatError, KeyNotFound
from lakebed.runtime import clock
from lakebed.storage.base import Stat, Storage
from lakebed.versions.locks.marker import LOCK_NAME, may_live


def left_of_views(
    storage: Storage, changed: Callable[[Stat], float], before: float
) -> Iterator[tuple[str, dict[str, Stat]]]:
    """Yield folders, and their files, that no entry of the list refers to and no process uses.

    Parameters
    ----------
    changed
        POSIX seconds of a file's last change.
    before
        A folder with files that changed since then stays.

    Raises
    ------
    FormatError
        If the list of views is damaged.
    """
    listed = dict(storage.list(FOLDER))
    if not listed:
        return
    try:
        views = SavedViews.from_bytes(
            storage.get(FILE)
        )  # after the listing: what was saved meanwhile is in it
    except KeyNotFound:
        views = SavedViews()
    found: dict[str, dict[str, Stat]] = {}
    for key, stat in listed.items():
        if views.owner(key) is None:
            found.setdefault(key[len(FOLDER) :].partition("/")[0], {})[key] = stat
    for name, files in found.items():
        is_old = max(map(changed, files.values())) < before
        if is_old and not any(_is_held(storage, key) for key in files if key.endswith(f"/{LOCK_NAME}")):
            yield name, files


def _is_held(storage: Storage, key: str) -> bool:
    try:
        lock = DatasetLock.from_bytes(storage.get(key))
    except (KeyNotFound, FormatError):
        return False
    return lock.expiry > clock.now() and may_live(lock)
