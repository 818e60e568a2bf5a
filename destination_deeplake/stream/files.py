"""Samples of tensors of files, from bytes of files.

A file of the tensor's compression is stored byte for byte, without being decoded. An image of another kind is decoded
and encoded again; sounds, videos and scans cannot be converted. A file is refused if its header cannot be read or it is
truncated: a JPEG or PNG file must have its end, and a PNG file right checksums. In case of doubt, the image is decoded.
"""

import uuid
import zlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import lakebed
from destination_deeplake.choices import FORMATS
from destination_deeplake.failures import ConfigError
from destination_deeplake.stream.samples import Fitted, offsets_of, validity_of
from destination_deeplake.tensors import TensorType
from lakebed.errors import LakebedError, ModuleNotInstalledException
from lakebed.upserts.ndarrays import present

_CONVERTED = ("image.rgb", "image.gray")
_PNG = b"\x89PNG\r\n\x1a\n"


def fit_files(array: pa.Array, of_type: TensorType) -> tuple[Fitted, str | None]:
    """Fit files to a tensor of files.

    Parameters
    ----------
    array : pyarrow.Array of binary
        A file in each row.
    of_type : TensorType
        Type of the tensor. Without a compression, it takes that of the first file that fits.

    Returns
    -------
    Fitted
        The files as they will be stored.
    str or None
        Compression of the tensor; None if no file has decided it yet.

    Raises
    ------
    ConfigError
        If the package that reads or writes the tensor's kind of files is missing.
    """
    compression = of_type.sample_compression
    there = present(array)
    stored: dict[int, bytes] = {}
    refused: list[int] = []
    for row, content in _contents(array, there):
        try:
            found = compression or _compression(content, of_type.htype)
            file = as_file(content, of_type.htype, found)
        except ModuleNotInstalledException as error:
            # A package is missing, so no file of this kind can be stored: fail instead of refusing each file.
            raise ConfigError(f"Files of htype {of_type.htype!r} cannot be stored here: {error}.") from None
        except (LakebedError, ValueError):
            refused.append(row)
            continue
        compression = found
        if file is not content:
            stored[row] = bytes(file)
    if refused or stored:
        there[refused] = False
        array = _replaced(array, there, stored)
    if of_type.htype in _CONVERTED and compression is not None:
        odd = [row for row in _not_convertible(array, of_type.htype, compression) if there[row]]
        if odd:
            there[odd] = False
            array, refused = _replaced(array, there, {}), sorted([*refused, *odd])
    return Fitted(array, np.array(refused, np.int64)), compression


def _not_convertible(array: pa.Array, htype: str, compression: str) -> list[int]:
    """Return the rows of images that cannot be converted to the channels of the htype, found by trying in memory."""
    scratch = lakebed.empty(f"mem://{uuid.uuid4()}")
    tensor = scratch.create_tensor("image", htype=htype, sample_compression=compression)
    try:
        tensor.extend(array)
    except LakebedError:
        pass
    else:
        return []
    found = []
    for row in range(len(array)):
        try:
            tensor.extend(array.slice(row, 1))
        except LakebedError:
            found.append(row)
    return found


def as_file(content: bytes | memoryview, htype: str, compression: str) -> bytes | memoryview:
    """Return a file as the tensor stores it: the same object if it has the tensor's compression.

    Raises
    ------
    LakebedError
        If the file is damaged.
    ValueError
        If its kind cannot be converted to that of the tensor.
    """
    sample = lakebed.read(content)
    found = _compression(content, htype)
    if found == compression:
        # Check the header now: a file that fails later would fail the whole batch of its column.
        if 0 in sample.shape or not _is_whole(content, found):
            _ = sample.array
        return content
    if htype not in ("image", "image.rgb", "image.gray"):
        raise ValueError(f"{found} cannot become {compression}")
    sample.may_lose = True  # drop transparency rather than refuse the picture
    return bytes(sample.compressed_bytes(compression))


def _compression(content: bytes | memoryview, htype: str) -> str:
    compression = lakebed.read(content).compression
    if compression not in FORMATS[htype]:
        raise ValueError(f"a {compression} file is no {htype}")
    return str(compression)


def _is_whole(content: bytes | memoryview, compression: str) -> bool:
    """Tell whether a file is certainly complete; if False, it must be decoded to tell."""
    if compression == "jpeg":
        return bytes(content[-2:]) == b"\xff\xd9"
    if compression == "png":
        return _is_whole_png(content)
    return compression not in FORMATS["image"]


def _is_whole_png(content: bytes | memoryview) -> bool:
    """Tell whether the chunks of a PNG file reach its end and have right checksums."""
    view = memoryview(content)
    at = len(_PNG)
    while at + 12 <= len(view):
        size = int.from_bytes(view[at : at + 4], "big")
        end = at + 12 + size
        if end > len(view) or zlib.crc32(view[at + 4 : end - 4]) != int.from_bytes(
            view[end - 4 : end], "big"
        ):
            return False
        if bytes(view[at + 4 : at + 8]) == b"IEND":
            return True
        at = end
    return False


def _contents(array: pa.Array, there: np.ndarray) -> Iterator[tuple[int, memoryview]]:
    data = array.buffers()[2]
    view = memoryview(b"") if data is None else memoryview(data).cast("B")
    bounds = offsets_of(array)
    for row in np.flatnonzero(there).tolist():
        yield row, view[bounds[row] : bounds[row + 1]]


def _replaced(array: pa.Array, there: np.ndarray, stored: dict[int, bytes]) -> pa.Array:
    """Return the array with some files replaced; a file becomes null if its replacement is None."""
    if stored:
        contents: dict[int, bytes | memoryview] = {**dict(_contents(array, there)), **stored}
        rows = [contents[row] if is_there else None for row, is_there in enumerate(there.tolist())]
        return pa.array([None if row is None else bytes(row) for row in rows], array.type)
    # A replaced file becomes null: its bytes stay in the buffer, but are never read.
    _, offsets, data = array.buffers()
    if array.offset:
        offsets = pa.py_buffer(np.ascontiguousarray(offsets_of(array)))
    return pa.Array.from_buffers(array.type, len(array), [validity_of(there), offsets, data])
