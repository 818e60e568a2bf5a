"""One sample as a line of text: ``jpeg 480x640x3, 120 kB``, ``bool 422x640x6``, ``person, dog``, a date, a text.

Only shown values are decoded, and links are not followed. A damaged sample affects only its cell.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

import lakebed
from lakebed.errors import FormatError
from lakebed.runtime.printable import printable
from lakebed.storage.address import shown

_FEW = 8
"""Maximum number of values that are shown one by one."""

_NO_FILES = (None, "lz4")
_WITHOUT_SIZE = ("video",)
"""Htypes whose files are too large to read only for their length."""


class Damage:
    """Damaged samples of a dataset.

    Attributes
    ----------
    reasons : list of str
        Tensor, row and error of each damaged sample.
    """

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def note(self, name: str, row: int, error: FormatError) -> str:
        """Record a damaged sample, and return the error without its place."""
        place = f"tensor {name!r}, row {row}: "
        why = str(error).removeprefix(place)
        self.reasons.append(place + why)
        return why


def cell(tensor: lakebed.Tensor, name: str, row: int, widest: int, damage: Damage) -> str:
    """Return a sample as a line of at most ``widest`` characters; a damaged one is recorded, and its error returned."""
    try:
        text = printable(_text(tensor[row]))
    except FormatError as error:
        text = printable(f"damaged: {damage.note(name, row, error)}")
    return text if len(text) <= widest else text[: widest - 1] + "…"


def _text(sample: lakebed.Tensor) -> str:
    nulls = sample.null_mask()
    if nulls is not None and bool(np.asarray(nulls).any()):
        return ""
    if sample.is_link:
        return _address(sample)
    if sample.is_sequence:
        count = len(sample.data(aslist=True)["value"]) if _is_small(sample) else sample.shape[0]
        return f"{count} item{'s' if count != 1 else ''}"
    if sample.meta.sample_compression not in _NO_FILES:
        return _file(sample)
    if _is_large(sample):
        return f"{sample.dtype} {_times(sample.shape)}"
    found = sample.data()
    return _value(found["text"] if found.get("text") else found["value"])


def _is_small(sample: lakebed.Tensor) -> bool:
    return sample.htype in ("sequence[text]", "sequence[json]", "sequence[list]")


def _is_large(sample: lakebed.Tensor) -> bool:
    """Return whether a sample is an array of too many numbers to show."""
    if sample.htype in ("text", "json", "list", "tag", "polygon"):
        return False
    return int(np.prod([axis or 0 for axis in sample.shape])) > _FEW


def _address(sample: lakebed.Tensor) -> str:
    found = sample.path()
    paths = list(np.asarray(found, dtype=object).reshape(-1))
    return ", ".join(shown(str(path)) for path in paths if path)


def _file(sample: lakebed.Tensor) -> str:
    if 0 in sample.shape:
        return ""
    text = f"{sample.meta.sample_compression} {_times(sample.shape)}"
    if sample.htype in _WITHOUT_SIZE:
        return text
    try:
        return f"{text}, {size(len(sample.tobytes()))}"
    except NotImplementedError:  # a tiled sample is not a single file
        return text


def _times(shape: Sequence[int | None]) -> str:
    return "x".join("?" if axis is None else str(axis) for axis in shape)


def _value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if value.shape == (1,):
            return str(value.item())
        return "" if not value.size else str(value.tolist())
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if isinstance(value, list | tuple) and any(isinstance(one, np.ndarray) for one in value):
        return f"{len(value)} polygon{'s' if len(value) != 1 else ''}"
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def size(count: int) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> size(999), size(119_800), size(4_000_000_000)
    ('999 B', '120 kB', '4.0 GB')
    """
    value, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.1f} {units[0]}" if value < 10 and units[0] != "B" else f"{value:.0f} {units[0]}"
