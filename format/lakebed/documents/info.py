"""The user's dictionary of a dataset or tensor: `dataset_info.json`, `tensor_info.json` (FORMAT.md 1.2, 1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.documents import json_style


def from_bytes(data: bytes, what: str = "info file") -> dict[str, Any]:
    """Parse an info file; arrays and bytes are restored.

    Raises
    ------
    FormatError
        If it is not a JSON object, or an array in it contradicts itself.
    """
    value = json_style.load_object(data, what)
    if json_style.CUSTOM.encode() not in bytes(data):
        return value
    return {key: json_style.decode_custom(item) for key, item in value.items()}


def to_bytes(info: Mapping[str, Any]) -> bytes:
    """Write an info file.

    Raises
    ------
    InvalidInputError
        If a value is neither JSON, array nor bytes.
    """
    return json_style.dump_meta(json_style.encode_custom(dict(info)))
