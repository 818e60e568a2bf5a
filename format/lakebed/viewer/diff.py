"""Differences of two versions as JSON for the page (`Diff` of types.ts)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.viewer.lake import Opened

_MOST_ROWS = 10_000

Numbers = NDArray[np.int64]

_NONE: Numbers = np.empty(0, np.int64)


def diff(a: Opened, b: Opened) -> dict[str, Any]:
    """Return the differences between two versions.

    Rows are matched by their ids; in tensors without ids, as syncs write them, by their numbers.
    """
    before = {tensor.key: (name, tensor) for name, tensor in a.tensors.items()}
    after = {tensor.key: (name, tensor) for name, tensor in b.tensors.items()}
    base = _common(a, b)
    told, schema = [], []
    for key in after | before:
        old_name, old = before.get(key, ("", None))
        name, new = after.get(key, ("", None))
        if new is None:
            schema.append(f"tensor {old_name!r} was removed")
        elif old is None:
            schema.append(f"tensor {name!r} was made")
        elif old_name != name:
            schema.append(f"tensor {old_name!r} was renamed to {name!r}")
        if old is not None and new is not None and old.htype != new.htype:
            schema.append(f"tensor {name!r} was {old.htype} and is {new.htype}")
        found = _changed(a, old, b, new, base)
        if any(map(len, found)):
            lists = [{"count": len(rows), "rows": rows[:_MOST_ROWS].tolist()} for rows in found]
            told.append(
                {"name": name or old_name, **dict(zip(("added", "updated", "removed"), lists, strict=True))}
            )
    old_groups, groups = set(a.ds.meta.groups), set(b.ds.meta.groups)
    schema += [f"group {name!r} was made" for name in sorted(groups - old_groups)]
    schema += [f"group {name!r} was removed" for name in sorted(old_groups - groups)]
    return {"a": a.version, "b": b.version, "tensors": told, "schema": schema}


def _common(a: Opened, b: Opened) -> str | None:
    """Return the last common ancestor of both versions."""
    mine = set(a.session.tree.ancestors(a.version))
    return next((one for one in b.session.tree.ancestors(b.version) if one in mine), None)


def _changed(
    a: Opened, old: lakebed.Tensor | None, b: Opened, new: lakebed.Tensor | None, base: str | None
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the added rows of b, the replaced rows of b, and the removed rows of a."""
    if old is None or new is None:
        return np.arange(0 if new is None else len(new)), _NONE, np.arange(0 if old is None else len(old))
    touched_old, touched_new = _touched(a, old, base), _touched(b, new, base)
    if not len(touched_old) and not len(touched_new) and len(old) == len(new):
        return _NONE, _NONE, _NONE
    old_ids, new_ids = ids(a, old), ids(b, new)
    if old_ids is None or new_ids is None:
        both = min(len(old), len(new))
        touched = np.union1d(touched_old, touched_new)
        return np.arange(both, len(new)), touched[touched < both], np.arange(both, len(old))
    added = ~np.isin(new_ids, old_ids)
    removed = ~np.isin(old_ids, new_ids)
    touched_ids = np.union1d(old_ids[touched_old], new_ids[touched_new])
    updated = np.isin(new_ids, touched_ids) & ~added
    return np.flatnonzero(added), np.flatnonzero(updated), np.flatnonzero(removed)


def _touched(opened: Opened, tensor: lakebed.Tensor, base: str | None) -> Numbers:
    """Return the rows of a tensor that were added or replaced since a version."""
    if base == opened.version:
        return _NONE
    if base is None:
        return np.arange(len(tensor))
    found = tensor.modified_samples(base, return_indexes=True)
    return np.asarray(found[1], np.int64)


def ids(opened: Opened, tensor: lakebed.Tensor) -> NDArray[Any] | None:
    """Return the ids of a tensor's samples, which are the same in all versions; None if the tensor has none."""
    group, slash, name = tensor.key.rpartition("/")
    stored = f"{group}{slash}_{name}_id"
    if stored not in opened.ds.meta.hidden_tensors or tensor.is_sequence:
        return None
    found = np.asarray(opened.ds[stored].numpy()).reshape(-1)
    return found if len(found) == len(tensor) else None
