"""A process that is killed while it writes to an object store loses nothing that it acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration_tests.stores.servers import Server
from integration_tests.versions.test_sigkill import Record, kill_often

_FEW, _MANY = 8, 200


@pytest.mark.timeout(900)
def test_a_few_killed_processes(tmp_path: Path, ambient: Server, record_property: Record) -> None:
    """0 unopenable, 0 torn rows, all acknowledged operations there."""
    kill_often(tmp_path, _FEW, record_property, ambient.url)


@pytest.mark.soak
@pytest.mark.stores
@pytest.mark.timeout(7200)
def test_many_killed_processes(tmp_path: Path, ambient: Server, record_property: Record) -> None:
    """The same, for longer."""
    kill_often(tmp_path, _MANY, record_property, ambient.url)
