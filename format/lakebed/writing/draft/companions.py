"""Values of the hidden tensors that a tensor feeds: ids, shapes, file facts, pyramids (FORMAT.md 8)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.documents import json_style
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.htypes.arrays import block_of_array, encode_samples
from lakebed.htypes.documents import encode_json
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.pyramid import downsample

_INT64 = np.dtype("<i8")


def id_column(rows: int, meta: TensorMeta) -> Column:
    """Return random ids, one per row."""
    block = Block(memoryview(os.urandom(8 * rows)), rows, 8, (1,))
    return Column([Encoded(block, meta.with_(htype="generic", dtype="uint64", typestr="<u8"))])


def null_column(nulls: NDArray[np.bool_], meta: TensorMeta) -> Column:
    """Return a mask for a hidden ``_null`` tensor."""
    return Column([Encoded(block_of_array(nulls), meta)])


def companion_column(
    link: Mapping[str, Any], part: Encoded, meta: TensorMeta, info: Mapping[str, Any]
) -> Column:
    """Return what a hidden tensor with one entry per flat sample records of some samples.

    Parameters
    ----------
    link
        The entry of ``links`` that names how the hidden tensor is fed.
    meta, info
        Those of the hidden tensor.
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
        return block_of_array(np.tile(np.array(block.shapes, dtype=_INT64), (block.count, 1)))
    return block_of_array(block.shapes.astype(_INT64))


def _downsampled(part: Encoded, meta: TensorMeta, info: Mapping[str, Any]) -> Column:
    factor = int(info.get("downsampling_factor", 2))
    pixels = part.pixels
    smaller = [
        None if pixels is None else downsample(pixels(i), meta.htype or "image", factor)
        for i in range(part.block.count)
    ]
    column = encode_column(smaller, meta, info, meta.name or "")
    # The next layer is made from this one.
    return replace(column, parts=[_with_pixels(p, smaller) for p in column.parts])


def _with_pixels(part: Encoded, arrays: list[Any]) -> Encoded:
    def pixels(i: int) -> NDArray[Any]:
        return np.empty((0, 0, 0), dtype=np.uint8) if arrays[i] is None else np.asarray(arrays[i])

    return replace(part, pixels=pixels)


def info_after_part_update(stored: bytes | memoryview, meta: TensorMeta) -> Column:
    """Return the entry of an ``_info`` tensor after a part of its sample was overwritten."""
    info = json_style.load_object(stored, "the sample's entry in _info") if len(stored) else {}
    if "modified" in info:
        info["modified"] = True
    return Column([Encoded(encode_json([info]), meta)])
