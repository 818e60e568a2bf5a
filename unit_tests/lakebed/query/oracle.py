"""Statements at random that fit a dataset, and their answers by plain Python, row by row, and by SQL where it can.

An expression is three things that mean the same: text of the query language, a function of a row of Python values, and
SQL, or None where SQL has no such values. The language has two truth values: a comparison with something missing is
false, and NOT of it true. SQL has three, so each comparison says what becomes of NULL and NaN.
"""

from __future__ import annotations

import fnmatch
import math
import operator
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import lakebed

Row = dict[str, Any]
Function = Callable[[Row], Any]

CLASSES = ["cat", "dog", "cow", "crow"]
WORDS = ["red", "Green", "blue", "é", "a b", "%", ""]
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip


@dataclass(frozen=True)
class Said:
    """One expression: text of the language, a function of a row, and SQL."""

    tql: str
    py: Function
    sql: str | None = None


# -- data ------------------------------------------------------------------------------------------------------------


def rows_of(seed: int, count: int) -> list[Row]:
    """Return rows with everything that a column can hold: numbers that floats hold exactly, NaN, and nothing."""
    chance = random.Random(seed)
    return [_row(chance, n) for n in range(count)]


def _row(chance: random.Random, n: int) -> Row:
    quarter = chance.randint(-12, 12) / 4
    document: Row = {
        "a": chance.choice([chance.randint(-3, 9), "x", "red", None]),
        "n": {"x": chance.randint(0, 8) / 4},
    }
    if n % 4 == 0:
        del document["a"]
    boxes = np.array(
        [[chance.randint(0, 40) / 4 for _ in range(4)] for _ in range(chance.randint(0, 3))], np.float32
    )
    return {
        "rid": np.int32(n),
        "i": np.int32(chance.randint(-20, 20)),
        "s": np.int64(chance.randint(-3, 3)),
        "u": np.uint8(chance.randint(0, 255)),
        "f": None if n % 7 == 0 else np.float32(chance.choice([quarter] * 8 + [math.nan, math.inf])),
        "d": np.float64(quarter * 3),
        "b": np.bool_(chance.randrange(2)),
        "k": np.uint32(chance.randrange(len(CLASSES))),
        "t": None if n % 9 == 1 else " ".join(chance.choices(WORDS, k=chance.randint(0, 2))),
        "js": document,
        "box": boxes.reshape(-1, 4),
        "arr": np.array([[chance.randint(-4, 9) for _ in range(3)] for _ in range(2)], np.int16),
        "rag": np.array([chance.randint(-5, 9) for _ in range(chance.randint(0, 4))], np.int64),
        "seq": [np.int64(chance.randint(0, 5)) for _ in range(chance.randint(1, 3))],
    }  # fmt: skip


def made(url: str, rows: Sequence[Row]) -> lakebed.Dataset:
    """Store rows, in several chunks."""
    ds = lakebed.empty(url, overwrite=True)
    for name, dtype in (("rid", "int32"), ("i", "int32"), ("s", "int64"), ("u", "uint8"), ("f", "float32")):
        ds.create_tensor(name, dtype=dtype)
    ds.create_tensor("d", dtype="float64", chunk_compression="lz4")
    ds.create_tensor("b", dtype="bool")
    ds.create_tensor("k", htype="class_label", class_names=CLASSES)
    ds.create_tensor("t", htype="text")
    ds.create_tensor("js", htype="json")
    ds.create_tensor("box", htype="bbox")
    ds.create_tensor("arr", dtype="int16")
    ds.create_tensor("rag", dtype="int64")
    ds.create_tensor("seq", htype="sequence", dtype="int64")
    add(ds, rows)
    return ds


def add(ds: lakebed.Dataset, rows: Sequence[Row], step: int = 29) -> None:
    """Append rows, some at a time."""
    for start in range(0, len(rows), step):
        ds.extend(list(rows[start : start + step]))
        ds.flush()


def connected(rows: Sequence[Row], others: Sequence[Row]) -> Any:
    """Return a connection of DuckDB with the rows as tables `main` and `other`."""
    import duckdb
    import pyarrow as pa

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for name, given in (("main", rows), ("other", others)):
        columns = {c: pa.array([_plain(r[c]) for r in given], kind) for c, kind in _SCALARS.items()}
        connection.register(f"{name}_arrow", pa.table(columns))
        connection.execute(f"CREATE TABLE {name}_rows AS SELECT * FROM {name}_arrow")
    return connection


def _kinds() -> dict[str, Any]:
    import pyarrow as pa

    return {"rid": pa.int64(), "i": pa.int64(), "s": pa.int64(), "f": pa.float64(), "d": pa.float64(), "b": pa.bool_(),
            "k": pa.int64(), "t": pa.string()}  # fmt: skip


_SCALARS = _kinds()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# -- values ----------------------------------------------------------------------------------------------------------


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _arithmetic(sign: str, a: Any, b: Any) -> Any:
    """Compute with two numbers; literals are Python's, and have 64 bits here."""
    if a is None or b is None:
        return None
    is_constant = not isinstance(a, np.generic) and not isinstance(b, np.generic)
    first, second = np.asarray(a), np.asarray(b)
    with np.errstate(all="ignore"):
        if sign == "/":
            found = first.astype(np.float64) / second.astype(np.float64)
        elif sign == "^":
            found = np.power(first.astype(np.float64), second.astype(np.float64))
        else:
            if first.dtype == second.dtype == np.bool_:
                first = first.astype(np.int64)
            function = {"+": np.add, "-": np.subtract, "*": np.multiply, "%": np.mod}[sign]
            found = function(first, second)
    return found.item() if is_constant else found[()]


def _compared(sign: str, a: Any, b: Any) -> bool:
    return a is not None and b is not None and bool(SIGNS[sign](a, b))


def _each(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _item(values: Any, at: int) -> Any:
    return values[at] if values is not None and -len(values) <= at < len(values) else None


# -- expressions -----------------------------------------------------------------------------------------------------


class Statements:
    """A source of statements, the same for the same seed.

    Parameters
    ----------
    is_sql
        Say only what SQL can say, too.
    """

    def __init__(self, seed: int, *, is_sql: bool = False) -> None:
        self.chance = random.Random(seed)
        self.is_sql = is_sql
        self.prefix = ""

    def pick(self, *ways: Callable[[], Said]) -> Said:
        """Return what one of the ways says."""
        return self.chance.choice(ways)()

    # -- numbers ---------------------------------------------------------------------------------------------------

    def literal(self) -> Said:
        value: Any = self.chance.choice([-2, 0, 1, 3, 7, 0.5, -1.25, 2.0])
        return Said(
            repr(value),
            lambda row: value,
            f"CAST({value} AS DOUBLE)" if isinstance(value, float) else str(value),
        )

    def column(self, *names: str) -> Said:
        name = self.chance.choice(names)
        return Said(f"{self.prefix}{name}", lambda row: row[name], f"{self.prefix}{name}")

    def number(self, depth: int = 2) -> Said:
        """Return a number per row, or nothing."""
        if depth == 0 or self.chance.random() < 0.3:
            return (
                self.column("i", "s", "f", "d")
                if self.is_sql
                else self.column("i", "s", "u", "f", "d", "rid")
            )
        ways = [self._sum, self._sum, self._case, self._absolute, self._coalesced]
        if not self.is_sql:
            ways += [
                self._remainder,
                self._of_array,
                self._of_array,
                self._of_text,
                self._extreme,
                self._cast,
            ]
        return self.chance.choice(ways)(depth - 1)

    def _sum(self, depth: int) -> Said:
        a, b = self.number(depth), self.pick(lambda: self.number(depth), self.literal)
        sign = self.chance.choice("+-*" if self.is_sql else "+-*/^")
        if sign == "^":
            b = Said("2", lambda row: 2)
        return Said(f"({a.tql} {sign} {b.tql})", lambda row: _arithmetic(sign, a.py(row), b.py(row)),
                    f"({a.sql} {sign} {b.sql})")  # fmt: skip

    def _remainder(self, depth: int) -> Said:
        a, by = self.column("i", "s", "u", "d"), self.chance.choice([2, 3, 5, -4])
        return Said(f"({a.tql} % {by})", lambda row: _arithmetic("%", a.py(row), by))

    def _case(self, depth: int) -> Said:
        when, then, other = self.condition(depth), self.number(depth), self.number(depth)
        if self.chance.randrange(3) == 0:
            return Said(f"(CASE WHEN {when.tql} THEN {then.tql} END)",
                        lambda row: then.py(row) if when.py(row) else None,
                        f"(CASE WHEN {when.sql} THEN {then.sql} END)")  # fmt: skip
        form = "(CASE WHEN {} THEN {} ELSE {} END)" if self.chance.randrange(2) else "IF({}, {}, {})"
        return Said(form.format(when.tql, then.tql, other.tql),
                    lambda row: then.py(row) if when.py(row) else other.py(row),
                    f"(CASE WHEN {when.sql} THEN {then.sql} ELSE {other.sql} END)")  # fmt: skip

    def _absolute(self, depth: int) -> Said:
        a = self.number(depth)
        name, function = self.chance.choice([("ABS", np.abs), ("-", lambda v: _arithmetic("*", v, -1))])
        if name == "-":
            a = self.column("i", "s", "d", "f")
        return Said(f"{name}({a.tql})", lambda row: _each(function)(a.py(row)), f"{name}({a.sql})")

    def _coalesced(self, depth: int) -> Said:
        a, b = self.column("f"), self.column("i", "d")
        return Said(f"COALESCE({a.tql}, {b.tql})", lambda row: b.py(row) if a.py(row) is None else a.py(row),
                    f"COALESCE({a.sql}, {b.sql})")  # fmt: skip

    def _extreme(self, depth: int) -> Said:
        a, b = self.column("i", "s", "d"), self.column("i", "rid", "d")
        name, function = self.chance.choice([("GREATEST", max), ("LEAST", min)])
        return Said(f"{name}({a.tql}, {b.tql})", lambda row: function(a.py(row), b.py(row)))

    def _cast(self, depth: int) -> Said:
        a = self.column("i", "s", "d", "b")
        kind, function = self.chance.choice([("int", int), ("float", float), ("int64", int)])
        return Said(f"CAST({a.tql} AS {kind})", lambda row: np.asarray(function(a.py(row)))[()])

    def _of_text(self, depth: int) -> Said:
        a, word = self.text(), self.chance.choice(["e", "red", "é"])
        if self.chance.randrange(3) == 0:
            return Said(f"STRPOS({a.tql}, '{word}')", lambda row: np.int64((a.py(row) or "").find(word) + 1))
        return Said(f"LEN({a.tql})", lambda row: None if a.py(row) is None else np.int64(len(a.py(row))))

    def array(self) -> Said:
        """Return an array of one axis, of any length."""
        at, low = self.chance.randrange(4), self.chance.randint(-2, 2)
        ways: list[tuple[str, Function]] = [
            ("rag", lambda row: row["rag"]),
            (f"rag[{low}:]", lambda row: row["rag"][low:]),
            ("rag[::-1]", lambda row: row["rag"][::-1]),
            (f"rag[rag > {low}]", lambda row: row["rag"][row["rag"] > low]),
            (f"box[:, {at}]", lambda row: row["box"][:, at]),
            (
                f"box[box[:, 0] > {low + 2}][:, {at}]",
                lambda row: row["box"][row["box"][:, 0] > low + 2][:, at],
            ),
            (f"(rag * 2 - {low})", lambda row: row["rag"] * 2 - low),
            ("(rag + i)", lambda row: row["rag"] + row["i"]),
            ("arr[1]", lambda row: row["arr"][1]),
            (f"arr[:, {at % 3}]", lambda row: row["arr"][:, at % 3]),
            ("sum(arr, 0)", lambda row: row["arr"].sum(axis=0)),
            ("seq", lambda row: np.array(row["seq"])),
            (f"arr[..., {at % 3}]", lambda row: row["arr"][..., at % 3]),
            (f"arr[-1, ::{at + 1}]", lambda row: row["arr"][-1, :: at + 1]),
            (f"any(arr > {low}, 1)", lambda row: (row["arr"] > low).any(axis=1)),
            ("flatten(arr)", lambda row: row["arr"].reshape(-1)),
            (f"box[:2, {at}]", lambda row: row["box"][:2, at]),
            (
                f"box[{low}]",
                lambda row: _item(row["box"], low) if _item(row["box"], low) is not None else np.empty(0),
            ),
            ("box[:, 2] * box[:, 3]", lambda row: row["box"][:, 2] * row["box"][:, 3]),
            (f"clip(rag, {low}, 4)", lambda row: np.clip(row["rag"], low, 4)),
            ("abs(rag - s)", lambda row: np.abs(row["rag"] - row["s"])),
            ("rag[nonzero(rag > 1)]", lambda row: row["rag"][row["rag"] > 1]),
            ("(arr[0] * arr[1])", lambda row: row["arr"][0] * row["arr"][1]),
            ("(arr * ARRAY[1, 0, 2])[1]", lambda row: row["arr"][1] * np.array([1, 0, 2], np.float32)),
        ]
        text, function = self.chance.choice(ways)
        return Said(text, function)

    def _of_array(self, depth: int) -> Said:
        a, at = self.array(), self.chance.randint(-3, 3)
        ways: list[tuple[str, Callable[[Any], Any]]] = [
            ("SUM({})", lambda v: v.sum()),
            ("LEN({})", lambda v: np.int64(len(v))),
            ("SHAPE({})[0]", lambda v: np.int64(len(v))),
            ("AMAX({})", lambda v: v.max() if len(v) else None),
            ("MIN({})", lambda v: v.min() if len(v) else None),
            ("{}[" + str(at) + "]", lambda v: _item(v, at)),
            ("COUNT({})", lambda v: np.int64(v.size)),
            ("AVG({})", lambda v: np.float64(np.mean(v, dtype=np.float64)) if len(v) else None),
            (
                "ROUND(STD({}), 3)",
                lambda v: np.round(np.std(v.astype(np.float64)), 3) if len(v) else None,
            ),
            ("MEDIAN({})", lambda v: np.median(v) if len(v) else None),
            ("ARG_MAX({})", lambda v: np.int64(np.argmax(v)) if len(v) else None),
            ("PROD({})", lambda v: v.prod()),
            ("ROUND(L2_NORM({}), 3)", lambda v: np.round(np.sqrt((v.astype(np.float64) ** 2).sum()), 3)),
            ("COUNT(DISTINCT {})", lambda v: np.int64(len(np.unique(v)))),
            ("LEN(UNIQUE({}))", lambda v: np.int64(len(np.unique(v)))),
            ("SORT(FLATTEN({}))[0]", lambda v: np.sort(v)[0] if len(v) else None),
            ("LEN(NONZERO({}))", lambda v: np.int64(np.count_nonzero(v))),
        ]
        form, function = self.chance.choice(ways)
        return Said(form.format(a.tql), lambda row: function(a.py(row)))

    # -- texts -----------------------------------------------------------------------------------------------------

    def text(self) -> Said:
        """Return a text per row, or nothing."""
        if self.is_sql:
            return self.column("t")
        count = self.chance.randint(1, 4)
        ways: list[tuple[str, Callable[[str], str]]] = [
            ("t", lambda v: v), ("t", lambda v: v), ("LOWER(t)", str.lower), ("UPPER(t)", str.upper),
            ("(t || '!')", lambda v: v + "!"), (f"SUBSTR(t, {count})", lambda v: v[count - 1 :]),
            (f"LEFT(t, {count})", lambda v: v[:count]), (f"RIGHT(t, {count})", lambda v: v[-count:]),
            ("REPLACE(t, 'e', 'ee')", lambda v: v.replace("e", "ee")), ("REVERSE(t)", lambda v: v[::-1]),
            ("TRIM(t)", str.strip), (f"SUBSTR(t, -{count})", lambda v: v[-count:]),
            (f"SUBSTR(t, 2, {count})", lambda v: v[1 : 1 + count]), ("CONCAT(t, '-', 'x')", lambda v: v + "-x"),
            ("SPLIT(t, ' ')[0]", lambda v: v.split(" ")[0]), ("CAST(t AS text)", lambda v: v),
        ]  # fmt: skip
        text, function = self.chance.choice(ways)
        return Said(text, lambda row: _each(function)(row["t"]))

    # -- conditions ------------------------------------------------------------------------------------------------

    def condition(self, depth: int = 2) -> Said:
        """Return a condition: true or false of every row."""
        if depth > 0 and self.chance.random() < 0.5:
            return self.pick(self._negated(depth), self._joined(depth), self._joined(depth))
        ways = [self._comparison, self._comparison, self._comparison, self._range, self._member, self._nothing,
                self._of_words, self._flag]  # fmt: skip
        if not self.is_sql:
            ways += [self._arrays, self._arrays, self._pattern, self._label, self._document, self._document]
        return self.chance.choice(ways)()

    def _negated(self, depth: int) -> Callable[[], Said]:
        def way() -> Said:
            a = self.condition(depth - 1)
            return Said(f"NOT ({a.tql})", lambda row: not a.py(row), f"NOT ({a.sql})")

        return way

    def _joined(self, depth: int) -> Callable[[], Said]:
        def way() -> Said:
            parts = [self.condition(depth - 1) for _ in range(self.chance.choice([2, 2, 3]))]
            word, join = self.chance.choice([("AND", all), ("OR", any)])
            return Said(f" {word} ".join(f"({p.tql})" for p in parts), lambda row: join(p.py(row) for p in parts),
                        f" {word} ".join(f"({p.sql})" for p in parts))  # fmt: skip

        return way

    def _sides(self, sign: str, a: Said, b: Said) -> Said:
        nan = f"isnan(CAST({a.sql} AS DOUBLE)) OR isnan(CAST({b.sql} AS DOUBLE))"
        told = f"({a.sql}) {'=' if sign == '==' else '<>' if sign == '!=' else sign} ({b.sql})"
        odd = f"({told} OR {nan})" if sign == "!=" else f"({told} AND NOT ({nan}))"
        sql = f"COALESCE({odd} AND ({a.sql}) IS NOT NULL AND ({b.sql}) IS NOT NULL, FALSE)"
        return Said(f"{a.tql} {sign} {b.tql}", lambda row: _compared(sign, a.py(row), b.py(row)), sql)

    def _comparison(self) -> Said:
        a, b = self.number(1), self.pick(self.literal, self.literal, lambda: self.number(1))
        if self.chance.randrange(4) == 0:
            a, b = b, a
        return self._sides(self.chance.choice(list(SIGNS)), a, b)

    def _range(self) -> Said:
        a, low, high = self.number(1), self.literal(), self.literal()
        both = [self._sides(">=", a, low), self._sides("<=", a, high)]
        no = self.chance.randrange(2)
        return Said(f"{a.tql} {'NOT ' if no else ''}BETWEEN {low.tql} AND {high.tql}",
                    lambda row: (both[0].py(row) and both[1].py(row)) != bool(no),
                    f"{'NOT ' if no else ''}({both[0].sql} AND {both[1].sql})")  # fmt: skip

    def _member(self) -> Said:
        if not self.is_sql and self.chance.randrange(4) == 0:
            one, other = self.column("i", "s", "f"), self.column("s", "u", "d")
            return Said(
                f"{one.tql} IN ({other.tql}, 1)",
                lambda row: _compared("==", one.py(row), other.py(row)) or _compared("==", one.py(row), 1),
            )
        a = self.column("i", "s", "f", "d")
        items = [self.chance.choice([-3, -1, 0, 1, 2, 0.25, 1.5]) for _ in range(self.chance.randint(1, 4))]
        no = self.chance.randrange(2)
        return Said(f"{a.tql} {'NOT ' if no else ''}IN ({', '.join(map(repr, items))})",
                    lambda row: (a.py(row) is not None and a.py(row) in items) != bool(no),
                    f"COALESCE({a.sql} IN ({', '.join(map(repr, items))}), FALSE) <> {bool(no)}")  # fmt: skip

    def _nothing(self) -> Said:
        a = self.pick(lambda: self.column("f", "t"), lambda: self.number(1))
        no = self.chance.randrange(2)
        return Said(f"{a.tql} IS {'NOT ' if no else ''}NULL", lambda row: (a.py(row) is None) != bool(no),
                    f"({a.sql}) IS {'NOT ' if no else ''}NULL")  # fmt: skip

    def _of_words(self) -> Said:
        a, word = self.text(), self.chance.choice([*WORDS, "red red"])
        sign = self.chance.choice(list(SIGNS))
        own = "=" if sign == "==" else "<>" if sign == "!=" else sign
        return Said(
            f"{a.tql} {sign} '{word}'",
            lambda row: _compared(sign, a.py(row), word),
            f"COALESCE({a.sql} {own} '{word}', FALSE)",
        )

    def _flag(self) -> Said:
        a = self.column("b")
        return (
            Said(f"{a.tql} == true", lambda row: bool(row["b"]), f"{a.sql}")
            if self.chance.randrange(2)
            else a
        )

    def _arrays(self) -> Said:
        a, sign, value = self.array(), self.chance.choice(list(SIGNS)), self.chance.randint(-3, 6)
        compared = SIGNS[sign]
        ways: list[tuple[str, Callable[[Any], Any]]] = [
            (f"ANY({a.tql} {sign} {value})", lambda v: compared(v, value).any()),
            (f"ALL({a.tql} {sign} {value})", lambda v: compared(v, value).all()),
            (f"{a.tql} {sign} {value}", lambda v: len(v) and compared(v, value).all()),
            (f"CONTAINS({a.tql}, {value})", lambda v: value in v),
            (f"ANY({a.tql} IN ({value}, 2))", lambda v: np.isin(v, [value, 2]).any()),
            # An array without anything is there; a row of boxes behind the end is not.
            (f"{a.tql} IS NULL", lambda v: v.size == 0 and bool(re.fullmatch(r"box\[-?\d+\]", a.tql))),
        ]
        text, function = self.chance.choice(ways)
        return Said(text, lambda row: bool(function(a.py(row))))

    def _pattern(self) -> Said:
        a, no = self.text(), self.chance.randrange(2)
        name, test = self.chance.choice([("STARTS_WITH", str.startswith), ("ENDS_WITH", str.endswith),
                                         ("CONTAINS", str.__contains__), ("MATCHES", str.__contains__)])  # fmt: skip
        if self.chance.randrange(3) == 0:
            word = self.chance.choice(["r", "red", "é", "d"])
            return Said(
                f"{name}({a.tql}, '{word}')",
                lambda row: a.py(row) is not None and bool(test(a.py(row), word)),
            )
        pattern = self.chance.choice(["*", "r*", "*e*", "?ed", "", "*d b*", "é", "??????", "*%*"])
        word, fold = self.chance.choice([("LIKE", lambda v: v), ("ILIKE", str.lower)])

        def told(row: Row) -> bool:
            value = a.py(row)
            found = value is not None and fnmatch.fnmatchcase(fold(value), fold(pattern).replace("%", "*"))
            return found != bool(no)

        return Said(f"{a.tql} {'NOT ' if no else ''}{word} '{pattern}'", told)

    def _label(self) -> Said:
        name = self.chance.choice(CLASSES)
        number = CLASSES.index(name)
        ways: list[tuple[str, Function]] = [
            (f"k == '{name}'", lambda row: row["k"] == number),
            (f"'{name}' != k", lambda row: row["k"] != number),
            (f"k > '{name}'", lambda row: row["k"] > number),
            (f"k IN ('{name}', 1)", lambda row: row["k"] in (number, 1)),
            ("contains(k, 'c*w')", lambda row: CLASSES[row["k"]] in ("cow", "crow")),
            (f"CAST(k AS text) < '{name}'", lambda row: CLASSES[row["k"]] < name),
        ]
        text, function = self.chance.choice(ways)
        return Said(text, lambda row: bool(function(row)))

    def _document(self) -> Said:
        sign, value = self.chance.choice(list(SIGNS)), self.chance.choice([0, 3, 1.5])
        word = self.chance.choice(["x", "red"])

        def alike(left: Any, right: Any) -> bool:
            if left is None:
                return False
            if isinstance(left, str) != isinstance(right, str):
                return sign == "!="
            return bool(SIGNS[sign](left, right))

        ways: list[tuple[str, Function]] = [
            (f"js['a'] {sign} {value}", lambda row: alike(row["js"].get("a"), value)),
            (f"js['a'] {sign} '{word}'", lambda row: alike(row["js"].get("a"), word)),
            (f"js['n']['x'] {sign} {value}", lambda row: alike(row["js"]["n"]["x"], value)),
            ("js['a'] IS NULL", lambda row: row["js"].get("a") is None),
            ("contains(keys(js), 'a')", lambda row: "a" in row["js"]),
            (f"js['a'] IN ({value}, '{word}')", lambda row: row["js"].get("a") in (value, word)),
        ]
        text, function = self.chance.choice(ways)
        return Said(text, function)

    # -- what follows a condition ----------------------------------------------------------------------------------

    def order(self) -> tuple[str, Callable[[list[Row]], list[Row]], str]:
        """Return ORDER BY, and what puts rows in that order; in SQL by `rid` at last."""
        keys: list[tuple[Said, bool, str]] = []
        for _ in range(self.chance.choice([0, 1, 1, 2, 3])):
            said = self.pick(lambda: self.number(1), lambda: self.column("s", "f", "d"), self.text)
            keys.append(
                (
                    said,
                    bool(self.chance.randrange(2)),
                    self.chance.choice(["", "", " NULLS LAST", " NULLS FIRST"]),
                )
            )

        def ordered(rows: list[Row]) -> list[Row]:
            # Descending is ascending the other way round, equal keys included; what is missing and NaN stay last.
            found = rows[::-1] if keys and keys[-1][1] else list(rows)
            for said, down, nulls in reversed(keys):
                known = [r for r in found if said.py(r) is not None and not _is_nan(said.py(r))]
                known = sorted(known, key=said.py, reverse=False) if not down else _down(known, said.py)
                odd = [r for r in found if _is_nan(said.py(r))]
                gone = [r for r in found if said.py(r) is None]
                found = gone + known + odd if nulls == " NULLS FIRST" else known + odd + gone
            return found

        if not keys:
            return "", ordered, "ORDER BY rid"
        text = ", ".join(f"{said.tql}{' DESC' if down else ''}{nulls}" for said, down, nulls in keys)
        parts = []
        for said, down, nulls in keys:
            first = " NULLS FIRST" if nulls == " NULLS FIRST" else " NULLS LAST"
            if said.tql.endswith("t"):
                parts.append(f'({said.sql}) COLLATE "C"{" DESC" if down else ""}{first}')
                continue
            parts.append(f"({said.sql}) IS NULL {'DESC' if 'FIRST' in first else ''}")
            parts.append(f"isnan(CAST({said.sql} AS DOUBLE))")
            parts.append(f"({said.sql}){' DESC' if down else ''}{first}")
        return (
            f" ORDER BY {text}",
            ordered,
            f"ORDER BY {', '.join(parts)}, rid{' DESC' if keys[-1][1] else ''}",
        )

    def limit(self) -> tuple[str, Callable[[list[Row]], list[Row]]]:
        """Return LIMIT and OFFSET, and what cuts rows so."""
        count, skipped = self.chance.randint(0, 40), self.chance.choice([0, 0, 3, 50])
        kind = self.chance.randrange(4)
        if kind == 0:
            return "", lambda rows: rows
        if kind == 1:
            share = self.chance.choice([10, 33, 100])
            return f" LIMIT {share} PERCENT", lambda rows: rows[: math.ceil(len(rows) * share / 100)]
        text = f" LIMIT {count}" + (f" OFFSET {skipped}" if skipped else "")
        return text, lambda rows: rows[skipped : skipped + count]


def _down(rows: list[Row], key: Function) -> list[Row]:
    """Sort by a key from the largest on; equal ones stay in order."""
    return sorted(rows, key=key, reverse=True)
