"""Whatever call of an object store fails, in whatever way: the dataset shows the old or the new state, and goes on."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from lakebed.storage.base import Storage
from unit_tests.proofs.crash import CrashRunner, sampled
from unit_tests.proofs.test_nth_fault import SCRIPT, Record, attempt

_FEW, _MANY = 6, 250


def _try(place: Callable[[], Storage], count: int, record: Record) -> None:
    seed = int(os.environ.get("LAKEBED_SEED", random.randrange(1 << 32)))
    runner = CrashRunner(SCRIPT, place)
    every = [*runner.positions()]
    where = place().url
    attempt(runner, sampled(every, count, seed), record, f"of {len(every)}, LAKEBED_SEED={seed}, at {where}")


@pytest.mark.timeout(900)
def test_a_few_of_all_faults(place: Callable[[], Storage], record_property: Record) -> None:
    """Calls x before, after, torn x crash, error, outage, on a real server."""
    _try(place, _FEW, record_property)


@pytest.mark.soak
@pytest.mark.stores
@pytest.mark.timeout(3600)
def test_many_of_all_faults(place: Callable[[], Storage], record_property: Record) -> None:
    """The same, more of them."""
    _try(place, _MANY, record_property)
