"""Hugging Face ``datasets``: what ``save_to_disk`` has written, and open ones, also those that stream.

    saved/dataset_dict.json              splits, a folder each; state.json where there are none
    saved/train/state.json               names of the Arrow files
    saved/train/data-00000-of-00002.arrow

What is on a disk is read without the ``datasets`` package. A tensor for each column, by its feature: images, audio,
class labels, arrays of any dimensions; nested features that are no arrays are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import Column, Wishes, check_rows, columns_of, converted, reading
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import TENSOR

BATCHED = True

_ITEM_ROWS = 4096
_LOOKED_AT = 64
_STREAMED_ROWS = 1000
_DICT, _STATE = "dataset_dict.json", "state.json"


class _Item(NamedTuple):
    """Rows of an Arrow file, or of an open dataset; stop is None for a stream."""

    name: str
    start: int
    stop: int | None

    def __str__(self) -> str:
        return self.name if self.stop is None else f"{self.name}, rows {self.start:,} to {self.stop:,}"


@dataclass(frozen=True)
class _Context:
    """What workers know; ``opened`` are open datasets by the name of their split."""

    source: Source
    opened: Mapping[str, Any]
    columns: Sequence[Column]
    wishes: Wishes


def recognise(source: Source) -> str | None:
    """Say what was saved, or is open; None if it is no such thing."""
    if source.is_object:
        opened = _opened(source.data)
        return f"a Hugging Face dataset ({source.shown})" if opened else None
    if not source.is_folder:
        return None
    if _DICT in source.files or (_STATE in source.files and "dataset_info.json" in source.files):
        return "a dataset that Hugging Face's save_to_disk wrote"
    return None


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
    """Plan a tensor for each column, and a split for each dataset of a dictionary.

    Parameters
    ----------
    source
        The folder, or the open dataset or dictionary of datasets.
    media
        Columns that hold files, as bytes, paths or addresses: photo=image, sound=audio; others than features say.
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
    found = recognise(source)
    if found is None:
        raise IngestionError(f"{source.shown} is no Hugging Face dataset, and none that save_to_disk wrote")
    wishes = Wishes(
        dict(media or {}), tuple(labels), tuple(embeddings), link, creds_key, compression, tuple(documents)
    )
    opened = _opened(source.data) if source.is_object else {}
    items: list[_Item] = []
    splits: dict[str, range] = {}
    count: int | None = 0
    schema: Any = None
    first: Any = None
    for split, parts in _parts(source, opened).items():
        begin = len(items)
        for part in parts:
            table, rows = _first(source, opened, part)
            if schema is not None and not schema.equals(table.schema, check_metadata=False):
                raise IngestionError(
                    f"{source.shown}: {part} has other columns than what comes before it: import it alone"
                )
            schema = schema or table.schema
            first = first if first is not None else next(iter(table.to_batches()), None)
            if rows is None:
                items.append(_Item(part, 0, None))
                count = None
            else:
                items += [_Item(part, at, min(at + _ITEM_ROWS, rows)) for at in range(0, rows, _ITEM_ROWS)]
                count = None if count is None else count + rows
        splits[split] = range(begin, len(items))
    if schema is None:
        raise IngestionError(f"{source.shown} has no splits")
    problems: list[Problem] = []
    columns, tensors = columns_of(schema, wishes, first, source, problems)
    if set(splits) != {""}:
        columns, tensors = _beside_splits(columns, tensors)
    return Plan(
        found,
        tensors,
        items,
        _Context(Source("", None, source.creds) if opened else source, opened, columns, wishes),
        rows=count,
        nbytes=source.nbytes,
        splits={} if set(splits) == {""} else splits,
        problems=problems,
    )


def rows(item: _Item, context: _Context) -> Iterator[Any]:
    """Yield some rows of a file or dataset, or all batches of a stream."""
    for table in _tables(item, context):
        for batch in _plain(table).to_batches():
            yield from converted(batch, context.columns, context.source, context.wishes, str(item))


def describe(plan: Plan) -> dict[str, Any]:
    """Say nothing more."""
    return plan.about


def _beside_splits(columns: list[Column], tensors: list[Any]) -> tuple[list[Column], list[Any]]:
    """Make room for the tensor of the splits, if a column has its name."""
    from dataclasses import replace

    columns = [replace(one, tensor=f"{TENSOR}_") if one.tensor == TENSOR else one for one in columns]
    return columns, [replace(one, name=f"{TENSOR}_") if one.name == TENSOR else one for one in tensors]


def _parts(source: Source, opened: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the files, or the name of the open dataset, of each split."""
    if opened:
        return {split: [split] for split in opened}
    if _DICT in source.files:
        splits = _json(source, _DICT).get("splits")
        if not isinstance(splits, list) or not all(isinstance(split, str) for split in splits):
            raise IngestionError(f"{_DICT} of {source.shown} names no splits")
        return {split: _files(source, f"{split}/") for split in splits}
    return {"": _files(source, "")}


def _files(source: Source, folder: str) -> list[str]:
    state = _json(source, source.find(f"{folder}{_STATE}"))
    if state.get("_indices_data_files"):
        raise IngestionError(
            f"{folder}{_STATE} of {source.shown} selects rows by a file of indices, as old versions did: load it with "
            "the datasets package, and import that"
        )
    try:
        names = [source.find(f"{folder}{file['filename']}") for file in state["_data_files"]]
    except (KeyError, TypeError) as error:
        raise IngestionError(f"{folder}{_STATE} of {source.shown} names no files") from error
    if len(set(names)) < len(names):
        raise IngestionError(f"{folder}{_STATE} of {source.shown} names a file twice")
    return names


def _json(source: Source, name: str) -> dict[str, Any]:
    try:
        found = json.loads(source.document(name))
    except (ValueError, RecursionError) as error:
        raise IngestionError(f"{name} of {source.shown} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise IngestionError(f"{name} of {source.shown} is no JSON object")
    return found


def _opened(data: Any) -> dict[str, Any]:
    """Return the open datasets by split, "" for a single one; none if it is something else."""
    if isinstance(data, Mapping):
        found = {str(split): one for split, one in data.items()}
        return found if found and all(_is_dataset(one) for one in found.values()) else {}
    return {"": data} if _is_dataset(data) else {}


def _is_dataset(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "with_format")


def _first(source: Source, opened: Mapping[str, Any], part: str) -> tuple[Any, int | None]:
    """Return some rows with the schema and its metadata, and how many rows there are; None for a stream."""
    if not opened:
        table = _read(source, part)
        return _plain(table.slice(0, _LOOKED_AT)), table.num_rows
    data = opened[part]
    if hasattr(data, "__len__"):
        return _plain(_with_features(data.with_format("arrow")[:_LOOKED_AT], data)), len(data)
    stream = data.with_format("arrow").iter(batch_size=_LOOKED_AT)
    table = next(iter(stream), None)
    if table is None:
        raise IngestionError(f"{source.shown} yields no rows")
    return _plain(_with_features(table, data)), None


def _tables(item: _Item, context: _Context) -> Iterator[Any]:
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
    """Return a table with what extension types store in place of them."""
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            chunks = [chunk.storage for chunk in table.column(at).chunks]
            table = table.set_column(at, field.name, pa.chunked_array(chunks, field.type.storage_type))
    return table


def _read(source: Source, name: str) -> Any:
    """Return the table of an Arrow file, which stays on the disk until it is looked at.

    Raises
    ------
    IngestionError
        If it is none.
    """
    path = source.path(name)
    return _read_elsewhere(source, name) if path is None else _mapped(path, source.files[name])


@lru_cache(maxsize=8)
def _mapped(path: str, size: int) -> Any:
    import pyarrow as pa

    with reading(path):
        return _checked(pa.ipc.open_stream(pa.memory_map(path)).read_all(), size, path)


def _read_elsewhere(source: Source, name: str) -> Any:
    import pyarrow as pa

    with reading(name), source.open(name) as file:
        return _checked(pa.ipc.open_stream(file).read_all(), source.files[name], name)


def _checked(table: Any, nbytes: int, name: str) -> Any:
    table.validate()
    check_rows(table.num_rows, nbytes, name)
    return table
