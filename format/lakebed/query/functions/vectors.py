"""Norms, distances and similarities of vectors, and boxes.

They are computed in the space that a query names (:mod:`lakebed.query.functions.spaces`): NumPy, or another library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.bound import NUMBER, Apply, Bound, Given, Input, Value
from lakebed.query.functions.function import Function
from lakebed.query.functions.spaces import current
from lakebed.query.values.columns import Column, Constant, Numbers, Ragged, by_row
from lakebed.query.values.reductions import reduced

_BLOCK_BYTES = 1 << 18
"""Vectors that are computed at once, so that the processor's cache holds them for the second look at them."""


def _pairs(name: str, many: Callable[[Any, Any, Any], Any]) -> Callable[[Given], Column]:
    """Return a function of two vectors per row; where all have one shape, many are computed at once."""

    def compute(given: Given) -> Column:
        left, right = given.columns
        if isinstance(left, Constant) and isinstance(right, Numbers):
            left, right = right, left
        if isinstance(left, Numbers) and left.missing is None and not isinstance(right, Ragged):
            first = left.values.reshape(len(left), -1) if len(left) else left.values.reshape(0, 1)
            second = _vectors(right)
            if second is not None and len(left):
                if second.shape[-1] != first.shape[-1]:
                    raise QueryError(
                        f"{name} of vectors of {first.shape[-1]} and {second.shape[-1]} numbers", kind="shape"
                    )
                return Numbers(_blocked(many, first, second))
        return by_row(given.count, lambda a, b: _one(name, many, a, b), [left, right], name)

    return compute


def _blocked(many: Callable[[Any, Any, Any], Any], first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Compute a function of vectors, shape (rows, n), with one vector, shape (1, n), or one for each row."""
    space = current()
    step = max(1, _BLOCK_BYTES // max(1, first.itemsize * first.shape[1])) if space.is_local else len(first)
    is_one = len(second) == 1
    vector = None
    found: NDArray[Any] | None = None
    with np.errstate(all="ignore"):
        for start in range(0, len(first), step):
            block = first[start : start + step]
            other = second[0] if is_one else second[start : start + step]
            if many is not _hamming:
                block = _float(block)
                # One vector takes the precision of those that are stored, which it is compared with.
                other = other.astype(block.dtype, copy=False) if is_one else _float(other)
            if not is_one or vector is None:
                vector = space.given(other)
            values = space.taken(many(space.functions, space.given(block), vector))
            values = values.astype(np.int64 if many is _hamming else np.float32, copy=False)
            if len(values) == len(first):
                return np.asarray(values)
            if found is None:
                found = np.empty(len(first), values.dtype)
            found[start : start + step] = values
    return np.empty(0, np.float32) if found is None else found


def _vectors(column: Column) -> NDArray[Any] | None:
    if isinstance(column, Constant):
        return None if column.value is None else _vector(column.value).reshape(1, -1)
    if isinstance(column, Numbers) and column.missing is None:
        return column.values.reshape(len(column), -1) if len(column) else column.values.reshape(0, 1)
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
        raise QueryError(f"{name} of vectors of {first.size} and {second.size} numbers", kind="shape")
    return _blocked(many, first, second)[0]


# Functions of vectors `a`, shape (rows, n), and `b`, shape (n,) or (rows, n), with the names of a library, `x`.


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
    """Return the sum over the query's vectors of the largest dot product with a vector of the sample."""
    space = current()

    def score(vectors: Any, query: Any) -> Any:
        if vectors is None or query is None:
            return None
        first, second = _vector(vectors), _vector(query)
        if first.size == 0:
            return None
        if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
            raise QueryError(
                f"MAXSIM of arrays of shape {first.shape} and {second.shape}: both hold vectors of one length",
                kind="shape",
            )
        x = space.functions
        vectors, wanted = space.given(_float(first)), space.given(_float(second).astype(_float(first).dtype))
        return np.float32(space.taken(x.sum(x.amax(x.matmul(wanted, vectors.T), 1), 0)))

    return by_row(given.count, score, given.columns, "MAXSIM")


DISTANCES = {"L1_NORM": "L1_DISTANCE", "L2_NORM": "L2_DISTANCE", "LINF_NORM": "LINF_DISTANCE"}
"""Norms -> distances, which are norms of differences."""


def difference(node: Bound) -> tuple[Bound, Bound] | None:
    """Return a stored vector and a constant one if an expression is their difference, and floats hold both."""
    if not isinstance(node, Apply) or node.name != "-" or len(node.operands) != 2:
        return None
    first, second = node.operands if isinstance(node.operands[0], Input) else node.operands[::-1]
    if (
        not isinstance(first, Input)
        or not isinstance(second, Value)
        or not isinstance(second.value, np.ndarray)
    ):
        return None
    dtype = first.info.dtype
    is_float = dtype is not None and (dtype.kind == "f" or (dtype.kind in "iu" and dtype.itemsize <= 2))
    is_vector = first.info.rank == 1 and second.value.ndim == 1 and second.value.size > 1
    return (first, second) if is_float and is_vector else None


# -- boxes -----------------------------------------------------------------------------------------------------------


def _corners(boxes: NDArray[Any], mode: str) -> NDArray[np.float64]:
    """Return boxes as left, top, right, bottom: float64, shape (boxes, 4)."""
    found = np.asarray(boxes, np.float64)
    if found.size == 0:
        return np.zeros((0, 4))
    if found.shape[-1] != 4:
        raise QueryError(f"a box is four numbers, not {found.shape[-1]}", kind="shape")
    found = found.reshape(-1, 4).copy()
    if mode == "LTWH":
        found[:, 2:] += found[:, :2]
    elif mode == "CCWH":
        found[:, :2] -= found[:, 2:] / 2
        found[:, 2:] += found[:, :2]
    elif mode not in ("LTRB", "TLBR"):
        raise QueryError(f"boxes have an unknown mode {mode!r}", kind="unsupported")
    return found


def _overlaps(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    corner = np.minimum(first[:, None, 2:], second[None, :, 2:])
    origin = np.maximum(first[:, None, :2], second[None, :, :2])
    common = np.clip(corner - origin, 0, None).prod(axis=-1)
    areas = (first[:, 2:] - first[:, :2]).prod(axis=-1)[:, None] + (second[:, 2:] - second[:, :2]).prod(
        axis=-1
    )
    union = areas - common
    return np.asarray(np.divide(common, union, out=np.zeros_like(common), where=union > 0))


def _iou(given: Given) -> Column:
    """Return how much boxes overlap, each with each: shape (boxes of the first, boxes of the second)."""
    modes = [info.coords for info in given.infos]

    def table(first: Any, second: Any) -> Any:
        empty = np.zeros((0, 4))
        return _overlaps(
            _corners(empty if first is None else first, modes[0]),
            _corners(empty if second is None else second, modes[1]),
        )

    return by_row(given.count, table, given.columns, "IOU")


def _iou_key(column: Column) -> Column:
    """Return what ORDER BY IOU goes by: how well the boxes of the first are met, on average; missing without boxes."""

    def key(table: Any) -> Any:
        if table is None or not table.size:
            return None
        return table if table.ndim == 0 else table.reshape(len(table), -1).max(axis=1).mean()

    return by_row(len(column), key, [column], "IOU")


def _normalize(given: Given) -> Column:
    """Return boxes as parts of a window (left, top, right, bottom): moved to its origin, divided by its size."""
    mode = given.infos[0].coords

    def moved(boxes: Any, window: Any) -> Any:
        window = np.asarray(window, np.float64).reshape(-1)
        if window.shape != (4,):
            raise QueryError("a window is four numbers: left, top, right, bottom", kind="shape")
        size = window[2:] - window[:2]
        if not (size > 0).all():
            raise QueryError("the right and bottom of a window lie behind its left and top", kind="runtime")
        found = np.asarray(boxes, np.float64)
        if found.size == 0:
            return np.zeros((0, 4), np.float32)
        if found.shape[-1] != 4:
            raise QueryError(f"a box is four numbers, not {found.shape[-1]}", kind="shape")
        found = found.copy()
        found[..., :2] -= window[:2]
        if mode in ("LTRB", "TLBR"):
            found[..., 2:] -= window[:2]
        return (found / np.tile(size, 2)).astype(np.float32)

    return by_row(given.count, moved, given.columns, "NORMALIZE")


def _norm(name: str) -> Callable[[Given], Column]:
    return lambda given: reduced(name, given.columns[0])


FUNCTIONS: list[Function] = [
    *(Function(name, 1, 1, _norm(name), NUMBER) for name in ("L1_NORM", "L2_NORM", "LINF_NORM")),
    Function("DOT", 2, 2, _pairs("DOT", _dot), NUMBER, 1.0),
    Function("COSINE_SIMILARITY", 2, 2, _pairs("COSINE_SIMILARITY", _cosine), NUMBER, 1.0),
    Function("HAMMING_DISTANCE", 2, 2, _pairs("HAMMING_DISTANCE", _hamming), NUMBER, 1.0),
    Function("L1_DISTANCE", 2, 2, _pairs("L1_DISTANCE", _l1), NUMBER, 1.0),
    Function("L2_DISTANCE", 2, 2, _pairs("L2_DISTANCE", _l2), NUMBER, 1.0),
    Function("LINF_DISTANCE", 2, 2, _pairs("LINF_DISTANCE", _linf), NUMBER, 1.0),
    Function("MAXSIM", 2, 2, _max_similarity, NUMBER, 10.0),
    Function("IOU", 2, 2, _iou, NUMBER, 20.0, _iou_key),
    Function("NORMALIZE", 2, 2, _normalize, NUMBER, 5.0),
]
