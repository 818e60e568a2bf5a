"""Values of MosaicML MDS: how an encoding lays a value out as bytes, and what it becomes in its tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.registry import sniff
from lakebed.described import Described
from lakebed.errors import IngestionError
from lakebed.importers.arrays.numpy_files import loaded
from lakebed.importers.core.contents import (
    Content,
    decoded,
    document,
    value_of,
)
from lakebed.importers.core.described_columns import file_value, nested_value
from lakebed.importers.shards.sample_shards import (
    list_of,
    pixels_of,
)

NUMBERS: Mapping[str, str] = {
    "int": "int64",
    "str_float": "float64",
    **{f"{sign}{bits}": f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "float": "float64",
}
"""Encoding of a number -> dtype."""

DTYPES: Mapping[int, str] = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
"""Number of a dtype in an encoded array -> its name."""

LISTS: Mapping[str, tuple[str, int]] = {
    "jpeg_array": ("jpeg", 0),
    "jpegarray": ("jpeg", 0),
    "list[jpeg]": ("jpeg", 4),
    "list[png]": ("png", 4),
    "list[pil]": ("pil", 4),
}
FILE_LISTS = ("list[jpeg]", "list[png]")
FILES = ("jpeg", "png", "bytes")


@dataclass(frozen=True)
class Into:
    """Where a column goes: its tensor, and what its values are.

    Parameters
    ----------
    content
        What bytes and files are.
    told
        What the exporter says that they are: ``npy``, ``file``, ``number`` or ``text``, of which there are nulls.
    dtype
        Dtype that the exporter says.
    described
        The tensor that it was, where values have to be made by that.
    """

    tensor: str
    content: Content | None = None
    told: str = ""
    dtype: str = ""
    described: Described | None = None


def sample_of(data: bytes, into: Into, encoding: str) -> Any:
    """Return the sample that a value of a column is; None if it is missing.

    Raises
    ------
    IngestionError, LakebedError, ValueError, TypeError, OverflowError
        If the value is damaged.
    """
    kind = encoding.partition(":")[0]
    if into.told == "npy" and kind == "bytes":
        return loaded(data) if data else None
    if into.told == "number" and kind == "json":
        number = document(data)
        return None if number is None else np.array(number, into.dtype)
    said = into.described
    if said is not None and kind == "json" and into.told != "text":
        value = document(data)
        return None if value is None else nested_value(value, said)
    if said is not None and (kind in ("jpeg", "png") or into.told == "file"):
        if not data:
            return None
        # Files that begin with no mark are of the kind that is told.
        if into.content is None or sniff(data) is None:
            return file_value(data, said)
        return value_of(data, into.content)
    if into.content is not None:
        if encoding in LISTS:
            inner, first = LISTS[encoding]
            files = list_of(data, first)
            return [pixels_of(one) if inner == "pil" else value_of(one, into.content) for one in files]
        return value_of(data, into.content)
    if kind in NUMBERS:
        found = _number_of(data, kind)
    elif kind in ("str", "str_int", "str_decimal"):
        return decoded(data)
    elif kind == "json":
        return document(data)
    else:
        found = pixels_of(data) if kind == "pil" else array_of(data, encoding)
    return found.astype(bool) if into.dtype == "bool" else found


def _number_of(data: bytes, kind: str) -> Any:
    if kind == "str_float":
        return np.float64(float(data.decode()))
    dtype = np.dtype(NUMBERS[kind]).newbyteorder("<")
    if len(data) != dtype.itemsize:
        raise IngestionError(f"{len(data):,} bytes are no {kind}")
    return np.frombuffer(data, dtype)[0]


def array_of(data: bytes, encoding: str) -> NDArray[Any]:
    """Return an array: its dtype and shape stand before its values, unless the encoding tells them.

    Parameters
    ----------
    encoding
        ``ndarray``, ``ndarray:float32`` or ``ndarray:float32:2,3``.

    Raises
    ------
    IngestionError
        If it is damaged.
    """
    _, *told = encoding.split(":")
    at = 0
    if told and told[0]:
        name = told[0] if told[0] in DTYPES.values() else None
    else:
        name = DTYPES.get(data[0]) if data else None
        at = 1
    if name is None:
        raise IngestionError("it is no array of a known dtype")
    if len(told) > 1:
        shape = [int(length) for length in told[1].split(",")]
    else:
        head = data[at] if len(data) > at else 0
        width = 1 << (head & 3)
        text = data[at + 1 : at + 1 + (head >> 2) * width]
        if not head or len(text) != (head >> 2) * width:
            raise IngestionError("it is no array: its shape is cut short")
        shape = np.frombuffer(text, f"<u{width}").tolist()
        at += 1 + len(text)
    dtype = np.dtype(name).newbyteorder("<")
    if prod(shape) * dtype.itemsize != len(data) - at or min(shape, default=0) < 0:
        raise IngestionError(f"an array of {name} and shape {tuple(shape)} is not {len(data) - at:,} bytes")
    return np.frombuffer(data, dtype, offset=at).reshape(shape).astype(dtype.newbyteorder("="), copy=False)
