"""One tensor of a version in the making: new samples wait as encoded blocks, changed ones as edits of sealed chunks.

*Sealing* turns both into chunks. Rows are flat samples here; sequences and hidden companions are the draft's matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.pack import PackedChunk, groups, pack, pack_tile
from lakebed.chunks.tiling import boxes
from lakebed.codecs.block import Block
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.frozen import changed
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.tile_index import TileIndex
from lakebed.documents.version_prefix import FORMAT_VERSION
from lakebed.native import chunks as native
from lakebed.versions.state import ChunkTable, NewChunk, TensorState, empty_table
from lakebed.writing.blocks import Blocks, cost
from lakebed.writing.bounds import Bounds, linked_bounds, widened
from lakebed.writing.draft.pending_edits import Edits, Piece, Splice, splice_blocks
from lakebed.writing.encode.encoded import Encoded, Tiled
from lakebed.writing.repack import Plan, compacted, replan
from lakebed.writing.replace_samples import Places, Take, fresh, without
from lakebed.writing.rewriting import Walk, by_chunk, replacing
from lakebed.writing.tensor_chunks import Read, Spill, TensorChunks

# A small last chunk is merged into the next one when that at least halves the number of bytes still to be merged, so
# each byte is rewritten a logarithmic number of times and a tensor keeps few small chunks.
_SMALL_TAIL = 1_000_000

# Packed chunks of one tensor that may wait in memory while a large sample is being cut into tiles.
_SPILL_TILES = 64_000_000
# The same while chunk after chunk is rewritten.
_SPILL_WALK = 24_000_000


class TensorDraft(TensorChunks):
    """One tensor of a draft; parameters as in `TensorChunks`."""

    def __init__(
        self,
        state: TensorState,
        folder: str,
        read: Read,
        spill: Spill,
        take: Take = fresh,
    ) -> None:
        super().__init__(state, folder, read, spill, take)
        self.pending = Blocks()
        self._edits = Edits()
        self._owns_pending = self._owns_edits = True
        self._tiles = state.tiles.entries
        self._new_tiles: set[int] = set()  # rows of the table that the tile index of the state lacks yet

    @property
    def waiting_bytes(self) -> int:
        """Bytes of samples and chunks that are in memory only."""
        return self.pending.nbytes + self._edits.nbytes + self.sealed_bytes

    @property
    def _sealed(self) -> int:
        """Number of samples in chunks, after the edits."""
        return self.state.table.count - self._edits.removed

    def fork(self) -> Self:
        """Return a copy to change, which may be given up; this one may not change any more."""
        copy = super().fork()
        copy.__dict__.update(_owns_pending=False, _owns_edits=False)
        return copy

    def _wait(self, block: Block, nbytes: int) -> None:
        """Let a block wait that will take so many bytes."""
        if not self._owns_pending:
            self.pending = self.pending.fork()
            self._owns_pending = True
        self.pending.append(block, nbytes)

    def _own_edits(self) -> Edits:
        """Return the edits as an object that no fork shares."""
        if not self._owns_edits:
            self._edits = self._edits.fork()
            self._owns_edits = True
        return self._edits

    @property
    def is_sealed(self) -> bool:
        """Whether sealing would change nothing."""
        if self.pending or self._edits or self._new_tiles:
            return False
        return self._tiles == self.state.tiles.entries if self._tiles else not len(self.state.tiles)

    # -- adding ------------------------------------------------------------------------------------------------

    def append(self, part: Encoded) -> None:
        """Add samples; the tensor takes over the metadata and info that the part settled."""
        block = part.block
        if block.count == 0:
            return
        before = self.meta.length
        self._learn(part, block, before + block.count)
        if part.tiled is not None:
            self._append_tiled(before, block, part.tiled)
            return
        nbytes = cost(block)
        if self.pending.nbytes + nbytes < self.chunk_limit:
            self._wait(block if part.owned else _own(block), nbytes)
            return
        self._wait(block, nbytes)
        self.seal(full_only=True)
        self.spill()
        if not part.owned and self.pending:
            self.pending = Blocks([*self.pending[:-1], _own(self.pending[-1])])

    def _learn(self, part: Encoded, block: Block, length: int) -> None:
        state = self.state
        info = {**state.info, **part.info} if part.info else state.info
        low, high = widened(
            state.meta, block.shape_bounds() if not state.meta.is_link else linked_bounds(part)
        )
        kept = {"links": state.meta.links, "tiling_threshold": state.meta.tiling_threshold}
        meta = part.meta.with_(length=length, min_shape=low, max_shape=high, **kept)
        self.state = changed(state, meta=meta, info=info)

    def _append_tiled(self, row: int, block: Block, tiled: Tiled) -> None:
        self.seal()
        self._tiles = {**self._tiles, row: (tiled.sample_shape, tiled.tile_shape)}
        table = self.state.table.extended(self._tile_chunks(block, tiled), (self._folder, self.state.key))
        self.state = replace(self.state, table=table)
        self._new_tiles = {*self._new_tiles, row}

    def _tile_chunks(self, block: Block, tiled: Tiled) -> list[NewChunk]:
        if block.nbytes:  # links of the tiles, which are one sample in one chunk
            return [self._new_chunk(pack([block]))]
        chunks: list[NewChunk] = []
        for shape, data in tiled.tiles():
            packed = replace(pack_tile(shape, data), count=0 if chunks else 1)
            chunks.append(self._new_chunk(packed))
            if self.sealed_bytes > _SPILL_TILES:
                self.spill()
        return chunks

    # -- from other versions -------------------------------------------------------------------------------------

    def take(self, other: TensorState, first: int, stop: int, bounds: Bounds | None) -> None:
        """Add the samples of whole chunks of another version, by naming the chunks where they are.

        Parameters
        ----------
        first, stop
            Rows of the other chunk table; no chunk of this tensor has the name of one of them.
        bounds
            Smallest and largest shape of the samples.
        """
        self.seal()
        self._follow(other, self.state.table.joined(other.table, first, stop), first, stop, bounds)

    def copy_chunks(
        self, other: TensorState, rows: range, files: Sequence[bytes], bounds: Bounds | None
    ) -> None:
        """Add the samples of whole chunks of another version as copies under new names."""
        self.seal()
        chunks = self.chunks_like(other, rows, files)
        table = self.state.table.extended(chunks, (self._folder, self.state.key))
        self._follow(other, table, rows.start, rows.stop, bounds)

    def chunks_like(self, other: TensorState, rows: range, files: Sequence[bytes]) -> list[NewChunk]:
        """Return chunk files of another version as new ones."""
        table = other.table
        return [
            self._new_chunk(PackedChunk((data,), table.samples(row), len(data), table.places.layout(row)))
            for row, data in zip(rows, files, strict=True)
        ]

    def _follow(
        self, other: TensorState, table: ChunkTable, first: int, stop: int, bounds: Bounds | None
    ) -> None:
        """Go on with a table to whose end rows of another version's were added."""
        start, end = other.table.first(first), int(other.table.ids.last[stop - 1]) + 1
        shift = self.meta.length - start
        added = {
            row + shift: shapes
            for row, shapes in (other.tiles.entries if len(other.tiles) else {}).items()
            if start <= row < end
        }
        if added:
            self._tiles = {**self._tiles, **added}
        low, high = widened(self.meta, bounds)
        meta = self.meta.with_(length=table.count, min_shape=low, max_shape=high)
        self.state = replace(self.state, table=table, meta=meta)
        self._settle()

    def update_tiled(
        self, row: int, chunks: list[NewChunk], shapes: tuple[tuple[int, ...], tuple[int, ...]] | None
    ) -> None:
        """Replace one sample by one that lies in chunks of its own; ``shapes``: of the sample and of its tiles."""
        self._flush_pending(row)
        self._forget_tiles(row)
        if shapes is not None:
            self._tiles = {**self._tiles, row: shapes}
            low, high = widened(self.meta, None if self.meta.is_link else (shapes[0], shapes[0]))
            self.state = replace(self.state, meta=self.meta.with_(min_shape=low, max_shape=high))
        self._own_edits().replace(row, tuple(chunks))

    # -- changing ----------------------------------------------------------------------------------------------

    def update(self, row: int, part: Encoded) -> None:
        """Replace one sample; ``part`` holds one."""
        self._learn(part, part.block, self.meta.length)
        self._forget_tiles(row)
        if part.tiled is not None:
            self._flush_pending(row)
            self._tiles = {**self._tiles, row: (part.tiled.sample_shape, part.tiled.tile_shape)}
            self._own_edits().replace(row, tuple(self._tile_chunks(part.block, part.tiled)))
            return
        block = part.block if part.owned else _own(part.block)
        if row < self._sealed:
            self._own_edits().replace(row, block)
            return
        at = row - self._sealed
        self.pending = Blocks(splice_blocks(self.pending, at, at + 1, [block]))

    def _forget_tiles(self, row: int) -> None:
        if row in self._tiles:
            self._tiles = {other: shapes for other, shapes in self._tiles.items() if other != row}

    def _flush_pending(self, row: int) -> None:
        if row >= self._sealed:
            self.seal()

    def remove(self, rows: Sequence[int]) -> None:
        """Remove samples: ascending rows, as they are numbered before the call."""
        sealed = self._sealed
        for row in reversed([r for r in rows if r >= sealed]):
            self.pending = Blocks(splice_blocks(self.pending, row - sealed, row - sealed + 1))
        self._own_edits().remove([r for r in rows if r < sealed])
        self._drop_tiles(np.asarray(rows, dtype=np.int64))
        self._resize(self.meta.length - len(rows))

    def _drop_tiles(self, rows: Places) -> None:
        gone = set(rows.tolist()) if self._tiles else ()
        kept = {row: shapes for row, shapes in self._tiles.items() if row not in gone}
        self._tiles = {row - int(np.searchsorted(rows, row)): shapes for row, shapes in kept.items()}

    def replace_many(self, rows: Places, parts: Sequence[Encoded]) -> None:
        """Replace many samples, none of them tiled, by new ones: at once, each chunk that they lie in once.

        Parameters
        ----------
        rows
            Ascending, each once; as many as the parts have samples.
        """
        self.seal()
        for part in parts:
            self._learn(part, part.block, self.meta.length)
        change = replacing([part.block for part in parts], self._take)
        walk = self._walk()
        for row, first, stop, at in by_chunk(self.state.table, rows):
            walk.change(row, partial(change, first, stop, at))
        self._follow_plan(walk.end())

    def remove_many(self, rows: Places) -> None:
        """Remove many samples, ascending, each once: at once, each chunk that they lie in once."""
        self.seal()
        table, walk = self.state.table, self._walk()
        for row, first, _, at in by_chunk(table, rows):
            if table.tiles_of(row) > 1 or int(rows[first]) in self._tiles:
                for tile in table.rows_of(int(rows[first])):
                    walk.drop(tile)
            else:
                walk.change(row, partial(without, at=at, take=self._take))
        self._follow_plan(walk.end())
        self._drop_tiles(rows)
        self._resize(self.meta.length - len(rows))
        self._settle()

    def _walk(self) -> Walk:
        return Walk(self.state.table, self._tiled_originals(), self.chunk_limit, self._load, self._pack_run)

    def _pack_run(self, run: Sequence[Block]) -> NewChunk:
        chunk = self._packed(run)
        if self.sealed_bytes > _SPILL_WALK:
            self.spill(is_rewrite=True)
        return chunk

    def _follow_plan(self, plan: Plan) -> None:
        if plan != [(0, len(self.state.table))]:
            self._rebuild(plan)

    def can_replace_many(self, rows: Places) -> bool:
        """Whether samples can be replaced at once: none is tiled, and packing chunks anew loses nothing."""
        return not self._is_lossy and not self.has_tiled(rows)

    def splice(self, start: int, stop: int, parts: Sequence[Encoded]) -> None:
        """Replace samples ``start`` to ``stop`` by others, more or fewer: at once, so for what is rare."""
        self.seal()
        pieces: list[Piece] = []
        added = 0
        tiles = {row: shapes for row, shapes in self._tiles.items() if row < start}
        for part in parts:
            self._learn(part, part.block, self.meta.length)
            if part.tiled is not None:
                tiles[start + added] = (part.tiled.sample_shape, part.tiled.tile_shape)
                pieces.append(tuple(self._tile_chunks(part.block, part.tiled)))
            elif part.block.count:
                pieces.append(part.block if part.owned else _own(part.block))
            added += part.block.count
        shift = added - (stop - start)
        tiles |= {row + shift: shapes for row, shapes in self._tiles.items() if row >= stop}
        self._apply([Splice(start, stop, tuple(pieces))])
        self._tiles = tiles
        self._resize(self.meta.length + shift)
        self._settle()

    def _resize(self, length: int) -> None:
        meta = self.meta.with_(length=length)
        if length == 0:
            meta = meta.with_(min_shape=(), max_shape=())
        self.state = replace(self.state, meta=meta)

    def write_tiles(self, row: int, tiles: Mapping[int, bytes | memoryview]) -> None:
        """Replace some tiles of a tiled sample by their number in C order of the grid; the others stay."""
        self.seal()
        sample_shape, tile_shape = self._tiles[row]
        table = self.state.table
        first = table.ids.locate(row).row
        plan: list[tuple[int, int] | NewChunk] = [(r, r + 1) for r in range(len(table))]
        shapes = [tuple(s.stop - s.start for s in box) for box in boxes(sample_shape, tile_shape)]
        for number, data in tiles.items():
            packed = replace(pack_tile(shapes[number], data), count=0 if number else 1)
            plan[first + number] = self._new_chunk(packed)
        table = table.rebuilt(plan, (self._folder, self.state.key))
        self.state = replace(self.state, table=table)

    def clear(self) -> None:
        """Drop all samples."""
        self.pending = Blocks()
        self.let_go()
        self._edits, self._tiles, self._new_tiles = Edits(), {}, set()
        meta = self.meta.with_(length=0, min_shape=(), max_shape=())
        self.state = replace(self.state, meta=meta, table=empty_table(), tiles=TileIndex.empty(), pad=None)

    def set_info(self, info: Mapping[str, Any]) -> None:
        """Replace the tensor's info."""
        self.state = replace(self.state, info=dict(info))

    def set_meta(self, meta: TensorMeta) -> None:
        """Replace settings; extent and links stay."""
        now = self.meta
        kept = {name: getattr(now, name) for name in ("length", "min_shape", "max_shape")}
        self.state = replace(self.state, meta=meta.with_(**kept))

    # -- looking -----------------------------------------------------------------------------------------------

    def is_tiled(self, row: int) -> bool:
        """Whether a sample is cut into tiles."""
        return row in self._tiles

    def has_tiled(self, rows: Places) -> bool:
        """Whether any of several samples is cut into tiles."""
        return bool(self._tiles) and bool(np.isin(np.fromiter(self._tiles, np.int64), rows).any())

    def waiting(self, row: int) -> Block | None:
        """Return a sample that is not in a chunk as it is now; None if it is, or if it is cut into tiles."""
        if row < self._sealed:
            edited = self._edits.at(row)
            return edited if isinstance(edited, Block) else None
        at = row - self._sealed
        for block in self.pending:
            if at < block.count:
                return block.cut(at, at + 1)
            at -= block.count
        return None

    def sealed_row(self, row: int) -> int:
        """Return the number of a sample in the chunk table as it is now."""
        return self._edits.original(row)

    def stored(self, row: int) -> bytes | memoryview:
        """Return the stored bytes of a sample that is in one chunk, changes included."""
        waiting = self.waiting(row)
        if waiting is not None:
            return waiting.joined()
        span = self.state.table.ids.locate(self.sealed_row(row))
        return self._parsed(span.row).sample(span.position)

    def stored_many(self, rows: Places) -> NDArray[np.uint8]:
        """Return the stored bytes of samples of one size each, back to back; changes are made into chunks for it."""
        self.seal()
        parts = []
        for row, _, _, at in by_chunk(self.state.table, rows):
            block = self._load(row)
            size = block.nbytes // max(block.count, 1)
            parts.append(np.empty(size * len(at), np.uint8))
            native.gather_fixed(block.joined(), size, at, parts[-1])
        return np.concatenate(parts)

    def extents(self) -> NDArray[np.uint32]:
        """Return the shape of each sample, none of which is tiled; changes are made into chunks for it."""
        self.seal()
        ndim = len(self.meta.max_shape)
        return np.concatenate([self._load(row).shape_array(ndim) for row in range(len(self.state.table))])

    # -- chunks ------------------------------------------------------------------------------------------------

    def seal(self, *, full_only: bool = False) -> None:
        """Turn edits and pending blocks into chunks.

        Parameters
        ----------
        full_only
            Keep what would become a last chunk with room left pending, and edits as they are.
        """
        if self._edits and not full_only:
            self._apply(list(self._edits.splices()))
            self._edits = Edits()
        if self.pending:
            self._seal_pending(full_only=full_only)
        if not full_only:
            self._settle()

    def _settle(self) -> None:
        self._new_tiles = set()
        if self._tiles != self.state.tiles.entries:
            self.state = replace(self.state, tiles=TileIndex.from_entries(dict(sorted(self._tiles.items()))))

    def _seal_pending(self, *, full_only: bool) -> None:
        if not self._edits:
            self._absorb_tail()
        runs = groups(self.pending, self.chunk_limit, self._codec)
        rest = runs.pop() if full_only and runs else []
        entries = [self._packed(run) for run in runs]
        table = self.state.table.extended(entries, (self._folder, self.state.key))
        self.state = replace(self.state, table=table)
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
        """Samples that the table as it is now holds in tiles."""
        return {int(i) for i in self.state.tiles.indices} | self._new_tiles

    def rechunk(self) -> None:
        """Merge neighbouring small chunks."""
        self.seal()
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
        """Return the row of the last chunk if it is small enough to be packed anew with what is pending."""
        table, row = self.state.table, len(self.state.table) - 1
        if row < 0 or not self.pending or self._edits or self._is_lossy:
            return None
        size = int(table.places.sizes[row])
        waiting = sum(b.nbytes for b in self.pending)
        if self._codec is not None and size:
            # What counts is what would be packed anew; the chunk is a fraction of it. Samples are like those that wait.
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
            self.state = replace(self.state, table=table.keep(row))


def _own(block: Block) -> Block:
    """Copy the bytes of a block: they are the caller's, who may change them after the call."""
    data = bytes(block.data) if block.buffers is None else b"".join(block.buffers)
    return replace(block, data=memoryview(data), buffers=None)


def new_tensor(key: str, meta: TensorMeta, info: Mapping[str, Any]) -> TensorState:
    """Return the state of a tensor that is being created."""
    diff = CommitDiff(created=True, info_updated=bool(info))
    return TensorState(key, meta.with_(version=FORMAT_VERSION), dict(info), empty_table(), diff)
