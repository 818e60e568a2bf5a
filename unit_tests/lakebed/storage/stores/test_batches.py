"""Puts that go at the same time: how many, and what an error ends."""

from __future__ import annotations

import threading
import time

import pytest

from lakebed import config
from lakebed.errors import StorageError
from lakebed.storage.base import Data
from lakebed.storage.stores.batches import put_in_parallel


class Puts:
    """Notes what is put; each put takes a while, the first one of a key longest."""

    def __init__(self) -> None:
        self.objects: dict[str, Data] = {}
        self.begun: list[str] = []
        self.most = 0
        self._now = 0
        self._mutex = threading.Lock()

    def put(self, key: str, data: Data) -> None:
        with self._mutex:
            pause = 0.002 if key in self.begun else 0.01
            self.begun.append(key)
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(pause)
        with self._mutex:
            self._now -= 1
            self.objects[key] = data
        if key == "bad":
            raise StorageError("no")

    @property
    def is_quiet(self) -> bool:
        return self._now == 0


def test_puts_go_at_the_same_time() -> None:
    """Not more than there may be requests."""
    puts = Puts()
    put_in_parallel(puts.put, [(str(n), b"") for n in range(50)])
    assert 1 < puts.most <= config.REQUESTS
    assert len(puts.objects) == 50


def test_a_key_that_comes_twice_keeps_the_last() -> None:
    """Its puts go one after the other."""
    puts = Puts()
    put_in_parallel(puts.put, [("first", b""), *(("k", b"%d" % n) for n in range(10))])
    assert puts.objects["k"] == b"9"


def test_bytes_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One object may be larger than the bound, and then goes alone."""
    monkeypatch.setattr(config, "UPLOAD_BYTES", 10)
    puts = Puts()
    put_in_parallel(puts.put, [(str(n), b"12345") for n in range(12)])
    assert puts.most <= 2
    alone = Puts()
    put_in_parallel(alone.put, [(str(n), b"1" * 11) for n in range(5)])
    assert alone.most == 1
    assert len(alone.objects) == 5


def test_an_error_ends_the_batch() -> None:
    """What is under way is waited for."""
    puts = Puts()
    with pytest.raises(StorageError):
        put_in_parallel(puts.put, [("first", b""), ("bad", b""), *((str(n), b"") for n in range(5000))])
    assert puts.is_quiet
    assert len(puts.begun) < 1000


def test_what_waits_for_room_is_not_begun_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the first thing to go when there is room."""
    monkeypatch.setattr(config, "UPLOAD_BYTES", 1)
    puts = Puts()
    with pytest.raises(StorageError):
        put_in_parallel(puts.put, [("bad", b"1"), ("next", b"1")])
    assert puts.begun == ["bad"]


def test_an_error_of_the_items_ends_the_batch() -> None:
    """It is raised as it is."""
    puts = Puts()

    def items() -> object:
        yield "first", b""
        yield "second", b""
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        put_in_parallel(puts.put, items())  # type: ignore[arg-type]
    assert puts.is_quiet
