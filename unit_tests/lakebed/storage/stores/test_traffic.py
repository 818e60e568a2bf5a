"""How many requests at the same time: a store whose line, patience and distance are given, by a clock of the test."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest

from lakebed.storage.stores.traffic import Concurrency

Answer = Callable[[int], float]
"""From how many requests are under way to the seconds until one that begins is answered; negative if it is refused."""

SIZE = 500_000


def play(
    policy: Concurrency, answer: Answer, seconds: float, *, start: float = 0.0, most: int = 10**6
) -> list[int]:
    """Ask as much as is allowed, for so long; return what the limit was at each answer."""
    now, under_way, limits = start, 0, []
    queue: list[tuple[float, float, bool]] = []
    while now < start + seconds:
        while under_way < min(policy.limit, most):
            under_way += 1
            policy.began(under_way)
            took = answer(under_way)
            heapq.heappush(queue, (now + abs(took), now, took < 0))
        now, began, is_refused = heapq.heappop(queue)
        under_way -= 1
        if is_refused:
            policy.refused(now, began)
        else:
            policy.answered(now, SIZE)
        limits.append(policy.limit)
    return limits


def line(latency: float, rate: float) -> Answer:
    """A line that brings so many bytes per second in all."""
    return lambda under_way: max(latency, under_way * SIZE / rate)


def test_it_grows_where_that_brings_more() -> None:
    """Far away, and broad: four times as many, and no more."""
    policy = Concurrency(64, 0.0)
    limits = play(policy, line(0.1, 1e12), 60.0)
    assert max(limits) == limits[-1] == 256


def test_it_stays_where_the_line_is_full() -> None:
    policy = Concurrency(64, 0.0)
    limits = play(policy, line(0.02, 100e6), 60.0)
    assert max(limits) == 80
    assert limits.count(64) > 0.7 * len(limits)


def test_it_stays_where_no_more_is_asked_for() -> None:
    policy = Concurrency(64, 0.0)
    assert set(play(policy, line(0.1, 1e12), 60.0, most=63)) == {64}


def test_it_is_halved_by_refusals_and_grows_again() -> None:
    """A store that bears forty at a time is asked for about so many; a round of refusals counts as one."""

    def answer(under_way: int) -> float:
        return 0.05 if under_way <= 40 else -0.01

    policy = Concurrency(64, 0.0)
    limits = play(policy, answer, 30.0)
    assert limits[0] == 32
    assert min(limits) >= 16
    assert max(limits[100:]) <= 51
    calm = Concurrency(64, 0.0)
    play(calm, answer, 1.0)
    low = calm.limit
    assert low <= 40
    assert play(calm, line(0.1, 1e12), 60.0, start=1.0)[-1] == 256


@pytest.mark.parametrize(("start", "least", "most"), [(64, 8, 256), (8, 8, 32), (4, 4, 4), (1, 1, 1)])
def test_it_has_bounds(start: int, least: int, most: int) -> None:
    """However often a store refuses, it is asked; who begins with few wants few."""
    policy = Concurrency(start, 0.0)
    assert play(policy, lambda _: -0.1, 10.0)[-1] == least
    assert max(play(Concurrency(start, 0.0), line(0.1, 1e12), 100.0)) == most
