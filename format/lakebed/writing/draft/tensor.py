"""One tensor of a version in the making: samples added, changed, removed, and taken over from other versions.

Samples are flat here, and each has the code of its credentials. Sequences, padding and the version's diff count rows,
which have separate methods; the draft takes care of hidden companions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.pack import PackedChunk, even_header, pack, pack_tile
from lakebed.chunks.tiling import boxes
from lakebed.codecs.block import Block
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.frozen import changed
from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.indexes.pad_index import PadIndex
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.indexes.version_prefix import FORMAT_VERSION
from lakebed.documents.info import Kept
from lakebed.documents.tensor_meta import Bounds, TensorMeta
from lakebed.errors import TensorDtypeMismatchError
from lakebed.native import chunks as native
from lakebed.native import gather
from lakebed.versions.chunk_table import ChunkTable, NewChunk, empty_table
from lakebed.versions.state import TensorState
from lakebed.writing import diffs
from lakebed.writing.encode.encoded import Encoded, Tiled
from lakebed.writing.pending import Blocks, PendingEdits, Piece, Splice, cost, splice_blocks
from lakebed.writing.repack import Plan
from lakebed.writing.replace_samples import Allocate, SampleNumbers, placed, without
from lakebed.writing.rewriting import Walk, by_chunk, replacing
from lakebed.writing.tensor_chunks import TensorChunks

# Samples of at least this size get a separate buffer.
_LARGE = 1 << 18

# Maximum number of bytes of packed chunks of a tensor in memory while a large sample is cut into tiles.
_SPILL_TILES = 64_000_000
# The same maximum while chunks are rewritten one after the other.
_SPILL_WALK = 24_000_000


class TensorDraft(TensorChunks):
    """One tensor of a draft; parameters as in `TensorChunks`."""

    # -- adding ------------------------------------------------------------------------------------------------

    def append(self, part: Encoded, diff: CommitDiff | None = None) -> None:
        """Add samples; the tensor gets the metadata and info that encoding determined.

        Parameters
        ----------
        diff
            The version's new record of changes; None keeps the current record.
        """
        block = part.block
        if block.count == 0:
            return
        before, creds = self.state.meta.length, self.state.creds
        if creds is not None:
            creds = self._full(creds, before).extend(_codes(part))
        self._adopt(part, before + block.count, creds, diff)
        if part.tiled is not None:
            self._append_tiled(before, block, part.tiled)
            return
        nbytes = cost(block)
        if self.pending.nbytes + nbytes < self.chunk_limit and not block.early:
            self._add_pending(block if part.owned else _own(block, self._allocate), nbytes)
            return
        self._add_pending(block, nbytes)
        self._spill_full()
        if not part.owned and self.pending:
            self.pending = Blocks([*self.pending[:-1], _own(self.pending[-1], self._allocate)])

    def _adopt(
        self, part: Encoded, length: int, creds: CredsIndex | None, diff: CommitDiff | None = None
    ) -> None:
        """Set the metadata and info of encoded samples, the new length, credentials and diff."""
        state = self.state
        info = Kept({**state.info, **part.info}) if part.info else state.info
        old = state.meta
        if part.meta is not old:
            _check_same_kind(old, part.meta)
        low, high = old.widened(part.bounds())
        meta = changed(
            part.meta,
            length=length,
            min_shape=low,
            max_shape=high,
            links=old.links,
            tiling_threshold=old.tiling_threshold,
            raw=None,
        )
        self.state = changed(
            state, meta=meta, info=info, creds=creds, diff=state.diff if diff is None else diff
        )

    @staticmethod
    def _full(creds: CredsIndex, length: int) -> CredsIndex:
        """Return the credentials of all samples; samples missing from the index get code 0."""
        missing = length - creds.count
        return creds.extend(np.zeros(missing, np.uint64)) if missing > 0 else creds

    def _replace_codes(self, start: int, stop: int, codes: NDArray[np.integer]) -> CredsIndex | None:
        """Return the credentials with any number of ``codes`` in place of those of samples ``start`` to ``stop``."""
        creds = self.state.creds
        if creds is None:
            return None
        known = self._full(creds, self.meta.length).values()
        return CredsIndex.from_codes(np.concatenate([known[:start], codes.astype(np.uint64), known[stop:]]))

    def _without_codes(self, rows: Sequence[int] | SampleNumbers) -> CredsIndex | None:
        creds = self.state.creds
        if creds is None:
            return None
        return CredsIndex.from_codes(np.delete(self._full(creds, self.meta.length).values(), rows))

    def _append_tiled(self, row: int, block: Block, tiled: Tiled) -> None:
        self.pack()
        self._tiles = {**self._tiles, row: (tiled.sample_shape, tiled.tile_shape)}
        table = self.state.table.extended(self._tile_chunks(block, tiled), (self._folder, self.state.key))
        self._set(table=table)
        self._new_tiles = {*self._new_tiles, row}

    def _tile_chunks(self, block: Block, tiled: Tiled) -> list[NewChunk]:
        if block.nbytes:  # the tiles are links, which are one sample in one chunk
            return [self._new_chunk(pack([block]))]
        chunks: list[NewChunk] = []
        for shape, data in tiled.tiles():
            packed = replace(pack_tile(shape, data), count=0 if chunks else 1)
            chunks.append(self._new_chunk(packed))
            if self.packed_bytes > _SPILL_TILES:
                self.spill()
        return chunks

    # -- from other versions -------------------------------------------------------------------------------------

    def adopt_chunks(self, other: TensorState, first: int, stop: int, bounds: Bounds | None) -> None:
        """Add the samples of whole chunks of another version by referring to the existing chunk files.

        Parameters
        ----------
        first, stop
            Rows of the other chunk table; this tensor must not have chunks with the same names.
        bounds
            Smallest and largest shape of the samples.
        """
        self.pack()
        self._follow(other, self.state.table.joined(other.table, first, stop), first, stop, bounds)

    def copy_chunks(
        self, other: TensorState, rows: range, files: Sequence[bytes], bounds: Bounds | None
    ) -> None:
        """Add the samples of whole chunks of another version as copies under new names."""
        self.pack()
        chunks = self.chunks_like(other, rows, files)
        table = self.state.table.extended(chunks, (self._folder, self.state.key))
        self._follow(other, table, rows.start, rows.stop, bounds)

    def chunks_like(self, other: TensorState, rows: range, files: Sequence[bytes]) -> list[NewChunk]:
        """Return chunk files of another version as new ones."""
        table = other.table
        return [
            self._new_chunk(PackedChunk((data,), table.samples(row), len(data), table.layout(row)))
            for row, data in zip(rows, files, strict=True)
        ]

    def _follow(
        self, other: TensorState, table: ChunkTable, first: int, stop: int, bounds: Bounds | None
    ) -> None:
        """Set a table that ends with rows of another version's table, and adopt that tensor's settings."""
        start, end = other.table.first(first), int(other.table.ids.last[stop - 1]) + 1
        shift = self.meta.length - start
        added = {
            row + shift: shapes
            for row, shapes in (other.tiles.entries if len(other.tiles) else {}).items()
            if start <= row < end
        }
        if added:
            self._tiles = {**self._tiles, **added}
        low, high = self.meta.widened(bounds)
        creds = self.state.creds
        if creds is not None:
            codes = np.zeros(0, np.uint64) if other.creds is None else other.creds.between(start, end)
            creds = self._full(self._full(creds, self.meta.length).extend(codes), table.count)
        meta = self.meta.with_(length=table.count, min_shape=low, max_shape=high)
        self._set(table=table, meta=meta, creds=creds)
        self._refresh_tile_index()

    def update_tiled(
        self,
        row: int,
        chunks: list[NewChunk],
        shapes: tuple[tuple[int, ...], tuple[int, ...]] | None,
        codes: NDArray[np.integer],
    ) -> None:
        """Replace one sample by one whose tiles are in separate chunks.

        Parameters
        ----------
        shapes
            Shapes of the sample and of its tiles.
        codes
            Code of its credentials, shape (1,), or (0,) if it has none.
        """
        self._flush_pending(row)
        code = codes if len(codes) else np.zeros(1, np.uint64)
        self._set(creds=self._replace_codes(row, row + 1, code))
        self._forget_tiles(row)
        if shapes is not None:
            self._tiles = {**self._tiles, row: shapes}
            low, high = self.meta.widened(None if self.meta.is_link else (shapes[0], shapes[0]))
            self._set(meta=self.meta.with_(min_shape=low, max_shape=high))
        self._own_edits().replace(row, tuple(chunks))

    # -- changing ----------------------------------------------------------------------------------------------

    def update(self, row: int, part: Encoded) -> None:
        """Replace one sample by the sample in ``part``."""
        creds = self.state.creds
        if creds is not None:
            creds = self._full(creds, self.meta.length).replaced(row, int(_codes(part)[0]))
        self._adopt(part, self.meta.length, creds)
        self._forget_tiles(row)
        if part.tiled is not None:
            self._flush_pending(row)
            self._tiles = {**self._tiles, row: (part.tiled.sample_shape, part.tiled.tile_shape)}
            self._own_edits().replace(row, tuple(self._tile_chunks(part.block, part.tiled)))
            return
        block = part.block if part.owned else _own(part.block, self._allocate)
        if row < self._in_chunks:
            self._own_edits().replace(row, block)
            return
        at = row - self._in_chunks
        self.pending = Blocks(splice_blocks(self.pending, at, at + 1, [block]))

    def _forget_tiles(self, row: int) -> None:
        if row in self._tiles:
            self._tiles = {other: shapes for other, shapes in self._tiles.items() if other != row}

    def _flush_pending(self, row: int) -> None:
        if row >= self._in_chunks:
            self.pack()

    def remove(self, rows: Sequence[int]) -> None:
        """Remove samples of ascending rows, numbered as before the call."""
        self._set(creds=self._without_codes(rows))
        packed = self._in_chunks
        for row in reversed([r for r in rows if r >= packed]):
            self.pending = Blocks(splice_blocks(self.pending, row - packed, row - packed + 1))
        self._own_edits().remove([r for r in rows if r < packed])
        self._drop_tiles(np.asarray(rows, dtype=np.int64))
        self._resize(self.meta.length - len(rows))

    def _drop_tiles(self, rows: SampleNumbers) -> None:
        gone = set(rows.tolist()) if self._tiles else ()
        kept = {row: shapes for row, shapes in self._tiles.items() if row not in gone}
        self._tiles = {row - int(np.searchsorted(rows, row)): shapes for row, shapes in kept.items()}

    def replace_many(self, rows: SampleNumbers, parts: Sequence[Encoded]) -> None:
        """Replace many samples, none of them tiled; each of their chunks is rewritten once.

        Parameters
        ----------
        rows
            Ascending, each once; as many as the parts have samples.
        """
        self.pack()
        creds = self.state.creds
        if creds is not None:
            codes = self._full(creds, self.meta.length).values()
            codes[rows] = np.concatenate([_codes(part) for part in parts])
            creds = CredsIndex.from_codes(codes)
        for part in parts:
            self._adopt(part, self.meta.length, creds)
        change = replacing([part.block for part in parts], self._allocate)
        walk = self._walk()
        for row, first, stop, at in by_chunk(self.state.table, rows):
            walk.change(row, partial(change, first, stop, at))
        self._follow_plan(walk.end())

    def remove_many(self, rows: SampleNumbers) -> None:
        """Remove many samples, given in ascending order; each of their chunks is rewritten once."""
        self.pack()
        self._set(creds=self._without_codes(rows))
        table, walk = self.state.table, self._walk()
        for row, first, _, at in by_chunk(table, rows):
            if table.tiles_of(row) > 1 or int(rows[first]) in self._tiles:
                for tile in table.rows_of(int(rows[first])):
                    walk.drop(tile)
            else:
                walk.change(row, partial(without, at=at, allocate=self._allocate))
        self._follow_plan(walk.end())
        self._drop_tiles(rows)
        self._resize(self.meta.length - len(rows))
        self._refresh_tile_index()

    def _walk(self) -> Walk:
        return Walk(self.state.table, self._tiled_originals(), self.chunk_limit, self._load, self._pack_run)

    def _pack_run(self, run: Sequence[Block]) -> NewChunk:
        chunk = self._packed(run)
        if self.packed_bytes > _SPILL_WALK:
            self.spill(is_rewrite=True)
        return chunk

    def _follow_plan(self, plan: Plan) -> None:
        if plan != [(0, len(self.state.table))]:
            self._rebuild(plan)

    def can_replace_many(self, rows: SampleNumbers) -> bool:
        """Return whether chunks can be rewritten: no sample is tiled, and packing again is lossless."""
        return not self._is_lossy and not self.has_tiled(rows)

    def splice(self, start: int, stop: int, parts: Sequence[Encoded]) -> None:
        """Replace samples ``start`` to ``stop`` by any number of new samples; meant for rare changes."""
        self.pack()
        pieces: list[Piece] = []
        added = 0
        tiles = {row: shapes for row, shapes in self._tiles.items() if row < start}
        creds = self._replace_codes(
            start, stop, np.concatenate([np.zeros(0, np.uint64), *(_codes(part) for part in parts)])
        )
        for part in parts:
            self._adopt(part, self.meta.length, self.state.creds)
            if part.tiled is not None:
                tiles[start + added] = (part.tiled.sample_shape, part.tiled.tile_shape)
                pieces.append(tuple(self._tile_chunks(part.block, part.tiled)))
            elif part.block.count:
                pieces.append(part.block if part.owned else _own(part.block, self._allocate))
            added += part.block.count
        shift = added - (stop - start)
        tiles |= {row + shift: shapes for row, shapes in self._tiles.items() if row >= stop}
        self._apply([Splice(start, stop, tuple(pieces))])
        self._tiles = tiles
        self._set(creds=creds)
        self._resize(self.meta.length + shift)
        self._refresh_tile_index()

    def _resize(self, length: int) -> None:
        meta = self.meta.with_(length=length)
        if length == 0:
            meta = meta.with_(min_shape=(), max_shape=())
        self._set(meta=meta)

    def write_tiles(self, row: int, tiles: Mapping[int, bytes | memoryview]) -> None:
        """Replace some tiles of a tiled sample, by number in C order of the grid; its other tiles stay unchanged."""
        self.pack()
        sample_shape, tile_shape = self._tiles[row]
        table = self.state.table
        first = table.ids.locate(row).row
        plan: list[tuple[int, int] | NewChunk] = [(r, r + 1) for r in range(len(table))]
        shapes = [tuple(s.stop - s.start for s in box) for box in boxes(sample_shape, tile_shape)]
        for number, data in tiles.items():
            packed = replace(pack_tile(shapes[number], data), count=0 if number else 1)
            plan[first + number] = self._new_chunk(packed)
        table = table.rebuilt(plan, (self._folder, self.state.key))
        self._set(table=table)

    def clear(self) -> None:
        """Drop all samples, rows and padding; the record of changes stays."""
        self.pending = Blocks()
        self.release_chunks()
        self._edits, self._tiles, self._new_tiles = PendingEdits(), {}, set()
        self.state = emptied(self.state)

    # -- settings ----------------------------------------------------------------------------------------------

    def set_info(self, info: Mapping[str, Any]) -> None:
        """Replace the tensor's info."""
        self._set(info=dict(info))

    def set_meta(self, meta: TensorMeta) -> None:
        """Replace settings; extent and links stay."""
        now = self.meta
        kept = {name: getattr(now, name) for name in ("length", "min_shape", "max_shape")}
        self._set(meta=meta.with_(**kept))

    def adopt_dtype(self, theirs: TensorMeta) -> None:
        """Copy settings that this tensor, which has no samples, leaves open from another tensor."""
        mine = self.meta
        if mine.htype is None or mine.dtype is None:
            self._set(
                meta=mine.with_(
                    htype=mine.htype or theirs.htype,
                    dtype=mine.dtype or theirs.dtype,
                    typestr=mine.typestr or (theirs.typestr if mine.dtype is None else None),
                )
            )

    # -- rows --------------------------------------------------------------------------------------------------

    @property
    def diff(self) -> CommitDiff:
        """The version's record of changes to this tensor; a new one if nothing changed so far."""
        return diffs.touched(self.state)

    def record(self, diff: CommitDiff) -> None:
        """Keep the version's record of changes to this tensor."""
        self._set(diff=diff)

    def add_sequences(self, lengths: Sequence[int] | NDArray[np.integer]) -> None:
        """Group added samples into rows of the given lengths, if the tensor holds sequences."""
        if self.state.sequence is not None:
            self._set(sequence=self.state.sequence.extend(lengths))

    def resize_sequence(self, row: int, length: int) -> None:
        """Set the number of samples of a sequence whose samples were replaced."""
        if self.state.sequence is not None:
            lengths = self.state.sequence.lengths
            lengths[row] = length
            self._set(sequence=SequenceIndex.from_lengths(lengths))

    def rows_updated(self, rows: diffs.RowNumbers) -> None:
        """Record that rows were replaced: they no longer count as padding."""
        pad = self.state.pad
        self._set(
            diff=diffs.with_updated(self.diff, rows),
            pad=None if pad is None else pad.without(rows),
        )

    def rows_padded(self, rows: range | SampleNumbers) -> None:
        """Record that rows that were just added are padding (format.md 4.6)."""
        pad = self.state.pad or PadIndex.empty()
        if isinstance(rows, range):
            self._set(pad=pad.with_range(rows.start, rows.stop))
        else:
            self._set(pad=PadIndex.from_rows(np.concatenate([pad.rows(), rows])))

    def remove_rows(self, rows: SampleNumbers, ids: NDArray[np.uint64] | None) -> SampleNumbers:
        """Remove rows from sequences, padding and diff; return their samples, which the caller removes next.

        Parameters
        ----------
        rows
            Row numbers before the removal, ascending, each once.
        ids
            Sample ids of the rows, uint64, shape (rows,); None if the tensor has no ids.
        """
        diff = diffs.with_removed(self.diff, rows, ids)
        sequence, pad, samples = self.state.sequence, self.state.pad, rows
        if sequence is not None:
            gone = np.zeros(sequence.count, np.bool_)
            gone[rows] = True
            samples = np.flatnonzero(np.repeat(gone, sequence.lengths.astype(np.int64)))
            sequence = SequenceIndex.from_lengths(np.delete(sequence.lengths, rows))
        self._set(diff=diff, sequence=sequence, pad=None if pad is None else pad.removed(rows))
        return samples

    def rows_of(self, samples: diffs.RowNumbers) -> diffs.RowNumbers:
        """Return the rows that samples belong to."""
        if self.state.sequence is None:
            return samples
        ends = np.cumsum(self.state.sequence.lengths.astype(np.int64))
        return np.unique(np.searchsorted(ends, np.asarray(samples, np.int64), side="right"))

    # -- queries -----------------------------------------------------------------------------------------------

    def is_tiled(self, row: int) -> bool:
        """Return whether a sample is cut into tiles."""
        return row in self._tiles

    def has_tiled(self, rows: SampleNumbers) -> bool:
        """Return whether any of several samples is cut into tiles."""
        return bool(self._tiles) and bool(np.isin(np.fromiter(self._tiles, np.int64), rows).any())

    def pending_sample(self, row: int) -> Block | None:
        """Return a sample whose current content is in no chunk; None for other samples and for tiled samples."""
        if row < self._in_chunks:
            edited = self._edits.at(row)
            return edited if isinstance(edited, Block) else None
        at = row - self._in_chunks
        for block in self.pending:
            if at < block.count:
                return block.cut(at, at + 1)
            at -= block.count
        return None

    def chunk_row(self, row: int) -> int:
        """Return a sample's number in the stored chunk table, which still counts removed samples."""
        return self._edits.original(row)

    def stored(self, row: int) -> bytes | memoryview:
        """Return the stored bytes of a sample that is not tiled, changes included."""
        waiting = self.pending_sample(row)
        if waiting is not None:
            return waiting.joined()
        span = self.state.table.ids.locate(self.chunk_row(row))
        return self._parsed(span.row).sample(span.position)

    def stored_many(self, rows: SampleNumbers) -> NDArray[np.uint8]:
        """Return the stored bytes of samples of one size, back to back; pending changes are packed first."""
        self.pack()
        parts = []
        for row, _, _, at in by_chunk(self.state.table, rows):
            block = self._load(row)
            size = block.nbytes // max(block.count, 1)
            parts.append(np.empty(size * len(at), np.uint8))
            native.gather_fixed(block.joined(), size, at, parts[-1])
        return np.concatenate(parts)

    def extents(self) -> NDArray[np.uint32]:
        """Return the shape of each sample, none of which is tiled; pending changes are packed first."""
        self.pack()
        ndim = len(self.meta.max_shape)
        return np.concatenate([self._load(row).shape_array(ndim) for row in range(len(self.state.table))])


def _check_same_kind(mine: TensorMeta, theirs: TensorMeta) -> None:
    """Refuse samples encoded for a tensor of another kind: no reader could decode the chunk."""
    for setting in ("dtype", "sample_compression", "chunk_compression"):
        here, there = getattr(mine, setting), getattr(theirs, setting)
        if here != there and not (setting == "dtype" and here is None):
            raise TensorDtypeMismatchError(
                f"tensor {mine.name!r} has {setting} {here!r}, and samples for it were encoded with {there!r}: "
                "nothing was stored"
            )


def _codes(part: Encoded) -> NDArray[np.uint64]:
    """Return the codes of the credentials of samples, 0 for samples without credentials."""
    if part.creds is None:
        return np.zeros(part.block.count, np.uint64)
    return part.creds.astype(np.uint64)


def _own(block: Block, allocate: Allocate) -> Block:
    """Copy the bytes of a block, since the caller may change them after the call."""
    if block.nbytes < _LARGE:
        return Block(memoryview(bytes(block.joined())), block.count, block.sizes, block.shapes)
    own, at = placed(block.nbytes, even_header(block.ndim or 0), allocate), 0
    for piece in block.pieces():
        gather.copy_bytes(own[at:], piece)
        at += len(piece)
    return replace(block, data=own.data, buffers=None)


def new_tensor(key: str, meta: TensorMeta, info: Mapping[str, Any]) -> TensorState:
    """Return the state of a tensor that is being created."""
    diff = CommitDiff(created=True, info_updated=bool(info))
    return TensorState(key, meta.with_(version=FORMAT_VERSION), dict(info), empty_table(), diff)


def emptied(state: TensorState) -> TensorState:
    """Return a tensor with the same settings and record of changes, but without samples."""
    return state.with_(
        meta=state.meta.with_(length=0, min_shape=(), max_shape=()),
        table=empty_table(),
        tiles=TileIndex.empty(),
        sequence=None if state.sequence is None else SequenceIndex.from_lengths([]),
        creds=None if state.creds is None else CredsIndex.from_codes([]),
        pad=None,
    )
