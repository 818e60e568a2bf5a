"""A process that is killed while it writes to an object store loses nothing that it acknowledged."""

from __future__ import annotations

from pathlib import Path

from integration_tests.stores.servers import Server
from integration_tests.versions.test_sigkill import Record, kill_often
from unit_tests.effort import EFFORT


def test_a_killed_process_loses_nothing_that_it_acknowledged(
    tmp_path: Path, ambient: Server, record_property: Record
) -> None:
    """0 unopenable, 0 torn rows, all acknowledged operations there."""
    kill_often(tmp_path, EFFORT.store_kills, record_property, ambient.url)
