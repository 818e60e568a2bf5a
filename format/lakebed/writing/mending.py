"""Make a sound version of a damaged one: what decodes stays, the rest is cut off or emptied, companions follow.

What stays and what goes is decided in `lakebed.versions.repair_plan`; `lakebed.versions.salvage` has read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.errors import EmptyTensorError, FormatError, LakebedError, LimitError, StorageError
from lakebed.htypes.base import Storing
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.samples import SampleReader
from lakebed.storage.base import Storage
from lakebed.versions.repair_plan import (
    Kind,
    Step,
    fitted_creds,
    fitted_diff,
    fitted_pad,
    guessed_diff,
    kept_length,
    kept_sequences,
    runs,
)
from lakebed.versions.salvage import SalvagedTensor, SalvagedVersion
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing import structure
from lakebed.writing.coerce import encode_column
from lakebed.writing.encoded import Encoded
from lakebed.writing.matching import Matching
from lakebed.writing.tensor_draft import Files, TensorDraft

_CACHE = 64_000_000


@dataclass(slots=True)
class Mended:
    """A version to publish, its chunk files by storage key, and what became of the old one."""

    snapshot: Snapshot
    files: Files
    steps: list[Step]


class Overlay(Mapping[str, bytes]):
    """Chunk files that are not in storage yet, by key."""

    def __init__(self) -> None:
        self.files: Files = {}

    def __getitem__(self, key: str) -> bytes:
        return b"".join(self.files[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


class Mender:
    """Mends one version.

    Parameters
    ----------
    found
        What is left of it.
    parent
        What its parent holds; None if there is none, or it can not be opened.
    branch, old_id, new_id
        Its branch, its id, and the id of the version to come.
    """

    def __init__(
        self,
        storage: Storage,
        found: SalvagedVersion,
        parent: Snapshot | None,
        *,
        branch: str,
        old_id: str,
        new_id: str,
    ) -> None:
        self._found = found
        self._parent = parent
        self._branch = branch
        self._old_id = old_id
        self._new_id = new_id
        self._overlay = Overlay()
        self._source = ChunkSource(storage, _CACHE, self._overlay)
        self._source.heads = frozenset([old_id])
        self._steps = list(found.steps)
        self._names = {key: name for name, key in found.meta.tensor_names.items()}

    def mend(self) -> Mended:
        """Return the version to publish."""
        found = self._found
        for tensor in found.tensors.values():
            self._overlay.files.update(tensor.files)
        states, lost = {}, {}
        for key, tensor in found.tensors.items():
            states[key], lost[key] = self._tensor(key, tensor)
        meta, diff = found.meta, found.diff
        gone = [key for key in meta.tensors if key not in states and key not in meta.hidden_tensors]
        for key in gone:
            name = self._names.get(key, key)
            for other in structure.companions_of(meta, name).values():
                states.pop(meta.tensor_names[other], None)
            if self._parent is not None and key in self._parent.tensors:
                diff = structure.with_deleted(diff or DatasetDiff(), name)
        meta = structure.without(meta, [key for key in meta.tensors if key not in states])
        matching = Matching(self._source, self._draft, meta, states)
        unremoved = {key for key in states if len(found.tensors[key].lost) > found.tensors[key].promised}
        matching.match({key: lost[key] for key in states}, unremoved)
        meta, states = matching.meta, matching.states
        self._overlay.files.update(matching.files)
        self._steps += [
            Step("companion", message, self._branch, self._old_id, name) for name, message in matching.notes
        ]
        for key in meta.tensors:
            states[key] = self._recorded(key, states[key], found.tensors.get(key), lost.get(key, ()))
        snapshot = Snapshot(self._new_id, meta, found.info, {key: states[key] for key in meta.tensors}, diff)
        return Mended(snapshot, self._used(snapshot), self._steps)

    def _used(self, snapshot: Snapshot) -> Files:
        used = {
            state.table.key(row) for state in snapshot.tensors.values() for row in range(len(state.table))
        }
        return {key: pieces for key, pieces in self._overlay.files.items() if key in used}

    def _draft(self, state: TensorState) -> TensorDraft:
        def read(of: TensorState, row: int) -> bytes | memoryview:
            key = of.table.key(row)
            for files in (draft.new_chunks, self._overlay.files):
                if key in files:
                    return b"".join(files[key])
            return self._source.file(of.table, row)

        draft = TensorDraft(state, self._new_id, read, self._overlay.files.update)
        return draft

    # -- samples ---------------------------------------------------------------------------------------------

    def _tensor(self, key: str, found: SalvagedTensor) -> tuple[TensorState, Sequence[int]]:
        """Return a tensor with what decodes of it, and the rows among those that are empty now."""
        name, state = self._names.get(key, key), found.state
        lost, reason = found.lost.copy(), found.reason
        for row in np.flatnonzero(~lost).tolist():
            error = self._error(name, state, row)
            if error is not None:
                lost[row], reason = True, reason or error
        kept = kept_length(lost)
        if state.sequence is not None:
            sequence = kept_sequences(state.sequence, kept)
            kept = sequence.total
        emptied = np.flatnonzero(lost[:kept]).tolist()
        draft = self._draft(replace(state, pad=None))
        for first, last in runs(lost[:kept]):
            self._empty(draft, first, last, name)
        if kept < len(lost):
            draft.remove(range(kept, len(lost)))
        draft.seal()
        self._overlay.files.update(draft.new_chunks)
        mended = self._with_extent(name, draft.state)
        if state.sequence is not None:
            mended = replace(mended, sequence=sequence)
        if state.meta.is_link:
            mended = replace(mended, creds=fitted_creds(state.creds, kept))
        mended = replace(mended, pad=fitted_pad(state.pad, mended.length))
        self._tell(name, found, mended, emptied, reason)
        return mended, emptied if state.sequence is None else []

    def _error(self, name: str, state: TensorState, row: int) -> str | None:
        """Decode a sample; return what is wrong with it."""
        reader = self._reader(name, state)
        try:
            if reader.is_link:
                reader.raw(row)
            else:
                reader.value(row)
        except (FormatError, LimitError, StorageError) as error:
            return str(error)
        except EmptyTensorError:
            return None
        except LakebedError:
            return None  # a package is missing; that is no damage
        return None

    _cached: tuple[TensorState, SampleReader] | None = None

    def _reader(self, name: str, state: TensorState) -> SampleReader:
        if self._cached is None or self._cached[0] is not state:
            self._cached = state, SampleReader(name, state, self._source)
        return self._cached[1]

    def _empty(self, draft: TensorDraft, first: int, last: int, name: str) -> None:
        """Let samples be empty ones."""
        meta = draft.meta
        column = encode_column(
            [None] * (last + 1 - first), meta.with_(is_sequence=False), draft.state.info, name
        )
        parts: list[Encoded] = [replace(part, meta=meta, nulls=None) for part in column.parts]
        draft.splice(first, last + 1, parts)

    def _with_extent(self, name: str, state: TensorState) -> TensorState:
        """Let the recorded extents hold all samples, where a newer chunk met older metadata."""
        meta = state.meta
        reader = self._reader(name, state)
        if meta.is_link or reader.storing in (Storing.TEXT, Storing.JSON) or not meta.length:
            return state
        try:
            shapes = [reader.shape(row) for row in range(meta.length)] if len(state.tiles) else None
            table = reader.shapes(range(meta.length)) if shapes is None else np.array(shapes, np.int64)
        except (LakebedError, ValueError):
            return state
        if not table.size:
            return state
        low, high = table.min(axis=0), table.max(axis=0)
        if len(low) != len(meta.max_shape):
            return state
        low, high = np.minimum(low, meta.min_shape), np.maximum(high, meta.max_shape)
        meta = meta.with_(min_shape=tuple(low.tolist()), max_shape=tuple(high.tolist()))
        return replace(state, meta=meta)

    def _tell(
        self, name: str, found: SalvagedTensor, mended: TensorState, emptied: list[int], reason: str
    ) -> None:
        old = found.state
        if name in self._hidden():
            return
        before = max(old.meta.length, found.promised)
        if old.sequence is not None:
            before = max(old.sequence.count, mended.length)
        reason = reason or "its files say different lengths: the last rows were not finished"
        if before > mended.length:
            self._step(
                "rows",
                f"cut off: {reason}",
                name,
                (mended.length, before - 1),
                before - mended.length,
                0 if emptied else found.lost_bytes,
            )
        mask = np.zeros(mended.meta.length, np.bool_)
        mask[emptied] = True
        for number, (first, last) in enumerate(runs(mask)):
            self._step(
                "rows",
                f"empty from now on: {reason}",
                name,
                (first, last),
                last + 1 - first,
                0 if number else found.lost_bytes,
            )
        if found.is_changed and before <= mended.length and not emptied:
            self._step("tensor", f"{mended.length:,} samples, as its chunks have them", name)

    def _hidden(self) -> set[str]:
        return {self._names.get(key, key) for key in self._found.meta.hidden_tensors}

    def _step(
        self,
        kind: Kind,
        message: str,
        tensor: str,
        rows: tuple[int, int] | None = None,
        lost_rows: int = 0,
        lost_bytes: int = 0,
    ) -> None:
        self._steps.append(
            Step(kind, message, self._branch, self._old_id, tensor, rows, lost_rows, lost_bytes)
        )

    # -- what changed since the parent ------------------------------------------------------------------------

    def _recorded(
        self, key: str, state: TensorState, found: SalvagedTensor | None, emptied: Sequence[int]
    ) -> TensorState:
        """Let the tensor's diff fit, as 3.9.52 takes a head without diffs for unchanged (FORMAT.md 15.3)."""
        before = None if self._parent is None else self._parent.tensors.get(key)
        if state.diff is not None:
            return replace(state, diff=fitted_diff(state.diff, _rows(state), emptied))
        is_same = before is not None and _is_same(state, before) and not emptied
        if is_same and (found is None or found.has_diff):
            return state
        changed = [] if before is None else _changed(state, before)
        diff = guessed_diff(None if before is None else _rows(before), _rows(state), [*changed, *emptied])
        return replace(state, diff=diff)


def _rows(state: TensorState) -> int:
    return max(state.meta.length, state.length)


def _is_same(state: TensorState, before: TensorState) -> bool:
    """Whether a tensor has the parent's samples and settings."""
    here, there = state.table, before.table
    return (
        state.meta == before.meta
        and state.info == before.info
        and here.ids == there.ids
        and all(here.folder(row) == there.folder(row) for row in range(len(here)))
    )


def _changed(state: TensorState, before: TensorState) -> list[int]:
    """Return the rows of both versions whose chunks differ; none for sequences, whose rows are no samples."""
    if state.sequence is not None:
        return []
    here, there = state.table, before.table
    files = {there.key(row): there.first(row) for row in range(len(there))}
    spans = [
        range(here.first(row), int(here.ids.last[row]) + 1)
        for row in range(len(here))
        if files.get(here.key(row)) != here.first(row)
    ]
    return [index for span in spans for index in span]
