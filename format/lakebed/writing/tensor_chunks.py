"""The chunks of one tensor of a version in the making: read, pack, pack again, and keep them until they are written.

New samples wait as encoded blocks, changed samples as edits of packed chunks; *packing* turns both into chunks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from lakebed.chunks.chunk import Chunk, parse_chunk
from lakebed.chunks.image_chunk import ChunkCodec, chunk_codec
from lakebed.chunks.pack import PackedChunk, groups, pack
from lakebed.codecs.block import Block
from lakebed.codecs.registry import normalize
from lakebed.codecs.traits import TRAITS, is_plain
from lakebed.documents.indexes.chunk_ids import chunk_name
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.layouts import NO_WORDS, layout_words
from lakebed.documents.manifest import LARGE, block_sums, has_sums
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named
from lakebed.storage.base import Summed
from lakebed.versions.chunk_table import NewChunk, folder_of
from lakebed.versions.state import TensorState
from lakebed.writing.early_chunks import EarlyChunk
from lakebed.writing.pending import Blocks, PendingEdits, Splice
from lakebed.writing.repack import compacted, replan
from lakebed.writing.replace_samples import Allocate, fresh

# A last chunk of at most this size is packed again with pending samples, unless it is more than twice as large as they
# are: then each byte is rewritten a logarithmic number of times, and a tensor has few small chunks.
_SMALL_TAIL = 1_000_000

Read = Callable[[TensorState, int], bytes | memoryview]
"""Fetches the chunk file of one row of a tensor's chunk table."""

Pieces = tuple[bytes | memoryview, ...]
"""A chunk file as pieces to be written back to back."""

Files = dict[str, Pieces]
"""Chunk files by storage key."""


class Spill(Protocol):
    """Writes chunk files to storage before the publish, to keep memory bounded."""

    def __call__(self, files: Iterable[tuple[str, Pieces]], *, is_rewrite: bool) -> None:
        """Write each file as soon as the iterator yields it; `is_rewrite`: most of the content existed before."""


class TensorChunks:
    """The chunks of one tensor of a draft.

    Parameters
    ----------
    state
        The tensor as published, or as created.
    folder
        Id of the draft's version, whose folder receives new chunks.
    read
        Reads a chunk back, published or not.
    spill
        Writes chunk files.
    allocate
        Supplies buffers for chunks that are being rewritten.

    Attributes
    ----------
    state
        Content of the tensor except for pending samples and edits; set by this class and its subclasses only.
    new_chunks
        Chunk files that are not in storage yet.
    packed_bytes
        Bytes of the new chunks.
    pending
        New samples that are in no chunk yet.
    """

    def __init__(
        self,
        state: TensorState,
        folder: str,
        read: Read,
        spill: Spill,
        allocate: Allocate = fresh,
    ) -> None:
        self.state = state
        self.new_chunks: Files = {}
        self.packed_bytes = 0
        self._last_parsed: tuple[str, Chunk] | None = None
        self._folder = folder
        self._read = read
        self._spill = spill
        self._allocate = allocate
        self._owns_chunks = True
        self.pending = Blocks()
        self._edits = PendingEdits()
        self._owns_pending = self._owns_edits = True
        self._tiles = state.tiles.entries if len(state.tiles.indices) else {}
        # Rows of the table with tiles that are not in the tile index of the state yet.
        self._new_tiles: set[int] = set()

    def fork(self) -> Self:
        """Return a copy to change, which may be dropped; the original must not change any more."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _owns_chunks=False, _owns_pending=False, _owns_edits=False)
        return copy

    def _own_chunks(self) -> Files:
        """Return the new chunks as a dictionary that is not shared with a fork."""
        if not self._owns_chunks:
            self.new_chunks = dict(self.new_chunks)
            self._owns_chunks = True
        return self.new_chunks

    @property
    def meta(self) -> TensorMeta:
        return self.state.meta

    def _set(self, **changes: Any) -> None:
        self.state = self.state.with_(**changes)

    @property
    def chunk_limit(self) -> int:
        """Bytes of data per chunk (format.md 6)."""
        return self.state.meta.chunk_size // 2

    @property
    def _codec(self) -> ChunkCodec | None:
        meta = self.state.meta
        return None if meta.chunk_compression is None else chunk_codec(meta.chunk_compression, meta.dtype)

    @property
    def _is_lossy(self) -> bool:
        compression = self.state.meta.chunk_compression
        return compression is not None and not is_plain(compression)

    def _chunk_size(self, row: int) -> int:
        return self.state.table.size(row) or len(self._read(self.state, row))

    def _parsed(self, row: int) -> Chunk:
        key = self.state.table.key(row)
        if self._last_parsed is None or self._last_parsed[0] != key:
            data = self._read(self.state, row)
            self._last_parsed = (
                key,
                parse_chunk(data, self.state.table.samples(row), self._codec, self._allocate),
            )
        return self._last_parsed[1]

    def _load(self, row: int) -> Block:
        return samples_of(self._parsed(row), self.meta)

    def _write(self, blocks: Sequence[Block]) -> list[NewChunk]:
        return [self._packed(run) for run in groups(blocks, self.chunk_limit, self._codec)]

    def _packed(self, run: Sequence[Block]) -> NewChunk:
        return self._new_chunk(self._pack(run))

    def _pack(self, run: Sequence[Block]) -> PackedChunk:
        return pack(run, self._codec, partial(tells_shape, self.state.meta))

    def _new_chunk(self, chunk: PackedChunk) -> NewChunk:
        new, pieces = _numbered(chunk)
        self._own_chunks()[self.chunk_key(new.id)] = pieces
        self.packed_bytes += chunk.nbytes
        return new

    def chunk_key(self, number: int) -> str:
        """Storage key of a new chunk of this draft."""
        return f"{folder_of(self._folder)}{self.state.key}/chunks/{chunk_name(number)}"

    def spill(self, *, is_rewrite: bool = False) -> None:
        """Write the packed chunks to storage; `is_rewrite` as in `Spill`."""
        if self.new_chunks:
            self._spill(self.new_chunks.items(), is_rewrite=is_rewrite)
            self.release_chunks()

    def _spilled(self, runs: Sequence[Sequence[Block]]) -> list[NewChunk]:
        """Pack runs of samples into chunks and write each while it is in the processor's cache."""
        chunks: list[NewChunk] = []

        def files() -> Iterator[tuple[str, Pieces]]:
            for run in runs:
                early = early_chunk(run)
                new, pieces = _numbered(self._pack(run)) if early is None else self._named(early)
                chunks.append(new)
                yield self.chunk_key(new.id), pieces

        self._spill(files(), is_rewrite=False)
        return chunks

    def _named(self, early: EarlyChunk) -> tuple[NewChunk, Pieces]:
        """Give a chunk whose file is already written a new number; return it and its file."""
        shape = None if tells_shape(self.state.meta) else early.shape
        layout = NO_WORDS
        if early.nbytes > LARGE:
            layout = layout_words(early.nbytes_of_sample, shape, early.count, lambda: early.sums)
        new = NewChunk(_number(), early.count, early.nbytes, early.blocks, layout)
        return new, Summed(early.pieces(), partial(has_sums, early.blocks), file=early.file)

    def release_chunks(self) -> None:
        """Forget the contents of chunks that are in storage."""
        self.new_chunks, self._owns_chunks = {}, True
        self.packed_bytes = 0

    def _drop_chunk(self, key: str) -> None:
        pieces = self._own_chunks().pop(key, None)
        if pieces is not None:
            self.packed_bytes -= sum(map(len, pieces))

    def _rebuild(self, plan: list[tuple[int, int] | NewChunk]) -> None:
        table = self.state.table.rebuilt(plan, (self._folder, self.state.key))
        self._set(table=table)
        mine = {self.chunk_key(int(i)) for i in table.ids.ids}
        for key in [k for k in self.new_chunks if k not in mine]:
            self.packed_bytes -= sum(map(len, self._own_chunks().pop(key)))

    # -- pending samples and edits -----------------------------------------------------------------------------------

    @property
    def pending_bytes(self) -> int:
        """Bytes of samples and chunks that are in memory only."""
        return self.pending.nbytes + self._edits.nbytes + self.packed_bytes

    @property
    def _in_chunks(self) -> int:
        """Number of samples in chunks, after the edits."""
        return self.state.table.count - self._edits.removed

    def _add_pending(self, block: Block, nbytes: int) -> None:
        """Add a block to the pending samples; it will take ``nbytes`` bytes in a chunk."""
        if not self._owns_pending:
            self.pending = self.pending.fork()
            self._owns_pending = True
        self.pending.append(block, nbytes)

    def _own_edits(self) -> PendingEdits:
        """Return the edits as an object that is not shared with a fork."""
        if not self._owns_edits:
            self._edits = self._edits.fork()
            self._owns_edits = True
        return self._edits

    @property
    def is_packed(self) -> bool:
        """Return whether packing would change nothing."""
        if self.pending or self._edits or self._new_tiles:
            return False
        return not self._tiles_differ

    @property
    def _tiles_differ(self) -> bool:
        """Return whether the state's tile index is outdated."""
        index = self.state.tiles
        return self._tiles != index.entries if self._tiles else bool(len(index.indices))

    def pack(self) -> None:
        """Turn edits and pending blocks into chunks."""
        if self._edits:
            self._apply(list(self._edits.splices()))
            self._edits = PendingEdits()
        if self.pending:
            self._pack_pending()
        self._refresh_tile_index()

    def _refresh_tile_index(self) -> None:
        self._new_tiles = set()
        if self._tiles_differ:
            self._set(tiles=TileIndex.from_entries(dict(sorted(self._tiles.items()))))

    def _pack_pending(self) -> None:
        runs = self._runs()
        self._follow_pending([self._packed(run) for run in runs], [])

    def _spill_full(self) -> None:
        """Write pending samples that fill chunks; edits, and samples of a last chunk with room left, stay pending."""
        *runs, rest = self._runs()
        if early_chunk(rest) is not None:
            runs, rest = [*runs, rest], []
        self.spill()
        self._follow_pending(self._spilled(runs), rest)

    def _runs(self) -> list[list[Block]]:
        """Return pending samples chunk by chunk, after the samples of a small last chunk if they are merged with it."""
        if not self._edits:
            self._absorb_tail()
        return groups(self.pending, self.chunk_limit, self._codec)

    def _follow_pending(self, chunks: list[NewChunk], rest: Sequence[Block]) -> None:
        """Add the chunks of pending samples to the table; only ``rest`` stays pending."""
        self._set(table=self.state.table.extended(chunks, (self._folder, self.state.key)))
        self.pending = Blocks(rest)

    def _apply(self, splices: Iterable[Splice]) -> None:
        plan = replan(
            self.state.table,
            splices,
            tiled=self._tiled_originals(),
            limit=self.chunk_limit,
            load=self._load,
            write=self._write,
            merge=not self._is_lossy,
        )
        self._rebuild(plan)

    def _tiled_originals(self) -> set[int]:
        """Tiled samples in the current table."""
        return {int(i) for i in self.state.tiles.indices} | self._new_tiles

    def rechunk(self) -> None:
        """Merge neighbouring small chunks."""
        self.pack()
        if self._is_lossy:
            return
        plan = compacted(
            self.state.table,
            tiled=self._tiled_originals(),
            limit=self.chunk_limit,
            load=self._load,
            write=self._write,
            size=self._chunk_size,
        )
        self._rebuild(plan)

    def tail(self) -> int | None:
        """Return the row of the last chunk if it is small enough to be packed with the pending samples."""
        table = self.state.table
        row = len(table) - 1
        if row < 0 or not self.pending or self._edits:
            return None
        size = table.size(row)
        if size > _SMALL_TAIL or self._is_lossy:
            return None
        waiting = sum(b.nbytes for b in self.pending)
        if self._codec is not None and size:
            # The limit counts uncompressed bytes, but this size is compressed: estimate it from the pending samples.
            samples = sum(b.count for b in self.pending)
            size = max(size, waiting * table.samples(row) // max(samples, 1))
        if size == 0 or size > min(_SMALL_TAIL, 2 * waiting + 4096) or size + waiting > self.chunk_limit:
            return None
        return None if table.samples(row) == 0 or table.first(row) in self._tiles else row

    def _absorb_tail(self) -> None:
        while (row := self.tail()) is not None:
            table = self.state.table
            self.pending = Blocks([self._load(row), *self.pending])
            self._drop_chunk(table.key(row))
            self._set(table=table.keep(row))


def _numbered(chunk: PackedChunk) -> tuple[NewChunk, Pieces]:
    """Give a packed chunk a new number; return it and its file."""
    sums = block_sums(chunk.pieces)
    new = NewChunk(_number(), chunk.count, chunk.nbytes, sums, chunk.layout)
    return new, Summed(chunk.pieces, partial(has_sums, sums))


def _number() -> int:
    """Return a number that no other chunk has."""
    return int.from_bytes(os.urandom(8)) or 1


def early_chunk(run: Sequence[Block]) -> EarlyChunk | None:
    """Return the early chunk that already holds exactly this run of samples, or None."""
    if len(run) != 1 or len(run[0].early) != 1:
        return None
    (block,) = run
    (early,) = block.early
    if not isinstance(early, EarlyChunk) or early.count != block.count or not early.is_settled:
        return None
    return early if bool((block.shape_array(len(early.shape)) == early.shape).all()) else None


def tells_shape(meta: TensorMeta) -> bool:
    """Return whether the stored bytes of a sample determine its shape, as the bytes of pictures and text do."""
    if htype_named(meta.htype).storing in (Storing.TEXT, Storing.JSON):
        return not meta.is_link
    compression = None if meta.is_link else normalize(meta.sample_compression)
    return compression is not None and TRAITS[compression].shape_from_file


def samples_of(chunk: Chunk, meta: TensorMeta) -> Block:
    """Return the samples of a chunk; the block shares the chunk's bytes."""
    shapes = None if chunk.ndim is None else chunk.shapes()
    if chunk.is_unwritten and not htype_named(meta.htype).is_text_like and meta.dtype:
        return _zeros(chunk, np.dtype(meta.dtype).itemsize)
    if chunk.uniform is not None:
        return Block(chunk.data, chunk.count, chunk.uniform[1], chunk.uniform[0])
    return Block(chunk.data, chunk.count, np.diff(chunk.offsets()).astype(np.uint32), shapes)


def _zeros(chunk: Chunk, itemsize: int) -> Block:
    """Return the samples of a chunk whose data was never written (format.md 5.5)."""
    shapes = chunk.shapes()
    sizes = (shapes.astype(np.int64).prod(axis=1) * itemsize).astype(np.uint32)
    return Block(memoryview(bytes(int(sizes.sum()))), chunk.count, sizes, shapes)
