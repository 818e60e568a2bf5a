"""Data source of Spark: ``spark.read.format("lakebed").load("s3://lake/photos")`` reads a dataset in parts.

Each partition is a run of rows that ends at a chunk end; tasks read the version that was current when Spark planned the
query. ``pip install '.[spark]'``; Spark needs Java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

import lakebed
from lakebed.engines.arrow_dataset import Scanner, Shown
from lakebed.errors import InvalidInputError, ModuleNotInstalledException
from lakebed.runtime.failures import outcome
from lakebed.session.table import Table
from lakebed.session.windows import WINDOW_BYTES, bytes_of_row, even, windows

try:
    from pyspark.sql import datasource as source
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
    from pyspark.sql.types import StructType
except ImportError as missing:
    raise ModuleNotInstalledException(
        "Spark is needed for this: pip install 'pyspark>=4.1', or, in a checkout, pip install '.[spark]' "
        f"({missing})"
    ) from missing

__all__ = ["LakebedSource", "register"]

_OPTIONS = {"path", "columns", "partitions"}

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
    pa.date64(): pa.date32(),
    pa.null(): pa.string(),
}
"""Types that Spark lacks -> types that hold all of their values."""


def register(spark: Any) -> None:
    """Make ``lakebed`` a format of a Spark session, and let Spark pass filters to data sources in Python.

    Parameters
    ----------
    spark
        A ``pyspark.sql.SparkSession``.
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(LakebedSource)


class LakebedSource(source.DataSource):  # type: ignore[misc]
    """Format ``lakebed``, for reading.

    Options: ``path`` is the address of the dataset, with a branch, commit or tag behind @; ``columns`` are the names of
    the tensors to read, separated by commas (None: all); ``partitions`` is their number (None: by size). Class labels
    are names, files are bytes, arrays are nested lists, JSON is text. Credentials come from each executor's
    environment.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lakebed"

    def schema(self) -> StructType:
        """Return the columns and their types.

        Raises
        ------
        InvalidInputError
            If the dataset or a column does not exist, or an option is unknown.
        """
        found = Scanner(self._table(), Shown(), None, None).projected_schema
        return from_arrow_schema(pa.schema([(field.name, _spark_type(field.type)) for field in found]))

    def reader(self, schema: StructType) -> source.DataSourceReader:
        """Return a reader of the columns of a schema."""
        partitions = self.options.get("partitions")
        return _Reader(self._table(), schema, None if partitions is None else int(partitions))

    def _table(self) -> Table:
        unknown = {str(name).lower() for name in self.options} - _OPTIONS
        if unknown or "path" not in self.options:
            told = f"unknown option {min(unknown)!r}" if unknown else "no path"
            raise InvalidInputError(
                f"format('lakebed') got {told}: its options are {', '.join(sorted(_OPTIONS))}"
            )
        columns = self.options.get("columns")
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        ds = lakebed.load(self.options["path"], read_only=True)
        return even(ds._table(names))  # noqa: SLF001


@dataclass(frozen=True)
class _Partition(source.InputPartition):  # type: ignore[misc]
    """A run of rows."""

    table: Table


class _Reader(source.DataSourceReader):  # type: ignore[misc]
    """Reader of some columns of the rows that pass the filters."""

    def __init__(self, table: Table, schema: StructType, partitions: int | None) -> None:
        self._table, self._schema, self._partitions = table, schema, partitions
        self._condition: pads.Expression | None = None

    def pushFilters(self, filters: Sequence[source.Filter]) -> Iterable[source.Filter]:  # noqa: N802
        """Take filters that rule out rows; Spark applies all of them again, so a superset of the rows is enough."""
        kept: list[pads.Expression] = []
        for each in filters:
            condition = _condition(each)
            if condition is not None:
                fits = outcome(Scanner, self._table, Shown(), [], condition, kind=InvalidInputError)
                kept += [condition] if fits.error is None else []
        self._condition = reduce(and_, kept) if kept else None
        return filters

    def partitions(self) -> list[source.InputPartition]:
        """Return the runs of rows."""
        table = self._table
        count = self._partitions or int(len(table) * bytes_of_row(table) // WINDOW_BYTES) + 1
        return [_Partition(table[start:stop]) for start, stop in windows(table, count) or [(0, 0)]]

    def read(self, partition: source.InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition that match."""
        kinds = to_arrow_schema(self._schema, timezone="UTC")
        for batch in Scanner(partition.table, Shown(), kinds.names, self._condition).to_batches():
            # Spark counts microseconds: of nanoseconds, it gets the microsecond in which they lie.
            arrays = [
                batch[field.name].cast(field.type, safe=pa.types.is_nested(field.type)) for field in kinds
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=kinds)


def _spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of Spark's that holds the values of an Arrow type."""
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    return _WIDER.get(kind, kind)


def _condition(told: source.Filter) -> pads.Expression | None:
    """Return the condition of a filter of Spark's, which may keep more rows; None if it is not used.

    In Spark, NaN is equal to itself and greater than all numbers.
    """
    if isinstance(told, source.Not) and isinstance(told.child, source.EqualTo):
        child, value = told.child, told.child.value
        return None if value != value else pads.field(child.attribute[0]) != value
    if len(getattr(told, "attribute", ())) != 1:
        return None
    field = pads.field(told.attribute[0])
    if isinstance(told, source.IsNull | source.IsNotNull):
        return field.is_null() if isinstance(told, source.IsNull) else field.is_valid()
    if isinstance(told, source.In):
        return field.isin(list(told.value)) if all(value == value for value in told.value) else None
    value = getattr(told, "value", None)
    if value is None or value != value:
        return None
    return _COMPARED[type(told)](field, value) if type(told) in _COMPARED else None


_COMPARED: dict[type, Any] = {
    source.EqualTo: lambda field, value: field == value,
    source.EqualNullSafe: lambda field, value: field == value,
    source.GreaterThan: lambda field, value: ~(field <= value),
    source.GreaterThanOrEqual: lambda field, value: ~(field < value),
    source.LessThan: lambda field, value: field < value,
    source.LessThanOrEqual: lambda field, value: field <= value,
}
