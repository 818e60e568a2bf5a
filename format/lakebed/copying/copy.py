"""Datasets made from others: their structure, their present content, or everything with history."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakebed.copying.copy_version import copy_version, counterparts
from lakebed.copying.deepcopy import replicate
from lakebed.documents.version_tree import new_id
from lakebed.errors import DatasetExistsError, TensorDoesNotExistError
from lakebed.reading.samples import SampleReader
from lakebed.session import credentials
from lakebed.session.copy_journal import FOLDER, Origin, unfinished
from lakebed.session.copy_samples import Source, columns
from lakebed.session.handle import Handle
from lakebed.session.inputs import progress
from lakebed.session.places import Path, make, remove, vacate, whole
from lakebed.session.schema import add_planned, blank
from lakebed.session.session import Session
from lakebed.storage.base import CachingStorage, Storage
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.url import open_storage
from lakebed.versions.create import create
from lakebed.versions.opening import TREE_KEY
from lakebed.versions.state import Snapshot
from lakebed.writing.names import companion, companion_key, normalize
from lakebed.writing.structure import is_inside

if TYPE_CHECKING:
    from lakebed.reading.index import Index


def chosen(schema: Snapshot, group: str, tensors: Sequence[str] | None) -> dict[str, str]:
    """Return {name in the group: full name} of the tensors to copy; a group's name stands for all inside.

    Raises
    ------
    TensorDoesNotExistError
        If there is neither a tensor nor a group of a name.
    """
    prefix = f"{group}/" if group else ""
    inside = {name[len(prefix) :]: name for name in schema.names() if name.startswith(prefix)}
    if tensors is None:
        return inside
    wanted = [normalize(name) for name in tensors]
    for name in wanted:
        if not any(is_inside(short, name) for short in inside) and prefix + name not in schema.meta.groups:
            raise TensorDoesNotExistError.among(name, inside)
    return {short: full for short, full in inside.items() if any(is_inside(short, name) for name in wanted)}


def copy_structure(schema: Snapshot, names: Mapping[str, str], target: Session) -> None:
    """Create tensors without samples in an empty dataset, with the settings and info of others.

    Parameters
    ----------
    names
        New name -> name in ``schema``.
    """
    with target.mutex, target.writing() as draft:
        draft.set_info(dict(schema.info))
        for new, old in names.items():
            add_planned(target, new, blank(schema, old, new))


def copy_samples(
    source: Session, names: Mapping[str, str], index: Index, target: Session, *, progressbar: bool
) -> None:
    """Append the selected rows of tensors to those that :func:`copy_structure` has made, as they are stored."""
    for new, old in progress(names.items(), shown=progressbar):
        key = source.schema().tensor(old).key
        reader = source.reader(key, old)
        rows = index.rows(reader.state.length)
        origin = Source(reader, companions(source, old))
        with target.mutex, target.writing() as draft:
            state = target.schema().tensor(new)
            for column in columns(origin, rows, state):
                draft.extend({state.key: column})


def refuse_same_place(source: Session, dest: Path) -> None:
    """Refuse to make way for a copy by removing what is to be copied.

    Raises
    ------
    DatasetHandlerError
        If the destination is where the source is.
    """
    if is_same_place(source, dest):
        raise DatasetExistsError(
            f"{source.storage.url} can not be copied onto itself; choose another destination"
        )


def is_same_place(source: Session, dest: Path) -> bool:
    """Tell whether an address leads to where a dataset lies."""
    here, there = origin_of(source.storage), open_storage(dest)
    return here.url == there.url or (type(here) is type(there) and _is_seen(here, there))


def empty_in_place(session: Session, names: Mapping[str, str]) -> None:
    """Remove all samples of tensors; settings, info and history stay."""
    with session.mutex, session.writing() as draft:
        schema = session.schema()
        for name in names.values():
            draft.clear(schema.tensor(name).key)
    session.flush()


def _is_seen(here: Storage, there: Storage) -> bool:
    """Tell whether two storages are one place under two names: what is put into one is seen in the other."""
    if os.path.isabs(here.url):  # noqa: PTH117
        return os.path.exists(there.url) and os.path.samefile(here.url, there.url)  # noqa: PTH110, PTH121
    if not isinstance(here, ObjectStorage) or here.url.partition(":")[0] != there.url.partition(":")[0]:
        return False
    key = f"{FOLDER}probe-{uuid.uuid4().hex}"
    there.put(key, b"is this the same place?")
    try:
        return here.stat(key) is not None
    finally:
        there.delete(key)


def copied(
    source: Session,
    names: Mapping[str, str],
    index: Index | None,
    dest: Path,
    *,
    overwrite: bool,
    progressbar: bool = False,
) -> Handle:
    """Make a dataset from tensors of another.

    Parameters
    ----------
    names
        New name -> name in the source.
    index
        Rows to copy; None copies no samples.

    Raises
    ------
    DatasetHandlerError
        If there is a dataset at ``dest`` and ``overwrite`` is false, or ``dest`` is where the source is.
    """
    refuse_same_place(source, dest)
    if index is not None and index.is_trivial and not source.has_unpublished:
        handle = _flat(source, names, dest, overwrite=overwrite, progressbar=progressbar)
        if handle is not None:
            return handle
    handle = make(dest, overwrite=overwrite)
    target = handle.session
    try:
        target.hold()
        copy_structure(source.schema(), names, target)
        if source.storage.stat(credentials.KEY) is not None:
            target.storage.put(credentials.KEY, source.storage.get(credentials.KEY))
        if index is not None:
            copy_samples(source, names, index, target, progressbar=progressbar)
        target.release()
    except BaseException:
        target.discard()
        remove(target.storage)
        raise
    return handle


def _flat(
    source: Session, names: Mapping[str, str], dest: Path, *, overwrite: bool, progressbar: bool
) -> Handle | None:
    """Copy whole tensors chunk by chunk; return None if that is not possible, and nothing was done."""
    schema = source.schema()
    planned = _planned(schema, names)
    parts = counterparts(schema, planned, names)
    if parts is None:
        return None
    origin, location = origin_of(source.storage), whole(dest)
    target = open_storage(location)
    goal = Origin.of(origin, [f"{new}={old}" for new, old in names.items()], new_id())
    begun = unfinished(target)
    if begun == goal and target.stat(TREE_KEY) is None:
        goal = begun
    else:
        target, location = vacate(location, overwrite=overwrite)
    documents = {}
    if origin.stat(credentials.KEY) is not None:
        documents[credentials.KEY] = origin.get(credentials.KEY)
    copy_version(origin, target, goal, planned, parts, documents, progressbar=progressbar)
    return Handle(Session(target), location.shown)


def _planned(schema: Snapshot, names: Mapping[str, str]) -> Snapshot:
    """Return a dataset of some tensors without their samples, which exists nowhere."""
    storage = MemoryStorage()
    create(storage)
    session = Session(storage)
    copy_structure(schema, names, session)
    session.close()
    return session.snapshot


def companions(session: Session, name: str) -> Callable[[str], SampleReader | None]:
    """Return what finds the hidden companions of a tensor by kind: ``id``, ``shape``, ``info``, ``null``."""

    def find(kind: str) -> SampleReader | None:
        key = companion_key(session.schema().meta, name, kind)
        return None if key is None else session.reader(key, companion(name, kind))

    return find


def copy_everything(
    source: Session, dest: Path, tensors: Sequence[str] | None, *, overwrite: bool, progressbar: bool
) -> Handle:
    """Copy a whole dataset, history and all; go on where an earlier attempt to do the same was cut off.

    Parameters
    ----------
    tensors
        Names of the tensors or groups to keep; None keeps all.

    Raises
    ------
    DatasetHandlerError
        If there is something else at ``dest``, and ``overwrite`` is false; or ``dest`` is where the source is.
    ChecksumError
        If the source is damaged.
    """
    refuse_same_place(source, dest)
    origin = origin_of(source.storage)
    location = whole(dest)
    target = open_storage(location)
    if unfinished(target) != Origin.of(origin, tensors):
        target, location = vacate(location, overwrite=overwrite)
    replicate(origin, target, tensors, progressbar=progressbar)
    return Handle(Session(target), location.shown)


def origin_of(storage: Storage) -> Storage:
    """Return the storage without a cache before it: what is read once need not be kept."""
    return storage.origin if isinstance(storage, CachingStorage) else storage
