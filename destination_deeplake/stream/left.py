"""Rows that an interrupted refresh has staged, for a sync that adds them to the dataset.

Columns are matched by field, because tensors of one name may belong to different columns. Values are converted to the
dataset's type of the column before rows are compared:

    staged            in the dataset                     becomes
    any               the same type                      itself, with its exact digits if it has any (`exact`)
    integer           text, digits as text               its digits
    integer           floating point                     the nearest one; in keys and cursors with its digits beside
    any               no such column                     a column of the dataset, of the staged type
    anything else     another type                       nothing: the sync is refused, the rows stay staged
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

import lakebed
from destination_deeplake.catalog import StreamPlan
from destination_deeplake.columns import Kind
from destination_deeplake.failures import ConfigError
from destination_deeplake.naming import META_COLUMNS
from destination_deeplake.stream.layout import expected, kept
from destination_deeplake.stream.record import INFO_KEY
from destination_deeplake.stream.samples import Rows
from destination_deeplake.stream.staging import STAGING_BRANCH, batches, is_overwrite, side_branch
from destination_deeplake.stream.stored import EXACT_FIELD, StoredColumn, StoredColumns
from lakebed.upserts.ndarrays import as_arrow, present
from lakebed.upserts.ndarrays import numbers_of as as_numpy

_TEXTS = (META_COLUMNS[0], META_COLUMNS[2])


def left_rows(target: lakebed.Dataset, plan: StreamPlan) -> lakebed.Dataset | None:
    """Return the side branch with rows that a sync without replacement must add to its own rows; None if none exists.

    Raises
    ------
    ConfigError
        If these rows cannot be added.
    """
    name = side_branch(STAGING_BRANCH, target)
    if name not in target.branches:
        return None
    staged = target.start_overwrite(name, resume=True)
    found = staged.info.get(INFO_KEY) or {}
    generation = found.get("generation_id")
    if is_overwrite(found) or not isinstance(generation, int) or generation < plan.oldest_wanted:
        return None
    found_moves = _moves(staged, target, expected(target, plan).values())
    if unfit := [move.source.field for move in found_moves if not move.is_possible(staged, target)]:
        staged.close()
        raise ConfigError(
            f"The stream {str(plan)!r} has {len(staged)} rows that an interrupted refresh staged, and they cannot "
            f"be added to the rows of the dataset, because {', '.join(map(repr, unfit))} is stored differently "
            "there. Refresh the stream and remove its records."
        )
    return staged


@dataclass(frozen=True, slots=True)
class _Move:
    """Destination of the values of a staged column.

    Attributes
    ----------
    source : StoredColumn
        The column as it is staged.
    place : StoredColumn or None
        Column of the dataset that receives the values; None if the dataset lacks the column.
    digits : str or None
        Staged tensor of the exact numbers of the column.
    """

    source: StoredColumn
    place: StoredColumn | None
    digits: str | None

    def is_possible(self, staged: lakebed.Dataset, target: lakebed.Dataset) -> bool:
        """Tell whether the values have the same meaning in both datasets."""
        if self.place is None:
            # A column of links cannot be added, because links also depend on the credentials of the dataset.
            return not self.source.type.is_link
        return _is_alike(staged, target, self.source, self.place)


def _moves(staged: lakebed.Dataset, target: lakebed.Dataset, there: Iterable[StoredColumn]) -> list[_Move]:
    """Return the destination of each staged column: a column of the same field, preferably of the same type."""
    found, columns = [], kept(staged)
    beside = {column.field: tensor for tensor, column in columns.items() if tensor in staged}
    places: dict[str, list[StoredColumn]] = {}
    for column in there:
        places.setdefault(column.field, []).append(column)
    for tensor, source in columns.items():
        if tensor not in staged or source.field.startswith(EXACT_FIELD):
            continue
        free = places.get(source.field, [])
        alike = (place for place in free if _is_alike(staged, target, source, place))
        place = next(alike, free[0] if free else None)
        if place is not None:
            free.remove(place)
        found.append(_Move(source, place, beside.get(EXACT_FIELD + tensor)))
    return found


def _is_alike(
    staged: lakebed.Dataset, target: lakebed.Dataset, source: StoredColumn, place: StoredColumn
) -> bool:
    """Tell whether values of one tensor, once converted, have the same meaning in the other tensor."""
    old, new = source.type, place.type
    if _is_converted(source, place):
        return True
    if old.is_link or (old.takes_files and new.sample_compression != old.sample_compression):
        return False
    if (old.htype, old.shape, old.logical_type) != (new.htype, new.shape, new.logical_type):
        return False
    if old.htype == "class_label":
        names = _class_names(staged, source)
        known = _class_names(target, place) if place.tensor in target else new.class_names
        return known[: len(names)] == names
    return old.dtype == new.dtype


def _is_converted(source: StoredColumn, place: StoredColumn) -> bool:
    """Tell whether integers become text or floating-point numbers."""
    is_integer = source.column.kind is Kind.INT64 and source.holds_numbers
    return is_integer and (place.type.htype == "text" or place.column.kind is Kind.FLOAT64)


def _class_names(dataset: lakebed.Dataset, column: StoredColumn) -> tuple[str, ...]:
    return tuple(dataset[column.tensor].info.get("class_names") or ())


class LeftRows:
    """The staged rows, converted for the dataset.

    Parameters
    ----------
    staged : lakebed.Dataset
        The side branch, from `left_rows`.
    target : lakebed.Dataset
        The dataset.
    columns : StoredColumns
        Columns of the dataset; missing columns are added.
    """

    def __init__(self, staged: lakebed.Dataset, target: lakebed.Dataset, columns: StoredColumns) -> None:
        self._staged = staged
        self._columns = columns
        self._moves: list[tuple[_Move, StoredColumn]] = []
        for move in _moves(staged, target, columns.every):
            place = move.place
            if place is None:
                names = _class_names(staged, move.source) if move.source.type.htype == "class_label" else ()
                place = columns.adopt(replace(move.source, type=replace(move.source.type, class_names=names)))
            self._moves.append((move, place))

    def batches(self) -> Iterator[dict[str, pa.Array]]:
        """Yield the rows in order, as values for all tensors of the stream, some megabytes at a time."""
        sources = [move.source.tensor for move, _ in self._moves]
        beside = [move.digits for move, _ in self._moves if move.digits is not None]
        for batch in batches(self._staged, [*sources, *beside, *META_COLUMNS]):
            yield self._converted(batch, len(batch[META_COLUMNS[0]]))

    def deletions(
        self, told: Mapping[str, pa.Array], key: Collection[str], deleted: str
    ) -> dict[str, pa.Array]:
        """Return the deletions of staged rows as rows that mark their key as deleted; none if the staged key differs.

        Parameters
        ----------
        told : mapping of str to pyarrow.Array
            Staged tensors of key and order -> their values.
        key : collection of str
            Tensors that together name a row of the dataset.
        deleted : str
            Tensor that is not null in deleted rows.
        """
        if {place.tensor for move, place in self._moves if move.source.tensor in told}.issuperset(key):
            rows = len(next(iter(told.values())))
            found = self._converted({**{name: pa.nulls(rows, pa.string()) for name in _TEXTS}, **told}, rows)
            number = next(column for column in self._columns.every if column.tensor == deleted).type.arrow
            is_text = pa.types.is_string(number) or isinstance(number, pa.JsonType)
            found[deleted] = pa.repeat('"deleted"', rows) if is_text else pa.array(np.ones(rows)).cast(number)
            return found
        return {}

    def _converted(self, batch: Mapping[str, pa.Array], rows: int) -> dict[str, pa.Array]:
        found = {name: batch[name] for name in META_COLUMNS if name in batch}
        for move, place in self._moves:
            if move.source.tensor not in batch:
                continue
            digits = batch.get(move.digits or "")
            cells, left = batch[move.source.tensor], digits
            if _is_converted(move.source, place):
                cells, left = self._numbers(cells, digits, place)
            found[place.tensor] = cells
            if left is not None and left.null_count < rows:
                found[self._columns.make_exact(place.tensor)] = left
        for column in self._columns.every:
            if column.tensor not in found and not column.type.is_open:
                found[column.tensor] = column.type.nulls(rows)
        return found

    def _numbers(
        self, cells: pa.Array, digits: pa.Array | None, place: StoredColumn
    ) -> tuple[pa.Array, pa.Array | None]:
        """Return integers as a column of text or floats stores them, and the exact numbers that it cannot store."""
        # Imported here, because few syncs need it.
        from destination_deeplake.stream.exact import fitted
        from lakebed.upserts.numerals import numbers_of

        texts, beside = numbers_of(cells), np.zeros(len(cells), np.bool_)
        if digits is not None:
            beside = present(digits)
            places: Rows = np.where(beside, len(cells), 0) + np.arange(len(cells))
            texts = pa.concat_arrays([texts, digits]).take(as_arrow(places))
        there = present(texts)
        rows: Rows = np.flatnonzero(there)
        numbers, left = fitted(texts.take(as_arrow(rows)), place.type, place.column.kind)
        spread: Rows = np.cumsum(there) - 1
        wanted = as_arrow(np.where(there, spread, 0), absent=~there)
        numbers, left = (column.take(wanted) for column in (numbers, left))
        if place.type.nulls_as_nan:
            numbers = as_arrow(np.where(present(numbers), as_numpy(numbers), np.nan))
        if place.tensor not in self._columns.compared_exactly:
            # In a column that is not compared exactly, new numbers are rounded; exact digits that were already kept
            # stay.
            left = left.take(as_arrow(np.arange(len(left)), absent=~beside))
        return numbers, left
