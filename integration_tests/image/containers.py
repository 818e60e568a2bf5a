"""Containers of the connector as the platform runs them: messages in through a pipe, messages out, an exit status.

Nothing may be written but what is mounted: the root file system is read-only and there is no `/tmp`; the user is the
image's own, and there is no network unless a test asks for that of this machine.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.models.containers import Container

from integration_tests.connector import Outcome, write_json
from integration_tests.messages import Json, Message

MEMORY = "512m"
CONFIG, CATALOG, LAKE = "/config/config.json", "/config/catalog.json", "/local"


@dataclass(frozen=True)
class Ended(Outcome):
    """What a container left behind."""

    was_killed_for_memory: bool = False


@dataclass
class Running:
    """A container that was started; what is written goes to its standard input."""

    container: Container
    stdin: socket.socket

    def write(self, lines: bytes) -> None:
        """Send lines; a connector that has ended takes none."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.stdin.sendall(lines)

    def close(self) -> None:
        """End the input."""
        with contextlib.suppress(OSError):
            self.stdin.shutdown(socket.SHUT_WR)

    def lines(self) -> list[bytes]:
        """Lines on standard output so far."""
        found: list[bytes] = self.container.logs(stdout=True, stderr=False).splitlines()
        return found

    def deliver(self, lines: bytes, seconds: float = 60) -> None:
        """Send lines and wait until the connector has read them all."""
        wanted = self._bytes_read() + len(lines)
        self.write(lines)
        end = time.monotonic() + seconds
        while self._bytes_read() < wanted:
            assert time.monotonic() < end, f"not read within {seconds} s"
            time.sleep(0.05)

    def wait_for_states(self, count: int, seconds: float = 60) -> None:
        """Wait until so many states have come back."""
        end = time.monotonic() + seconds
        while sum(b'"STATE"' in line for line in self.lines()) < count:
            assert time.monotonic() < end, f"not {count} states within {seconds} s"
            time.sleep(0.05)

    def _bytes_read(self) -> int:
        told = self.container.exec_run(["cat", "/proc/1/io"]).output.decode()
        return int(dict(line.split(": ") for line in told.splitlines())["rchar"])

    def ended(self, seconds: float = 120) -> Ended:
        """Wait for the end."""
        status = self.container.wait(timeout=seconds)["StatusCode"]
        self.container.reload()
        errors = self.container.logs(stdout=False, stderr=True).decode(errors="replace")
        killed = bool(self.container.attrs["State"]["OOMKilled"])
        return Ended(status, self.lines(), errors, killed)


@dataclass(frozen=True)
class Connector:
    """An image, and a folder of this machine whose `lake` is mounted at `/local`."""

    client: docker.DockerClient
    image: str
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments for the Docker SDK, such as `mem_limit`, for all containers."""

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def mounted(self, config: Json, catalog: Message | None = None) -> dict[str, dict[str, str]]:
        """Write the files of a sync and say where they are mounted; the user of the image owns the lake."""
        self.lake.mkdir(exist_ok=True)
        self.lake.chmod(0o777)
        write_json(self.folder / "config.json", config)
        files = {self.folder / "config.json": CONFIG}
        if catalog is not None:
            files[write_json(self.folder / "catalog.json", catalog)] = CATALOG
        found = {str(path): {"bind": place, "mode": "ro"} for path, place in files.items()}
        return found | {str(self.lake): {"bind": LAKE, "mode": "rw"}}

    @contextlib.contextmanager
    def started(self, command: Sequence[str], **options: Any) -> Iterator[Running]:
        """Start a container, and remove it in the end, whatever it does."""
        settings = {"read_only": True, "mem_limit": MEMORY, "memswap_limit": MEMORY, "network_mode": "none"}
        settings |= {**self.options, **options}
        settings["memswap_limit"] = settings["mem_limit"]
        container = self.client.containers.create(self.image, list(command), stdin_open=True, **settings)
        try:
            attached = container.attach_socket(params={"stdin": 1, "stream": 1})
            with contextlib.closing(attached), contextlib.closing(attached._sock) as stdin:
                container.start()
                yield Running(container, stdin)
        finally:
            container.remove(force=True, v=True)

    def run(self, command: Sequence[str], given: bytes = b"", **options: Any) -> Ended:
        """Run a command to its end."""
        with self.started(command, **options) as running:
            running.write(given)
            running.close()
            return running.ended()

    def check(self, config: Json, **options: Any) -> Ended:
        """Check a configuration."""
        return self.run(["check", "--config", CONFIG], volumes=self.mounted(config), **options)

    @contextlib.contextmanager
    def syncing(self, catalog: Message, config: Json | None = None, **options: Any) -> Iterator[Running]:
        """Start a sync."""
        volumes = self.mounted(config or {"destination_path": LAKE}, catalog)
        command = ["write", "--config", CONFIG, "--catalog", CATALOG]
        with self.started(command, volumes=volumes, **options) as running:
            yield running

    def sync(self, catalog: Message, lines: bytes, config: Json | None = None, **options: Any) -> Ended:
        """Run a whole sync of the given lines."""
        with self.syncing(catalog, config, **options) as running:
            running.write(lines)
            running.close()
            return running.ended()
