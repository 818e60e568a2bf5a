"""A program goes on through any number of errors of its storage: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from lakebed.errors import CommitFailed, CommitStateUnknown, StorageError
from lakebed.maintenance.verify import verify
from lakebed.runtime import clock
from lakebed.testing.clock import VirtualClock
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.schedule import Fault, Planned, Sometimes, refused
from lakebed.versions.create import create
from unit_tests.effort import EFFORT, seed
from unit_tests.lakebed.datasets import new_memory
from unit_tests.proofs.content import shown
from unit_tests.proofs.crash import end_of_process
from unit_tests.proofs.model import Model
from unit_tests.proofs.observe import content_of, open_on, state_of
from unit_tests.proofs.work import operations

FAILURES = (StorageError, CommitFailed, CommitStateUnknown)
Record = Callable[[str, object], None]


def work_through(seed: int, count: int, probability: float) -> tuple[int, int]:
    """Do operations one after the other, each again until it is done; return the numbers of faults and of retries."""
    storage, model, retries = new_memory(), Model(), 0
    create(storage)
    kinds = [Fault(when, error=refused) for when in ("before", "after", "torn")]
    flaky = Sometimes(seed, probability, *kinds)  # type: ignore[arg-type]
    faulty = FaultyStorage(storage, flaky)
    faulty.schedule = Planned()
    ds = open_on(faulty)
    patient = contextlib.ExitStack()
    patient.enter_context(clock.replaced(VirtualClock()))
    try:
        for operation, number in zip(operations(model, seed), range(count), strict=False):
            before, after = model.copy(), model
            operation.model(after)
            where = f"seed {seed}, operation {number}: {operation.name}"
            for attempt in range(50):
                faulty.schedule = flaky if attempt < 40 else Planned()
                try:
                    operation.act(ds)
                    ds.flush()
                except FAILURES:
                    retries += 1
                else:
                    break
                finally:
                    faulty.schedule = Planned()
                assert state_of(storage) in (before.state(), after.state()), where
                # What the dataset itself shows is what it will publish, no more and no less.
                ds.flush()
                done = state_of(storage) == after.state()
                assert done or state_of(storage) == before.state(), where
                if ds.branch not in (before.at, after.at) or (done and ds.branch != after.at):
                    ds.checkout(after.at if done else before.at)  # that step of it failed
                if done and content_of(ds) == shown(after.content):
                    break
            assert state_of(storage) == after.state(), where
            assert content_of(ds) == shown(after.content), where
        assert verify(storage, deep=True).is_sound
    finally:
        patient.close()
        end_of_process(storage)
    return flaky.count, retries


@pytest.mark.parametrize("probability", [0.01, 0.1])
def test_work_goes_on_through_a_storage_that_fails_at_random(
    probability: float, record_property: Record
) -> None:
    """Every operation is done once, however often it has to be tried."""
    record_property("proof", f"flaky storage: LAKEBED_SEED={seed()}")
    faults = retries = 0
    for run in range(EFFORT.flaky_runs):
        more = work_through(seed() + run, 25, probability)
        faults, retries = faults + more[0], retries + more[1]
    record_property(
        "proof", f"flaky storage: {EFFORT.flaky_runs * 25} operations, {faults} faults, {retries} retries"
    )
    assert retries > 0
