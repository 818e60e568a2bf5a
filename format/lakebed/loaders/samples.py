"""What adapters to frameworks hand out: samples as Deep Lake 3.x names and shapes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakebed.htypes.base import Storing

# Frameworks have few operations on unsigned integers; Deep Lake 3.x hands PyTorch the next signed ones.
WIDER = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}


class Fields(dict[str, Any]):
    """Values by name of the tensor: a sample or a batch. Iterated, it yields the values, not the names.

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
    """A sample, or what a transform made of it, which a loader passes on as it is."""

    value: Any


@dataclass(frozen=True, slots=True)
class AsSample:
    """Makes what a loader reads of a row the sample that 3.x hands to transforms; called on threads of the loader.

    Attributes
    ----------
    names
        Tensors in their order.
    storing
        How each stores its samples: text, json and lists become arrays, as ``numpy()`` gives them.
    late
        Tensors that are read by row number, because batches cannot hold them: others than rows of `names`.
    with_index
        Whether the row number comes last, as ``index``.
    function
        The user's transform.
    is_widened
        Whether unsigned integers become signed ones.
    is_plain
        Whether samples are plain dictionaries with text and Python values, which other loaders know, too.
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
                sample[name] = self.value(late(int(read["index"][0])))
            else:
                sample[name] = self.value(
                    read[name] if self.is_plain else as_array(read[name], self.storing[name])
                )
        if self.with_index:
            sample["index"] = read["index"]
        return Whole(sample if self.function is None else self.function(sample))

    def value(self, value: Any) -> Any:
        """Return an array of integers that the framework knows."""
        wider = WIDER.get(value.dtype.name) if self.is_widened and isinstance(value, np.ndarray) else None
        return value if wider is None else value.astype(wider)


def as_array(value: Any, storing: Storing) -> Any:
    """Return text, json or a list as the array that ``numpy()`` of its sample is; anything else as it is."""
    if storing in (Storing.ARRAY, Storing.POLYGON) or isinstance(value, np.ndarray | bytes):
        return value
    if storing is Storing.TEXT:  # of sequences, lists of texts
        return np.array([value]) if isinstance(value, str) else value
    items = value if storing is Storing.LIST and isinstance(value, list) else [value]
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


@dataclass(frozen=True, slots=True)
class PerTensor:
    """Changes each tensor by a function of its own; None leaves it."""

    functions: Mapping[str, Callable[[Any], Any] | None]

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Return what the functions make of a sample."""
        return type(sample)(
            (name, sample[name] if function is None else function(sample[name]))
            for name, function in self.functions.items()
        )


def columns_of(samples: Sequence[Any]) -> dict[str, list[Any]] | None:
    """Return the values of samples by name; None if they are no `Fields`."""
    if not all(isinstance(sample, Fields) for sample in samples):
        return None
    return {name: [sample[name] for sample in samples] for name in samples[0].keys()}  # noqa: SIM118 - see Fields
