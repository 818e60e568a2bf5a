"""A source changes its mind: every change of a column's type in one stream, a column for each, through real syncs."""

import base64
import io
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, Decoding, StreamChoices
from destination_deeplake.config import Place
from destination_deeplake.lake import Lake
from destination_deeplake.stream.writer import open_stream
from destination_deeplake.wire import Wire
from unit_tests.effort import PATIENCE

Json = Any


def picture(shade: int, form: str = "PNG") -> str:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 5, 3), shade, np.uint8)).save(file, form)
    return base64.b64encode(file.getvalue()).decode()


def typed(name: str, form: str | None = None, airbyte_type: str | None = None) -> Json:
    schema: dict[str, Json] = {"type": ["null", name]}
    return (
        schema | ({"format": form} if form else {}) | ({"airbyte_type": airbyte_type} if airbyte_type else {})
    )


INT, FLOAT, TEXT, BOOL = typed("integer"), typed("number"), typed("string"), typed("boolean")
OBJECT, ARRAY = typed("object"), typed("array")
DATE, TIME_TZ = typed("string", "date"), typed("string", "time")
TIME = typed("string", "time", "time_without_timezone")
STAMP_TZ = typed("string", "date-time")
STAMP = typed("string", "date-time", "timestamp_without_timezone")


@dataclass(frozen=True)
class Side:
    """A column as one sync has it: schema (None for no column), choice and values."""

    schema: Json
    values: tuple[Json, ...] = ()
    choice: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """What becomes of a column.

    `old` and `new` are what the rows of the first and the second sync read as, `old` None where Python has no such
    value; `suffix` is what a new tensor's name has that the old one's has not.
    """

    first: Side
    second: Side
    htype: str
    dtype: str | None
    old: tuple[Any, ...] | None
    new: tuple[Any, ...]
    suffix: str = ""
    changes: tuple[int, ...] = ()
    """Rows of the second sync whose value did not fit."""
    was: tuple[Any, ...] | None = None
    """What the rows of the first sync read as in its commit, where that is something else."""


def image(*values: Json, **choice: Any) -> Side:
    return Side(TEXT, values, {"htype": "image"} | choice)


def vector(
    shape: tuple[int, ...] | None, *values: Json, dtype: str = "float32", htype: str = "embedding"
) -> Side:
    return Side(ARRAY, values, {"htype": htype, "shape": shape, "dtype": dtype, "decoding": Decoding.NUMBERS})


def label(*values: Json) -> Side:
    return Side(TEXT, values, {"htype": "class_label"})


def of_dtype(dtype: str, *values: Json, schema: Json = INT) -> Side:
    return Side(schema, values, {"dtype": dtype})


BIG = 2**53 + 1
NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)
MAY = date(2024, 5, 6)
CASES: dict[str, Case] = {
    # what stays
    "same": Case(Side(INT, (1, None)), Side(INT, (2, 3)), "generic", "int64", (1, None), (2, 3)),
    "float_gets_int": Case(
        Side(FLOAT, (1.5, None)), Side(INT, (2, 3)), "generic", "float64", (1.5, None), (2.0, 3.0)
    ),
    "text_gets_int": Case(Side(TEXT, ("a", None)), Side(INT, (2, 3)), "text", None, ("a", None), ("2", "3")),
    "text_gets_bool": Case(
        Side(TEXT, ("a", "")), Side(BOOL, (True, None)), "text", None, ("a", ""), ("true", None)
    ),
    "text_gets_date": Case(
        Side(TEXT, ("a", "")), Side(DATE, ("2024-05-06", None)), "text", None, ("a", ""), ("2024-05-06", None)
    ),
    "json_gets_int": Case(
        Side(OBJECT, ({"a": 1}, None)), Side(INT, (2, None)), "json", None, ({"a": 1}, None), (2, None)
    ),
    "json_gets_text": Case(
        Side(ARRAY, ([1], None)), Side(TEXT, ("x", "")), "json", None, ([1], None), ("x", "")
    ),
    "stamp_tz_gets_date": Case(
        Side(STAMP_TZ, ("2024-05-06T12:00:00Z", None)),
        Side(DATE, ("2024-05-07", None)),
        "generic",
        "int64",
        (NOON, None),
        (datetime(2024, 5, 7, tzinfo=UTC), None),
    ),
    "stamp_tz_gets_stamp": Case(
        Side(STAMP_TZ, ("2024-05-06T14:00:00+02:00", None)),
        Side(STAMP, ("2024-05-06T12:00:00", None)),
        "generic",
        "int64",
        (NOON, None),
        (NOON, None),
    ),
    "exact_gets_int": Case(
        Side(FLOAT, (1.5, None), {"decoding": Decoding.EXACT}),
        Side(INT, (10**30, None)),
        "text",
        None,
        ("1.5", None),
        (str(10**30), None),
    ),
    # what goes, what comes
    "removed": Case(Side(INT, (1, 2)), Side(None), "generic", "int64", (1, 2), (None, None)),
    "removed_text": Case(Side(TEXT, ("a", "b")), Side(None), "text", None, ("a", "b"), (None, None)),
    "added": Case(Side(None), Side(INT, (1, 2)), "generic", "int64", (None, None), (1, 2)),
    "added_text": Case(Side(None), Side(TEXT, ("a", None)), "text", None, (None, None), ("a", None)),
    "added_json": Case(
        Side(None), Side(OBJECT, ({"a": 1}, None)), "json", None, (None, None), ({"a": 1}, None)
    ),
    "added_image": Case(Side(None), image(picture(7), None), "image", "uint8", (None, None), (7, None)),
    "added_vector": Case(
        Side(None), vector((2,), [1, 2], None), "embedding", "float32", (None, None), ([1, 2], None)
    ),
    # what becomes wider
    "int_to_float": Case(
        Side(INT, (1, None)), Side(FLOAT, (2.5, None)), "generic", "float64", (1.0, None), (2.5, None)
    ),
    "big_int_to_float": Case(
        Side(INT, (BIG, None)),
        Side(FLOAT, (2.5, 10**30)),
        "text",
        None,
        (str(BIG), None),
        ("2.5", str(10**30)),
        was=(BIG, None),
    ),
    "int_to_text": Case(
        Side(INT, (1, None)), Side(TEXT, ("two", "")), "text", None, ("1", None), ("two", ""), was=(1, None)
    ),
    "float_to_text": Case(
        Side(FLOAT, (1.5, None)),
        Side(TEXT, ("two", None)),
        "text",
        None,
        ("1.5", None),
        ("two", None),
        was=(1.5, None),
    ),
    "bool_to_text": Case(
        Side(BOOL, (True, None)),
        Side(TEXT, ("yes", None)),
        "text",
        None,
        ("true", None),
        ("yes", None),
        was=(True, None),
    ),
    "bool_to_int": Case(
        Side(BOOL, (True, False)),
        Side(INT, (5, None)),
        "text",
        None,
        ("true", "false"),
        ("5", None),
        was=(True, False),
    ),
    "int_to_bool": Case(
        Side(INT, (1, None)),
        Side(BOOL, (True, None)),
        "text",
        None,
        ("1", None),
        ("true", None),
        was=(1, None),
    ),
    "stamp_to_text": Case(
        Side(STAMP_TZ, ("2024-05-06T12:00:00Z", None)),
        Side(TEXT, ("soon", None)),
        "text",
        None,
        ("2024-05-06T12:00:00Z", None),
        ("soon", None),
        was=(NOON, None),
    ),
    "date_to_text": Case(
        Side(DATE, ("2024-05-06", None)),
        Side(TEXT, ("soon", None)),
        "text",
        None,
        ("2024-05-06", None),
        ("soon", None),
        was=(MAY, None),
    ),
    "date_to_int": Case(
        Side(DATE, ("2024-05-06", None)),
        Side(INT, (3, None)),
        "text",
        None,
        ("2024-05-06", None),
        ("3", None),
        was=(MAY, None),
    ),
    "date_to_stamp": Case(
        Side(DATE, ("2024-05-06", None)),
        Side(STAMP, ("2024-05-06T12:00:00", None)),
        "generic",
        "int64",
        (NOON.replace(tzinfo=None, hour=0), None),
        (NOON.replace(tzinfo=None), None),
        was=(MAY, None),
    ),
    "far_date_to_stamp": Case(
        Side(DATE, ("400000-01-01", None)),
        Side(STAMP, ("2024-05-06T12:00:00", None)),
        "text",
        None,
        None,
        ("2024-05-06T12:00:00", None),
    ),
    "stamp_to_stamp_tz": Case(
        Side(STAMP, ("2024-05-06T12:00:00", None)),
        Side(STAMP_TZ, ("2024-05-06T14:00:00+02:00", None)),
        "generic",
        "int64",
        (NOON, None),
        (NOON, None),
        was=(NOON.replace(tzinfo=None), None),
    ),
    "time_to_time_tz": Case(
        Side(TIME, ("12:00:00", None)),
        Side(TIME_TZ, ("14:00:00+02:00", None)),
        "generic",
        "int64",
        (time(12), None),
        (time(12), None),
    ),
    "int_to_json": Case(
        Side(INT, (1, None)),
        Side(OBJECT, ({"a": 1}, None)),
        "json",
        None,
        (1, None),
        ({"a": 1}, None),
        was=(1, None),
    ),
    "text_to_json": Case(
        Side(TEXT, ('q"\n', None)), Side(ARRAY, ([1], None)), "json", None, ('q"\n', None), ([1], None)
    ),
    "stamp_to_json": Case(
        Side(STAMP_TZ, ("2024-05-06T12:00:00Z", None)),
        Side(OBJECT, ({}, None)),
        "json",
        None,
        ("2024-05-06T12:00:00Z", None),
        ({}, None),
        was=(NOON, None),
    ),
    "int_to_exact": Case(
        Side(INT, (1, None)),
        Side(INT, (10**30, "12.50"), {"decoding": Decoding.EXACT}),
        "text",
        None,
        ("1", None),
        (str(10**30), "12.50"),
        was=(1, None),
    ),
    "int8_to_int16": Case(
        of_dtype("int8", 1, None),
        of_dtype("int16", 300, 70000),
        "generic",
        "int16",
        (1, None),
        (300, None),
        changes=(1,),
    ),
    "uint8_to_int8": Case(
        of_dtype("uint8", 200, None), of_dtype("int8", -1, None), "generic", "int16", (200, None), (-1, None)
    ),
    "int32_to_float32": Case(
        of_dtype("int32", 1, None),
        of_dtype("float32", 0.5, None, schema=FLOAT),
        "generic",
        "float64",
        (1.0, None),
        (0.5, None),
    ),
    "int64_to_int32": Case(
        Side(INT, (BIG, None)), of_dtype("int32", 1, 2**40), "generic", "int64", (BIG, None), (1, 2**40)
    ),
    "label_to_text": Case(label("b", "a"), Side(TEXT, ("c", None)), "text", None, ("b", "a"), ("c", None)),
    "label_grows": Case(label("b", None), label("a", "b"), "class_label", "uint32", ("b", None), ("a", "b")),
    # what cannot go together
    "image_to_text": Case(
        image(picture(7), None), Side(TEXT, ("x", None)), "text", None, (7, None), ("x", None), "__text"
    ),
    "int_to_image": Case(
        Side(INT, (1, None)), image(picture(7), None), "image", "uint8", (1, None), (7, None), "__image"
    ),
    "image_to_number": Case(
        image(picture(7), None),
        Side(FLOAT, (2.5, None)),
        "generic",
        "float64",
        (7, None),
        (2.5, None),
        "__float64",
    ),
    "label_to_float": Case(
        label("b", None),
        Side(FLOAT, (2.5, None)),
        "generic",
        "float64",
        ("b", None),
        (2.5, None),
        "__float64",
    ),
    "text_to_label": Case(
        Side(TEXT, ("b", None)),
        label("a", None),
        "class_label",
        "uint32",
        ("b", None),
        ("a", None),
        "__class_label",
    ),
    "vector_to_other_shape": Case(
        vector((2,), [1, 2], None),
        vector((3,), [1, 2, 3], [1, 2]),
        "embedding",
        "float32",
        ([1, 2], None),
        ([1, 2, 3], None),
        "__embedding_3",
        changes=(1,),
    ),
    "vector_to_json": Case(
        vector((2,), [1, 2], None),
        Side(ARRAY, ([1], None)),
        "json",
        None,
        ([1, 2], None),
        ([1], None),
        "__json",
    ),
    "json_to_vector": Case(
        Side(ARRAY, ([1], None)),
        vector((2,), [1, 2], ["a", 1]),
        "embedding",
        "float32",
        ([1], None),
        ([1, 2], None),
        "__embedding_2",
        changes=(1,),
    ),
    "text_to_link": Case(
        Side(TEXT, ("x", None)),
        Side(TEXT, ("https://e.org/a.png", "no address"), {"decoding": Decoding.URL}),
        "link[image]",
        None,
        ("x", None),
        ("https://e.org/a.png", None),
        "__link_image",
        changes=(1,),
    ),
    "image_gets_jpeg": Case(
        image(picture(7), None),
        image(picture(9, "JPEG"), "bm8="),
        "image",
        "uint8",
        (7, None),
        (9, None),
        changes=(1,),
    ),
}


def plan(which: str) -> StreamPlan:
    properties, choices = {}, {}
    for name, case in CASES.items():
        side: Side = getattr(case, which)
        if side.schema is not None:
            properties[name] = side.schema
            if side.choice:
                choices[name] = ColumnChoice(name, **side.choice)
    schema = {"properties": properties}
    return StreamPlan(None, "s", WriteMode.APPEND, schema, choices=StreamChoices(columns=choices))


def run(root: Path, a_plan: StreamPlan, *rows: Mapping[str, Json]) -> list[str]:
    """Sync rows and return the notes."""
    writer = open_stream(Lake(Place(str(root))), a_plan)
    wire = Wire({writer.plan.key: writer.table})
    for row in rows:
        record = {"stream": "s", "data": row, "emitted_at": 0}
        list(wire.feed(json.dumps({"type": "RECORD", "record": record}).encode() + b"\n"))
    writer.publish()
    writer.finish()
    writer.commit("done")
    return writer.notes


def sync(root: Path, which: str) -> list[str]:
    sides: dict[str, Side] = {name: getattr(case, which) for name, case in CASES.items()}
    there = {name: side for name, side in sides.items() if side.schema is not None}
    return run(
        root, plan(which), *({name: side.values[row] for name, side in there.items()} for row in range(2))
    )


@dataclass
class Evolved:
    """The dataset after both syncs, and as it was between them."""

    path: Path
    now: lakebed.Dataset
    before: lakebed.Dataset
    notes: list[str]
    chunks: dict[str, bytes]
    """Chunk files after the first sync."""


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Evolved:
    root = tmp_path_factory.mktemp("evolution")
    sync(root, "first")
    path = root / "s"
    chunks = {str(file): file.read_bytes() for file in path.rglob("chunks/*")}
    notes = sync(root, "second")
    now = lakebed.load(str(path), read_only=True)
    commits = [commit["commit"] for commit in now.commits]
    before = lakebed.load(f"{path}@{commits[-1]}", read_only=True)
    return Evolved(path, now, before, notes, chunks)


def values(dataset: lakebed.Dataset, name: str) -> list[Any]:
    """Return the samples of a tensor as a user thinks of them, None for empty ones."""
    tensor = dataset[name]
    if tensor.htype.startswith("link"):
        return [path[0] or None for path in tensor.path()]
    if tensor.htype == "image":
        return [None if image.size == 0 else round(image.mean()) for image in tensor.numpy(aslist=True)]
    found = dataset.read_columns(0, len(dataset), [name])[name].to_pylist()
    if tensor.htype == "json":
        return [None if text is None else json.loads(text) for text in found]
    if tensor.htype == "class_label":
        return [None if index is None else tensor.info["class_names"][index] for index in found]
    return [value or None if isinstance(value, list) else value for value in found]


def tensor_of(name: str, case: Case) -> str:
    return name + case.suffix


@pytest.mark.parametrize("name", CASES)
def test_old_rows_and_new_rows_are_where_they_belong(evolved: Evolved, name: str) -> None:
    case = CASES[name]
    found = values(evolved.now, tensor_of(name, case))
    tensor = evolved.now[tensor_of(name, case)]
    assert tensor.htype == case.htype
    assert case.dtype is None or tensor.dtype == np.dtype(case.dtype)
    assert found[2:] == list(case.new)
    if case.suffix:
        assert found[:2] == [None, None]
        assert values(evolved.now, name) == [*(case.old or ()), None, None]
    elif case.old is not None:
        assert found[:2] == list(case.old)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.first.schema is not None])
def test_the_commit_of_the_first_sync_reads_as_before(evolved: Evolved, name: str) -> None:
    case = CASES[name]
    if case.old is not None:
        assert values(evolved.before, name) == list(case.was or case.old)


def test_no_chunk_that_was_there_is_written_again_or_lost(evolved: Evolved) -> None:
    """Columns that came or went, and those that were rewritten, leave every chunk file of the first sync alone."""
    assert {name: Path(name).read_bytes() for name in evolved.chunks} == evolved.chunks


def test_values_that_did_not_fit_are_named_in_their_row(evolved: Evolved) -> None:
    metas = evolved.now.read_columns(2, 4, ["_airbyte_meta"])["_airbyte_meta"].to_pylist()
    for row, meta in enumerate(metas):
        changes = json.loads(meta)["changes"]
        assert {change["field"] for change in changes} == {
            name for name, case in CASES.items() if row in case.changes
        }
        assert all(change["change"] == "NULLED" for change in changes)
        assert all(change["reason"] == "DESTINATION_SERIALIZATION_ERROR" for change in changes)


def test_the_log_says_what_happened_and_no_value(evolved: Evolved) -> None:
    told = "\n".join(evolved.notes)
    for name, case in CASES.items():
        moved = f"column {name!r} was " in told and "new rows go to another tensor" in told
        assert bool(case.suffix) <= moved, name
    assert "'int_to_float' was INT64 and is FLOAT64 from now on" in told
    assert "'big_int_to_float' was INT64 and is EXACT from now on" in told
    assert "'text_gets_int' is now INT64 but stays TEXT as in the dataset" in told
    assert "'vector_to_other_shape' was embedding of shape [2] and is now embedding of shape [3]" in told
    assert "'same'" not in told
    assert str(BIG) not in told


def test_a_column_that_returns_to_what_it_was_gets_its_tensor_back(tmp_path: Path) -> None:
    sides = [
        image(picture(1), None),
        Side(FLOAT, (2.5, None)),
        image(picture(3), None),
        Side(FLOAT, (4.5, None)),
    ]
    for side in sides:
        choices = StreamChoices(columns={"c": ColumnChoice("c", **side.choice)} if side.choice else {})
        schema = {"properties": {"c": side.schema}}
        run(tmp_path, StreamPlan(None, "s", WriteMode.APPEND, schema, choices=choices), {"c": side.values[0]})
    dataset = lakebed.load(str(tmp_path / "s"), read_only=True)
    assert values(dataset, "c") == [1, None, 3, None]
    assert values(dataset, "c__float64") == [None, 2.5, None, 4.5]
    assert dataset.info["airbyte"]["columns"] == {"c": "c__float64"}
    assert list(dataset.info["airbyte"]["former"]) == ["c"]


@pytest.mark.interop
def test_deep_lake_opens_what_came_of_it(evolved: Evolved) -> None:
    """3.9.52 reads every tensor but links, which lead nowhere here, and finds the same samples."""
    program = """if True:
        import deeplake, json, sys, numpy as np
        ds = deeplake.load(sys.argv[1], read_only=True, verbose=False)
        found = {}
        for name, tensor in ds.tensors.items():
            if not tensor.htype.startswith("link"):
                found[name] = [np.asarray(s).tolist() for s in tensor.numpy(aslist=True)]
        print(json.dumps(found, default=str))
    """
    python = Path(__file__).parent.parent / ".cache/venvs/deeplake3/bin/python"
    environment = os.environ | {"BUGGER_OFF": "true"}
    done = subprocess.run(
        [python, "-c", program, str(evolved.path)],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
        env=environment,
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    for name, tensor in evolved.now.tensors.items():
        if not tensor.is_link:
            # It knows no nulls: a missing text is an empty one there, a missing document an empty one.
            ours = [np.asarray(sample).tolist() for sample in tensor.numpy(aslist=True)]
            pairs = zip(json.loads(json.dumps(ours)), theirs[name], strict=True)
            assert all(our == their or our == [None] for our, their in pairs), name
