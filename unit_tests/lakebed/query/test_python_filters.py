"""Filters as people wrote them for 3.x: the rows that Deep Lake 3.9.52 answers with, and nothing is run as Python."""

from __future__ import annotations

import builtins
import itertools
import os
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import InvalidInputError, QueryError, QuerySyntaxError
from lakebed.query.language.python_filters import translated

NUMBER = itertools.count()


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    ds = lakebed.empty(f"mem://python-filters-{next(NUMBER)}")
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog", "cow"])
    ds.create_tensor("labels", htype="class_label", class_names=["cat", "dog", "cow"])
    ds.create_tensor("age", dtype="int64")
    ds.create_tensor("h", dtype="float64")
    ds.create_tensor("name", htype="text")
    ds.create_tensor("images", htype="image", sample_compression="png")
    ds.create_tensor("vec", dtype="float32")
    ds.create_tensor("doc", htype="json")
    ds.create_tensor("g/x", dtype="int64")
    ds.create_tensor("ok", dtype="bool")
    ds.create_tensor("gone", dtype="int64")
    with ds:
        for i in range(12):
            row = {
                "label": i % 3,
                "labels": [0, 1, 2][: i % 3 + 1],
                "age": i,
                "h": i / 2,
                "name": "xyz"[i % 3] * (i % 4),
                "images": np.full((2 + i % 3, 5, 3), i * 10, np.uint8),
                "vec": np.arange(i % 3 + 1, dtype=np.float32) + i,
                "doc": {"a": i, "k": "abc"[i % 3]},
                "g/x": i,
                "ok": i % 2 == 0,
                "gone": None if i % 4 else i,
            }
            ds.append(row)
    return ds


AS_IN_3X: list[tuple[str, list[int]]] = [
    ("label == 'cat'", [0, 3, 6, 9]),
    ('label == "cat"', [0, 3, 6, 9]),
    ("label != \"cat\"", [1, 2, 4, 5, 7, 8, 10, 11]),
    ("'cat' in label", [0, 3, 6, 9]),
    ("label in ['cat', 'dog']", [0, 1, 3, 4, 6, 7, 9, 10]),
    ("label in (0, 1)", [0, 1, 3, 4, 6, 7, 9, 10]),
    ("label not in [0, 1]", [2, 5, 8, 11]),
    ("labels == [0, 1]", [1, 4, 7, 10]),
    ("'dog' in labels", [1, 2, 4, 5, 7, 8, 10, 11]),
    ('"dog" not in labels', [0, 3, 6, 9]),
    ("labels.contains('dog')", [1, 2, 4, 5, 7, 8, 10, 11]),
    ('not labels.contains("dog") and 2 < age', [3, 6, 9]),
    ("images.shape[0] > 3", [2, 5, 8, 11]),
    ("images.shape == (4, 5, 3)", [2, 5, 8, 11]),
    ("images.shape[0:2] == (4, 5)", [2, 5, 8, 11]),
    ("1 < images.shape[-3] < 3 and age > 4", [6, 9]),
    ("50 < images.mean and images.max < 100", [6, 7, 8, 9]),
    ("images.size > 40", [1, 2, 4, 5, 7, 8, 10, 11]),
    ("images.min // 50 == 1", [5, 6, 7, 8, 9]),
    ("not age > 3", [0, 1, 2, 3]),
    ("3 < age < 7", [4, 5, 6]),
    ("-5 < age < 5", [0, 1, 2, 3, 4]),
    ("3 <= age <= 7 and label == 'dog'", [4, 7]),
    ("(age > 3) & (age < 7)", [4, 5, 6]),
    ("(age > 3) | (age < 1)", [0, 4, 5, 6, 7, 8, 9, 10, 11]),
    ("~(age > 3)", [0, 1, 2, 3]),
    ("age % 2 == 0", [0, 2, 4, 6, 8, 10]),
    ("age // 2 == 2", [4, 5]),
    ("age ** 2 > 30", [6, 7, 8, 9, 10, 11]),
    ("age < 3 or age > 9 and ok == True", [0, 1, 2, 10]),
    ("age in [1, 2, 3]", [1, 2, 3]),
    ("abs(age - 5) < 2", [4, 5, 6]),
    ("name == 'x'", [9]),
    ("name in ['x', 'yy']", [9, 10]),
    ("name not in ('x', 'yy')", [0, 1, 2, 3, 4, 5, 6, 7, 8, 11]),
    ("name == 'x' 'x'", [6]),
    ('name == "it\'s"', []),
    ("(vec > 5).any()", [5, 6, 7, 8, 9, 10, 11]),
    ("(vec > 5).all()", [6, 7, 8, 9, 10, 11]),
    ("5 < vec.max", [5, 6, 7, 8, 9, 10, 11]),
    ("2 < g.x < 5", [3, 4]),
    ("age is None", []),
    ("age is not None", list(range(12))),
    ("age == 0x3", [3]),
    ("age > 1_0", [11]),
]  # fmt: skip

BESIDES: list[tuple[str, list[int]]] = [
    ("name.startswith('x')", [3, 6, 9]),
    ("age // 2 == 2 and name.upper() == 'Y'", []),
    ('doc["k"] == \'b\' and age > 3', [4, 7, 10]),
    ("1 < len(name) < 3", [2, 6, 10]),
    ("labels[-1] == \"dog\"", [1, 4, 7, 10]),
    ("age > 3 if ok else age > 10", [4, 6, 8, 10, 11]),
    ("gone is None", [1, 2, 3, 5, 6, 7, 9, 10, 11]),
    ("gone is not None and 3 < gone < 9", [4, 8]),
    ("gone != None", [0, 4, 8]),
    ("int(h) == 2", [4, 5]),
    ("str(age) == '3'", [3]),
    ("images.numpy().mean() > 90", [10, 11]),
    ("images.sample_info['x'] == 1", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rows"), [*AS_IN_3X, *BESIDES])
def test_rows(ds: lakebed.Dataset, text: str, rows: list[int]) -> None:
    assert list(ds.filter(text, progressbar=False).sample_indices) == rows


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "(lambda x: x > 3)(age)",
        "[a for a in vec]",
        "any(a > 3 for a in vec)",
        "().__class__.__bases__[0].__subclasses__()[0]('x')",
        "age.__class__.__mro__[1].__subclasses__()",
        "f\"{age}\" == '3'",
        "(x := 3) == age",
        "{**doc} == 3",
        "age in range(3, 6)",
        "age is True",
        "age & 1",
        "~age",
        "len(*vec) > 1",
        "3 < age < 1e999",
        "name == b'x'",
        "doc['a':'b':2] < 3 < age",
        "await age",
    ],
)
def test_nothing_is_run(ds: lakebed.Dataset, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("it was run")

    for owner, name in ((builtins, "eval"), (builtins, "exec"), (os, "system")):
        monkeypatch.setattr(owner, name, fail)
    with pytest.raises(QuerySyntaxError, match="not run as Python"):
        ds.filter(text, progressbar=False)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "age" + ")" * 10_000,
        "not " * 10_000 + "ok",
        "~" * 3_000 + "ok",
        "1 < " * 5_000 + "age",
        "-" * 10_000 + "age == 3 < 4",
        "[" * 150 + "]" * 150 + " == 3 < 4",
        "age" + "[0]" * 3_000 + " == 3 < 4",
        "age" + ".mean()" * 3_000 + " < 3 < 4",
        "age + " * 3_000 + "age < 3 < 4",
        "9" * 10_000 + " < age < 3",
        "age ** 2 ** " + "9 ** " * 500 + "9 > 3",
        "name == '\x00' 'x'",
        "3 < age < 7 #" + "x" * 100_000,
        "age >",
        "age < < 3",
        "\ud800 < age < 3",
    ],
    ids=range(16),
)
def test_hostile_texts_are_errors(ds: lakebed.Dataset, text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        ds.filter(text, progressbar=False)
    assert len(str(caught.value)) < 2_000


def test_errors_of_the_language_stay(ds: lakebed.Dataset) -> None:
    for text, part in [
        ("nope > 3", "no column 'nope'"),
        ("foo(age) > 3", "no function FOO"),
        ("\"nmae\" == 'x'", "no column 'nmae'"),
        ("label == 'cta'", "cta"),
        ("3 < name < 7", "name holds text"),
        ("age >", "the query ends"),
        ("age BETWEEN 3", "AND is expected"),
    ]:
        with pytest.raises(QueryError, match=part):
            ds.filter(text, progressbar=False)


def test_names_are_columns_whatever_they_are_called() -> None:
    ds = lakebed.empty(f"mem://python-filters-{next(NUMBER)}")
    for name in ("order", "select"):
        ds.create_tensor(name, dtype="int64").extend([1, 5, 9])
    assert list(ds.filter("3 < order < 9 and select in [5]", progressbar=False).sample_indices) == [1]
    assert translated("x == 'a\\'; DROP'") == "(\"x\" == 'a''; DROP')"
