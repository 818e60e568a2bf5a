"""A writer that stands still for longer than its lease is put out, and knows it when it goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from integration_tests.versions import race
from integration_tests.versions.test_concurrency import ROOT, Record, check_branches, logs_of, published
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from unit_tests.effort import EFFORT, PATIENCE, seed

LEASE = 1.0


class Process:
    """A writer in a process of its own."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-m", "integration_tests.versions.holder", str(path), str(LEASE)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=ROOT, **pipes)
        assert self.answer() == "ok"

    def tell(self, step: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(step + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return str(self.process.stdout.readline()).strip()

    def do(self, step: str) -> str:
        self.tell(step)
        return self.answer()

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A dataset with one row."""
    ds = lakebed.empty(tmp_path / "dataset")
    ds.create_tensor("n", dtype="int64")
    ds.append({"n": 0})
    ds.close()
    return tmp_path / "dataset"


@pytest.fixture
def writers(path: Path) -> Iterator[tuple[Process, Process]]:
    """Two writers of it."""
    pair = Process(path), Process(path)
    yield pair
    for process in pair:
        process.end()


def rows(path: Path) -> list[int]:
    values: list[int] = lakebed.load(path, read_only=True).n.numpy().ravel().tolist()
    return values


def take_over(process: Process, step: str) -> None:
    """Try until the other one's lease has run out; not before."""
    end = time.monotonic() + PATIENCE
    while (answer := process.do(step)) != "ok":
        assert answer.startswith("LockedException"), answer
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_stopped_writer_is_put_out_and_can_not_publish(
    path: Path, writers: tuple[Process, Process]
) -> None:
    """SIGSTOP, take-over, SIGCONT: the old writer gets LeaseLost, none of its rows appears, and it can start again."""
    old, new = writers
    assert old.do("hold") == old.do("append 1") == old.do("flush") == old.do("append 2") == "ok"
    old.stop()
    take_over(new, "append 10")
    assert new.do("flush") == "ok"
    old.go_on()
    assert old.do("flush").startswith("LeaseLost")
    assert rows(path) == [0, 1, 10]
    assert new.do("append 11") == new.do("flush") == "ok"
    assert new.do("close") == old.do("close") == old.do("reopen") == "ok"
    assert old.do("append 3") == old.do("flush") == "ok"
    assert rows(path) == [0, 1, 10, 11, 3]
    assert verify(LocalStorage(path), deep=True).is_sound


@pytest.mark.parametrize("publishes", [True, False], ids=["who publishes", "who has not published yet"])
def test_a_writer_that_is_stopped_right_before_its_swap_can_not_make_it(
    path: Path, writers: tuple[Process, Process], publishes: bool
) -> None:
    """Also after all its checks: the fence in the version tree holds it up, though the head may be as before."""
    old, new = writers
    assert old.do("append 1") == old.do("stop_at_swap") == "ok"
    old.tell("flush")
    take_over(new, "append 10")
    if publishes:
        assert new.do("flush") == "ok"
    old.go_on()
    assert old.answer().split(":")[0] in ("LeaseLost", "CommitFailed")
    assert new.do("append 11") == new.do("flush") == new.do("close") == "ok"
    assert rows(path) == [0, 10, 11]
    assert old.do("append 2") == old.do("flush") == "ok"
    assert rows(path) == [0, 10, 11, 2]
    assert verify(LocalStorage(path), deep=True).is_sound


def test_a_writer_that_lives_is_not_put_out(path: Path, writers: tuple[Process, Process]) -> None:
    """Its thread renews the lease; others are told who it is."""
    old, new = writers
    assert old.do("hold") == old.do("append 1") == "ok"
    until = time.monotonic() + 3 * LEASE
    while time.monotonic() < until:
        answer = new.do("append 10")
        assert answer.startswith("LockedException")
        assert str(old.process.pid) in answer
        time.sleep(0.1)
    assert old.do("flush") == "ok"
    assert rows(path) == [0, 1]


def test_a_killed_writer_keeps_nobody_out(path: Path, writers: tuple[Process, Process]) -> None:
    """The next one goes on at once."""
    old, new = writers
    assert old.do("hold") == old.do("append 1") == old.do("flush") == old.do("append 2") == "ok"
    os.kill(old.process.pid, signal.SIGKILL)
    old.process.wait()
    assert new.do("append 10") == new.do("flush") == "ok"
    assert rows(path) == [0, 1, 10]


def torture(folder: Path, seconds: float, record: Record) -> None:
    """Stop writers again and again for longer than their lease, at random moments."""
    dice, path, stops = random.Random(seed()), folder / "dataset", 0
    race.create(path)
    logs, processes = {}, []
    environment = {**os.environ, "LAKEBED_TEST_LEASE": "0.5"}
    for number in range(4):
        # All on one branch: numbers that are multiples of the number of branches.
        writer = number * len(race.BRANCHES)
        logs[f"write{writer}"] = folder / f"write{writer}"
        command = [sys.executable, "-m", "integration_tests.versions.race", str(path), str(seconds)]
        processes.append(subprocess.Popen([*command, "write", str(writer)], cwd=ROOT, env=environment))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        process = dice.choice(processes)
        time.sleep(dice.uniform(0, 0.5))
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(dice.choice([0.1, 0.8, 1.2]))
        os.kill(process.pid, signal.SIGCONT)
        stops += 1
    for process in processes:
        process.wait()
    found = logs_of(logs)
    check_branches(path, published(found))
    assert verify(LocalStorage(path)).is_sound
    lost = sum(line["what"] == "failed" for lines in found.values() for line in lines)
    counts = f"{stops} stops, {len(published(found))} publishes, {lost} lost leases"
    record("proof", f"stopped writers: {counts}, LAKEBED_SEED={seed()}")


def test_writers_that_are_stopped_at_random(tmp_path: Path, record_property: Record) -> None:
    """Every acknowledged publish is there once, in order; whoever was put out was told."""
    torture(tmp_path, EFFORT.race_seconds, record_property)
