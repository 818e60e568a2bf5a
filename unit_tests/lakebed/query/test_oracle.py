"""Statements at random have the answers of plain Python, row by row, and of DuckDB where SQL says the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.query.values.columns import rows as values_of
from unit_tests import effort
from unit_tests.lakebed.query.oracle import Row, Said, Statements, connected, made, rows_of

ROWS, OTHERS = 120, 30
FROM = {"main": '"mem://oracle-main"', "other": '"mem://oracle-other"'}


class Data:
    """Two datasets, their rows, and DuckDB with the same if it is installed."""

    def __init__(self) -> None:
        self.rows, self.others = rows_of(1, ROWS), rows_of(2, OTHERS)
        self.ds, self.other = made("mem://oracle-main", self.rows), made("mem://oracle-other", self.others)


@pytest.fixture(scope="module")
def data() -> Data:
    return Data()


def rids(found: Any) -> list[int]:
    """Return the row numbers of what a query found, in its order."""
    return [int(n) for n in column(found, "rid")]


def column(found: Any, name: str) -> list[Any]:
    """Return the values of a column of a view or result: numbers, texts, lists, or None."""
    if isinstance(found, lakebed.Dataset):
        from lakebed.query.relations.relation import Stored

        relation: Any = Stored(found._table())
    else:
        relation = found.relation
    parts = [values_of(relation.read(name, window)) for window in relation.windows([name])]
    return [plain(value) for part in parts for value in part]


def plain(value: Any) -> Any:
    """Return a value as Python has it: arrays of one number are that number."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        value = [plain(item) for item in value]
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def same(found: Any, expected: Any) -> bool:
    """Whether two values are equal, floats to their last digits; NaN is NaN here."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, float | int) and isinstance(expected, float | int):
        if math.isnan(found) or math.isnan(expected):
            return math.isnan(found) and math.isnan(expected)
        return found == expected or math.isclose(found, expected, rel_tol=1e-5, abs_tol=1e-6)
    return type(found) is type(expected) and bool(found == expected)


def agree(text: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Compare an answer with the one that is right."""
    wanted = [plain(value) for value in expected]
    assert same(list(found), wanted), f"{text}\nfound    {list(found)}\nexpected {wanted}"


# -- one dataset -----------------------------------------------------------------------------------------------------


def rows_and_order(data: Data, say: Statements) -> str:
    where, (order, put, _), (limit, cut) = say.condition(), say.order(), say.limit()
    text = f"SELECT * WHERE {where.tql}{order}{limit}"
    agree(
        text, rids(data.ds.query(text)), [r["rid"] for r in cut(put([r for r in data.rows if where.py(r)]))]
    )
    return text


def values(data: Data, say: Statements) -> str:
    said = [say.number(), say.pick(say.text, say.number), say.array()]
    where, (limit, cut) = say.condition(1), say.limit()
    listed = ", ".join(f"{one.tql} AS x{n}" for n, one in enumerate(said))
    text = f"SELECT rid, {listed} WHERE {where.tql}{limit}"
    found = data.ds.query(text)
    left = cut([r for r in data.rows if where.py(r)])
    agree(text, rids(found), [r["rid"] for r in left])
    for n, one in enumerate(said):
        agree(f"{text} (x{n})", [none(v) for v in column(found, f"x{n}")], [none(one.py(r)) for r in left])
    return text


def none(value: Any) -> Any:
    """Return nothing for an array of nothing: what is missing is read as either."""
    if isinstance(value, np.ndarray | list) and len(value) == 0:
        return None
    return value


def distinct(data: Data, say: Statements) -> str:
    one, where, (limit, cut) = (
        say.pick(lambda: say.column("s", "k", "b", "t", "f"), say.number),
        say.condition(1),
        say.limit(),
    )
    text = f"SELECT DISTINCT {one.tql} AS x WHERE {where.tql}{limit}"
    seen: dict[Any, Any] = {}
    for row in data.rows:
        if where.py(row):
            value = plain(one.py(row))
            seen.setdefault("NaN" if isinstance(value, float) and value != value else value, value)
    agree(text, column(data.ds.query(text), "x"), cut(list(seen.values())))
    return text


AGGREGATES: list[tuple[str, str, Callable[[list[Any]], Any]]] = [
    ("sum({})", "idsu", lambda v: np.sum(v)),
    ("max({})", "idsu", max),
    ("min({})", "idsu", min),
    ("avg({})", "ids", lambda v: float(np.mean(np.asarray(v, np.float64)))),
    ("count({})", "idst", lambda v: sum(one is not None for one in v)),
    ("{}[0]", "idst", lambda v: v[0]),
    ("{}[-1]", "ids", lambda v: v[-1]),
    ("count(DISTINCT {})", "isk", lambda v: len(set(v))),
]


def groups(data: Data, say: Statements) -> str:
    names = say.chance.choice([["s"], ["k"], ["t"], ["b"], ["s", "k"], ["f"], ["s", "t"]])
    keys = [say.column(name) for name in names]
    where = say.condition(1)
    chosen = [say.chance.choice(AGGREGATES) for _ in range(2)]
    of = [say.chance.choice(names) for _, names, _ in chosen]
    least, low = say.chance.randint(1, 6), say.chance.choice(["", " DESC", None])
    listed = ", ".join(
        f"{form.format(name)} AS x{n}" for n, ((form, _, _), name) in enumerate(zip(chosen, of, strict=True))
    )
    text = (
        f"SELECT rid[0] AS rid, count(*) AS n, {listed} WHERE {where.tql} GROUP BY {', '.join(k.tql for k in keys)} "
        f"HAVING count(*) >= {least}" + (f" ORDER BY n{low}" if low is not None else "")
    )
    made: dict[Any, list[Row]] = {}
    for row in data.rows:
        if where.py(row):
            key = tuple("NaN" if (v := plain(k.py(row))) is not None and v != v else v for k in keys)
            made.setdefault(key, []).append(row)
    left = [rows for rows in made.values() if len(rows) >= least]
    if low is not None:
        if low:
            left.reverse()  # equal ones come the other way round, too
        left.sort(key=len, reverse=bool(low))
    found = data.ds.query(text)
    agree(text, rids(found), [rows[0]["rid"] for rows in left])
    agree(text, column(found, "n"), [len(rows) for rows in left])
    for n, ((_, _, function), name) in enumerate(zip(chosen, of, strict=True)):
        agree(
            f"{text} (x{n})", column(found, f"x{n}"), [function([row[name] for row in rows]) for rows in left]
        )
    return text


def sets(data: Data, say: Statements) -> str:
    a, b, c = say.condition(1), say.condition(1), say.condition(1)
    one, other = (
        say.chance.choice(["UNION", "INTERSECT", "EXCEPT"]),
        say.chance.choice(["UNION", "EXCEPT", "INTERSECT"]),
    )
    text = f"SELECT * WHERE {a.tql} {one} SELECT * WHERE {b.tql} {other} SELECT * WHERE {c.tql}"
    x, y, z = ({int(r["rid"]) for r in data.rows if said.py(r)} for said in (a, b, c))
    by: dict[str, Callable[[set[int], set[int]], set[int]]] = {
        "UNION": set.union, "EXCEPT": set.difference, "INTERSECT": set.intersection
    }  # fmt: skip
    wanted = (
        by[one](x, by[other](y, z)) if other == "INTERSECT" and one != other else by[other](by[one](x, y), z)
    )
    agree(text, rids(data.ds.query(text)), sorted(wanted))
    return text


def nested(data: Data, say: Statements) -> str:
    a, b = say.condition(1), say.condition(1)
    inner = [r for r in data.others if b.py(r)]
    name, where = say.chance.choice(["i", "s", "rid", "t"]), f"{FROM['other']} WHERE {b.tql}"
    known = {plain(r[name]) for r in inner} - {None}
    kind = say.chance.randrange(4)
    if kind == 0:
        text, told = f"{name} IN (SELECT {name} FROM {where})", lambda row: _inside(row[name], known)
    elif kind == 1:
        text, told = f"{name} NOT IN (SELECT {name} FROM {where})", lambda row: not _inside(row[name], known)
    elif kind == 2:
        text, told = f"EXISTS (SELECT * FROM {where})", lambda row: bool(inner)
    else:
        text = f"i > (SELECT max(i) AS x FROM {where} GROUP BY b == b LIMIT 1)"
        most = max((r["i"] for r in inner), default=None)
        text, told = (
            f"i > (SELECT i FROM {where} ORDER BY i DESC LIMIT 1)",
            lambda row: most is not None and row["i"] > most,
        )
        if most is None:
            return ""  # nothing is compared with nothing: an error
    whole = f"WITH few AS (SELECT * FROM {FROM['main']} WHERE {a.tql}) SELECT * FROM few WHERE {text}"
    agree(whole, rids(lakebed.query(whole)), [r["rid"] for r in data.rows if a.py(r) and told(r)])
    return whole


def _inside(value: Any, known: set[Any]) -> bool:
    return (plain(value) if value is not None else "") in known


def expanded(data: Data, say: Statements) -> str:
    where, before, after, keeps = (
        say.condition(1),
        say.chance.randrange(3),
        say.chance.randrange(3),
        say.chance.randrange(2),
    )
    text = f"SELECT rid WHERE {where.tql} EXPAND BY {before} {after}{' OVERLAP' if keeps else ''}"
    around = [
        n + apart
        for n, row in enumerate(data.rows)
        if where.py(row)
        for apart in range(-before, after + 1)
        if 0 <= n + apart < ROWS
    ]
    agree(text, rids(data.ds.query(text)), around if keeps else sorted(set(around)))
    return text


def of_a_query(data: Data, say: Statements) -> str:
    """A query of what a query computed, and rows numbered."""
    where, one, low = say.condition(1), say.number(), say.chance.randint(-3, 3)
    kind = say.chance.randrange(3)
    inner = [r for r in data.rows if where.py(r)]
    if kind == 0:
        text = (
            f"SELECT q.rid AS rid, q.y AS y, row_number() AS n "
            f"FROM (SELECT rid, {one.tql} AS y WHERE {where.tql}) AS q "
            f"WHERE NOT q.y > {low} ORDER BY y, rid DESC LIMIT 20"
        )
        left = [r for r in inner if one.py(r) is None or not one.py(r) > low][::-1]
        known = [r for r in left if one.py(r) is not None and one.py(r) == one.py(r)]
        left = [
            *sorted(known, key=one.py),
            *[r for r in left if one.py(r) is not None and one.py(r) != one.py(r)],
            *[r for r in left if one.py(r) is None],
        ][:20]
        found = data.ds.query(text)
        agree(text, rids(found), [r["rid"] for r in left])
        agree(f"{text} (y)", [none(v) for v in column(found, "y")], [one.py(r) for r in left])
        agree(f"{text} (n)", column(found, "n"), list(range(len(left))))
        return text
    if kind == 1:
        text = f"SELECT rid FROM (SELECT rid, s, rag WHERE {where.tql} GROUP BY s) UNGROUP BY SPLIT"
        groups: dict[Any, list[Row]] = {}
        for row in inner:
            groups.setdefault(row["s"], []).append(row)
        agree(text, rids(data.ds.query(text)), [r["rid"] for rows in groups.values() for r in rows])
        return text
    text = f"SELECT DISTINCT ON (s, b) rid, t WHERE ({where.tql}) AND row_number() % 2 == 0"
    seen: dict[Any, Row] = {}
    for row in inner:
        if row["rid"] % 2 == 0:
            seen.setdefault((row["s"], row["b"]), row)
    agree(text, rids(data.ds.query(text)), [r["rid"] for r in seen.values()])
    return text


def members(data: Data, say: Statements) -> str:
    """Groups as they are: the values of all their rows, and what is computed of these."""
    where, key = say.condition(1), say.chance.choice(["s", "k", "b", "t"])
    text = (
        f"SELECT rid, f, t, rag, box, sum(f) AS total, count(f) AS n, max(rag) AS most, len(rid) AS size, "
        f"any(rag > 5) AS large, rid[1] AS second, all(f - 1 < 2) AS low, sum(rag * 2 + abs(rag)) AS more "
        f"WHERE {where.tql} GROUP BY {key}"
    )
    groups: dict[Any, list[Row]] = {}
    for row in data.rows:
        if where.py(row):
            groups.setdefault(plain(row[key]), []).append(row)
    found, wanted = data.ds.query(text), list(groups.values())
    listed: list[tuple[str, Callable[[list[Row]], Any]]] = [
        ("rid", lambda rows: [r["rid"] for r in rows]),
        ("t", lambda rows: [r["t"] for r in rows]),
        ("total", lambda rows: sum(float(r["f"]) for r in rows if r["f"] is not None)),
        ("n", lambda rows: sum(r["f"] is not None for r in rows)),
        ("most", lambda rows: max((int(v) for r in rows for v in r["rag"]), default=None)),
        ("size", len),
        ("large", lambda rows: any(bool((r["rag"] > 5).any()) for r in rows)),
        ("low", lambda rows: all(bool(r["f"] - 1 < 2) for r in rows if r["f"] is not None)),
        ("more", lambda rows: sum(int(2 * v + abs(v)) for r in rows for v in r["rag"])),
        ("second", lambda rows: rows[1]["rid"] if len(rows) > 1 else None),
    ]
    for name, function in listed:
        agree(
            f"{text} ({name})",
            [none(v) for v in column(found, name)],
            [none(function(rows)) for rows in wanted],
        )
    return text


# -- several datasets ------------------------------------------------------------------------------------------------

Pair = tuple[Row | None, ...]


def joined(kind: str, left: list[Pair], right: list[Row], keys: list[tuple[int, str, str]]) -> list[Pair]:
    """Join by hand: by left row, then by right row; right rows without a partner come last."""
    found: list[Pair] = []
    met: set[int] = set()
    for pair in left:
        partners = [
            n
            for n, row in enumerate(right)
            if all((one := pair[side]) is not None and _meets(one[a], row[b]) for side, a, b in keys)
        ]
        met.update(partners)
        found += [(*pair, right[n]) for n in partners]
        if not partners and kind in ("LEFT", "FULL"):
            found.append((*pair, None))
    if kind in ("RIGHT", "FULL"):
        found += [(*[None] * len(left[0]), row) for n, row in enumerate(right) if n not in met]
    return found


def _meets(a: Any, b: Any) -> bool:
    return a is not None and b is not None and plain(a) == plain(b)


def joins(data: Data, say: Statements) -> str:
    count = say.chance.choice([1, 1, 2])
    pairs: list[Pair] = [(row,) for row in data.rows]
    text = f"{FROM['main']} AS a"
    for side in range(count):
        kind, name = say.chance.choice(["INNER", "LEFT", "RIGHT", "FULL"]), "bc"[side]
        on = say.chance.choice([[("s", "s")], [("i", "rid")], [("rid", "i")], [("s", "s"), ("b", "b")],
                                [("t", "t"), ("s", "s")],
                                [("k", "k"), ("s", "s")]])  # fmt: skip
        source = say.chance.randrange(side + 1)
        text += f" {kind} JOIN {FROM['other']} AS {name} ON " + " AND ".join(
            f"{'abc'[source]}.{x} = {name}.{y}"
            if say.chance.randrange(2)
            else f"{name}.{y} = {'abc'[source]}.{x}"
            for x, y in on
        )
        if not pairs:
            break
        pairs = joined(kind, pairs, data.others, [(source, x, y) for x, y in on])
    if not pairs:
        return ""
    where, told = "", lambda pair: True
    if say.chance.randrange(2):
        where, low = " WHERE a.i > b.i", say.chance.randint(-5, 5)
        if say.chance.randrange(2):
            where = f" WHERE NOT b.i > {low}"
            told = lambda pair: pair[1] is None or not pair[1]["i"] > low  # noqa: E731
        else:
            told = lambda pair: None not in pair[:2] and pair[0]["i"] > pair[1]["i"]  # noqa: E731
    sides = "abc"[: count + 1]
    text = f"SELECT {', '.join(f'{s}.rid AS r{s}, {s}.t AS t{s}, {s}.rag AS g{s}' for s in sides)} FROM {text}{where}"
    left = [pair for pair in pairs if told(pair)]
    found = lakebed.query(text)
    for side, name in enumerate(sides):
        for output, inner in (("r", "rid"), ("t", "t"), ("g", "rag")):
            agree(f"{text} ({output}{name})", [none(v) for v in column(found, output + name)],
                  [None if (one := pair[side]) is None else none(one[inner]) for pair in left])  # fmt: skip
    return text


def chained(data: Data, say: Statements) -> str:
    a, b, listed = say.condition(1), say.condition(1), "rid, f, t, rag, box, arr, js, k"
    one, other = say.chance.sample([("main", data.rows), ("other", data.others)], 2)
    text = (
        f"SELECT {listed} FROM {FROM[one[0]]} WHERE {a.tql} UNION ALL "
        f"SELECT {listed} FROM {FROM[other[0]]} WHERE {b.tql}"
    )
    rows = [r for r in one[1] if a.py(r)] + [r for r in other[1] if b.py(r)]
    if say.chance.randrange(2):
        text += " ORDER BY rid DESC, t LIMIT 30"
        rows = [
            *sorted([r for r in rows if r["t"] is not None], key=lambda r: r["t"]),
            *[r for r in rows if r["t"] is None],
        ]
        rows = sorted(rows, key=lambda r: -int(r["rid"]))[:30]
    found = lakebed.query(text)
    for name in listed.split(", "):
        agree(f"{text} ({name})", [none(v) for v in column(found, name)], [none(r[name]) for r in rows])
    return text


def side_by_side(data: Data, say: Statements) -> str:
    """CROSS JOIN, the comma, USING."""
    a, b = say.condition(1), say.condition(1)
    one = f"(SELECT rid, s, t FROM {FROM['main']} WHERE {a.tql}) AS a"
    other = f"(SELECT rid AS id, s, rag FROM {FROM['other']} WHERE {b.tql}) AS b"
    lefts, rights = [r for r in data.rows if a.py(r)], [r for r in data.others if b.py(r)]
    kind = say.chance.randrange(3)
    pairs: list[Pair]
    if kind == 0:
        text, pairs = f"{one} CROSS JOIN {other}", [(x, y) for x in lefts for y in rights]
    elif kind == 1:
        count = max(len(lefts), len(rights))
        text = f"{one}, {other}"
        pairs = [(_item(lefts, n), _item(rights, n)) for n in range(count)]
    else:
        way = say.chance.choice(["INNER", "LEFT", "RIGHT", "FULL"])
        if not lefts:
            return ""
        text, pairs = (
            f"{one} {way} JOIN {other} USING (s)",
            joined(way, [(x,) for x in lefts], rights, [(0, "s", "s")]),
        )
    whole = f"SELECT a.rid AS x, b.id AS y, b.rag AS g{', s' if kind == 2 else ''} FROM {text}"
    found = lakebed.query(whole)
    agree(whole, [none(v) for v in column(found, "x")], [None if x is None else x["rid"] for x, _ in pairs])
    agree(whole, [none(v) for v in column(found, "y")], [None if y is None else y["rid"] for _, y in pairs])
    agree(
        whole,
        [none(v) for v in column(found, "g")],
        [None if y is None else none(y["rag"]) for _, y in pairs],
    )
    if kind == 2:
        agree(whole, column(found, "s"), [(x or y or {})["s"] for x, y in pairs])
    return whole


def _item(rows: list[Row], n: int) -> Row | None:
    return rows[n] if n < len(rows) else None


KINDS = [rows_and_order, rows_and_order, rows_and_order, values, values, distinct, groups, sets, nested, joins,
         expanded,         of_a_query, members, chained, side_by_side]  # fmt: skip


def asked(data: Data, seed: int, count: int) -> int:
    """Ask so many statements; return how many were different."""
    say = Statements(seed)
    return len({KINDS[n % len(KINDS)](data, say) for n in range(count)})


def test_statements_have_the_answers_of_plain_python(data: Data) -> None:
    assert asked(data, effort.seed(), 250) > 220


@pytest.mark.soak
def test_ten_thousand_statements_have_the_answers_of_plain_python(data: Data) -> None:
    assert asked(data, 1000 + effort.seed(), 10_000) > 9_000


# -- DuckDB ----------------------------------------------------------------------------------------------------------


def sql_rows(data: Data, say: Statements, connection: Any) -> str:
    where, (order, _, sql) = say.condition(), say.order()
    text = f"SELECT * WHERE {where.tql}{order} LIMIT 50 OFFSET 2"
    wanted = connection.execute(
        f"SELECT rid FROM main_rows WHERE {where.sql} {sql} LIMIT 50 OFFSET 2"
    ).fetchall()
    agree(text, rids(data.ds.query(text)), [rid for (rid,) in wanted])
    return text


def sql_groups(data: Data, say: Statements, connection: Any) -> str:
    where, key = say.condition(1), say.chance.choice(["s", "k", "b", "t", "s, b"])
    text = (
        f"SELECT rid[0] AS rid, count(*) AS n, sum(i) AS total, max(d) AS most, avg(i) AS mean WHERE {where.tql} "
        f"GROUP BY {key} HAVING count(*) > 2"
    )
    sql = (
        f"SELECT min(rid) AS rid, count(*), sum(i), max(d), avg(i) FROM main_rows WHERE {where.sql} GROUP BY {key} "
        "HAVING count(*) > 2 ORDER BY 1"
    )
    found = data.ds.query(text)
    wanted = connection.execute(sql).fetchall()
    for n, name in enumerate(("rid", "n", "total", "most", "mean")):
        agree(f"{text} ({name})", column(found, name), [row[n] for row in wanted])
    return text


def sql_joins(data: Data, say: Statements, connection: Any) -> str:
    kinds = [say.chance.choice(["INNER", "LEFT", "RIGHT", "FULL"]) for _ in range(2)]
    on = [say.chance.choice(["a.s = b.s", "a.i = b.rid", "a.t = b.t AND a.s = b.s"]),
          say.chance.choice(["b.s = c.s AND a.k = c.k", "a.i = c.i"])]  # fmt: skip
    form = (
        "SELECT a.rid AS x, b.rid AS y, c.rid AS z FROM {main} AS a {} JOIN {other} AS b ON {} "
        "{} JOIN {other} AS c ON {}"
    )
    text = form.format(kinds[0], on[0], kinds[1], on[1], **FROM)
    sql = form.format(kinds[0], on[0], kinds[1], on[1], main="main_rows", other="other_rows")
    found = lakebed.query(text)
    got = zip(*[column(found, name) for name in "xyz"], strict=True)
    wanted = connection.execute(sql).fetchall()
    first = sorted(got, key=repr)
    assert first == sorted(wanted, key=repr), text
    return text


def sql_sets(data: Data, say: Statements, connection: Any) -> str:
    a, b = say.condition(1), say.condition(1)
    word = say.chance.choice(["UNION", "INTERSECT", "EXCEPT"])
    text = f"SELECT * WHERE {a.tql} {word} SELECT * WHERE {b.tql}"
    sql = f"(SELECT rid FROM main_rows WHERE {a.sql}) {word} (SELECT rid FROM main_rows WHERE {b.sql}) ORDER BY rid"
    agree(text, rids(data.ds.query(text)), [rid for (rid,) in connection.execute(sql).fetchall()])
    return text


def sql_values(data: Data, say: Statements, connection: Any) -> str:
    one, where = say.number(), say.condition(1)
    text = f"SELECT rid, {one.tql} AS x WHERE {where.tql}"
    wanted = connection.execute(f"SELECT {one.sql} FROM main_rows WHERE {where.sql} ORDER BY rid").fetchall()
    agree(text, column(data.ds.query(text), "x"), [value for (value,) in wanted])
    return text


SQL = [sql_rows, sql_rows, sql_values, sql_groups, sql_joins, sql_sets]


def asked_of_duckdb(data: Data, seed: int, count: int) -> int:
    """Ask so many statements; return how many were different."""
    pytest.importorskip("duckdb", reason="DuckDB is not installed")
    connection = connected(data.rows, data.others)
    say = Statements(seed, is_sql=True)
    return len({SQL[n % len(SQL)](data, say, connection) for n in range(count)})


def test_statements_have_the_answers_of_duckdb(data: Data) -> None:
    assert asked_of_duckdb(data, effort.seed(), 90) > 70


@pytest.mark.soak
def test_thousands_of_statements_have_the_answers_of_duckdb(data: Data) -> None:
    assert asked_of_duckdb(data, 1000 + effort.seed(), 6_000) > 4_000


def test_an_expression_of_the_oracle_means_what_it_says() -> None:
    """The oracle itself: a few expressions, by hand."""
    said = Said("i > 3", lambda row: row["i"] > 3, "i > 3")
    assert said.py({"i": 4})
    row = rows_of(1, 3)[0]
    assert row["f"] is None
    assert "a" not in row["js"]
