"""Locate, fetch and decode flat samples of one tensor of one version: one, many, or parts (format.md 5.2, 5.3).

Rows here are flat: for a tensor of sequences they number the items of all sequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import FormatError, LimitError, StorageError
from lakebed.htypes.base import Storing
from lakebed.reading.bulk import decoded, gathered, is_decoded, listed
from lakebed.reading.decode import along_first, file_part, unchanged
from lakebed.reading.fetch import RANGES_ABOVE, ChunkSource
from lakebed.reading.locate import Locating, Shape, StoredSamples
from lakebed.reading.parts import shifted
from lakebed.reading.subscripts import Rows
from lakebed.versions.state import TensorState

if TYPE_CHECKING:
    from lakebed.chunks.tiling import Box
    from lakebed.codecs.base import Buffer
    from lakebed.credentials.named import Keys
    from lakebed.reading.linked import Links
    from lakebed.reading.remote.prefetch import SequentialDetector
    from lakebed.reading.tiles import TiledSample

Value = Any

_NO_PREFETCH: AbstractContextManager[object] = nullcontext()


class SampleReader(StoredSamples):
    """Reads the flat samples of one tensor of one version.

    Parameters
    ----------
    name
        The tensor's name, for messages.
    credentials
        Credentials for following links.
    """

    def __init__(
        self,
        name: str,
        state: TensorState,
        source: ChunkSource,
        credentials: Keys | None = None,
    ) -> None:
        super().__init__(name, state, source)
        self.htype = self.decoder.htype
        self.is_row_a_sample = self.storing is Storing.ARRAY and state.sequence is None
        self._credentials = credentials
        self.detector = _detector(source)
        self.lease: object = None  # while this is referenced, the version is not garbage-collected
        self.held: object = None  # references to chunk files that are in no storage

    @property
    def links(self) -> Links:
        """Reader of linked samples; made on each access, since keeping it would form a cycle with this reader."""
        from lakebed.reading.linked import Links

        return Links(self, self._credentials)

    # -- types of values -------------------------------------------------------------------------------------

    @property
    def came_as_list(self) -> str | None:
        """``list`` or ``fixed_size_list`` if the tensor was filled from an Arrow column of that type, else None."""
        kind = str(self.state.info.get("logical_type", "")).partition("<")[0]
        return kind if kind in ("list", "fixed_size_list") else None

    @property
    def is_scalar(self) -> bool:
        """Return whether samples are single numbers, of which some may be absent."""
        return list(self.state.meta.max_shape) in ([1], [0]) and self.came_as_list is None

    @property
    def is_number(self) -> bool:
        """Return whether samples are single numbers, or absent, but not dates or times."""
        return self.is_row_a_sample and self.is_scalar and "logical_type" not in self.state.info

    @property
    def is_nullable(self) -> bool:
        """Return whether samples are single numbers, some of them absent, that is, empty samples (format.md 5.3)."""
        return self.dtype is not None and self.is_scalar and list(self.state.meta.min_shape) == [0]

    # -- tiles -----------------------------------------------------------------------------------------------

    def tiles_of(self, row: int, ordinal: int) -> TiledSample | None:
        """Return the tiles of a sample, or None if it shares a chunk with other samples."""
        table, end = self.state.table, self.tiles_from(ordinal).stop
        first = table.first(ordinal)
        several = end > ordinal + 1 and row == first + table.samples(ordinal) - 1
        if not several and (not len(self.state.tiles) or row not in self.tile_entries or self.is_link):
            return None
        entry = self.tile_entries.get(row)
        if not several and first != row:
            return None  # the entry is outdated: the sample shares its chunk with others, so it has no tiles
        from lakebed.reading.tiles import TiledSample

        with Locating(self, row):
            return TiledSample(self, range(ordinal, end if several else ordinal + 1), entry)

    # -- stored samples --------------------------------------------------------------------------------------

    def files(self, row: int, subscript: Any) -> Iterator[tuple[Box, Buffer]]:
        """Yield (box in the sample, stored file): for each tile that ``sample[subscript]`` needs, or the only file."""
        tiles = self.tiles_of(row, self._place(row)[0])
        if tiles is not None:
            yield from tiles.contents(subscript)
        else:
            data, shape = self.raw(row)
            yield tuple(slice(0, extent) for extent in shape or ()), data

    def is_tiled(self, row: int) -> bool:
        """Return whether a sample is cut into tiles."""
        return self.has_tiles and self.tiles_of(row, self._place(row)[0]) is not None

    @property
    def reads_parts(self) -> bool:
        """Return whether reading a part of a sample costs less than reading the whole."""
        return self.has_tiles or self.is_link or self.decoder.traits.parts

    def prefetch(self, rows: Rows) -> AbstractContextManager[object]:
        """Return a context in which these rows are read ahead if they are on a store."""
        detector = self.detector
        if detector is None or detector.is_paused or self.is_link:
            return _NO_PREFETCH
        if isinstance(rows, range) and rows.step == 1 and detector.note(self, rows.start, rows.stop):
            return _NO_PREFETCH
        from lakebed.reading.remote.prefetch import Wanted, prefetch

        return prefetch([Wanted(self, rows)], knows_all=False)

    # -- values ----------------------------------------------------------------------------------------------

    def value(self, row: int) -> Value:
        """Return one sample: an ndarray, text, JSON value, list, or list of polygons.

        Raises
        ------
        EmptyTensorError
            If only empty samples were stored so far, so that no rank or dtype is known.
        CorruptError, LimitError, GetDataFromLinkError
            If the sample is damaged or exceeds the limits of this process, or its link cannot be followed.
        """
        ordinal, inside = self._place(row)
        if self.detector is not None:
            self.detector.note(self, row, row + 1)
        try:
            if self.is_link:
                return self.links.value(row)
            tiles = self.tiles_of(row, ordinal) if self.has_tiles else None
            if tiles is not None:
                return tiles.array()
            return self.decode(*self._stored(ordinal, inside))
        # Do the same as `with Locating(...)`, without the cost of its three calls.
        except (FormatError, LimitError, StorageError) as error:
            located = self.located(error, row)
            if located is error:
                raise
            raise located from error

    def part(self, row: int, subscript: Any) -> Value:
        """Return ``sample[subscript]``, reading and decoding only the needed part if the layout allows it.

        Raises
        ------
        IndexError
            If the subscript is out of range.
        """
        ordinal, inside = self._place(row)
        with Locating(self, row):
            if self.is_link:
                return self.links.part(row, subscript)
            tiles = self.tiles_of(row, ordinal)
            if tiles is not None:
                return tiles.part(subscript)
            if self.decoder.is_plain and (found := _plain_part(self, ordinal, inside, subscript)) is not None:
                return found
            if self.decoder.traits.ranges and (found := self._segment(row, ordinal, subscript)) is not None:
                return unchanged(found, self.known_dtype())
            data, shape = self._stored(ordinal, inside)
            codec = self.decoder.files
            if codec is not None and self.decoder.traits.parts and len(data) and shape is not None:
                self.decoder.check_facts(data, shape)
                return unchanged(file_part(codec, data, subscript), self.known_dtype())
            return self.decode(data, shape)[subscript]

    def _segment(self, row: int, ordinal: int, subscript: Any) -> Value | None:
        """Return a part of a large video; read only its index and the segments around the part.

        Return None if reading the whole is better: for smaller videos, and if the index does not list the frames.
        """
        codec = self.decoder.files
        if codec is None or self._codec is not None or self.by_range(ordinal, 1) is None:
            return None
        from lakebed.codecs.remote_video import RemoteVideo
        from lakebed.links.part import Part
        from lakebed.links.ranged import RangedFile

        def fetch(start: int, length: int, _: str | None) -> Part:
            data, total = self.stored_part(row, start, start + length)
            return Part(bytes(data), total, None, has_ranges=True)

        file = RangedFile(fetch)
        if file.is_whole:
            return None
        shape = tuple(map(int, self.shape(row)))
        return along_first(partial(RemoteVideo(codec.name).segment, file, shape=shape), subscript)

    def values(self, rows: Rows) -> Iterator[Value]:
        """Yield the samples of many rows in the order given; each chunk is read once per run of rows in it."""
        if self.is_link:
            yield from self.links.values(rows)
            return
        if len(rows) <= 2 or self.has_tiles:
            for row in rows:
                yield self.value(int(row))
            return
        with self.prefetch(rows):
            yield from self.decoded(rows)

    # -- shapes ----------------------------------------------------------------------------------------------

    def shape(self, row: int) -> Shape:
        """Return the shape of one sample without decoding it."""
        ordinal, inside = self._place(row)
        with Locating(self, row):
            if self.storing in (Storing.TEXT, Storing.JSON):
                return (1,)
            if self.is_link:
                return self.links.shape(row)
            tiles = self.tiles_of(row, ordinal)
            if tiles is not None:
                return tiles.shape
            shape = self._header_shape(ordinal, inside)
            return (0,) * len(self.state.meta.max_shape) if shape is None else shape

    def _header_shape(self, ordinal: int, inside: int) -> Shape | None:
        table = self.state.table
        if self._codec is None:
            header = self.source.header(table, ordinal)
            if header is not None:
                return header.place(inside).shape
        chunk = self.source.chunk(table, ordinal, self._codec)
        return None if chunk.ndim is None else chunk.shape(inside)

    def shapes(self, rows: Rows) -> NDArray[np.int64]:
        """Return the shapes of samples without decoding them: int64, shape (len(rows), rank)."""
        rank = len(self.state.meta.max_shape)
        if self.storing in (Storing.TEXT, Storing.JSON):
            return np.ones((len(rows), 1), dtype=np.int64)
        if self.is_link:
            return _table(self.links.shapes(rows), rank)
        if self.has_tiles:
            return _table([self.shape(int(row)) for row in rows], rank)
        from lakebed.reading.remote.prefetch import prefetch_headers

        table = np.zeros((len(rows), rank), dtype=np.int64)
        ordinals, insides = self.locate(rows)
        ends = np.append(np.flatnonzero(np.diff(ordinals)) + 1, len(ordinals)).tolist() if len(rows) else []
        with prefetch_headers(self, ordinals):
            for begin, end in zip([0, *ends], ends, strict=False):
                with Locating(self, int(rows[begin])):
                    found = self._header_shapes(int(ordinals[begin]))
                    if found.shape[1] not in (0, rank):
                        raise FormatError(
                            f"its chunk holds samples with {found.shape[1]} axes, the tensor has {rank}"
                        )
                    if found.shape[1]:
                        table[begin:end] = found[insides[begin:end]]
        return table

    def _header_shapes(self, ordinal: int) -> NDArray[np.uint32]:
        table = self.state.table
        if self._codec is None:
            header = self.source.header(table, ordinal)
            if header is not None:
                return header.shape_table()
        return self.source.chunk(table, ordinal, self._codec).shapes()

    # -- many as one array -----------------------------------------------------------------------------------

    def stacked(self, rows: Rows) -> NDArray[Any]:
        """Return samples of one shape as one array: shape (len(rows), *sample shape).

        Raises
        ------
        DynamicTensorNumpyError
            If the shapes of the selected samples differ.
        """
        with self.prefetch(rows):
            if self.is_gathered or not len(rows):
                return gathered(self, rows)
            if self._reads_singly or not self.decoder.is_as_recorded:
                return self.stack(self._listed(rows))
            shape = self._common_shape(rows)
            if shape is None:
                raise self.dynamic()
            return decoded(self, rows, shape) if is_decoded(self) else self.stack(self._listed(rows))

    def listed(self, rows: Rows) -> list[NDArray[Any]]:
        """Return array samples as a list of arrays."""
        with self.prefetch(rows):
            return self._listed(rows)

    def _listed(self, rows: Rows) -> list[NDArray[Any]]:
        if self.is_link:
            return list(self.links.values(rows))
        if len(rows) <= 2 or self._reads_singly:
            return [self.value(int(row)) for row in rows]
        return listed(self, rows)

    @property
    def _reads_singly(self) -> bool:
        """Return whether samples are linked files, tiled, or of unknown dtype."""
        return self.is_link or self.has_tiles or self.dtype is None

    def _common_shape(self, rows: Rows) -> Shape | None:
        """Return the shape that all samples have, or None if they differ."""
        if self.is_fixed:
            return tuple(self.state.meta.max_shape)
        shapes = self.shapes(rows)
        return tuple(int(v) for v in shapes[0]) if bool((shapes == shapes[0]).all()) else None


def _table(shapes: list[Shape], rank: int) -> NDArray[np.int64]:
    """Return shapes as a table of ``rank`` columns; missing axes have extent 1, or 0 if the sample is empty."""
    rank = max([rank, *map(len, shapes)])
    rows = [(*shape, *((0 if 0 in shape else 1,) * (rank - len(shape)))) for shape in shapes]
    return np.array(rows, dtype=np.int64).reshape(len(shapes), rank)


def _detector(source: ChunkSource) -> SequentialDetector | None:
    """Return the detector of sequential reads; None for local data, which is not read ahead."""
    if source.remote is None:
        return None
    from lakebed.reading.remote.prefetch import SequentialDetector

    return SequentialDetector()


def _plain_part(reader: SampleReader, ordinal: int, inside: int, subscript: Any) -> NDArray[Any] | None:
    """Return ``sample[subscript]`` of a sample in a chunk; None if reading the whole sample takes no longer.

    Raises
    ------
    IndexError
        If the subscript is out of range.
    """
    chunk, dtype = reader.by_range(ordinal, 1), reader.dtype
    if chunk is None or dtype is None:
        return None
    place = reader.source.place(reader.state.table, ordinal, inside, chunk)
    shape = place.shape
    if place.nbytes < RANGES_ABOVE or not shape or math.prod(shape) * dtype.itemsize != place.nbytes:
        return None
    from lakebed.chunks.tiling import touched

    rows = touched(shape, (1, *shape[1:]), subscript)
    if not rows or rows[-1] - rows[0] + 1 == shape[0]:
        return None
    width = place.nbytes // shape[0]
    first, count = rows[0], rows[-1] + 1 - rows[0]
    data = reader.source.piece(chunk, place.start + first * width, count * width)
    inner = np.frombuffer(data, dtype=dtype).reshape(count, *shape[1:])
    window = (slice(first, first + count), *(slice(0, extent) for extent in shape[1:]))
    return shifted(inner, subscript, window, shape).copy()
