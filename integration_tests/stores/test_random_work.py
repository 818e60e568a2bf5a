"""Random work on a versioned dataset in a bucket, judged by a model after every few operations."""

from __future__ import annotations

from collections.abc import Callable

from lakebed.maintenance.verify import verify
from lakebed.storage.base import Storage
from lakebed.versions.create import create
from unit_tests.effort import EFFORT, seed
from unit_tests.proofs.model import Model
from unit_tests.proofs.observe import open_on, state_of
from unit_tests.proofs.work import operations

_JUDGED_EVERY = 5


def _work(place: Callable[[], Storage], count: int, record: Callable[[str, object], None]) -> None:
    storage, model, done = place(), Model(), []
    record("proof", f"random work at {storage.url}: {count} operations, LAKEBED_SEED={seed()}")
    create(storage)
    ds = open_on(storage)
    for number, operation in enumerate(operations(model, seed()), 1):
        operation.act(ds)
        ds.flush()
        operation.model(model)
        done.append(operation.name)
        if number % _JUDGED_EVERY == 0 or number == count:
            assert state_of(storage) == model.state(), (seed(), done)
        if number == count:
            break
    ds.close()
    assert verify(storage, None, deep=True).is_sound


def test_every_operation_has_its_effect(
    place: Callable[[], Storage], record_property: Callable[[str, object], None]
) -> None:
    """Appends, updates, pops, commits, branches and merges leave what the model says."""
    _work(place, EFFORT.store_operations, record_property)
