"""Work of an import's workers: they turn items of the plan into rows, and report rows that cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lakebed.codecs.sample import Sample
from lakebed.importers.core.plan import columns_of_rows, kept
from lakebed.importers.core.splits import Splits
from lakebed.importers.folders.pictures import Pictures
from lakebed.runtime.plugins import Format
from lakebed.transforms.output import RowsOfItems, Skipped


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
        drawn: Callable[[int], str] | None = _drawn(splits, number) if splits.names else None
        at = 0
        for row in self.importer.functions.rows(item, self.context):
            if type(row) is not dict and not isinstance(row, Mapping):
                yield row
                continue
            told = list(self.pictures.look(row, partial(str, item)))
            lost = [one for one in told if not one.is_change]
            if lost:
                yield from lost
                continue
            if drawn is None:
                yield from told
                yield {**row, **empty} if empty else row
                continue
            split = drawn(at)
            at += 1
            if splits.only in (None, split):
                yield from told
                yield {**row, **empty} if splits.only else {**row, **empty, splits.tensor: split}

    def columns(self, entries: Sequence[tuple[int, Any]]) -> Iterator[Any]:
        """Yield the rows of items as columns."""
        for number, item in entries:
            found: Any = self.importer.functions.rows(item, self.context)
            at = 0
            for columns in [found] if isinstance(found, Mapping) else found:
                if not isinstance(columns, Mapping):
                    yield columns
                    continue
                columns, rows, changes = yield from self._looked_at(columns, partial(_row_of, item))
                of = self.splits.of(number, at + len(rows))[at:] if self.splits.names else None
                at += len(rows)
                made, rows = self._completed(columns, rows, of)
                yield from (change for row in rows for change in changes.get(row, ())) if changes else ()
                if rows:
                    yield made

    def many(self, entries: Sequence[tuple[int, Any]]) -> Iterator[Any]:
        """Yield the rows of several items as columns; each item makes at most one row."""
        for found in self._made([item for _, item in entries]):
            if isinstance(found, Skipped):
                yield found
                continue
            which, columns = found
            columns, rows, changes = yield from self._looked_at(columns, partial(_item_at, entries, which))
            splits = self.splits
            of = [splits.of(entries[which[row]][0], 1)[0] for row in rows] if splits.names else None
            made, rows = self._completed(columns, rows, of)
            yield from (change for row in rows for change in changes.get(row, ())) if changes else ()
            if rows:
                yield RowsOfItems(made, [which[row] for row in rows], entries)

    def _completed(
        self, columns: Columns, rows: Sequence[int], of: Sequence[str] | None
    ) -> tuple[Columns, Sequence[int]]:
        """Add missing tensors and the splits to columns; keep only rows of the wanted split."""
        made = {**columns, **{name: [None] * len(rows) for name in self.missing}}
        if of is not None and self.splits.only is None:
            made[self.splits.tensor] = of
        elif of is not None:
            here = [at for at, split in enumerate(of) if split == self.splits.only]
            return kept(made, here), [rows[at] for at in here]
        return made, rows

    def _looked_at(
        self, columns: Columns, place: Callable[[int], str]
    ) -> Generator[Skipped, None, tuple[Columns, Sequence[int], dict[int, list[Skipped]]]]:
        """Inspect the pictures of columns; yield reports of rows to leave out.

        Return the columns without these rows, the numbers of the remaining rows, and the changes in their pictures.
        """
        pictures = self.pictures
        count = len(next(iter(columns.values())))
        out: set[int] = set()
        changes: dict[int, list[Skipped]] = {}
        for name in pictures.kinds.keys() & columns.keys():
            values, suffixes, may_lose = columns[name], pictures.suffixes(name), not pictures.lossless
            for row, value in enumerate(values if isinstance(values, list) else ()):
                path = value.unread_path if type(value) is Sample else None
                if path is not None and path.endswith(suffixes):
                    value.may_lose = may_lose  # fast path for most files
                    continue
                for told in pictures.look({name: value}, partial(place, row)):
                    if told.is_change:
                        changes.setdefault(row, []).append(told)
                        continue
                    yield told
                    out.add(row)
        if not out:
            return columns, range(count), changes
        rows = [row for row in range(count) if row not in out]
        return kept(columns, rows), rows, changes

    def _made(self, items: Sequence[Any]) -> Iterator[Any]:
        """Let the importer make the rows of several items together; if that fails, make each remaining row alone.

        So an item that the importer cannot handle costs only its own row.
        """
        done: set[int] = set()
        told: set[str] = set()
        for found in _tried(self.importer.functions.many(items, self.context)):
            if isinstance(found, Exception):  # an item that also fails alone reports its own error
                for at, item in enumerate(items):
                    if at not in done:
                        yield from self._alone(at, item, told)
                return
            if isinstance(found, Skipped):
                told.add(found.where)
            else:
                done.update(found[0])
            yield found

    def _alone(self, at: int, item: Any, told: set[str]) -> Iterator[Any]:
        for row in _tried(self.importer.functions.rows(item, self.context)):
            if isinstance(row, Exception):
                yield Skipped(str(item), f"unexpected {type(row).__name__}: {row}")
            elif not isinstance(row, Skipped):
                yield [at], columns_of_rows([row])
            elif row.where not in told:
                yield row


def _tried(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield the rows of an importer; if it fails, yield the error, which may be of any type in other packages."""
    try:
        yield from rows
    except Exception as error:  # noqa: BLE001 - reported with the item
        yield error


def _drawn(splits: Splits, number: int) -> Callable[[int], str]:
    """Return a function that returns the split of a row of an item, from the row's number in the item."""
    known: list[str] = []

    def of(at: int) -> str:
        if at >= len(known):
            known[:] = splits.of(number, max(1, 8 * at))
        return known[at]

    return of


def _row_of(item: Any, row: int) -> str:
    return f"{item}, row {row:,} of it"


def _item_at(entries: Sequence[tuple[int, Any]], which: Sequence[int], row: int) -> str:
    return str(entries[which[row]])
