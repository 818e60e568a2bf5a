"""Classes of rows: dataclasses and models of Pydantic, whose fields are tensors.

    type of a field                                   tensor
    int, float, bool                                  generic, of 64 bits or bool
    datetime, date, time, timedelta                   generic, read as the same types
    a scalar type of NumPy, NDArray[np.float32]       generic, of that dtype
    str                                               text
    an Enum or a Literal of texts                     class_label with these classes
    list[float] or list[int] of a fixed length        embedding of float32
    list[float], list[int], np.ndarray                generic
    dict, other lists, classes, Any                   json
    Annotated[..., "image"]                           htype as named
    Annotated[..., {"htype": "image", ...}]           settings of ``create_tensor``, and ``info``

``Optional[T]`` is treated like ``T``: each tensor accepts None for a missing value.
"""

from __future__ import annotations

import datetime as dt
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from lakebed.errors import InvalidInputError

_DTYPES: dict[Any, str] = {bool: "bool", int: "int64", float: "float64"}
_TIMES: dict[Any, tuple[str, str]] = {
    dt.datetime: ("int64", "timestamp[us]"),
    dt.date: ("int32", "date32[day]"),
    dt.time: ("int64", "time64[us]"),
    dt.timedelta: ("int64", "duration[us]"),
}


def tensors_of(row_class: type) -> dict[str, dict[str, Any]]:
    """Return the settings of ``create_tensor``, and ``info``, for each field of a class.

    Raises
    ------
    InvalidInputError
        If ``row_class`` is neither a dataclass nor a model of Pydantic, or the type of a field determines no tensor.
    """
    names = _fields(row_class)
    if names is None:
        raise InvalidInputError(f"schema must be a dataclass or a model of Pydantic, not {row_class!r}")
    hints = get_type_hints(row_class, include_extras=True)
    facts = getattr(row_class, "model_fields", {})
    found = {}
    for name in names:
        # Pydantic keeps the metadata of Annotated and Field apart from the field's type.
        more = list(facts[name].metadata) if name in facts else []
        settings = _settings(hints[name], more)
        if settings is None:
            raise InvalidInputError(
                f"{row_class.__name__}.{name} has the type {hints[name]!r}, which determines no tensor: write "
                'Annotated[..., "image"], or Annotated[..., {"htype": ..., "dtype": ...}]'
            )
        found[name] = settings
    return found


def row_of(row: Any) -> dict[str, Any] | None:
    """Return the samples of an instance of a class of rows; None for other objects."""
    names = _fields(type(row))
    return None if names is None else {name: _plain(getattr(row, name)) for name in names}


def _fields(row_class: Any) -> list[str] | None:
    if not isinstance(row_class, type):
        return None
    if is_dataclass(row_class):
        return [field.name for field in fields(row_class)]
    facts = getattr(row_class, "model_fields", None)  # of models of Pydantic, which need not be installed
    return list(facts) if isinstance(facts, dict) and hasattr(row_class, "model_validate") else None


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    row = row_of(value)
    return value if row is None else row


def _settings(hint: Any, more: list[Any]) -> dict[str, Any] | None:
    """Return the settings that a type and its further metadata determine; None if they determine no tensor."""
    while True:
        if get_origin(hint) is Annotated:
            hint, *said = get_args(hint)
            more = [*more, *said]
        elif get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
            hint = Union[tuple(one for one in get_args(hint) if one is not type(None))]  # noqa: UP007 - computed
        elif hasattr(alias := get_origin(hint) or hint, "__value__"):
            # NDArray since NumPy 2.5, and `type` statements.
            hint = alias.__value__[get_args(hint)] if get_args(hint) else alias.__value__
        else:
            break
    given: dict[str, Any] = {}
    for one in more:
        given |= {"htype": one} if isinstance(one, str) else one if isinstance(one, Mapping) else {}
    if "htype" in given:
        return given
    found = _by_type(hint, more)
    return {**(found or {}), **given} if found is not None or given else None


def _by_type(hint: Any, more: list[Any]) -> dict[str, Any] | None:
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _DTYPES:
        return {"htype": "generic", "dtype": _DTYPES[hint]}
    if hint in _TIMES:
        dtype, logical = _TIMES[hint]
        return {"htype": "generic", "dtype": dtype, "info": {"logical_type": logical}}
    if hint is str:
        return {"htype": "text"}
    if origin is Literal or (isinstance(hint, type) and issubclass(hint, Enum)):
        names = list(inner) if origin is Literal else [one.value for one in hint]
        is_text = all(isinstance(name, str) for name in names)
        if is_text:
            return {"htype": "class_label", "class_names": names}
        return (
            {"htype": "generic", "dtype": "int64"} if all(isinstance(name, int) for name in names) else None
        )
    if isinstance(hint, type) and issubclass(hint, np.generic):
        return {"htype": "generic", "dtype": np.dtype(hint).name}
    if hint is np.ndarray or origin is np.ndarray:
        kind = get_args(inner[1])[0] if inner else Any
        known = isinstance(kind, type) and issubclass(kind, np.generic)
        return {"htype": "generic", **({"dtype": np.dtype(kind).name} if known else {})}
    if origin is list and inner[0] in (int, float):
        if _is_fixed(more):
            return {"htype": "embedding", "dtype": "float32"}
        return {"htype": "generic", "dtype": _DTYPES[inner[0]]}
    is_class = _fields(hint) is not None
    return {"htype": "json"} if hint in (Any, dict, list) or origin in (dict, list) or is_class else None


def _is_fixed(more: list[Any]) -> bool:
    """Return whether the metadata (of annotated_types or Pydantic) limits the length to a single number."""
    least = [one.min_length for one in more if getattr(one, "min_length", None)]
    most = [one.max_length for one in more if getattr(one, "max_length", None) is not None]
    return bool(least and most) and max(least) == min(most)
