"""The part of a version in the making that takes new samples in, with what hidden companions record of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import InvalidOperationError
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named
from lakebed.writing import diffs
from lakebed.writing.draft.companions import companion_column, id_column, null_column
from lakebed.writing.draft.schema import SchemaDraft
from lakebed.writing.draft.tensor import TensorDraft
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.names import companion, companion_key

# Pending samples of all tensors together; beyond this they are written out.
SPILL_BYTES = 64_000_000
_TOGETHER = 16_000_000  # bytes of chunks that are packed before they are written


class AddingDraft(SchemaDraft):
    """A draft that takes in new samples."""

    # -- adding samples ----------------------------------------------------------------------------------------

    def extend(self, columns: Mapping[str, Column]) -> None:
        """Append encoded samples, by tensor key, to the tensors and their hidden companions.

        After an error some tensors may have their samples and others not: the draft must be given up.
        """
        if not any(column.count for column in columns.values()):
            return
        self.dirty = True
        for key, column in columns.items():
            self._extend_tensor(self.tensors[key], column)
        self._bound_memory()

    def _bound_memory(self) -> None:
        if sum(t.waiting_bytes for t in self.tensors.seen.values()) <= SPILL_BYTES:
            return
        tensors: list[TensorDraft] = []
        packed = 0
        for tensor in self.tensors.values():
            tensor.seal()
            tensors.append(tensor)
            packed += tensor.sealed_bytes
            if packed > _TOGETHER:
                self._spill_all(tensors)
                tensors, packed = [], 0
        self._spill_all(tensors)

    def _spill_all(self, tensors: Iterable[TensorDraft]) -> None:
        """Write the chunks of some tensors to storage in one batch."""
        files = {key: pieces for tensor in tensors for key, pieces in tensor.new_chunks.items()}
        if files:
            self._spill(files, is_rewrite=False)
        for tensor in tensors:
            tensor.let_go()

    def _extend_tensor(self, tensor: TensorDraft, column: Column) -> None:
        if column.items is None:
            self._keep_absent(tensor, column.parts)
        diff, before = diffs.touched(tensor.state), tensor.state.length
        for part in column.parts:
            self._extend_flat(tensor, part)
            if tells_names(tensor, part):
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
            if key in self.tensors and bool(link.get("flatten_sequence", False)) is flat:
                yield self.tensors[key], link

    # -- nulls -------------------------------------------------------------------------------------------------

    def _extend_nulls(self, tensor: TensorDraft, nulls: NDArray[np.bool_], before: int) -> None:
        """Record nulls in the hidden companion, made when the first null arrives; its end may lag behind."""
        hidden = self._null_tensor(tensor, make=True)
        if hidden is None:
            return
        missing = before - hidden.meta.length
        mask = np.concatenate([np.zeros(missing, dtype=np.bool_), nulls]) if missing else nulls
        self._extend_tensor(hidden, null_column(mask, hidden.meta))

    def _keep_absent(self, tensor: TensorDraft, parts: Iterable[Encoded]) -> None:
        if not _may_hold_absent(tensor):
            return
        parts = list(parts)
        bounds = [part.block.shape_bounds() for part in parts]
        as_lists = any("list<" in str(part.info.get("logical_type")) for part in parts)
        largest = max((bound[1] for bound in bounds if bound is not None), default=())
        self.keep_absent(tensor, largest, as_lists=as_lists)

    def keep_absent(self, tensor: TensorDraft, largest: tuple[int, ...], *, as_lists: bool = False) -> None:
        """Put absent numbers on record as nulls before the tensor holds more than single numbers.

        Among single numbers an empty sample is a null; among arrays it is an empty one.

        Parameters
        ----------
        largest
            Shape of the largest sample that is about to be added.
        as_lists
            Whether the tensor's numbers are lists of numbers from now on, however short.
        """
        meta = tensor.meta
        if not meta.length or not _may_hold_absent(tensor) or tensor.state.sequence is not None:
            return
        if htype_named(meta.htype).storing is not Storing.ARRAY or meta.is_link:
            return
        if "list<" in str(tensor.state.info.get("logical_type")):
            return
        if tuple(largest) <= (1,) and not as_lists:
            return
        absent = tensor.extents()[:, 0] == 0
        hidden = self._null_tensor(tensor, make=True)
        if hidden is not None:
            diff = diffs.touched(hidden.state)
            hidden.clear()
            for part in null_column(absent, hidden.meta).parts:
                hidden.append(part)
            self._record(hidden, diffs.with_transformed(diff))

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


def _may_hold_absent(tensor: TensorDraft) -> bool:
    """Whether a tensor has held single numbers, or samples without any, and nothing larger so far."""
    meta = tensor.meta
    return meta.max_shape == (1,) and meta.min_shape == (0,)


def tells_names(tensor: TensorDraft, part: Encoded) -> bool:
    """Whether samples count as a change of the tensor's info, as every class label does (FORMAT.md 10.2)."""
    return bool(part.info) or tensor.meta.htype == "class_label"
