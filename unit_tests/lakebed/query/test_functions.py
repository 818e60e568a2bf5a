"""Functions that people who know SQL or NumPy type, and the page that lists all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import QueryError
from lakebed.query.functions import registry
from lakebed.testing import VirtualClock

PAGE = Path(__file__).parents[3] / "docs" / "query.md"
SYNTAX = {"CASE", "CAST", "EXTRACT", "EXISTS", "IN", "BETWEEN"}
"""What the table of functions lists beside functions."""

AT = np.array(
    ["2024-01-31T10:20:30.5", "2023-12-31T23:59:59", "1969-03-01T00:00:00", "NaT"], "datetime64[us]"
)
COLUMNS = {
    "x": [-2.5, 0.25, 7.0, None],
    "n": [-7, 0, 9, None],
    "t": ["ann bell", "x", "", None],
    "at": AT,
}


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    made = lakebed.from_arrow("mem://functions", pa.table(COLUMNS), overwrite=True)
    made.create_tensor("m", dtype="int64")
    made.m.extend([np.array([3, 1, 2]), np.array([5]), np.array([2, 2]), np.array([0, 9, 9])])
    return made


def values(ds: lakebed.Dataset, expression: str) -> list[Any]:
    found = ds.query(f"SELECT {expression} AS y").y.values()
    return [v if v is None or isinstance(v, str | list) else np.asarray(v).reshape(()).item() for v in found]


@pytest.mark.parametrize(
    "expression",
    """floor(x) ceil(x) ceiling(x) log(10,n+8) log(n+8) log10(n+8) ln(n+8) exp(x) pow(x,2) power(x,2) atan(x)
    atan2(x,2) degrees(x) radians(x) asin(x/10) acos(x/10) pi() lpad(t,4,'*-') rpad(t,4,'*') lpad(t,9,'ab')
    repeat(t,2) repeat(t,0) split_part(t,'|',1) isinf(x) ifnull(t,'none') year(at)
    dayofweek(at) dayofyear(at)""".split(),
)
def test_answers_are_those_of_duckdb(ds: lakebed.Dataset, expression: str) -> None:
    columns = pa.table(COLUMNS).rename_columns(["x", "n", "t", "moment"])
    theirs = duckdb.from_arrow(columns).project(
        expression.replace("(at)", "(moment)").replace("at)", "moment)")
    )
    mine = expression.replace("dayofweek", "dow").replace("dayofyear", "doy")
    expected = [row[0] for row in theirs.fetchall()]
    for found, wanted in zip(values(ds, mine), expected, strict=True):
        if isinstance(wanted, float):
            assert found == pytest.approx(wanted, rel=1e-6)
        elif not (wanted is None and isinstance(found, float) and np.isnan(found)):
            assert found == wanted, expression


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("argmax(m)", [0, 0, 0, 1]),
        ("initcap(t)", ["Ann Bell", "X", "", None]),
        ("instr(t, 'n')", [2, 0, 0, 0]),
        ("char_length(t)", [8, 1, 0, None]),
        ("argmin(m)", [1, 0, 0, 0]),
        ("var(m)", [2 / 3, 0.0, 0.0, 18.0]),
        ("concat_ws('-', t, 'z')", ["ann bell-z", "x-z", "-z", "z"]),
        ("regexp_replace(t, '[a-z]n', 'N')", ["Nn bell", "x", "", None]),
        ("split_part(t, ' ', -1)", ["bell", "x", "", None]),
        ("split_part(t, ' ', 3)", ["", "", "", None]),
        ("regexp_matches(t, '^a.*l$')", [True, False, False, False]),
        ("iif(n > 0, 1, 2)", [2, 2, 1, 2]),
        ("floor(n)", [-7, 0, 9, None]),
        ("epoch(at)", [1706696430, 1704067199, -26438400, None]),
    ],
)
def test_answers(ds: lakebed.Dataset, expression: str, expected: list[Any]) -> None:
    found = values(ds, expression)
    assert [pytest.approx(v) if isinstance(v, float) else v for v in expected] == found


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("'day', 3", ["2024-02-03T10:20:30.5", "2024-01-03T23:59:59", "1969-03-04T00:00:00"]),
        ("'month', 1", ["2024-02-29T10:20:30.5", "2024-01-31T23:59:59", "1969-04-01T00:00:00"]),
        ("'month', -2", ["2023-11-30T10:20:30.5", "2023-10-31T23:59:59", "1969-01-01T00:00:00"]),
        ("'years', 1", ["2025-01-31T10:20:30.5", "2024-12-31T23:59:59", "1970-03-01T00:00:00"]),
        ("'hour', -12", ["2024-01-30T22:20:30.5", "2023-12-31T11:59:59", "1969-02-28T12:00:00"]),
    ],
)
def test_moments_are_moved(ds: lakebed.Dataset, call: str, expected: list[str]) -> None:
    found = values(ds, f"date_add({call}, at)")
    assert found[:3] == np.array(expected, "datetime64[us]").astype(np.int64).tolist()
    assert found[3] is None


def test_now_is_the_moment_of_the_query(ds: lakebed.Dataset) -> None:
    clock = VirtualClock()
    with lakebed.runtime.clock.replaced(clock):
        (now,) = set(values(ds, "now()"))
        assert now == int(clock.now() * 1_000_000)
        (today,) = set(values(ds, "today()"))
        assert today == now - now % 86_400_000_000
        assert len(ds.query("SELECT * WHERE at < now()")) == (AT[:3].astype(np.int64) < now).sum()
        asked = ds.prepare("SELECT * WHERE now() > ?")
        assert [len(found) for found in asked.run_many([["2023-01-01"], ["2024-01-01"]])] == [4, 0]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("lpad(t, 100000)", "texts of up to 65,536 characters"),
        ("repeat(t, 100000000000)", "texts of up to 65,536 characters"),
        ("lpad(t, 5, '')", "LPAD needs a text to fill with"),
        ("split_part(t, '', 1)", "needs a text to split at"),
        ("regexp_replace(t, '(', 'x')", "REGEXP_REPLACE"),
        ("date_add('day', 1.5, at)", "whole number"),
        ("date_add('day', 1000000000000000, at)", "adds up to"),
        ("date_add('epoch', 1, at)", "does not add epoch"),
        ("stddev(m)", "say STD"),
        ("json_extract(t, 'a')", "a key in brackets"),
        ("floor(t)", "needs numbers"),
        ("log(1, 2, 3)", "LOG takes 1 to 2 arguments, not 3"),
    ],
)
def test_what_does_not_fit_says_so(ds: lakebed.Dataset, expression: str, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)):
        values(ds, expression)


def test_the_page_lists_all_functions_and_no_others() -> None:
    lines = PAGE.read_text().splitlines()
    start = lines.index("| | functions |")
    table = lines[start + 2 : lines.index("", start)]
    listed = set(
        re.findall(r"\b[A-Z][A-Z0-9_]+\b", " ".join(re.sub(r"^\|[^|]*\|", "", line) for line in table))
    )
    functions = {*registry.FUNCTIONS, *registry.SPECIAL}
    assert functions - listed == set()
    assert listed - functions - SYNTAX - {"JSON", "UTC", "SQL"} == set()


def test_hints_name_no_function_that_is_there() -> None:
    assert not [name for name in registry._MEANT if registry.find(name) is not None]


def test_boxes_in_pixels_and_in_fractions() -> None:
    ds = lakebed.empty("mem://units", overwrite=True)
    ds.create_tensor("pixels", htype="bbox", coords={"type": "pixel", "mode": "LTRB"})
    ds.create_tensor("fractions", htype="bbox", coords={"type": "fractional", "mode": "CCWH"})
    ds.extend({"pixels": [[[10, 30, 20, 50]]], "fractions": [[[0.15, 0.4, 0.1, 0.2]]]})
    for text in ("IOU(pixels, fractions)", "IOU(fractions, pixels)", "IOU(pixels, fractions[0:1])"):
        with pytest.raises(
            QueryError, match=r"IOU cannot compare boxes in pixels with .* NORMALIZE\(boxes, ARRAY"
        ):
            ds.query(f"SELECT {text} AS overlap").overlap.numpy()
    text = "SELECT IOU(NORMALIZE(pixels, ARRAY[0, 0, 100, 100]), fractions) AS overlap"
    assert ds.query(text).overlap.numpy().item() == pytest.approx(1, abs=1e-6)
