"""Parquet: one file, or a folder of them with one schema; folders such as ``split=train`` or ``train/`` are splits.

An item is a row group. Hugging Face's metadata are followed: images, sounds and class labels come in as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import Column, Wishes, check_rows, columns_of, converted, reading
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import SPLITS
from lakebed.transforms.output import Skipped

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCHED = True

_BATCH_ROWS = 65_536
_FIRST_ROWS = 64


class _Group(NamedTuple):
    """A row group of a file."""

    file: str
    group: int
    rows: int

    def __str__(self) -> str:
        return f"{self.file}, row group {self.group}"


@dataclass(frozen=True)
class _Context:
    source: Source
    schema: pa.Schema
    columns: Sequence[Column]
    wishes: Wishes


def recognise(source: Source) -> str | None:
    """Say how many files there are; None without any."""
    if source.is_object:
        return None
    names = source.with_suffix(".parquet", ".pq")
    if not names:
        return None
    if source.is_folder and len(names) < len(source.files) / 2:
        return None
    return f"{len(names):,} Parquet files" if len(names) > 1 else "a Parquet file"


def plan(
    source: Source,
    *,
    media: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    link: bool = False,
    creds_key: str | None = None,
    compression: str | None = None,
    documents: Sequence[str] = (),
) -> Plan:
    """Plan a tensor for each column.

    Parameters
    ----------
    source
        The file, or the folder.
    media
        Columns that hold files, as bytes, as paths below the source or as addresses: photo=image, sound=audio.
    labels
        Columns whose texts are names of classes.
    embeddings
        Columns of lists that are embeddings.
    link
        Store links to files that are given by path in place of the files.
    creds_key
        Name of the credentials that the links need.
    compression
        Kind of file that tensors of media store.
    documents
        Columns that are stored as JSON, such as lists with nulls in them.
    """
    names = source.with_suffix(".parquet", ".pq") or ([source.name] if source.is_file else [])
    if not names:
        raise IngestionError(f"{source.shown} holds no Parquet files")
    wishes = Wishes(
        dict(media or {}), tuple(labels), tuple(embeddings), link, creds_key, compression, tuple(documents)
    )
    problems: list[Problem] = []
    schema: pa.Schema | None = None
    by_split: dict[str, list[_Group]] = {}
    told: dict[str, str] = {}  # columns that only names of folders have, and where
    rows = 0
    for name in names:
        try:
            with reading(name), _opened(source, name) as file:
                found = file.schema_arrow
                groups = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
                for count in groups:
                    check_rows(count, source.files[name], name)
        except IngestionError as error:
            problems.append(Problem(name, f"it is no Parquet file: {error}", 1))
            continue
        schema = found if schema is None else _same(schema, found, name)
        rows += sum(groups)
        told |= {key: name for key in _partitions(name) if key not in found.names and key not in told}
        of = by_split.setdefault(_split_of(name), [])
        of += [_Group(name, at, count) for at, count in enumerate(groups) if count]
    if schema is None:
        raise IngestionError(f"{problems[0].where}: {problems[0].reason}")
    items = [group for groups in by_split.values() for group in groups]
    problems += [
        Problem(name, f"the column {key!r} is told by names of folders alone, and not imported", 0)
        for key, name in told.items()
    ]
    columns, tensors = columns_of(schema, wishes, _first(source, items), source, problems)
    splits: dict[str, range] = {}
    at = 0
    for split, groups_of in by_split.items():
        splits[split] = range(at, at + len(groups_of))
        at += len(groups_of)
    return Plan(
        f"Parquet: {rows:,} rows of {len(columns)} columns in {len(names):,} files",
        tensors,
        items,
        _Context(source, schema, columns, wishes),
        rows=rows,
        nbytes=sum(source.files[name] for name in names),
        splits=splits if set(splits) != {""} else {},
        problems=problems,
        about={"schema": schema.remove_metadata().to_string()},
    )


def rows(item: _Group, context: _Context) -> Iterator[Any]:
    """Read a row group, some batches at a time; what follows damage is left out."""
    done = 0
    try:
        with reading(item.file), _opened(context.source, item.file) as file:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[item.group], use_threads=False):
                whole = (
                    batch.select(context.schema.names)
                    if batch.schema.names != context.schema.names
                    else batch
                )
                done += batch.num_rows
                yield from converted(whole, context.columns, context.source, context.wishes, str(item))
    except IngestionError as error:
        yield Skipped(str(item), str(error), max(1, item.rows - done))


def describe(plan: Plan) -> dict[str, Any]:
    """Say what the columns were."""
    return plan.about


def _opened(source: Source, name: str) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    path = source.path(name)
    if path is not None:
        return pq.ParquetFile(path, memory_map=False)
    return pq.ParquetFile(source.open("" if source.is_file else name))


def _same(schema: pa.Schema, found: pa.Schema, name: str) -> pa.Schema:
    if schema.remove_metadata().equals(found.remove_metadata()):
        return schema
    other = {field.name: field.type for field in found}
    for field in schema:
        if other.get(field.name) != field.type:
            raise IngestionError(
                f"{name}: column {field.name!r} is {other.get(field.name, 'missing')}, and {field.type} in the first "
                "file: import files of other columns by themselves"
            )
    more = sorted(other.keys() - set(schema.names))
    if more:
        raise IngestionError(f"{name} has columns that the first file lacks: {', '.join(more)}")
    return schema


def _split_of(name: str) -> str:
    """Return the split that a folder, or a name such as ``train-00000-of-00002``, says."""
    *folders, last = name.split("/")
    for folder in folders:
        value = folder.partition("=")[2] if folder.startswith("split=") else folder
        if value in SPLITS or folder.startswith("split="):
            return SPLITS.get(value, value)
    first = last.partition("-")[0].partition(".")[0]
    return SPLITS.get(first, "")


def _partitions(name: str) -> list[str]:
    """Return the columns that folders tell, such as ``year`` in ``year=2024/a.parquet``; splits are none."""
    keys = [folder.partition("=")[0] for folder in name.split("/")[:-1] if "=" in folder]
    return [key for key in keys if key and key != "split"]


def _first(source: Source, items: Sequence[_Group]) -> pa.RecordBatch | None:
    for item in items:
        try:
            with reading(item.file), _opened(source, item.file) as file:
                for batch in file.iter_batches(_FIRST_ROWS, row_groups=[item.group], use_threads=False):
                    return batch
        except IngestionError:
            continue  # told when its rows are read
    return None
