"""Values of samples in MDS and LitData: their tensors, and reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageMode

from lakebed.errors import IngestionError
from lakebed.importers.core.contents import Content, Looked, Planning, decoded, tensor_of, value_of
from lakebed.importers.core.plan import Problem, TensorPlan, tensor
from lakebed.importers.shards.sample_shards import parts_of

_CHUNKS = "lz4"
_PLAIN_MODES = frozenset({"L", "LA", "RGB", "RGBA"})  # modes whose pixels PNG stores exactly


@dataclass(frozen=True)
class Kind:
    """How the values of a column are stored.

    Parameters
    ----------
    name
        ``number``, ``text``, ``json``, ``array``, ``pixels`` (an image of Pillow, not encoded) or ``file``.
    read
        Function that reads a number, JSON or an array.
    dtype
        Dtype of numbers, and of arrays if it is known.
    htype
        ``image``, ``audio`` or ``video`` for such files; None for bytes of any kind.
    supposed
        Compression to assume if no file was inspected.
    first
        Number of bytes before a list of files or images; None if a value is a single file or image.
    unknown
        Reason for storing values as bytes without inspecting them; empty if they are inspected.
    info
        Info of the tensor.
    """

    name: str = "file"
    read: Callable[[bytes], Any] | None = None
    dtype: str | None = None
    htype: str | None = None
    supposed: str | None = None
    first: int | None = None
    unknown: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)


def tensor_for(
    called: str,
    name: str,
    kind: Kind,
    values: Sequence[bytes],
    planning: Planning,
    *,
    info: Mapping[str, Any],
) -> tuple[Content | None, TensorPlan]:
    """Return the content of files, and the tensor of a column.

    Parameters
    ----------
    called, name
        Names of the tensor and of the column.
    values
        Some of its values.
    """
    info = {**info, **kind.info}
    if kind.name == "number":
        return None, tensor(
            called, dtype=kind.dtype, info=info, create_shape_tensor=False, create_id_tensor=False
        )
    if kind.name in ("text", "json"):
        return None, tensor(called, kind.name, info=info, chunk_compression=_CHUNKS)
    if kind.name == "array":
        return None, tensor(called, dtype=kind.dtype, info=info, chunk_compression=_CHUNKS)
    if kind.name == "pixels" and kind.first is None:
        modes = {mode for value in values if (mode := _mode_of(value))}
        if modes <= _PLAIN_MODES:
            return None, tensor(called, "image", sample_compression="png", info=info)
        if "P" in modes:
            reason = "raw images of mode P have no palette: numbers of colours are stored"
            planning.problems.append(Problem(called, reason, 0))
        return None, tensor(called, info={**info, "modes": sorted(modes)}, chunk_compression=_CHUNKS)
    content = _content(name, kind, values, planning)
    return content, tensor_of(called, content, info)


def _content(name: str, kind: Kind, values: Sequence[bytes], planning: Planning) -> Content:
    if kind.unknown:
        planning.problems.append(Problem(name, f"{kind.unknown}: they are stored as bytes", 0))
        return Content()
    looked = Looked(most=0 if kind.first is None else 2)
    for value in values:
        looked.add(list(files_of(value, kind)))
    wish = planning.kinds.get(name, kind.htype) if kind.first is None else "image"
    return planning.content(name, looked, wish=wish, supposed=kind.supposed, texts=False)


def files_of(value: bytes, kind: Kind) -> Iterator[bytes]:
    """Yield the file in a value, or the files in its list; skip a damaged list, whose row will be reported."""
    try:
        yield from [value] if kind.first is None else list_of(value, kind.first)
    except IngestionError:
        return


def value_for(data: bytes, kind: Kind, content: Content | None) -> Any:
    """Return the sample for a value of a column.

    Raises
    ------
    IngestionError, ValueError, TypeError, OverflowError
        If the value is damaged.
    """
    if kind.first is not None:
        return [_one(part, kind, content) for part in list_of(data, kind.first)]
    return _one(data, kind, content)


def _one(data: bytes, kind: Kind, content: Content | None) -> Any:
    if kind.name == "pixels":
        return pixels_of(data)
    if content is not None:
        return value_of(data, content)
    return decoded(data) if kind.read is None else kind.read(data)


def number_of(data: bytes, dtype: str) -> Any:
    """Return a little-endian number.

    Raises
    ------
    IngestionError
        If the number of bytes differs from the size of the dtype.
    """
    of = np.dtype(dtype).newbyteorder("<")
    if len(data) != of.itemsize:
        raise IngestionError(f"{len(data):,} bytes are not one value of {dtype}")
    return np.frombuffer(data, of)[0]


def list_of(data: bytes, first: int = 0) -> list[bytes]:
    """Return the elements of a list that begins at byte `first`: their number (uint32), their sizes, their bytes.

    Raises
    ------
    IngestionError
        If the elements are longer or shorter than the list.
    """
    count = int.from_bytes(data[first : first + 4], "little")
    if len(data) < first + 4 or 4 * count > len(data) - first - 4:
        raise IngestionError(f"a list of {count:,} elements cannot have {len(data):,} bytes")
    return parts_of(data[first + 4 :], [None] * count)


def _mode_of(data: bytes) -> str:
    """Return the mode of a raw image; "" if it has none."""
    length = int.from_bytes(data[8:12], "little")
    mode = data[12 : 12 + length].decode("ascii", "replace") if 0 < length <= 8 else ""
    try:
        return ImageMode.getmode(mode).mode
    except KeyError:
        return ""


def pixels_of(data: bytes) -> NDArray[Any]:
    """Return the pixels of a raw image: width, height, length of the mode (uint32), the mode, bytes.

    Raises
    ------
    IngestionError
        If the image is damaged.
    """
    mode = _mode_of(data)
    if not mode:
        raise IngestionError("it is not a raw image of a known mode")
    width, height = np.frombuffer(data, "<u4", 2).tolist()
    raw = data[12 + len(mode) :]
    try:
        image = Image.frombytes(mode, (width, height), raw) if width * height <= 8 * len(raw) else None
    except ValueError:
        image = None
    if image is None or len(image.tobytes()) != len(raw):
        raise IngestionError(f"{width:,} x {height:,} pixels of mode {mode} cannot have {len(raw):,} bytes")
    pixels = np.asarray(image)
    return pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
