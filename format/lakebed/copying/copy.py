"""Datasets made from others: their structure, their present content, or everything with history."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from functools import partial

from lakebed.copying.copy_version import copy_version, counterparts
from lakebed.copying.deepcopy import deepcopy
from lakebed.documents.version_tree import new_id
from lakebed.errors import DatasetExistsError, TensorDoesNotExistError
from lakebed.runtime.failures import OnFailure
from lakebed.session import credentials
from lakebed.session.changes.copy_samples import Source, columns
from lakebed.session.changes.inputs import progress
from lakebed.session.copy_journal import FOLDER, Origin, unfinished
from lakebed.session.handle import Handle
from lakebed.session.places import Path, make, remove, vacate, whole
from lakebed.session.schema import add_planned, blank
from lakebed.session.session import Session
from lakebed.session.table import Table
from lakebed.storage.base import Storage, is_bucket, traits_of, without_cache
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.url import open_storage
from lakebed.versions.create import create
from lakebed.versions.opening import TREE_KEY
from lakebed.versions.state import Snapshot
from lakebed.writing.names import normalize
from lakebed.writing.structure import is_inside


def chosen(schema: Snapshot, group: str, tensors: Sequence[str] | None) -> dict[str, str]:
    """Return {name in the group: full name} of the tensors to copy; a group's name means all its tensors.

    Raises
    ------
    TensorDoesNotExistError
        If a name is neither a tensor nor a group.
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


def copy_structure(table: Table, target: Session) -> None:
    """Create the tensors of a table in an empty dataset, without samples, with their settings and info."""
    schema = table.session.schema()
    with target.mutex, target.writing() as draft:
        draft.schema.set_info(dict(schema.info))
        for new, old in table.names.items():
            add_planned(target, new, blank(schema, old, new))


def copy_samples(table: Table, target: Session, *, progressbar: bool) -> None:
    """Append the stored rows of a table to the tensors that :func:`copy_structure` has created."""
    for new in progress(table.names, shown=progressbar):
        rows = table.rows_of(new)
        origin = Source(table.reader(new), partial(table.companion, new), table.pad)
        with target.mutex, target.writing() as draft:
            state = target.schema().tensor(new)
            for column in columns(origin, rows, state):
                draft.rows.extend({state.key: column})


def refuse_same_place(source: Session, dest: Path) -> None:
    """Refuse to overwrite the source with its own copy.

    Raises
    ------
    DatasetHandlerError
        If the destination is the place of the source.
    """
    if is_same_place(source, dest):
        raise DatasetExistsError(
            f"{source.storage.url} can not be copied onto itself; choose another destination"
        )


def is_same_place(source: Session, dest: Path) -> bool:
    """Tell whether an address is the place of a dataset."""
    here, there = without_cache(source.storage), open_storage(dest)
    return here.url == there.url or (type(here) is type(there) and _is_seen(here, there))


def empty_in_place(table: Table) -> None:
    """Remove all samples of tensors; keep settings, info and history."""
    with table.session.mutex, table.session.writing() as draft:
        for state in table.states().values():
            draft.rows.clear(state.key)
    table.session.flush()


def _is_seen(here: Storage, there: Storage) -> bool:
    """Tell whether two addresses are one place: an object put through one of them appears through the other."""
    ours, theirs = traits_of(here).folder, traits_of(there).folder
    if ours:
        return os.path.exists(theirs) and os.path.samefile(ours, theirs)  # noqa: PTH110, PTH121
    if not is_bucket(here) or here.url.partition(":")[0] != there.url.partition(":")[0]:
        return False
    key = f"{FOLDER}probe-{uuid.uuid4().hex}"
    there.put(key, b"is this the same place?")
    try:
        return here.stat(key) is not None
    finally:
        there.delete(key)


def copy_table(
    table: Table, dest: Path, *, overwrite: bool, samples: bool = True, progressbar: bool = False
) -> Handle:
    """Create a dataset from a table of another.

    Parameters
    ----------
    samples
        Copy the rows; otherwise the tensors stay empty.

    Raises
    ------
    DatasetHandlerError
        If a dataset exists at ``dest`` and ``overwrite`` is false, or ``dest`` is the place of the source.
    """
    source = table.session
    refuse_same_place(source, dest)
    if samples and table.index.is_trivial and not source.has_unpublished:
        handle = _copy_files(table, dest, overwrite=overwrite, progressbar=progressbar)
        if handle is not None:
            return handle
    handle = make(dest, overwrite=overwrite)
    target = handle.session
    with OnFailure(remove, target.storage), OnFailure(target.discard):
        target.hold()
        copy_structure(table, target)
        if source.storage.stat(credentials.KEY) is not None:
            target.storage.put(credentials.KEY, source.storage.get(credentials.KEY))
        if samples:
            copy_samples(table, target, progressbar=progressbar)
        target.release()
    return handle


def _copy_files(table: Table, dest: Path, *, overwrite: bool, progressbar: bool) -> Handle | None:
    """Copy whole tensors chunk by chunk; return None, without having written anything, if that is impossible."""
    source, names = table.session, table.names
    with source.mutex:
        planned = _planned(table)
        parts = counterparts(source.schema(), planned, names)
    if parts is None:
        return None
    origin, location = without_cache(source.storage), whole(dest)
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


def _planned(table: Table) -> Snapshot:
    """Return the version of a dataset in memory that has the tensors of a table without their samples."""
    storage = MemoryStorage()
    create(storage)
    session = Session(storage)
    copy_structure(table, session)
    session.close()
    return session.snapshot


def copy_everything(
    source: Session,
    dest: Path,
    tensors: Sequence[str] | None,
    *,
    overwrite: bool,
    deeplake3: bool,
    progressbar: bool,
) -> Handle:
    """Copy a whole dataset with its history; continue an earlier attempt that was interrupted.

    Parameters
    ----------
    tensors
        Names of the tensors or groups to keep; None keeps all.
    deeplake3
        Write the chunk index of tensors of any size as Deep Lake 3.9.52 reads it.

    Raises
    ------
    DatasetHandlerError
        If something else exists at ``dest``, and ``overwrite`` is false; or ``dest`` is the place of the source.
    ChecksumError
        If the source is damaged.
    """
    refuse_same_place(source, dest)
    origin = without_cache(source.storage)
    location = whole(dest)
    target = open_storage(location)
    if unfinished(target) != Origin.of(origin, tensors):
        target, location = vacate(location, overwrite=overwrite)
    deepcopy(origin, target, tensors, deeplake3=deeplake3, progressbar=progressbar)
    return Handle(Session(target), location.shown)
