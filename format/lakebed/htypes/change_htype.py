"""Giving a tensor with samples another htype: ``tensor.htype = "bbox"`` (API.md 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    IncompatibleHtypeError,
    InvalidInputError,
    UnsupportedCompressionError,
)
from lakebed.htypes.registry import BOXES, full_name, htype_named

_FROM = ("generic", "image")
_PICTURES = ("image", "binary_mask", "segment_mask")
_CHANNELS = (1, 3, 4)
_TO = (*_PICTURES, *BOXES, "class_label", "tag", "instance_label", "keypoints_coco", "point", "embedding")

Shape = tuple[int | None, ...]


def converted(meta: TensorMeta, info: Mapping[str, Any], htype: Any) -> tuple[TensorMeta, Mapping[str, Any]]:
    """Return metadata and info of a tensor with another htype; stored samples stay as they are.

    Raises
    ------
    TensorMetaInvalidHtype
        If the htype does not exist.
    InvalidInputError
        If the new htype is a sequence or a link.
    NotImplementedError
        If no conversion from the old htype, or to the new htype, exists.
    UnsupportedCompressionError
        If the new htype does not take the tensor's compression.
    IncompatibleHtypeError
        If the new htype does not take the shape or the dtype of the samples.
    """
    if isinstance(htype, str) and htype.partition("[")[0] in ("sequence", "link"):
        raise InvalidInputError("Cannot change htype to a sequence or link.")
    kind = htype_named(str(htype) or "none")
    if meta.is_sequence or meta.is_link or meta.htype not in _FROM:
        old = full_name(meta.htype, is_sequence=meta.is_sequence, is_link=meta.is_link)
        raise NotImplementedError(f"Changing the htype of a tensor of htype {old} is not supported.")
    if kind.name not in _TO:
        raise NotImplementedError(f"Changing the htype to {kind.name} is not supported.")
    for compression in (meta.sample_compression, meta.chunk_compression):
        if compression is not None and kind.compressions is not None and compression not in kind.compressions:
            raise UnsupportedCompressionError(
                f"Compression {compression!r} is not supported for {kind.name} htype."
            )
    _check(meta, kind.name)
    return meta.with_(htype=kind.name), info


def _check(meta: TensorMeta, htype: str) -> None:
    if htype == "tag" or (htype == "embedding" and meta.dtype != "float32"):
        raise IncompatibleHtypeError(f"Incompatible dtype of tensor for htype {htype}: {meta.dtype}")
    shape = _shape(meta)
    ranks = {"class_label": (2,), "keypoints_coco": (3,), "point": (3,)}
    allowed = (3, 4) if htype in _PICTURES else (2, 3) if htype in BOXES else ranks.get(htype)
    if allowed is not None and len(shape) not in allowed:
        raise IncompatibleHtypeError(f"Incompatible number of dimensions for htype {htype}: {len(shape)}")
    fits = (
        shape[-1] == BOXES[htype]
        if htype in BOXES
        else shape[1] is None or shape[1] % 3 == 0
        if htype == "keypoints_coco"
        else shape[-1] in (2, 3)
        if htype == "point"
        else shape[-1] in _CHANNELS
        if htype == "image" and len(shape) == 4
        else True
    )
    if not fits:
        raise IncompatibleHtypeError(f"Incompatible shape of tensor for htype {htype}: {shape}")


def _shape(meta: TensorMeta) -> Shape:
    """Return the shape of the tensor, the sample axis included; None for an axis in which samples differ."""
    axes = (low if low == high else None for low, high in zip(meta.min_shape, meta.max_shape, strict=True))
    return (meta.length, *axes)
