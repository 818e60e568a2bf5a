"""class_label: uint32 indices into ``info.class_names``; text labels are looked up or appended (format.md 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError

STRICT = "strict_labels"
"""Key of a tensor's info: if its value is true, samples cannot add classes."""


def check_known(names: Sequence[str], known: int, largest: int, tensor: str | None) -> None:
    """Refuse labels that are not classes of a strict tensor.

    Parameters
    ----------
    names
        Names of the ``known`` existing classes, followed by names that samples would add.
    largest
        The largest label among the samples.

    Raises
    ------
    InvalidInputError
        If a name or a number is not a class.
    """
    what = f"tensor {tensor!r} takes the {known:,} classes of info.class_names only (strict_labels)"
    if len(names) > known:
        from difflib import get_close_matches

        near = get_close_matches(names[known], names[: min(known, 1000)], n=1)
        guess = f"; did you mean {near[0]!r}?" if near else "."
        raise InvalidInputError(
            f"{what}; {names[known]!r} is not one of them{guess} To add a class, append its name to "
            "info.class_names"
        )
    if largest >= known:
        raise InvalidInputError(f"{what}; the label {largest} is not one of them")


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
    The samples with indices only, and the names including the new ones, in order of appearance.
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
    """Return the names of an index array, nested likewise; an index without a name gives None."""
    known = len(class_names)

    def name(value: Any) -> Any:
        if isinstance(value, list):
            return [name(item) for item in value]
        return class_names[value] if 0 <= value < known else None

    return name(indices.tolist())
