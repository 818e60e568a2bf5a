"""Statistics of the chunks of one open dataset: read from their side file, collected by queries, written there."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

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
from lakebed.errors import FormatError, KeyNotFound, LakebedError
from lakebed.query.statistics.statistics import of_arrays, of_texts, wide
from lakebed.reading.remote.prefetch import prefetch
from lakebed.reading.remote.tasks import LazyFuture, submit
from lakebed.storage.base import traits_of

if TYPE_CHECKING:
    from lakebed.query.statistics.stored import StoredColumn
    from lakebed.session.session import Session
    from lakebed.versions.state import ChunkTable

# Fewer pieces are not worth a file.
_LEAST_PIECES = 8
# A file is written again once the part of it that is new is so large: 1 / 8.
_SHARE = 8
# Chunks of other versions that are kept in the file.
_OTHERS = 1024

_sessions: weakref.WeakKeyDictionary[Session, dict[str, Known]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Numbers:
    """Of each piece of a column of numbers the smallest and the largest, in its dtype; and whether it has any."""

    low: NDArray[Any]
    high: NDArray[Any]
    has_values: NDArray[np.bool_]

    @classmethod
    def of(cls, pieces: Pieces, dtype: np.dtype[Any] | None) -> Numbers | None:
        """Return them; None where numbers of a dtype have no extremes. Rounding keeps their order."""
        kind = None if dtype is None else wide(dtype)
        if dtype is None or kind is None:
            return None
        low, high = (np.ascontiguousarray(pieces[side]).view(kind).astype(dtype) for side in ("low", "high"))
        return cls(low, high, (pieces["flags"] & HAS_VALUES).astype(np.bool_))


@dataclass(frozen=True, slots=True)
class Aligned:
    """What is known of the chunks of a column, in the order of its rows.

    Attributes
    ----------
    ends
        The row behind the last of each piece: int64, shape (pieces,).
    pieces
        What is known of each; zeros where nothing is.
    known
        Whether something is.
    is_whole
        Whether something is of all.
    """

    ends: NDArray[np.int64]
    pieces: Pieces
    known: NDArray[np.bool_]
    is_whole: bool
    numbers: Numbers | None

    @property
    def tells(self) -> bool:
        """Whether it may tell pieces apart."""
        return len(self.ends) > 1 and (self.is_whole or bool(self.known.any()))


@dataclass(slots=True)
class Known:
    """What is known of one tensor's chunks, in whatever version.

    Attributes
    ----------
    chunks
        Pieces of each, by the digest of the chunk.
    unsaved
        How many of them the side file does not have.
    place
        Those of the version that was asked of last.
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
        Name of what each holds; None where no checksum vouches for its bytes.
    aligned, count
        What is known of them, and how many chunks were known when that was made.
    """

    of: Known
    table: ChunkTable
    digests: list[bytes | None]
    aligned: Aligned | None = None
    count: int = -1

    @property
    def is_known(self) -> bool:
        """Whether nothing is left to learn."""
        return self.aligned is not None and self.aligned.is_whole


def _place(column: StoredColumn) -> Place:
    """Return the chunks of a column; the side file of its tensor is read the first time."""
    session, reader = column.table.session, column.scan.reader
    tensors = _sessions.get(session)
    if tensors is None:
        tensors = _sessions.setdefault(session, {})
    found = tensors.get(reader.state.key)
    if found is None:
        found = tensors.setdefault(reader.state.key, Known(_read(session, reader.state.key)))
    table = reader.state.table
    place = found.place
    if place is None or place.table is not table:
        place = found.place = Place(found, table, _digests(column, table))
    return place


def load(columns: Sequence[StoredColumn]) -> None:
    """Read the side files of columns of one dataset, those that were not yet; together, where they lie far away."""
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
    except FormatError as error:  # it is a cache, made anew by this query
        logging.getLogger(__name__).info("statistics of %s are not used: %s", session.storage.url, error)
        return {}


def _digests(column: StoredColumn, table: ChunkTable) -> list[bytes | None]:
    """Return the name of what each chunk holds; None where no checksum vouches for its bytes."""
    reader = column.scan.reader
    meta = reader.state.meta
    form = f"{reader.dtype} {reader.storing.name} {meta.chunk_compression}".encode()
    counts = table.places.sum_counts()
    ends = np.cumsum(counts).tolist()
    sums = np.ascontiguousarray(table.places.sums, "<u8")
    words = np.stack([table.places.sizes, table.ids.counts.astype(np.uint64)], axis=1).astype("<u8")
    found: list[bytes | None] = []
    start = 0
    for row, end in enumerate(ends):
        if end > start:
            digest = xxhash.xxh3_128(form)
            digest.update(words[row].data)
            digest.update(sums[start:end].data)
            found.append(digest.digest())
        else:
            found.append(None)
        start = end
    return found


def aligned(column: StoredColumn) -> Aligned | None:
    """Return what is known of a column; None where nothing is, or it would tell nothing apart."""
    place = _place(column)
    found, count = place.aligned, len(place.of.chunks)
    if place.count != count and len(place.table):
        found = place.aligned = _aligned(place, column.dtype)
        place.count = count
    return found if found is not None and found.tells else None


def count_known(column: StoredColumn) -> int:
    """Return of how many chunks of a column something is known."""
    place = _place(column)
    return sum(1 for digest in place.digests if digest in place.of.chunks)


def _aligned(place: Place, dtype: np.dtype[Any] | None) -> Aligned:
    step = chunk_statistics.PIECE
    counts = place.table.ids.counts.astype(np.int64).tolist()
    parts: list[Pieces] = []
    told: list[bool] = []
    for digest, count in zip(place.digests, counts, strict=True):
        pieces = None if digest is None else place.of.chunks.get(digest)
        is_known = pieces is not None
        if pieces is None:
            pieces = np.zeros(pieces_of(count), PIECE_FIELDS)
            pieces["rows"] = step
            if count % step:
                pieces["rows"][-1:] = count % step
        parts.append(pieces)
        told += [is_known] * len(pieces)
    pieces = np.concatenate(parts)
    ends = np.cumsum(pieces["rows"].astype(np.int64))
    return Aligned(ends, pieces, np.array(told, np.bool_), all(told), Numbers.of(pieces, dtype))


def learn(column: StoredColumn, rows: range) -> None:
    """Take note of the chunks that end in a stretch of rows that was read just now."""
    place, reader = _place(column), column.scan.reader
    if place.is_known:
        return
    table = place.table
    last = table.ids.last
    first = int(np.searchsorted(last, np.uint64(rows.start)))
    stop = int(np.searchsorted(last, np.uint64(rows.stop)))
    for row in range(first, stop):
        if reader.source.remote is not None and not reader.source.is_here(table.key(row)):
            continue  # it went through in parts: another request is not worth it
        _note(column, place, row, keep=True)


def _note(column: StoredColumn, place: Place, row: int, *, keep: bool) -> None:
    """Take note of the chunk in a row of the table, unless its digest is known, or there is none."""
    digest, of, reader = place.digests[row], place.of, column.scan.reader
    if digest is None or digest in of.chunks:
        return
    chunk = reader.source.chunk(place.table, row, reader.chunk_codec(), keep=keep)
    pieces = of_texts(chunk) if column.is_text else of_arrays(chunk, reader.known_dtype())
    if pieces is not None:
        of.chunks[digest] = pieces
        of.unsaved += 1


def complete(column: StoredColumn, tick: Callable[[int], object]) -> None:
    """Read and take note of all chunks of a column that nothing is known of, and write the side file.

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
    """Write what was learned, if that is worth a file and this session may write."""
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
    except LakebedError as error:  # it is a cache: who may only read keeps it in memory
        of.can_save = False
        of.unsaved = 0
        logging.getLogger(__name__).info("statistics of %s stay in memory: %s", storage.url, error)


def _write(column: StoredColumn, place: Place) -> None:
    """Write the side file of a tensor: all of this version, and the last of others."""
    of = place.of
    mine = {digest for digest in place.digests if digest is not None}
    others = [digest for digest in of.chunks if digest not in mine]
    for digest in others[: max(0, len(others) - max(_OTHERS, len(mine)))]:
        del of.chunks[digest]
    key = column.scan.reader.state.key
    column.table.session.storage.put(statistics_key(key), to_bytes(key, of.chunks))
    of.unsaved = 0
