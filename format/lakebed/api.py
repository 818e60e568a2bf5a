"""Module-level functions of the 3.x API: make, open, find, copy and remove datasets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from lakebed.dataset.dataset import Dataset
from lakebed.dataset.open import open_at
from lakebed.errors import InvalidInputError, UnsupportedParameterException
from lakebed.session import places
from lakebed.session.places import Path
from lakebed.storage.credentials import NAMED, Creds, kept
from lakebed.storage.url import Location, open_storage, parse
from lakebed.versions.gc.collect import collect
from lakebed.versions.opening import TREE_KEY

if TYPE_CHECKING:
    from lakebed.history.timestamps import Timestamp
    from lakebed.maintenance.check import Findings
    from lakebed.maintenance.plan import RepairReport
    from lakebed.versions.gc.report import Report


def empty(
    path: Path,
    overwrite: bool = False,
    memory_cache_size: int | None = None,
    local_cache_size: int = 0,
    creds: Creds | None = None,
    **options: Any,
) -> Dataset:
    """Create a dataset without tensors.

    Parameters
    ----------
    path
        Local path, ``file://``, ``mem://name``, ``s3://``, ``gs://`` or ``az://``.
    overwrite
        Remove a dataset that is already there.
    memory_cache_size
        Bound of the chunk cache in MB.
    local_cache_size
        Bound in MB of the cache of an object store's chunks on this machine's disk, shared by all processes; 0 for
        none.
    creds
        Credentials of an object store, by the keys of Deep Lake 3.x (``aws_access_key_id``, ``endpoint_url``, ...);
        None asks the environment for them.
    options
        Further arguments of the 3.x call that have no meaning here (``token``, ``org_id``, ``verbose``, ...).

    Returns
    -------
    The new dataset.

    Raises
    ------
    DatasetHandlerError
        If there is a dataset and ``overwrite`` is false, or its deletion is switched off.
    PathNotEmptyException
        If the folder holds other files.
    """
    creds = kept(creds)
    check_options(options)
    place = place_of(path, creds, local_cache_size)
    return Dataset(places.make(place, overwrite=overwrite, cache_bytes=_bytes(memory_cache_size)))


def load(
    path: Path,
    read_only: bool | None = None,
    memory_cache_size: int | None = None,
    lock_timeout: float = 0,
    as_of: Timestamp | None = None,
    reset: bool = False,
    check_integrity: bool | None = None,
    local_cache_size: int = 0,
    creds: Creds | None = None,
    **options: Any,
) -> Dataset:
    """Open a dataset; the address may end in ``@`` and a branch, commit or tag, as in ``path@v1`` or ``path@HEAD~2``.

    Parameters
    ----------
    path
        Address of the dataset.
    read_only
        True refuses changes. False makes sure now that changes are possible. None allows them, too: the writer's lock
        is taken at the first change. If another process writes the branch just now, a LockedWarning names it, and
        a change raises LockedException until it is done; the dataset never turns read-only by itself.
    memory_cache_size
        Bound of the chunk cache in MB; None is ``lakebed.config``'s.
    lock_timeout
        Seconds to wait for another writer to end, here and at every change.
    as_of
        Open what was the newest commit of the branch at this time: a ``datetime`` with a time zone, POSIX seconds, or
        ISO text such as ``"2026-11-21 09:30"``. Text without a zone is UTC, as the log prints it, and means the end of
        the day, minute or second that it names; a ``datetime`` without a zone is refused, because it may
        come from ``now()`` or ``utcnow()``. A writer there goes on in a new branch, as on any old commit.
    reset
        If the version does not open, or contradicts itself, repair the dataset first, as ``lakebed repair --apply``
        does: everything that decodes stays. Deep Lake 3.x goes back to the last commit then.
    check_integrity
        True compares all metadata of the version first, as ``lakebed verify`` does. None and False leave it at what
        is needed to open it; changes are refused anyway where lengths contradict each other.
    local_cache_size
        Bound in MB of the cache of an object store's chunks on this machine's disk, shared by all processes; 0 for
        none.
    creds
        Credentials of an object store, by the keys of Deep Lake 3.x (``aws_access_key_id``, ``endpoint_url``, ...);
        None asks the environment for them.
    options
        Further arguments of the 3.x call that have no meaning here (``token``, ``org_id``, ``verbose``, ...).

    Returns
    -------
    The dataset, at the head of its main branch if the address names no version; the view, if one was saved there.

    Raises
    ------
    DatasetHandlerError
        If there is no dataset.
    LockedException
        If ``read_only`` is False and another process writes the branch; the message names it.
    CheckoutError
        If there is no such version, or no commit yet at the time.
    InvalidInputError
        If ``as_of`` is no time.
    DatasetCorruptError
        If its metadata is damaged.
    """
    creds = kept(creds)
    check_options(options)
    if as_of is not None:
        from lakebed.history.timestamps import posix_seconds

        as_of = posix_seconds(as_of)
    places.check_path(path)
    place = place_of(path, creds, local_cache_size, existing=True)
    handle = open_at(
        place,
        read_only=read_only,
        cache_bytes=_bytes(memory_cache_size),
        lock_timeout=float(lock_timeout),
        as_of=as_of,
        reset=reset,
        check_integrity=bool(check_integrity),
    )
    if handle.session.structure().meta.tensors == ("VDS_INDEX",):
        from lakebed.dataset.chapters.views import followed

        return followed(Dataset(handle), place)
    return Dataset(handle)


def dataset(
    path: Path,
    read_only: bool | None = None,
    overwrite: bool = False,
    memory_cache_size: int | None = None,
    reset: bool = False,
    check_integrity: bool | None = None,
    local_cache_size: int = 0,
    creds: Creds | None = None,
    **options: Any,
) -> Dataset:
    """Open the dataset at an address, or create one if there is none; see :func:`load` and :func:`empty`.

    Parameters
    ----------
    path
        Address of the dataset.
    read_only
        As for :func:`load`.
    overwrite
        Remove a dataset that is there, and create one.
    memory_cache_size
        Bound of the chunk cache in MB; None is ``lakebed.config``'s.
    reset
        As for :func:`load`.
    check_integrity
        As for :func:`load`.
    local_cache_size
        Bound in MB of the cache on this machine's disk; 0 for none.
    creds
        Credentials of an object store; None asks the environment for them.
    options
        Further arguments of the 3.x call that have no meaning here (``token``, ``org_id``, ``verbose``, ...).

    Returns
    -------
    The dataset.
    """
    creds = kept(creds)
    place = place_of(path, creds, local_cache_size, existing=True)
    if overwrite or not _is_there(place):
        return empty(place, overwrite=overwrite, memory_cache_size=memory_cache_size, **options)
    return load(
        place,
        read_only=read_only,
        memory_cache_size=memory_cache_size,
        reset=reset,
        check_integrity=check_integrity,
        **options,
    )


def exists(path: Path, creds: Creds | None = None, **options: Any) -> bool:
    """Tell whether there is a dataset at an address.

    Parameters
    ----------
    path
        Address without a version.
    creds
        Credentials of an object store; None asks the environment for them.
    options
        Further arguments of the 3.x call that have no meaning here (``token``, ``org_id``, ``verbose``, ...).

    Raises
    ------
    InvalidInputError
        If the address names a version.
    """
    creds = kept(creds)
    check_options(options)
    return _is_there(places.whole(place_of(path, creds)))


def _is_there(location: Location) -> bool:
    return open_storage(location).stat(TREE_KEY) is not None


def delete(
    path: Path, force: bool = False, large_ok: bool = False, creds: Creds | None = None, **options: Any
) -> None:
    """Remove a dataset with all its versions.

    Parameters
    ----------
    path
        Address of the dataset.
    force
        Remove also what does not open as a dataset.
    large_ok
        Allow datasets above 1 GB.
    creds
        Credentials of an object store; None asks the environment for them.
    options
        Further arguments of the 3.x call that have no meaning here (``token``, ``org_id``, ``verbose``, ...).

    Raises
    ------
    DatasetHandlerError
        If there is none, or deletion is switched off in it.
    DatasetTooLargeToDelete
        If it is above 1 GB and ``large_ok`` is false.
    """
    creds = kept(creds)
    check_options(options)
    places.discard(place_of(path, creds), force=force, large_ok=large_ok)


def gc(
    path: Path, *, grace: float | None = None, dry_run: bool = False, creds: Creds | None = None
) -> Report:
    """Remove what no branch, tag, commit, saved view or reader of a dataset needs; writers and readers may go on.

    Writers do most of it by themselves; this also finds what crashes have left.

    Parameters
    ----------
    path
        Address of the dataset.
    grace
        Seconds that everything stays after it was last in use, for readers that leave no trace; None is what writers
        go by: ``lakebed.config.GRACE_SECONDS``, or ``KEEP_HEADS`` newer versions where readers are known.
    dry_run
        Only tell what would be removed.
    creds
        Credentials of an object store; None asks the environment for them.

    Returns
    -------
    What was removed, or would be, and what stays.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    DatasetCorruptError
        If its history is damaged: then nothing is removed.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://collected")
    >>> lakebed.gc("mem://collected", grace=0).files
    0
    """
    creds = kept(creds)
    return collect(open_storage(place_of(path, creds)), grace=grace, dry_run=dry_run)


def verify(path: Path, *, deep: bool = False, creds: Creds | None = None) -> Findings:
    """Read a dataset, or one version of it, and tell what is damaged.

    Without checksums, as in datasets that Deep Lake 3.x wrote last, damage inside of raw arrays cannot be seen.

    Parameters
    ----------
    path
        Address of the dataset; with a branch or version at its end, as in ``path@main``, only that is read.
    deep
        Also decode every sample. Links are not followed.
    creds
        Credentials of an object store, as for :func:`load`.

    Returns
    -------
    What was found: ``is_sound``, the lists ``damage`` and ``notes``, and how much was looked at; ``to_json()`` gives it
    as plain data.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    CheckoutError
        If there is no such version.
    StorageError
        If the storage fails.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://verified")
    >>> lakebed.verify("mem://verified", deep=True).is_sound
    True
    """
    from lakebed.maintenance.verify import verify as check

    location = place_of(path, kept(creds), existing=True)
    return check(open_storage(location), location.ref, deep=deep)


def repair(path: Path, *, apply: bool = False, creds: Creds | None = None) -> RepairReport:
    """Save what can be saved of a dataset after a crash of Deep Lake 3.x or damage, or only tell what would be done.

    Damaged heads get sound ones beside them; everything that decodes stays.

    Parameters
    ----------
    path
        Address of the whole dataset.
    apply
        Do it; otherwise nothing is written.
    creds
        Credentials of an object store, as for :func:`load`.

    Returns
    -------
    What was done, or would be: ``is_needed``, the list ``steps``, ``lost_rows``, and ``remaining``, the damage that a
    repair leaves; ``to_json()`` gives it as plain data.

    Raises
    ------
    InvalidInputError
        If the address names a version.
    DatasetNotFoundError
        If there is no dataset, nor the rest of one.
    LockedException
        If another process writes it.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://repaired")
    >>> lakebed.repair("mem://repaired").is_needed
    False
    """
    from lakebed.maintenance.repair import repair as mend

    location = place_of(path, kept(creds))
    if location.ref is not None:
        raise InvalidInputError(f"a repair is of the whole dataset: leave out @{location.ref}")
    return mend(open_storage(location), apply=apply)


def ls(path: Path = ".", creds: Creds | None = None) -> list[dict[str, Any]]:
    """List the datasets at and below a folder, or a prefix of a bucket.

    Parameters
    ----------
    path
        Local path, or address of an object store; of ``mem://`` and web addresses only what is right there is known.
    creds
        Credentials of an object store, as for :func:`load`.

    Returns
    -------
    For each dataset, and for each of its branches that a sync fills, a dictionary: ``path`` below the given one,
    ``branch``, ``stream`` (``namespace``, ``stream`` and ``mode`` at the source of a sync, or None), ``rows``,
    ``tensors``, the number of ``branches`` and ``branch_names``, the last ``commit`` with ``time`` and ``message``, and
    ``error``: why it cannot be opened, or None. Of a dataset whose main branch is empty, it tells the branch that was
    committed to last.

    Raises
    ------
    InvalidInputError
        If a local path is no folder.
    DatasetHandlerError
        If there is no dataset at a ``mem://`` or web address.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://listed")
    >>> [entry["branch"] for entry in lakebed.ls("mem://listed")]
    ['main']
    """
    from lakebed.dataset.listing import datasets

    location = place_of(path, kept(creds))
    return list(datasets(location, location.shown if isinstance(path, Location) else os.fspath(path)))


def connect(
    src_path: Path,
    creds_key: str,
    dest_path: str | None = None,
    org_id: str | None = None,
    ds_name: str | None = None,
    token: str | None = None,
) -> Dataset:
    """Open a dataset with credentials that go by a name; see ``Dataset.connect``.

    Parameters
    ----------
    src_path
        Address of the dataset in an object store.
    creds_key
        Name that a provider knows: ``lakebed creds set NAME`` stores it.
    dest_path, org_id, ds_name, token
        As for ``Dataset.connect``.

    Returns
    -------
    The dataset.

    Raises
    ------
    ValueError
        If an address in a service is given, or the dataset lies where no credentials are needed.
    DatasetHandlerError
        If there is no dataset.
    ManagedCredentialsNotFoundError
        If no provider knows the name.
    """
    ds = load(src_path, creds={NAMED: creds_key})
    ds.connect(creds_key, dest_path, org_id, ds_name, token)
    return ds


def rename(path: Path, new_name: Path, **options: Any) -> NoReturn:
    """Refuse: only the vendor's service gives datasets names; see ``Dataset.rename``.

    Parameters
    ----------
    path
        Address of the dataset.
    new_name
        The name that it would get.
    options
        Further arguments of the 3.x call that have no meaning here (``token``, ``org_id``, ``verbose``, ...).

    Raises
    ------
    RenameError
        Always.
    """
    check_options(options)
    load(path, read_only=True).rename(new_name)


def opened(src: Dataset | Path, creds: Creds | None) -> Dataset:
    """Return a dataset, opened if it is an address."""
    return src if isinstance(src, Dataset) else load(src, creds=creds)


def place_of(
    path: Path, creds: Creds | None, local_cache_size: int = 0, *, existing: bool = False
) -> Location:
    """Return a parsed address with what it takes to get there."""
    return parse(path, existing=existing, creds=creds, local_cache_bytes=local_cache_size * 1_000_000)


def _bytes(megabytes: int | None) -> int | None:
    return None if megabytes is None else megabytes * 1_000_000


_IGNORED = frozenset(
    """access_method check_integrity index_params indra lock_enabled lock_timeout num_workers org_id public reset
    runtime scheduler token unlink verbose""".split()
)


def check_options(options: dict[str, Any]) -> None:
    """Refuse arguments of 3.x calls that ask for what is not done here."""
    method = options.get("access_method", "stream")
    if not isinstance(method, str) or method.partition(":")[0] not in ("stream", "download", "local"):
        raise InvalidInputError(f"access_method is 'stream', 'download' or 'local', not {method!r}")
    unknown = options.keys() - _IGNORED
    if unknown:
        raise UnsupportedParameterException(f"unexpected argument {min(unknown)!r}")
