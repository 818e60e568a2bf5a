"""Stored samples of one tensor -> columns for another of the same kind, without decoding them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.tiling import boxes
from lakebed.codecs.base import Buffer
from lakebed.codecs.block import Block, join_samples
from lakebed.codecs.registry import byte_codec, file_codec
from lakebed.htypes.documents import decode_document
from lakebed.reading.samples import SampleReader
from lakebed.reading.subscripts import Rows
from lakebed.versions.state import TensorState
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Column, Encoded, Tiled

Companion = Callable[[str], SampleReader | None]
"""Function that returns the reader of a hidden companion: ``id``, ``shape``, ``info``, ``null``."""

# Maximum number of bytes of samples in memory at a time.
_BATCH_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """Tensor from which samples are taken."""

    reader: SampleReader
    companion: Companion
    pad: bool = False
    """Whether rows beyond the end are empty samples."""


def stretches(rows: NDArray[np.int64], length: int) -> Iterator[tuple[NDArray[np.int64], bool]]:
    """Yield runs of rows of which all or none are below ``length``, and whether they are."""
    exists = rows < length
    for first, stop in pairwise([0, *(np.flatnonzero(np.diff(exists)) + 1).tolist(), len(rows)]):
        if first < stop:
            yield rows[first:stop], bool(exists[first])


def empty(count: int, like: TensorState, target: TensorState) -> Column:
    """Return empty samples for a tensor, with the axes of the samples of another."""
    column = encode_column([None] * count, like.meta, like.info, target.meta.name or target.key)
    return Column([replace(part, meta=target.meta) for part in column.parts], column.items)


def columns(source: Source, rows: Rows, target: TensorState) -> Iterator[Column]:
    """Yield rows as columns of bounded size for a tensor with the same settings.

    Parameters
    ----------
    rows
        Row numbers; a row of sequences is a whole sequence.
    target
        The tensor that receives the samples; its metadata goes into the columns.
    """
    rows = np.asarray(rows, dtype=np.int64)
    runs = stretches(rows, source.reader.state.length) if source.pad else [(rows, True)]
    for some, exist in runs:
        if exist:
            yield from _stored(source, some, target)
        else:
            yield empty(len(some), source.reader.state, target)


def _stored(source: Source, rows: NDArray[np.int64], target: TensorState) -> Iterator[Column]:
    sequence = source.reader.state.sequence
    for batch in _batches(source.reader.state, rows):
        if sequence is None:
            yield Column(_parts(source, batch, target))
            continue
        spans = [sequence.span(int(row)) for row in batch]
        flat = np.concatenate([np.zeros(0, np.int64), *[np.arange(a, b) for a, b in spans]])
        yield Column(_parts(source, flat, target), np.array([b - a for a, b in spans], dtype=np.int64))


def _batches(state: TensorState, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    stored = state.table.stored_bytes or state.meta.chunk_size * len(state.table)
    step = max(1, int(_BATCH_BYTES * max(state.length, 1) // max(stored, 1)))
    for first in range(0, len(rows), step):
        yield rows[first : first + step]


def _parts(source: Source, flat: NDArray[np.int64], target: TensorState) -> list[Encoded]:
    """Return flat samples as encoded parts; consecutive samples that are not tiled share a part."""
    tiled = set(source.reader.state.tiles.indices.tolist()) if len(source.reader.state.tiles) else set()
    parts: list[Encoded] = []
    run: list[int] = []
    for row in flat.tolist():
        if row not in tiled:
            run.append(row)
            continue
        parts += _run(source, run, target)
        parts.append(_tiled(source, row, target))
        run = []
    return parts + _run(source, run, target)


def _run(source: Source, rows: list[int], target: TensorState) -> list[Encoded]:
    if not rows:
        return []
    run = range(rows[0], rows[0] + len(rows))
    wanted = run if rows == list(run) else np.array(rows)
    with source.reader.prefetch(wanted):
        raw = [(bytes(data), shape) for _, data, shape in source.reader.many(wanted)]
    ndim = next((len(shape) for _, shape in raw if shape is not None), None)
    shapes = None
    if ndim is not None:
        shapes = np.array([(0,) * ndim if shape is None else shape for _, shape in raw], dtype=np.uint32)
    block = join_samples([data for data, _ in raw], shapes)
    return [_encoded(source, rows, target, block)]


def _encoded(source: Source, rows: list[int], target: TensorState, block: Block) -> Encoded:
    nulls = creds = None
    null = source.companion("null")
    if null is not None:
        known = [row for row in rows if row < null.state.length]
        nulls = np.zeros(len(rows), np.bool_)
        if known:
            nulls[: len(known)] = [bool(null.value(row).any()) for row in known]
    if source.reader.state.creds is not None:
        creds = source.reader.state.creds.values()[rows].astype(np.uint32)
    return Encoded(
        block,
        target.meta,
        nulls=nulls,
        infos=_infos(source, rows),
        shapes=_shapes(source, rows),
        creds=creds,
        pixels=lambda i: np.asarray(source.reader.value(rows[i])),
    )


def _infos(source: Source, rows: list[int]) -> list[dict[str, Any]] | None:
    reader = source.companion("info")
    if reader is None:
        return None
    return [decode_document(bytes(data)) if len(data) else {} for _, data, _ in reader.many(np.array(rows))]


def _shapes(source: Source, rows: list[int]) -> list[tuple[int, ...]] | None:
    """Return the recorded shapes of linked data; None for other samples, whose encoded blocks hold the shapes."""
    reader = source.companion("shape")
    if reader is None or not source.reader.state.meta.is_link:
        return None
    return [tuple(int(extent) for extent in reader.value(row)) for row in rows]


def _tiled(source: Source, row: int, target: TensorState) -> Encoded:
    reader = source.reader
    if reader.state.meta.is_link:
        data, shape = reader.raw(row, decompress=False)
        sample_shape, tile_shape = reader.state.tiles.entries[row]
        block = Block(memoryview(bytes(data)), 1, len(data), shape)
        tiled = Tiled(sample_shape, tile_shape, lambda: iter(()))
        return replace(_encoded(source, [row], target, block), tiled=tiled)
    sample = reader.tiles_of(row, int(reader.locate(range(row, row + 1))[0][0]))
    if sample is None:  # the entry in the tile index is outdated
        return _run(source, [row], target)[0]
    extents = [tuple(s.stop - s.start for s in box) for box in boxes(sample.shape, sample.tile_shape)]

    def tiles() -> Iterator[tuple[tuple[int, ...], bytes]]:
        for number, extent in enumerate(extents):
            data = sample.content(number)
            yield extent, bytes(chunk_bytes(data, extent, target)) if len(data) else b""

    block = Block(memoryview(b""), 1, 0, sample.shape)
    return replace(
        _encoded(source, [row], target, block), tiled=Tiled(sample.shape, sample.tile_shape, tiles)
    )


def chunk_bytes(data: Buffer, shape: tuple[int, ...], state: TensorState) -> Buffer:
    """Return the bytes of a tile with compression by chunk applied."""
    name = state.meta.chunk_compression
    files = file_codec(name)
    if files is not None:
        return files.encode(np.frombuffer(data, state.meta.dtype).reshape(shape))
    codec = byte_codec(name)
    return data if codec is None else codec.encode(data)
