"""Functions of texts and JSON values, and the conditions CONTAINS, LIKE and IN."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import QueryError
from lakebed.query.binding.bound import FLAG, JSON, NUMBER, TEXT, Given
from lakebed.query.functions.function import Function
from lakebed.query.functions.numeric import constant, constant_int
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Objects,
    Ragged,
    Texts,
    by_row,
    collect,
    either,
    rows,
    strings,
    truth,
)
from lakebed.query.values.elementwise import compare

# -- texts -----------------------------------------------------------------------------------------------------------

# What one row is made to hold at most.
_LONGEST = 1 << 16


def texts(column: Column, name: str) -> Texts:
    """Return a column of texts; JSON values that are text are, too.

    Raises
    ------
    QueryError
        If a value is no text.
    """
    if isinstance(column, Texts):
        return column
    found: list[str | None] = []
    for i, value in enumerate(rows(column)):
        if value is not None and not isinstance(value, str):
            raise QueryError(f"{name} needs text, not {_kind(value)}", kind="type", row=i)
        found.append(value)
    return strings(found)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, np.ndarray | int | float):
        return "numbers"
    return (
        "a document" if isinstance(value, dict) else "a list" if isinstance(value, list) else "other values"
    )


def as_text(column: Column) -> Texts:
    """Return values as they are written: numbers in digits, JSON values as JSON."""
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


def _of_text(name: str, function: Callable[[pa.Array], pa.Array]) -> Function:
    return Function(name, 1, 1, lambda given: Texts(function(texts(given.columns[0], name).array)), TEXT, 1.0)


def _concat(given: Given) -> Column:
    parts = [as_text(column).array for column in given.columns]
    return Texts(pc.binary_join_element_wise(*parts, "", null_handling="emit_null"))


# No text has so many characters.
_FAR = 1 << 40


def _place(given: Given, number: int, name: str) -> int:
    """Return an argument that counts characters."""
    return max(-_FAR, min(constant_int(given, number, name), _FAR))


def _substring(given: Given) -> Column:
    start = _place(given, 1, "SUBSTR")
    array = texts(given.columns[0], "SUBSTR").array
    first = start - 1 if start > 0 else start
    stop = None
    if len(given.columns) > 2:
        count = _place(given, 2, "SUBSTR")
        if count < 0:
            raise QueryError("SUBSTR of fewer than no characters", kind="runtime")
        stop = first + count
        if first < 0 <= stop:
            return by_row(given.count, lambda text: text[first:][:count], [Texts(array)], "SUBSTR")
    return Texts(pc.utf8_slice_codeunits(array, first, stop))


def _left(given: Given) -> Column:
    count = _place(given, 1, "LEFT")
    return Texts(pc.utf8_slice_codeunits(texts(given.columns[0], "LEFT").array, 0, max(count, 0)))


def _right(given: Given) -> Column:
    count = _place(given, 1, "RIGHT")
    array = texts(given.columns[0], "RIGHT").array
    return (
        Texts(pc.utf8_slice_codeunits(array, -count))
        if count > 0
        else Texts(pc.utf8_slice_codeunits(array, 0, 0))
    )


def _replaced(given: Given) -> Column:
    old, new = constant(given, 1, "REPLACE"), constant(given, 2, "REPLACE")
    if not isinstance(old, str) or not isinstance(new, str):
        raise QueryError("REPLACE puts text in the place of text", kind="type")
    if not old:
        raise QueryError("REPLACE needs a text to look for, not the empty one", kind="type")
    return Texts(pc.replace_substring(texts(given.columns[0], "REPLACE").array, pattern=old, replacement=new))


def _tested(name: str, function: Callable[..., pa.Array]) -> Function:
    def compute(given: Given) -> Column:
        pattern = constant(given, 1, name)
        if not isinstance(pattern, str):
            raise QueryError(f"{name} looks for text", kind="type")
        try:
            return _flags(function(texts(given.columns[0], name).array, pattern))
        except pa.ArrowInvalid as error:
            raise QueryError(f"{name}: {error}", kind="runtime") from error

    return Function(name, 2, 2, compute, FLAG, 2.0)


def _flags(array: pa.Array) -> Numbers:
    """Return what is told of texts: of a missing one it is false."""
    return Numbers((array.fill_null(False) if array.null_count else array).to_numpy(zero_copy_only=False))


def _position(given: Given) -> Column:
    pattern = constant(given, 1, "STRPOS")
    if not isinstance(pattern, str):
        raise QueryError("STRPOS looks for text", kind="type")
    return by_row(
        given.count,
        lambda text: np.int64(text.find(pattern) + 1),
        [texts(given.columns[0], "STRPOS")],
        "STRPOS",
    )


def _split(given: Given) -> Column:
    separator = constant(given, 1, "SPLIT")
    if not isinstance(separator, str) or not separator:
        raise QueryError("SPLIT needs a text to split at", kind="type")
    return Objects(
        [None if text is None else text.split(separator) for text in rows(texts(given.columns[0], "SPLIT"))]
    )


def _split_part(given: Given) -> Column:
    """Return one part of a text between separators, counted from 1, or from the end by -1; else ``''``."""
    separator, number = constant(given, 1, "SPLIT_PART"), constant_int(given, 2, "SPLIT_PART")
    if not isinstance(separator, str) or not separator or number == 0:
        raise QueryError("SPLIT_PART needs a text to split at, and counts parts from 1", kind="type")

    def part(text: str) -> str:
        parts = text.split(separator)
        at = number - 1 if number > 0 else len(parts) + number
        return parts[at] if 0 <= at < len(parts) else ""

    return strings(
        [None if text is None else part(text) for text in rows(texts(given.columns[0], "SPLIT_PART"))]
    )


def _padded(name: str, *, at_left: bool) -> Callable[[Given], Column]:
    def compute(given: Given) -> Column:
        width = _length(given, 1, name)
        fill = constant(given, 2, name) if len(given.columns) > 2 else " "
        if not isinstance(fill, str) or not fill:
            raise QueryError(f"{name} fills with text", kind="type")

        def padded(text: str) -> str:
            more = (fill * max(0, width - len(text)))[: max(0, width - len(text))]
            return (more + text if at_left else text + more)[:width]

        return strings(
            [None if text is None else padded(text) for text in rows(texts(given.columns[0], name))]
        )

    return compute


def _repeated(given: Given) -> Column:
    count = _length(given, 1, "REPEAT")
    return strings(
        [None if text is None else text * count for text in rows(texts(given.columns[0], "REPEAT"))]
    )


def _length(given: Given, number: int, name: str) -> int:
    value = constant_int(given, number, name)
    if value > _LONGEST:
        raise QueryError(f"{name} makes texts of up to {_LONGEST:,} characters", kind="limit")
    return max(0, value)


def _replaced_pattern(given: Given) -> Column:
    """Replace all that a pattern (RE2) matches."""
    pattern, new = constant(given, 1, "REGEXP_REPLACE"), constant(given, 2, "REGEXP_REPLACE")
    if not isinstance(pattern, str) or not isinstance(new, str):
        raise QueryError("REGEXP_REPLACE takes a pattern and a text", kind="type")
    array = texts(given.columns[0], "REGEXP_REPLACE").array
    try:
        return Texts(pc.replace_substring_regex(array, pattern=pattern, replacement=new))
    except pa.ArrowInvalid as error:
        raise QueryError(f"REGEXP_REPLACE: {error}", kind="runtime") from error


def _concat_with(given: Given) -> Column:
    """Put texts together with a separator between those that are there."""
    separator = constant(given, 0, "CONCAT_WS")
    if not isinstance(separator, str):
        raise QueryError("CONCAT_WS puts a text between others", kind="type")
    parts = [as_text(column).array for column in given.columns[1:]]
    return Texts(pc.binary_join_element_wise(*parts, separator, null_handling="skip"))


# -- JSON ------------------------------------------------------------------------------------------------------------


def _keys(value: Any) -> Any:
    return list(value) if isinstance(value, dict) else None


def _values(value: Any) -> Any:
    return list(value.values()) if isinstance(value, dict) else None


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, np.ndarray):
        return "array" if value.ndim else "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "number"


def _has_key(given: Given) -> Column:
    key = constant(given, 1, "HAS_KEY")
    if not isinstance(key, str):
        raise QueryError("HAS_KEY looks for a key: a text", kind="type")
    return Numbers(np.array([isinstance(v, dict) and key in v for v in rows(given.columns[0])], np.bool_))


def _of_documents(name: str, function: Callable[[Any], Any], info: Any = JSON) -> Function:
    def compute(given: Given) -> Column:
        found = [function(value) for value in rows(given.columns[0])]
        return collect(found) if info is TEXT else Objects(found)

    return Function(name, 1, 1, compute, info, 5.0)


# -- conditions ------------------------------------------------------------------------------------------------------


def contains(given: Given) -> Column:
    """Tell whether a text has a part, a list or JSON array an item, an array a value."""
    column, wanted = given.columns
    if isinstance(column, Texts) and isinstance(wanted, Constant):
        if not isinstance(wanted.value, str):
            raise QueryError("a text contains text", kind="type")
        return _flags(pc.match_substring(column.array, wanted.value))
    if isinstance(column, Numbers | Ragged) and isinstance(wanted, Constant):
        from lakebed.query.values.reductions import reduced

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
    """Return the numbers of the class names that a name, or a pattern with ``*`` and ``?``, means."""
    if pattern in names:
        return [i for i, name in enumerate(names) if name == pattern]
    if "*" not in pattern and "?" not in pattern:
        return []
    expression = _expression(pattern, percent=False)
    return [i for i, name in enumerate(names) if expression.fullmatch(name)]


def _expression(pattern: str, *, percent: bool, any_case: bool = False) -> re.Pattern[str]:
    """Return a pattern of LIKE as an expression: ``*`` and ``%`` are any text, ``?`` any character."""
    text = "".join(
        ".*" if c == "*" or (c == "%" and percent) else "." if c == "?" else re.escape(c) for c in pattern
    )
    return re.compile(re.sub(r"(?:\.\*)+", ".*", text), re.DOTALL | (re.IGNORECASE if any_case else 0))


def like(any_case: bool) -> Callable[[Given], Column]:
    """Return LIKE, or ILIKE."""

    def compute(given: Given) -> Column:
        column, pattern = given.columns
        if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
            raise QueryError("LIKE needs a pattern: one text", kind="type")
        if isinstance(column, Texts):
            # RE2, which takes linear time whatever the pattern.
            special = "".join(
                ".*" if c in "*%" else "." if c == "?" else re.escape(c) if c.isascii() else c
                for c in pattern.value
            )
            expression = f"(?s)^{re.sub(r'(?:[.][*])+', '.*', special)}$"
            return _flags(pc.match_substring_regex(column.array, expression, ignore_case=any_case))
        found = [isinstance(v, str) and _matches(v, pattern.value, any_case) for v in rows(column)]
        return Numbers(np.array(found, np.bool_))

    return compute


def _matches(text: str, pattern: str, any_case: bool) -> bool:
    if any_case:
        text, pattern = text.lower(), pattern.lower()
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]").replace("%", "*"))


def is_in(given: Given) -> Column:
    """Tell of each value whether it is one of a list, which is the last argument: a list of constants."""
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
    """Whether floats of a type may equal a number: a literal takes their type, a float64 that was read does not."""
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
    Function("LPAD", 2, 3, _padded("LPAD", at_left=True), TEXT, 4.0),
    Function("RPAD", 2, 3, _padded("RPAD", at_left=False), TEXT, 4.0),
    Function("REPEAT", 2, 2, _repeated, TEXT, 4.0),
    Function("SPLIT_PART", 3, 3, _split_part, TEXT, 4.0),
    Function("REGEXP_REPLACE", 3, 3, _replaced_pattern, TEXT, 4.0),
    Function("SUBSTR", 2, 3, _substring, TEXT, 1.0),
    Function("SUBSTRING", 2, 3, _substring, TEXT, 1.0),
    Function("LEFT", 2, 2, _left, TEXT, 1.0),
    Function("RIGHT", 2, 2, _right, TEXT, 1.0),
    Function("REPLACE", 3, 3, _replaced, TEXT, 2.0),
    Function("SPLIT", 2, 2, _split, JSON, 5.0),
    Function("STRPOS", 2, 2, _position, NUMBER, 3.0),
    Function("INSTR", 2, 2, _position, NUMBER, 3.0),
    _tested("STARTS_WITH", pc.starts_with),
    _tested("ENDS_WITH", pc.ends_with),
    _tested("MATCHES", pc.match_substring_regex),
    _tested("REGEXP_MATCHES", pc.match_substring_regex),
    Function("CONTAINS", 2, 2, contains, FLAG, 3.0),
    _of_documents("KEYS", _keys),
    _of_documents("VALUES", _values),
    _of_documents("JSON_TYPE", _json_type, TEXT),
    Function("HAS_KEY", 2, 2, _has_key, FLAG, 5.0),
]

LIKE = Function("LIKE", 2, 2, like(any_case=False), FLAG, 4.0)
ILIKE = Function("ILIKE", 2, 2, like(any_case=True), FLAG, 5.0)
IN = Function("IN", 2, 2, is_in, FLAG, 1.0)
JOINED = Function("||", 2, 2, _concat, TEXT, 1.0)
