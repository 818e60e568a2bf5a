"""Statements at random over the data sets of the corpus and one of hard values: most fit the data, some do not."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import lakebed

_WORDS = (
    "Straße", "ÉCOLE", "abc", "Zoë x", "10", "2.5", "-7", "a_b%c", "😀 smile", "Ωmega", "true", "ﬀ", " pad ",
    "tab\t", "İ", "",
)  # fmt: skip
_WHENS = ("2023-05-06", "2024-02-29 12:30", "2024-01-01T00:00:00Z", "nonsense", "2021-12-31 23:59:59.5")
_DOCUMENTS = (
    {"a": 1.5, "b": "x"}, {"a": None}, {"a": [1, 2.5, "q"], "2": 1, "1": 2}, {"b": {"c": 3}}, {"a": True}, {"a": 2**60},
    [1, 2], "plain", {"a": "é"}, {"a": 0.1},
)  # fmt: skip
_CREATED: dict[str, dict[str, Any]] = {
    **{
        name: {"dtype": name}
        for name in ("int32", "float32", "float64", "int64", "uint64", "float16", "bool")
    },
    **{name: {"htype": name} for name in ("text", "json", "bbox")},
    "label": {"htype": "class_label", "class_names": ["dog", "ä b", "cat"]},
    "uint8": {"dtype": "uint8"},
}
_HARD = {
    "rid": "int32", "x": "float32", "y": "float64", "big": "int64", "ub": "uint64", "h": "float16", "at": "int64",
    "day": "int32", "ns": "int64", "t": "text", "when": "text", "v": "float32", "w": "float64", "fr": "float32",
    "im": "uint8", "js": "json", "lab": "label", "bx": "bbox", "nf": "float32", "nb": "bool",
}  # fmt: skip
_LOGICAL = {"at": "timestamp[us]", "day": "date32[day]", "ns": "timestamp[ns]"}
_BASE = 1_700_000_000_000_000


def hard(url: str) -> lakebed.Dataset:
    """Make a dataset of values that engines treat differently: floats that round, large integers, odd letters."""
    chance, numbers = random.Random(5), np.random.default_rng(3)
    ds = lakebed.empty(url, overwrite=True)
    for name, kind in _HARD.items():
        ds.create_tensor(name, **_CREATED[kind])
    for name, logical in _LOGICAL.items():
        ds[name].info["logical_type"] = logical
    for n in range(60):
        row = {
            "rid": n,
            "x": chance.uniform(-3, 3),
            "y": chance.uniform(-3, 3) if n % 9 else np.nan,
            "big": np.int64(chance.choice([2**53 + n, -(2**60) + n, n, 2**62, 2**53 - 1, -5])),
            "ub": np.uint64(chance.choice([2**63 + n, 2**64 - 1, n, 7])),
            "h": np.float16(chance.uniform(-2, 2)),
            "at": _BASE + chance.randint(-(10**15), 10**14),
            "day": chance.randint(-20000, 20000),
            "ns": np.int64((_BASE + chance.randint(0, 10**13)) * 1000 + chance.randint(0, 999)),
            "t": None if n % 11 == 3 else chance.choice(_WORDS) + chance.choice(["", "!", " b"]),
            "when": chance.choice(_WHENS),
            "v": numbers.normal(size=6).astype("float32"),
            "w": numbers.normal(size=3),
            "fr": numbers.normal(size=chance.randint(0, 5)).astype("float32"),
            "im": numbers.integers(0, 255, (chance.randint(1, 3), chance.randint(1, 4)), dtype="uint8"),
            "js": chance.choice(_DOCUMENTS),
            "lab": np.array(chance.sample(range(3), chance.randint(0, 3)), "uint32"),
            "bx": numbers.uniform(0, 10, (chance.randint(0, 3), 4)).astype("float32"),
            "nf": None if n % 5 == 1 else chance.choice([0.1, 0.2, 0.3, 2.5]),
            "nb": None if n % 7 == 2 else bool(n % 2),
        }
        ds.append(row)
    ds.flush()
    return ds


@dataclass(frozen=True)
class Columns:
    """Names of a data set by what they hold: numbers, texts, arrays, documents, and classes of labels."""

    numbers: str
    texts: str
    arrays: str
    documents: str = "rid"
    classes: dict[str, list[str]] = field(default_factory=dict)


DATA = {
    "scalars": Columns("rid i f d u s b label md['id'] md['score']", "text md['author']['name']", "md['tags']",
                       "md md['author']", {"label": ["cat", "sea lion"]}),
    "det": Columns("rid boxes[0,1] scores[0] categories[0] shape(images)[0]", "CAST(rid@AS@text)",
                   'boxes[:,2] scores categories "training/boxes"[:,0] boxes shape(images)', "rid",
                   {"categories": ["car", "person"]}),
    "emb": Columns("rid embedding[0] bits[1]", "doc", "embedding bits embedding[2:5]"),
    "mats": Columns("rid k m[0,1] rag[0] v[-1]", "CAST(k@AS@text)", "m rag cube v m[:,1] cube[0] rag[1:]"),
    "sparse": Columns("rid val fl lab js['a']", "txt js['a']", "ls js['c'] lab", "js", {"lab": ["x", "y"]}),
    "frames": Columns("rid video_id label", "camera", "shape(frame)", "rid", {"label": ["a", "b"]}),
    "hard": Columns("rid x y big ub at day ns v[0] fr[0] js['a'] nf nb h lab[0]", "t when js['b'] js['a']",
                    "v w fr im lab bx[:,0] bx fr[fr>0] js['a']", "js js['b']", {"lab": ["dog", "cat"]}),
}  # fmt: skip

_FORMS = {
    "number": """({n} {op} {n}) | ({n} {op} {lit}) | {fn}({n}) | {fn}({n}) | ROUND({n}, {d}) | {of}({a}) | {of}({a}) |
        LEN({t}) | STRPOS({t}, '{w}') | CASE WHEN {c} THEN {n} ELSE {n} END | CASE WHEN {c} THEN {n} END |
        {any}({n}, {n}) | CAST({n} AS {type}) | CAST({t} AS {type}) | {a}[{at}] | {part}({date}) |
        DATE_DIFF('{unit}', {date}, {date}) | {vec}({a}, {a}) | {vec}({a}, {lits}) | IF({c}, {n}, {n}) |
        CLIP({n}, -1, 2) | max_weight({c}: {n}, true: 1) | sum_weight({c}: {n}, true: 0.5)""",
    "array": """({a} {op} {lit}) | ({a} {op} {n}) | ({a} {op} {lits}) | {a}[{cut}] | {arr}({a}) | {red}({a}, {axis}) |
        {a}[{a} {cmp} {lit}] | SPLIT({t}, ' ')""",
    "text": """{case}({t}) | ({t} || {t}) | ({t} || {n}) | SUBSTR({t}, {at}) | SUBSTR({t}, {at}, 2) | LEFT({t}, {d}) |
        RIGHT({t}, {d}) | REPLACE({t}, '{w}', '$&') | CAST({n} AS text) | CAST({a} AS text) | LPAD({t}, 3, '*') |
        SPLIT_PART({t}, ' ', 1) | CONCAT({t}, {n}, '-') | COALESCE({t}, 'none')""",
    "condition": """{n} {cmp} {lit} | {n} {cmp} {lit} | {n} {cmp} {n} | {lit} {cmp} {n} |
        {n} {no}BETWEEN {lit} AND {lit} | {n} {no}IN ({lit}, {lit}) | {t} {cmp} '{word}' | {t} {cmp} {t} |
        {t} {no}{like} '{pattern}' | {t} {no}IN ('w1', '{word}') |
        {n} IS {no}NULL | {t} IS {no}NULL | {a} IS {no}NULL | {quant}({a} {cmp} {lit}) | {quant}({a} {cmp} {n}) |
        CONTAINS({a}, {lit}) | CONTAINS({t}, '{w}') | {test}({t}, '{w}') | {label} | {label} | {a} {cmp} {lit} |
        {a} {cmp} {lits} | {date} {cmp} '2023-11-14' | {boxes} | HAS_KEY({j}, 'a') | ({c} {and} {c}) | ({c} {and} {c}) |
        NOT ({c})""",
}  # fmt: skip

_WORDS_OF = {
    "op": "+ - * / %", "cmp": "= == != <> < <= > >=", "lit": "0 1 2 -1 3 0.5 -1.25 7 255 1e3 0.1 9007199254740993 -0.3",
    "fn": "ABS SQRT FLOOR CEIL TRUNC SIGN ROUND EXP LN SIN - LOG LOG2 COS", "d": "0 1 2 -1",
    "of": "SUM AVG MEAN MIN MAX STD VAR MEDIAN PROD LEN COUNT ARG_MAX ARGMIN L1_NORM L2_NORM LINF_NORM",
    "any": "COALESCE GREATEST LEAST IFNULL NULLIF", "type": "int float int32 uint8 float32 bool", "at": "0 1 -1 2 -2",
    "part": "YEAR MONTH DAY HOUR DOW DOY WEEK QUARTER EPOCH MINUTE", "unit": "day month hour year week",
    "vec": "DOT COSINE_SIMILARITY L2_DISTANCE L1_DISTANCE LINF_DISTANCE HAMMING_DISTANCE", "axis": "0 1 -1",
    "cut": "1: ::2 ::-1 -2: :2 0 :,0 -1", "arr": "SORT UNIQUE FLATTEN NONZERO ABS SQRT SHAPE",
    "red": "SUM MAX ANY AVG ALL",
    "case": "LOWER UPPER TRIM LTRIM RTRIM REVERSE", "w": "a x e é w apple", "word": "apple w1 a x É",
    "like": "LIKE ILIKE", "pattern": "*a* a% ?e* RED* É* % *ß* *.* w?", "quant": "ANY ALL ALL_STRICT", "and": "AND OR",
    "test": "STARTS_WITH ENDS_WITH MATCHES",
}  # fmt: skip


class Statements:
    """A source of statements, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.name = "scalars"

    def pick(self, words: str) -> str:
        """Return one of some words."""
        return self.chance.choice(words.split(" ")).replace("@", " ")

    def make(self, kind: str, depth: int) -> str:
        """Return an expression."""
        own = DATA[self.name]
        plain = {"number": own.numbers, "array": own.arrays, "text": own.texts}
        if kind in plain and (depth <= 0 or self.chance.random() < 0.3):
            return self.pick(plain[kind])
        form = self.chance.choice(_FORMS[kind].split(" |")).strip()
        return re.sub(r"\{(\w+)\}", lambda found: self._part(found.group(1), depth - 1), form)

    def _part(self, name: str, depth: int) -> str:
        own = DATA[self.name]
        kinds = {"n": "number", "a": "array", "t": "text", "c": "condition"}
        if name in kinds:
            return (
                self.make(kinds[name], depth) if depth > 0 or name != "c" else f"rid > {self.pick('3 9 20')}"
            )
        if name == "no":
            return self.chance.choice(["", "NOT "]) if self.chance.randrange(2) else ""
        if name == "j":
            return self.pick(own.documents)
        if name == "lits":
            return f"ARRAY[{', '.join(self.pick('1 0 2 -1 0.5 0.1') for _ in range(self.chance.choice([3, 4, 6, 8])))}]"
        if name == "date":
            return self.pick("at day ns when") if self.name == "hard" else self.pick(own.numbers)
        if name == "boxes":
            one, other = {"det": ("boxes", '"training/boxes"'), "hard": ("bx", "bx")}.get(
                self.name, ("rid", "rid")
            )
            return f"any(IOU({one}, {other}) > {self.pick('0.8 0.1 0.5')})"
        if name == "label":
            if not own.classes:
                return "rid < 5"
            label = self.chance.choice(list(own.classes))
            word = self.chance.choice(own.classes[label])
            forms = (f"{label} {self.pick(_WORDS_OF['cmp'])} '{word}'", f"contains({label}, '{word}')",
                     f"any({label} IN ('{word}', 1))", f"'{word}' != {label}")  # fmt: skip
            return self.chance.choice(forms)
        return self.pick(_WORDS_OF[name])

    def statement(self) -> str:
        """Return the next statement."""
        self.name = self.chance.choice(list(DATA))
        chance, source = self.chance, f'FROM "mem://tql-{self.name}"'
        where = f" WHERE {self.make('condition', chance.randint(1, 3))}" if chance.random() < 0.7 else ""
        order = ""
        if chance.random() < 0.45:
            keys = [self.make(chance.choice(["number", "text"]), 1) + self.pick("@ASC @DESC @DESC@NULLS@LAST")
                    for _ in range(chance.choice([1, 1, 2]))]  # fmt: skip
            order = f" ORDER BY {', '.join(keys)}"
        limit = chance.choice(["", "", " LIMIT 3", " LIMIT 5 OFFSET 2", " LIMIT 30 PERCENT"])
        one, other = (
            self.make(chance.choice(["number", "text", "array", "condition"]), depth) for depth in (2, 1)
        )
        number, text = self.make("number", 1), self.make("text", 1)
        few = chance.choice(["emb", "hard", "mats"])
        column = {"emb": "embedding", "hard": "v", "mats": "v"}[few]
        of = self.pick(DATA[self.name].numbers) + chance.choice(
            ["", f" {self.pick('+ - *')} {self.pick(DATA[self.name].numbers)}"]
        )
        reduced = f"{self.pick('sum max avg count std')}({of})"
        grouped = f"SELECT rid[0] AS first, count(*) AS n, {reduced} AS g, count(DISTINCT {text}) AS h {source}{where}"
        having = chance.choice(["", " HAVING count(*) > 1"]) + chance.choice(["", " ORDER BY n DESC"])
        drawn = f"{self.pick('REPLACE@FALSE REPLACE')} SEED {self.pick('1 7 123456789012')} LIMIT {self.pick('5 20')}"
        measure = f"{self.pick('cosine_similarity dot l2_distance')}({column}, {self._part('lits', 0)})"
        after = f"WHERE {self.make('condition', 2)}{limit}"
        rows = f"SELECT * {source}{where}{order}{limit}"
        values = f"SELECT rid, {one} AS p, {other} AS q {source}{where}{order}{limit}"
        few = f'SELECT rid FROM "mem://tql-{few}" ORDER BY {measure} {self.pick("DESC ASC")} LIMIT {self.pick("3 5")}'
        forms = [
            rows,
            rows,
            values,
            values,
            f"{grouped} GROUP BY {chance.choice([number, text])}{having}",
            f"SELECT * {source}{where}{order} SAMPLE BY {number} {drawn}",
            f"SELECT DISTINCT {chance.choice([number, text])} AS p {source}{where}{limit}",
            few,
            f"SELECT rid, {other} AS p FROM (SELECT *, {one} AS z {source}{where}) {after}",
        ]
        return chance.choice(forms)
