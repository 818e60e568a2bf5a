"""Which rows a condition may be true of, as far as statistics of chunks tell: others are not read.

A condition is asked of whole stretches of rows, with two answers for each: whether there may be a row for which it is
true, and whether there may be one for which it is not. What nothing is known of may be both. NOT exchanges the two; so
a row that is missing, empty or NaN must count among those for which a comparison is not true.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.chunk_statistics import HAS_NAN, Pieces
from lakebed.query.binding.bound import (
    Apply,
    Bound,
    Input,
    Logic,
    Missing,
    Not,
    Value,
    on_record,
    values_read,
)
from lakebed.query.engine.evaluate import Scope
from lakebed.query.engine.plan import Bounds, bounds
from lakebed.query.engine.relation import Relation, Stored
from lakebed.query.statistics import known
from lakebed.query.statistics.known import Aligned, Numbers
from lakebed.query.statistics.statistics import beginning
from lakebed.query.statistics.stored import StoredColumn
from lakebed.query.values.exact import may_round
from lakebed.reading.remote.prefetch import prefetch
from lakebed.storage.stores.traffic import Counts

Mask = NDArray[np.bool_]

# Integers that a float64 holds, each of them apart from its neighbours.
_EXACT = 1 << 53
_64_BITS = 1 << 63


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a column, for each stretch.

    Attributes
    ----------
    unknown
        Where nothing is; None for nowhere.
    """

    column: StoredColumn
    pieces: Pieces
    unknown: Mask | None
    has_nulls: bool
    numbers: Numbers | None

    def or_unknown(self, told: Mask) -> Mask:
        """Return what was told of stretches, and True where nothing is known of them."""
        return told if self.unknown is None else told | self.unknown


@dataclass(frozen=True)
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

    @cached_property
    def runs(self) -> list[range]:
        """What is left, in order; the last run goes on behind the last stretch."""
        found = []
        start = stop = 0
        for stretch in np.flatnonzero(self.kept).tolist():
            begin = int(self.ends[stretch - 1]) if stretch else 0
            if begin != stop:
                if stop > start:
                    found.append(range(start, stop))
                start = begin
            stop = int(self.ends[stretch])
        behind = int(self.ends[-1])
        if stop != behind:
            if stop > start:
                found.append(range(start, stop))
            start = behind
        return [*found, range(start, sys.maxsize)]

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
        return (
            {node.operand.name: None} if isinstance(node.operand, Input) and on_record(node) is None else {}
        )
    if isinstance(node, Apply) and node.name == "ALL" and len(node.operands) == 1:
        node = node.operands[0]
    asked = bounds(node) or _contained(node)
    return {} if asked is None else {asked.column: None}


Told = Mapping[str, tuple[StoredColumn, Aligned]]
"""What is known of columns, by name."""


def told(relation: Relation, names: Sequence[str]) -> Told:
    """Return what statistics tell of some columns of a relation: of those of which they do."""
    if not isinstance(relation, Stored):
        return {}
    telling = [column for name in names if (column := relation.column(name)).has_statistics]
    known.load(telling)
    columns: dict[str, tuple[StoredColumn, Aligned]] = {}
    for column in telling:
        found = known.aligned(column)
        if found is not None:
            columns[column.name] = (column, found)
    return columns


def kept(columns: Told, parts: Sequence[Bound]) -> Kept | None:
    """Return the rows of a table of which conditions may all be true; None if that may be any."""
    ends = [found.ends for _, found in columns.values()]
    edges = ends[0] if len(ends) == 1 else np.unique(np.concatenate(ends))
    judge = _Judge({name: _spread(*pair, edges) for name, pair in columns.items()}, len(edges))
    may_be = judge.may_be(Logic("and", tuple(parts)) if len(parts) > 1 else parts[0])
    return None if may_be.all() else Kept(edges, may_be)


def _spread(column: StoredColumn, found: Aligned, edges: NDArray[np.int64]) -> _Known:
    has_nulls = column.scan.has_nulls
    if edges is found.ends:
        unknown = None if found.is_whole else ~found.known
        return _Known(column, found.pieces, unknown, has_nulls, found.numbers)
    at = np.searchsorted(found.ends, edges, side="left")
    inside = np.minimum(at, len(found.ends) - 1)
    pieces, unknown = found.pieces[inside], ~found.known[inside] | (at == len(found.ends))
    return _Known(column, pieces, unknown, has_nulls, Numbers.of(pieces, column.dtype))


def windows(found: Kept | None, relation: Relation, all_windows: Iterator[range]) -> Iterator[range]:
    """Yield the stretches of a relation's positions that hold rows which are left."""
    if found is None or not isinstance(relation, Stored):
        yield from all_windows
        return
    places = relation.places
    if not isinstance(places, range) or places.step != 1:
        for window in all_windows:
            if found.of(np.asarray(places[window.start : window.stop], np.int64)).any():
                yield window
        return
    runs, at, shift = found.runs, 0, places.start
    if runs[-1].start - shift >= len(relation):
        runs = runs[:-1]
    for window in all_windows:
        while at < len(runs) and runs[at].stop - shift <= window.start:
            at += 1
        if at == len(runs):
            return  # other windows need not even be laid out
        for run in runs[at:]:
            if run.start - shift >= window.stop:
                break
            yield range(max(window.start, run.start - shift), min(window.stop, run.stop - shift))


def ahead(found: Kept | None, relation: Relation, node: Bound) -> AbstractContextManager[object]:
    """Return a context in which chunks that a condition reads first are asked for together, where they lie far away.

    Chunks of what AND and OR ask next may not be needed, and are not asked for.
    """
    while isinstance(node, Logic | Not):
        node = node.operands[0] if isinstance(node, Logic) else node.operand
    if (
        not isinstance(relation, Stored)
        or not isinstance(relation.places, range)
        or relation.places.step != 1
    ):
        return nullcontext()
    columns = [relation.column(name) for name in values_read(node) if name]
    if not columns or columns[0].scan.reader.source.remote is None:
        return nullcontext()
    places = relation.places
    runs = [places] if found is None else found.runs
    inside = [range(max(run.start, places.start), min(run.stop, places.stop)) for run in runs]
    return prefetch([wanted for column in columns for wanted in column.scan.wanted_chunks(inside)])


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
        self._count = count

    @property
    def _any(self) -> Mask:
        return np.ones(self._count, np.bool_)

    def may_be(self, node: Bound) -> Mask:
        """Tell of each stretch whether a condition may be true of one of its rows."""
        if isinstance(node, Logic):
            join = np.logical_and if node.operator == "and" else np.logical_or
            return np.asarray(join.reduce([self.may_be(operand) for operand in node.operands]))
        if isinstance(node, Not):
            return self.may_fail(node.operand)
        if isinstance(node, Missing):
            of = self._missing(node)
            return self._any if of is None else of.or_unknown((of.pieces["empty"] > 0) | of.has_nulls)
        is_all = isinstance(node, Apply) and node.name == "ALL"  # true as well of what has no values
        found = self._asked(node, surely=False)
        if found is None:
            return self._any
        of, told = found
        return of.or_unknown(told | (of.pieces["empty"] > 0) | of.has_nulls if is_all else told)

    def may_fail(self, node: Bound) -> Mask:
        """Tell of each stretch whether a condition may be untrue of one of its rows."""
        if isinstance(node, Logic):
            join = np.logical_or if node.operator == "and" else np.logical_and
            return np.asarray(join.reduce([self.may_fail(operand) for operand in node.operands]))
        if isinstance(node, Not):
            return self.may_be(node.operand)
        if isinstance(node, Missing):
            of = self._missing(node)
            if of is None:
                return self._any
            # Of single numbers an empty sample is a missing one; other empty samples are there.
            is_single = list(of.column.state.meta.max_shape) == [1] and not of.column.is_text
            return of.or_unknown((of.pieces["empty"] < of.pieces["rows"]) | (not is_single))
        found = self._asked(node, surely=True)
        if found is None:
            return self._any
        of, told = found
        # A comparison is true of no row that is missing, empty or has NaN in it.
        odd = (of.pieces["empty"] > 0) | (of.pieces["flags"] & HAS_NAN).astype(np.bool_)
        return of.or_unknown(~told | odd | of.has_nulls)

    def _missing(self, node: Missing) -> _Known | None:
        return self._known.get(node.operand.name) if isinstance(node.operand, Input) else None

    def _asked(self, node: Bound, *, surely: bool) -> tuple[_Known, Mask] | None:
        """Return what column a condition is of, and which of its stretches may fit, or surely do; None if none tell."""
        if isinstance(node, Apply) and node.name == "ALL" and len(node.operands) == 1:
            node = node.operands[0]
        asked = bounds(node) or _contained(node)
        of = None if asked is None else self._known.get(asked.column)
        if asked is None or of is None:
            return None
        if not of.column.is_text:
            told = _of_numbers(asked, of, surely=surely)
        else:
            told = _of_texts(asked, of)
            if told is not None and surely:  # first bytes and lengths never tell that all fit
                told = np.zeros(len(told), np.bool_)
        return None if told is None else (of, told)


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

_Comparison = Callable[[Any, Any, Any], Mask]

_MAY_BE: Mapping[str, _Comparison] = {
    "=": lambda low, high, v: (low <= v) & (high >= v),
    "!=": lambda low, high, v: (low != v) | (high != v),
    "<": lambda low, _, v: low < v,
    "<=": lambda low, _, v: low <= v,
    ">": lambda _, high, v: high > v,
    ">=": lambda _, high, v: high >= v,
}
"""Comparison -> whether it may be true of a value."""

_IS_SURE: Mapping[str, _Comparison] = {
    "=": lambda low, high, v: (low == v) & (high == v),
    "!=": lambda low, high, v: (low > v) | (high < v),
    "<": lambda _, high, v: high < v,
    "<=": lambda _, high, v: high <= v,
    ">": lambda low, _, v: low > v,
    ">=": lambda low, _, v: low >= v,
}
"""Comparison -> whether it is true of all values."""


def _of_numbers(asked: Bounds, of: _Known, *, surely: bool) -> Mask | None:
    """Tell of each stretch whether a value may fit, or whether all do; None if statistics do not tell.

    Extremes are compared in the dtype of the column, as its values are: rounding keeps their order.
    """
    if of.numbers is None:
        return None
    told: Mask | None
    if asked.sign == "in":
        if not isinstance(asked.value, list):
            return None
        told = np.zeros(len(of.pieces), np.bool_)
        for value in asked.value:
            if isinstance(value, int | float):
                one = _compared("=", of.numbers, of.pieces, value, surely=surely)
                if one is None:
                    return None
                if not surely or abs(value) < _EXACT:  # IN compares integers as such, not as a float64
                    told = told | one
    else:
        told = _compared(asked.sign, of.numbers, of.pieces, asked.value, surely=surely)
        if told is None:
            return None
    told = told & of.numbers.has_values
    if asked.sign == "!=" and not surely:
        told = told | (of.pieces["flags"] & HAS_NAN).astype(np.bool_)
    return told


def _compared(sign: str, numbers: Numbers, pieces: Pieces, value: Any, *, surely: bool) -> Mask | None:
    if not isinstance(value, int | float) or (isinstance(value, int) and abs(value) >= _64_BITS):
        return None
    low, high = numbers.low, numbers.high
    if may_round(low, value):
        return None
    with np.errstate(all="ignore"):
        told = (_IS_SURE if surely else _MAY_BE)[sign](low, high, value)
    exact = sign == "=" and low.dtype.kind in "iub" and abs(value) < _EXACT and value == int(value)
    if exact and not surely:
        told = told & ((pieces["bits"] & np.uint64(1 << (int(value) & 63))) != 0)
    return told


# -- texts -----------------------------------------------------------------------------------------------------------


def _of_texts(asked: Bounds, of: _Known) -> Mask | None:
    """Tell of each stretch whether a text may fit, by the first bytes and the lengths; None if they do not tell."""
    pieces = of.pieces
    may_be: Mask
    if asked.sign == "in":
        if not isinstance(asked.value, list):
            return None
        may_be = np.zeros(len(pieces), np.bool_)
        for value in asked.value:
            if isinstance(value, str):
                may_be = may_be | _equal(value, of)
        return may_be
    if not isinstance(asked.value, str):
        return None
    text = asked.value.encode()
    first, low, high = beginning(text), pieces["low"], pieces["high"]
    if asked.sign == "=":
        return _equal(asked.value, of)
    if asked.sign in ("<", "<="):
        return low <= first
    if asked.sign in (">", ">="):
        return high >= first
    if asked.sign in ("CONTAINS", "STARTS_WITH") and text:
        may_be = pieces["most"] >= len(text)
        if asked.sign == "STARTS_WITH":
            after = beginning(text[:8].ljust(8, b"\xff"))
            may_be = may_be & (high >= first) & (low <= after)
        return may_be
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
