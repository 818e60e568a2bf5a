"""Parts: rows that other threads, processes or machines encode and write, and that one writer adopts and publishes.

A part is a small version of the dataset outside of the version tree. Its chunk files are in a folder of the writer; its
metadata (ids, sizes, checksums, extents, class names, nulls, hidden tensors) is sent to the writer pickled. The writer
refers to the chunk files without copying them, and reads samples only if class numbers differ. Chunks that are too
small for files are sent with the part, and are packed with small chunks of other parts. Chunks of parts that are never
adopted are garbage, which is collected after the end of the writer.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.traits import is_plain
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.errors import InvalidOperationError, StorageError, TensorDoesNotExistError
from lakebed.reading.fetch import ChunkSource
from lakebed.runtime.failures import OnFailure
from lakebed.session.changes.append import columns_of, extend_draft
from lakebed.session.credentials import LinkCredentials
from lakebed.session.incoming import SMALL, Incoming, merged_names
from lakebed.session.process.pickling import Place
from lakebed.session.session import Session
from lakebed.session.table import Table
from lakebed.storage.base import Storage, traits_of
from lakebed.versions.chunk_table import folder_of
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing.draft.draft import Draft
from lakebed.writing.draft.rows import Identities
from lakebed.writing.draft.tensor import emptied
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.links import Linking
from lakebed.writing.replace_samples import Allocate, fresh
from lakebed.writing.tensor_chunks import Files

_log = logging.getLogger(__name__)

_CLASSES = "class_names"

# Rows of a part that are added in one step, at least: their numbers take some 20 bytes each.
_ROWS = 1 << 20

# Settings that two tensors must share; otherwise samples of one cannot become samples of the other.
_SETTINGS = ("htype", "dtype", "sample_compression", "chunk_compression", "is_sequence", "is_link")


@dataclass(frozen=True, slots=True)
class Part:
    """Rows whose chunks are in the storage, but in no version yet.

    Parameters
    ----------
    folder
        Id of the folder with the part's chunks.
    meta
        Names of the tensors, hidden ones included.
    tensors
        Content of each tensor by key; a tensor to which the part adds no rows has no samples.
    learned
        Changes of infos by tensor key: entry -> (value when the part was begun, value now).
    carried
        Chunks that are too small for files, by storage key; only the part holds them.
    """

    folder: str
    meta: DatasetMeta
    tensors: Mapping[str, TensorState]
    learned: Mapping[str, Mapping[str, tuple[Any, Any]]]
    carried: Mapping[str, bytes]

    def extended(self) -> list[str]:
        """Return the names of the visible tensors to which the part adds rows."""
        theirs = Snapshot(self.folder, self.meta, {}, self.tensors)
        return [name for name in theirs.names() if theirs.tensor(name).length]

    def length(self, name: str) -> int:
        """Return the number of rows that the part adds to a tensor, by the tensor's full name."""
        return self.tensors[self.meta.tensor_names.get(name, name)].length


@dataclass(frozen=True, slots=True, eq=False)
class PartTarget:
    """Target for writers of parts: the tensors of the rows, and the folder for their chunks.

    Parameters
    ----------
    base
        The dataset's tensors without their samples.
    names
        Columns: name of the column -> full name of the tensor.
    """

    storage: Storage
    credentials: LinkCredentials
    base: Snapshot
    names: Mapping[str, str]

    def settled(self, part: Part) -> PartTarget:
        """Return the target with the dtypes and htypes of a part, for tensors that had none.

        Later parts then use the same types: after a part with ``1.5``, the value ``2`` becomes a float.
        """
        tensors = dict(self.base.tensors)
        for key, state in tensors.items():
            found = part.tensors.get(key, state)
            if found.length and state.meta.dtype is None and found.meta.dtype is not None:
                meta = state.meta.with_(dtype=found.meta.dtype, htype=found.meta.htype)
                tensors[key] = replace(state, meta=meta)
        return replace(self, base=replace(self.base, tensors=tensors))

    @property
    def open_tensors(self) -> int:
        """Number of tensors without a dtype."""
        states = (self.base.find(full) for full in self.names.values())
        return sum(state is not None and state.meta.dtype is None for state in states)

    def __reduce__(self) -> tuple[Any, ...]:
        return _target, (Place.of(self.storage, self.credentials), self.base, dict(self.names))


def _target(place: Place, base: Snapshot, names: Mapping[str, str]) -> PartTarget:
    storage, credentials = place.open()
    if traits_of(storage).folder and storage.stat(_marker(base.version_id)) is None:
        raise InvalidOperationError(
            f"the folder {storage.url} on {socket.gethostname()} is not the one that the writer has open: the machines "
            "do not share the disk, or the writer has ended. Write to a path that all of them share, or to an object "
            "store"
        )
    return PartTarget(storage, credentials, base, names)


def _marker(folder: str) -> str:
    """Return the key of a file that other machines read to check that they share the writer's disk."""
    return f"{folder_of(folder)}parts"


@contextmanager
def writing_parts(table: Table) -> Iterator[PartTarget]:
    """Hold the writer's lock while other threads or processes write parts for a table's columns; publish at the end.

    ``with writing_parts(table) as target``: pass the target to any number of `PartWriter` in this process or, pickled,
    in other processes, and their parts to :func:`adopt`. Unpublished changes of the dataset are published first.

    Raises
    ------
    ReadOnlyModeError
        If the dataset was opened read-only.
    LockedException
        If another writer holds the branch.
    """
    session = table.session
    with session.mutex:
        session.acquire_lock()
        session.hold()
    folder, has_marker = "", False
    try:
        session.flush()
        folder = session.open_part_folder()
        schema = session.schema()
        tensors = {key: _without_samples(state) for key, state in schema.tensors.items()}
        base = Snapshot(folder, schema.meta, {}, tensors)
        if traits_of(session.storage).folder:
            session.storage.put(_marker(folder), b"")
            has_marker = True
        yield PartTarget(session.storage, session.credentials, base, table.names)
    finally:
        if has_marker:
            with suppress(StorageError):  # a file that remains is garbage, as is its folder
                session.storage.delete(_marker(folder))
        session.close_part_folder(folder)
        session.release()


def _without_samples(state: TensorState) -> TensorState:
    """Return the state of a tensor without its samples: settings, info and extents."""
    return emptied(state).with_(meta=state.meta.with_(length=0), diff=None)


@dataclass(frozen=True, slots=True)
class Savepoint:
    """State to which a writer of parts can return: its draft, and the fork with the rows added to the draft."""

    before: Draft
    after: Draft


class PartWriter:
    """Encodes rows and writes their chunks; a ``with`` block removes the chunks of an unfinished part.

    Each thread needs its own writer.

    Parameters
    ----------
    allocate
        Returns memory for the content of files that are read, and for chunks that are rewritten.
    """

    def __init__(self, target: PartTarget, allocate: Allocate = fresh) -> None:
        self._target = target
        self._allocate = allocate
        self._linking = Linking(target.credentials)
        self._draft = self._new_draft()
        self._work: Draft | None = None  # the fork of the draft to which rows are being added

    def _new_draft(self) -> Draft:
        base = self._target.base
        return Draft(base, base.version_id, self._target.storage, self._read, allocate=self._allocate)

    def extend(self, columns: Mapping[str, Any]) -> None:
        """Add rows given as columns: {column: ndarray, list or Arrow array}, all or nothing.

        Raises
        ------
        TensorDoesNotExistError
            If the target lacks a column.
        ValueError
            If the columns differ in length.
        SampleExtendError
            If a sample does not fit.
        """
        keys = {}
        for name in columns:
            full = self._target.names.get(name)
            key = None if full is None else self._target.base.key_of(full)
            if key is None:
                raise TensorDoesNotExistError.among(name, self._target.names)
            keys[name] = key
        values = columns_of(columns)
        draft = self._work = self._draft.fork()
        try:
            with OnFailure(draft.tensors.give_up):
                extend_draft(draft, {keys[name]: column for name, column in values.items()}, self._linking)
        finally:
            self._work = None
        self._draft = draft

    def savepoint(self) -> Savepoint:
        """Return the writer's current state, for :meth:`back_to`."""
        before = self._draft
        self._draft = before.fork()
        return Savepoint(before, self._draft)

    def back_to(self, point: Savepoint) -> None:
        """Drop the rows that were added after a savepoint, and their chunks."""
        point.after.tensors.give_up()
        self._draft = point.before

    def finish(self) -> Part:
        """Make the chunks durable and return the part; the writer begins a new one."""
        draft, storage = self._draft, self._target.storage
        found = draft.snapshot()
        carried, written = _divided(draft)
        storage.put_many(written.items(), durable=True)
        storage.sync(draft.tensors.spilled)
        self._draft = self._new_draft()
        learned = {}
        for key, state in found.tensors.items():
            before = self._target.base.tensors[key].info if key in self._target.base.tensors else {}
            new = {k: (before.get(k), v) for k, v in state.info.items() if before.get(k) != v}
            if new:
                learned[key] = new
        tensors = {key: replace(state, diff=None) for key, state in found.tensors.items()}
        return Part(found.version_id, found.meta, tensors, learned, carried)

    def discard(self) -> None:
        """Drop the rows of the unfinished part, and remove their chunks."""
        gone, self._draft = self._draft.tensors.spilled, self._new_draft()
        for key in gone:
            try:
                self._target.storage.delete(key)
            except StorageError as error:
                _log.warning("chunk %s of a discarded part could not be deleted: %s", key, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def _read(self, state: TensorState, row: int) -> bytes | memoryview:
        key = state.table.key(row)
        draft = self._draft if self._work is None else self._work
        pieces = draft.tensors.new_chunks().get(key)
        return self._target.storage.get(key) if pieces is None else b"".join(pieces)


def written(
    target: PartTarget, batches: Iterable[Mapping[str, Any]], *, skip_ok: bool = False
) -> Part | None:
    """Write batches of columns as one part and return it; None if the batches have no rows.

    Parameters
    ----------
    batches
        ``{column: ndarray, list or Arrow array}``; an empty batch has no rows.
    skip_ok
        Columns may be left out.

    Raises
    ------
    KeyError
        If columns of the target are left out.
    TensorDoesNotExistError, ValueError, SampleExtendError
        As for :meth:`PartWriter.extend`.
    """
    is_empty = True
    with PartWriter(target) as writer:
        for columns in batches:
            if not columns:
                continue
            missing = [name for name in target.names if name not in columns]
            if missing and not skip_ok and columns.keys() <= target.names.keys():
                raise KeyError(
                    f"Required tensors not provided: {missing}. Pass `skip_ok=True` to skip tensors."
                )
            writer.extend(columns)
            is_empty = False
        return None if is_empty else writer.finish()


def _divided(draft: Draft) -> tuple[dict[str, bytes], Files]:
    """Divide a part's chunks into small ones, which the adopting writer copies, and chunks that become files."""
    carried: dict[str, bytes] = {}
    written: Files = {}
    for tensor in draft.tensors.seen.values():
        is_copied = is_plain(tensor.state.meta.chunk_compression) and not len(tensor.state.tiles)
        for key, pieces in tensor.new_chunks.items():
            if is_copied and sum(len(piece) for piece in pieces) <= SMALL:
                carried[key] = b"".join(pieces)
            else:
                written[key] = pieces
    return carried, written


# -- adopting ----------------------------------------------------------------------------------------------------


def adopt(session: Session, parts: Iterable[Part]) -> None:
    """Append the rows of parts in this order: all of them, or none.

    Raises
    ------
    InvalidOperationError
        If the dataset lacks a tensor of a part, or the tensor has other settings than the part.
    """
    found = list(parts)
    with session.mutex, session.writing() as draft:
        _adopt_all(session, draft, found)


def replace_by(session: Session, parts: Iterable[Part], *, one_each: bool = False) -> None:
    """Replace the rows of tensors by the rows of parts, in this order; tensors without rows in the parts are kept.

    Parameters
    ----------
    one_each
        True if each new row was computed from the row with the same number: a tensor whose number of rows is unchanged
        then counts as updated, and its rows keep their ids.

    Raises
    ------
    InvalidOperationError
        If the dataset lacks a tensor of a part, or the tensor has other settings than the part.
    """
    found = list(parts)
    with session.mutex, session.writing() as draft:
        before: dict[str, Identities] = {}
        for name in dict.fromkeys(name for part in found for name in part.extended()):
            key = session.schema().tensor(name).key
            info = dict(draft.tensors.seen[key].state.info)
            if one_each:
                before[key] = draft.rows.identities(key)
            draft.rows.clear(key)
            draft.schema.set_tensor_info(key, info)
        _adopt_all(session, draft, found)
        for key, known in before.items():
            if draft.tensors.seen[key].state.length == known.rows:
                draft.rows.replaced(key, known)


def _adopt_all(session: Session, draft: Draft, parts: Sequence[Part]) -> None:
    carried = {key: data for part in parts for key, data in part.carried.items()}
    source = ChunkSource(session.storage, 0, carried) if carried else session.source
    for part in parts:
        _adopt_one(draft, part, source)


def _adopt_one(draft: Draft, part: Part, source: ChunkSource) -> None:
    theirs = Snapshot(part.folder, part.meta, {}, part.tensors)
    incoming = Incoming(draft, theirs, source, is_whole=True)
    for name in theirs.names():
        state = theirs.tensor(name)
        if not state.length:
            continue
        key = draft.schema.meta.tensor_names.get(name, name)
        if key not in draft.tensors:
            raise InvalidOperationError(f"a part holds rows of tensor {name!r}, which no longer exists")
        mine = draft.tensors.seen[key].state
        rank = len(mine.meta.max_shape)
        if rank not in (0, len(state.meta.max_shape)) and incoming.held(state.key).null_marks().all():
            # All samples are null, and nulls fit any rank: write them again with the rank of the tensor.
            nothing = encode_column([None] * state.length, mine.meta, mine.info, name)
            draft.rows.extend({key: nothing})
            continue
        _check_fits(mine, state, name)
        meanings = _adopt_info(draft, key, part.learned.get(state.key, {}), state)
        for start, stop in pairwise(_steps(state)):
            incoming.append(key, state.key, np.arange(start, stop, dtype=np.int64), meanings)


def _steps(state: TensorState) -> list[int]:
    """Return where steps of about `_ROWS` rows begin, and the end: no step cuts a chunk, or a sequence."""
    ends = state.table.ids.last.astype(np.int64) + 1
    if state.sequence is not None or len(ends) == 0:
        return [0, state.length]
    wanted = ends.searchsorted(np.arange(_ROWS, state.length, _ROWS))
    return [int(end) for end in np.unique([0, *ends[wanted], state.length])]


def _check_fits(mine: TensorState, theirs: TensorState, name: str) -> None:
    for setting in _SETTINGS:
        here, there = getattr(mine.meta, setting), getattr(theirs.meta, setting)
        open_yet = setting in ("htype", "dtype") and None in (here, there)
        if here != there and not open_yet:
            raise InvalidOperationError(
                f"a part of tensor {name!r} has {setting} {there!r}, the tensor {here!r}: nothing of it was added"
            )
    here, there = len(mine.meta.max_shape), len(theirs.meta.max_shape)
    if here and there and here != there:
        raise InvalidOperationError(
            f"samples of a part of tensor {name!r} have {there} axes, those of the tensor {here}: nothing was added"
        )


def _adopt_info(
    draft: Draft, key: str, learned: Mapping[str, tuple[Any, Any]], theirs: TensorState
) -> NDArray[np.int64] | None:
    """Merge a part's info into a tensor's info; return the tensor's number of each class of the part."""
    info, meanings = dict(draft.tensors.seen[key].state.info), None
    if theirs.meta.htype == "class_label":
        names, meanings = merged_names(info.get(_CLASSES) or (), theirs.info.get(_CLASSES) or ())
        if names != list(info.get(_CLASSES) or ()):
            info[_CLASSES] = names
    for entry, (before, now) in learned.items():
        if entry == _CLASSES and theirs.meta.htype == "class_label":
            continue
        if info.get(entry) not in (before, now):
            raise InvalidOperationError(
                f"a part of tensor {theirs.meta.name!r} was written with {entry} {now!r}, the tensor has "
                f"{info[entry]!r}: nothing of it was added"
            )
        info[entry] = now
    if info != draft.tensors.seen[key].state.info:
        draft.schema.set_tensor_info(key, info)
    return meanings
