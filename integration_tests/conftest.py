"""Fixtures: a connection of its own for each test, and recordings of real sources for the session."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration_tests.connector import Connection, write_json
from integration_tests.messages import Json, Message, configure, read

ROOT = Path(__file__).resolve().parent.parent
FAKER = ROOT / ".cache/venvs/faker/bin/source-faker"
SMOKE = ROOT / ".cache/venvs/pyairbyte/bin/source-smoke-test"


@dataclass(frozen=True)
class Recording:
    """What a source said: its catalog, configured, and the messages of a read."""

    catalog: Message
    lines: bytes

    @property
    def messages(self) -> list[Message]:
        return list(read(self.lines))


def record(executable: Path, config: Json, folder: Path, **options: Json) -> Recording:
    """Discover and read a real source."""
    if not executable.exists():
        pytest.skip(f"{executable.name} is not installed; `make test` installs it")

    def call(command: str, *arguments: str | Path) -> bytes:
        line = [executable, command, "--config", config_path, *arguments]
        return subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    config_path = write_json(folder / "source.json", config)
    found = next(m for m in read(call("discover")) if m["type"] == "CATALOG")
    catalog = configure(found["catalog"]["streams"], **options)
    for configured in catalog["streams"]:
        if "incremental" in configured["stream"]["supported_sync_modes"]:
            configured["sync_mode"] = "incremental"
            configured["cursor_field"] = configured["stream"].get("default_cursor_field", [])
    lines = call("read", "--catalog", write_json(folder / "source-catalog.json", catalog))
    return Recording(catalog, lines)


@pytest.fixture
def connection(tmp_path: Path) -> Connection:
    """A lake that does not exist yet, and its configuration."""
    return Connection.make(tmp_path)


@pytest.fixture(scope="session")
def faker(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """users, products and purchases of source-faker, with incremental states."""
    config = {"count": 1500, "seed": 42, "parallelism": 1, "records_per_slice": 100}
    return record(FAKER, config, tmp_path_factory.mktemp("faker"), generation_id=3, sync_id=17)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """All scenarios of source-smoke-test."""
    config = {"all_fast_streams": True, "all_slow_streams": True}
    return record(SMOKE, config, tmp_path_factory.mktemp("smoke"), generation_id=1, sync_id=2)
