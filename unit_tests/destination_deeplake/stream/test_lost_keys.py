"""Append + deduplication where keys and cursors are not what their columns were declared to be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.report import warnings
from destination_deeplake.wire import Wire
from lakebed.upserts.store import Budget
from unit_tests.destination_deeplake.stream.test_writer import lake, open_stream, put, table

WAYS = [Budget(), Budget(at_once=0), Budget(at_once=0, unlearned=2.0), Budget(at_once=0, rows=1)]


@pytest.fixture(params=WAYS, ids=["at once", "waiting", "unlearned", "often merged"])
def _budget(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.upserts.store.BUDGET", request.param)


def keyed(key: tuple[str, ...] = ("id",), cursor: tuple[str, ...] | None = None, **types: Any) -> StreamPlan:
    schema = {"properties": {"id": {"type": ["null", "integer"]}, "v": {"type": "string"}, **types}}
    return StreamPlan(None, "s", WriteMode.DEDUP, schema, primary_key=(key,), cursor=cursor)


def sync(root: Path, plan: StreamPlan, *publishes: list[dict[str, Any]]) -> None:
    writer = open_stream(lake(root), plan)
    for rows in publishes:
        put(writer, *rows)
        writer.publish()
    writer.finish()
    writer.commit("done")


def values(root: Path) -> list[str]:
    return sorted(row["v"] for row in table(root / "s"))


NONE = "no number"


@pytest.mark.usefixtures("_budget")
def test_rows_whose_key_does_not_fit_are_kept_each(tmp_path: Path) -> None:
    lost = [{"id": NONE, "v": "a"}, {"id": [1], "v": "b"}, {"id": NONE, "v": "c"}]
    known = [{"id": 1, "v": "one"}, {"id": None, "v": "null"}]
    sync(tmp_path, keyed(), known, [*lost, {"id": None, "v": "null 2"}], [{"id": 1, "v": "one 2"}])
    assert values(tmp_path) == ["a", "b", "c", "null 2", "one 2"]
    # Later syncs leave them alone, too, and a null is still a key like any other.
    sync(tmp_path, keyed(), [{"id": NONE, "v": "d"}, {"id": None, "v": "null 3"}], [{"id": 1, "v": "one 3"}])
    assert values(tmp_path) == ["a", "b", "c", "d", "null 3", "one 3"]
    # Looking for rows of one key at all does so as well.
    sync(tmp_path, keyed(("v",)))
    sync(tmp_path, keyed(), [{"id": 1, "v": "one 4"}])
    assert values(tmp_path) == ["a", "b", "c", "d", "null 3", "one 4"]


@pytest.mark.usefixtures("_budget")
def test_a_key_inside_of_what_is_no_object_is_lost_as_well(tmp_path: Path) -> None:
    plan = keyed(("o", "id"), o={"type": "object", "properties": {"id": {"type": "integer"}}})
    sync(
        tmp_path,
        plan,
        [{"o": {"id": 1}, "v": "a"}, {"o": {"id": NONE}, "v": "b"}, {"o": {"id": NONE}, "v": "c"}],
    )
    sync(tmp_path, plan, [{"o": {"id": 1}, "v": "d"}])
    assert values(tmp_path) == ["b", "c", "d"]


@pytest.mark.usefixtures("_budget")
@pytest.mark.parametrize("declared", [{"type": ["null", "integer", "string"]}, {}])
def test_cursors_of_any_type_go_by_their_value(tmp_path: Path, declared: dict[str, Any]) -> None:
    plan = keyed(cursor=("at",), at=declared)
    sync(tmp_path, plan, [{"id": 1, "v": "a", "at": 9}, {"id": 2, "v": "A", "at": "9"}])
    sync(tmp_path, plan, [{"id": 1, "v": "b", "at": 10}, {"id": 1, "v": "c", "at": 9.5}])
    sync(tmp_path, plan, [{"id": 2, "v": "B", "at": "é"}], [{"id": 2, "v": "C", "at": 1}])
    assert values(tmp_path) == ["B", "b"]


@pytest.mark.usefixtures("_budget")
def test_rows_of_a_key_that_becomes_another_type_stay(tmp_path: Path) -> None:
    sync(tmp_path, keyed(), [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    changed = keyed(id={"type": "boolean"})
    sync(tmp_path, changed, [{"id": True, "v": "c"}])
    sync(tmp_path, changed, [{"id": True, "v": "d"}])
    assert values(tmp_path) == ["a", "b", "d"]


@pytest.mark.parametrize("changes", ["[{}]", '["x", null]', '[{"field": ["id"], "change": "NULLED"}]'])
def test_what_a_source_says_of_its_changes_may_be_anything(tmp_path: Path, changes: str) -> None:
    writer = open_stream(lake(tmp_path), keyed())
    record = (
        '{"type":"RECORD","record":{"stream":"s","emitted_at":1,"data":{"id":null,"v":"%s"},'
        '"meta":{"changes":%s}}}\n'
    )
    wire = Wire({writer.plan.key: writer.table})
    for text in "ab":
        list(wire.feed((record % (text, changes)).encode()))
    writer.publish()
    writer.finish()
    writer.commit("done")
    assert values(tmp_path) == ["b"]


@pytest.mark.usefixtures("_budget")
@pytest.mark.parametrize("key", [(("other",),), (("another",), ("other",))])
def test_rows_that_are_older_than_the_columns_of_their_key_stay(
    tmp_path: Path, key: tuple[tuple[str, ...], ...]
) -> None:
    sync(tmp_path, keyed(), [{"id": number, "v": "same"} for number in range(4)])
    types = {name: {"type": "integer"} for name in ("other", "another")}
    after = replace(keyed(**types), primary_key=key)
    # None of them is the row of the new key.
    sync(tmp_path, after, [{"id": 9, "other": 1}])
    sync(tmp_path, after, [{"id": 10, "other": 1}, {"id": 11, "v": "without a key"}])
    assert sorted(row["id"] for row in table(tmp_path / "s")) == [0, 1, 2, 10, 11]


@pytest.mark.usefixtures("_budget")
def test_rows_that_another_key_makes_one_are_told_of(tmp_path: Path) -> None:
    sync(tmp_path, keyed(), [{"id": number, "v": "same"} for number in range(4)])
    writer = open_stream(lake(tmp_path), replace(keyed(), primary_key=(("v",),)))
    writer.finish()
    assert [
        text
        for text in warnings([writer], {})
        if "3 rows were removed because a newer row has the same key" in text
    ]
    writer.commit("done")
    assert [row["id"] for row in table(tmp_path / "s")] == [3]


@pytest.mark.usefixtures("_budget")
@pytest.mark.parametrize("key", [(("id",),), (("id",), ("v",))])
def test_records_without_a_value_in_their_key_are_told_of(
    tmp_path: Path, key: tuple[tuple[str, ...], ...]
) -> None:
    """A null is a value like any other: what falls together so is told, with how many, and the first."""
    writer = open_stream(lake(tmp_path), replace(keyed(), primary_key=key))
    for rows in (
        [{"id": 1, "v": "a"}, {"id": NONE, "v": "b"}],
        [{"id": 2, "v": "c"}, {"id": None, "v": "d"}],
    ):
        put(writer, *rows)
        writer.publish()
    put(writer, {"v": "e"})
    writer.publish()
    writer.finish()
    told = [text for text in warnings([writer], {}) if "primary key" in text]
    assert len(told) == 1
    assert (
        "Stream 's': 2 records have no value in a field of their primary key, the first is record 4 "
        in told[0]
    )
    writer.commit("done")
    without = open_stream(lake(tmp_path / "without"), replace(keyed(), primary_key=key))
    put(without, {"id": 1, "v": "a"})
    without.finish()
    assert not [text for text in warnings([without], {}) if "primary key" in text]
