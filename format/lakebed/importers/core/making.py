"""Work of an import's workers: they turn items of the plan into rows, and report rows that cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

from lakebed.errors import LakebedError
from lakebed.importers.core.plan import columns_of_rows, kept
from lakebed.importers.core.splits import Splits
from lakebed.importers.folders.pictures import Pictures
from lakebed.runtime.plugins import Format
from lakebed.transforms.output import RowsOfItems, Skipped, held_bytes

_HELD_BYTES = 1 << 25
"""Bytes of rows that were made one by one, above which they are written before more are made."""
_EXPECTED = (LakebedError, OSError, ValueError, TypeError, KeyError, OverflowError)
"""Errors of files that are missing or damaged."""


class Items(Sequence[tuple[int, Any]]):
    """Items of a plan with their numbers."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [_Numbered((at, self._items[at])) for at in range(*index.indices(len(self)))]
        return _Numbered((index, self._items[index]))


class _Numbered(tuple[int, Any]):
    """(Number of an item, item); messages show the item only."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(self[1])


Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Making:
    """Functions that turn items into rows; each importer uses one of the three methods.

    Parameters
    ----------
    importer, context
        The format, and the context of its plan.
    splits
        Splits of the rows.
    missing
        Tensors of the dataset that are not in the plan; their values are null.
    pictures
        Tensors of images.
    """

    importer: Format
    context: Any
    splits: Splits
    missing: tuple[str, ...]
    pictures: Pictures

    def each(self, entry: tuple[int, Any]) -> Iterator[Any]:
        """Yield the rows of an item, one at a time."""
        number, item = entry
        splits, empty = self.splits, dict.fromkeys(self.missing)
        drawn = splits.of(number)
        try:
            for row in self.importer.functions.rows(item, self.context):
                if not isinstance(row, Mapping):
                    yield row
                    continue
                told = list(self.pictures.look(row, partial(str, item)))
                lost = [one for one in told if not one.is_change]
                if lost:
                    yield from lost
                    continue
                made = {**row, **empty}
                if splits.names:
                    split = next(drawn)
                    if splits.only is None:
                        made[splits.tensor] = split
                    elif split != splits.only:
                        continue
                yield from told
                yield made
        except _EXPECTED as error:
            yield _left_out(item, error)

    def columns(self, entries: Sequence[tuple[int, Any]]) -> Iterator[Any]:
        """Yield the rows of items as columns."""
        for number, item in entries:
            found: Any = self.importer.functions.rows(item, self.context)
            drawn = self.splits.of(number)
            for columns in [found] if isinstance(found, Mapping) else found:
                if not isinstance(columns, Mapping):
                    yield columns
                    continue
                place = partial("{}, row {:,} of it".format, item)
                made, rows = yield from self._completed(columns, place, lambda _: next(drawn))  # noqa: B023 - called before the next item
                if rows:
                    yield made

    def many(self, entries: Sequence[tuple[int, Any]]) -> Iterator[Any]:
        """Yield the rows of several items as columns; each item makes at most one row."""
        for found in self._made([item for _, item in entries]):
            if isinstance(found, Skipped):
                yield found
            else:
                yield from self._of_items(entries, *found)

    def _of_items(
        self, entries: Sequence[tuple[int, Any]], which: Sequence[int], columns: Columns
    ) -> Iterator[Any]:
        """Yield columns, each row of which was made from one item."""
        of = [entries[at] for at in which]
        made, rows = yield from self._completed(
            columns, lambda row: str(of[row]), lambda row: next(self.splits.of(of[row][0]))
        )
        if rows:
            yield RowsOfItems(made, [which[row] for row in rows], entries)

    def _completed(
        self, columns: Columns, place: Callable[[int], str], split_of: Callable[[int], str]
    ) -> Generator[Skipped, None, tuple[Columns, Sequence[int]]]:
        """Add missing tensors and the splits to columns, without rows of other splits and of pictures that are lost.

        Yield reports of rows that are lost or changed; return the columns, and the numbers of their rows.
        """
        pictures, splits = self.pictures, self.splits
        count = len(next(iter(columns.values())))
        out: set[int] = set()
        changes: dict[int, list[Skipped]] = {}
        for name in pictures.kinds.keys() & columns.keys():
            for row, value in enumerate(columns[name] if isinstance(columns[name], list) else ()):
                for told in pictures.look({name: value}, partial(place, row)):
                    if told.is_change:
                        changes.setdefault(row, []).append(told)
                        continue
                    yield told
                    out.add(row)
        rows = [row for row in range(count) if row not in out]
        more: dict[str, list[Any]] = {name: [None] * count for name in self.missing}
        if splits.names:
            of = {row: split_of(row) for row in rows}
            if splits.only is None:
                more[splits.tensor] = [of.get(row) for row in range(count)]
            rows = [row for row in rows if splits.only in (None, of[row])]
        yield from (change for row in rows for change in changes.get(row, ()))
        made = {**columns, **more}
        return made if len(rows) == count else kept(made, rows), rows

    def _made(self, items: Sequence[Any]) -> Iterator[Any]:
        """Let the importer make the rows of several items together, if it can; if it fails, make the others alone.

        So an item that the importer cannot handle costs only its own row.
        """
        functions = self.importer.functions
        done: set[int] = set()
        told: set[str] = set()
        if not hasattr(functions, "many"):
            yield from self._alone(dict(enumerate(items)), told)
            return
        for found in _tried(functions.many(items, self.context)):
            if isinstance(found, Exception):  # an item that also fails alone reports its own error
                yield from self._alone({at: item for at, item in enumerate(items) if at not in done}, told)
            elif isinstance(found, Skipped):
                told.add(found.where)
                yield found
            else:
                done.update(found[0])
                yield found

    def _alone(self, items: Mapping[int, Any], told: AbstractSet[str]) -> Iterator[Any]:
        """Make the rows of items one by one; yield them as columns, and reports of items that `told` lacks."""
        which: list[int] = []
        rows: list[Mapping[str, Any]] = []
        nbytes = 0
        make = self.importer.functions.rows
        for at, item in items.items():
            for row in _tried(make(item, self.context)):
                if isinstance(row, _EXPECTED):
                    yield _left_out(item, row)
                elif isinstance(row, Exception):
                    yield Skipped(str(item), f"unexpected {type(row).__name__}: {row}")
                elif not isinstance(row, Skipped):
                    which.append(at)
                    rows.append(row)
                    nbytes += sum(map(held_bytes, row.values()))
                elif row.where not in told:
                    yield row
            if nbytes > _HELD_BYTES:
                yield which, columns_of_rows(rows)
                which, rows, nbytes = [], [], 0
        if rows:
            yield which, columns_of_rows(rows)


def _left_out(item: Any, error: Exception) -> Skipped:
    return Skipped(str(item), str(error) or type(error).__name__)


def _tried(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows of an importer; if it fails, yield the error, which may be of any type in other packages."""
    try:
        yield from rows
    except Exception as error:  # noqa: BLE001 - reported with the item
        yield error
