"""A version in the making: the published head plus schema changes and samples that no reader sees yet.

Chunks that are full are written to storage at once under the draft's own folder, so memory stays bounded; nothing
refers to them until the publish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from lakebed.storage.base import Storage, is_early
from lakebed.versions.state import Origin, Snapshot, TensorState
from lakebed.writing.draft.append_buffer import AppendBuffer, Waiting
from lakebed.writing.draft.companions import DraftCompanions
from lakebed.writing.draft.rows import DraftRows
from lakebed.writing.draft.schema import DraftSchema
from lakebed.writing.draft.tensors import Tensors
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.encode.files import in_turns
from lakebed.writing.replace_samples import Allocate, fresh
from lakebed.writing.tensor_chunks import Read


class Draft:
    """The next head of a branch.

    Parameters
    ----------
    base
        The published head.
    version_id
        Id (and folder) of the version in the making.
    storage, read, guard, allocate
        As in `Tensors`.

    Attributes
    ----------
    tensors
        The tensors by key, hidden ones included.
    schema
        Editor of names and settings.
    buffer
        Rows that were appended one at a time and are not encoded yet.
    """

    def __init__(
        self,
        base: Snapshot,
        version_id: str,
        storage: Storage,
        read: Read,
        guard: Callable[[str], None] = lambda _: None,
        allocate: Allocate = fresh,
    ) -> None:
        self._version_id = version_id
        self._origin = base.origin
        self._structure: Snapshot | None = None
        self.tensors = Tensors(base.tensors, version_id, storage, read, guard, allocate)
        self.buffer = AppendBuffer(storage.early_file if is_early(storage) else None)
        self.schema = DraftSchema(base, self.tensors, self.buffer)

    @cached_property
    def companions(self) -> DraftCompanions:
        """Editor of the hidden tensors of a draft."""
        return DraftCompanions(self.schema)

    @cached_property
    def rows(self) -> DraftRows:
        """Editor of the samples of a draft."""
        return DraftRows(self.schema, self.companions)

    def fork(self) -> Draft:
        """Return a copy to change, which may be dropped; the original must not change any more."""
        copy = object.__new__(Draft)
        copy._version_id, copy._origin, copy._structure = self._version_id, self._origin, None
        copy.tensors, copy.buffer = self.tensors.fork(), self.buffer.fork()
        copy.schema = self.schema.fork(copy.tensors, copy.buffer)
        return copy

    @property
    def version_id(self) -> str:
        """Id of the version in the making."""
        return self._version_id

    def publish_as(self, version_id: str) -> None:
        """Give the version another id; packed chunks stay in the folder of the old one."""
        self._version_id = self.tensors.version_id = version_id

    @property
    def dirty(self) -> bool:
        """Return whether there may be anything to publish."""
        return self.tensors.is_changed

    # -- many rows -------------------------------------------------------------------------------------------------

    def extend(self, columns: Mapping[str, Any], encode: Callable[[Any, TensorState], Column]) -> None:
        """Append columns of one length, by tensor key; unread files are read a few at a time.

        After an error some tensors may have new samples and others not; the caller must drop the draft.
        """
        for part in in_turns(columns):
            self.rows.extend({key: encode(rows, self.tensors.seen[key].state) for key, rows in part.items()})

    # -- rows one by one ---------------------------------------------------------------------------------------

    def encode_pending(self) -> None:
        """Encode the rows that wait in the buffer."""
        if self.buffer.rows:
            columns = {}
            for key, waiting in self.buffer.columns().items():
                state = self.tensors.seen[key].state
                column = encode_column(waiting.values, state.meta, state.info, state.meta.name or key)
                # The buffer holds copies of everything that callers may change, so the parts own their memory.
                parts = [replace(part, owned=True) for part in column.parts]
                columns[key] = replace(column, parts=_with_early(parts, waiting))
            self.buffer.clear()
            self.rows.extend(columns)

    def try_append_row(self, group: str, row: Mapping[str, Any]) -> bool:
        """Keep a row of a group if it surely fits; return whether it was kept."""
        return self.buffer.try_append_row(group, row, self.tensors.seen)

    def try_append(self, key: str, sample: Any) -> bool:
        """Keep a sample of a tensor if it surely fits; return whether it was kept."""
        return self.buffer.try_append(key, sample, self.tensors.seen)

    def expect_rows(self, group: str, keys: Mapping[str, str]) -> None:
        """Prepare for more rows like the one that was just added: name in the row -> tensor key."""
        for key in keys.values():
            self.expect_samples(key)
        self.buffer.prepare_rows(group, keys)

    def expect_samples(self, key: str) -> None:
        """Get ready for more samples of a tensor."""
        tensor = self.tensors.seen[key]
        self.buffer.prepare(tensor.state, takes_none=self.companions.can_keep_nulls(tensor))

    # -- content -----------------------------------------------------------------------------------------------

    def tails(self) -> list[tuple[TensorState, int]]:
        """Return the chunks, by tensor and row of its table, that packing would read and pack again."""
        found = ((tensor.state, tensor.tail()) for tensor in self.tensors.seen.values())
        return [(state, row) for state, row in found if row is not None]

    def snapshot(self) -> Snapshot:
        """Return the state so far; pending samples are packed first."""
        self.tensors.pack()
        return self._snapshot(self._origin)

    def structure(self, *, is_final: bool) -> Snapshot:
        """Return the state so far; tables lack pending samples.

        Parameters
        ----------
        is_final
            True if from now on only forks of this draft will be changed.
        """
        known = self._structure
        if known is not None and is_final and known.version_id == self._version_id:
            return known
        found = self._snapshot(None)
        if is_final:
            self._structure = found
        return found

    def _snapshot(self, origin: Origin | None) -> Snapshot:
        schema = self.schema
        return Snapshot(
            self._version_id, schema.meta, schema.info, self.tensors.states(), schema.diff, origin
        )


def _with_early(parts: list[Encoded], waiting: Waiting) -> list[Encoded]:
    """Name the early chunk files of waiting samples in a part that holds these samples unchanged."""
    if not waiting.early or len(parts) != 1:
        return parts
    block = parts[0].block
    if block.buffers is None or block.count != len(waiting.values):
        return parts
    return [replace(parts[0], block=replace(block, early=waiting.early))]
