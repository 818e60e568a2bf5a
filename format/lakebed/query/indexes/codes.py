"""Vectors as bytes, a quarter of the size of float32, for graphs: these only propose rows, so they may be inexact.

    code = round((v - middle) * factor), clipped to -127 and 127

For the cosine metric, `v` is normalised first. `middle` is 0 except for distances, which do not depend on it. The
inner product of codes, or the square of their distance, is nearly the value for the vectors times `factor` squared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_TOP = 127
_OUTSIDE = 1e-4
"""Maximum share of the numbers that are clipped, so that a few outliers do not make the steps too coarse."""

_NEAREST = 10
_LEAST_SAMPLE = 64
_LEAST_RIGHT = 0.9
"""Minimum share of the nearest vectors of a sample that codes must find."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Coding of the vectors of a segment as bytes."""

    metric: str
    middle: Floats
    factor: float

    @classmethod
    def of(cls, sample: Floats, metric: str) -> Codes:
        """Choose `middle` and `factor` for vectors from a sample of them, shape (vectors, n)."""
        middle = (
            sample.mean(axis=0, dtype=np.float64) if metric == "l2" else np.zeros(sample.shape[1])
        ).astype(np.float32)
        numbers = np.abs(_prepared(sample, metric) - middle).reshape(-1)
        largest = float(np.quantile(numbers, 1 - _OUTSIDE)) if len(numbers) else 0.0
        return cls(metric, middle, _TOP / (largest or float(numbers.max(initial=0)) or 1.0))

    def coded(self, vectors: Floats) -> NDArray[np.int8]:
        """Return the codes of vectors."""
        return _rounded((_prepared(vectors, self.metric) - self.middle) * np.float32(self.factor))

    def asked(self, vector: Floats) -> tuple[NDArray[np.int8], float]:
        """Return the codes of the query vector, and the factor by which they were scaled.

        Except for distances, the query vector has its own factor, so that a vector unlike the sample is not clipped.
        """
        if self.metric == "l2":
            return self.coded(vector[None])[0], self.factor
        factor = _TOP / (float(np.abs(vector).max(initial=0)) or 1.0)
        return _rounded(vector * np.float32(factor)), factor


def suit(sample: Floats, metric: str) -> bool:
    """Return whether codes find nearly the same nearest vectors in a sample as floats do."""
    if len(sample) < _LEAST_SAMPLE:
        return False
    codes = Codes.of(sample, metric)
    asked = np.linspace(0, len(sample) - 1, _LEAST_SAMPLE).astype(np.int64)
    coded = codes.coded(sample).astype(np.float32)
    metric_of_codes = "dot" if metric == "cosine" else metric
    right = Best(sample[asked], asked, metric, _NEAREST)
    found = Best(coded[asked], asked, metric_of_codes, _NEAREST)
    numbers = np.arange(len(sample))
    right.add(numbers, sample)
    found.add(numbers, coded)
    hits = sum(
        len(np.intersect1d(r, f)) for r, f in zip(right.numbers.tolist(), found.numbers.tolist(), strict=True)
    )
    return hits >= _LEAST_RIGHT * right.numbers.size


class Best:
    """Exact search for the vectors nearest to given vectors; all vectors are added block by block.

    Attributes
    ----------
    numbers
        Numbers of the vectors nearest to each searched vector, without itself: shape (asked, nearest).

    Parameters
    ----------
    asked, own
        The vectors to search for, and their numbers.
    """

    def __init__(self, asked: Floats, own: NDArray[np.int64], metric: str, count: int) -> None:
        self.metric = metric
        self.count = count
        self.own = own
        # A squared distance is a small difference of large numbers, for which float32 is not precise enough.
        self._dtype = np.dtype(np.float64 if metric == "l2" else np.float32)
        self._asked = asked.astype(self._dtype)
        self._values = np.zeros((len(asked), 0), self._dtype)
        self.numbers = np.zeros((len(asked), 0), np.int64)

    def add(self, numbers: NDArray[np.int64], vectors: Floats) -> None:
        """Add a block of vectors, and their numbers."""
        near = vectors.astype(self._dtype, copy=False)
        values = self._asked @ near.T
        if self.metric != "dot":
            squares = np.einsum("ij,ij->i", near, near)
            values = values / np.sqrt(squares) if self.metric == "cosine" else 2 * values - squares
        values[self.own[:, None] == numbers] = -np.inf
        values = np.concatenate([self._values, values], axis=1)
        numbers = np.concatenate(
            [self.numbers, np.broadcast_to(numbers, (len(values), len(numbers)))], axis=1
        )
        if values.shape[1] > self.count:
            best = np.argpartition(values, values.shape[1] - self.count, axis=1)[:, -self.count :]
            values, numbers = np.take_along_axis(values, best, 1), np.take_along_axis(numbers, best, 1)
        self._values, self.numbers = values, numbers


def _prepared(vectors: Floats, metric: str) -> Floats:
    if metric != "cosine":
        return vectors
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return (vectors / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)


def _rounded(numbers: Floats) -> NDArray[np.int8]:
    return np.clip(np.rint(numbers), -_TOP, _TOP).astype(np.int8)
