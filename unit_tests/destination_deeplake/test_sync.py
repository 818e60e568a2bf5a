"""The write loop: what is published when, what is acknowledged when, and how a sync ends."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake import write
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.config import DestinationConfig, Place, Rejected
from destination_deeplake.failures import ConfigError, IncompleteSourceError, SourceProtocolError
from destination_deeplake.lake import Lake
from destination_deeplake.stream.writer import open_stream
from destination_deeplake.sync import Pace, Sync
from lakebed.upserts import store
from lakebed.upserts.putting_off import MergePutOffError
from unit_tests.destination_deeplake.syncs import (
    Clock,
    Lines,
    feed,
    filled,
    ids,
    messages,
    plan,
    record,
    start,
    state,
    status,
)


def test_states_wait_for_the_publish_and_come_in_order_with_their_counts(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a"), plan("b")], out)
    feed(sync, record("a", 1), record("b", 1), record("a", 2), state(11, "a"), record("b", 2), state(12, "b"))
    feed(sync, record("a", 3), state(13, "a"), state(14))
    assert out.acknowledged == []
    sync.publish()
    assert out.acknowledged == [(11, 2), (12, 2), (13, 1), (14, 0)]
    assert ids(tmp_path / "a") == [1, 2, 3]
    sync.complete()
    assert len(out.acknowledged) == 4


def test_states_are_given_back_as_they_came(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a")], out)
    feed(sync, record("a", 1), state(1, "a"))
    sync.complete()
    [found] = out.of("STATE")
    assert found.pop("destinationStats") == {"recordCount": 1.0}
    assert found == state(1, "a")["state"]


def test_a_state_with_nothing_before_it_goes_out_at_once(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a"), plan("b")], out)
    feed(sync, record("a", 1), state(1, "b"), state(2, "a"), state(3, "b"))
    assert out.acknowledged == [(1, 0), (3, 0)]
    sync.complete()
    assert out.acknowledged == [(1, 0), (3, 0), (2, 1)]


def test_much_data_over_all_streams_starts_a_publish(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a"), plan("b")], out, Pace(publish_bytes=3000))
    feed(sync, record("a", 1, text="x" * 2000), state(1, "a"))
    assert out.acknowledged == []
    feed(sync, record("b", 1, text="x" * 2000))
    assert out.acknowledged == [(1, 1)]
    assert ids(tmp_path / "b") == [1]
    sync.complete()


def test_more_is_buffered_of_many_columns(tmp_path: Path) -> None:
    """Up to twice as much, counting the columns of streams that have rows."""
    pace = Pace(publish_bytes=64_000_000, few_columns=100)
    assert [pace.enough(columns) // 1_000_000 for columns in (1, 100, 150, 200, 10_000)] == [
        64,
        64,
        96,
        128,
        128,
    ]
    out = Lines()
    writers = [open_stream(Lake(Place(str(tmp_path))), plan(name)) for name in "ab"]
    sync = Sync(writers, out, Pace(publish_bytes=3000, few_columns=writers[0].table.width), Clock())
    feed(sync, record("a", 1, text="x" * 2000), state(1, "a"), record("a", 2, text="x" * 2000))
    assert out.acknowledged == [(1, 1)]
    feed(sync, record("a", 3, text="x" * 2000), record("b", 1, text="x" * 2000), state(2, "a"))
    assert out.acknowledged == [(1, 1)]
    feed(sync, record("a", 4, text="x" * 3000))
    assert out.acknowledged == [(1, 1), (2, 2)]
    sync.complete()


@pytest.mark.parametrize("wait", ["idle", "feed"])
def test_nothing_waits_longer_than_the_pace_allows(tmp_path: Path, wait: str) -> None:
    out, clock = Lines(), Clock()
    sync = start(tmp_path, [plan("a")], out, Pace(publish_seconds=300), clock)
    assert sync.seconds_left() is None
    feed(sync, record("a", 1))
    clock.now += 200
    feed(sync, state(1, "a"))
    assert sync.seconds_left() == 100
    clock.now += 99
    sync.idle()
    assert out.acknowledged == []
    clock.now += 1
    if wait == "idle":
        sync.idle()
    else:
        feed(sync, record("a", 2))
    assert out.acknowledged == [(1, 1)]
    assert sync.seconds_left() is None
    sync.complete()


def test_the_end_commits_each_stream_with_the_counts_of_all(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a", sync_id=42), plan("b", sync_id=42)], out)
    feed(sync, record("a", 1), record("a", 2), record("b", 1))
    sync.complete()
    assert messages(tmp_path / "a") == ["Airbyte sync 42, complete: a 2 records\nalso b 1"]
    assert messages(tmp_path / "b") == ["Airbyte sync 42, complete: b 1 records\nalso a 2"]
    assert "Wrote 3 records of 2 streams" in out.logged


def test_a_line_that_is_no_message_ends_the_sync_after_what_came_before(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a"), plan("b", WriteMode.OVERWRITE)], out)
    feed(sync, record("a", 1), record("b", 1), state(1, "a"))
    with pytest.raises(SourceProtocolError, match="Line 5 of the input") as caught:
        sync.feed(
            json.dumps(record("a", 2)).encode() + b'\n{"secret": \n' + json.dumps(state(2)).encode() + b"\n"
        )
    sync.stop()
    assert "secret" not in str(caught.value)
    assert out.acknowledged == [(1, 1)]
    assert ids(tmp_path / "a") == [1, 2]
    assert messages(tmp_path / "a") == [
        "Airbyte sync, incomplete: a 2 records\nstates 1, after 1 records\nalso b 1"
    ]
    assert len(lakebed.load(str(tmp_path / "b"), read_only=True)) == 0


def test_a_last_line_that_is_cut_off_is_no_message(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a")], out)
    whole = json.dumps(record("a", 2)).encode()
    sync.feed(json.dumps(record("a", 1)).encode() + b"\n" + whole[:-1])
    with pytest.raises(SourceProtocolError, match="Line 2"):
        sync.complete()
    sync.stop()
    assert ids(tmp_path / "a") == [1]
    assert messages(tmp_path / "a") == ["Airbyte sync, incomplete: a 1 records"]


def test_a_last_line_without_its_end_counts(tmp_path: Path) -> None:
    sync = start(tmp_path, [plan("a")], Lines())
    sync.feed(json.dumps(record("a", 1)).encode())
    sync.complete()
    assert ids(tmp_path / "a") == [1]


def truncate(name: str, generation: int = 2, mode: WriteMode = WriteMode.APPEND) -> StreamPlan:
    return plan(name, mode, generation_id=generation, minimum_generation_id=generation)


@pytest.mark.parametrize("make", [truncate, lambda name: plan(name, WriteMode.OVERWRITE)])
def test_each_stream_is_swapped_in_by_itself_when_the_source_has_completed_it(
    tmp_path: Path, make: Callable[[str], StreamPlan]
) -> None:
    """Where the source speaks of streams at all, one that it does not speak of was never read."""
    filled(tmp_path, *"abc")
    out = Lines()
    sync = start(tmp_path, [make(name) for name in "abc"], out)
    feed(sync, status("a", "STARTED"), record("a", 2), status("a", "INCOMPLETE"), record("c", 2))
    feed(sync, status("b", "STARTED"), record("b", 2), status("b", "COMPLETE"), state(1, "b"))
    with pytest.raises(IncompleteSourceError, match="2 of 3 streams \\('a', 'c'\\)"):
        sync.complete()
    sync.stop()
    assert [ids(tmp_path / name) for name in "abc"] == [[1], [2], [1]]
    assert out.acknowledged == [(1, 1)]


@pytest.mark.parametrize(
    ("plan_of", "words", "swaps"),
    [
        (truncate, [], False),  # who counts generations sends COMPLETE: the source has failed
        (truncate, ["RUNNING"], False),
        (truncate, ["COMPLETE", "RUNNING"], False),
        (truncate, ["RUNNING", "COMPLETE"], True),
        (truncate, ["NEW_WORD"], False),
        (lambda name: plan(name, WriteMode.OVERWRITE), [], False),
        (lambda name: plan(name, WriteMode.OVERWRITE), ["COMPLETE"], True),
        (lambda name: plan(name, WriteMode.OVERWRITE), ["RUNNING"], False),
        (lambda name: truncate(name, 2, WriteMode.OVERWRITE), [], False),
    ],
)
def test_old_rows_go_only_when_the_stream_is_surely_complete(
    tmp_path: Path, plan_of: Callable[[str], StreamPlan], words: list[str], swaps: bool
) -> None:
    filled(tmp_path, "a")
    sync = start(tmp_path, [plan_of("a")], Lines())
    feed(sync, record("a", 2), *(status("a", word) for word in words))
    if swaps:
        sync.complete()
    else:
        with pytest.raises(IncompleteSourceError):
            sync.complete()
    sync.stop()
    assert ids(tmp_path / "a") == ([2] if swaps else [1])


def test_a_truncate_that_has_nothing_to_remove_needs_no_status(tmp_path: Path) -> None:
    for number in (1, 2):
        sync = start(tmp_path, [truncate("a")], Lines())
        feed(sync, record("a", number))
        sync.complete()
    assert ids(tmp_path / "a") == [1, 2]


def test_what_the_source_completed_is_swapped_in_although_the_sync_is_stopped(tmp_path: Path) -> None:
    filled(tmp_path, *"ab")
    sync = start(tmp_path, [truncate("a"), truncate("b")], Lines())
    feed(sync, record("a", 2), status("a", "COMPLETE"), record("b", 2), status("b", "RUNNING"))
    sync.stop()
    assert [ids(tmp_path / name) for name in "ab"] == [[2], [1]]


def test_states_of_an_overwrite_that_cannot_be_resumed_wait_for_the_swap(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a", WriteMode.OVERWRITE), plan("b")], out)
    feed(sync, record("b", 1), state(1, "b"), record("a", 1), state(2, "a"))
    sync.publish()
    assert out.acknowledged == [(1, 1)]
    sync.complete()
    assert out.acknowledged == [(1, 1), (2, 1)]


def test_a_stream_that_cannot_be_written_holds_back_its_states_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Lines()
    writers = [open_stream(Lake(Place(str(tmp_path))), plan(name)) for name in "ab"]
    sync = Sync(writers, out, Pace(), Clock())
    feed(sync, record("b", 1), state(1, "b"), record("a", 1), state(2, "a"), state(3, "b"))

    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writers[0]._dataset, "flush", full)
    with pytest.raises(OSError, match="No space"):
        sync.complete()
    sync.stop()
    assert out.acknowledged == [(1, 1), (3, 0)]
    assert ids(tmp_path / "b") == [1]


def test_what_is_ignored_is_counted_and_warned_of_once_without_content(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a")], out)
    feed(sync, {"type": "LOG", "log": {"level": "INFO", "message": "secret"}}, {"type": "NEW_KIND"})
    feed(sync, record("unknown", 1, text="secret"), record("a", 1, other="secret"), record("a", "secret"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"not in the catalog: 'unknown' \(1 records\)"):
        sync.complete()
    warnings = [log["message"] for log in out.of("LOG") if log["level"] == "WARN"]
    assert warnings[-1] == "Left out 1 records: 1 records of unknown stream unknown."
    assert "1 values of fields that its schema does not have" in out.logged
    assert (
        "Stream 'a', column 'id': 1 of 2 values that are not whole numbers of 64 bits, first at record 2. They are "
        "stored as null; _airbyte_meta.changes of their rows names the column."
    ) in warnings
    assert "secret" not in json.dumps(out.all)


def test_the_platform_accepts_the_acknowledgements_of_interleaved_streams(tmp_path: Path) -> None:
    """Ids kept, order kept, contents untouched, and counts equal to what the platform counted."""
    out = Lines()
    sync = start(tmp_path, [plan(name) for name in "abc"], out, Pace(publish_bytes=5000))
    sent: dict[int, tuple[int, dict[str, Any]]] = {}
    counts: Counter[str] = Counter()
    for number in range(300):
        stream = "abc"[number % 3]
        feed(sync, record(stream, number, text="x" * (number % 50)))
        counts[stream] += 1
        if number % 7 == 0:
            of = "abc"[number % 2] if number % 5 else None
            sent[number] = (counts.pop(of, 0) if of else counts.total(), state(number, of)["state"])
            if of is None:
                counts.clear()
            feed(sync, state(number, of))
    sync.complete()
    assert out.acknowledged == [(number, count) for number, (count, _) in sent.items()]
    for found in out.of("STATE"):
        del found["destinationStats"]
        assert found == sent[found["id"]][1]
    assert [len(ids(tmp_path / name)) for name in "abc"] == [100, 100, 100]


def test_begin_tells_what_it_found(tmp_path: Path) -> None:
    config = DestinationConfig(Place(str(tmp_path)))
    first = write.begin(config, [plan("a")], Lines())
    feed(first, record("a", 1))
    first.complete()
    out = Lines()
    changed = StreamPlan(None, "a", WriteMode.APPEND, {"properties": {"id": {"type": "string"}}})
    write.begin(config, [changed], out).complete()
    assert "Stream 'a': column 'id' was INT64 and is TEXT from now on" in out.logged


def dedup(name: str) -> StreamPlan:
    return plan(name, WriteMode.DEDUP, primary_key=(("id",),))


def test_who_is_to_stop_leaves_merges_to_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUDGET", store.Budget(at_once=0))
    config = DestinationConfig(Place(str(tmp_path)))
    first = start(tmp_path, [dedup("a")], Lines())
    feed(first, record("a", 1, text="old"))
    first.complete()
    out = Lines()
    left: list[float | None] = [None]
    sync = write.begin(config, [dedup("a"), plan("b")], out, time_left=lambda: left[0])
    feed(sync, record("a", 1, text="new"), record("a", 2), record("b", 1), state(1, "a"))
    feed(sync, status("a", "COMPLETE"))
    left[0] = 8.0
    sync.stop()
    assert out.acknowledged == [(1, 2)]
    dataset = lakebed.load(str(tmp_path / "a"), read_only=True)
    assert list(dataset["text"].values()) == ["old", None]
    assert messages(tmp_path / "a")[0].splitlines() == [
        "Airbyte sync, incomplete: a 2 records",
        "newer rows of known keys wait for the next sync",
        "states 1, after 2 records",
        "also b 1",
    ]
    assert messages(tmp_path / "b") == ["Airbyte sync, incomplete: b 1 records\nalso a 2"]
    with pytest.raises(MergePutOffError):
        write.begin(config, [dedup("a")], Lines(), time_left=lambda: 8.0)
    start(tmp_path, [dedup("a")], Lines()).complete()
    dataset = lakebed.load(str(tmp_path / "a"), read_only=True)
    assert list(dataset["text"].values()) == ["new", None]


def test_nothing_is_begun_when_the_time_is_over(tmp_path: Path) -> None:
    """What is not published is not acknowledged; the source sends it again."""
    out = Lines()
    left: list[float] = [8.0]
    sync = start(tmp_path, [plan("a"), plan("b")], out, time_left=lambda: left[0])
    feed(sync, record("a", 1), state(1, "a"))
    sync.publish()
    left[0] = 1.0
    feed(sync, record("a", 2), state(2, "a"), record("b", 1), state(3, "b"))
    sync.stop()
    assert out.acknowledged == [(1, 1)]
    assert messages(tmp_path / "a") == []


def test_a_version_says_which_connection_and_states_made_it(tmp_path: Path) -> None:
    sync = start(tmp_path, [truncate("a", 7)], Lines(), connection="shop-to-lake")
    for number in range(1, 13):
        feed(sync, record("a", number), state(number, "a" if number % 2 else None))
    feed(sync, status("a", "COMPLETE"))
    sync.complete()
    assert messages(tmp_path / "a")[0].splitlines() == [
        "Airbyte sync of shop-to-lake, complete: a 12 records",
        "generation 7",
        "states 12, after 1, 2, 3, ... 12 records",
    ]


def test_bad_lines_are_counted_and_kept_where_the_user_wants_it(tmp_path: Path) -> None:
    config = DestinationConfig(Place(str(tmp_path)), rejected=Rejected.KEEP)
    out = Lines()
    sync = write.begin(config, [plan("a", sync_id=3)], out)
    bad = json.dumps(record("a", 0)).replace('"id": 0', '"id": NaN').encode() + b"\n"
    sync.feed(json.dumps(record("a", 1)).encode() + b"\n" + bad)
    feed(sync, record("a", "no number"), state(1, "a"))  # type: ignore[arg-type]
    sync.complete()
    [found] = out.of("STATE")
    assert found["destinationStats"] == {"recordCount": 2.0, "rejectedRecordCount": 1.0}
    assert "1 lines were not records and are kept as dead letters" in out.logged
    letters = lakebed.load(str(tmp_path / "_airbyte_dead_letters"), read_only=True)
    assert len(letters) == 2
    assert messages(tmp_path / "a")[0].startswith("Airbyte sync 3, complete: a 2 records, 1 rejected")


def test_rules_for_no_stream_are_told(tmp_path: Path) -> None:
    config = DestinationConfig.from_mapping(
        {"destination_path": str(tmp_path), "streams": [{"name": "b", "flatten": True}]}
    )
    out = Lines()
    write.begin(config, [plan("a")], out).complete()
    assert "'b') matches no stream of this sync" in out.logged


def test_a_sync_that_cannot_open_a_stream_gives_the_others_back(tmp_path: Path) -> None:
    config = DestinationConfig(Place(str(tmp_path)))
    lakebed.empty(str(tmp_path / "b")).create_tensor("mine", dtype="int64")
    with pytest.raises(ConfigError, match="not of this connector"):
        write.begin(config, [plan("a"), plan("b")], Lines())
    write.begin(config, [plan("a")], Lines()).complete()


def test_a_stream_that_cannot_be_finished_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, "a")
    sync = start(tmp_path, [plan("a")], Lines())
    feed(sync, record("a", 2))
    (writer,) = sync._writers

    def fail() -> bool:
        writer._dataset.append({"id": 3}, append_empty=True)  # what a step leaves that fails in the middle
        raise OSError("the disk is gone")

    monkeypatch.setattr(writer, "finish", fail)
    with pytest.raises(OSError, match="gone"):
        sync.complete()
    assert ids(tmp_path / "a") == [1, 2]
    again = start(tmp_path, [plan("a")], Lines())
    feed(again, record("a", 4))
    again.complete()
    assert ids(tmp_path / "a") == [1, 2, 4]


@pytest.mark.parametrize("emitted_at", [None, "soon", 10**30])
def test_records_without_a_time_are_told_of(tmp_path: Path, emitted_at: object) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a")], out)
    untimed = record("a", 2)
    untimed["record"]["emitted_at"] = emitted_at
    feed(sync, record("a", 1), untimed)
    sync.complete()
    assert ids(tmp_path / "a") == [1, 2]
    assert "Stream 'a': 1 records have no emitted_at that can be read" in out.logged
