"""Samples and rows as adapters pass them to frameworks: named and shaped as in Deep Lake 3.x."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from lakebed.htypes.base import Storing

_log = logging.getLogger(__name__)

# Frameworks support few operations on unsigned integers, so convert to a signed type, a larger one if there is one, as
# 3.x does.
WIDER = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}


class Fields(dict[str, Any]):
    """Values by name of the tensor: a sample or a batch. Iteration yields the values, not the names.

    Examples
    --------
    >>> images, labels = Fields(images=[1, 2], labels=[0, 1])
    >>> labels
    [0, 1]
    """

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())


@dataclass(frozen=True, slots=True)
class Whole:
    """A sample, or the result of a transform, which the loader passes on unchanged."""

    value: Any


@dataclass(frozen=True, slots=True)
class AsSample:
    """Conversion of a row that a loader read to the sample that 3.x hands to transforms; runs on the loader's threads.

    Attributes
    ----------
    names
        Names of the tensors, in the order of the sample.
    storing
        How each tensor stores its samples: text, json and lists become arrays, as ``numpy()`` returns them.
    late
        Tensors that are read by row number, because batches cannot hold them.
    with_index
        Whether the row number comes last, as ``index``.
    function
        The user's transform.
    is_widened
        Whether unsigned integers become signed ones.
    is_plain
        Whether samples are plain dictionaries with text and Python values, which other loaders understand.
    """

    names: tuple[str, ...]
    storing: Mapping[str, Storing]
    late: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    with_index: bool = True
    function: Callable[[Any], Any] | None = None
    is_widened: bool = True
    is_plain: bool = False

    def __call__(self, read: Mapping[str, Any]) -> Whole:
        """Return the sample, transformed."""
        sample: dict[str, Any] = {} if self.is_plain else Fields()
        for name in self.names:
            late = self.late.get(name)
            if late is not None:
                value = late(int(read["index"][0]))
            else:
                value = read[name] if self.is_plain else as_array(read[name], self.storing[name])
            if self.is_widened and isinstance(value, np.ndarray) and value.dtype.name in WIDER:
                value = value.astype(WIDER[value.dtype.name])
            sample[name] = value
        if self.with_index:
            sample["index"] = read["index"]
        return Whole(sample if self.function is None else self.function(sample))


def as_array(value: Any, storing: Storing) -> Any:
    """Return text, JSON or a list as the array that ``numpy()`` of its sample returns; other values unchanged."""
    if storing in (Storing.ARRAY, Storing.POLYGON) or isinstance(value, np.ndarray | bytes):
        return value
    if storing is Storing.TEXT:  # a sample of a sequence is a list of texts
        return np.array([value]) if isinstance(value, str) else value
    items = value if storing is Storing.LIST and isinstance(value, list) else [value]
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def columns_of(samples: Sequence[Any]) -> dict[str, list[Any]] | None:
    """Return the values of the samples by name of the tensor; None if the samples are not `Fields`."""
    if not all(isinstance(sample, Fields) for sample in samples):
        return None
    return {name: [sample[name] for sample in samples] for name in samples[0].keys()}  # noqa: SIM118 - see Fields


# -- rows for torch.utils.data.DataLoader(ds) -------------------------------------------------------------------


def fetched(batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Split a batch of columns into rows; integers are converted to types that PyTorch supports."""
    torch = sys.modules.get("torch")
    # Give the hint only in the main process: each epoch starts new workers, which would repeat it.
    if torch is None or torch.utils.data.get_worker_info() is None:
        _tell_once(
            "ds.pytorch(batch_size=..., shuffle=...) reads faster than torch.utils.data.DataLoader(ds)"
        )
    columns = {name: _samples(name, column) for name, column in batch.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _samples(name: str, column: Any) -> list[Any]:
    if isinstance(column, np.ma.MaskedArray):
        gone = np.ma.getmaskarray(column).reshape(-1).tolist()
        numbers = _writable(column.data).reshape(-1)
        values = [None if is_gone else value for value, is_gone in zip(numbers, gone, strict=True)]
    elif isinstance(column, np.ndarray):
        column = _writable(column)
        values = list(column.reshape(-1) if column.shape[1:] == (1,) else column)
    else:
        values = [_writable(value) if isinstance(value, np.ndarray) else value for value in column]
    shapes = {value.shape for value in values if isinstance(value, np.ndarray)}
    if len(shapes) > 1 or any(value is None for value in values):
        _tell_once(
            f"samples of {name!r} are missing or differ in shape, and PyTorch's collate cannot stack them: leave "
            f"rows out, ds[ds[{name!r}].notna()], write ds.pytorch(batch_size=..., ragged='pad'), or pass collate_fn="
        )
    return values


def _writable(values: Any) -> Any:
    """Return an array that PyTorch may write to."""
    return values.astype(WIDER.get(values.dtype.name, values.dtype), copy=not values.flags.writeable)


@cache
def _tell_once(text: str) -> None:
    _log.warning(text)
