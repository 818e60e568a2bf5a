"""The scripts of examples/ run as they stand, each in an interpreter of its own, and end in a number or a picture."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from PIL import Image

from integration_tests.postgres import UnavailableError, server
from integration_tests.stores.servers import Server

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"made"}
SCREEN = 70
"""Lines of a script that are seen at once."""

# A pattern of what each prints last, and the picture that it leaves.
ENDS = {
    "clean_a_folder": (r"\{'red': 22, 'blue': 20\} became \{'blue': 21, 'red': 20\}", "clean.png"),
    "coco_to_detection": (r"6 boxes are found, and overlap by [6-9]\d%", "balls.png"),
    "deeplake3_brought_over": ("11 rows came, 12 are there now", None),
    "lake_in_duckdb": ("4 birds are drawn in lake/birds.png", "birds.png"),
    "predictions_compared": ("the first alone is right 555 times", None),
    "search_by_text_and_vector": (r"rows \[6, .*\] are drawn in lake/found\.png", "found.png"),
}
NEEDS = {
    "coco_to_detection": "pycocotools",
    "lake_in_duckdb": "duckdb",
    "search_by_text_and_vector": "usearch",
}


def last_line(name: str, folder: Path, *arguments: str, **environment: str) -> str:
    """Run an example and return the line that it prints last."""
    quiet = "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"  # pycocotools 2.0.11
    command = [sys.executable, "-W", "error", "-W", quiet, str(ROOT / "examples" / f"{name}.py"), *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", sorted(ENDS))
def test_an_example_ends_in_a_number_or_a_picture(name: str, tmp_path: Path) -> None:
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    told, picture = ENDS[name]
    assert re.fullmatch(told, last_line(name, tmp_path))
    if picture is not None:
        assert Image.open(tmp_path / "lake" / picture).getextrema()[0] != (0, 0)


def test_two_ranks_see_each_row_of_a_bucket_once(tmp_path: Path, moto: Server) -> None:
    place = f"s3://{moto.new_bucket()}/photos"
    told = last_line("stream_on_two_ranks", tmp_path, place, **moto.environment)
    assert told == "96 rows seen, 96 of them once"


def test_a_table_of_postgresql_becomes_a_training_set(tmp_path: Path) -> None:
    pytest.importorskip("adbc_driver_postgresql")
    try:
        with server() as dsn, psycopg.connect(dsn, autocommit=True) as sql:
            sql.execute(
                "CREATE TABLE visits AS SELECT n AS id, timestamptz '2026-01-01' + n * interval '1 s' AS updated_at, "
                "(n * 37 % 100) / 25.0::float8 AS minutes, (n * 53 % 90) / 30.0::float8 AS pages, "
                "(n * 37 % 100) / 25.0 + (n * 53 % 90) / 30.0 > 3.4 AS bought FROM generate_series(1, 1000) n"
            )
            port = dict(part.split("=") for part in dsn.split())["port"]
            address = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            told = last_line("postgres_to_training", tmp_path, address, "visits")
    except UnavailableError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")
    rows, rest = told.split(" rows, ")
    assert rows == "1000"
    assert int(rest.partition("%")[0]) > 85


def test_each_example_is_one_screen_and_is_run() -> None:
    assert {*ENDS, "stream_on_two_ranks", "postgres_to_training"} == EXAMPLES
    assert len(EXAMPLES) == 8
    for name in EXAMPLES:
        lines = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").splitlines()
        assert len(lines) <= SCREEN, name
        assert max(map(len, lines)) <= 78, name
