"""Wherever the power fails, a local dataset opens, holds all that was acknowledged, verifies and takes the next row."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration_tests.power.disk import Disk, State
from integration_tests.power.events import Event, Mark, Rename, read_log
from integration_tests.power.recorder import recorded, why_not
from integration_tests.power.verdict import Seen, goes_on, seen
from integration_tests.power.workload import STEPS, work
from unit_tests.effort import EFFORT

PATH = "new/folder/ds"
PUBLISHED = frozenset({"version_control_info.json", "refs.json"})
SEED = 20_261_121


@dataclass(frozen=True)
class Cut:
    """The power fails after so many events; what was acknowledged then, and what may be there."""

    after: int
    step: str
    allowed: tuple[int, ...]


@dataclass(frozen=True)
class Recording:
    """A log, and what readers see after each publish in it; 0 is nothing."""

    events: list[Event]
    published: list[Seen | None]

    def cuts(self) -> Iterator[Cut]:
        """Every moment of the log, in order."""
        step, acknowledged, current = "create", 0, 0
        names = itertools.chain(STEPS, ["end"])
        for after in range(len(self.events) + 1):
            yield Cut(after, step, tuple(range(acknowledged, current + 1)))
            if after == len(self.events):
                return
            event = self.events[after]
            if isinstance(event, Mark):
                step, acknowledged = next(names), current
            elif _is_publish(event):
                current += 1


def _is_publish(event: Event) -> bool:
    return isinstance(event, Rename) and event.to_name in PUBLISHED


@pytest.fixture(scope="module", params=["alone", "after another"])
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """One recorded run of the whole workload; also where a process that was killed has made the folders, unforced."""
    problem = why_not()
    if problem is not None:
        pytest.skip(problem)
    place = tmp_path_factory.mktemp("power")
    source, mount, log = place / "source", place / "mount", place / "log"
    source.mkdir()
    mount.mkdir()
    with recorded(source, mount, log):
        if request.param == "after another":
            for name in ("versions", ".lakebed"):
                (mount / PATH / name).mkdir(parents=True)
        work(mount, str(mount / PATH))
    events = read_log(log)
    disk = Disk()
    published: list[Seen | None] = [None]
    for event in events:
        disk.tell(event)
        if _is_publish(event):
            with Place() as folder:
                disk.everything().write(folder)
                published.append(seen(str(folder / PATH)))
    assert published[-1] == seen(str(source / PATH))
    return Recording(events, published)


class Place:
    """An empty folder in memory, where there is such a thing, that goes away."""

    def __enter__(self) -> Path:
        shared = Path("/dev/shm")
        self._path = Path(tempfile.mkdtemp(prefix="power-", dir=shared if shared.is_dir() else None))
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path)


def look(state: State, cut: Cut, recording: Recording) -> None:
    """Judge one state."""
    with Place() as folder:
        state.write(folder)
        url = str(folder / PATH)
        found = seen(url)
        assert found in [recording.published[i] for i in cut.allowed], "another state than acknowledged"
        goes_on(url, found)


def judged(recording: Recording, moments: Sequence[tuple[int, str]], seed: int) -> int:
    """Cut the power after so many events, each in one of the kinds; return how often something was at stake."""
    chance = random.Random(seed)
    cuts = list(recording.cuts())
    disk, told, at_stake = Disk(), 0, 0
    for number, kind in sorted(moments):
        cut = cuts[number]
        for event in recording.events[told : cut.after]:
            disk.tell(event)
        told = cut.after
        moment = random.Random(chance.getrandbits(64))
        state = disk.nothing() if kind == "nothing" else getattr(disk, kind)(moment)
        at_stake += disk.unforced() > 0
        try:
            look(state, cut, recording)
        except Exception as error:
            error.add_note(f"seed {seed}, {kind} after event {cut.after}, in step {cut.step!r}")
            raise
    return at_stake


def test_power_loss_at_any_moment_loses_nothing_that_was_acknowledged(recording: Recording) -> None:
    """Whatever of the unforced writes and names survives, the last acknowledged state or the next one is there."""
    chance = random.Random(SEED)
    kinds = ("nothing", "loose", "loose", "loose", "journal", "journal")
    moments = [
        (chance.randint(0, len(recording.events)), chance.choice(kinds)) for _ in range(EFFORT.power_cuts)
    ]
    assert judged(recording, moments, SEED) > EFFORT.power_cuts * 3 // 4


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(2))
def test_power_loss_at_every_moment_loses_nothing_that_was_acknowledged(
    recording: Recording, seed: int
) -> None:
    """The same after every single event, with everything unforced lost, and with any part of it."""
    every = range(len(recording.events) + 1)
    moments = [(after, kind) for after in every for kind in ("nothing", "loose", "journal")]
    print(f"{len(moments)} states of {len(recording.events)} events, seed {seed}")  # noqa: T201
    assert judged(recording, moments, seed) > len(every)
