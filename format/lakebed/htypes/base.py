"""The description of an htype (format.md 3.1), as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Storing(Enum):
    """Layout of samples that no codec of files encodes (format.md 5.3)."""

    ARRAY = "array"
    TEXT = "text"
    JSON = "json"
    LIST = "list"
    POLYGON = "polygon"


class Demand(Enum):
    """Arguments of ``create_tensor`` about compression that are required."""

    NOTHING = "nothing"
    EITHER = "either"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class Htype:
    """One row of the htype table.

    Parameters
    ----------
    dtype
        Name of the default dtype; if None, the first sample decides.
    compressions
        Allowed compressions beside none; None means any.
    by_chunk
        True if chunks may be compressed as a whole.
    demand
        Compression argument that must be given, even as None.
    default_compression
        Sample compression if none is given.
    compression_needed
        True if samples only exist as files, so that a compression is required.
    meta_extra
        Keys that `tensor_meta.json` always has for this htype, with their defaults.
    info
        Content of `tensor_info.json` at creation; its keys are settings of the htype.
    has_info_tensor, has_shape_tensor
        True if a tensor has hidden companions `_x_info` and `_x_shape`.
    has_pyramid
        True if downsampled companions can be made.
    """

    name: str
    storing: Storing = Storing.ARRAY
    dtype: str | None = None
    compressions: frozenset[str] | None = None
    by_chunk: bool = True
    demand: Demand = Demand.NOTHING
    default_compression: str | None = None
    compression_needed: bool = False
    meta_extra: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    has_info_tensor: bool = False
    has_shape_tensor: bool = True
    has_pyramid: bool = False

    @property
    def is_text_like(self) -> bool:
        return self.storing in (Storing.TEXT, Storing.JSON, Storing.LIST)

    @property
    def is_image(self) -> bool:
        return self.name in ("image", "image.rgb", "image.gray")
