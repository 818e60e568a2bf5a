"""LAS point clouds (format.md 5.3, 7). A sample is (points, dimensions) float32, every dimension of the file a column.

Reading a point_cloud tensor gives the first three columns only: X, Y, Z as stored, not scaled. The other dimensions are
named fields with dtypes of their own, which ``Tensor.data()`` returns.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import laspy
import numpy as np

from lakebed import limits
from lakebed.codecs.base import FileCodec, FileFacts, into
from lakebed.codecs.container import decoding
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from lakebed.codecs.base import Buffer

_HEADER = 227  # bytes of the header of version 1.0; later ones are longer
_RECORD = 54  # bytes before the content of a variable length record
_FLAGS = """
    GPS_TIME_TYPE_MASK SYNTHETIC_RETURN_NUMBERS_MASK WAVEFORM_EXTERNAL_MASK WAVEFORM_INTERNAL_MASK WKT_MASK
    gps_time_type synthetic_return_numbers value waveform_data_packets_external waveform_data_packets_internal wkt
""".split()
_FIELDS = """
    DEFAULT_VERSION file_source_id system_identifier generating_software creation_date point_count scales offsets
    number_of_points_by_return start_of_waveform_data_packet_record start_of_first_evlr number_of_evlrs version
    major_version minor_version maxs mins global_encoding uuid
""".split()
_AXES = ("X", "Y", "Z")


@dataclass(frozen=True, slots=True)
class Las(FileCodec):
    """LAS files; only files can be stored, arrays cannot be encoded."""

    name: str = "las"

    def facts(self, data: Buffer) -> FileFacts:
        """Read the number of points and of dimensions from the header.

        Raises
        ------
        FormatError, LimitError
            If the data is not a LAS file, or a larger one than this process allows.
        """
        header = _header(data)
        return FileFacts((header.point_count, len(_names(header))), "float32")

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode all dimensions: float32, shape (points, dimensions).

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        fields = self.fields(data)
        return into(_columns(fields, fields), out)

    def value(self, data: Buffer) -> NDArray[np.float32]:
        """Decode the value of a sample: X, Y, Z, shape (points, 3)."""
        return _columns(self.fields(data), _AXES)

    def part(self, data: Buffer, selection: int | slice) -> NDArray[Any]:
        """Decode, and return X, Y, Z of the selected points."""
        values: NDArray[Any] = self.value(data)[selection]
        return values

    def fields(self, data: Buffer) -> dict[str, NDArray[Any]]:
        """Return every dimension by name, shape (points,), in the dtype of the file.

        Raises
        ------
        FormatError, LimitError
            As :meth:`decode`.
        """
        header = _header(data)
        with decoding(f"a LAS file of {header.point_count} points"):
            with laspy.open(io.BytesIO(data), read_evlrs=False) as reader:
                points = reader.read_points(header.point_count)
            if len(points) != header.point_count:
                raise FormatError(f"a LAS file declares {header.point_count} points, but holds {len(points)}")
            return {name: np.array(points[name]) for name in _names(header)}

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return the names and dtypes of the dimensions, the header and the variable length records."""
        header = _header(data)
        with decoding("the header of a LAS file"):
            kinds = {item.name: _kind(item) for item in header.point_format.dimensions}
            return {
                "dimension_names": _names(header),
                "las_header": _described(header),
                "vlrs": [str(record) for record in header.vlrs],
                "dimensions_names_to_dtype": kinds,
            }


def _columns(fields: Mapping[str, NDArray[Any]], names: Iterable[str]) -> NDArray[np.float32]:
    chosen = [fields[name] for name in names]
    out = np.empty((len(chosen[0]), len(chosen)), dtype=np.float32)
    with np.errstate(all="ignore"):
        for column, values in enumerate(chosen):
            while values.ndim > 1:  # dimensions of several values: take the first
                values = values[:, 0]
            out[:, column] = values
    return out


def _kind(dimension: Any) -> str:
    """Return the dtype of a dimension; uint8 for dimensions that take only some bits of a byte."""
    return np.dtype(np.uint8 if dimension.dtype is None else dimension.dtype).str


def _names(header: laspy.LasHeader) -> list[str]:
    return list(header.point_format.dimension_names)


def _header(data: Buffer) -> laspy.LasHeader:
    """Parse the header after comparing its counts with the length of the data.

    bytes   content
    94      u16 header size, u32 offset of the points, u32 number of variable length records
    104     u8 point format, u16 length of a point
    235     u64 offset, u32 number of extended records (version 1.4)
    """
    head = bytes(data[:375])
    if head[:4] != b"LASF" or len(head) < _HEADER:
        raise FormatError(f"{len(data)} bytes are not a LAS file: they begin with {head[:4].hex()}")
    size, start, records = struct.unpack_from("<HII", head, 94)
    kind, length = struct.unpack_from("<BH", head, 104)
    limits.check("MAX_HEADER_BYTES", start, "a LAS file, before its points")
    if size < _HEADER or start < size or start > len(data) or records * _RECORD > start - size:
        raise FormatError(
            f"a LAS file of {len(data)} bytes cannot have {records} records before points at {start}"
        )
    with decoding("the header of a LAS file"):
        with laspy.open(io.BytesIO(data), read_evlrs=False) as reader:
            header = reader.header
        points, dimensions = int(header.point_count), len(_names(header))
    what = f"a LAS file of {points} points"
    limits.check("MAX_POINTS", points, what)
    limits.check_sample((points, dimensions), 4, what, stored=len(data))
    if not kind & 0x80 and (length == 0 or points * length > len(data) - start):
        raise FormatError(f"{what} of {length} bytes each has only {len(data) - start} bytes for the points")
    return header


def _described(header: laspy.LasHeader) -> dict[str, Any]:
    """Return the header as 3.9.52 records it."""
    date = header.creation_date
    special = {
        "DEFAULT_VERSION": {"major": header.DEFAULT_VERSION.major, "minor": header.DEFAULT_VERSION.minor},
        "creation_date": {"year": date.year, "month": date.month, "day": date.day} if date else None,
        "version": {"major": header.version.major, "minor": header.version.minor},
        "global_encoding": {name: _plain(getattr(header.global_encoding, name)) for name in _FLAGS},
    }
    return {name: special[name] if name in special else _plain(getattr(header, name)) for name in _FIELDS}


def _plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, bool | int | float | str | None):
        return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
    return str(value)
