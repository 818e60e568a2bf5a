"""Hard deletions outlive their sync, and go with the rows that they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.stream.writer import StreamWriter, open_stream
from unit_tests.destination_deeplake.stream.test_writer import lake, plan, put, sync, table, waiting

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "integer"},
        "_ab_cdc_deleted_at": {"type": ["null", "string"], "format": "date-time"},
    }
}
NOW = "2024-05-06T07:08:09Z"

__all__ = ["waiting"]  # a fixture


def keyed(generation: int | None = None, minimum: int | None = 0, **more: Any) -> StreamPlan:
    generations = (
        {} if generation is None else {"generation_id": generation, "minimum_generation_id": minimum}
    )
    mode = more.pop("mode", WriteMode.DEDUP)
    return plan(mode, SCHEMA, primary_key=(("id",),), cursor=("at",), **generations, **more)


def row(number: int, at: int, *, deleted: bool = False) -> dict[str, Any]:
    return {"id": number, "at": at, "_ab_cdc_deleted_at": NOW if deleted else None}


def found(root: Path) -> list[tuple[int, int]]:
    return sorted((row["id"], row["at"]) for row in table(root / "users"))


def branches(root: Path) -> list[str]:
    return lakebed.load(str(root / "users"), read_only=True).branches


@pytest.mark.usefixtures("waiting")
def test_an_older_row_that_comes_late_does_not_bring_a_row_back(tmp_path: Path) -> None:
    sync(tmp_path, keyed(), row(1, 1), row(2, 1))
    sync(tmp_path, keyed(), row(1, 3, deleted=True))
    sync(tmp_path, keyed(), row(1, 2), row(2, 2))
    assert found(tmp_path) == [(2, 2)]
    sync(tmp_path, keyed(), row(1, 4))
    assert found(tmp_path) == [(1, 4), (2, 2)]


def test_a_delivery_that_is_repeated_brings_nothing_back(tmp_path: Path) -> None:
    rows = [row(1, 1), row(2, 1), row(1, 3, deleted=True)]
    for _ in range(3):
        for one in rows:
            sync(tmp_path, keyed(), one)
        sync(tmp_path, keyed(), *rows[:2])
    assert found(tmp_path) == [(2, 1)]


def test_deletions_that_wait_for_a_merge_are_remembered_by_the_next_sync(tmp_path: Path) -> None:
    sync(tmp_path, keyed(), row(1, 1), row(2, 1))
    writer = open_stream(lake(tmp_path), keyed())
    put(writer, row(1, 3, deleted=True))
    writer.publish()
    writer.release()
    sync(tmp_path, keyed(), row(1, 2))
    sync(tmp_path, keyed(), row(1, 2))
    assert found(tmp_path) == [(2, 1)]


def ended(root: Path, a_plan: StreamPlan, *rows: dict[str, Any], **more: Any) -> StreamWriter:
    writer = open_stream(lake(root), a_plan, **more)
    put(writer, *rows)
    writer.publish()
    writer.finish()
    writer.commit("done")
    return writer


def test_soft_deletions_are_rows_and_no_more(tmp_path: Path) -> None:
    ended(tmp_path, keyed(), row(1, 1), hard_deletes=False)
    ended(tmp_path, keyed(), row(1, 3, deleted=True), hard_deletes=False)
    ended(tmp_path, keyed(), row(1, 2), hard_deletes=False)
    assert found(tmp_path) == [(1, 3)]
    assert branches(tmp_path) == ["main"]


def test_who_wants_none_remembered_has_no_branch_of_them(tmp_path: Path) -> None:
    ended(tmp_path, keyed(), row(1, 1), row(1, 3, deleted=True))
    assert branches(tmp_path) == ["main", "airbyte-deleted"]
    ended(tmp_path, keyed(), row(2, 3, deleted=True), deletion_days=0)
    ended(tmp_path, keyed(), row(1, 2), deletion_days=0)
    assert found(tmp_path) == [(1, 2)]
    assert branches(tmp_path) == ["main"]


@pytest.mark.parametrize(
    "other",
    [
        keyed(mode=WriteMode.OVERWRITE),
        keyed(mode=WriteMode.APPEND),
        keyed(2, 2),
    ],
    ids=["overwrite", "append", "refresh"],
)
def test_other_rows_do_not_have_the_deletions_of_those_before(tmp_path: Path, other: StreamPlan) -> None:
    sync(tmp_path, keyed(1), row(1, 1), row(2, 1))
    sync(tmp_path, keyed(1), row(1, 3, deleted=True))
    sync(tmp_path, other, row(3, 1))
    sync(tmp_path, keyed(other.generation_id or 1), row(1, 2))
    assert (1, 2) in found(tmp_path)
    assert branches(tmp_path) == ["main"]


def test_a_refresh_brings_its_own_deletions(tmp_path: Path) -> None:
    sync(tmp_path, keyed(1), row(1, 1), row(9, 9, deleted=True))
    for generation in (2, 3, 4):
        sync(tmp_path, keyed(generation, generation), row(1, 1), row(1, 3, deleted=True), row(2, 1))
        assert len(branches(tmp_path)) == 2
        sync(tmp_path, keyed(generation), row(1, 2), row(9, 1))
        assert found(tmp_path) == [(2, 1), (9, 1)]


def test_a_refresh_that_is_given_up_takes_its_deletions_along(tmp_path: Path) -> None:
    sync(tmp_path, keyed(1), row(1, 1), row(1, 3, deleted=True), row(2, 1))
    writer = open_stream(lake(tmp_path), keyed(2, 2))
    put(writer, row(2, 3, deleted=True))
    writer.publish()
    writer.abandon()
    writer.commit("interrupted")
    sync(tmp_path, keyed(3, 3), row(3, 1))
    assert branches(tmp_path) == ["main"]
    assert found(tmp_path) == [(3, 1)]


def test_each_branch_remembers_its_own(tmp_path: Path) -> None:
    sync(tmp_path, keyed(), row(1, 1), row(1, 3, deleted=True), row(2, 1))
    dataset = lakebed.load(str(tmp_path / "users"))
    dataset.checkout("nightly", create=True)
    dataset.close()
    writer = open_stream(lake(tmp_path, "nightly"), keyed())
    put(writer, row(2, 3, deleted=True))
    writer.publish()
    writer.finish()
    writer.commit("done")
    sync(tmp_path, keyed(), row(2, 2), row(1, 2))
    assert found(tmp_path) == [(2, 2)]
