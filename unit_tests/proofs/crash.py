"""Cut off real work at every call of the storage, and judge what is left by the model.

A script is a list of steps, each done to a dataset and to a `Model`. `CrashRunner` does one step on a copy of the
dataset with one fault, and then looks at it as the next process would::

    runner = CrashRunner(steps)
    for position in runner.positions():
        runner.attempt(position)

The verdict after each: it opens without help, shows a state that the model allows, ``verify`` finds nothing damaged,
and the next write works.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from lakebed.dataset.dataset import Dataset
from lakebed.errors import CommitFailed, CommitStateUnknown, StorageError
from lakebed.maintenance.verify import verify
from lakebed.runtime import clock
from lakebed.session.process.open_sessions import sessions_at
from lakebed.storage.base import Storage
from lakebed.storage.concurrently import together
from lakebed.storage.memory import MemoryStorage, open_memory
from lakebed.testing.clock import VirtualClock
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.schedule import Call, Crash, Fault, Planned, When, refused
from lakebed.versions.create import create
from unit_tests.proofs.content import State
from unit_tests.proofs.model import Model
from unit_tests.proofs.observe import content_of, open_on, state_of

_PROBE = "probe"
_LONGEST_OUTAGE = 12
_PATIENCE = 30
_number = itertools.count()


@dataclass(frozen=True)
class Step:
    """One thing that a program does.

    Parameters
    ----------
    name
        For people.
    act
        Does it to a dataset; what it wrote is flushed afterwards.
    model
        Does it to the model.
    at
        Branch that is open when it begins.
    """

    name: str
    act: Callable[[Dataset], object]
    model: Callable[[Model], object]
    at: str = "main"


@dataclass(frozen=True)
class Position:
    """Where a fault happens, and which.

    Parameters
    ----------
    step
        Number of the step.
    call
        Number of the call, counted from the opening of the dataset at the step's begin.
    when, seed
        See ``Fault``.
    is_crash
        The process ends there; otherwise it sees an error, and goes on.
    outage
        So many further calls fail, as when a connection is lost for a while.
    """

    step: int
    call: int
    when: When
    is_crash: bool
    seed: int = 0
    outage: int = 0


@dataclass(frozen=True)
class _Prepared:
    """A step, the dataset before it, the states that it may leave, and the calls that it makes."""

    step: Step
    storage: Storage
    allowed: Sequence[State]
    trace: Sequence[Call]


class CrashRunner:
    """Runs a script once without faults, and single steps of it with one.

    Parameters
    ----------
    steps
        The script. The first one finds an empty dataset.
    make
        Makes empty storages, each with an address of its own.

    Raises
    ------
    AssertionError
        If the script itself does not lead where the model says.
    """

    def __init__(self, steps: Sequence[Step], make: Callable[[], Storage] | None = None) -> None:
        self._make = make or new_memory
        storage = self._make()
        create(storage)
        model, self._prepared = Model(), list[_Prepared]()
        snapshots = _Snapshots(storage)
        for step in steps:
            start = snapshots.take()
            model = model.copy()
            model.at = step.at
            before = model.state()
            step.model(model)
            faulty = FaultyStorage(storage, Planned())
            _do(step, faulty)
            _expect_one_of([model.state()], storage, step.name)
            self._prepared.append(_Prepared(step, start, [before, *model.published], [*faulty.trace]))

    def positions(self) -> Iterator[Position]:
        """Iterate over all faults: each call x before, after, torn x crash, error, outage; a torn call in two ways."""
        for number, prepared in enumerate(self._prepared):
            for i, call in enumerate(prepared.trace):
                kinds: list[tuple[When, int]] = [("before", 0), ("after", 0)]
                if call.is_tearable:
                    kinds += [("torn", 2 * i), ("torn", 2 * i + 1)]
                for when, seed in kinds:
                    for is_crash in (True, False):
                        yield Position(number, i, when, is_crash, seed)
                    yield Position(number, i, when, False, seed, outage=1 + i % _LONGEST_OUTAGE)

    def describe(self, position: Position) -> str:
        """Say where a position is."""
        prepared = self._prepared[position.step]
        call = prepared.trace[position.call]
        kind = "crash" if position.is_crash else f"error (and {position.outage} more)"
        keys = ", ".join(call.keys[:3])
        return f"{prepared.step.name}: {kind} {position.when} call {position.call}, {call.method}({keys}); {position}"

    def attempt(self, position: Position) -> None:
        """Do one step with one fault, and judge what is left.

        Raises
        ------
        AssertionError
            If anything is not as promised.
        """
        prepared = self._prepared[position.step]
        storage = copy_of(prepared.storage, self._make)
        error = Crash if position.is_crash else refused
        fault = Fault(position.when, position.call, error=error, seed=position.seed)
        outage = Fault("before", position.call + 1, times=position.outage, error=refused)
        faulty = FaultyStorage(storage, Planned(fault, outage))
        where = self.describe(position)
        try:
            run = self._crash if position.is_crash else self._go_on
            with clock.replaced(VirtualClock()):
                allowed = run(prepared, faulty, where)
            _judge(storage, allowed, prepared.step.at, where)
        finally:
            end_of_process(storage)

    def _crash(self, prepared: _Prepared, faulty: FaultyStorage, where: str) -> Sequence[State]:
        """Let the process end at the fault; return the states that may be there now."""
        ds = None  # kept until the end, as it publishes what it has when nobody needs it any more
        try:
            ds = open_on(faulty, prepared.step.at)
            prepared.step.act(ds)
            ds.close()
        except Crash:
            return prepared.allowed
        finally:
            end_of_process(faulty.inner)
        return prepared.allowed[-1:]

    def _go_on(self, prepared: _Prepared, faulty: FaultyStorage, where: str) -> Sequence[State]:
        """Let the program go on after the error; return the states that may be there now."""
        step, ds, failed = prepared.step, None, False
        try:
            ds = open_on(faulty, step.at)
            step.act(ds)
            ds.flush()
        except (StorageError, CommitFailed, CommitStateUnknown):
            failed = True
        allowed = prepared.allowed if failed else prepared.allowed[-1:]
        seen = _expect_one_of(allowed, faulty.inner, f"{where}: after the error")
        if ds is not None:
            for _ in range(_PATIENCE):
                with contextlib.suppress(StorageError, CommitStateUnknown):
                    ds.flush()
                    break
            faulty.schedule = Planned()
            ds.flush()
            # What was seen once stays.
            allowed = allowed[allowed.index(seen) :]
            seen = _expect_one_of(allowed, faulty.inner, f"{where}: after a second flush")
            if ds.branch in seen["branches"] and ds.is_head_node:
                shown = content_of(ds).items() <= seen["branches"][ds.branch].items()
                _expect(shown, f"{where}: the dataset itself shows something else than readers see")
                _write_on(ds, where)
                _expect(
                    _without_probe(state_of(faulty.inner)) == _without_probe(seen),
                    f"{where}: writing on broke it",
                )
                ds.delete_tensor(_PROBE)
            ds.close()
        return allowed[allowed.index(seen) :]


def _do(step: Step, storage: Storage) -> None:
    ds = open_on(storage, step.at)
    step.act(ds)
    ds.close()


def _judge(storage: Storage, allowed: Sequence[State], at: str, where: str) -> None:
    """Look at a dataset as the next process does."""
    seen = _expect_one_of([_without_probe(state) for state in allowed], storage, where, _without_probe)
    _expect_sound(storage, where)
    ds = open_on(storage, at if at in seen["branches"] else "main")
    _write_on(ds, where)
    ds.commit("afterwards")
    ds.close()
    after = _without_probe(state_of(storage))
    line = after["branches"][ds.branch]
    _expect(line["log"][:1] == ["afterwards"], f"{where}: the next commit is not there")
    for name, branch in seen["branches"].items():
        kept = {**after["branches"][name], "log": branch["log"], "changed": branch["changed"]}
        _expect(kept == branch, f"{where}: the next write changed branch {name}")
    _expect_sound(storage, f"{where}: after the next write", ds.branch)


def _write_on(ds: Dataset, where: str) -> None:
    """Write something new, and see that others see it."""
    tensor = ds.create_tensor(_PROBE, dtype="int64", exist_ok=True)
    tensor.append(len(tensor))
    ds.flush()
    seen = content_of(open_on(ds.storage, ds.branch, read_only=True))["tensors"].get(_PROBE)
    _expect(
        seen is not None and seen["values"][-1] == len(tensor) - 1, f"{where}: the next write is not seen"
    )


def _without_probe(state: State) -> State:
    """Return a state without what the judge has written, and without whether heads have changes."""
    branches = {
        name: {
            **{key: value for key, value in line.items() if key != "changed"},
            "tensors": {key: value for key, value in line["tensors"].items() if key != _PROBE},
        }
        for name, line in state["branches"].items()
    }
    return {**state, "branches": {n: {**line, "changed": None} for n, line in branches.items()}}


def _expect_sound(storage: Storage, where: str, branch: str | None = None) -> None:
    findings = verify(storage, branch, deep=True)
    _expect(findings.is_sound, f"{where}: damage: {'; '.join(str(damage) for damage in findings.damage[:3])}")


def _expect_one_of(
    allowed: Sequence[State], storage: Storage, where: str, view: Callable[[State], State] = dict
) -> State:
    """Return what readers see, which must be one of some states."""
    seen = view(state_of(storage))
    if seen not in allowed:
        found, wanted = _flat(seen), _flat(allowed[-1])
        keys = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
        shown = "; ".join(f"{key} is {found.get(key)!r}, not {wanted.get(key)!r}" for key in keys[:4])
        raise AssertionError(f"{where}: readers see none of {len(allowed)} states: {shown}")
    return seen


def _flat(value: object, path: str = "") -> dict[str, object]:
    if isinstance(value, dict) and value:
        return {k: v for name, inner in value.items() for k, v in _flat(inner, f"{path}/{name}").items()}
    return {path: value}


def _expect(condition: object, message: str) -> None:
    """Raise an AssertionError, also under ``python -O``, which drops ``assert``."""
    if not condition:
        raise AssertionError(message)


# -- storages and processes ------------------------------------------------------------------------------------


def new_memory() -> MemoryStorage:
    """Return an empty storage in memory."""
    return open_memory(f"crash-{next(_number)}")


class _Snapshots:
    """Copies of a storage in memory, one after the other; what did not change in between is not read again."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[tuple[str, str], bytes] = {}

    def take(self) -> MemoryStorage:
        """Return what the storage holds now."""
        now = [(key, stat.etag) for key, stat in self._storage.list()]
        new = [name for name in now if not name[1] or name not in self._known]  # some lists have no etags
        found = together(self._storage, [partial(self._storage.get, key) for key, _ in new])
        self._known.update(zip(new, found, strict=True))
        taken = new_memory()
        taken.put_many([(name[0], self._known[name]) for name in now])
        return taken


def copy_of(storage: Storage, make: Callable[[], Storage] = new_memory) -> Storage:
    """Return a storage with the same objects and another address."""
    copied = make()
    keys = [key for key, _ in storage.list()]
    found = together(storage, [partial(storage.get, key) for key in keys])
    copied.put_many(zip(keys, found, strict=True), durable=False)
    return copied


def end_of_process(storage: Storage) -> None:
    """End all writers of a storage as SIGKILL does: nothing more is written, and the locks of the process are free."""
    for session in sessions_at(storage):
        session.abandon()


def sampled(positions: Sequence[Position], count: int, seed: int) -> list[Position]:
    """Choose some positions, the same ones for the same seed."""
    return random.Random(seed).sample(positions, min(count, len(positions)))
