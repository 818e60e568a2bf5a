"""The schema side of a version in the making: tensors, groups, names, settings and infos."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Self

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.creds_index import CredsIndex
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.frozen import changed
from lakebed.documents.sequence_index import SequenceIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import StorageError
from lakebed.storage.base import Storage, is_uncached
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing import diffs, structure
from lakebed.writing.draft.append_buffer import Loose
from lakebed.writing.draft.tensor import TensorDraft, new_tensor
from lakebed.writing.replace_samples import Take, fresh
from lakebed.writing.tensor_chunks import Files, Read

_log = logging.getLogger(__name__)


class _Spill:
    """Where full chunks go; apart from the draft, so that the draft's tensors do not hold it in a cycle."""

    def __init__(self, storage: Storage, guard: Callable[[], None]) -> None:
        self.keys: list[str] = []
        self._storage = storage
        self._guard = guard
        self._guarded = False

    def __call__(self, files: Files, *, is_rewrite: bool) -> None:
        if not self._guarded:
            self._guard()
            self._guarded = True
        if is_rewrite and is_uncached(self._storage):
            # A merge may rewrite more than memory holds: what readers of older versions use is to stay there.
            self._storage.put_uncached(files.items())
        else:
            self._storage.put_many(files.items(), durable=False)
        self.keys.extend(files)

    def forget(self, first: int) -> None:
        """Delete all but the first few of what was written; what the storage keeps all the same, nothing refers to."""
        gone = self.keys[first:]
        del self.keys[first:]
        for key in gone:
            try:
                self._storage.delete(key)
            except StorageError as error:
                _log.warning("a chunk of %s that nothing refers to stays: %s", self._storage.url, error)


class Tensors(MutableMapping[str, TensorDraft]):
    """The tensors of a draft by key.

    A fork has the same ones at first; whatever it is asked for it copies, once, to be changed.
    """

    __slots__ = ("_all", "_own")

    def __init__(self, drafts: Mapping[str, TensorDraft]) -> None:
        self._all = dict(drafts)
        self._own = set(drafts)

    def fork(self) -> Tensors:
        """Return a copy to change, which may be given up; this one may not change any more."""
        copy = object.__new__(Tensors)
        copy._all, copy._own = self._all.copy(), set()
        return copy

    def __getitem__(self, key: str) -> TensorDraft:
        """Return a tensor to change."""
        found = self._all[key]
        if key not in self._own:
            found = self._all[key] = found.fork()
            self._own.add(key)
        return found

    def __setitem__(self, key: str, tensor: TensorDraft) -> None:
        self._all[key] = tensor
        self._own.add(key)

    def __delitem__(self, key: str) -> None:
        del self._all[key]
        self._own.discard(key)

    def __contains__(self, key: object) -> bool:
        return key in self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def states(self) -> dict[str, TensorState]:
        """Return what the tensors hold, but for what is pending, by key."""
        return {key: tensor.state for key, tensor in self._all.items()}

    @property
    def seen(self) -> Mapping[str, TensorDraft]:
        """The tensors to look at, not to change."""
        return self._all


class SchemaDraft:
    """What a version holds, apart from the samples.

    Parameters
    ----------
    base
        The published head.
    version_id
        Id (and folder) of the version in the making.
    storage
        Where full chunks go before the publish.
    read
        Reads a chunk file back, published or not.
    guard
        Called with the version's id before anything is written to its folder.
    take
        Supplies buffers for chunks that are being rewritten.
    """

    def __init__(
        self,
        base: Snapshot,
        version_id: str,
        storage: Storage,
        read: Read,
        guard: Callable[[str], None] = lambda _: None,
        take: Take = fresh,
    ) -> None:
        self.version_id = version_id
        self.meta = base.meta
        self.info: Mapping[str, Any] = base.info
        self.diff = base.diff
        self.origin = base.origin
        self.dirty = False
        self.loose = Loose()
        self._spill = _Spill(storage, lambda: guard(version_id))
        self._read = read
        self._take = take
        self.tensors = Tensors({key: self._tensor_draft(state) for key, state in base.tensors.items()})
        self._spilled_before = 0
        self._structure: Snapshot | None = None

    def fork(self) -> Self:
        """Return a copy to change, which may be given up; this one may not change any more."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.tensors, copy.loose = self.tensors.fork(), self.loose.fork()
        copy._spilled_before, copy._structure = len(self._spill.keys), None
        return copy

    def give_up(self) -> None:
        """Delete what was written to storage since this was forked."""
        self._spill.forget(self._spilled_before)

    def _tensor_draft(self, state: TensorState) -> TensorDraft:
        return TensorDraft(state, self.version_id, self._read, self._spill, self._take)

    @property
    def spilled(self) -> list[str]:
        """Keys of chunk files that are in storage already, not synced."""
        return self._spill.keys

    def new_chunks(self) -> dict[str, tuple[bytes | memoryview, ...]]:
        """Chunk files that are not in storage yet, by key."""
        return {
            key: pieces for tensor in self.tensors.seen.values() for key, pieces in tensor.new_chunks.items()
        }

    # -- schema and info ---------------------------------------------------------------------------------------

    def add_tensor(self, name: str, meta: TensorMeta, info: Mapping[str, Any], groups: Sequence[str]) -> None:
        """Add a tensor without samples; ``groups`` are the group entries that its name needs."""
        self.loose.forget()
        state = new_tensor(self.free_key(name), meta.with_(name=name), info)
        if meta.is_sequence:
            state = replace(state, sequence=SequenceIndex.from_lengths([]))
        if meta.is_link:
            state = replace(state, creds=CredsIndex.from_codes([]))
        self.adopt_tensor(name, state, groups)

    def adopt_tensor(self, name: str, state: TensorState, groups: Sequence[str]) -> None:
        """Add a tensor with the samples that it has; no other one has its key."""
        self.loose.forget()
        key, hidden = state.key, self.meta.hidden_tensors
        self.tensors[key] = self._tensor_draft(state)
        self.meta = replace(
            self.meta,
            tensors=(*self.meta.tensors, key),
            tensor_names={**self.meta.tensor_names, name: key},
            hidden_tensors=(*hidden, key) if state.meta.hidden else hidden,
        )
        self.add_groups(groups)

    def replace_tensor(self, key: str, state: TensorState) -> None:
        """Let a tensor hold what a state says, whose chunks are in storage."""
        self.loose.forget()
        self.dirty = True
        self.tensors[key] = self._tensor_draft(replace(state, key=key))

    def free_key(self, name: str) -> str:
        """Return a key that no tensor has: the name, or one made from it."""
        return name if name not in self.tensors else _free_key(name, self.tensors)

    def add_groups(self, groups: Sequence[str]) -> None:
        """Add group entries that are not there yet."""
        self.dirty = True
        new = tuple(g for g in groups if g not in self.meta.groups)
        self.meta = replace(self.meta, groups=(*self.meta.groups, *new))

    def set_info(self, info: Mapping[str, Any]) -> None:
        """Replace the dataset's info."""
        self.dirty = True
        self.info = dict(info)
        self.diff = replace(self.diff or DatasetDiff(), info_updated=True)

    def set_tensor_info(self, key: str, info: Mapping[str, Any]) -> None:
        """Replace a tensor's info."""
        self.dirty = True
        tensor = self.tensors[key]
        tensor.set_info(info)
        self._record(tensor, diffs.with_info(diffs.touched(tensor.state)))

    def set_meta(self, key: str, meta: TensorMeta) -> None:
        """Replace a tensor's settings, its extent excepted."""
        self.loose.forget()
        self.dirty = True
        tensor = self.tensors[key]
        tensor.set_meta(meta)
        diff = diffs.touched(tensor.state)
        self._record(tensor, diff if diff.created else diffs.with_info(diff))

    def set_allow_delete(self, allow: bool) -> None:
        """Allow or forbid that the dataset is deleted."""
        self.dirty = True
        self.meta = replace(self.meta, allow_delete=allow)

    def rename_tensor(self, name: str, new: str) -> None:
        """Give a tensor another name, and its companions theirs; keys and folders stay."""
        self.loose.forget()
        self.dirty = True
        for old, now in structure.moves(self.meta, name, new).items():
            tensor = self.tensors[self.meta.tensor_names[old]]
            tensor.set_meta(tensor.meta.with_(name=now))
        if not self._is_new(name):
            self.diff = structure.with_renamed(self.diff or DatasetDiff(), name, new)
            tensor = self.tensors[self.meta.tensor_names[name]]
            self._record(tensor, diffs.touched(tensor.state))
        self.meta = structure.renamed(self.meta, structure.moves(self.meta, name, new))

    def _is_new(self, name: str) -> bool:
        diff = self.tensors[self.meta.tensor_names[name]].state.diff
        return diff is not None and diff.created

    def rename_group(self, group: str, new: str) -> None:
        """Give a group, and everything in it, another name."""
        hidden = set(self.meta.hidden_tensors)
        for name, key in list(self.meta.tensor_names.items()):
            if structure.is_inside(name, group) and key not in hidden:
                self.rename_tensor(name, new + name[len(group) :])
        self.dirty = True
        groups = [new + g[len(group) :] if structure.is_inside(g, group) else g for g in self.meta.groups]
        self.meta = replace(self.meta, groups=tuple(dict.fromkeys(groups)))

    def delete_tensor(self, name: str) -> None:
        """Drop a tensor and its companions."""
        self.loose.forget()
        self.dirty = True
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
            # The group alone says it all, unless the previous version knew its tensors by other names.
            self.diff = replace(before, deleted=(*before.deleted, group))
        self.dirty = True
        groups = tuple(g for g in self.meta.groups if not structure.is_inside(g, group))
        self.meta = replace(self.meta, groups=groups)

    def record(self, key: str, diff: CommitDiff) -> None:
        """Keep what the version says of its changes to a tensor."""
        self._record(self.tensors[key], diff)

    def _record(self, tensor: TensorDraft, diff: CommitDiff) -> None:
        tensor.state = changed(tensor.state, diff=diff)


def _free_key(name: str, taken: Mapping[str, Any]) -> str:
    """Return another key for a name whose key an earlier rename left in use (FORMAT.md 1.4)."""
    number = 0
    while f"{name}_{number:04x}" in taken:
        number += 1
    return f"{name}_{number:04x}"
