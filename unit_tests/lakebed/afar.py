"""A store as lakebed sees one over a network, without the network: no locks of its own, and requests are counted.

Objects lie in memory. Each request takes ``pause`` seconds, so that what is done at the same time can be told from what
waits for an answer.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lakebed.dataset.dataset import Dataset
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.base import Data, Stat, Tail
from lakebed.storage.concurrently import concurrently
from lakebed.storage.memory import MemoryStorage
from lakebed.versions.create import create

T = TypeVar("T")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Request:
    """One request: ``GET``, ``HEAD``, ``PUT``, ``PUT-IF``, ``COPY``, ``DELETE`` or ``LIST``, and when it was made."""

    method: str
    key: str
    begun: float
    ended: float


class Afar:
    """Objects of a store; ``requests`` lists what was asked of it."""

    def __init__(
        self, objects: MemoryStorage | None = None, *, pause: float = 0.0, ahead: float = 0.0
    ) -> None:
        self.objects = objects or MemoryStorage()
        self.pause = pause
        self.ahead = ahead  # seconds that the clock of the store is ahead of ours
        self.requests: list[Request] = []
        self._number = next(_numbers)
        self._mutex = threading.Lock()

    @property
    def url(self) -> str:
        return f"afar://{self._number}"

    # -- what was asked -----------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Begin a new count."""
        self.requests = []

    def methods(self) -> dict[str, int]:
        """Count the requests of each kind."""
        found: dict[str, int] = {}
        for request in self.requests:
            found[request.method] = found.get(request.method, 0) + 1
        return found

    def rounds(self) -> int:
        """Count how often somebody waited for an answer before the next request was made."""
        rounds, until = 0, 0.0
        for request in sorted(self.requests, key=lambda r: r.ended):
            if request.begun >= until:
                rounds, until = rounds + 1, request.ended
        return rounds

    def _request(self, method: str, key: str, ask: Callable[[], T]) -> T:
        begun = time.monotonic()
        if self.pause:
            time.sleep(self.pause)
        try:
            return ask()
        finally:
            with self._mutex:
                self.requests.append(Request(method, key, begun, time.monotonic()))

    # -- objects ------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        return self._request("GET", key, lambda: self.objects.get(key))

    def get_into(self, key: str, buffer: memoryview) -> int:
        return self._request("GET", key, lambda: self.objects.get_into(key, buffer))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._request("GET", key, lambda: self.objects.get_range(key, start, length))

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        return concurrently([lambda s=s: self.get_range(key, *s) for s in spans])  # type: ignore[misc]

    def get_tail(self, key: str, length: int) -> Tail:
        tail = self._request("GET", key, lambda: self.objects.get_tail(key, length))
        return Tail(tail.data, self._afar(tail.stat))

    def put(self, key: str, data: Data) -> str:
        return self._request("PUT", key, lambda: self.objects.put(key, data))

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        concurrently([lambda item=item: self.put(*item) for item in items])  # type: ignore[misc]

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        return self._request("PUT-IF", key, lambda: self.objects.put_if(key, data, etag))

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        self._request("COPY", target, lambda: self.objects.copy(source, target))

    def sync(self, keys: Iterable[str]) -> None:
        pass

    def delete(self, key: str) -> None:
        self._request("DELETE", key, lambda: self.objects.delete(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        def delete() -> None:
            for key in keys:
                self.objects.delete(key)

        if keys:
            self._request("DELETE", keys[0], delete)

    def delete_prefix(self, prefix: str) -> None:
        self.delete_many([key for key, _ in self.list(prefix)])

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        found = self._request("LIST", prefix, lambda: list(self.objects.list(prefix)))
        return iter([(key, self._afar(stat)) for key, stat in found])

    def stat(self, key: str) -> Stat | None:
        found = self._request("HEAD", key, lambda: self.objects.stat(key))
        return None if found is None else self._afar(found)

    def _afar(self, stat: Stat) -> Stat:
        return replace(stat, modified=0, stored=stat.modified + round(self.ahead * 1e9))


def made_on(store: Afar) -> Dataset:
    """Create a dataset there, as ``lakebed.empty`` does."""
    return Dataset(Handle(Session(store, start=create(store)), store.url))


def opened_on(store: Afar, ref: str | None = None, *, read_only: bool | None = None) -> Dataset:
    """Open the dataset there."""
    return Dataset(Handle(Session(store, ref, read_only=bool(read_only)), store.url))
