"""Rows that come one at a time: those that surely fit wait as they are and are encoded many at once.

Encoding a row costs the same as encoding a hundred of them, so ``append`` in a loop is as fast as ``extend``. A row is
taken only if its values need no decision: the right dtype and rank, numbers in range, known labels. All else goes the
long way, where errors are found before the row counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named
from lakebed.versions.state import TensorState

# Rows and bytes that may wait before they are encoded, and the largest sample that may wait.
_MOST_ROWS = 512
_MOST_BYTES = 4_000_000
_LARGEST = 65_536

Take = Callable[[Any], Any]
"""Returns what to keep of a value (a copy of what the caller may change), or None if it needs the long way."""


@dataclass(slots=True)
class Loose:
    """Waiting rows of one group of a dataset."""

    group: str = ""
    columns: dict[str, list[Any]] = field(default_factory=dict)
    count: int = 0
    _keys: Mapping[str, str] = field(default_factory=dict)
    _takes: dict[str, Take] = field(default_factory=dict)
    _nbytes: int = 0

    def prepare(self, group: str, keys: Mapping[str, str], states: Mapping[str, TensorState]) -> None:
        """Get ready for rows that name just these tensors: name in the row -> tensor key."""
        if self._takes and self.group == group and self._keys == keys:
            return
        takes = {name: _take_of(states[key]) for name, key in keys.items()}
        self.group, self._keys = group, dict(keys)
        self._takes = {name: take for name, take in takes.items() if take is not None}
        if len(self._takes) < len(takes) or len({states[k].length for k in keys.values()}) > 1:
            self._takes = {}

    def forget(self) -> None:
        """Take no more rows until prepared again."""
        self._takes = {}

    def offer(self, group: str, row: Mapping[str, Any]) -> bool:
        """Keep a row if it surely fits; tell whether it was kept."""
        takes = self._takes
        if len(row) != len(takes) or not takes or group != self.group:
            return False
        kept = []
        for name, take in takes.items():
            value = take(row.get(name))
            if value is None:
                return False
            kept.append(value)
        columns = self.columns
        for name, value in zip(takes, kept, strict=True):
            if name in columns:
                columns[name].append(value)
            else:
                columns[name] = [value]
            self._nbytes += getattr(value, "nbytes", 64)
        self.count += 1
        return True

    @property
    def is_full(self) -> bool:
        """Whether it is time to encode what waits."""
        return self.count >= _MOST_ROWS or self._nbytes >= _MOST_BYTES

    def drain(self) -> dict[str, list[Any]]:
        """Return the waiting values by tensor key, and start anew."""
        found = {self._keys[name]: values for name, values in self.columns.items()}
        self.columns, self.count, self._nbytes = {}, 0, 0
        return found


def _take_of(state: TensorState) -> Take | None:
    """Return the check for values of a tensor; None if each needs the long way."""
    meta = state.meta
    if meta.htype is None or meta.is_sequence or meta.is_link or meta.sample_compression:
        return None
    if meta.chunk_compression not in (None, "lz4"):
        return None
    htype = htype_named(meta.htype)
    if htype.storing is Storing.TEXT:
        return _take_text
    # Shapes of images and the like may be adjusted, and large samples tiled: those go the long way.
    if htype.storing is not Storing.ARRAY or meta.dtype is None or not meta.max_shape:
        return None
    if htype.name.startswith("image") or meta.tiling_threshold is not None:
        return None
    try:
        dtype = np.dtype(meta.dtype)
    except TypeError:
        return None
    if dtype.kind not in "biuf":
        return None
    names = frozenset(state.info.get("class_names", ())) if htype.name == "class_label" else frozenset()
    return _Numbers(dtype, len(meta.max_shape), names)


def _take_text(value: Any) -> Any:
    if type(value) is not str or len(value) > _LARGEST:
        return None
    return value if value.isascii() else None


class _Numbers:
    """Arrays of one dtype and rank; plain numbers in range where the rank is 1; labels that are known."""

    __slots__ = ("_dtype", "_high", "_kind", "_low", "_names", "_ndim")

    def __init__(self, dtype: np.dtype[Any], ndim: int, names: frozenset[str]) -> None:
        self._dtype, self._ndim, self._names = dtype, ndim, names
        self._kind = {"b": bool, "f": float}.get(dtype.kind, int)
        self._low: float = 0
        self._high: float = 0
        if dtype.kind in "iu":
            self._low, self._high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        elif dtype.kind == "f":
            self._low, self._high = float(np.finfo(dtype).min), float(np.finfo(dtype).max)

    def __call__(self, value: Any) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            fits = value.dtype == self._dtype and value.ndim == self._ndim and value.nbytes <= _LARGEST
            return value.copy() if fits else None
        if self._ndim != 1:
            return None
        if isinstance(value, np.generic) and value.dtype == self._dtype:
            return value.item()
        if kind is self._kind:
            return value if kind is bool or self._low <= value <= self._high else None
        return value if kind is str and value in self._names else None
