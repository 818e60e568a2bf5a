"""Run a process and say what it cost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True)
class Cost:
    """What one process used, its waited-for children included."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    output: bytes


def run(command: Sequence[str | Path], given: Path | None = None, times: int = 1) -> Cost:
    """Run a command to its end.

    Parameters
    ----------
    given
        File that becomes its standard input.
    times
        How often the file is sent; more than once goes through a pipe.

    Raises
    ------
    RuntimeError
        If it does not exit with 0.
    """
    began = time.perf_counter()
    stdin: int | IO[bytes] = subprocess.DEVNULL
    feeder = None
    if given is not None and times > 1:
        feeder = subprocess.Popen(["cat", *[given] * times], stdout=subprocess.PIPE)
        assert feeder.stdout is not None
        stdin = feeder.stdout
    elif given is not None:
        stdin = given.open("rb")
    process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if feeder is not None:
        feeder.wait()
    if process.returncode:
        raise RuntimeError(
            f"{' '.join(map(str, command))} ended with {process.returncode}: {output[-2000:]!r}"
        )
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, output)
