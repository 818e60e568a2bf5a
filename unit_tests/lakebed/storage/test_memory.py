"""Storages in memory go by name for as long as somebody holds them."""

from __future__ import annotations

import gc
import pickle
import sys
import threading

import pytest

from lakebed.errors import InvalidInputError
from lakebed.storage.memory import MemoryStorage, open_memory


def test_one_name_is_one_storage() -> None:
    """Two openings of `mem://x` see each other's objects; another name does not."""
    first = open_memory("x")
    first.put("k", b"1")
    assert open_memory("x") is first
    assert open_memory("y").stat("k") is None
    assert first.url == "mem://x"


def test_contents_end_with_the_last_holder() -> None:
    """A name that nobody holds is empty again, so nothing piles up."""
    storage = open_memory("gone")
    storage.put("k", b"1")
    del storage
    gc.collect()
    assert open_memory("gone").stat("k") is None


def test_unnamed_storages_are_apart() -> None:
    """Each has an address of its own, so that locks tell them apart."""
    assert MemoryStorage().url != MemoryStorage().url


def test_is_not_pickled() -> None:
    """A copy in another process would silently be another storage."""
    with pytest.raises(InvalidInputError, match="local path"):
        pickle.dumps(MemoryStorage())


def test_content_is_a_copy() -> None:
    """Reusing a buffer after a put does not change the object."""
    storage, buffer = MemoryStorage(), bytearray(b"abc")
    storage.put("k", buffer)
    buffer[:] = b"xyz"
    assert storage.get("k") == b"abc"


def test_a_storage_without_a_name_is_a_new_one() -> None:
    """What is put into one `mem://` is in no other."""
    first = open_memory("")
    first.put("k", b"v")
    assert open_memory("").stat("k") is None


def test_a_listing_bears_deletions_of_other_threads() -> None:
    """It has all objects that stay; it used to fail, now and then, where another thread deleted meanwhile."""
    storage = MemoryStorage()
    for number in range(3000):
        storage.put(f"k/{number}", b"")
    is_over = threading.Event()

    def change() -> None:
        while not is_over.is_set():
            storage.put("other", b"")
            storage.delete("other")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(50):
            assert len(list(storage.list("k/"))) == 3000
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)
