"""What workers of an import do: items of a plan become rows, of which each that cannot be one is told.

maker       what the importer has           what it hands out
each        rows of one item                rows
columns     columns of one item             columns
many        rows of several, one each       columns, and which row is whose
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from lakebed.codecs.sample import Sample
from lakebed.importers.core.plan import columns_of_rows, kept
from lakebed.importers.core.registry import Importer
from lakebed.importers.core.splits import Splits
from lakebed.importers.folders.pictures import Pictures
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
    """An item with its number, which messages leave out."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(self[1])


def each(
    entry: tuple[int, Any],
    importer: Importer,
    context: Any,
    splits: Splits,
    missing: tuple[str, ...],
    pictures: Pictures,
) -> Iterator[Any]:
    """Make the rows of an item, one at a time."""
    number, item = entry
    empty = dict.fromkeys(missing)
    drawn: Callable[[int], str] | None = _drawn(splits, number) if splits.names else None
    at = 0
    for row in importer.rows(item, context):
        if type(row) is not dict and not isinstance(row, Mapping):
            yield row
            continue
        told = list(pictures.look(row, partial(str, item)))
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
        if splits.only is None:
            yield {**row, **empty, splits.tensor: split}
        elif splits.only == split:
            yield {**row, **empty}


def _drawn(splits: Splits, number: int) -> Callable[[int], str]:
    known: list[str] = []

    def of(at: int) -> str:
        if at >= len(known):
            known[:] = splits.of(number, max(1, 8 * at))
        return known[at]

    return of


def columns(
    entries: Sequence[tuple[int, Any]],
    importer: Importer,
    context: Any,
    splits: Splits,
    missing: tuple[str, ...],
    pictures: Pictures,
) -> Iterator[Any]:
    """Make the rows of an item, as columns."""
    for number, item in entries:
        found: Any = importer.rows(item, context)
        at = 0
        for columns in [found] if isinstance(found, Mapping) else found:
            if not isinstance(columns, Mapping):
                yield columns
                continue
            columns, whole, told = yield from _looked_at(columns, pictures, partial(_row_of, item))
            count = len(whole)
            if not count:
                continue
            made = {**columns, **{name: [None] * count for name in missing}}
            if splits.names:
                of = splits.of(number, at + count)[at:]
                at += count
                if splits.only is None:
                    made[splits.tensor] = of
                else:
                    here = [index for index, split in enumerate(of) if split == splits.only]
                    made, whole = kept(made, here), [whole[index] for index in here]
            yield from (change for row in whole for change in told.get(row, ()))
            yield made


def many(
    entries: Sequence[tuple[int, Any]],
    importer: Importer,
    context: Any,
    splits: Splits,
    missing: tuple[str, ...],
    pictures: Pictures,
) -> Iterator[Any]:
    """Make the rows of several items, a row each, as columns."""
    for found in _made(importer, [item for _, item in entries], context):
        if isinstance(found, Skipped):
            yield found
            continue
        which, columns = found
        columns, rows, told = yield from _looked_at(columns, pictures, partial(_item_at, entries, which))
        which = [which[row] for row in rows]
        made = {**columns, **{name: [None] * len(which) for name in missing}}
        if splits.names:
            of = [splits.of(entries[at][0], 1)[0] for at in which]
            if splits.only is None:
                made[splits.tensor] = of
            else:
                here = [row for row, split in enumerate(of) if split == splits.only]
                made, which = kept(made, here), [which[row] for row in here]
                rows = [rows[row] for row in here]
        yield from (change for row in rows for change in told.get(row, ()))
        if which:
            yield RowsOfItems(made, which, entries)


def _row_of(item: Any, row: int) -> str:
    return f"{item}, row {row:,} of it"


def _item_at(entries: Sequence[tuple[int, Any]], which: Sequence[int], row: int) -> str:
    return str(entries[which[row]])


def _looked_at(
    columns: Mapping[str, Any], pictures: Pictures, place: Callable[[int], str]
) -> Generator[Skipped, None, tuple[Mapping[str, Any], Sequence[int], dict[int, list[Skipped]]]]:
    """Look at the pictures of columns; return the rows that stay, which they were, and what changes in which."""
    count = len(next(iter(columns.values())))
    out: set[int] = set()
    changes: dict[int, list[Skipped]] = {}
    for name in pictures.kinds.keys() & columns.keys():
        values, suffixes, may_lose = columns[name], pictures.suffixes(name), not pictures.lossless
        for row, value in enumerate(values if isinstance(values, list) else ()):
            path = value.unread_path if type(value) is Sample else None
            if path is not None and path.endswith(suffixes):
                value.may_lose = may_lose  # as nearly all are
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


def _made(importer: Importer, items: Sequence[Any], context: Any) -> Iterator[Any]:
    """Let an importer make the rows of several items; where that fails, of each that is left by itself.

    One item may have what the importer did not reckon with: that costs its own row, which is told.
    """
    done: set[int] = set()
    told: set[str] = set()
    try:
        for found in importer.many(items, context):
            if isinstance(found, Skipped):
                told.add(found.where)
            else:
                done.update(found[0])
            yield found
    except Exception:  # noqa: BLE001 - told by those that fail by themselves
        yield from _one_by_one(importer, items, context, done, told)


def _one_by_one(
    importer: Importer, items: Sequence[Any], context: Any, done: set[int], told: set[str]
) -> Iterator[Any]:
    """Let an importer make the row of each item that is not done, by itself."""
    for at, item in enumerate(items):
        if at in done:
            continue
        try:
            for row in importer.rows(item, context):
                if not isinstance(row, Skipped):
                    yield [at], columns_of_rows([row])
                elif row.where not in told:
                    yield row
        except Exception as error:  # noqa: BLE001 - told, with the item
            yield Skipped(str(item), f"unexpected {type(error).__name__}: {error}")
