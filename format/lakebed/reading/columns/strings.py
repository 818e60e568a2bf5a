"""Texts and documents of many rows as bytes and offsets, without a Python object per row; decoded on access."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import FormatError
from lakebed.htypes.documents import decode_document
from lakebed.htypes.text import decode_text

Item = TypeVar("Item")


class Encoded(Sequence[Item | None]):
    """A read-only sequence of encoded values (None if a row is null); slices share the bytes.

    Parameters
    ----------
    data
        Bytes of all values.
    offsets
        Start of each value in ``data`` and the end of the last: int64, shape (count + 1,).
    nulls
        True where the row is null: bool, shape (count,); None if no row is null.
    """

    __slots__ = ("data", "nulls", "offsets")

    def __init__(
        self, data: memoryview, offsets: NDArray[np.int64], nulls: NDArray[np.bool_] | None = None
    ) -> None:
        self.data = data
        self.offsets = offsets
        self.nulls = nulls if nulls is not None and nulls.any() else None

    def with_nulls(self, nulls: NDArray[np.bool_] | None) -> Self:
        """Return the same values with null rows."""
        return self if nulls is None else type(self)(self.data, self.offsets, nulls)

    def cut(self, start: int, stop: int) -> Self:
        """Return values ``start`` to ``stop`` (exclusive); they share the bytes."""
        nulls = None if self.nulls is None else self.nulls[start:stop]
        return type(self)(self.data, self.offsets[start : stop + 1], nulls)

    @abstractmethod
    def _decode(self, data: memoryview) -> Item:
        """Return the value of the bytes of one item."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, item: int) -> Item | None: ...
    @overload
    def __getitem__(self, item: slice) -> Self | list[Item | None]: ...
    def __getitem__(self, item: int | slice) -> Item | Self | list[Item | None] | None:
        if isinstance(item, slice):
            start, stop, step = item.indices(len(self))
            if step != 1:
                return [self[i] for i in range(start, stop, step)]
            return self.cut(start, max(start, stop))
        at = range(len(self))[item]
        if self.nulls is not None and self.nulls[at]:
            return None
        return self._decode(self.data[int(self.offsets[at]) : int(self.offsets[at + 1])])

    def __iter__(self) -> Iterator[Item | None]:
        return iter(self.to_list())

    def to_list(self) -> list[Item | None]:
        """Decode all values."""
        return [self[i] for i in range(len(self))]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = np.empty(len(self), dtype=object)
        array[:] = self.to_list()
        return array if dtype is None else array.astype(dtype)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Encoded | list | tuple):
            return self.to_list() == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash either

    def __repr__(self) -> str:
        shown = ", ".join(repr(self[i]) for i in range(min(5, len(self))))
        return f"{type(self).__name__}([{shown}{', ...' if len(self) > 5 else ''}], count={len(self)})"


class Strings(Encoded[str]):
    """Strings of many rows.

    Examples
    --------
    >>> names = Strings(memoryview(b"annbob"), np.array([0, 3, 6]))
    >>> names[1], list(names), names == ["ann", "bob"]
    ('bob', ['ann', 'bob'], True)
    """

    __slots__ = ()

    def _decode(self, data: memoryview) -> str:
        return decode_text(data)

    def to_list(self) -> list[str | None]:
        """Decode all strings; several times faster than one by one when all are ASCII."""
        bounds = self.offsets.tolist()
        first = bounds[0]
        raw = bytes(self.data[first : bounds[-1]])
        result: list[str | None]
        if raw.isascii():
            text = raw.decode("ascii")
            result = [text[a - first : b - first] for a, b in pairwise(bounds)]
        else:
            try:
                result = [raw[a - first : b - first].decode() for a, b in pairwise(bounds)]
            except UnicodeDecodeError as error:
                raise FormatError(f"a text sample is not UTF-8: {error.reason}") from error
        if self.nulls is not None:
            for i in np.flatnonzero(self.nulls).tolist():
                result[i] = None
        return result


class Documents(Encoded[Any]):
    """JSON values of many rows; an empty sample of the 3.x writer is ``{}``.

    Examples
    --------
    >>> Documents(memoryview(b'{"a": 1}[2]'), np.array([0, 8, 11])).to_list()
    [{'a': 1}, [2]]
    """

    __slots__ = ()

    def _decode(self, data: memoryview) -> Any:
        return decode_document(data) if len(data) else {}


class Lists(Encoded[list[Any]]):
    """Lists of many rows."""

    __slots__ = ()

    def _decode(self, data: memoryview) -> list[Any]:
        values: list[Any] = decode_document(data) if len(data) else []
        return values


Column = TypeVar("Column", bound=Encoded[Any])


def join(parts: Sequence[Column], take: Callable[[int], NDArray[np.uint8]]) -> Column:
    """Join several runs of values without nulls; ``take`` supplies a buffer of a given size."""
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
    return type(parts[0])(data.data, offsets)
