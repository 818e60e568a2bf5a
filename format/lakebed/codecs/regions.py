"""Regions of JPEG files, decoded without the rest of the image and resized into a batch (docs/design/025).

The work is done by :mod:`lakebed.native.regions` with the libjpeg-turbo of Pillow, bound at run time. Other kinds of
files, damaged ones, and all files if that library is missing, are decoded whole by their codec and resized by the same
code.
"""

from __future__ import annotations

import ctypes.util
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import PIL
from numpy.typing import NDArray

from lakebed.errors import SampleDecompressionError
from lakebed.native import regions as native

Room: TypeAlias = NDArray[np.uint8] | NDArray[np.float32]

_lock = threading.Lock()
_found: tuple[str | None, str] | None = None


def library() -> tuple[str | None, str]:
    """Bind libjpeg-turbo, once.

    Returns
    -------
    path
        File of the library; None if no usable one exists.
    problem
        Reason why no library is usable; empty if one is.
    """
    global _found  # noqa: PLW0603
    with _lock:
        if _found is None:
            _found = _bound()
        return _found


def _bound() -> tuple[str | None, str]:
    problems = []
    for path in dict.fromkeys(_candidates()):
        try:
            native.bind(path)
        except OSError as error:
            problems.append(str(error))
        else:
            return path, ""
    return None, "; ".join(problems) or "no libjpeg-turbo was found"


def _candidates() -> Iterator[str]:
    """Yield paths to try: libraries in Pillow's wheel, loaded libraries, the system's library."""
    # Importing Pillow's compiled module loads the library that it uses.
    from PIL import _imaging  # noqa: F401

    package = Path(PIL.__file__).parent
    for folder, pattern in (
        (package.parent / "pillow.libs", "libjpeg*.so*"),
        (package / ".dylibs", "libjpeg*.dylib"),
    ):
        yield from map(str, sorted(folder.glob(pattern)))
    maps = Path("/proc/self/maps")
    if maps.exists():
        for line in maps.read_text(errors="surrogateescape").splitlines():
            path = line.partition("/")
            if "libjpeg" in path[2].rpartition("/")[2]:
                yield "/" + path[2]
    found = ctypes.util.find_library("jpeg")
    if found:
        yield found


def decode_regions(
    files: list[Any],
    shapes: NDArray[np.uint32],
    boxes: NDArray[np.int32],
    out: Room | list[Room],
    resized: NDArray[np.int32] | None = None,
    offsets: NDArray[np.int32] | None = None,
    flips: NDArray[np.uint8] | None = None,
    *,
    factors: NDArray[np.float32] | None = None,
    planar: bool = False,
    scaled: bool = True,
) -> NDArray[np.uint8]:
    """Decode regions of JPEG files without the GIL; bind the library first.

    Parameters are those of :func:`lakebed.native.regions.decode_regions`.

    Returns
    -------
    ndarray
        Statuses, uint8, shape (n,): 0 for decoded regions; decode regions with another status by their codec and
        :func:`resize_region`.
    """
    library()
    return native.decode_regions(
        files, shapes, boxes, out, resized, offsets, flips, factors=factors, planar=planar, scaled=scaled
    )


def resize_region(
    pixels: NDArray[Any],
    box: NDArray[np.int32],
    room: Room,
    resized: NDArray[np.int32] | None = None,
    offset: NDArray[np.int32] | None = None,
    *,
    flip: bool = False,
    factors: NDArray[np.float32] | None = None,
    planar: bool = False,
) -> None:
    """Resize a region of decoded pixels into an array of the output, its room.

    Parameters
    ----------
    pixels
        uint8, shape (height, width) or (height, width, channels). One channel is repeated for a room of 3 channels.
    box, room, resized, offset, flip, factors, planar
        One row of the arguments of :func:`decode_regions`.

    Raises
    ------
    SampleDecompressionError
        If the channels are not those of the room, or the box leaves the image or shrinks too far.
    """
    channels = 1 if room.ndim == 2 else room.shape[0 if planar else 2]
    shown = pixels if pixels.ndim == 3 else pixels[..., np.newaxis]
    if shown.shape[2] == 1 and channels == 3:
        shown = np.repeat(shown, 3, axis=2)
    if shown.dtype != np.uint8 or shown.shape[2] != channels:
        raise SampleDecompressionError(
            f"an image of shape {pixels.shape} and dtype {pixels.dtype} cannot become one of {channels} channels; "
            "decode it unchanged and convert it in the transform"
        )
    status = native.resize_regions(
        [np.ascontiguousarray(shown)],
        box[np.newaxis],
        [room],
        None if resized is None else resized[np.newaxis],
        None if offset is None else offset[np.newaxis],
        np.array([flip], np.uint8),
        factors=factors,
        planar=planar,
    )
    if status[0]:
        raise SampleDecompressionError(
            f"the box {tuple(box.tolist())} of an image of shape {pixels.shape} cannot be resized to {room.shape}: "
            "it leaves the image, or a side would shrink more than 249 times"
        )
