"""Rows of another version for a draft: their stored samples, ids and other companions.

If all samples of a chunk are taken, the draft refers to the existing chunk file (format.md 9.3, 9.7). From other
chunks, the stored bytes are copied without decoding. Class labels are decoded if the target has other numbers for
their classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.traits import is_plain
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.tensor_meta import Bounds
from lakebed.htypes.base import Storing
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.locate import Locating
from lakebed.reading.samples import SampleReader
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing import diffs, structure
from lakebed.writing.draft.draft import Draft
from lakebed.writing.draft.rows import LONG_RUN
from lakebed.writing.draft.tensor import TensorDraft, emptied
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Encoded
from lakebed.writing.names import companion_key, parents
from lakebed.writing.tensor_chunks import samples_of

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Chunks up to this size are copied into memory and packed together with their neighbours.
SMALL = 32_768

# Companions with one entry per row; all other companions have one entry per flat sample.
_BY_ROW = ("id", "null")


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor in one version.

    Parameters
    ----------
    reader
        Reader of the samples.
    nulls
        Reader of the null marks, if the tensor has any; the marks may end before the last row.
    written
        For each row, whether it was written since the common ancestor; None if comparing samples suffices. Comparing
        does not suffice for images with lossy chunk compression: they change a little whenever their chunk is
        rewritten.
    """

    reader: SampleReader
    nulls: SampleReader | None = None
    written: Mask | None = None

    def null_marks(self) -> Mask:
        """Return a mask of the rows that are marked as null: shape (rows,)."""
        marks = np.zeros(self.reader.state.length, np.bool_)
        if self.nulls is not None:
            count = min(self.nulls.state.length, len(marks))
            marks[:count] = self.nulls.stacked(range(count)).reshape(count)
        return marks


class Incoming:
    """Transfer of rows from one version to a draft of another.

    Parameters
    ----------
    draft
        Draft that receives the rows.
    theirs, source
        The version that has the rows, and the reader of its chunks.
    is_whole
        True if all rows are taken: their extents are then those in the metadata, so no chunk is read to find them.
    """

    def __init__(
        self, draft: Draft, theirs: Snapshot, source: ChunkSource, *, is_whole: bool = False
    ) -> None:
        self._draft = draft
        self._theirs = theirs
        self._source = source
        self._is_whole = is_whole

    # -- whole tensors -----------------------------------------------------------------------------------------

    def create(self, their_key: str, name: str, *, empty: bool = False) -> str:
        """Create a tensor that only the other version has, with companions and all samples or none; return its key."""
        draft, theirs = self._draft, self._theirs
        was = theirs.tensors[their_key].meta.name or their_key
        moves = structure.moves(theirs.meta, was, name)
        new_name = {theirs.meta.tensor_names.get(old, old): new for old, new in moves.items()}
        new_name[their_key] = name
        keys = {key: draft.schema.free_key(new) for key, new in new_name.items()}
        for key in (key for key in theirs.meta.tensors if key in new_name):
            state = emptied(theirs.tensors[key]) if empty else theirs.tensors[key]
            links = {keys.get(link, link): how for link, how in state.meta.links.items()}
            state = replace(
                state,
                key=keys[key],
                meta=state.meta.with_(name=new_name[key], links=links),
                table=state.table.owned(),
                diff=CommitDiff(created=True, info_updated=bool(state.info), last=state.length),
            )
            draft.schema.adopt_tensor(new_name[key], state, parents(new_name[key]))
        return keys[their_key]

    def arrange(self, their_key: str, name: str, layout: Ints, fillers: NDArray[np.uint64]) -> None:
        """Create a tensor that only the other version has, with its rows in a given order.

        Parameters
        ----------
        layout
            For each new row, the number of its source row in the other version; -1 for an empty sample.
        fillers
            Ids of the empty samples, by number of the new row.
        """
        count = self._theirs.tensors[their_key].length
        if np.array_equal(layout, np.arange(count)):
            self.create(their_key, name)
            return
        key = self.create(their_key, name, empty=True)
        for start, stop in _cuts(np.flatnonzero(np.diff(layout < 0)) + 1, len(layout)):
            if layout[start] < 0:
                self._draft.rows.pad(key, stop - start, fillers[start:stop])
            else:
                self.append(key, their_key, layout[start:stop])

    def replace(self, key: str, their_key: str, updated: Ints, deleted: Ints, added: int) -> bool:
        """Replace a tensor that is unchanged in this version by that of the other version; no sample is copied.

        Parameters
        ----------
        updated, deleted
            Changed and removed rows, ascending.
        added
            Number of rows that are added at the end.

        Returns
        -------
        False, without a change, if the tensor has different companions in this version; else True.
        """
        draft, theirs = self._draft, self._theirs
        name = draft.tensors[key].meta.name or key
        mine = structure.companions_of(draft.schema.meta, name)
        its = structure.companions_of(theirs.meta, theirs.tensors[their_key].meta.name or their_key)
        if mine.keys() != its.keys():
            return False
        pairs = {key: their_key}
        for kind, hidden in mine.items():
            pairs[draft.schema.meta.tensor_names[hidden]] = theirs.meta.tensor_names[its[kind]]
        rows = updated.tolist()
        ids = self._draft.companions.row_ids(key, deleted.tolist())
        for ours, other in pairs.items():
            state, new = draft.tensors[ours].state, theirs.tensors[other]
            diff = diffs.touched(state)
            if ours == key:
                diff = diffs.with_added(diffs.with_updated(diff, rows), added)
                diff = diffs.with_removed(diff, deleted.tolist(), ids) if len(deleted) else diff
                diff = diffs.with_info(diff) if new.meta.htype == "class_label" else diff
            meta = new.meta.with_(name=state.meta.name, links=state.meta.links)
            draft.schema.replace_tensor(
                ours, replace(new, meta=meta, info=state.info, table=state.table.owning(new.table), diff=diff)
            )
        return True

    # -- rows --------------------------------------------------------------------------------------------------

    def append(self, key: str, their_key: str, rows: Ints, label_map: Ints | None = None) -> None:
        """Append rows of a tensor of the other version to a tensor of this one.

        Parameters
        ----------
        rows
            Row numbers in the other version; a row of sequences is a whole sequence.
        label_map
            For each class number of the other version, the number here; None if no number changes.
        """
        if not len(rows):
            return
        draft, held = self._draft, self.held(their_key)
        tensor, state = draft.tensors[key], held.reader.state
        flat, lengths = _flat(state, rows)
        with draft.tensors.changing():
            if lengths is None:
                draft.companions.keep_absent(tensor, state.meta.max_shape)
            before, diff = tensor.state.length, diffs.with_added(tensor.diff, len(rows))
            self._append_flat(tensor, held.reader, flat, label_map)
            if lengths is not None:
                tensor.add_sequences(lengths)
            tensor.record(diffs.with_info(diff) if tensor.meta.htype == "class_label" else diff)
            for kind, hidden, reader in self._companions(key, their_key):
                wanted = rows if kind in _BY_ROW else flat
                change = diffs.with_added(hidden.diff, len(wanted))
                if reader is None:
                    self._append_missing(hidden, kind, held.reader, wanted)
                else:
                    self._append_flat(hidden, reader, wanted)
                hidden.record(change)
            if lengths is None:
                draft.companions.add_null_marks(key, _null_marks(held, rows, tensor))
            if state.pad is not None:
                padded = np.flatnonzero(np.isin(rows, state.pad.rows())) + before
                if len(padded):
                    tensor.rows_padded(padded)

    def update(self, key: str, their_key: str, pairs: Ints, label_map: Ints | None = None) -> None:
        """Take values from the other version for pairs (row here, row there), shape (n, 2); sample ids are kept."""
        if not len(pairs):
            return
        draft, held = self._draft, self.held(their_key)
        tensor = draft.tensors[key]
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        ours, theirs = pairs[:, 0], pairs[:, 1]
        companions = [c for c in self._companions(key, their_key) if c[0] not in _BY_ROW]
        with draft.tensors.changing():
            if tensor.state.sequence is None:
                draft.companions.keep_absent(tensor, held.reader.state.meta.max_shape)
                self._update_flat(tensor, held.reader, pairs, label_map)
                self._update_companions(companions, pairs)
                draft.companions.mark_nulls(key, ours.tolist(), _null_marks(held, theirs, tensor))
            else:
                for row, other in pairs.tolist():
                    self._update_sequence(tensor, held.reader, row, other, label_map, companions)
            tensor.rows_updated(ours.tolist())
            if tensor.meta.htype == "class_label":
                tensor.record(diffs.with_info(tensor.diff))

    def _update_companions(
        self, companions: Iterable[tuple[str, TensorDraft, SampleReader | None]], pairs: Ints
    ) -> None:
        for _, hidden, reader in companions:
            if reader is not None:
                self._update_flat(hidden, reader, pairs)
                hidden.record(diffs.with_updated(hidden.diff, pairs[:, 0].tolist()))

    def _update_sequence(
        self,
        tensor: TensorDraft,
        reader: SampleReader,
        row: int,
        other: int,
        label_map: Ints | None,
        companions: list[tuple[str, TensorDraft, SampleReader | None]],
    ) -> None:
        ours, theirs = tensor.state.sequence, reader.state.sequence
        if ours is None or theirs is None:
            return
        (first, stop), (start, end) = ours.span(row), theirs.span(other)
        if stop - first == end - start:
            pairs = np.stack([np.arange(first, stop), np.arange(start, end)], axis=1)
            self._update_flat(tensor, reader, pairs, label_map)
            self._update_companions(companions, pairs)
            return
        tensor.splice(first, stop, self._parts(tensor, reader, start, end, label_map))
        for _, hidden, its in companions:
            if its is not None:
                hidden.splice(first, stop, self._parts(hidden, its, start, end))
                diff = diffs.with_updated(hidden.diff, range(first, stop))
                more = end - start - (stop - first)
                hidden.record(diffs.with_resized(diff, first, more))
        tensor.resize_sequence(row, end - start)

    # -- tensors and their companions --------------------------------------------------------------------------

    def held(self, key: str) -> Held:
        """Return the readers of a tensor of the other version and of the tensor with its null marks."""
        state = self._theirs.tensors[key]
        nulls = companion_key(self._theirs.meta, state.meta.name or key, "null")
        return Held(self._reader(key), None if nulls is None else self._reader(nulls))

    def _reader(self, key: str) -> SampleReader:
        state = self._theirs.tensors[key]
        return SampleReader(state.meta.name or key, state, self._source)

    def _companions(self, key: str, their_key: str) -> list[tuple[str, TensorDraft, SampleReader | None]]:
        """Return kind, draft and reader of each companion except nulls.

        The reader is None if the other version lacks the companion.
        """
        found = []
        there = structure.companions_of(
            self._theirs.meta, self._theirs.tensors[their_key].meta.name or their_key
        )
        name = self._draft.tensors[key].meta.name or key
        for kind, hidden in structure.companions_of(self._draft.schema.meta, name).items():
            if kind != "null":
                other = there.get(kind)
                reader = None if other is None else self._reader(self._theirs.meta.tensor_names[other])
                found.append(
                    (kind, self._draft.tensors[self._draft.schema.meta.tensor_names[hidden]], reader)
                )
        return found

    def _append_missing(self, hidden: TensorDraft, kind: str, reader: SampleReader, flat: Ints) -> None:
        """Compute and append the entries of a companion that the other version lacks."""
        values: list[Any] = [None] * len(flat)
        if kind == "shape":
            values = [np.array(reader.shape(row), np.int64) for row in flat.tolist()]
        elif kind == "info":
            values = [{}] * len(flat)
        for part in encode_column(values, hidden.meta, hidden.state.info, hidden.meta.name or "").parts:
            hidden.append(part)

    # -- flat samples ------------------------------------------------------------------------------------------

    def _append_flat(
        self, tensor: TensorDraft, reader: SampleReader, flat: Ints, label_map: Ints | None = None
    ) -> None:
        tensor.adopt_dtype(reader.state.meta)
        for start, stop in _cuts(np.flatnonzero(np.diff(flat) != 1) + 1, len(flat)):
            first, end = int(flat[start]), int(flat[stop - 1]) + 1
            if label_map is not None:
                for part in self._parts(tensor, reader, first, end, label_map):
                    tensor.append(part)
            else:
                self._append_run(tensor, reader, first, end)

    def _append_run(self, tensor: TensorDraft, reader: SampleReader, first: int, end: int) -> None:
        """Append consecutive samples: chunks taken as a whole, and samples cut from the chunks at both ends."""
        table = reader.state.table
        row = int(table.ids.last.searchsorted(np.uint64(first)))
        whole = int(table.ids.last.searchsorted(np.uint64(end - 1), side="right"))
        if table.first(row) < first:
            stop = min(end, int(table.ids.last[row]) + 1)
            tensor.append(self._cut(tensor, reader, row, first, stop))
            first, row = stop, row + 1
        if row < whole:
            self._append_chunks(tensor, reader, row, whole)
            first = int(table.ids.last[whole - 1]) + 1
        if first < end:
            tensor.append(self._cut(tensor, reader, max(row, whole), first, end))

    def _append_chunks(self, tensor: TensorDraft, reader: SampleReader, row: int, whole: int) -> None:
        table = reader.state.table
        alone = np.isin(table.ids.last[row:whole], reader.state.tiles.indices)
        lossy = not is_plain(tensor.meta.chunk_compression)
        sizes = table.places.sizes[row:whole]
        small = (sizes > 0) & (sizes <= SMALL) & ~alone & (not lossy)
        taken = np.isin(table.ids.ids[row:whole], tensor.state.table.ids.ids)
        how = small.astype(np.int64) + 2 * (taken & ~small)
        for start, stop in _cuts(np.flatnonzero(np.diff(how)) + 1, whole - row):
            rows = range(row + start, row + stop)
            first, end = table.first(rows.start), int(table.ids.last[rows.stop - 1]) + 1
            if how[start] == 1:
                for each in rows:
                    last = int(table.ids.last[each]) + 1
                    tensor.append(self._cut(tensor, reader, each, table.first(each), last))
            elif how[start] == 2:
                files = [bytes(self._source.file(table, each)) for each in rows]
                tensor.copy_chunks(reader.state, rows, files, self._bounds(reader, first, end))
            else:
                tensor.adopt_chunks(reader.state, rows.start, rows.stop, self._bounds(reader, first, end))

    def _bounds(self, reader: SampleReader, first: int, end: int) -> Bounds | None:
        """Return the smallest and largest shapes of consecutive samples; None if the tensor has no shape yet."""
        meta = reader.state.meta
        low, high = tuple(meta.min_shape), tuple(meta.max_shape)
        if not high:
            return None
        if self._is_whole or low == high or meta.is_link:
            return low, high
        if reader.storing in (Storing.TEXT, Storing.JSON):
            return (1,), (1,)
        shapes = reader.shapes(range(first, end))
        return tuple(shapes.min(axis=0).tolist()), tuple(shapes.max(axis=0).tolist())

    def _cut(self, tensor: TensorDraft, reader: SampleReader, row: int, first: int, end: int) -> Encoded:
        """Return stored samples of one chunk, cut from the chunk file."""
        table = reader.state.table
        start = table.first(row)
        with Locating(reader, first):
            chunk = self._source.chunk(table, row, reader.chunk_codec())
            block = samples_of(chunk, reader.state.meta).cut(first - start, end - start)
        meta, shapes = reader.state.meta, None
        # The shape of each linked sample is not known, so use the bounds of all their shapes.
        if meta.is_link and meta.max_shape:
            shapes = [tuple(meta.min_shape), tuple(meta.max_shape)] * block.count
        return Encoded(block, tensor.meta, shapes=shapes, creds=_codes(reader.state, first, end), owned=False)

    def _parts(
        self, tensor: TensorDraft, reader: SampleReader, first: int, end: int, label_map: Ints | None = None
    ) -> list[Encoded]:
        """Return copies of consecutive samples; tiled samples, and labels whose class numbers change, are decoded."""
        if label_map is None and not len(reader.state.tiles):
            return [
                self._cut(tensor, reader, ordinal, row, row + stop - inside)
                for ordinal, row, inside, stop in reader.runs(first, end)
            ]
        values = [remap_labels(reader.value(row), label_map) for row in range(first, end)]
        meta = tensor.meta.with_(is_sequence=False)
        parts = encode_column(values, meta, tensor.state.info, tensor.meta.name or "").parts
        found, start = [], first
        for part in parts:
            meta, stop = part.meta.with_(is_sequence=tensor.meta.is_sequence), start + part.block.count
            found.append(replace(part, meta=meta, creds=_codes(reader.state, start, stop)))
            start = stop
        return found

    def _update_flat(
        self, tensor: TensorDraft, reader: SampleReader, pairs: Ints, label_map: Ints | None = None
    ) -> None:
        tensor.adopt_dtype(reader.state.meta)
        tiled = set(reader.state.tiles.indices.tolist())
        breaks = np.flatnonzero((np.diff(pairs, axis=0) != 1).any(axis=1)) + 1
        for start, stop in _cuts(breaks, len(pairs)):
            here, there = pairs[start].tolist()
            end = there + stop - start
            if tiled.isdisjoint(range(there, end)) or label_map is not None:
                parts = self._parts(tensor, reader, there, end, label_map)
                if stop - start >= LONG_RUN:
                    tensor.splice(here, here + stop - start, parts)
                else:
                    singles = (single for part in parts for single in part.singles())
                    for row, single in enumerate(singles, here):
                        tensor.update(row, single)
            else:
                for row, other in zip(range(here, here + stop - start), range(there, end), strict=True):
                    self._update_one(tensor, reader, row, other)

    def _update_one(self, tensor: TensorDraft, reader: SampleReader, row: int, other: int) -> None:
        state = reader.state
        rows = state.table.rows_of(other)
        if other not in state.tiles.entries or state.table.first(rows.start) != other:
            tensor.update(row, self._cut(tensor, reader, rows.start, other, other + 1))
            return
        files = [bytes(self._source.file(state.table, each)) for each in rows]
        chunks = tensor.chunks_like(state, rows, files)
        codes = np.zeros(0, np.uint32) if state.creds is None else state.creds.between(other, other + 1)
        tensor.update_tiled(row, chunks, state.tiles.entries[other], codes)


def _cuts(breaks: Ints, count: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges (start, stop) into which positions ``breaks`` cut the range from 0 to ``count``."""
    ends = [0, *breaks.tolist(), count]
    return ((a, b) for a, b in pairwise(ends) if a < b)


def _null_marks(held: Held, rows: Ints, tensor: TensorDraft) -> NDArray[np.bool_]:
    """Return a mask of the rows whose null needs a mark; a null of a tensor of single numbers needs no mark."""
    marks = held.null_marks()[rows]
    # In a tensor of single numbers, an empty sample is a null. In a tensor of arrays, a null needs a mark, because an
    # empty array is stored in the same way.
    single = held.reader.is_nullable and list(held.reader.state.meta.max_shape) == [1]
    if single and list(tensor.meta.max_shape) != [1]:
        marks |= held.reader.shapes(rows)[:, 0] == 0
    return marks


def _flat(state: TensorState, rows: Ints) -> tuple[Ints, Ints | None]:
    """Return the flat samples of rows; for sequences also the number of items in each row."""
    if state.sequence is None:
        return rows, None
    lengths = state.sequence.lengths.astype(np.int64)
    first = np.cumsum(lengths) - lengths
    wanted = lengths[rows]
    starts = np.repeat(first[rows] - (np.cumsum(wanted) - wanted), wanted)
    return starts + np.arange(len(starts), dtype=np.int64), wanted


def _codes(state: TensorState, first: int, end: int) -> NDArray[np.uint32] | None:
    """Return the credentials' codes of consecutive samples; None if codes for these samples are not stored."""
    if state.creds is None or state.creds.count < end:
        return None
    return state.creds.between(first, end).astype(np.uint32)


def merged_names(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], NDArray[np.int64] | None]:
    """Join two lists of class names.

    Returns
    -------
    Our names followed by the names that only the other list has; and, for each name of the other list, its number in
    the joined list, int64; None if no number changes.
    """
    names = list(ours)
    numbers = {name: i for i, name in reversed(list(enumerate(names)))}
    for name in theirs:
        if name not in numbers:
            numbers[name] = len(names)
            names.append(name)
    label_map = np.array([numbers[name] for name in theirs], np.int64)
    return names, None if names[: len(theirs)] == list(theirs) else label_map


def remap_labels(value: Any, label_map: Ints | None) -> Any:
    """Return a sample with its class numbers replaced by those of the target tensor."""
    if label_map is None or not isinstance(value, np.ndarray) or not value.size:
        return value
    known = (value >= 0) & (value < len(label_map))
    return np.where(known, label_map[np.where(known, value, 0).astype(np.int64)], value).astype(value.dtype)
