"""Parsing and storage of a column, by the user's choices and its kind.

    choice                         values are read as     tensor
    none                           the schema's kind      see `schema`
    dtype                          INT64, FLOAT64, BOOL   generic of that dtype; what is beyond its range is null
    class_label                    TEXT or INT64          class_label; a new text appends its name
    EXACT                          EXACT                  text, the digits as the source wrote them
    NUMBERS (embedding, bbox ...)  FLOATS                 arrays of the dtype, of one shape or of any length
    BASE64 + image, audio ...      BYTES                  files of one compression: chosen, or that of the first file
    BASE64 alone                   BYTES                  generic uint8, one sample per value
    URL                            TEXT                   link[image], link[audio] ...

An htype that allows only one choice implies this choice: `embedding` reads arrays of numbers, `image` of a text column
base64, `link[image]` addresses.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from destination_deeplake.choices import FORMATS, ColumnChoice, Compression, Decoding
from destination_deeplake.columns import Column, Kind
from destination_deeplake.failures import ConfigError
from destination_deeplake.tensors import LINK, TENSOR_TYPES, UNSPECIFIED, TensorType, arrow_type

ARRAY_HTYPES = ("embedding", "generic", "bbox", "bbox.3d", "intrinsics", "keypoints_coco", "point")
"""Htypes that an array of numbers may be stored as."""

_LINKED = {
    "image": "jpeg",
    "video": "mp4",
    "audio": "mp3",
    "dicom": "dcm",
    "nifti": "nii.gz",
    "point_cloud": "las",
    "mesh": "ply",
}
"""Default htype of a tensor of links; each file is read by its own format."""

_SCALAR_HTYPES = ("generic", "class_label", "text", "json")

_NUMBER_KINDS = {"i": Kind.INT64, "u": Kind.INT64, "f": Kind.FLOAT64, "b": Kind.BOOL}
_TEMPORAL = (Kind.TIMESTAMP_TZ, Kind.TIMESTAMP, Kind.DATE, Kind.TIME_TZ, Kind.TIME)


def chosen(path: tuple[str, ...], kind: Kind, choice: ColumnChoice | None) -> tuple[Column, TensorType]:
    """Return how a column is read and stored.

    Parameters
    ----------
    path : tuple of str
        Properties that lead to the column.
    kind : Kind
        Kind of its values by the schema of the source.
    choice : ColumnChoice or None
        The user's choices for the column.

    Raises
    ------
    ConfigError
        If the choices contradict each other; the message names the column.
    """
    if choice is None:
        return Column(path, kind), TENSOR_TYPES[kind]
    try:
        column, of_type = _chosen(path, kind, choice)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"Column {choice.column!r} of the configuration: {error}.") from None
    if choice.nulls_as_nan and not np.issubdtype(_dtype_of(of_type), np.floating):
        raise ConfigError(
            f"Column {choice.column!r} of the configuration: nulls can be NaN in floating-point columns only; "
            "choose the dtype float32 or float64."
        )
    by_sample, by_chunk = choice.sample_compression, choice.chunk_compression
    if by_chunk not in (None, Compression.NONE) and (by_sample or of_type.takes_files):
        raise ConfigError(
            f"Column {choice.column!r} of the configuration: choose one compression, of samples or of chunks; "
            "files have that of samples."
        )
    stored = replace(
        of_type,
        sample_compression=by_sample or of_type.sample_compression,
        chunk_compression=by_chunk,
        nulls_as_nan=bool(choice.nulls_as_nan),
    )
    return column, stored


def _dtype_of(of_type: TensorType) -> np.dtype[Any]:
    return np.dtype(object if of_type.dtype == UNSPECIFIED else of_type.dtype)


def _chosen(path: tuple[str, ...], kind: Kind, choice: ColumnChoice) -> tuple[Column, TensorType]:
    htype, decoding = choice.htype, choice.decoding
    if htype is not None and htype.startswith("link[") and htype.endswith("]"):
        htype, decoding = htype[5:-1], Decoding.URL
    if decoding is None:
        decoding = _implied(htype, kind, choice)
    if decoding is Decoding.EXACT:
        return Column(path, Kind.EXACT), TENSOR_TYPES[Kind.EXACT]
    if decoding is Decoding.URL:
        return Column(path, Kind.TEXT), _link(htype or "image", choice)
    if decoding is Decoding.BASE64:
        return Column(path, Kind.BYTES), _file(htype or "generic", choice)
    if decoding is Decoding.NUMBERS:
        return _numbers(path, htype or "generic", choice)
    return (
        _scalar(path, kind, htype or "generic", choice)
        if htype or choice.dtype
        else (
            Column(path, kind),
            TENSOR_TYPES[kind],
        )
    )


def _implied(htype: str | None, kind: Kind, choice: ColumnChoice) -> Decoding | None:
    """Return the encoding of values that an htype implies if none was chosen."""
    if htype in FORMATS:
        return Decoding.BASE64
    if htype in ARRAY_HTYPES and htype != "generic":
        return Decoding.NUMBERS
    if choice.shape is not None or (kind is Kind.JSON and choice.dtype is not None):
        return Decoding.NUMBERS
    return None


def _link(htype: str, choice: ColumnChoice) -> TensorType:
    if htype not in FORMATS or htype in ("image.rgb", "image.gray"):
        names = ", ".join(name for name in FORMATS if "." not in name)
        raise ValueError(f"addresses can lead to files of the htypes {names}, not {htype!r}")
    linked = TensorType(f"link[{htype}]", UNSPECIFIED, None, LINK, creds_key=choice.creds_key)
    return replace(linked, sample_compression=_LINKED[htype])


def _file(htype: str, choice: ColumnChoice) -> TensorType:
    if htype == "generic":
        if choice.dtype not in (None, "uint8"):
            raise ValueError(f"plain bytes have the dtype uint8, not {choice.dtype!r}")
        return TENSOR_TYPES[Kind.BYTES]
    if htype not in FORMATS:
        raise ValueError(f"base64 can be stored as {', '.join(FORMATS)} or generic, not as {htype!r}")
    compression = choice.sample_compression
    if compression is not None and compression not in FORMATS[htype]:
        raise ValueError(
            f"a file of htype {htype!r} has one of the compressions {', '.join(sorted(FORMATS[htype]))}, "
            f"not {compression!r}"
        )
    return TensorType(htype, UNSPECIFIED, None, pa.binary())


def _numbers(path: tuple[str, ...], htype: str, choice: ColumnChoice) -> tuple[Column, TensorType]:
    if htype not in ARRAY_HTYPES:
        raise ValueError(f"arrays of numbers can be stored as {', '.join(ARRAY_HTYPES)}, not as {htype!r}")
    dtype = np.dtype(choice.dtype or "float32")
    if dtype.kind not in "iufb":
        raise ValueError(f"arrays of numbers cannot have the dtype {choice.dtype!r}")
    # float16 and small integers are exact in float32; wider integers need float64.
    read_as = "float32" if np.can_cast(dtype, np.float32, "safe") else "float64"
    column = Column(path, Kind.FLOATS, shape=choice.shape, dtype=read_as)
    kind = arrow_type(Kind.FLOATS, htype, dtype.name, choice.shape)
    return column, TensorType(htype, dtype.name, None, kind, shape=choice.shape)


def _scalar(path: tuple[str, ...], kind: Kind, htype: str, choice: ColumnChoice) -> tuple[Column, TensorType]:
    if htype not in _SCALAR_HTYPES:
        raise ValueError(f"values of this column cannot be stored as {htype!r}")
    if htype == "text" or htype == "json":
        kind = Kind.TEXT if htype == "text" else Kind.JSON
        return Column(path, kind), TENSOR_TYPES[kind]
    if htype == "class_label":
        labels = TensorType("class_label", UNSPECIFIED, None, pa.uint32(), class_names=choice.class_names)
        return Column(path, kind if kind is Kind.INT64 else Kind.TEXT), labels
    if choice.dtype is None:
        return Column(path, kind), TENSOR_TYPES[kind]
    dtype = np.dtype(choice.dtype)
    stored = TENSOR_TYPES[kind]
    if kind in _TEMPORAL and dtype.name != stored.dtype:
        raise ValueError(f"a date or time is stored as {stored.dtype}, not as {dtype.name}")
    if kind in _TEMPORAL:
        return Column(path, kind), stored
    if dtype.kind not in _NUMBER_KINDS:
        raise ValueError(f"a number cannot have the dtype {choice.dtype!r}")
    return Column(path, _NUMBER_KINDS[dtype.kind]), TensorType(
        "generic", dtype.name, None, pa.from_numpy_dtype(dtype)
    )
