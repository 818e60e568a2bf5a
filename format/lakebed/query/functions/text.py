"""Functions of texts and JSON values, and the conditions CONTAINS, LIKE and IN."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import QueryError
from lakebed.query.functions.function import Function
from lakebed.query.functions.numeric import constant, constant_int
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Objects,
    Ragged,
    Texts,
    bits,
    by_row,
    collect,
    either,
    rows,
    strings,
    truth,
)
from lakebed.query.values.elementwise import compare
from lakebed.query.values.info import FLAG, JSON, NUMBER, TEXT, Given, Info
from lakebed.query.values.reductions import reduced

_LONGEST = 1 << 16
"""Maximum number of characters that REPEAT, LPAD and RPAD make for one row."""

_FAR = 1 << 40
"""Larger than the number of characters of any text."""

# -- texts -----------------------------------------------------------------------------------------------------------


def texts(column: Column, name: str) -> Texts:
    """Return a column as texts; for a JSON value that is not a text, raise an error that names its row."""
    if isinstance(column, Texts):
        return column
    for i, value in enumerate(rows(column)):
        if value is not None and not isinstance(value, str):
            raise QueryError(f"{name} needs text, not {_kind(value)}", kind="type", row=i)
    return strings(rows(column))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, np.ndarray | int | float):
        return "numbers"
    return "a document" if isinstance(value, dict) else "a list"


def as_text(column: Column) -> Texts:
    """Return values as texts: numbers in digits, JSON values as JSON."""
    if isinstance(column, Texts):
        return column
    return strings([None if value is None else written(value) for value in rows(column)])


def written(value: Any) -> str:
    """Return a value as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        value = value.reshape(()).item() if value.size == 1 else value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else json.dumps(value, ensure_ascii=False)


def _text(given: Given, number: int, message: str, *, may_be_empty: bool = True) -> str:
    """Return an argument that must be one text for all rows; `message` is the error's text for other arguments."""
    value = constant(given, number, message.partition(" ")[0])
    if not isinstance(value, str) or not (value or may_be_empty):
        raise QueryError(message, kind="type")
    return value


def _each(given: Given, name: str, function: Callable[[str], Any]) -> list[Any]:
    """Call a function for each text; missing ones stay missing."""
    return [None if text is None else function(text) for text in rows(texts(given.columns[0], name))]


def _of_text(name: str, function: Callable[[pa.Array], pa.Array]) -> Function:
    return Function(name, 1, 1, lambda given: Texts(function(texts(given.columns[0], name).array)), TEXT, 1.0)


def _concat(given: Given) -> Column:
    parts = [as_text(column).array for column in given.columns]
    return Texts(pc.binary_join_element_wise(*parts, "", null_handling="emit_null"))


def _concat_with(given: Given) -> Column:
    """Join the texts of each row, except missing ones, with a separator between them."""
    separator = _text(given, 0, "CONCAT_WS needs a text as its first argument, the separator")
    parts = [as_text(column).array for column in given.columns[1:]]
    return Texts(pc.binary_join_element_wise(*parts, separator, null_handling="skip"))


def _place(given: Given, number: int, name: str) -> int:
    """Return an argument that is a number of characters: one integer for all rows."""
    return max(-_FAR, min(constant_int(given, number, name), _FAR))


def _substring(given: Given) -> Column:
    start = _place(given, 1, "SUBSTR")
    array = texts(given.columns[0], "SUBSTR").array
    first = start - 1 if start > 0 else start
    if len(given.columns) == 2:
        return Texts(pc.utf8_slice_codeunits(array, first))
    count = _place(given, 2, "SUBSTR")
    if count < 0:
        raise QueryError("SUBSTR takes a number of characters that is not negative", kind="runtime")
    if first < 0 <= first + count:
        return by_row(given.count, lambda text: text[first:][:count], [Texts(array)], "SUBSTR")
    return Texts(pc.utf8_slice_codeunits(array, first, first + count))


def _left(given: Given) -> Column:
    count = max(0, _place(given, 1, "LEFT"))
    return Texts(pc.utf8_slice_codeunits(texts(given.columns[0], "LEFT").array, 0, count))


def _right(given: Given) -> Column:
    count = _place(given, 1, "RIGHT")
    start, stop = (-count, None) if count > 0 else (0, 0)
    return Texts(pc.utf8_slice_codeunits(texts(given.columns[0], "RIGHT").array, start, stop))


def _replaced(given: Given) -> Column:
    old = _text(given, 1, "REPLACE needs a text to look for, not the empty one", may_be_empty=False)
    new = _text(given, 2, "REPLACE needs a text to insert")
    return Texts(pc.replace_substring(texts(given.columns[0], "REPLACE").array, pattern=old, replacement=new))


def _replaced_pattern(given: Given) -> Column:
    """Replace all matches of a pattern (RE2)."""
    pattern, new = (_text(given, at, "REGEXP_REPLACE takes a pattern and a text") for at in (1, 2))
    array = texts(given.columns[0], "REGEXP_REPLACE").array
    try:
        return Texts(pc.replace_substring_regex(array, pattern=pattern, replacement=new))
    except pa.ArrowInvalid as error:
        raise QueryError(f"REGEXP_REPLACE: {error}", kind="runtime") from error


def _tested(name: str, function: Callable[..., pa.Array]) -> Function:
    def compute(given: Given) -> Column:
        pattern = _text(given, 1, f"{name} needs a text to look for")
        try:
            return _flags(function(texts(given.columns[0], name).array, pattern))
        except pa.ArrowInvalid as error:
            raise QueryError(f"{name}: {error}", kind="runtime") from error

    return Function(name, 2, 2, compute, FLAG, 2.0)


def _flags(array: pa.Array) -> Numbers:
    """Return Arrow booleans, one per text, as a mask; null, for a missing text, becomes False."""
    return Numbers(bits(array.fill_null(False) if array.null_count else array))


def _position(given: Given) -> Column:
    pattern = _text(given, 1, "STRPOS needs a text to look for")
    found = texts(given.columns[0], "STRPOS")
    return by_row(given.count, lambda text: np.int64(text.find(pattern) + 1), [found], "STRPOS")


def _split(given: Given) -> Column:
    separator = _text(given, 1, "SPLIT needs a text to split at", may_be_empty=False)
    return Objects(_each(given, "SPLIT", lambda text: text.split(separator)))


def _split_part(given: Given) -> Column:
    """Return one part of each text between separators: 1 is the first, -1 the last; ``''`` if no such part exists."""
    message = "SPLIT_PART needs a text to split at, and counts parts from 1"
    separator = _text(given, 1, message, may_be_empty=False)
    number = constant_int(given, 2, "SPLIT_PART")
    if number == 0:
        raise QueryError(message, kind="type")

    def part(text: str) -> str:
        parts = text.split(separator)
        at = number - 1 if number > 0 else len(parts) + number
        return parts[at] if 0 <= at < len(parts) else ""

    return strings(_each(given, "SPLIT_PART", part))


def _padded(name: str, *, at_left: bool) -> Function:
    def compute(given: Given) -> Column:
        width = _length(given, 1, name)
        fill = (
            _text(given, 2, f"{name} needs a text to fill with", may_be_empty=False)
            if len(given.columns) > 2
            else " "
        )

        def padded(text: str) -> str:
            more = (fill * max(0, width - len(text)))[: max(0, width - len(text))]
            return (more + text if at_left else text + more)[:width]

        return strings(_each(given, name, padded))

    return Function(name, 2, 3, compute, TEXT, 4.0)


def _repeated(given: Given) -> Column:
    count = _length(given, 1, "REPEAT")
    return strings(_each(given, "REPEAT", lambda text: text * count))


def _length(given: Given, number: int, name: str) -> int:
    value = constant_int(given, number, name)
    if value > _LONGEST:
        raise QueryError(f"{name} makes texts of up to {_LONGEST:,} characters", kind="limit")
    return max(0, value)


# -- JSON ------------------------------------------------------------------------------------------------------------


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, np.ndarray):
        return "array" if value.ndim else "number"
    names: dict[type, str] = {str: "string", dict: "object", list: "array"}
    return names.get(type(value), "number")


def _has_key(given: Given) -> Column:
    key = _text(given, 1, "HAS_KEY looks for a key: a text")
    return Numbers(np.array([isinstance(v, dict) and key in v for v in rows(given.columns[0])], np.bool_))


def _of_documents(name: str, function: Callable[[Any], Any], info: Info = JSON) -> Function:
    def compute(given: Given) -> Column:
        found = [function(value) for value in rows(given.columns[0])]
        return collect(found) if info is TEXT else Objects(found)

    return Function(name, 1, 1, compute, info, 5.0)


# -- conditions ------------------------------------------------------------------------------------------------------


def contains(given: Given) -> Column:
    """Return whether a text contains a part, a list an item, a document a key, or an array a value."""
    column, wanted = given.columns
    if isinstance(column, Texts) and isinstance(wanted, Constant):
        if not isinstance(wanted.value, str):
            raise QueryError("CONTAINS needs a text to look for in a text", kind="type")
        return _flags(pc.match_substring(column.array, wanted.value))
    if isinstance(column, Numbers | Ragged) and isinstance(wanted, Constant):
        return reduced("ANY", compare("=", column, wanted))
    found = by_row(given.count, _contains, [column, wanted], "CONTAINS")
    gone = either(*(side.missing if isinstance(side, Texts) else None for side in (column, wanted)))
    return found if gone is None else Numbers(truth(found) & ~gone)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, np.ndarray) and wanted.size == 1:
        wanted = wanted.reshape(()).item()
    if value is None or wanted is None:
        return False
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    if isinstance(value, list | dict):
        return wanted in value
    return bool(np.any(np.asarray(value) == wanted))


def matching_classes(names: Sequence[str], pattern: str) -> list[int]:
    """Return the numbers of the classes whose names equal a text, or match a pattern with ``*`` and ``?``."""
    if pattern in names:
        return [i for i, name in enumerate(names) if name == pattern]
    if "*" not in pattern and "?" not in pattern:
        return []
    expression = re.compile(_expression(pattern, "*"), re.DOTALL)
    return [i for i, name in enumerate(names) if expression.fullmatch(name)]


def _expression(pattern: str, wild: str) -> str:
    """Return a pattern as a regular expression.

    Each character in `wild` matches any text; ``?`` matches any single character.
    """
    return re.sub(
        r"(?:[.][*])+",
        ".*",
        "".join(".*" if c in wild else "." if c == "?" else re.escape(c) for c in pattern),
    )


def _like(name: str, cost: float) -> Function:
    def compute(given: Given) -> Column:
        column, pattern = given.columns
        if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
            raise QueryError("LIKE needs a pattern: one text", kind="type")
        if not isinstance(column, Texts):
            column = strings([v if isinstance(v, str) else None for v in rows(column)])
        # Arrow uses RE2, which takes linear time for any pattern.
        expression = f"(?s)^{_expression(pattern.value, '*%')}$"
        return _flags(pc.match_substring_regex(column.array, expression, ignore_case=name == "ILIKE"))

    return Function(name, 2, 2, compute, FLAG, cost)


def is_in(given: Given) -> Column:
    """Return whether each value is in the last argument, a list of constants."""
    column = given.columns[0]
    wanted = list(constant(given, 1, "IN"))
    if isinstance(column, Texts):
        known = [value for value in wanted if isinstance(value, str)]
        return _flags(pc.is_in(column.array, value_set=pa.array(known, pa.string())))
    if isinstance(column, Numbers | Ragged):
        numbers = [value for value in wanted if isinstance(value, int | float)]
        return _numbers_in(column, numbers)
    kept = [value for value in wanted if value is not None]
    return by_row(given.count, lambda value: _one_in(value, kept), [column], "IN")


def _numbers_in(column: Numbers | Ragged, wanted: list[Any]) -> Column:
    values = column.values if isinstance(column, Numbers) else column.flat
    dtype = values.dtype
    if dtype == np.bool_:
        values, dtype = values.view(np.uint8), np.dtype(np.uint8)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        whole = [int(v) for v in wanted if isinstance(v, int) or v.is_integer()]
        wanted = [v for v in whole if bounds.min <= v <= bounds.max]
    else:
        wanted = [v for v in wanted if _has_float(dtype, v)]
    with np.errstate(over="ignore"):
        found = np.isin(values, np.array(wanted, dtype))
    if isinstance(column, Numbers):
        return Numbers(found, column.missing)
    return Ragged(found, column.shapes, column.missing)


def _has_float(dtype: np.dtype[Any], value: Any) -> bool:
    """Return whether floats of a dtype can equal a number.

    A literal is converted to the dtype before it is compared; a NumPy float, from stored values, is compared exactly.
    """
    try:
        with np.errstate(over="ignore"):
            found = dtype.type(value)
    except OverflowError:
        return False
    if isinstance(value, np.floating):
        return bool(found == value)
    return isinstance(value, float) or (bool(np.isfinite(found)) and int(found) == value)


def _one_in(value: Any, wanted: list[Any]) -> Any:
    if isinstance(value, list):
        return np.array([item in wanted for item in value], np.bool_)
    if isinstance(value, np.ndarray):
        return np.isin(value, [v for v in wanted if not isinstance(v, str)])
    return value is not None and value in wanted


FUNCTIONS: list[Function] = [
    _of_text("LOWER", pc.utf8_lower),
    _of_text("UPPER", pc.utf8_upper),
    _of_text("TRIM", pc.utf8_trim_whitespace),
    _of_text("LTRIM", pc.utf8_ltrim_whitespace),
    _of_text("RTRIM", pc.utf8_rtrim_whitespace),
    _of_text("REVERSE", pc.utf8_reverse),
    _of_text("INITCAP", pc.utf8_title),
    Function("CONCAT", 1, None, _concat, TEXT, 1.0),
    Function("CONCAT_WS", 2, None, _concat_with, TEXT, 1.0),
    _padded("LPAD", at_left=True),
    _padded("RPAD", at_left=False),
    Function("REPEAT", 2, 2, _repeated, TEXT, 4.0),
    Function("SPLIT_PART", 3, 3, _split_part, TEXT, 4.0),
    Function("REGEXP_REPLACE", 3, 3, _replaced_pattern, TEXT, 4.0),
    *(Function(name, 2, 3, _substring, TEXT, 1.0) for name in ("SUBSTR", "SUBSTRING")),
    Function("LEFT", 2, 2, _left, TEXT, 1.0),
    Function("RIGHT", 2, 2, _right, TEXT, 1.0),
    Function("REPLACE", 3, 3, _replaced, TEXT, 2.0),
    Function("SPLIT", 2, 2, _split, JSON, 5.0),
    *(Function(name, 2, 2, _position, NUMBER, 3.0) for name in ("STRPOS", "INSTR")),
    _tested("STARTS_WITH", pc.starts_with),
    _tested("ENDS_WITH", pc.ends_with),
    _tested("MATCHES", pc.match_substring_regex),
    _tested("REGEXP_MATCHES", pc.match_substring_regex),
    Function("CONTAINS", 2, 2, contains, FLAG, 3.0),
    _of_documents("KEYS", lambda value: list(value) if isinstance(value, dict) else None),
    _of_documents("VALUES", lambda value: list(value.values()) if isinstance(value, dict) else None),
    _of_documents("JSON_TYPE", _json_type, TEXT),
    Function("HAS_KEY", 2, 2, _has_key, FLAG, 5.0),
]

LIKE, ILIKE = _like("LIKE", 4.0), _like("ILIKE", 5.0)
IN = Function("IN", 2, 2, is_in, FLAG, 1.0)
JOINED = Function("||", 2, 2, _concat, TEXT, 1.0)
