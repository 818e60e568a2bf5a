"""When an overwrite takes the place of the old rows, and what is not promised for records that have no place."""

import json
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake.catalog import WriteMode
from destination_deeplake.config import DestinationConfig, Place, Rejected, WithoutStatus
from destination_deeplake.failures import ConfigError, IncompleteSourceError
from destination_deeplake.write import begin
from unit_tests.destination_deeplake.syncs import Lines, feed, filled, ids, plan, record, start, state, status


def overwrite(root: Path, *messages: dict[str, Any], rule: WithoutStatus = WithoutStatus.WITH_STATE) -> Lines:
    """Overwrite a and b, of one row each, and return what was said."""
    filled(root, "a", "b")
    out = Lines()
    sync = start(root, [plan(name, WriteMode.OVERWRITE) for name in "ab"], out, without_status=rule)
    feed(sync, *messages)
    try:
        sync.complete()
    except (ConfigError, IncompleteSourceError) as error:
        out.log("ERROR", str(error))
    sync.stop()
    return out


FAILED = {"type": "TRACE", "trace": {"type": "ERROR", "emitted_at": 1.0, "error": {"message": "out of luck"}}}
LEGACY = {"type": "STATE", "state": {"data": {"n": 1}, "id": 9}}
WITH, NEVER, ALWAYS = WithoutStatus.WITH_STATE, WithoutStatus.NEVER, WithoutStatus.ALWAYS


@pytest.mark.parametrize(
    ("rule", "messages", "a", "b"),
    [
        (WITH, [], [1], [1]),
        (WITH, [record("a", 2)], [1], [1]),
        (WITH, [record("a", 2), state(1, "a")], [2], [1]),
        (WITH, [state(1, "a"), record("a", 2)], [1], [1]),
        (WITH, [record("a", 2), state(1, "a"), record("a", 3)], [1], [1]),
        (WITH, [record("a", 2), state(1, "a"), record("b", 3)], [2], [1]),
        (WITH, [state(1, "a")], [], [1]),
        (WITH, [record("a", 2), state(1)], [2], []),
        (WITH, [record("a", 2), LEGACY, record("b", 2)], [2], [1]),
        (WITH, [record("a", 2), state(1), FAILED], [1], [1]),
        (WITH, [record("a", 2), status("b", "COMPLETE"), state(1)], [1], []),
        (NEVER, [record("a", 2), state(1)], [1], [1]),
        (NEVER, [record("a", 2), status("a", "COMPLETE")], [2], [1]),
        (ALWAYS, [], [1], [1]),
        (ALWAYS, [{"type": "LOG", "log": {"level": "INFO", "message": "off we go"}}], [1], [1]),
        (ALWAYS, [record("a", 2)], [2], []),
        (ALWAYS, [state(1, "a"), record("a", 2)], [2], []),
        (ALWAYS, [record("a", 2), FAILED], [1], [1]),
        (ALWAYS, [record("a", 2), status("a", "STARTED")], [1], [1]),
    ],
)
def test_an_overwrite_without_statuses_takes_the_place_of_rows_as_configured(
    tmp_path: Path, rule: WithoutStatus, messages: list[dict[str, Any]], a: list[int], b: list[int]
) -> None:
    out = overwrite(tmp_path, *messages, rule=rule)
    assert (ids(tmp_path / "a"), ids(tmp_path / "b")) == (a, b)
    assert ("The source ended before it completed" in out.logged) is (a == [1] or b == [1])


@pytest.mark.parametrize(
    ("rule", "messages", "words"),
    [
        (
            WITH,
            [record("a", 2)],
            "no STATE came after its last record (complete_without_status is with_state",
        ),
        (NEVER, [record("a", 2)], "'a', 'b' is complete (complete_without_status is never"),
        (ALWAYS, [], "Its output was empty"),
        (WITH, [state(1), FAILED], "It said that it failed"),
    ],
)
def test_who_misses_an_overwrite_reads_why(
    tmp_path: Path, rule: WithoutStatus, messages: list[dict[str, Any]], words: str
) -> None:
    assert words in overwrite(tmp_path, *messages, rule=rule).logged


def test_a_line_that_breaks_off_after_the_last_state_is_a_record_after_it(tmp_path: Path) -> None:
    """Kept as a dead letter, it tells all the same that the source had not come to its end."""
    for broken in (json.dumps(record("a", 3))[:40], '{"type": "REC'):
        filled(tmp_path, "a")
        before = ids(tmp_path / "a")
        sync = begin(
            DestinationConfig(Place(str(tmp_path)), rejected=Rejected.KEEP),
            [plan("a", WriteMode.OVERWRITE)],
            Lines(),
        )
        feed(sync, record("a", 2), state(1, "a"))
        sync.feed(broken.encode())
        with pytest.raises(IncompleteSourceError):
            sync.complete()
        assert ids(tmp_path / "a") == before


def test_an_input_with_nothing_in_it_is_told_of_an_append(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a")], out)
    sync.complete()
    assert "The input was empty" in out.logged


@pytest.mark.parametrize(("rows", "warns"), [(1, True), (2, False)])
def test_rows_that_become_less_than_half_are_told(tmp_path: Path, rows: int, warns: bool) -> None:
    sync = start(tmp_path, [plan("a")], Lines())
    feed(sync, *(record("a", number) for number in range(4)))
    sync.complete()
    out = Lines()
    sync = start(tmp_path, [plan("a", WriteMode.OVERWRITE)], out)
    feed(sync, *(record("a", number) for number in range(rows)), state(1, "a"))
    sync.complete()
    assert ("'a': 4 rows were replaced by 1." in out.logged) is warns
    assert len(lakebed.load(str(tmp_path / "a"), read_only=True)) == rows


def elsewhere(message: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Move a record or a state of a stream into a namespace."""
    body = message.get("record") or message["state"]["stream"]["stream_descriptor"]
    body["namespace"] = namespace
    return message


def test_no_state_goes_out_for_records_of_streams_that_are_not_in_the_catalog(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a"), plan("users")], out)
    feed(sync, record("a", 1), state(1, "a"), elsewhere(state(2, "users"), "public"), state(3))
    feed(sync, elsewhere(record("users", 1), "public"), elsewhere(state(4, "users"), "public"), LEGACY)
    feed(sync, record("a", 2), state(5, "a"), state(6), state(7, "users"), elsewhere(state(8, "a"), "public"))
    with pytest.raises(ConfigError) as caught:
        sync.complete()
    assert "'public.users' (1 records; the catalog has 'users')" in str(caught.value)
    # What speaks for nothing that was lost goes out: states of what is stored, and of streams without records.
    assert [number for number, _ in out.acknowledged] == [2, 1, 3, 5, 7, 8]
    assert ids(tmp_path / "a") == [1, 2]


def test_a_sync_without_streams_loses_no_record_in_silence(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [], out)
    feed(sync, record("a", 1), record("a", 2), state(1, "a"), record("b", 1), state(2))
    with pytest.raises(ConfigError, match=r"not in the catalog: 'a' \(2 records\), 'b' \(1 records\)"):
        sync.complete()
    assert out.acknowledged == []
    start(tmp_path, [], out).complete()


def test_states_of_more_unknown_streams_than_are_told_apart_are_held_back(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [], out)
    feed(sync, *(record(f"s{number}", 1) for number in range(1001)))
    feed(sync, state(1, "s3"), state(2, "s1000"))
    with pytest.raises(ConfigError, match="and more"):
        sync.complete()
    assert out.acknowledged == []


@pytest.mark.parametrize("said", [[status("users", "COMPLETE")], [state(1)]])
def test_nothing_is_replaced_while_records_have_no_place(tmp_path: Path, said: list[dict[str, Any]]) -> None:
    """They may be those that were to take the place of the old ones."""
    filled(tmp_path, "users")
    sync = start(tmp_path, [plan("users", WriteMode.OVERWRITE)], Lines())
    feed(sync, elsewhere(record("users", 2), "public"), *said)
    with pytest.raises(ConfigError):
        sync.complete()
    assert ids(tmp_path / "users") == [1]


@pytest.mark.parametrize("loses", [True, False])
def test_nothing_is_replaced_while_records_have_no_place_in_a_sync_that_is_stopped(
    tmp_path: Path, loses: bool
) -> None:
    filled(tmp_path, "users")
    sync = start(tmp_path, [plan("users", WriteMode.OVERWRITE)], Lines())
    feed(sync, *[elsewhere(record("users", 2), "public")] * loses, status("users", "COMPLETE"))
    sync.stop()
    assert ids(tmp_path / "users") == ([1] if loses else [])
