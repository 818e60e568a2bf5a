"""json and list: JSON text with the format's custom values; None is ``{}`` or ``[]`` (FORMAT.md 1.5, 5.3)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from lakebed.codecs.block import Block, join_samples
from lakebed.documents.json_style import decode_custom, encode_custom
from lakebed.errors import FormatError, TensorDtypeMismatchError


def _dump(value: Any, what: str) -> bytes:
    try:
        return json.dumps(encode_custom(value)).encode()
    except (TypeError, ValueError) as error:
        raise TensorDtypeMismatchError(f"a {what} tensor takes JSON values: {error}") from error


def encode_json(values: Iterable[Any]) -> Block:
    """Encode JSON values (also ndarrays and bytes inside them); None becomes ``{}``.

    Raises
    ------
    TensorDtypeMismatchError
        If a value has no JSON form.
    """
    return join_samples([b"{}" if v is None else _dump(v, "json") for v in values], (1,))


def encode_list(values: Iterable[Any]) -> Block:
    """Encode lists; the shape of a sample is its length, None becomes ``[]``.

    Raises
    ------
    TensorDtypeMismatchError
        If a value is no list or has no JSON form.
    """
    parts, lengths = [], []
    for value in values:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        items = [] if value is None else list(value) if isinstance(value, list | tuple) else None
        if items is None:
            raise TensorDtypeMismatchError(f"a list tensor takes lists, not {type(value).__name__}")
        parts.append(_dump(items, "list"))
        lengths.append(len(items))
    return join_samples(parts, np.array(lengths, dtype=np.uint32).reshape(-1, 1))


def decode_document(data: bytes | memoryview) -> Any:
    """Decode the JSON text of one sample.

    Raises
    ------
    FormatError
        If the text is no JSON, or nested deeper than Python's parser goes.
    """
    try:
        value = json.loads(str(data, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"a json sample can not be parsed: {error}") from error
    try:
        return decode_custom(value)
    except FormatError:
        # Somebody's own data has the format's marker as a key: it is plain JSON.
        return value
