"""Opening of existing datasets at a branch, commit or moment; on request the dataset is repaired first."""

from __future__ import annotations

import warnings

from lakebed.documents.version_tree import OURS
from lakebed.errors import DisplacedWarning, LockedWarning
from lakebed.session.handle import Handle
from lakebed.session.places import Path, check_path
from lakebed.session.process.open_sessions import flush_open
from lakebed.session.session import Session
from lakebed.storage.url import open_storage, parse
from lakebed.versions.locks.marker import live_owner


def open_at(
    path: Path,
    *,
    read_only: bool | None = None,
    cache_bytes: int | None = None,
    lock_timeout: float = 0.0,
    as_of: float | None = None,
    reset: bool = False,
    check_integrity: bool = False,
) -> Handle:
    """Open the dataset at an address, which may end in ``@`` and a branch, commit or tag.

    Parameters
    ----------
    as_of
        POSIX seconds: open the commit that was the newest at that time.
    reset
        Repair the dataset first if it cannot be opened, or its lengths contradict each other.
    check_integrity
        Check first that all metadata is consistent.

    Raises
    ------
    DatasetHandlerError
        If no dataset exists.
    CheckoutError
        If the version does not exist.
    """
    check_path(path)
    location = parse(path, existing=True)
    storage = open_storage(location)
    flush_open(storage, to_read=read_only is True)
    if reset:
        from lakebed.maintenance import repair

        repair.recover(storage, location.ref)
    session = Session(
        storage,
        location.ref,
        read_only=bool(read_only),
        cache_bytes=cache_bytes,
        lock_timeout=lock_timeout,
        as_of=as_of,
    )
    if OURS not in session.tree.extra:
        # If Deep Lake 3.x was the last writer, it may have overwritten a publish of this library.
        from lakebed.maintenance.displaced_publishes import warning_of

        message = warning_of(storage, session.tree)
        if message is not None:
            warnings.warn(message, DisplacedWarning, stacklevel=3)
    if check_integrity:
        from lakebed.maintenance import repair

        repair.check_integrity(storage, session.tree, session.snapshot.version_id)
    handle = Handle(session, location.shown)
    if session.is_head and read_only is False:
        session.check_writable()
    elif session.is_head and read_only is None:
        _warn_if_locked(session)
    return handle


def _warn_if_locked(session: Session) -> None:
    """Warn if another process holds the writer's lock."""
    owner = live_owner(session.storage, session.snapshot.version_id, session.lock_seen)
    if owner is not None:
        warnings.warn(
            f"branch {session.branch!r} of {session.storage.url} is being written by {owner}: published data can be "
            "read, and changes raise LockedException until that writer is done. Open it with read_only=True if "
            "nothing is to be changed.",
            LockedWarning,
            stacklevel=4,
        )
