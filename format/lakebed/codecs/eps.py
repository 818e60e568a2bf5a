"""Pixels of the EPS files that Pillow writes.

    %ImageData: width height 8 channels ... "image"
    ... readhexstring ... image
    pixels in hexadecimal, rows from the top
    %%%%EndBinary

Any other EPS file is a program. Running Ghostscript on the bytes of a dataset is out of the question.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.codecs.base import Buffer
from lakebed.errors import SampleDecompressionError

_HEAD = re.compile(
    rb"%ImageData: (\d{1,9}) (\d{1,9}) 8 ([13]) [^\n]*\n(?:[^\n]{0,200}\n){1,10}?"
    rb"[^\n]*readhexstring[^\n]*\n(?:false 3 color)?image\n"
)
_END = b"%%%%EndBinary"


def decode_eps(data: Buffer) -> NDArray[Any]:
    """Decode to uint8, shape (H, W) or (H, W, 3).

    Raises
    ------
    SampleDecompressionError
        If the file is damaged, or a program.
    LimitError
        If it promises more pixels than allowed.
    """
    raw = bytes(data)
    head = _HEAD.search(raw, 0, 4096)
    end = raw.find(_END, head.end()) if head else -1
    if head is None or end < 0:
        raise SampleDecompressionError(
            f"an eps file of {len(raw)} bytes is a program, which is not run here; convert it to another format"
        )
    width, height, channels = (int(word) for word in head.groups())
    limits.check("MAX_IMAGE_PIXELS", width * height, f"an eps image of {width} x {height} pixels")
    try:
        pixels = np.frombuffer(bytes.fromhex(raw[head.end() : end].decode("ascii")), dtype=np.uint8)
        return pixels.reshape((height, width) if channels == 1 else (height, width, channels))
    except ValueError as error:
        raise SampleDecompressionError(f"damaged eps file of {len(raw)} bytes: {error}") from error
