"""A storage that counts its calls and stops, as a killed process would, at a chosen change."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakebed.storage.base import Data, Stat, Storage


class Crash(BaseException):
    """The process ends here; nothing that catches `Exception` may swallow it."""


class FaultyStorage:
    """Pass everything on to `inner` until `fail_after` changes are made, then fail at every further one.

    A change is one put, one delete, or one item of `put_many`, which reach `inner` one by one: running the
    same work with `fail_after` = 0, 1, 2, ... leaves every prefix of its writes.

    Parameters
    ----------
    inner
        Storage that does the work.
    fail_after
        Number of changes that succeed; None: never fail.
    error
        Makes what is raised instead of the next change; `Crash` if not given.
    lost_answer
        The failing change is made, and only its answer is lost.

    Attributes
    ----------
    counts
        Number of calls by method name; `items` counts the items of `put_many`, `spans` those of `get_ranges`.
    changes
        Number of changes made.
    changed
        Their keys, in order; a deleted key or prefix stands with a `-` before it.
    """

    def __init__(
        self,
        inner: Storage,
        fail_after: int | None = None,
        *,
        error: Callable[[], BaseException] | None = None,
        lost_answer: bool = False,
    ) -> None:
        self.inner = inner
        self.fail_after = fail_after
        self.lost_answer = lost_answer
        self.counts: Counter[str] = Counter()
        self.changed: list[str] = []
        self._error = error or Crash

    @property
    def url(self) -> str:
        """Address of the inner storage."""
        return self.inner.url

    @property
    def changes(self) -> int:
        """Number of changes made."""
        return len(self.changed)

    def _change(self, label: str, act: Callable[[], str | None]) -> str | None:
        if self.fail_after is not None and self.changes >= self.fail_after:
            if self.lost_answer and self.changes == self.fail_after:
                act()
                self.changed.append(label)
            raise self._error()
        answer = act()
        self.changed.append(label)
        return answer

    def get(self, key: str) -> bytes:
        """Count and pass on."""
        self.counts["get"] += 1
        return self.inner.get(key)

    def get_into(self, key: str, buffer: memoryview) -> int:
        """Count and pass on."""
        self.counts["get_into"] += 1
        return self.inner.get_into(key, buffer)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Count and pass on."""
        self.counts["get_range"] += 1
        return self.inner.get_range(key, start, length)

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Count and pass on."""
        self.counts["get_ranges"] += 1
        self.counts["spans"] += len(spans)
        return self.inner.get_ranges(key, spans)

    def put(self, key: str, data: Data) -> str:
        """Count, and pass on or fail."""
        self.counts["put"] += 1
        return self._change(key, lambda: self.inner.put(key, data)) or ""

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        """Count, and pass on item by item until one fails."""
        self.counts["put_many"] += 1
        for key, data in items:
            self.counts["items"] += 1
            self._change(key, self._put_one(key, data, durable=durable))

    def _put_one(self, key: str, data: Data, *, durable: bool) -> Callable[[], None]:
        return lambda: self.inner.put_many([(key, data)], durable=durable)

    def sync(self, keys: Iterable[str]) -> None:
        """Count and pass on."""
        self.counts["sync"] += 1
        self.inner.sync(keys)

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Count, and pass on or fail."""
        self.counts["put_if"] += 1
        return self._change(key, lambda: self.inner.put_if(key, data, etag)) or ""

    def delete(self, key: str) -> None:
        """Count, and pass on or fail."""
        self.counts["delete"] += 1
        self._change(f"-{key}", lambda: self.inner.delete(key))

    def delete_prefix(self, prefix: str) -> None:
        """Count, and pass on or fail."""
        self.counts["delete_prefix"] += 1
        self._change(f"-{prefix}", lambda: self.inner.delete_prefix(prefix))

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Count and pass on."""
        self.counts["list"] += 1
        return self.inner.list(prefix)

    def stat(self, key: str) -> Stat | None:
        """Count and pass on."""
        self.counts["stat"] += 1
        return self.inner.stat(key)
