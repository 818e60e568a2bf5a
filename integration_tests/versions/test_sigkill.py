"""A process that is killed at any moment loses nothing that it acknowledged, leaves no torn row, and stops nobody."""

from __future__ import annotations

import pickle
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import lakebed
from lakebed.maintenance.verify import verify
from lakebed.storage.url import open_storage
from unit_tests.effort import EFFORT, seed
from unit_tests.proofs.content import differences
from unit_tests.proofs.kill import Ended, Nursery
from unit_tests.proofs.model import Model
from unit_tests.proofs.observe import state_of
from unit_tests.proofs.work import operations

OPERATIONS = 14
KILLS_PER_DATASET = 20

Record = Callable[[str, object], None]


class Trial:
    """One dataset and the model of what is in it, over many kills.

    Parameters
    ----------
    folder
        Where the model is kept.
    url
        Where the dataset lies; None is in the folder, too.
    """

    def __init__(self, folder: Path, nursery: Nursery, url: str | None = None) -> None:
        folder.mkdir()
        self.path = url or str(folder / "dataset")
        self.model = Model()
        self.cut_off: Counter[str] = Counter()
        self.seconds = 0.0
        self._file = folder / "model"
        self._nursery = nursery
        lakebed.empty(self.path).close()

    def attempt(self, seed: int, kill_after: float | None, *, whole: bool = False) -> Ended:
        """Let a worker work, kill it, and judge what is there: exactly what it acknowledged, or one operation more."""
        self._file.write_bytes(pickle.dumps(self.model))
        began = time.monotonic()
        ended = self._nursery.run([self.path, str(self._file), seed, OPERATIONS], kill_after)
        if not ended.was_killed:
            self.seconds = time.monotonic() - began
        assert ended.was_killed or ended.status == 0, f"seed {seed}: {ended}"
        said = [line for line in ended.lines if line != "opened"]
        before = self.model.copy()
        script = operations(before, seed)
        for name, operation in zip(said, script, strict=False):
            assert operation.name == name
            operation.model(before)
        after, pending = before.copy(), "nothing"
        if len(said) < OPERATIONS:
            operation = next(script)
            pending = operation.name
            operation.model(after)
        storage = open_storage(self.path)
        state, where = state_of(storage), f"seed {seed}: {len(said)} acknowledged, killed in {pending}"
        assert state in (after.state(), before.state()), (
            where,
            [differences(state, model.state()) for model in (after, before)],
        )
        self.model = after if state == after.state() else before
        found = verify(storage, None if whole else self.model.at, deep=True)
        assert found.is_sound, (where, found.damage)
        self.cut_off[pending.split()[0]] += ended.was_killed
        return ended


def in_the_folder() -> str | None:
    """Let the dataset lie beside its model."""
    return None


def kill_often(
    folder: Path, kills: int, record: Record, url: Callable[[], str | None] = in_the_folder
) -> None:
    """Kill that many workers at random moments of their work; ``url`` gives each dataset its place."""
    record("proof", f"SIGKILL: {kills} kills, LAKEBED_SEED={seed()}")
    dice, cut_off, killed = random.Random(seed()), Counter[str](), 0
    with Nursery("integration_tests.versions.writer:work") as nursery:
        trial = Trial(folder / "first", nursery, url())
        while killed < kills:
            if killed % KILLS_PER_DATASET == 0:
                cut_off += trial.cut_off
                trial = Trial(folder / f"{killed}-{dice.random()}", nursery, url())
                trial.attempt(dice.randrange(1 << 32), None)
            after, whole = (
                dice.uniform(0, 0.9 * trial.seconds),
                killed % KILLS_PER_DATASET == KILLS_PER_DATASET - 1,
            )
            killed += trial.attempt(dice.randrange(1 << 32), after, whole=whole).was_killed
    record("proof", f"SIGKILL: {killed} killed, in {dict(cut_off + trial.cut_off)}")
    # The test is worth something only if it hit work in its middle.
    assert sum((cut_off + trial.cut_off).values()) - (cut_off + trial.cut_off)["nothing"] >= kills // 2


def test_a_killed_process_loses_nothing_that_it_acknowledged(tmp_path: Path, record_property: Record) -> None:
    """0 unopenable, 0 torn rows, all acknowledged operations there."""
    kill_often(tmp_path, EFFORT.kills, record_property)
