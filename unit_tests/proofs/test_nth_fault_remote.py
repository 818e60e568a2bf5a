"""The same faults on a store without locks of its own, where leases and traces of 3.9.52 are objects, too."""

from __future__ import annotations

import os
import random

import pytest

from unit_tests.lakebed.afar import Afar
from unit_tests.proofs.crash import CrashRunner, sampled
from unit_tests.proofs.test_nth_fault import SCRIPT, Record, attempt

SAMPLES = 60


@pytest.fixture(scope="module")
def runner() -> CrashRunner:
    return CrashRunner(SCRIPT, Afar)


@pytest.mark.timeout(600)
def test_a_sample_of_all_faults(runner: CrashRunner, record_property: Record) -> None:
    """60 of all calls x before, after, torn x crash, error, outage."""
    seed = int(os.environ.get("LAKEBED_SEED", random.randrange(1 << 32)))
    every = [*runner.positions()]
    attempt(
        runner, sampled(every, SAMPLES, seed), record_property, f"afar, of {len(every)}, LAKEBED_SEED={seed}"
    )


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_all_faults(runner: CrashRunner, record_property: Record) -> None:
    """Every call x before, after, torn x crash, error, outage."""
    attempt(runner, [*runner.positions()], record_property, "afar, all")
