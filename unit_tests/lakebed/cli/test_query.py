"""``lakebed query`` prints, counts, explains and stores what a query finds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main


@pytest.fixture
def url(tmp_path: Path) -> str:
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("name", htype="text")
    ds.extend({"x": [1, 2, 3], "name": ["a", "b, c", "\x1b[31m"]})
    ds.commit()
    return str(tmp_path / "ds")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["query", *arguments])


def test_rows_are_printed_for_people_and_programs(url: str) -> None:
    assert run(url, "SELECT * WHERE x < 3").output.splitlines()[-1] == "2 rows"
    found = run(url, "SELECT x * 2 AS y, name", "--json").output.splitlines()
    assert [json.loads(line)["y"] for line in found] == [2, 4, 6]
    assert run(url, "SELECT x, name WHERE x < 3", "--csv").output.splitlines() == [
        "x,name",
        "1,a",
        '2,"b, c"',
    ]
    assert "\x1b" not in run(url, "SELECT *").output
    assert run(url, "SELECT * WHERE x > ? AND name != ?", "-p", "1", "-p", "z", "--count").output == "2\n"
    named = ["--param", "low=1", "--param", 'some=["z", "y"]', "--param", "a=b=c", "--count"]
    assert run(url, "SELECT * WHERE x > $low AND name NOT IN ($some) AND name != $a", *named).output == "2\n"
    assert run(url, "SELECT * WHERE name == $n", "--param", "n=' OR true --", "--count").output == "0\n"
    assert (
        run(url, "SELECT * WHERE x > coalesce($none, 1)", "--param", "none=null", "--count").output == "2\n"
    )
    assert "no value was given for $low (line 1, column 20)" in run(url, "SELECT * WHERE x > $low").output
    for more in (["low"], ["low=1", "-p", "1"], ["low=[1"], ["=1"]):
        assert run(url, "SELECT * WHERE x > $low", "--param", *more).exit_code == 2
    assert "where x > 1" in run(url, "SELECT * WHERE x > 1", "--explain").output
    assert "1 of them shown" in run(url, "SELECT *", "-n", "1").output


def test_rows_are_stored(url: str, tmp_path: Path) -> None:
    assert run(url, "SELECT x WHERE x > 1", "--parquet", str(tmp_path / "o.parquet")).exit_code == 0
    assert pq.read_table(tmp_path / "o.parquet")["x"].to_pylist() == [2, 3]
    assert run(url, "SELECT x + 1 AS y", "--save", str(tmp_path / "saved")).exit_code == 0
    assert lakebed.load(tmp_path / "saved").y.numpy().ravel().tolist() == [2, 3, 4]
    assert run(url, "SELECT * WHERE x > 1", "--save", str(tmp_path / "view")).exit_code == 0
    assert lakebed.load(tmp_path / "view").x.numpy().ravel().tolist() == [2, 3]


def test_a_wrong_query_is_told_with_its_place(url: str) -> None:
    found = run(url, "SELECT * WHERE nmae = 'a'")
    assert found.exit_code == 1
    assert found.output.splitlines() == [
        "Error: there is no column 'nmae'; did you mean 'name'? (line 1, column 16)",
        "    SELECT * WHERE nmae = 'a'",
        "                   ^",
    ]
    hostile = run(url, "SELECT * WHERE \"\x1b[31m\" = 'a'")
    assert "\\x1b[31m" in hostile.output
    assert "\x1b" not in hostile.output


def test_lists_stay_lists_and_labels_have_names(tmp_path: Path) -> None:
    """``[]`` and ``[3]`` are lists in JSON, of stored and of computed columns; groups tell classes by name."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("v", dtype="int64")
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("kind", htype="class_label", class_names=["wren", "kite"])
    with ds:
        for n, v in enumerate([[1, 2], [], [3], None]):
            ds.append({"v": v if v is None else np.array(v, np.int64), "n": n, "kind": n % 2})
    ds.commit()
    url = str(tmp_path / "ds")
    values = [[1, 2], [], [3], None]
    for query in ("SELECT v, n", "SELECT v, n + 0 AS n"):
        lines = map(json.loads, run(url, query, "--json").output.splitlines())
        assert list(lines) == [{"v": v, "n": n} for n, v in enumerate(values)]
    head = json.loads(CliRunner().invoke(main, ["head", url, "--json"]).output)
    assert [(row["v"], row["n"]) for row in head] == [(v, n) for n, v in enumerate(values)]
    groups = "SELECT kind[0] AS kind, count(*) AS n GROUP BY kind"
    counted = [json.loads(line) for line in run(url, groups, "--json").output.splitlines()]
    assert counted == [{"kind": "wren", "n": 2}, {"kind": "kite", "n": 2}]
    found = lakebed.load(url).query(groups)
    assert found.to_arrow().to_pylist() == counted
    assert repr(found).splitlines()[1:] == ["kind  n", "wren  2", "kite  2"]
    assert "<td>kite</td><td>2</td>" in found._repr_html_()
