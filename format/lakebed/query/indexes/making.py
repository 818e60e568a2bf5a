"""Indexes of a dataset: create, update, drop and list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lakebed.htypes.base import Storing
from lakebed.query.indexes import building, hnsw
from lakebed.query.indexes.chunks import chunks_of, coverage
from lakebed.query.indexes.graph import DTYPES, METRICS
from lakebed.query.indexes.registry import (
    IndexEntry,
    Registry,
    SegmentEntry,
    change,
    read_registry,
    read_segment,
)
from lakebed.query.indexes.segments import Segment
from lakebed.runtime.progress import rows_bar
from lakebed.versions.state import TensorState

if TYPE_CHECKING:
    from lakebed.reading.samples import SampleReader
    from lakebed.session.table import Table

KINDS = ("hnsw", "bm25")
_TOLD = "an index is of kind 'hnsw' (vectors) or 'bm25' (words)"
_MOST_SEGMENTS = 16
"""Maximum number of segments added since the index last covered all rows; beyond it, small segments are merged."""

_HNSW: Mapping[str, Any] = {
    "metric": "cosine", "dtype": "auto", "connectivity": 16, "expansion_add": 128, "recall": 0.95,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """One index of a dataset, and the rows of the current version that it covers.

    Attributes
    ----------
    tensor
        Name of the tensor; None if this version lacks it.
    settings
        Settings of the index: ``metric``, ``dtype`` and so on.
    segments
        Number of its files.
    bytes
        Size of these files.
    covered, uncovered
        Number of rows of this version that the index covers, and number of rows that are searched without it.
    recall
        Share of the ten nearest vectors that a search finds, as measured with vectors of the index; None for words.
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
    table: Table,
    tensor: str,
    kind: str | None,
    name: str | None,
    options: Mapping[str, Any],
    *,
    exist_ok: bool,
    progressbar: bool = False,
) -> IndexInfo:
    """Create an index of the tensor of a column; see ``Dataset.create_index``."""
    kind = kind or _kind_of(table, tensor)
    settings = _settings(kind, options)
    state = _checked(table, tensor, kind)
    name = name or f"{tensor}_{kind}"
    entry = IndexEntry(name, state.key, kind, settings, whole=-1)
    known = read_registry(table.session.storage).get(name)
    if known is None:
        _extended(table, tensor, entry, progressbar=progressbar)
    else:
        if "dtype" in known.settings and "dtype" not in options:
            # Keep the dtype of the existing index, because the default may have changed.
            settings["dtype"] = known.settings["dtype"]
        is_same = (known.tensor, known.kind, dict(known.settings)) == (state.key, kind, settings)
        # If `whole` is 0, the creation of the index was interrupted; creating it again continues.
        if not is_same or not (exist_ok or known.whole == 0):
            raise AlreadyExistsError(
                f"there is an index {name!r} already, of kind {known.kind!r}; drop_index({name!r}) removes it, "
                "update_indexes() adds new rows"
            )
        update(table, [name], progressbar=progressbar)
    return next(info for info in listed(table) if info.name == name)


def update(table: Table, names: Sequence[str] | None = None, *, progressbar: bool = False) -> list[IndexInfo]:
    """Add to the indexes the rows that they do not cover; see ``Dataset.update_indexes``."""
    registry = read_registry(table.session.storage)
    for name in registry if names is None else names:
        entry = _known(registry, name)
        tensor = _tensor(table, entry)
        if tensor is not None:
            _checked(table, tensor, entry.kind)
            _settings(entry.kind, entry.settings)
            _extended(table, tensor, entry, progressbar=progressbar)
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
        recalls = [(s.facts["recall"], s.rows) for s in entry.segments if s.facts.get("recall") is not None]
        total = sum(rows for _, rows in recalls)
        recall = round(sum(float(r) * rows for r, rows in recalls) / total, 4) if total else None
        size, count = sum(segment.size for segment in entry.segments), len(entry.segments)
        told = (entry.name, tensor, entry.kind, dict(entry.settings), count, size, covered, uncovered, recall)
        found.append(IndexInfo(*told))
    return found


def _tensor(table: Table, entry: IndexEntry) -> str | None:
    """Return the column of an index; None if this version lacks it."""
    return next((name for name in table.names if table.state(name).key == entry.tensor), None)


def _known(registry: Registry, name: str) -> IndexEntry:
    if name not in registry:
        told = f"; there are {', '.join(sorted(registry))}" if registry else ", and no other"
        raise NotFoundError(f"there is no index {name!r}{told}")
    return registry[name]


# -- settings --------------------------------------------------------------------------------------------------------


def _settings(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    if kind not in KINDS:
        raise InvalidInputError(f"{_TOLD}, not {kind!r}")
    defaults = dict(_HNSW) if kind == "hnsw" else {}
    for name in options:
        if name not in defaults:
            told = f"; there are {', '.join(defaults)}" if defaults else ""
            raise InvalidInputError(f"an index of kind {kind!r} has no setting {name!r}{told}")
    found = {**defaults, **options}
    if kind == "hnsw":
        for name, values in (("metric", METRICS), ("dtype", ("auto", *DTYPES))):
            if found[name] not in values:
                raise InvalidInputError(f"{name} is one of {', '.join(values)}, not {found[name]!r}")
        for name, least, most in (("connectivity", 2, 256), ("expansion_add", 1, 4096)):
            if type(found[name]) is not int or not least <= found[name] <= most:
                message = f"{name} is a whole number from {least} to {most}, not {found[name]!r}"
                raise InvalidInputError(message)
        if not isinstance(found["recall"], int | float) or not 0 < found["recall"] <= 1:
            raise InvalidInputError(f"recall is between 0 and 1, such as 0.95, not {found['recall']!r}")
    return found


def _reader(table: Table, tensor: str) -> SampleReader:
    if tensor not in table.names:
        raise InvalidInputError(f"there is no tensor {tensor!r} to make an index of")
    return table.reader(tensor)


def _kind_of(table: Table, tensor: str) -> str:
    """Return the only kind of index that fits the samples of a tensor."""
    reader = _reader(table, tensor)
    if reader.storing is Storing.TEXT:
        return "bm25"
    shape = tuple(reader.state.meta.max_shape)
    if reader.state.meta.htype == "embedding":
        return "hnsw"
    if reader.storing is not Storing.ARRAY or len(shape) != 1 or shape[0] < 2:
        raise InvalidInputError(f"{_TOLD}; the samples of {tensor!r} are neither, with shapes up to {shape}")
    return "hnsw"


def _checked(table: Table, tensor: str, kind: str) -> TensorState:
    """Return the state of a tensor; raise an error if it cannot have an index of this kind."""
    reader = _reader(table, tensor)
    state = reader.state
    if reader.is_link or state.sequence is not None:
        held = "links" if reader.is_link else "sequences"
        raise InvalidInputError(f"{tensor!r} holds {held}: these cannot have an index")
    if kind == "bm25":
        if reader.storing is not Storing.TEXT:
            message = f"an index of words needs texts (htype 'text'), which {tensor!r} does not hold"
            raise InvalidInputError(message)
        return state
    hnsw.library()
    shape = tuple(state.meta.max_shape)
    is_vector = reader.storing is Storing.ARRAY and reader.dtype is not None and reader.dtype.kind in "iuf"
    if not is_vector or (state.length and (len(shape) != 1 or not shape[0])):
        raise InvalidInputError(
            f"an index of vectors needs samples of shape (n,), but samples of {tensor!r} have shapes up to {shape}"
        )
    return state


# -- segments --------------------------------------------------------------------------------------------------------


def _extended(table: Table, tensor: str, entry: IndexEntry, *, progressbar: bool) -> None:
    """Add the rows that an index does not cover, segment by segment.

    Each segment is registered as soon as it is written; segments that other programs registered meanwhile stay. So an
    interruption leaves an index that covers some of the rows, and the next call continues. A new index is registered
    with its first segment.
    """
    storage = table.session.storage
    small = _outgrown(table, tensor, entry)
    kept = tuple(segment for segment in entry.segments if segment not in small)
    work = building.Building.of(table, tensor, entry, _held(table, replace(entry, segments=kept)))
    is_new = entry.whole < 0
    with rows_bar(f"Indexing {tensor}", work.count, shown=progressbar and work.count > 0) as advance:
        for made in work.segments(advance):
            change(storage, partial(_named, entry=entry, made=(made,), is_new=is_new))
            is_new = False

    def finished(registry: Registry) -> Registry:
        found = _named(registry, entry=entry, made=(), is_new=is_new)
        now = found[entry.name]
        segments = tuple(segment for segment in now.segments if segment not in small)
        whole = len(segments) if small or now.whole == 0 else now.whole
        return {**found, entry.name: replace(now, segments=segments, whole=whole)}

    change(storage, finished)


def _named(
    registry: Registry, *, entry: IndexEntry, made: tuple[SegmentEntry, ...], is_new: bool
) -> Registry:
    """Return a registry in which the index has the segments `made` as well."""
    if is_new:
        if entry.name in registry:
            raise AlreadyExistsError(f"another program made an index {entry.name!r} during this call")
        return {**registry, entry.name: replace(entry, segments=made, whole=0)}
    now = _known(registry, entry.name)
    if (now.tensor, now.kind, now.settings) != (entry.tensor, entry.kind, entry.settings):
        raise AlreadyExistsError(f"another program replaced index {entry.name!r} during this call")
    return {**registry, entry.name: replace(now, segments=now.segments + made)}


def _held(table: Table, entry: IndexEntry) -> NDArray[np.uint64]:
    """Return the prints of all chunks that an index covers."""
    return np.concatenate([np.zeros(0, np.uint64), *(prints for prints, _ in _prints(table, entry))])


def _outgrown(table: Table, tensor: str, entry: IndexEntry) -> tuple[SegmentEntry, ...]:
    """Return the segments to merge: none if few were added, else small segments and segments of mostly removed rows."""
    if len(entry.segments) < max(0, entry.whole) + _MOST_SEGMENTS:
        return ()
    state = table.reader(tensor).state
    held = coverage(chunks_of(state), _prints(table, entry), state.length)

    def is_outgrown(segment: SegmentEntry, alive: int) -> bool:
        if entry.kind == "bm25":
            is_small = 2 * segment.rows < building.TEXT_ROWS
        else:
            is_small = 2 * segment.size < building.GRAPH_BYTES
        return is_small or 2 * alive < segment.rows

    pairs = zip(entry.segments, held.alive, strict=True)
    return tuple(segment for segment, alive in pairs if is_outgrown(segment, alive))


def _prints(table: Table, entry: IndexEntry) -> list[tuple[NDArray[np.uint64], NDArray[np.uint32]]]:
    storage = table.session.storage
    return [read_segment(storage, entry, segment, _printed) for segment in entry.segments]


def _printed(segment: Segment) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return copies of the prints and counts of a segment's chunks, so that the segment can be released."""
    return segment.arrays["prints"].copy(), segment.arrays["counts"].copy()
