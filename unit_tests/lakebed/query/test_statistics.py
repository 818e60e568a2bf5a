"""Statistics of chunks leave chunks unread, and never an answer unlike the one without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.documents import chunk_statistics
from lakebed.errors import FormatError
from lakebed.query import known, pruning, statistics

PIECE = 8


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows, as large datasets have many."""
    for module in (chunk_statistics, statistics, known):
        monkeypatch.setattr(module, "PIECE", PIECE)


def numbers(found: Any) -> list[int]:
    """Rows of a view."""
    return [int(row) for row in found.sample_indices]


def unpruned(ds: lakebed.Dataset, condition: str) -> list[int]:
    """Rows of a condition, all chunks read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "kept", lambda relation, parts: None)
        return numbers(ds.query(f"SELECT * WHERE {condition}"))


def made(url: str, rows: int, seed: int) -> lakebed.Dataset:
    """Columns of every kind that has statistics, with values that lie together, missing ones and NaN."""
    generator = np.random.default_rng(seed)
    ds = lakebed.empty(url, overwrite=True)
    ds.create_tensor("i", dtype="int32")
    ds.create_tensor("u", dtype="uint64", chunk_compression="lz4")
    ds.create_tensor("f", dtype="float32")
    ds.create_tensor("label", htype="class_label", class_names=[f"c{n}" for n in range(90)])
    ds.create_tensor("box", htype="bbox")
    ds.create_tensor("even", dtype="int16")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("flag", dtype="bool")
    extend(ds, rows, generator)
    return ds


def extend(ds: lakebed.Dataset, rows: int, generator: np.random.Generator) -> None:
    """Add rows in several publishes, so that there are several chunks."""
    for start in range(0, rows, 40):
        ds.extend([row(start + n, generator) for n in range(min(40, rows - start))])
        ds.flush()


def row(n: int, generator: np.random.Generator) -> dict[str, Any]:
    """Return one row."""
    count = 0 if (n // 10) % 4 == 0 else int(generator.integers(0, 3))
    values = np.float32(n // 9 - 5 + generator.random())
    return {
        "i": n // 7 - 10,
        "u": np.uint64(2**63 + n // 20) if n % 40 > 20 else np.uint64(n // 5),
        "f": None if (n // 8) % 3 == 0 and n % 2 else np.float32(np.nan) if n % 23 == 0 else values,
        "label": (n // 6) % 90,
        "box": (generator.random((count, 4)) * 10 + n // 10).astype(np.float32),
        "even": np.full((2, 2), n // 11, np.int16) + generator.integers(0, 2, (2, 2)).astype(np.int16),
        "text": None if n % 31 == 0 else "" if n % 17 == 0 else f"{'abcdefgh'[(n // 12) % 8] * (n % 9)}é{n // 12}",
        "flag": (n // 16) % 2 == 0,
    }


@pytest.fixture(scope="module")
def ds() -> Iterator[lakebed.Dataset]:
    yield made("mem://statistics", 260, 1)


NUMBER = st.one_of(st.integers(-12, 60), st.integers(-24, 120).map(lambda n: n / 2), st.just(300), st.just(2**62))
NAMES = st.sampled_from(["i", "u", "f", "label", "box", "even", "flag", "box[:, 2]"])
TEXT = st.one_of(st.sampled_from(["", "é3", "aé0", "aaaé0", "bbbb", "zz", "hhhhhhhhé7"]), st.text("abcé0123", max_size=9))
SIGN = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


def compared(name: str, sign: str, value: object) -> str:
    """Return a comparison, either way round."""
    return f"{name} {sign} {value}"


LEAF = st.one_of(
    st.builds(compared, NAMES, SIGN, NUMBER),
    st.builds(lambda sign, value, name: f"{value} {sign} {name}", SIGN, NUMBER, NAMES),
    st.builds(lambda name, values: f"{name} IN ({', '.join(map(str, values))})", NAMES, st.lists(NUMBER, min_size=1, max_size=3)),
    st.builds(lambda name, a, b: f"{name} BETWEEN {a} AND {b}", NAMES, NUMBER, NUMBER),
    st.builds(lambda how, name, sign, v: f"{how}({name} {sign} {v})", st.sampled_from(["any", "all"]), NAMES, SIGN, NUMBER),
    st.builds(lambda name, v: f"contains({name}, {v})", NAMES, NUMBER),
    st.builds(lambda name: f"{name} IS NULL", st.sampled_from(["f", "box", "text", "i"])),
    st.builds(lambda sign, v: f"text {sign} '{v}'", SIGN, TEXT),
    st.builds(lambda v: f"contains(text, '{v}')", TEXT),
    st.builds(lambda v: f"starts_with(text, '{v}')", TEXT),
    st.builds(lambda a, b: f"text IN ('{a}', '{b}')", TEXT, TEXT),
    st.builds(lambda n: f"label == 'c{n}'", st.integers(0, 89)),
    st.builds(lambda n: f"contains(label, 'c{n}*')", st.integers(1, 8)),
)
CONDITION = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        inner.map(lambda a: f"NOT ({a})"),
        st.builds(lambda a, b: f"({a}) AND ({b})", inner, inner),
        st.builds(lambda a, b: f"({a}) OR ({b})", inner, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=CONDITION)
def test_an_answer_is_the_one_without_statistics(ds: lakebed.Dataset, condition: str) -> None:
    expected = unpruned(ds, condition)

    assert numbers(ds.query(f"SELECT * WHERE {condition}")) == expected
    part = ds[3:230]
    assert numbers(part.query(f"SELECT * WHERE {condition}")) == [r for r in expected if 3 <= r < 230]
    some = ds[[250, 7, 31, 32, 33, 90, 91, 8]]
    assert numbers(some.query(f"SELECT * WHERE {condition}")) == [
        r for r in [250, 7, 31, 32, 33, 90, 91, 8] if r in set(expected)
    ]
