"""`lakebed doctor` at every store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import lakebed
from integration_tests.stores import servers
from lakebed.cli import main
from lakebed.storage import guarantees

_ROWS = {
    "moto": guarantees.S3_LIKE,
    "ceph": guarantees.S3_LIKE,
    "azurite": guarantees.AZURE,
    "gcs": guarantees.GOOGLE,
    "rclone": guarantees.WEAK,
}


@pytest.mark.parametrize("name", servers.parameters())
def test_a_store_is_tried_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells who lets us in and what can be relied on, shows no secret and leaves nothing behind."""
    with servers.BY_NAME[name]() as store:
        for variable, value in store.environment.items():
            monkeypatch.setenv(variable, value)
        url = store.url("doctor")
        result = CliRunner().invoke(main, ["doctor", url, "--json"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.output)["place"]
        assert found["writing"] == "works"
        assert found["dataset"] == "none here"
        assert found["conditional writes"] == ("NOT enforced" if name == "rclone" else "enforced")
        assert found["guarantees"]["place"] == _ROWS[name].place
        assert found["let in by"]
        for key, secret in store.creds.items():
            assert ("secret" not in key and "account_key" not in key) or secret not in result.output
        assert not list(lakebed.storage.url.open_storage(url).list())


def test_a_web_server_is_for_reading(tmp_path: Path) -> None:
    """A dataset that it shows opens without being asked to be read-only."""
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("x").extend([1, 2, 3])
    ds.commit("first")
    ds.close()
    with servers.web(tmp_path) as site:
        found = json.loads(CliRunner().invoke(main, ["doctor", site.url("ds"), "--json"]).output)["place"]
        assert found["dataset"] == "yes"
        assert found["writing"] == "not tried"
        assert found["guarantees"]["place"] == guarantees.WEB.place
        seen = lakebed.load(site.url("ds@main"))
        assert seen["x"].numpy().ravel().tolist() == [1, 2, 3]
        with pytest.raises(lakebed.errors.LakebedError, match=r"web server|read"):
            seen.x.append(4)
