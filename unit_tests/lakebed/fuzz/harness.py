"""Feed mutations to a decoder and hold it to what hostile input may do: our errors, a second, little memory."""

from __future__ import annotations

import base64
import contextlib
import random
import resource
import time
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.errors import LakebedError
from unit_tests.lakebed.fuzz.mutate import mutate_bytes, mutate_json

MOST_SECONDS = 1.0
"""CPU seconds of one call."""

FREE_MEMORY = 64 << 20
"""Bytes that a call may take whatever its input; beyond this, twice the input."""


BLOCK = 64
"""Mutations between two looks at the size of the process."""


@dataclass(frozen=True)
class Case:
    """Bytes of a file, and what else its decoder is told: number of samples, compression, dtype."""

    data: bytes
    context: Any = None


@dataclass(frozen=True)
class Target:
    """One decoder.

    Parameters
    ----------
    read
        Decodes the data of a case and uses the result in every way that readers do.
    cases
        Sound files, to be damaged.
    structured
        The files are JSON: every second mutation leaves them so.
    suite
        Mutations in the suite; fewer where one call takes a millisecond.
    """

    name: str
    read: Callable[[Case], object]
    cases: Sequence[Case]
    structured: bool = False
    suite: int = 20_000


@dataclass
class Report:
    """What a run saw."""

    calls: int = 0
    accepted: int = 0
    slowest: float = 0.0
    largest: int = 0


def mutation(target: Target, number: int) -> Case:
    """Mutation ``number`` of a target: always the same one."""
    rng = random.Random(zlib.crc32(target.name.encode()) << 32 | number)
    case = rng.choice(target.cases)
    other = rng.choice(target.cases)
    change = mutate_json if target.structured and number % 2 else mutate_bytes
    return Case(change(rng, case.data, (other.data,)), case.context)


def check(target: Target, case: Case, report: Report, where: str) -> None:
    """Decode one case; what it allocates is seen while tracemalloc, which knows of Python and NumPy, is on."""
    traced = tracemalloc.is_tracing()
    if traced:
        tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    start = time.process_time()
    try:
        target.read(case)
        report.accepted += 1
    except LakebedError:
        pass
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{_repeat(target, case, where)}") from error
    took = time.process_time() - start
    peak = tracemalloc.get_traced_memory()[1] - before
    if traced and took > MOST_SECONDS:
        took = _untraced(target, case)
    report.calls += 1
    report.slowest, report.largest = max(report.slowest, took), max(report.largest, peak)
    assert took <= MOST_SECONDS, f"{took:.2f} s of CPU\n{_repeat(target, case, where)}"
    allowed = FREE_MEMORY + 2 * len(case.data)
    assert peak <= allowed, f"{peak:,} bytes of memory\n{_repeat(target, case, where)}"


def _untraced(target: Target, case: Case) -> float:
    """Measure again without tracemalloc, under which growing a buffer bit by bit takes a hundred times as long."""
    tracemalloc.stop()
    start = time.process_time()
    with contextlib.suppress(LakebedError):
        target.read(case)
    took = time.process_time() - start
    tracemalloc.start()
    return took


def run(target: Target, count: int, first: int = 0, seconds: float | None = None, traced: int = 8) -> Report:
    """Decode ``count`` mutations from number ``first`` on, or as many as there is CPU time for.

    One block in ``traced`` runs under tracemalloc, which takes five times as long; what other blocks allocate shows in
    the size of the process if it is touched.
    """
    report = Report()
    resident = _resident()
    end = None if seconds is None else time.process_time() + seconds
    try:
        for number in range(first, first + count):
            if number % BLOCK == 0 or number == first:
                grown = _resident() - resident
                assert grown <= 2 * FREE_MEMORY, f"the process grew by {grown:,} bytes before {number}"
                if end is not None and time.process_time() > end:
                    break
                (tracemalloc.start if number // BLOCK % traced == 0 else tracemalloc.stop)()
            check(target, mutation(target, number), report, f"mutation {number}")
    finally:
        tracemalloc.stop()
    return report


def _resident() -> int:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _repeat(target: Target, case: Case, where: str) -> str:
    """Return what to put into a regression test."""
    text = base64.b85encode(zlib.compress(case.data, 9)).decode()
    return f"{target.name}, {where}, context {case.context!r}, b85(zlib): {text}"
