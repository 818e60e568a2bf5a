"""Searches of ORDER BY: by words, by vectors with an index, and by fused ranks.

An index only proposes rows; the stored values of these rows decide the order. Rows that no segment covers are all read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import KeyNotFound, QueryError
from lakebed.query.indexes import hnsw, registry
from lakebed.query.indexes.chunks import Coverage, chunks_of, coverage
from lakebed.query.indexes.corpus import Looked
from lakebed.query.indexes.registry import IndexEntry, SegmentEntry, read_registry, read_segment
from lakebed.query.relations.bound import Apply, Bound, Input, Value, column_and_vector
from lakebed.query.relations.relation import Relation, Stored
from lakebed.query.values.columns import Column, Numbers, scalars
from lakebed.query.values.ordering import Key, ordered
from lakebed.storage.base import is_mappable

if TYPE_CHECKING:
    from lakebed.reading.samples import SampleReader

Rows = NDArray[np.int64]
Computed = Callable[[Relation, Bound], Column]
"""Function that computes an expression for all rows of a relation."""

RRF = 60
"""Constant of reciprocal rank fusion (Cormack, Clarke and Buettcher 2009)."""

_FEW = 1_000
_FEW_OF = 0.02
"""If a query has at most this number of rows, or this share of the covered rows, read them without a search."""

_LEAST_BEST = 10
_MOST_FETCHED = 1 << 13
"""Minimum number of rows for which candidates are fetched, and maximum number of candidates."""

_METRICS = {"COSINE_SIMILARITY": ("cosine", True), "L2_DISTANCE": ("l2", False), "DOT": ("dot", True)}
"""Function -> its metric, and whether the nearest rows have the largest values."""


@dataclass(slots=True)
class Order:
    """An ORDER BY with one key.

    Attributes
    ----------
    best
        Number of rows to return, from the start of the order; None for all.
    is_exact
        True to use no index.
    computed
        Function that computes an expression for all rows.
    told
        Description of the search, for EXPLAIN.
    """

    relation: Relation
    node: Bound
    is_descending: bool
    nulls: str
    best: int | None
    is_exact: bool
    computed: Computed
    told: str = ""

    def rows(self, *, is_dry: bool) -> Rows | None:
        """Return the first rows in order; None if ORDER BY must read all rows itself.

        Parameters
        ----------
        is_dry
            True to only describe the search, in `told`.
        """
        node = self.node
        if not isinstance(node, Apply):
            return None
        if node.name in ("RRF", "BM25_SIMILARITY"):
            if is_dry:
                self._tell_words(node)
                return None
            column = Numbers(self._fused(node) if node.name == "RRF" else self._words(node))
            return ordered([Key(column, self.is_descending, self.nulls)], self.best)
        if node.name in _METRICS and self.best and not self.is_exact and isinstance(self.relation, Stored):
            return self._vectors(node, self.relation, is_dry=is_dry)
        return None

    # -- words and ranks -------------------------------------------------------------------------------------------

    def _looked(self, node: Apply) -> Looked:
        column, words = node.operands
        if not isinstance(column, Input) or not isinstance(words, Value):
            raise QueryError("BM25_SIMILARITY takes a column and a text", kind="type")
        return Looked(self.relation, column.name, words.value, is_exact=self.is_exact)

    def _words(self, node: Apply) -> NDArray[np.float64]:
        if not isinstance(self.relation, Stored):
            return _floats(self.computed(self.relation, node))
        found: NDArray[np.float64] = self._looked(node).scores()[np.asarray(self.relation.places)]
        return found

    def _tell_words(self, node: Apply) -> None:
        told = []
        for part in node.operands if node.name == "RRF" else (node,):
            if isinstance(part, Apply) and part.name == "BM25_SIMILARITY":
                looked = self._looked(part)
                index = looked.index()
                if index is None or looked.stored is None:
                    told.append("words of all texts")
                else:
                    told.append(
                        f"words by index {index.name}, {_left(looked.covered(index, looked.stored)[1])}"
                    )
        self.told = "; ".join(told)

    def _fused(self, node: Apply) -> NDArray[np.float64]:
        """Return the sum of 1 / (60 + rank) over the operands.

        Equal values have the same rank; a text with none of the searched words adds 0.
        """
        whole = np.zeros(len(self.relation))
        for operand in node.operands:
            if isinstance(operand, Apply) and operand.name == "BM25_SIMILARITY":
                values = self._words(operand)
                values = np.where(values > 0, values, np.nan)
            else:
                values = _floats(self.computed(self.relation, operand))
            (known,) = np.nonzero(~np.isnan(values))
            different, inverse, counts = np.unique(-values[known], return_inverse=True, return_counts=True)
            ranks = np.cumsum(counts) - counts + 1
            if len(different):
                whole[known] += 1.0 / (RRF + ranks[inverse.reshape(-1)])
        return whole

    # -- vectors ---------------------------------------------------------------------------------------------------

    def _vectors(self, node: Apply, relation: Stored, *, is_dry: bool) -> Rows | None:
        metric, is_largest = _METRICS[node.name]
        column, constant = column_and_vector(node)
        if column is None or constant is None or self.is_descending != is_largest or not hnsw.is_installed():
            return None
        vector = constant.value.astype(np.float32)
        if vector.ndim != 1 or not np.isfinite(vector).all() or not vector.any():
            return None
        try:
            found = _covered(relation, column, metric)
        except KeyNotFound:  # another program has changed the index since it was looked up
            found = _covered(relation, column, metric)
        if found is None:
            return None
        index, segments, held = found
        recalls = [float(s.facts["recall"]) for s in index.segments if "recall" in s.facts]
        told = f", which found {min(recalls):.0%} of the nearest when it was measured" if recalls else ""
        self.told = f"nearest vectors by index {index.name}{told}, {_left(held)}"
        if is_dry:
            return None
        wide = [min(int(s.facts.get("wide", 0)), 1 << 12) for s in index.segments]
        return _Nearest(self, relation, vector, segments, held, wide).rows()


@dataclass(frozen=True, slots=True)
class _Nearest:
    """A search for the vectors nearest to a query vector."""

    order: Order
    relation: Stored
    vector: NDArray[np.float32]
    segments: list[Any]
    held: Coverage
    wide: list[int]

    def rows(self) -> Rows | None:
        """Return the positions of the nearest rows, in order; None if reading all rows is better."""
        best = self.order.best or 0
        total = len(self.relation)
        covered = sum(self.held.alive)
        everything = sum(len(rows) for rows in self.held.rows)
        if not covered or total <= max(_FEW, _FEW_OF * covered, 2 * best):
            return None
        places = self._places()
        # A graph also finds rows that were removed or that the query does not read; count the other rows.
        kept = sum(int(np.count_nonzero(self._kept(rows, places))) for rows in self.held.rows)
        rest = self._uncovered(places)
        fetched = -(-max(best, _LEAST_BEST) * hnsw.FETCHED * everything // max(1, kept))
        while kept and fetched <= _MOST_FETCHED:
            near = self._near(places, fetched)
            chosen = np.union1d(near, rest)
            found = self._ordered(chosen, best) if len(near) >= min(best, kept) else None
            if found is not None:
                return found
            fetched *= 4
        return None

    def _places(self) -> Rows | None:
        """Return each table row's position in the query, -1 if the query lacks it; None if the query has all rows."""
        places = self.relation.places
        length = self.held.uncovered_count + sum(self.held.alive)
        if isinstance(places, range) and places.start == 0 and places.step == 1 and len(places) >= length:
            return None
        asked = np.asarray(places, np.int64)
        found = np.full(max(length, int(asked.max(initial=-1)) + 1), -1, np.int64)
        found[asked] = np.arange(len(asked))
        return found

    @staticmethod
    def _kept(rows: Rows, places: Rows | None) -> NDArray[np.bool_]:
        alive = rows >= 0
        return alive if places is None else alive & (places[np.maximum(rows, 0)] >= 0)

    def _uncovered(self, places: Rows | None) -> Rows:
        runs = [np.arange(run.start, run.stop, dtype=np.int64) for run in self.held.uncovered]
        rows = np.concatenate(runs) if runs else np.zeros(0, np.int64)
        return rows if places is None else places[rows][places[rows] >= 0]

    def _near(self, places: Rows | None, count: int) -> Rows:
        """Return the nearest rows that the graphs of all segments propose."""
        found: list[tuple[Rows, NDArray[np.float32]]] = []
        for segment, rows, wide in zip(self.segments, self.held.rows, self.wide, strict=True):
            numbers, nearness = segment.nearest(self.vector, count, wide)
            near = rows[numbers]
            kept = self._kept(near, places)
            near = near[kept]
            found.append((near if places is None else places[near], nearness[kept]))
        if not found:
            return np.zeros(0, np.int64)
        near, nearness = (np.concatenate(parts) for parts in zip(*found, strict=True))
        if len(found) > 1 and len(near) > count:
            near = near[np.argpartition(-nearness, count - 1)[:count]]
        return near

    def _ordered(self, chosen: Rows, best: int) -> Rows | None:
        """Return the first `best` chosen positions in the order of their stored values; None if fewer have a value."""
        order = self.order
        column = order.computed(self.relation.select(chosen), order.node)
        if len(chosen) - int(np.count_nonzero(np.isnan(_floats(column)))) < best:
            return None
        return chosen[ordered([Key(column, order.is_descending, order.nulls)], best)]


_coverage: WeakKeyDictionary[SampleReader, tuple[tuple[SegmentEntry, ...], Coverage]] = WeakKeyDictionary()
"""Reader of a tensor, which reads one state of it -> segments of its index, and the rows that they cover."""


def _covered(
    relation: Stored, column: Input, metric: str
) -> tuple[IndexEntry, list[hnsw.Vectors], Coverage] | None:
    """Return the index of a column, its segments, and the rows that they cover; None if there is no index."""
    storage = relation.table.session.storage
    reader = relation.column(column.name).scan.reader
    wanted = ("hnsw", reader.state.key, metric)
    indexes = read_registry(storage).values()
    index = next((i for i in indexes if (i.kind, i.tensor, i.settings.get("metric")) == wanted), None)
    if index is None:
        return None
    size = sum(segment.size for segment in index.segments)
    if size > registry.KEPT_BYTES and not is_mappable(storage):
        warnings.warn(
            f"index {index.name!r} of {storage.url} has {size >> 20:,} MB, but {registry.KEPT_BYTES >> 20:,} MB of "
            "indexes stay in memory, so each search reads the rest again; a copy on a local disk is mapped",
            stacklevel=2,
        )
    segments = [read_segment(storage, index, entry, hnsw.Vectors.from_segment) for entry in index.segments]
    known = _coverage.get(reader)
    if known is None or known[0] != index.segments:
        state = reader.state
        held = coverage(chunks_of(state), [(s.prints, s.counts) for s in segments], state.length)
        known = _coverage[reader] = index.segments, held
    return index, segments, known[1]


def _floats(column: Column) -> NDArray[np.float64]:
    """Return one number for each row, NaN for missing values."""
    found = scalars(column)
    if found is None:
        raise QueryError("RRF needs operands with a single number per row", kind="type")
    values, missing = found
    values = values.astype(np.float64)
    return values if missing is None else np.where(missing, np.nan, values)


def _left(held: Coverage) -> str:
    count = held.uncovered_count
    return f"{count:,} rows without it" if count else "all rows"
