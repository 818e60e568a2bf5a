"""One tensor of a version in the making: samples wait as encoded blocks; *sealing* turns them into chunks."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lakebed.chunks.chunk import parse_chunk
from lakebed.chunks.pack import groups, pack
from lakebed.codecs.block import Block
from lakebed.codecs.registry import byte_codec
from lakebed.documents.chunk_ids import chunk_name
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.manifest import block_sums
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_prefix import FORMAT_VERSION
from lakebed.htypes.arrays import block_of_array
from lakebed.htypes.registry import htype_named
from lakebed.versions.state import NewChunk, TensorState, empty_table, folder_of

DEFAULT_MAX_CHUNK = 16_000_000

# A small last chunk is merged into the next one when that at least halves the number of bytes still to be merged, so
# each byte is rewritten a logarithmic number of times and a tensor keeps few small chunks.
_SMALL_TAIL = 1_000_000


Read = Callable[[TensorState, int], bytes | memoryview]
"""Fetches the chunk file of one row of a tensor's chunk table."""


class TensorDraft:
    """One tensor of a draft.

    Parameters
    ----------
    state
        The tensor as published, or as created.
    folder
        Id of the draft's version: where new chunks go.
    """

    def __init__(self, state: TensorState, folder: str) -> None:
        self.state = state
        self.pending: list[Block] = []
        self.pending_bytes = 0
        self.new_chunks: dict[str, tuple[bytes | memoryview, ...]] = {}
        self.sealed_bytes = 0
        self._folder = folder

    @property
    def meta(self) -> TensorMeta:
        return self.state.meta

    @property
    def chunk_limit(self) -> int:
        """Bytes of data per chunk (FORMAT.md 6)."""
        return (self.meta.max_chunk_size or DEFAULT_MAX_CHUNK) // 2

    def append(self, block: Block, meta: TensorMeta, info: Mapping[str, Any]) -> None:
        """Add samples; ``meta`` and ``info`` are what the tensor learned from them."""
        if block.count == 0:
            return
        state = self.state
        diff = touched(state)
        if info:
            diff = replace(diff, info_updated=True)
            state = replace(state, info={**state.info, **info})
        length = state.meta.length + block.count
        low, high = _bounds(state.meta, block)
        meta = meta.with_(length=length, min_shape=low, max_shape=high)
        self.state = replace(state, meta=meta, diff=replace(diff, last=length))
        self.pending.append(block)
        self.pending_bytes += _cost(block)

    def set_info(self, info: Mapping[str, Any]) -> None:
        """Replace the tensor's info."""
        diff = replace(touched(self.state), info_updated=True)
        self.state = replace(self.state, info=dict(info), diff=diff)

    def seal(self, read: Read | None, *, full_only: bool = False) -> None:
        """Turn pending blocks into chunks.

        Parameters
        ----------
        read
            Fetches a small last chunk, which is then merged in; None to leave it alone.
        full_only
            Keep what would become a last chunk with room left pending.
        """
        if not self.pending:
            return
        if read is not None:
            self._absorb_tail(read)
        runs = groups(self.pending, self.chunk_limit)
        rest = runs.pop() if full_only and runs else []
        codec = byte_codec(self.meta.chunk_compression)
        entries = []
        for run in runs:
            chunk = pack(run, codec)
            number = secrets.randbits(64) or 1
            self.new_chunks[self.chunk_key(number)] = chunk.pieces
            self.sealed_bytes += chunk.nbytes
            entries.append(NewChunk(number, chunk.count, chunk.nbytes, block_sums(chunk.pieces)))
        self.state = replace(
            self.state, table=self.state.table.extended(entries, (self._folder, self.state.key))
        )
        self.pending = rest
        self.pending_bytes = sum(_cost(block) for block in rest)

    def own_last(self) -> None:
        """Copy the bytes of the last block, if they wait: they are the caller's, who may change them after the call."""
        if self.pending:
            last = self.pending[-1]
            self.pending[-1] = replace(last, data=memoryview(bytes(last.data)))

    def chunk_key(self, number: int) -> str:
        """Storage key of a new chunk of this draft."""
        return f"{folder_of(self._folder)}{self.state.key}/chunks/{chunk_name(number)}"

    def _absorb_tail(self, read: Read) -> None:
        codec = byte_codec(self.meta.chunk_compression)
        while len(self.state.table):
            row = len(self.state.table) - 1
            size = int(self.state.table.places.sizes[row])
            waiting = sum(b.nbytes for b in self.pending)
            if size == 0 or size > min(_SMALL_TAIL, 2 * waiting + 4096) or size + waiting > self.chunk_limit:
                return
            table = self.state.table
            key = table.key(row)
            chunk = parse_chunk(read(self.state, row), table.samples(row), codec)
            # A chunk of empty texts looks like one whose data was never written; for text it is the same.
            if (chunk.is_unwritten and not htype_named(self.meta.htype).is_text_like) or chunk.count == 0:
                return
            sizes = np.diff(chunk.offsets()).astype(np.uint32)
            shapes = None if chunk.ndim is None else chunk.shapes()
            if chunk.uniform is not None:
                block = Block(chunk.data, chunk.count, chunk.uniform[1], chunk.uniform[0])
            else:
                block = Block(chunk.data, chunk.count, sizes, shapes)
            self.pending.insert(0, block)
            self.new_chunks.pop(key, None)
            self.state = replace(self.state, table=table.keep(row))


def _bounds(meta: TensorMeta, block: Block) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return min_shape and max_shape of a tensor with a block taken in (FORMAT.md 3)."""
    bounds = block.shape_bounds()
    if bounds is None:
        return tuple(meta.min_shape), tuple(meta.max_shape)
    low, high = bounds
    if not meta.max_shape:
        # Earlier samples without a rank are empty ones: they count as all zeros.
        return (low if meta.length == 0 else (0,) * len(low)), high
    return (
        tuple(min(a, b) for a, b in zip(meta.min_shape, low, strict=True)),
        tuple(max(a, b) for a, b in zip(meta.max_shape, high, strict=True)),
    )


def _cost(block: Block) -> int:
    """Bytes a block will take in a chunk: data and position rows."""
    return block.nbytes + (0 if isinstance(block.sizes, int) else 12 * block.count)


def touched(state: TensorState) -> CommitDiff:
    """Return the tensor's diff, a fresh one if nothing changed since the last commit (FORMAT.md 10.2)."""
    if state.diff is not None:
        return state.diff
    return CommitDiff(first=state.meta.length, last=state.meta.length)


def new_tensor(key: str, meta: TensorMeta, info: Mapping[str, Any]) -> TensorState:
    """Return the state of a tensor that is being created."""
    return TensorState(
        key, meta.with_(version=FORMAT_VERSION), dict(info), empty_table(), CommitDiff(created=True)
    )


def id_block(count: int) -> Block:
    """Return random ids for a hidden `_id` tensor (FORMAT.md 8)."""
    return Block(memoryview(os.urandom(8 * count)), count, 8, (1,))


def shape_block(block: Block) -> Block:
    """Return the shapes of a block's samples for a hidden `_shape` tensor (FORMAT.md 8)."""
    if block.shapes is None:
        return block_of_array(np.zeros((block.count, 1), dtype=np.int64))
    if isinstance(block.shapes, tuple):
        return block_of_array(np.tile(np.array(block.shapes, dtype=np.int64), (block.count, 1)))
    return block_of_array(block.shapes.astype(np.int64))


def null_block(nulls: np.ndarray[Any, np.dtype[np.bool_]]) -> Block:
    """Return a mask for a hidden `_null` tensor."""
    return block_of_array(nulls)
