"""Repair of hidden companions, so that they have one entry for each sample of their tensors (format.md 8).

Shapes are read from the chunks' headers, unknown ids are replaced by new ones, lost facts about files are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lakebed.codecs.base import Buffer
from lakebed.codecs.block import Block
from lakebed.documents import json_style
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import LakebedError
from lakebed.htypes.arrays import encode_samples
from lakebed.htypes.documents import encode_json
from lakebed.htypes.registry import htype_named
from lakebed.maintenance.plan import COMPANIONS, VersionSteps, fitted_ids
from lakebed.reading.fetch import ChunkSource
from lakebed.reading.samples import SampleReader
from lakebed.versions.chunk_table import empty_table
from lakebed.versions.state import TensorState
from lakebed.writing.draft.companions import id_column
from lakebed.writing.draft.tensor import TensorDraft, new_tensor
from lakebed.writing.encode.encoded import Encoded
from lakebed.writing.structure import companions_of, without
from lakebed.writing.tensor_chunks import Files

_INT64 = np.dtype("<i8")

Drafts = Callable[[TensorState], TensorDraft]


@dataclass(slots=True, eq=False)
class CompanionFit:
    """Repair of the companions of one version.

    Attributes
    ----------
    source
        Reads the chunks of all states, including new ones.
    drafts
        Function that starts a draft of a tensor.
    meta, states
        Schema and tensors of the version, which :meth:`fit` changes.
    steps
        Receives the steps.
    files
        Chunk files of new companions.
    """

    source: ChunkSource
    drafts: Drafts
    meta: DatasetMeta
    states: dict[str, TensorState]
    steps: VersionSteps
    files: Files = field(default_factory=dict)
    _unremoved: Collection[str] = ()
    # Tensor -> numbers of the companion entries that belong to removed samples.
    _gone: dict[str, set[int]] = field(default_factory=dict)

    def fit(self, lost: Mapping[str, Sequence[int]], unremoved: Collection[str]) -> None:
        """Repair all companions.

        Parameters
        ----------
        lost
            Numbers of the lost entries of each companion.
        unremoved
            Tensors with samples that an interrupted removal would have removed.
        """
        self._unremoved = unremoved
        names = {key: name for name, key in self.meta.tensor_names.items()}
        for key in [key for key in self.meta.tensors if key not in self.meta.hidden_tensors]:
            state, name = self.states[key], names.get(key, key)
            kinds = {
                hidden: str(link.get("extend", "")).removeprefix("extend_")
                for hidden, link in state.meta.links.items()
            }
            # Repair the ids first, because they show which rows were removed.
            for hidden, kind in sorted(kinds.items(), key=lambda item: item[1] != "id"):
                link = state.meta.links[hidden]
                flat = bool(link.get("flatten_sequence"))
                self._companion(name, key, hidden, kind, flat=flat, lost=lost.get(hidden, ()))
            nulls = companions_of(self.meta, name).get("null")
            if nulls is not None:
                self._cut(name, self.meta.tensor_names[nulls], self.states[key].length)

    def _companion(
        self, name: str, key: str, hidden: str, kind: str, *, flat: bool, lost: Sequence[int]
    ) -> None:
        owner, state = self.states[key], self.states.get(hidden)
        rows = owner.meta.length if flat else owner.length
        if kind == "id":
            self._ids(name, owner, hidden, rows, lost)
        elif kind in ("shape", "len") and not owner.meta.is_link:
            self._shapes(name, owner, hidden, lost)
        elif kind in ("shape", "len", "info"):
            self._documents(name, key, hidden, kind, rows, lost)
        elif state is None or state.meta.length < rows or lost:
            self._unlink(name, key, hidden)
        else:
            self._cut(name, hidden, rows)

    # -- ids, shapes and other companions --------------------------------------------------------------------

    def _ids(self, name: str, owner: TensorState, hidden: str, rows: int, lost: Sequence[int]) -> None:
        state = self.states.get(hidden)
        if state is not None and state.meta.length == rows and not lost:
            return
        gone = set(lost)
        ids: list[int | None] = []
        if state is not None:
            reader = SampleReader(hidden, state, self.source)
            for row in range(state.meta.length):
                value = None if row in gone else np.ravel(reader.value(row))
                ids.append(int(value[0]) if value is not None and len(value) else None)
        removed = set(() if owner.diff is None else owner.diff.deleted_ids.tolist())
        self._gone[owner.key] = {row for row, number in enumerate(ids) if number in removed}
        fitted = fitted_ids(ids, rows, removed, known=owner.key not in self._unremoved)
        new = sum(i is None for i in fitted)
        settings = self._settings(hidden, TensorMeta(hidden=True))
        column = id_column(rows, settings)
        (part,) = column.parts
        values = np.frombuffer(bytes(part.block.data), "<u8").copy()
        for row, number in enumerate(fitted):
            if number is not None:
                values[row] = number
        block = Block(memoryview(values.tobytes()), rows, 8, (1,))
        self._rebuild(hidden, settings, [replace(part, block=block)])
        self.steps.add("companion", f"sample ids: {rows - new:,} kept, {new:,} new", name)

    def _shapes(self, name: str, owner: TensorState, hidden: str, lost: Sequence[int]) -> None:
        state = self.states.get(hidden)
        wanted = self._headers(name, owner)
        if wanted is None:
            self._documents(name, owner.key, hidden, "shape", owner.meta.length, lost)
            return
        gone, known = set(lost), []
        if state is not None:
            reader = SampleReader(hidden, state, self.source)
            known = [
                None if row in gone else tuple(np.ravel(reader.value(row)).tolist())
                for row in range(state.meta.length)
            ]
        # Keep equivalent shapes that 3.9.52 writes: [0] for no value, and an axis of length 1 for grey images.
        fitted = [
            old if old is not None and _is_alike(old, new) else new
            for old, new in zip([*known, *[None] * len(wanted)], wanted, strict=False)
        ]
        if state is not None and fitted == known:
            return
        settings = self._settings(hidden, COMPANIONS["shape"])
        block = encode_samples([np.array(shape or (0,), _INT64) for shape in fitted], _INT64, 1)[0]
        self._rebuild(hidden, settings, [Encoded(block, settings)])
        self.steps.add("companion", f"shapes of {len(wanted):,} samples read from its chunks", name)

    def _headers(self, name: str, owner: TensorState) -> list[tuple[int, ...]] | None:
        """Return the shapes in a tensor's chunks; None if they cannot be read."""
        reader = SampleReader(name, owner, self.source)
        shapes = []
        try:
            for row in range(owner.meta.length):
                if reader.is_tiled(row):
                    shapes.append(reader.shape(row))
                else:
                    shape = reader.raw(row, decompress=False)[1]
                    shapes.append((0,) if shape is None else tuple(int(extent) for extent in shape))
        except LakebedError:
            return None
        return shapes

    def _documents(self, name: str, key: str, hidden: str, kind: str, rows: int, lost: Sequence[int]) -> None:
        """Keep the existing entries of a companion that cannot be computed; missing entries become empty."""
        state = self.states.get(hidden)
        if state is not None and state.meta.length == rows and not lost:
            return
        entries: list[Buffer | None] = []
        if state is not None and (key not in self._unremoved or state.meta.length == rows):
            gone, empty = self._gone.get(key, set()), set(lost)
            if state.meta.length != rows + len(gone):
                gone = set()
            reader = SampleReader(hidden, state, self.source)
            entries = [
                None if row in empty else reader.raw(row)[0]
                for row in range(state.meta.length)
                if row not in gone
            ][:rows]
        entries += [None] * (rows - len(entries))
        settings = self._settings(hidden, COMPANIONS["info" if kind == "info" else "shape"])
        if kind == "info":
            values = [{} if entry is None else json_style.load_object(entry, hidden) for entry in entries]
            block = encode_json(values)
        else:
            arrays = [np.zeros(1, _INT64) if e is None else np.frombuffer(e, _INT64) for e in entries]
            block = encode_samples(arrays, _INT64, 1)[0]
        self._rebuild(hidden, settings, [Encoded(block, settings)])
        missing = sum(entry is None for entry in entries)
        what = "facts about files" if kind == "info" else "shapes"
        self.steps.add("companion", f"{what}: {rows - missing:,} kept, {missing:,} empty", name)

    # -- states ----------------------------------------------------------------------------------------------

    def _settings(self, hidden: str, otherwise: TensorMeta) -> TensorMeta:
        state = self.states.get(hidden)
        return otherwise.with_(name=hidden) if state is None else state.meta

    def _rebuild(self, hidden: str, settings: TensorMeta, parts: Sequence[Encoded]) -> None:
        """Replace the content of a companion; create the companion if it is missing."""
        state = self.states.get(hidden)
        if state is None:
            state = new_tensor(hidden, settings, dict(htype_named(settings.htype).info))
            self.meta = replace(
                self.meta,
                tensors=(*self.meta.tensors, hidden),
                tensor_names={**self.meta.tensor_names, hidden: hidden},
                hidden_tensors=(*self.meta.hidden_tensors, hidden),
            )
        blank = settings.with_(length=0, min_shape=(), max_shape=())
        draft = self.drafts(replace(state, meta=blank, table=empty_table(), pad=None))
        for part in parts:
            draft.append(replace(part, meta=part.meta.with_(length=0, min_shape=(), max_shape=())))
        self._keep(hidden, draft)

    def _cut(self, name: str, hidden: str, rows: int) -> None:
        state = self.states.get(hidden)
        if state is None or state.meta.length <= rows:
            return
        draft = self.drafts(state)
        draft.remove(range(rows, state.meta.length))
        self._keep(hidden, draft)
        self.steps.add("companion", f"hidden tensor {hidden!r} cut to {rows:,} entries", name)

    def _keep(self, hidden: str, draft: TensorDraft) -> None:
        draft.pack()
        self.states[hidden] = draft.state
        self.files.update(draft.new_chunks)

    def _unlink(self, name: str, key: str, hidden: str) -> None:
        """Drop a companion that cannot be computed; 3.9.52 does not need it."""
        state = self.states[key]
        links = {link: settings for link, settings in state.meta.links.items() if link != hidden}
        self.states[key] = replace(state, meta=state.meta.with_(links=links))
        self.states.pop(hidden, None)
        self.meta = without(self.meta, [hidden])
        self.steps.add("companion", f"hidden tensor {hidden!r} dropped: it has too few entries", name)


def _is_alike(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    if 0 in old and 0 in new:
        return not any(old) or not any(new) or old == new
    return [extent for extent in old if extent != 1] == [extent for extent in new if extent != 1]
