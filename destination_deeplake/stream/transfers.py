"""Samples from files that come with records (`file_reference`).

The source has staged each file in a shared volume; the record has its path, size and name. A file becomes a sample,
byte for byte, of a tensor that depends on its content:

    file/image        image file of the compression of the first one      htype image
    file/image_png    image file of another compression, `png`            htype image
    file/audio ...    sound                                               htype audio
    file/video ...    film                                                htype video
    file/bytes        any other file, and any damaged file                generic uint8
    file/path         name at the source                                  text
    file/size         bytes                                               int64
    file/type         MIME type                                           text

So no file is ever encoded again, and each row has its file in one of these tensors. A missing file, or a file of
another size, ends the sync with a transient error: acknowledging the record without it would lose the file, and the
source stages it again for the next attempt. Files are read in parts, and never deleted.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import lakebed
from destination_deeplake.columns import FILE_COLUMNS
from destination_deeplake.failures import ConfigError, ConnectorError, FailureType
from destination_deeplake.stream.files import as_file
from destination_deeplake.stream.samples import Rows, validity_of
from lakebed.errors import LakebedError

FIELD = "_airbyte_file/"
"""Prefix of the fields of file columns in the record of a stream."""

GROUP = "file"
STAGING_VARIABLE = "AIRBYTE_STAGING_DIRECTORY"
"""Environment variable with the shared folder; if set, no file outside of it is read."""

PART_BYTES = 64_000_000
"""Bytes of files that are written to the dataset at a time, unless a single file is larger."""

MOST_BYTES = 2**31 - 1
"""Largest file that can be a sample."""

_MIME: Mapping[tuple[str, str], str] = {
    **{("image", name): f"image/{name}" for name in ("jpeg", "png", "gif", "tiff", "bmp", "webp")},
    ("image", "jpeg2000"): "image/jp2",
    ("audio", "mp3"): "audio/mpeg",
    ("audio", "flac"): "audio/flac",
    ("audio", "wav"): "audio/wav",
    ("video", "mp4"): "video/mp4",
    ("video", "mkv"): "video/x-matroska",
    ("video", "avi"): "video/x-msvideo",
}
_ANY = "application/octet-stream"
_HEAD = 512

FileKind = tuple[str, str] | None
"""(htype, compression); None for plain bytes."""


class StagedFileError(ConnectorError):
    """A file that a record names is missing, or has another size."""

    failure_type = FailureType.TRANSIENT


@dataclass(frozen=True, slots=True)
class Part:
    """Files of consecutive rows.

    Attributes
    ----------
    start, stop : int
        The rows.
    files : dict of FileKind to pyarrow.Array
        Kind -> binary array with the files of that kind, null in other rows; all share the same memory.
    types : pyarrow.Array
        MIME type of each row's file; null without a file.
    """

    start: int
    stop: int
    files: Mapping[FileKind, pa.Array]
    types: pa.Array


def sizes_of(taken: Mapping[str, pa.Array], stream: str) -> NDArray[np.int64]:
    """Return the size of each row's file, -1 without a file.

    Raises
    ------
    StagedFileError
        If a file is missing, or has another size than in its record.
    ConfigError
        If its path is not allowed.
    """
    urls, _, promised = (taken[name] for name in FILE_COLUMNS)
    sizes = np.full(len(urls), -1, np.int64)
    for row, (url, size) in enumerate(zip(urls.to_pylist(), promised.to_pylist(), strict=True)):
        if url is None:
            continue
        try:
            found = _path(url, stream).stat()
        except FileNotFoundError:
            raise _lost(stream, "does not exist") from None
        except PermissionError:
            raise _unreadable(stream) from None
        if not stat.S_ISREG(found.st_mode):
            raise _lost(stream, "is not a file")
        if size is not None and found.st_size != size:
            raise _lost(stream, f"has {found.st_size} bytes, not {size} as its record says")
        sizes[row] = found.st_size
    return sizes


def parts(urls: pa.Array, sizes: NDArray[np.int64], stream: str) -> Iterator[Part]:
    """Yield the files in runs of rows whose bytes fit into memory; files that are too large are left out.

    Raises
    ------
    StagedFileError, ConfigError
        As in `sizes_of`.
    """
    paths = urls.to_pylist()
    sizes = np.where(sizes > MOST_BYTES, -1, sizes)
    start = 0
    while start < len(paths):
        ends = np.cumsum(np.maximum(sizes[start:], 0))
        stop = start + max(1, int(np.searchsorted(ends, PART_BYTES, side="right")))
        yield _part(paths[start:stop], sizes[start:stop], start, stream)
        start = stop


def too_large(sizes: NDArray[np.int64]) -> Rows:
    """Return the rows whose file is too large for a sample."""
    return np.flatnonzero(sizes > MOST_BYTES)


def _part(urls: list[str | None], sizes: NDArray[np.int64], start: int, stream: str) -> Part:
    offsets = np.zeros(len(urls) + 1, np.int32)
    np.cumsum(np.maximum(sizes, 0), out=offsets[1:])
    room = np.empty(int(offsets[-1]), np.uint8)
    kinds: dict[FileKind, NDArray[np.bool_]] = {}
    types: list[str | None] = [None] * len(urls)
    for row, url in enumerate(urls):
        if url is None or sizes[row] < 0:
            continue
        content = room.data[offsets[row] : offsets[row + 1]]
        _read(_path(url, stream), content, stream)
        kind = kind_of(content)
        kinds.setdefault(kind, np.zeros(len(urls), np.bool_))[row] = True
        types[row] = _ANY if kind is None else _MIME[kind]
    buffers = [pa.py_buffer(offsets), pa.py_buffer(room)]
    files = {
        kind: pa.Array.from_buffers(pa.binary(), len(urls), [validity_of(rows), *buffers])
        for kind, rows in kinds.items()
    }
    return Part(start, start + len(urls), files, pa.array(types, pa.string()))


def kind_of(content: memoryview) -> FileKind:
    """Return the kind of a file by its content; None for plain bytes."""
    try:
        compression = lakebed.read(content[:_HEAD]).compression
    except LakebedError:
        return None
    kind = next((known for known in _MIME if known[1] == compression), None)
    if kind is None:
        return None
    try:
        as_file(content, *kind)
    except (LakebedError, ValueError):
        return None
    return kind


def _read(path: Path, into: memoryview, stream: str) -> None:
    try:
        with path.open("rb", buffering=0) as file:
            done = 0
            while done < len(into):
                count = file.readinto(into[done:])
                if not count:
                    raise _lost(stream, "was cut off while it was read")
                done += count
    except FileNotFoundError:
        raise _lost(stream, "was removed while it was read") from None
    except PermissionError:
        raise _unreadable(stream) from None


def _path(url: str, stream: str) -> Path:
    """Return the path of a staged file, given as a path or a `file://` address."""
    path = Path(unquote(urlsplit(url).path) if url.startswith("file://") else url)
    if not path.is_absolute() or "\0" in url:
        raise _lost(stream, "has no absolute path")
    staging = os.environ.get(STAGING_VARIABLE)
    if staging and not path.resolve().is_relative_to(Path(staging).resolve()):
        raise ConfigError(
            f"Stream {stream!r}: a record refers to a file outside of the staging folder {staging} "
            f"({STAGING_VARIABLE}); the source must stage its files there."
        )
    return path


def _lost(stream: str, what: str) -> StagedFileError:
    return StagedFileError(
        f"Stream {stream!r}: the staged file of a record {what}. Everything that was acknowledged is written; run the "
        "sync again, so that the source stages the file anew. If that does not help, check that source and "
        "destination share the staging volume."
    )


def _unreadable(stream: str) -> ConfigError:
    return ConfigError(
        f"Stream {stream!r}: the staged file of a record must not be read by the user of this process; let user and "
        "group of the staging volume be those of the destination."
    )
