"""Queries answered in JavaScript, in node: the rows and values of Python's engine, or the word that they need it."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import subprocess
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.viewer.bucket import serving
from integration_tests.viewer.statements import Statements, hard
from lakebed.errors import LakebedError
from lakebed.query.functions import registry
from lakebed.query.functions.function import forget
from lakebed.query.relations.relation import Stored
from lakebed.query.values.columns import rows as values_of
from unit_tests import effort
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.query import adapter, test_oracle
from unit_tests.lakebed.query import oracle as says
from unit_tests.lakebed.query.cases import cases, query_of

HERE = Path(__file__).parent
WEB = HERE.parents[1] / "format" / "lakebed" / "viewer" / "web"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules").is_dir(),
    reason="no node here: make lint installs it",
)


class Engine:
    """The engine in node, which reads the datasets of a bucket; without FROM it asks one of them."""

    def __init__(self, library: Path, address: str, implicit: str) -> None:
        self.process = subprocess.Popen(
            ["node", HERE / "query.mjs", library, address, implicit],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, text: str) -> dict[str, Any]:
        """Return the answer: rows and columns, an error, or what it needs."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"q": text}) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        """End it."""
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait(20)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the engine as one file of JavaScript."""
    out = tmp_path_factory.mktemp("engine")
    subprocess.run(["node", WEB / "module.mjs", "query", out], check=True, cwd=WEB)
    return out / "query.js"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with the datasets of the corpus, of the oracle, and hard ones; they are in memory, too."""
    root = tmp_path_factory.mktemp("queries")
    made = {f"tql-{name}": ds for name, ds in adapter.load().items()}
    forget("double_it")  # functions of programs are not here
    forget("add_em")
    made["tql-hard"] = hard("mem://tql-hard")
    made["tql-lacking"] = lakebed.from_rows(
        "mem://tql-lacking", [{"k": n % 3, "a": None if n % 4 == 1 else n, "b": 10 * n} for n in range(12)]
    )
    oracle = test_oracle.Data()
    made |= {"oracle-main": oracle.ds, "oracle-other": oracle.other}
    for name, ds in made.items():
        ds.copy(root / name, progressbar=False)
    yield root
    made.clear()  # datasets in memory live as long as somebody has them


@pytest.fixture(scope="module")
def engine(library: Path, data: Path) -> Iterator[Engine]:
    """Return the engine over these datasets."""
    with serving(data) as bucket:
        made = Engine(library, bucket.url, "oracle-main")
        yield made
        made.close()


def asked(text: str, ds: lakebed.Dataset | None) -> dict[str, Any]:
    """Return the answer of Python in the same form."""
    try:
        found = lakebed.query(text) if ds is None else ds.query(text)
    except LakebedError as error:
        return {"error": str(error)}
    relation: Any = Stored(found._table()) if isinstance(found, lakebed.Dataset) else found.relation
    rows = relation.base_rows()
    columns = {name: column(relation, name) for name in relation.names}
    return {"length": len(relation), "rows": None if rows is None else rows.tolist(), "columns": columns}


def column(relation: Any, name: str) -> Any:
    try:
        parts = [values_of(relation.read(name, window)) for window in relation.windows([name])]
    except LakebedError as error:
        return {"error": str(error)}
    return [plain(value) for part in parts for value in part]


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def untold(value: Any) -> Any:
    """Return JSON with the numbers that JSON has no words for."""
    if isinstance(value, list):
        return [untold(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"$int"}:
            return int(value["$int"])
        if set(value) == {"$float"}:
            return float(value["$float"].replace("Infinity", "inf"))
        return {key: untold(item) for key, item in value.items()}
    return value


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal: integers exactly, floats to their last digits."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    if isinstance(one, float | int) and isinstance(other, float | int):
        is_nan = one != one and other != other
        return one == other or is_nan or math.isclose(one, other, rel_tol=2e-6, abs_tol=1e-12)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def judged(text: str, wanted: dict[str, Any], found: dict[str, Any]) -> str:
    """Compare two answers; return ``answered``, ``error`` or ``needs``, and fail where they differ."""
    if "needs" in found:
        assert found["needs"].startswith("this needs `lakebed view`: "), text
        return "needs"
    if "error" in found or "error" in wanted:
        assert found.get("error", "QueryError") == "QueryError", (text, found)
        unread = all("error" in column for column in found.get("columns", {"": {"error": ""}}).values())
        assert "error" in wanted, (text, found)
        assert "error" in found or unread, (text, wanted, found)
        return "error"
    assert (wanted["rows"], wanted["length"]) == (found["rows"], found["length"]), text
    assert list(wanted["columns"]) == list(found["columns"]), text
    read = 0
    for name, values in wanted["columns"].items():
        told = found["columns"][name]
        if isinstance(told, dict):
            assert "needs" in told or "error" in values, (text, name, told)
            continue
        assert same(values, untold(told)), (text, name, values, untold(told))
        read += 1
    return "answered" if read or not wanted["columns"] else "needs"


def test_the_cases_of_the_corpus(engine: Engine, record_property: Any) -> None:
    chosen = [case for case in cases() if "sample by" not in query_of(case).lower()]
    chosen = chosen if IS_SOAK else chosen[::8]
    told = Counter(judged(text, asked(text, None), engine.ask(text)) for text in map(query_of, chosen))
    record_property("proof", f"{told['answered'] + told['error']} of {len(chosen)} cases are answered")
    assert told["answered"] + told["error"] >= 0.85 * len(chosen)


def test_statements_at_random(engine: Engine, record_property: Any) -> None:
    say, count = Statements(effort.seed()), 2_000 if IS_SOAK else 60
    told: Counter[str] = Counter()
    for _ in range(count):
        text = say.statement()
        told[judged(text, asked(text, None), engine.ask(text))] += 1
    record_property("proof", f"{dict(told)} of {count} statements, LAKEBED_SEED={effort.seed()}")
    assert told["needs"] < 0.1 * count


def test_statements_of_the_oracle(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_oracle, "agree", lambda *_: None)
    oracle, say = test_oracle.Data(), says.Statements(effort.seed())
    count = 2_000 if IS_SOAK else 45
    told: Counter[str] = Counter()
    for number in range(count):
        text = ""
        with contextlib.suppress(LakebedError):  # a few statements do not fit the data
            text = test_oracle.KINDS[number % len(test_oracle.KINDS)](oracle, say)
        if text:
            told[judged(text, asked(text, oracle.ds), engine.ask(text))] += 1
    assert told["answered"] > 0.6 * count


@pytest.mark.parametrize("sums", ["sum(2 * a + b)", "min(b - a)", "count(a + b)", "sum(a * count(*))"])
def test_two_columns_of_a_group_meet_sample_by_sample(engine: Engine, sums: str) -> None:
    text = f'SELECT k[0] AS k, {sums} AS s FROM "mem://tql-lacking" GROUP BY k'
    assert judged(text, asked(text, None), engine.ask(text)) == "answered"


def test_draws_by_seed_are_those_of_python(engine: Engine) -> None:
    for seed in (0, 7, 2**40 + 3):
        for form in ("REPLACE TRUE", "REPLACE FALSE"):
            text = f'SELECT * FROM "mem://tql-scalars" SAMPLE BY i {form} SEED {seed} LIMIT 20'
            assert judged(text, asked(text, None), engine.ask(text)) == "answered"


def test_errors_tell_their_place(engine: Engine) -> None:
    for text in ("SELECT * WHERE nosuch > 3", "SELECT * WHERE", "SELECT 'é😀' AS a, * WHERE t == 1 1"):
        found = engine.ask(text)
        assert found["error"] == "QueryError"
        with pytest.raises(LakebedError) as caught:
            lakebed.load("mem://oracle-main").query(text)
        place = str(caught.value).partition("(line 1, ")[2].partition(")")[0]
        assert place in found["message"]


def test_chunks_are_skipped_by_statistics(library: Path, tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "sorted")
    count = 120_000
    numbers = np.arange(count)
    floats = (numbers / 7).astype("float32")
    floats[::1000] = np.nan
    ds.create_tensor("id", dtype="int64", max_chunk_size=100_000)
    ds.create_tensor("x", dtype="float32", max_chunk_size=150_000)
    ds.create_tensor("label", htype="class_label", class_names=list("abcdef"), max_chunk_size=90_000)
    ds.create_tensor("text", htype="text", max_chunk_size=100_000)
    rows = {"id": numbers - 60_000, "x": floats, "label": (numbers // 20_000).astype("uint32")}
    ds.extend(rows | {"text": [f"{n:06}é" for n in range(count)]}, progressbar=False)
    ds.commit()
    ds.update_statistics()
    conditions = (
        "id == 7",
        "id = -59999",
        "7 >= id AND id > 3",
        "id IN (5, 59998, 1000000)",
        "x > 17142.5",
        "x == 1.0",
        "x != x",
        "label == 'c' AND id % 1000 == 0",
        "contains(label, 'f') AND x < 14300",
        "text == '000077é'",
        "text < '000002'",
        "text IN ('119999é', 'x')",
        "id == 5 OR text > '1199989'",
        "NOT id < 59990",
        "x > 17142.8 OR label == 'b' AND id == -39990",
    )
    with serving(tmp_path) as bucket:
        engine = Engine(library, bucket.url, "sorted")
        for condition in conditions:
            bucket.asked.clear()
            text = f"SELECT id WHERE {condition}"
            assert judged(text, asked(text, ds), engine.ask(text)) == "answered"
            if condition == "id == 7":
                read = sum(nbytes for path, nbytes in bucket.asked if "/id/chunks/" in path)
                assert 0 < read < 0.3 * 8 * count
        engine.close()


def test_functions_that_are_not_here_say_so(engine: Engine) -> None:
    known = {*registry.FUNCTIONS, *registry.SPECIAL}
    names = json.loads(
        subprocess.run(
            ["node", "--input-type=module", "-e", textwrap.dedent(NAMES), "--", str(WEB / "query")],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    assert set(names["here"]) | set(names["away"]) == known
    found = engine.ask("SELECT * ORDER BY random()")
    assert found == {"needs": "this needs `lakebed view`: RANDOM"}


NAMES = """
import { readFileSync } from "node:fs";
const text = readFileSync(`${process.argv[1]}/src/words.ts`, "utf8");
const list = (name) => /"[^;]*/.exec(text.slice(text.indexOf(name)))[0].match(/[A-Z_0-9]{2,}/g);
console.log(JSON.stringify({ here: list("export const NAMES"), away: list("export const NOT_HERE") }));
"""
