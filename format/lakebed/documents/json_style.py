"""JSON in the styles of the format (format.md 1.5).

    files                                                   style
    meta and info files                                     indent 4, keys sorted, ASCII
    version_control_info, commit_info, queries, creds       `", "` and `": "`, insertion order, ASCII

Info files and json samples may hold three kinds of values beyond JSON, as objects with `_hub_custom_type`:

    ndarray    {"_hub_custom_type": "ndarray", "data": base64, "shape": [...], "dtype": "<f4"}
    bytes      {"_hub_custom_type": "bytes", "data": base64}
    Sample     {"_hub_custom_type": "Sample", "data": base64, "compression": "jpeg"}    not decoded
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, cast

import numpy as np

from lakebed import limits
from lakebed.errors import FormatError, InvalidInputError

CUSTOM = "_hub_custom_type"

_DTYPE = r"[<>|=]?[A-Za-z?][A-Za-z0-9_]{0,15}(\[[0-9]{0,4}[a-zA-Z]{1,2}\])?"


_WORDS = {None: "null", True: "true", False: "false"}
# Functions that write the most common types; each is faster than the general function of this module.
_SCALARS: dict[type, Callable[[Any], str]] = {
    str: _quoted,
    int: int.__repr__,
    bool: _WORDS.__getitem__,
    type(None): _WORDS.__getitem__,
}


def dump_meta(value: object) -> bytes:
    """Write a meta or info document.

    Raises
    ------
    InvalidInputError
        If the value cannot be written as JSON.
    LimitError
        If the value is nested deeper than readers allow.
    """
    try:
        raw = indented(value).encode("ascii")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"the value cannot be written as JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInputError("the value is nested too deeply for JSON") from error
    check_depth(raw, "the value")
    return raw


def indented(value: object, margin: str = "") -> str:
    """Return ``json.dumps(value, indent=4, sort_keys=True)``, but faster: Python's compiled encoder cannot indent.

    Parameters
    ----------
    margin
        Spaces before each line but the first.

    Raises
    ------
    TypeError, ValueError, RecursionError
        If the value cannot be written as JSON.
    """
    write = _SCALARS.get(type(value))
    if write is not None:
        return write(value)
    inner = margin + "    "
    if isinstance(value, dict) and type(value) is dict:
        if not value:
            return "{}"
        if set(map(type, value)) != {str}:
            return json.dumps(value, indent=4, sort_keys=True).replace("\n", "\n" + margin)
        names = sorted(value)
        found = _texts(map(value.get, names), inner)
        texts = [f"{_quoted(name)}: {text}" for name, text in zip(names, found, strict=True)]
        opening, closing = "{", "}"
    elif type(value) in (list, tuple):
        if not value:
            return "[]"
        texts, opening, closing = _texts(cast("Iterable[object]", value), inner), "[", "]"
    else:
        return json.dumps(value)
    return f"{opening}\n{inner}" + f",\n{inner}".join(texts) + f"\n{margin}{closing}"


def _texts(values: Iterable[object], margin: str) -> list[str]:
    texts = []
    for value in values:
        write = _SCALARS.get(type(value))
        texts.append(indented(value, margin) if write is None else write(value))
    return texts


def dump_compact(value: object) -> bytes:
    """Write a document in insertion order on one line.

    Raises
    ------
    InvalidInputError
        If the value cannot be written as JSON.
    """
    try:
        return json.dumps(value).encode("ascii")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"the value cannot be written as JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInputError("the value is nested too deeply for JSON") from error


def load(data: bytes | bytearray | memoryview, what: str) -> Any:
    """Parse a document named `what` in errors; `NaN` and `Infinity` count as numbers, as 3.x writes them.

    Raises
    ------
    FormatError
        If the bytes are not JSON.
    LimitError
        If the bytes are longer or nested deeper than this process allows.
    """
    limits.check("MAX_JSON_BYTES", len(data), what)
    raw = bytes(data)
    check_depth(raw, what)
    try:
        return json.loads(raw.decode("utf-8"))
    except ValueError as error:
        raise FormatError(f"{what} is not a JSON document: {error}") from error
    except RecursionError as error:
        raise FormatError(f"{what} is nested too deeply") from error


def check_depth(raw: bytes, what: str) -> None:
    """Refuse JSON text that is nested deeper than allowed, before it is parsed.

    Raises
    ------
    LimitError
        If the text is nested too deeply.
    """
    limits.check("MAX_JSON_DEPTH", limits.json_depth(raw), f"{what}: nesting of JSON")


def load_object(data: bytes | bytearray | memoryview, what: str) -> dict[str, Any]:
    """Parse a document that must be a JSON object.

    Raises
    ------
    FormatError
        If the document is not a JSON object.
    """
    value = load(data, what)
    if not isinstance(value, dict):
        raise FormatError(f"{what} is not a JSON object")
    return value


def encode_custom(value: Any) -> Any:
    """Replace arrays, bytes and NumPy scalars anywhere in a value by JSON values.

    Raises
    ------
    InvalidInputError
        If the value holds an array of objects, or is nested too deeply.
    """
    try:
        return _encode(value)
    except RecursionError as error:
        raise InvalidInputError("the value is nested too deeply for JSON") from error


def _encode(value: Any) -> Any:
    if value is None or type(value) in (str, bool, int, float):
        return value
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise InvalidInputError("an array of Python objects cannot be stored; use a list")
        text = base64.b64encode(value.tobytes()).decode("ascii")
        return {CUSTOM: "ndarray", "data": text, "shape": list(value.shape), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {CUSTOM: "bytes", "data": base64.b64encode(bytes(value)).decode("ascii")}
    return value


def decode_custom(value: Any) -> Any:
    """Replace the objects that stand for arrays and bytes, anywhere in a value, by arrays and bytes.

    Raises
    ------
    FormatError
        If such an object contradicts itself.
    """
    try:
        return _decode(value)
    except RecursionError as error:
        raise FormatError("a JSON value is nested too deeply") from error


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(CUSTOM)
    if kind == "ndarray":
        return _decode_array(value)
    if kind == "bytes":
        return _base64(value)
    if kind == "Sample":
        return value
    return {key: _decode(item) for key, item in value.items()}


def _base64(value: dict[str, Any]) -> bytes:
    data = value.get("data")
    if not isinstance(data, str):
        raise FormatError(f"a JSON value of type {value[CUSTOM]} has no text in `data`")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FormatError(
            f"a JSON value of type {value[CUSTOM]} has bad base64 in `data`: {error}"
        ) from error


def _decode_array(value: dict[str, Any]) -> np.ndarray[Any, np.dtype[Any]]:
    data, shape, name = _base64(value), value.get("shape"), value.get("dtype")
    if not isinstance(name, str) or not re.fullmatch(_DTYPE, name):
        raise FormatError(f"an array in JSON has the dtype {name!r}, which is not supported")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 32:
        raise FormatError(f"an array in JSON has the shape {shape!r}")
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError) as error:
        raise FormatError(f"an array in JSON has the dtype {name!r}: {error}") from error
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data):
        raise FormatError(f"an array in JSON has {len(data)} bytes for the shape {shape} of {name}")
    if not len(data):
        if math.prod(n for n in shape if n) > 2**31:
            raise FormatError(f"an array in JSON has the shape {shape}")
        return np.zeros(shape, dtype)
    return np.frombuffer(data, dtype).reshape(shape).copy()
