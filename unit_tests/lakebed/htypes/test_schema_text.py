"""Schema strings of json tensors."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.errors import TensorMetaInvalidHtypeOverwriteValue
from lakebed.htypes.schema_text import Schema, check_schema, fits, parse_schema


def test_schemas_are_parsed() -> None:
    """Names with schemas in brackets, at any depth, with or without blanks."""
    assert parse_schema("Any") == Schema("Any")
    assert parse_schema("Dict[str,List[ int ]]") == Schema(
        "Dict", (Schema("str"), Schema("List", (Schema("int"),)))
    )
    assert parse_schema("typing.Optional[int]") == Schema("Optional", (Schema("int"),))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "List[",
        "List[int",
        "List]",
        "List[]",
        "[int]",
        "Any[int]",
        "List[int, str]",
        "M8[ns]",
        "List[int] x]",
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    """Brackets must match, and only what has parts may have some."""
    with pytest.raises(TensorMetaInvalidHtypeOverwriteValue):
        parse_schema(text)
    with pytest.raises(TensorMetaInvalidHtypeOverwriteValue):
        parse_schema("List[" * 1000 + "int" + "]" * 1000)


def test_schemas_come_as_text_or_types() -> None:
    """What is stored is the text."""
    assert check_schema("Dict[str, int]") == "Dict[str, int]"
    assert check_schema(dict) == "Dict"
    for wrong in (5, object, float.fromhex):
        with pytest.raises(TensorMetaInvalidHtypeOverwriteValue):
            check_schema(wrong)


# What 3.9.52 took (True) and refused.
ANSWERS: dict[str, list[tuple[Any, bool]]] = {
    "Dict[str, int]": [({"a": 1}, True), ({"a": "x"}, False), ([1], False), ({}, True), ([], True)],
    "List[int]": [([1, 2], True), (["a"], False), (5, False), (None, True), ({}, True)],
    "Dict": [({"a": "x"}, True), ([1], False), ("x", False)],
    "List": [(["a"], True), ([{"a": 1}], True), ({"a": 1}, False)],
    "Optional[int]": [(5, True), (True, True), ("x", False), (None, True)],
    "Union[int, str]": [(5, True), ("x", True), (2.5, False)],
    "Dict[str, List[int]]": [({"a": [1]}, True), ({"a": 1}, False)],
    "List[Dict[str, Any]]": [([{"a": 1}], True), ([1], False)],
    "int": [(5, True), (True, True), (2.5, False)],
    "float": [(2.5, True), (5, False)],
    "bool": [(True, True), (5, False)],
    "str": [("x", True), (5, False)],
    "Any": [({"a": [1, None]}, True)],
    "whatever": [({"a": [1, None]}, True)],
}  # fmt: skip


@pytest.mark.parametrize("schema", ANSWERS)
def test_values_are_checked_as_3_9_52_does(schema: str) -> None:
    """None and empty values stand for a missing one and always fit."""
    for value, expected in ANSWERS[schema]:
        assert fits(value, parse_schema(schema)) is expected, (schema, value)
