"""The tensors of a version in the making, by key, and the storage of their full chunks before the publish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager

from lakebed.errors import StorageError
from lakebed.storage.base import Storage, is_uncached
from lakebed.versions.state import TensorState
from lakebed.writing.draft.tensor import TensorDraft
from lakebed.writing.replace_samples import Allocate, fresh
from lakebed.writing.tensor_chunks import Pieces, Read

# Maximum number of bytes of pending samples of all tensors together; beyond it, they are written.
SPILL_BYTES = 64_000_000
_TOGETHER = 16_000_000  # number of bytes of chunks that are packed before they are written


class _Spill:
    """Writer of full chunks; not part of the draft, so that the draft's tensors do not form a cycle with it."""

    def __init__(self, storage: Storage, guard: Callable[[], None]) -> None:
        self.keys: list[str] = []
        self._storage = storage
        self._guard = guard
        self._guarded = False

    def __call__(self, files: Iterable[tuple[str, Pieces]], *, is_rewrite: bool) -> None:
        if not self._guarded:
            self._guard()
            self._guarded = True
        keys: list[str] = []

        def noted() -> Iterator[tuple[str, Pieces]]:
            for key, pieces in files:
                keys.append(key)
                yield key, pieces

        if is_rewrite and is_uncached(self._storage):
            # Do not cache these files: a merge may rewrite more than fits into memory, and the cache should keep
            # files of older versions that readers use.
            self._storage.put_uncached(noted())
        else:
            self._storage.put_many(noted(), durable=False)
        self.keys.extend(keys)

    def forget(self, first: int) -> None:
        """Delete all written files after the first `first`.

        A file that cannot be deleted stays but is unreferenced, so it does no harm.
        """
        gone = self.keys[first:]
        del self.keys[first:]
        for key in gone:
            try:
                self._storage.delete(key)
            except StorageError as error:
                import logging

                logging.getLogger(__name__).warning(
                    "an unreferenced chunk of %s could not be deleted: %s", self._storage.url, error
                )


class Tensors(MutableMapping[str, TensorDraft]):
    """The tensors of a draft by key.

    A fork shares the tensors with its original, and copies a tensor when a caller first requests it to change it.

    Parameters
    ----------
    states
        The tensors as published.
    version_id
        Id (and folder) of the version in the making.
    storage
        Storage to which full chunks are written before the publish.
    read
        Reads a chunk file back, published or not.
    guard
        Called with the version's id before anything is written to its folder.
    allocate
        Supplies buffers for chunks that are being rewritten.
    """

    __slots__ = (
        "_all",
        "_is_changed",
        "_own",
        "_read",
        "_spill",
        "_spilled_before",
        "allocate",
        "version_id",
    )

    def __init__(
        self,
        states: Mapping[str, TensorState],
        version_id: str,
        storage: Storage,
        read: Read,
        guard: Callable[[str], None] = lambda _: None,
        allocate: Allocate = fresh,
    ) -> None:
        self.version_id = version_id
        self._is_changed = False
        self._spill = _Spill(storage, lambda: guard(version_id))
        self._spilled_before = 0
        self._read = read
        self.allocate = allocate
        self._all = {key: self.new(state) for key, state in states.items()}
        self._own = set(self._all)

    def fork(self) -> Tensors:
        """Return a copy to change, which may be dropped; the original must not change any more."""
        copy = object.__new__(Tensors)
        copy.version_id, copy._is_changed, copy._spill = self.version_id, self._is_changed, self._spill
        copy._spilled_before, copy._read, copy.allocate = len(self._spill.keys), self._read, self.allocate
        copy._all, copy._own = self._all.copy(), set()
        return copy

    def new(self, state: TensorState) -> TensorDraft:
        """Return a tensor with the content of a state; it is not added."""
        return TensorDraft(state, self.version_id, self._read, self._spill, self.allocate)

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
        """Return the tensors' states, without pending samples, by key."""
        return {key: tensor.state for key, tensor in self._all.items()}

    @property
    def seen(self) -> Mapping[str, TensorDraft]:
        """Tensors by key, for reading only."""
        return self._all

    # -- changes -----------------------------------------------------------------------------------------------

    @property
    def is_changed(self) -> bool:
        """Return whether the draft may differ from the published version."""
        return self._is_changed

    def mark_changed(self) -> None:
        """Mark the draft as changed, so that it is published."""
        self._is_changed = True

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Return a context for a change of samples: mark the draft as changed, and bound the waiting bytes afterwards.

        An interrupted change leaves its fork in an undefined state; the caller drops the fork.
        """
        self.mark_changed()
        yield
        self._bound_memory()

    def _bound_memory(self) -> None:
        if sum([t.pending_bytes for t in self._all.values()]) <= SPILL_BYTES:
            return
        tensors: list[TensorDraft] = []
        packed = 0
        for tensor in self.values():
            tensor.pack()
            tensors.append(tensor)
            packed += tensor.packed_bytes
            if packed > _TOGETHER:
                self._spill_all(tensors)
                tensors, packed = [], 0
        self._spill_all(tensors)

    def _spill_all(self, tensors: list[TensorDraft]) -> None:
        """Write the chunks of some tensors to storage in one batch."""
        files = {key: pieces for tensor in tensors for key, pieces in tensor.new_chunks.items()}
        if files:
            self._spill(files.items(), is_rewrite=False)
        for tensor in tensors:
            tensor.release_chunks()

    # -- chunks ------------------------------------------------------------------------------------------------

    def pack(self) -> None:
        """Turn all pending samples into chunks."""
        for key in [key for key, tensor in self._all.items() if not tensor.is_packed]:
            self[key].pack()

    def new_chunks(self) -> dict[str, tuple[bytes | memoryview, ...]]:
        """Chunk files that are not in storage yet, by key."""
        return {key: pieces for tensor in self._all.values() for key, pieces in tensor.new_chunks.items()}

    @property
    def spilled(self) -> list[str]:
        """Keys of chunk files that are in storage already, not synced."""
        return self._spill.keys

    def give_up(self) -> None:
        """Delete the files that were written since this was forked."""
        self._spill.forget(self._spilled_before)
