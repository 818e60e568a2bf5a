"""Chunks that only this process has so far, for readers of its own changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakebed.writing.schema_draft import SchemaDraft


class Unpublished(Mapping[str, bytes]):
    """Chunk files of the draft that are not in storage, by key; pieces are joined when one is asked for."""

    def __init__(self) -> None:
        self.draft: SchemaDraft | None = None

    def _find(self, key: str) -> tuple[bytes | memoryview, ...] | None:
        for tensor in self.draft.tensors.values() if self.draft else ():
            if key in tensor.new_chunks:
                return tensor.new_chunks[key]
        return None

    def __getitem__(self, key: str) -> bytes:
        pieces = self._find(key)
        if pieces is None:
            raise KeyError(key)
        return b"".join(pieces)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.draft.new_chunks() if self.draft else ())

    def __len__(self) -> int:
        return len(self.draft.new_chunks()) if self.draft else 0
