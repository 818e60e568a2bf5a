"""Airbyte's messages in Protocol Buffers, from the published table of fields; no generated code.

The descriptors are built when a test first uses a class, so that only such tests need the package `protobuf`, and none
needs a compiler.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest

PACKAGE = "io.airbyte.protocol.protobuf"


class Field(NamedTuple):
    """One field of a message; `type` is a scalar, or the name of a message or an enumeration."""

    name: str
    number: int
    type: str
    rule: str = ""
    """one_of, optional or repeated."""


ENUMS = {
    "NullValue": ["NULL_VALUE"],
    "Change": ["NULLED", "TRUNCATED"],
    "Reason": [
        "SOURCE_RECORD_SIZE_LIMITATION",
        "DESTINATION_RECORD_SIZE_LIMITATION",
        "PLATFORM_RECORD_SIZE_LIMITATION",
        "SOURCE_FIELD_SIZE_LIMITATION",
        "DESTINATION_FIELD_SIZE_LIMITATION",
        "PLATFORM_FIELD_SIZE_LIMITATION",
        "SOURCE_SERIALIZATION_ERROR",
        "DESTINATION_SERIALIZATION_ERROR",
        "PLATFORM_SERIALIZATION_ERROR",
        "SOURCE_RETRIEVAL_ERROR",
        "DESTINATION_TYPECAST_ERROR",
    ],
}
"""Names in the order of their numbers, from 0."""

MESSAGES = {
    "AirbyteMessageProtobuf": [
        Field("record", 1, "AirbyteRecordMessageProtobuf", "one_of"),
        Field("airbyte_protocol_message", 2, "string", "one_of"),
        Field("probe", 3, "Probe", "one_of"),
    ],
    "Probe": [],
    "AirbyteRecordMessageProtobuf": [
        Field("stream_namespace", 1, "string", "optional"),
        Field("stream_name", 2, "string"),
        Field("emitted_at_ms", 3, "uint64"),
        Field("partition_id", 4, "string"),
        Field("data", 5, "AirbyteValueProtobuf", "repeated"),
        Field("meta", 6, "AirbyteRecordMessageMeta"),
    ],
    "AirbyteRecordMessageMeta": [Field("changes", 1, "AirbyteRecordMessageMetaChange", "repeated")],
    "AirbyteRecordMessageMetaChange": [
        Field("field", 1, "string"),
        Field("change", 2, "Change"),
        Field("reason", 3, "Reason"),
    ],
    "AirbyteValueProtobuf": [
        Field("boolean", 1, "bool", "one_of"),
        Field("string", 2, "string", "one_of"),
        Field("integer", 3, "sint64", "one_of"),
        Field("big_integer", 4, "string", "one_of"),
        Field("number", 5, "double", "one_of"),
        Field("big_decimal", 6, "string", "one_of"),
        Field("date", 7, "sint64", "one_of"),
        Field("time_with_timezone", 8, "TimeWithTimezone", "one_of"),
        Field("time_without_timezone", 9, "uint64", "one_of"),
        Field("timestamp_with_timezone", 10, "TimestampWithTimezone", "one_of"),
        Field("timestamp_without_timezone", 11, "TimestampWithoutTimezone", "one_of"),
        Field("json", 12, "bytes", "one_of"),
        Field("null", 13, "NullValue", "one_of"),
    ],
    "TimeWithTimezone": [Field("nanos_of_day", 1, "uint64"), Field("offset_seconds", 2, "sint32")],
    "TimestampWithTimezone": [
        Field("epoch_second", 1, "sint64"),
        Field("nano", 2, "uint32"),
        Field("offset_seconds", 3, "sint32"),
    ],
    "TimestampWithoutTimezone": [
        Field("date_days_since_epoch", 1, "sint64"),
        Field("nanos_of_day", 2, "uint64"),
    ],
}


def __getattr__(name: str) -> Any:
    if name in ("AirbyteMessage", "AirbyteValue"):
        return _classes()[f"{name}Protobuf"]
    raise AttributeError(name)


@cache
def _classes() -> dict[str, Any]:
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="airbyte.proto", package=PACKAGE, syntax="proto3")
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add(message, field, descriptor_pb2.FieldDescriptorProto)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in MESSAGES
    }


def _add(message: Any, field: Field, kinds: Any) -> None:
    added = message.field.add(name=field.name, number=field.number, label=kinds.LABEL_OPTIONAL)
    if field.type in MESSAGES or field.type in ENUMS:
        added.type = kinds.TYPE_MESSAGE if field.type in MESSAGES else kinds.TYPE_ENUM
        added.type_name = f".{PACKAGE}.{field.type}"
    else:
        added.type = getattr(kinds, f"TYPE_{field.type.upper()}")
    if field.rule == "repeated":
        added.label = kinds.LABEL_REPEATED
    elif field.rule == "one_of":
        if not message.oneof_decl:
            message.oneof_decl.add(name="value")
        added.oneof_index = 0
    elif field.rule == "optional":
        # What a compiler makes of `optional` in proto3: a choice of one.
        added.proto3_optional = True
        added.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")
