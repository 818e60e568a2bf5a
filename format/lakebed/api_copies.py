"""Module-level functions of the 3.x API that make datasets from others; datasets in one file; backups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakebed.api import check_options, load, opened, place_of
from lakebed.dataset.dataset import Dataset
from lakebed.history.timestamps import posix_seconds
from lakebed.session.places import Path, whole
from lakebed.session.process.open_sessions import flush_open
from lakebed.storage.base import Storage
from lakebed.storage.credentials import Creds, kept
from lakebed.storage.url import open_storage

if TYPE_CHECKING:
    from lakebed.copying.check_backups import BackupFindings
    from lakebed.copying.resolve_links import BrokenLink
    from lakebed.documents.backup import BackupPoint
    from lakebed.history.timestamps import Timestamp


def like(
    dest: Dataset | Path,
    src: Dataset | Path,
    tensors: Sequence[str] | None = None,
    overwrite: bool = False,
    creds: Creds | None = None,
    **options: Any,
) -> Dataset:
    """Create a dataset with the tensors, settings and info of another, and no samples.

    Parameters
    ----------
    dest
        Where the new dataset goes; note that it comes first. With ``overwrite`` it may be ``src`` itself, which is
        emptied then: tensors, info and history stay.
    src
        A dataset or its address.
    tensors
        Names of the tensors or groups to create; None is all.
    overwrite
        Replace an existing dataset.
    creds
        Credentials of an object store, for both; None asks the environment for them.
    options
        Other arguments of the 3.x call, which have no effect (``token``, ``org_id``, ``verbose``, ...).

    Returns
    -------
    The new dataset.

    Raises
    ------
    DatasetHandlerError
        If a dataset exists at ``dest`` and ``overwrite`` is false.
    TensorDoesNotExistError
        If a name stands for nothing.
    """
    creds = kept(creds)
    check_options(options)
    source = opened(src, creds)
    address = dest.storage.url if isinstance(dest, Dataset) else dest
    return source.like(place_of(address, creds), tensors=tensors, overwrite=overwrite)


def copy(
    src: Dataset | Path,
    dest: Path,
    runtime: None = None,  # noqa: ARG001
    tensors: Sequence[str] | None = None,
    overwrite: bool = False,
    progressbar: bool = True,
    src_creds: Creds | None = None,
    dest_creds: Creds | None = None,
    unlink: bool = False,
    **options: Any,
) -> Dataset:
    """Copy what a dataset, group or view holds now, without its history.

    Parameters
    ----------
    src
        A dataset, a part of one, or an address, which may end in ``@branch`` or ``@commit``.
    dest
        Address of the new dataset.
    runtime
        Accepted for compatibility.
    tensors
        Names of the tensors or groups to copy; None is all.
    overwrite
        Replace an existing dataset.
    progressbar
        Show a progress bar.
    src_creds
        Credentials of the source's object store; None uses those of the environment.
    dest_creds
        Credentials of the destination's object store; None uses those of the environment.
    unlink
        Fetch what links lead to; otherwise links stay links. See :func:`materialize`.
    options
        Other arguments of the 3.x call, which have no effect (``token``, ``org_id``, ``verbose``, ...).

    Returns
    -------
    The new dataset.

    Raises
    ------
    DatasetHandlerError
        If no dataset exists at ``src``, or one exists at ``dest`` and ``overwrite`` is false.
    TensorDoesNotExistError
        If a name stands for nothing.
    """
    src_creds, dest_creds = kept(src_creds), kept(dest_creds)
    check_options(options)
    return opened(src, src_creds).copy(
        place_of(dest, dest_creds),
        tensors=tensors,
        overwrite=overwrite,
        progressbar=progressbar,
        unlink=unlink,
    )


def materialize(
    src: Dataset | Path,
    dest: Path | None = None,
    tensors: Sequence[str] | None = None,
    *,
    overwrite: bool = False,
    ignore_errors: bool = False,
    progressbar: bool = True,
    src_creds: Creds | None = None,
    dest_creds: Creds | None = None,
) -> list[BrokenLink]:
    """Fetch what the links of a dataset lead to, and store it in place of the links.

    Files of the compression of their tensor are stored byte for byte. What is done is published along the way: after a
    kill, or an error, the same call goes on where the last one stopped.

    Parameters
    ----------
    src
        A dataset, a part of one, or an address.
    dest
        Where a copy of the selected rows without links goes; None changes the dataset itself, whose older versions keep
        the links.
    tensors
        Names of the tensors or groups; None is all.
    overwrite
        Replace a dataset at ``dest``, or begin anew.
    ignore_errors
        Leave empty samples where links lead nowhere.
    progressbar
        Show a progress bar.
    src_creds
        Credentials of the source's object store; None uses those of the environment.
    dest_creds
        Credentials of the destination's object store; None uses those of the environment.

    Returns
    -------
    The links that lead nowhere.

    Raises
    ------
    GetDataFromLinkError
        If a link leads nowhere and ``ignore_errors`` is false; it names tensor and row.
    SampleAppendError
        If a file cannot be stored in its tensor.
    DatasetHandlerError
        If no dataset exists at ``src``, or there is another one at ``dest`` and ``overwrite`` is false.
    """
    src_creds, dest_creds = kept(src_creds), kept(dest_creds)
    opened = src if isinstance(src, Dataset) else load(src, read_only=dest is not None, creds=src_creds)
    return opened.materialize(
        None if dest is None else place_of(dest, dest_creds),
        tensors=tensors,
        overwrite=overwrite,
        ignore_errors=ignore_errors,
        progressbar=progressbar,
    )


def deepcopy(
    src: Dataset | Path,
    dest: Path,
    runtime: None = None,  # noqa: ARG001
    tensors: Sequence[str] | None = None,
    overwrite: bool = False,
    progressbar: bool = True,
    src_creds: Creds | None = None,
    dest_creds: Creds | None = None,
    **options: Any,
) -> Dataset:
    """Copy a dataset with its whole history, branches and views.

    Parameters
    ----------
    src
        A whole dataset or its address.
    dest
        Address of the new dataset.
    runtime
        Accepted for compatibility.
    tensors
        Names of the tensors or groups to keep; None is all.
    overwrite
        Replace an existing dataset.
    progressbar
        Show a progress bar.
    src_creds
        Credentials of the source's object store; None uses those of the environment.
    dest_creds
        Credentials of the destination's object store; None uses those of the environment.
    options
        Other arguments of the 3.x call, which have no effect (``token``, ``org_id``, ``verbose``, ...).

    Returns
    -------
    The new dataset.

    Raises
    ------
    DatasetHandlerError
        If no dataset exists at ``src``, or one exists at ``dest`` and ``overwrite`` is false.
    TypeError
        If ``src`` is a view: only a whole dataset has a history.
    """
    src_creds, dest_creds = kept(src_creds), kept(dest_creds)
    check_options(options)
    return opened(src, src_creds).deepcopy(
        place_of(dest, dest_creds), tensors=tensors, overwrite=overwrite, progressbar=progressbar
    )


def pack(
    src: Dataset | Path,
    dest: Path,
    tensors: Sequence[str] | None = None,
    overwrite: bool = False,
    progressbar: bool = True,
    src_creds: Creds | None = None,
    dest_creds: Creds | None = None,
) -> Dataset:
    """Write a dataset with its whole history to one file, which ``load`` opens in place, for reading.

    The file is a ZIP archive without compression. Everything is compared with its checksums on the way.

    Parameters
    ----------
    src
        A whole dataset or its address.
    dest
        Address of the file: a local path, or an object of a store; its name ends in ``.lake``. It appears as a whole.
    tensors
        Names of the tensors or groups to keep; None is all.
    overwrite
        Replace an existing file.
    progressbar
        Show a progress bar.
    src_creds
        Credentials of the source's object store; None uses those of the environment.
    dest_creds
        Credentials of the destination's object store; None uses those of the environment.

    Returns
    -------
    The packed dataset.

    Raises
    ------
    DatasetHandlerError
        If no dataset exists at ``src``, or there is a file at ``dest`` and ``overwrite`` is false.
    InvalidInputError
        If the name of the file does not end in ``.lake``.
    ChecksumError
        If the dataset is damaged; there is no file then.
    TypeError
        If ``src`` is a view: only a whole dataset has a history.
    """
    src_creds, dest_creds = kept(src_creds), kept(dest_creds)
    return opened(src, src_creds).pack(
        place_of(dest, dest_creds), tensors=tensors, overwrite=overwrite, progressbar=progressbar
    )


def unpack(
    src: Path,
    dest: Path,
    overwrite: bool = False,
    progressbar: bool = True,
    src_creds: Creds | None = None,
    dest_creds: Creds | None = None,
) -> Dataset:
    """Make a folder again of a dataset in one file, to write it; after a kill, the same call goes on.

    Parameters
    ----------
    src
        Address of the file.
    dest
        Address of the new dataset.
    overwrite
        Replace an existing dataset.
    progressbar
        Show a progress bar.
    src_creds
        Credentials of the source's object store; None uses those of the environment.
    dest_creds
        Credentials of the destination's object store; None uses those of the environment.

    Returns
    -------
    The new dataset.

    Raises
    ------
    InvalidInputError
        If ``src`` is no packed dataset.
    DatasetHandlerError
        If there is none, or there is a dataset at ``dest`` and ``overwrite`` is false.
    ChecksumError
        If the file is damaged. Everything else is unpacked then.
    """
    from lakebed.copying.pack import check_packed

    src_creds = kept(src_creds)
    check_packed(place_of(src, src_creds))
    return deepcopy(
        src, dest, overwrite=overwrite, progressbar=progressbar, src_creds=src_creds, dest_creds=dest_creds
    )


def backup(
    src: Dataset | Path,
    dest: Path,
    keep_last: int = 0,
    keep_daily: int = 0,
    keep_weekly: int = 0,
    keep_monthly: int = 0,
    *,
    moved: bool = False,
    keep_damaged: bool = False,
    verify: bool = False,
    progressbar: bool = True,
    src_creds: Creds | None = None,
    dest_creds: Creds | None = None,
) -> BackupPoint:
    """Back up a dataset with all its versions: only what the backups before do not have is copied.

    The backup is there as a whole or not at all; after a kill, the same call goes on. The dataset may be written
    meanwhile. What is copied is compared with its checksums. Links stay links.

    Parameters
    ----------
    src
        A whole dataset or its address.
    dest
        Where the backups of this dataset lie: a new place, or that of the backups before.
    keep_last, keep_daily, keep_weekly, keep_monthly
        Which backups stay: so many of the newest, and the newest of each of so many days, weeks and months that have
        one; without any of these, all.
    moved
        The place holds backups of the same dataset at another address, and no version of it is in them.
    keep_damaged
        Back up also a dataset that is damaged, as far as it is there.
    verify
        Read what earlier backups have brought and this one needs, and copy again what is damaged there.
    progressbar
        Show a progress bar.
    src_creds
        Credentials of the source's object store; None uses those of the environment.
    dest_creds
        Credentials of the destination's object store; None uses those of the environment.

    Returns
    -------
    The new backup.

    Raises
    ------
    DatasetHandlerError
        If no dataset exists at ``src``, or ``dest`` lies within it.
    ChecksumError
        If the dataset is damaged, and ``keep_damaged`` is false; there is no new backup then.
    LockedException
        If another backup to this place is being made.
    InvalidInputError
        If the place holds backups of another dataset.
    PathNotEmptyException
        If it holds something else.
    """
    from lakebed.copying.backup import backup as make
    from lakebed.copying.retention import Retention

    rule = Retention(keep_last, keep_daily, keep_weekly, keep_monthly)
    if isinstance(src, Dataset):
        if not src._index.is_trivial or src._group:  # noqa: SLF001
            raise TypeError("a view has no history to back up: give the dataset, or its address")
        src.flush()
        source = src.storage
    else:
        source = _storage(src, src_creds)
        flush_open(source)
    return make(
        source,
        _storage(dest, dest_creds),
        rule,
        moved=moved,
        keep_damaged=keep_damaged,
        verify=verify,
        progressbar=progressbar,
    ).point


def backups(dest: Path, creds: Creds | None = None) -> list[BackupPoint]:
    """List the backups at a place, the oldest first.

    Parameters
    ----------
    dest
        Where they lie.
    creds
        Credentials of the object store; None uses those of the environment.

    Returns
    -------
    What the catalog says of each: id, time, size.

    Raises
    ------
    DatasetNotFoundError
        If there are none.
    ChecksumError
        If the list is damaged.
    """
    from lakebed.copying.repository import Repository

    points = Repository(_storage(dest, creds)).catalog().points
    return sorted(points, key=lambda point: point.time)


def verify_backups(dest: Path, creds: Creds | None = None, *, progressbar: bool = True) -> BackupFindings:
    """Read everything that the backups at a place consist of, and tell what is damaged.

    Parameters
    ----------
    dest
        Where they lie.
    creds
        Credentials of the object store; None uses those of the environment.
    progressbar
        Show a progress bar.

    Returns
    -------
    What was read, and what is damaged in which backup; ``is_sound`` if nothing is.

    Raises
    ------
    DatasetNotFoundError
        If there are none.
    ChecksumError
        If the list of them is damaged.
    """
    from lakebed.copying.check_backups import verify_backups as check

    return check(_storage(dest, creds), progressbar=progressbar)


def restore(
    backup: Path,
    dest: Path,
    at: str | Timestamp | None = None,
    overwrite: bool = False,
    progressbar: bool = True,
    src_creds: Creds | None = None,
    dest_creds: Creds | None = None,
) -> Dataset:
    """Make the dataset of a backup again, with all its versions; after a kill, the same call goes on.

    Parameters
    ----------
    backup
        Where the backups lie.
    dest
        Address of the dataset: an empty or new place.
    at
        Id of the backup, or its first characters; or a time, of which the last backup before is meant, as in
        ``load(as_of=...)``; None is the newest.
    overwrite
        Replace an existing dataset.
    progressbar
        Show a progress bar.
    src_creds
        Credentials of the source's object store; None uses those of the environment.
    dest_creds
        Credentials of the destination's object store; None uses those of the environment.

    Returns
    -------
    The dataset.

    Raises
    ------
    DatasetHandlerError
        If there are no backups, or there is a dataset at ``dest`` and ``overwrite`` is false.
    InvalidInputError
        If the backup does not exist.
    ChecksumError
        If it is damaged; no dataset is at ``dest`` then.
    """
    from lakebed.copying.restore import is_id
    from lakebed.copying.restore import restore as make

    chosen = at if at is None or (isinstance(at, str) and is_id(at)) else posix_seconds(at)
    handle = make(
        _storage(backup, src_creds),
        place_of(dest, kept(dest_creds)),
        chosen,
        overwrite=overwrite,
        progressbar=progressbar,
    )
    return Dataset(handle)


def _storage(path: Path, creds: Creds | None) -> Storage:
    return open_storage(whole(place_of(path, kept(creds), existing=True)))
