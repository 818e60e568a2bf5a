"""The same faults on a store without locks of its own, where leases and traces of 3.9.52 are objects, too."""

from __future__ import annotations

import pytest

from unit_tests.effort import EFFORT, seed
from unit_tests.lakebed.afar import Afar
from unit_tests.proofs.crash import CrashRunner, sampled
from unit_tests.proofs.test_nth_fault import SCRIPT, Record, attempt


@pytest.fixture(scope="module")
def runner() -> CrashRunner:
    return CrashRunner(SCRIPT, Afar)


def test_a_sample_of_all_faults(runner: CrashRunner, record_property: Record) -> None:
    """60 of all calls x before, after, torn x crash, error, outage."""
    every = [*runner.positions()]
    attempt(
        runner,
        sampled(every, EFFORT.faults_afar, seed()),
        record_property,
        f"afar, of {len(every)}, LAKEBED_SEED={seed()}",
    )
