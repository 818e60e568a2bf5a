"""One stream -> one dataset, with the real library and the real record tables."""

import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, StreamChoices
from destination_deeplake.config import Place
from destination_deeplake.failures import ConfigError, FailureType, describe
from destination_deeplake.lake import Lake
from destination_deeplake.naming import META_COLUMNS
from destination_deeplake.stream import writer as writer_module
from destination_deeplake.stream.staging import STAGING_BRANCH
from destination_deeplake.stream.writer import StreamWriter, open_stream
from destination_deeplake.wire import Wire
from lakebed.errors import LockedException
from lakebed.upserts import store
from lakebed.upserts.putting_off import MergePutOffError
from unit_tests.effort import PATIENCE

SCHEMA = {"properties": {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}}


def lake(root: Path, branch: str | None = None) -> Lake:
    return Lake(Place(str(root)), branch)


def plan(mode: WriteMode = WriteMode.APPEND, schema: dict[str, Any] = SCHEMA, **more: Any) -> StreamPlan:
    return StreamPlan(more.pop("namespace", None), more.pop("name", "users"), mode, schema, **more)


def put(writer: StreamWriter, *rows: dict[str, Any]) -> None:
    wire = Wire({writer.plan.key: writer.table})
    namespace, stream = writer.plan.key
    for row in rows:
        record = {"stream": stream, "namespace": namespace, "data": row, "emitted_at": 1700000000000}
        line = json.dumps({"type": "RECORD", "record": record}).encode() + b"\n"
        assert list(wire.feed(line)) == []


def sync(root: Path, a_plan: StreamPlan, *rows: dict[str, Any], message: str = "done") -> StreamWriter:
    writer = open_stream(lake(root), a_plan)
    put(writer, *rows)
    writer.publish()
    writer.finish()
    writer.commit(message)
    return writer


@pytest.fixture(params=[0, 8_000_000], ids=["rows wait", "rows go in at once"])
def waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer rows of known keys wait for a merge, or the dataset is small enough for them."""
    monkeypatch.setattr(store, "BUDGET", store.Budget(at_once=request.param))


def no_time() -> None:
    raise MergePutOffError


def column(path: Path, name: str) -> list[Any]:
    return [row[name] for row in table(path)]


def column_elsewhere(path: Path, name: str) -> list[Any]:
    """Read a column in another process: in this one, opening a dataset publishes what others here still hold."""
    program = "import sys, lakebed; print(lakebed.load(sys.argv[1])[sys.argv[2]].numpy().ravel().tolist())"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), name], check=True, capture_output=True, timeout=PATIENCE
    )
    values: list[Any] = json.loads(done.stdout)
    return values


def table(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.table(lakebed.load(str(path), read_only=True)).to_pylist()
    return rows


def test_rows_are_appended_with_the_meta_columns(tmp_path: Path) -> None:
    sync(tmp_path, plan(generation_id=3, sync_id=9), {"id": 1, "name": "a"}, {"id": 2, "name": None})
    sync(tmp_path, plan(generation_id=4, sync_id=10), {"id": 3, "name": ""})
    rows = table(tmp_path / "users")
    assert [(row["id"], row["name"]) for row in rows] == [(1, "a"), (2, None), (3, "")]
    assert [row["_airbyte_generation_id"] for row in rows] == [3, 3, 4]
    assert [row["_airbyte_extracted_at"].timestamp() for row in rows] == [1700000000] * 3
    assert [json.loads(row["_airbyte_meta"])["sync_id"] for row in rows] == [9, 9, 10]
    assert len({row["_airbyte_raw_id"] for row in rows}) == 3


def test_what_is_published_is_visible_before_the_sync_ends(tmp_path: Path) -> None:
    writer = open_stream(lake(tmp_path), plan())
    put(writer, {"id": 1})
    assert writer.durable == 0
    writer.publish()
    assert writer.durable == 1
    assert column_elsewhere(tmp_path / "users", "id") == [1]
    writer.abandon()
    writer.commit("broke off")


def test_a_sync_leaves_one_commit_and_an_empty_one_leaves_none(tmp_path: Path) -> None:
    sync(tmp_path, plan(), message="nothing came")
    assert lakebed.load(str(tmp_path / "users"), read_only=True).commits == []
    writer = open_stream(lake(tmp_path), plan())
    for number in (1, 2):
        put(writer, {"id": number})
        writer.publish()
    writer.abandon()
    writer.commit("incomplete: 2")
    sync(tmp_path, plan(), {"id": 3}, message="complete: 1")
    messages = [commit["message"] for commit in lakebed.load(str(tmp_path / "users"), read_only=True).commits]
    assert messages == ["complete: 1", "incomplete: 2"]


def test_the_dataset_knows_its_real_names(tmp_path: Path) -> None:
    schema = {"properties": {"path": {"type": "string"}, "a/b": {"type": "integer"}}}
    sync(tmp_path, plan(schema=schema, namespace="..", name="x/y"), {"path": "p", "a/b": 1})
    dataset = lakebed.load(str(tmp_path / "%2E%2E" / "x%2Fy"), read_only=True)
    info = dataset.info["airbyte"]
    assert (info["namespace"], info["stream"]) == ("..", "x/y")
    assert info["columns"] == {"path": "path_", "a/b": "a%2Fb"}
    assert info["kinds"] == {"path": "TEXT", "a/b": "INT64"}
    assert set(dataset.tensors) == {"path_", "a%2Fb", *META_COLUMNS}


def test_another_stream_never_gets_into_the_folder(tmp_path: Path) -> None:
    sync(tmp_path, plan(), {"id": 1})
    (tmp_path / "users").rename(tmp_path / "orders")
    for mode in WriteMode:
        with pytest.raises(ConfigError, match=r"'users' without a namespace.*'orders' without a namespace"):
            open_stream(lake(tmp_path), plan(mode, name="orders"))
    assert column(tmp_path / "orders", "id") == [1]


def test_a_dataset_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    dataset = lakebed.empty(str(tmp_path / "users"))
    dataset.create_tensor("mine", dtype="int64")
    dataset.extend({"mine": [1]})
    dataset.close()
    for mode in WriteMode:
        with pytest.raises(ConfigError, match="not of this connector"):
            open_stream(lake(tmp_path), plan(mode))


def test_a_dataset_that_an_earlier_sync_could_only_make_is_taken(tmp_path: Path) -> None:
    lakebed.empty(str(tmp_path / "users")).close()
    sync(tmp_path, plan(), {"id": 1})
    assert column(tmp_path / "users", "id") == [1]


def test_columns_come_and_go_and_rows_stay_whole(tmp_path: Path) -> None:
    sync(tmp_path, plan(), {"id": 1, "name": "a"})
    newer = {
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date"},
            "tags": {"type": "array"},
            "ok": {"type": "boolean"},
        }
    }
    sync(tmp_path, plan(schema=newer), {"id": 2, "at": "2024-02-29", "tags": [1], "ok": True})
    sync(tmp_path, plan(), {"id": 3, "name": "c"})
    rows = table(tmp_path / "users")
    assert [row["name"] for row in rows] == ["a", None, "c"]
    assert [row["at"] and row["at"].isoformat() for row in rows] == [None, "2024-02-29", None]
    assert [row["tags"] and json.loads(row["tags"]) for row in rows] == [None, [1], None]
    assert [row["ok"] for row in rows] == [None, True, None]


def test_a_column_keeps_its_tensor_and_becomes_wider_when_the_source_changes_its_type(tmp_path: Path) -> None:
    sync(tmp_path, plan(), {"id": 1, "name": "a"})
    changed = {
        "properties": {"id": {"type": "string"}, "name": {"type": "integer"}, "ID": {"type": "string"}}
    }
    writer = sync(tmp_path, plan(schema=changed), {"id": "2", "name": 5, "ID": "x"}, {"id": "two"})
    rows = table(tmp_path / "users")
    assert [row["id"] for row in rows] == ["1", "2", "two"]
    assert [row["name"] for row in rows] == ["a", "5", None]
    assert len(writer.notes) == 2
    assert "'name' is now INT64 but stays TEXT" in writer.notes[0]
    assert "'id' was INT64 and is TEXT from now on" in writer.notes[1]


OWN = {"properties": {"id": {"type": "integer"}} | {name: {"type": "integer"} for name in META_COLUMNS}}
"""A stream whose columns are named like those of the connector."""


def test_a_source_column_called_like_a_meta_column_is_stored_beside_it(tmp_path: Path) -> None:
    sync(tmp_path, plan(), {"id": 1, "name": "before"})
    mine = dict.fromkeys(META_COLUMNS, 7)
    writer = sync(tmp_path, plan(schema=OWN), {"id": 2} | mine, {"id": 3, "_airbyte_meta": "none"})
    assert writer.notes == []
    first, second, third = table(tmp_path / "users")
    for name in META_COLUMNS:
        assert [row[name + "_"] for row in (first, second, third)] == [None, 7, None]
    assert len({row["_airbyte_raw_id"] for row in (first, second, third)}) == 3
    assert [change["field"] for change in json.loads(third["_airbyte_meta"])["changes"]] == ["_airbyte_meta"]
    recorded = lakebed.load(tmp_path / "users").info["airbyte"]["columns"]
    assert {name: recorded[name] for name in META_COLUMNS} == {name: name + "_" for name in META_COLUMNS}
    # The column goes, and comes back as another type.
    sync(tmp_path, plan(), {"id": 4})
    texts = {"properties": {"id": {"type": "integer"}, "_airbyte_meta": {"type": "string"}}}
    sync(tmp_path, plan(schema=texts), {"id": 5, "_airbyte_meta": "x"})
    assert column(tmp_path / "users", "_airbyte_meta_") == [None, "7", None, None, "x"]


def test_a_source_column_called_like_a_meta_column_can_be_key_and_cursor(
    tmp_path: Path, waiting: None
) -> None:
    named = {"primary_key": (("_airbyte_raw_id",),), "cursor": ("_airbyte_extracted_at",)}
    keyed = plan(WriteMode.DEDUP, OWN, **named)
    key, cursor, *_ = META_COLUMNS
    sync(tmp_path, keyed, {"id": 1, key: 1, cursor: 5}, {"id": 2, key: 2, cursor: 5})
    sync(tmp_path, keyed, {"id": 3, key: 1, cursor: 6}, {"id": 4, key: 2, cursor: 4}, {"id": 5, key: "lost"})
    found = sorted((row["id"], row[key + "_"]) for row in table(tmp_path / "users"))
    assert found == [(2, 2), (3, 1), (5, None)]


@pytest.mark.parametrize("name", ["_airbyte_file/name", "_airbyte_exact/id"])
def test_a_column_that_would_be_taken_for_another_is_refused_and_can_be_left_out(
    tmp_path: Path, name: str
) -> None:
    schema = {"properties": {"id": {"type": "integer"}, name: {"type": "string"}}}
    with pytest.raises(ConfigError, match="has a name that the connector uses"):
        open_stream(lake(tmp_path), plan(schema=schema))
    sync(tmp_path, plan(schema=schema, choices=StreamChoices(exclude=(name,))), {"id": 1, name: "x"})
    assert column(tmp_path / "users", "id") == [1]


def test_a_meta_column_of_the_source_survives_a_refresh_and_choices(tmp_path: Path) -> None:
    label = StreamChoices(columns={"_airbyte_meta": ColumnChoice("_airbyte_meta", htype="class_label")})
    of_texts = {"properties": {"_airbyte_meta": {"type": "string"}}}
    for generation in (1, 2):
        sync(
            tmp_path,
            plan(
                WriteMode.OVERWRITE,
                of_texts,
                choices=label,
                generation_id=generation,
                minimum_generation_id=generation,
            ),
            {"_airbyte_meta": "a"},
            {"_airbyte_meta": "b"},
        )
    dataset = lakebed.load(tmp_path / "users")
    assert dataset["_airbyte_meta_"].info["class_names"] == ["a", "b"]
    assert column(tmp_path / "users", "_airbyte_meta_") == ["a", "b"]
    assert json.loads(table(tmp_path / "users")[0]["_airbyte_meta"])["changes"] == []


@pytest.mark.parametrize("mode", WriteMode)
def test_a_second_sync_of_the_stream_is_refused_at_its_start(tmp_path: Path, mode: WriteMode) -> None:
    first = open_stream(lake(tmp_path), plan(mode, generation_id=1, primary_key=(("id",),)))
    for other in (
        mode,
        WriteMode.APPEND,
    ):  # rows that came meanwhile would be lost when others take their place
        with pytest.raises(LockedException) as caught:
            open_stream(lake(tmp_path), plan(other, generation_id=1, primary_key=(("id",),)))
    assert describe(caught.value).failure_type is FailureType.TRANSIENT
    put(first, {"id": 1})
    first.publish()
    first.finish()
    first.commit("complete")
    assert column(tmp_path / "users", "id") == [1]


def test_tensors_that_the_user_added_grow_along(tmp_path: Path) -> None:
    sync(tmp_path, plan(), {"id": 1})
    dataset = lakebed.load(str(tmp_path / "users"), read_only=False)
    dataset.create_tensor("label", htype="text")
    dataset["label"].extend(["good"])
    dataset.close()
    sync(tmp_path, plan(), {"id": 2})
    dataset = lakebed.load(str(tmp_path / "users"), read_only=True)
    assert len(dataset) == 2
    assert dataset["label"][0].text() == "good"


def test_an_overwrite_shows_the_old_rows_until_it_is_done(tmp_path: Path) -> None:
    sync(tmp_path, plan(), {"id": 1, "name": "old"})
    newer = {"properties": {"name": {"type": "string"}, "path": {"type": "string"}}}
    writer = open_stream(lake(tmp_path), plan(WriteMode.OVERWRITE, newer))
    put(writer, {"name": "new", "path": "p"})
    writer.publish()
    assert column(tmp_path / "users", "name") == ["old"]
    writer.finish()
    writer.commit("complete")
    [row] = table(tmp_path / "users")
    assert row["name"] == "new"
    assert "id" not in row
    dataset = lakebed.load(str(tmp_path / "users"), read_only=True)
    assert dataset.branches == ["main"]
    assert dataset.commits[0]["message"] == "complete"


def test_an_overwrite_without_rows_empties_the_dataset(tmp_path: Path) -> None:
    sync(tmp_path, plan(), {"id": 1})
    sync(tmp_path, plan(WriteMode.OVERWRITE), message="complete: 0")
    dataset = lakebed.load(str(tmp_path / "users"), read_only=True)
    assert len(dataset) == 0
    assert dataset.commits[0]["message"] == "complete: 0"
    sync(tmp_path, plan(), {"id": 2})
    assert column(tmp_path / "users", "id") == [2]


def attempt(root: Path, a_plan: StreamPlan, *rows: dict[str, Any]) -> StreamWriter:
    """Run an overwrite that ends early."""
    writer = open_stream(lake(root), a_plan)
    put(writer, *rows)
    writer.publish()
    writer.abandon()
    writer.commit("incomplete")
    return writer


def truncate(generation: int, mode: WriteMode = WriteMode.APPEND, **more: Any) -> StreamPlan:
    """A sync after which only rows of this generation may be there."""
    return plan(mode, generation_id=generation, minimum_generation_id=generation, **more)


def generation_of(path: Path) -> object:
    return lakebed.load(str(path), read_only=True).info["airbyte"]["generation_id"]


def test_an_interrupted_truncate_goes_on_in_the_same_generation(tmp_path: Path) -> None:
    sync(tmp_path, plan(), {"id": 1})
    first = attempt(tmp_path, truncate(5), {"id": 2})
    assert first.durable == 1
    assert column(tmp_path / "users", "id") == [1]
    second = sync(tmp_path, truncate(5), {"id": 3})
    assert "continuing with 1 rows of an interrupted sync" in second.notes[0]
    assert second.was_swapped
    assert column(tmp_path / "users", "id") == [2, 3]
    assert generation_of(tmp_path / "users") == 5


@pytest.mark.parametrize("second", [6, 4])
def test_an_interrupted_truncate_of_another_generation_is_thrown_away(tmp_path: Path, second: int) -> None:
    sync(tmp_path, plan(), {"id": 1})
    attempt(tmp_path, truncate(5), {"id": 2})
    sync(tmp_path, truncate(second), {"id": 3})
    assert column(tmp_path / "users", "id") == [3]


@pytest.mark.parametrize("generations", [(5, 5), (None, None), (1, 2)])
def test_an_overwrite_begins_anew_whatever_its_generation(
    tmp_path: Path, generations: tuple[int | None, int | None]
) -> None:
    """Runners that overwrite by mode may number every sync alike: what an attempt left is not of this sync."""
    first, second = (
        plan(WriteMode.OVERWRITE, generation_id=number, minimum_generation_id=number)
        for number in generations
    )
    sync(tmp_path, first, {"id": 1})
    assert attempt(tmp_path, first, {"id": 2}).durable == 0
    sync(tmp_path, second, {"id": 3})
    assert column(tmp_path / "users", "id") == [3]


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.DEDUP])
def test_rows_of_a_refresh_that_was_given_up_are_added_by_the_next_sync(
    tmp_path: Path, mode: WriteMode
) -> None:
    """Their states were acknowledged, so the source will not send them again."""
    key = {"primary_key": (("id",),)}
    sync(tmp_path, plan(mode, generation_id=41, minimum_generation_id=0, **key), {"id": 1})
    attempt(tmp_path, truncate(42, mode, **key), {"id": 2})
    after = plan(mode, generation_id=43, minimum_generation_id=0, **key)
    writer = sync(tmp_path, after, {"id": 3}, message="after")
    assert "1 rows that an interrupted refresh had staged are added" in writer.notes
    assert [(row["id"], row["_airbyte_generation_id"]) for row in table(tmp_path / "users")] == [
        (1, 41),
        (2, 42),
        (3, 43),
    ]
    dataset = lakebed.load(str(tmp_path / "users"), read_only=True)
    assert dataset.branches == ["main"]
    assert sync(tmp_path, after).notes == []


def test_rows_of_a_refresh_that_was_given_up_are_added_once_although_that_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(tmp_path, plan(), {"id": 1})
    attempt(tmp_path, truncate(5), {"id": 2})

    def die(_: object) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(writer_module, "discard", die)
        with pytest.raises(OSError, match="gone"):
            open_stream(lake(tmp_path), plan(generation_id=6, minimum_generation_id=0))
    gc.collect()
    sync(tmp_path, plan(generation_id=6, minimum_generation_id=0), {"id": 3})
    assert column(tmp_path / "users", "id") == [1, 2, 3]


@pytest.mark.parametrize("clean_up_fails", [False, True])
@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_a_commit_that_fails_says_so_and_gives_the_dataset_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException], clean_up_fails: bool
) -> None:
    error = kind("the disk is gone")
    keyed = plan(WriteMode.DEDUP, primary_key=(("id",),))
    sync(tmp_path, keyed, {"id": 1})
    writer = open_stream(lake(tmp_path), keyed)
    put(writer, {"id": 2})
    writer.publish()
    writer.finish()

    def fail(*_: object, **__: object) -> None:
        raise error

    def fail_again(_: object) -> None:
        raise ValueError("nor the other one")

    with monkeypatch.context() as patch:
        patch.setattr(lakebed.Dataset, "commit", fail)
        if clean_up_fails:
            patch.setattr(store.UpsertStore, "forget", fail_again)
        with pytest.raises(type(error)) as caught:
            writer.commit("complete")
    assert caught.value is error
    assert any("nor the other one" in note for note in getattr(error, "__notes__", [])) == clean_up_fails
    # It is not held any more, and what was durable before stays.
    sync(tmp_path, keyed, {"id": 3})
    assert column(tmp_path / "users", "id") == [1, 2, 3]


def test_an_interrupted_overwrite_adds_nothing_to_later_syncs(tmp_path: Path) -> None:
    sync(tmp_path, plan(), {"id": 1})
    attempt(tmp_path, plan(WriteMode.OVERWRITE, generation_id=1), {"id": 2})
    sync(tmp_path, plan(generation_id=1, minimum_generation_id=0), {"id": 3})
    assert column(tmp_path / "users", "id") == [1, 3]
    assert lakebed.load(str(tmp_path / "users"), read_only=True).branches == ["main"]


def test_rows_that_no_attempt_could_go_on_with_are_promised_only_when_swapped_in(tmp_path: Path) -> None:
    writer = open_stream(lake(tmp_path), plan(WriteMode.OVERWRITE))
    put(writer, {"id": 1})
    writer.publish()
    assert (writer.written, writer.durable) == (1, 0)
    writer.finish()
    writer.commit("complete")
    assert writer.durable == 1


def test_an_append_that_asks_for_no_older_generation_overwrites(tmp_path: Path) -> None:
    sync(tmp_path, plan(generation_id=1, minimum_generation_id=0), {"id": 1})
    truncate = plan(generation_id=2, minimum_generation_id=2)
    attempt(tmp_path, truncate, {"id": 2})
    assert column(tmp_path / "users", "id") == [1]
    sync(tmp_path, truncate, {"id": 3})
    assert column(tmp_path / "users", "id") == [2, 3]
    assert STAGING_BRANCH not in lakebed.load(str(tmp_path / "users"), read_only=True).branches


def test_an_append_of_the_generation_that_is_there_already_keeps_its_rows(tmp_path: Path) -> None:
    same = plan(generation_id=1, minimum_generation_id=1)
    sync(tmp_path, same, {"id": 1})
    sync(tmp_path, same, {"id": 2})
    assert column(tmp_path / "users", "id") == [1, 2]


def test_overwritten_columns_keep_their_tensor_names(tmp_path: Path) -> None:
    sync(tmp_path, plan(schema={"properties": {"id": {"type": "integer"}}}), {"id": 1})
    sync(
        tmp_path,
        plan(schema={"properties": {"ID": {"type": "integer"}, "id": {"type": "integer"}}}),
        {"ID": 2},
    )
    before = lakebed.load(str(tmp_path / "users"), read_only=True).info["airbyte"]["columns"]
    both = {"properties": {"ID": {"type": "string"}}}
    sync(tmp_path, plan(WriteMode.OVERWRITE, both), {"ID": "x"})
    after = lakebed.load(str(tmp_path / "users"), read_only=True).info["airbyte"]
    assert after["columns"] == {"ID": before["ID"]}
    assert after["kinds"] == {"ID": "TEXT"}


# -- rows by key -----------------------------------------------------------------------------------------------------

CHANGES = {
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "at": {"type": "integer"},
        "_ab_cdc_deleted_at": {"type": ["null", "string"], "format": "date-time"},
        "in": {"type": "object", "properties": {"side": {"type": "integer"}}},
    }
}


def dedup(
    key: tuple[tuple[str, ...], ...] = (("id",),), cursor: tuple[str, ...] = ("at",), **more: Any
) -> StreamPlan:
    return plan(WriteMode.DEDUP, CHANGES, primary_key=key, cursor=cursor, **more)


def pairs(path: Path) -> list[tuple[int, str]]:
    """`id` and `name` of all rows, in order of the ids."""
    return sorted((row["id"], row["name"]) for row in table(path))


@pytest.mark.usefixtures("waiting")
def test_newer_rows_take_the_place_of_older_ones_of_their_key(tmp_path: Path) -> None:
    sync(tmp_path, dedup(), {"id": 1, "name": "a", "at": 1}, {"id": 2, "name": "b", "at": 1})
    writer = open_stream(lake(tmp_path), dedup())
    put(
        writer,
        {"id": 2, "name": "late", "at": 0},
        {"id": 1, "name": "A", "at": 2},
        {"id": 3, "name": "c", "at": 1},
    )
    writer.publish()
    assert (writer.written, writer.durable) == (3, 3)
    writer.finish()
    writer.commit("done")
    assert pairs(tmp_path / "users") == [(1, "A"), (2, "b"), (3, "c")]
    dataset = lakebed.load(str(tmp_path / "users"), read_only=True)
    assert dataset.branches == ["main"]
    assert dataset.info["airbyte"]["key"] == ["id"]
    assert dataset.info["airbyte"]["mode"] == "append_dedup"


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize(("hard", "kept"), [(True, []), (False, [(1, "gone")])])
def test_deletions_at_the_source_take_rows_away_or_mark_them(
    tmp_path: Path, hard: bool, kept: list[tuple[int, str]]
) -> None:
    gone = {"id": 1, "name": "gone", "at": 2, "_ab_cdc_deleted_at": "2024-01-01T00:00:00Z"}
    sync(tmp_path, dedup(), {"id": 1, "name": "a", "at": 1})
    writer = open_stream(lake(tmp_path), dedup(), hard_deletes=hard)
    put(writer, gone, *([{**gone, "id": 7}] if hard else []))
    writer.publish()
    writer.finish()
    writer.commit("done")
    assert pairs(tmp_path / "users") == kept


def test_a_sync_without_time_to_merge_leaves_that_to_the_next_of_any_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUDGET", store.Budget(at_once=0))
    sync(tmp_path, dedup(), {"id": 1, "name": "a", "at": 1})
    writer = open_stream(lake(tmp_path), dedup(), checkpoint=no_time)
    put(writer, {"id": 1, "name": "A", "at": 2}, {"id": 2, "name": "b", "at": 1})
    writer.publish()
    assert not writer.finish()
    assert writer.was_put_off
    writer.abandon()
    writer.commit("stopped")
    assert pairs(tmp_path / "users") == [(1, "a"), (2, "b")]
    after = sync(tmp_path, plan(schema=CHANGES), {"id": 1, "name": "appended", "at": 3})
    assert "not merged are merged now" in after.notes[-1]
    assert pairs(tmp_path / "users") == [(1, "A"), (1, "appended"), (2, "b")]
    # Appending has made the key worthless: the next sync by key looks at all rows.
    assert "key" not in lakebed.load(str(tmp_path / "users"), read_only=True).info["airbyte"]
    sync(tmp_path, dedup())
    assert pairs(tmp_path / "users") == [(1, "appended"), (2, "b")]


def test_the_key_may_change_and_may_lie_deep(tmp_path: Path) -> None:
    sync(
        tmp_path,
        dedup(),
        {"id": 1, "name": "a", "at": 1, "in": {"side": 5}},
        {"id": 2, "name": "b", "at": 2, "in": {"side": 5}},
    )
    sync(tmp_path, dedup((("in", "side"),)), {"id": 3, "name": "c", "at": 3, "in": {"side": 6}})
    # The first rows are older than the column of the key, so nothing tells that they are one.
    assert pairs(tmp_path / "users") == [(1, "a"), (2, "b"), (3, "c")]
    sync(tmp_path, dedup((("in", "side"),)), {"id": 4, "name": "d", "at": 4, "in": {"side": 6}})
    assert pairs(tmp_path / "users") == [(1, "a"), (2, "b"), (4, "d")]


@pytest.mark.usefixtures("waiting")
def test_a_truncate_by_key_shows_the_old_rows_until_it_is_complete(tmp_path: Path) -> None:
    sync(tmp_path, dedup(generation_id=1, minimum_generation_id=0), {"id": 1, "name": "old", "at": 9})
    refresh = dedup(generation_id=2, minimum_generation_id=2)
    attempt(tmp_path, refresh, {"id": 1, "name": "new", "at": 1}, {"id": 2, "name": "b", "at": 1})
    attempt(tmp_path, refresh, {"id": 1, "name": "newer", "at": 2})
    assert pairs(tmp_path / "users") == [(1, "old")]
    sync(tmp_path, refresh, {"id": 2, "name": "late", "at": 0})
    assert pairs(tmp_path / "users") == [(1, "newer"), (2, "b")]
    assert lakebed.load(str(tmp_path / "users"), read_only=True).branches == ["main"]
    sync(tmp_path, refresh, {"id": 3, "name": "c", "at": 1})
    assert pairs(tmp_path / "users") == [(1, "newer"), (2, "b"), (3, "c")]


# -- generations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.DEDUP])
def test_rows_of_generations_below_the_minimum_go_when_the_stream_is_complete(
    tmp_path: Path, mode: WriteMode
) -> None:
    def of(generation: int | None, minimum: int | None = 0) -> StreamPlan:
        return plan(mode, generation_id=generation, minimum_generation_id=minimum, primary_key=(("id",),))

    for generation in (None, 1, 2, 3):
        sync(tmp_path, of(generation), {"id": generation or 0})
    attempt(tmp_path, of(4, 2), {"id": 4})
    assert column(tmp_path / "users", "id") == [0, 1, 2, 3, 4]
    last = sync(tmp_path, of(4, 2), {"id": 5})
    assert last.expired == 2
    assert column(tmp_path / "users", "id") == [2, 3, 4, 5]
    assert generation_of(tmp_path / "users") == 2
    assert sync(tmp_path, of(4, 2), {"id": 6}).expired == 0


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.DEDUP])
def test_a_clear_empties_the_dataset_and_its_versions_stay(tmp_path: Path, mode: WriteMode) -> None:
    sync(tmp_path, plan(generation_id=1, minimum_generation_id=0), {"id": 1}, message="before")
    sync(tmp_path, truncate(2, mode, primary_key=(("id",),)), message="cleared")
    dataset = lakebed.load(str(tmp_path / "users"), read_only=True)
    assert len(dataset) == 0
    assert dataset.commits[0]["message"] == "cleared"
    dataset.checkout(dataset.commits[1]["commit"])
    assert len(dataset) == 1


# -- branches of connections -----------------------------------------------------------------------------------------


def test_a_connection_with_a_branch_leaves_the_main_branch_alone(tmp_path: Path) -> None:
    def on(branch: str | None, a_plan: StreamPlan, *rows: dict[str, Any]) -> None:
        writer = open_stream(lake(tmp_path, branch), a_plan)
        put(writer, *rows)
        writer.publish()
        writer.finish()
        writer.commit(f"sync on {branch}")

    on(None, plan(), {"id": 1})
    on("nightly", plan(), {"id": 2})
    on(None, plan(), {"id": 3})
    on("nightly", plan(WriteMode.DEDUP, primary_key=(("id",),)), {"id": 2, "name": "b"})
    on("other", truncate(4), {"id": 4})
    path = str(tmp_path / "users")
    shown = {
        branch: sorted(int(n) for n in lakebed.load(f"{path}@{branch}", read_only=True)["id"].numpy().ravel())
        for branch in ("main", "nightly", "other")
    }
    assert shown == {"main": [1, 3], "nightly": [1, 2], "other": [4]}
    assert set(lakebed.load(path, read_only=True).branches) == {"main", "nightly", "other"}
    messages = [commit["message"] for commit in lakebed.load(f"{path}@nightly", read_only=True).commits]
    assert messages[:2] == ["sync on nightly", "sync on nightly"]


def test_a_new_dataset_may_begin_on_a_branch(tmp_path: Path) -> None:
    writer = open_stream(lake(tmp_path, "nightly"), plan())
    put(writer, {"id": 1})
    writer.publish()
    writer.finish()
    writer.commit("first")
    assert len(lakebed.load(str(tmp_path / "users") + "@nightly", read_only=True)) == 1
    sync(tmp_path, plan(), {"id": 2})
    assert column(tmp_path / "users", "id") == [2]
