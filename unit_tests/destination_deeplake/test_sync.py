"""The write loop: what is published when, what is acknowledged when, and how a sync ends."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake import sync as sync_module
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.config import DestinationConfig
from destination_deeplake.failures import IncompleteSourceError, SourceProtocolError
from destination_deeplake.messages import Output
from destination_deeplake.stream_writer import open_stream
from destination_deeplake.sync import Pace, Sync

SCHEMA = {"properties": {"id": {"type": "integer"}, "text": {"type": "string"}}}


class Lines(Output):
    """Output into a list."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.all: list[dict[str, Any]] = []

    def lines(self, lines: Iterable[bytes]) -> None:
        self.all.extend(json.loads(line) for line in lines)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message[kind.lower()] for message in self.all if message["type"] == kind]

    @property
    def acknowledged(self) -> list[tuple[int, float]]:
        return [(state["id"], state["destinationStats"]["recordCount"]) for state in self.of("STATE")]

    @property
    def logged(self) -> str:
        return "\n".join(log["message"] for log in self.of("LOG"))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def plan(name: str, mode: WriteMode = WriteMode.APPEND, **more: Any) -> StreamPlan:
    return StreamPlan(None, name, mode, SCHEMA, **more)


def start(
    root: Path, plans: list[StreamPlan], out: Lines, pace: Pace | None = None, clock: Clock | None = None
) -> Sync:
    return Sync([open_stream(root, a_plan) for a_plan in plans], out, pace or Pace(), clock or Clock())


def record(stream: str, number: int, **more: Any) -> dict[str, Any]:
    data = {"id": number, **more}
    return {"type": "RECORD", "record": {"stream": stream, "data": data, "emitted_at": 1700000000000}}


def state(number: int, stream: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": stream}, "stream_state": {"n": 1}},
    }
    if stream is None:
        body = {"type": "GLOBAL", "global": {"stream_states": []}}
    return {"type": "STATE", "state": {**body, "id": number, "sourceStats": {"recordCount": 7.0}}}


def status(stream: str, value: str) -> dict[str, Any]:
    body = {"stream_descriptor": {"name": stream}, "status": value}
    return {"type": "TRACE", "trace": {"type": "STREAM_STATUS", "emitted_at": 1.0, "stream_status": body}}


def feed(sync: Sync, *messages: dict[str, Any]) -> None:
    sync.feed(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


def ids(path: Path) -> list[int]:
    return [int(number) for number in lakebed.load(str(path), read_only=True)["id"].numpy().reshape(-1)]


def messages(path: Path) -> list[str]:
    return [commit["message"] for commit in lakebed.load(str(path), read_only=True).commits]


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
    assert out.acknowledged == [(1, 0)]
    sync.complete()
    assert out.acknowledged == [(1, 0), (2, 1), (3, 0)]


def test_much_data_over_all_streams_starts_a_publish(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a"), plan("b")], out, Pace(publish_bytes=3000))
    feed(sync, record("a", 1, text="x" * 2000), state(1, "a"))
    assert out.acknowledged == []
    feed(sync, record("b", 1, text="x" * 2000))
    assert out.acknowledged == [(1, 1)]
    assert ids(tmp_path / "b") == [1]
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
    assert messages(tmp_path / "a") == ["Airbyte sync 42, complete: a 2 records; also b 1"]
    assert messages(tmp_path / "b") == ["Airbyte sync 42, complete: b 1 records; also a 2"]
    assert "Wrote 3 records of 2 streams" in out.logged


def test_a_line_that_is_no_message_ends_the_sync_after_what_came_before(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a"), plan("b", WriteMode.OVERWRITE, generation_id=1)], out)
    feed(sync, record("a", 1), record("b", 1), state(1))
    with pytest.raises(SourceProtocolError, match="Line 5 of the input") as caught:
        sync.feed(
            json.dumps(record("a", 2)).encode() + b'\n{"secret": \n' + json.dumps(state(2)).encode() + b"\n"
        )
    sync.stop()
    assert "secret" not in str(caught.value)
    assert out.acknowledged == [(1, 2)]
    assert ids(tmp_path / "a") == [1, 2]
    assert messages(tmp_path / "a") == ["Airbyte sync, incomplete: a 2 records; also b 1"]
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


def test_a_stream_that_the_source_did_not_complete_is_not_swapped_in(tmp_path: Path) -> None:
    before = start(tmp_path, [plan("a"), plan("b"), plan("c")], Lines())
    feed(before, record("a", 1), record("b", 1), record("c", 1))
    before.complete()
    out = Lines()
    sync = start(tmp_path, [plan(name, WriteMode.OVERWRITE, generation_id=2) for name in "abc"], out)
    feed(sync, status("a", "STARTED"), record("a", 2), status("a", "INCOMPLETE"))
    feed(sync, status("b", "STARTED"), record("b", 2), status("b", "COMPLETE"), record("c", 2), state(1))
    with pytest.raises(IncompleteSourceError, match="1 of 3 streams \\('a'\\)"):
        sync.complete()
    sync.stop()
    assert [ids(tmp_path / name) for name in "abc"] == [[1], [2], [2]]
    assert out.acknowledged == [(1, 3)]


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
    writers = [open_stream(tmp_path, plan(name)) for name in "ab"]
    sync = Sync(writers, out, Pace(), Clock())
    feed(sync, record("b", 1), state(1, "b"), record("a", 1), state(2, "a"), state(3, "b"))

    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writers[0]._dataset, "flush", full)
    with pytest.raises(OSError, match="No space"):
        sync.complete()
    sync.stop()
    assert out.acknowledged == [(1, 1)]
    assert ids(tmp_path / "b") == [1]


def test_what_is_ignored_is_counted_and_warned_of_once_without_content(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a")], out)
    feed(sync, {"type": "LOG", "log": {"level": "INFO", "message": "secret"}}, {"type": "NEW_KIND"})
    feed(sync, record("unknown", 1, text="secret"), record("a", 1, other="secret"), record("a", "secret"))  # type: ignore[arg-type]
    sync.complete()
    warnings = [log["message"] for log in out.of("LOG") if log["level"] == "WARN"]
    assert len([text for text in warnings if text.startswith("Ignored 3 lines")]) == 1
    assert "1 values of fields that its schema does not have" in out.logged
    assert "1 values did not fit their column" in out.logged
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
    config = DestinationConfig(tmp_path)
    first = sync_module.begin(config, [plan("a")], Lines())
    feed(first, record("a", 1))
    first.complete()
    out = Lines()
    changed = StreamPlan(None, "a", WriteMode.APPEND, {"properties": {"id": {"type": "string"}}})
    sync_module.begin(config, [changed], out).complete()
    assert "Stream 'a': column 'id' is now TEXT but stays INT64" in out.logged
