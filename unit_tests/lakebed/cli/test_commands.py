"""The commands show what lies in a dataset, to people and to programs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    ds = lakebed.empty(tmp_path / "lake" / "shop" / "users")
    ds.create_tensor("id", dtype="int64")
    ds.create_tensor("name", htype="text")
    ds.create_tensor("born", dtype="int32")
    ds["born"].info["logical_type"] = "date32[day]"
    ds.create_tensor("extra", htype="json")
    ds.info["source"] = "test"
    ds.extend(
        {
            "id": [1, 2, 3],
            "name": pa.array(["ann", None, "zoë\nx"]),
            "born": pa.array([0, 1, None], pa.int32()),
            "extra": [{"a": 1}, {}, [1]],
        }
    )
    ds.commit("three users")
    ds.append({"id": 4, "name": "dan", "born": 3, "extra": None})
    ds.commit("one more")
    lakebed.empty(tmp_path / "lake" / "nothing")
    return tmp_path / "lake"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_ls_finds_the_datasets_below_a_folder(lake: Path) -> None:
    shown = run("ls", lake)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0].split()[:3] == ["dataset", "rows", "tensors"]
    assert [line.split()[:3] for line in lines[2:]] == [["nothing", "0", "0"], ["shop/users", "4", "4"]]
    found = json.loads(run("ls", lake, "--json").stdout)
    assert [(e["path"], e["rows"], e["message"]) for e in found] == [
        ("nothing", 0, "-"),
        ("shop/users", 4, "one more"),
    ]


def test_info_shows_schema_versions_and_info(lake: Path) -> None:
    facts = json.loads(run("info", lake / "shop/users", "--json").stdout)
    assert facts["rows"] == 4
    assert facts["commits"] == 2
    assert facts["info"] == {"source": "test"}
    tensors = {t["name"]: t for t in facts["tensors"]}
    assert tensors["id"]["dtype"] == "int64"
    assert tensors["born"]["logical_type"] == "date32[day]"
    assert tensors["name"]["htype"] == "text"
    text = run("info", lake / "shop/users").stdout
    assert "date32[day]" in text
    assert "source: test" in text


def test_head_shows_rows_with_nulls_dates_and_json(lake: Path) -> None:
    shown = run("head", lake / "shop/users", "-n", 3, "--json").stdout.splitlines()
    assert [json.loads(line) for line in shown] == [
        {"id": 1, "name": "ann", "born": "1970-01-01", "extra": {"a": 1}},
        {"id": 2, "name": None, "born": "1970-01-02", "extra": {}},
        {"id": 3, "name": "zoë\nx", "born": None, "extra": [1]},
    ]
    table = run("head", lake / "shop/users", "-t", "name", "-t", "id").stdout
    assert table.splitlines()[0].split() == ["name", "id"]
    assert len(table.splitlines()) == 2 + 4
    assert "zoë\\nx" in table


def test_an_address_may_name_a_commit(lake: Path) -> None:
    commits = json.loads(run("log", lake / "shop/users", "--json").stdout)
    assert [c["message"] for c in commits] == ["one more", "three users"]
    first = commits[1]["commit"]
    assert json.loads(run("info", f"{lake / 'shop/users'}@{first}", "--json").stdout)["rows"] == 3
    assert "three users" in run("log", f"{lake / 'shop/users'}@{first}").stdout
    assert "one more" not in run("log", f"{lake / 'shop/users'}@{first}").stdout


@pytest.mark.parametrize("command", ["info", "head", "log"])
def test_what_is_not_there_is_one_sentence_and_exit_code_1(command: str, tmp_path: Path) -> None:
    shown = run(command, tmp_path / "missing")
    assert shown.exit_code == 1
    assert shown.stderr.startswith("Error: A dataset does not exist at")
    assert "Traceback" not in shown.output


def test_looking_changes_nothing(lake: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in lake.rglob("*") if p.is_file()}
    for command in ("info", "head", "log"):
        run(command, lake / "shop/users")
    run("ls", lake)
    assert {p: p.stat().st_mtime_ns for p in lake.rglob("*") if p.is_file()} == before
