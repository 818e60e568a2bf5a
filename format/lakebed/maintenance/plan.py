"""Decisions of a repair: the rows of each tensor that stay, and its companions and encoders. Pure.

A tensor keeps every undamaged sample. Lost samples at its end are cut off; lost samples before undamaged samples become
empty, so that later samples keep their row numbers.

Tensors are repaired one by one, except for tensors whose metadata has the same length: they belong to the same rows.
If an interrupted append wrote its rows to only some of these tensors, all of them drop the incomplete rows. If one of
these tensors lost samples at its end, the samples become empty if other tensors still have the rows. Otherwise rows
would lack some of their values, and ``ds.append`` would be impossible (both libraries refuse it for tensors of unequal
lengths).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.indexes.pad_index import PadIndex
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import VersionTree
from lakebed.runtime.printable import printable
from lakebed.writing.schema import HIDDEN_CHUNK_SIZE

COMPANIONS = {
    "id": TensorMeta(
        htype="generic", dtype="uint64", typestr="<u8", hidden=True, min_shape=(1,), max_shape=(1,)
    ),
    "shape": TensorMeta(
        htype="generic",
        dtype="int64",
        hidden=True,
        max_chunk_size=HIDDEN_CHUNK_SIZE,
        min_shape=(1,),
        max_shape=(1,),
    ),
    "info": TensorMeta(htype="json", dtype="Any", hidden=True, max_chunk_size=HIDDEN_CHUNK_SIZE),
}
"""Settings of hidden tensors, which are equal for all tensors (format.md 8)."""

Kind = Literal["history", "branch", "tensor", "rows", "companion", "document", "lock", "rebase", "damage"]


@dataclass(frozen=True, slots=True)
class Step:
    """A step that a repair does, or cannot do.

    Parameters
    ----------
    kind
        Kind of the step; ``damage`` is a defect that the repair does not change.
    message
        The action and its reason.
    branch, version, tensor
        The branch, version and tensor that the step concerns.
    rows
        First and last row that the step changes.
    lost_rows, lost_bytes
        Lost data; bytes of files or samples, as far as they are known.
    """

    kind: Kind
    message: str
    branch: str | None = None
    version: str | None = None
    tensor: str | None = None
    rows: tuple[int, int] | None = None
    lost_rows: int = 0
    lost_bytes: int = 0

    def __str__(self) -> str:
        where = []
        if self.branch is not None:
            where.append(f"branch {self.branch!r}")
        if self.version is not None:
            where.append(f"version {self.version[:12]}")
        if self.tensor is not None:
            where.append(f"tensor {self.tensor!r}")
        if self.rows is not None:
            first, last = self.rows
            where.append(f"row {first:,}" if first == last else f"rows {first:,} to {last:,}")
        text = ": ".join([", ".join(where), self.message] if where else [self.message])
        if self.lost_rows or self.lost_bytes:
            lost = [f"{self.lost_rows:,} rows"] if self.lost_rows else []
            lost += [f"{self.lost_bytes:,} bytes"] if self.lost_bytes else []
            text += f" (lost: {', '.join(lost)})"
        return printable(text)


@dataclass(slots=True)
class RepairReport:
    """All steps that a repair did, or would do."""

    dataset: str
    applied: bool = False
    steps: list[Step] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """Branch -> id of the branch's new head."""

    def add(self, kind: Kind, message: str, *where: Any, **more: Any) -> None:
        """Add a step; arguments are those of :class:`Step`."""
        self.steps.append(Step(kind, message, *where, **more))

    @property
    def is_needed(self) -> bool:
        """Whether the repair changes anything."""
        return any(step.kind != "damage" for step in self.steps)

    @property
    def remaining(self) -> list[Step]:
        """Damage that a repair does not change."""
        return [step for step in self.steps if step.kind == "damage"]

    @property
    def lost_rows(self) -> int:
        """Number of lost rows of all tensors together."""
        return sum(step.lost_rows for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {**asdict(self), "needed": self.is_needed, "lost_rows": self.lost_rows}


@dataclass(frozen=True, slots=True)
class VersionSteps:
    """Adds the steps of one version to a report."""

    report: RepairReport
    branch: str
    version: str

    def add(
        self,
        kind: Kind,
        message: str,
        tensor: str | None = None,
        rows: tuple[int, int] | None = None,
        **lost: int,
    ) -> None:
        """Add a step; see :class:`Step`."""
        self.report.add(kind, message, self.branch, self.version, tensor, rows, **lost)


# -- rows ----------------------------------------------------------------------------------------------------


def kept_length(lost: NDArray[np.bool_]) -> int:
    """Return the number of samples up to the last one that is not lost; these samples stay."""
    whole = np.flatnonzero(~lost)
    return int(whole[-1]) + 1 if len(whole) else 0


def runs(rows: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], rows, [False]])))
    for first, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield first, stop - 1


def restored_sequences(
    sequence: SequenceIndex, flat: int, ids: Sequence[int | None], removed: Collection[int]
) -> SequenceIndex | None:
    """Return the sequences before an interrupted removal: the index lacks a row whose items still exist.

    Parameters
    ----------
    flat
        Number of existing items.
    ids
        Sample ids of the sequences, including the removed ones.
    removed
        Ids of samples that the version removed.

    Returns
    -------
    The index with this row inserted; None if it is unknown which row is missing.
    """
    rows = [row for row, number in enumerate(ids) if number in removed]
    if len(rows) != 1 or len(ids) != sequence.count + 1:
        return None
    lengths = sequence.lengths.astype(np.int64)
    return SequenceIndex.from_lengths(np.insert(lengths, rows[0], flat - sequence.total))


def guessed_index(
    found: ChunkIds | None, inherited: ChunkIds | None, files: Iterable[int]
) -> tuple[list[int], list[int]]:
    """Return the chunks of a tensor whose index is damaged: chunks in row order, and chunks whose order is unknown.

    Parameters
    ----------
    found
        Readable rows at the beginning of the index.
    inherited
        Index of the parent version.
    files
        Chunks in the version's own folder.
    """
    base = found if found is not None and len(found) else inherited
    order = [] if base is None else [int(i) for i in base.ids]
    rest = [i for i in files if i not in set(order)]
    return (order + rest, []) if len(rest) < 2 else (order, rest)


# -- orphaned publishes --------------------------------------------------------------------------------------


def orphaned(tree: VersionTree) -> list[str]:
    """Return uncommitted versions without children that are not heads: orphaned publishes, or dropped by a reset."""
    heads = set(tree.branches.values())
    return [
        version
        for version, node in tree.commits.items()
        if not node.is_committed
        and version not in heads
        and not node.children
        and node.parent is not None
        and node.parent in tree.commits
    ]


def rows_beyond(ids: Sequence[int], known: Collection[int], removed: Collection[int]) -> list[int]:
    """Return the rows whose ids are neither in ``known`` nor in ``removed``."""
    gone = {*known, *removed}
    return [row for row, number in enumerate(ids) if number not in gone]


# -- rows of several tensors -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorLeft:
    """The rows that remain of one visible tensor.

    Parameters
    ----------
    promised
        Number of rows in its metadata.
    written
        Number of rows in its chunks, including lost ones.
    kept
        Number of rows up to the last one that is not lost.
    is_unfinished
        Whether its metadata has more rows than its chunks, because an append was interrupted.
    is_removed
        Whether nothing remains because its files are missing, not damaged.
    is_shrinking
        Whether its metadata has fewer rows than its chunks, because a removal was interrupted.
    to_remove
        The rows that the interrupted removal was to remove; None if unknown.
    has_removed
        Whether rows were removed since the last commit.
    """

    promised: int
    written: int
    kept: int
    is_unfinished: bool = False
    is_removed: bool = False
    is_shrinking: bool = False
    to_remove: tuple[int, ...] | None = None
    has_removed: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """The rows that a tensor keeps: its first ``rows`` rows, except the rows ``without``."""

    rows: int
    without: tuple[int, ...] = ()
    reason: str = ""


def targets(left: Mapping[str, TensorLeft]) -> dict[str, Target]:
    """Decide the number of rows that each tensor keeps.

    An interrupted removal is completed if some tensors have completed it already and the records of the others tell
    which rows to remove; otherwise nothing is removed.
    """
    found = {key: Target(tensor.kept) for key, tensor in left.items()}
    shrinking = {key: tensor for key, tensor in left.items() if tensor.is_shrinking}
    if shrinking:
        others = [tensor for tensor in left.values() if not tensor.is_shrinking]
        if any(tensor.has_removed for tensor in others):
            why = "an interrupted removal is completed"
            for key, tensor in shrinking.items():
                if tensor.to_remove:
                    found[key] = Target(tensor.kept, tensor.to_remove, why)
        return found
    sets: dict[int, list[str]] = {}
    for key, tensor in left.items():
        if not tensor.is_removed:
            sets.setdefault(tensor.promised, []).append(key)
    for promised, keys in sets.items():
        if len(keys) < 2:
            continue
        unfinished = [left[key].written for key in keys if left[key].is_unfinished]
        rows = min([promised, *unfinished])
        why = "an interrupted append wrote these rows to only some of its tensors" if unfinished else ""
        for key in keys:
            found[key] = Target(min(rows, left[key].written), reason=why)
    return found


# -- documents -----------------------------------------------------------------------------------------------


def guessed_dataset_meta(metas: Mapping[str, TensorMeta], parent: DatasetMeta | None) -> DatasetMeta:
    """Return a schema for the existing tensors, with the order and settings of the parent version."""
    known = () if parent is None else parent.tensors
    first = [key for key in known if key in metas]
    new = sorted((key for key in metas if key not in first), key=lambda key: (metas[key].hidden, key))
    names = {metas[key].name or key: key for key in (*first, *new)}
    groups = list(() if parent is None else parent.groups)
    for name in names:
        parts = name.split("/")[:-1]
        groups += ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
    hidden = tuple(key for key in (*first, *new) if metas[key].hidden)
    return replace(
        parent or DatasetMeta(),
        tensors=(*first, *new),
        tensor_names=names,
        hidden_tensors=hidden,
        groups=tuple(dict.fromkeys(groups)),
    )


def fitted_tiles(tiles: TileIndex, tiled: Mapping[int, int], length: int, *, links: bool) -> TileIndex:
    """Return the entries of existing samples whose shape agrees with their number of tiles.

    Parameters
    ----------
    tiled
        Number of tiles by sample, for samples of several tiles.
    links
        Whether the tensor holds links: the links of all tiles of a sample are in one chunk.
    """
    kept = {}
    for index, (shape, tile) in tiles.entries.items():
        grid = int(np.prod([-(-s // t) for s, t in zip(shape, tile, strict=True)]))
        if index < length and (links or grid == tiled.get(index, 1)):
            kept[index] = (shape, tile)
    return tiles if len(kept) == len(tiles) else TileIndex.from_entries(kept)


def fitted_creds(creds: CredsIndex | None, length: int) -> CredsIndex:
    """Return codes of credentials for ``length`` links; missing codes are zero."""
    codes = np.zeros(0, np.uint64) if creds is None else creds.values()[:length]
    return CredsIndex.from_codes(np.concatenate([codes, np.zeros(length - len(codes), np.uint64)]))


def fitted_pad(pad: PadIndex | None, length: int) -> PadIndex | None:
    """Return the ranges of padded rows that exist."""
    if pad is None or not len(pad.bounds):
        return None
    bounds = pad.bounds.reshape(-1, 2)
    bounds = np.minimum(bounds[bounds[:, 0] < length], np.asarray(length, pad.bounds.dtype))
    return PadIndex(bounds.reshape(-1)) if len(bounds) else None


def fitted_diff(diff: CommitDiff, rows: int, emptied: Sequence[int]) -> CommitDiff:
    """Return the diff of a tensor that now has ``rows`` rows, of which the rows ``emptied`` are now empty."""
    first = min(diff.first, rows)
    updated = np.union1d(diff.updated, np.array(emptied, np.uint64))
    return replace(diff, first=first, last=rows, updated=updated[updated < first])


def guessed_diff(before: int | None, rows: int, changed: Sequence[int]) -> CommitDiff:
    """Return a diff in place of a lost one.

    Parameters
    ----------
    before
        Number of rows in the parent version; None if it lacks the tensor.
    changed
        Rows whose chunk differs from that of the parent version.
    """
    first = min(before or 0, rows)
    updated = np.array([row for row in changed if row < first], np.uint64)
    return CommitDiff(created=before is None, info_updated=True, first=first, last=rows, updated=updated)


# -- companions ----------------------------------------------------------------------------------------------


def fitted_ids(
    ids: Sequence[int | None], rows: int, removed: Collection[int], *, known: bool
) -> list[int | None]:
    """Return the sample id of every row; None stands for a new id.

    An interrupted removal may leave ids of removed rows, which the tensor's ``commit_diff`` names, or rows whose ids
    are lost. Then the row of an id is unknown, and all rows get new ids: with a wrong id, a merge would mistake one
    sample for another.

    Parameters
    ----------
    removed
        Ids of samples that the version removed.
    known
        Whether the ids belong to the first rows if their number is too small.
    """
    left = [i for i in ids if i is None or i not in removed]
    if len(left) == rows:
        return left
    if len(ids) < rows and not known:
        return [None] * rows
    return [*ids[:rows], *[None] * (rows - len(ids))]
