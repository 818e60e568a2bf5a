"""The input of a transform: its items, cut into pieces that are sent to workers.

Workers read rows of a dataset themselves. A piece of a list or an array contains its items. An object with ``len`` and
``[i]`` is sent to each worker once, and the worker reads items from it. The driver iterates over other iterables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any

import numpy as np

from lakebed.errors import InvalidInputDataError
from lakebed.session.columns import Batches
from lakebed.session.handle import Handle
from lakebed.session.row_values import moments_of, words_of
from lakebed.session.table import HasTable, Table
from lakebed.storage.base import Storage
from lakebed.transforms.output import ValueIn

# Maximum number of bytes of the items of a piece, if their sizes are known.
PIECE_BYTES = 64_000_000


class Source(ABC):
    """The items of an input by number.

    Attributes
    ----------
    length
        Number of items; None if the number is known only at the end.
    is_dataset
        Whether the items are rows of a dataset; messages do not print such items.
    """

    length: int | None = None
    is_dataset = False

    def payload(self, start: int, stop: int) -> Any:  # noqa: ARG002
        """Return the data that a worker needs for items besides the source; called in the order of the items."""
        return None

    @abstractmethod
    def items(self, payload: Any, start: int, stop: int) -> Iterator[Any]:
        """Iterate over items in a worker."""

    def sample(self, index: int) -> Any:  # noqa: ARG002
        """Return an item for an error message; None if reading it would take long or consume items."""
        return None

    def batches(self, payload: Any, start: int, stop: int, size: int) -> Iterator[Any]:
        """Iterate over batches of items in a worker: lists, or slices of the input's own type."""
        items = self.items(payload, start, stop)
        while batch := list(islice(items, size)):
            yield batch

    def ends(self) -> Sequence[int]:
        """Return preferred ends of pieces: ends of stored chunks."""
        return ()

    def most(self) -> int | None:
        """Return the maximum number of items of a piece; None for no limit."""
        return None

    @property
    def storage(self) -> Storage | None:
        """Storage from which workers read items; None if pieces contain the items, or the input object reads them."""
        return None


class _DatasetRows(Source):
    """Rows of a dataset or of a view of one.

    Parameters
    ----------
    facade
        The dataset whose rows are passed to functions.
    as_dicts
        If true, items are dictionaries {tensor: value} instead of row objects.
    """

    is_dataset = True

    def __init__(self, facade: Any, *, pad: bool, as_dicts: bool) -> None:
        if as_dicts and not pad:
            facade = _filled(facade)
        self._facade = facade.max_view if pad else facade
        self._table: Table = facade._table()  # noqa: SLF001
        self._as_dicts = as_dicts
        if not pad:
            # This call raises an error if some tensors are empty while others have rows; the error names them.
            self._table.shared_rows()
        self.length = int(facade.max_len if pad else facade.min_len)

    def items(self, payload: Any, start: int, stop: int) -> Iterator[Any]:  # noqa: ARG002
        if not self._as_dicts:
            for i in range(start, stop):
                yield self._facade[i]
            return
        readers = {name: self._table.reader(name) for name in self._table.names}
        words = {name: words_of(reader.state) for name, reader in readers.items()}
        numbers = {name for name, reader in readers.items() if reader.is_row_a_sample and reader.is_scalar}
        moments = {name: found for name in numbers if (found := moments_of(readers[name])) is not None}
        for batch in self.batches(None, start, stop, 64):
            columns = [(name, column, words[name], name in numbers) for name, column in batch.items()]
            dates = {name: values(batch[name]) for name, values in moments.items()}
            for i in range(len(next(iter(batch.values()), ()))):
                row = {name: _plain(column[i], known, is_one) for name, column, known, is_one in columns}
                for name, column in dates.items():
                    if row[name] is not None:
                        row[name].moment = column[i]
                yield row

    def sample(self, index: int) -> Any:
        return None if self._as_dicts else self._facade[index]

    def batches(self, payload: Any, start: int, stop: int, size: int) -> Iterator[Any]:  # noqa: ARG002
        yield from Batches(self._table[start:stop], size)

    def ends(self) -> Sequence[int]:
        if not self._table.index.is_trivial:
            return ()
        found = [state for state in self._table.states().values() if state.sequence is None]
        if not found:
            return ()
        largest = max(found, key=lambda state: len(state.table))
        return [int(last) + 1 for last in largest.table.ids.last.tolist()]

    @property
    def storage(self) -> Storage:
        return self._table.session.storage

    def __reduce__(self) -> tuple[Any, ...]:
        facade = self._facade
        parts = facade._group, facade._index, facade._columns, facade._pad  # noqa: SLF001
        given = type(facade), self._table.whole, facade.path, parts, self.length, self._as_dicts
        return _opened_rows, given


def _opened_rows(
    cls: Any, table: Table, path: str, parts: tuple[Any, ...], length: int, as_dicts: bool
) -> _DatasetRows:
    group, index, columns, pad = parts
    found = object.__new__(_DatasetRows)
    found._facade = cls(Handle(table.session, path), group, index, columns, pad=pad)
    found._table = found._facade._table()  # noqa: SLF001
    found._as_dicts, found.length = as_dicts, length
    return found


class _Pieces(Source):
    """A sequence whose slices hold the items themselves: a list, a range, an array."""

    def __init__(self, items: Any) -> None:
        self._items = items
        self.length = len(items)

    @staticmethod
    def _slice(items: Any, start: int, stop: int) -> Any:
        return items[start:stop]

    def payload(self, start: int, stop: int) -> Any:
        return self._slice(self._items, start, stop)

    def items(self, payload: Any, start: int, stop: int) -> Iterator[Any]:  # noqa: ARG002
        return iter(payload)

    def sample(self, index: int) -> Any:
        return next(self.items(self.payload(index, index + 1), index, index + 1))

    def batches(self, payload: Any, start: int, stop: int, size: int) -> Iterator[Any]:
        for at in range(0, stop - start, size):
            yield self._slice(payload, at, at + size)

    def most(self) -> int | None:
        nbytes = getattr(self._items, "nbytes", None)
        if not isinstance(nbytes, int) or not len(self._items):
            return None
        return max(1, PIECE_BYTES // max(1, nbytes // len(self._items)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _carried, (type(self), self.length)


def _carried(cls: Any, length: int | None) -> Source:
    """Return a source for workers that holds no items itself, because each piece contains its items."""
    found: Source = cls(())
    found.length = length
    return found


class _Arrow(_Pieces):
    """An Arrow table, whose items are dictionaries, or an Arrow array, whose items are values."""

    @staticmethod
    def _slice(items: Any, start: int, stop: int) -> Any:
        return items.slice(start, stop - start)

    def items(self, payload: Any, start: int, stop: int) -> Iterator[Any]:  # noqa: ARG002
        for at in range(0, len(payload), 1024):
            yield from payload.slice(at, 1024).to_pylist()


class _Frame(_Pieces):
    """A data frame: items are {column: value}, batches are frames."""

    @staticmethod
    def _slice(items: Any, start: int, stop: int) -> Any:
        return items.iloc[start:stop] if hasattr(items, "iloc") else items[start:stop]

    def items(self, payload: Any, start: int, stop: int) -> Iterator[Any]:  # noqa: ARG002
        if hasattr(payload, "iter_rows"):
            return iter(payload.iter_rows(named=True))
        names = list(payload.columns)
        return (dict(zip(names, row, strict=True)) for row in payload.itertuples(index=False, name=None))


class _Indexed(Source):
    """An object with ``len`` and ``[i]`` that may do work for each item, such as a dataset of PyTorch."""

    def __init__(self, items: Any) -> None:
        self._items = items
        self.length = len(items)

    def items(self, payload: Any, start: int, stop: int) -> Iterator[Any]:  # noqa: ARG002
        for i in range(start, stop):
            yield self._items[i]


class _Drawn(Source):
    """An iterable, over which the driver iterates; ``length`` is known if the iterable has a ``len``."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.length = len(items) if isinstance(items, Sized) else None
        self._iterator: Iterator[Any] = iter(items)
        self._at = 0

    def payload(self, start: int, stop: int) -> Any:
        self._at += sum(1 for _ in islice(self._iterator, max(0, start - self._at)))
        found = list(islice(self._iterator, stop - start))
        self._at += len(found)
        return found

    def items(self, payload: Any, start: int, stop: int) -> Iterator[Any]:  # noqa: ARG002
        return iter(payload)

    def __reduce__(self) -> tuple[Any, ...]:
        return _carried, (_Pieces, self.length)


def source_of(data: Any, *, pad: bool = False, as_dicts: bool = False) -> Source:
    """Return the items of an input.

    Parameters
    ----------
    pad
        If the tensors of a dataset differ in length, read as many rows as the longest has; missing samples are empty.
    as_dicts
        Return rows of a dataset as dictionaries of values instead of row objects.

    Raises
    ------
    InvalidInputDataError
        If the input has no items, or is itself a single item.
    """
    if isinstance(data, HasTable):
        return _DatasetRows(data, pad=pad, as_dicts=as_dicts)
    if isinstance(data, Mapping | str | bytes):
        raise InvalidInputDataError(
            f"The data_in to transform is invalid: items of {type(data).__name__} are ambiguous. Pass a list, as in "
            "list(data_in.items()), a dataset, an array, or an iterable"
        )
    if isinstance(data, list | tuple | range):
        return _Pieces(data)
    if isinstance(data, np.ndarray):
        if not data.ndim:
            raise InvalidInputDataError(
                "The data_in to transform is invalid: an array without axes has no items."
            )
        return _Pieces(data)
    if hasattr(data, "to_pylist") and hasattr(data, "slice"):
        return _Arrow(data)
    if hasattr(data, "columns") and (hasattr(data, "itertuples") or hasattr(data, "iter_rows")):
        return _Frame(data)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _Indexed(data)
    if isinstance(data, Iterable):
        return _Drawn(data)
    raise InvalidInputDataError(
        f"The data_in to transform is invalid: {type(data).__name__} has no items. Please use a dataset, a list, an "
        "array, an Arrow table, an object that supports both __getitem__ and __len__, or an iterable."
    )


def _filled(facade: Any) -> Any:
    """Return a dataset without its empty tensors, because the function may be meant to fill them."""
    states = facade._table().states()  # noqa: SLF001
    filled = [name for name, state in states.items() if state.length]
    return facade[filled] if 0 < len(filled) < len(states) else facade


def _plain(value: Any, words: list[str] | None, is_number: bool) -> Any:
    """Return a value of a row; numbers and labels become objects that compute like numbers and may be null."""
    if value is None or value is np.ma.masked:
        return None
    return ValueIn(value, words) if is_number or words is not None else value
