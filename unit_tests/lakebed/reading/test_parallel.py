"""Work on several threads: all of it once, errors come out, a forked child can go on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from lakebed.reading.parallel import for_each
from unit_tests.effort import PATIENCE


@pytest.mark.parametrize("threads", [None, 1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 3, 500])
def test_every_number_is_worked_on_once(count: int, threads: int | None) -> None:
    done = [0] * count

    def work(i: int) -> None:
        done[i] += 1

    for_each(count, work, threads=threads)
    assert done == [1] * count


def test_several_threads_work_at_once() -> None:
    """A barrier of three is only passed if three threads wait at it."""
    barrier = threading.Barrier(3, timeout=PATIENCE)
    for_each(3, lambda _: barrier.wait(), threads=3)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_comes_out_and_stops_the_rest(threads: int) -> None:
    started: list[int] = []

    def work(i: int) -> None:
        started.append(i)
        if i == 2:
            raise KeyError(i)

    with pytest.raises(KeyError):
        for_each(10_000, work, threads=threads)
    assert len(started) < 10_000


def test_a_call_inside_a_call_does_not_block() -> None:
    """Nested work is done by its caller when all threads are busy."""
    done: list[int] = []
    for_each(4, lambda _: for_each(4, done.append, threads=2), threads=2)
    assert sorted(done) == sorted([0, 1, 2, 3] * 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own() -> None:
    barrier = threading.Barrier(2, timeout=PATIENCE)
    for_each(2, lambda _: barrier.wait(), threads=2)
    child = os.fork()
    if child == 0:
        other = threading.Barrier(2, timeout=PATIENCE)
        code = 1
        try:
            for_each(2, lambda _: other.wait(), threads=2)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


CUT_OFF = """
import threading
from lakebed.reading.parallel import for_each

start = threading.Thread.start

def cut_off(thread):
    start(thread)
    threading.Thread.start = start
    raise KeyboardInterrupt

threading.Thread.start = cut_off
done = []
try:
    for_each(4, done.append, threads=2)
except KeyboardInterrupt:
    print("interrupted")
again = []
for_each(4, again.append, threads=2)
print(sorted(again))
"""


def test_an_interrupt_while_a_thread_starts_does_not_keep_the_process_from_its_end() -> None:
    """The interpreter waits for threads at its end, also for one of which it does not know how to end it."""
    done = subprocess.run(
        [sys.executable, "-c", CUT_OFF], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "interrupted\n[0, 1, 2, 3]\n"
