"""Relations: named columns over rows, read on demand.

Stored         rows of a table
Projected      expressions over the rows of another relation
Picked         rows of another relation, in any order
Combined       rows of several relations side by side, as a join pairs them; -1 stands for no row
Chained        the rows of several relations, concatenated
Grouped        groups of rows of another relation: each group is one row
Unpacked       items of the groups of another relation
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.query.relations.bound import COUNT_ALL, Bound, Input, Value, inputs, is_by_place
from lakebed.query.relations.evaluate import Scope, evaluate
from lakebed.query.relations.stored import Lazy, StoredColumn, windows
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
    in_places,
    item_of,
    rows,
    spread,
    take,
)
from lakebed.query.values.info import NUMBER, Info, merged
from lakebed.query.values.limits import tick
from lakebed.query.values.subscripts import shape_of
from lakebed.reading.subscripts import Index
from lakebed.session.table import Table

Positions = NDArray[np.int64]

_WINDOW_BYTES = 1 << 26
_LEAST_MEMBERS = 1 << 4
# Maximum number of rows per window of groups. It is large, because a group may have rows from all parts of a column, so
# each window may read many chunks.
_MOST_MEMBERS = 1 << 23


class Run(NamedTuple):
    """Consecutive rows of a column that are copied from rows of a stored column.

    Attributes
    ----------
    source
        None if the rows have missing values.
    places
        Row numbers in the source.
    """

    source: Stored | None
    name: str
    places: Positions


class Relation(ABC):
    """Named columns over rows."""

    infos: Mapping[str, Info]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, name: str, places: Rows) -> Column:
        """Return rows of a column by position."""

    def below(self, name: str, places: Rows) -> tuple[Relation, str, Rows] | None:
        """Return (relation, column, rows) from which rows of a column are copied; None if the column is computed."""
        del name, places
        return None

    def copied(self, name: str, places: Positions) -> Iterator[Run] | None:
        """Return the runs of stored rows from which rows of a column are copied; None if the column is computed."""
        below = self.below(name, places)
        return None if below is None else below[0].copied(below[1], np.asarray(below[2]))

    @property
    def names(self) -> list[str]:
        """The columns in order."""
        return list(self.infos)

    def hidden(self) -> Sequence[str]:
        """Return the names of hidden tensors of the dataset, which are not columns."""
        return ()

    def stored_name(self, name: str) -> str:
        """Return the name that an import gave the column `name`, or `name` itself."""
        return name

    def shapes(self, name: str, places: Rows) -> Column:
        """Return the shapes of samples."""
        below = self.below(name, places)
        return shape_of(self.read(name, places)) if below is None else below[0].shapes(*below[1:])

    def facts(self, name: str, places: Rows) -> Column:
        """Return the recorded properties of the files of samples."""
        below = self.below(name, places)
        return Objects([{} for _ in range(len(places))]) if below is None else below[0].facts(*below[1:])

    def missing(self, name: str, places: Rows) -> Mask | None:
        """Return the mask of missing samples; None if there are none."""
        return self.read(name, places).missing

    def select(self, places: Positions) -> Relation:
        """Return the relation of some rows, in that order."""
        return Picked(self, places)

    def whole(self, name: str) -> Column:
        """Return all rows of a column."""
        found = []
        for window in self.windows([name]):
            tick()
            found.append(self.read(name, window))
        return concatenated(found) if found else self.read(name, range(0))

    def windows(self, names: Sequence[str], *, is_soon: bool = False) -> Iterator[range]:
        """Yield consecutive ranges of all positions, whose columns fit into memory together."""
        return windows(self.row_bytes(names), len(self), is_soon=is_soon)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return the approximate size of a row of some columns."""
        return 64 * len(names) + 8

    def origin(self) -> object:
        """Return a value that relations over one table share; None if rows come from several tables."""
        return None

    def base_rows(self) -> Positions | None:
        """Return the number of the table's row from which each row comes; None if the rows come from several tables."""
        return None


class Stored(Relation):
    """Rows of a table.

    Parameters
    ----------
    places
        Row numbers in the dataset; None for all rows of the table.
    """

    def __init__(
        self, table: Table, places: Rows | None = None, columns: Mapping[str, StoredColumn] | None = None
    ) -> None:
        self.table = table
        self.places = table.rows() if places is None else places
        self._columns = (
            Lazy(table.names, lambda name: StoredColumn(table, name)) if columns is None else columns
        )
        self.infos = Lazy(self._columns, lambda name: self._columns[name].info)

    def __len__(self) -> int:
        return len(self.places)

    def hidden(self) -> Sequence[str]:
        """Return the names of the dataset's hidden tensors that are not columns of the table."""
        snapshot = self.table.session.schema()
        shown = {*snapshot.names(), *self.table.names}
        return [name for name in snapshot.names(hidden=True) if name not in shown]

    def stored_name(self, name: str) -> str:
        """Return the name that an import gave the column `name`, or `name` itself."""
        return self.table.session.schema().stored_name(name)

    def column(self, name: str) -> StoredColumn:
        """Return the reader of a column."""
        return self._columns[name]

    def _rows(self, places: Rows) -> Rows:
        own = self.places
        if not isinstance(own, range):
            return _at(own, places)
        if isinstance(places, range):
            return own[_slice(places)]
        return places if own.start == 0 and own.step == 1 else places * own.step + own.start

    def read(self, name: str, places: Rows) -> Column:
        """Return rows of a column by position."""
        return self._columns[name].read(self._rows(places))

    def shapes(self, name: str, places: Rows) -> Column:
        """Return the shapes of samples, without reading values if the shapes are recorded."""
        found = self._columns[name].shapes(self._rows(places))
        return shape_of(self.read(name, places)) if found is None else Numbers(found)

    def facts(self, name: str, places: Rows) -> Column:
        """Return the recorded properties of the files of samples."""
        return self._columns[name].facts(self._rows(places))

    def missing(self, name: str, places: Rows) -> Mask | None:
        """Return the mask of missing samples, without reading values if it is recorded."""
        if not self._columns[name].info.are_nulls_apart:
            return super().missing(name, places)
        return self._columns[name].missing(self._rows(places))

    def select(self, places: Positions) -> Relation:
        """Return the relation of some rows, in that order."""
        return Stored(self.table, self._rows(places), self._columns)

    def windows(self, names: Sequence[str], *, is_soon: bool = False) -> Iterator[range]:
        """Yield consecutive ranges of all positions, along the chunks of the largest column."""
        if not isinstance(self.places, range) or self.places.start or self.places.step != 1:
            return super().windows(names, is_soon=is_soon)
        columns = [self._columns[name] for name in names]
        largest = max(columns, key=lambda column: column.row_bytes, default=None)
        ends = np.empty(0, np.int64) if largest is None else largest.chunk_ends()
        return windows(self.row_bytes(names), len(self), is_soon=is_soon, ends=ends)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return the approximate size of a row of some columns."""
        return sum(self._columns[name].row_bytes for name in names) or 8

    def copied(self, name: str, places: Positions) -> Iterator[Run]:
        """Return the rows as one run."""
        return iter([Run(self, name, np.asarray(self._rows(places)))])

    def origin(self) -> object:
        """Return a value that relations over the table share."""
        session = self.table.session
        return session.storage.url, session.snapshot.version_id

    def base_rows(self) -> Positions:
        """Return the row numbers in the dataset."""
        return np.asarray(self.places, np.int64)

    def as_table(self) -> Table:
        """Return the rows as a table."""
        places = self.places
        if not isinstance(places, range):
            index = Index((places,))
        else:
            index = Index() if places == range(self.table.whole.length) else Index((_slice(places),))
        return Table(self.table.session, self.table.names, index)


def _slice(places: range) -> slice:
    stop = None if places.step < 0 and places.stop < 0 else places.stop
    return slice(places.start, stop, places.step)


def _at(numbers: NDArray[np.int64], places: Rows) -> NDArray[np.int64]:
    return numbers[_slice(places) if isinstance(places, range) else places]


class Projected(Relation):
    """Expressions over another relation."""

    def __init__(self, base: Relation, outputs: Mapping[str, Bound]) -> None:
        self.base = base
        self.outputs = dict(outputs)
        self.infos = {name: node.info for name, node in outputs.items()}

    def __len__(self) -> int:
        return len(self.base)

    def read(self, name: str, places: Rows) -> Column:
        """Compute rows of a column."""
        return evaluate(self.outputs[name], Scope(self.base, places))

    def below(self, name: str, places: Rows) -> tuple[Relation, str, Rows] | None:
        """Return the source of a column that is only renamed; None for a computed column."""
        node = self.outputs[name]
        return (self.base, node.name, places) if isinstance(node, Input) else None

    def copied(self, name: str, places: Positions) -> Iterator[Run] | None:
        """Return the source of a column that is only renamed, or has no values; None for a computed column."""
        node = self.outputs[name]
        if isinstance(node, Value) and node.value is None:
            return iter([Run(None, name, places)])
        return super().copied(name, places)

    def select(self, places: Positions) -> Relation:
        """Return the relation of some rows, in that order."""
        if any(map(is_by_place, self.outputs.values())):
            return Picked(self, places)
        return Projected(self.base.select(places), self.outputs)

    def windows(self, names: Sequence[str], *, is_soon: bool = False) -> Iterator[range]:
        """Yield consecutive ranges of all positions, whose columns fit into memory together."""
        return self.base.windows(self._read(names), is_soon=is_soon)

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return the approximate size of a row of some columns."""
        return self.base.row_bytes(self._read(names))

    def _read(self, names: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(n for name in names for n in inputs(self.outputs[name]) if n))

    def origin(self) -> object:
        """Return a value that relations over one table share."""
        return self.base.origin()

    def base_rows(self) -> Positions | None:
        """Return the number of the table's row from which each row comes."""
        return self.base.base_rows()


class Picked(Relation):
    """Rows of another relation, in any order."""

    def __init__(self, base: Relation, places: Positions) -> None:
        self.base = base
        self.places = places
        self.infos = base.infos

    def __len__(self) -> int:
        return len(self.places)

    def read(self, name: str, places: Rows) -> Column:
        """Return rows of a column by position."""
        return self.base.read(name, _at(self.places, places))

    def below(self, name: str, places: Rows) -> tuple[Relation, str, Rows]:
        """Return the source of a column."""
        return self.base, name, _at(self.places, places)

    def select(self, places: Positions) -> Relation:
        """Return the relation of some rows, in that order."""
        return Picked(self.base, self.places[places])

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return the approximate size of a row of some columns."""
        return self.base.row_bytes(names)

    def origin(self) -> object:
        """Return a value that relations over one table share."""
        return self.base.origin()

    def base_rows(self) -> Positions | None:
        """Return the number of the table's row from which each row comes."""
        found = self.base.base_rows()
        return None if found is None else found[self.places]


def _runs(
    parts: Sequence[Relation | None], name: str, which: Positions, places: Positions
) -> Iterator[Run] | None:
    """Return the runs of a column whose rows are in several relations, by the number of each row's relation."""
    found: list[Iterator[Run]] = []
    for run in np.split(np.arange(len(which)), np.flatnonzero(np.diff(which)) + 1):
        if len(run):
            part = parts[int(which[run[0]])]
            copied = iter([Run(None, name, run)]) if part is None else part.copied(name, places[run])
            if copied is None:
                return None
            found.append(copied)
    return chain.from_iterable(found)


class Combined(Relation):
    """Rows of several relations side by side.

    Parameters
    ----------
    sides
        Relations and the positions of their rows, -1 for no row.
    columns
        Name of the column -> number of the side, and name of the column on that side.
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
        """Return rows of a column by position."""
        side, inner = self.columns[name]
        relation, own = self.sides[side]
        wanted = _at(own, places)
        gone = wanted < 0
        if not gone.any():
            return relation.read(inner, wanted)
        if gone.all():
            return Objects([None] * len(wanted))
        # For a row without a partner, read the partner of the row before it; the row is marked as missing later.
        found = take(relation.read(inner, wanted[~gone]), np.maximum(np.cumsum(~gone) - 1, 0))
        if isinstance(found, Numbers):
            return Numbers(found.values, either(found.missing, gone))
        values = [None if is_gone else value for value, is_gone in zip(rows(found), gone, strict=True)]
        return collect(values) if isinstance(found, Ragged | Texts) else Objects(values)

    def copied(self, name: str, places: Positions) -> Iterator[Run] | None:
        """Return the source of a column; rows without a partner have none."""
        side, inner = self.columns[name]
        relation, own = self.sides[side]
        return _runs([relation, None], inner, (own[places] < 0).astype(np.int64), own[places])

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return the approximate size of a row of some columns."""
        of = [self.columns[name] for name in names]
        return 8 + sum(
            relation.row_bytes([inner for number, inner in of if number == side])
            for side, (relation, _) in enumerate(self.sides)
        )


class Chained(Relation):
    """The rows of several relations, concatenated."""

    def __init__(self, parts: Sequence[Relation]) -> None:
        self.parts = list(parts)
        self.infos = {name: merged([part.infos[name] for part in self.parts]) for name in self.parts[0].names}
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, name: str, places: Rows) -> Column:
        """Return rows of a column by position."""
        wanted = np.asarray(places, np.int64)
        which = np.searchsorted(self._ends, wanted, side="right")
        found: list[Column] = []
        order: list[NDArray[np.int64]] = []
        for number, part in enumerate(self.parts):
            (mine,) = np.nonzero(which == number)
            if len(mine):
                found.append(part.read(name, wanted[mine] - (int(self._ends[number]) - len(part))))
                order.append(mine)
        return in_places(found, order) if found else self.parts[0].read(name, wanted)

    def copied(self, name: str, places: Positions) -> Iterator[Run] | None:
        """Return the sources of a column in the parts."""
        which = np.searchsorted(self._ends, places, side="right")
        starts = self._ends - [len(part) for part in self.parts]
        return _runs(self.parts, name, which, places - starts[which])

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return the approximate size of a row of some columns."""
        return max(part.row_bytes(names) for part in self.parts)


class Grouped(Relation):
    """Groups of rows of another relation: each group is one row.

    Parameters
    ----------
    members
        Positions of the rows of all groups, concatenated.
    ends
        Start of each group in `members`, and the end of the last group: shape (groups + 1,).
    """

    def __init__(self, base: Relation, members: Positions, ends: Positions) -> None:
        self.base = base
        self.members = members
        self.ends = ends
        self.infos = {name: info.grouped() for name, info in base.infos.items()}

    def __len__(self) -> int:
        return len(self.ends) - 1

    def row_bytes(self, names: Sequence[str]) -> int:
        """Return the approximate size of a group of some columns."""
        return 8 + self._member_bytes(names) * max(1, len(self.members) // max(1, len(self)))

    def _member_bytes(self, names: Sequence[str]) -> int:
        return self.base.row_bytes([name for name in names if name != COUNT_ALL])

    def read(self, name: str, places: Rows) -> Column:
        """Return the samples of each group as one value: an array if they have one shape, else a list."""
        sizes = _at(np.diff(self.ends), places)
        if name == COUNT_ALL:
            return Numbers(sizes)
        if isinstance(places, range) and places == range(len(self)) and len(self.members) == len(self.base):
            # Every row belongs to exactly one group: read the rows in their own order, which is fastest.
            return stacked(take(self.base.read(name, range(len(self.base))), self.members), sizes)
        return stacked(self.base.read(name, self.members[spread(_at(self.ends[:-1], places), sizes)]), sizes)

    def windows(self, names: Sequence[str], *, is_soon: bool = False) -> Iterator[range]:
        """Yield consecutive ranges of groups that fit into memory, at least one group each."""
        del is_soon
        most = max(_LEAST_MEMBERS, min(_MOST_MEMBERS, _WINDOW_BYTES // self._member_bytes(names)))
        start = 0
        while start < len(self):
            stop = int(np.searchsorted(self.ends, self.ends[start] + most, side="right")) - 1
            stop = min(len(self), max(stop, start + 1))
            yield range(start, stop)
            start = stop


def stacked(column: Column, sizes: NDArray[np.int64]) -> Column:
    """Return runs of samples as one value each: an array with one more axis, or a list."""
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
        For each row, the position of the value in the other relation, and the number of the item in that value.
    split
        Columns whose values are split into items; the values of other columns repeat.
    numbered
        Name of the column with the number of the item; None for no such column.
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
        self.infos = dict(base.infos)
        for name in split:
            info = base.infos[name]
            kind = info.kind if info.kind == "array" else "any"
            self.infos[name] = Info(kind, info.dtype, class_names=info.class_names, logical=info.logical)
        if numbered is not None:
            self.infos[numbered] = NUMBER

    def __len__(self) -> int:
        return len(self.owners)

    def read(self, name: str, places: Rows) -> Column:
        """Return rows of a column by position."""
        wanted = np.asarray(places, np.int64)
        items = self.items[wanted]
        if name == self.numbered:
            return Numbers(items)
        found, inverse = np.unique(self.owners[wanted], return_inverse=True)
        column, owners = self.base.read(name, found), inverse.reshape(-1)
        if name not in self.split:
            return take(column, owners)
        values = rows(column)
        pairs = zip(owners.tolist(), items.tolist(), strict=True)
        return collect([None if values[v] is None else item_of(values[v], i) for v, i in pairs])
