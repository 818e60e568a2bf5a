"""`lakebed doctor`: what is installed, what a place can do, what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import lakebed
from lakebed import config
from lakebed.cli import main
from lakebed.storage import guarantees
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.objects import ObjectStorage


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def test_tells_what_is_installed_and_what_to_count_on() -> None:
    """Without an address: versions, and the whole table."""
    text = run()
    assert lakebed.__version__ in text
    assert "compiled" in text
    for row in guarantees.TABLE:
        assert row.place in text
    assert "place" not in json.loads(run("--json"))


def test_a_local_folder(tmp_path: Path) -> None:
    """It is tried out, and nothing stays behind."""
    lakebed.empty(str(tmp_path / "ds"), overwrite=True)
    before = sorted(path.name for path in (tmp_path / "ds").rglob("*"))
    found = json.loads(run(str(tmp_path / "ds"), "--json"))["place"]
    assert found["dataset"] == "yes"
    assert found["writing"] == "works"
    assert found["conditional writes"] == "enforced"
    assert found["guarantees"]["place"] in (guarantees.LOCAL.place, guarantees.NETWORK_FOLDER.place)
    assert sorted(path.name for path in (tmp_path / "ds").rglob("*")) == before


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """Nothing is written with --read-only either."""
    assert "not tried" in run(str(tmp_path / "none"))
    assert "not tried" in run(str(tmp_path), "--read-only")
    assert not list(tmp_path.iterdir())


def test_a_store_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause is told, the secret is not, and the status says that something is wrong."""
    monkeypatch.setattr(config, "RETRY_SECONDS", 0.2)
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "topsecret"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
    ):
        monkeypatch.setenv(name, value)
    text = run("s3://bucket/ds", status=1)
    assert "refused" in text
    assert "StorageUnavailableError" in text
    assert "let in by: environment" in text
    assert "topsecret" not in text


def test_each_store_has_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its scheme, its server, and what was found out about conditions."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    anonymous = {"anonymous": True}
    assert guarantees.guarantees_of(MemoryStorage()) is guarantees.MEMORY
    assert guarantees.guarantees_of(ObjectStorage("s3", "b", creds=anonymous)) is guarantees.S3
    alike = ObjectStorage("s3", "b", creds={**anonymous, "endpoint_url": "http://127.0.0.1:1"})
    assert guarantees.guarantees_of(alike) is guarantees.S3_LIKE
    assert guarantees.guarantees_of(alike, conditional=False) is guarantees.WEAK
    assert guarantees.guarantees_of(ObjectStorage("gs", "b")) is guarantees.GOOGLE
    assert guarantees.guarantees_of(ObjectStorage("az", "c")) is guarantees.AZURE
    assert guarantees.guarantees_of(ObjectStorage("https", "host")) is guarantees.WEB


def test_knows_the_file_system_of_a_path() -> None:
    """As Linux calls it."""
    assert guarantees.file_system("/proc/self") == "proc"
