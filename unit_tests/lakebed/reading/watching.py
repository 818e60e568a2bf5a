"""Storages that note what is read from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lakebed
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.local import LocalStorage


class Watched(LocalStorage):
    """A local folder that notes key and number of bytes of every read, and maps nothing."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(str(root))
        self.reads: list[tuple[str, int]] = []

    def get(self, key: str) -> bytes:
        data = super().get(key)
        self.reads.append((key, len(data)))
        return data

    def get_into(self, key: str, buffer: memoryview) -> int:
        size = super().get_into(key, buffer)
        self.reads.append((key, size))
        return size

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.reads.append((key, length))
        return super().get_range(key, start, length)

    def map(self, key: str) -> memoryview:
        data = memoryview(bytearray(super().get(key)))
        self.reads.append((key, len(data)))
        return data


def watched(path: str | Path) -> tuple[lakebed.Dataset, Watched]:
    """A dataset opened read-only, and the storage it is read through."""
    storage = Watched(path)
    dataset = lakebed.Dataset(Handle(Session(storage, read_only=True)))
    return dataset, storage


@contextmanager
def chunk_reads(storage: Watched, tensor: str) -> Iterator[list[tuple[str, int]]]:
    """Collect the reads of chunk files of a tensor."""
    storage.reads.clear()
    found: list[tuple[str, int]] = []
    yield found
    found.extend(read for read in storage.reads if f"/{tensor}/chunks/" in read[0])
