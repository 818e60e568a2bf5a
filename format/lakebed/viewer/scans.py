"""Scans: the slices of a file, and the initial window of values.

    file       slice n                              window
    DICOM      frame n                              WindowCenter and WindowWidth, in the values that are stored
    NIfTI      n along the third axis; if there are  cal_min and cal_max
               more axes, one volume after another

If a file records no window, the window is the range from the 1st to the 99th percentile of the middle slice. The window
is the same for all slices, so that their brightness can be compared. In MONOCHROME1, larger values are darker.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.viewer.lake import Opened

HTYPES = ("dicom", "nifti")
_MOST_KEPT = 1 << 29
_ENOUGH = 1 << 20  # number of values from which percentiles are estimated
_lock = threading.Lock()

Window = tuple[float, float]
"""The values for black and for white; the larger value comes first if large values are dark."""


def read(opened: Opened, name: str, row: int, frame: int) -> tuple[NDArray[Any], Window | None]:
    """Return all values of a scan, and its initial window; None if values are shown unchanged.

    The last scan is cached, because a file is decoded as a whole but requested slice by slice.
    """
    tensor = opened.tensor(name)
    key = name, row, frame if tensor.is_sequence else 0
    with _lock:
        kept: tuple[Any, NDArray[Any], Window | None] = opened.kept.get("scan", ((), None, None))
        if kept[0] != key:
            sample = opened.sample(name, row, frame)
            values = np.asarray(sample.numpy())
            kept = key, values, window(values, tensor.base_htype, sample.sample_info) if values.size else None
            if values.nbytes <= _MOST_KEPT:
                opened.kept["scan"] = kept
        return kept[1:]


def slices(shape: tuple[int, ...], htype: str | None, dtype: np.dtype[Any]) -> int:
    """Return the number of slices of a scan."""
    return math.prod(_deep(shape, dtype)) if htype == "nifti" else math.prod(shape[:-3])


def one(scan: NDArray[Any], htype: str | None, at: int) -> NDArray[Any]:
    """Return a slice: shape (height, width), or (height, width, channels) in colour."""
    if htype == "nifti":
        place: Any = np.unravel_index(at, _deep(scan.shape, scan.dtype), order="F")
        found: NDArray[Any] = scan[(slice(None), slice(None), *place)]
        return found
    return scan[at] if scan.ndim == 4 else scan


def _deep(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    is_colour = len(shape) == 4 and dtype == np.uint8 and shape[3] in (3, 4)
    return shape[2:3] if is_colour else shape[2:]


def window(scan: NDArray[Any], htype: str | None, facts: Any) -> Window | None:
    """Return the window that a file records, else the computed one; None for colours."""
    count = slices(scan.shape, htype, scan.dtype)
    middle = one(scan, htype, count // 2)
    if middle.ndim == 3 and middle.shape[2] > 1:
        return None
    facts = facts if isinstance(facts, dict) else {}
    is_dark = _plain(facts, "PhotometricInterpretation") == "MONOCHROME1"
    found = _recorded(facts) or ((0.0, 255.0) if scan.dtype == np.uint8 else _percentiles(middle))
    return found[::-1] if is_dark else found


def _recorded(facts: dict[str, Any]) -> Window | None:
    low, high = _number(facts, "cal_min"), _number(facts, "cal_max")
    if low is not None and high is not None and high > low:
        return low, high
    centre, width = _number(facts, "WindowCenter"), _number(facts, "WindowWidth")
    slope, shift = _number(facts, "RescaleSlope") or 1.0, _number(facts, "RescaleIntercept") or 0.0
    if centre is None or width is None or width < 1:
        return None
    low = (centre - 0.5 - (width - 1) / 2 - shift) / slope  # DICOM PS3.3, C.11.2.1.2.1
    return low, low + max(width - 1, 1.0) / slope


def _percentiles(middle: NDArray[Any]) -> Window:
    numbers = middle.reshape(-1)[:: -(-middle.size // _ENOUGH)].astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return 0.0, 1.0
    low, high = np.percentile(numbers, (1, 99)).tolist()
    if middle.dtype.kind != "f":
        low, high = math.floor(low), math.ceil(high)
    if low == high:  # nearly all values are equal
        low, high = float(numbers.min()), float(numbers.max())
    return low, high if high > low else low + 1


def _plain(facts: dict[str, Any], name: str) -> Any:
    found = facts.get(name)
    # DICOM fields are stored with name, tag, type and value: take the value.
    found = found.get("value") if isinstance(found, dict) else found
    return found[0] if isinstance(found, list) and found else found


def _number(facts: dict[str, Any], name: str) -> float | None:
    try:
        found = float(_plain(facts, name))
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None
