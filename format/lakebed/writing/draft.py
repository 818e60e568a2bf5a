"""A version in the making: the published head plus schema changes and samples that no reader sees yet.

Chunks that are full are written to storage at once under the draft's own folder, so memory stays bounded; nothing
refers to them until the publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.documents.creds_index import CredsIndex
from lakebed.documents.pad_index import PadIndex
from lakebed.documents.sequence_index import SequenceIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import InvalidOperationError
from lakebed.htypes.registry import htype_named
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing import diffs
from lakebed.writing.coerce import encode_column
from lakebed.writing.companions import (
    companion_column,
    id_column,
    info_after_part_update,
    null_column,
)
from lakebed.writing.encoded import Column, Encoded
from lakebed.writing.names import companion, companion_key
from lakebed.writing.schema_draft import SchemaDraft
from lakebed.writing.tensor_draft import TensorDraft

# Pending samples of all tensors together; beyond this the largest are written out.
SPILL_BYTES = 64_000_000

# From so many neighbouring samples on, one splice is cheaper than an edit of each.
_LONG_RUN = 16


class Draft(SchemaDraft):
    """The next head of a branch.

    Parameters
    ----------
    base
        The published head.
    version_id
        Id (and folder) of the version in the making.
    storage
        Where full chunks go before the publish.
    read
        Reads a chunk file back, published or not.
    """

    # -- rows one by one ---------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Encode the rows that came one by one and wait."""
        if self.loose.count:
            columns = {}
            for key, values in self.loose.drain().items():
                state = self.tensors[key].state
                columns[key] = encode_column(values, state.meta, state.info, state.meta.name or key)
            self.extend(columns)

    def offer_row(self, group: str, row: Mapping[str, Any]) -> bool:
        """Keep a row of a group if it surely fits; tell whether it was kept."""
        return self.loose.offer_row(group, row, self._states())

    def offer(self, key: str, sample: Any) -> bool:
        """Keep a sample of a tensor if it surely fits; tell whether it was kept."""
        return self.loose.offer(key, sample, self._states())

    def _states(self) -> Mapping[str, TensorState]:
        return _States(self.tensors)

    def expect(self, group: str, keys: Mapping[str, str]) -> None:
        """Get ready for more rows like the one that was just added: name in the row -> tensor key."""
        for key in keys.values():
            self.loose.prepare(self.tensors[key].state)
        self.loose.prepare_rows(group, keys)

    def expect_samples(self, key: str) -> None:
        """Get ready for more samples of a tensor."""
        self.loose.prepare(self.tensors[key].state)

    # -- adding samples ----------------------------------------------------------------------------------------

    def extend(self, columns: Mapping[str, Column]) -> None:
        """Append encoded samples, by tensor key, to the tensors and their hidden companions.

        Whoever catches an error of this must drop the draft: some tensors may have their samples and others not.
        """
        if not any(column.count for column in columns.values()):
            return
        self.dirty = self.torn = True
        for key, column in columns.items():
            self._extend_tensor(self.tensors[key], column)
        self._bound_memory()
        self.torn = False

    def _bound_memory(self) -> None:
        if sum(t.waiting_bytes for t in self.tensors.values()) > SPILL_BYTES:
            for tensor in self.tensors.values():
                tensor.seal()
                tensor.spill()

    def _extend_tensor(self, tensor: TensorDraft, column: Column) -> None:
        diff, before = diffs.touched(tensor.state), tensor.state.length
        for part in column.parts:
            self._extend_flat(tensor, part)
            if _tells_names(tensor, part):
                diff = diffs.with_info(diff)
        if column.items is not None and tensor.state.sequence is not None:
            sequence = tensor.state.sequence.extend(column.items)
            tensor.state = replace(tensor.state, sequence=sequence)
        self._record(tensor, diffs.with_added(diff, column.count))
        for hidden, link in self._links(tensor, flat=False):
            if link.get("extend") == "extend_id":
                self._extend_tensor(hidden, id_column(column.count, hidden.meta))
        nulls = [p.nulls for p in column.parts]
        if column.items is None and any(n is not None for n in nulls):
            counts = [p.block.count for p in column.parts]
            masks = [np.zeros(c, np.bool_) if n is None else n for n, c in zip(nulls, counts, strict=True)]
            self._extend_nulls(tensor, np.concatenate(masks), before)

    def _extend_flat(self, tensor: TensorDraft, part: Encoded) -> None:
        tensor.append(part)
        if tensor.state.creds is not None:
            codes = np.zeros(part.block.count, np.uint32) if part.creds is None else part.creds
            tensor.state = replace(tensor.state, creds=tensor.state.creds.extend(codes))
        for hidden, link in self._links(tensor, flat=True):
            self._extend_tensor(hidden, companion_column(link, part, hidden.meta, hidden.state.info))

    def _links(self, tensor: TensorDraft, *, flat: bool) -> Iterable[tuple[TensorDraft, Mapping[str, Any]]]:
        """Yield the hidden tensors that a tensor feeds: one entry per flat sample, or one per row."""
        for key, link in tensor.meta.links.items():
            hidden = self.tensors.get(key)
            if hidden is not None and bool(link.get("flatten_sequence", False)) is flat:
                yield hidden, link

    # -- nulls -------------------------------------------------------------------------------------------------

    def _extend_nulls(self, tensor: TensorDraft, nulls: NDArray[np.bool_], before: int) -> None:
        """Record nulls in the hidden companion, made when the first null arrives; its end may lag behind."""
        hidden = self._null_tensor(tensor, make=True)
        if hidden is None:
            return
        missing = before - hidden.meta.length
        mask = np.concatenate([np.zeros(missing, dtype=np.bool_), nulls]) if missing else nulls
        self._extend_tensor(hidden, null_column(mask, hidden.meta))

    def _null_tensor(self, tensor: TensorDraft, *, make: bool) -> TensorDraft | None:
        owner = tensor.meta.name or tensor.state.key
        name = companion(owner, "null")
        key = companion_key(self.meta, owner, "null")
        if key is None and not make:
            return None
        if key is None and name in self.meta.tensor_names:
            raise InvalidOperationError(
                f"nulls of tensor {owner!r} need the name {name!r}: rename that tensor first"
            )
        if key is None:
            meta = TensorMeta(htype="generic", dtype="bool", hidden=True)
            self.add_tensor(name, meta, htype_named("generic").info, ())
            key = self.meta.tensor_names[name]
        return self.tensors[key]

    def _update_null(self, tensor: TensorDraft, row: int, part: Encoded) -> None:
        self._mark_null(tensor, row, is_null=part.nulls is not None and bool(part.nulls[0]))

    def _mark_null(self, tensor: TensorDraft, row: int, *, is_null: bool) -> None:
        hidden = self._null_tensor(tensor, make=is_null)
        if hidden is None:
            return
        if row < hidden.meta.length:
            (mask,) = null_column(np.array([is_null]), hidden.meta).parts
            hidden.update(row, mask)
            self._record(hidden, diffs.with_updated(diffs.touched(hidden.state), [row]))
        elif is_null:
            self._extend_nulls(tensor, np.array([True]), row)

    def mark_nulls(self, key: str, rows: Iterable[int], marks: NDArray[np.bool_]) -> None:
        """Record for rows, ascending if they are the last ones, whether they are nulls."""
        for row, is_null in zip(rows, marks.tolist(), strict=True):
            self._mark_null(self.tensors[key], row, is_null=is_null)

    def add_null_marks(self, key: str, marks: NDArray[np.bool_]) -> None:
        """Record for rows that were just added whether they are nulls."""
        tensor = self.tensors[key]
        if marks.any() or self._null_tensor(tensor, make=False) is not None:
            self._extend_nulls(tensor, marks, tensor.state.length - len(marks))

    def bound_memory(self) -> None:
        """Write waiting samples to storage if there are too many of them."""
        self._bound_memory()

    # -- changing samples --------------------------------------------------------------------------------------

    def update(self, key: str, rows: Sequence[int], column: Column, *, partial: bool = False) -> None:
        """Replace rows by those of a column, one each; sequences may get more or fewer items.

        Parameters
        ----------
        partial
            The new samples are the old ones with a part overwritten, which ``_info`` remembers.
        """
        tensor = self.tensors[key]
        if column.items is None:
            self.update_flat(key, rows, column, partial=partial)
            return
        self.dirty = self.torn = True
        singles = _singles(column.parts)
        at = 0
        for row, items in zip(rows, column.items.tolist(), strict=True):
            self._update_sequence(tensor, row, singles[at : at + items])
            at += items
        self._record(tensor, diffs.with_updated(diffs.touched(tensor.state), rows))
        self._unpad(tensor, rows)
        self._bound_memory()
        self.torn = False

    def _update_sequence(self, tensor: TensorDraft, row: int, parts: Sequence[Encoded]) -> None:
        sequence = tensor.state.sequence
        if sequence is None:
            raise InvalidOperationError(f"tensor {tensor.meta.name!r} holds no sequences")
        first, stop = sequence.span(row)
        if stop - first == len(parts):
            for i, part in enumerate(parts):
                self._update_one(tensor, first + i, part, partial=False)
            return
        self._replace_run(tensor, first, stop, parts, grows=True)
        lengths = sequence.lengths
        lengths[row] = len(parts)
        tensor.state = replace(tensor.state, sequence=SequenceIndex.from_lengths(lengths))

    def _replace_run(
        self, tensor: TensorDraft, first: int, stop: int, parts: Sequence[Encoded], *, grows: bool
    ) -> None:
        """Replace neighbouring flat samples in a tensor and its flat companions.

        Parameters
        ----------
        grows
            Whether there may be more or fewer of them now, so that companions that an update leaves alone follow too.
        """
        tensor.splice(first, stop, parts)
        if tensor.state.creds is not None:
            codes = tensor.state.creds.values()
            new = [np.zeros(p.block.count, np.uint64) if p.creds is None else p.creds for p in parts]
            tensor.state = replace(
                tensor.state,
                creds=CredsIndex.from_codes(np.concatenate([codes[:first], *new, codes[stop:]])),
            )
        for hidden, link in self._links(tensor, flat=True):
            if grows or "update" in link:
                columns = [companion_column(link, p, hidden.meta, hidden.state.info) for p in parts]
                inner = [p for column in columns for p in column.parts]
                diff = diffs.with_updated(diffs.touched(hidden.state), range(first, stop))
                self._replace_run(hidden, first, stop, inner, grows=grows)
                more = sum(p.block.count for p in inner) - (stop - first)
                self._record(hidden, diffs.with_resized(diff, first, more))

    def update_flat(self, key: str, rows: Sequence[int], column: Column, *, partial: bool = False) -> None:
        """Replace flat samples: rows of tensors, items of sequences."""
        self.dirty = self.torn = True
        tensor = self.tensors[key]
        if len(rows) >= _LONG_RUN and not partial and list(rows) == list(range(rows[0], rows[0] + len(rows))):
            self._update_run(tensor, rows[0], column.parts)
        else:
            for row, part in zip(rows, _singles(column.parts), strict=True):
                self._update_one(tensor, row, part, partial=partial)
        changed = rows if tensor.state.sequence is None else _rows_of(tensor.state.sequence, rows)
        self._record(tensor, diffs.with_updated(diffs.touched(tensor.state), changed))
        self._unpad(tensor, changed)
        self._bound_memory()
        self.torn = False

    def _update_run(self, tensor: TensorDraft, first: int, parts: Sequence[Encoded]) -> None:
        """Replace neighbouring flat samples, without a step for each."""
        stop = first + sum(part.block.count for part in parts)
        self._replace_run(tensor, first, stop, parts, grows=False)
        for part in parts:
            if _tells_names(tensor, part):
                self._record(tensor, diffs.with_info(diffs.touched(tensor.state)))
        nulls = self._null_tensor(tensor, make=any(p.nulls is not None and p.nulls.any() for p in parts))
        if tensor.state.sequence is not None or nulls is None:
            return
        masks = [np.zeros(p.block.count, np.bool_) if p.nulls is None else p.nulls for p in parts]
        missing = stop - nulls.meta.length
        if missing > 0:
            self._extend_tensor(nulls, null_column(np.zeros(missing, np.bool_), nulls.meta))
        self._replace_run(
            nulls, first, stop, null_column(np.concatenate(masks), nulls.meta).parts, grows=False
        )

    def _update_one(self, tensor: TensorDraft, row: int, part: Encoded, *, partial: bool) -> None:
        tensor.update(row, part)
        if _tells_names(tensor, part):
            self._record(tensor, diffs.with_info(diffs.touched(tensor.state)))
        if tensor.state.creds is not None:
            code = 0 if part.creds is None else int(part.creds[0])
            tensor.state = replace(tensor.state, creds=tensor.state.creds.replaced(row, code))
        for hidden, link in self._links(tensor, flat=True):
            if "update" not in link:
                continue
            if partial and link.get("extend") == "extend_info":
                column = info_after_part_update(hidden.stored(row), hidden.meta)
            else:
                column = companion_column(link, part, hidden.meta, hidden.state.info)
            for new in column.parts:
                self._update_one(hidden, row, new, partial=False)
                self._record(hidden, diffs.with_updated(diffs.touched(hidden.state), [row]))
        if tensor.state.sequence is None:
            self._update_null(tensor, row, part)

    def write_tiles(self, key: str, flat_row: int, tiles: Mapping[int, bytes | memoryview]) -> None:
        """Overwrite tiles of a tiled sample, by number in C order of the grid, with their stored bytes."""
        self.dirty = self.torn = True
        tensor = self.tensors[key]
        tensor.write_tiles(flat_row, tiles)
        for hidden, link in self._links(tensor, flat=True):
            if link.get("extend") == "extend_info":
                (new,) = info_after_part_update(hidden.stored(flat_row), hidden.meta).parts
                hidden.update(flat_row, new)
                self._record(hidden, diffs.with_updated(diffs.touched(hidden.state), [flat_row]))
        sequence = tensor.state.sequence
        changed = [flat_row] if sequence is None else _rows_of(sequence, [flat_row])
        self._record(tensor, diffs.with_updated(diffs.touched(tensor.state), changed))
        self._bound_memory()
        self.torn = False

    def pad(self, key: str, count: int, ids: NDArray[np.uint64] | None = None) -> None:
        """Append empty samples that stand for rows which were never given (FORMAT.md 4.6).

        Parameters
        ----------
        ids
            Their sample ids, uint64, shape (count,); None makes new ones.
        """
        tensor = self.tensors[key]
        meta, before = tensor.meta, tensor.state.length
        if tensor.state.sequence is not None:
            column = Column([], np.zeros(count, np.int64))
        else:
            column = encode_column([None] * count, meta, tensor.state.info, meta.name or key)
            parts = [replace(p, nulls=None) for p in column.parts]
            column = replace(column, parts=parts)
        self.extend({key: column})
        pad = tensor.state.pad or PadIndex.empty()
        tensor.state = replace(tensor.state, pad=pad.with_range(before, before + count))
        for hidden, link in self._links(tensor, flat=False) if ids is not None else ():
            if link.get("extend") == "extend_id" and ids is not None:
                block = Block(memoryview(ids.tobytes()), count, 8, (1,))
                hidden.splice(before, before + count, [Encoded(block, hidden.meta)])

    def _unpad(self, tensor: TensorDraft, rows: Sequence[int]) -> None:
        if tensor.state.pad is not None:
            tensor.state = replace(tensor.state, pad=tensor.state.pad.without(rows))

    # -- removing samples --------------------------------------------------------------------------------------

    def pop(self, key: str, rows: Sequence[int]) -> None:
        """Remove rows: any order, each once."""
        gone = sorted(rows)
        if not gone:
            return
        self.dirty = self.torn = True
        self._pop(self.tensors[key], gone)
        self._bound_memory()
        self.torn = False

    def _pop(self, tensor: TensorDraft, rows: list[int]) -> None:
        ids = self._ids(tensor, rows)
        self._record(tensor, diffs.with_removed(diffs.touched(tensor.state), rows, ids))
        nulls = self._null_tensor(tensor, make=False)
        for hidden, _ in self._links(tensor, flat=False):
            self._pop(hidden, rows)
        if nulls is not None:
            self._pop(nulls, [row for row in rows if row < nulls.meta.length])
        sequence, flat = tensor.state.sequence, rows
        if sequence is not None:
            flat = [i for row in rows for i in range(*sequence.span(row))]
            lengths = np.delete(sequence.lengths, rows)
            tensor.state = replace(tensor.state, sequence=SequenceIndex.from_lengths(lengths))
        self._pop_flat(tensor, flat)
        if tensor.state.pad is not None:
            tensor.state = replace(tensor.state, pad=tensor.state.pad.removed(rows))

    def _pop_flat(self, tensor: TensorDraft, flat: list[int]) -> None:
        if tensor.state.creds is not None:
            codes = np.delete(tensor.state.creds.values(), flat)
            tensor.state = replace(tensor.state, creds=CredsIndex.from_codes(codes))
        tensor.remove(flat)
        for hidden, _ in self._links(tensor, flat=True):
            self._record(hidden, diffs.with_removed(diffs.touched(hidden.state), flat, None))
            self._pop_flat(hidden, flat)

    def row_ids(self, key: str, rows: Sequence[int]) -> NDArray[np.uint64] | None:
        """Return the sample ids of rows: uint64, shape (rows,); None if the tensor has none."""
        return self._ids(self.tensors[key], rows)

    def _ids(self, tensor: TensorDraft, rows: Sequence[int]) -> NDArray[np.uint64] | None:
        for hidden, link in self._links(tensor, flat=False):
            if link.get("extend") == "extend_id":
                stored = b"".join(bytes(hidden.stored(row)) for row in rows)
                return np.frombuffer(stored, np.uint64)
        return None

    def clear(self, key: str) -> None:
        """Drop all samples of a tensor and its companions; settings stay, the info goes (FORMAT.md 6.5)."""
        self.dirty = True
        self._clear(self.tensors[key])

    def _clear(self, tensor: TensorDraft) -> None:
        self._record(tensor, diffs.with_cleared(diffs.touched(tensor.state)))
        tensor.clear()
        if tensor.state.sequence is not None:
            tensor.state = replace(tensor.state, sequence=SequenceIndex.from_lengths([]))
        if tensor.state.creds is not None:
            tensor.state = replace(tensor.state, creds=CredsIndex.from_codes([]))
        nulls = self._null_tensor(tensor, make=False)
        for hidden in [h for k in tensor.meta.links if (h := self.tensors.get(k)) is not None]:
            self._clear(hidden)
        if nulls is not None:
            self._clear(nulls)

    def rechunk(self, key: str) -> None:
        """Merge neighbouring small chunks of a tensor and its companions."""
        self.dirty = True
        tensor = self.tensors[key]
        for each in [tensor, *(self.tensors[k] for k in tensor.meta.links if k in self.tensors)]:
            each.rechunk()
            self._record(each, diffs.touched(each.state))
        self._bound_memory()

    # -- chunks ------------------------------------------------------------------------------------------------

    def tails(self) -> list[tuple[TensorState, int]]:
        """Return the chunks, by tensor and row of its table, that sealing would read to pack them anew."""
        found = ((tensor.state, tensor.tail()) for tensor in self.tensors.values())
        return [(state, row) for state, row in found if row is not None]

    def seal(self) -> None:
        """Turn all pending samples into chunks, so that a snapshot shows them."""
        for tensor in self.tensors.values():
            tensor.seal()

    def snapshot(self) -> Snapshot:
        """Return the state so far; pending samples are sealed first."""
        self.seal()
        tensors = {key: tensor.state for key, tensor in self.tensors.items()}
        return Snapshot(self.version_id, self.meta, self.info, tensors, self.diff, self.origin)


class _States(Mapping[str, TensorState]):
    """States of tensors by key, as they are at the moment."""

    __slots__ = ("_tensors",)

    def __init__(self, tensors: Mapping[str, TensorDraft]) -> None:
        self._tensors = tensors

    def __getitem__(self, key: str) -> TensorState:
        return self._tensors[key].state

    def __contains__(self, key: object) -> bool:
        return key in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _tells_names(tensor: TensorDraft, part: Encoded) -> bool:
    """Whether samples count as a change of the tensor's info, as every class label does (FORMAT.md 10.2)."""
    return bool(part.info) or tensor.meta.htype == "class_label"


def _singles(parts: Iterable[Encoded]) -> list[Encoded]:
    """Split parts into one per sample."""
    return [single for part in parts for single in part.singles()]


def _rows_of(sequence: SequenceIndex, flat: Sequence[int]) -> list[int]:
    ends = np.cumsum(sequence.lengths.astype(np.int64))
    return sorted({int(row) for row in np.searchsorted(ends, np.asarray(flat, np.int64), side="right")})
