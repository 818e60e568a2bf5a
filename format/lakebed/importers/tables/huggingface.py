"""Hugging Face ``datasets``: folders that ``save_to_disk`` has written, and open datasets, also streaming ones.

    saved/dataset_dict.json              splits, a folder each; state.json without splits
    saved/train/state.json               names of the Arrow files
    saved/train/data-00000-of-00002.arrow

Folders are read without the ``datasets`` package. Each column becomes a tensor by its feature: images, audio, class
labels, arrays of any dimensions; nested features that are not arrays become JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, Unpack

import pyarrow as pa

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
from lakebed.importers.core.plan import Plan, Problem, Stretch
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import TENSOR, ranges_of

BATCHED = True

_ITEM_ROWS = 4096
_STREAMED_ROWS = 1000
_DICT, _STATE = "dataset_dict.json", "state.json"


class _Context(NamedTuple):
    """The table, the source, and open datasets by split."""

    table: Table
    source: Source
    opened: Mapping[str, Any]


def recognise(source: Source) -> str | None:
    """Describe an open or a saved dataset."""
    if source.is_object:
        return f"a Hugging Face dataset ({source.shown})" if _opened(source.data) else None
    if not source.is_folder:
        return None
    if _DICT in source.files or (_STATE in source.files and "dataset_info.json" in source.files):
        return "a dataset that Hugging Face's save_to_disk wrote"
    return None


def plan(source: Source, **options: Unpack[ColumnOptions]) -> Plan:
    """Plan a tensor for each column, and a split for each dataset of a dictionary."""
    found = recognise(source)
    if found is None:
        raise IngestionError(
            f"{source.shown} is neither an open Hugging Face dataset nor one that save_to_disk wrote"
        )
    opened = _opened(source.data) if source.is_object else {}
    by_split: dict[str, list[Stretch]] = {}
    count: int | None = 0
    schema: Any = None
    first: Any = None
    for split, parts in _parts(source, opened).items():
        of = by_split[split] = []
        for part in parts:
            table, rows = _first(source, opened, part)
            if schema is not None and not schema.equals(table.schema, check_metadata=False):
                raise IngestionError(
                    f"{source.shown}: {part} has other columns than the parts before it: import it alone"
                )
            schema = schema or table.schema
            first = first if first is not None else next(iter(table.to_batches()), None)
            if rows is None:
                of.append(Stretch(part, 0, None))
                count = None
            else:
                starts = range(0, rows, _ITEM_ROWS)
                of += [Stretch(part, at, min(at + _ITEM_ROWS, rows), "rows") for at in starts]
                count = None if count is None else count + rows
    if schema is None:
        raise IngestionError(f"{source.shown} has no splits")
    problems: list[Problem] = []
    below = Source("", None, source.creds) if opened else source
    columns, tensors = table_of(schema, Wishes.of(options), first, below, problems)
    items, splits = ranges_of(by_split.items(), rest="")
    if splits:  # the tensor of splits needs a name that no column has
        free = {TENSOR: f"{TENSOR}_"}
        tensors = [replace(one, name=free.get(one.name, one.name)) for one in tensors]
        renamed = [replace(one, tensor=free.get(one.tensor, one.tensor)) for one in columns.columns]
        columns = replace(columns, columns=renamed)
    return Plan(
        found,
        tensors,
        items,
        _Context(columns, source, opened),
        rows=count,
        nbytes=source.nbytes,
        splits=splits,
        problems=problems,
    )


def rows(item: Stretch, context: _Context) -> Iterator[Any]:
    """Yield some rows of a file or dataset, or all batches of a stream."""
    for table in _tables(item, context):
        for batch in _plain(table).to_batches():
            yield from context.table.rows(batch, str(item))


def _parts(source: Source, opened: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the files, or the key of the open dataset, of each split."""
    if opened:
        return {split: [split] for split in opened}
    if _DICT in source.files:
        splits = source.json(_DICT).get("splits")
        if not isinstance(splits, list) or not all(isinstance(split, str) for split in splits):
            raise IngestionError(f"{_DICT} of {source.shown} names no splits")
        return {split: _files(source, f"{split}/") for split in splits}
    return {"": _files(source, "")}


def _files(source: Source, folder: str) -> list[str]:
    state = source.json(source.find(f"{folder}{_STATE}"))
    if state.get("_indices_data_files"):
        raise IngestionError(
            f"{folder}{_STATE} of {source.shown} selects rows through an index file, which is not supported; open it "
            "with the datasets package and import the loaded dataset"
        )
    try:
        names = [source.find(f"{folder}{file['filename']}") for file in state["_data_files"]]
    except (KeyError, TypeError) as error:
        raise IngestionError(f"{folder}{_STATE} of {source.shown} names no files") from error
    if len(set(names)) < len(names):
        raise IngestionError(f"{folder}{_STATE} of {source.shown} names a file twice")
    return names


def _opened(data: Any) -> dict[str, Any]:
    """Return the open datasets by split, "" for a single one; empty for other objects."""
    found = {str(split): one for split, one in data.items()} if isinstance(data, Mapping) else {"": data}
    return found if all(map(_is_dataset, found.values())) else {}


def _is_dataset(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "with_format")


def _first(source: Source, opened: Mapping[str, Any], part: str) -> tuple[Any, int | None]:
    """Return some rows with the metadata of the schema, and the number of rows; None for a stream."""
    if not opened:
        table = _read(source, part)
        return _plain(table.slice(0, FIRST_ROWS)), table.num_rows
    data = opened[part]
    if hasattr(data, "__len__"):
        return _plain(_with_features(data.with_format("arrow")[:FIRST_ROWS], data)), len(data)
    stream = data.with_format("arrow").iter(batch_size=FIRST_ROWS)
    table = next(iter(stream), None)
    if table is None:
        raise IngestionError(f"{source.shown} yields no rows")
    return _plain(_with_features(table, data)), None


def _tables(item: Stretch, context: _Context) -> Iterator[Any]:
    if not context.opened:
        start, stop = item.start, item.stop or 0
        yield _read(context.source, item.name).slice(start, stop - start)
        return
    data = context.opened[item.name].with_format("arrow")
    if item.stop is None:
        yield from data.iter(batch_size=_STREAMED_ROWS)
    else:
        yield data[item.start : item.stop]


def _with_features(table: Any, data: Any) -> Any:
    features = getattr(data, "features", None)
    return table if features is None else table.replace_schema_metadata(features.arrow_schema.metadata)


def _plain(table: Any) -> Any:
    """Return a table without extension types, as they are stored."""
    for at, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            chunks = [chunk.storage for chunk in table.column(at).chunks]
            table = table.set_column(at, field.name, pa.chunked_array(chunks, field.type.storage_type))
    return table


def _read(source: Source, name: str) -> Any:
    """Return the table of an Arrow file; a local file is mapped and not read.

    Raises
    ------
    IngestionError
        If it is not an Arrow file.
    """
    path = source.path(name)
    if path is not None:
        return _mapped(path, source.files[name])
    with reading(name), source.open(name) as file:
        return _checked(file, source.files[name], name)


@lru_cache(maxsize=8)
def _mapped(path: str, size: int) -> Any:
    with reading(path):
        return _checked(pa.memory_map(path), size, path)


def _checked(file: Any, nbytes: int, name: str) -> Any:
    table = pa.ipc.open_stream(file).read_all()
    table.validate()
    check_rows(table.num_rows, nbytes, name)
    return table
