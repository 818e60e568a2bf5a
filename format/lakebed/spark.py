"""Data source of Spark: ``spark.read.format("lakebed").load("s3://lake/photos")`` reads a dataset in parts.

Each partition is a run of rows that ends at a chunk end; tasks read the version that was current when Spark planned the
query. ``pip install 'lakebed[spark]'``; Spark needs Java.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.engines.arrow_dataset import Scanner, Shown
from lakebed.errors import InvalidInputError, ModuleNotInstalledException
from lakebed.query.engine.sources import Sources
from lakebed.query.relations.relation import Stored
from lakebed.query.run import filtered
from lakebed.session.table import Table
from lakebed.session.windows import WINDOW_BYTES, bytes_of_row, even, windows

try:
    from pyspark.sql import datasource as source
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
    from pyspark.sql.types import StructType
except ImportError as missing:
    raise ModuleNotInstalledException(
        f"Spark is needed for this: pip install 'lakebed[spark]' ({missing})"
    ) from missing

__all__ = ["LakebedSource", "register"]


def register(spark: Any) -> None:
    """Make ``lakebed`` a format of a Spark session.

    Parameters
    ----------
    spark
        A ``pyspark.sql.SparkSession``.
    """
    spark.dataSource.register(LakebedSource)


class LakebedSource(source.DataSource):  # type: ignore[misc]
    """Format ``lakebed``, for reading.

    Options: ``path`` is the address of the dataset, with a branch, commit or tag behind @; ``columns`` are the names of
    the tensors to read, separated by commas (default: all); ``filter`` is a condition of the query language, which the
    tasks apply while they read; ``partitions`` is the number of partitions (default: by size). Class labels are names,
    files are bytes, arrays are nested lists, JSON is text. Credentials come from each executor's environment.
    """

    _OPTIONS = frozenset({"path", "columns", "filter", "partitions"})

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
        _, table = self._tables()
        found = Scanner(table, Shown(), None, None).projected_schema
        return from_arrow_schema(pa.schema([(field.name, _spark_type(field.type)) for field in found]))

    def reader(self, schema: StructType) -> source.DataSourceReader:
        """Return a reader of the columns of a schema.

        Raises
        ------
        InvalidInputError
            If the number of partitions is no whole number of 1 or more.
        QueryError
            If the filter is no condition on the dataset.
        """
        partitions, condition = self.options.get("partitions"), self.options.get("filter")
        if partitions is not None and not (partitions.isascii() and partitions.isdigit() and int(partitions)):
            raise InvalidInputError(
                f"format('lakebed') got the option partitions={partitions!r}: give a whole number of 1 or more, as in "
                "option('partitions', 8), or leave it out for partitions by size"
            )
        every, table = self._tables()
        found = _Reader(
            table, dict(every.names), schema, None if partitions is None else int(partitions), condition
        )
        found.matching(table[0:0])
        return found

    def _tables(self) -> tuple[Table, Table]:
        """Return the table of all tensors, and that of the columns."""
        unknown = {str(name).lower() for name in self.options} - self._OPTIONS
        if unknown or "path" not in self.options:
            told = f"unknown option {min(unknown)!r}" if unknown else "no path"
            raise InvalidInputError(
                f"format('lakebed') got {told}: its options are {', '.join(sorted(self._OPTIONS))}"
            )
        columns = self.options.get("columns")
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        ds = lakebed.load(self.options["path"], read_only=True)
        return ds._table(), even(ds._table(names))  # noqa: SLF001


@dataclass(frozen=True)
class _Partition(source.InputPartition):  # type: ignore[misc]
    """A run of rows."""

    table: Table


class _Reader(source.DataSourceReader):  # type: ignore[misc]
    """Reader of some columns of the rows that match.

    Conditions of WHERE stay with Spark: up to 4.3, it keeps filters that a source in Python has taken, and applies them
    to later queries of the same data frame, too.
    """

    def __init__(
        self,
        table: Table,
        names: Mapping[str, str],
        schema: StructType,
        partitions: int | None,
        condition: str | None,
    ) -> None:
        self._table, self._schema, self._partitions = table, schema, partitions
        self._names, self._condition = names, condition

    def partitions(self) -> list[source.InputPartition]:
        """Return the runs of rows."""
        table = self._table
        count = self._partitions or int(len(table) * bytes_of_row(table) // WINDOW_BYTES) + 1
        return [_Partition(table[start:stop]) for start, stop in windows(table, count) or [(0, 0)]]

    def matching(self, table: Table) -> Table:
        """Return the rows of a table that match; the filter may name tensors that are no columns of it."""
        if self._condition is None:
            return table
        found = filtered(self._condition, Sources.of(Table(table.session, self._names, table.index)))
        if not isinstance(found, Stored):
            raise TypeError(f"a filter selects rows, not {type(found).__name__}")
        return found.as_table().only(table.names)

    def read(self, partition: source.InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition that match."""
        kinds = to_arrow_schema(self._schema, timezone="UTC")
        for batch in Scanner(self.matching(partition.table), Shown(), kinds.names, None).to_batches():
            # Spark counts microseconds: of nanoseconds, it gets the microsecond in which they lie. Other values that do
            # not fit the type of a schema of the user are an error.
            arrays = [
                array.cast(field.type, safe=getattr(array.type, "unit", None) != "ns")
                for field, array in ((field, batch[field.name]) for field in kinds)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=kinds)


def _spark_type(kind: pa.DataType) -> pa.DataType:
    """Return an Arrow type that Spark has, too, and that holds all values of another one."""
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    wider = {
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
    return wider.get(kind, kind)
