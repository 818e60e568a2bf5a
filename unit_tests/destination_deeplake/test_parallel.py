"""The same step for many items, several at a time."""

import threading
import time

import pytest

from destination_deeplake.parallel import AT_ONCE, for_each


def test_results_come_in_the_order_of_the_items() -> None:
    def step(number: int) -> int:
        time.sleep(0.001 * (number % 3))
        return number * 2

    assert for_each(range(30), step) == [number * 2 for number in range(30)]
    assert for_each([], step) == []
    assert for_each([4], step) == [8]


def test_every_step_is_tried_and_the_first_failure_is_raised() -> None:
    done: list[int] = []

    def step(number: int) -> None:
        if number in (3, 5):
            raise ValueError(f"item {number}")
        done.append(number)

    with pytest.raises(ValueError, match="item 3"):
        for_each(range(10), step)
    assert sorted(done) == [0, 1, 2, 4, 6, 7, 8, 9]


def test_steps_run_beside_each_other_but_large_ones_run_alone() -> None:
    under_way: set[int] = set()
    most: dict[bool, int] = {True: 0, False: 0}
    lock = threading.Lock()

    def step(number: int) -> None:
        is_large = number % 5 == 0
        with lock:
            under_way.add(number)
            most[is_large] = max(most[is_large], len(under_way))
        time.sleep(0.02)
        with lock:
            under_way.remove(number)

    for_each(range(20), step, alone=lambda number: number % 5 == 0)
    assert most[True] == 1
    assert 1 < most[False] <= AT_ONCE
