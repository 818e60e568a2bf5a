"""MosaicML MDS: ``index.json`` and shards, whose samples have the columns that the index names.

    index.json            {"version": 2, "shards": [{"column_names": ..., "column_encodings": ..., "column_sizes": ...,
                          "raw_data": {"basename", "bytes", "hashes"}, "zip_data": ..., "samples": ...}]}
    shard.00000.mds       table of offsets, a copy of the description, samples: sizes that vary, values
    train/index.json ...  splits are folders

Pickles stay as bytes. Under the key "lakebed", an index describes the tensors if an exporter of lakebed wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Unpack

from lakebed.dataset.described import KEY, Described
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.contents import KindOptions, Planning
from lakebed.importers.core.plan import Plan, Problem, told_first
from lakebed.importers.core.source import Source
from lakebed.importers.shards.mds_columns import Into, described_tensor, fits, kind_for, sample_of
from lakebed.importers.shards.sample_shards import (
    FAILURES,
    INDEX,
    Item,
    Shard,
    checked,
    count_of,
    first_index,
    folders_of,
    hashes_of,
    index_of,
    inside,
    looked_at,
    parts_of,
    plan_of,
    rows_of,
    samples,
    shards_of,
    split_of,
)
from lakebed.importers.shards.sample_values import tensor_for

_MAX_COLUMNS = 10_000


class Column(NamedTuple):
    """A column of shards: its name, its encoding, and its size in bytes if all values have the same size."""

    name: str
    encoding: str
    size: int | None


@dataclass
class _Found:
    """Contents of the indexes: the layouts of shards, and the shards of each split."""

    layouts: list[tuple[Column, ...]] = field(default_factory=list)
    shards: dict[str, list[Shard]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    described: dict[str, Described] = field(default_factory=dict)


@dataclass(frozen=True)
class _Context:
    """Data that all workers need."""

    source: Source
    layouts: Sequence[Sequence[Column]]
    columns: Mapping[str, Into]


def recognise(source: Source) -> str | None:
    """Describe the first index for messages, such as "MosaicML MDS of 12 shards"; None if it is not an index of MDS."""
    index, where = first_index(source)
    shards = index.get("shards")
    if isinstance(shards, list) and any(
        isinstance(shard, Mapping) and shard.get("format") == "mds" for shard in shards
    ):
        return f"MosaicML MDS of {len(shards):,} shards{where}"
    return None


def plan(source: Source, *, splits: bool = True, **options: Unpack[KindOptions]) -> Plan:
    """Plan a tensor for each column, and a split for each folder with an index.

    Parameters
    ----------
    source
        The folder of the index, or the folder above the folders of the splits.
    splits
        Make a split of each folder.
    options
        Options of columns.
    """
    found = _found_in(source, splits=splits)
    if not found.layouts:
        raise IngestionError(f"{source.shown} has no shards of MDS{told_first(found.problems)}")
    planning = Planning.of(source, found.problems, **options)
    encodings = _encodings(found)
    planning.check(encodings, "column")
    columns = _columns(found, encodings, planning)
    count = sum(map(len, found.shards.values()))
    return plan_of(
        f"MosaicML MDS of {count:,} shards",
        found.shards,
        planning,
        _Context(source, found.layouts, columns),
        {
            "shards": count,
            "columns": {name: [encodings[name], one.tensor] for name, one in columns.items()},
        },
    )


def rows(item: Item, context: _Context) -> Iterator[Any]:
    """Yield the rows of some samples of a shard."""
    found = samples(context.source, item.shard, item.start, item.stop)
    return rows_of(item, found, partial(_row, layout=context.layouts[item.shard.layout], context=context))


def _row(sample: bytes, layout: Sequence[Column], context: _Context) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(column.tensor for column in context.columns.values())
    for column, value in zip(layout, parts_of(sample, [column.size for column in layout]), strict=True):
        into = context.columns[column.name]
        try:
            row[into.tensor] = sample_of(value, into, column.encoding)
        except FAILURES as error:
            raise IngestionError(f"{column.name}: {error}") from error
    return row


# -- indexes ------------------------------------------------------------------------------------------------------


def _found_in(source: Source, *, splits: bool) -> _Found:
    """Read all indexes; if an outer and an inner index name the same shard, it is taken once."""
    found = _Found()
    taken: set[str] = set()
    for folder in folders_of(source):
        index = index_of(source, folder)
        where = inside(folder, INDEX)
        shards = index.get("shards") if index else None
        if index is None or not isinstance(shards, list):
            found.problems.append(Problem(where, "it is not an index of MDS", 0))
            continue
        if index.get("version") != 2:
            reason = f"the version {str(index.get('version'))[:20]!r} is unknown"
            found.problems.append(Problem(where, reason, 0))
            continue
        _note_descriptions(index, found)
        read = partial(_shard, folder=folder, source=source, found=found)
        here: dict[str, Shard] = {}
        for shard in shards_of(shards, "shard", "samples", folder, found.problems, read):
            if shard.name not in taken:
                here.setdefault(shard.name, shard)
        taken |= here.keys()
        if here:
            found.shards.setdefault(split_of(folder) if splits and folder else "", []).extend(here.values())
    return found


def _note_descriptions(index: Mapping[str, Any], found: _Found) -> None:
    """Record the descriptions of tensors that our exporter wrote into an index."""
    ours = index.get(KEY)
    tensors = ours.get("tensors") if isinstance(ours, Mapping) else None
    for name, value in tensors.items() if isinstance(tensors, Mapping) else ():
        said = Described.from_json(value)
        if said is not None:
            found.described.setdefault(name, said)


def _shard(told: Any, folder: str, source: Source, found: _Found) -> Shard:
    """Return a shard of an index.

    Raises
    ------
    IngestionError
        If its entry is damaged, or its file is missing.
    """
    if not isinstance(told, Mapping) or told.get("format") != "mds":
        kind = told.get("format") if isinstance(told, Mapping) else None
        raise IngestionError(f"the format {str(kind)[:20]!r} is not MDS")
    layout = _layout(told)
    raw, packed = told.get("raw_data"), told.get("zip_data")
    if not isinstance(raw, Mapping) or not isinstance(packed, Mapping | None):
        raise IngestionError("it names no file")
    name = _file(source, folder, (packed or raw).get("basename"))
    if name is None and packed:
        packed = None  # MosaicML's library has decompressed the shard and deleted the compressed file
        name = _file(source, folder, raw.get("basename"))
    if name is None:
        raise IngestionError(f"the file {str((packed or raw).get('basename'))[:200]!r} is missing")
    hashes = hashes_of((packed or raw).get("hashes"), name, found.problems)
    shard = Shard(
        name,
        count_of(told.get("samples"), "the number of samples"),
        count_of(raw.get("bytes"), "the number of bytes"),
        str(told.get("compression") or "").partition(":")[0] if packed else "",
        hashes,
        () if not packed or hashes else hashes_of(raw.get("hashes"), name, found.problems),
    )
    shard = checked(shard, source, found.problems)
    if layout not in found.layouts:
        found.layouts.append(layout)
    return shard._replace(layout=found.layouts.index(layout))


def _file(source: Source, folder: str, name: Any) -> str | None:
    if not isinstance(name, str):
        raise IngestionError("it names no file")
    try:
        return source.find(inside(folder, name))
    except LakebedError:
        return None


def _layout(told: Mapping[str, Any]) -> tuple[Column, ...]:
    lists = [told.get(f"column_{what}") for what in ("names", "encodings", "sizes")]
    names, encodings, sizes = (one if isinstance(one, list) else [] for one in lists)
    if not 0 < len(names) == len(encodings) == len(sizes) <= _MAX_COLUMNS:
        raise IngestionError("its columns, their encodings and sizes do not fit together")
    if not all(isinstance(one, str) for one in (*names, *encodings)) or len(set(names)) < len(names):
        raise IngestionError("a column has no name, no encoding, or the name of another column")
    return tuple(
        Column(name, encoding, count_of(size, f"the size of {name}") if size else None)
        for name, encoding, size in zip(names, encodings, sizes, strict=True)
    )


# -- columns ------------------------------------------------------------------------------------------------------


def _encodings(found: _Found) -> dict[str, str]:
    """Return the encoding of each column; shards with another encoding of a column are reported, and left out."""
    encodings: dict[str, str] = {}
    other: set[int] = set()
    for number, layout in enumerate(found.layouts):
        if any(encodings.get(column.name, column.encoding) != column.encoding for column in layout):
            other.add(number)
            continue
        encodings.update((column.name, column.encoding) for column in layout)
    for split, shards in found.shards.items():
        reason = "its columns have other encodings than those of the shards before: import it alone"
        found.problems += [Problem(one.name, reason, one.samples) for one in shards if one.layout in other]
        found.shards[split] = [one for one in shards if one.layout not in other]
    return encodings


def _columns(found: _Found, encodings: Mapping[str, str], planning: Planning) -> dict[str, Into]:
    """Return the destination of each column, and plan its tensor."""
    values = _looked_at(planning.source, found)
    planned: dict[str, Into] = {}
    for name, encoding in encodings.items():
        called, info = planning.named(name)
        seen = values.get(name, [])
        kind = kind_for(encoding, seen)
        said = found.described.get(name) if name not in planning.kinds else None
        if said is not None and fits(encoding, said):
            planned[name], made = described_tensor(
                called, encoding, kind, seen, said, planning.compression, info
            )
        else:
            content, made = tensor_for(called, name, kind, seen, planning, info=info)
            planned[name] = Into(called, kind, content)
        planning.tensors.append(made)
    return planned


def _looked_at(source: Source, found: _Found) -> dict[str, list[bytes]]:
    """Return some values of each column, to choose the tensors."""
    values: dict[str, list[bytes]] = {}
    for shards in found.shards.values():
        for shard, sample in looked_at(source, shards, samples):
            layout = found.layouts[shard.layout]
            try:
                parts = parts_of(sample, [column.size for column in layout])
            except IngestionError:
                continue  # the error is reported when the row is made
            for column, value in zip(layout, parts, strict=True):
                values.setdefault(column.name, []).append(value)
    return values
