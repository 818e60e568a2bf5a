"""Samples of a version in the making: rows added, replaced and removed, and what hidden companions record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import InvalidOperationError
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named
from lakebed.versions.chunk_table import empty_table
from lakebed.writing import diffs, rewriting
from lakebed.writing.diffs import RowNumbers
from lakebed.writing.draft.companions import (
    DraftCompanions,
    companion_column,
    id_column,
    info_after_part_update,
    null_mask,
)
from lakebed.writing.draft.schema import DraftSchema
from lakebed.writing.draft.tensor import TensorDraft
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.replace_samples import SampleNumbers

# From this many neighbouring samples on, replacing them by one splice is cheaper than editing each sample.
LONG_RUN = 16


@dataclass(frozen=True, slots=True)
class Identities:
    """Ids of a tensor's rows, and the record of changes to them.

    Parameters
    ----------
    rows, samples
        Numbers of rows and of their samples; they differ for sequences only.
    ids
        Ids of the rows, uint64, shape (rows,); None if the tensor has no ids.
    diffs
        Recorded changes of the tensor and its hidden companions, by key.
    info
        Info of the tensor.
    """

    rows: int
    samples: int
    ids: NDArray[np.uint64] | None
    diffs: Mapping[str, CommitDiff]
    info: Mapping[str, Any]


class DraftRows:
    """Adds, replaces and removes rows in the tensors of a draft."""

    __slots__ = ("_companions", "_schema", "_tensors")

    def __init__(self, schema: DraftSchema, companions: DraftCompanions) -> None:
        self._schema = schema
        self._tensors = schema.tensors
        self._companions = companions

    # -- adding samples ----------------------------------------------------------------------------------------

    def extend(self, columns: Mapping[str, Column]) -> None:
        """Append encoded samples, by tensor key, to the tensors and their hidden companions.

        After an error some tensors may have new samples and others not; the caller must drop the draft.
        """
        if not any(column.count for column in columns.values()):
            return
        with self._tensors.changing():
            for key, column in columns.items():
                self._extend(self._tensors[key], column)

    def _extend(self, tensor: TensorDraft, column: Column) -> None:
        parts = column.parts
        if column.items is None:
            self._keep_absent(tensor, parts)
        before, count = tensor.state.length, column.count
        diff = diffs.with_added(tensor.diff, count)
        if any(map(tells_names, parts)):
            diff = diffs.with_info(diff)
        feeds = bool(tensor.meta.links)
        for part in parts:
            tensor.append(part, diff)
            if feeds:
                for hidden, link in self._companions.links(tensor, flat=True):
                    self._extend(hidden, companion_column(link, part, hidden.meta, hidden.state.info))
        if column.items is not None:
            tensor.add_sequences(column.items)
            tensor.record(diff)
        if feeds:
            for hidden, link in self._companions.links(tensor, flat=False):
                if link.get("extend") == "extend_id":
                    self._extend(hidden, id_column(count, hidden.meta))
        if column.items is None and [part for part in parts if part.nulls is not None]:
            self._companions.extend_nulls(tensor, null_mask(parts), before)

    def _keep_absent(self, tensor: TensorDraft, parts: Sequence[Encoded]) -> None:
        if not self._companions.may_hold_absent(tensor):
            return
        bounds = [part.block.shape_bounds() for part in parts]
        as_lists = any("list<" in str(part.info.get("logical_type")) for part in parts)
        largest = max((bound[1] for bound in bounds if bound is not None), default=())
        self._companions.keep_absent(tensor, largest, as_lists=as_lists)

    # -- changing samples --------------------------------------------------------------------------------------

    def update(self, key: str, rows: RowNumbers, column: Column, *, partial: bool = False) -> None:
        """Replace each of the rows by one row of a column; a new sequence may have more or fewer items.

        Parameters
        ----------
        partial
            The new samples are the old ones with a part overwritten, which ``_info`` remembers.
        """
        tensor = self._tensors[key]
        if column.items is None:
            self.update_flat(key, rows, column, partial=partial)
            return
        singles = _singles(column.parts)
        at = 0
        with self._tensors.changing():
            for row, items in zip(rows, column.items.tolist(), strict=True):
                self._update_sequence(tensor, int(row), singles[at : at + items])
                at += items
            tensor.rows_updated(rows)

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
        tensor.resize_sequence(row, len(parts))

    def _replace_run(
        self, tensor: TensorDraft, first: int, stop: int, parts: Sequence[Encoded], *, grows: bool
    ) -> None:
        """Replace neighbouring flat samples in a tensor and its flat companions.

        Parameters
        ----------
        grows
            Whether the number of samples may change. If so, also change companions that are not changed by an update
            that keeps the number of samples.
        """
        tensor.splice(first, stop, parts)
        for hidden, link in self._companions.links(tensor, flat=True):
            if grows or "update" in link:
                columns = [companion_column(link, p, hidden.meta, hidden.state.info) for p in parts]
                inner = [p for column in columns for p in column.parts]
                diff = diffs.with_updated(hidden.diff, range(first, stop))
                self._replace_run(hidden, first, stop, inner, grows=grows)
                more = sum(p.block.count for p in inner) - (stop - first)
                hidden.record(diffs.with_resized(diff, first, more))

    def update_flat(self, key: str, rows: RowNumbers, column: Column, *, partial: bool = False) -> None:
        """Replace flat samples: rows of tensors, items of sequences."""
        tensor, parts = self._tensors[key], column.parts
        first, count = int(rows[0]) if len(rows) else 0, len(rows)
        with self._tensors.changing():
            if tensor.state.sequence is None:
                self._keep_absent(tensor, parts)
            if not partial and count >= rewriting.MANY and self._can_replace_many(tensor, rows, parts):
                self._replace_many(tensor, np.asarray(rows, np.int64), parts)
            elif not partial and count >= LONG_RUN and list(rows) == list(range(first, first + count)):
                self._update_run(tensor, first, parts)
            else:
                for row, part in zip(rows, _singles(parts), strict=True):
                    self._update_one(tensor, int(row), part, partial=partial)
            tensor.rows_updated(tensor.rows_of(rows))

    def _can_replace_many(self, tensor: TensorDraft, rows: RowNumbers, parts: Sequence[Encoded]) -> bool:
        """Return whether samples can be replaced chunk by chunk: the rows ascend and none is tiled."""
        where = np.asarray(rows, np.int64)
        if not bool((np.diff(where) > 0).all()) or any(part.tiled is not None for part in parts):
            return False
        flat = [hidden for hidden, link in self._companions.links(tensor, flat=True) if "update" in link]
        return tensor.can_replace_many(where) and all(
            hidden.can_replace_many(where)
            and not any(True for _ in self._companions.links(hidden, flat=True))
            for hidden in flat
        )

    def _replace_many(self, tensor: TensorDraft, rows: SampleNumbers, parts: Sequence[Encoded]) -> None:
        """Replace flat samples of ascending rows chunk by chunk; each chunk is rewritten once."""
        tensor.replace_many(rows, parts)
        if any(tells_names(part) for part in parts):
            tensor.record(diffs.with_info(tensor.diff))
        for hidden, link in self._companions.links(tensor, flat=True):
            if "update" in link:
                columns = [companion_column(link, p, hidden.meta, hidden.state.info) for p in parts]
                hidden.replace_many(rows, [p for column in columns for p in column.parts])
                hidden.record(diffs.with_updated(hidden.diff, rows))
        self._companions.mark_many(tensor, rows, parts)

    def _update_run(self, tensor: TensorDraft, first: int, parts: Sequence[Encoded]) -> None:
        """Replace neighbouring flat samples by one splice."""
        stop = first + sum(part.block.count for part in parts)
        self._replace_run(tensor, first, stop, parts, grows=False)
        if any(tells_names(part) for part in parts):
            tensor.record(diffs.with_info(tensor.diff))
        self._companions.mark_run(tensor, first, stop, parts)

    def _update_one(self, tensor: TensorDraft, row: int, part: Encoded, *, partial: bool) -> None:
        tensor.update(row, part)
        if tells_names(part):
            tensor.record(diffs.with_info(tensor.diff))
        for hidden, link in self._companions.links(tensor, flat=True):
            if "update" not in link:
                continue
            if partial and link.get("extend") == "extend_info":
                column = info_after_part_update(hidden.stored(row), hidden.meta)
            else:
                column = companion_column(link, part, hidden.meta, hidden.state.info)
            for new in column.parts:
                self._update_one(hidden, row, new, partial=False)
                hidden.record(diffs.with_updated(hidden.diff, [row]))
        if tensor.state.sequence is None:
            is_null = part.nulls is not None and bool(part.nulls[0])
            self._companions.mark_null(tensor, row, is_null=is_null)

    def write_tiles(self, key: str, flat_row: int, tiles: Mapping[int, bytes | memoryview]) -> None:
        """Overwrite tiles of a tiled sample, by number in C order of the grid, with their stored bytes."""
        tensor = self._tensors[key]
        with self._tensors.changing():
            tensor.write_tiles(flat_row, tiles)
            for hidden, link in self._companions.links(tensor, flat=True):
                if link.get("extend") == "extend_info":
                    (new,) = info_after_part_update(hidden.stored(flat_row), hidden.meta).parts
                    hidden.update(flat_row, new)
                    hidden.record(diffs.with_updated(hidden.diff, [flat_row]))
            tensor.rows_updated(tensor.rows_of([flat_row]))

    def pad(self, key: str, count: int, ids: NDArray[np.uint64] | None = None) -> None:
        """Append empty samples as padding for rows without given values (format.md 4.6).

        Parameters
        ----------
        ids
            Sample ids of the padding rows, uint64, shape (count,); None makes new ones.
        """
        tensor = self._tensors[key]
        meta, before = tensor.meta, tensor.state.length
        if tensor.state.sequence is not None:
            column = Column([], np.zeros(count, np.int64))
        else:
            column = encode_column([None] * count, meta, tensor.state.info, meta.name or key)
            parts = [replace(p, nulls=None) for p in column.parts]
            column = replace(column, parts=parts)
        self.extend({key: column})
        tensor.rows_padded(range(before, before + count))
        for hidden, link in self._companions.links(tensor, flat=False) if ids is not None else ():
            if link.get("extend") == "extend_id" and ids is not None:
                block = Block(memoryview(ids.tobytes()), count, 8, (1,))
                hidden.splice(before, before + count, [Encoded(block, hidden.meta)])

    def retype(self, key: str, meta: TensorMeta, info: Mapping[str, Any], parts: Iterable[Encoded]) -> None:
        """Replace the samples of a tensor by the same samples in another type.

        The tensor must hold neither links nor sequences.

        Parameters
        ----------
        meta, info
            New settings and new info of the tensor.
        parts
            All samples, in the new type. The tensor is replaced after the last part; until then, only new chunks are
            written.
        """
        old = self._tensors[key]
        new = self._like(old, meta, info)
        shapes = {
            hidden.state.key: (self._like(hidden, hidden.meta, hidden.state.info), link)
            for hidden, link in self._companions.links(old, flat=True)
            if link.get("extend") in ("extend_shape", "extend_len")
        }
        marks = [np.zeros(0, np.bool_)]
        for part in parts:
            new.append(part)
            marks.append(np.zeros(part.block.count, np.bool_) if part.nulls is None else part.nulls)
            for hidden, link in shapes.values():
                for each in companion_column(link, part, hidden.meta, hidden.state.info).parts:
                    hidden.append(each)
        with self._tensors.changing():
            for tensor in (new, *(hidden for hidden, _ in shapes.values())):
                self._schema.put_tensor(tensor)
                tensor.record(diffs.with_transformed(tensor.diff))
            if dict(info) != dict(old.state.info):
                new.record(diffs.with_info(new.diff))
            if htype_named(meta.htype).storing is not Storing.ARRAY:
                # A null among numbers is an empty sample; in other tensors a null needs a mark.
                nulls = np.concatenate(marks)
                self._companions.mark_all(new, nulls, make=bool(nulls.any()))

    def _like(self, tensor: TensorDraft, meta: TensorMeta, info: Mapping[str, Any]) -> TensorDraft:
        """Return a tensor without samples to replace another."""
        return self._tensors.new(
            tensor.state.with_(
                meta=meta.with_(length=0, min_shape=(), max_shape=()),
                info=dict(info),
                table=empty_table(),
                tiles=TileIndex.empty(),
            )
        )

    # -- removing samples --------------------------------------------------------------------------------------

    def pop(self, key: str, rows: RowNumbers) -> None:
        """Remove rows, given in any order, each once."""
        gone = np.sort(np.asarray(rows, np.int64))
        if not len(gone):
            return
        with self._tensors.changing():
            self._pop(self._tensors[key], gone)

    def _pop(self, tensor: TensorDraft, rows: SampleNumbers) -> None:
        flat = tensor.remove_rows(rows, self._companions.ids(tensor, rows))
        for hidden, _ in self._companions.links(tensor, flat=False):
            self._pop(hidden, rows)
        nulls = self._companions.null_tensor(tensor, make=False)
        if nulls is not None:
            self._pop(nulls, rows[rows < nulls.meta.length])
        self._pop_flat(tensor, flat)

    def _pop_flat(self, tensor: TensorDraft, flat: SampleNumbers) -> None:
        if len(flat) >= rewriting.MANY:
            tensor.remove_many(flat)
        else:
            tensor.remove(flat.tolist())
        for hidden, _ in self._companions.links(tensor, flat=True):
            hidden.record(diffs.with_removed(hidden.diff, flat, None))
            self._pop_flat(hidden, flat)

    def clear(self, key: str) -> None:
        """Drop all samples of a tensor and its companions; settings stay, the info goes (format.md 6.5)."""
        with self._tensors.changing():
            self._clear(self._tensors[key])

    def _clear(self, tensor: TensorDraft) -> None:
        tensor.record(diffs.with_cleared(tensor.diff))
        tensor.clear()
        nulls = self._companions.null_tensor(tensor, make=False)
        for hidden in [h for k in tensor.meta.links if (h := self._tensors.get(k)) is not None]:
            self._clear(hidden)
        if nulls is not None:
            self._clear(nulls)

    # -- all samples at once -----------------------------------------------------------------------------------

    def identities(self, key: str) -> Identities:
        """Return the ids of a tensor's rows, before all its rows are replaced."""
        tensor = self._tensors[key]
        hidden = [each for flat in (True, False) for each, _ in self._companions.links(tensor, flat=flat)]
        ids = self._companions.ids(tensor, range(tensor.state.length))
        return Identities(
            tensor.state.length,
            tensor.meta.length,
            None if ids is None else ids.copy(),
            {each.state.key: each.diff for each in (tensor, *hidden)},
            dict(tensor.state.info),
        )

    def replaced(self, key: str, before: Identities) -> None:
        """Record that all rows of a tensor were replaced; it was cleared and filled with the same number of rows."""
        tensor, more = self._tensors[key], self._tensors[key].meta.length - before.samples
        with self._tensors.changing():
            diff = diffs.with_resized(before.diffs[key], 0, more)
            is_told = tensor.meta.htype == "class_label" or dict(tensor.state.info) != before.info
            tensor.record(diffs.with_info(diff) if is_told else diff)
            tensor.rows_updated(np.arange(before.rows))
            for hidden, _ in self._companions.links(tensor, flat=True):
                old = before.diffs.get(hidden.state.key)
                if old is not None:
                    diff = diffs.with_resized(old, 0, more)
                    hidden.record(diffs.with_updated(diff, np.arange(hidden.meta.length)))
            for hidden, link in self._companions.links(tensor, flat=False):
                if link.get("extend") == "extend_id" and before.ids is not None:
                    block = Block(memoryview(before.ids.tobytes()), before.rows, 8, (1,))
                    hidden.splice(0, before.rows, [Encoded(block, hidden.meta)])
                    hidden.record(before.diffs[hidden.state.key])

    def rechunk(self, key: str) -> None:
        """Merge neighbouring small chunks of a tensor and its companions."""
        tensor = self._tensors[key]
        with self._tensors.changing():
            for each in [tensor, *(self._tensors[k] for k in tensor.meta.links if k in self._tensors)]:
                each.rechunk()
                each.record(each.diff)


def tells_names(part: Encoded) -> bool:
    """Return whether added samples count as a change of the tensor's info, as class labels do (format.md 10.2)."""
    return bool(part.info) or part.meta.htype == "class_label"


def _singles(parts: Iterable[Encoded]) -> list[Encoded]:
    """Split parts into one per sample."""
    return [single for part in parts for single in part.singles()]
