"""A sync that is killed at any moment loses nothing that it acknowledged, and stops nobody."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from integration_tests import lake
from integration_tests.connector import Connection
from integration_tests.messages import Message, configure, lines, parse, record, state, stream

STREAMS = ("red", "blue")
PIECE, PAUSE = 6_000, 0.01
"""Bytes that are written at once, and the seconds before the next."""
PACED = Path(__file__).with_name("paced.py")
PROPERTIES: dict[str, Message] = {
    "attempt": {"type": "integer"},
    "number": {"type": "integer"},
    "text": {"type": ["null", "string"]},
    "more": {"type": "object"},
}
CATALOG = configure(stream(name, **PROPERTIES) for name in STREAMS)


def text_of(attempt: int, number: int) -> str | None:
    return None if number % 7 == 0 else f"{attempt}:{number} " * (number % 13)


def delivery(attempt: int, rows: int, states_every: int = 40) -> list[Message]:
    """Rows of both streams in turn, with states; each row says which attempt sent it as which of its rows."""
    sent = [state(name, {"attempt": attempt, "number": 0}) for name in STREAMS]
    for number in range(1, rows + 1):
        for name in STREAMS:
            text = text_of(attempt, number)
            data = {"attempt": attempt, "number": number, "text": text, "more": {"n": [number]}}
            sent.append(record(name, data))
            if number % states_every == 0 or number == rows:
                sent.append(state(name, {"attempt": attempt, "number": number}))
    return sent


@dataclass
class Attempt:
    """One running sync: fed by a thread, its answers collected by another."""

    command: list[str | os.PathLike[str]]
    messages: bytes
    answers: list[bytes] = field(default_factory=list)
    spoke: threading.Event = field(default_factory=threading.Event)

    def run(self, wait: Callable[[Attempt], None] | None) -> int:
        """Start, call `wait`, then kill; without `wait`, let it end. Returns the exit status."""
        with subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            threads = [
                threading.Thread(target=self._feed, args=[process]),
                threading.Thread(target=self._collect, args=[process]),
            ]
            for thread in threads:
                thread.start()
            if wait is not None:
                wait(self)
                process.send_signal(signal.SIGKILL)
            for thread in threads:
                thread.join()
        return process.returncode

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        """Write piece by piece: one large block would be one publish."""
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            for start in range(0, len(self.messages), PIECE):
                process.stdin.write(self.messages[start : start + PIECE])
                process.stdin.flush()
                time.sleep(PAUSE)

    def _collect(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.answers.append(line)
            self.spoke.set()
        self.spoke.set()

    def acknowledged(self) -> dict[str, int]:
        """Last acknowledged number of each stream; a line that the kill cut off is none."""
        found = dict.fromkeys(STREAMS, 0)
        for line in self.answers:
            if line.endswith(b"\n"):
                message = parse(line)
                if message["type"] == "STATE":
                    inner = message["state"]["stream"]
                    found[inner["stream_descriptor"]["name"]] = inner["stream_state"]["number"]
        return found


def paced(connection: Connection, catalog: Message, publish_bytes: int) -> list[str | os.PathLike[str]]:
    """Command line of the sync with a publish every `publish_bytes`."""
    _, _, _, config, _, catalog_path = connection.command(catalog)
    return [sys.executable, PACED, str(publish_bytes), config, catalog_path]


def moments(seed: int, seconds: float) -> Iterator[Callable[[Attempt], None]]:
    """Random moments: one in eight while the sync starts up, the others while it writes."""
    source = random.Random(seed)
    while True:
        starting = source.random() < 0.125
        delay = source.uniform(0, 0.5 if starting else seconds)

        def wait(attempt: Attempt, starting: bool = starting, delay: float = delay) -> None:
            if not starting:
                assert attempt.spoke.wait(60)
            time.sleep(delay)

        yield wait


def assert_kept(connection: Connection, name: str, acknowledged: Mapping[int, int], sent: int) -> None:
    """Every attempt's rows are the first that it sent, each once, and at least what was acknowledged."""
    table = lake.table(connection.lake, ("", name))
    ids = table["_airbyte_raw_id"]
    assert pc.count_distinct(ids).as_py() == len(ids)
    attempts, numbers = table["attempt"].to_numpy(), table["number"].to_numpy()
    for attempt, promised in acknowledged.items():
        mine = numbers[attempts == attempt]
        assert np.array_equal(mine, np.arange(1, len(mine) + 1)), f"{name}, attempt {attempt}: {mine}"
        assert promised <= len(mine) <= sent, f"{name}, attempt {attempt}: {len(mine)} of {promised}"
    assert set(attempts.tolist()) <= set(acknowledged)
    last = max(acknowledged)
    rows = table.filter(pc.equal(table["attempt"], last)).to_pylist()
    for row in rows:
        assert row["text"] == text_of(last, row["number"])
        assert json.loads(row["more"]) == {"n": [row["number"]]}


@pytest.mark.parametrize(
    "kills", [12, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_what_was_acknowledged_before_a_kill_is_there_exactly_once(
    connection: Connection, kills: int
) -> None:
    rows = 1200
    command = paced(connection, CATALOG, publish_bytes=8_000)

    def attempt(number: int, wait: Callable[[Attempt], None] | None) -> int:
        trial = Attempt(command, lines(delivery(number, rows)))
        status = trial.run(wait)
        for name, promised in trial.acknowledged().items():
            acknowledged[name][number] = promised
        return status

    acknowledged: dict[str, dict[int, int]] = {name: {} for name in STREAMS}
    began = time.monotonic()
    assert attempt(0, None) == 0
    seconds = time.monotonic() - began
    killed = partly = 0
    for number, wait in zip(range(1, kills + 1), moments(kills, seconds), strict=False):
        status = attempt(number, wait)
        assert status in (0, -signal.SIGKILL), status
        killed += status != 0
        partly += 0 < acknowledged["red"][number] < rows
        for name in STREAMS:
            assert_kept(connection, name, acknowledged[name], rows)
    assert attempt(kills + 1, None) == 0
    for name in STREAMS:
        assert_kept(connection, name, acknowledged[name], rows)
        assert acknowledged[name][kills + 1] == rows
    # The test is worth something only if it hit syncs in their middle.
    assert killed >= kills // 3
    assert partly >= kills // 6


def test_an_overwrite_that_is_killed_shows_the_old_rows_until_one_succeeds(connection: Connection) -> None:
    rows = 600

    def overwrite(number: int, wait: Callable[[Attempt], None] | None) -> int:
        streams = [stream(name, **PROPERTIES) for name in STREAMS]
        generation = {"generation_id": number, "minimum_generation_id": number}
        catalog = configure(streams, "overwrite", **generation)
        command = paced(connection, catalog, publish_bytes=8_000)
        return Attempt(command, lines(delivery(number, rows))).run(wait)

    def shown(name: str) -> set[int]:
        table = lake.table(connection.lake, ("", name))
        assert table["number"].to_pylist() == list(range(1, rows + 1))
        return set(table["attempt"].to_pylist())

    began = time.monotonic()
    assert overwrite(1, None) == 0
    seconds = time.monotonic() - began
    current = dict.fromkeys(STREAMS, 1)
    for number, wait in zip(range(2, 8), moments(5, seconds), strict=False):
        status = overwrite(number, wait)
        for name in STREAMS:
            (attempt,) = shown(name)
            # Each stream swaps by itself at the end: the kill may have come between or after the swaps.
            assert attempt in (current[name], number)
            assert status != 0 or attempt == number
            current[name] = attempt
    assert overwrite(8, None) == 0
    assert [shown(name) for name in STREAMS] == [{8}, {8}]
