"""Fuzz the compiled core; meant for a build with sanitizers, where `scripts/sanitize.sh` starts it.

    python ext/fuzz/run.py GOLDEN SECONDS [FIRST]

GOLDEN is the unpacked folder of golden datasets. Each function gets an equal part of the CPU seconds; mutations are
numbered, and FIRST continues after those of an earlier run. A sanitizer's report ends the process.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lakebed.errors import LakebedError
from unit_tests.destination_deeplake.fuzz import lines, messages
from unit_tests.lakebed.fuzz import chunks, keys, native
from unit_tests.lakebed.fuzz.harness import Target, mutation


def _reads(target: Target) -> Callable[[int], bool]:
    def call(number: int) -> bool:
        try:
            target.read(mutation(target, number))
        except LakebedError:
            return False
        return True

    return call


def _calls(golden: Path) -> Iterator[tuple[str, Callable[[int], bool]]]:
    for name in native.CALLS:
        yield name, lambda number, name=name: native.call(name, number)  # type: ignore[misc]
    for name in lines.CALLS:
        yield name, lambda number, name=name: lines.call(name, number)  # type: ignore[misc]
    for name in messages.CALLS:
        yield name, lambda number, name=name: messages.call(name, number)  # type: ignore[misc]
    for name in keys.CALLS:
        yield name, lambda number, name=name: keys.call(name, number)  # type: ignore[misc]
    for target in chunks.targets(golden):
        yield target.name, _reads(target)


def main(golden: Path, seconds: float, first: int) -> None:
    """Run every target for its part of the time."""
    calls = list(_calls(golden))
    for name, call in calls:
        end = time.process_time() + seconds / len(calls)
        accepted = 0
        for number in itertools.count(first):
            accepted += call(number)
            if number % 16 == 0 and time.process_time() > end:
                break
        sys.stdout.write(f"{name}: mutations {first:,} to {number:,}, {accepted:,} accepted\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
