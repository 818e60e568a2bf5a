"""Pruning: statistics of chunks rule out rows for which a condition cannot be true; these rows are not read.

Two questions are answered for each stretch of rows: may the condition be true for some row, and may it be false for
some row. Without statistics, both answers are yes. For NOT the two answers are exchanged. A comparison is false, not
unknown, for rows that are missing, empty or NaN.
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
from lakebed.query.relations.bound import (
    Apply,
    Bound,
    Input,
    Logic,
    Missing,
    Not,
    Value,
    inputs,
    on_record,
    values_read,
)
from lakebed.query.relations.evaluate import Scope
from lakebed.query.relations.relation import Relation, Stored
from lakebed.query.relations.stored import StoredColumn
from lakebed.query.statistics import known
from lakebed.query.statistics.known import Aligned, Numbers
from lakebed.query.statistics.pieces import beginning
from lakebed.query.values.elementwise import MIRRORED
from lakebed.query.values.exact import may_round
from lakebed.reading.remote.prefetch import prefetch
from lakebed.storage.stores.traffic import Counts

Mask = NDArray[np.bool_]

_EXACT = 1 << 53
"""Integers below this limit convert to float64 without rounding."""

_64_BITS = 1 << 63

_MANY = 1000
"""Maximum number of values of an IN that is decided by extremes: comparing more takes longer than pruning saves."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A comparison of a column with a constant, which the extremes of a chunk may decide; `sign` may also be ``in``."""

    column: str
    sign: str
    value: Any


def bounds(node: Bound) -> Bounds | None:
    """Return a condition as a comparison of a column with a constant; None if extremes cannot decide the condition."""
    if isinstance(node, Apply) and node.name in ("ANY", "ALL") and len(node.operands) == 1:
        node = node.operands[0]
    if not isinstance(node, Apply) or len(node.operands) != 2:
        return None
    left, right = node.operands
    if isinstance(left, Value) and isinstance(right, Input):
        return Bounds(right.name, MIRRORED[node.name], left.value) if node.name in MIRRORED else None
    if not isinstance(left, Input) or not isinstance(right, Value):
        return None
    if node.name == "IN":
        is_long = isinstance(right.value, list) and len(right.value) > _MANY
        return None if is_long else Bounds(left.name, "in", right.value)
    if node.name in MIRRORED:
        return Bounds(left.name, node.name, right.value)
    if node.name in ("CONTAINS", "STARTS_WITH") and isinstance(right.value, str):
        return Bounds(left.name, node.name, right.value)
    return Bounds(left.name, "=", right.value) if node.name == "CONTAINS" else None


@dataclass(frozen=True, slots=True)
class _Known:
    """Statistics of a column for each stretch of rows.

    Attributes
    ----------
    unknown
        Mask of the stretches without statistics; None if all have statistics.
    """

    column: StoredColumn
    pieces: Pieces
    unknown: Mask | None
    has_nulls: bool
    numbers: Numbers | None

    def or_unknown(self, told: Mask) -> Mask:
        """Set the answers in `told` to True for stretches without statistics, and return them."""
        return told if self.unknown is None else told | self.unknown

    @property
    def has_nan(self) -> Mask:
        """Mask of the stretches with NaN."""
        found: Mask = (self.pieces["flags"] & HAS_NAN).astype(np.bool_)
        return found


@dataclass(frozen=True)
class Kept:
    """The rows of a table that must be read after pruning.

    Attributes
    ----------
    ends
        End of each stretch of rows: int64.
    kept
        Mask of the stretches that must be read; rows after the last stretch must be read too.
    """

    ends: NDArray[np.int64]
    kept: Mask

    @cached_property
    def runs(self) -> list[range]:
        """Ranges of the rows that must be read; the last range has no end."""
        kept = np.append(self.kept, True)
        starts = np.append(0, self.ends)
        stops = np.append(self.ends, sys.maxsize)
        is_first = kept & ~np.append(False, kept[:-1])
        is_last = kept & ~np.append(kept[1:], False)
        pairs = zip(starts[is_first].tolist(), stops[is_last].tolist(), strict=True)
        return [range(start, stop) for start, stop in pairs if start < stop]

    def of(self, rows: NDArray[np.int64]) -> Mask:
        """Return for each row whether it must be read."""
        return np.append(self.kept, True)[np.searchsorted(self.ends, rows, side="right")]


def asked_columns(node: Bound) -> dict[str, None]:
    """Return the columns whose statistics may decide a condition, in order."""
    if isinstance(node, Logic):
        return dict.fromkeys(name for operand in node.operands for name in asked_columns(operand))
    if isinstance(node, Not):
        return asked_columns(node.operand)
    if isinstance(node, Missing):
        is_asked = isinstance(node.operand, Input) and on_record(node) is None
        return inputs(node.operand) if is_asked else {}
    asked = bounds(node)
    return {} if asked is None else {asked.column: None}


Told = Mapping[str, tuple[StoredColumn, Aligned]]
"""Statistics of columns by name."""


def told(relation: Relation, names: Sequence[str]) -> Told:
    """Return the statistics of those columns of a relation that have statistics."""
    if not isinstance(relation, Stored):
        return {}
    telling = [column for name in names if (column := relation.column(name)).has_statistics]
    known.load(telling)
    pairs = [(column, known.aligned(column)) for column in telling]
    return {column.name: (column, found) for column, found in pairs if found is not None}


def kept(columns: Told, parts: Sequence[Bound]) -> Kept | None:
    """Return the rows of a table for which all conditions may be true; None for all rows."""
    ends = [found.ends for _, found in columns.values()]
    edges = ends[0] if len(ends) == 1 else np.unique(np.concatenate(ends))
    judge = _Judge({name: _spread(*pair, edges) for name, pair in columns.items()}, len(edges))
    may_be = judge.may_be(Logic("and", tuple(parts)) if len(parts) > 1 else parts[0], True)
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
    """Yield the parts of the windows that contain rows to be read."""
    if found is None or not isinstance(relation, Stored):
        yield from all_windows
        return
    places = _consecutive(relation)
    if places is None:
        for window in all_windows:
            if found.of(np.asarray(relation.places[window.start : window.stop], np.int64)).any():
                yield window
        return
    runs, at, shift = found.runs, 0, places.start
    if runs[-1].start - shift >= len(relation):
        runs = runs[:-1]
    for window in all_windows:
        while at < len(runs) and runs[at].stop - shift <= window.start:
            at += 1
        if at == len(runs):
            return  # the remaining windows hold no rows
        for run in runs[at:]:
            if run.start - shift >= window.stop:
                break
            yield range(max(window.start, run.start - shift), min(window.stop, run.stop - shift))


def _consecutive(relation: Relation) -> range | None:
    """Return the row numbers of a relation if they are consecutive rows of a table, else None."""
    places = relation.places if isinstance(relation, Stored) else None
    return places if isinstance(places, range) and places.step == 1 else None


def ahead(found: Kept | None, relation: Relation, node: Bound) -> AbstractContextManager[object]:
    """Return a context that prefetches the remote chunks of the condition that is computed first.

    Chunks of later conditions of AND and OR are not prefetched, because they may not be needed.
    """
    while isinstance(node, Logic | Not):
        node = node.operands[0] if isinstance(node, Logic) else node.operand
    places = _consecutive(relation)
    if places is None or not isinstance(relation, Stored):
        return nullcontext()
    columns = [relation.column(name) for name in values_read(node) if name]
    if not columns or columns[0].scan.reader.source.remote is None:
        return nullcontext()
    runs = [places] if found is None else found.runs
    inside = [range(max(run.start, places.start), min(run.stop, places.stop)) for run in runs]
    return prefetch([wanted for column in columns for wanted in column.scan.wanted_chunks(inside)])


def learn(relation: Relation, scope: Scope, names: Sequence[str], window: range) -> None:
    """Collect statistics of the chunks that were read."""
    places = _consecutive(relation)
    if places is None or not isinstance(relation, Stored):
        return
    rows = places[window.start : window.stop]
    for name in names:
        column = relation.column(name)
        if column.has_statistics and scope.has_read(name):
            known.learn(column, rows)


def save(relation: Relation, names: Sequence[str]) -> None:
    """Write collected statistics to side files, if the dataset may be written."""
    if isinstance(relation, Stored):
        for name in names:
            column = relation.column(name)
            if column.has_statistics:
                known.save(column)


def expected(found: Kept | None, relation: Relation, names: Sequence[str]) -> list[str]:
    """Describe the chunks that a condition reads, one line per column; reading a remote chunk takes one request."""
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
    """Return the network traffic so far; None for local datasets."""
    if not isinstance(relation, Stored) or not names:
        return None
    traffic = relation.column(names[0]).scan.reader.source.traffic
    return None if traffic is None else traffic.counts()


class _Judge:
    """Decides conditions for stretches of rows."""

    def __init__(self, known: Mapping[str, _Known], count: int) -> None:
        self._known = known
        self._count = count

    def may_be(self, node: Bound, truth: bool) -> Mask:
        """Return for each stretch whether the condition may have the value `truth` for some row."""
        if isinstance(node, Logic):
            join = np.logical_and if (node.operator == "and") is truth else np.logical_or
            return np.asarray(join.reduce([self.may_be(operand, truth) for operand in node.operands]))
        if isinstance(node, Not):
            return self.may_be(node.operand, not truth)
        of, told = self._missing(node, truth) if isinstance(node, Missing) else self._compared(node, truth)
        return np.ones(self._count, np.bool_) if of is None or told is None else of.or_unknown(told)

    def _missing(self, node: Missing, truth: bool) -> tuple[_Known | None, Mask | None]:
        of = self._known.get(node.operand.name) if isinstance(node.operand, Input) else None
        if of is None or truth:
            return of, None if of is None else (of.pieces["empty"] > 0) | of.has_nulls
        # If samples are single numbers, an empty sample is a missing value; otherwise it is not.
        is_single = list(of.column.state.meta.max_shape) == [1] and not of.column.is_text
        return of, (of.pieces["empty"] < of.pieces["rows"]) | (not is_single)

    def _compared(self, node: Bound, truth: bool) -> tuple[_Known | None, Mask | None]:
        asked = bounds(node)
        of = None if asked is None else self._known.get(asked.column)
        if asked is None or of is None:
            return None, None
        told = _of_texts(asked, of) if of.column.is_text else _of_numbers(asked, of, surely=not truth)
        empty = (of.pieces["empty"] > 0) | of.has_nulls
        if told is None:
            return None, None
        if truth:
            # ALL is also true for samples without values.
            is_all = isinstance(node, Apply) and node.name == "ALL"
            return of, told | empty if is_all else told
        # Statistics of texts hold only first bytes and lengths, which cannot prove that all texts match. A comparison
        # is false for rows that are missing, are empty or contain NaN.
        return of, np.ones(len(told), np.bool_) if of.column.is_text else ~told | empty | of.has_nan


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
"""Comparison -> function that tells whether it may be true for a value between the extremes."""

_IS_SURE: Mapping[str, _Comparison] = {
    "=": lambda low, high, v: (low == v) & (high == v),
    "!=": lambda low, high, v: (low > v) | (high < v),
    "<": lambda _, high, v: high < v,
    "<=": lambda _, high, v: high <= v,
    ">": lambda low, _, v: low > v,
    ">=": lambda low, _, v: low >= v,
}
"""Comparison -> function that tells whether it is true for all values between the extremes."""


def _of_numbers(asked: Bounds, of: _Known, *, surely: bool) -> Mask | None:
    """Return for each stretch whether a value may satisfy the comparison, or, if `surely`, whether all values do.

    Return None if the statistics cannot decide it. Extremes are rounded to the dtype of the column, in which its values
    are compared too; rounding keeps their order.
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
                if not surely or abs(value) < _EXACT:  # extremes may be rounded; IN compares exactly
                    told = told | one
    else:
        told = _compared(asked.sign, of.numbers, of.pieces, asked.value, surely=surely)
        if told is None:
            return None
    told = told & of.numbers.has_values
    return told | of.has_nan if asked.sign == "!=" and not surely else told


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
    """Return for each stretch whether a text may satisfy the comparison; None if the statistics cannot decide it.

    The statistics are the first bytes and the lengths of texts.
    """
    pieces = of.pieces
    if asked.sign == "in":
        if not isinstance(asked.value, list):
            return None
        masks = [_equal(value, of) for value in asked.value if isinstance(value, str)]
        return np.logical_or.reduce(masks or [np.zeros(len(pieces), np.bool_)])  # type: ignore[no-any-return]
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
        may_be: Mask = pieces["most"] >= len(text)
        if asked.sign == "STARTS_WITH":
            after = beginning(text[:8].ljust(8, b"\xff"))
            may_be = may_be & (high >= first) & (low <= after)
        return may_be
    return None


def _equal(value: str, of: _Known) -> Mask:
    """Return for each stretch whether it may contain the text `value`; a missing text counts as an empty one."""
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
