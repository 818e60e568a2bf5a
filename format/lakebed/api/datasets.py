"""Module-level functions of the 3.x API: create, open, list, check and remove datasets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from lakebed.dataset.dataset import Dataset
from lakebed.dataset.open import open_at
from lakebed.errors import InvalidInputError, UnsupportedParameterException
from lakebed.session import places
from lakebed.session.places import Path
from lakebed.session.row_classes import tensors_of
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
    *,
    schema: type | None = None,
    **options: Any,
) -> Dataset:
    """Create a dataset without rows; it has tensors only if ``schema`` names them.

    Parameters
    ----------
    path
        Local path, ``file://``, ``mem://name``, ``s3://``, ``gs://`` or ``az://``.
    overwrite
        Remove an existing dataset with all its versions and files first. A call that was killed can be repeated.
    memory_cache_size
        Bound of the chunk cache in MB.
    local_cache_size
        Bound in MB of the disk cache for chunks of an object store, which all processes share; 0 for none.
    creds
        Credentials of the object store, by the keys of Deep Lake 3.x (``aws_access_key_id``, ``endpoint_url``, ...);
        None uses the credentials of the environment.
    schema
        Dataclass or model of Pydantic whose fields are the tensors; ``ds.append`` and ``ds.extend`` take its instances.
    options
        Other arguments of the 3.x call, which have no effect (``token``, ``org_id``, ``verbose``, ...).

    Returns
    -------
    The new dataset.

    Raises
    ------
    DatasetHandlerError
        If a dataset exists, and ``overwrite`` is false or the dataset forbids its deletion.
    PathNotEmptyException
        If the folder holds other files.
    InvalidInputError
        If the type of a field of the schema determines no tensor.
    """
    creds = kept(creds)
    check_options(options)
    tensors = {} if schema is None else tensors_of(schema)
    place = place_of(path, creds, local_cache_size)
    made = Dataset(places.make(place, overwrite=overwrite, cache_bytes=_bytes(memory_cache_size)))
    for name, settings in tensors.items():
        info = settings.pop("info", {})
        made.create_tensor(name, **settings).info.update(info)
    return made


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
        True refuses changes. False checks at once that changes are possible. None allows them, too, and takes the
        writer's lock at the first change. If another process is writing the branch, a LockedWarning names it, and
        changes raise LockedException until it is done; the dataset never becomes read-only automatically.
    memory_cache_size
        Bound of the chunk cache in MB; None takes that of ``lakebed.config``.
    lock_timeout
        Seconds to wait for another writer, here and at every change.
    as_of
        Open the commit that was the newest of the branch at this time: a ``datetime`` with a time zone, POSIX seconds,
        or ISO text such as ``"2026-11-21 09:30"``. Text without a zone is UTC, as in the log, and means the end of the
        day, minute or second that it names; a ``datetime`` without a zone is refused, because it may come from
        ``now()`` or ``utcnow()``. A writer continues in a new branch, as on any old commit.
    reset
        If the version cannot be opened, or its lengths contradict each other, repair the dataset first, as
        ``lakebed repair --apply`` does: all data that can be decoded is kept. Deep Lake 3.x would drop changes since
        the last commit.
    check_integrity
        True compares all metadata of the version first, as ``lakebed verify`` does. None and False check only the
        metadata that opening needs; changes are refused anyway if lengths contradict each other.
    local_cache_size
        Bound in MB of the disk cache for chunks of an object store, which all processes share; 0 for none.
    creds
        Credentials of the object store, by the keys of Deep Lake 3.x (``aws_access_key_id``, ``endpoint_url``, ...);
        None uses the credentials of the environment.
    options
        Other arguments of the 3.x call, which have no effect (``token``, ``org_id``, ``verbose``, ...).

    Returns
    -------
    The dataset, at the head of its main branch if the address names no version; or the view that is saved at this
    address.

    Raises
    ------
    DatasetHandlerError
        If no dataset exists.
    LockedException
        If ``read_only`` is False and another process is writing the branch; the message names it.
    CheckoutError
        If the version does not exist, or the branch had no commit at that time.
    InvalidInputError
        If ``as_of`` is not a time.
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
    *,
    schema: type | None = None,
    **options: Any,
) -> Dataset:
    """Open the dataset at an address, or create it if none exists; see :func:`load` and :func:`empty`.

    Parameters
    ----------
    path
        Address of the dataset.
    read_only
        As for :func:`load`.
    overwrite
        Remove an existing dataset, and create one.
    memory_cache_size
        Bound of the chunk cache in MB; None takes that of ``lakebed.config``.
    reset
        As for :func:`load`.
    check_integrity
        As for :func:`load`.
    local_cache_size
        Bound in MB of the disk cache for chunks of an object store; 0 for none.
    creds
        Credentials of the object store; None uses the credentials of the environment.
    schema
        Class of the rows of a new dataset, as for :func:`empty`; an existing dataset is not changed.
    options
        Other arguments of the 3.x call, which have no effect (``token``, ``org_id``, ``verbose``, ...).

    Returns
    -------
    The dataset.
    """
    creds = kept(creds)
    place = place_of(path, creds, local_cache_size, existing=True)
    if overwrite or not _is_there(place):
        return empty(
            place, overwrite=overwrite, memory_cache_size=memory_cache_size, schema=schema, **options
        )
    return load(
        place,
        read_only=read_only,
        memory_cache_size=memory_cache_size,
        reset=reset,
        check_integrity=check_integrity,
        **options,
    )


def exists(path: Path, creds: Creds | None = None, **options: Any) -> bool:
    """Return whether a dataset exists at an address.

    Parameters
    ----------
    path
        Address without a version.
    creds
        Credentials of the object store; None uses the credentials of the environment.
    options
        Other arguments of the 3.x call, which have no effect (``token``, ``org_id``, ``verbose``, ...).

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
        Also remove files that do not open as a dataset.
    large_ok
        Also remove datasets of more than 1 GB.
    creds
        Credentials of the object store; None uses the credentials of the environment.
    options
        Other arguments of the 3.x call, which have no effect (``token``, ``org_id``, ``verbose``, ...).

    Raises
    ------
    DatasetHandlerError
        If no dataset exists, or the dataset forbids its deletion.
    DatasetTooLargeToDelete
        If the dataset has more than 1 GB and ``large_ok`` is false.
    """
    creds = kept(creds)
    check_options(options)
    places.discard(place_of(path, creds), force=force, large_ok=large_ok)


def gc(
    path: Path, *, grace: float | None = None, dry_run: bool = False, creds: Creds | None = None
) -> Report:
    """Remove files that no branch, tag, commit, saved view or reader of a dataset needs.

    Writers and readers may continue meanwhile. Writers remove most such files automatically; this call also finds the
    remains of crashes.

    Parameters
    ----------
    path
        Address of the dataset.
    grace
        Seconds for which files are kept after their last use, for readers that cannot be detected; None is the rule of
        writers: ``lakebed.config.GRACE_SECONDS``, or ``KEEP_HEADS`` newer versions if all readers are known.
    dry_run
        Remove nothing, only report.
    creds
        Credentials of the object store; None uses the credentials of the environment.

    Returns
    -------
    Report on the files that were removed (or would be removed, with ``dry_run``) and the files that are kept.

    Raises
    ------
    DatasetNotFoundError
        If no dataset exists.
    DatasetCorruptError
        If its history is damaged; nothing is removed then.

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
    """Read a dataset, or a single version, and report damage.

    Without checksums, as in datasets that Deep Lake 3.x wrote last, damage inside raw arrays cannot be detected.

    Parameters
    ----------
    path
        Address of the dataset; with a branch or version at its end, as in ``path@main``, only that version is checked.
    deep
        Also decode every sample. Links are not followed.
    creds
        Credentials of an object store, as for :func:`load`.

    Returns
    -------
    Findings: ``is_sound``, the lists ``damage`` and ``notes``, and counts of what was read; ``to_json()`` returns plain
    data.

    Raises
    ------
    DatasetNotFoundError
        If no dataset exists.
    CheckoutError
        If the version does not exist.
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
    """Repair a dataset after a crash of Deep Lake 3.x or damage, or only report the steps.

    Damaged heads are replaced by sound ones; everything that can be decoded is kept.

    Parameters
    ----------
    path
        Address of the whole dataset.
    apply
        Make the repairs; if false, nothing is written.
    creds
        Credentials of an object store, as for :func:`load`.

    Returns
    -------
    Report: ``is_needed``, the list ``steps``, ``lost_rows``, and ``remaining``, the damage that cannot be repaired;
    ``to_json()`` returns plain data.

    Raises
    ------
    InvalidInputError
        If the address names a version.
    DatasetNotFoundError
        If neither a dataset nor remains of one exist.
    LockedException
        If another process is writing the dataset.

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
        raise InvalidInputError(f"repair works on whole datasets: leave out @{location.ref}")
    return mend(open_storage(location), apply=apply)


def ls(path: Path = ".", creds: Creds | None = None) -> list[dict[str, Any]]:
    """List the datasets at and below a folder, or a prefix of a bucket.

    Parameters
    ----------
    path
        Local path, or address of an object store; for ``mem://`` and web addresses, only the dataset at exactly this
        address can be listed.
    creds
        Credentials of an object store, as for :func:`load`.

    Returns
    -------
    A dictionary for each dataset, and for each of its branches that a sync fills: ``path`` below the given one,
    ``branch``, ``stream`` (``namespace``, ``stream`` and ``mode`` at the source of a sync, or None), ``rows``,
    ``tensors``, the number of ``branches`` and ``branch_names``, the last ``commit`` with ``time`` and ``message``, and
    ``error``: the reason why the dataset cannot be opened, or None. If the main branch is empty, the entry describes
    the branch with the newest commit.

    Raises
    ------
    InvalidInputError
        If a local path is not a folder.
    DatasetHandlerError
        If no dataset exists at a ``mem://`` or web address.

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
    """Open a dataset with named credentials; see ``Dataset.connect``.

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
        If ``dest_path`` is given, or the dataset needs no credentials.
    DatasetHandlerError
        If no dataset exists.
    ManagedCredentialsNotFoundError
        If no provider knows the name.
    """
    ds = load(src_path, creds={NAMED: creds_key})
    ds.connect(creds_key, dest_path, org_id, ds_name, token)
    return ds


def rename(path: Path, new_name: Path, **options: Any) -> NoReturn:
    """Raise an error, because datasets have names only in the vendor's service; see ``Dataset.rename``.

    Parameters
    ----------
    path
        Address of the dataset.
    new_name
        The new name.
    options
        Other arguments of the 3.x call, which have no effect (``token``, ``org_id``, ``verbose``, ...).

    Raises
    ------
    RenameError
        Always.
    """
    check_options(options)
    load(path, read_only=True).rename(new_name)


def opened(src: Dataset | Path, creds: Creds | None) -> Dataset:
    """Return a dataset; if ``src`` is an address, open the dataset there."""
    return src if isinstance(src, Dataset) else load(src, creds=creds)


def place_of(
    path: Path, creds: Creds | None, local_cache_size: int = 0, *, existing: bool = False
) -> Location:
    """Parse an address, and attach credentials and cache size to it."""
    return parse(path, existing=existing, creds=creds, local_cache_bytes=local_cache_size * 1_000_000)


def _bytes(megabytes: int | None) -> int | None:
    return None if megabytes is None else megabytes * 1_000_000


_IGNORED = frozenset(
    """access_method check_integrity index_params indra lock_enabled lock_timeout num_workers org_id public reset
    runtime scheduler token unlink verbose""".split()
)


def check_options(options: dict[str, Any]) -> None:
    """Refuse unknown arguments of 3.x calls, and access methods that do not exist."""
    method = options.get("access_method", "stream")
    if not isinstance(method, str) or method.partition(":")[0] not in ("stream", "download", "local"):
        raise InvalidInputError(f"access_method is 'stream', 'download' or 'local', not {method!r}")
    unknown = options.keys() - _IGNORED
    if unknown:
        from difflib import get_close_matches

        words = ", ".join(
            map(repr, get_close_matches(min(unknown), ("read_only", "overwrite", "creds", *_IGNORED), 1))
        )
        hint = f"; did you mean {words}?" if words else ""
        raise UnsupportedParameterException(f"unexpected argument {min(unknown)!r}{hint}")
