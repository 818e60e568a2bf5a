"""Scripts with worker processes that are killed or told to end: the last checkpoint stays, and they run again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lakebed
from lakebed.maintenance.verify import verify
from unit_tests.effort import EFFORT, IS_SOAK, PATIENCE, seed

COUNT, EVERY = 120, 20

# Without a guard, and with a function of its own: workers must not import it again.
SCRIPT = """
import os, sys, time
import lakebed

path, pids = sys.argv[1], sys.argv[2]
ds = lakebed.load(path)

@lakebed.compute
def rows(item, out):
    with open(pids, "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(0.005)
    for more in range(item % 3):
        out.append({"a": item, "b": f"{item}.{more}"})

print("begun", flush=True)
rows().eval(list(range(COUNT)), ds, num_workers=2, scheduler="processed", checkpoint_interval=EVERY, progressbar=False)
print("done", flush=True)
""".replace("COUNT", str(COUNT)).replace("EVERY", str(EVERY))

Row = tuple[int, str]


def rows_of(items: int) -> list[Row]:
    return [(item, f"{item}.{more}") for item in range(items) for more in range(item % 3)]


STATES = [rows_of(end) for end in range(0, COUNT + 1, EVERY)]


class Place:
    """A dataset, the script that fills it, and what its processes leave."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder / "ds")
        self.script = folder / "script.py"
        self.script.write_text(SCRIPT)
        self.pids = folder / "pids"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.empty()

    def empty(self) -> None:
        ds = lakebed.empty(self.url, overwrite=True)
        ds.create_tensor("a", dtype="int64")
        ds.create_tensor("b", htype="text")
        ds.close()

    def start(self, *, is_piped: bool = False) -> subprocess.Popen[bytes]:
        """Start the script in a process group of its own."""
        name = "-" if is_piped else str(self.script)
        self.pids.write_text("")
        with (self.script if is_piped else Path(os.devnull)).open("rb") as given:
            return subprocess.Popen(
                [sys.executable, name, self.url, str(self.pids)],
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, "TMPDIR": str(self.temporary)},
                start_new_session=True,
            )

    def workers(self) -> set[int]:
        return {int(line) for line in self.pids.read_text().splitlines() if line}

    def wait_for_items(self, count: int) -> None:
        until = time.monotonic() + PATIENCE
        while len(self.pids.read_text().splitlines()) < count:
            assert time.monotonic() < until, "the workers did nothing"
            time.sleep(0.005)

    def rows(self) -> list[Row]:
        ds = lakebed.load(self.url, read_only=True)
        assert verify(ds.storage, deep=True).is_sound
        if not len(ds):
            return []
        found = zip(ds.a.numpy().ravel().tolist(), ds.b.data(aslist=True)["value"], strict=True)
        return [(int(a), str(b)) for a, b in found]

    def left(self) -> list[str]:
        return [path.name for path in self.temporary.glob("lakebed-transform-*")]

    def finish(self) -> None:
        """Run the script to its end, and see that the rows are those of a run that nothing disturbed."""
        process = self.start()
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors.decode()
        assert self.rows() == STATES[-1]


def wait_for_end(pids: set[int]) -> None:
    """Wait until processes are gone."""
    until = time.monotonic() + 30
    while alive := {pid for pid in pids if is_running(pid)}:
        assert time.monotonic() < until, f"workers still run: {alive}"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.timeout(7200)
def test_a_driver_that_is_killed_leaves_a_checkpoint(place: Place) -> None:
    """At any moment, one in five while it starts; now and then the script runs on from there to its end."""
    dice = random.Random(seed())
    partly, kills = 0, 200 if IS_SOAK else max(3, EFFORT.sync_kills // 2)
    for number in range(5 * kills):
        if number >= kills and partly:
            break  # on a machine of other speed the first few may all come before a checkpoint, or after the last
        process = place.start()
        if dice.random() < 0.2:
            time.sleep(dice.uniform(0, 1.5))
        else:
            # Items of this run: those before its first checkpoint are done already.
            left = COUNT - EVERY * STATES.index(place.rows())
            place.wait_for_items(dice.randrange(1, max(2, left // 2)))
            time.sleep(dice.uniform(0, 0.05))
        process.kill()
        process.communicate()
        wait_for_end(place.workers())
        found = place.rows()
        assert found in STATES, f"{len(found)} rows after kill {number}; LAKEBED_SEED={seed()}"
        partly += STATES[0] < found < STATES[-1]
        if found == STATES[-1] or dice.random() < 0.2:
            if found != STATES[-1]:
                place.finish()
            place.empty()
    assert partly, "no kill came between two checkpoints"
    if place.rows() != STATES[-1]:
        place.finish()


@pytest.mark.parametrize(
    ("number", "is_group"),
    [(signal.SIGTERM, True), (signal.SIGINT, False)],
    ids=["SIGTERM-group", "SIGINT-driver"],
)
def test_a_signal_ends_it_in_order(place: Place, number: signal.Signals, is_group: bool) -> None:
    process = place.start()
    place.wait_for_items(30)
    (os.killpg if is_group else os.kill)(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    wait_for_end(place.workers())
    assert place.left() == []
    found = place.rows()
    assert found in STATES[:-1]
    ds = lakebed.load(place.url)  # another writer need not wait
    ds.append({"a": -1, "b": "mine"})
    ds.flush()
    ds.reset()
    ds.close()
    place.finish()
    assert place.left() == []


def test_workers_that_are_killed_are_replaced(place: Place) -> None:
    process = place.start()
    place.wait_for_items(20)
    os.kill(max(place.workers()), signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors.decode()
    assert place.rows() == STATES[-1]
    wait_for_end(place.workers())
    assert place.left() == []


def test_a_script_on_the_standard_input(place: Place) -> None:
    process = place.start(is_piped=True)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors.decode()
    assert place.rows() == STATES[-1]


def test_no_worker_outlives_its_driver_in_a_long_item(place: Place) -> None:
    place.script.write_text(SCRIPT.replace("time.sleep(0.005)", "time.sleep(120)"))
    process = place.start()
    place.wait_for_items(1)
    process.kill()
    process.wait()
    wait_for_end(place.workers())
    process.communicate()
