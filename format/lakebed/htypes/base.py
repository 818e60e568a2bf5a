"""The description of an htype: what FORMAT.md 3.1 says of it, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Storing(Enum):
    """How samples of an htype are laid down as bytes when no codec of files does it (FORMAT.md 5.3)."""

    ARRAY = "array"
    TEXT = "text"
    JSON = "json"
    LIST = "list"
    POLYGON = "polygon"


class Demand(Enum):
    """What ``create_tensor`` must be told about compression."""

    NOTHING = "nothing"
    EITHER = "either"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class Htype:
    """One row of the htype table.

    Parameters
    ----------
    dtype
        Default dtype name; None is set by the first sample.
    compressions
        Allowed compressions beside none; None means any.
    by_chunk
        Whether chunks may be compressed as a whole.
    demand
        Which compression setting has to be given, be it as None.
    default_compression
        Sample compression if none is given.
    compression_needed
        Whether samples only exist as files, so that no compression is not possible.
    meta_extra
        Keys that `tensor_meta.json` always carries for this htype, with their defaults.
    info
        Content of `tensor_info.json` at creation; its keys are settings of the htype.
    has_info_tensor, has_shape_tensor
        Whether a hidden `_x_info` and `_x_shape` belong to it.
    has_pyramid
        Whether downsampled companions can be made.
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
