"""A format whose library does what libraries do at damage: for ``test_array_reader``."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lakebed.importers.arrays import array_reader
from lakebed.importers.arrays.arrays import Found

_DTYPE = np.dtype("<i4")


@dataclass
class _Array:
    what: str
    shape: tuple[int, ...] = (10, 2)
    dtype: Any = _DTYPE

    def read(self, start: int, stop: int) -> Any:
        """Do what the name of the array says."""
        if self.what == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        while self.what == "loop":
            pass
        if self.what == "memory":
            bytearray(1 << 44)
        if self.what == "error":
            raise ValueError("bad chunk")
        return np.arange(20, dtype="i4").reshape(10, 2)[start:stop]


def opened(path: str) -> Any:
    """Return the text of the file."""
    text = Path(path).read_text()
    if text == "crash at once":
        os.kill(os.getpid(), signal.SIGSEGV)
    return text


def found_in(text: str) -> Found:
    """Return an array for each word; after "idle" the process waits for no request."""
    if "idle" in text:
        array_reader._IDLE_SECONDS = 0.0
    return Found({word: _Array(word) for word in text.split()}, attributes={"": {"by": "a test"}})
