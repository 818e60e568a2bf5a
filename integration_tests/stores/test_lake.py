"""`lakebed ls` of a bucket."""

from __future__ import annotations

import json

from click.testing import CliRunner

import lakebed
from integration_tests.stores.servers import Server
from lakebed.cli import main


def test_all_datasets_below_a_prefix_are_listed(ambient: Server) -> None:
    """Those in folders below others, too; versions and side files are none."""
    lake = ambient.url("lake")
    for name in ("birds", "birds/eggs", "deep/down/fish"):
        ds = lakebed.empty(f"{lake}/{name}")
        ds.create_tensor("n").extend([1, 2])
        ds.commit("two")
    for address, expected in (
        (lake, ["birds", "birds/eggs", "deep/down/fish"]),
        (f"{lake}/deep/", ["down/fish"]),
        (f"{lake}/birds", [".", "eggs"]),
    ):
        result = CliRunner().invoke(main, ["ls", address, "--json"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.output)
        assert [entry["path"] for entry in found] == expected
        assert all(entry["rows"] == 2 for entry in found)
    assert "no datasets" in CliRunner().invoke(main, ["ls", f"{lake}/nothing"]).output
