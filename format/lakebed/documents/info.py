"""The user's dictionary of a dataset or tensor: `dataset_info.json`, `tensor_info.json` (format.md 1.2, 1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.documents import json_style


class Kept(dict[str, Any]):
    """An info that is never changed, so that it is encoded once: it may hold the names of a million classes."""

    __slots__ = ("raw",)

    def __init__(self, info: Mapping[str, Any], raw: bytes | None = None) -> None:
        super().__init__(info)
        self.raw = raw


def from_bytes(data: bytes, what: str = "info file", *, keep: bool = False) -> dict[str, Any]:
    """Parse an info file; arrays and bytes are restored.

    Parameters
    ----------
    keep
        Return an info that is written without encoding it again; it must not be changed.

    Raises
    ------
    FormatError
        If the file is not a JSON object, or an array in it contradicts itself.
    """
    value = json_style.load_object(data, what)
    if json_style.CUSTOM.encode() in bytes(data):
        value = {key: json_style.decode_custom(item) for key, item in value.items()}
    return Kept(value, data) if keep else value


def to_bytes(info: Mapping[str, Any]) -> bytes:
    """Write an info file.

    Raises
    ------
    InvalidInputError
        If a value is neither JSON, array nor bytes.
    """
    raw = info.raw if isinstance(info, Kept) else None
    if raw is None:
        raw = json_style.dump_meta(json_style.encode_custom(dict(info)))
        if isinstance(info, Kept):
            info.raw = raw
    return raw
