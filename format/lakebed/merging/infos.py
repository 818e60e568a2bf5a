"""What a merge does to infos, key by key, and to the names of classes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GONE = object()


def merged_info(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any], *, prefer_theirs: bool
) -> dict[str, Any]:
    """Return our info with what changed there; of a key that both changed, ours stands unless theirs is preferred."""
    result = dict(ours)
    for key in dict.fromkeys([*base, *theirs]):
        was, here, there = (info.get(key, _GONE) for info in (base, ours, theirs))
        if there == was or (here != was and not prefer_theirs):
            continue
        if there is _GONE:
            result.pop(key, None)
        else:
            result[key] = there
    return result


def merged_names(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], NDArray[np.int64] | None]:
    """Join the names of classes.

    Returns
    -------
    Our names and behind them those that are only there; for each number there the number here, int64, or None if
    every number means the same.
    """
    names = list(ours)
    numbers = {name: i for i, name in reversed(list(enumerate(names)))}
    for name in theirs:
        if name not in numbers:
            numbers[name] = len(names)
            names.append(name)
    meanings = np.array([numbers[name] for name in theirs], np.int64)
    return names, None if names[: len(theirs)] == list(theirs) else meanings
