"""Hidden tensors that follow the tensor that feeds them: ids, shapes, file facts, pyramids, nulls (format.md 8)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.documents import json_style
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import InvalidOperationError
from lakebed.htypes.arrays import block_of_array, encode_samples
from lakebed.htypes.base import Storing
from lakebed.htypes.documents import encode_json
from lakebed.htypes.registry import htype_named
from lakebed.native import order
from lakebed.writing import diffs, rewriting
from lakebed.writing.diffs import RowNumbers
from lakebed.writing.draft.schema import DraftSchema
from lakebed.writing.draft.tensor import TensorDraft
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.names import companion, companion_key
from lakebed.writing.replace_samples import SampleNumbers

_INT64 = np.dtype("<i8")
_MASKS = ("binary_mask", "segment_mask")

# An image gets no smaller copy if it has at most this many pixels, times the square of the factor.
_SMALL = 100


class DraftCompanions:
    """The hidden tensors of a draft, by the tensor that feeds them."""

    __slots__ = ("_schema", "_tensors")

    def __init__(self, schema: DraftSchema) -> None:
        self._schema = schema
        self._tensors = schema.tensors

    def links(self, tensor: TensorDraft, *, flat: bool) -> Iterable[tuple[TensorDraft, Mapping[str, Any]]]:
        """Yield the hidden tensors that a tensor feeds: one entry per flat sample, or one per row."""
        for key, link in tensor.meta.links.items():
            if key in self._tensors and bool(link.get("flatten_sequence", False)) is flat:
                yield self._tensors[key], link

    def row_ids(self, key: str, rows: RowNumbers) -> NDArray[np.uint64] | None:
        """Return the sample ids of rows: uint64, shape (rows,); None if the tensor has none."""
        return self.ids(self._tensors[key], rows)

    def ids(self, tensor: TensorDraft, rows: RowNumbers) -> NDArray[np.uint64] | None:
        """Return the sample ids of rows of a tensor; see :meth:`row_ids`."""
        for hidden, link in self.links(tensor, flat=False):
            if link.get("extend") == "extend_id":
                if len(rows) >= rewriting.MANY:
                    return hidden.stored_many(np.asarray(rows, np.int64)).view(np.uint64)
                stored = b"".join(bytes(hidden.stored(int(row))) for row in rows)
                return np.frombuffer(stored, np.uint64)
        return None

    # -- nulls -------------------------------------------------------------------------------------------------

    def can_keep_nulls(self, tensor: TensorDraft) -> bool:
        """Return whether the nulls of a tensor are recorded, or could be because the name of the record is free."""
        owner, meta = tensor.meta.name or tensor.state.key, self._schema.meta
        if companion_key(meta, owner, "null") is not None:
            return True
        return companion(owner, "null") not in meta.tensor_names

    def null_tensor(self, tensor: TensorDraft, *, make: bool) -> TensorDraft | None:
        """Return the hidden tensor that records nulls, created if wanted; None if it does not exist."""
        owner = tensor.meta.name or tensor.state.key
        name = companion(owner, "null")
        key = companion_key(self._schema.meta, owner, "null")
        if key is None and not make:
            return None
        if key is None and name in self._schema.meta.tensor_names:
            raise InvalidOperationError(
                f"nulls of tensor {owner!r} need the name {name!r}: rename that tensor first"
            )
        if key is None:
            meta = TensorMeta(htype="generic", dtype="bool", hidden=True)
            self._schema.add_tensor(name, meta, htype_named("generic").info, ())
            key = self._schema.meta.tensor_names[name]
        return self._tensors[key]

    def extend_nulls(self, tensor: TensorDraft, nulls: NDArray[np.bool_], before: int) -> None:
        """Record nulls in the hidden companion, which the first null creates; it may end before its tensor."""
        hidden = self.null_tensor(tensor, make=True)
        if hidden is None:
            return
        missing = before - hidden.meta.length
        mask = np.concatenate([np.zeros(missing, dtype=np.bool_), nulls]) if missing else nulls
        _extend(hidden, mask)

    def mark_nulls(self, key: str, rows: Iterable[int], marks: NDArray[np.bool_]) -> None:
        """Record whether rows are nulls; rows beyond the end of the companion must be in ascending order."""
        for row, is_null in zip(rows, marks.tolist(), strict=True):
            self.mark_null(self._tensors[key], row, is_null=is_null)

    def add_null_marks(self, key: str, marks: NDArray[np.bool_]) -> None:
        """Record whether the rows that were just added are nulls."""
        tensor = self._tensors[key]
        if marks.any() or self.null_tensor(tensor, make=False) is not None:
            self.extend_nulls(tensor, marks, tensor.state.length - len(marks))

    def mark_null(self, tensor: TensorDraft, row: int, *, is_null: bool) -> None:
        """Record whether a row is a null."""
        hidden = self.null_tensor(tensor, make=is_null)
        if hidden is None:
            return
        if row < hidden.meta.length:
            (mask,) = null_column(np.array([is_null]), hidden.meta).parts
            hidden.update(row, mask)
            hidden.record(diffs.with_updated(hidden.diff, [row]))
        elif is_null:
            self.extend_nulls(tensor, np.array([True]), row)

    def mark_many(self, tensor: TensorDraft, rows: SampleNumbers, parts: Sequence[Encoded]) -> None:
        """Record whether ascending rows are nulls, before their samples are replaced."""
        nulls = self.null_tensor(tensor, make=_has_nulls(parts))
        if tensor.state.sequence is not None or nulls is None:
            return
        marks, known = null_mask(parts), nulls.meta.length
        if marks[rows >= known].any():
            # Rows beyond the end of the null companion are not null.
            _extend(nulls, np.zeros(int(rows[-1]) + 1 - known, np.bool_))
        inside = rows < nulls.meta.length
        if inside.any():
            nulls.replace_many(rows[inside], null_column(marks[inside], nulls.meta).parts)
            nulls.record(diffs.with_updated(nulls.diff, rows[inside]))

    def mark_run(self, tensor: TensorDraft, first: int, stop: int, parts: Sequence[Encoded]) -> None:
        """Record whether neighbouring rows are nulls, before their samples are replaced."""
        nulls = self.null_tensor(tensor, make=_has_nulls(parts))
        if tensor.state.sequence is not None or nulls is None:
            return
        missing = stop - nulls.meta.length
        if missing > 0:
            _extend(nulls, np.zeros(missing, np.bool_))
        nulls.splice(first, stop, null_column(null_mask(parts), nulls.meta).parts)

    def mark_all(self, tensor: TensorDraft, marks: NDArray[np.bool_], *, make: bool) -> None:
        """Record whether each row is a null; ``make`` creates the hidden tensor if it is missing."""
        nulls = self.null_tensor(tensor, make=make)
        if nulls is not None:
            diff = nulls.diff
            nulls.clear()
            for part in null_column(marks, nulls.meta).parts:
                nulls.append(part)
            nulls.record(diffs.with_transformed(diff))

    def keep_absent(self, tensor: TensorDraft, largest: tuple[int, ...], *, as_lists: bool = False) -> None:
        """Record absent numbers as nulls before the tensor gets samples other than single numbers.

        An empty sample means a null among single numbers, and an empty array among arrays.

        Parameters
        ----------
        largest
            Shape of the largest sample that is about to be added.
        as_lists
            Whether the tensor holds lists of numbers from now on, even of length one.
        """
        if tuple(largest) <= (1,) and not as_lists:
            return
        if tensor.meta.length and self.may_hold_absent(tensor):
            self.mark_all(tensor, tensor.extents()[:, 0] == 0, make=True)

    @staticmethod
    def may_hold_absent(tensor: TensorDraft) -> bool:
        """Return whether a tensor holds single numbers, and empty samples that stand for absent ones."""
        meta = tensor.meta
        if meta.max_shape != (1,) or meta.min_shape != (0,) or tensor.state.sequence is not None:
            return False
        if htype_named(meta.htype).storing is not Storing.ARRAY or meta.is_link:
            return False
        return "list<" not in str(tensor.state.info.get("logical_type"))


def null_mask(parts: Iterable[Encoded]) -> NDArray[np.bool_]:
    """Return a mask of the samples that are nulls."""
    masks = [np.zeros(p.block.count, np.bool_) if p.nulls is None else p.nulls for p in parts]
    return np.concatenate([np.zeros(0, np.bool_), *masks])


def _has_nulls(parts: Iterable[Encoded]) -> bool:
    return any(part.nulls is not None and bool(part.nulls.any()) for part in parts)


def _extend(nulls: TensorDraft, marks: NDArray[np.bool_]) -> None:
    diff = diffs.with_added(nulls.diff, len(marks))
    for part in null_column(marks, nulls.meta).parts:
        nulls.append(part, diff)


def id_column(rows: int, meta: TensorMeta) -> Column:
    """Return random ids, one per row.

    The system's random numbers only seed them: taking all ids from the system would make storing numbers twice as slow.
    """
    start, key = struct.unpack("<QQ", os.urandom(16))
    block = Block(order.distinct(rows, start, key).data.cast("B"), rows, 8, (1,))
    return Column([Encoded(block, meta.with_(htype="generic", dtype="uint64", typestr="<u8"))])


def null_column(nulls: NDArray[np.bool_], meta: TensorMeta) -> Column:
    """Return a mask for a hidden ``_null`` tensor."""
    return Column([Encoded(block_of_array(nulls), meta)])


def companion_column(
    link: Mapping[str, Any], part: Encoded, meta: TensorMeta, info: Mapping[str, Any]
) -> Column:
    """Return the entries for some samples in a hidden tensor with one entry per flat sample.

    Parameters
    ----------
    link
        The entry of the hidden tensor in ``links``, which names the function that computes its content.
    meta, info
        Metadata and info of the hidden tensor.
    """
    kind = str(link.get("extend", "")).removeprefix("extend_")
    if kind in ("shape", "len"):
        return Column([Encoded(shape_block(part), meta)])
    if kind == "info":
        infos = part.infos if part.infos is not None else [{}] * part.block.count
        return Column([Encoded(encode_json(infos), meta)])
    if kind == "downsample":
        return _downsampled(part, meta, info)
    return Column([])


def shape_block(part: Encoded) -> Block:
    """Return the shapes of samples as int64 vectors."""
    block = part.block
    if part.shapes is not None:
        return encode_samples([np.array(s or (0,), _INT64) for s in part.shapes], _INT64, 1)[0]
    if block.shapes is None:
        return block_of_array(np.zeros((block.count, 1), dtype=_INT64))
    if isinstance(block.shapes, tuple):
        shapes = np.empty((block.count, len(block.shapes)), _INT64)
        shapes[:] = block.shapes
        return block_of_array(shapes)
    return block_of_array(block.shapes.astype(_INT64))


def _downsampled(part: Encoded, meta: TensorMeta, info: Mapping[str, Any]) -> Column:
    factor = int(info.get("downsampling_factor", 2))
    pixels = part.pixels
    smaller = [
        None if pixels is None else downsample(pixels(i), meta.htype or "image", factor)
        for i in range(part.block.count)
    ]
    column = encode_column(smaller, meta, info, meta.name or "")
    # The next smaller layer is computed from this one.
    return replace(column, parts=[_with_pixels(p, smaller) for p in column.parts])


def _with_pixels(part: Encoded, arrays: list[Any]) -> Encoded:
    def pixels(i: int) -> NDArray[Any]:
        return np.empty((0, 0, 0), dtype=np.uint8) if arrays[i] is None else np.asarray(arrays[i])

    return replace(part, pixels=pixels)


def downsample(array: NDArray[Any], htype: str, factor: int) -> NDArray[Any]:
    """Reduce an image of shape (H, W) or (H, W, C) to (H // factor, W // factor[, C]).

    Images are averaged bilinearly, masks take the nearest pixel; booleans, and dtypes that Pillow lacks, are sampled
    with a stride. An image that would become too small gives an empty array of the same rank.
    """
    if array.ndim not in (2, 3) or array.size == 0:
        return _empty(array)
    height, width = array.shape[:2]
    low, narrow = height // factor, width // factor
    if width * height <= _SMALL * factor**2 or not low or not narrow:
        return _empty(array)
    if array.dtype == np.bool_:
        return array[::factor, ::factor]
    if htype in _MASKS:
        return array[_nearest(height, low)[:, np.newaxis], _nearest(width, narrow)]
    from PIL import Image

    squeezed = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    try:
        image = Image.fromarray(np.ascontiguousarray(squeezed))
        smaller = np.asarray(image.resize((narrow, low), Image.Resampling.BILINEAR), dtype=array.dtype)
    except (TypeError, ValueError):
        return array[::factor, ::factor][:low, :narrow]
    return smaller.reshape(*smaller.shape[:2], 1) if squeezed is not array else smaller


def _nearest(extent: int, smaller: int) -> NDArray[np.int64]:
    """Return for each pixel of the smaller axis the position of the pixel nearest to its middle."""
    middles = (np.arange(smaller) + 0.5) * (extent / smaller)
    return np.minimum(middles.astype(np.int64), extent - 1)


def _empty(array: NDArray[Any]) -> NDArray[Any]:
    return np.empty((0,) * array.ndim, dtype=array.dtype)


def info_after_part_update(stored: bytes | memoryview, meta: TensorMeta) -> Column:
    """Return the entry of an ``_info`` tensor after a part of its sample was overwritten."""
    info = json_style.load_object(stored, "the sample's entry in _info") if len(stored) else {}
    if "modified" in info:
        info["modified"] = True
    return Column([Encoded(encode_json([info]), meta)])
