"""A running sync that is killed at a moment of its own progress."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from integration_tests.connector import Connection
from integration_tests.messages import Message, parse
from unit_tests.proofs.kill import Nursery

PIECE, PAUSE = 6_000, 0.01
"""Bytes that are written at once, and the seconds before the next."""


@dataclass
class Attempt:
    """One running sync, in a worker of `paced`: fed by a thread, its answers collected by another."""

    nursery: Nursery
    arguments: list[Any]
    messages: bytes
    answers: list[bytes] = field(default_factory=list)
    ended: bool = False
    heard: threading.Condition = field(default_factory=threading.Condition)
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables beside those of this process."""

    def run(self, wait: Callable[[Attempt], None] | None) -> int:
        """Start, call `wait`, then kill; without `wait`, let it end. Returns the exit status."""
        (given, feeding), (hearing, answers) = os.pipe(), os.pipe()
        threads = [
            threading.Thread(target=self._feed, args=[feeding]),
            threading.Thread(target=self._collect, args=[hearing]),
        ]
        for thread in threads:
            thread.start()
        # The worker opens its ends by these names; ours would keep the threads waiting when it is gone.
        ends = [f"/proc/{os.getpid()}/fd/{end}" for end in (given, answers)]
        try:
            order = [*self.arguments, dict(self.environ), *ends]
            return self.nursery.run(order, None if wait is None else lambda: wait(self)).status
        finally:
            os.close(given)
            os.close(answers)
            for thread in threads:
                thread.join()

    def _feed(self, feeding: int) -> None:
        """Write piece by piece: one large block would be one publish."""
        with contextlib.suppress(BrokenPipeError), open(feeding, "wb", buffering=0) as pipe:
            for start in range(0, len(self.messages), PIECE):
                pipe.write(self.messages[start : start + PIECE])
                time.sleep(PAUSE)

    def _collect(self, hearing: int) -> None:
        with open(hearing, "rb") as pipe:
            for line in pipe:
                with self.heard:
                    self.answers.append(line)
                    self.heard.notify_all()
        with self.heard:
            self.ended = True
            self.heard.notify_all()

    def wait_for(self, answers: int) -> None:
        """Wait until it has said so many lines, or ended."""
        with self.heard:
            assert self.heard.wait_for(lambda: self.ended or len(self.answers) >= answers, 60)

    def acknowledged(self) -> dict[str, int]:
        """Last acknowledged number of each stream that has one; a line that the kill cut off is none."""
        found: dict[str, int] = {}
        for line in self.answers:
            if line.endswith(b"\n"):
                message = parse(line)
                if message["type"] == "STATE":
                    inner = message["state"]["stream"]
                    found[inner["stream_descriptor"]["name"]] = inner["stream_state"]["number"]
        return found


def paced(connection: Connection, catalog: Message, publish_bytes: int, at_once: int = 0) -> list[Any]:
    """Arguments of a sync with a publish every `publish_bytes`; see `paced.py` for `at_once`."""
    _, _, _, config, _, catalog_path = connection.command(catalog)
    return [publish_bytes, at_once, str(config), str(catalog_path)]


def moments(seed: int, answers: int, ends: float = 0.0) -> Iterator[Callable[[Attempt], None]]:
    """Random moments: one in eight while the sync starts up, a share `ends` after all is said, the others in between.

    Those are told by how much it has answered, of the `answers` of a whole sync: a clock would hit the middle of a
    sync on an idle machine only.
    """
    source = random.Random(seed)
    while True:
        kind = source.random()
        starting, ending = kind < 0.125, kind > 1 - ends
        delay = source.uniform(0, 0.5 if starting or ending else 0.03)
        answer = 0 if starting else answers if ending else source.randrange(1, answers + 1)

        def wait(attempt: Attempt, answer: int = answer, delay: float = delay) -> None:
            attempt.wait_for(answer)
            time.sleep(delay)

        yield wait
