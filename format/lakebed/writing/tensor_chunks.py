"""The chunks of one tensor of a version in the making: read, packed anew, and kept until they are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from lakebed.chunks.chunk import Chunk, parse_chunk
from lakebed.chunks.image_chunk import ChunkCodec, chunk_codec
from lakebed.chunks.pack import PackedChunk, groups, layout_of, pack
from lakebed.codecs.block import Block
from lakebed.codecs.registry import normalize
from lakebed.codecs.traits import TRAITS, is_plain
from lakebed.documents.chunk_ids import chunk_name
from lakebed.documents.layouts import NO_WORDS, layout_words
from lakebed.documents.manifest import LARGE, block_sums, has_sums
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named
from lakebed.storage.base import Summed
from lakebed.versions.state import NewChunk, TensorState, folder_of
from lakebed.writing.early_chunks import EarlyChunk
from lakebed.writing.passing_sums import PassingSums
from lakebed.writing.replace_samples import Allocate, fresh

# Bytes of samples whose checksums are taken one by one while a file is on its way.
_LARGE = 65_536

Read = Callable[[TensorState, int], bytes | memoryview]
"""Fetches the chunk file of one row of a tensor's chunk table."""

Pieces = tuple[bytes | memoryview, ...]
"""A chunk file as pieces that are written back to back."""

Files = dict[str, Pieces]
"""Chunk files by storage key."""


class Spill(Protocol):
    """Writes chunk files to storage before the publish, to keep memory bounded."""

    def __call__(self, files: Iterable[tuple[str, Pieces]], *, is_rewrite: bool) -> None:
        """Write them, each as it comes; `is_rewrite`: most of what they hold was there before."""


class TensorChunks:
    """The chunks of one tensor of a draft.

    Parameters
    ----------
    state
        The tensor as published, or as created.
    folder
        Id of the draft's version: where new chunks go.
    read
        Reads a chunk back, published or not.
    spill
        Writes chunk files.
    allocate
        Supplies buffers for chunks that are being rewritten.
    """

    def __init__(
        self,
        state: TensorState,
        folder: str,
        read: Read,
        spill: Spill,
        allocate: Allocate = fresh,
    ) -> None:
        self._state = state
        self.new_chunks: Files = {}
        self.packed_bytes = 0
        self._last_parsed: tuple[str, Chunk] | None = None
        self._folder = folder
        self._read = read
        self._spill = spill
        self._allocate = allocate
        self._owns_chunks = True

    def fork(self) -> Self:
        """Return a copy to change, which may be given up; this one may not change any more."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._owns_chunks = False
        return copy

    def _own_chunks(self) -> Files:
        """Return the new chunks as a dictionary that no fork shares."""
        if not self._owns_chunks:
            self.new_chunks = dict(self.new_chunks)
            self._owns_chunks = True
        return self.new_chunks

    @property
    def state(self) -> TensorState:
        """What the tensor holds, but for what is pending; changed by methods of this class and those below it only."""
        return self._state

    @property
    def meta(self) -> TensorMeta:
        return self._state.meta

    def _set(self, **changes: Any) -> None:
        self._state = self._state.with_(**changes)

    @property
    def chunk_limit(self) -> int:
        """Bytes of data per chunk (FORMAT.md 6)."""
        return self._state.meta.chunk_size // 2

    @property
    def _codec(self) -> ChunkCodec | None:
        meta = self._state.meta
        return None if meta.chunk_compression is None else chunk_codec(meta.chunk_compression, meta.dtype)

    @property
    def _is_lossy(self) -> bool:
        return not is_plain(self.meta.chunk_compression)

    def _chunk_size(self, row: int) -> int:
        return int(self._state.table.places.sizes[row]) or len(self._read(self._state, row))

    def _parsed(self, row: int) -> Chunk:
        key = self._state.table.key(row)
        if self._last_parsed is None or self._last_parsed[0] != key:
            data = self._read(self._state, row)
            self._last_parsed = (
                key,
                parse_chunk(data, self._state.table.samples(row), self._codec, self._allocate),
            )
        return self._last_parsed[1]

    def _load(self, row: int) -> Block:
        return samples_of(self._parsed(row), self.meta)

    def _write(self, blocks: Sequence[Block]) -> list[NewChunk]:
        return [self._packed(run) for run in groups(blocks, self.chunk_limit, self._codec)]

    def _packed(self, run: Sequence[Block]) -> NewChunk:
        return self._new_chunk(self._pack(run))

    def _pack(self, run: Sequence[Block]) -> PackedChunk:
        return pack(run, self._codec, partial(tells_shape, self._state.meta))

    def _new_chunk(self, chunk: PackedChunk) -> NewChunk:
        new, pieces = _numbered(chunk)
        self._own_chunks()[self.chunk_key(new.id)] = pieces
        self.packed_bytes += chunk.nbytes
        return new

    def chunk_key(self, number: int) -> str:
        """Storage key of a new chunk of this draft."""
        return f"{folder_of(self._folder)}{self._state.key}/chunks/{chunk_name(number)}"

    def spill(self, *, is_rewrite: bool = False) -> None:
        """Write the chunks that are packed to storage; `is_rewrite` as in `Spill`."""
        if self.new_chunks:
            self._spill(self.new_chunks.items(), is_rewrite=is_rewrite)
            self.release_chunks()

    def _spilled(self, runs: Sequence[Sequence[Block]]) -> list[NewChunk]:
        """Pack runs of samples into chunks and write each while the processor still has in its cache what it read."""
        chunks: list[NewChunk] = []

        def files() -> Iterator[tuple[str, Pieces]]:
            for run in runs:
                early = early_chunk(run)
                if early is not None:
                    yield self._written_early(early, chunks)
                    continue
                if self._codec is None and _are_large(run):
                    yield from self._summed_on_its_way(run, chunks)
                    continue
                new, pieces = _numbered(self._pack(run))
                chunks.append(new)
                yield self.chunk_key(new.id), pieces

        self._spill(files(), is_rewrite=False)
        return chunks

    def _written_early(self, early: EarlyChunk, chunks: list[NewChunk]) -> tuple[str, Pieces]:
        """Return the file of a chunk that only lacks its name."""
        shape = None if tells_shape(self._state.meta) else early.shape
        layout = NO_WORDS
        if early.nbytes > LARGE:
            layout = layout_words(early.nbytes_of_sample, shape, early.count, lambda: early.sums)
        new = NewChunk(_number(), early.count, early.nbytes, early.blocks, layout)
        chunks.append(new)
        return self.chunk_key(new.id), Summed(
            early.pieces(), partial(has_sums, early.blocks), file=early.file
        )

    def _summed_on_its_way(
        self, run: Sequence[Block], chunks: list[NewChunk]
    ) -> Iterator[tuple[str, Pieces]]:
        """Give the file of a chunk that is not compressed, whose checksums are known once it is written."""
        shaped = partial(tells_shape, self._state.meta)
        packed, number = pack(run, None, shaped, sums_follow=True), _number()
        known = [int(total) for block in run if block.sums is not None for total in block.sums]
        sizes = np.concatenate([block.size_array() for block in run])
        passing = PassingSums(
            packed.nbytes, len(packed.pieces[0]), [] if len(known) == packed.count else sizes
        )
        yield self.chunk_key(number), Summed(packed.pieces, passing.is_same, see=passing.see)
        passing.complete(packed.pieces)
        samples = known if len(known) == packed.count else passing.samples
        layout = layout_of(run, shaped, samples) if packed.nbytes > LARGE else NO_WORDS
        chunks.append(NewChunk(number, packed.count, packed.nbytes, passing.blocks, layout))

    def release_chunks(self) -> None:
        """Forget the contents of chunks that are in storage."""
        self.new_chunks, self._owns_chunks = {}, True
        self.packed_bytes = 0

    def _drop_chunk(self, key: str) -> None:
        pieces = self._own_chunks().pop(key, None)
        if pieces is not None:
            self.packed_bytes -= sum(map(len, pieces))

    def _rebuild(self, plan: list[tuple[int, int] | NewChunk]) -> None:
        table = self._state.table.rebuilt(plan, (self._folder, self._state.key))
        self._set(table=table)
        mine = {self.chunk_key(int(i)) for i in table.ids.ids}
        for key in [k for k in self.new_chunks if k not in mine]:
            self.packed_bytes -= sum(map(len, self._own_chunks().pop(key)))


def _numbered(chunk: PackedChunk) -> tuple[NewChunk, Pieces]:
    """Return a packed chunk under a number of its own, and its file."""
    sums = block_sums(chunk.pieces)
    new = NewChunk(_number(), chunk.count, chunk.nbytes, sums, chunk.layout)
    return new, Summed(chunk.pieces, partial(has_sums, sums))


def _number() -> int:
    """Return a number for a chunk that no other one has."""
    return int.from_bytes(os.urandom(8)) or 1


def early_chunk(run: Sequence[Block]) -> EarlyChunk | None:
    """Return the chunk that a run of samples is in already, just as it would be packed; None if there is none."""
    if len(run) != 1 or len(run[0].early) != 1:
        return None
    (block,) = run
    (early,) = block.early
    if not isinstance(early, EarlyChunk) or early.count != block.count or not early.is_settled:
        return None
    return early if bool((block.shape_array(len(early.shape)) == early.shape).all()) else None


def _are_large(run: Sequence[Block]) -> bool:
    """Whether all samples have so many bytes that their checksums are worth to be taken on the way to the storage."""
    return all(
        block.sizes >= _LARGE if isinstance(block.sizes, int) else bool((block.sizes >= _LARGE).all())
        for block in run
    )


def tells_shape(meta: TensorMeta) -> bool:
    """Whether a reader needs no more than the stored bytes of a sample to know its shape: pictures and text."""
    if htype_named(meta.htype).storing in (Storing.TEXT, Storing.JSON):
        return not meta.is_link
    compression = None if meta.is_link else normalize(meta.sample_compression)
    return compression is not None and TRAITS[compression].shape_from_file


def samples_of(chunk: Chunk, meta: TensorMeta) -> Block:
    """Return the samples of a chunk of a tensor; the block's bytes are those of the chunk."""
    shapes = None if chunk.ndim is None else chunk.shapes()
    if chunk.is_unwritten and not htype_named(meta.htype).is_text_like and meta.dtype:
        return _zeros(chunk, np.dtype(meta.dtype).itemsize)
    if chunk.uniform is not None:
        return Block(chunk.data, chunk.count, chunk.uniform[1], chunk.uniform[0])
    return Block(chunk.data, chunk.count, np.diff(chunk.offsets()).astype(np.uint32), shapes)


def _zeros(chunk: Chunk, itemsize: int) -> Block:
    """Return the samples of a chunk whose data was never written (FORMAT.md 5.5)."""
    shapes = chunk.shapes()
    sizes = (shapes.astype(np.int64).prod(axis=1) * itemsize).astype(np.uint32)
    return Block(memoryview(bytes(int(sizes.sum()))), chunk.count, sizes, shapes)
