"""A version in the making: the published head plus schema changes and samples that no reader sees yet.

Chunks that are full are written to storage at once under the draft's own folder, so memory stays bounded; nothing
refers to them until the publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.documents.creds_index import CredsIndex
from lakebed.documents.pad_index import PadIndex
from lakebed.documents.sequence_index import SequenceIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.tile_index import TileIndex
from lakebed.errors import InvalidOperationError
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named
from lakebed.versions.state import Snapshot, TensorState, empty_table
from lakebed.writing import diffs, rewriting
from lakebed.writing.diffs import Rows
from lakebed.writing.draft.companions import (
    companion_column,
    info_after_part_update,
    null_column,
)
from lakebed.writing.draft.rows import AddingDraft, tells_names
from lakebed.writing.draft.tensor import TensorDraft
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.replace_samples import Places

# From so many neighbouring samples on, one splice is cheaper than an edit of each.
_LONG_RUN = 16


class Draft(AddingDraft):
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
        if self.loose.rows:
            columns = {}
            for key, values in self.loose.columns().items():
                state = self.tensors.seen[key].state
                columns[key] = encode_column(values, state.meta, state.info, state.meta.name or key)
            self.loose = self.loose.emptied()
            self.extend(columns)

    def offer_row(self, group: str, row: Mapping[str, Any]) -> bool:
        """Keep a row of a group if it surely fits; tell whether it was kept."""
        return self.loose.offer_row(group, row, self.tensors.seen)

    def offer(self, key: str, sample: Any) -> bool:
        """Keep a sample of a tensor if it surely fits; tell whether it was kept."""
        return self.loose.offer(key, sample, self.tensors.seen)

    def expect(self, group: str, keys: Mapping[str, str]) -> None:
        """Get ready for more rows like the one that was just added: name in the row -> tensor key."""
        for key in keys.values():
            self.loose.prepare(self.tensors.seen[key].state)
        self.loose.prepare_rows(group, keys)

    def expect_samples(self, key: str) -> None:
        """Get ready for more samples of a tensor."""
        self.loose.prepare(self.tensors.seen[key].state)

    # -- changing samples --------------------------------------------------------------------------------------

    def update(self, key: str, rows: Rows, column: Column, *, partial: bool = False) -> None:
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
        self.dirty = True
        singles = _singles(column.parts)
        at = 0
        for row, items in zip(rows, column.items.tolist(), strict=True):
            self._update_sequence(tensor, int(row), singles[at : at + items])
            at += items
        self._record(tensor, diffs.with_updated(diffs.touched(tensor.state), rows))
        self._unpad(tensor, rows)
        self._bound_memory()

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

    def update_flat(self, key: str, rows: Rows, column: Column, *, partial: bool = False) -> None:
        """Replace flat samples: rows of tensors, items of sequences."""
        self.dirty = True
        tensor = self.tensors[key]
        if tensor.state.sequence is None:
            self._keep_absent(tensor, column.parts)
        first, count = int(rows[0]) if len(rows) else 0, len(rows)
        if not partial and count >= rewriting.MANY and self._can_replace_many(tensor, rows, column.parts):
            self._replace_many(tensor, np.asarray(rows, np.int64), column.parts)
        elif count >= _LONG_RUN and not partial and list(rows) == list(range(first, first + count)):
            self._update_run(tensor, first, column.parts)
        else:
            for row, part in zip(rows, _singles(column.parts), strict=True):
                self._update_one(tensor, int(row), part, partial=partial)
        changed = rows if tensor.state.sequence is None else _rows_of(tensor.state.sequence, rows)
        self._record(tensor, diffs.with_updated(diffs.touched(tensor.state), changed))
        self._unpad(tensor, changed)
        self._bound_memory()

    def _can_replace_many(self, tensor: TensorDraft, rows: Rows, parts: Sequence[Encoded]) -> bool:
        """Whether samples can be replaced chunk by chunk: ascending rows of a tensor whose chunks hold whole ones."""
        where = np.asarray(rows, np.int64)
        if not bool((np.diff(where) > 0).all()) or any(part.tiled is not None for part in parts):
            return False
        flat = [hidden for hidden, link in self._links(tensor, flat=True) if "update" in link]
        return tensor.can_replace_many(where) and all(
            hidden.can_replace_many(where) and not any(True for _ in self._links(hidden, flat=True))
            for hidden in flat
        )

    def _replace_many(self, tensor: TensorDraft, rows: Places, parts: Sequence[Encoded]) -> None:
        """Replace flat samples, ascending rows, chunk by chunk: no step for each, and each chunk once."""
        tensor.replace_many(rows, parts)
        if any(tells_names(tensor, part) for part in parts):
            self._record(tensor, diffs.with_info(diffs.touched(tensor.state)))
        if tensor.state.creds is not None:
            codes = tensor.state.creds.values()
            codes[rows] = np.concatenate(
                [np.zeros(p.block.count, np.uint32) if p.creds is None else p.creds for p in parts]
            )
            tensor.state = replace(tensor.state, creds=CredsIndex.from_codes(codes))
        for hidden, link in self._links(tensor, flat=True):
            if "update" in link:
                columns = [companion_column(link, p, hidden.meta, hidden.state.info) for p in parts]
                hidden.replace_many(rows, [p for column in columns for p in column.parts])
                self._record(hidden, diffs.with_updated(diffs.touched(hidden.state), rows))
        nulls = self._null_tensor(tensor, make=any(p.nulls is not None and p.nulls.any() for p in parts))
        if tensor.state.sequence is None and nulls is not None:
            masks = [np.zeros(p.block.count, np.bool_) if p.nulls is None else p.nulls for p in parts]
            self._mark_many(nulls, rows, np.concatenate(masks))

    def _mark_many(self, nulls: TensorDraft, rows: Places, marks: NDArray[np.bool_]) -> None:
        """Record for ascending rows whether they are nulls; rows behind the end of the record are none."""
        known = nulls.meta.length
        if marks[rows >= known].any():
            missing = int(rows[-1]) + 1 - known
            self._extend_tensor(nulls, null_column(np.zeros(missing, np.bool_), nulls.meta))
        inside = rows < nulls.meta.length
        if inside.any():
            nulls.replace_many(rows[inside], null_column(marks[inside], nulls.meta).parts)
            self._record(nulls, diffs.with_updated(diffs.touched(nulls.state), rows[inside]))

    def _update_run(self, tensor: TensorDraft, first: int, parts: Sequence[Encoded]) -> None:
        """Replace neighbouring flat samples, without a step for each."""
        stop = first + sum(part.block.count for part in parts)
        self._replace_run(tensor, first, stop, parts, grows=False)
        for part in parts:
            if tells_names(tensor, part):
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
        if tells_names(tensor, part):
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
        self.dirty = True
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

    def _unpad(self, tensor: TensorDraft, rows: Rows) -> None:
        if tensor.state.pad is not None:
            tensor.state = replace(tensor.state, pad=tensor.state.pad.without(rows))

    def retype(self, key: str, meta: TensorMeta, info: Mapping[str, Any], parts: Iterable[Encoded]) -> None:
        """Let a tensor, which holds neither links nor sequences, hold the same rows as samples of another type.

        Parameters
        ----------
        meta, info
            Settings, and info, of the tensor from now on.
        parts
            All its samples. While they are made, nothing is changed but that chunks are written.
        """
        old = self.tensors[key]
        new = self._like(old, meta, info)
        shapes = {
            hidden.state.key: (self._like(hidden, hidden.meta, hidden.state.info), link)
            for hidden, link in self._links(old, flat=True)
            if link.get("extend") in ("extend_shape", "extend_len")
        }
        marks = [np.zeros(0, np.bool_)]
        for part in parts:
            new.append(part)
            marks.append(np.zeros(part.block.count, np.bool_) if part.nulls is None else part.nulls)
            for hidden, link in shapes.values():
                for each in companion_column(link, part, hidden.meta, hidden.state.info).parts:
                    hidden.append(each)
        self.loose.forget()
        self.dirty = True
        for tensor in (new, *(hidden for hidden, _ in shapes.values())):
            self.tensors[tensor.state.key] = tensor
            self._transformed(tensor)
        if dict(info) != dict(old.state.info):
            self._record(new, diffs.with_info(diffs.touched(new.state)))
        if htype_named(meta.htype).storing is not Storing.ARRAY:
            # Numbers that are null have no bytes; texts and documents need a mark.
            self._mark_all(new, np.concatenate(marks))
        self._bound_memory()

    def _like(self, tensor: TensorDraft, meta: TensorMeta, info: Mapping[str, Any]) -> TensorDraft:
        """Return a tensor without samples that takes the place of another."""
        meta = meta.with_(length=0, min_shape=(), max_shape=())
        return self._tensor_draft(
            replace(tensor.state, meta=meta, info=dict(info), table=empty_table(), tiles=TileIndex.empty())
        )

    def _transformed(self, tensor: TensorDraft) -> None:
        self._record(tensor, diffs.with_transformed(diffs.touched(tensor.state)))

    def _mark_all(self, tensor: TensorDraft, marks: NDArray[np.bool_]) -> None:
        nulls = self._null_tensor(tensor, make=bool(marks.any()))
        if nulls is not None:
            diff = diffs.touched(nulls.state)
            nulls.clear()
            for part in null_column(marks, nulls.meta).parts:
                nulls.append(part)
            self._record(nulls, diffs.with_transformed(diff))

    # -- removing samples --------------------------------------------------------------------------------------

    def pop(self, key: str, rows: Rows) -> None:
        """Remove rows: any order, each once."""
        gone = np.sort(np.asarray(rows, np.int64))
        if not len(gone):
            return
        self.dirty = True
        self._pop(self.tensors[key], gone)
        self._bound_memory()

    def _pop(self, tensor: TensorDraft, rows: Places) -> None:
        ids = self._ids(tensor, rows)
        self._record(tensor, diffs.with_removed(diffs.touched(tensor.state), rows, ids))
        nulls = self._null_tensor(tensor, make=False)
        for hidden, _ in self._links(tensor, flat=False):
            self._pop(hidden, rows)
        if nulls is not None:
            self._pop(nulls, rows[rows < nulls.meta.length])
        sequence, flat = tensor.state.sequence, rows
        if sequence is not None:
            gone = np.zeros(sequence.count, np.bool_)
            gone[rows] = True
            flat = np.flatnonzero(np.repeat(gone, sequence.lengths.astype(np.int64)))
            lengths = np.delete(sequence.lengths, rows)
            tensor.state = replace(tensor.state, sequence=SequenceIndex.from_lengths(lengths))
        self._pop_flat(tensor, flat)
        if tensor.state.pad is not None:
            tensor.state = replace(tensor.state, pad=tensor.state.pad.removed(rows))

    def _pop_flat(self, tensor: TensorDraft, flat: Places) -> None:
        if tensor.state.creds is not None:
            codes = np.delete(tensor.state.creds.values(), flat)
            tensor.state = replace(tensor.state, creds=CredsIndex.from_codes(codes))
        if len(flat) >= rewriting.MANY:
            tensor.remove_many(flat)
        else:
            tensor.remove(flat.tolist())
        for hidden, _ in self._links(tensor, flat=True):
            self._record(hidden, diffs.with_removed(diffs.touched(hidden.state), flat, None))
            self._pop_flat(hidden, flat)

    def row_ids(self, key: str, rows: Rows) -> NDArray[np.uint64] | None:
        """Return the sample ids of rows: uint64, shape (rows,); None if the tensor has none."""
        return self._ids(self.tensors[key], rows)

    def _ids(self, tensor: TensorDraft, rows: Rows) -> NDArray[np.uint64] | None:
        for hidden, link in self._links(tensor, flat=False):
            if link.get("extend") == "extend_id":
                if len(rows) >= rewriting.MANY:
                    return hidden.stored_many(np.asarray(rows, np.int64)).view(np.uint64)
                stored = b"".join(bytes(hidden.stored(int(row))) for row in rows)
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
        found = ((tensor.state, tensor.tail()) for tensor in self.tensors.seen.values())
        return [(state, row) for state, row in found if row is not None]

    def seal(self) -> None:
        """Turn all pending samples into chunks, so that a snapshot shows them."""
        for key in [key for key, tensor in self.tensors.seen.items() if not tensor.is_sealed]:
            self.tensors[key].seal()

    def snapshot(self) -> Snapshot:
        """Return the state so far; pending samples are sealed first."""
        self.seal()
        return Snapshot(self.version_id, self.meta, self.info, self.tensors.states(), self.diff, self.origin)

    def structure(self, *, is_final: bool) -> Snapshot:
        """Return the state so far; tables lack what is pending.

        Parameters
        ----------
        is_final
            Nothing changes this draft any more, but forks of it.
        """
        known = self._structure
        if known is not None and is_final and known.version_id == self.version_id:
            return known
        found = Snapshot(self.version_id, self.meta, self.info, self.tensors.states(), self.diff)
        if is_final:
            self._structure = found
        return found


def _singles(parts: Iterable[Encoded]) -> list[Encoded]:
    """Split parts into one per sample."""
    return [single for part in parts for single in part.singles()]


def _rows_of(sequence: SequenceIndex, flat: Rows) -> list[int]:
    ends = np.cumsum(sequence.lengths.astype(np.int64))
    found: list[int] = np.unique(np.searchsorted(ends, np.asarray(flat, np.int64), side="right")).tolist()
    return found
