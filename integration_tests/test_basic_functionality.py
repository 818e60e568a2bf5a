"""The behaviours of Airbyte's own list of what every destination must do, one test each, with their names.

The list is `BasicFunctionalityIntegrationTest` of the bulk CDK. Every sync is one of the platform: generations are
given, and COMPLETE comes for every stream at the end if the source has succeeded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from integration_tests import in_process, lake
from integration_tests.connector import Connection, Outcome
from integration_tests.messages import (
    Json,
    Message,
    completed,
    configure,
    lines,
    parse,
    record,
    state,
    status,
    stream,
)
from integration_tests.sockets.carrier import ONE_BY_ONE, STDIN, Carrier

INTEGER = {"type": ["null", "integer"]}
TEXT = {"type": ["null", "string"]}
MOMENT = {"type": ["null", "string"], "format": "date-time"}
ROW = {"id": INTEGER, "name": TEXT, "updated_at": INTEGER, "_ab_cdc_deleted_at": MOMENT}


def catalog(
    generation: int = 1,
    minimum: int = 0,
    mode: str = "append",
    *,
    sync_id: int = 1,
    names: tuple[str, ...] = ("users",),
    namespace: str | None = None,
    fields: Json = ROW,
    **extra: Json,
) -> Message:
    """One sync of the platform."""
    streams = [stream(name, namespace, **fields) for name in names]
    numbers = {"generation_id": generation, "minimum_generation_id": minimum, "sync_id": sync_id}
    return configure(streams, mode, **numbers, **extra)


def dedup(generation: int = 1, minimum: int = 0, **more: Any) -> Message:
    keys = {"primary_key": [["id"]], "cursor_field": ["updated_at"], **more}
    return catalog(generation, minimum, "append_dedup", **keys)


def row(
    number: int, name: str | None = None, at: int = 0, stream_name: str = "users", **more: Json
) -> Message:
    data = {"id": number, "name": name, "updated_at": at, **more}
    return record(stream_name, data, emitted_at=at + 1)


_carrier = STDIN


@pytest.fixture(autouse=True, params=list(ONE_BY_ONE.values()), ids=list(ONE_BY_ONE))
def carrier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Carrier:
    """The way on which all syncs of the test get their messages."""
    monkeypatch.setattr(f"{__name__}._carrier", request.param)
    return _carrier


def sync(connection: Connection, of: Message, messages: bytes | Iterable[Message], **config: Json) -> Outcome:
    return in_process.sync(connection, of, _carrier.lines(messages), _carrier, **config)


def whole(connection: Connection, of: Message, *messages: Message) -> Outcome:
    """Run a sync that the source completed, and check its acknowledgements."""
    sent = lines([*messages, *completed(of)])
    outcome = in_process.sync(connection, of, _carrier.lines(sent), _carrier).succeeded()
    assert not _carrier.violations(sent, outcome)
    return outcome


def broken(connection: Connection, of: Message, *messages: Message) -> Outcome:
    """Run a sync whose source failed: no status comes."""
    outcome = sync(connection, of, messages)
    assert [failure["failure_type"] for failure in outcome.failures] == ["transient_error"]
    return outcome


def rows(connection: Connection, *fields: str, name: str = "users") -> list[tuple[Json, ...]]:
    """Chosen columns of all rows of a stream without a namespace, sorted."""
    dataset = lakebed.load(str(connection.lake / name), read_only=True)
    tensors = dataset.info["airbyte"]["columns"]
    found = pa.table(dataset[[tensors[field] for field in fields]]).to_pylist()
    return sorted((tuple(row[tensors[field]] for field in fields) for row in found), key=repr)


def named(connection: Connection) -> list[tuple[Json, ...]]:
    return rows(connection, "id", "name")


def test_basic_write(connection: Connection) -> None:
    outcome = whole(connection, catalog(7, sync_id=42), row(1, "a", 5), state("users", {"at": 5}))
    [found] = lake.rows(connection.lake, ("", "users"))
    assert (found["id"], found["name"], found["_airbyte_generation_id"]) == (1, "a", 7)
    assert found["_airbyte_extracted_at"] == 6000
    assert found["_airbyte_meta"] == {"sync_id": 42, "changes": []}
    [answer] = [message["state"] for message in outcome.messages if message["type"] == "STATE"]
    assert answer["destinationStats"]["recordCount"] == 1


def test_basic_write_keeps_changes_that_the_source_made(connection: Connection) -> None:
    change = {"field": "name", "change": "NULLED", "reason": "SOURCE_FIELD_SIZE_LIMITATION"}
    message = row(1)
    message["record"]["meta"] = {"changes": [change]}
    whole(connection, catalog(), message)
    [found] = lake.rows(connection.lake, ("", "users"))
    assert found["_airbyte_meta"]["changes"] == [change]


def test_mid_sync_checkpointing_stream_state(connection: Connection) -> None:
    """What was acknowledged before the source failed stays, and was acknowledged."""
    of = catalog(names=("users", "orders"))
    sent = [
        row(1),
        state("users", {"n": 1}),
        row(2, stream_name="orders"),
        state("orders", {"n": 2}),
    ]
    outcome = sync(connection, of, [*sent, row(3), status("users", "INCOMPLETE"), status("orders")])
    assert outcome.status == 1
    answers = [m["state"]["stream"]["stream_state"]["n"] for m in outcome.messages if m["type"] == "STATE"]
    assert sorted(answers) == [1, 2]
    assert rows(connection, "id") == [(1,), (3,)]
    assert rows(connection, "id", name="orders") == [(2,)]


def test_namespaces(connection: Connection) -> None:
    places = ("one", "two", None)
    of = configure(
        [stream("users", namespace, **ROW) for namespace in places], generation_id=1, minimum_generation_id=0
    )
    sent = [record("users", {"id": number}, namespace) for number, namespace in enumerate(places)]
    whole(connection, of, *sent)
    for number, namespace in enumerate(places):
        [found] = lake.rows(connection.lake, (namespace or "", "users"))
        assert found["id"] == number


FUNKY = [
    "a b",
    "é",
    "a.b",
    "a/b",
    "..",
    'quote"',
    "emoji😀",
    "UPPER",
    "upper",
    "`tick`",
    "select",
    "1st",
    "",
    "a\nb",
]


def test_funky_characters(connection: Connection) -> None:
    fields = dict.fromkeys(FUNKY, TEXT)
    data = {field: f"value of {field}" for field in FUNKY}
    places = [*((f"ns {name}", name) for name in FUNKY[:6]), (FUNKY[6], "plain")]
    of = configure(
        [stream(name, namespace, **fields) for namespace, name in places],
        generation_id=1,
        minimum_generation_id=0,
    )
    whole(connection, of, *(record(name, data, namespace) for namespace, name in places))
    assert set(lake.datasets(connection.lake)) == set(places)
    [found] = lake.rows(connection.lake, places[1])
    assert {field: found[field] for field in FUNKY} == data


def test_funky_characters_as_primary_key(connection: Connection) -> None:
    fields = {"~k é.y/": TEXT, "cur sor": INTEGER, "v": TEXT}
    of = catalog(mode="append_dedup", fields=fields, primary_key=[["~k é.y/"]], cursor_field=["cur sor"])
    for value, at in (("old", 1), ("new", 2), ("late", 0)):
        whole(connection, of, record("users", {"~k é.y/": "ключ", "cur sor": at, "v": value}))
    assert rows(connection, "~k é.y/", "v") == [("ключ", "new")]


def test_truncate_refresh(connection: Connection) -> None:
    whole(connection, catalog(12), row(1, "first"))
    whole(connection, catalog(13, 13), row(2, "second"))
    assert named(connection) == [(2, "second")]
    whole(connection, catalog(13, 0), row(3, "third"))
    assert named(connection) == [(2, "second"), (3, "third")]


def test_truncate_refresh_no_data(connection: Connection) -> None:
    whole(connection, catalog(1), row(1))
    whole(connection, catalog(2, 2))
    assert named(connection) == []


def test_truncate_refresh_with_dedup(connection: Connection) -> None:
    whole(connection, dedup(1), row(1, "old", 9), row(2, "old", 9))
    whole(connection, dedup(2, 2), row(1, "new", 1), row(1, "newer", 2))
    assert named(connection) == [(1, "newer")]


@pytest.mark.parametrize("make", [catalog, dedup])
def test_interrupted_truncate_with_prior_data(connection: Connection, make: Any) -> None:
    whole(connection, make(41), row(1, "first", 1), row(2, "first", 1))
    outcome = broken(connection, make(42, 42), row(1, "second", 2), state("users", {"n": 1}))
    assert len([m for m in outcome.messages if m["type"] == "STATE"]) == 1
    assert named(connection) == [(1, "first"), (2, "first")]
    whole(connection, make(42, 42), row(2, "third", 3))
    assert named(connection) == [(1, "second"), (2, "third")]


@pytest.mark.parametrize("make", [catalog, dedup])
def test_interrupted_truncate_without_prior_data(connection: Connection, make: Any) -> None:
    sync(connection, make(42, 42), [row(1, "second", 2), state("users", {"n": 1})])
    whole(connection, make(42, 42), row(2, "third", 3))
    assert named(connection) == [(1, "second"), (2, "third")]


@pytest.mark.parametrize("make", [catalog, dedup])
def test_resume_after_cancelled_truncate(connection: Connection, make: Any) -> None:
    whole(connection, make(41), row(1, "first", 1), row(2, "first", 1))
    broken(connection, make(42, 42), row(3, "second", 2), state("users", {"n": 1}))
    whole(connection, make(43, 0), row(4, "third", 3))
    assert named(connection) == [(1, "first"), (2, "first"), (3, "second"), (4, "third")]


def test_an_older_staged_generation_is_discarded(connection: Connection) -> None:
    whole(connection, catalog(41), row(1, "first"))
    broken(connection, catalog(42, 42), row(2, "staged"))
    whole(connection, catalog(43, 43), row(3, "third"))
    assert named(connection) == [(3, "third")]


def test_append(connection: Connection) -> None:
    whole(connection, catalog(1), row(1, "a"))
    whole(connection, catalog(1), row(1, "a"), row(2, "b"))
    assert named(connection) == [(1, "a"), (1, "a"), (2, "b")]


def test_append_schema_evolution(connection: Connection) -> None:
    whole(connection, catalog(fields={"id": INTEGER, "gone": TEXT}), record("users", {"id": 1, "gone": "x"}))
    whole(connection, catalog(fields={"id": INTEGER, "new": TEXT}), record("users", {"id": 2, "new": "y"}))
    assert rows(connection, "id", "gone", "new") == [(1, "x", None), (2, None, "y")]


def test_append_json_schema_evolution(connection: Connection) -> None:
    """The properties of an object change; the column holds what came."""
    before = {"o": {"type": "object", "properties": {"a": INTEGER}}}
    after = {"o": {"type": "object", "properties": {"b": TEXT}}}
    whole(connection, catalog(fields=before), record("users", {"o": {"a": 1}}))
    whole(connection, catalog(fields=after), record("users", {"o": {"b": "x", "unknown": [None]}}))
    found = [each["o"] for each in lake.rows(connection.lake, ("", "users"))]
    assert found == [{"a": 1}, {"b": "x", "unknown": [None]}]


def test_overwrite_schema_evolution(connection: Connection) -> None:
    """The new generation has the new schema, the old one is read with its own."""
    whole(
        connection, catalog(1, fields={"id": INTEGER, "gone": TEXT}), record("users", {"id": 1, "gone": "x"})
    )
    whole(
        connection, catalog(2, 2, fields={"id": TEXT, "new": TEXT}), record("users", {"id": "2", "new": "y"})
    )
    assert rows(connection, "id", "new") == [("2", "y")]
    dataset = lakebed.load(str(connection.lake / "users"), read_only=True)
    assert "gone" not in dataset
    dataset.checkout(dataset.commits[1]["commit"])
    assert dataset["gone"][0].text() == "x"


def test_overwrite_by_mode(connection: Connection) -> None:
    """What platforms send to destinations without refreshes, and runners that do not count generations."""
    plain = configure([stream("users", **ROW)], "overwrite")
    for number in (1, 2):
        sent = _carrier.to_the_end(plain, [row(number), state("users", {})])
        sync(connection, plain, sent).succeeded()
    assert rows(connection, "id") == [(2,)]


def test_overwrite_by_mode_of_a_platform_that_numbers_generations(connection: Connection) -> None:
    """It does so for destinations without refreshes as well, and sends no statuses to them."""
    for number in (1, 2):
        of = configure(
            [stream("users", **ROW)], "overwrite", generation_id=number, minimum_generation_id=number
        )
        sent = _carrier.to_the_end(of, [row(number), row(number + 10), state("users", {})])
        sync(connection, of, sent).succeeded()
    broken(connection, of, row(3))
    assert rows(connection, "id") == [(12,), (2,)]


def test_dedup(connection: Connection) -> None:
    sync_1 = [row(1, "a", 1), row(1, "a2", 2), row(2, "b", 1), row(3, "gone", 1), row(3, None, 2)]
    sync_1[-1]["record"]["data"]["_ab_cdc_deleted_at"] = "2024-01-23T01:00:00Z"
    whole(connection, dedup(), *sync_1)
    assert named(connection) == [(1, "a2"), (2, "b")]
    delete = row(2, None, 3, _ab_cdc_deleted_at="2024-01-23T01:00:00Z")
    unknown = row(9, None, 3, _ab_cdc_deleted_at="2024-01-23T01:00:00Z")
    whole(connection, dedup(), delete, unknown, row(1, "late", 0), row(4, "d", 1), row(3, "again", 3))
    assert named(connection) == [(1, "a2"), (3, "again"), (4, "d")]


def test_dedup_with_soft_deletes(connection: Connection) -> None:
    of = dedup()
    gone = row(1, "a", 2, _ab_cdc_deleted_at="2024-01-23T01:00:00Z")
    sync(connection, of, [row(1, "a", 1), *completed(of)], cdc_deletes="soft").succeeded()
    sync(connection, of, [gone, *completed(of)], cdc_deletes="soft").succeeded()
    [found] = lake.rows(connection.lake, ("", "users"))
    assert found["_ab_cdc_deleted_at"] is not None


def test_dedup_with_string_key(connection: Connection) -> None:
    of = dedup(fields={**ROW, "id": TEXT})
    for key, name, at in (("a", "1", 1), ("A", "2", 1), ("a", "3", 2), ("", "4", 1)):
        whole(connection, of, row(key, name, at))  # type: ignore[arg-type]
    assert named(connection) == [("", "4"), ("A", "2"), ("a", "3")]


def test_dedup_no_cursor(connection: Connection) -> None:
    """The time of extraction decides, then the order of arrival."""
    of = dedup(cursor_field=[])
    whole(connection, of, row(1, "first", 1), row(2, "first", 5))
    whole(connection, of, row(1, "second", 1), row(1, "third", 1), row(2, "older", 4))
    assert named(connection) == [(1, "third"), (2, "first")]


def test_dedup_with_composite_and_null_keys(connection: Connection) -> None:
    of = dedup(primary_key=[["id"], ["name"]])
    whole(connection, of, row(1, "a", 1), row(1, None, 1), row(1, "b", 1))
    whole(connection, of, row(1, None, 2), row(1, "a", 3))
    assert rows(connection, "id", "name", "updated_at") == [(1, "a", 3), (1, "b", 1), (1, None, 2)]


def test_dedup_change_cursor(connection: Connection) -> None:
    fields = {"id": INTEGER, "name": TEXT, "old": INTEGER, "new": INTEGER}

    def of(cursor: str) -> Message:
        return dedup(fields=fields, cursor_field=[cursor])

    whole(connection, of("old"), record("users", {"id": 1, "name": "a", "old": 9}))
    whole(connection, of("new"), record("users", {"id": 1, "name": "b", "new": 1}))
    assert named(connection) == [(1, "b")]


def test_dedup_change_pk(connection: Connection) -> None:
    fields = {"id": INTEGER, "other": INTEGER, "name": TEXT, "updated_at": INTEGER}
    first = dedup(fields=fields)
    second = dedup(fields=fields, primary_key=[["id"], ["other"]])
    whole(connection, first, record("users", {"id": 1, "other": 1, "name": "a", "updated_at": 1}))
    sent = [record("users", {"id": 1, "other": n, "name": "b", "updated_at": 2}) for n in (1, 2)]
    whole(connection, second, *sent)
    assert rows(connection, "other", "name") == [(1, "b"), (2, "b")]


def test_many_streams_completion(connection: Connection) -> None:
    names = tuple(f"s{number}" for number in range(8))
    of = catalog(names=names)
    sent = [row(number, stream_name=name) for number in range(3) for name in names]
    outcome = whole(connection, of, *sent, *(state(name, {"done": True}) for name in names))
    assert len([message for message in outcome.messages if message["type"] == "STATE"]) == 8
    assert [rows(connection, "id", name=name) for name in names] == [[(0,), (1,), (2,)]] * 8


def test_basic_types(connection: Connection) -> None:
    fields = {
        "text": TEXT,
        "boolean": {"type": "boolean"},
        "date": {"type": "string", "format": "date"},
        "moment": MOMENT,
        "local": {**MOMENT, "airbyte_type": "timestamp_without_timezone"},
        "time": {"type": "string", "format": "time", "airbyte_type": "time_without_timezone"},
    }
    data = {
        "text": "é\x00\u2028",
        "boolean": True,
        "date": "1970-01-03",
        "moment": "1970-01-01T01:00:01+01:00",
        "local": "1970-01-01T00:00:02",
        "time": "00:00:03",
    }
    wrong: Json = {field: [] for field in fields}
    wrong["text"] = {"not": "text"}
    whole(
        connection, catalog(fields=fields), record("users", data), record("users", {}), record("users", wrong)
    )
    good, missing, bad = lake.rows(connection.lake, ("", "users"))
    assert {field: good[field] for field in fields} == {
        "text": data["text"],
        "boolean": True,
        "date": 2,
        "moment": 1_000_000,
        "local": 2_000_000,
        "time": 3_000_000,
    }
    assert {missing[field] for field in fields} == {None}
    assert bad["text"] == '{"not":"text"}'
    assert {change["field"] for change in bad["_airbyte_meta"]["changes"]} == set(fields) - {"text"}


def test_numeric_types(connection: Connection) -> None:
    fields = {
        "integer": INTEGER,
        "number": {"type": "number"},
        "whole": {"type": "number", "airbyte_type": "integer"},
    }
    sent = [
        {"integer": 2**63 - 1, "number": 0.5, "whole": 7},
        {"integer": -(2**63), "number": -1e308, "whole": "8"},
        {"integer": 10**30, "number": "1.5", "whole": 7.5},
    ]
    whole(connection, catalog(fields=fields), *(record("users", data) for data in sent))
    found = lake.rows(connection.lake, ("", "users"))
    assert [(each["integer"], each["number"], each["whole"]) for each in found] == [
        (2**63 - 1, 0.5, 7),
        (-(2**63), -1e308, 8),
        (None, 1.5, None),
    ]
    assert [change["field"] for change in found[2]["_airbyte_meta"]["changes"]] == ["integer", "whole"]


def test_container_unknown_and_union_types(connection: Connection) -> None:
    schemas: list[Json] = [
        {"type": "object", "properties": {"a": INTEGER}},
        {"type": "object"},
        {"type": "array", "items": INTEGER},
        {"type": "array"},
        {},
        {"type": "a type to come"},
        {"oneOf": [{"type": "string"}, {"type": "object"}]},
        {"type": ["string", "integer"]},
    ]
    values = [{"a": 1, "b": [None, {}]}, [1, "two", {"3": 4.50}], "text", 5, True, None]
    fields = {f"c{number}": schema for number, schema in enumerate(schemas)}
    whole(
        connection,
        catalog(fields=fields),
        *(record("users", dict.fromkeys(fields, value)) for value in values),
    )
    for found, value in zip(lake.rows(connection.lake, ("", "users")), values, strict=True):
        assert [found[field] for field in fields] == [parse(json.dumps(value))] * len(fields)


def test_no_columns(connection: Connection) -> None:
    whole(connection, catalog(fields={}), record("users", {"unknown": 1}))
    [found] = lake.rows(connection.lake, ("", "users"))
    assert set(found) == set(lake.META)


def test_no_data(connection: Connection) -> None:
    outcome = whole(connection, catalog(), state("users", {"at": None}))
    assert len([message for message in outcome.messages if message["type"] == "STATE"]) == 1
    assert rows(connection, "id") == []


def test_clear(connection: Connection) -> None:
    """No records, only the generation changes, and states that are null."""
    whole(connection, catalog(1), row(1))
    whole(connection, catalog(2, 2), state("users", None))
    assert rows(connection, "id") == []
    whole(connection, catalog(2, 0), row(2))
    assert rows(connection, "id") == [(2,)]


@pytest.mark.parametrize("kind", ["GLOBAL", "LEGACY"])
def test_cdc_state_types(connection: Connection, kind: str, carrier: Carrier) -> None:
    of = catalog(names=("users", "orders"))
    body: Message = {"data": {"lsn": 1}}
    if kind == "GLOBAL":
        streams = [{"stream_descriptor": {"name": "users"}, "stream_state": None}]
        body = {"type": "GLOBAL", "global": {"shared_state": {"lsn": 1}, "stream_states": streams}}
    outcome = whole(connection, of, row(1), {"type": "STATE", "state": body}, row(2, stream_name="orders"))
    [answer] = [message["state"] for message in outcome.messages if message["type"] == "STATE"]
    # For a LEGACY state the platform counts no records; with partitions, the source says how many.
    assert answer["destinationStats"]["recordCount"] == (kind == "GLOBAL" or carrier is not STDIN)


def test_stream_state_types(connection: Connection) -> None:
    """Whatever a state holds comes back as it was."""
    contents: list[Json] = [None, {}, [], "text", 0, {"deep": {"a": [1.50, 10**30]}}]
    outcome = whole(connection, catalog(), *(state("users", content) for content in contents))
    found = [m["state"]["stream"]["stream_state"] for m in outcome.messages if m["type"] == "STATE"]
    assert found == parse(json.dumps(contents))
