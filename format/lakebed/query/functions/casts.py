"""CAST: conversions between numbers, texts, booleans, JSON values, dates and times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.errors import LimitError, QueryError
from lakebed.htypes.documents import decode_document
from lakebed.query.functions.dates import as_days, as_moments, is_time, moments
from lakebed.query.functions.function import Function
from lakebed.query.functions.text import as_text
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Objects,
    Ragged,
    Texts,
    by_row,
    rows,
)
from lakebed.query.values.elementwise import mapped
from lakebed.query.values.info import JSON, TEXT, TIME, Given, Info

_DTYPES: dict[str, type[np.generic]] = {
    "int": np.int64, "integer": np.int64, "bigint": np.int64, "smallint": np.int16, "tinyint": np.int8,
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8, "uint16": np.uint16,
    "uint32": np.uint32, "uint64": np.uint64, "float": np.float64, "double": np.float64, "real": np.float32,
    "float16": np.float16, "float32": np.float32, "float64": np.float64, "bool": np.bool_, "boolean": np.bool_,
}  # fmt: skip
_TEXTS = ("text", "string", "varchar", "char", "str")
TYPES = (*_DTYPES, *_TEXTS, "json", "date", "timestamp", "datetime")


def cast(name: str) -> Function:
    """Return the function that converts to a type; raise `KeyError` for unknown types."""
    if name in _TEXTS:
        return Function("CAST", 1, 1, _to_text, TEXT, 2.0)
    if name == "json":
        return Function("CAST", 1, 1, _to_json, JSON, 20.0)
    if name in ("date", "timestamp", "datetime"):
        converted = as_days if name == "date" else as_moments
        return Function(
            "CAST", 1, 1, lambda given: converted(given.columns[0], given.infos[0], "CAST"), TIME, 2.0
        )
    dtype = np.dtype(_DTYPES[name])

    def to_numbers(given: Given) -> Column:
        column = given.columns[0]
        is_array = isinstance(column, Constant) and not isinstance(column.value, str | dict | list | None)
        if is_array or isinstance(column, Numbers | Ragged):
            return mapped(column, lambda values: _converted(values, dtype), "CAST")
        return by_row(given.count, lambda value: _number(value, dtype), [column], f"CAST AS {dtype}")

    return Function("CAST", 1, 1, to_numbers, lambda infos: Info("array", dtype, infos[0].rank), 1.0)


def _converted(values: Any, dtype: np.dtype[Any]) -> Any:
    if dtype == np.bool_:
        return values != 0
    if dtype.kind in "iu" and values.size:
        if values.dtype.kind == "f":
            if not np.isfinite(values).all():
                raise QueryError(f"a number that is not finite cannot become {dtype}", kind="runtime")
            values = np.trunc(values)
        bounds = np.iinfo(dtype)
        if values.dtype != np.bool_ and (int(values.min()) < bounds.min or int(values.max()) > bounds.max):
            raise QueryError(f"a number is too large for {dtype}", kind="runtime")
    return values.astype(dtype)


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a text or JSON value to a number; return None for null and the empty text."""
    if value is None or (isinstance(value, str) and not value):
        return None
    if isinstance(value, str):
        text = value.strip()
        if dtype == np.bool_:
            if text.lower() not in _FLAGS:
                raise QueryError(f"{_short(text)} is neither true nor false", kind="runtime")
            return np.asarray(_FLAGS[text.lower()])
        try:
            value = int(text) if dtype.kind in "iu" and len(text) < 30 else float(text)
        except ValueError:
            raise QueryError(f"{_short(text)} is not a valid {dtype}", kind="runtime") from None
    if isinstance(value, dict):
        raise QueryError(f"a document cannot become {dtype}", kind="type")
    return _converted(np.asarray(value), dtype)


_FLAGS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _to_text(given: Given) -> Column:
    column, info = given.columns[0], given.infos[0]
    if isinstance(column, Texts):
        return column
    if is_time(info):
        found = moments(column, info, "CAST")
        texts = np.datetime_as_string(found.values, unit="s" if info.logical != "date32[day]" else "D")
        return Texts(pa.array(texts, pa.string(), mask=found.missing))
    names = info.class_names
    if names is not None:
        return by_row(given.count, lambda value: _label(value, names), [column], "CAST")
    return as_text(column)


def _label(value: Any, names: tuple[str, ...]) -> Any:
    if value is None or np.size(value) == 0:
        return None
    found = [
        names[int(v)] if 0 <= int(v) < len(names) else str(int(v)) for v in np.asarray(value).reshape(-1)
    ]
    return found[0] if len(found) == 1 else found


def label_names(value: Any, names: tuple[str, ...]) -> Any:
    """Return the class names of labels, or of a list of them."""
    if isinstance(value, list):
        return [label_names(item, names) for item in value]
    return _label(value, names)


def _to_json(given: Given) -> Column:
    column = given.columns[0]
    return column if isinstance(column, Objects) else Objects([_document(value) for value in rows(column)])


def _document(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return decode_document(value.encode())
        except LimitError as error:
            raise QueryError(f"{_short(value)}: {error}", kind="limit") from None
        except ValueError as error:
            raise QueryError(f"{_short(value)} is not JSON: {error}", kind="runtime") from None
    return value.tolist() if isinstance(value, np.ndarray) else value
