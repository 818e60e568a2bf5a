"""Whatever call of an object store fails, in whatever way: the dataset shows the old or the new state, and goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakebed.storage.base import Storage
from unit_tests.effort import EFFORT, seed
from unit_tests.proofs.crash import CrashRunner, sampled
from unit_tests.proofs.test_nth_fault import SCRIPT, Record, attempt


def _try(place: Callable[[], Storage], count: int, record: Record) -> None:
    runner = CrashRunner(SCRIPT, place)
    every = [*runner.positions()]
    where = place().url
    attempt(
        runner, sampled(every, count, seed()), record, f"of {len(every)}, LAKEBED_SEED={seed()}, at {where}"
    )


# In memory a sample of the same faults is tried every time: unit_tests/proofs/test_nth_fault_remote.py.
@pytest.mark.parametrize(
    "store",
    [
        pytest.param("moto", marks=pytest.mark.soak),
        *(pytest.param(name, marks=pytest.mark.stores) for name in ("ceph", "azurite", "gcs", "rclone")),
    ],
    indirect=True,
)
def test_a_few_of_all_faults(place: Callable[[], Storage], record_property: Record) -> None:
    """Calls x before, after, torn x crash, error, outage, on a real server."""
    _try(place, EFFORT.store_faults, record_property)
