"""Files that are not read yet: read many at a time, into memory that is used again, and stored as they are.

A long column of ``lakebed.read(path)`` is taken in slices. One call reads a slice, another parses its headers, and its
bytes go from where they lie into chunk files before the next slice takes their place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.codecs.sample import Sample
from lakebed.codecs.traits import TRAITS, HeaderScan
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.native import disk
from lakebed.native import headers as native
from lakebed.writing.encode.arrays import sample_info
from lakebed.writing.encode.encoded import Encoded
from lakebed.writing.encode.spec import TensorSpec, with_dtype

# Memory for one slice of a column: some chunks, as what is left over of the last one has to be copied.
_ROOM = 1 << 25
# A shorter column is read file by file.
_FEWEST = 16


class UnreadFiles(list[Sample]):
    """Samples whose files lie in ``room``, back to back, until the next slice; ``offsets`` ends with their end."""

    def __init__(
        self, samples: Sequence[Sample], room: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> None:
        super().__init__(samples)
        self.room = room
        self.offsets = offsets

    def fill(self) -> list[Sample]:
        """Hand every sample a copy of its file; returns them."""
        bounds = self.offsets.tolist()
        for i, sample in enumerate(self):
            sample.fill(self.room[bounds[i] : bounds[i + 1]].tobytes())
        return list(self)


def _scan_of(meta: TensorMeta) -> HeaderScan | None:
    traits = TRAITS.get(meta.sample_compression or "")
    return None if traits is None else traits.header_scan


def is_unread(rows: Any, meta: TensorMeta) -> bool:
    """Tell whether a column is best taken in slices: it holds nothing but files that may be stored as they are."""
    if not isinstance(rows, list | tuple) or len(rows) < _FEWEST or meta.is_link or meta.is_sequence:
        return False
    spec = TensorSpec(meta)
    if _scan_of(meta) is None or spec.converts or "downsample" in spec.feeds:
        return False
    return all(isinstance(row, Sample) and row.is_unread_as(meta.sample_compression) for row in rows)


def slices(
    columns: Mapping[str, Any], unread: Sequence[str], allocate: Callable[[int], NDArray[np.uint8]]
) -> Iterator[dict[str, Any]]:
    """Cut columns of one length into slices; those of the names in ``unread`` come as :class:`UnreadFiles`.

    A file that cannot be read, or is too large for a slice, comes alone and unread: encoding it tells why.

    Parameters
    ----------
    allocate
        Supplies memory for a slice.
    """
    count = len(next(iter(columns.values())))
    rooms = {name: allocate(_ROOM) for name in unread}
    paths = {name: [os.fsencode(row.unread_path or "") for row in columns[name]] for name in unread}
    start = 0
    while start < count:
        offsets = {name: _read(paths[name][start:], rooms[name]) for name in unread}
        number = min(map(len, offsets.values())) - 1
        stop = start + max(number, 1)
        found: dict[str, Any] = {name: column[start:stop] for name, column in columns.items()}
        if number:
            for name in unread:
                found[name] = UnreadFiles(found[name], rooms[name], offsets[name][: number + 1])
        yield found
        start = stop


def _read(paths: list[bytes], room: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Read files, as many as go well; return where each starts and the last one ends."""
    offsets = np.zeros(len(paths) + 1, np.int64)
    try:
        number, _ = disk.read_files(paths, room, offsets)
    except ValueError:  # a path that no system call takes
        number = 0
    return offsets[: number + 1]


def encode_unread(rows: UnreadFiles, meta: TensorMeta) -> Encoded | None:
    """Return the files as one block that borrows their memory; None if one of them needs a closer look."""
    spec, name, scan = TensorSpec(meta), meta.sample_compression or "", _scan_of(meta)
    if scan is None:
        return None
    room, offsets = rows.room, rows.offsets
    shapes, flags = scan(room, offsets)
    sizes = np.diff(offsets)
    known = bool((flags & native.PLAIN).all()) and bool((shapes[:, 2] == 3).all())
    if not known or spec.ndim not in (None, 3) or 0 <= spec.threshold < int(sizes.max()):
        return None
    if spec.dtype is not None and spec.dtype != np.uint8:
        return None
    infos: list[Mapping[str, Any]] | None = None
    if "info" in spec.feeds:
        infos = [
            {"exif": {}, "shape": shape, "format": name, "filename": sample.path, "modified": False}
            for shape, sample in zip(shapes.tolist(), rows, strict=True)
        ]
        for i in np.flatnonzero(flags & native.EXIF).tolist():
            rows[i].fill(room[offsets[i] : offsets[i + 1]].tobytes())
            infos[i] = sample_info(rows[i], spec)
    data = room.data[: int(offsets[-1])]
    block = Block(data, len(rows), sizes.astype(np.uint32), shapes)
    return Encoded(block, with_dtype(meta, np.dtype(np.uint8)), infos=infos, owned=False)
