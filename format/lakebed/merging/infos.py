"""What a merge does to infos, key by key. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
