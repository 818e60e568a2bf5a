"""The same step for many streams, several at a time, because most of a small publish is waiting for the storage."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from lakebed.runtime.failures import Outcome, outcome

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 8
"""Largest number of concurrent steps. More gain nothing on a disk; on an object store each sends several requests."""


def for_each(
    items: Iterable[T], step: Callable[[T], R], *, alone: Callable[[T], bool] = lambda _: False
) -> list[R]:
    """Take a step for each item and return the results in the order of the items; every step is tried.

    Parameters
    ----------
    items : iterable
        The items.
    step : callable
        Called from several threads, for each item once.
    alone : callable
        Selects items that run alone and first, because they need much memory.

    Raises
    ------
    Exception
        The error of the first item, in their order, whose step failed.
    """
    waiting = list(items)
    outcomes: dict[int, Outcome[R]] = {}

    def attempt(number: int) -> None:
        outcomes[number] = outcome(step, waiting[number], kind=Exception)

    single = [number for number, item in enumerate(waiting) if alone(item)]
    for number in single:
        attempt(number)
    _share(attempt, sorted(set(range(len(waiting))).difference(single)))
    return [outcomes[number].result() for number in range(len(waiting))]


def _share(attempt: Callable[[int], None], numbers: Sequence[int]) -> None:
    if len(numbers) < 2:
        for number in numbers:
            attempt(number)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(AT_ONCE, len(numbers)), "streams") as threads:
        for _ in threads.map(attempt, numbers):
            pass
