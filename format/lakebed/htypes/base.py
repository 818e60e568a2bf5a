"""The description of an htype: what FORMAT.md 3.1 says of it, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Storing(Enum):
    """How samples of an htype are laid down as bytes (FORMAT.md 5.3)."""

    ARRAY = "array"
    TEXT = "text"
    JSON = "json"
    LIST = "list"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Htype:
    """One row of the htype table.

    Parameters
    ----------
    dtype
        Default dtype name; None is set by the first sample.
    compressions
        Allowed compressions; None means any.
    meta_extra
        Keys that `tensor_meta.json` always carries for this htype, with their defaults.
    info
        Content of `tensor_info.json` at creation.
    has_shape_tensor
        Whether a hidden `_x_shape` belongs to it (FORMAT.md 3.1).
    """

    name: str
    storing: Storing = Storing.ARRAY
    dtype: str | None = None
    compressions: frozenset[str] | None = None
    meta_extra: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    has_shape_tensor: bool = True
    writable: bool = True

    @property
    def is_text_like(self) -> bool:
        return self.storing in (Storing.TEXT, Storing.JSON, Storing.LIST)
