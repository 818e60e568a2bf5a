"""The schema of a version in the making: tensors, groups, names, settings and infos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing import diffs, structure
from lakebed.writing.draft.append_buffer import AppendBuffer
from lakebed.writing.draft.tensor import TensorDraft, new_tensor
from lakebed.writing.draft.tensors import Tensors


class DraftSchema:
    """Everything that a version holds except the samples.

    Parameters
    ----------
    base
        The published head.
    tensors
        Tensors of the draft.
    buffer
        Rows that were appended one at a time; a change of the schema invalidates their checks.

    Attributes
    ----------
    meta, info, diff
        Names and info of the dataset, and the version's record of changes to both.
    """

    __slots__ = ("_buffer", "diff", "info", "meta", "tensors")

    def __init__(self, base: Snapshot, tensors: Tensors, buffer: AppendBuffer) -> None:
        self.meta = base.meta
        self.info: Mapping[str, Any] = base.info
        self.diff = base.diff
        self.tensors = tensors
        self._buffer = buffer

    def fork(self, tensors: Tensors, buffer: AppendBuffer) -> DraftSchema:
        """Return a copy to change, with forks of the tensors and of the buffer."""
        copy = object.__new__(DraftSchema)
        copy.meta, copy.info, copy.diff = self.meta, self.info, self.diff
        copy.tensors, copy._buffer = tensors, buffer
        return copy

    def _outdate(self) -> None:
        """Begin a change of names or settings, which invalidates the checks of the append buffer."""
        self.tensors.mark_changed()
        self._buffer.forget_checks()

    def add_tensor(self, name: str, meta: TensorMeta, info: Mapping[str, Any], groups: Sequence[str]) -> None:
        """Add a tensor without samples; ``groups`` are the group entries that its name needs."""
        self._outdate()
        state = new_tensor(self.free_key(name), meta.with_(name=name), info)
        if meta.is_sequence:
            state = replace(state, sequence=SequenceIndex.from_lengths([]))
        if meta.is_link:
            state = replace(state, creds=CredsIndex.from_codes([]))
        self.adopt_tensor(name, state, groups)

    def adopt_tensor(self, name: str, state: TensorState, groups: Sequence[str]) -> None:
        """Add a tensor with its samples; its key must be free."""
        self._outdate()
        key, hidden = state.key, self.meta.hidden_tensors
        self.tensors[key] = self.tensors.new(state)
        self.meta = replace(
            self.meta,
            tensors=(*self.meta.tensors, key),
            tensor_names={**self.meta.tensor_names, name: key},
            hidden_tensors=(*hidden, key) if state.meta.hidden else hidden,
        )
        self.add_groups(groups)

    def replace_tensor(self, key: str, state: TensorState) -> None:
        """Give a tensor the content of a state, whose chunks are in storage."""
        self.put_tensor(self.tensors.new(state.with_(key=key)))

    def put_tensor(self, tensor: TensorDraft) -> None:
        """Replace the tensor of the same key."""
        self._outdate()
        self.tensors[tensor.state.key] = tensor

    def free_key(self, name: str) -> str:
        """Return a free key: the name itself, or a key made from the name."""
        return name if name not in self.tensors else _free_key(name, self.tensors)

    def add_groups(self, groups: Sequence[str]) -> None:
        """Add the group entries that are missing."""
        self.tensors.mark_changed()
        new = tuple(g for g in groups if g not in self.meta.groups)
        self.meta = replace(self.meta, groups=(*self.meta.groups, *new))

    def set_info(self, info: Mapping[str, Any]) -> None:
        """Replace the dataset's info."""
        self.tensors.mark_changed()
        self.info = dict(info)
        self.diff = replace(self.diff or DatasetDiff(), info_updated=True)

    def set_tensor_info(self, key: str, info: Mapping[str, Any]) -> None:
        """Replace a tensor's info."""
        self.tensors.mark_changed()
        tensor = self.tensors[key]
        tensor.set_info(info)
        tensor.record(diffs.with_info(tensor.diff))

    def set_meta(self, key: str, meta: TensorMeta) -> None:
        """Replace a tensor's settings except its extent."""
        self._outdate()
        tensor = self.tensors[key]
        tensor.set_meta(meta)
        diff = tensor.diff
        tensor.record(diff if diff.created else diffs.with_info(diff))

    def set_default_index(self, axes: tuple[Any, ...]) -> None:
        """Set the rows that Deep Lake 3.x shows when it opens the dataset as a view (format.md 12)."""
        self.tensors.mark_changed()
        self.meta = replace(self.meta, default_index=axes)

    def set_allow_delete(self, allow: bool) -> None:
        """Allow or forbid that the dataset is deleted."""
        self.tensors.mark_changed()
        self.meta = replace(self.meta, allow_delete=allow)

    def rename_tensor(self, name: str, new: str) -> None:
        """Rename a tensor and its companions; keys and folders stay."""
        self._outdate()
        for old, now in structure.moves(self.meta, name, new).items():
            tensor = self.tensors[self.meta.tensor_names[old]]
            tensor.set_meta(tensor.meta.with_(name=now))
        if not self._is_new(name):
            self.diff = structure.with_renamed(self.diff or DatasetDiff(), name, new)
            tensor = self.tensors[self.meta.tensor_names[name]]
            tensor.record(tensor.diff)
        self.meta = structure.renamed(self.meta, structure.moves(self.meta, name, new))

    def _is_new(self, name: str) -> bool:
        diff = self.tensors[self.meta.tensor_names[name]].state.diff
        return diff is not None and diff.created

    def rename_group(self, group: str, new: str) -> None:
        """Rename a group and everything in it."""
        hidden = set(self.meta.hidden_tensors)
        for name, key in list(self.meta.tensor_names.items()):
            if structure.is_inside(name, group) and key not in hidden:
                self.rename_tensor(name, new + name[len(group) :])
        self.tensors.mark_changed()
        groups = [new + g[len(group) :] if structure.is_inside(g, group) else g for g in self.meta.groups]
        self.meta = replace(self.meta, groups=tuple(dict.fromkeys(groups)))

    def delete_tensor(self, name: str) -> None:
        """Drop a tensor and its companions."""
        self._outdate()
        names = [name, *structure.companions_of(self.meta, name).values()]
        if not self._is_new(name):
            self.diff = structure.with_deleted(self.diff or DatasetDiff(), name)
        keys = [self.meta.tensor_names[n] for n in names]
        for key in keys:
            del self.tensors[key]
        self.meta = structure.without(self.meta, keys)

    def delete_group(self, group: str) -> None:
        """Drop a group and everything in it."""
        hidden, before = set(self.meta.hidden_tensors), self.diff or DatasetDiff()
        inside = [
            name
            for name, key in self.meta.tensor_names.items()
            if structure.is_inside(name, group) and key not in hidden
        ]
        old = [name for name in inside if not self._is_new(name)]
        for name in inside:
            self.delete_tensor(name)
        if old and not structure.has_renamed(before, old):
            # Only record the deleted group, which implies its tensors, unless one had another name in the previous
            # version.
            self.diff = replace(before, deleted=(*before.deleted, group))
        self.tensors.mark_changed()
        groups = tuple(g for g in self.meta.groups if not structure.is_inside(g, group))
        self.meta = replace(self.meta, groups=groups)


def _free_key(name: str, taken: Mapping[str, Any]) -> str:
    """Return another key for a name if a renamed tensor still uses the key of that name (format.md 1.4)."""
    number = 0
    while f"{name}_{number:04x}" in taken:
        number += 1
    return f"{name}_{number:04x}"
