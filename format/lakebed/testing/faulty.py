"""A storage that counts its calls and fails on schedule, like disks, networks and kills."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lakebed.runtime import clock
from lakebed.storage.base import MappableStorage, StorageTraits, is_mappable, pieces, place_of, traits_of
from lakebed.testing.schedule import Call, Crash, Fault, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakebed.storage.base import Data, Stat, Storage, Tail

__all__ = ["Crash", "FaultyStorage"]

T = TypeVar("T")


class FaultyStorage:
    """Wrapper that passes calls on to `inner`, except those that fail by the schedule.

    Without a schedule, the wrapper only counts, or fails at every change after the first `fail_after` changes. A change
    is one put, one delete, or one item of `put_many`, whose items then reach `inner` one by one: running the same work
    with `fail_after` = 0, 1, 2, ... leaves every prefix of its writes.

    Parameters
    ----------
    inner
        The wrapped storage. If it maps objects, the wrapper maps them, too.
    schedule
        Decides which calls fail, and how. One `put_many` is one call.
    fail_after
        Number of changes that succeed; None: never fail.
    error
        Creates the exception that replaces the next change; `Crash` if not given.
    lost_answer
        The failing change is made, and only its answer is lost.

    Attributes
    ----------
    counts
        Number of calls by method name; `items` counts the items of `put_many`, `spans` those of `get_ranges`.
    trace
        Calls in order, if there is a schedule.
    failed
        Faults that happened, each with the number of its call.
    changes
        Number of changes.
    changed
        Keys of the changes, in order, with a `-` before a deleted key or prefix.
    """

    def __init__(
        self,
        inner: Storage,
        schedule: Schedule | None = None,
        *,
        fail_after: int | None = None,
        error: Callable[[], BaseException] | None = None,
        lost_answer: bool = False,
    ) -> None:
        self.inner = inner
        self.schedule = schedule
        self.fail_after = fail_after
        self.lost_answer = lost_answer
        self.counts: Counter[str] = Counter()
        self.trace: list[Call] = []
        self.failed: list[tuple[int, Fault]] = []
        self.changed: list[str] = []
        self._error = error or Crash
        self._dead = False
        if is_mappable(inner):
            self.map = self._mapper(inner)

    @property
    def url(self) -> str:
        """Address of the inner storage."""
        return self.inner.url

    @property
    def traits(self) -> StorageTraits:
        """Traits of the inner storage that the wrapper has, too."""
        inner = traits_of(self.inner)
        return inner.of_wrapper(mappable=inner.mappable)

    @property
    def place(self) -> str:
        """Name that identifies the inner storage among all storages."""
        return place_of(self.inner)

    @property
    def changes(self) -> int:
        """Number of changes."""
        return len(self.changed)

    # -- reading ---------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        """Count the call, then pass it on or fail."""
        return self._call("get", (key,), lambda: self.inner.get(key))

    def get_into(self, key: str, buffer: memoryview) -> int:
        """Count the call, then pass it on or fail."""
        return self._call("get_into", (key,), lambda: self.inner.get_into(key, buffer))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Count the call, then pass it on or fail."""
        return self._call("get_range", (key,), lambda: self.inner.get_range(key, start, length))

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Count the call, then pass it on or fail."""
        self.counts["spans"] += len(spans)
        return self._call("get_ranges", (key,), lambda: self.inner.get_ranges(key, spans))

    def get_tail(self, key: str, length: int) -> Tail:
        """Count the call, then pass it on or fail."""
        return self._call("get_tail", (key,), lambda: self.inner.get_tail(key, length))

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Count the call, then pass it on or fail; a torn listing ends with the error midway."""
        return self._call("list", (prefix,), lambda: self.inner.list(prefix), self._torn_list)

    def stat(self, key: str) -> Stat | None:
        """Count the call, then pass it on or fail."""
        return self._call("stat", (key,), lambda: self.inner.stat(key))

    def _mapper(self, inner: MappableStorage) -> Callable[[str], memoryview]:
        def mapped(key: str) -> memoryview:
            """Count the call, then pass it on or fail."""
            return self._call("map", (key,), lambda: inner.map(key))

        return mapped

    # -- writing ---------------------------------------------------------------------------------------------

    def put(self, key: str, data: Data) -> str:
        """Count the call, then pass it on or fail."""
        return self._call("put", (key,), lambda: self._change(key, lambda: self.inner.put(key, data)))

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        """Count the call, then pass the batch on or fail; without a schedule, pass on item by item until one fails."""
        if self.schedule is None:
            self.counts["put_many"] += 1
            for key, data in items:
                self.counts["items"] += 1
                self._change(key, partial(self.inner.put_many, [(key, data)], durable=durable))
            return
        batch = [*items]
        keys = tuple(key for key, _ in batch)

        def write() -> None:
            self.inner.put_many(batch, durable=durable)
            self.changed += keys

        def tear(fault: Fault) -> None:
            part = _torn(self.inner, batch, fault.seed)
            self.inner.put_many(part, durable=durable)
            self.changed += [key for key, _ in part]
            raise fault.error()

        self.counts["items"] += len(batch)
        self._call("put_many", keys, write, tear)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        """Count the call, then pass it on or fail; a torn copy is cut short if the target is new."""

        def write() -> None:
            self._change(target, lambda: self.inner.copy(source, target, durable=durable))

        def tear(fault: Fault) -> None:
            part = _torn(self.inner, [(target, self.inner.get(source))], fault.seed)
            self.inner.put_many(part, durable=durable)
            self.changed += [key for key, _ in part]
            raise fault.error()

        self._call("copy", (source, target), write, tear)

    def sync(self, keys: Iterable[str]) -> None:
        """Count the call, then pass it on or fail."""
        names = tuple(keys)
        self._call("sync", names, lambda: self.inner.sync(names))

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Count the call, then pass it on or fail."""

        def write() -> str:
            return self._change(key, lambda: self.inner.put_if(key, data, etag))

        return self._call("put_if", (key,), write)

    def delete(self, key: str) -> None:
        """Count the call, then pass it on or fail."""
        self._call("delete", (key,), lambda: self._change(f"-{key}", lambda: self.inner.delete(key)))

    def delete_prefix(self, prefix: str) -> None:
        """Count the call, then pass it on or fail; a torn one leaves some of the objects."""

        def tear(fault: Fault) -> None:
            dice = random.Random(fault.seed)
            for key, _ in [*self.inner.list(prefix)]:
                if dice.random() < 0.5:
                    self.inner.delete(key)
                    self.changed.append(f"-{key}")
            raise fault.error()

        def remove() -> None:
            self._change(f"-{prefix}", lambda: self.inner.delete_prefix(prefix))

        self._call("delete_prefix", (prefix,), remove, tear)

    # -- failing ---------------------------------------------------------------------------------------------

    def _call(
        self,
        method: str,
        keys: tuple[str, ...],
        act: Callable[[], T],
        tear: Callable[[Fault], T] | None = None,
    ) -> T:
        """Make a call, with the fault that the schedule has for it."""
        self.counts[method] += 1
        if self.schedule is None:
            return act()
        if self._dead:
            raise Crash(f"{method} after the end of the process")
        call = Call(method, keys)
        self.trace.append(call)
        fault = self.schedule.next(call)
        if fault is None:
            return act()
        self.failed.append((len(self.trace) - 1, fault))
        if fault.when == "delay":
            clock.sleep(fault.seconds)
            return act()
        try:
            if fault.when == "after":
                act()
            elif fault.when == "torn" and tear is not None:
                return tear(fault)
            raise fault.error()
        except Crash:
            self._dead = True
            raise

    def _torn_list(self, fault: Fault) -> Iterator[tuple[str, Stat]]:
        prefix = self.trace[-1].keys[0]
        found = [*self.inner.list(prefix)]
        yield from found[: random.Random(fault.seed).randrange(len(found) + 1)]
        error = fault.error()
        self._dead |= isinstance(error, Crash)
        raise error

    def _change(self, label: str, act: Callable[[], T]) -> T:
        """Make a change, or fail after the allowed number of changes."""
        if self.fail_after is not None and self.changes >= self.fail_after:
            if self.lost_answer and self.changes == self.fail_after:
                act()
                self.changed.append(label)
            raise self._error()
        answer = act()
        self.changed.append(label)
        return answer


def _torn(inner: Storage, batch: Sequence[tuple[str, Data]], seed: int) -> list[tuple[str, Data]]:
    """Return a possible remainder of a batch after a crash: any subset, with new objects possibly cut short."""
    dice = random.Random(seed)
    left: list[tuple[str, Data]] = []
    for key, data in batch:
        fate = dice.random()
        if fate < 0.4:
            left.append((key, data))
        elif fate < 0.7 and inner.stat(key) is None:
            content = b"".join(pieces(data))
            left.append((key, content[: dice.randrange(len(content) + 1)]))
    return left
