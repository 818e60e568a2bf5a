"""A Ray cluster of this machine: nodes that are programs of their own, which tests kill."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
_START_SECONDS = 90.0


class Nodes:
    """A head and further nodes, of one CPU each; ``with`` ends them all."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._folder = Path(tempfile.mkdtemp(prefix="ray-"))  # short: sockets lie there
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        port = self.address.partition(":")[2]
        head = ("--head", "--port", port, "--include-dashboard=false", "--temp-dir", str(self._folder))
        try:
            self._start(head, ())
        except BaseException:
            self.__exit__()
            raise
        return self

    def add(self, hidden: str = "") -> int:
        """Start a node, and return its number.

        Parameters
        ----------
        hidden
            A folder that it does not see: it lies on a disk of its own there.
        """
        around: tuple[str, ...] = ()
        if hidden:
            script = f'mount -t tmpfs none "{hidden}" && exec "$@"'
            around = ("unshare", "-m", "sh", "-c", script, "sh")
        return self._start(("--address", self.address), around)

    def _start(self, arguments: tuple[str, ...], around: tuple[str, ...]) -> int:
        log = self._folder / f"node{len(self._started)}.log"
        environment = {
            **os.environ,
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "AWS_ACCESS_KEY_ID": "key",  # of a server of S3 that takes any
            "AWS_SECRET_ACCESS_KEY": "secret",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'format'}",
        }
        environment.pop("RAY_ADDRESS", None)
        program = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "1"]
        program += ["--node-ip-address", "127.0.0.1", "--object-store-memory", "100000000"]
        with log.open("wb") as output:
            started = subprocess.Popen(
                [*around, *program, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # its whole tree of processes can be killed
            )
        self._started.append(started)
        until = time.monotonic() + _START_SECONDS
        while "Ray runtime started" not in log.read_text():
            if started.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"a node of Ray did not start:\n{log.read_text()}")
            time.sleep(0.1)
        return len(self._started) - 1

    def kill(self, number: int) -> None:
        """Kill -9 a node with all of its workers."""
        started = self._started[number]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()

    def __exit__(self, *error: object) -> None:
        for number in reversed(range(len(self._started))):
            self.kill(number)
        shutil.rmtree(self._folder, ignore_errors=True)
