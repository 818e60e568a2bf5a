"""PyTorch: what of a batch becomes tensors, and what becomes of samples that differ in shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data.dataloader import default_collate

from lakebed.errors import InvalidInputError, InvalidOperationError
from lakebed.loaders.arguments import Source
from lakebed.loaders.collate import Flat, uneven
from lakebed.loaders.samples import WIDER, Fields, columns_of

Ragged = Literal["list", "pad", "nested"]


@dataclass(frozen=True, slots=True)
class Tensors:
    """Makes tensors of batches.

    Attributes
    ----------
    ragged
        What becomes of samples that differ in shape, for all tensors or by name; None is an error.
    nested
        Tensors whose batches are nested where their samples happen to agree in shape, too.
    """

    ragged: Ragged | Mapping[str, Ragged] | None = None
    nested: frozenset[str] = frozenset()

    @classmethod
    def of(cls, source: Source, ragged: Ragged | Mapping[str, Ragged] | None) -> Tensors:
        """Return what makes tensors of the batches of a source.

        Raises
        ------
        InvalidInputError
            If `ragged` is none of the above.
        """
        for how in ragged.values() if isinstance(ragged, Mapping) else [ragged]:
            if how not in (None, "list", "pad", "nested"):
                raise InvalidInputError(f"ragged is one of 'list', 'pad' and 'nested', not {how!r}")
        if isinstance(ragged, Mapping):
            return cls(ragged, frozenset(name for name, how in ragged.items() if how == "nested"))
        if ragged != "nested" or not source.is_plain:
            return cls(ragged)
        operations = source.options.get("operations") or {}
        states = source.rows.states()
        return cls(
            ragged,
            frozenset(
                name
                for name, state in states.items()
                if name not in operations and list(state.meta.min_shape) != list(state.meta.max_shape)
            ),
        )

    @property
    def flat(self) -> bool:
        """Whether a loader is to put arrays of different shapes one behind the other, of which views are nested."""
        return self.ragged == "nested" or bool(self.nested)

    def collated(self, samples: list[Any]) -> Any:
        """Return samples as one batch of tensors, text as lists; what a transform made as PyTorch collates it.

        Raises
        ------
        InvalidOperationError
            If the samples of a tensor differ in shape, and `ragged` does not say what becomes of them.
        """
        columns = columns_of(samples)
        if columns is None:
            return default_collate(samples)
        return Fields((name, self._stacked(name, values)) for name, values in columns.items())

    def batch(self, read: Mapping[str, Any]) -> Fields:
        """Return a batch of arrays as one of tensors; lists of anything but arrays as they are."""
        return Fields((name, self._column(name, values)) for name, values in read.items())

    def _column(self, name: str, values: Any) -> Any:
        if name in self.nested and isinstance(values, np.ndarray) and values.ndim > 1:
            lengths = np.full(len(values), values.shape[1])
            return _jagged(values.reshape(-1, *values.shape[2:]), lengths)
        if isinstance(values, np.ndarray) and values.dtype.kind in "biufc":
            return tensor(values[:, None] if name == "index" and values.ndim == 1 else values)
        if isinstance(values, Flat):
            return self._uneven(name, values.arrays()) if self._how(name) != "nested" else nested(values)
        if isinstance(values, list) and values and all(isinstance(value, np.ndarray) for value in values):
            return self._stacked(name, values)
        return values

    def _how(self, name: str) -> Ragged | None:
        return self.ragged.get(name) if isinstance(self.ragged, Mapping) else self.ragged

    def _stacked(self, name: str, values: list[Any]) -> Any:
        first = values[0]
        if not isinstance(first, np.ndarray):
            return list(values) if isinstance(first, str | bytes) else default_collate(values)
        if first.dtype.kind in "OU":  # text and json as `numpy()` gives them
            return [
                value[0] if len(value) == 1 and first.dtype.kind == "U" else value.tolist()
                for value in values
            ]
        if len({value.shape for value in values}) > 1:
            return self._uneven(name, values)
        return self._column(name, np.stack(values))

    def _uneven(self, name: str, values: list[NDArray[Any]]) -> Any:
        how = self._how(name)
        if how == "list":
            return [tensor(value) for value in values]
        if how is not None and len({value.ndim for value in values}) == 1:
            return tensor(uneven(values, "pad")) if how == "pad" else nested(uneven(values, "flat"))
        shapes = sorted({value.shape for value in values})[:3]
        raise InvalidOperationError(
            f"the samples of {name!r} in one batch have different shapes ({', '.join(map(str, shapes))}, "
            "...) and cannot be stacked; give them one shape in transform=, say ragged='list', 'pad' or 'nested', pass "
            "collate_fn=, leave the tensor out with tensors=, or take batches of one sample"
        )


def tensor(values: NDArray[Any]) -> torch.Tensor:
    """Return an array as a tensor that shares its memory, integers of a type that PyTorch knows."""
    values = values.astype(WIDER.get(values.dtype.name, values.dtype), copy=False)
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def nested(flat: Flat) -> torch.Tensor:
    """Return a nested tensor: of the same memory where arrays differ along their first axis alone."""
    inner = flat.shapes[:, 1:]
    if (inner == inner[0]).all():
        return _jagged(flat.values.reshape(-1, *inner[0].tolist()), flat.shapes[:, 0])
    return torch.nested.nested_tensor([tensor(value) for value in flat.arrays()])


def _jagged(values: NDArray[Any], lengths: NDArray[np.int64]) -> torch.Tensor:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return torch.nested.nested_tensor_from_jagged(tensor(values), torch.from_numpy(offsets))


def row_of_tensors(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with tensors for arrays, and for numbers, which have no axis."""
    return {
        name: tensor(value.reshape(()) if value.shape == (1,) else value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
        else value
        for name, value in sample.items()
    }


def as_tensors(sample: Any) -> Any:
    """Return a single sample with tensors for arrays of numbers."""
    if not isinstance(sample, Fields):
        return sample
    arrays = {name: np.asarray(value) if name == "index" else value for name, value in sample.items()}
    return Fields(
        (
            name,
            tensor(value) if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" else value,
        )
        for name, value in arrays.items()
    )
