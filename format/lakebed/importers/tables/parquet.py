"""Parquet: one file, or a folder of files with one schema; folders such as ``split=train`` or ``train/`` are splits.

An item is a row group. The metadata of Hugging Face identify images, sounds and class labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import (
    FIRST_ROWS,
    ColumnOptions,
    Table,
    Wishes,
    check_rows,
    reading,
    table_of,
)
from lakebed.importers.core.plan import Plan, Problem, several
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import SPLITS, ranges_of
from lakebed.transforms.output import Skipped

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCHED = True

_SUFFIXES = (".parquet", ".pq")
_BATCH_ROWS = 65_536


class _Group(NamedTuple):
    """A row group of a file."""

    file: str
    group: int
    rows: int

    def __str__(self) -> str:
        return f"{self.file}, row group {self.group}"

    def batches(self, source: Source, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the group, in batches of at most `rows`."""
        with reading(self.file), _opened(source, self.file) as file:
            yield from file.iter_batches(rows, row_groups=[self.group], use_threads=False)


def recognise(source: Source) -> str | None:
    """Describe the source for messages, such as "3 Parquet files"; None if it has none."""
    names = source.mainly(*_SUFFIXES)
    return several(names, "a Parquet file", "Parquet files") if names else None


def plan(source: Source, **options: Unpack[ColumnOptions]) -> Plan:
    """Plan a tensor for each column of a file, or of a folder of files."""
    names = source.chosen(*_SUFFIXES)
    if not names:
        raise IngestionError(f"{source.shown} holds no Parquet files")
    problems: list[Problem] = []
    schema: pa.Schema | None = None
    by_split: dict[str, list[_Group]] = {}
    partitions: dict[str, str] = {}
    rows = 0
    for name in names:
        try:
            with reading(name), _opened(source, name) as file:
                found = file.schema_arrow
                groups = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
                for count in groups:
                    check_rows(count, source.files[name], name)
        except IngestionError as error:
            problems.append(Problem(name, f"it is not a Parquet file: {error}", 1))
            continue
        schema = found if schema is None else _same(schema, found, name)
        rows += sum(groups)
        for key in _partitions(name):
            if key not in found.names:
                partitions.setdefault(key, name)
        of = by_split.setdefault(_split_of(name), [])
        of += [_Group(name, at, count) for at, count in enumerate(groups) if count]
    if schema is None:
        raise IngestionError(f"{problems[0].where}: {problems[0].reason}")
    items, splits = ranges_of(by_split.items())
    problems += [
        Problem(name, f"the column {key!r} is only in the names of folders, and is not imported", 0)
        for key, name in partitions.items()
    ]
    table, tensors = table_of(schema, Wishes.of(options), _first(source, items), source, problems)
    return Plan(
        f"Parquet: {rows:,} rows of {len(tensors)} columns in {len(names):,} files",
        tensors,
        items,
        table,
        rows=rows,
        nbytes=sum(source.files[name] for name in names),
        splits=splits,
        problems=problems,
        about={"schema": schema.remove_metadata().to_string()},
    )


def rows(item: _Group, context: Table) -> Iterator[Any]:
    """Read a row group, some batches at a time; rows that follow damage are left out."""
    done = 0
    names = [column.name for column in context.columns]
    try:
        for batch in item.batches(context.source, _BATCH_ROWS):
            done += batch.num_rows
            yield from context.rows(batch if batch.schema.names == names else batch.select(names), str(item))
    except IngestionError as error:
        yield Skipped(str(item), str(error), max(1, item.rows - done))


def _opened(source: Source, name: str) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    path = source.path(name)
    if path is not None:
        return pq.ParquetFile(path, memory_map=False)
    return pq.ParquetFile(source.open(name))


def _same(schema: pa.Schema, found: pa.Schema, name: str) -> pa.Schema:
    if schema.remove_metadata().equals(found.remove_metadata()):
        return schema
    other = {field.name: field.type for field in found}
    for field in schema:
        if other.get(field.name) != field.type:
            raise IngestionError(
                f"{name}: column {field.name!r} is {other.get(field.name, 'missing')}, but {field.type} in the "
                "first file: import files with other columns separately"
            )
    more = sorted(other.keys() - set(schema.names))
    if more:
        raise IngestionError(f"{name} has columns that the first file lacks: {', '.join(more)}")
    return schema


def _split_of(name: str) -> str:
    """Return the split in the name of a folder, or of a file such as ``train-00000-of-00002``."""
    *folders, last = name.split("/")
    for folder in folders:
        value = folder.removeprefix("split=")
        if value in SPLITS or value != folder:
            return SPLITS.get(value, value)
    return SPLITS.get(last.partition("-")[0].partition(".")[0], "")


def _partitions(name: str) -> list[str]:
    """Return the columns in names of folders, such as ``year`` in ``year=2024/a.parquet``, except splits."""
    keys = [folder.partition("=")[0] for folder in name.split("/")[:-1] if "=" in folder]
    return [key for key in keys if key and key != "split"]


def _first(source: Source, items: Sequence[_Group]) -> pa.RecordBatch | None:
    for item in items:
        try:
            return next(item.batches(source, FIRST_ROWS), None)
        except IngestionError:
            continue  # the error is reported when the rows are read
    return None
