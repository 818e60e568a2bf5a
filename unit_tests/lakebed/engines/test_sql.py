"""``lakebed.sql`` and ``lakebed sql``: statements of DuckDB about datasets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main
from lakebed.engines.sql import tables_of
from lakebed.errors import InvalidInputError


@pytest.fixture
def url(tmp_path: Path) -> str:
    ds = lakebed.empty(tmp_path / "it's")
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("kind", htype="class_label", class_names=["cat", "dog"])
    ds.extend({"x": [1, 2, 3], "kind": [0, 1, 0]})
    ds.commit()
    ds.checkout("more", create=True)
    ds.append({"x": 4, "kind": 1})
    ds.commit()
    return str(tmp_path / "it's")


def fetched(*arguments: object, **options: object) -> list[tuple[object, ...]]:
    found = lakebed.sql(*arguments, **options)  # type: ignore[arg-type]
    assert found is not None
    return found.fetchall()


def test_addresses_versions_and_parameters(url: str) -> None:
    place = url.replace("'", "''")
    assert fetched(f"select sum(x) from LAKE ( '{place}' ) -- lake('no')") == [(6,)]
    assert fetched(
        f"/* é */ select count(*) from lake('{place}') a full join lake('{place}@more') b using (x) "
        "where b.x >= $least",
        parameters={"least": 2},
    ) == [(3,)]
    assert fetched("select 'lake(1)' as said") == [("lake(1)",)]


def test_variables_and_named_tables(url: str) -> None:
    birds = lakebed.load(url, read_only=True)
    found = lakebed.sql('select kind, count(*) from "birds" group by all order by all')
    assert found is not None
    assert found.fetchall() == [("cat", 2), ("dog", 1)]
    connection = duckdb.connect()
    assert fetched("select max(x) from mine", mine=birds[:2], connection=connection) == [(2,)]
    assert connection.sql("select min(x) from mine").fetchall() == [(1,)]


@pytest.mark.parametrize("given", ["1", "?", "'a', 'b'", "", "'a'"])
def test_only_addresses_are_datasets(given: str) -> None:
    if given == "'a'":
        assert tables_of("from lake('a')")[:2] == ('from "a"', ["a"])
    else:
        with pytest.raises(InvalidInputError, match=r"lake\(\) takes one address in single quotes"):
            lakebed.sql(f"from lake({given})")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["sql", *arguments])


def test_the_command_prints_rows(url: str, tmp_path: Path) -> None:
    lake = f"lake('{url}')".replace("it's", "it''s")
    assert run(f"select kind, x from {lake}", "-n", "2").output.splitlines() == [
        "kind  x",
        "----  -",
        "cat   1",
        "dog   2",
        "the first 2 rows",
    ]
    lines = run(f"select sum(x) as s, 1.5::decimal(4,2) as d from {lake}", "--json").output.splitlines()
    assert [json.loads(line) for line in lines] == [{"s": 6, "d": "1.50"}]
    assert run(f"select kind from {lake} limit 1", "--csv").output.splitlines() == ["kind", "cat"]
    run(f"from {lake}", "--parquet", str(tmp_path / "o.parquet"))
    assert pq.read_table(tmp_path / "o.parquet")["x"].to_pylist() == [1, 2, 3]
    run(f"copy (from {lake}) to '{tmp_path / 'o.csv'}'")
    assert (tmp_path / "o.csv").read_text().splitlines()[0] == "x,kind"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("selec 1", 'Error: Parser Error: syntax error at or near "selec"\n\nLINE 1'),
        ("from lake('/no/such')", "does not exist at /no/such"),
        ("select nope from (select 1 as x)", "Binder Error"),
    ],
)
def test_the_command_tells_errors(statement: str, message: str) -> None:
    ended = run(statement)
    assert ended.exit_code == 1
    assert message in ended.output


def test_a_fresh_process(url: str) -> None:
    program = (
        "import lakebed, sys; ds = lakebed.load(sys.argv[1], read_only=True); "
        "print(lakebed.sql('select sum(x) from ds').fetchall())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "[(6,)]"


def test_without_duckdb_the_command_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['duckdb'] = None; from lakebed.cli import main; "
        "sys.argv = ['lakebed', 'sql', 'select 1']; main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "Error: lakebed.sql() needs duckdb, which is not installed: pip install duckdb\n"
