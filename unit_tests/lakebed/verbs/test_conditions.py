"""Comparisons of whole columns: conditions that choose the rows that plain Python chooses."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import InvalidInputError, InvalidKeyTypeError, QueryError
from unit_tests.lakebed.verbs.rows import ROWS

COMPARISONS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    (name, getattr(operator, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")
]


def chosen(keeps: Callable[[dict[str, Any]], bool]) -> list[int]:
    return [i for i, row in enumerate(ROWS) if keeps(row)]


def is_true(compare: Callable[[Any, Any], Any], value: Any, other: Any) -> bool:
    """As queries have it: a missing value compares as false."""
    return value is not None and bool(compare(value, other))


@pytest.mark.parametrize(
    ("column", "value"), [("age", 3), ("age", np.int64(3)), ("score", 2.5), ("name", "n3")]
)
@pytest.mark.parametrize(("name", "compare"), COMPARISONS)
def test_a_comparison_chooses_as_python_does(
    ds: lakebed.Dataset, column: str, value: Any, name: str, compare: Callable[[Any, Any], Any]
) -> None:
    condition = compare(ds[column], value)
    expected = chosen(lambda row: is_true(compare, row[column], value))
    assert list(ds[condition].sample_indices) == expected, name
    assert np.flatnonzero(condition.numpy()).tolist() == expected
    assert list(ds.filter(condition).sample_indices) == expected
    assert list(ds.query(condition).sample_indices) == expected
    assert (condition.sum(), len(condition)) == (len(expected), 20)


def test_conditions_are_joined_and_turned_around(ds: lakebed.Dataset) -> None:
    old, cat = ds["age"] > 4, ds["kind"] == "cat"

    def is_old(row: dict[str, Any]) -> bool:
        return row["age"] is not None and row["age"] > 4

    for condition, keeps in [
        (old & cat, lambda row: is_old(row) and row["kind"] == "cat"),
        (old | cat, lambda row: is_old(row) or row["kind"] == "cat"),
        (~old, lambda row: not is_old(row)),
        (~(old | cat), lambda row: not is_old(row) and row["kind"] != "cat"),
        (
            old & ~cat | ds["age"].isna(),
            lambda row: row["age"] is None or (is_old(row) and row["kind"] != "cat"),
        ),
        (ds["age"].isin([1, 4]), lambda row: row["age"] in (1, 4)),
        (ds["kind"].isin(["dog", "emu"]), lambda row: row["kind"] in ("dog", "emu")),
        (ds["age"].between(2, 5), lambda row: row["age"] is not None and 2 <= row["age"] <= 5),
        (ds["name"].isna() | ds["score"].isna(), lambda row: row["name"] is None or row["score"] is None),
        (ds["name"].notna(), lambda row: row["name"] is not None),
        (
            ds["age"] > ds["score"],
            lambda row: None not in (row["age"], row["score"]) and row["age"] > row["score"],
        ),
    ]:
        assert list(ds[condition].sample_indices) == chosen(keeps), condition
    mask = np.arange(20) < 10
    assert np.array_equal(old & mask, old.numpy() & mask)
    assert np.array_equal(mask & old, old.numpy() & mask)
    assert np.array_equal(old | list(mask), old.numpy() | mask)


def test_a_condition_is_no_truth_value(ds: lakebed.Dataset) -> None:
    condition = ds["age"] > 3
    with pytest.raises(TypeError, match=r"Condition\(\"age\" > 3\) has a value per row"):
        bool(condition)
    with pytest.raises(TypeError, match="join conditions with &"):
        _ = condition and ds["kind"] == "cat"
    assert (condition.any(), condition.all(), condition.mean()) == (True, False, condition.sum() / 20)
    assert list(condition) == condition.tolist() == condition.numpy().tolist()
    assert repr(condition & (ds["name"] == "x'y")) == """Condition(("age" > 3) AND ("name" == "x'y"))"""


def test_views_are_asked_by_columns_of_their_own(ds: lakebed.Dataset) -> None:
    cats = ds[ds["kind"] == "cat"]
    found = cats[cats["age"] > 4]
    assert list(found.sample_indices) == chosen(lambda r: r["kind"] == "cat" and (r["age"] or 0) > 4)
    assert list(ds[:][ds["age"] > 4].sample_indices) == list(ds[ds["age"] > 4].sample_indices)
    twice = ds[[3, 3, 9]]
    assert (twice["age"] == 1).numpy().tolist() == [True, True, False]
    for wrong in (
        lambda: ds[cats["age"] > 4],
        lambda: cats[ds["age"] > 4],
        lambda: (ds["age"] > 1) & (cats["age"] > 1),
    ):
        with pytest.raises(InvalidInputError, match="compares columns of other rows"):
            wrong()
    other = lakebed.from_rows("mem://verbs-other", [{"age": 1}])
    with pytest.raises(InvalidInputError, match="of other rows"):
        _ = ds[other["age"] > 0]
    with pytest.raises(InvalidInputError, match="'kind' is not among the tensors"):
        _ = ds[["age"]][ds["kind"] == "cat"]


def test_parts_and_arrays_say_what_to_write(ds: lakebed.Dataset) -> None:
    for wrong in (
        lambda: ds["vec"][:, 0] > 3,
        lambda: ds["age"] == [1, 2],
        lambda: ds["age"] < np.arange(20),
    ):
        with pytest.raises(TypeError, match="cannot be compared with arrays"):
            wrong()
    with pytest.raises(QueryError):
        _ = ds[ds["kind"] == "unicorn"]
    with pytest.raises(TypeError):
        _ = ds["age"] > object()


def test_values_are_never_read_as_a_query(ds: lakebed.Dataset) -> None:
    for text in ("' OR 1 == 1 --", '"age"', "?", "a\nb", "%", "*"):
        assert len(ds[ds["name"] == text]) == 0
    ds["name"][0] = "' OR 1 == 1 --"
    assert list(ds[ds["name"] == "' OR 1 == 1 --"].sample_indices) == [0]


def test_groups_and_names_of_several_words(ds: lakebed.Dataset) -> None:
    ds.create_tensor("part/size of it", dtype="int32").extend(range(20))
    assert len(ds[ds["part/size of it"] > 16]) == 3
    part = ds["part"]
    assert len(part[part["size of it"] > 16]) == 3
    assert (ds["part"]["size of it"] >= 18).sum() == 2


def test_one_column_by_a_condition(ds: lakebed.Dataset) -> None:
    assert ds["name"][ds["age"] == 7].tolist() == [ROWS[i]["name"] for i in chosen(lambda r: r["age"] == 7)]
    ds["score"][ds["age"] == 7] = 100.0
    assert [row["score"] == 100 for row in ds.rows()] == [row["age"] == 7 for row in ROWS]


def test_conditions_on_results(ds: lakebed.Dataset) -> None:
    result = ds.query("SELECT age * 2 AS twice, name")
    assert result[result["twice"] > 10]["name"].tolist() == [
        row["name"] for row in ROWS if row["age"] is not None and row["age"] > 5
    ]
    assert (result["twice"] == 14).numpy().tolist() == [row["age"] == 7 for row in ROWS]
    assert len(result[(result["twice"] > 10) & result["name"].isin(["n1", "n2"])]) == 1
    with pytest.raises(InvalidInputError, match="of other rows"):
        _ = ds[result["twice"] > 10]
    missing = [row["age"] is None for row in ROWS]
    assert (result["twice"] == None).tolist() == missing  # noqa: E711
    assert (result["twice"] != None).tolist() == [not one for one in missing]  # noqa: E711
    assert None not in [result["twice"], result["name"]]
    with pytest.raises(
        TypeError, match="'<' not supported between instances of 'ResultColumn' and 'NoneType'"
    ):
        _ = result["twice"] < None


def test_a_view_says_by_what_it_was_chosen(ds: lakebed.Dataset) -> None:
    ds.commit()
    ds[(ds["age"] > 3) & (ds["kind"] == "cat")].save_view(id="old-cats")
    entry = ds.get_view("old-cats")
    assert entry.query == """("age" > 3) AND ("kind" == 'cat')"""
    assert list(entry.load().sample_indices) == list(
        ds[(ds["age"] > 3) & (ds["kind"] == "cat")].sample_indices
    )


def test_a_column_that_is_shorter_hides_nothing_of_the_others(ds: lakebed.Dataset) -> None:
    ds.create_tensor("empty", dtype="int64")
    old = ds["age"] > 4
    assert old.sum() == len(chosen(lambda row: row["age"] is not None and row["age"] > 4))
    assert len(ds["name"][old].tolist()) == old.sum()
    with pytest.raises(QueryError, match="'empty'"):
        _ = ds[old]
    assert len(ds[["name", "age"]][ds[["name", "age"]]["age"] > 4]) == old.sum()


def test_columns_of_bools_choose_rows(ds: lakebed.Dataset) -> None:
    ds["old"] = ds["age"] > 4
    ds["low"] = ds["score"] < 3
    expected = list(ds[ds["age"] > 4].sample_indices)
    assert list(ds[ds["old"]].sample_indices) == list(ds.filter(ds["old"]).sample_indices) == expected
    assert list(ds[~ds["old"]].sample_indices) == [i for i in range(20) if i not in expected]
    both = set(expected) & set(ds[ds["score"] < 3].sample_indices)
    assert set(ds[ds["old"] & ds["low"]].sample_indices) == both
    assert set(ds[(ds["age"] > 4) & ds["low"]].sample_indices) == both
    with pytest.raises(InvalidKeyTypeError, match="a column of bools chooses rows"):
        _ = ds[ds["age"]]


def test_columns_that_are_equal_and_missing_values(ds: lakebed.Dataset) -> None:
    ds["copy"] = ds["age"]
    ds["copy"][0] = 99
    assert (ds["age"] == ds["copy"]).numpy().tolist() == [
        row["age"] is not None and i > 0 for i, row in enumerate(ROWS)
    ]
    assert list(ds[ds["age"] == None].sample_indices) == chosen(lambda row: row["age"] is None)  # noqa: E711
    assert (ds["age"] == ds["age"], ds["age"] != ds["copy"], ds["age"] in [ds["name"], ds["age"]])[2]
    assert bool(ds["age"] == ds["age"])
    assert not bool(ds["age"] == ds["copy"])
    assert list(ds[ds["age"].isin([3, None])].sample_indices) == chosen(lambda row: row["age"] in (3, None))
    with pytest.raises(InvalidInputError, match=r"isin\(\['cat'\]\)"):
        ds["kind"].isin("cat")


def test_labels_arrays_lists_and_texts_contain_values() -> None:
    ds = lakebed.empty("mem://conditions-contain")
    ds.create_tensor("kinds", htype="class_label", class_names=["cat", "dog", "cow"])
    ds.create_tensor("tags", htype="tag")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("v", dtype="int64")
    for kinds in (["cat"], ["dog", "cat"], [], ["cow"], None):
        row = {
            "kinds": kinds,
            "tags": kinds,
            "text": kinds and " ".join(kinds),
            "v": None if kinds is None else [1, 2],
        }
        ds.append(row)

    def rows(condition: Any) -> list[int]:
        return [int(row) for row in ds[condition].sample_indices]

    for name in ("kinds", "tags", "text"):
        assert rows(ds[name].contains("cat")) == [0, 1], name
        assert rows(ds[name].contains("cat") & ~ds[name].contains("dog")) == [0], name
        assert rows(ds[name].contains("dog") | ds[name].contains("cow")) == [1, 3], name
        by_function = ds.filter(lambda row, name=name: row[name].contains("cat"), progressbar=False)
        assert list(by_function.sample_indices) == [0, 1], name
    assert (rows(ds["kinds"].contains("c*")), rows(ds["kinds"].contains(1))) == ([0, 1, 3], [1])
    assert rows(ds["v"].contains(2)) == [0, 1, 2, 3]
    assert repr(ds["kinds"].contains("cat")) == "Condition(CONTAINS(\"kinds\", 'cat'))"
    result = ds.query("SELECT kinds, v[0] AS first")
    assert len(result[result["kinds"].contains("cat")]) == 2
    with pytest.raises(QueryError, match="no class is named 'bird'"):
        rows(ds["kinds"].contains("bird"))
    with pytest.raises(InvalidInputError, match="contains takes one value: join conditions"):
        ds["kinds"].contains(["cat", "dog"])
