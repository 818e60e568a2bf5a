"""Joins, groups, DISTINCT and ORDER BY are those of loops over rows, whatever the keys; what they hold is bounded."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import QueryError
from lakebed.query.relations import relation, stored
from lakebed.query.values.columns import Column, Numbers, Objects, Ragged, Texts, rows
from lakebed.query.values.keys import codes, firsts, groups, joined, pairs
from lakebed.query.values.ordering import Key, ordered
from unit_tests.lakebed.reading.remote.remote_storage import RemoteStorage, opened

RNG = np.random.default_rng(44)
COUNT = 300


def _floats(count: int) -> Column:
    values = RNG.choice([0.0, -0.0, 1.5, math.nan, -math.inf, 2.0**60], count)
    values[::7] = np.frombuffer(np.uint64(0x7FF8000000000001).tobytes(), np.float64)  # another NaN
    return Numbers(values)


def _masked(count: int) -> Column:
    return Numbers(RNG.integers(0, 5, count), RNG.random(count) < 0.2)


KINDS: dict[str, Callable[[int], Column]] = {
    "close": lambda n: Numbers(RNG.integers(-3, 9, n)),
    "far": lambda n: Numbers(RNG.integers(0, 9, n) * 10**17 - 5),
    "one axis": lambda n: Numbers(RNG.integers(0, 9, (n, 1)).astype(np.uint8)),
    "unsigned": lambda n: Numbers(RNG.choice(np.array([0, 1, 2**63, 2**64 - 1], np.uint64), n)),
    "bool": lambda n: Numbers(RNG.random(n) < 0.5),
    "floats": _floats,
    "half": lambda n: Numbers(RNG.integers(0, 5, n).astype(np.float16)),
    "complex": lambda n: Numbers(RNG.integers(0, 3, n) + 1j),
    "masked": _masked,
    "ragged": lambda n: Ragged(np.arange(n // 2) % 4, np.repeat([[1], [0]], [n // 2, n - n // 2], 0)),
    "texts": lambda n: Texts(pa.array([*RNG.choice(["a", "", "b", "äö"], n).tolist(), None])[1:]),
    "objects": lambda n: Objects([[None, 1, "a", 2.0, {"k": 1}][i] for i in RNG.integers(0, 5, n)]),
}


def plain(column: Column) -> list[Any]:
    """Values that are equal where SQL has them equal; None where there is none."""
    found = []
    for value in rows(column):
        value = value.reshape(-1)[0].item() if isinstance(value, np.ndarray) and value.size else value
        value = None if isinstance(value, np.ndarray) else value
        value = "NaN" if isinstance(value, float) and value != value else value
        found.append(str(value) if isinstance(value, dict) else value)
    return found


def first_of_each(values: list[Any]) -> list[int]:
    return [values.index(value) for value in dict.fromkeys(values)]


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_those_of_a_dictionary(kind: str) -> None:
    column = KINDS[kind](COUNT)
    values = plain(column)
    numbers = codes(column, refuse_arrays=True)
    assert [n < 0 for n in numbers.tolist()] == [value is None for value in values]
    assert firsts(numbers).tolist() == first_of_each(values)
    members, ends = groups(numbers)
    found = [members[a:b].tolist() for a, b in itertools.pairwise(ends)]
    assert found == [[i for i, v in enumerate(values) if v == value] for value in dict.fromkeys(values)]


def test_several_keys_are_one() -> None:
    columns = [KINDS[kind](COUNT) for kind in ("close", "texts", "masked")]
    values = list(zip(*map(plain, columns), strict=True))
    whole = joined([codes(column, refuse_arrays=True) for column in columns])
    assert firsts(whole).tolist() == first_of_each(values)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        *((kind, kind) for kind in KINDS if kind != "objects"),
        ("close", "one axis"),
        ("close", "floats"),
        ("half", "close"),
        ("masked", "bool"),
        ("ragged", "close"),
        ("objects", "close"),
    ],
)
def test_joins_are_those_of_two_loops(left: str, right: str) -> None:
    """NaN is equal to itself, -0 to 0; what is missing is equal to nothing."""
    one, other = KINDS[left](80), KINDS[right](50)
    first, second = plain(one), plain(other)
    expected = [(i, j) for i, a in enumerate(first) for j, b in enumerate(second) if a is not None and a == b]
    held: list[int] = []
    lefts, rights = pairs([one], [other], held.append)
    assert list(zip(lefts.tolist(), rights.tolist(), strict=True)) == expected
    assert held == [16 * len(expected)]


def test_joins_by_several_keys_and_of_nothing() -> None:
    one = [KINDS[kind](80) for kind in ("close", "texts", "masked")]
    other = [KINDS[kind](60) for kind in ("one axis", "texts", "close")]
    first, second = ([tuple(row) for row in zip(*map(plain, side), strict=True)] for side in (one, other))
    expected = [(i, j) for i, a in enumerate(first) for j, b in enumerate(second) if None not in a and a == b]
    assert expected
    lefts, rights = pairs(one, other, lambda _: None)
    assert list(zip(lefts.tolist(), rights.tolist(), strict=True)) == expected
    nothing: list[Column] = [Numbers(np.zeros(0, np.int64))]
    for sides in ((one[:1], nothing), (nothing, one[:1]), (nothing, nothing)):
        assert [len(side) for side in pairs(*sides, lambda _: None)] == [0, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float32", "bool"])
@pytest.mark.parametrize("spread", [1, 1_000])
@pytest.mark.parametrize("is_descending", [False, True])
def test_equal_keys_keep_their_order(dtype: str, spread: int, is_descending: bool) -> None:
    """Whether keys lie close together, so that they are counted, or are sorted; also at both ends of a dtype."""
    high = min(spread * 90, 100 if dtype[-1] == "8" else 1 << 20)
    values = RNG.integers(-high if dtype[0] in "if" else 0, high, COUNT).astype(dtype)
    if dtype in ("int8", "uint64", "int64"):
        values[::9] = np.iinfo(dtype).max
        values[::11] = np.iinfo(dtype).min if spread > 1 else np.iinfo(dtype).max - 1
    expected = sorted(range(COUNT), key=lambda i: values[i])
    if is_descending:
        expected = sorted(range(COUNT), key=lambda i: (-int(values[i]), -i))
    assert ordered([Key(Numbers(values), is_descending, "")]).tolist() == expected


# -- datasets --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sales() -> tuple[list[dict[str, Any]], lakebed.Dataset]:
    made = lakebed.empty("mem://sales", overwrite=True)
    made.create_tensor("shop", dtype="int64", max_chunk_size=400)
    made.create_tensor("item", htype="text", max_chunk_size=300)
    made.create_tensor("price", dtype="float64", max_chunk_size=900)
    made.create_tensor("marks", dtype="int32", max_chunk_size=500)
    found = [
        {
            "shop": int(RNG.integers(0, 12)) * 10**12,
            "item": str(RNG.choice(["tea", "bun", "jam"])),
            "price": float(RNG.random()) if i % 13 else None,
            "marks": RNG.integers(0, 9, int(RNG.integers(0, 4))).astype(np.int32),
        }
        for i in range(COUNT)
    ]
    made.extend({name: [row[name] for row in found] for name in found[0]})
    made.commit("sold")
    return found, made


@pytest.mark.parametrize("window", [1 << 26, 3_000, 100])
def test_aggregates_are_those_of_each_group(
    sales: tuple[list[dict[str, Any]], lakebed.Dataset], monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    """Whether all groups are read at once, in the order of their rows, or few at a time."""
    monkeypatch.setattr(relation, "_WINDOW_BYTES", window)
    monkeypatch.setattr(relation, "_LEAST_MEMBERS", 1)
    monkeypatch.setattr(stored, "_WINDOW_BYTES", window)
    made, ds = sales
    found = ds.query(
        "SELECT shop[0] AS shop, item[0] AS item, count(*) AS n, sum(shop) AS s, sum(marks) AS m, item AS all_ "
        "GROUP BY shop, item"
    )
    by_key: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in made:
        by_key.setdefault((row["shop"], row["item"]), []).append(row)
    assert list(zip(found.shop.numpy().reshape(-1).tolist(), found.item.text(), strict=True)) == list(by_key)
    assert found.n.tolist() == [len(some) for some in by_key.values()]
    assert found.s.tolist() == [sum(row["shop"] for row in some) for some in by_key.values()]
    marks = [sum(int(row["marks"].sum()) for row in some) for some in by_key.values()]
    assert [int(np.asarray(value)) for value in found.m.values()] == marks
    assert found.all_.values() == [[row["item"] for row in some] for some in by_key.values()]
    last_three = found[[5, 1, 5]]
    assert last_three.n.tolist() == [len(list(by_key.values())[i]) for i in (5, 1, 5)]


@pytest.mark.parametrize("lacking", ["none", "first", "second", "both"])
@pytest.mark.parametrize("sign", ["+", "-", "*"])
def test_two_columns_of_a_group_meet_sample_by_sample(sign: str, lacking: str) -> None:
    """A sample that is missing in one of them is missing in the result, and shifts no other one."""
    draw = np.random.default_rng(len(lacking))
    keys = draw.integers(0, 5, 60).tolist()
    first, second = draw.integers(-9, 9, (2, 60)).tolist()
    for name, column in (("first", first), ("second", second)):
        if lacking in (name, "both"):
            column[::4] = [None] * 15
            column[int(draw.integers(60))] = None
    ds = lakebed.empty("mem://met", overwrite=True)
    for name, column in (("key", keys), ("a", first), ("b", second)):
        ds.create_tensor(name, dtype="int64")
        ds[name].extend(column)
    found = ds.query(
        f"SELECT key[0] AS key, sum(2 * a {sign} b) AS s, count(b {sign} a) AS n, min(a {sign} b) AS low, "
        f"sum(a {sign} count(*)) AS c GROUP BY key"
    )
    for key, *answers in zip(
        *(found[name].numpy().ravel().tolist() for name in ("key", "s", "n", "low", "c")), strict=True
    ):
        calculate = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
        rows = [(a, b) for k, a, b in zip(keys, first, second, strict=True) if k == key]
        pairs = [(a, b) for a, b in rows if a is not None and b is not None]
        assert answers == [
            sum(calculate(2 * a, b) for a, b in pairs),
            len(pairs),
            min(calculate(a, b) for a, b in pairs),
            sum(calculate(a, len(rows)) for a, _ in rows if a is not None),
        ]


def test_large_groups_and_windows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of groups has no more samples than fit, but for one group that is larger."""
    monkeypatch.setattr(relation, "_WINDOW_BYTES", 8 * 20)
    grouped = relation.Grouped(
        relation.Stored(lakebed.from_arrow("mem://g", pa.table({"x": range(100)}), overwrite=True)._table()),
        np.arange(100),
        np.array([0, 5, 9, 60, 61, 62, 100]),
    )
    assert list(grouped.windows(["x"])) == [range(2), range(2, 3), range(3, 5), range(5, 6)]


def test_a_join_that_is_too_large_is_refused_before_it_is_made() -> None:
    same = lakebed.from_arrow("mem://same", pa.table({"k": np.zeros(200_000, np.int64)}), overwrite=True)
    with pytest.raises(QueryError, match="bytes"):  # 640 GB of pairs
        same.query('SELECT a.k AS k FROM "mem://same" AS a JOIN "mem://same" AS b ON a.k = b.k')


@pytest.mark.parametrize("chunk", [200, 100_000])
def test_rows_in_any_order_are_read_chunk_by_chunk(chunk: int) -> None:
    values = RNG.integers(0, 99, 1_000)
    made = lakebed.empty("mem://any-order", overwrite=True)
    for name, htype, more in (
        ("n", "generic", {"dtype": "int64"}),
        ("t", "text", {}),
        ("f", "generic", {"dtype": "float32"}),
    ):
        made.create_tensor(name, htype=htype, max_chunk_size=chunk, **more)
    texts = [f"text {value}" for value in values]
    floats = [np.float32(value) if value % 7 else None for value in values]
    made.extend({"n": values, "t": texts, "f": floats})
    table = made._table()
    for wanted in (
        RNG.permutation(1_000),
        RNG.integers(0, 1_000, 3_000),
        np.array([999, 0, 999]),
        np.arange(7, 907, 3),
    ):
        columns = {name: stored.StoredColumn(table, name).read(wanted) for name in ("n", "t", "f")}
        assert plain(columns["n"]) == values[wanted].tolist()
        assert plain(columns["t"]) == [texts[i] for i in wanted]
        assert plain(columns["f"]) == [None if floats[i] is None else float(floats[i]) for i in wanted]


def test_chunks_far_away_are_asked_for_together(tmp_path: Any) -> None:
    """Those that statistics leave, and of what is asked first: here nothing is left for the other condition."""
    with lakebed.empty(tmp_path / "far") as ds:
        ds.create_tensor("x", dtype="int64", max_chunk_size=800)
        ds.create_tensor("y", dtype="float64", max_chunk_size=800)
        ds.extend({"x": np.arange(1_000), "y": np.arange(1_000.0)})
        ds.commit("written")
    assert len(ds.query("SELECT * WHERE x < 0 OR y < 0")) == 0
    storage = RemoteStorage.of(tmp_path / "far")
    far = opened(storage)
    storage.most, storage.together = 0, 2
    assert len(far.query("SELECT * WHERE x < 0 AND y < 0")) == 0  # reads the statistics of both
    storage.most, storage.together = 0, 4
    with storage.chunk_requests() as requests:
        found = far.query("SELECT * WHERE x IN (3, 203, 503, 903) AND sqrt(y) < 0")
        assert len(found) == 0
    assert [request.tensor for request in requests] == ["y"] * 4
    assert storage.most == 4
