"""A column of any type is a key and a cursor that works, or is refused before a record is read."""

from pathlib import Path
from typing import Any

import pytest

from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import FORMATS, ColumnChoice, Decoding, StreamChoices
from destination_deeplake.chosen import ARRAY_HTYPES
from destination_deeplake.failures import ConfigError
from destination_deeplake.stream.writer import open_stream
from unit_tests.destination_deeplake.stream.test_writer import column, lake, sync

INT, NUMBER, TEXT = ({"type": name} for name in ("integer", "number", "string"))
LIST, OBJECT = {"type": "array", "items": NUMBER}, {"type": "object"}

COMPARED: list[tuple[dict[str, Any], dict[str, Any], list[Any]]] = [
    (INT, {}, [-5, 3]),
    (INT, {"dtype": "uint64", "chunk_compression": "lz4"}, [1, 2**63 - 1]),
    (INT, {"htype": "class_label", "class_names": ("x", "y")}, [0, 1]),
    (NUMBER, {"dtype": "float16"}, [1.1, 2.1]),
    (NUMBER, {"dtype": "float32", "nulls_as_nan": True}, [None, 2.1]),
    ({"type": "boolean"}, {}, [False, True]),
    (TEXT, {}, ["", "é"]),
    (TEXT, {"sample_compression": "lz4"}, ["a", "b"]),
    (TEXT, {"htype": "json"}, ["a", "b"]),
    (TEXT, {"htype": "class_label"}, ["first", "second"]),
    ({**TEXT, "format": "date-time"}, {}, ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"]),
    ({**TEXT, "format": "date"}, {}, ["2024-01-01", "2024-01-02"]),
    ({**TEXT, "format": "time"}, {}, ["00:00:01", "00:00:02"]),
    (LIST, {}, [[1, 2.5], [2]]),
    (LIST, {"htype": "text"}, [[], [2]][::-1]),
    (OBJECT, {}, [{"a": None}, {"b": ["é"]}]),
    ({}, {}, [None, 1]),
]
"""Schema, choice, and two values of which the second is greater."""

REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    *((LIST, {"htype": htype}, htype) for htype in ARRAY_HTYPES if htype != "generic"),
    (LIST, {"decoding": Decoding.NUMBERS, "dtype": "float64"}, "arrays of float64"),
    (LIST, {"shape": (2, 2)}, "arrays of float32"),
    (TEXT, {"decoding": Decoding.BASE64}, "bytes"),
    *((TEXT, {"htype": htype}, htype) for htype in FORMATS),
    (TEXT, {"htype": "audio", "sample_compression": "wav"}, "audio"),
    *((TEXT, {"htype": f"link[{htype}]"}, f"link[{htype}]") for htype in FORMATS if "." not in htype),
    (TEXT, {"decoding": Decoding.URL}, "link[image]"),
]
"""Schema, choice, and what the message says that the column is stored as."""


def keyed(schema: dict[str, Any], choice: dict[str, Any], *, cursor: bool, **more: Any) -> StreamPlan:
    choices = StreamChoices(columns={"k": ColumnChoice("k", **choice)} if choice else {})
    properties = {"properties": {"id": INT, "k": schema, "n": INT}}
    key = (("id",),) if cursor else (("n",), ("k",))
    return StreamPlan(
        "ns",
        "users",
        more.pop("mode", WriteMode.DEDUP),
        properties,
        primary_key=key,
        cursor=("k",) if cursor else (),
        choices=choices,
        **more,
    )


@pytest.mark.parametrize(("schema", "choice", "values"), COMPARED)
def test_rows_are_told_apart(
    tmp_path: Path, schema: dict[str, Any], choice: dict[str, Any], values: list[Any]
) -> None:
    plan = keyed(schema, choice, cursor=False)
    sync(tmp_path, plan, *({"id": number, "k": value} for number, value in enumerate(values)))
    sync(tmp_path, plan, {"id": 2, "k": values[1]})
    sync(tmp_path, plan, {"id": 3, "k": values[0]}, {"id": 4, "k": values[1]})
    assert sorted(column(tmp_path / "ns" / "users", "id")) == [3, 4]


@pytest.mark.parametrize(("schema", "choice", "values"), COMPARED)
def test_newer_rows_are_told_from_older_ones(
    tmp_path: Path, schema: dict[str, Any], choice: dict[str, Any], values: list[Any]
) -> None:
    plan, (low, high) = keyed(schema, choice, cursor=True), values
    sync(tmp_path, plan, {"id": 1, "k": low, "n": 0})
    sync(tmp_path, plan, {"id": 1, "k": high, "n": 1}, {"id": 1, "k": low, "n": 2})
    sync(tmp_path, plan, {"id": 1, "k": low, "n": 3})
    assert column(tmp_path / "ns" / "users", "n") == [1]


@pytest.mark.parametrize(("schema", "choice", "contents"), REFUSED)
@pytest.mark.parametrize(("cursor", "role"), [(False, "primary key"), (True, "cursor")])
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, schema: dict[str, Any], choice: dict[str, Any], contents: str, cursor: bool, role: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        open_stream(lake(tmp_path), keyed(schema, choice, cursor=cursor))
    said = str(refused.value)
    assert f"Column 'k' of the stream 'ns.users' cannot be the {role}" in said
    assert f"stored as {contents}, which cannot be compared; choose another {role}" in said


def test_whoever_chooses_something_else_goes_on(tmp_path: Path) -> None:
    refreshed = {"generation_id": 2, "minimum_generation_id": 2}
    for more in ({}, refreshed):
        with pytest.raises(ConfigError, match="cannot be compared"):
            open_stream(lake(tmp_path), keyed(TEXT, {"htype": "image"}, cursor=False, **more))
        sync(tmp_path, keyed(TEXT, {}, cursor=False, **more), {"id": 1, "k": "a"})
        assert column(tmp_path / "ns" / "users", "k") == ["a"]


def test_rows_that_are_only_added_need_no_key(tmp_path: Path) -> None:
    for mode in (WriteMode.APPEND, WriteMode.OVERWRITE):
        sync(tmp_path, keyed(LIST, {"htype": "embedding"}, cursor=False, mode=mode), {"id": 1, "k": [1, 2]})
        assert column(tmp_path / "ns" / "users", "id") == [1]


@pytest.mark.parametrize(("cursor", "role"), [(False, "primary key"), (True, "cursor")])
def test_a_key_that_is_no_column_is_refused(tmp_path: Path, cursor: bool, role: str) -> None:
    path = ("o", "id")
    properties = {"id": INT, "o.id": INT, "o": {**OBJECT, "properties": {"id": INT}}}
    named: dict[str, Any] = (
        {"cursor": path, "primary_key": (("id",),)} if cursor else {"primary_key": (path,)}
    )
    plan = StreamPlan(None, "users", WriteMode.DEDUP, {"properties": properties}, **named)
    with pytest.raises(ConfigError, match=rf"'users' cannot have 'o.id' as its {role}"):
        open_stream(lake(tmp_path), plan)
