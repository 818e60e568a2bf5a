"""Schema strings: the dtype of json, list and tag tensors, such as ``Dict[str, List[int]]`` (format.md 3).

A schema is a name, or a name with schemas in brackets. `Any`, `Dict`, `List`, `Optional`, `Union`, `str`, `int`,
`float` and `bool` restrict values; any other name is stored and ignored, as in 3.9.52.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple, Union, get_args, get_origin

from lakebed.errors import TensorMetaInvalidHtypeOverwriteValue

_WORDS = re.compile(r"\s*([\[\],]|[^\[\],\s][^\[\],]*)")
_ARGUMENTS = {"Dict": (0, 2), "List": (0, 1), "Optional": (0, 1), "Union": (0, 99), "Any": (0, 0)}
_PLAIN = {"str": str, "int": int, "float": float, "bool": bool}
_OF_TYPE = {dict: "Dict", list: "List", str: "str", int: "int", float: "float", bool: "bool"}
_DEEPEST = 20


class Schema(NamedTuple):
    """A parsed schema string."""

    name: str
    parts: tuple[Schema, ...] = ()


def check_schema(dtype: Any) -> str:
    """Return the schema string that a user names, as it is stored.

    Raises
    ------
    TensorMetaInvalidHtypeOverwriteValue
        If ``dtype`` is not a schema.
    """
    if isinstance(dtype, type):
        text = _OF_TYPE.get(dtype)
    else:
        text = dtype if isinstance(dtype, str) else _printed(dtype) if hasattr(dtype, "__origin__") else None
    if text is None:
        raise TensorMetaInvalidHtypeOverwriteValue(
            f"Invalid value {dtype!r} for tensor meta key 'dtype': json, list and tag tensors take a schema such as "
            "'Any' or 'Dict[str, List[int]]'"
        )
    parse_schema(text)
    return text


def _printed(hint: Any) -> str:
    """Return a type as Python before 3.14 prints it; from there on, a union is printed as ``int | None``."""
    if isinstance(hint, type) and not get_args(hint):
        return (
            hint.__qualname__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
        )
    name, parts = str(hint).partition("[")[0], [_printed(part) for part in get_args(hint)]
    if get_origin(hint) is Union:
        name = "typing.Optional" if len(parts) == 2 and "NoneType" in parts else "typing.Union"
        parts = [part for part in parts if part != "NoneType" or name == "typing.Union"]
    return f"{name}[{', '.join(parts)}]" if parts else name


@lru_cache(maxsize=256)
def parse_schema(text: str) -> Schema:
    """Parse a schema string.

    Raises
    ------
    TensorMetaInvalidHtypeOverwriteValue
        If the brackets do not match, or a name takes other parts.
    """
    words = _WORDS.findall(text.replace("typing.", ""))
    schema, at = _parse([word.strip() for word in words], 0, text, 0)
    if at != len(words):
        raise _no_schema(text)
    return schema


def _parse(words: list[str], at: int, text: str, depth: int) -> tuple[Schema, int]:
    if at >= len(words) or words[at] in "[],":
        raise _no_schema(text)
    name, at, parts = words[at], at + 1, []
    if at < len(words) and words[at] == "[":
        if name not in _ARGUMENTS or depth > _DEEPEST:
            raise _no_schema(text)
        while True:
            part, at = _parse(words, at + 1, text, depth + 1)
            parts.append(part)
            if at >= len(words) or words[at] not in ",]":
                raise _no_schema(text)
            if words[at] == "]":
                break
        at += 1
        if len(parts) > _ARGUMENTS[name][1]:
            raise _no_schema(text)
    return Schema(name, tuple(parts)), at


def _no_schema(text: str) -> TensorMetaInvalidHtypeOverwriteValue:
    return TensorMetaInvalidHtypeOverwriteValue(
        f"Invalid value {text!r} for tensor meta key 'dtype': not a schema such as 'Any' or 'Dict[str, List[int]]'"
    )


def fits(value: Any, schema: Schema) -> bool:
    """Return whether a JSON value matches a schema; None and empty values stand for missing values, which match."""
    empty = value is None or (isinstance(value, dict | list | tuple) and not value)
    return empty or _fits(value, schema)


def _fits(value: Any, schema: Schema) -> bool:
    name, parts = schema
    if name in _PLAIN:
        return isinstance(value, _PLAIN[name])
    if name == "Dict":
        if not isinstance(value, dict):
            return False
        key, item = parts if len(parts) == 2 else (Schema("Any"), Schema("Any"))
        return all(_fits(k, key) and _fits(v, item) for k, v in value.items())
    if name == "List":
        return isinstance(value, list | tuple) and (not parts or all(_fits(v, parts[0]) for v in value))
    if name == "Optional":
        return value is None or not parts or _fits(value, parts[0])
    if name == "Union":
        return not parts or any(_fits(value, part) for part in parts)
    return True
