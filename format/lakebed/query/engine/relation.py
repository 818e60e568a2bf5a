"""Relations: named columns over rows, read when they are asked for.

Stored         rows of a table
Projected      expressions over the rows of another relation
Picked         rows of another relation, in any order
Combined       rows of several relations side by side, as a join pairs them; -1 is no row
Chained        the rows of several relations one behind the other
Grouped        runs of rows of another relation, a run for each row
Unpacked       items of the groups of another relation
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.query.binding.bound import COUNT_ALL, NUMBER, Bound, Info, Input, inputs, is_by_place, merged
from lakebed.query.engine.evaluate import Scope, evaluate
from lakebed.query.statistics.stored import StoredColumn, StoredColumns, even_windows, windows
from lakebed.query.values.columns import (
    Column,
    Mask,
    Numbers,
    Objects,
    Ragged,
    Rows,
    Texts,
    collect,
    computed_rows,
    concatenated,
    either,
    item_of,
    rows,
    spread,
    take,
)
from lakebed.query.values.subscripts import shape_of
from lakebed.reading.index import Index
from lakebed.session.table import Table

Positions = NDArray[np.int64]

_WINDOW_BYTES = 1 << 26
_LEAST_MEMBERS = 1 << 4
# A column is gone through for each window of groups, whose rows lie all over it: few and large ones.
_MOST_MEMBERS = 1 << 23


class Relation(ABC):
    """Named columns over rows."""

    infos: Mapping[str, Info]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, name: str, places: Rows) -> Column:
        """Return some rows of a column, by position."""

    @property
    def names(self) -> list[str]:
        """The columns in order."""
        return list(self.infos)

    def hidden(self) -> Sequence[str]:
        """Return the names of hidden tensors of the dataset, which are no columns."""
        return ()

    def stored_name(self, name: str) -> str:
        """Return the name of the column that an import made of one of this name; the name itself if it made none."""
        return name

    def shapes(self, name: str, places: Rows) -> Column:
        """Return the shapes of some samples of a column."""
        return shape_of(self.read(name, places))

    def facts(self, name: str, places: Rows) -> Column:
        """Return what is on record of the files of some samples."""
        del name
        return Objects([{} for _ in range(len(places))])

    def missing(self, name: str, places: Rows) -> Mask | None:
        """Return True for samples of a column that are missing; None where none is."""
        return self.read(name, places).missing

    def select(self, places: Positions) -> Relation:
        """Return the relation of some rows, in that order."""
        return Picked(self, places)

    def windows(self, names: Sequence[str], *, is_soon: bool = False) -> Iterator[range]:
        """Yield stretches of all positions whose columns fit into memory together."""
        return even_windows(self.row_bytes(names), len(self), is_soon=is_soon)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return about how many bytes a row of some columns takes."""
        return 64 * len(names) + 8

    def origin(self) -> object:
        """Return what is equal for relations over the rows of one table; None if rows come from several."""
        return None

    def base_rows(self) -> Positions | None:
        """Return the numbers of the rows in the table that they come from; None if they come from several."""
        return None


class _Infos(Mapping[str, Info]):
    """What is known of stored columns, found out when it is asked for."""

    def __init__(self, columns: Mapping[str, StoredColumn]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> Info:
        return self._columns[name].info

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class Stored(Relation):
    """Rows of a table.

    Parameters
    ----------
    places
        Numbers of the rows in the dataset; None is all that the table selects.
    """

    def __init__(
        self, table: Table, places: Rows | None = None, columns: Mapping[str, StoredColumn] | None = None
    ) -> None:
        self.table = table
        self.places = table.rows() if places is None else places
        self._columns = StoredColumns(table) if columns is None else columns
        self.infos: Mapping[str, Info] = _Infos(self._columns)

    def __len__(self) -> int:
        return len(self.places)

    def hidden(self) -> Sequence[str]:
        """Return the names of hidden tensors of the dataset, but of those that the table names."""
        snapshot = self.table.session.schema()
        shown = {*snapshot.names(), *self.table.names}
        return [name for name in snapshot.names(hidden=True) if name not in shown]

    def stored_name(self, name: str) -> str:
        """Return the name of the tensor that an import made of a column; the name itself if it made none."""
        return self.table.session.schema().stored_name(name)

    def column(self, name: str) -> StoredColumn:
        """Return what reads a tensor."""
        return self._columns[name]

    def _rows(self, places: Rows) -> Rows:
        if isinstance(self.places, range):
            if isinstance(places, range):
                return (
                    self.places[places.start : places.stop]
                    if places.step == 1
                    else self.places[_slice(places)]
                )
            base = self.places
            return places if base.start == 0 and base.step == 1 else places * base.step + base.start
        return self.places[_slice(places)] if isinstance(places, range) else self.places[places]

    def read(self, name: str, places: Rows) -> Column:
        """Return some rows of a column, by position."""
        return self._columns[name].read(self._rows(places))

    def shapes(self, name: str, places: Rows) -> Column:
        """Return the shapes of some samples, without reading them."""
        found = self._columns[name].shapes(self._rows(places))
        return shape_of(self.read(name, places)) if found is None else Numbers(found)

    def facts(self, name: str, places: Rows) -> Column:
        """Return what is on record of the files of some samples."""
        return self._columns[name].facts(self._rows(places))

    def missing(self, name: str, places: Rows) -> Mask | None:
        """Return True for samples of a column that are missing, which are not read if it is on record."""
        if not self._columns[name].info.are_nulls_apart:
            return super().missing(name, places)
        return self._columns[name].missing(self._rows(places))

    def select(self, places: Positions) -> Relation:
        """Return the relation of some rows, in that order."""
        return Stored(self.table, self._rows(places), self._columns)

    def windows(self, names: Sequence[str], *, is_soon: bool = False) -> Iterator[range]:
        """Yield stretches of all positions whose columns fit into memory together."""
        columns = [self._columns[name] for name in names]
        if not isinstance(self.places, range) or self.places.start or self.places.step != 1:
            return even_windows(self.row_bytes(names), len(self), is_soon=is_soon)
        return windows(columns, len(self), is_soon=is_soon)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return about how many bytes a row of some columns takes."""
        return sum(self._columns[name].row_bytes for name in names) or 8

    def origin(self) -> object:
        """Return what is equal for relations over the rows of one table."""
        session = self.table.session
        return session.storage.url, session.snapshot.version_id

    def base_rows(self) -> Positions:
        """Return the numbers of the rows in the dataset."""
        return np.asarray(self.places, np.int64)

    def as_table(self) -> Table:
        """Return the rows as a table."""
        places = self.places
        if isinstance(places, range):
            index = Index((_slice(places),))
            if places == range(self.table.whole.length):
                index = Index()
        else:
            index = Index((places,))
        return Table(self.table.session, self.table.names, index)


def _slice(places: range) -> slice:
    stop: int | None = places.stop
    if places.step < 0 and places.stop < 0:
        stop = None
    return slice(places.start, stop, places.step)


class Projected(Relation):
    """Expressions over another relation."""

    def __init__(self, base: Relation, outputs: Mapping[str, Bound]) -> None:
        self.base = base
        self.outputs = dict(outputs)
        self.infos = {name: node.info for name, node in outputs.items()}

    def __len__(self) -> int:
        return len(self.base)

    def read(self, name: str, places: Rows) -> Column:
        """Compute some rows of a column."""
        return evaluate(self.outputs[name], Scope(self.base, places))

    def shapes(self, name: str, places: Rows) -> Column:
        """Return the shapes of some samples."""
        node = self.outputs[name]
        if isinstance(node, Input):
            return self.base.shapes(node.name, places)
        return super().shapes(name, places)

    def facts(self, name: str, places: Rows) -> Column:
        """Return what is on record of the files of some samples."""
        node = self.outputs[name]
        return self.base.facts(node.name, places) if isinstance(node, Input) else super().facts(name, places)

    def select(self, places: Positions) -> Relation:
        """Return the relation of some rows, in that order."""
        if any(map(is_by_place, self.outputs.values())):
            return Picked(self, places)
        return Projected(self.base.select(places), self.outputs)

    def windows(self, names: Sequence[str], *, is_soon: bool = False) -> Iterator[range]:
        """Yield stretches of all positions whose columns fit into memory together."""
        return self.base.windows(self._read(names), is_soon=is_soon)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return about how many bytes a row of some columns takes."""
        return self.base.row_bytes(self._read(names))

    def _read(self, names: Sequence[str]) -> list[str]:
        read: dict[str, None] = {}
        for name in names:
            read.update(n for n in inputs(self.outputs[name]).items() if n[0])
        return list(read)

    def origin(self) -> object:
        """Return what is equal for relations over the rows of one table."""
        return self.base.origin()

    def base_rows(self) -> Positions | None:
        """Return the numbers of the rows in the table that they come from."""
        return self.base.base_rows()


class Picked(Relation):
    """Rows of another relation, in any order."""

    def __init__(self, base: Relation, places: Positions) -> None:
        self.base = base
        self.places = places
        self.infos = base.infos

    def __len__(self) -> int:
        return len(self.places)

    def _under(self, places: Rows) -> Positions:
        return self.places[_slice(places)] if isinstance(places, range) else self.places[places]

    def read(self, name: str, places: Rows) -> Column:
        """Return some rows of a column, by position."""
        return self.base.read(name, self._under(places))

    def shapes(self, name: str, places: Rows) -> Column:
        """Return the shapes of some samples."""
        return self.base.shapes(name, self._under(places))

    def facts(self, name: str, places: Rows) -> Column:
        """Return what is on record of the files of some samples."""
        return self.base.facts(name, self._under(places))

    def select(self, places: Positions) -> Relation:
        """Return the relation of some rows, in that order."""
        return Picked(self.base, self.places[places])

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return about how many bytes a row of some columns takes."""
        return self.base.row_bytes(names)

    def origin(self) -> object:
        """Return what is equal for relations over the rows of one table."""
        return self.base.origin()

    def base_rows(self) -> Positions | None:
        """Return the numbers of the rows in the table that they come from."""
        found = self.base.base_rows()
        return None if found is None else found[self.places]


class Combined(Relation):
    """Rows of several relations side by side.

    Parameters
    ----------
    sides
        A relation and the positions of its rows, -1 where there is none.
    columns
        Name -> number of the side, and the column's name there.
    """

    def __init__(
        self, sides: Sequence[tuple[Relation, Positions]], columns: Mapping[str, tuple[int, str]]
    ) -> None:
        self.sides = list(sides)
        self.columns = dict(columns)
        self.infos = {name: self.sides[side][0].infos[inner] for name, (side, inner) in columns.items()}

    def __len__(self) -> int:
        return len(self.sides[0][1]) if self.sides else 0

    def read(self, name: str, places: Rows) -> Column:
        """Return some rows of a column, by position."""
        side, inner = self.columns[name]
        relation, own = self.sides[side]
        wanted = own[_slice(places)] if isinstance(places, range) else own[places]
        gone = wanted < 0
        if not gone.any():
            return relation.read(inner, wanted)
        if gone.all():
            return Objects([None] * len(wanted))
        # Rows without a partner read as the one before them, until they are taken out.
        found = take(relation.read(inner, wanted[~gone]), np.maximum(np.cumsum(~gone) - 1, 0))
        return _without(found, gone)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return about how many bytes a row of some columns takes."""
        of = [self.columns[name] for name in names]
        return 8 + sum(
            relation.row_bytes([inner for number, inner in of if number == side])
            for side, (relation, _) in enumerate(self.sides)
        )


def _without(column: Column, gone: NDArray[np.bool_]) -> Column:
    """Return a column without the values of some rows."""
    if isinstance(column, Numbers):
        return Numbers(column.values, either(column.missing, gone))
    values = [None if is_gone else value for value, is_gone in zip(rows(column), gone.tolist(), strict=True)]
    return collect(values) if isinstance(column, Ragged | Texts) else Objects(values)


class Chained(Relation):
    """The rows of several relations one behind the other."""

    def __init__(self, parts: Sequence[Relation]) -> None:
        self.parts = list(parts)
        self.infos = {name: merged([part.infos[name] for part in self.parts]) for name in self.parts[0].names}
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, name: str, places: Rows) -> Column:
        """Return some rows of a column, by position."""
        wanted = np.asarray(places, np.int64)
        which = np.searchsorted(self._ends, wanted, side="right")
        found: list[Column] = []
        order: list[NDArray[np.int64]] = []
        for number, part in enumerate(self.parts):
            (mine,) = np.nonzero(which == number)
            if len(mine):
                first = int(self._ends[number]) - len(part)
                found.append(part.read(name, wanted[mine] - first))
                order.append(mine)
        if not found:
            return self.parts[0].read(name, wanted)
        joined = np.concatenate(order)
        inverse = np.empty(len(joined), np.int64)
        inverse[joined] = np.arange(len(joined))
        return take(concatenated(found), inverse)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return about how many bytes a row of some columns takes."""
        return max(part.row_bytes(names) for part in self.parts)


class Grouped(Relation):
    """Runs of rows of another relation.

    Parameters
    ----------
    members
        Positions of the rows of all groups, one group behind the other.
    ends
        Where each group begins in `members`, and the end of the last: shape (groups + 1,).
    """

    def __init__(self, base: Relation, members: Positions, ends: Positions) -> None:
        self.base = base
        self.members = members
        self.ends = ends
        self.infos = {name: info.grouped() for name, info in base.infos.items()}

    def __len__(self) -> int:
        return len(self.ends) - 1

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return about how many bytes a row of some columns takes: a group, that is."""
        read = [name for name in names if name != COUNT_ALL]
        return 8 + self.base.row_bytes(read) * max(1, len(self.members) // max(1, len(self)))

    def _runs(self, places: Rows) -> tuple[Positions, NDArray[np.int64]]:
        wanted = np.asarray(places, np.int64)
        starts, sizes = self.ends[:-1][wanted], np.diff(self.ends)[wanted]
        return self.members[spread(starts, sizes)], sizes

    def sizes(self) -> NDArray[np.int64]:
        """Return how many rows each group has."""
        return np.diff(self.ends)

    def read(self, name: str, places: Rows) -> Column:
        """Return the samples of some groups: stacked where they have one shape, else lists."""
        if name == COUNT_ALL:
            return Numbers(self.sizes()[_slice(places) if isinstance(places, range) else places])
        if isinstance(places, range) and places == range(len(self)) and len(self.members) == len(self.base):
            # All rows, each in one group: in their own order they are read fastest.
            column = self.base.read(name, range(len(self.base)))
            return stacked(take(column, self.members), self.sizes())
        inner, sizes = self._runs(places)
        return stacked(self.base.read(name, inner), sizes)

    def windows(self, names: Sequence[str], *, is_soon: bool = False) -> Iterator[range]:
        """Yield stretches of all positions whose columns fit into memory together; a group is as large as it is."""
        del is_soon
        each = self.base.row_bytes([name for name in names if name != COUNT_ALL])
        most = max(_LEAST_MEMBERS, min(_MOST_MEMBERS, _WINDOW_BYTES // each))
        start = 0
        while start < len(self):
            stop = int(np.searchsorted(self.ends, self.ends[start] + most, side="right")) - 1
            stop = min(len(self), max(stop, start + 1))
            yield range(start, stop)
            start = stop


def stacked(column: Column, sizes: NDArray[np.int64]) -> Column:
    """Return runs of samples as one value each: an array with one axis more, or a list."""
    if isinstance(column, Numbers) and column.missing is None:
        shape = column.values.shape[1:]
        shapes = np.empty((len(sizes), 1 + len(shape)), np.int64)
        shapes[:, 0] = sizes
        shapes[:, 1:] = shape
        return Ragged(column.values.reshape(-1), shapes)
    values = computed_rows(column) if isinstance(column, Numbers | Ragged) else rows(column)
    ends = np.cumsum(sizes)
    return Objects(
        [values[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
    )


class Unpacked(Relation):
    """Items of the values of another relation.

    Parameters
    ----------
    owners, items
        For each row, the position of the value and the number of the item in it.
    split
        Columns that are taken apart; the others repeat.
    numbered
        Name of the column that counts the items; None for none.
    """

    def __init__(
        self,
        base: Relation,
        owners: Positions,
        items: Positions,
        split: Sequence[str],
        numbered: str | None,
    ) -> None:
        self.base = base
        self.owners = owners
        self.items = items
        self.split = set(split)
        self.numbered = numbered
        self.infos = {
            name: Info(
                info.kind if info.kind == "array" else "any",
                info.dtype,
                class_names=info.class_names,
                logical=info.logical,
            )
            if name in self.split
            else info
            for name, info in base.infos.items()
        }
        if numbered is not None:
            self.infos[numbered] = NUMBER

    def __len__(self) -> int:
        return len(self.owners)

    def read(self, name: str, places: Rows) -> Column:
        """Return some rows of a column, by position."""
        wanted = np.asarray(places, np.int64)
        items = self.items[wanted]
        if name == self.numbered:
            return Numbers(items)
        found, inverse = np.unique(self.owners[wanted], return_inverse=True)
        column = self.base.read(name, found)
        if name not in self.split:
            return take(column, inverse.reshape(-1))
        values = rows(column)
        return collect(
            [_item(values[v], i) for v, i in zip(inverse.reshape(-1).tolist(), items.tolist(), strict=True)]
        )


def _item(value: Any, number: int) -> Any:
    return None if value is None else item_of(value, number)
