"""Numbers of all rows for a map: vectors on a plane, and the labels or numbers that colour them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.errors import InvalidInputError
from lakebed.viewer.cells import kind_of

_MOST_ROWS = 1_000_000
_PIECE = 1 << 24  # maximum number of values in memory at a time
_WORK = 1 << 30  # maximum number of multiplications to compute the basis
_FEWEST = 100
_MOST_SAMPLED = 20_000

Floats = NDArray[np.float32]


def points(tensor: lakebed.Tensor) -> tuple[Floats, int, float]:
    """Return a row of numbers for each sample, NaN for missing ones.

    Vectors of more than three numbers are projected on the two axes of their largest variance; of labels and other
    numbers, the first number of each sample is taken.

    Returns
    -------
    values
        Shape (rows, axes).
    step
        Distance between the samples that are read: every `step`-th sample of the tensor.
    share
        Part of the variance along the axes; 1 without a projection.

    Raises
    ------
    InvalidInputError
        If the samples are not numbers, or arrays of several axes.
    """
    kind, shape = kind_of(tensor), tensor.meta.max_shape
    is_vector = kind == "array" and len(shape) == 1
    dtype = np.dtype(tensor.dtype) if isinstance(tensor.dtype, np.dtype) else None
    if tensor.is_sequence or not (is_vector or kind in ("scalar", "label")):
        raise InvalidInputError(f"tensor {tensor.key!r} holds no vectors, labels or numbers")
    if dtype is None or dtype.kind not in "biuf":
        raise InvalidInputError(f"tensor {tensor.key!r} holds no numbers")
    step = max(1, -(-len(tensor) // _MOST_ROWS))
    axes = int(shape[0]) if is_vector else 1
    if axes <= 3:
        return np.concatenate([np.empty((0, axes), np.float32), *_pieces(tensor, step, axes)]), step, 1.0
    some = min(_MOST_SAMPLED, max(_FEWEST, _WORK // axes**2))
    sampled = np.concatenate(list(_pieces(tensor, max(step, -(-len(tensor) // some)), axes)))
    mean, basis, share = plane(sampled.astype(np.float64))
    made = [((piece - mean) @ basis).astype(np.float32) for piece in _pieces(tensor, step, axes)]
    return np.concatenate(made), step, share


def plane(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the mean of vectors, the two axes of their largest variance as columns, and these axes' share of it.

    The largest component of each axis is positive, so that the same data give the same picture.
    """
    rows = rows[np.isfinite(rows).all(axis=1)]
    mean = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    centred = rows - mean
    values, vectors = np.linalg.eigh(centred.T @ centred)
    basis = vectors[:, :-3:-1]
    signs = np.sign(basis[np.abs(basis).argmax(axis=0), [0, 1]])
    total = float(values.sum())
    return mean, basis * signs, float(values[:-3:-1].sum()) / total if total > 0 else 1.0


def _pieces(tensor: lakebed.Tensor, step: int, axes: int) -> Iterator[Floats]:
    """Read every `step`-th sample, some at a time: shape (rows, axes)."""
    length = step * max(1, _PIECE // axes)
    for start in range(0, len(tensor), length):
        yield _rows(tensor[start : min(len(tensor), start + length) : step], axes)


def _rows(some: lakebed.Tensor, axes: int) -> Floats:
    meta, is_nullable = some.meta, some.null_mask() is not None
    is_even = list(meta.min_shape) == list(meta.max_shape) and math.prod(meta.max_shape) == axes
    if is_even and not is_nullable and not some.holds_nothing:
        return np.asarray(some.numpy(aslist=False)).reshape(-1, axes).astype(np.float32)
    found = np.full((len(some), axes), np.nan, np.float32)
    for at, value in enumerate(() if some.holds_nothing else some.values()):
        flat = np.empty(0) if value is None else np.asarray(value).reshape(-1)
        if flat.size >= axes:
            found[at] = flat[:axes]
    return found
