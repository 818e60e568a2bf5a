"""What a killed 3.9.52 leaves behind, at every write of every operation: repaired, and nothing complete is lost.

The suite tries a state of each operation; `make soak` all of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from lakebed.errors import DatasetCorruptError, LakebedError
from lakebed.maintenance.plan import RepairReport
from lakebed.maintenance.repair import repair
from lakebed.maintenance.verify import verify
from lakebed.storage.memory import MemoryStorage
from unit_tests.lakebed.crash_states import State, held, logs, sample_of, states
from unit_tests.lakebed.datasets import objects, open_on

OPERATIONS = sorted(logs())


def check(state: State) -> None:
    """Plan, repair, and compare everything that is there with what was there before and what was to be."""
    storage = state.stored()
    before = objects(storage)
    plan = repair(storage)
    assert objects(storage) == before, f"{state}: the plan wrote something"
    report = repair(storage, apply=True)
    assert [str(step) for step in plan.steps] == [str(step) for step in report.steps], state
    findings = verify(storage, deep=True)
    assert findings.is_sound, f"{state}: {[str(damage) for damage in findings.damage]}"
    assert not report.remaining, f"{state}: {[str(step) for step in report.remaining]}"
    again = repair(storage, apply=True)
    assert not again.steps, f"{state}: a second repair did {[str(step) for step in again.steps]}"
    check_content(state, storage, report)
    check_next_write(state, storage)


def check_content(state: State, storage: MemoryStorage, report: RepairReport) -> None:
    """Every sample is the old or the new one of its row, and every row that is gone was named."""
    log = logs()[state.operation]
    for branch in open_on(storage, read_only=True).branches:
        found = held(open_on(storage, branch, read_only=True))
        before, after = log.before.get(branch, {}), log.after.get(branch, {})
        for name in before.keys() | after.keys():
            old, new = before.get(name), after.get(name)
            steps = [step for step in report.steps if step.tensor == name]
            if name not in found:
                assert old is None or new is None or any(step.kind == "tensor" for step in steps), (
                    state,
                    name,
                )
                continue
            told = {row for step in steps if step.rows for row in range(step.rows[0], step.rows[1] + 1)}
            for row, sample in enumerate(found[name]):
                assert sample in (_row(old, row), _row(new, row)) or row in told, (state, branch, name, row)
            shorter = min(len(rows) for rows in (old, new) if rows is not None)
            is_told = any(step.lost_rows for step in steps)
            assert len(found[name]) >= shorter or is_told, (state, branch, name, len(found[name]))


def _row(rows: Sequence[object] | None, row: int) -> object:
    return rows[row] if rows is not None and row < len(rows) else None


def check_next_write(state: State, storage: MemoryStorage) -> None:
    """The repaired dataset takes rows and commits."""
    with open_on(storage) as ds:
        name = "number" if "number" in ds.tensors else "many"
        if name not in ds.tensors:
            return  # its settings were lost, which was told
        rows = len(ds[name])
        ds[name].append(ds[name].numpy(aslist=True)[-1] if rows else 1)
        ds.commit("after the repair")
    assert len(open_on(storage)[name]) == rows + 1, state
    assert verify(storage).is_sound, state


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_state_of_every_operation(operation: str) -> None:
    """Repaired, sound, complete and writable, at a write of each operation of 3.9.52."""
    found = list(states(operation))
    check(random.Random(operation).choice(found))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_states_of_every_operation(operation: str) -> None:
    """Repaired, sound, complete and writable, at every write of each operation of 3.9.52."""
    for state in states(operation):
        check(state)


@pytest.mark.parametrize("operation", ["append", "append after commit", "extend", "update", "pop", "merge"])
def test_without_a_repair_nothing_wrong_is_read(operation: str) -> None:
    """A state that opens as it is shows rows of before or after, or says that it is damaged."""
    log = logs()[operation]
    found = list(states(operation))
    for state in random.Random(operation).sample(found, 5):
        storage = state.stored()
        try:
            ds = open_on(storage, read_only=True)
        except DatasetCorruptError as refused:
            assert_names_repair(refused)
            continue
        for name, tensor in ds.tensors.items():
            for row in range(len(tensor)):
                try:
                    found_sample = sample_of(tensor, row)
                except LakebedError:
                    continue
                expected = (_row(log.before["main"][name], row), _row(log.after["main"][name], row))
                assert found_sample in expected, (state, name, row)


def assert_names_repair(error: DatasetCorruptError) -> None:
    """Whoever can not open a dataset is told what to do."""
    assert "lakebed repair" in str(error)
