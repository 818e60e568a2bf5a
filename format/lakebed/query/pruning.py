"""Which rows a condition may be true of, as far as statistics of chunks tell: others are not read.

A condition is asked of whole stretches of rows, with two answers for each: whether there may be a row for which it is
true, and whether there may be one for which it is not. What nothing is known of may be both. NOT exchanges the two; so
a row that is missing, empty or NaN must count among those for which a comparison is not true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.dataclass import dataclass
from lakebed.documents.chunk_statistics import HAS_NAN, HAS_VALUES, Pieces
from lakebed.query import known
from lakebed.query.bound import Apply, Bound, Input, Logic, Missing, Not, Value
from lakebed.query.evaluate import Scope
from lakebed.query.known import Aligned
from lakebed.query.plan import Bounds, bounds
from lakebed.query.relation import Relation, Stored
from lakebed.query.statistics import beginning, wide
from lakebed.query.stored import StoredColumn
from lakebed.storage.traffic import Counts

Mask = NDArray[np.bool_]

# Integers that a float64 holds, each of them apart from its neighbours.
_EXACT = 1 << 53
_64_BITS = 1 << 63


class Verdict(NamedTuple):
    """Of each stretch of rows, whether a condition may be true of one of them, and whether it may be untrue of one."""

    may_be: Mask
    may_fail: Mask


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a column, for each stretch."""

    column: StoredColumn
    pieces: Pieces
    known: Mask
    has_nulls: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """The rows of a table that are left.

    Attributes
    ----------
    ends
        The row behind the last of each stretch: int64.
    kept
        Whether rows of it are left; those behind the last stretch are.
    """

    ends: NDArray[np.int64]
    kept: Mask

    def runs(self, start: int, stop: int) -> Iterator[range]:
        """Yield what is left of rows `start` to `stop`."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.ends, stop, side="left"))
        flags = np.append(self.kept, True)[first : last + 1]
        if flags.all():
            yield range(start, stop)
            return
        edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            low = start if begin == 0 else int(self.ends[first + begin - 1])
            high = stop if first + end > last else int(self.ends[first + end - 1])
            yield range(low, high)

    def of(self, rows: NDArray[np.int64]) -> Mask:
        """Tell of rows whether they are left."""
        return np.append(self.kept, True)[np.searchsorted(self.ends, rows, side="right")]


def asked_columns(node: Bound) -> dict[str, None]:
    """Return the columns of whose statistics a condition can make use, in order."""
    if isinstance(node, Logic):
        return dict.fromkeys(name for operand in node.operands for name in asked_columns(operand))
    if isinstance(node, Not):
        return asked_columns(node.operand)
    if isinstance(node, Missing):
        return {node.operand.name: None} if isinstance(node.operand, Input) else {}
    if isinstance(node, Apply) and node.name == "ALL" and len(node.operands) == 1:
        node = node.operands[0]
    asked = bounds(node) or _contained(node)
    return {} if asked is None else {asked.column: None}


def kept(relation: Relation, parts: Sequence[Bound], names: Sequence[str]) -> Kept | None:
    """Return the rows of a relation's table of which conditions may all be true; None if that may be any.

    Parameters
    ----------
    names
        Columns whose statistics are looked at.
    """
    if not isinstance(relation, Stored):
        return None
    columns: dict[str, tuple[StoredColumn, Aligned]] = {}
    for name in names:
        column = relation.column(name)
        found = known.aligned(column) if column.has_statistics else None
        if found is not None:
            columns[name] = (column, found)
    if not columns:
        return None
    ends = [found.ends for _, found in columns.values()]
    edges = ends[0] if len(ends) == 1 else np.unique(np.concatenate(ends))
    judge = _Judge({name: _spread(*pair, edges) for name, pair in columns.items()}, len(edges))
    may_be = judge.of(Logic("and", tuple(parts)) if len(parts) > 1 else parts[0]).may_be
    return None if may_be.all() else Kept(edges, may_be)


def _spread(column: StoredColumn, found: Aligned, edges: NDArray[np.int64]) -> _Known:
    has_nulls = column.table.companion(column.name, "null") is not None
    if edges is found.ends:
        return _Known(column, found.pieces, found.known, has_nulls)
    at = np.searchsorted(found.ends, edges, side="left")
    inside = np.minimum(at, len(found.ends) - 1)
    return _Known(column, found.pieces[inside], found.known[inside] & (at < len(found.ends)), has_nulls)


def windows(found: Kept | None, relation: Relation, all_windows: Iterator[range]) -> Iterator[range]:
    """Yield the stretches of a relation's positions that hold rows which are left."""
    if found is None or not isinstance(relation, Stored):
        yield from all_windows
        return
    places = relation.places
    for window in all_windows:
        if isinstance(places, range) and places.step == 1:
            shift = places.start
            for run in found.runs(window.start + shift, window.stop + shift):
                yield range(run.start - shift, run.stop - shift)
        elif found.of(np.asarray(places[window.start : window.stop], np.int64)).any():
            yield window


def learn(relation: Relation, scope: Scope, names: Sequence[str], window: range) -> None:
    """Take note of the chunks of the columns that were read."""
    places = relation.places if isinstance(relation, Stored) else None
    if not isinstance(relation, Stored) or not isinstance(places, range) or places.step != 1:
        return
    rows = places[window.start : window.stop]
    for name in names:
        column = relation.column(name)
        if column.has_statistics and scope.has_read(name):
            known.learn(column, rows)


def save(relation: Relation, names: Sequence[str]) -> None:
    """Write what was learned of columns beside the dataset, where that may be."""
    if isinstance(relation, Stored):
        for name in names:
            column = relation.column(name)
            if column.has_statistics:
                known.save(column)


def expected(found: Kept | None, relation: Relation, names: Sequence[str]) -> list[str]:
    """Tell which chunks are to be read of the columns of a condition, a line for each column.

    A chunk that is not in memory takes one request at least, where it lies behind a network.
    """
    if not isinstance(relation, Stored):
        return []
    lines = []
    places = relation.places
    rows = np.arange(places.start, places.stop, places.step) if isinstance(places, range) else places
    if found is not None:
        rows = rows[found.of(rows)]
    for name in names:
        column = relation.column(name)
        ends = column.chunk_ends()
        if not len(ends):
            continue
        which = np.unique(np.searchsorted(ends, rows, side="right"))
        which = which[which < len(ends)]
        size = int(column.scan.reader.state.table.places.sizes[which].sum())
        told = known.count_known(column) if column.has_statistics else 0
        source = column.scan.reader.source
        asked = "" if source.remote is None else f", {len(which):,} requests"
        lines.append(
            f"  {name}: {len(which):,} of {len(ends):,} chunks, {size:,} bytes{asked} (statistics of {told:,} chunks)"
        )
    return lines


def traffic(relation: Relation, names: Sequence[str]) -> Counts | None:
    """Return what was read over a network so far; None of datasets on this machine."""
    if not isinstance(relation, Stored) or not names:
        return None
    source = relation.column(names[0]).scan.reader.source
    return None if source.traffic is None else source.traffic.counts()


class _Judge:
    """Asks conditions of stretches of rows."""

    def __init__(self, known: Mapping[str, _Known], count: int) -> None:
        self._known = known
        self._any = Verdict(np.ones(count, np.bool_), np.ones(count, np.bool_))

    def of(self, node: Bound) -> Verdict:
        if isinstance(node, Logic):
            told = [self.of(operand) for operand in node.operands]
            join, other = np.logical_and.reduce, np.logical_or.reduce
            if node.operator == "or":
                join, other = other, join
            return Verdict(join([t.may_be for t in told]), other([t.may_fail for t in told]))
        if isinstance(node, Not):
            found = self.of(node.operand)
            return Verdict(found.may_fail, found.may_be)
        if isinstance(node, Missing):
            return self._missing(node)
        if isinstance(node, Value):
            return self._any
        return self._asked(node)

    def _missing(self, node: Missing) -> Verdict:
        of = self._known.get(node.operand.name) if isinstance(node.operand, Input) else None
        if of is None:
            return self._any
        may_be = (of.pieces["empty"] > 0) | of.has_nulls
        may_fail = (of.pieces["empty"] < of.pieces["rows"]) | of.column.is_text
        return self._if_known(of, may_be, may_fail)

    def _if_known(self, of: _Known, may_be: Mask, may_fail: Mask) -> Verdict:
        return Verdict(may_be | ~of.known, may_fail | ~of.known)

    def _asked(self, node: Bound) -> Verdict:
        all_of_none = False
        if isinstance(node, Apply) and node.name == "ALL" and len(node.operands) == 1:
            node, all_of_none = node.operands[0], True  # true as well of what has no values
        asked = bounds(node) or _contained(node)
        of = None if asked is None else self._known.get(asked.column)
        if asked is None or of is None:
            return self._any
        found = _of_texts(asked, of) if of.column.is_text else _of_numbers(asked, of)
        if found is None:
            return self._any
        may_be, surely = found
        if all_of_none:
            may_be = may_be | (of.pieces["empty"] > 0) | of.has_nulls
        # A comparison is true of no row that is missing, empty or has NaN in it.
        may_fail = (
            ~surely
            | (of.pieces["empty"] > 0)
            | of.has_nulls
            | (of.pieces["flags"] & HAS_NAN).astype(np.bool_)
        )
        return self._if_known(of, may_be, may_fail)


def _contained(node: Bound) -> Bounds | None:
    """Return what CONTAINS and STARTS_WITH ask of one column."""
    if not isinstance(node, Apply) or node.name not in ("CONTAINS", "STARTS_WITH") or len(node.operands) != 2:
        return None
    column, wanted = node.operands
    if not isinstance(column, Input) or not isinstance(wanted, Value):
        return None
    if isinstance(wanted.value, str):
        return Bounds(column.name, node.name, wanted.value, True)
    return Bounds(column.name, "=", wanted.value, True) if node.name == "CONTAINS" else None


# -- numbers ---------------------------------------------------------------------------------------------------------

_COMPARED: Mapping[str, Callable[[Any, Any, Any], tuple[Mask, Mask]]] = {
    "=": lambda low, high, v: ((low <= v) & (high >= v), (low == v) & (high == v)),
    "!=": lambda low, high, v: ((low != v) | (high != v), (low > v) | (high < v)),
    "<": lambda low, high, v: (low < v, high < v),
    "<=": lambda low, high, v: (low <= v, high <= v),
    ">": lambda low, high, v: (high > v, low > v),
    ">=": lambda low, high, v: (high >= v, low >= v),
}
"""Comparison -> whether it may be true of a value, and whether it is of all."""


def _of_numbers(asked: Bounds, of: _Known) -> tuple[Mask, Mask] | None:
    """Tell of each stretch whether a value may fit, and whether all do; None if statistics do not tell.

    Extremes are compared in the dtype of the column, as its values are: rounding keeps their order.
    """
    dtype = of.column.scan.reader.dtype
    kind = None if dtype is None else wide(dtype)
    if dtype is None or kind is None:
        return None
    pieces = of.pieces
    low, high = (
        np.ascontiguousarray(pieces[side]).view(kind).astype(dtype, copy=False) for side in ("low", "high")
    )
    has = (pieces["flags"] & HAS_VALUES).astype(np.bool_)
    if asked.sign == "in":
        if not isinstance(asked.value, list):
            return None
        may_be = surely = np.zeros(len(pieces), np.bool_)
        for value in asked.value:
            if isinstance(value, int | float):
                one = _compared("=", low, high, pieces, value, dtype)
                if one is None:
                    return None
                may_be = may_be | one[0]
                if abs(value) < _EXACT:  # IN compares integers as such, not as a float64
                    surely = surely | one[1]
    else:
        found = _compared(asked.sign, low, high, pieces, asked.value, dtype)
        if found is None:
            return None
        may_be, surely = found
    nan = (pieces["flags"] & HAS_NAN).astype(np.bool_)
    return (may_be & has) | (nan & (asked.sign == "!=")), surely & has


def _compared(
    sign: str, low: Any, high: Any, pieces: Pieces, value: Any, dtype: np.dtype[Any]
) -> tuple[Mask, Mask] | None:
    if not isinstance(value, int | float) or (isinstance(value, int) and abs(value) >= _64_BITS):
        return None
    with np.errstate(all="ignore"):
        may_be, surely = (np.asarray(told, np.bool_) for told in _COMPARED[sign](low, high, value))
    if sign == "=" and dtype.kind in "iub" and abs(value) < _EXACT and value == int(value):
        bit = np.uint64(1 << (int(value) & 63))
        may_be = may_be & ((pieces["bits"] & bit) != 0)
    return may_be, surely


# -- texts -----------------------------------------------------------------------------------------------------------


def _of_texts(asked: Bounds, of: _Known) -> tuple[Mask, Mask] | None:
    """Tell of each stretch whether a text may fit, by the first bytes and the lengths; never that all do."""
    pieces = of.pieces
    never = np.zeros(len(pieces), np.bool_)
    if asked.sign == "in":
        if not isinstance(asked.value, list):
            return None
        may_be = never
        for value in asked.value:
            if isinstance(value, str):
                may_be = may_be | _equal(value, of)
        return may_be, never
    if not isinstance(asked.value, str):
        return None
    text = asked.value.encode()
    first, low, high = beginning(text), pieces["low"], pieces["high"]
    if asked.sign == "=":
        return _equal(asked.value, of), never
    if asked.sign in ("<", "<="):
        return low <= first, never
    if asked.sign in (">", ">="):
        return high >= first, never
    if asked.sign in ("CONTAINS", "STARTS_WITH") and text:
        may_be = pieces["most"] >= len(text)
        if asked.sign == "STARTS_WITH":
            after = beginning(text[:8].ljust(8, b"\xff"))
            may_be = may_be & (high >= first) & (low <= after)
        return may_be, never
    return None


def _equal(value: str, of: _Known) -> Mask:
    """Tell where a text may be; a missing one equals the empty one."""
    text, pieces = value.encode(), of.pieces
    if not text and of.has_nulls:
        return np.ones(len(pieces), np.bool_)
    first = beginning(text)
    may_be: Mask = (
        (pieces["low"] <= first)
        & (pieces["high"] >= first)
        & (pieces["least"] <= len(text))
        & (pieces["most"] >= len(text))
    )
    return may_be
