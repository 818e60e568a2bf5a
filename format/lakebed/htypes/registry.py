"""All htypes of the format (format.md 3.1) and the wrappers around them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from lakebed.codecs.traits import names_of
from lakebed.errors import InvalidInputError, TensorMetaInvalidHtype
from lakebed.htypes.base import Demand, Htype, Storing

if TYPE_CHECKING:
    from lakebed.codecs.traits import Kind

UNSPECIFIED = "unspecified"

BOXES: Mapping[str, int] = {"bbox": 4, "bbox.3d": 8}
"""Htype of boxes -> number of values of a box, which is the last extent of a sample."""

_BYTES = names_of("bytes")
_IMAGES = names_of("image", "bytes")


def _described(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an htype with settings in the tensor's info."""
    return {"_info": list(info), **info}


_NAMES: Mapping[str, Any] = {"class_names": []}
_COORDS: Mapping[str, Any] = {"coords": {}}
_KEYPOINTS: Mapping[str, Any] = {"keypoints": [], "connections": []}
_INTRINSICS: Mapping[str, Any] = {"intrinsics": None}
_INDEXES: Mapping[str, Any] = {"vdb_indexes": []}


def _image(name: str, dtype: str | None, info: Mapping[str, Any]) -> Htype:
    return Htype(
        name,
        dtype=dtype,
        compressions=_IMAGES,
        demand=Demand.EITHER,
        meta_extra=_described(info) if info else {},
        info=info,
        has_info_tensor=name == "image",
        has_pyramid=True,
    )


def _file(name: str, dtype: str | None, kind: Kind, **rest: Any) -> Htype:
    rest = {"demand": Demand.SAMPLE, **rest}
    return Htype(
        name,
        dtype=dtype,
        compressions=names_of(kind),
        by_chunk=False,
        has_info_tensor=True,
        **rest,
    )


_TABLE = (
    Htype("generic"),
    _image("image", None, _INTRINSICS),
    _image("image.rgb", "uint8", {}),
    _image("image.gray", "uint8", {}),
    Htype(
        "class_label",
        dtype="uint32",
        meta_extra={**_described(_NAMES), "_disable_temp_transform": False},
        info=_NAMES,
    ),
    Htype("tag", Storing.LIST, "List", _BYTES, has_shape_tensor=False),
    Htype("bbox", dtype="float32", meta_extra=_described(_COORDS), info=_COORDS),
    Htype("bbox.3d", dtype="float32", meta_extra=_described(_COORDS), info=_COORDS),
    _file("video", "uint8", "video"),
    Htype("binary_mask", dtype="bool", has_pyramid=True),
    Htype("instance_label", dtype="uint32"),
    Htype(
        "segment_mask",
        dtype="uint32",
        meta_extra=_described(_NAMES),
        info=_NAMES,
        has_info_tensor=True,
        has_pyramid=True,
    ),
    Htype("keypoints_coco", dtype="int32", meta_extra=_described(_KEYPOINTS), info=_KEYPOINTS),
    Htype("point", dtype="int32"),
    _file("audio", "float64", "audio"),
    Htype("text", Storing.TEXT, "str", _BYTES, meta_extra=_INDEXES, has_shape_tensor=False),
    Htype("json", Storing.JSON, "Any", _BYTES, has_shape_tensor=False),
    Htype("list", Storing.LIST, "List", _BYTES),
    _file("dicom", None, "dicom", demand=Demand.NOTHING, default_compression="dcm"),
    _file("nifti", None, "nifti"),
    _file("point_cloud", "float32", "point_cloud"),
    Htype("intrinsics", dtype="float32"),
    Htype("polygon", Storing.POLYGON, "float32", _BYTES),
    _file("mesh", None, "mesh", compression_needed=True),
    Htype("embedding", dtype="float32", compressions=_BYTES, meta_extra=_INDEXES),
)

HTYPES = {htype.name: htype for htype in _TABLE}

FILE_KINDS: Mapping[str, frozenset[str]] = {
    htype.name: (htype.compressions or frozenset()) - _BYTES
    for htype in _TABLE
    if htype.is_image or not htype.by_chunk
}
"""Htype of files -> the kinds of files that its samples can be stored as."""


def htype_named(name: str | None) -> Htype:
    """Return the htype of that base name; None means generic.

    Raises
    ------
    TensorMetaInvalidHtype
        If the format knows no such htype.
    """
    htype = HTYPES.get(name or "generic")
    if htype is None:
        raise TensorMetaInvalidHtype(
            f"Htype {name!r} does not exist{_meant(name)} Available htypes: {list(HTYPES)}"
        )
    return htype


_BY_OTHER_NAMES = {
    "str": "text", "string": "text", "label": "class_label", "classlabel": "class_label", "category": "class_label",
    "img": "image", "picture": "image", "photo": "image", "box": "bbox", "boxes": "bbox", "vector": "embedding",
    "mask": "binary_mask", "segmentation": "segment_mask", "dict": "json", "pointcloud": "point_cloud",
    "array": "generic", "tensor": "generic", "ndarray": "generic", "number": "generic", "scalar": "generic",
}  # fmt: skip
"""Other names of htypes, in small letters -> the htype."""


def _meant(name: str | None) -> str:
    """Return the end of a sentence about a name that is not an htype: advice, or a similar name."""
    from difflib import get_close_matches

    import numpy as np

    word = str(name).lower()[:100]
    if word in ("date", "datetime", "time", "timestamp"):
        return ": dates and times need no htype, the first value that is appended decides."
    if word not in _BY_OTHER_NAMES:
        with contextlib.suppress(TypeError):
            return f": numbers need no htype, but dtype={np.dtype(word).name!r}."
    near = [word] if word in _BY_OTHER_NAMES else get_close_matches(word, [*HTYPES, *_BY_OTHER_NAMES], n=1)
    return f"; did you mean {_BY_OTHER_NAMES.get(near[0], near[0])!r}?" if near else "."


class HtypeName(NamedTuple):
    """A parsed htype name; if ``base`` is None, the first sample decides."""

    base: str | None
    is_sequence: bool
    is_link: bool


def parse_htype(name: str | None) -> HtypeName:
    """Remove ``sequence[...]`` and ``link[...]``, in either order, from an htype name.

    Raises
    ------
    TensorMetaInvalidHtype
        If the base htype, or such a wrapping, does not exist.
    InvalidInputError
        If a link has no htype, or a sequence holds tags.
    """
    if name is None:
        return HtypeName(None, False, False)
    if not isinstance(name, str):
        raise TensorMetaInvalidHtype(f"an htype is named by text, not by {name!r}")
    rest, wrappers = name, set()
    for _ in range(2):
        wrapper, inner = _unwrapped(rest)
        if wrapper is None or wrapper in wrappers:
            break
        wrappers.add(wrapper)
        rest = inner
    base = None if rest in ("", UNSPECIFIED) else rest
    if base is not None:
        htype_named(base)
    is_sequence, is_link = "sequence" in wrappers, "link" in wrappers
    if is_link and base in (None, "generic"):
        example = "sequence[link[image]] or link[sequence[image]]" if is_sequence else "link[image]"
        raise InvalidInputError(
            f"Can't create a linked tensor with a generic htype, you need to specify htype, for example {example}"
        )
    if is_sequence and base == "tag":
        raise InvalidInputError("tags cannot be in sequences: use htype 'tag', whose samples hold many tags")
    return HtypeName(base, is_sequence, is_link)


def _unwrapped(name: str) -> tuple[str | None, str]:
    for wrapper in ("sequence", "link"):
        if name == wrapper:
            return wrapper, ""
        if name.startswith(f"{wrapper}[") and name.endswith("]"):
            return wrapper, name[len(wrapper) + 1 : -1]
    return None, name


def full_name(base: str | None, *, is_sequence: bool, is_link: bool) -> str | None:
    """Return the name with its wrappers, as 3.9.52 shows it: ``link[sequence[image]]``, ``sequence[None]``."""
    name = f"sequence[{base}]" if is_sequence else base
    return f"link[{name}]" if is_link else name
