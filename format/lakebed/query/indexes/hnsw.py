"""Segments of vectors: usearch graphs (Malkov and Yashunin 2016) over the vectors of some chunks.

    array      dtype      content
    prints     uint64     print of each chunk (see `chunks`)
    counts     uint32     number of vectors in each chunk
    middle     float32    only for vectors as bytes (dtype i8): their middle (see `codes`); the segment's facts have the
                          factor
    graph      uint8      bytes of usearch (see `graph`); keys are numbers of vectors

A graph contains no vectors that are missing or not finite; for the cosine metric, it contains no vectors of length 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import FormatError, ModuleNotInstalledException
from lakebed.query.indexes.codes import Best, Codes
from lakebed.query.indexes.graph import DTYPES, METRICS, check_graph
from lakebed.query.indexes.segments import Segment

FETCHED = 2
"""Number of candidates that a graph proposes per wanted vector; the stored values of candidates decide the order."""

_MOST_SAMPLES = 1 << 28
"""Maximum number of samples in a segment; each takes eight bytes during a search."""

MISSING = "Indexes of vectors need usearch: pip install 'lakebed[search]'"
LEAST_WIDE, _WIDEST = 64, 1024


@dataclass(frozen=True, slots=True)
class Vectors:
    """A segment, ready to be searched."""

    prints: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    graph: Any
    metric: str
    codes: Codes | None = None

    def nearest(
        self, vector: NDArray[np.float32], count: int, wide: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the numbers of the approximately nearest vectors, and their similarities.

        A similarity is the approximate cosine, inner product, or negative squared distance. Similarities of different
        segments can be compared.

        Parameters
        ----------
        wide
            Number of candidates during the search; with more candidates, more of the nearest vectors are found.
        """
        count = min(count, len(self.graph))
        if not count:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        self.graph.expansion_search = max(wide, count)
        given, factor = (vector, 1.0) if self.codes is None else self.codes.asked(vector)
        found = self.graph.search(given, count, threads=1)
        keys: NDArray[np.int64] = found.keys.astype(np.int64)
        if self.metric == "l2":
            return keys, -found.distances / np.float32(factor * factor)
        products = 1 - found.distances
        if self.codes is not None:
            # The cosine does not depend on the length of the query vector, so divide by that length.
            length = float(np.linalg.norm(vector)) if self.metric == "cosine" else 1.0
            products = products / np.float32(factor * self.codes.factor * length)
        return keys, products

    @classmethod
    def from_segment(cls, segment: Segment) -> Vectors:
        """Return the graph of a segment; raise an error if it is inconsistent."""
        facts, arrays = segment.facts, segment.arrays
        prints, counts, data = arrays["prints"], arrays["counts"], arrays["graph"]
        metric, dtype, width = facts["metric"], facts["dtype"], facts["width"]
        is_known = metric in METRICS and dtype in DTYPES and type(width) is int
        if not is_known or len(prints) != len(counts):
            raise FormatError("a segment of vectors is inconsistent")
        samples = int(counts.sum(dtype=np.int64))
        if data.dtype != np.uint8 or samples > _MOST_SAMPLES:
            raise FormatError("a segment of vectors has too many samples, or no graph")
        check_graph(data, stored_metric(metric, dtype), dtype, width, samples)
        codes = _codes(segment, metric, width) if dtype == "i8" else None
        graph = library().restore(data, view=True, enable_key_lookups=False)
        if graph is None:
            raise FormatError("usearch cannot read the graph")
        return cls(prints, counts, graph, metric, codes)


def _codes(segment: Segment, metric: str, width: int) -> Codes:
    middle, factor = segment.arrays["middle"], segment.facts["factor"]
    is_sound = type(factor) in (int, float) and 0 < factor < math.inf
    if not is_sound or middle.dtype != np.float32 or len(middle) != width or not np.isfinite(middle).all():
        raise FormatError("a segment of vectors has invalid codes")
    return Codes(metric, middle, float(factor))


def library() -> Any:
    """Return usearch's class of graphs; raise an error if usearch is not installed."""
    try:
        from usearch.index import Index
    except ImportError as error:
        raise ModuleNotInstalledException(MISSING) from error
    return Index


def is_installed() -> bool:
    """Return whether usearch is installed."""
    return find_spec("usearch") is not None


class Graph:
    """A graph that is being built.

    Parameters
    ----------
    codes
        Coding of vectors as bytes; None if vectors stay floats.
    """

    def __init__(self, width: int, settings: Mapping[str, Any], codes: Codes | None) -> None:
        self.width = width
        self.metric = str(settings["metric"])
        self.codes = codes
        dtype = str(settings["dtype"])
        self.dtype = "i8" if codes is not None else "f32" if dtype in ("auto", "i8") else dtype
        self._wanted = float(settings["recall"])
        self._graph: Any = library()(
            ndim=width,
            metric=METRICS[stored_metric(self.metric, self.dtype)][0],
            dtype=self.dtype,
            connectivity=int(settings["connectivity"]),
            expansion_add=int(settings["expansion_add"]),
            enable_key_lookups=False,
        )

    def __len__(self) -> int:
        return len(self._graph)

    def add(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors, shape (vectors, width), under their numbers."""
        if len(numbers):
            given = np.ascontiguousarray(vectors) if self.codes is None else self.codes.coded(vectors)
            self._graph.add(numbers.astype(np.uint64), given)

    def measured(self, best: Best, asked: NDArray[np.float32]) -> dict[str, Any]:
        """Search for some of the vectors, with more and more candidates, until the wanted recall is reached.

        Returns
        -------
        ``recall``, the measured share of the nearest vectors, if candidates are ordered by stored values; and ``wide``,
        the number of candidates that such a search needs.
        """
        if len(self) < 2 or not best.numbers.size:
            return {"recall": 1.0, "wide": LEAST_WIDE}
        searched = Vectors(
            np.zeros(0, np.uint64), np.zeros(0, np.uint32), self._graph, self.metric, self.codes
        )
        wide = LEAST_WIDE
        while True:
            hits = 0
            for number, vector, nearest in zip(best.own.tolist(), asked, best.numbers, strict=True):
                keys = searched.nearest(vector, FETCHED * best.numbers.shape[1] + 1, wide)[0]
                hits += len(np.intersect1d(keys[keys != number], nearest))
            recall = hits / best.numbers.size
            if recall >= self._wanted or wide >= _WIDEST:
                return {"recall": round(recall, 4), "wide": wide}
            wide += wide // 2

    def to_segment(self, prints: NDArray[np.uint64], counts: NDArray[np.int64]) -> Segment:
        """Return the segment, and release the graph, so that memory never holds the graph twice."""
        told = {"kind": "hnsw", "metric": self.metric, "dtype": self.dtype, "width": self.width}
        data = self._graph.save()
        self._graph = None
        arrays: dict[str, NDArray[Any]] = {"prints": prints, "counts": counts.astype(np.uint32)}
        if self.codes is not None:
            told["factor"] = self.codes.factor
            arrays["middle"] = self.codes.middle
        return Segment(told, {**arrays, "graph": np.frombuffer(data, np.uint8)})


def stored_metric(metric: str, dtype: str) -> str:
    """Return the metric of a graph: vectors as bytes are normalised for the cosine metric, which is then ``dot``."""
    return "dot" if (metric, dtype) == ("cosine", "i8") else metric


def row_bytes(width: int, dtype: str, connectivity: int) -> int:
    """Return the approximate size of a vector in a graph, with its neighbours on all levels."""
    above = 4 + 4 * connectivity
    return width * DTYPES[dtype][1] + 24 + 2 * above + above // max(1, connectivity - 1)


def usable(vectors: NDArray[np.float32], metric: str, dtype: str) -> NDArray[np.bool_]:
    """Return whether a graph can hold each vector."""
    norms = np.einsum("ij,ij->i", vectors, vectors)
    found: NDArray[np.bool_] = np.isfinite(norms)
    if metric == "cosine":
        found &= norms > 0
    if dtype == "f16":
        found &= np.abs(vectors).max(axis=1, initial=0) < np.finfo(np.float16).max
    return found
