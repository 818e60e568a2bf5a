"""Videos and sounds: ranges of the stored file, read only as far as requested; pictures of sounds."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.registry import sniff
from lakebed.errors import InvalidInputError, LimitError, NotFoundError
from lakebed.viewer.lake import Found, Opened, shape_of

_TYPES = {
    "mp4": "video/mp4",
    "mkv": "video/x-matroska",
    "avi": "video/x-msvideo",
    "mp3": "audio/mpeg",
    "flac": "audio/flac",
    "wav": "audio/wav",
    **dict.fromkeys(("las", "ply"), "application/octet-stream"),
}
_PART = 1 << 20
_SPANS = 2000
_MOST_NUMBERS = 1 << 27
_WINDOW = 512
_BANDS = 128
_COLUMNS = 1000
# Full scale of floats, and of signed integers of 8, 16, 24 and 32 bits.
_FULL = (1.0, 1 << 7, 1 << 15, 1 << 23, 1 << 31)


class File:
    """The stored file of a video, a sound, a point cloud or a mesh.

    Attributes
    ----------
    size : int
        Number of its bytes.
    type : str
        Media type of the file.
    """

    def __init__(self, found: Found) -> None:
        opened, name, row = _stored(found, "video", "audio", "point_cloud", "mesh")
        tensor = opened.tensor(name)
        self._row, self._linked = row, None
        self._reader = opened.session.reader(tensor.key, name)
        if tensor.is_link:
            links = self._reader.links
            self._linked = links.open(row, links.path(row) or "")
        head = self.read(0, 512)
        compression = sniff(head, None) if tensor.is_link else tensor.meta.sample_compression
        if compression not in _TYPES:
            told = f"the page shows no files of tensor {name!r}: ask for pictures of frames"
            raise InvalidInputError(told)
        self.type = _TYPES[compression]
        if not self.size:
            raise NotFoundError(f"the sample of tensor {name!r} in row {row} is empty")

    def read(self, start: int, stop: int) -> bytes:
        """Return a part of the file."""
        if self._linked is not None:
            self.size = len(self._linked)
            return bytes(self._linked[start : min(stop, self.size)])
        part, self.size = self._reader.stored_part(self._row, start, stop)
        return bytes(part)


def ranged(header: str | None, size: int) -> tuple[int, int] | None:
    """Return the part that a Range header requests, cut to one piece; None for the whole.

    Raises
    ------
    IndexError
        If the file does not contain the requested part.
    """
    if header is None:
        return None
    found = re.fullmatch(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", header)
    if found is None or not (found[1] or found[2]):
        if header.strip().startswith("bytes") and "," not in header:
            raise IndexError(header)
        return None  # answer with the whole file if several parts, or other units, are requested
    if not found[1]:
        start, stop = max(0, size - int(found[2])), size
    else:
        start, stop = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    if start >= size or stop <= start:
        raise IndexError(header)
    return start, min(stop, start + _PART)


def pieces(file: File) -> Any:
    """Yield the requested part of a file in pieces."""
    for start in range(0, file.size, _PART):
        yield file.read(start, start + _PART)


def _stored(found: Found, *htypes: str) -> tuple[Opened, str, int]:
    """Return the version, tensor and row of a video or a sound; raise an error for other values."""
    if isinstance(found, np.ndarray):
        raise InvalidInputError("a column that a query computes is not video or sound")
    opened, name, row = found
    tensor = opened.tensor(name)
    if tensor.base_htype not in htypes or tensor.is_sequence:
        raise InvalidInputError(f"tensor {name!r} holds no {' or '.join(htypes)}")
    opened.sample(name, row)
    return found


def frame_rate(found: Found) -> float | None:
    """Return the frames per second of a video; None if they are not recorded."""
    opened, name, row = _stored(found, "video", "audio")
    facts = opened.sample(name, row).sample_info
    rate = facts.get("fps") if isinstance(facts, dict) else None
    return float(rate) if isinstance(rate, int | float) and 0 < rate < 1e6 else None


def sound(found: Found) -> dict[str, Any]:
    """Return peaks and spectrogram of an audio sample, as `Sound` of types.ts."""
    opened, name, row = _stored(found, "audio")
    sample = opened.sample(name, row)
    shape = shape_of(sample)
    if int(np.prod(shape)) > _MOST_NUMBERS:
        raise LimitError("this sound is too long to be shown as a picture")
    values = np.nan_to_num(np.asarray(sample.numpy(), np.float32)).reshape(shape[0], -1)
    facts = sample.sample_info
    rate = int(facts.get("sample_rate") or 0) if isinstance(facts, dict) else 0
    if rate <= 0:
        raise InvalidInputError(f"the sample rate of tensor {name!r}, row {row} is not recorded")
    mono = values.mean(axis=1) if values.size else np.zeros(0, np.float32)
    loudest = float(np.abs(mono).max(initial=0.0))
    mono = mono / next((full for full in _FULL if loudest <= full), loudest)
    return {
        "rate": rate,
        "channels": values.shape[1],
        "seconds": len(mono) / rate,
        "peaks": _peaks(mono),
        "spectrogram": _spectrogram(mono),
    }


def _peaks(mono: NDArray[np.float32]) -> list[list[float]]:
    if not len(mono):
        return []
    starts = np.unique(np.linspace(0, len(mono), min(_SPANS, len(mono)), endpoint=False).astype(np.int64))
    low, high = np.minimum.reduceat(mono, starts), np.maximum.reduceat(mono, starts)
    return np.clip(np.stack([low, high], axis=1), -1, 1).astype(np.float64).round(4).tolist()  # type: ignore[no-any-return]


def _spectrogram(mono: NDArray[np.float32]) -> dict[str, Any] | None:
    """Return loudness by time and pitch, in windows that are adjacent, or spaced apart in a long sound."""
    if len(mono) < _WINDOW:
        return None
    count = min(_COLUMNS, len(mono) // (_WINDOW // 2))
    starts = np.linspace(0, len(mono) - _WINDOW, count).astype(np.int64)
    windows = mono[starts[:, np.newaxis] + np.arange(_WINDOW)] * np.hanning(_WINDOW)
    power = np.abs(np.fft.rfft(windows, axis=1))[:, : 2 * _BANDS].reshape(count, _BANDS, 2).max(axis=2)
    loud = 20 * np.log10(np.maximum(power / (_WINDOW / 4), 1e-5))  # limited to -100 to 0 dB
    pixels = np.clip((loud + 100) * 2.55, 0, 255).astype(np.uint8).T
    return {"width": count, "height": _BANDS, "data": base64.b64encode(pixels.tobytes()).decode()}
