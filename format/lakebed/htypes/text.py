"""Text: UTF-8 bytes of shape (1,); None is the empty string (format.md 5.3)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

import numpy as np

from lakebed.codecs.block import Block, join_samples
from lakebed.errors import FormatError, TensorDtypeMismatchError


def encode_text(values: Iterable[Any], kinds: set[type] | None = None) -> Block:
    """Encode strings; numbers become their text as in the 3.x API, None and empty lists the empty string.

    Parameters
    ----------
    kinds
        Types of the values, if they are known already.

    Raises
    ------
    TensorDtypeMismatchError
        If a value is not text, or is text that UTF-8 cannot hold (a lone surrogate).
    """
    if isinstance(values, list) and (set(map(type, values)) if kinds is None else kinds) == {str}:
        joined = "".join(values)
        if joined.isascii():
            sizes = np.fromiter(map(len, values), dtype=np.uint32, count=len(values))
            return Block(memoryview(joined.encode()), len(values), sizes, (1,))
    parts = []
    for value in values:
        if value is None or (isinstance(value, list | tuple) and not value):
            parts.append(b"")  # an empty list is an empty sample in every htype; an empty array is not text
            continue
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.item()
        elif isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], str):
            value = value[0]
        if isinstance(value, bool | int | float | np.number):
            value = str(value)
        value = spelled(value)
        if not isinstance(value, str):
            raise TensorDtypeMismatchError(f"a text tensor takes strings, not {type(value).__name__}")
        try:
            parts.append(value.encode())
        except UnicodeEncodeError as error:
            raise TensorDtypeMismatchError(
                f"text must be valid Unicode: {error.reason} at {error.start}"
            ) from error
    return join_samples(parts, (1,))


def spelled(value: Any) -> Any:
    """Return the text of a value that `str` writes in full, such as a UUID; other values unchanged."""
    if isinstance(value, UUID | Decimal | PurePath):
        return str(value)
    kind = type(value)
    is_spelled = kind.__module__.partition(".")[0] == "pandas" and kind.__name__ in ("Period", "Interval")
    return str(value) if is_spelled else value


def decode_text(data: bytes | memoryview) -> str:
    """Decode one text sample.

    Raises
    ------
    FormatError
        If the bytes are not UTF-8.
    """
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"a text sample is not UTF-8: {error.reason} at byte {error.start}") from error
