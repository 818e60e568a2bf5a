"""Kill real processes at chosen moments.

Starting Python takes longer than most work that is worth killing. A `Nursery` is one process that has everything
imported and forks a worker for each run, which begins within milliseconds::

    with Nursery("my_tests.writer:work") as nursery:
        ended = nursery.run(["/tmp/dataset", 7], kill_after=0.05)

The worker is called with the arguments and a function that prints one line at once: what it acknowledges. It must not
leave threads behind that it needs at its end; it ends without a farewell in any case.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Worker = Callable[[Sequence[Any], Callable[[str], None]], None]


@dataclass(frozen=True)
class Ended:
    """How a worker ended: the signal or exit status, and every line that it had said."""

    status: int
    lines: Sequence[str] = field(default_factory=list)

    @property
    def was_killed(self) -> bool:
        """Whether the signal came before its end."""
        return self.status == -signal.SIGKILL


class Nursery:
    """Forks workers and kills them.

    Parameters
    ----------
    target
        ``"module:function"`` of the worker.
    """

    def __init__(self, target: str) -> None:
        command = [sys.executable, "-m", "unit_tests.proofs.kill", target]
        path = os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)])
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "LAKEBED_TELL_NEW_CLASSES": "0"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()

    def run(self, arguments: Sequence[Any], kill_after: float | Callable[[], None] | None = None) -> Ended:
        """Let one worker work.

        Parameters
        ----------
        arguments
            What it is given; anything that JSON can say.
        kill_after
            Seconds from its beginning to SIGKILL, or a function that waits for it; None lets it come to its end.

        Raises
        ------
        RuntimeError
            If the nursery itself has ended.
        """
        orders, answers = self._process.stdin, self._process.stdout
        if orders is None or answers is None:
            raise RuntimeError("the nursery is closed")
        orders.write(json.dumps([*arguments]) + "\n")
        orders.flush()
        lines: list[str] = []
        over = threading.Event()
        try:
            for line in answers:
                kind, _, rest = line.rstrip("\n").partition(" ")
                if kind == "began" and kill_after is not None:
                    threading.Thread(target=_kill, args=(int(rest), kill_after, over)).start()
                elif kind == "said":
                    lines.append(rest)
                elif kind == "ended":
                    return Ended(int(rest), lines)
        finally:
            over.set()
        raise RuntimeError(f"the nursery ended with status {self._process.wait()}")


def _kill(pid: int, moment: float | Callable[[], None], over: threading.Event) -> None:
    """Kill a process at a moment, unless it is over by then: another one may have its number."""
    if isinstance(moment, int | float):
        over.wait(moment)
    else:
        moment()
    with contextlib.suppress(ProcessLookupError):
        if not over.is_set():
            os.kill(pid, signal.SIGKILL)


def _say(channel: int, text: str) -> None:
    """Write a line with one system call, so that a kill leaves all of it or nothing."""
    os.write(channel, f"{text}\n".encode())


def _fork(worker: Worker, arguments: Sequence[Any], channel: int) -> None:
    """Run the worker in a forked child and tell how it ended."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            worker(arguments, lambda text: _say(channel, f"said {text}"))
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    _say(channel, f"began {pid}")
    _, status = os.waitpid(pid, 0)
    _say(channel, f"ended {os.waitstatus_to_exitcode(status)}")


def main() -> None:
    """Fork a worker for each line of arguments on stdin."""
    module, _, name = sys.argv[1].partition(":")
    worker = getattr(importlib.import_module(module), name)
    # What workers print, half lines of killed ones too, must not get between the answers.
    channel = os.dup(1)
    os.dup2(2, 1)
    while line := sys.stdin.readline():
        _fork(worker, json.loads(line), channel)


if __name__ == "__main__":
    main()
