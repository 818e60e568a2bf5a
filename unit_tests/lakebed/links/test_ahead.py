"""Many at once, in order: bounded in number and in bytes, errors in their turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from lakebed import config
from lakebed.links import ahead
from lakebed.links.ahead import in_order, threads_for
from unit_tests.effort import PATIENCE


def test_results_come_in_order_though_the_work_does_not() -> None:
    def work(number: int) -> int:
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    assert list(in_order(range(50), work, 8)) == [number * number for number in range(50)]
    assert list(in_order([], work, 8)) == []
    assert list(in_order([5], work, 0)) == [25]


def test_several_are_under_way() -> None:
    """Four that wait for each other: one after another they would never end."""
    barrier = threading.Barrier(4, timeout=PATIENCE)
    assert len(list(in_order(range(8), lambda _: barrier.wait(), 4))) == 8


def test_no_more_is_begun_than_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """By number, and by bytes; what is taken makes room."""
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    results = in_order(items(), lambda number: number, 3)
    assert next(results) == 0
    assert len(taken) <= 7
    monkeypatch.setattr(ahead, "WAITING_BYTES", 100)
    taken.clear()
    results = in_order(items(), lambda number: number, 3, lambda _: 60)
    for expected in range(20):
        assert next(results) == expected
        time.sleep(0.005)
        assert len(taken) <= expected + 6
    assert list(results) == list(range(20, 100))


def test_errors_come_in_their_turn_and_stop_the_rest() -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 5:
            raise KeyError(number)
        return number

    results = in_order(range(1000), work, 4)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError):
        next(results)
    count = len(begun)
    assert count <= 14
    time.sleep(0.02)
    assert len(begun) == count


def test_who_loses_interest_leaves_no_threads() -> None:
    before = threading.active_count()
    results = in_order(range(1000), lambda number: number, 4)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_links_to_servers_get_more_threads_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "LINK_THREADS", 40)
    assert threads_for(["a.png", None, "http://host/b.png"]) == 40
    assert threads_for(["a.png", "file:///b.png"]) == 8
    monkeypatch.setattr(config, "LINK_THREADS", 2)
    assert threads_for(["a.png"]) == 2
