"""Segments of vectors: graphs that usearch searches (Malkov and Yashunin 2016), over the vectors of some chunks.

    array      dtype      what
    prints     uint64     of each chunk (see `chunks`)
    counts     uint32     vectors in each chunk
    graph      uint8      what usearch stores (see `graph`); its keys are numbers of vectors

Vectors that are missing, or are not finite, and those of length 0 where the angle counts, are in no graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import FormatError, ModuleNotInstalledException
from lakebed.query.indexes.graph import DTYPES, METRICS, check_graph
from lakebed.query.indexes.segments import Segment

_ASKED = 64
"""Vectors that are looked for to measure how many of the nearest are found."""

_NEAREST = 10
_MOST_SAMPLES = 1 << 28
"""Samples of a segment, which each take eight bytes when it is searched."""

MISSING = "Indexes of vectors need usearch: pip install usearch, or, in a checkout, pip install '.[search]'"
_LEAST_WIDE, _WIDEST = 64, 1024


@dataclass(frozen=True, slots=True)
class Vectors:
    """One segment, ready to be searched."""

    prints: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    graph: Any

    def nearest(self, vector: NDArray[np.float32], count: int, wide: int) -> NDArray[np.int64]:
        """Return the numbers of about the nearest vectors.

        Parameters
        ----------
        wide
            How many are held in view on the way: more find more of the nearest.
        """
        count = min(count, len(self.graph))
        if not count:
            return np.zeros(0, np.int64)
        self.graph.expansion_search = max(wide, count)
        found: NDArray[np.int64] = self.graph.search(vector, count, threads=1).keys.astype(np.int64)
        return found

    @classmethod
    def from_segment(cls, segment: Segment) -> Vectors:
        """Parse.

        Raises
        ------
        FormatError
            If the graph cannot be followed.
        """
        facts, arrays = segment.facts, segment.arrays
        prints, counts, data = arrays["prints"], arrays["counts"], arrays["graph"]
        metric, dtype, width = facts["metric"], facts["dtype"], facts["width"]
        if (
            metric not in METRICS
            or dtype not in DTYPES
            or type(width) is not int
            or len(prints) != len(counts)
        ):
            raise FormatError("a segment of vectors contradicts itself")
        samples = int(counts.sum(dtype=np.int64))
        if data.dtype != np.uint8 or samples > _MOST_SAMPLES:
            raise FormatError("a segment of vectors holds more than it can, or no graph")
        check_graph(data, metric, dtype, width, samples)
        graph = library().restore(data, view=True, enable_key_lookups=False)
        if graph is None:
            raise FormatError("usearch cannot read the graph")
        return cls(prints, counts, graph)


def library() -> Any:
    """Return the class of graphs.

    Raises
    ------
    ModuleNotInstalledException
        If usearch is not installed.
    """
    try:
        from usearch.index import Index
    except ImportError as error:
        raise ModuleNotInstalledException(MISSING) from error
    return Index


def is_installed() -> bool:
    """Whether usearch is."""
    from importlib.util import find_spec

    return find_spec("usearch") is not None


def made(
    vectors: NDArray[np.float32],
    kept: NDArray[np.bool_],
    prints: NDArray[np.uint64],
    counts: NDArray[np.int64],
    settings: Mapping[str, Any],
) -> tuple[Segment, dict[str, Any]]:
    """Make a segment; return it and what was measured: `recall`, and how wide a search that has it looks (`wide`).

    Parameters
    ----------
    vectors
        Shape (vectors, n).
    kept
        Which of them have a place in the graph.
    """
    metric, dtype = str(settings["metric"]), str(settings["dtype"])
    graph = library()(
        ndim=vectors.shape[1],
        metric=METRICS[metric][0],
        dtype=dtype,
        connectivity=int(settings["connectivity"]),
        expansion_add=int(settings["expansion_add"]),
        enable_key_lookups=False,
    )
    (numbers,) = np.nonzero(kept)
    if len(numbers):
        graph.add(numbers.astype(np.uint64), np.ascontiguousarray(vectors[kept]))
    facts = _measured(graph, vectors, numbers, metric, float(settings["recall"]))
    arrays: dict[str, NDArray[Any]] = {
        "prints": prints,
        "counts": counts.astype(np.uint32),
        "graph": np.frombuffer(graph.save(), np.uint8),
    }
    told = {"kind": "hnsw", "metric": metric, "dtype": dtype, "width": vectors.shape[1]}
    return Segment(told, arrays), facts


def usable(vectors: NDArray[np.float32], metric: str, dtype: str) -> NDArray[np.bool_]:
    """Tell of each vector whether it can have a place in a graph."""
    norms = np.einsum("ij,ij->i", vectors, vectors)
    found: NDArray[np.bool_] = np.isfinite(norms)
    if metric == "cosine":
        found &= norms > 0
    if dtype == "f16":
        found &= np.abs(vectors).max(axis=1, initial=0) < np.finfo(np.float16).max
    return found


def _measured(
    graph: Any, vectors: NDArray[np.float32], numbers: NDArray[np.int64], metric: str, wanted: float
) -> dict[str, Any]:
    """Search for some of the vectors wider and wider, until as many of the nearest are found as are wanted."""
    count = min(_NEAREST, len(numbers) - 1)
    if count < 1:
        return {"recall": 1.0, "wide": _LEAST_WIDE}
    asked = np.unique(np.linspace(0, len(numbers) - 1, _ASKED).astype(np.int64))
    sought = vectors[numbers[asked]]
    right = numbers[_exact(vectors, numbers, sought, asked, metric, count)]
    wide = _LEAST_WIDE
    while True:
        graph.expansion_search = wide
        hits = 0
        for number, vector, nearest in zip(numbers[asked].tolist(), sought, right, strict=True):
            keys = graph.search(vector, count + 1, threads=1).keys.astype(np.int64)
            hits += len(np.intersect1d(keys[keys != number][:count], nearest))
        recall = hits / (len(asked) * count)
        if recall >= wanted or wide >= _WIDEST:
            return {"recall": round(recall, 4), "wide": wide}
        wide *= 2


def _exact(
    vectors: NDArray[np.float32],
    numbers: NDArray[np.int64],
    sought: NDArray[np.float32],
    asked: NDArray[np.int64],
    metric: str,
    count: int,
) -> NDArray[np.int64]:
    """Return the places, among `numbers`, of those nearest to each, itself left out: shape (asked, count)."""
    near = np.empty((len(sought), len(numbers)), np.float32)
    for start in range(0, len(numbers), 1 << 13):
        block = vectors[numbers[start : start + (1 << 13)]]
        found = sought @ block.T
        if metric != "dot":
            squares = np.einsum("ij,ij->i", block, block)
            found = found / np.sqrt(squares) if metric == "cosine" else 2 * found - squares
        near[:, start : start + (1 << 13)] = found
    near[np.arange(len(asked)), asked] = -np.inf
    return np.argpartition(near, near.shape[1] - count, axis=1)[:, -count:]
