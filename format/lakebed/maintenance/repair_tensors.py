"""Repair of one version: samples that decode are kept, other samples are cut off or emptied, companions are adjusted.

`lakebed.maintenance.salvage` has read the version; `lakebed.maintenance.plan` decides which rows stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lakebed.codecs.block import Block
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.errors import LakebedError
from lakebed.htypes.base import Storing
from lakebed.maintenance.fit_companions import CompanionFit
from lakebed.maintenance.plan import (
    Target,
    TensorLeft,
    VersionSteps,
    fitted_creds,
    fitted_diff,
    fitted_pad,
    guessed_diff,
    kept_length,
    restored_sequences,
    runs,
    targets,
)
from lakebed.maintenance.salvage import SalvagedVersion
from lakebed.maintenance.salvage_chunks import SalvagedTensor
from lakebed.maintenance.verify import damage, decodes
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.samples import SampleReader
from lakebed.storage.base import Storage
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing import structure
from lakebed.writing.draft.tensor import TensorDraft
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Encoded
from lakebed.writing.tensor_chunks import Files, Pieces

_CACHE = 64_000_000


class _PendingFiles(Mapping[str, bytes]):
    """Chunk files that are not in storage yet, by key."""

    def __init__(self) -> None:
        self.files: Files = {}

    def __getitem__(self, key: str) -> bytes:
        return b"".join(self.files[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


class Repairer:
    """A repair of one version.

    Parameters
    ----------
    found
        The readable part of the version.
    parent
        Parent of the version; None if it has none, or its parent cannot be opened.
    old_id, new_id
        Id of the version, and the id of the new version.
    steps
        Receives the steps.
    """

    def __init__(
        self,
        storage: Storage,
        found: SalvagedVersion,
        parent: Snapshot | None,
        *,
        old_id: str,
        new_id: str,
        steps: VersionSteps,
    ) -> None:
        self._found = found
        self._parent = parent
        self._new_id = new_id
        self._pending = _PendingFiles()
        self._source = ChunkSource(storage, _CACHE, self._pending)
        self._source.heads = frozenset([old_id])
        self._steps = steps
        self._names = {key: name for name, key in found.meta.tensor_names.items()}
        # Tensor -> row -> sample that was taken from the parent version.
        self._restored: dict[str, dict[int, Encoded]] = {}

    def repair(self) -> tuple[Snapshot, Files]:
        """Return the version to publish, and its chunk files by storage key."""
        found = self._found
        for tensor in found.tensors.values():
            self._pending.files.update(tensor.files)
        for key, tensor in found.tensors.items():
            self._decode(key, tensor)
        visible = [key for key in found.tensors if key not in found.meta.hidden_tensors]
        chosen = targets({key: self._left(found.tensors[key]) for key in visible})
        states, lost = {}, {}
        for key, tensor in found.tensors.items():
            states[key], lost[key] = self._tensor(key, tensor, chosen.get(key))
        meta, diff = found.meta, found.diff
        gone = [key for key in meta.tensors if key not in states and key not in meta.hidden_tensors]
        for key in gone:
            name = self._names.get(key, key)
            for other in structure.companions_of(meta, name).values():
                states.pop(meta.tensor_names[other], None)
            if self._parent is not None and key in self._parent.tensors:
                diff = structure.with_deleted(diff or DatasetDiff(), name)
        meta = structure.without(meta, [key for key in meta.tensors if key not in states])
        fit = CompanionFit(self._source, self._draft, meta, states, self._steps)
        shrinking = {key for key in states if found.tensors[key].is_shrinking}
        fit.fit({key: lost[key] for key in states}, shrinking)
        meta, states = fit.meta, fit.states
        self._pending.files.update(fit.files)
        for key in meta.tensors:
            states[key] = self._recorded(key, states[key], found.tensors.get(key), lost.get(key, ()))
        snapshot = Snapshot(self._new_id, meta, found.info, {key: states[key] for key in meta.tensors}, diff)
        return snapshot, self._used(snapshot)

    def _used(self, snapshot: Snapshot) -> Files:
        used = {
            state.table.key(row) for state in snapshot.tensors.values() for row in range(len(state.table))
        }
        return {key: pieces for key, pieces in self._pending.files.items() if key in used}

    def _draft(self, state: TensorState) -> TensorDraft:
        def read(of: TensorState, row: int) -> bytes | memoryview:
            key = of.table.key(row)
            for files in (draft.new_chunks, self._pending.files):
                if key in files:
                    return b"".join(files[key])
            return self._source.file(of.table, row)

        def keep(files: Iterable[tuple[str, Pieces]], *, is_rewrite: bool) -> None:  # noqa: ARG001
            self._pending.files.update(files)

        draft = TensorDraft(state, self._new_id, read, keep)
        return draft

    # -- samples ---------------------------------------------------------------------------------------------

    def _decode(self, key: str, found: SalvagedTensor) -> None:
        """Mark samples that do not decode, in undamaged chunks."""
        name, table = self._names.get(key, key), found.state.table
        for ordinal in range(len(table)):
            rows = range(table.first(ordinal), int(table.ids.last[ordinal]) + 1)
            is_lost = bool(rows) and found.lost[rows.start : rows.stop].any()
            if not rows or (not is_lost and decodes(self._reader(name, found.state), rows)):
                continue
            for row in (row for row in rows if not found.lost[row]):
                error = self._error(name, found.state, row)
                if error is not None:
                    found.lost[row] = True
                    found.reason = found.reason or error
        known = None if self._parent is None else self._parent.tensors.get(key)
        diff = found.state.diff
        is_sequence = found.state.sequence is not None
        if known is None or diff is None or diff.cleared or len(diff.deleted) or is_sequence:
            return
        updated = set(diff.updated.tolist())
        for row in np.flatnonzero(found.lost[: known.meta.length]).tolist():
            if row not in updated:
                self._restore(key, name, found, known, row)

    def _restore(self, key: str, name: str, found: SalvagedTensor, known: TensorState, row: int) -> None:
        """Take a lost sample from the parent version, if the parent has the same sample."""
        if self._error(name, known, row) is not None:
            return
        reader = self._reader(name, known)
        if reader.is_tiled(row):
            return
        data, shape = reader.raw(row, decompress=reader.decoder.compression is None)
        block = Block.of_buffers([bytes(data)], shape or (0,) * max(1, len(known.meta.max_shape)))
        self._restored.setdefault(key, {})[row] = Encoded(block, found.state.meta)
        found.lost[row] = False

    def _left(self, found: SalvagedTensor) -> TensorLeft:
        """Return the rows that remain of a tensor."""
        kept, written, promised = kept_length(found.lost), len(found.lost), found.promised
        removed = set() if found.state.diff is None else set(found.state.diff.deleted_ids.tolist())
        is_unfinished = found.has_index and written < promised
        if found.state.sequence is not None:
            sequence = self._sequences(found)
            promised = max(sequence.count, len(self._ids_of(found)))
            kept, written = (sequence.within(flat).count for flat in (kept, written))
            is_unfinished = found.has_index and written < sequence.count
        ids = self._ids_of(found) if found.is_shrinking and removed else []
        rows = tuple(row for row, number in enumerate(ids) if number in removed)
        return TensorLeft(
            promised,
            written,
            kept,
            is_unfinished=is_unfinished,
            is_removed=not kept and promised > 0 and (found.is_missing or not written),
            is_shrinking=found.is_shrinking,
            to_remove=rows or None,
            has_removed=bool(removed),
        )

    def _tensor(
        self, key: str, found: SalvagedTensor, target: Target | None
    ) -> tuple[TensorState, Sequence[int]]:
        """Return a tensor with the rows that it keeps, and the kept rows that are now empty."""
        name, state, lost = self._names.get(key, key), found.state, found.lost
        kept, without = (kept_length(lost), ()) if target is None else (target.rows, target.without)
        sequence, gone = None, without
        if state.sequence is not None:
            lengths = self._sequences(found).lengths.astype(np.int64)[:kept]
            ends = np.cumsum(lengths)
            without = tuple(
                i for row in without for i in range(int(ends[row] - lengths[row]), int(ends[row]))
            )
            kept = int(ends[-1]) if len(ends) else 0
            sequence = SequenceIndex.from_lengths(np.delete(lengths, list(gone)))
        emptied = np.flatnonzero(lost[:kept]).tolist()
        draft = self._draft(replace(state, pad=None, creds=None))
        for first, last in runs(lost[:kept]):
            self._empty(draft, first, last, name)
        for row, part in self._restored.get(key, {}).items():
            if row < kept:
                draft.update(row, part)
        if kept < len(lost) or without:
            draft.remove([*without, *range(kept, len(lost))])
        draft.pack()
        self._pending.files.update(draft.new_chunks)
        repaired = self._with_extent(name, draft.state)
        if sequence is not None:
            repaired = replace(repaired, sequence=sequence)
        if state.meta.is_link:
            repaired = replace(repaired, creds=fitted_creds(state.creds, repaired.meta.length))
        repaired = replace(repaired, pad=fitted_pad(state.pad, repaired.length))
        self._tell(name, found, repaired, emptied, target)
        return repaired, emptied if state.sequence is None else []

    def _sequences(self, found: SalvagedTensor) -> SequenceIndex:
        """Return the sequence index; an empty index if rows are missing from it and cannot be restored."""
        sequence = found.state.sequence or SequenceIndex.from_lengths([])
        if sequence.total >= len(found.lost) or not found.is_shrinking:
            return sequence
        ids = self._ids_of(found)
        removed = set() if found.state.diff is None else set(found.state.diff.deleted_ids.tolist())
        restored = restored_sequences(sequence, len(found.lost), ids, removed)
        return SequenceIndex.from_lengths([]) if restored is None else restored

    def _ids_of(self, found: SalvagedTensor) -> list[int | None]:
        """Read the sample ids of a tensor, None for a lost id; [] if the tensor has no ids."""
        links = found.state.meta.links.items()
        key = next((key for key, link in links if link.get("extend") == "extend_id"), "")
        ids = self._found.tensors.get(key)
        if ids is None:
            return []
        reader = SampleReader(key, ids.state, self._source)
        found_ids: list[int | None] = []
        for row in range(len(ids.lost)):
            is_lost = bool(ids.lost[row]) or self._error(key, ids.state, row) is not None
            value = np.zeros(0, np.uint64) if is_lost else np.ravel(reader.value(row))
            found_ids.append(int(value[0]) if len(value) else None)
        return found_ids

    def _error(self, name: str, state: TensorState, row: int) -> str | None:
        """Decode a sample; return its damage, or None."""
        try:
            return damage(self._reader(name, state), row)
        except LakebedError:
            return None  # a missing package is not damage

    _cached: tuple[TensorState, SampleReader] | None = None

    def _reader(self, name: str, state: TensorState) -> SampleReader:
        if self._cached is None or self._cached[0] is not state:
            self._cached = state, SampleReader(name, state, self._source)
        return self._cached[1]

    def _empty(self, draft: TensorDraft, first: int, last: int, name: str) -> None:
        """Make samples empty."""
        meta = draft.meta
        column = encode_column(
            [None] * (last + 1 - first), meta.with_(is_sequence=False), draft.state.info, name
        )
        parts: list[Encoded] = [replace(part, meta=meta, nulls=None) for part in column.parts]
        draft.splice(first, last + 1, parts)

    def _with_extent(self, name: str, state: TensorState) -> TensorState:
        """Extend min_shape and max_shape to all samples: a chunk may be newer than the metadata."""
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
        if len(low) == len(meta.max_shape):
            low, high = np.minimum(low, meta.min_shape), np.maximum(high, meta.max_shape)
        elif meta.max_shape:
            return state
        meta = meta.with_(min_shape=tuple(low.tolist()), max_shape=tuple(high.tolist()))
        return replace(state, meta=meta)

    def _tell(
        self,
        name: str,
        found: SalvagedTensor,
        repaired: TensorState,
        emptied: list[int],
        target: Target | None,
    ) -> None:
        hidden = {self._names.get(key, key) for key in self._found.meta.hidden_tensors}
        if target is None or name in hidden:
            return
        before, now = max(len(found.lost), found.promised), repaired.length + len(target.without)
        if repaired.sequence is not None:
            before = max(self._sequences(found).count, now, len(self._ids_of(found)))
        restored = [row for row in self._restored.get(found.state.key, {}) if row < now]
        if restored:
            self._steps.add(
                "tensor",
                f"{len(restored):,} samples are taken from the parent version: {found.reason}",
                name,
                (restored[0], restored[-1]),
            )
        if target.without:
            first, last, count = target.without[0], target.without[-1], len(target.without)
            self._steps.add("rows", f"removed: {target.reason}", name, (first, last), lost_rows=count)
        elif before > now:
            reason = target.reason or found.reason
            reason = reason or "its files record different lengths: the last rows are incomplete"
            lost = 0 if emptied else found.lost_bytes
            self._steps.add(
                "rows", f"cut off: {reason}", name, (now, before - 1), lost_rows=before - now, lost_bytes=lost
            )
        mask = np.zeros(max(repaired.meta.length, *emptied, 0) + 1, np.bool_)
        mask[emptied] = True
        for number, (first, last) in enumerate(runs(mask)):
            lost = 0 if number else found.lost_bytes
            self._steps.add(
                "rows",
                f"emptied: {found.reason}",
                name,
                (first, last),
                lost_rows=last + 1 - first,
                lost_bytes=lost,
            )
        if found.is_changed and before <= now and not (emptied or restored or target.without):
            self._steps.add("tensor", f"{repaired.length:,} samples, the number in its chunks", name)

    # -- changes since the parent ------------------------------------------------------------------------------

    def _recorded(
        self, key: str, state: TensorState, found: SalvagedTensor | None, emptied: Sequence[int]
    ) -> TensorState:
        """Return the tensor with a correct diff: 3.9.52 considers a head without diffs unchanged (format.md 15.3)."""
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
    """Tell whether a tensor has the parent's samples and settings."""
    here, there = state.table, before.table
    return (
        state.meta == before.meta
        and state.info == before.info
        and here.ids == there.ids
        and all(here.folder(row) == there.folder(row) for row in range(len(here)))
    )


def _changed(state: TensorState, before: TensorState) -> list[int]:
    """Return the rows whose chunks differ between the versions; [] for sequences, whose rows are not samples."""
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
