"""What waits in a tensor of a version in the making, and how it becomes chunks.

New samples wait as encoded blocks, changed ones as edits of packed chunks; *packing* turns both into chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from lakebed.chunks.pack import groups
from lakebed.codecs.block import Block
from lakebed.documents.tile_index import TileIndex
from lakebed.versions.state import NewChunk, TensorState
from lakebed.writing.blocks import Blocks
from lakebed.writing.draft.pending_edits import PendingEdits, Splice
from lakebed.writing.repack import compacted, replan
from lakebed.writing.replace_samples import Allocate, fresh
from lakebed.writing.tensor_chunks import Read, Spill, TensorChunks, early_chunk

# A small last chunk is merged into the next one when that at least halves the number of bytes still to be merged, so
# each byte is rewritten a logarithmic number of times and a tensor keeps few small chunks.
_SMALL_TAIL = 1_000_000


class PendingSamples(TensorChunks):
    """The chunks of one tensor of a draft, with what is to become some; parameters as in `TensorChunks`."""

    def __init__(
        self,
        state: TensorState,
        folder: str,
        read: Read,
        spill: Spill,
        allocate: Allocate = fresh,
    ) -> None:
        super().__init__(state, folder, read, spill, allocate)
        self.pending = Blocks()
        self._edits = PendingEdits()
        self._owns_pending = self._owns_edits = True
        self._tiles = state.tiles.entries if len(state.tiles.indices) else {}
        self._new_tiles: set[int] = set()  # rows of the table that the tile index of the state lacks yet

    @property
    def pending_bytes(self) -> int:
        """Bytes of samples and chunks that are in memory only."""
        return self.pending.nbytes + self._edits.nbytes + self.packed_bytes

    @property
    def _in_chunks(self) -> int:
        """Number of samples in chunks, after the edits."""
        return self._state.table.count - self._edits.removed

    def fork(self) -> Self:
        """Return a copy to change, which may be given up; this one may not change any more."""
        copy = super().fork()
        copy.__dict__.update(_owns_pending=False, _owns_edits=False)
        return copy

    def _add_pending(self, block: Block, nbytes: int) -> None:
        """Let a block wait that will take so many bytes."""
        if not self._owns_pending:
            self.pending = self.pending.fork()
            self._owns_pending = True
        self.pending.append(block, nbytes)

    def _own_edits(self) -> PendingEdits:
        """Return the edits as an object that no fork shares."""
        if not self._owns_edits:
            self._edits = self._edits.fork()
            self._owns_edits = True
        return self._edits

    @property
    def is_packed(self) -> bool:
        """Whether packing would change nothing."""
        if self.pending or self._edits or self._new_tiles:
            return False
        return not self._tiles_differ

    @property
    def _tiles_differ(self) -> bool:
        """Whether the tile index of the state is not that of the samples."""
        index = self._state.tiles
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
        """Write pending samples that fill chunks; what would become a last one with room left stays, as do edits."""
        *runs, rest = self._runs()
        if early_chunk(rest) is not None:
            runs, rest = [*runs, rest], []
        self.spill()
        self._follow_pending(self._spilled(runs), rest)

    def _runs(self) -> list[list[Block]]:
        """Return pending samples chunk by chunk, with those of a small last chunk that they take in."""
        if not self._edits:
            self._absorb_tail()
        return groups(self.pending, self.chunk_limit, self._codec)

    def _follow_pending(self, chunks: list[NewChunk], rest: Sequence[Block]) -> None:
        """Let new chunks hold what was pending, but for a rest."""
        self._set(table=self._state.table.extended(chunks, (self._folder, self._state.key)))
        self.pending = Blocks(rest)

    def _apply(self, splices: Iterable[Splice]) -> None:
        plan = replan(
            self._state.table,
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
        return {int(i) for i in self._state.tiles.indices} | self._new_tiles

    def rechunk(self) -> None:
        """Merge neighbouring small chunks."""
        self.pack()
        if self._is_lossy:
            return
        plan = compacted(
            self._state.table,
            tiled=self._tiled_originals(),
            limit=self.chunk_limit,
            load=self._load,
            write=self._write,
            size=self._chunk_size,
        )
        self._rebuild(plan)

    def tail(self) -> int | None:
        """Return the row of the last chunk if it is small enough to be packed anew with what is pending."""
        table = self._state.table
        row = len(table.ids.ids) - 1
        if row < 0 or not self.pending or self._edits:
            return None
        size = int(table.places.sizes[row])
        if size > _SMALL_TAIL or self._is_lossy:
            return None
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
            table = self._state.table
            self.pending = Blocks([self._load(row), *self.pending])
            self._drop_chunk(table.key(row))
            self._set(table=table.keep(row))
