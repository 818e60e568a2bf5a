"""Whatever call of the storage fails in a transform: the dataset is at a checkpoint, and the same call goes on."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import CommitFailed, CommitStateUnknown, ResumeError, StorageError, TransformError
from lakebed.maintenance.verify import verify
from lakebed.runtime import clock
from lakebed.storage.base import Storage
from lakebed.testing.clock import VirtualClock
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.schedule import Crash, Fault, Planned, When, refused
from lakebed.transforms.resume import read_note
from unit_tests.effort import EFFORT, seed
from unit_tests.lakebed.datasets import copy_of, create_on, kill, new_memory, open_on

Row = tuple[int, str, str, float]
Record = Callable[[str, object], None]

NAMES = ("ant", "bee", "cat", "dog")
WIDTH = 5_000  # so that the chunk of one sample is too large to travel with its part
ITEMS = list(range(10))


def row_of(item: int, more: int = 0) -> Row:
    return (item, f"text {item}.{more}" * (item % 3), NAMES[(item + more) % 4], float(item + more))


def values_of(row: Row) -> dict[str, Any]:
    a, b, c, d = row
    return {"a": a, "b": b, "c": c, "d": np.full(WIDTH, d)}


@lakebed.compute
def one(item: int, out: Any) -> None:
    out.append(values_of(row_of(item)))


def _stopped(item: int, out: Any) -> None:
    if item > 5:
        raise ValueError(item)
    out.append(values_of(row_of(item)))


stopped = lakebed.compute(_stopped, name="one")


@lakebed.compute
def some(item: int, out: Any) -> None:
    """No row, one, or two."""
    for more in range(item % 3):
        out.append(values_of(row_of(item, more)))


@lakebed.compute
def picky(item: int, out: Any) -> None:
    if item in (2, 7):
        raise ValueError(item)
    out.append(values_of(row_of(item)))


@lakebed.compute
def next_of(row: Any, out: Any) -> None:
    out.append(values_of(row_of(int(row.a.numpy().item()) + 1)))


@dataclass(frozen=True)
class Case:
    """A transform: how it is called, the rows that it adds after each checkpoint, and whether it replaces others."""

    name: str
    call: Callable[[lakebed.Dataset, dict[str, Any]], object]
    rows: Callable[[int], list[Row]]
    every: int = 0
    is_in_place: bool = False
    starts_over: bool = False

    def prepare(self, storage: Storage) -> None:
        """Leave an unfinished run, of four items, where the call is to start over."""
        if self.starts_over:
            ds = open_on(storage)
            with pytest.raises(TransformError):
                stopped().eval(ITEMS, ds, checkpoint_interval=4, progressbar=False)
            ds.close()

    def states(self, before: list[Row]) -> list[list[Row]]:
        """Return what a dataset may hold, from before the call to after it."""
        if self.starts_over:
            return [before, *replace(self, starts_over=False).states(before[:-4])]
        if self.is_in_place:
            return [before, [row_of(row[0] + 1) for row in before]]
        ends = [*range(0, len(ITEMS), self.every), len(ITEMS)] if self.every else [0, len(ITEMS)]
        return [before + [row for item in ITEMS[:end] for row in self.rows(item)] for end in ends]


def evaluate(function: Any, **more: Any) -> Callable[[lakebed.Dataset, dict[str, Any]], object]:
    return lambda ds, workers: function().eval(ITEMS, ds, progressbar=False, verbose=False, **more, **workers)


def rows_of_picky(item: int) -> list[Row]:
    return [] if item in (2, 7) else [row_of(item)]


def rows_of_some(item: int) -> list[Row]:
    return [row_of(item, more) for more in range(item % 3)]


CASES = [
    Case("checkpoints", evaluate(one, checkpoint_interval=4), lambda item: [row_of(item)], 4),
    Case("all at once", evaluate(one), lambda item: [row_of(item)]),
    Case(
        "in place",
        lambda ds, workers: next_of().eval(ds, progressbar=False, **workers),
        lambda item: [row_of(item)],
        is_in_place=True,
    ),
    Case("items left out", evaluate(picky, ignore_errors=True, checkpoint_interval=3), rows_of_picky, 3),
    Case("several rows", evaluate(some, checkpoint_interval=5), rows_of_some, 5),
    Case(
        "start over",
        evaluate(one, checkpoint_interval=4, resume=False),
        lambda item: [row_of(item)],
        4,
        starts_over=True,
    ),
    Case("several rows at once", evaluate(some), rows_of_some),
]
WORKERS: dict[str, dict[str, Any]] = {"serial": {}, "threads": {"num_workers": 2}}


@dataclass(frozen=True)
class Position:
    """Which call fails, and how: the process ends, one call fails, or all do from then on."""

    call: int
    when: When
    kind: str
    seed: int

    @property
    def faults(self) -> Iterator[Fault]:
        error = Crash if self.kind == "crash" else refused
        yield Fault(self.when, self.call, error=error, seed=self.seed)
        if self.kind == "outage":
            yield Fault("before", self.call + 1, times=1 << 40, error=refused)


def new_dataset(*, is_empty: bool) -> Storage:
    """Return a dataset with a few rows, or one whose tensors have no dtype yet."""
    ds = create_on(new_memory())
    ds.create_tensor("a")
    ds.create_tensor("b", htype="text")
    ds.create_tensor("c", htype="class_label")
    ds.create_tensor("d")
    if not is_empty:
        for item in range(50, 55):
            ds.append(values_of(row_of(item)))
        ds.commit("before")
        ds.append(values_of(row_of(55)))
    ds.close()
    return ds.storage


def rows_in(ds: lakebed.Dataset) -> list[Row]:
    names = ds.c.info.class_names
    lengths = {len(tensor) for tensor in ds.tensors.values()}
    assert len(lengths) == 1, lengths
    return [
        (
            int(ds.a[i].numpy().item()),
            str(ds.b[i].numpy().item()),
            names[int(ds.c[i].numpy().item())],
            float(ds.d[i].numpy().mean()),
        )
        for i in range(len(ds.a))
    ]


def read(storage: Storage) -> list[Row]:
    return rows_in(open_on(storage, read_only=True))


def attempt(
    case: Case, workers: dict[str, Any], base: Storage, states: Sequence[list[Row]], at: Position
) -> str:
    """Run it with a fault, judge what is left, and run it again; return what happened."""
    storage = copy_of(base)
    faulty = FaultyStorage(storage, Planned(*at.faults))
    ds, failed = None, ""
    try:
        with clock.replaced(VirtualClock()):
            try:
                ds = open_on(faulty)
                case.call(ds, workers)
            except Crash:
                failed = "crash"
            except (StorageError, CommitFailed, CommitStateUnknown, TransformError) as error:
                failed = type(error).__name__
            is_going_on = ds is not None and failed not in ("", "crash") and at.seed % 2 == 0
            if is_going_on:
                faulty.schedule = Planned()
                seen = read(storage)
                assert seen in states, f"after {failed}, others see {len(seen)} rows"
                assert rows_in(ds) in states, f"after {failed}, the dataset shows {len(rows_in(ds))} rows"
            else:
                kill(storage)
                seen = read(storage)
                assert seen in states, f"after {failed}: {len(seen)} rows"
                assert failed or seen == states[-1], "it ended well without all rows"
                ds = open_on(storage)
            found = verify(storage, deep=True)
            assert found.is_sound, f"after {failed}: {found.damage[:3]}"
            if failed and seen != states[-1]:
                case.call(ds, workers)
                ds.close()
                again = read(storage)
                assert again == states[-1], f"{failed} left {len(seen)} rows, the next call {len(again)}"
            elif case.every and read_note(storage, "main") is not None and not case.starts_over:
                # All was published, but it is not known to be finished: the next call adds nothing unasked.
                with contextlib.suppress(ResumeError):
                    case.call(ds, workers)
                ds.close()
                assert read(storage) == states[-1], f"{failed} left all rows, the next call other ones"
            found = verify(storage, deep=True)
            assert found.is_sound, f"after the next call: {found.damage[:3]}"
    finally:
        kill(storage)
    return failed or "none"


def positions(calls: int, count: int, source: random.Random) -> list[Position]:
    kinds: list[tuple[When, str]] = [
        (when, kind) for when in ("before", "after", "torn") for kind in ("crash", "error", "outage")
    ]
    every = [(call, *kind) for call in range(calls) for kind in kinds]
    return [
        Position(*chosen, seed=source.randrange(1 << 20))
        for chosen in (source.sample(every, count) if count < len(every) else every)
    ]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "filled"])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fault_leaves_a_checkpoint_and_the_same_call_goes_on(
    case: Case, workers: str, is_empty: bool, record_property: Record
) -> None:
    if case.is_in_place and is_empty:
        pytest.skip("there is nothing to do in place")
    base = new_dataset(is_empty=is_empty)
    case.prepare(base)
    states = case.states(read(base))
    storage = copy_of(base)
    whole = FaultyStorage(storage, Planned())
    ds = open_on(whole)
    case.call(ds, WORKERS[workers])
    assert read(storage) == states[-1]
    kill(storage)
    wrong, ends = [], Counter[str]()
    chosen = positions(len(whole.trace), EFFORT.transform_faults, random.Random(seed()))
    for at in chosen:
        call = whole.trace[at.call]
        try:
            ends[attempt(case, WORKERS[workers], base, states, at)] += 1
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{at} {call.method}({', '.join(call.keys[:2])}): {type(error).__name__}: {error}")
    record_property(
        "proof",
        f"transform, {case.name}, {workers}: {len(chosen)} faults, {dict(ends)}, {len(wrong)} wrong, "
        f"LAKEBED_SEED={seed()}",
    )
    assert not wrong, f"{len(wrong)} of {len(chosen)} wrong:\n" + "\n".join(wrong[:12])
