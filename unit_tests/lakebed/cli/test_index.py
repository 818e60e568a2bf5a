"""`lakebed index` and `lakebed statistics`: what is kept beside rows is listed, made, brought up to date, dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main


@pytest.fixture
def place(tmp_path: Path) -> str:
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("title", htype="text")
    ds.extend({"title": ["a red kite", "a gull", "kites"]})
    ds.commit()
    return str(tmp_path / "ds")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["index", *arguments])


def test_an_index_is_made_updated_listed_and_dropped(place: str) -> None:
    assert "no indexes yet" in run(place).output
    made = json.loads(run(place, "title", "bm25", "--json").output)
    assert [(info["name"], info["covered"], info["uncovered"]) for info in made] == [("title_bm25", 3, 0)]
    with lakebed.load(place) as ds:
        ds.title.append("late")
    assert json.loads(run(place, "--json").output)[0]["uncovered"] > 0
    assert json.loads(run(place, "--update", "--json").output)[0]["uncovered"] == 0
    assert run(place).output.splitlines()[2].split()[:5] == ["title_bm25", "title", "bm25", "4", "0"]
    assert run(place, "title", "bm25", "--drop").output == "dropped index title_bm25\n"
    assert json.loads(run(place, "--json").output) == []


@pytest.mark.parametrize(
    "arguments",
    [["title"], ["--drop"], ["--drop", "--update"], ["title", "bm25", "--metric", "l2"], ["title", "ivf"]],
)
def test_arguments_that_do_not_go_together_are_refused(place: str, arguments: list[str]) -> None:
    assert run(place, *arguments).exit_code == 2


def test_statistics_are_made_and_told(place: str) -> None:
    found = CliRunner().invoke(main, ["statistics", place])
    assert found.exit_code == 0
    assert found.output.splitlines()[-1].split() == ["title", "1", "1"]
    told = CliRunner().invoke(main, ["statistics", place, "title", "--json"])
    assert json.loads(told.output) == [{"tensor": "title", "chunks": 1, "known": 1}]
    wrong = CliRunner().invoke(main, ["statistics", place, "nothing"])
    assert wrong.exit_code == 1
    assert "nothing" in wrong.output


def test_an_index_that_is_not_there_is_told(place: str) -> None:
    found = run(place, "title", "bm25", "--drop")
    assert found.exit_code == 1
    assert "no index 'title_bm25'" in found.output
