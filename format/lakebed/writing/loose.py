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

from lakebed.documents.tensor_meta import TensorMeta
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named
from lakebed.versions.state import TensorState

# Values and bytes that may wait before they are encoded, and the largest sample that may wait.
_MOST_VALUES = 2048
_MOST_BYTES = 4_000_000
_LARGEST = 65_536

Take = Callable[[Any], Any]
"""Returns what to keep of a value (a copy of what the caller may change), or None if it needs the long way."""


@dataclass(frozen=True, slots=True)
class _Gate:
    """The check for values of a tensor, and what it was made from: it holds as long as that stays."""

    take: Take
    meta: TensorMeta

    def fits(self, state: TensorState) -> bool:
        """Whether the tensor still is what the check was made for."""
        meta, mine = state.meta, self.meta
        return (
            meta.dtype == mine.dtype
            and meta.htype == mine.htype
            and len(meta.max_shape) == len(mine.max_shape)
        )


@dataclass(slots=True)
class Loose:
    """Waiting values by tensor key."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    count: int = 0
    _gates: dict[str, _Gate | None] = field(default_factory=dict)
    _rows: dict[tuple[str, frozenset[str]], Mapping[str, str]] = field(default_factory=dict)
    _nbytes: int = 0

    def prepare(self, state: TensorState) -> None:
        """Get ready for values of a tensor."""
        gate = self._gates.get(state.key)
        if gate is None or not gate.fits(state):
            take = _take_of(state)
            self._gates[state.key] = None if take is None else _Gate(take, state.meta)

    def prepare_rows(self, group: str, keys: Mapping[str, str]) -> None:
        """Get ready for rows of a group that name just these tensors: name in the row -> tensor key."""
        self._rows[group, frozenset(keys)] = dict(keys)

    def forget(self) -> None:
        """Take nothing more until prepared again, as after a change of the schema."""
        self._gates, self._rows = {}, {}

    def offer(self, key: str, value: Any, states: Mapping[str, TensorState]) -> bool:
        """Keep a value of one tensor if it surely fits; tell whether it was kept."""
        kept = self._kept(key, value, states)
        if kept is None:
            return False
        self._put(key, kept)
        return True

    def offer_row(self, group: str, row: Mapping[str, Any], states: Mapping[str, TensorState]) -> bool:
        """Keep a row if all of it surely fits and the tensors are of one length; tell whether it was kept."""
        keys = self._rows.get((group, frozenset(row)))
        if not keys:
            return False
        values = []
        lengths = set()
        for name, key in keys.items():
            kept = self._kept(key, row[name], states)
            if kept is None:
                return False
            values.append((key, kept))
            lengths.add(states[key].meta.length + len(self.columns.get(key, ())))
        if len(lengths) > 1:
            return False
        for key, kept in values:
            self._put(key, kept)
        return True

    def _kept(self, key: str, value: Any, states: Mapping[str, TensorState]) -> Any:
        gate = self._gates.get(key)
        if gate is None or key not in states or not gate.fits(states[key]):
            return None
        return gate.take(value)

    def _put(self, key: str, value: Any) -> None:
        column = self.columns.get(key)
        if column is None:
            self.columns[key] = [value]
        else:
            column.append(value)
        self.count += 1
        self._nbytes += getattr(value, "nbytes", 64)

    @property
    def is_full(self) -> bool:
        """Whether it is time to encode what waits."""
        return self.count >= _MOST_VALUES or self._nbytes >= _MOST_BYTES

    def drain(self) -> dict[str, list[Any]]:
        """Return the waiting values by tensor key, and start anew."""
        found, self.columns = self.columns, {}
        self.count = self._nbytes = 0
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
