"""PyAirbyte runs the connector, and what it says it has written is in the lake.

Its own smoke test is content with a destination that stores nothing, so the rows are read back here.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from integration_tests import lake
from integration_tests.conftest import FAKER, ROOT, Recording
from integration_tests.connector import EXECUTABLE, Connection, write_json
from integration_tests.messages import StreamName, parse, records
from integration_tests.oracle import expected, kinds

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

PROGRAMS = ROOT / ".cache/venvs/pyairbyte/bin"
SYNC = Path(__file__).with_name("pyairbyte_sync.py")


def call(command: Sequence[str | Path], folder: Path) -> str:
    """Run a program of PyAirbyte's environment; what it printed."""
    if not PROGRAMS.exists():
        pytest.skip("PyAirbyte is not installed; `make test` installs it")
    path = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])
    settings = {**os.environ, "PATH": path, "DO_NOT_TRACK": "1", "AIRBYTE_OFFLINE_MODE": "1"}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_source_is_written_by_a_local_executable(connection: Connection) -> None:
    """`get_destination(local_executable=...)`, `check`, `write`."""
    if not FAKER.exists():
        pytest.skip(f"{FAKER.name} is not installed; `make test` installs it")
    source = write_json(connection.folder / "source.json", {"count": 300, "seed": 7, "parallelism": 1})
    command: list[str | Path] = [PROGRAMS / "python", "-W", "ignore", SYNC, FAKER, source, EXECUTABLE]
    said = call([*command, connection.folder / "config.json"], connection.folder)
    (result,) = [line.split()[1] for line in said.splitlines() if line.startswith("RESULT")]
    found = {name: lake.open_stream(connection.lake, name) for name in lake.datasets(connection.lake)}
    lengths = {name[1]: len(dataset) for name, dataset in found.items()}
    assert lengths["users"] == 300
    assert lengths["products"] == 100
    assert sum(lengths.values()) == int(result)
    assert all(dataset.commits for dataset in found.values())


def test_the_smoke_test_passes_and_its_rows_are_there(connection: Connection, smoke: Recording) -> None:
    """All scenarios; the values are those of a run of source-smoke-test of our own."""
    config = connection.folder / "config.json"
    command: list[str | Path] = [
        PROGRAMS / "pyab",
        "destination-smoke-test",
        f"--destination={EXECUTABLE}",
        f"--config={config}",
    ]
    said = call([*command, "--scenarios=all"], connection.folder)
    report = json.loads(said[said.index("{\n") : said.rindex("}") + 1])
    assert report["success"], report

    sent = {name: rows for (_, name), rows in records(smoke.messages).items()}
    streams = {configured["stream"]["name"]: configured["stream"] for configured in smoke.catalog["streams"]}
    found: dict[str, StreamName] = {
        name: (namespace, name) for namespace, name in lake.datasets(connection.lake) if name in streams
    }
    assert set(sent) <= set(found)
    delivered = 0
    for name, where in found.items():
        fields = kinds(streams[name]["json_schema"])
        wanted = [expected(record, fields).values for record in sent.get(name, [])]
        # PyAirbyte asks for deduplication where there is a key; without a cursor, what came last counts.
        keys = [path[0] for path in streams[name].get("source_defined_primary_key") or []]
        if keys:
            wanted = [*{tuple(row[key] for key in keys): row for row in wanted}.values()]
        rows = [
            {field: value for field, value in row.items() if field not in lake.META}
            for row in lake.rows(connection.lake, where)
        ]
        assert sorted(map(plain, rows)) == sorted(map(plain, wanted)), name
        delivered += len(rows)
    assert delivered > 100
    assert report["records_delivered"] >= delivered


def plain(row: dict[str, Any]) -> str:
    """A row as a text that can be compared and sorted."""
    return repr(sorted(parse(json.dumps(row, default=str)).items()))
