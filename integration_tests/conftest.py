"""Fixtures: a connection of its own for each test, and recordings of real sources for the session."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration_tests.connector import Connection, write_json
from integration_tests.messages import Json, Message, configure, read
from integration_tests.sockets.carrier import CARRIERS, Carrier
from unit_tests.once import made_once

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


# Both commands of a source in one process: its packages take seconds to import.
_BOTH = """
import os, runpy, sys

executable, config, catalog, discovered, said = sys.argv[1:]

def call(place, *arguments):
    sys.argv = [executable, arguments[0], "--config", config, *arguments[1:]]
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT), 1)
    try:
        runpy.run_path(executable, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)

call(discovered, "discover")
print(flush=True)
input()
call(said, "read", "--catalog", catalog)
"""


def record(executable: Path, config: Json, folder: Path, **options: Json) -> None:
    """Discover and read a real source: write ``source-catalog.json``, configured, and ``said`` into the folder."""
    config_path = write_json(folder / "source.json", config)
    catalog_path, discovered, said = (folder / name for name in ("source-catalog.json", "discovered", "said"))
    places = map(str, (executable, config_path, catalog_path, discovered, said))
    line = [str(executable.with_name("python")), "-c", _BOTH, *places]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=nowhere) as source:
        assert source.stdout is not None
        assert source.stdout.readline(), f"{executable.name} discovers nothing"
        found = next(m for m in read(discovered.read_bytes()) if m["type"] == "CATALOG")
        catalog = configure(found["catalog"]["streams"], **options)
        for configured in catalog["streams"]:
            if "incremental" in configured["stream"]["supported_sync_modes"]:
                configured["sync_mode"] = "incremental"
                configured["cursor_field"] = configured["stream"].get("default_cursor_field", [])
        write_json(catalog_path, catalog)
        source.communicate(b"\n")
    assert source.returncode == 0


def recording(factory: pytest.TempPathFactory, executable: Path, config: Json, **options: Json) -> Recording:
    """Return what a source says; it is asked once in a run."""
    if not executable.exists():
        pytest.skip(f"{executable.name} is not installed; `make test` installs it")
    folder = made_once(factory, executable.name, lambda new: record(executable, config, new, **options))
    catalog = json.loads((folder / "source-catalog.json").read_bytes())
    return Recording(catalog, (folder / "said").read_bytes())


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
def faker(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """users, products and purchases of source-faker, with incremental states."""
    config = {"count": 1500, "seed": 42, "parallelism": 1, "records_per_slice": 100}
    return recording(tmp_path_factory, FAKER, config, generation_id=3, sync_id=17)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """All scenarios of source-smoke-test."""
    config = {"all_fast_streams": True, "all_slow_streams": True}
    return recording(tmp_path_factory, SMOKE, config, generation_id=1, sync_id=2)
