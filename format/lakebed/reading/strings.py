"""Text of many rows without a Python object per row: bytes and offsets, decoded when an item is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray


class Strings(Sequence[str | None]):
    """A read-only sequence of strings (None where a row is null).

    Parameters
    ----------
    data
        UTF-8 bytes of all strings.
    offsets
        Start of each string in ``data`` and the end of the last: int64, shape (count + 1,).
    nulls
        True where the row is null: bool, shape (count,); None when no row is.

    Examples
    --------
    >>> names = Strings(memoryview(b"annbob"), np.array([0, 3, 6]))
    >>> names[1], list(names), names == ["ann", "bob"]
    ('bob', ['ann', 'bob'], True)
    """

    __slots__ = ("data", "nulls", "offsets")

    def __init__(
        self, data: memoryview, offsets: NDArray[np.int64], nulls: NDArray[np.bool_] | None = None
    ) -> None:
        self.data = data
        self.offsets = offsets
        self.nulls = nulls if nulls is not None and nulls.any() else None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, item: int) -> str | None: ...
    @overload
    def __getitem__(self, item: slice) -> Strings: ...
    def __getitem__(self, item: int | slice) -> str | Strings | None:
        if isinstance(item, slice):
            start, stop, step = item.indices(len(self))
            if step != 1:
                return _of_list([self[i] for i in range(start, stop, step)])
            stop = max(start, stop)
            return Strings(
                self.data,
                self.offsets[start : stop + 1],
                None if self.nulls is None else self.nulls[start:stop],
            )
        at = range(len(self))[item]
        if self.nulls is not None and self.nulls[at]:
            return None
        return str(self.data[int(self.offsets[at]) : int(self.offsets[at + 1])], "utf-8")

    def __iter__(self) -> Iterator[str | None]:
        return iter(self.to_list())

    def to_list(self) -> list[str | None]:
        """Decode all strings."""
        bounds = self.offsets.tolist()
        first = bounds[0]
        raw = bytes(self.data[first : bounds[-1]])
        if raw.isascii():
            text = raw.decode("ascii")
            result: list[str | None] = [
                text[a - first : b - first] for a, b in pairwise(bounds)
            ]
        else:
            result = [raw[a - first : b - first].decode() for a, b in pairwise(bounds)]
        if self.nulls is not None:
            for i in np.flatnonzero(self.nulls).tolist():
                result[i] = None
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.to_list(), dtype=object if dtype is None else dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Strings | list | tuple):
            return self.to_list() == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash either

    def __repr__(self) -> str:
        shown = ", ".join(repr(s) for s in self[:5].to_list())
        return f"Strings([{shown}{', ...' if len(self) > 5 else ''}], count={len(self)})"


def _of_list(values: list[str | None]) -> Strings:
    parts = [b"" if v is None else v.encode() for v in values]
    offsets = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(p) for p in parts], out=offsets[1:])
    return Strings(
        memoryview(b"".join(parts)), offsets, np.array([v is None for v in values], dtype=np.bool_)
    )


def join(parts: Sequence[Strings], take: Callable[[int], NDArray[np.uint8]]) -> Strings:
    """Put several runs of strings into one; ``take`` supplies buffers of a number of bytes."""
    if len(parts) == 1:
        return parts[0]
    spans = [(int(p.offsets[0]), int(p.offsets[-1])) for p in parts]
    data = take(sum(b - a for a, b in spans))
    offsets = take(8 * (sum(len(p) for p in parts) + 1)).view(np.int64)
    offsets[0] = at = row = 0
    for part, (start, stop) in zip(parts, spans, strict=True):
        data[at : at + stop - start] = np.frombuffer(part.data[start:stop], np.uint8)
        np.add(part.offsets[1:], at - start, out=offsets[row + 1 : row + 1 + len(part)])
        at += stop - start
        row += len(part)
    nulls = np.concatenate([np.zeros(len(p), np.bool_) if p.nulls is None else p.nulls for p in parts])
    return Strings(data.data, offsets, nulls)
