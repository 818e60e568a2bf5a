"""JSON schema -> kinds -> tensors."""

from typing import Any

import pyarrow as pa
import pytest

from destination_deeplake.airbyte_types import columns, kind_of
from destination_deeplake.choices import ColumnChoice, StreamChoices
from destination_deeplake.columns import Kind
from destination_deeplake.failures import ConfigError
from destination_deeplake.tensors import META_KINDS, TENSOR_TYPES

WELL_KNOWN = "WellKnownTypes.json#/definitions/"


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, Kind.TEXT),
        ({"type": ["null", "string"]}, Kind.TEXT),
        ({"type": "string", "format": "email"}, Kind.TEXT),
        ({"type": "integer"}, Kind.INT64),
        ({"type": "int"}, Kind.INT64),
        ({"type": "number"}, Kind.FLOAT64),
        ({"type": ["number", "null"], "airbyte_type": "integer"}, Kind.INT64),
        ({"type": "boolean"}, Kind.BOOL),
        ({"type": "string", "format": "date"}, Kind.DATE),
        ({"type": "string", "format": "date-time"}, Kind.TIMESTAMP_TZ),
        (
            {"type": "string", "format": "date-time", "airbyte_type": "timestamp_with_timezone"},
            Kind.TIMESTAMP_TZ,
        ),
        (
            {"type": ["null", "string"], "format": "date-time", "airbyte_type": "timestamp_without_timezone"},
            Kind.TIMESTAMP,
        ),
        ({"type": "string", "format": "time"}, Kind.TIME_TZ),
        ({"type": "string", "format": "time", "airbyte_type": "time_without_timezone"}, Kind.TIME),
        (
            {"type": "string", "format": "datetime", "airbyte_type": "timestamp_with_timezone"},
            Kind.TIMESTAMP_TZ,
        ),
        (
            {"type": "string", "format": "date_time", "airbyte_type": "timestamp_without_timezone"},
            Kind.TIMESTAMP,
        ),
        ({"type": "string", "format": "timestamp", "airbyte_type": "time_with_timezone"}, Kind.TIME_TZ),
        ({"type": "string", "airbyte_type": "time_without_timezone"}, Kind.TIME),
        ({"type": "string", "format": "date", "airbyte_type": "timestamp_with_timezone"}, Kind.DATE),
        ({"type": "string", "format": "datetime"}, Kind.TEXT),
        ({"type": "string", "format": "timestamp", "airbyte_type": "integer"}, Kind.TEXT),
        ({"type": "string", "format": ["date-time"], "airbyte_type": {"odd": 1}}, Kind.TEXT),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, Kind.JSON),
        ({"type": "array", "items": {"type": "integer"}}, Kind.JSON),
        ({"type": ["string", "integer"]}, Kind.JSON),
        ({"type": ["null"]}, Kind.JSON),
        ({"type": "null"}, Kind.JSON),
        ({"type": []}, Kind.JSON),
        ({"type": "geometry"}, Kind.JSON),
        ({"type": {"odd": 1}}, Kind.JSON),
        ({}, Kind.JSON),
        (True, Kind.JSON),
        (None, Kind.JSON),
        ({"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]}, Kind.DATE),
        ({"anyOf": [{"type": "string"}, {"type": ["null", "string"]}]}, Kind.TEXT),
        ({"allOf": [{"type": "integer"}]}, Kind.INT64),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, Kind.JSON),
        ({"oneOf": []}, Kind.JSON),
        ({"oneOf": [{"anyOf": [{"type": "boolean"}, {"type": "null"}]}]}, Kind.BOOL),
        ({"$ref": WELL_KNOWN + "Integer"}, Kind.INT64),
        ({"$ref": WELL_KNOWN + "TimestampWithoutTimezone"}, Kind.TIMESTAMP),
        ({"$ref": WELL_KNOWN + "BinaryData"}, Kind.TEXT),
        ({"oneOf": [{"$ref": WELL_KNOWN + "Date"}, {"type": "null"}]}, Kind.DATE),
        ({"$ref": WELL_KNOWN + "Unheard"}, Kind.JSON),
        ({"$ref": "#/definitions/String"}, Kind.JSON),
    ],
)
def test_a_property_gets_the_kind_that_the_protocol_means(schema: Any, kind: Kind) -> None:
    assert kind_of(schema) is kind


def test_a_schema_without_end_is_json() -> None:
    schema: dict[str, Any] = {}
    schema["oneOf"] = [schema, {"type": "string"}]
    assert kind_of(schema) is Kind.JSON


def test_properties_named_like_meta_columns_are_columns() -> None:
    schema = {"properties": {"_airbyte_meta": {"type": "string"}, "a": {"type": "string"}}}
    assert [column.field for column in columns(schema)] == ["_airbyte_meta", "a"]


def test_columns_keep_the_order_of_the_schema() -> None:
    found = columns({"properties": {"b": {"type": "string"}, "a": {"type": "integer"}, "": True}})
    assert [(column.field, column.column.kind) for column in found] == [
        ("b", Kind.TEXT),
        ("a", Kind.INT64),
        ("", Kind.JSON),
    ]


@pytest.mark.parametrize(
    "schema", [{}, {"properties": None}, {"type": "object", "additionalProperties": True}]
)
def test_a_schema_without_properties_has_no_columns(schema: dict[str, Any]) -> None:
    assert columns(schema) == []


def test_every_kind_has_a_tensor_that_can_be_filled_with_nulls() -> None:
    assert set(TENSOR_TYPES) == set(Kind)
    assert set(META_KINDS.values()) < set(Kind)
    for stored in TENSOR_TYPES.values():
        nulls = stored.nulls(3)
        assert nulls.type == stored.arrow
        assert nulls.null_count == 3
        if stored.dtype != "unspecified" and not pa.types.is_nested(stored.arrow):
            assert stored.arrow == pa.binary() or pa.from_numpy_dtype(stored.dtype) == stored.arrow


TEXT = {"type": "string"}
OBJECT = {"type": "object", "properties": {"city": TEXT}}


def named(**tensors: str) -> StreamChoices:
    return StreamChoices(columns={column: ColumnChoice(column, tensor=tensors[column]) for column in tensors})


@pytest.mark.parametrize(
    ("properties", "choices", "other"),
    [
        ({"address": TEXT, "name": TEXT}, named(address="name"), "name"),
        ({"address": TEXT, "name": TEXT}, named(address="Name"), "name"),
        ({"address": TEXT, "name": TEXT}, named(address="name/of"), "name"),
        ({"address": TEXT, "path": TEXT}, named(address="path_"), "path"),
        ({"a": TEXT, "b": OBJECT}, StreamChoices(flatten=True, columns=named(a="b").columns), "b.city"),
    ],
)
def test_a_tensor_of_another_column_cannot_be_chosen(
    properties: dict[str, Any], choices: StreamChoices, other: str
) -> None:
    """The other column would silently get a name that nobody expects."""
    with pytest.raises(ConfigError, match=f"is that of the source's column '{other}'"):
        columns({"properties": properties}, choices)


@pytest.mark.parametrize(
    "choices",
    [
        named(address="name", name="first_name"),
        StreamChoices(exclude=("name",), columns=named(address="name").columns),
        named(name="name"),
    ],
)
def test_a_name_that_is_free_can_be_chosen(choices: StreamChoices) -> None:
    found = columns({"properties": {"address": TEXT, "name": TEXT}}, choices)
    assert "name" in {"/".join(column.place) for column in found}
