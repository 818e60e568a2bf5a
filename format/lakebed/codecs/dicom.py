"""DICOM scans (format.md 5.3, 7). A sample is ([frames,] rows, columns, samples per pixel).

The shape is that of the header, with the frames first if the file gives their number; 3.9.52 registers the same.
"""

from __future__ import annotations

import io
import math
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pydicom
from pydicom.errors import BytesLengthException, InvalidDicomError
from pydicom.multival import MultiValue

from lakebed import limits
from lakebed.codecs.base import FileCodec, FileFacts, into
from lakebed.codecs.container import decoding
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lakebed.codecs.base import Buffer

_BINARY = frozenset({"OB", "OD", "OF", "OL", "OV", "OW", "UN", "OB or OW", "US or OW", "US or SS or OW"})
_FLOATS = {"FloatPixelData": "float32", "DoubleFloatPixelData": "float64"}


@dataclass(frozen=True, slots=True)
class Dicom(FileCodec):
    """DICOM files; only files can be stored, arrays cannot be encoded."""

    name: str = "dcm"

    def facts(self, data: Buffer) -> FileFacts:
        """Read shape and dtype from the header.

        Raises
        ------
        FormatError, LimitError
            If the data is not a DICOM file with pixels, or a larger one than this process allows.
        """
        with _reading(data):
            return _facts(_dataset(data), len(data))

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode the pixels, colours as RGB, to an array of the shape that :meth:`facts` gives.

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        with _reading(data):
            dataset = _dataset(data)
            facts = _facts(dataset, len(data))
            values = np.asarray(dataset.pixel_array)
            if values.size != math.prod(facts.shape):
                raise FormatError(
                    f"a DICOM file declares the shape {facts.shape}, but holds {values.size} values"
                )
            values = values.reshape(facts.shape)
        return into(np.ascontiguousarray(values, dtype=facts.dtype), out)

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return name, tag, value and vr of every element by keyword, except large binary ones."""
        with _reading(data):
            fields: dict[str, Any] = {}
            for element in _dataset(data):
                if element.keyword and element.VR not in _BINARY and not element.tag.is_private:
                    fields[element.keyword] = {
                        "name": element.name,
                        "tag": str(element.tag),
                        "value": _plain(element),
                        "vr": element.VR,
                    }
            return fields


@contextmanager
def _reading(data: Buffer) -> Iterator[None]:
    with warnings.catch_warnings(), decoding(f"a DICOM file of {len(data)} bytes"):
        # Values that violate the standard are common and harmless here.
        warnings.simplefilter("ignore")
        try:
            yield
        except (InvalidDicomError, BytesLengthException) as error:
            raise FormatError(f"{len(data)} bytes are not a DICOM file: {error}") from error


def _dataset(data: Buffer) -> pydicom.Dataset:
    return pydicom.dcmread(io.BytesIO(data))


def _facts(dataset: pydicom.Dataset, size: int) -> FileFacts:
    if "Rows" not in dataset or "Columns" not in dataset:
        raise FormatError("the DICOM file has no picture; it may be a directory, a report or a structure set")
    rows, columns = int(dataset.Rows), int(dataset.Columns)
    samples = int(dataset.get("SamplesPerPixel", 1))
    shape: tuple[int, ...] = (rows, columns, samples)
    frames = dataset.get("NumberOfFrames")
    if frames is not None:
        shape = (int(frames), *shape)
        limits.check("MAX_IMAGE_FRAMES", int(frames), f"a DICOM file of shape {shape}")
    what = f"a DICOM file of shape {shape}"
    if min(shape) <= 0:
        raise FormatError(f"{what} has no pixels")
    dtype = next((kind for keyword, kind in _FLOATS.items() if keyword in dataset), None)
    if dtype is None:
        bits = int(dataset.BitsAllocated)
        if bits not in (1, 8, 16, 32, 64):
            raise FormatError(f"{what} has {bits} bits a value; 1, 8, 16, 32 and 64 can be decoded")
        dtype = f"{'int' if int(dataset.PixelRepresentation) else 'uint'}{max(bits, 8)}"
    limits.check("MAX_IMAGE_PIXELS", rows * columns, what)
    limits.check_sample(shape, np.dtype(dtype).itemsize, what, stored=size)
    return FileFacts(shape, dtype)


def _plain(element: Any) -> Any:
    """Return an element's value as JSON, as 3.9.52 records it."""
    if element.VR == "SQ":
        return [
            item.to_json_dict(bulk_data_threshold=1, bulk_data_element_handler=lambda _: "")
            for item in element.value
        ]
    if element.VR == "PN":
        return element.to_json_dict(None, 1).get("Value", [])
    value = element.value
    if isinstance(value, MultiValue):
        return [_number(item) for item in value]
    return value if isinstance(value, int | float) and element.VR not in ("DS", "IS") else _text(value)


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return float(value)
    return int(value) if isinstance(value, int) else _text(value)


def _text(value: Any) -> Any:
    return None if value is None else str(value)
