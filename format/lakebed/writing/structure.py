"""Rename and delete tensors and groups in a dataset's schema (format.md 1.4, 11). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.writing.names import companion


def companions_of(meta: DatasetMeta, name: str) -> dict[str, str]:
    """Return the names of a tensor's hidden companions by kind, such as ``id`` or ``shape``."""
    group, slash, base = name.rpartition("/")
    start = f"{group}{slash}_{base}_"
    found = {}
    for other, key in meta.tensor_names.items():
        if other.startswith(start) and key in meta.hidden_tensors and _is_kind(other.removeprefix(start)):
            found[other.removeprefix(start)] = other
    return found


def _is_kind(kind: str) -> bool:
    return kind in ("id", "shape", "info", "null") or re.fullmatch(r"downsampled_\d+", kind) is not None


def renamed(meta: DatasetMeta, names: dict[str, str]) -> DatasetMeta:
    """Rename tensors, old name -> new name; keys stay. New names come last in the order of names."""
    kept = {name: key for name, key in meta.tensor_names.items() if name not in names}
    moved = {names[name]: key for name, key in meta.tensor_names.items() if name in names}
    return replace(meta, tensor_names={**kept, **moved})


def moves(meta: DatasetMeta, old: str, new: str) -> dict[str, str]:
    """Return {old name: new name} for renaming a tensor: its own name and the names of its companions."""
    found = {old: new}
    for kind, name in companions_of(meta, old).items():
        found[name] = companion(new, kind)
    return found


def without(meta: DatasetMeta, keys: Iterable[str]) -> DatasetMeta:
    """Drop tensors by key."""
    gone = set(keys)
    return replace(
        meta,
        tensors=tuple(k for k in meta.tensors if k not in gone),
        tensor_names={name: key for name, key in meta.tensor_names.items() if key not in gone},
        hidden_tensors=tuple(k for k in meta.hidden_tensors if k not in gone),
    )


def is_inside(name: str, group: str) -> bool:
    """Return whether a tensor or group is in a group, or is that group."""
    return name == group or name.startswith(f"{group}/")


def with_renamed(diff: DatasetDiff, old: str, new: str) -> DatasetDiff:
    """Record a new name; a chain of renames becomes one, or none if it ends at the first name (format.md 10.3)."""
    chains = dict(diff.renamed)
    first = next((a for a, b in chains.items() if b == old), old)
    chains[first] = new
    if first == new:
        del chains[first]
    return replace(diff, renamed=tuple(chains.items()))


def with_deleted(diff: DatasetDiff, name: str) -> DatasetDiff:
    """Record a deleted tensor under its name in the previous version."""
    first = next((a for a, b in diff.renamed if b == name), name)
    rest = tuple((a, b) for a, b in diff.renamed if b != name)
    return replace(diff, renamed=rest, deleted=(*diff.deleted, first))


def has_renamed(diff: DatasetDiff, names: Iterable[str]) -> bool:
    """Return whether a tensor with one of these names had another name in the previous version."""
    return not {new for _, new in diff.renamed}.isdisjoint(names)
