"""Samples -> one batch: stacked if they have one shape, otherwise in the requested ragged form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Ragged = Literal["list", "pad", "flat"]
RAGGED: tuple[Ragged, ...] = ("list", "pad", "flat")


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """Arrays of different shapes laid end to end: the form of ``ragged="flat"``.

    Parameters
    ----------
    values
        The elements of all arrays: shape (elements,).
    offsets
        Start of each array in `values`, and the end of the last: int64, shape (arrays + 1,).
    shapes
        Shape of each array: int64, shape (arrays, axes).
    """

    values: NDArray[Any]
    offsets: NDArray[np.int64]
    shapes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, i: int) -> NDArray[Any]:
        at = range(len(self))[i]
        found: NDArray[Any] = self.values[self.offsets[at] : self.offsets[at + 1]].reshape(self.shapes[at])
        return found

    def arrays(self) -> list[NDArray[Any]]:
        """Return the arrays; they share the memory of `values`."""
        return [self[i] for i in range(len(self))]


class Batch(dict[str, Any]):
    """One batch: name of the tensor -> its samples.

    Attributes
    ----------
    rows
        Numbers of the rows in the dataset: int64, shape (samples,).
    real
        False for repeated samples, which give all processes the same number of steps: bool, shape (samples,).
    epoch, step
        Numbers of the epoch and of the batch in it.
    """

    rows: NDArray[np.int64]
    real: NDArray[np.bool_]
    epoch: int
    step: int


def collate(values: Sequence[Any], ragged: Ragged = "list") -> Any:
    """Return the samples of one tensor as one value.

    Arrays of one shape and dtype become one array with the samples along its first axis, and so do numbers;
    dictionaries are collated key by key; everything else stays a list, or takes the form that `ragged` names.
    """
    if not len(values):
        return []
    first = values[0]
    if isinstance(first, np.ndarray):
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        if len(arrays) == len(values) and len({(array.shape, array.dtype) for array in arrays}) == 1:
            return np.stack(values)
        can_join = len(arrays) == len(values) and len({array.ndim for array in arrays}) == 1
        return list(values) if ragged == "list" or not can_join else uneven(values, ragged)
    if isinstance(first, bool | int | float | np.generic) and all(type(v) is type(first) for v in values):
        return np.asarray(values)
    is_mapping = all(isinstance(v, Mapping) and v.keys() == values[0].keys() for v in values)
    if is_mapping and isinstance(first, Mapping):
        return {key: collate([v[key] for v in values], ragged) for key in first}
    if isinstance(first, tuple) and all(isinstance(v, tuple) and len(v) == len(first) for v in values):
        return tuple(collate(list(parts), ragged) for parts in zip(*values, strict=True))
    return list(values)


def uneven(values: Sequence[NDArray[Any]], ragged: Ragged) -> Any:
    """Return arrays of one rank as one padded array, or as a `Flat`."""
    shapes = np.array([v.shape for v in values], dtype=np.int64)
    dtype = np.result_type(*{v.dtype for v in values})
    if ragged == "pad":
        out = np.zeros((len(values), *shapes.max(axis=0)), dtype=dtype)
        for room, value in zip(out, values, strict=True):
            room[tuple(map(slice, value.shape))] = value
        return out
    offsets = np.concatenate([[0], np.cumsum(shapes.prod(axis=1))]).astype(np.int64)
    flat = np.empty(int(offsets[-1]), dtype=dtype)
    for i, value in enumerate(values):
        flat[offsets[i] : offsets[i + 1]] = value.reshape(-1)
    return Flat(flat, offsets, shapes)
