"""Programs that run beside a test: a free port, a wait until it answers, a stop that leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from unit_tests.effort import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / ".cache/stores"


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def program(name: str, variable: str, *places: str) -> str:
    """Find a program by an environment variable, below `.cache/stores`, or on PATH; skip the test if there is none."""
    chosen = os.environ.get(variable)
    candidates = [chosen] if chosen else [*(str(INSTALLED / place) for place in places), name]
    for candidate in candidates:
        found = shutil.which(candidate) or shutil.which(candidate, path="/usr/sbin:/sbin")
        if found:
            return found
    pytest.skip(f"{name} is not installed; `make test-stores` installs it, or name it in {variable}")


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until somebody listens.

    Raises
    ------
    RuntimeError
        If the process ends before, or takes too long; with the end of what it said.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise RuntimeError(f"{process.args!r} does not listen on port {port}:\n{said}")
        time.sleep(0.05)


@contextlib.contextmanager
def running(
    command: Sequence[str],
    port: int,
    *,
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="lakebed-store-") as place:
        log = Path(place) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*_with_us(), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=folder or place,
                start_new_session=True,
            )
        try:
            wait_for_port(port, process, log)
            yield process
        finally:
            stop(process)


def _with_us() -> list[str]:
    """Return the beginning of a command that ends when this process does, however that comes about."""
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "TERM"] if found else []


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process, kindly at first."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Proxy:
    """A program of this package that stands before a server and takes orders: a line of JSON each, answered by one.

    Parameters
    ----------
    module
        File of the program.
    target
        Port of loopback that it passes everything on to.
    """

    def __init__(self, module: str, target: int) -> None:
        self.port = free_port()
        command = [sys.executable, "-E", str(Path(__file__).with_name(module)), str(self.port), str(target)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.order("ready")

    @property
    def endpoint(self) -> str:
        """Address to speak to instead of the server's."""
        return f"http://127.0.0.1:{self.port}"

    def order(self, verb: str, **values: Any) -> Any:
        """Give an order and return the answer."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a proxy is spoken to through pipes")
        process.stdin.write(json.dumps([verb, values]).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{process.args!r} ended with status {process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the program."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        stop(self._process)


def port_of(endpoint: object) -> int:
    """Return the port of a number, an address, or anything with an `endpoint`."""
    if isinstance(endpoint, int):
        return endpoint
    text = str(getattr(endpoint, "endpoint", endpoint))
    return int(text.partition("://")[2].partition("/")[0].rpartition(":")[2])
