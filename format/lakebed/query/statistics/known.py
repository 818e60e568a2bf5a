"""Statistics of the chunks of an open dataset: read from side files, or collected by queries and written to them.

A chunk has statistics for each of its pieces, which are runs of 16,384 samples (`documents.chunk_statistics`).
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.documents import chunk_statistics
from lakebed.documents.chunk_statistics import (
    HAS_VALUES,
    PIECE_FIELDS,
    Pieces,
    from_bytes,
    pieces_of,
    statistics_key,
    to_bytes,
)
from lakebed.errors import FormatError, InvalidInputError, KeyNotFound, LakebedError
from lakebed.query.relations.stored import StoredColumn
from lakebed.query.statistics.pieces import of_arrays, of_texts, wide
from lakebed.reading.remote.prefetch import prefetch
from lakebed.reading.remote.tasks import LazyFuture, submit
from lakebed.runtime.progress import rows_bar
from lakebed.storage.base import traits_of

if TYPE_CHECKING:
    from lakebed.query.relations.stored import StoredColumn
    from lakebed.session.session import Session
    from lakebed.session.table import Table
    from lakebed.versions.chunk_table import ChunkTable

# With fewer pieces than this, statistics are not written to a file.
_LEAST_PIECES = 8
# The file is written again when at least one in this many chunks is new.
_SHARE = 8
# Maximum number of chunks of other versions in the file; if this version has more chunks, their number is the maximum.
_OTHERS = 1024

_sessions: weakref.WeakKeyDictionary[Session, dict[str, Known]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Numbers:
    """Smallest and largest number of each piece of a chunk, in the dtype of the column; whether a piece has numbers."""

    low: NDArray[Any]
    high: NDArray[Any]
    has_values: NDArray[np.bool_]

    @classmethod
    def of(cls, pieces: Pieces, dtype: np.dtype[Any] | None) -> Numbers | None:
        """Return the smallest and largest numbers of pieces; None for dtypes without an order.

        The numbers are rounded to the dtype of the column, which keeps their order.
        """
        kind = None if dtype is None else wide(dtype)
        if dtype is None or kind is None:
            return None
        low, high = (np.ascontiguousarray(pieces[side]).view(kind).astype(dtype) for side in ("low", "high"))
        return cls(low, high, (pieces["flags"] & HAS_VALUES).astype(np.bool_))


@dataclass(frozen=True, slots=True)
class Aligned:
    """Statistics of the chunks of a column, in the order of its rows.

    Attributes
    ----------
    ends
        Row at which each piece ends: int64, shape (pieces,).
    pieces
        Statistics of each piece, zeros for unknown ones.
    known
        Mask of the pieces with known statistics.
    is_whole
        True if the statistics of all pieces are known.
    """

    ends: NDArray[np.int64]
    pieces: Pieces
    known: NDArray[np.bool_]
    is_whole: bool
    numbers: Numbers | None

    @property
    def tells(self) -> bool:
        """True if the statistics differ between pieces, so that they can rule out some of them."""
        return len(self.ends) > 1 and (self.is_whole or bool(self.known.any()))


@dataclass(slots=True)
class Known:
    """Known statistics of the chunks of one tensor, in any version.

    Attributes
    ----------
    chunks
        Digest of a chunk -> statistics of its pieces.
    unsaved
        Number of chunks whose statistics are not in the side file yet.
    place
        Chunks of the version that was queried most recently.
    """

    chunks: dict[bytes, Pieces]
    unsaved: int = 0
    can_save: bool = True
    place: Place | None = None


@dataclass(slots=True)
class Place:
    """The chunks of one tensor in one version.

    Attributes
    ----------
    digests
        Digest of the contents of each chunk; None for chunks without checksums.
    aligned, count
        Statistics in the order of rows, and the number of chunks with known statistics when `aligned` was made.
    """

    of: Known
    table: ChunkTable
    digests: list[bytes | None]
    aligned: Aligned | None = None
    count: int = -1

    @property
    def is_known(self) -> bool:
        """True if the statistics of all chunks are known."""
        return self.aligned is not None and self.aligned.is_whole


def _place(column: StoredColumn) -> Place:
    """Return the chunks of a column; the first call reads the side file of its tensor."""
    session, state = column.table.session, column.state
    tensors = _sessions.setdefault(session, {})
    found = tensors.get(state.key)
    if found is None:
        found = tensors.setdefault(state.key, Known(_read(session, state.key)))
    place = found.place
    if place is None or place.table is not state.table:
        place = found.place = Place(found, state.table, _digests(column, state.table))
    return place


def load(columns: Sequence[StoredColumn]) -> None:
    """Read the remote side files of columns of one dataset in one batch, except files that were read before."""
    far = [column for column in columns if column.scan.reader.source.remote is not None]
    if len(far) < 2:
        return
    session = far[0].table.session
    tensors = _sessions.setdefault(session, {})
    keys = [key for key in dict.fromkeys(column.state.key for column in far) if key not in tensors]
    reads = {key: LazyFuture(partial(_read, session, key)) for key in keys}
    for read in reads.values():
        submit(read)
    for key, read in reads.items():
        tensors.setdefault(key, Known(read.result()))


def _read(session: Session, key: str) -> dict[bytes, Pieces]:
    try:
        return from_bytes(session.storage.get(statistics_key(key)), key)
    except KeyNotFound:
        return {}
    except FormatError as error:  # the file is a cache, which queries write again
        logging.getLogger(__name__).info("statistics of %s are not used: %s", session.storage.url, error)
        return {}


def _digests(column: StoredColumn, table: ChunkTable) -> list[bytes | None]:
    """Return the digest of the contents of each chunk; None for chunks without checksums."""
    reader = column.scan.reader
    form = f"{reader.dtype} {reader.storing.name} {reader.state.meta.chunk_compression}".encode()
    ends = np.cumsum(table.places.sum_counts()).tolist()
    sums = np.ascontiguousarray(table.places.sums, "<u8")
    words = np.stack([table.places.sizes, table.ids.counts.astype(np.uint64)], axis=1).astype("<u8")
    found: list[bytes | None] = []
    for row, (start, end) in enumerate(pairwise([0, *ends])):
        digest = xxhash.xxh3_128(form)
        digest.update(words[row].data)
        digest.update(sums[start:end].data)
        found.append(digest.digest() if end > start else None)
    return found


def aligned(column: StoredColumn) -> Aligned | None:
    """Return the statistics of a column; None if they cannot rule out any rows."""
    place = _place(column)
    found, count = place.aligned, len(place.of.chunks)
    if place.count != count and len(place.table):
        found = place.aligned = _aligned(place, column.dtype)
        place.count = count
    return found if found is not None and found.tells else None


def count_known(column: StoredColumn) -> int:
    """Return the number of chunks of a column with known statistics."""
    place = _place(column)
    return sum(1 for digest in place.digests if digest in place.of.chunks)


def _aligned(place: Place, dtype: np.dtype[Any] | None) -> Aligned:
    step = chunk_statistics.PIECE
    counts = place.table.ids.counts.astype(np.int64).tolist()
    parts: list[Pieces] = []
    told: list[bool] = []
    for digest, count in zip(place.digests, counts, strict=True):
        known = None if digest is None else place.of.chunks.get(digest)
        pieces = np.zeros(pieces_of(count), PIECE_FIELDS) if known is None else known
        if known is None:
            pieces["rows"] = step
            if count % step:
                pieces["rows"][-1:] = count % step
        parts.append(pieces)
        told += [known is not None] * len(pieces)
    pieces = np.concatenate(parts)
    ends = np.cumsum(pieces["rows"].astype(np.int64))
    return Aligned(ends, pieces, np.array(told, np.bool_), all(told), Numbers.of(pieces, dtype))


def learn(column: StoredColumn, rows: range) -> None:
    """Collect statistics of the chunks whose last row is in `rows`, which were just read."""
    place, reader = _place(column), column.scan.reader
    if place.is_known:
        return
    table = place.table
    last = table.ids.last
    first = int(np.searchsorted(last, np.uint64(rows.start)))
    stop = int(np.searchsorted(last, np.uint64(rows.stop)))
    for row in range(first, stop):
        if reader.source.remote is not None and not reader.source.is_here(table.key(row)):
            continue  # only parts of the chunk were read, and statistics are not worth another request
        _note(column, place, row, keep=True)


def _note(column: StoredColumn, place: Place, row: int, *, keep: bool) -> None:
    """Collect statistics of the chunk in a row of the chunk table, unless they are known or the chunk has no digest."""
    digest, of, reader = place.digests[row], place.of, column.scan.reader
    if digest is None or digest in of.chunks:
        return
    chunk = reader.source.chunk(place.table, row, reader.chunk_codec(), keep=keep)
    pieces = of_texts(chunk) if column.is_text else of_arrays(chunk, reader.known_dtype())
    if pieces is not None:
        of.chunks[digest] = pieces
        of.unsaved += 1


def complete(column: StoredColumn, tick: Callable[[int], object]) -> None:
    """Read all chunks of a column whose statistics are unknown, and write the side file.

    Parameters
    ----------
    tick
        Called with the number of rows of each chunk that was read.
    """
    place, reader = _place(column), column.scan.reader
    ends = place.table.ids.last.astype(np.int64) + 1
    chunks = place.of.chunks
    unknown = [row for row, digest in enumerate(place.digests) if digest is not None and digest not in chunks]
    runs = [range(int(ends[row - 1]) if row else 0, int(ends[row])) for row in unknown]
    with nullcontext() if reader.source.remote is None else prefetch(column.scan.wanted_chunks(runs)):
        for row, run in zip(unknown, runs, strict=True):
            _note(column, place, row, keep=False)
            tick(len(run))
    if place.of.unsaved:
        _write(column, place)


def save(column: StoredColumn) -> None:
    """Write collected statistics if they are large enough for a file and this session may write."""
    place = _place(column)
    of = place.of
    session, storage = column.table.session, column.table.session.storage
    may_write = not session.read_only and not traits_of(storage).read_only and of.can_save
    if not may_write or not of.unsaved or of.unsaved * _SHARE < len(of.chunks):
        return
    if sum(map(len, of.chunks.values())) < _LEAST_PIECES:
        return
    try:
        _write(column, place)
    except LakebedError as error:  # the file is a cache; without it, the statistics stay in memory
        of.can_save = False
        of.unsaved = 0
        logging.getLogger(__name__).info("statistics of %s stay in memory: %s", storage.url, error)


def _write(column: StoredColumn, place: Place) -> None:
    """Write the side file of a tensor, with all chunks of this version and the latest chunks of other versions."""
    of = place.of
    mine = {digest for digest in place.digests if digest is not None}
    others = [digest for digest in of.chunks if digest not in mine]
    for digest in others[: max(0, len(others) - max(_OTHERS, len(mine)))]:
        del of.chunks[digest]
    key = column.state.key
    column.table.session.storage.put(statistics_key(key), to_bytes(key, of.chunks))
    of.unsaved = 0


class TensorStatistics(NamedTuple):
    """Statistics of the chunks of a tensor.

    Attributes
    ----------
    tensor
        Name of the tensor.
    chunks
        Number of its chunks in this version.
    known
        Number of chunks with statistics. Chunks without checksums, which Deep Lake 3.9.52 wrote, have none.
    """

    tensor: str
    chunks: int
    known: int


def gathered(table: Table, *, is_chosen: bool, progressbar: bool) -> list[TensorStatistics]:
    """Read all chunks whose statistics are unknown, and write side files.

    Programs that may only read the dataset use these files when they query it.

    Parameters
    ----------
    is_chosen
        True if the caller named the tensors. A named tensor that cannot have statistics is an error; otherwise such a
        tensor is skipped.

    Raises
    ------
    InvalidInputError
        If a tensor that was named cannot have statistics.
    """
    columns = [StoredColumn(table, name) for name in table.names]
    telling = [column for column in columns if column.has_statistics and not column.scan.is_special]
    if is_chosen and len(telling) < len(columns):
        wrong = next(column.name for column in columns if column not in telling)
        raise InvalidInputError(
            f"tensor {wrong!r} cannot have statistics: they need numbers or texts without compression of single "
            "samples; leave it out, or name no tensors"
        )
    load(telling)
    found = []
    rows = sum(column.state.meta.length for column in telling)
    with rows_bar("Reading", rows, shown=progressbar) as advance:
        for column in telling:
            complete(column, advance)
            found.append(TensorStatistics(column.name, len(column.state.table), count_known(column)))
    return found
