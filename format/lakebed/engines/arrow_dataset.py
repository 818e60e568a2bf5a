"""A dataset as ``pyarrow.dataset.Dataset``: engines request columns and rows, and only these are read.

A scan goes through the rows window by window. It reads the columns of the filter, applies it, and then reads the other
columns in the rows that are left. Rows that cannot match by the statistics of their chunks are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import and_
from typing import Any, Never

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from numpy.typing import NDArray
from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions
from pyarrow.fs import LocalFileSystem

from lakebed.documents.chunk_statistics import HAS_NAN, HAS_VALUES
from lakebed.errors import InvalidInputError
from lakebed.query.relations.stored import StoredColumn
from lakebed.query.statistics import known
from lakebed.reading.columns.arrow import BATCH_ROWS, number_array
from lakebed.reading.columns.shown import FILE_ROWS, ShownColumn
from lakebed.reading.remote.prefetch import prefetch
from lakebed.reading.subscripts import Index, Rows
from lakebed.session.columns import ROW_ID, row_window
from lakebed.session.table import Table

Part = range | NDArray[np.int64]
"""Numbers of rows that are read together."""

_FIRST_ROWS = 1 << 10
"""Rows of the first window. Windows double up to `BATCH_ROWS`, so that LIMIT reads little."""

_DENSE = 8
"""If more than 1 / 8 of the rows of a window pass the filter, the other columns are read whole."""

_SELECTIVE = 4
"""If statistics leave less than 1 / 4 of the rows, windows begin at full size."""

_MOST_STRETCHES = 1 << 14
"""Maximum number of stretches of rows that are compared with a filter, at 12 microseconds each.

If there are more, neighbouring stretches are joined.
"""

_ORDERED = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
    pa.types.is_dictionary,
)
"""Types of columns whose statistics are used: Arrow orders their values as the stored numbers."""

_NOT_A_NUMBER = re.compile(r"nan|\b(?!(?:is_in|is_null|is_valid|invert|cast|if_else)\()\w+\(", re.IGNORECASE)
"""Pattern of conditions that may meet NaN: the word NaN, or a function that may return it."""


@dataclass(frozen=True)
class Shown:
    """How columns are shown: see ``Dataset.to_arrow_dataset``."""

    labels: bool = True
    files: bool = True
    row_ids: bool = False


class Scanner:
    """Reader of some columns of the rows that pass a filter; each call reads from the start.

    ``Dataset.scanner`` returns it. It has the methods of ``pyarrow.dataset.Scanner`` that engines call.

    Parameters
    ----------
    is_narrow
        Read the rows that the named columns have, even if other tensors are shorter.
    kept
        Facts of earlier scanners of the same rows, which this one uses and adds to.
    """

    def __init__(
        self,
        table: Table,
        shown: Shown,
        columns: Sequence[str] | Mapping[str, pads.Expression] | None,
        condition: pads.Expression | None,
        batch_size: int = BATCH_ROWS,
        *,
        is_narrow: bool = False,
        kept: dict[Any, _Stretches] | None = None,
    ) -> None:
        if batch_size < 1:
            raise InvalidInputError(f"batch_size is {batch_size}; it must be at least 1")
        self._table, self._shown, self._condition, self._batch_size = table, shown, condition, batch_size
        self._scans = _Scans(table, shown, {} if kept is None else kept)
        schema = self.dataset_schema = self._scans.schema
        self._computed = columns if isinstance(columns, Mapping) else None
        names = schema.names if columns is None else list(columns)
        read = names if self._computed is None else _named(list(self._computed.values()), schema)
        unknown = [name for name in read if name not in schema.names]
        if unknown:
            raise InvalidInputError(
                f"there is no column {unknown[0]!r}: the columns are {', '.join(schema.names)}"
            )
        self._read = list(dict.fromkeys(read))
        self._filtered = [] if condition is None else _named([condition], schema)
        named = {name: None for name in [*self._read, *self._filtered] if name != ROW_ID}
        self._rows = (table.only(named) if is_narrow and named else table).shared_rows()
        self._kept = pa.schema([schema.field(name) for name in read])
        self.projected_schema: pa.Schema = self._kept
        if self._computed is not None:
            self.projected_schema = _computed(self._kept.empty_table(), self._computed).schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches, which reads only the batches that are requested."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Read all rows."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows."""
        found: list[pa.RecordBatch] = []
        batches = self.to_batches()
        while num_rows > 0 and (batch := next(batches, None)) is not None:
            found.append(batch.slice(0, num_rows))
            num_rows -= len(found[-1])
        return pa.Table.from_batches(found, self.projected_schema)

    def count_rows(self) -> int:
        """Return the number of rows; without a filter nothing is read."""
        if self._condition is None:
            return len(self._rows)
        return sum(map(len, self.rows()))

    def rows(self) -> Iterator[Part]:
        """Yield the numbers of the rows that the filter leaves, some at a time."""
        return (rows for rows, _ in self._matching([]))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches, none of them empty."""
        for rows, columns in self._matching(self._read):
            arrays = [
                columns[name] if name in columns else self._scans.read(name, rows)
                for name in self._kept.names
            ]
            if self._computed is None:
                yield _batch(arrays, self._kept, len(rows))
            else:
                batch = _batch(list(map(_aligned, arrays)), self._kept, len(rows))
                yield from _computed(pa.Table.from_batches([batch]), self._computed).to_batches()

    def _matching(self, wanted: Sequence[str]) -> Iterator[tuple[Part, dict[str, pa.Array]]]:
        """Yield the rows of each window that pass the filter, with their columns that were read already."""
        scans, named = self._scans, self._filtered
        telling = scans.telling(named)
        runs = scans.runs(self._rows, self._condition, telling)
        size = min(FILE_ROWS if scans.has_files([*wanted, *named]) else BATCH_ROWS, self._batch_size)
        # Where statistics leave few rows, few of them will match: filter many at once.
        is_selective = self._condition is not None and sum(map(len, runs)) * _SELECTIVE < len(self._rows)
        parts = _parts(self._rows, runs, size, size if is_selective else _FIRST_ROWS)
        # Read ahead here only if the rows are a window: chunks of other rows are read ahead when the rows are taken.
        is_window = row_window(self._rows) is not None
        with scans.ahead(wanted if self._condition is None else named, runs if is_window else []):
            if self._condition is None:
                yield from ((rows, {}) for rows in parts)
                return
            for group in _groups(parts, size if is_selective else 0):
                columns = {name: _aligned(scans.read_all(name, group)) for name in named}
                for column in telling:
                    for rows in group:
                        if isinstance(rows, range):
                            known.learn(column, rows)
                mask = _computed(pa.table(columns), {"": self._condition}).column(0).combine_chunks()
                left = np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False))
                if not len(left):
                    continue
                if len(left) * _DENSE > len(mask):
                    others = [name for name in wanted if name not in columns and scans.is_cheap(name)]
                    columns |= {name: scans.read_all(name, group) for name in others}
                kept = {name: array.filter(mask) for name, array in columns.items() if name in wanted}
                yield _numbers(group)[left], kept
        for column in telling:
            known.save(column)


Keep = Callable[[Table], Table] | None
"""Function that leaves rows out of a table, in another process; None keeps all."""


def filtering(table: Table, condition: pads.Expression | None) -> Keep:
    """Return a function that reduces a table of the dataset to the rows that match; None without a condition.

    Parameters
    ----------
    table
        Columns that the condition may name, as ``Dataset.scanner`` shows them.

    Raises
    ------
    InvalidInputError
        If the condition does not fit the columns.
    """
    if condition is None:
        return None
    Scanner(table, Shown(), [], condition, is_narrow=True)
    return partial(_matching, names=dict(table.names), condition=condition)


def _matching(table: Table, names: Mapping[str, str], condition: pads.Expression) -> Table:
    wide = Table(table.session, names, Index(table.index.chain))
    found = [
        np.asarray(rows, np.int64) for rows in Scanner(wide, Shown(), [], condition, is_narrow=True).rows()
    ]
    chosen = np.concatenate([np.empty(0, np.int64), *found])
    return Table(table.session, table.names, Index(Index()[chosen].chain, table.index.inside))


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Return a record batch; a batch without columns still has its number of rows."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))


def _aligned(array: pa.Array) -> pa.Array:
    """Return an array whose numbers are aligned; Arrow's engine warns of unaligned numbers, as in mapped chunks."""
    is_aligned = all(values is None or values.address % 8 == 0 for values in array.buffers()[1:2])
    return array if is_aligned else pa.concat_arrays([array, array.slice(0, 0)])


def _numbers(group: Sequence[Part]) -> NDArray[np.int64]:
    found = [np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows for rows in group]
    return found[0] if len(found) == 1 else np.concatenate(found)


def _places(rows: Part) -> pa.Array:
    return number_array(_numbers([rows]), pa.int64())


def _named(expressions: Sequence[pads.Expression], schema: pa.Schema) -> list[str]:
    """Return the columns that expressions name.

    Arrow tells only whether an expression fits a schema, so the needed columns are found by bisection.

    Raises
    ------
    InvalidInputError
        If the expressions do not fit the schema.
    """

    def check(names: Sequence[str]) -> None:
        empty = pa.schema([schema.field(name) for name in names]).empty_table()
        _computed(empty, {str(number): expression for number, expression in enumerate(expressions)})

    def fits(names: Sequence[str]) -> bool:
        try:
            check(names)
        except pa.ArrowException:
            return False
        return True

    def needed(names: list[str], others: list[str]) -> list[str]:
        """Return the columns among ``names`` that are needed in addition to ``others``."""
        if fits(others):
            return []
        if len(names) == 1:
            return names
        middle = len(names) // 2
        first = needed(names[:middle], names[middle:] + others)
        return first + needed(names[middle:], first + others)

    text = " ".join(map(str, expressions))
    likely = [name for name in schema.names if name in text]
    if fits(likely):
        return likely if len(likely) == 1 else needed(likely, [])
    try:
        check(schema.names)
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"the expression does not fit the columns {', '.join(schema.names)}: {error}"
        ) from error
    return needed(list(schema.names), [])


def _computed(table: pa.Table, expressions: Mapping[str, pads.Expression]) -> pa.Table:
    """Compute columns from columns of a table."""
    compute = [
        Declaration("table_source", TableSourceNodeOptions(table)),
        Declaration("project", ProjectNodeOptions(list(expressions.values()), list(expressions))),
    ]
    return Declaration.from_sequence(compute).to_table(use_threads=False)


class _Scans:
    """The columns of a table, opened when they are read."""

    def __init__(self, table: Table, shown: Shown, kept: dict[Any, _Stretches]) -> None:
        self._table, self._kept = table, kept
        self._scanned = table.scans()
        self.columns = {
            name: ShownColumn.of(scan, labels=shown.labels, files=shown.files)
            for name, scan in self._scanned.items()
        }
        fields = [pa.field(name, column.kind) for name, column in self.columns.items()]
        # DuckDB reads the first column to count rows, so the row numbers come first.
        self.schema = pa.schema([pa.field(ROW_ID, pa.int64()), *fields] if shown.row_ids else fields)

    def has_files(self, names: Sequence[str]) -> bool:
        return any(self.columns[name].how == "files" for name in names if name in self.columns)

    def is_cheap(self, name: str) -> bool:
        """True if reading a whole window costs little more than reading some of its rows."""
        return (
            name in self.columns and self.columns[name].how == "values" and not self._scanned[name].is_special
        )

    def read(self, name: str, rows: Part) -> pa.Array:
        """Read rows of a column."""
        if name == ROW_ID:
            return _places(rows)
        column = self.columns[name]
        return column.column(rows.start, rows.stop) if isinstance(rows, range) else column.taken(rows)

    def read_all(self, name: str, group: Sequence[Part]) -> pa.Array:
        """Read several parts of a column as one array."""
        found = [self.read(name, rows) for rows in group]
        return found[0] if len(found) == 1 else pa.concat_arrays(found)

    def ahead(self, names: Sequence[str], runs: Sequence[range]) -> Any:
        """Return a context in which columns are read ahead, if they are in a store."""
        scans = [self._scanned[name] for name in names if name in self._scanned]
        return prefetch([wanted for scan in scans for run in runs for wanted in scan.wanted(run)])

    def telling(self, names: Sequence[str]) -> list[StoredColumn]:
        """Return the columns of single numbers, times or labels, whose statistics Arrow can use."""
        ordered = [
            name
            for name in names
            if name in self.columns and any(test(self.columns[name].kind) for test in _ORDERED)
        ]
        columns = [StoredColumn(self._table, name) for name in ordered]
        return [column for column in columns if column.has_statistics]

    def runs(
        self, rows: Rows, condition: pads.Expression | None, columns: Sequence[StoredColumn]
    ) -> list[range]:
        """Return the runs of rows in which a condition may be true, by the statistics of the chunks of columns."""
        if not len(rows):
            return []
        window = row_window(rows)
        if window is None:
            numbers = np.asarray(rows, np.int64)
            window = (int(numbers.min()), int(numbers.max()) + 1)
        told = []
        if condition is not None:
            meets_nan = _may_meet_nan(condition)
            told = [each for each in self._told(columns) if not (meets_nan and each.is_floating)]
        if not told:
            return [range(*window)]
        return _joined(self._stretches(window, told).matching(condition))

    def _stretches(self, window: tuple[int, int], told: Sequence[_Told]) -> _Stretches:
        """Return the facts of a window of rows, those of an earlier scan if nothing has changed since."""
        key = window, tuple(each.column.name for each in told)
        basis = [(each.statistics, each.column.scan.has_nulls) for each in told]
        found = self._kept.get(key)
        if found is None or not all(
            old is new and had == has for (old, had), (new, has) in zip(found.basis, basis, strict=True)
        ):
            found = self._kept[key] = _Stretches.of(window, told, self.schema, basis)
        return found

    def _told(self, columns: Sequence[StoredColumn]) -> list[_Told]:
        known.load(columns)
        found = []
        for column in columns:
            statistics = known.aligned(column)
            if statistics is not None and statistics.numbers is not None:
                found.append(_Told(column, self.columns[column.name], statistics, statistics.numbers))
        return found


@dataclass(frozen=True)
class _Told:
    """The statistics of the chunks of a column."""

    column: StoredColumn
    shown: ShownColumn
    statistics: known.Aligned
    numbers: known.Numbers

    @property
    def is_floating(self) -> bool:
        return bool(pa.types.is_floating(self.shown.kind))

    @property
    def ends(self) -> NDArray[np.int64]:
        """Number of rows up to the end of each piece to which the statistics belong."""
        return self.statistics.ends

    def facts(self, edges: NDArray[np.int64]) -> list[pads.Expression | None]:
        """Return an expression for each stretch of rows that is true for all of its rows; None if nothing is known."""
        pieces = self.statistics.pieces
        flags = pieces["flags"]
        is_sure = self.statistics.known & (flags & HAS_VALUES != 0) & (flags & HAS_NAN == 0)
        is_null = (pieces["empty"] > 0) | self.column.scan.has_nulls
        first = np.searchsorted(self.ends, edges[:-1], side="right")
        last = np.searchsorted(self.ends, edges[1:] - 1, side="right")
        cuts = np.stack([first, last + 1], axis=1).reshape(-1)

        def over(found: NDArray[Any], how: np.ufunc) -> list[Any]:
            # Append an entry, because the end of the last stretch is used as an index, too.
            padded = np.append(found, found[-1:])
            return list(how.reduceat(padded, cuts)[::2])

        columns = zip(
            over(is_sure, np.logical_and),
            over(is_null, np.logical_or),
            over(self.numbers.low, np.minimum),
            over(self.numbers.high, np.maximum),
            strict=True,
        )
        return [self._fact(low, high, null) if sure else None for sure, null, low, high in columns]

    def _fact(self, low: Any, high: Any, may_be_null: bool) -> pads.Expression | None:
        field = pads.field(self.column.name)
        if self.shown.names is not None:
            return None if may_be_null or low != high else field == self._shown_as(low)
        least, most = field >= self._shown_as(low), field <= self._shown_as(high)
        if may_be_null:
            return (least | field.is_null()) & (most | field.is_null())
        return least & most & field.is_valid()

    def _shown_as(self, number: Any) -> pa.Scalar:
        array = number_array(np.array([number]), self.shown.stored)
        return (array if self.shown.names is None else self.shown.names.named(array))[0]


def _may_meet_nan(condition: pads.Expression) -> bool:
    """Tell whether a condition may meet NaN; then Arrow must not use the statistics of columns of floats."""
    return _NOT_A_NUMBER.search(str(condition)) is not None


@dataclass(frozen=True)
class _Stretches:
    """Stretches of rows, each with facts that are true for all of its rows.

    Arrow decides where a filter can be true: it treats stretches as files of a partitioned dataset, and facts as their
    partition expressions.

    Attributes
    ----------
    basis
        Statistics and presence of nulls, of each column, from which the facts follow.
    """

    stretches: Sequence[range]
    files: pads.FileSystemDataset
    basis: Sequence[tuple[known.Aligned, bool]]

    @classmethod
    def of(
        cls,
        window: tuple[int, int],
        told: Sequence[_Told],
        schema: pa.Schema,
        basis: Sequence[tuple[known.Aligned, bool]],
    ) -> _Stretches:
        """Cut a window where statistics begin anew, and collect the facts."""
        ends = np.unique(np.concatenate([each.ends for each in told]))
        ends = ends[(ends > window[0]) & (ends < window[1])]
        edges = np.concatenate([window[:1], ends[:: len(ends) // _MOST_STRETCHES + 1], window[1:]])
        form, nowhere = pads.IpcFileFormat(), LocalFileSystem()
        fragments = []
        for at, facts in enumerate(zip(*(each.facts(edges) for each in told), strict=True)):
            true = [fact for fact in facts if fact is not None]
            fragments.append(form.make_fragment(str(at), nowhere, reduce(and_, true) if true else None))
        stretches = [range(start, stop) for start, stop in pairwise(edges.tolist())]
        return cls(stretches, pads.FileSystemDataset(fragments, schema, form, nowhere), basis)

    def matching(self, condition: pads.Expression) -> Iterator[range]:
        """Yield the stretches in which a condition can be true."""
        return (self.stretches[int(each.path)] for each in self.files.get_fragments(condition))


def _joined(stretches: Iterable[range]) -> list[range]:
    """Return stretches with neighbours joined."""
    found: list[range] = []
    for each in stretches:
        if found and found[-1].stop == each.start:
            found[-1] = range(found[-1].start, each.stop)
        else:
            found.append(each)
    return found


def _groups(parts: Iterable[Part], most: int) -> Iterator[list[Part]]:
    """Put parts together, up to a number of rows; a part that is larger stays alone."""
    group: list[Part] = []
    count = 0
    for part in parts:
        if group and count + len(part) > most:
            yield group
            group, count = [], 0
        group.append(part)
        count += len(part)
    if group:
        yield group


def _parts(rows: Rows, runs: Sequence[range], most: int, first: int) -> Iterator[Part]:
    """Cut the rows that are within runs into windows, the first one of `first` rows."""
    size = min(first, most)
    if row_window(rows) is not None:
        for run in runs:
            start = run.start
            while start < run.stop:
                yield range(start, min(start + size, run.stop))
                start, size = start + size, min(2 * size, most)
        return
    numbers = np.asarray(rows, np.int64)
    edges = np.array([(run.start, run.stop) for run in runs], np.int64).reshape(-1)
    numbers = numbers[np.searchsorted(edges, numbers, side="right") % 2 == 1]
    start = 0
    while start < len(numbers):
        yield numbers[start : start + size]
        start, size = start + size, min(2 * size, most)


class LakeDataset(pads.Dataset):  # type: ignore[misc]
    """The rows of a table as a dataset of Arrow, which DuckDB, polars and others query by columns and filters."""

    def __init__(self, table: Table, shown: Shown, condition: pads.Expression | None = None) -> None:
        # Do not call the constructor: Arrow's class has none. Every method of it that users could call is overridden
        # below.
        table.shared_rows()  # raises an error now, not within an engine
        self._table, self._shown, self._condition = table, shown, condition
        self._kept: dict[Any, _Stretches] = {}

    @property
    def schema(self) -> pa.Schema:
        """Columns and their types."""
        return _Scans(self._table, self._shown, {}).schema

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pads.Expression] | None = None,
        filter: pads.Expression | None = None,  # noqa: A002
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> Scanner:
        """Return a scanner; Arrow's options for reading ahead and for threads have no effect."""
        both = [each for each in (self._condition, filter) if each is not None]
        condition = reduce(and_, both) if both else None
        return Scanner(self._table, self._shown, columns, condition, batch_size, kept=self._kept)

    def to_table(self, *args: Any, **options: Any) -> pa.Table:
        """Read rows as a table."""
        return self.scanner(*args, **options).to_table()

    def to_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Read rows as record batches."""
        return self.scanner(*args, **options).to_batches()

    def head(self, num_rows: int, *args: Any, **options: Any) -> pa.Table:
        """Read the first rows."""
        return self.scanner(*args, **options).head(num_rows)

    def take(self, indices: Any, *args: Any, **options: Any) -> pa.Table:
        """Read rows by number."""
        if self._condition is not None:
            return self.scanner(*args, **options).to_table().take(indices)
        rows = np.asarray(indices, np.int64).tolist()
        return LakeDataset(self._table[rows], self._shown).to_table(*args, **options)

    def count_rows(self, filter: pads.Expression | None = None, **_: Any) -> int:  # noqa: A002
        """Return the number of rows."""
        return self.scanner([], filter).count_rows()

    def filter(self, expression: pads.Expression) -> LakeDataset:
        """Return the dataset of the rows for which an expression is true."""
        both = expression if self._condition is None else self._condition & expression
        return LakeDataset(self._table, self._shown, both)

    def get_fragments(self, filter: pads.Expression | None = None) -> Iterator[LakeDataset]:  # noqa: A002
        """Yield the dataset itself, since it does not consist of files."""
        yield self if filter is None else self.filter(filter)

    def __reduce__(self) -> tuple[Any, ...]:
        return LakeDataset, (self._table, self._shown, self._condition)

    def _unsupported(self, *_: Any, **__: Any) -> Never:
        raise NotImplementedError("read a table first: to_table(columns=..., filter=...)")

    join = join_asof = sort_by = replace_schema = _unsupported
    partition_expression = property(_unsupported)
