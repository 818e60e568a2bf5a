"""Columns of MosaicML MDS: the encodings of their values, and the tensors that our exporter described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.codecs.registry import sniff
from lakebed.dataset.described import Described
from lakebed.errors import IngestionError
from lakebed.htypes.base import Storing
from lakebed.importers.arrays.numpy_files import loaded
from lakebed.importers.core.contents import PICKLED, Content, document, value_of
from lakebed.importers.core.described_columns import file_value, kind_of_files, nested_value
from lakebed.importers.core.plan import TensorPlan
from lakebed.importers.folders.pictures import LOSSLESS
from lakebed.importers.shards.sample_values import Kind, files_of, number_of, value_for

# Encoding of numbers -> dtype.
_NUMBERS: Mapping[str, str] = {
    "int": "int64",
    "float": "float64",
    **{f"{sign}{bits}": f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
# Number of a dtype in an encoded array -> name: the bits, plus 1 for signed integers or 2 for floats.
_DTYPES: Mapping[int, str] = {
    bits + at: f"{kind}{bits}"
    for bits in (8, 16, 32, 64)
    for at, kind in enumerate(("uint", "int", "float"))
    if bits > 8 or kind != "float"
}
_FILE_LISTS = ("list[jpeg]", "list[png]")
# Encoding -> (kind, compression, bytes before the list).
_LISTS: Mapping[str, tuple[str, str, int]] = {
    "jpeg_array": ("file", "jpeg", 0),
    "jpegarray": ("file", "jpeg", 0),
    "list[jpeg]": ("file", "jpeg", 4),
    "list[png]": ("file", "png", 4),
    "list[pil]": ("pixels", "png", 4),
}


@dataclass(frozen=True)
class Into:
    """Destination of a column.

    Parameters
    ----------
    tensor, kind, content
        Tensor of the column, storage of its values, and content of its files.
    told
        Description of its values by our exporter, which has nulls: ``npy``, ``file``, ``number`` or ``text``.
    dtype
        Dtype by our exporter.
    described
        The tensor that our exporter wrote.
    """

    tensor: str
    kind: Kind
    content: Content | None = None
    told: str = ""
    dtype: str = ""
    described: Described | None = None


# -- encodings ----------------------------------------------------------------------------------------------------


def kind_for(encoding: str, values: Sequence[bytes]) -> Kind:
    """Return how values of an encoding are stored; arrays have the dtype that fits all given values."""
    name, _, told = encoding.partition(":")
    if name in _NUMBERS:
        return Kind("number", partial(number_of, dtype=_NUMBERS[name]), _NUMBERS[name])
    if name == "str_float":
        return Kind("number", _text_number, "float64")
    if name in ("str_int", "str_decimal"):
        return Kind("text", info={"type": "integer" if name == "str_int" else "decimal"})
    if name == "str":
        return Kind("text")
    if name == "json":
        return Kind("json", document)
    if name == "pil":
        return Kind("pixels")
    if name == "ndarray":
        dtype = told.partition(":")[0]
        dtypes = {_DTYPES[value[0]] for value in values if value and value[0] in _DTYPES}
        if not dtype and dtypes:
            dtype = str(np.result_type(*dtypes))
        return Kind("array", partial(array_of, told=told), dtype if dtype in _DTYPES.values() else None)
    if encoding in _LISTS:
        of, compression, first = _LISTS[encoding]
        return Kind(of, htype="image", supposed=compression, first=first)
    if name in ("jpeg", "png"):
        return Kind(htype="image", supposed=name)
    if name == "bytes":
        return Kind()
    return Kind(unknown=PICKLED if name == "pkl" else f"the encoding {encoding!r} is unknown")


def _text_number(data: bytes) -> Any:
    return np.float64(float(data.decode()))


def array_of(data: bytes, told: str) -> NDArray[Any]:
    """Return an array: its dtype and shape come before its values, unless the encoding has them.

    Parameters
    ----------
    told
        Remainder of the encoding: "", ``float32`` or ``float32:2,3``.

    Raises
    ------
    IngestionError
        If it is damaged.
    """
    named, _, extents = told.partition(":")
    at = 0 if named else 1
    name = named if named in _DTYPES.values() else _DTYPES.get(data[0]) if data and not named else None
    if name is None:
        raise IngestionError("it is not an array of a known dtype")
    if extents:
        shape = [int(length) for length in extents.split(",")]
    else:
        head = data[at] if len(data) > at else 0
        width = 1 << (head & 3)
        text = data[at + 1 : at + 1 + (head >> 2) * width]
        if not head or len(text) != (head >> 2) * width:
            raise IngestionError("it is not an array: its shape is cut short")
        shape = np.frombuffer(text, f"<u{width}").tolist()
        at += 1 + len(text)
    dtype = np.dtype(name).newbyteorder("<")
    if prod(shape) * dtype.itemsize != len(data) - at or min(shape, default=0) < 0:
        raise IngestionError(
            f"an array of {name} and shape {tuple(shape)} does not fit its {len(data) - at:,} bytes"
        )
    return np.frombuffer(data, dtype, offset=at).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def sample_of(data: bytes, into: Into, encoding: str) -> Any:
    """Return the sample for a value of a column; None for a null.

    Raises
    ------
    IngestionError, LakebedError, ValueError, TypeError, OverflowError
        If the value is damaged.
    """
    name = encoding.partition(":")[0]
    if into.told == "npy" and name == "bytes":
        return loaded(data) if data else None
    if into.told == "number" and name == "json":
        number = document(data)
        return None if number is None else np.array(number, into.dtype)
    said = into.described
    if said is not None and name == "json" and into.told != "text":
        value = document(data)
        return None if value is None else nested_value(value, said)
    if said is not None and (name in ("jpeg", "png") or into.told == "file"):
        if not data:
            return None
        # If a file has no signature, trust the described kind.
        if into.content is None or sniff(data) is None:
            return file_value(data, said)
        return value_of(data, into.content)
    found = value_for(data, into.kind, into.content)
    return found.astype(bool) if into.dtype == "bool" else found


# -- tensors that our exporter described --------------------------------------------------------------------------


def described_tensor(
    called: str,
    encoding: str,
    kind: Kind,
    values: Sequence[bytes],
    said: Described,
    compression: str | None,
    info: Mapping[str, Any],
) -> tuple[Into, TensorPlan]:
    """Return the destination of a described column, and its tensor."""
    told = _told(said)
    how, dtype = str(told.get("kind") or ""), str(told.get("dtype") or "")
    content = None
    is_image = said.base.startswith("image")
    wish = compression if is_image else None
    is_file = encoding in (*_FILE_LISTS, "jpeg", "png") or how == "file"
    if is_file and (wish or said.sample_compression) is not None:
        stored = str(wish)
        if wish in (None, "auto", LOSSLESS):
            files = (data for value in values for data in files_of(value, kind))
            stored = kind_of_files(said, files, wish) or str(said.sample_compression)
        content = Content("image" if is_image else said.base, stored, said.is_sequence)
    arguments = said.arguments(content.compression if content is not None else None)
    return Into(called, kind, content, how, dtype, said), TensorPlan(called, arguments, {**said.info, **info})


def _told(said: Described) -> Mapping[str, Any]:
    """Return our exporter's description of the values of a column."""
    told = said.more.get("column")
    return told if isinstance(told, Mapping) else {}


def fits(encoding: str, said: Described) -> bool:
    """Return whether our exporter writes samples of such a tensor in this encoding."""
    kind, told = encoding.partition(":")[0], _told(said)
    how, dtype = told.get("kind"), told.get("dtype")
    if how == "number" and dtype is None:
        return False
    if dtype is not None and dtype not in (*_DTYPES.values(), "bool", "complex64", "complex128"):
        return False
    if encoding in _FILE_LISTS:
        return said.is_sequence and said.is_file and said.base.startswith("image")
    if said.is_sequence:
        return kind == "json" and how not in ("number", "text")
    if kind == "str" or how == "text":
        return kind in ("str", "json") and said.storing is Storing.TEXT
    if kind == "json" and how != "number":
        return said.storing not in (Storing.ARRAY, Storing.TEXT)
    if said.storing is not Storing.ARRAY:
        return False
    if kind in ("jpeg", "png") or (kind == "bytes" and how == "file"):
        return said.is_file or said.base in lakebed.file_kinds
    if kind in ("json", "bytes"):
        return how == ("number" if kind == "json" else "npy")
    return (kind in _NUMBERS or kind == "ndarray") and not said.is_file
