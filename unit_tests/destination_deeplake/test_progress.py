"""What the log says while a sync runs: where to, which streams, how far, how each ended."""

import re
from pathlib import Path

from destination_deeplake import write
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, Decoding, StreamChoices
from destination_deeplake.config import DestinationConfig, Place
from destination_deeplake.sync import Pace
from lakebed import load
from unit_tests.destination_deeplake.syncs import (
    SCHEMA,
    Clock,
    Lines,
    feed,
    plan,
    record,
    start,
    state,
    status,
)


def told(out: Lines) -> list[str]:
    return [log["message"] for log in out.of("LOG") if log["level"] == "INFO"]


def test_the_log_begins_with_the_place_and_what_each_stream_will_be(tmp_path: Path) -> None:
    choices = StreamChoices(
        exclude=("email",),
        columns={
            "text": ColumnChoice("text", tensor="photo", htype="image", decoding=Decoding.BASE64),
            "id": ColumnChoice("id", dtype="int32"),
        },
    )
    wide = {"properties": {**SCHEMA["properties"], "email": {"type": "string"}}}
    users = StreamPlan("public", "users", WriteMode.APPEND, wide, choices=choices)
    orders = plan("orders", WriteMode.DEDUP, primary_key=(("id",),), cursor=("text",))
    refreshed = plan("fresh", generation_id=3, minimum_generation_id=3)
    replaced = plan("replaced", WriteMode.OVERWRITE, primary_key=(("id",),))
    out = Lines()
    config = DestinationConfig(Place(str(tmp_path)), branch="staging")
    write.begin(config, [users, orders, refreshed, replaced], out).stop()
    assert told(out)[:5] == [
        f"Writing 4 streams to {tmp_path}, branch staging.",
        "Stream 'public.users': append; 2 columns; without email; chosen: text in photo as image base64, id as int32.",
        "Stream 'orders': append_dedup by id, the newest by text; 2 columns.",
        "Stream 'fresh': append, in the place of all rows before generation 3; 2 columns.",
        "Stream 'replaced': overwrite; 2 columns.",
    ]


def test_a_long_sync_tells_every_half_minute_how_far_the_streams_are(tmp_path: Path) -> None:
    out, clock = Lines(), Clock()
    sync = start(tmp_path, [plan("a"), plan("b")], out, Pace(publish_seconds=100), clock)
    feed(sync, record("a", 1), record("a", 2))
    assert sync.seconds_asleep() == 30
    clock.now += 31
    sync.idle()
    [line] = told(out)
    assert line.startswith("Stream 'a': 2 records (0.0 MB) received, 0 written; 0 records/s, ")
    clock.now += 31
    sync.idle()
    assert told(out) == [line], "nothing came, so there is nothing to tell"
    for number in range(3000):
        feed(sync, record("b", number, text="x" * 1000))
    clock.now += 31
    feed(sync, record("a", 3))
    assert [text[:60] for text in told(out)[1:]] == [
        "Stream 'a': 3 records (0.0 MB) received, 0 written; 0 record",
        "Stream 'b': 3,000 records (3.3 MB) received, 0 written; 32 r",
    ]
    sync.stop()


def test_each_stream_tells_of_its_first_publish_and_not_of_every_one(tmp_path: Path) -> None:
    out, clock = Lines(), Clock()
    sync = start(tmp_path, [plan("a"), plan("b")], out, clock=clock)
    for number in range(5):
        feed(sync, record("a", number), record("b", number))
        sync.publish()
        clock.now += 1
    assert sorted(text.partition(" received")[0] for text in told(out)) == [
        "Stream 'a': 1 records (0.0 MB)",
        "Stream 'b': 1 records (0.0 MB)",
    ]
    clock.now += 30
    feed(sync, record("a", 5))
    sync.publish()
    assert "Stream 'a': 6 records (0.0 MB) received, 5 written" in told(out)[-2]
    assert "Stream 'b': 5 records (0.0 MB) received, 5 written" in told(out)[-1]
    sync.stop()


def test_the_end_tells_of_each_stream_with_its_version_and_count(tmp_path: Path) -> None:
    out = Lines()
    sync = start(tmp_path, [plan("a"), plan("b"), plan("c")], out)
    feed(sync, record("a", 1), record("a", 2), record("b", 1), state(1, "a"))
    feed(sync, status("a", "COMPLETE"), status("b", "INCOMPLETE"), status("c", "COMPLETE"))
    sync.stop()
    *_, a, b, c, last = told(out)
    version = load(str(tmp_path / "a"), read_only=True).commits[0]["commit"]
    ends = sorted((a, b, c))
    assert ends[0] == f"Stream 'a' is complete: 2 records, version {version[:12]}."
    assert re.fullmatch(r"Stream 'b' is incomplete: 1 records, version [0-9a-f]{12}\.", ends[1])
    assert ends[2] == "Stream 'c' is complete: 0 records, nothing changed for readers, no new version."
    assert last.startswith("Wrote 3 records of 3 streams from ")
    assert last.endswith("By stream: a 2, b 1, c 0.")
