"""Values that do not fit: told by column, and the end of a sync where a chosen type fits nothing."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, Decoding, StreamChoices
from destination_deeplake.config import Place
from destination_deeplake.failures import ConfigError
from destination_deeplake.lake import Lake
from destination_deeplake.stream.misfits import MOST_LEADING
from destination_deeplake.stream.writer import open_stream
from destination_deeplake.sync import Sync
from unit_tests.destination_deeplake.syncs import Lines, feed, ids, state, status

PROPERTIES = {name: {"type": kind} for name, kind in (("id", "integer"), ("qty", "integer"), ("t", "string"))}


def plan(*chosen: ColumnChoice, mode: WriteMode = WriteMode.APPEND, **schema: Any) -> StreamPlan:
    choices = StreamChoices(columns={choice.column: choice for choice in chosen})
    return StreamPlan(None, "s", mode, {"properties": PROPERTIES | schema}, choices=choices)


def begin(root: Path, of: StreamPlan, out: Lines, *, keep: bool = False) -> Sync:
    return Sync([open_stream(Lake(Place(str(root))), of, keep_refused=keep)], out)


def rows(column: str, *values: Any, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "type": "RECORD",
            "record": {"stream": "s", "data": {"id": first + i, column: value}, "emitted_at": 1},
        }
        for i, value in enumerate(values)
    ]


def warned(out: Lines) -> list[str]:
    return [log["message"].partition(". They are")[0] for log in out.of("LOG") if log["level"] == "WARN"]


INT16 = ColumnChoice("qty", dtype="int16")
SMALL = {"type": "object", "properties": {"x": {"type": "number"}}}


@pytest.mark.parametrize(
    ("of", "column", "values", "told"),
    [
        (plan(INT16), "qty", [1, None, 2**20, 3, -(2**20)], "2 of 4 values beyond int16, first at record 3"),
        (
            plan(INT16),
            "qty",
            [1, 2**20, "x"],
            "2 of 3 values that are not whole numbers of 64 bits or beyond int16, first at record 2",
        ),
        (
            plan(),
            "qty",
            [True, "x", "1"],
            "2 of 3 values that are not whole numbers of 64 bits, first at record 1",
        ),
        (
            plan(ColumnChoice("t", decoding=Decoding.NUMBERS, shape=(2,))),
            "t",
            [[1, 2], [1], "x"],
            "2 of 3 values that are not arrays of numbers of shape 2, first at record 2",
        ),
        (
            plan(ColumnChoice("t", htype="image", decoding=Decoding.BASE64)),
            "t",
            [base64.b64encode(b"no picture").decode()] * 2,
            "2 of 2 values that are not whole files of image, first at record 1",
        ),
        (
            plan(ColumnChoice("t", htype="image", decoding=Decoding.URL)),
            "t",
            ["https://example.org/a.jpg", "a.jpg"],
            "1 of 2 values that are not addresses of files, first at record 2",
        ),
        (
            plan(t={"type": "string", "format": "date"}),
            "t",
            ["2024-05-06", "yesterday"],
            "1 of 2 values that are not dates, first at record 2",
        ),
    ],
)
def test_a_column_is_told_of_with_share_reason_and_first_record(
    tmp_path: Path, of: StreamPlan, column: str, values: list[Any], told: str
) -> None:
    out = Lines()
    sync = begin(tmp_path, of, out)
    feed(sync, *rows(column, *values))
    sync.complete()
    assert warned(out) == [f"Stream 's', column {column!r}: {told}"]


def test_records_are_counted_over_publishes_and_columns_with_most_misfits_come_first(tmp_path: Path) -> None:
    out = Lines()
    sync = begin(tmp_path, plan(INT16, t={"type": "string", "format": "date"}), out)
    feed(sync, *rows("qty", 1, 2))
    sync.publish()
    feed(sync, *rows("t", "never", first=2))
    sync.publish()
    feed(sync, *rows("qty", 2**20, 2**20, first=3))
    sync.complete()
    assert warned(out) == [
        "Stream 's', column 'qty': 2 of 4 values beyond int16, first at record 4",
        "Stream 's', column 't': 1 of 1 values that are not dates, first at record 3",
    ]


def test_what_stands_in_the_place_of_an_object_is_told_of_under_its_name(tmp_path: Path) -> None:
    out = Lines()
    sync = begin(tmp_path, replace(plan(a=SMALL), choices=StreamChoices(flatten=True)), out)
    feed(sync, *rows("a", {"x": 1}, "no object"))
    sync.complete()
    assert warned(out) == ["Stream 's', column 'a': 1 values that are not objects, first at record 2"]


UNFIT = {
    "beyond the dtype": (INT16, "qty", 2**20, 7),
    "of another kind": (INT16, "qty", "x", 7),
    "no number": (ColumnChoice("t", dtype="int32"), "t", "x", "7"),
    "no file": (ColumnChoice("t", htype="image", decoding=Decoding.BASE64), "t", "QUJD", None),
    "no address": (ColumnChoice("t", decoding=Decoding.URL), "t", "a.jpg", "https://example.org/a.jpg"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_chosen_type_that_nothing_fits_ends_the_sync_before_it_stores_a_row(
    tmp_path: Path, name: str
) -> None:
    choice, column, unfit, _ = UNFIT[name]
    before = begin(tmp_path, plan(choice), Lines())
    feed(before, *rows(column, None, None), state(1, "s"))
    before.complete()
    out = Lines()
    sync = begin(tmp_path, plan(choice), out)
    feed(sync, *rows(column, *[unfit] * MOST_LEADING, first=10), state(2, "s"))
    with pytest.raises(ConfigError) as caught:
        sync.complete()
    sync.stop()
    assert f"column {column!r}: 1,000 of 1,000 values " in str(caught.value)
    assert "first at record 1." in str(caught.value)
    assert out.acknowledged == []
    assert ids(tmp_path / "s") == [0, 1]
    again = begin(tmp_path, plan(), Lines())
    feed(again, *rows(column, *[unfit] * MOST_LEADING, first=10))
    again.complete()
    assert len(ids(tmp_path / "s")) == 2 + MOST_LEADING


def test_an_overwrite_that_ends_so_leaves_the_old_rows(tmp_path: Path) -> None:
    before = begin(tmp_path, plan(mode=WriteMode.OVERWRITE), Lines())
    feed(before, *rows("qty", 1, 2), status("s", "COMPLETE"))
    before.complete()
    sync = begin(tmp_path, plan(INT16, mode=WriteMode.OVERWRITE), Lines())
    feed(sync, *rows("qty", *["x"] * MOST_LEADING), status("s", "COMPLETE"))
    with pytest.raises(ConfigError):
        sync.complete()
    sync.stop()
    assert ids(tmp_path / "s") == [0, 1]


@pytest.mark.parametrize("name", ["beyond the dtype", "of another kind", "no number", "no address"])
@pytest.mark.parametrize("fits_at", [MOST_LEADING - 1, MOST_LEADING])
def test_one_of_the_first_thousand_values_that_fits_is_enough(
    tmp_path: Path, name: str, fits_at: int
) -> None:
    choice, column, unfit, fit = UNFIT[name]
    values = [unfit] * (fits_at // 2) + [None] + [unfit] * (fits_at - fits_at // 2) + [fit] + [unfit] * 50
    sync = begin(tmp_path, plan(choice), Lines())
    feed(sync, *rows(column, *values))
    if fits_at < MOST_LEADING:
        sync.complete()
        assert len(ids(tmp_path / "s")) == len(values)
    else:
        with pytest.raises(ConfigError):
            sync.complete()
        sync.stop()


def test_the_first_thousand_may_come_in_parts(tmp_path: Path) -> None:
    sync = begin(tmp_path, plan(INT16), Lines())
    feed(sync, *rows("qty", *["x"] * 600, *[None] * 3))
    sync.publish()
    feed(sync, *rows("qty", *[2**20] * 400))
    with pytest.raises(ConfigError, match=r"1,000 of 1,000 values .*, first at record 1\."):
        sync.publish()
    sync.stop()
    assert len(ids(tmp_path / "s")) == 603


def test_a_type_that_nobody_chose_is_the_sources_affair(tmp_path: Path) -> None:
    out = Lines()
    sync = begin(tmp_path, plan(ColumnChoice("qty", tensor="amount")), out)
    feed(sync, *rows("qty", *["x"] * 2 * MOST_LEADING))
    sync.complete()
    assert "2,000 of 2,000 values that are not whole numbers of 64 bits" in out.logged


def test_where_rejected_values_are_kept_the_sync_goes_on(tmp_path: Path) -> None:
    sync = begin(tmp_path, plan(INT16), Lines(), keep=True)
    feed(sync, *rows("qty", *["x"] * 2 * MOST_LEADING))
    sync.complete()
    assert len(ids(tmp_path / "s")) == 2 * MOST_LEADING


@given(st.lists(st.sampled_from([None, 1, 2**20, "x", [3]]), min_size=1, max_size=12), st.integers(1, 4))
def test_counts_and_first_records_are_those_of_plain_python(values: list[Any], parts: int) -> None:
    from destination_deeplake.columns import RecordTable
    from destination_deeplake.stream.layout import prepare
    from destination_deeplake.wire import Wire

    stored = prepare(lakebed.empty("mem://misfits"), plan(INT16), {}, [])
    table = RecordTable(stored.fields, sync_id=1, generation_id=0)
    wire = Wire({(None, "s"): table})
    step = -(-len(values) // parts)
    for start in range(0, len(values), step):
        lines = [json.dumps(row) + "\n" for row in rows("qty", *values[start : start + step])]
        list(wire.feed("".join(lines).encode()))
        (taken,) = table.take()
        for _ in stored.batches(taken.columns, taken.misfits):
            pass
    unfit = [number for number, value in enumerate(values, 1) if value not in (None, 1)]
    found = [(m.field, m.count, m.values, m.first) for m in stored.misfits]
    seen = len([value for value in values if value is not None])
    # A column of which the table refused everything has been counted all the same.
    assert found == ([("qty", len(unfit), seen, unfit[0])] if unfit else [])
