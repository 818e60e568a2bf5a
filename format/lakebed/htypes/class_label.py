"""class_label: uint32 indices into ``info.class_names``; text labels are looked up or appended (FORMAT.md 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_indices(
    values: Sequence[Any] | NDArray[Any], class_names: Sequence[str]
) -> tuple[list[Any], list[str]]:
    """Replace text labels by their indices.

    Parameters
    ----------
    values
        Samples: an index, a name, a list of either, an array, or None.
    class_names
        The names known so far.

    Returns
    -------
    The samples with indices only, and the names including the new ones, in order of first sight.
    """
    names = list(class_names)
    index = {name: i for i, name in enumerate(names)}

    def convert(value: Any) -> Any:
        if isinstance(value, str):
            if value not in index:
                index[value] = len(names)
                names.append(value)
            return index[value]
        if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
            return convert(value.tolist())
        if isinstance(value, list | tuple):
            if set(map(type, value)) == {str} and index.keys() >= set(value):
                return np.array([index[item] for item in value], np.uint32)
            return [convert(item) for item in value]
        return value

    return [convert(value) for value in values], names


def to_names(indices: NDArray[Any], class_names: Sequence[str]) -> Any:
    """Return the names of an index array, nested as it is; an index without a name gives None."""
    known = len(class_names)

    def name(value: Any) -> Any:
        if isinstance(value, list):
            return [name(item) for item in value]
        return class_names[value] if 0 <= value < known else None

    return name(indices.tolist())
