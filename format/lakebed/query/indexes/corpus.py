"""BM25: scores of texts for the words of a query, among all texts of a column.

For each occurrence of a word in the query, the score of a text grows by

    ln(1 + (N - n + 0.5) / (n + 0.5)) * f (k1 + 1) / (f + k1 (1 - b + b l / L)),   k1 = 1.2, b = 0.75,

where N texts have L words on average, n texts have the word, and the scored text has l words, f of which are the word
(Robertson and Zaragoza 2009, with the idf of Lucene, which is not negative). N, n and L count all rows of the column in
the queried version, regardless of views and WHERE; a missing text has no words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.errors import KeyNotFound, QueryError
from lakebed.query.indexes.bm25 import Words, counted, words_in
from lakebed.query.indexes.chunks import Coverage, chunks_of, coverage
from lakebed.query.indexes.registry import IndexEntry, read_registry, read_segment
from lakebed.query.relations.relation import Relation, Stored
from lakebed.query.values.columns import Column, Constant, Numbers, Texts, rows
from lakebed.query.values.info import Given

if TYPE_CHECKING:
    from lakebed.query.relations.stored import StoredColumn

K1 = 1.2
B = 0.75
_STEP = 1 << 14

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of all texts: number of texts, average length, and number of texts with each searched word."""

    texts: int
    average: float
    having: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Counted:
    """Word counts of texts.

    Attributes
    ----------
    lengths
        Number of words of each text: shape (rows,).
    often
        Frequency of each searched word in each text: shape (words, rows).
    """

    lengths: NDArray[np.int64]
    often: NDArray[np.int64]

    def statistics(self) -> Statistics:
        """Return the statistics of these texts."""
        total = len(self.lengths)
        average = float(self.lengths.sum()) / total if total else 1.0
        return Statistics(total, average or 1.0, np.count_nonzero(self.often, axis=1))


def scores(found: Counted, told: Statistics, times: list[int]) -> Scores:
    """Return the score of each text; `times` is the frequency of each word in the query."""
    norm = K1 * (1 - B + B * (found.lengths / told.average))
    whole = np.zeros(len(found.lengths))
    for often, having, count in zip(found.often, told.having.tolist(), times, strict=True):
        idf = np.log1p((told.texts - having + 0.5) / (having + 0.5))
        (hits,) = np.nonzero(often)
        f = often[hits].astype(np.float64)
        whole[hits] += count * idf * (f * (K1 + 1)) / (f + norm[hits])
    return whole


class Looked:
    """A search for the words of a query in a column.

    Parameters
    ----------
    is_exact
        True to read all texts without using an index.
    """

    def __init__(self, relation: Relation, name: str, text: str, *, is_exact: bool = False) -> None:
        self.relation = relation
        self.stored = relation if isinstance(relation, Stored) else None
        self.name = name
        spelt = Counter(words_in(text))
        self.words = sorted(spelt)
        self.times = [spelt[word] for word in self.words]
        self.is_exact = is_exact
        self._counted: Counted | None = None

    def all(self) -> Counted:
        """Return the word counts of all texts; for a stored table, in the order of its rows."""
        if self._counted is None:
            self._counted = self._computed() if self.stored is None else self._read(self.stored)
        return self._counted

    def scores(self) -> Scores:
        """Return the scores of all rows that :meth:`all` counts."""
        found = self.all()
        return scores(found, found.statistics(), self.times)

    def index(self) -> IndexEntry | None:
        """Return the index of the column; None if there is none."""
        if self.is_exact or self.stored is None:
            return None
        state = self.stored.column(self.name).state
        registry = read_registry(self.stored.table.session.storage)
        return next((i for i in registry.values() if i.kind == "bm25" and i.tensor == state.key), None)

    def covered(self, index: IndexEntry, stored: Stored) -> tuple[list[Words], Coverage]:
        """Return the segments of an index, and the rows of the queried version that they cover."""
        storage, state = stored.table.session.storage, stored.column(self.name).state
        segments = [read_segment(storage, index, entry, Words.from_segment) for entry in index.segments]
        return segments, coverage(chunks_of(state), [(s.prints, s.counts) for s in segments], state.length)

    def _read(self, stored: Stored) -> Counted:
        column = stored.column(self.name)
        length = column.state.length
        lengths = np.zeros(length, np.int64)
        often = np.zeros((len(self.words), length), np.int64)
        try:
            segments, held = self._index_of(stored, length)
        except KeyNotFound:  # another program has changed the index since it was looked up
            segments, held = self._index_of(stored, length)
        for segment, places in zip(segments, held.rows, strict=True):
            alive = places >= 0
            lengths[places[alive]] = segment.lengths[alive]
            for word, row in zip(self.words, often, strict=True):
                texts, times = segment.found(word)
                kept = alive[texts]
                row[places[texts[kept]]] = times[kept]
        for run in held.uncovered:
            for part in _steps(run):
                lengths[part.start : part.stop], often[:, part.start : part.stop] = counted(
                    _texts(column.read(part)), self.words
                )
        return Counted(lengths, often)

    def _index_of(self, stored: Stored, length: int) -> tuple[list[Words], Coverage]:
        index = self.index()
        return ([], Coverage([], [range(length)], [])) if index is None else self.covered(index, stored)

    def _computed(self) -> Counted:
        windows = self.relation.windows([self.name])
        parts = [counted(_texts(self.relation.read(self.name, window)), self.words) for window in windows]
        parts = parts or [counted(pa.array([], pa.string()), self.words)]
        return Counted(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts], axis=1))


def scorer(relation: Relation, name: str, text: str) -> Callable[[Given], Column]:
    """Return the function that scores texts; the statistics of all texts of the column are read once."""
    looked: list[tuple[Looked, Statistics]] = []

    def compute(given: Given) -> Column:
        if not looked:
            whole = Looked(relation, name, text)
            looked.append((whole, whole.all().statistics()))
        wanted, told = looked[0]
        found = Counted(*counted(_texts(given.columns[0]), wanted.words))
        return Numbers(scores(found, told, wanted.times))

    return compute


def texts_of(column: StoredColumn, run: range) -> pa.Array:
    """Return the texts of some rows."""
    return pa.concat_arrays(
        [_texts(column.read(part)) for part in _steps(run)] or [pa.array([], pa.string())]
    )


def _steps(run: range) -> Iterator[range]:
    for start in range(run.start, run.stop, _STEP):
        yield range(start, min(run.stop, start + _STEP))


def _texts(column: Column) -> pa.Array:
    if isinstance(column, Texts):
        return column.array
    if isinstance(column, Constant):
        return pa.array([column.value] * column.count, pa.string())
    values = rows(column)
    if not all(value is None or isinstance(value, str) for value in values):
        raise QueryError("BM25_SIMILARITY takes texts", kind="type")
    return pa.array(values, pa.string())
