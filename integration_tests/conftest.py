"""Fixtures: a connection of its own for each test, and recordings of real sources for the session."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration_tests.connector import Connection, write_json
from integration_tests.messages import Json, Message, configure, read
from integration_tests.sockets.carrier import CARRIERS, Carrier
from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from unit_tests.once import made
from unit_tests.proofs.kill import Nursery

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


def record(executable: Path, config: Json, folder: Path, **options: Json) -> None:
    """Discover and read a real source: write ``source-catalog.json``, configured, and ``said`` into the folder."""
    config_path = write_json(folder / "source.json", config)

    def call(command: str, *arguments: str | Path) -> bytes:
        line = [executable, command, "--config", config_path, *arguments]
        return subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout

    found = next(m for m in read(call("discover")) if m["type"] == "CATALOG")
    catalog = configure(found["catalog"]["streams"], **options)
    for configured in catalog["streams"]:
        if "incremental" in configured["stream"]["supported_sync_modes"]:
            configured["sync_mode"] = "incremental"
            configured["cursor_field"] = configured["stream"].get("default_cursor_field", [])
    catalog_path = write_json(folder / "source-catalog.json", catalog)
    (folder / "said").write_bytes(call("read", "--catalog", catalog_path))


def recording(executable: Path, config: Json, **options: Json) -> Recording:
    """Return what a source says; it is asked once after it was installed, since its packages take seconds to import."""
    if not executable.exists():
        pytest.skip(f"{executable.name} is not installed; `make test` installs it")
    asked = json.dumps([config, options, executable.stat().st_mtime_ns]).encode()
    name = f"{executable.name}-{hashlib.sha256(asked).hexdigest()[:16]}"
    folder = made(ROOT / ".cache/recordings" / name, lambda new: record(executable, config, new, **options))
    catalog = json.loads((folder / "source-catalog.json").read_bytes())
    return Recording(catalog, (folder / "said").read_bytes())


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """A process that has imported the connector and forks for each sync that is killed."""
    with Nursery("integration_tests.paced:work") as made:
        yield made


@pytest.fixture(scope="session")
def moto() -> Iterator[Server]:
    """Return S3 as moto speaks it: one server for all tests of a process."""
    with servers.moto() as server:
        yield server


@pytest.fixture
def connection(tmp_path: Path) -> Connection:
    """A lake that does not exist yet, and its configuration."""
    return Connection.make(tmp_path)


@pytest.fixture(
    params=[
        # JSON over sockets has its own tests in `sockets`.
        pytest.param(way, id=name, marks=[pytest.mark.soak] if name == "jsonl-3" else [])
        for name, way in CARRIERS.items()
    ]
)
def carrier(request: pytest.FixtureRequest) -> Carrier:
    """Each way by which messages reach the connector."""
    way: Carrier = request.param
    return way


@pytest.fixture(scope="session")
def faker() -> Recording:
    """users, products and purchases of source-faker, with incremental states."""
    config = {"count": 1500, "seed": 42, "parallelism": 1, "records_per_slice": 100}
    return recording(FAKER, config, generation_id=3, sync_id=17)


@pytest.fixture(scope="session")
def smoke() -> Recording:
    """All scenarios of source-smoke-test."""
    config = {"all_fast_streams": True, "all_slow_streams": True}
    return recording(SMOKE, config, generation_id=1, sync_id=2)
