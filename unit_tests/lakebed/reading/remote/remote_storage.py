"""A store far away, in memory: it takes its time, notes every request, and fails on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lakebed
from lakebed.errors import TruncatedReadError
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.base import Tail
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.versions.create import create

# Seconds that a request waits for others.
_PATIENCE = 60.0


@dataclass(frozen=True)
class Request:
    """One request for an object: all of it, or (start, length)."""

    key: str
    start: int | None
    nbytes: int

    @property
    def tensor(self) -> str:
        """Name of the tensor whose chunk it is, or of the metadata file."""
        parts = self.key.split("/")
        return parts[-3] if "chunks" in parts else parts[-1]


def twice(requests: Sequence[Request]) -> int:
    """Count the bytes that were read again."""
    found = 0
    for number, one in enumerate(requests):
        for other in requests[:number]:
            if one.key == other.key:
                a, b = one.start or 0, other.start or 0
                found += max(0, min(a + one.nbytes, b + other.nbytes) - max(a, b))
    return found


class RemoteStorage(MemoryStorage):
    """Objects in memory behind a slow line.

    Parameters
    ----------
    latency
        Seconds that every request takes.

    Attributes
    ----------
    together
        Requests end when so many of them have been under way at the same time, however slow the machine is; they
        fail if that does not come.
    most
        Requests that were under way at the same time at most.
    held
        Bytes of answers under way at the same time at most.
    fails
        Called with each request; what it returns is raised.
    """

    def __init__(self, latency: float = 0.0) -> None:
        super().__init__()
        self.latency = latency
        self.requests: list[Request] = []
        self.most = self.held = self.together = 0
        self.fails: Callable[[Request], Exception | None] = lambda _: None
        self._now = self._bytes = 0
        self._mutex = threading.Condition()

    @classmethod
    def of(cls, path: str | Path, latency: float = 0.0) -> RemoteStorage:
        """Copy a folder into one."""
        made, local = cls(latency), LocalStorage(str(path))
        for key, _ in local.list():
            made.put(key, local.get(key))
        return made

    @contextmanager
    def _request(self, key: str, start: int | None, nbytes: int) -> Iterator[None]:
        request = Request(key, start, nbytes)
        with self._mutex:
            self.requests.append(request)
            self._now += 1
            self._bytes += nbytes
            self.most, self.held = max(self.most, self._now), max(self.held, self._bytes)
            self._mutex.notify_all()
        try:
            with self._mutex:
                enough = self._mutex.wait_for(lambda: self.most >= self.together, _PATIENCE)
                assert enough, f"{self.most} requests under way at the same time, not {self.together}"
            if self.latency:
                time.sleep(self.latency)
            error = self.fails(request)
            if error is not None:
                raise error
            yield
        finally:
            with self._mutex:
                self._now -= 1
                self._bytes -= nbytes

    def get(self, key: str) -> bytes:
        data = super().get(key)
        with self._request(key, None, len(data)):
            return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        data = super().get(key)
        if start + length > len(data):
            raise TruncatedReadError(f"{key!r} has {len(data)} bytes, not bytes {start} to {start + length}")
        with self._request(key, start, length):
            return data[start : start + length]

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.get_range(key, start, length) for start, length in spans]

    def get_tail(self, key: str, length: int) -> Tail:
        found = super().get_tail(key, length)
        with self._request(key, -1, len(found.data)):
            return found

    @contextmanager
    def chunk_requests(self) -> Iterator[list[Request]]:
        """Collect the requests for chunk files."""
        self.requests.clear()
        found: list[Request] = []
        yield found
        found.extend(request for request in self.requests if "/chunks/" in request.key)

    def change(self, part: str, at: int) -> str:
        """Flip a bit of the one object whose key has this part; return its key."""
        (key,) = [key for key, _ in self.list() if part in key]
        data = bytearray(super().get(key))
        data[at] ^= 1
        self.put(key, bytes(data))
        return key


def created(storage: MemoryStorage) -> lakebed.Dataset:
    """Make a new dataset, open for writing."""
    create(storage)
    return lakebed.Dataset(Handle(Session(storage)))


def opened(storage: MemoryStorage, cache_bytes: int | None = None) -> lakebed.Dataset:
    """Open a dataset read-only."""
    return lakebed.Dataset(Handle(Session(storage, read_only=True, cache_bytes=cache_bytes)))
