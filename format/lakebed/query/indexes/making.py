"""Indexes of a dataset: made, brought up to date, dropped, listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lakebed.htypes.base import Storing
from lakebed.query.columns import Numbers
from lakebed.query.indexes import hnsw
from lakebed.query.indexes.bm25 import Words
from lakebed.query.indexes.chunks import Chunks, chunks_of, coverage
from lakebed.query.indexes.corpus import texts_of
from lakebed.query.indexes.graph import DTYPES, METRICS
from lakebed.query.indexes.registry import (
    IndexEntry,
    Registry,
    SegmentEntry,
    change,
    read_registry,
    read_segment,
    write_segment,
)
from lakebed.query.indexes.segments import Segment
from lakebed.query.stored import StoredColumn

if TYPE_CHECKING:
    from lakebed.session.table import Table

KINDS = ("hnsw", "bm25")
_MOST_SEGMENTS = 16
"""Segments that come on top of those of the last whole index, until all is made again as one."""

_TEXT_ROWS = 1 << 19
_VECTOR_BYTES = 1 << 30
"""What one segment holds at most."""

_HNSW: Mapping[str, Any] = {
    "metric": "cosine",
    "dtype": "f32",
    "connectivity": 16,
    "expansion_add": 128,
    "recall": 0.95,
}


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """One index of a dataset, and what it holds of the version that was asked.

    Attributes
    ----------
    tensor
        Name of the tensor; None if this version has it not.
    settings
        As they were given: ``metric``, ``dtype`` and so on.
    segments
        Files that hold it.
    bytes
        Of these files.
    covered, uncovered
        Rows of this version that it holds, and those that are searched without it.
    recall
        Part of the ten nearest vectors that a search finds, as measured with vectors of the index; None for words.
    """

    name: str
    tensor: str | None
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    segments: int = 0
    bytes: int = 0
    covered: int = 0
    uncovered: int = 0
    recall: float | None = None


def create(
    table: Table, tensor: str, kind: str, name: str | None, options: Mapping[str, Any], *, exist_ok: bool
) -> IndexInfo:
    """Make an index of the tensor of a column; see ``Dataset.create_index``."""
    settings = _settings(kind, options)
    state = _checked(table, tensor, kind)
    name = name or f"{tensor}_{kind}"
    entry = IndexEntry(name, state.key, kind, settings)
    known = read_registry(table.session.storage).get(name)
    if known is not None:
        is_same = (known.tensor, known.kind, dict(known.settings)) == (state.key, kind, settings)
        if not exist_ok or not is_same:
            raise AlreadyExistsError(
                f"there is an index {name!r} already, of kind {known.kind!r}; drop_index({name!r}) removes it, "
                "update_indexes() takes in rows that are new"
            )
        update(table, [name])
    else:
        segments = tuple(_segments(table, tensor, entry, None))

        def added(registry: Registry) -> Registry:
            if name in registry:
                raise AlreadyExistsError(f"another program made an index {name!r} meanwhile")
            return {**registry, name: replace(entry, segments=segments, whole=len(segments))}

        change(table.session.storage, added)
    return next(info for info in listed(table) if info.name == name)


def update(table: Table, names: Sequence[str] | None = None) -> list[IndexInfo]:
    """Take rows into indexes that these do not hold; see ``Dataset.update_indexes``."""
    storage = table.session.storage
    registry = read_registry(storage)
    for name in registry if names is None else names:
        entry = _known(registry, name)
        tensor = _tensor(table, entry)
        if tensor is None:
            continue
        _checked(table, tensor, entry.kind)
        _settings(entry.kind, entry.settings)
        is_anew = len(entry.segments) >= entry.whole + _MOST_SEGMENTS
        added = tuple(_segments(table, tensor, entry, None if is_anew else entry.segments))
        if not added and not is_anew:
            continue

        def changed(
            registry: Registry,
            before: IndexEntry = entry,
            added: tuple[SegmentEntry, ...] = added,
            *,
            anew: bool = is_anew,
        ) -> Registry:
            now = _known(registry, before.name)
            if (now.tensor, now.kind, now.settings) != (before.tensor, before.kind, before.settings):
                raise AlreadyExistsError(f"another program made index {before.name!r} again meanwhile")
            if anew:
                late = tuple(segment for segment in now.segments if segment not in before.segments)
                made = replace(now, segments=added + late, whole=len(added))
            else:
                made = replace(now, segments=now.segments + added)
            return {**registry, before.name: made}

        change(storage, changed)
    return listed(table)


def drop(table: Table, name: str) -> None:
    """Remove an index; see ``Dataset.drop_index``."""

    def without(registry: Registry) -> Registry:
        _known(registry, name)
        return {key: entry for key, entry in registry.items() if key != name}

    change(table.session.storage, without)


def listed(table: Table) -> list[IndexInfo]:
    """Return the indexes of a dataset; see ``Dataset.indexes``."""
    found = []
    for entry in read_registry(table.session.storage).values():
        tensor = _tensor(table, entry)
        covered = uncovered = 0
        if tensor is not None:
            state = table.reader(tensor).state
            held = coverage(chunks_of(state), _prints(table, entry), state.length)
            uncovered = held.uncovered_count
            covered = state.length - uncovered
        recalls = [
            (s.facts.get("recall"), s.rows) for s in entry.segments if s.facts.get("recall") is not None
        ]
        total = sum(rows for _, rows in recalls)
        recall = sum(float(r or 0) * rows for r, rows in recalls) / total if total else None
        size = sum(segment.size for segment in entry.segments)
        found.append(
            IndexInfo(
                entry.name,
                tensor,
                entry.kind,
                dict(entry.settings),
                len(entry.segments),
                size,
                covered,
                uncovered,
                None if recall is None else round(recall, 4),
            )
        )
    return found


def _tensor(table: Table, entry: IndexEntry) -> str | None:
    """Return the column that an index is of; None if this version has it not."""
    return next((name for name in table.names if table.state(name).key == entry.tensor), None)


def _known(registry: Registry, name: str) -> IndexEntry:
    if name not in registry:
        told = f"; there are {', '.join(sorted(registry))}" if registry else ", and no other"
        raise NotFoundError(f"there is no index {name!r}{told}")
    return registry[name]


# -- settings --------------------------------------------------------------------------------------------------------


def _settings(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if kind not in KINDS:
        raise InvalidInputError(f"an index is of kind 'hnsw' (vectors) or 'bm25' (words), not {kind!r}")
    defaults = dict(_HNSW) if kind == "hnsw" else {}
    for name in options:
        if name not in defaults:
            told = f"; there are {', '.join(defaults)}" if defaults else ""
            raise InvalidInputError(f"an index of kind {kind!r} has no setting {name!r}{told}")
    found = {**defaults, **options}
    if kind == "hnsw":
        for name, values in (("metric", METRICS), ("dtype", DTYPES)):
            if found[name] not in values:
                raise InvalidInputError(f"{name} is one of {', '.join(values)}, not {found[name]!r}")
        for name, least, most in (("connectivity", 2, 256), ("expansion_add", 1, 4096)):
            if type(found[name]) is not int or not least <= found[name] <= most:
                raise InvalidInputError(
                    f"{name} is a whole number from {least} to {most}, not {found[name]!r}"
                )
        if not isinstance(found["recall"], int | float) or not 0 < found["recall"] <= 1:
            raise InvalidInputError(f"recall is a part of one, such as 0.95, not {found['recall']!r}")
    return found


def _checked(table: Table, tensor: str, kind: str) -> Any:
    """Return the state of a tensor that such an index can be made of."""
    if tensor not in table.names:
        raise InvalidInputError(f"there is no tensor {tensor!r} to make an index of")
    reader = table.reader(tensor)
    state = reader.state
    if reader.is_link or state.sequence is not None:
        raise InvalidInputError(
            f"{tensor!r} holds {'links' if reader.is_link else 'sequences'}: these have no index"
        )
    if kind == "bm25":
        if reader.storing is not Storing.TEXT:
            raise InvalidInputError(
                f"an index of words is of texts (htype 'text'), which {tensor!r} does not hold"
            )
        return state
    hnsw.library()
    shape = tuple(state.meta.max_shape)
    is_vector = reader.storing is Storing.ARRAY and reader.dtype is not None and reader.dtype.kind in "iuf"
    if not is_vector or (state.length and (len(shape) != 1 or not shape[0])):
        raise InvalidInputError(
            f"an index of vectors is of samples of shape (n,), and those of {tensor!r} have the shape {shape} at most"
        )
    return state


# -- segments --------------------------------------------------------------------------------------------------------


def _prints(table: Table, entry: IndexEntry) -> list[tuple[NDArray[np.uint64], NDArray[np.uint32]]]:
    storage = table.session.storage
    return [read_segment(storage, entry, segment, _printed) for segment in entry.segments]


def _printed(segment: Segment) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return the chunks of a segment of either kind, and let go of the rest."""
    return segment.arrays["prints"].copy(), segment.arrays["counts"].copy()


def _segments(
    table: Table, tensor: str, entry: IndexEntry, known: tuple[SegmentEntry, ...] | None
) -> Iterator[SegmentEntry]:
    """Write segments of the chunks that those `known` do not hold; of all of them if there are none."""
    column = StoredColumn(table.whole, tensor)
    state = column.state
    chunks = chunks_of(state)
    new = chunks.prints != 0
    if known is not None:
        held = {
            value for prints, _ in _prints(table, replace(entry, segments=known)) for value in prints.tolist()
        }
        new &= ~np.isin(chunks.prints, np.fromiter(held, np.uint64, len(held)))
    for part in _portions(chunks, np.flatnonzero(new), column, entry.kind):
        segment, facts = _made(column, chunks, part, entry)
        yield write_segment(table.session.storage, segment, int(chunks.counts[part].sum()), facts)


def _portions(
    chunks: Chunks, places: NDArray[np.int64], column: StoredColumn, kind: str
) -> Iterator[NDArray[np.int64]]:
    """Yield chunks, as many as one segment holds."""
    most = _TEXT_ROWS if kind == "bm25" else max(1, _VECTOR_BYTES // column.row_bytes)
    start = total = 0
    for i, place in enumerate(places.tolist()):
        count = int(chunks.counts[place])
        if i > start and total + count > most:
            yield places[start:i]
            start, total = i, 0
        total += count
    if start < len(places):
        yield places[start:]


def _made(
    column: StoredColumn, chunks: Chunks, part: NDArray[np.int64], entry: IndexEntry
) -> tuple[Any, dict[str, Any]]:
    prints, counts = chunks.prints[part], chunks.counts[part]
    runs = [range(first, first + count) for first, count in zip(chunks.firsts[part], counts, strict=True)]
    if entry.kind == "bm25":
        import pyarrow as pa

        texts = pa.concat_arrays([texts_of(column, run) for run in runs])
        return Words.of(texts, prints, counts).to_segment(), {}
    width = int(column.scan.reader.state.meta.max_shape[0])
    vectors = np.zeros((int(counts.sum()), width), np.float32)
    kept = np.zeros(len(vectors), np.bool_)
    at = 0
    for run in runs:
        given = column.read(range(int(run.start), int(run.stop)))
        if isinstance(given, Numbers) and given.values.shape[1:] == (width,):
            vectors[at : at + len(run)] = given.values
            kept[at : at + len(run)] = True if given.missing is None else ~given.missing
        else:
            for i, value in enumerate(_rows(given)):
                if value is not None and value.shape == (width,):
                    vectors[at + i], kept[at + i] = value, True
        at += len(run)
    kept &= hnsw.usable(vectors, entry.settings["metric"], entry.settings["dtype"])
    return hnsw.made(vectors, kept, prints, counts, entry.settings)


def _rows(column: Any) -> list[Any]:
    from lakebed.query.columns import rows

    return rows(column)
