"""Norms, distances and similarities of vectors.

The array library that the query names computes them (:mod:`lakebed.query.functions.spaces`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.functions.function import Function
from lakebed.query.functions.spaces import current
from lakebed.query.values.columns import Column, Constant, Numbers, by_row
from lakebed.query.values.info import NUMBER, Given
from lakebed.query.values.reductions import reduced

_BLOCK_BYTES = 1 << 18
"""Size of the blocks of vectors that are computed at once; a block stays in the processor's cache for a second pass."""


def _pairs(name: str, many: Callable[[Any, Any, Any], Any]) -> Function:
    """Return a function of two vectors per row; rows whose vectors have the same shape are computed together."""

    def compute(given: Given) -> Column:
        left, right = given.columns
        if isinstance(left, Constant) and isinstance(right, Numbers):
            left, right = right, left
        first = _vectors(left) if given.count and isinstance(left, Numbers) else None
        second = None if first is None else _vectors(right)
        if first is None or second is None:
            return by_row(given.count, lambda a, b: _one(name, many, a, b), [left, right], name)
        if second.shape[-1] != first.shape[-1]:
            raise _other_size(name, first, second)
        return Numbers(_blocked(many, first, second))

    return Function(name, 2, 2, compute, NUMBER, 1.0)


def _other_size(name: str, first: NDArray[Any], second: NDArray[Any]) -> QueryError:
    return QueryError(
        f"{name} needs vectors of one length, not of {first.shape[-1]} and {second.shape[-1]} numbers",
        kind="shape",
    )


def _blocked(many: Callable[[Any, Any, Any], Any], first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Compute a function of `first`, shape (rows, n), and `second`, shape (1, n) or (rows, n), block by block."""
    space = current()
    step = max(1, _BLOCK_BYTES // max(1, first.itemsize * first.shape[1])) if space.is_local else len(first)
    is_one = len(second) == 1
    vector = None
    found = np.empty(len(first), np.int64 if many is _hamming else np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, len(first), step):
            block = first[start : start + step]
            other = second[0] if is_one else second[start : start + step]
            if many is not _hamming:
                block = _float(block)
                # Convert a constant to the precision of the stored vectors.
                other = other.astype(block.dtype, copy=False) if is_one else _float(other)
            if not is_one or vector is None:
                vector = space.given(other)
            found[start : start + step] = space.taken(many(space.functions, space.given(block), vector))
    return found


def _vectors(column: Column) -> NDArray[Any] | None:
    if isinstance(column, Constant):
        return None if column.value is None else _vector(column.value).reshape(1, -1)
    if isinstance(column, Numbers) and column.missing is None:
        return column.values.reshape(len(column), -1)
    return None


def _vector(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise QueryError("a vector is an array of numbers", kind="type")
    return array


def _one(name: str, many: Callable[[Any, Any, Any], Any], left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    first, second = _vector(left).reshape(1, -1), _vector(right).reshape(1, -1)
    if first.size == 0 or second.size == 0:
        return None
    if first.shape != second.shape:
        raise _other_size(name, first, second)
    return _blocked(many, first, second)[0]


# Vector functions. `x` is the array library's namespace; `a` has shape (rows, n), `b` has shape (n,) or (rows, n).


def _dot(x: Any, a: Any, b: Any) -> Any:
    return x.matmul(a, b) if b.ndim == 1 else x.einsum("ij,ij->i", a, b)


def _cosine(x: Any, a: Any, b: Any) -> Any:
    other = x.sqrt(x.einsum("i,i->" if b.ndim == 1 else "ij,ij->i", b, b))
    return _dot(x, a, b) / (x.sqrt(x.einsum("ij,ij->i", a, a)) * other)


def _l1(x: Any, a: Any, b: Any) -> Any:
    return x.sum(x.abs(a - b), 1)


def _l2(x: Any, a: Any, b: Any) -> Any:
    apart = a - b
    return x.sqrt(x.einsum("ij,ij->i", apart, apart))


def _linf(x: Any, a: Any, b: Any) -> Any:
    return x.amax(x.abs(a - b), 1)


def _hamming(x: Any, a: Any, b: Any) -> Any:
    return x.sum(a != b, 1)


def _float(values: Any) -> Any:
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)


def _max_similarity(given: Given) -> Column:
    """Return, per sample, the sum over the query's vectors of the largest dot product with the sample's vectors."""
    space = current()

    def score(vectors: Any, query: Any) -> Any:
        if vectors is None or query is None:
            return None
        first, second = _vector(vectors), _vector(query)
        if first.size == 0:
            return None
        if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
            raise QueryError(
                f"MAXSIM needs two arrays of vectors of one length, not of shapes {first.shape} and {second.shape}",
                kind="shape",
            )
        x = space.functions
        vectors, wanted = space.given(_float(first)), space.given(_float(second).astype(_float(first).dtype))
        return np.float32(space.taken(x.sum(x.amax(x.matmul(wanted, vectors.T), 1), 0)))

    return by_row(given.count, score, given.columns, "MAXSIM")


def _norm(name: str) -> Function:
    return Function(name, 1, 1, lambda given: reduced(name, given.columns[0]), NUMBER)


FUNCTIONS: list[Function] = [
    _norm("L1_NORM"),
    _norm("L2_NORM"),
    _norm("LINF_NORM"),
    _pairs("DOT", _dot),
    _pairs("COSINE_SIMILARITY", _cosine),
    _pairs("HAMMING_DISTANCE", _hamming),
    _pairs("L1_DISTANCE", _l1),
    _pairs("L2_DISTANCE", _l2),
    _pairs("LINF_DISTANCE", _linf),
    Function("MAXSIM", 2, 2, _max_similarity, NUMBER, 10.0),
]
