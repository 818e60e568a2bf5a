"""The faulty storage counts, and fails exactly where it is told to."""

from __future__ import annotations

import pytest

from lakebed.errors import StorageError
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import Crash, FaultyStorage


def work(storage: FaultyStorage) -> None:
    storage.put_many([("a", b"1"), ("b", b"2")])
    storage.put_if("c", b"3", None)
    storage.delete("a")
    storage.put("d", b"4")
    storage.delete_prefix("b")


def test_leaves_every_prefix_of_the_changes() -> None:
    """`put_many` counts item by item."""
    seen = []
    for n in range(7):
        inner = MemoryStorage()
        storage = FaultyStorage(inner, fail_after=n)
        if n < 6:
            with pytest.raises(Crash):
                work(storage)
            with pytest.raises(Crash):
                storage.put("late", b"")
        else:
            work(storage)
        assert storage.changes == n
        seen.append("".join(sorted(key for key, _ in inner.list())))
    assert seen == ["", "a", "ab", "abc", "bc", "bcd", "cd"]


def test_crash_is_no_exception() -> None:
    """Code that catches every `Exception` does not survive it, as it would not survive a kill."""
    assert not issubclass(Crash, Exception)


def test_can_lose_the_answer_only() -> None:
    """The change is made, but its maker cannot know."""
    storage = FaultyStorage(
        MemoryStorage(), fail_after=1, error=lambda: StorageError("no answer"), lost_answer=True
    )
    storage.put("a", b"1")
    with pytest.raises(StorageError):
        storage.put_if("b", b"2", None)
    with pytest.raises(StorageError):
        storage.put("c", b"3")
    assert storage.changed == ["a", "b"]
    assert storage.stat("c") is None


def test_counts_calls() -> None:
    """Tests can tell how many reads something took."""
    storage = FaultyStorage(MemoryStorage())
    work(storage)
    storage.get("d")
    storage.get_into("d", memoryview(bytearray(1)))
    storage.get_range("d", 0, 1)
    storage.get_ranges("d", [(0, 1), (1, 0)])
    storage.stat("d")
    list(storage.list())
    assert storage.counts == {
        "put_many": 1, "items": 2, "put_if": 1, "delete": 1, "put": 1, "delete_prefix": 1,
        "get": 1, "get_into": 1, "get_range": 1, "get_ranges": 1, "spans": 2, "stat": 1, "list": 1,
    }  # fmt: skip
    assert storage.changed == ["a", "b", "c", "-a", "d", "-b"]
