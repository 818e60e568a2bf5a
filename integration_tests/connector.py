"""The connector as the platform runs it: a process with files, a pipe in and a pipe out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from integration_tests.messages import Json, Message, read

EXECUTABLE = Path(sys.executable).with_name("destination-deeplake")


@dataclass(frozen=True)
class Outcome:
    """What a command of the connector left behind."""

    status: int
    output: list[bytes]
    """Lines on standard output."""
    errors: str

    @property
    def messages(self) -> list[Message]:
        return list(read(self.output))

    @property
    def failures(self) -> list[Message]:
        """Error objects of the TRACE messages."""
        traces = [message["trace"] for message in self.messages if message["type"] == "TRACE"]
        return [trace["error"] for trace in traces if trace["type"] == "ERROR"]

    def succeeded(self) -> Outcome:
        """Return itself, and fail with what the connector said if it did not exit with 0."""
        assert self.status == 0, (self.failures, self.errors[-4000:])
        return self


def write_json(path: Path, value: Json) -> Path:
    path.write_text(json.dumps(value, default=float), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Connection:
    """A lake and a folder for the configuration files of its syncs."""

    lake: Path
    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Connection:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", {"destination_path": str(folder / "lake")})
        return cls(folder / "lake", folder)

    def command(self, catalog: Message) -> list[str | os.PathLike[str]]:
        """Command line of a sync with this catalog."""
        path = write_json(self.folder / "catalog.json", catalog)
        return [EXECUTABLE, "write", "--config", self.folder / "config.json", "--catalog", path]

    def sync(self, catalog: Message, lines: bytes) -> Outcome:
        """Run a whole sync of the given lines."""
        return run(self.command(catalog), lines)


def run(
    command: Sequence[str | os.PathLike[str]], given: bytes = b"", environ: Mapping[str, str] | None = None
) -> Outcome:
    """Run a command to its end; `environ` are variables beside those of this process."""
    variables = {**os.environ, **(environ or {})}
    done = subprocess.run(command, input=given, capture_output=True, check=False, env=variables)
    return Outcome(done.returncode, done.stdout.splitlines(), done.stderr.decode(errors="replace"))
