"""MosaicML MDS: ``index.json`` and shards, whose samples have the columns that the index tells.

    index.json            {"version": 2, "shards": [{"column_names": ..., "column_encodings": ..., "column_sizes": ...,
                          "raw_data": {"basename", "bytes", "hashes"}, "zip_data": ..., "samples": ...}]}
    shard.00000.mds       table of offsets, what the index says, samples: sizes that vary, values
    train/index.json ...  splits are folders

What is pickled stays as bytes. Under the key "lakebed" an index says what tensors the exporter wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import in_order, ranges_of
from lakebed.importers.shards.mds_index import FAILURES, Column, columns_of, found_in
from lakebed.importers.shards.mds_tensors import tensors_of
from lakebed.importers.shards.mds_values import Into, sample_of
from lakebed.importers.shards.sample_shards import (
    Item,
    folders_of,
    index_of,
    items_of,
    lost,
    parts_of,
    samples,
)
from lakebed.transforms.output import Skipped


@dataclass(frozen=True)
class _Context:
    """What workers know."""

    source: Source
    layouts: Sequence[Sequence[Column]]
    columns: Mapping[str, Into]


def recognise(source: Source) -> str | None:
    """Say how many shards the first index names; None if there is none of MDS."""
    if not source.is_folder:
        return None
    for folder in folders_of(source)[:1]:
        shards = (index_of(source, folder) or {}).get("shards")
        if isinstance(shards, list) and any(
            isinstance(shard, Mapping) and shard.get("format") == "mds" for shard in shards
        ):
            return f"MosaicML MDS of {len(shards):,} shards" + (f" in {folder}" if folder else "")
    return None


def plan(
    source: Source,
    *,
    kinds: Mapping[str, str] | None = None,
    compression: str | None = None,
    splits: bool = True,
) -> Plan:
    """Plan a tensor for each column, and a split for each folder with an index.

    Parameters
    ----------
    source
        The folder of the index, or the one above those of the splits.
    kinds
        What columns of bytes hold, where their first samples do not tell it: photo=image, note=text; image, audio,
        video, dicom, array, json, text or bytes.
    compression
        Kind of file that tensors of images store.
    splits
        Whether folders are splits.
    """
    wishes = dict(kinds or {})
    found = found_in(source, splits=splits)
    if not found.layouts:
        reason = f": {found.problems[0].where}: {found.problems[0].reason}" if found.problems else ""
        raise IngestionError(f"{source.shown} has no shards of MDS{reason}")
    columns = columns_of(found)
    for name in wishes:
        if name not in columns:
            raise IngestionError(f"{source.shown} has no column {name!r}: {', '.join(columns)}")
    planned, tensors = tensors_of(source, found, columns, wishes, compression)
    items, ranges = ranges_of(
        (split, [item for shard in of for item in items_of(shard)]) for split, of in in_order(found.shards)
    )
    every = [shard for shards in found.shards.values() for shard in shards]
    rows = sum(shard.samples for shard in every)
    return Plan(
        f"MosaicML MDS of {len(every):,} shards with {rows:,} samples",
        tensors,
        items,
        _Context(source, found.layouts, planned),
        rows=rows,
        nbytes=sum(source.files[shard.name] for shard in every),
        splits=ranges,
        problems=found.problems,
        about={
            "shards": len(every),
            "columns": {name: [columns[name], one.tensor] for name, one in planned.items()},
        },
    )


def rows(item: Item, context: _Context) -> Iterator[Any]:
    """Make the rows of some samples of a shard."""
    layout = context.layouts[item.shard.layout]
    sizes = [column.size for column in layout]
    empty = dict.fromkeys(column.tensor for column in context.columns.values())
    number = item.start
    try:
        for found in samples(context.source, item.shard, item.start, item.stop):
            where = f"{item.shard.name}: sample {number:,}"
            number += 1
            if isinstance(found, IngestionError):
                yield Skipped(where, str(found))
                continue
            name = ""
            try:
                row = dict(empty)
                for column, value in zip(layout, parts_of(found, sizes), strict=True):
                    name = f"{column.name}: "
                    into = context.columns[column.name]
                    row[into.tensor] = sample_of(value, into, column.encoding)
            except FAILURES as error:
                yield Skipped(where, f"{name}{error}")
                continue
            yield row
    except (LakebedError, OSError) as error:
        yield from lost(item, number, error)


def describe(plan: Plan) -> dict[str, Any]:
    """Say how many shards there are, and the encoding and the tensor of each column."""
    return plan.about
