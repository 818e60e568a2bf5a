"""Arrays, numbers and decoded files -> samples that are raw values or lz4 (format.md 5.3), and image chunks (5.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.image_chunk import ImageChunkCodec, chunk_codec
from lakebed.codecs.block import Block, empty_block, join_samples
from lakebed.codecs.images import pil_array
from lakebed.codecs.registry import byte_codec
from lakebed.codecs.sample import Sample
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import TensorDtypeMismatchError, TensorInvalidSampleShapeError
from lakebed.htypes.arrays import as_sample, block_of_array, is_numeric, stacked_numbers
from lakebed.htypes.dtypes import cast
from lakebed.htypes.images import converted, converted_file, is_pil, padded, padded_shape
from lakebed.htypes.partial import PartialSample
from lakebed.native import gather as native
from lakebed.writing.encode.encoded import Encoded, Samples
from lakebed.writing.encode.spec import TensorSpec, with_dtype
from lakebed.writing.encode.tiles import encode_partial, encode_tiled, tile_shape_of

# Arrays of at least this many bytes are written without a copy.
_LARGE = 64_000

Info = Mapping[str, Any]


def encode_arrays(rows: Samples, meta: TensorMeta, kinds: set[type] | None = None) -> list[Encoded]:
    """Encode samples stacked along the first axis of an array, or one by one; ``kinds``: their types, if known.

    Raises
    ------
    TensorDtypeMismatchError, TensorInvalidSampleShapeError, SampleHtypeMismatchError, SampleCompressionError
        If a value fits neither the tensor's dtype, rank, htype nor its compression.
    """
    spec = TensorSpec(meta)
    if not is_numeric(rows) and not spec.converts:
        numbers = stacked_numbers(rows, kinds)
        if numbers is not None:
            if spec.dtype == np.bool_ and all(type(row) is bool for row in rows):
                numbers = numbers.astype(np.bool_)
            return _stacked(cast(numbers, spec.dtype, literal=True), spec, owned=True)
    if isinstance(rows, np.ndarray) and is_numeric(rows) and not spec.converts:
        array = cast(rows, spec.dtype, literal=False, by_value=spec.by_value)
        return _stacked(array, spec, owned=not np.may_share_memory(array, rows))
    if isinstance(rows, list) and not spec.converts and spec.image_chunks is None:
        gathered = _gathered(rows, spec)
        if gathered is not None:
            return gathered
    return list(_one_by_one(rows, spec))


# -- samples of one shape ----------------------------------------------------------------------------------------------


def _stacked(array: NDArray[Any], spec: TensorSpec, *, owned: bool) -> list[Encoded]:
    shape = tuple(array.shape[1:]) or (1,)
    if spec.ndim is None and len(shape) == 2 and spec.meta.sample_compression is None:
        spec.pads = False  # as in 3.x, the first grey images keep the shape (H, W) if they come as one array
    if spec.pads:
        shape = padded_shape(shape)
        array = array.reshape(len(array), *shape)
    spec.check_rank(shape, spec.ndim)
    if spec.image_chunks is not None:
        for sample in array:
            _check_image(spec, sample)
    meta = with_dtype(spec.meta, array.dtype)
    if len(array) and tile_shape_of(spec, shape, array.nbytes // len(array)) is not None:
        return list(_one_by_one(array, spec))
    block = compressed(block_of_array(array), meta)
    pixels = array.__getitem__ if "downsample" in spec.feeds else None
    return [Encoded(block, meta, owned=owned or meta.sample_compression is not None, pixels=pixels)]


# -- samples of many shapes --------------------------------------------------------------------------------------------


def _gathered(rows: list[Any], spec: TensorSpec) -> list[Encoded] | None:
    """Encode arrays of one dtype and rank, and None, at once; return None for other values and if one must be tiled."""
    first = next((row for row in rows if row is not None), None)
    if type(first) is not np.ndarray or first.ndim == 0 or (spec.pads and first.ndim < 3):
        return None
    dtype = first.dtype
    if not is_numeric(first) or dtype.byteorder == ">":
        return None
    if first.nbytes >= _LARGE and (spec.dtype is None or spec.dtype == dtype):
        return _in_place(rows, first, spec)
    found = native.gather_arrays(rows, dtype, first.ndim)
    if found is None:
        return None
    data, shapes, sizes = found
    if spec.dtype is not None and spec.dtype != dtype:
        try:
            flat = cast(data.view(dtype), spec.dtype, literal=False, by_value=spec.by_value)
        except TensorDtypeMismatchError:
            return None  # single values may still fit; if not, encoding one by one names the bad sample
        sizes = (sizes // dtype.itemsize * flat.itemsize).astype(np.uint32)
        data, dtype = flat.view(np.uint8), spec.dtype
    largest = int(sizes.max())
    if tile_shape_of(spec, tuple(int(n) for n in shapes[int(sizes.argmax())]), largest) is not None:
        return None
    spec.check_rank(first.shape, spec.ndim)
    meta = with_dtype(spec.meta, dtype)
    uniform = len(rows) == 1 or bool((shapes == shapes[0]).all())
    block = (
        Block(data.data, len(rows), int(sizes[0]), tuple(int(n) for n in shapes[0]))
        if uniform
        else Block(data.data, len(rows), sizes, shapes)
    )
    pixels = None
    if "downsample" in spec.feeds:
        empty = np.empty((0,) * first.ndim, dtype)
        pixels = [empty if row is None else row for row in rows].__getitem__
    return [Encoded(compressed(block, meta), meta, pixels=pixels)]


def _in_place(rows: list[Any], first: NDArray[Any], spec: TensorSpec) -> list[Encoded] | None:
    """Encode as :func:`_gathered` does, for large arrays, which are not copied before they are written."""
    for row in rows:
        if row is None:
            continue
        if type(row) is not np.ndarray or row.dtype != first.dtype or row.ndim != first.ndim:
            return None
        if not row.flags.c_contiguous or tile_shape_of(spec, row.shape, row.nbytes) is not None:
            return None
    spec.check_rank(first.shape, spec.ndim)
    meta = with_dtype(spec.meta, first.dtype)
    none = (0,) * first.ndim
    shapes = np.array([none if row is None else row.shape for row in rows], dtype=np.uint32)
    buffers = [b"" if row is None or row.size == 0 else memoryview(row).cast("B") for row in rows]
    block = Block.of_buffers(buffers, shapes.reshape(len(rows), first.ndim))
    empty = np.empty(none, first.dtype)
    pixels = [empty if row is None else row for row in rows].__getitem__
    compresses = meta.sample_compression is not None
    return [Encoded(compressed(block, meta), meta, owned=compresses, pixels=pixels)]


def _one_by_one(rows: Samples, spec: TensorSpec) -> Iterator[Encoded]:
    """Encode samples of any kind; each sample that must be tiled becomes a separate part."""
    run: list[NDArray[Any] | None] = []
    infos: list[Info] = []
    ndim, dtype = spec.ndim, spec.dtype
    for row in rows:
        if isinstance(row, PartialSample):
            yield from _run(run, infos, spec, dtype, ndim)
            part = encode_partial(row, spec)
            yield part
            spec = _after(part, spec)
            run, infos, dtype, ndim = [], [], spec.dtype, len(part.block.shapes or ())
            continue
        value, info = _value(row, spec, dtype)
        if value is None:
            run.append(None)
            infos.append({})
            continue
        dtype = value.dtype
        spec.check_rank(value.shape, ndim)
        ndim = value.ndim
        _check_image(spec, value)
        tile = tile_shape_of(spec, value.shape, value.nbytes)
        if tile is None:
            run.append(value)
            infos.append(info)
            continue
        yield from _run(run, infos, spec, dtype, ndim)
        part = encode_tiled(value, tile, spec, dict(info))
        yield part
        spec = _after(part, spec)
        run, infos = [], []
    yield from _run(run, infos, spec, dtype, ndim)


def _after(part: Encoded, spec: TensorSpec) -> TensorSpec:
    if part.meta is spec.meta:
        return spec
    after = TensorSpec(part.meta)
    after.pads = spec.pads
    return after


def _run(
    run: list[NDArray[Any] | None],
    infos: list[Info],
    spec: TensorSpec,
    dtype: np.dtype[Any] | None,
    ndim: int | None,
) -> Iterator[Encoded]:
    """Encode samples that are not tiled."""
    if not run:
        return
    kept = infos if any(infos) else None
    if ndim is None or dtype is None:
        yield Encoded(empty_block(len(run), ndim), spec.meta, infos=kept)
        return
    meta = with_dtype(spec.meta, dtype)
    found = native.gather_arrays(run, dtype, ndim)
    if found is None:  # never None here, because cast() and reshape() have made these arrays contiguous
        found = native.gather_arrays(
            [None if a is None else np.ascontiguousarray(a) for a in run], dtype, ndim
        )
    if found is None:
        raise TensorInvalidSampleShapeError(
            "internal error: samples that were to be joined are not contiguous"
        )
    data, shapes, sizes = found
    pixels = None
    if "downsample" in spec.feeds:
        pixels = [np.empty((0,) * ndim, dtype) if a is None else a for a in run].__getitem__
    yield Encoded(
        compressed(Block(data.data, len(run), sizes, shapes), meta), meta, infos=kept, pixels=pixels
    )


def _value(row: Any, spec: TensorSpec, dtype: np.dtype[Any] | None) -> tuple[NDArray[Any] | None, Info]:
    """Return the stored array of a sample (None for an empty one), and its entry in ``_info``."""
    info: Info = {}
    if row is None:
        return None, info
    if isinstance(row, Sample):
        info = sample_info(row, spec)
        row = converted_file(row, spec.htype.name) if spec.converts else row.array
    elif is_pil(row):
        row = pil_array(row)
    elif isinstance(row, list | tuple) and len(row) == 0:
        return None, info
    if spec.converts:
        array = as_sample(row, None, of_files=True)
        if dtype is not None and array.dtype != np.bool_:
            array = cast(array, dtype, literal=not hasattr(row, "dtype"), by_value=False)
        array = converted(array, spec.htype.name)
        value = cast(array, dtype, literal=False)
    else:
        value = as_sample(row, dtype, by_value=spec.by_value, of_files=spec.takes_files)
    return (padded(value) if spec.pads else value), info


def sample_info(sample: Sample, spec: TensorSpec) -> Info:
    """Return the entry of a file in the hidden ``_info`` tensor; empty if there is no such tensor."""
    if "info" not in spec.feeds:
        return {}
    return {**sample.meta, "modified": False}


# -- compression -------------------------------------------------------------------------------------------------------


def compressed(block: Block, meta: TensorMeta) -> Block:
    """Compress each sample by the tensor's byte compression, if it has one."""
    codec = byte_codec(meta.sample_compression)
    if codec is None:
        return block
    if block.buffers is not None:
        return join_samples([codec.encode(part) for part in block.buffers], block.shapes)
    at = block.offsets().tolist()
    parts = [codec.encode(block.data[a:b]) for a, b in pairwise(at)]
    return join_samples(parts, block.shapes)


def _check_image(spec: TensorSpec, array: NDArray[Any]) -> None:
    """Refuse, before the chunk is packed, a sample that does not fit into the chunks' images."""
    if spec.image_chunks is None:
        return
    codec = chunk_codec(spec.image_chunks.name, array.dtype)
    if isinstance(codec, ImageChunkCodec):
        codec.check(array)
