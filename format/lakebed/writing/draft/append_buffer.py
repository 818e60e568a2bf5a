"""Buffer of rows that are appended one at a time: rows that certainly fit wait here and are encoded together.

Encoding a row costs the same as encoding a hundred of them, so ``append`` in a loop is as fast as ``extend``. A row is
taken only if its values need no decision: the right dtype and rank, numbers in range, known labels, pictures that are
stored as unchanged files. Every other row is encoded at once, so that errors are found before the row is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.registry import BYTE_NAMES, normalize
from lakebed.codecs.sample import Sample
from lakebed.codecs.traits import TRAITS, HeaderScan, is_plain
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import LakebedError
from lakebed.htypes.arrays import as_sample
from lakebed.htypes.base import Storing
from lakebed.htypes.class_label import STRICT
from lakebed.htypes.documents import Written, written
from lakebed.htypes.registry import htype_named
from lakebed.native import headers
from lakebed.versions.state import TensorState
from lakebed.writing.draft.tensor import TensorDraft
from lakebed.writing.early_chunks import Begin, EarlyChunk, EarlyChunks, EarlySample
from lakebed.writing.encode.rows import row_length
from lakebed.writing.encode.spec import TensorSpec

# Limits of the number and of the total bytes of waiting values, and of the size of a single value. They are small
# enough for the values to be in the processor's cache when they are packed.
_MOST_VALUES = 2048
_MOST_BYTES = 8_000_000
_LARGEST = 65_536
_LARGEST_ARRAY = 4_000_000
_OBJECT = 64

Check = Callable[[Any, TensorDraft], Any]
"""Function of a value and its tensor that returns what to keep (a copy if the caller may change the value).

It returns None if the value must be encoded at once.
"""


class _None:
    """Marker for a missing value; None from a check means that the value is not kept."""


_NONE = _None()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Values of one tensor that wait to be encoded.

    Parameters
    ----------
    values
        The values.
    early
        Early chunk files with the first of the values, in order.
    """

    values: list[Any]
    early: Sequence[EarlyChunk] = ()


@dataclass(frozen=True, slots=True)
class _FastCheck:
    """The metadata of a tensor, and the check of its values that was made for this metadata, or None."""

    check: Check | None
    meta: TensorMeta
    info: Mapping[str, Any]
    takes_none: bool

    def fits(self, state: TensorState) -> bool:
        """Return whether the check still holds for the tensor."""
        meta, mine = state.meta, self.meta
        return (
            meta.dtype == mine.dtype
            and meta.htype == mine.htype
            and len(meta.max_shape) == len(mine.max_shape)
            and state.info is self.info
        )


Row = tuple[tuple[str, ...], tuple[Any, ...]]
"""Tensor keys, and a value for each."""


@dataclass(slots=True)
class AppendBuffer:
    """Waiting values: whole rows, or values of single tensors, in the order in which they came.

    A row belongs to the draft as soon as it is in the list; adding it is one step that no interrupt can divide. Forks
    share the checks, so a fork replaces them as a whole instead of changing them.
    """

    begin: Begin | None = None
    rows: list[Row] = field(default_factory=list)
    _checks: Mapping[str, _FastCheck] = field(default_factory=dict)
    _names: Mapping[tuple[str, frozenset[str]], Mapping[str, str]] = field(default_factory=dict)
    _early: Mapping[str, EarlyChunks] = field(default_factory=dict)
    _values: int = 0
    _nbytes: int = 0
    _even: tuple[tuple[str, ...], int] = ((), 0)

    def fork(self) -> AppendBuffer:
        """Return an independent copy."""
        return replace(self, rows=self.rows.copy())

    def prepare(self, state: TensorState, *, takes_none: bool) -> None:
        """Prepare for values of a tensor; with ``takes_none``, values may be None because nulls can be recorded."""
        check = self._checks.get(state.key)
        if (
            check is None
            or not check.fits(state)
            or check.takes_none != takes_none
            or check.meta.max_shape <= (1,) < state.meta.max_shape
        ):
            early = None if self.begin is None else EarlyChunks(self.begin)
            found = _check_for(state, early)
            if early is not None and type(found) is _Numbers:
                self._early = {**self._early, state.key: early}
            made = _FastCheck(found, state.meta, state.info, takes_none)
            self._checks = {**self._checks, state.key: made}

    def prepare_rows(self, group: str, keys: Mapping[str, str]) -> None:
        """Prepare for rows of a group with exactly these tensors: name in the row -> tensor key."""
        place = group, frozenset(keys)
        if self._names.get(place) != keys:
            self._names = {**self._names, place: dict(keys)}

    def forget_checks(self) -> None:
        """Accept no more rows until they are prepared for again, as after a change of the schema."""
        self._checks, self._names = {}, {}

    def try_append(self, key: str, value: Any, tensors: Mapping[str, TensorDraft]) -> bool:
        """Keep a value of one tensor if it surely fits; return whether it was kept."""
        kept = self._checked(key, value, tensors)
        if kept is None:
            return False
        self._put((key,), (kept,))
        return True

    def try_append_row(self, group: str, row: Mapping[str, Any], tensors: Mapping[str, TensorDraft]) -> bool:
        """Keep a row if all its values surely fit and the tensors have one length; return whether it was kept."""
        names = self._names.get((group, frozenset(row)))
        if not names:
            return False
        values = []
        for name, key in names.items():
            kept = self._checked(key, row[name], tensors)
            if kept is None:
                return False
            values.append(kept)
        keys = tuple(names.values())
        if self._even != (keys, len(self.rows)) and not self._is_even(keys, tensors):
            return False
        self._put(keys, tuple(values))
        self._even = keys, len(self.rows)
        return True

    def _is_even(self, keys: Iterable[str], tensors: Mapping[str, TensorDraft]) -> bool:
        """Return whether tensors have the same length, waiting values included."""
        waiting = Counter(key for some, _ in self.rows for key in some)
        return len({tensors[key].meta.length + waiting[key] for key in keys}) == 1

    def _checked(self, key: str, value: Any, tensors: Mapping[str, TensorDraft]) -> Any:
        check, tensor = self._checks.get(key), tensors.get(key)
        if check is None or check.check is None or tensor is None or not check.fits(tensor.state):
            return None
        if value is None:
            return _NONE if check.takes_none else None
        return check.check(value, tensor)

    def _put(self, keys: tuple[str, ...], values: tuple[Any, ...]) -> None:
        # Count first: if an interrupt comes here, the count is too high, which does no harm.
        self._values += len(values)
        self._nbytes += sum(map(_held, values))
        self.rows.append((keys, values))

    @property
    def is_full(self) -> bool:
        """Return whether it is time to encode the waiting values."""
        if self._values >= _MOST_VALUES or self._nbytes >= _MOST_BYTES:
            return True
        soon = 2 * self._values >= _MOST_VALUES or 2 * self._nbytes >= _MOST_BYTES
        return any(early.is_due(soon=soon) for early in self._early.values())

    def columns(self) -> dict[str, Waiting]:
        """Return the waiting values by tensor key.

        Raises
        ------
        StorageError
            If some values wait in a file, and the storage fails.
        """
        found: dict[str, list[Any]] = {}
        for keys, run in groupby(self.rows, itemgetter(0)):
            for key, *values in zip(keys, *map(itemgetter(1), run), strict=True):
                found.setdefault(key, []).extend(values)
        return {key: _waiting(values) for key, values in found.items()}

    def clear(self) -> None:
        """Drop the waiting values."""
        self.rows, self._values, self._nbytes, self._even = [], 0, 0, ((), 0)
        for early in self._early.values():
            early.clear()


def _held(value: Any) -> int:
    """Estimate the memory of a waiting value in bytes."""
    kind = type(value)
    if kind is np.ndarray:
        return int(value.nbytes)
    if kind is Sample:
        return int(value.held_bytes) + _OBJECT
    return _OBJECT + (len(value) if kind is str else len(value.text) if kind is Written else 0)


def _waiting(kept: list[Any]) -> Waiting:
    """Return values ready to be encoded: whole early chunks stay in their files, other samples are read back."""
    chunks: list[EarlyChunk] = []
    values: list[Any] = []
    while len(values) < len(kept) and type(kept[len(values)]) is EarlySample:
        chunk = kept[len(values)].chunk
        if not chunk.is_chunk(kept[len(values) : len(values) + chunk.capacity]):
            break
        chunks.append(chunk)
        values += chunk.samples()
    rest = kept[len(values) :]
    kinds = set(map(type, rest))
    if _None in kinds or EarlySample in kinds:
        rest = [
            None if value is _NONE else value.read() if type(value) is EarlySample else value
            for value in rest
        ]
    return Waiting(values + rest if values else rest, chunks)


def _check_for(state: TensorState, early: EarlyChunks | None) -> Check | None:
    """Return the check for values of a tensor; None if all of them must be encoded at once."""
    meta = state.meta
    if meta.htype is None or meta.is_sequence or meta.is_link:
        return None
    if meta.sample_compression and meta.sample_compression not in BYTE_NAMES:
        return _check_for_files(meta)
    if not is_plain(meta.chunk_compression):
        return None
    htype = htype_named(meta.htype)
    if htype.storing is Storing.TEXT:
        return _checked_text
    if htype.storing in (Storing.JSON, Storing.LIST):
        return partial(_checked_document, htype.name, meta.dtype)
    if htype.storing is not Storing.ARRAY or meta.dtype is None or not meta.max_shape:
        return None
    # Values cannot wait if they are converted, padded by an axis, reduced for a companion or stored in images of a
    # chunk; large samples may be tiled.
    spec = TensorSpec(meta)
    if spec.converts or (spec.pads and spec.ndim != 3) or "downsample" in spec.feeds or spec.image_chunks:
        return None
    if meta.tiling_threshold is not None or (htype.name == "embedding" and not row_length(meta)):
        return None
    try:
        dtype = np.dtype(meta.dtype)
    except TypeError:
        return None
    if dtype.kind not in "biuf":
        return None
    names = list(state.info.get("class_names") or ()) if htype.name == "class_label" else []
    if state.info.get(STRICT) and not names:
        return None
    early = early if meta.sample_compression is None and meta.chunk_compression is None else None
    return _Numbers(dtype, len(meta.max_shape), names, early, row_length(meta), spec=spec)


def _check_for_files(meta: TensorMeta) -> Check | None:
    """Return the check for pictures that are stored as unchanged files; None if all of them must be encoded at once."""
    name = normalize(meta.sample_compression)
    spec, scan = TensorSpec(meta), None if name is None else TRAITS[name].header_scan
    if (
        name is None
        or scan is None
        or meta.tiling_threshold is not None
        or spec.ndim != 3
        or spec.dtype != np.uint8
    ):
        return None
    # Pictures of other htypes are converted, and those with a downsample companion are resized: both must be encoded
    # now.
    if spec.htype.name != "image" or "downsample" in spec.feeds:
        return None
    return partial(_checked_file, name, scan)


def _checked_file(name: str, scan: HeaderScan, value: Any, _: TensorDraft) -> Any:
    """Keep a file whose header has all facts; read the file now, because the file may change later."""
    if type(value) is not Sample or not value.is_lazy:
        return None
    try:
        data, kind = value.buffer, value.compression
    except (LakebedError, OSError):
        return None  # the general path raises the same error with the name of the tensor
    if kind != name or type(data) is not bytes or not 0 < len(data) <= _LARGEST_ARRAY:
        return None
    shapes, flags = scan(np.frombuffer(data, np.uint8), np.array([0, len(data)], np.int64))
    if flags[0] & headers.EXIF or not flags[0] & headers.PLAIN or shapes[0, 2] != 3:
        return None
    return value.copy()


def _checked_text(value: Any, _: TensorDraft) -> Any:
    if type(value) is not str or len(value) > _LARGEST:
        return None
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
    return value


def _checked_document(htype: str, dtype: str | None, value: Any, _: TensorDraft) -> Any:
    """Keep a document as text, because the caller may change its parts."""
    if type(value) not in (dict, list, str, int, float, bool):
        return None
    try:
        found = written(value, htype, dtype)
    except (LakebedError, ValueError, RecursionError):
        return None  # the general path raises the same error with the name of the tensor
    return found if len(found.text) <= _LARGEST else None


class _Numbers:
    """Check for arrays of one dtype and rank, for single numbers in range, and for known labels.

    Lists and arrays of other dtypes are converted as the encoder converts them, and kept if they then fit. Values that
    cause a warning are encoded at once: labels without a name, boxes without four numbers, vectors of another length.
    """

    __slots__ = (
        "_by_value",
        "_classes",
        "_dtype",
        "_early",
        "_fewest",
        "_high",
        "_kind",
        "_length",
        "_low",
        "_names",
        "_ndim",
        "_pads",
    )

    def __init__(
        self,
        dtype: np.dtype[Any],
        ndim: int,
        names: list[str],
        early: EarlyChunks | None,
        length: int,
        *,
        spec: TensorSpec,
    ) -> None:
        self._early = early
        self._dtype, self._ndim = dtype, ndim
        self._names = {name: number for number, name in enumerate(names)}
        self._classes, self._length = len(names), length
        # Whether values of other dtypes are converted if they fit; None for labels, because a number may have no name.
        self._by_value, self._pads = None if names else spec.by_value, spec.pads
        # Minimum number of items: among single numbers, an empty sample would mean a null (see `keep_absent`).
        self._fewest = 1 if spec.meta.max_shape <= (1,) else 0
        self._kind = {"b": bool, "f": float}.get(dtype.kind, int)
        self._low: float = 0
        self._high: float = 0
        if dtype.kind in "iu":
            self._low, self._high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
            if names:
                self._high = min(self._high, len(names) - 1)
        elif dtype.kind == "f":
            self._low, self._high = float(np.finfo(dtype).min), float(np.finfo(dtype).max)

    def __call__(self, value: Any, tensor: TensorDraft) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            if self._pads and value.ndim == 2:
                value = value[..., np.newaxis]
            fits = value.dtype == self._dtype and value.ndim == self._ndim
            fits = fits and self._fewest <= value.size and value.nbytes <= _LARGEST_ARRAY
            if fits and self._classes:
                fits = not value.size or int(value.max()) < self._classes
            if fits and self._length:
                fits = value.shape[-1] in (0, self._length)
            return self._copied(value, tensor) if fits else self._converted(value)
        if kind is list:
            return self._labels(value) if self._classes else self._converted(value) if value else None
        if self._ndim != 1:
            return None
        if isinstance(value, np.generic) and value.dtype == self._dtype:
            number = value.item()
            return number if not self._classes or number < self._classes else None
        if kind is self._kind:
            return value if kind is bool or self._low <= value <= self._high else None
        if kind in (int, float) or isinstance(value, np.generic):
            found = self._converted(value)
            return None if found is None else found.item()
        return value if kind is str and value in self._names else None

    def _labels(self, value: list[Any]) -> NDArray[Any] | None:
        """Return class names as their numbers; None if one is unknown, or the list holds other values."""
        if self._ndim != 1 or set(map(type, value)) != {str} or not self._names.keys() >= set(value):
            return None
        return np.array([self._names[name] for name in value], self._dtype)

    def _converted(self, value: Any) -> NDArray[Any] | None:
        """Convert a value as encoding at once does; None if that fails, or does more than convert."""
        if self._by_value is None:
            return None
        try:
            found = as_sample(value, self._dtype, by_value=self._by_value)
        except (LakebedError, ValueError, TypeError, OverflowError):
            return None
        if self._pads and found.ndim == 2:
            found = found[..., np.newaxis]
        if found.ndim != self._ndim or found.dtype != self._dtype:
            return None
        if not self._fewest <= found.size or found.nbytes > _LARGEST:
            return None
        if self._length and found.shape[-1] not in (0, self._length):
            return None
        return found.copy() if type(value) is np.ndarray and value.dtype == self._dtype else found

    def _copied(self, value: NDArray[Any], tensor: TensorDraft) -> NDArray[Any] | EarlySample:
        if value.nbytes > _LARGEST and self._early is not None and value.flags.c_contiguous:
            kept = self._early.take(value, tensor)
            if kept is not None:
                return kept
        return value.copy()
