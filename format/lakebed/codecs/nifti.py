"""NIfTI scans, plain or gzipped (format.md 5.3, 7). A sample has the axes and the dtype of the file.

Values are those of ``nibabel.load(path).dataobj``: volumes are not turned, because only the affine says how they lie.

A file with scaling (``scl_slope``, ``scl_inter``) decodes to float64. 3.9.52 uses the dtype of the stored values for
such a file, too, and so loses the fractions; a tensor that 3.9.52 made keeps that dtype.
"""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from nibabel.nifti1 import Nifti1Header
from nibabel.nifti2 import Nifti2Header

from lakebed import limits
from lakebed.codecs.base import FileCodec, FileFacts, into
from lakebed.codecs.container import decoding
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakebed.codecs.base import Buffer

_GZIP = b"\x1f\x8b"
_HEADER = 540  # size of the larger of the two kinds of headers, in bytes


@dataclass(frozen=True, slots=True)
class Nifti(FileCodec):
    """NIfTI-1 and NIfTI-2 files; only files can be stored, arrays cannot be encoded."""

    name: str = "nii"

    def facts(self, data: Buffer) -> FileFacts:
        """Read shape and dtype from the header.

        Raises
        ------
        FormatError, LimitError
            If the data is not a NIfTI file, or a larger one than this process allows.
        """
        scan = _Scan(data)
        return FileFacts(scan.shape, scan.dtype.name)

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode to an array of the file's shape, in C order.

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        scan = _Scan(data)
        return into(_native(scan.values(), scan.dtype), out)

    def part(self, data: Buffer, selection: int | slice) -> NDArray[Any]:
        """Decode a selection of the first axis; the remaining bytes of an uncompressed file are not copied."""
        scan = _Scan(data)
        return _native(scan.values(selection), scan.dtype)

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return the fields of the header as NumPy values, the affine and the zooms."""
        scan = _Scan(data)
        header = scan.header
        with decoding("the header of a NIfTI file"), np.errstate(all="ignore"):
            fields = {key: np.array(header[key]) for key in header.keys()}  # noqa: SIM118 - no mapping
            # Like nibabel: vox_offset is zero, and a scaling that has no effect is NaN.
            fields["vox_offset"] = np.zeros_like(fields["vox_offset"])
            if not scan.scaled:
                fields["scl_slope"] = np.full_like(fields["scl_slope"], np.nan)
                fields["scl_inter"] = np.full_like(fields["scl_inter"], np.nan)
            return {
                **{key: value.astype(value.dtype.newbyteorder("<")) for key, value in fields.items()},
                "affine": header.get_best_affine(),
                "zooms": tuple(float(zoom) for zoom in header.get_zooms()),
            }


class _Scan:
    """A header, checked against the limits and the length of the data."""

    def __init__(self, data: Buffer) -> None:
        self._data = data
        self._packed = bytes(data[:2]) == _GZIP
        head = _unpack(data, _HEADER) if self._packed else bytes(data[:_HEADER])
        self.header: Any = _header(head)
        with decoding("the header of a NIfTI file"), np.errstate(all="ignore"):
            shape = tuple(int(extent) for extent in self.header.get_data_shape())
            self._stored: np.dtype[Any] = np.dtype(self.header.get_data_dtype())
            self._offset = int(self.header.get_data_offset())
            self._slope, self._inter = self.header.get_slope_inter()
        if any(extent <= 0 for extent in shape) or not shape or self._offset < 0:
            raise FormatError(f"a NIfTI file of shape {shape} with values at {self._offset} is invalid")
        if self._offset < len(self.header.binaryblock):
            raise FormatError(
                f"a NIfTI file with values at {self._offset} has no values of its own, as one of the two files of a "
                "pair (.hdr and .img): nibabel.save(nibabel.load('scan.hdr'), 'scan.nii') makes one file"
            )
        if self._stored.itemsize == 0 or (self._stored.fields is None and self._stored.kind not in "iufc"):
            raise FormatError(f"a NIfTI file with values of type {self._stored} cannot be decoded")
        self.dtype: np.dtype[Any]
        if self._stored.fields is not None:  # a colour is stored as one value of three or four bytes
            self.shape = (*shape, self._stored.itemsize)
            self._stored = self.dtype = np.dtype("u1")
        else:
            self.shape = shape
            # Extended precision takes 16 bytes, whose meaning differs between machines: return float64.
            wide = self.scaled or (self._stored.kind == "f" and self._stored.itemsize > 8)
            self.dtype = np.dtype("f8") if wide else self._stored.newbyteorder("=")
        what = f"a NIfTI file of shape {self.shape}"
        limits.check("MAX_HEADER_BYTES", self._offset, what)
        self._nbytes = limits.check_sample(self.shape, self._stored.itemsize, what, stored=len(data))
        limits.check_sample(self.shape, self.dtype.itemsize, what)
        if not self._packed and self._offset + self._nbytes > len(data):
            raise FormatError(f"{what} needs {self._offset + self._nbytes} bytes, but has {len(data)}")

    @property
    def scaled(self) -> bool:
        return self._slope is not None and (self._slope, self._inter or 0.0) != (1.0, 0.0)

    def values(self, selection: int | slice = slice(None)) -> NDArray[Any]:
        raw = _unpack(self._data, self._offset + self._nbytes) if self._packed else self._data
        if len(raw) < self._offset + self._nbytes:
            raise FormatError(f"a NIfTI file needs {self._offset + self._nbytes} bytes, but holds {len(raw)}")
        count = self._nbytes // self._stored.itemsize
        flat = np.frombuffer(raw, dtype=self._stored, count=count, offset=self._offset)
        array = self._shaped(flat)[selection]
        if not self.scaled:
            return array
        with np.errstate(all="ignore"):
            return np.asarray(array * np.float64(self._slope) + np.float64(self._inter or 0.0))

    def _shaped(self, flat: NDArray[Any]) -> NDArray[Any]:
        fields = np.dtype(self.header.get_data_dtype()).fields
        if fields is None:
            return flat.reshape(self.shape, order="F")
        # The bytes of a colour are contiguous; the other axes are in Fortran order.
        return np.moveaxis(flat.reshape((self.shape[-1], *self.shape[:-1]), order="F"), 0, -1)


def _native(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.asarray(values, dtype=dtype, order="C")


def _header(head: bytes) -> Any:
    kind: Any
    for size, kind in ((348, Nifti1Header), (540, Nifti2Header)):
        if size.to_bytes(4, "little") == head[:4] or size.to_bytes(4, "big") == head[:4]:
            if len(head) < size:
                break
            with decoding("the header of a NIfTI file"):
                return kind.from_fileobj(io.BytesIO(head[:size]), check=False)
    raise FormatError(f"{len(head)} bytes are not a NIfTI file: they begin with {head[:8].hex()}")


def _unpack(data: Buffer, length: int) -> bytes:
    """Return the first bytes of gzipped data, without unpacking more."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return file.read(length)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"a gzipped NIfTI file is damaged: {error}") from error
