"""Several requests at the same time: order, errors, bounds, and places where no thread starts."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from lakebed.storage.concurrently import concurrently
from unit_tests.effort import PATIENCE


def test_results_come_in_the_order_of_the_calls() -> None:
    """However long each takes."""
    waits = [0.03, 0.0, 0.02, 0.01]

    def call(number: int) -> int:
        time.sleep(waits[number])
        return number

    assert concurrently([partial(call, n) for n in range(4)]) == [0, 1, 2, 3]
    assert concurrently([]) == []


def test_calls_run_at_the_same_time_and_never_more_than_wanted() -> None:
    """All that may be under way are."""
    together, most, now = threading.Barrier(3), [0], [0]
    mutex = threading.Lock()

    def call() -> None:
        with mutex:
            now[0] += 1
            most[0] = max(most[0], now[0])
        together.wait(PATIENCE)
        with mutex:
            now[0] -= 1

    concurrently([call] * 9, workers=3)
    assert most == [3]


def test_after_an_error_nothing_further_is_begun_and_the_first_is_raised() -> None:
    """What is under way is waited for."""
    begun: list[int] = []

    def call(number: int) -> None:
        begun.append(number)
        time.sleep(0.02)
        if number in (1, 2):
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        concurrently((partial(call, n) for n in range(50)), workers=4)
    assert len(begun) <= 8


def test_what_makes_the_calls_may_fail_too() -> None:
    """Its error is raised where the calls were asked for."""

    def calls() -> Iterator[Callable[[], int]]:
        yield lambda: 1
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        concurrently(calls(), workers=2)


def test_one_call_needs_no_thread() -> None:
    """It runs where it was asked for."""
    assert concurrently([threading.get_ident]) == [threading.get_ident()]


def test_at_the_end_of_the_interpreter_calls_are_made_one_by_one() -> None:
    """No thread can be started there in newer Pythons; publishing at the exit needs this."""
    code = """
    import atexit, threading
    from lakebed.storage.concurrently import concurrently
    def refuse(self): raise RuntimeError("can't start new thread at interpreter shutdown")
    def last():
        threading.Thread.start = refuse
        print(concurrently([lambda n=n: n for n in range(5)]))
    atexit.register(last)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[0, 1, 2, 3, 4]"
