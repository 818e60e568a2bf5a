"""Module-level functions that copy datasets, pack a dataset into one file, and back datasets up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakebed.api.datasets import check_options, load, opened, place_of
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
    """Create a dataset with the tensors, settings and info of another dataset, but without samples.

    Parameters
    ----------
    dest
        Place of the new dataset; note that this argument comes first. With ``overwrite`` it may be ``src`` itself: all
        samples of ``src`` are then removed, but tensors, info and history are kept.
    src
        A dataset or its address.
    tensors
        Names of the tensors or groups to create; None is all.
    overwrite
        Replace an existing dataset.
    creds
        Credentials of the object stores of both datasets; None uses the credentials of the environment.
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
        If no tensor or group has one of the names.
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
    """Copy the present content of a dataset, group or view, without its history.

    Parameters
    ----------
    src
        A dataset, a view or group of a dataset, or an address, which may end in ``@branch`` or ``@commit``.
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
    src_creds, dest_creds
        Credentials of the object stores of source and destination; None uses the credentials of the environment.
    unlink
        Copy the data to which links refer; if false, links are copied as links. See :func:`materialize`.
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
        If no tensor or group has one of the names.
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
    """Replace the links of a dataset by the data to which they refer.

    Files with the compression of their tensor are stored byte for byte. Progress is published while the call runs:
    after an error, or if the process was killed, the same call continues.

    Parameters
    ----------
    src
        A dataset, a view or group of a dataset, or an address.
    dest
        Place for a copy of the selected rows without links; None changes the dataset itself, whose older versions keep
        the links.
    tensors
        Names of the tensors or groups whose links are replaced; None is all.
    overwrite
        Replace a dataset at ``dest``; start an unfinished call again instead of continuing it.
    ignore_errors
        Store empty samples in place of broken links.
    progressbar
        Show a progress bar.
    src_creds, dest_creds
        Credentials of the object stores of source and destination; None uses the credentials of the environment.

    Returns
    -------
    The broken links.

    Raises
    ------
    GetDataFromLinkError
        If a link is broken and ``ignore_errors`` is false; the message names tensor and row.
    SampleAppendError
        If a file cannot be stored in its tensor.
    DatasetHandlerError
        If no dataset exists at ``src``, or another one exists at ``dest`` and ``overwrite`` is false.
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
    *,
    deeplake3: bool = False,
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
    src_creds, dest_creds
        Credentials of the object stores of source and destination; None uses the credentials of the environment.
    deeplake3
        Write tensors of more than 2^20 chunks so that Deep Lake 3.9.52 reads them, too; it refuses them otherwise.
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
        place_of(dest, dest_creds),
        tensors=tensors,
        overwrite=overwrite,
        progressbar=progressbar,
        deeplake3=deeplake3,
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
    """Write a dataset with its whole history to one file, which ``load`` opens for reading without unpacking it.

    The file is a ZIP archive without compression. All data is compared with its checksums.

    Parameters
    ----------
    src
        A whole dataset or its address.
    dest
        Address of the file: a local path, or an object of a store; its name ends in ``.lake``. The file appears only
        when it is complete.
    tensors
        Names of the tensors or groups to keep; None is all.
    overwrite
        Replace an existing file.
    progressbar
        Show a progress bar.
    src_creds, dest_creds
        Credentials of the object stores of source and destination; None uses the credentials of the environment.

    Returns
    -------
    The packed dataset.

    Raises
    ------
    DatasetHandlerError
        If no dataset exists at ``src``, or a file exists at ``dest`` and ``overwrite`` is false.
    InvalidInputError
        If the name of the file does not end in ``.lake``.
    ChecksumError
        If the dataset is damaged; no file is written then.
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
    """Unpack a packed dataset into a folder, where it can be changed; a killed process can be resumed by the same call.

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
    src_creds, dest_creds
        Credentials of the object stores of source and destination; None uses the credentials of the environment.

    Returns
    -------
    The new dataset.

    Raises
    ------
    InvalidInputError
        If ``src`` is not a packed dataset.
    DatasetHandlerError
        If the file does not exist, or a dataset exists at ``dest`` and ``overwrite`` is false.
    ChecksumError
        If the file is damaged; all undamaged data is unpacked.
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
    """Back up a dataset with all its versions; only data that earlier backups do not contain is copied.

    The backup is made as a whole or not at all; if the process is killed, the same call resumes. Other programs may
    write the dataset meanwhile. Copied data is compared with its checksums. Links are copied as links.

    Parameters
    ----------
    src
        A whole dataset or its address.
    dest
        Place for the backups of this dataset: an empty place, or the place of earlier backups.
    keep_last, keep_daily, keep_weekly, keep_monthly
        Numbers of backups to keep: the newest backups, and the newest backup of each of the last days, weeks and months
        that have a backup; if none of these arguments is given, all backups are kept.
    moved
        Confirm that the place holds backups of the same dataset, although the dataset's address and all its versions
        have changed since.
    keep_damaged
        Back up a damaged dataset as far as possible.
    verify
        Read the data of earlier backups that the new backup needs, and copy damaged data again.
    progressbar
        Show a progress bar.
    src_creds, dest_creds
        Credentials of the object stores of source and destination; None uses the credentials of the environment.

    Returns
    -------
    The new backup.

    Raises
    ------
    DatasetHandlerError
        If no dataset exists at ``src``, or ``dest`` is inside the dataset's folder.
    ChecksumError
        If the dataset is damaged, and ``keep_damaged`` is false; no backup is made then.
    LockedException
        If another backup to this place is running.
    InvalidInputError
        If the place holds backups of another dataset.
    PathNotEmptyException
        If the place holds other files.
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
        Place of the backups.
    creds
        Credentials of the object store; None uses the credentials of the environment.

    Returns
    -------
    Id, time and sizes of each backup.

    Raises
    ------
    DatasetNotFoundError
        If the place has no backups.
    ChecksumError
        If the list is damaged.
    """
    from lakebed.copying.repository import Repository

    points = Repository(_storage(dest, creds)).catalog().points
    return sorted(points, key=lambda point: point.time)


def verify_backups(dest: Path, creds: Creds | None = None, *, progressbar: bool = True) -> BackupFindings:
    """Read all data of the backups at a place, and report damage.

    Parameters
    ----------
    dest
        Place of the backups.
    creds
        Credentials of the object store; None uses the credentials of the environment.
    progressbar
        Show a progress bar.

    Returns
    -------
    Findings: the amount of data, the damage in each backup, and ``is_sound``.

    Raises
    ------
    DatasetNotFoundError
        If the place has no backups.
    ChecksumError
        If the list of backups is damaged.
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
    """Restore a dataset from a backup, with all its versions; if the process is killed, the same call resumes.

    Parameters
    ----------
    backup
        Place of the backups.
    dest
        Address of the dataset: an empty or new place.
    at
        Id of the backup, or its first characters; or a time, as for ``load(as_of=...)``, for the last backup before it;
        None is the newest backup.
    overwrite
        Replace an existing dataset.
    progressbar
        Show a progress bar.
    src_creds, dest_creds
        Credentials of the object stores of source and destination; None uses the credentials of the environment.

    Returns
    -------
    The dataset.

    Raises
    ------
    DatasetHandlerError
        If the place has no backups, or a dataset exists at ``dest`` and ``overwrite`` is false.
    InvalidInputError
        If the backup does not exist.
    ChecksumError
        If the backup is damaged; no dataset is created then.
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
