"""Run a process and say what it cost."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ENVIRONMENT = {**os.environ, "DO_NOT_TRACK": "1", "AIRBYTE_OFFLINE_MODE": "1"}
# Everybody may use compiled Python files: what is compared is work, not compiling.
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)


@dataclass(frozen=True)
class Cost:
    """What one process used, its waited-for children included."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    output: bytes


def run(
    command: Sequence[str | Path],
    given: Path | None = None,
    times: int = 1,
    variables: Mapping[str, str] | None = None,
) -> Cost:
    """Run a command to its end.

    Parameters
    ----------
    given
        File that is piped into it.
    times
        How often the file is sent.
    variables
        Further environment variables.

    Raises
    ------
    RuntimeError
        If it does not exit with 0.
    """
    feeder = None
    stdin: int | IO[bytes] = subprocess.DEVNULL
    if given is not None:
        feeder = subprocess.Popen(["cat", *[given] * times], stdout=subprocess.PIPE)
        assert feeder.stdout is not None
        stdin = feeder.stdout
    began = time.perf_counter()
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env={**ENVIRONMENT, **(variables or {})},
        )
        assert process.stdout is not None
        if feeder is not None and feeder.stdout is not None:
            feeder.stdout.close()  # else nobody tells the feeder when the process is gone
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
        if feeder is not None:
            feeder.wait()
        if process.returncode:
            complaints.seek(0)
            said = (output[-2000:] + complaints.read()[-4000:]).decode(errors="replace")
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {process.returncode}: {said}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024, output)
