"""JSON schema of a stream -> kinds of columns -> tensors.

    property                                              kind          tensor              logical type
    string, and string with an unknown format             TEXT          text
    integer; number with airbyte_type integer             INT64         generic int64
    number                                                FLOAT64       generic float64
    boolean                                               BOOL          generic bool
    string, date-time (with zone is the default)          TIMESTAMP_TZ  generic int64    timestamp[us, tz=UTC]
    ... airbyte_type timestamp_without_timezone           TIMESTAMP     generic int64       timestamp[us]
    string, date                                          DATE          generic int32       date32[day]
    string, time (with zone is the default)               TIME_TZ       generic int64       time64[us]
    ... airbyte_type time_without_timezone                TIME          generic int64       time64[us]
    object, array, union, anything unknown                JSON          json

`["null", T]` is T; so is a oneOf, anyOf or allOf whose branches come to one kind once null is gone. The old
`$ref: WellKnownTypes.json#/definitions/...` of protocol version 1 goes by its name.

Source: Airbyte protocol, supported data types; `JsonSchemaToAirbyteType` of the bulk CDK.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from destination_deeplake.columns import Column, Kind
from destination_deeplake.naming import META_COLUMNS


@dataclass(frozen=True, slots=True)
class TensorType:
    """How a kind is stored.

    Attributes
    ----------
    htype : str
        Deep Lake htype.
    dtype : str
        NumPy dtype; "unspecified" where the htype fixes it.
    logical_type : str or None
        Arrow type that the numbers stand for, kept in the tensor's info.
    arrow : pyarrow.DataType
        Type of the arrays that go into the tensor.
    """

    htype: str
    dtype: str
    logical_type: str | None
    arrow: pa.DataType

    def nulls(self, count: int) -> pa.Array:
        """Return `count` nulls of this type."""
        return pa.nulls(count, self.arrow)


_OF_HTYPE = "unspecified"

TENSOR_TYPES: Mapping[Kind, TensorType] = {
    Kind.TEXT: TensorType("text", _OF_HTYPE, None, pa.string()),
    Kind.INT64: TensorType("generic", "int64", None, pa.int64()),
    Kind.FLOAT64: TensorType("generic", "float64", None, pa.float64()),
    Kind.BOOL: TensorType("generic", "bool", None, pa.bool_()),
    Kind.TIMESTAMP_TZ: TensorType("generic", "int64", "timestamp[us, tz=UTC]", pa.int64()),
    Kind.TIMESTAMP: TensorType("generic", "int64", "timestamp[us]", pa.int64()),
    Kind.DATE: TensorType("generic", "int32", "date32[day]", pa.int32()),
    Kind.TIME_TZ: TensorType("generic", "int64", "time64[us]", pa.int64()),
    Kind.TIME: TensorType("generic", "int64", "time64[us]", pa.int64()),
    Kind.JSON: TensorType("json", _OF_HTYPE, None, pa.json_()),
}

META_KINDS: Mapping[str, Kind] = dict(
    zip(META_COLUMNS, (Kind.TEXT, Kind.TIMESTAMP_TZ, Kind.JSON, Kind.INT64), strict=True)
)

_WELL_KNOWN = {
    "String": Kind.TEXT,
    "BinaryData": Kind.TEXT,
    "Date": Kind.DATE,
    "TimestampWithTimezone": Kind.TIMESTAMP_TZ,
    "TimestampWithoutTimezone": Kind.TIMESTAMP,
    "TimeWithTimezone": Kind.TIME_TZ,
    "TimeWithoutTimezone": Kind.TIME,
    "Number": Kind.FLOAT64,
    "Integer": Kind.INT64,
    "Boolean": Kind.BOOL,
}

_SIMPLE = {"integer": Kind.INT64, "int": Kind.INT64, "boolean": Kind.BOOL, "bool": Kind.BOOL}


def columns(json_schema: Mapping[str, Any]) -> list[Column]:
    """Return the columns of a stream, in the order of its schema.

    A property that is named like a meta column is none; see `shadowed`.
    """
    properties = _properties(json_schema)
    return [Column(name, kind_of(schema)) for name, schema in properties.items() if name not in META_COLUMNS]


def shadowed(json_schema: Mapping[str, Any]) -> list[str]:
    """Return the properties that cannot be columns because a meta column has their name."""
    return [name for name in META_COLUMNS if name in _properties(json_schema)]


def _properties(json_schema: Mapping[str, Any]) -> Mapping[str, object]:
    properties = json_schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def kind_of(schema: object) -> Kind:
    """Return the kind of a property; JSON for whatever has no type of its own.

    Examples
    --------
    >>> kind_of({"type": ["null", "string"], "format": "date-time"}).name
    'TIMESTAMP_TZ'
    """
    kinds = _kinds(schema, depth=0)
    return kinds.pop() if len(kinds) == 1 else Kind.JSON


def _kinds(schema: object, depth: int) -> set[Kind]:
    """Return the kinds that a value may have, null aside."""
    if not isinstance(schema, Mapping) or depth > 16:
        return {Kind.JSON}
    if isinstance(reference := schema.get("$ref"), str):
        document, _, name = reference.rpartition("#/definitions/")
        return {_WELL_KNOWN.get(name, Kind.JSON) if document.endswith("WellKnownTypes.json") else Kind.JSON}
    declared = schema.get("type")
    if declared is None:
        for word in ("oneOf", "anyOf", "allOf"):
            if isinstance(options := schema.get(word), Sequence) and not isinstance(options, str):
                return _union(options, depth)
        return {Kind.JSON}
    names = declared if isinstance(declared, list) else [declared]
    return {_typed(name, schema) for name in names if name != "null"}


def _union(options: Sequence[object], depth: int) -> set[Kind]:
    found: set[Kind] = set()
    for option in options:
        found |= _kinds(option, depth + 1)
    return found


def _typed(name: object, schema: Mapping[str, Any]) -> Kind:
    airbyte_type = schema.get("airbyte_type")
    if name == "string":
        return _string(schema.get("format"), airbyte_type)
    if name == "number":
        return Kind.INT64 if airbyte_type == "integer" else Kind.FLOAT64
    return _SIMPLE.get(name, Kind.JSON) if isinstance(name, str) else Kind.JSON


def _string(form: object, airbyte_type: object) -> Kind:
    if form == "date":
        return Kind.DATE
    if form == "date-time":
        return Kind.TIMESTAMP if airbyte_type == "timestamp_without_timezone" else Kind.TIMESTAMP_TZ
    if form == "time":
        return Kind.TIME if airbyte_type == "time_without_timezone" else Kind.TIME_TZ
    return Kind.TEXT
