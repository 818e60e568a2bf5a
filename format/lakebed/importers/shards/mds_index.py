"""Indexes of MosaicML MDS: which shards there are, with what columns, and what an exporter said these were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakebed.described import KEY, Described
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.plan import Problem
from lakebed.importers.core.source import Source
from lakebed.importers.shards.sample_shards import (
    Shard,
    checked,
    count_of,
    folders_of,
    hashes_of,
    index_of,
    lost_by,
    split_of,
)

_MAX_COLUMNS = 10_000

FAILURES = (LakebedError, ValueError, TypeError, OverflowError)
"""What damaged values raise."""


class Column(NamedTuple):
    """A column of shards: its name, its encoding, and its size if that does not vary."""

    name: str
    encoding: str
    size: int | None


@dataclass
class Found:
    """What indexes say."""

    layouts: list[tuple[Column, ...]] = field(default_factory=list)
    shards: dict[str, list[Shard]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    described: dict[str, Described] = field(default_factory=dict)


def found_in(source: Source, *, splits: bool) -> Found:
    """Read all indexes; a shard that an outer one names is not taken again."""
    found = Found()
    taken: set[str] = set()
    for folder in folders_of(source):
        index = index_of(source, folder)
        where = f"{folder}/index.json" if folder else "index.json"
        shards = index.get("shards") if index else None
        if index is None or not isinstance(shards, list):
            found.problems.append(Problem(where, "it is no index of MDS", 0))
            continue
        if index.get("version") != 2:
            found.problems.append(
                Problem(where, f"the version {str(index.get('version'))[:20]!r} is not known", 0)
            )
            continue
        _note_descriptions(index, found)
        here: list[Shard] = []
        for number, told in enumerate(shards):
            try:
                shard = _shard(told, folder, source, found)
            except FAILURES as error:
                problems = found.problems
                problems.append(Problem(f"{where}: shard {number:,}", str(error), lost_by(told, "samples")))
                continue
            if shard.name not in taken:
                taken.add(shard.name)
                here.append(shard)
        if here:
            found.shards.setdefault(split_of(folder) if splits and folder else "", []).extend(here)
    return found


def _shard(told: Any, folder: str, source: Source, found: Found) -> Shard:
    """Return what an index says of a shard.

    Raises
    ------
    IngestionError
        If it says something else, or the shard is not there.
    """
    if not isinstance(told, Mapping) or told.get("format") != "mds":
        kind = told.get("format") if isinstance(told, Mapping) else None
        raise IngestionError(f"the format {str(kind)[:20]!r} is not MDS")
    layout = _layout(told)
    raw, packed = told.get("raw_data"), told.get("zip_data")
    if not isinstance(raw, Mapping) or not isinstance(packed, Mapping | None):
        raise IngestionError("it names no file")
    compression = str(told.get("compression") or "").partition(":")[0] if packed else ""
    name = _file(source, folder, (packed or raw).get("basename"))
    if name is None and packed:
        compression, packed = "", None
        name = _file(source, folder, raw.get("basename"))  # unpacked by the library
    if name is None:
        raise IngestionError(f"the file {str((packed or raw).get('basename'))[:200]!r} is missing")
    hashes = hashes_of((packed or raw).get("hashes"), name, found.problems)
    shard = Shard(
        name,
        count_of(told.get("samples"), "the number of samples"),
        count_of(raw.get("bytes"), "the number of bytes"),
        compression,
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
        return source.find(f"{folder}/{name}" if folder else name)
    except LakebedError:
        return None


def _layout(told: Mapping[str, Any]) -> tuple[Column, ...]:
    names, encodings, sizes = (_told_list(told, what) for what in ("names", "encodings", "sizes"))
    if not len(names) == len(encodings) == len(sizes) <= _MAX_COLUMNS or len(set(map(str, names))) < len(
        names
    ):
        raise IngestionError("its columns, their encodings and sizes do not fit together")
    if not all(isinstance(one, str) for one in (*names, *encodings)):
        raise IngestionError("a column has no name, or no encoding")
    return tuple(
        Column(name, encoding, count_of(size, f"the size of {name}") if size else None)
        for name, encoding, size in zip(names, encodings, sizes, strict=True)
    )


def _told_list(told: Mapping[str, Any], what: str) -> list[Any]:
    found = told.get(f"column_{what}")
    if not isinstance(found, list):
        raise IngestionError(f"it tells no {what} of columns")
    return found


def columns_of(found: Found) -> dict[str, str]:
    """Return the encoding of each column; shards that have another one are told, and left out."""
    columns: dict[str, str] = {}
    other: set[int] = set()
    for number, layout in enumerate(found.layouts):
        if any(columns.get(column.name, column.encoding) != column.encoding for column in layout):
            other.add(number)
            continue
        columns.update((column.name, column.encoding) for column in layout)
    for split, shards in found.shards.items():
        for shard in shards:
            if shard.layout in other:
                reason = "its columns have other encodings than those of the shards before: import it alone"
                found.problems.append(Problem(shard.name, reason, shard.samples))
        found.shards[split] = [shard for shard in shards if shard.layout not in other]
    return columns


def _note_descriptions(index: Mapping[str, Any], found: Found) -> None:
    """Note what an index says that columns were; nothing if it is none of ours."""
    ours = index.get(KEY)
    tensors = ours.get("tensors") if isinstance(ours, Mapping) else None
    for name, value in tensors.items() if isinstance(tensors, Mapping) else ():
        said = Described.from_json(value)
        if said is not None:
            found.described.setdefault(name, said)
