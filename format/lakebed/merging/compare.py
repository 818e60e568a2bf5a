"""Compare rows of several versions of a tensor.

Chunks of a committed version never change, so rows at the same position of the same chunk are equal and need not be
read. For rows of different chunks, the stored bytes and shapes of the samples are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.chunk import Chunk
from lakebed.reading.locate import Locating
from lakebed.reading.samples import SampleReader
from lakebed.session.incoming import Held

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Comparison:
    """Comparison of rows of several versions of a tensor; a version is identified by its position in the list.

    Parameters
    ----------
    versions
        Readers of the tensor in each version; None for a version without the tensor, whose rows are never compared.
    """

    def __init__(self, versions: Sequence[Held | None]) -> None:
        self._versions = versions

    def differ(self, left: tuple[Ints, Ints], right: tuple[Ints, Ints]) -> Mask:
        """Return a mask of the pairs of rows that differ; ``left`` and ``right`` are (positions of versions, rows)."""
        result = np.zeros(len(left[0]), np.bool_)
        count = len(self._versions)
        pairs = left[0] * count + right[0]
        for pair in np.flatnonzero(np.bincount(pairs, minlength=1)).tolist():
            at = np.flatnonzero(pairs == pair)
            one, other = (self._versions[number] for number in divmod(pair, count))
            if one is not other and one is not None and other is not None:
                result[at] = _differ(one, other, left[1][at], right[1][at])
            elif one is other and one is not None:
                result[at] = left[1][at] != right[1][at]
        return result


def _differ(one: Held, other: Held, left: Ints, right: Ints) -> Mask:
    result = _samples_differ(one, other, left, right)
    if one.written is None and other.written is None:
        return result
    written = np.zeros(len(left), np.bool_)
    for held, rows in ((one, left), (other, right)):
        if held.written is not None:
            written |= held.written[rows]
    return result & written


def _samples_differ(one: Held, other: Held, left: Ints, right: Ints) -> Mask:
    a, b = one.reader.state.sequence, other.reader.state.sequence
    if a is not None and b is not None:
        return _sequences_differ(one, other, left, right)
    result = _flat_differ(one.reader, other.reader, left, right)
    if one.nulls is not None or other.nulls is not None:
        result |= one.null_marks()[left] != other.null_marks()[right]
    return result


def _sequences_differ(one: Held, other: Held, left: Ints, right: Ints) -> Mask:
    spans = []
    for held, rows in ((one, left), (other, right)):
        sequence = held.reader.state.sequence
        lengths = np.zeros(0, np.int64) if sequence is None else sequence.lengths.astype(np.int64)
        ends = np.cumsum(lengths)
        spans.append((ends[rows] - lengths[rows], lengths[rows]))
    (first_l, items), (first_r, items_r) = spans
    result: Mask = items != items_r
    even = np.flatnonzero(~result & (items > 0))
    owner = np.repeat(even, items[even])
    starts = np.repeat(np.cumsum(items[even]) - items[even], items[even])
    inside = np.arange(len(owner), dtype=np.int64) - starts
    flat = _flat_differ(one.reader, other.reader, first_l[owner] + inside, first_r[owner] + inside)
    result[owner[flat]] = True
    return result


def _flat_differ(one: SampleReader, other: SampleReader, left: Ints, right: Ints) -> Mask:
    result: Mask = np.zeros(len(left), np.bool_)
    a, b = one.state, other.state
    at = np.flatnonzero((left != right) | (left >= a.table.same_start(b.table)))
    if len(at):
        result[at] = _placed_differ(one, other, left[at], right[at])
    if a.creds is not None and b.creds is not None:
        result |= a.creds.values()[left] != b.creds.values()[right]
    return result


def _placed_differ(one: SampleReader, other: SampleReader, left: Ints, right: Ints) -> Mask:
    (ord_l, in_l), (ord_r, in_r) = one.locate(left), other.locate(right)
    result: Mask = ~(_same_chunk(one, other, ord_l, ord_r) & (in_l == in_r))
    tiled = _is_tiled(one, left) | _is_tiled(other, right)
    label_maps = _label_maps(one, other)
    if label_maps is not None:
        at = np.flatnonzero(result | tiled)
        result[at] = _labels_differ((one, left[at], label_maps[0]), (other, right[at], label_maps[1]))
        return result
    for place in np.flatnonzero(tiled).tolist():
        result[place] = _tiled_differ(one, other, int(left[place]), int(right[place]))
    doubtful = np.flatnonzero(result & ~tiled)
    rows = len(other.state.table)
    known, group = np.unique(ord_l[doubtful] * rows + ord_r[doubtful], return_inverse=True)
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(len(known) + 1))
    for number, pair in enumerate(known.tolist()):
        row_l, row_r = divmod(pair, rows)
        at = doubtful[order[ends[number] : ends[number + 1]]]
        result[at] = _chunks_differ(one, other, (row_l, in_l[at]), (row_r, in_r[at]), int(left[at[0]]))
    return result


def _label_maps(one: SampleReader, other: SampleReader) -> tuple[Ints, Ints] | None:
    """Return common numbers for the class names of two versions, shape (names,) each.

    A name that both versions have gets the same number. Returns None if the tensor has no class names, or if the same
    number already means the same name in both versions.
    """
    mine, its = one.state.info.get("class_names"), other.state.info.get("class_names")
    if one.state.meta.htype not in ("class_label", "segment_mask"):
        return None
    if not isinstance(mine, list) or not isinstance(its, list):
        return None
    count = min(len(mine), len(its))
    if mine[:count] == its[:count]:
        return None
    known: dict[str, int] = {}
    ids = [[known.setdefault(str(name), len(known)) for name in each] for each in (mine, its)]
    return np.array(ids[0], np.int64), np.array(ids[1], np.int64)


def _labels_differ(one: tuple[SampleReader, Ints, Ints], other: tuple[SampleReader, Ints, Ints]) -> Mask:
    """Return a mask of the labels that differ in name, or in number if the number has no name."""
    found = []
    for reader, rows, label_maps in (one, other):
        values = [np.asarray(reader.value(row)).astype(np.int64) for row in rows.tolist()]
        last = len(label_maps) - 1
        found.append([np.where(v > last, -1 - v, label_maps[np.minimum(v, last)]) for v in values])
    return np.array([not np.array_equal(a, b) for a, b in zip(*found, strict=True)], np.bool_)


def _is_tiled(reader: SampleReader, rows: Ints) -> Mask:
    tiles = reader.state.tiles
    if not len(tiles):
        return np.zeros(len(rows), np.bool_)
    return np.isin(rows, tiles.indices.astype(np.int64))


def _same_chunk(one: SampleReader, other: SampleReader, left: Ints, right: Ints) -> Mask:
    """Return a mask of the pairs of rows of two chunk tables that refer to the same chunk file."""
    numbers: dict[tuple[str, str], int] = {}
    found = []
    for table, rows in ((one.state.table, left), (other.state.table, right)):
        folders, folder_of, ids = table.identities(rows)
        known = np.array([numbers.setdefault(folder, len(numbers)) for folder in folders], np.int64)
        found.append((known[folder_of], ids))
    same: Mask = (found[0][0] == found[1][0]) & (found[0][1] == found[1][1])
    return same


def _chunks_differ(
    one: SampleReader, other: SampleReader, left: tuple[int, Ints], right: tuple[int, Ints], row: int
) -> Mask:
    with Locating(one, row):
        a = one.source.chunk(one.state.table, left[0], one.chunk_codec())
        b = other.source.chunk(other.state.table, right[0], other.chunk_codec())
    if a.uniform is not None and b.uniform is not None:
        return _uniform_differ(a, b, left[1], right[1])
    found = []
    for i, j in zip(left[1].tolist(), right[1].tolist(), strict=True):
        data, shape = one.stored(a, i)
        its_data, its_shape = other.stored(b, j)
        found.append(_extents(shape) != _extents(its_shape) or bytes(data) != bytes(its_data))
    return np.array(found, np.bool_)


def _uniform_differ(a: Chunk, b: Chunk, left: Ints, right: Ints) -> Mask:
    if a.uniform is None or b.uniform is None or a.uniform != b.uniform:
        return np.ones(len(left), np.bool_)
    size = a.uniform[1]
    if not size:
        return np.zeros(len(left), np.bool_)
    mine = np.frombuffer(a.data, np.uint8).reshape(-1, size)
    its = np.frombuffer(b.data, np.uint8).reshape(-1, size)
    result: Mask = (mine[left] != its[right]).any(axis=1)
    return result


def _extents(shape: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return a shape; for a sample without a shape, or with a shape of zeros, the shape of an empty sample (5.3)."""
    return () if shape is None or not any(shape) else shape


def _tiled_differ(one: SampleReader, other: SampleReader, left: int, right: int) -> bool:
    a, b = one.state.table, other.state.table
    rows_l, rows_r = a.rows_of(left), b.rows_of(right)
    if len(rows_l) == len(rows_r) and all(a.key(i) == b.key(j) for i, j in zip(rows_l, rows_r, strict=True)):
        return a.first(rows_l[0]) - left != b.first(rows_r[0]) - right
    if one.is_link:
        return one.raw(left, decompress=False) != other.raw(right, decompress=False)
    if one.shape(left) != other.shape(right):
        return True
    return not np.array_equal(np.asarray(one.value(left)), np.asarray(other.value(right)))
