"""All htypes of the format (FORMAT.md 3.1), and which of them this release writes."""

from __future__ import annotations

from lakebed.errors import TensorMetaInvalidHtype
from lakebed.htypes.base import Htype, Storing

_LZ4 = frozenset({"lz4"})
_NAMES_EXTRA = {"_info": ["class_names"], "class_names": []}

_TABLE = (
    Htype("generic"),
    Htype("text", Storing.TEXT, "str", _LZ4, {"vdb_indexes": []}, has_shape_tensor=False),
    Htype("json", Storing.JSON, "Any", _LZ4, has_shape_tensor=False),
    Htype("list", Storing.LIST, "List", _LZ4),
    Htype("tag", Storing.LIST, "List", _LZ4, has_shape_tensor=False, writable=False),
    Htype(
        "class_label",
        dtype="uint32",
        meta_extra={**_NAMES_EXTRA, "_disable_temp_transform": False},
        info={"class_names": []},
    ),
    # Read as the plain arrays that they are on disk; their rules for writing are not here yet.
    Htype("bbox", dtype="float32", writable=False),
    Htype("bbox.3d", dtype="float32", writable=False),
    Htype("binary_mask", dtype="bool", writable=False),
    Htype("segment_mask", dtype="uint32", writable=False),
    Htype("instance_label", dtype="uint32", writable=False),
    Htype("keypoints_coco", dtype="int32", writable=False),
    Htype("point", dtype="int32", writable=False),
    Htype("intrinsics", dtype="float32", writable=False),
    Htype("embedding", dtype="float32", writable=False),
    Htype("image", writable=False),
    Htype("image.rgb", dtype="uint8", writable=False),
    Htype("image.gray", dtype="uint8", writable=False),
    Htype("polygon", Storing.FILE, "float32", writable=False),
    Htype("video", Storing.FILE, "uint8", writable=False),
    Htype("audio", Storing.FILE, "float64", writable=False),
    Htype("point_cloud", Storing.FILE, "float32", writable=False),
    Htype("mesh", Storing.FILE, writable=False),
    Htype("dicom", Storing.FILE, writable=False),
    Htype("nifti", Storing.FILE, writable=False),
)

HTYPES = {htype.name: htype for htype in _TABLE}


def htype_named(name: str | None) -> Htype:
    """Return the htype of that name; None means generic.

    Raises
    ------
    TensorMetaInvalidHtype
        If the format knows no such htype.
    """
    htype = HTYPES.get(name or "generic")
    if htype is None:
        raise TensorMetaInvalidHtype(f"{name!r} is no htype; choose one of {', '.join(HTYPES)}")
    return htype


def writable_htype(name: str | None) -> Htype:
    """Return the htype of that name if this release can write it.

    Raises
    ------
    TensorMetaInvalidHtype
        If the format knows no such htype, or this release only reads it.
    """
    wrapped = name is not None and "[" in name
    htype = HTYPES.get(name or "generic")
    if wrapped or (htype is not None and not htype.writable):
        can = ", ".join(h.name for h in _TABLE if h.writable)
        raise TensorMetaInvalidHtype(f"htype {name!r} can not be written by this release, only {can}")
    return htype_named(name)
