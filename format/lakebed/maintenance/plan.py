"""What a repair decides: which rows of a tensor stay, what becomes of its companions and encoders. Pure.

A tensor keeps every sample that is whole. Lost samples at its end are cut off; lost ones with whole samples behind them
become empty, so that the rows behind stay where they are.

Tensors are looked at one by one, but for two things, without which rows would lack some of their values and
``ds.append`` impossible (both libraries refuse it for tensors of unequal lengths). Rows that an append had announced in
several tensors and written to only some of them never were complete: they are left out of all. And what such tensors
lost at their end becomes empty, where others still have those rows. Tensors of other lengths are none of that append:
they stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.chunk_ids import ChunkIds
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.creds_index import CredsIndex
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.pad_index import PadIndex
from lakebed.documents.sequence_index import SequenceIndex
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.tile_index import TileIndex
from lakebed.documents.version_tree import VersionTree
from lakebed.runtime.printable import printable

Kind = Literal["history", "branch", "tensor", "rows", "companion", "document", "lock", "rebase", "damage"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a repair does, or cannot do.

    Parameters
    ----------
    kind
        ``damage`` is what stays as it is.
    message
        What is done and why.
    branch, version, tensor
        Where.
    rows
        First and last row that it touches.
    lost_rows, lost_bytes
        What cannot be read afterwards; bytes are those of the files or samples, as far as they are known.
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
    """Everything that a repair did, or would do."""

    dataset: str
    applied: bool = False
    steps: list[Step] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """Branch -> id of its new head."""

    def add(
        self,
        kind: Kind,
        message: str,
        branch: str | None = None,
        version: str | None = None,
        tensor: str | None = None,
        rows: tuple[int, int] | None = None,
        *,
        lost_rows: int = 0,
        lost_bytes: int = 0,
    ) -> None:
        """Add a step; see :class:`Step`."""
        self.steps.append(Step(kind, message, branch, version, tensor, rows, lost_rows, lost_bytes))

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return any(step.kind != "damage" for step in self.steps)

    @property
    def remaining(self) -> list[Step]:
        """Damage that a repair leaves as it is."""
        return [step for step in self.steps if step.kind == "damage"]

    @property
    def lost_rows(self) -> int:
        """Rows that are lost, all tensors together."""
        return sum(step.lost_rows for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
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
        *,
        lost_rows: int = 0,
        lost_bytes: int = 0,
    ) -> None:
        """Add a step; see :class:`Step`."""
        self.report.add(
            kind, message, self.branch, self.version, tensor, rows, lost_rows=lost_rows, lost_bytes=lost_bytes
        )


# -- rows ----------------------------------------------------------------------------------------------------


def kept_length(lost: NDArray[np.bool_]) -> int:
    """Return how many samples stay: all up to the last whole one."""
    whole = np.flatnonzero(~lost)
    return int(whole[-1]) + 1 if len(whole) else 0


def runs(rows: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], rows, [False]])))
    for first, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield first, stop - 1


def restored_sequences(
    sequence: SequenceIndex, flat: int, ids: Sequence[int | None], removed: Collection[int]
) -> SequenceIndex | None:
    """Return the sequences as they were before a removal that was cut off: the index lacks one whose items are there.

    Parameters
    ----------
    flat
        Number of items that are there.
    ids
        Sample ids of the sequences, those that are removed among them.
    removed
        Ids of samples that the version removed.

    Returns
    -------
    None if it is unknown where the sequence was.
    """
    rows = [row for row, number in enumerate(ids) if number in removed]
    if len(rows) != 1 or len(ids) != sequence.count + 1:
        return None
    lengths = sequence.lengths.astype(np.int64)
    return SequenceIndex.from_lengths(np.insert(lengths, rows[0], flat - sequence.total))


def guessed_index(
    found: ChunkIds | None, inherited: ChunkIds | None, files: Iterable[int]
) -> tuple[list[int], list[int]]:
    """Return the chunks of a tensor whose index is damaged, in order, and chunks whose place is unknown.

    Parameters
    ----------
    found
        Rows at the beginning of the index that could be read.
    inherited
        Index of the parent version.
    files
        Chunks that lie in the version's own folder.
    """
    base = found if found is not None and len(found) else inherited
    order = [] if base is None else [int(i) for i in base.ids]
    rest = [i for i in files if i not in set(order)]
    return (order + rest, []) if len(rest) < 2 else (order, rest)


# -- orphaned publishes --------------------------------------------------------------------------------------


def orphaned(tree: VersionTree) -> list[str]:
    """Return uncommitted versions at the end of the history that are no heads: orphaned publishes, or resets."""
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
    """Return the rows whose ids the other head neither has nor removed."""
    gone = {*known, *removed}
    return [row for row, number in enumerate(ids) if number not in gone]


# -- rows of several tensors -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TensorLeft:
    """What is left of one visible tensor, in rows.

    Parameters
    ----------
    promised
        Rows by its metadata.
    written
        Rows that its chunks say there are, lost ones among them.
    kept
        Rows up to the last one that is whole.
    is_unfinished
        Whether its metadata is ahead of its chunks: an append was cut off before it wrote them.
    is_removed
        Whether nothing is left, and its files are gone rather than damaged.
    is_shrinking
        Whether its metadata has fewer rows than its chunks: a removal was cut off.
    to_remove
        The rows which that removal meant; None if they are unknown.
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
    """What a tensor is to be: its first ``rows`` rows without some of them."""

    rows: int
    without: tuple[int, ...] = ()
    reason: str = ""


def targets(left: Mapping[str, TensorLeft]) -> dict[str, Target]:
    """Decide how many rows each tensor keeps.

    A removal that was cut off is completed where some tensors have it behind them already and the others' records say
    which rows it meant; otherwise nothing is removed.
    """
    found = {key: Target(tensor.kept) for key, tensor in left.items()}
    shrinking = {key: tensor for key, tensor in left.items() if tensor.is_shrinking}
    if shrinking:
        others = [tensor for tensor in left.values() if not tensor.is_shrinking]
        if any(tensor.has_removed for tensor in others):
            for key, tensor in shrinking.items():
                if tensor.to_remove:
                    found[key] = Target(
                        tensor.kept, tensor.to_remove, "a removal that was cut off is completed"
                    )
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
        for key in keys:
            reason = (
                "these rows were never complete: other tensors of the same append lack them"
                if unfinished
                else ""
            )
            found[key] = Target(min(rows, left[key].written), reason=reason)
    return found


# -- documents -----------------------------------------------------------------------------------------------


def guessed_dataset_meta(metas: Mapping[str, TensorMeta], parent: DatasetMeta | None) -> DatasetMeta:
    """Return a schema made from the tensors that are there; order and settings are the parent version's."""
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
    """Return the tile entries that can be right: of samples that are there and cut into as many tiles.

    Parameters
    ----------
    tiled
        Sample -> number of its tiles, where that is not one.
    links
        Whether tiles are links in one chunk.
    """
    kept = {}
    for index, (shape, tile) in tiles.entries.items():
        grid = int(np.prod([-(-s // t) for s, t in zip(shape, tile, strict=True)]))
        if index < length and (links or grid == tiled.get(index, 1)):
            kept[index] = (shape, tile)
    return tiles if len(kept) == len(tiles) else TileIndex.from_entries(kept)


def fitted_creds(creds: CredsIndex | None, length: int) -> CredsIndex:
    """Return codes of credentials for a number of links: none for those that lack one."""
    codes = np.zeros(0, np.uint64) if creds is None else creds.values()[:length]
    return CredsIndex.from_codes(np.concatenate([codes, np.zeros(length - len(codes), np.uint64)]))


def fitted_pad(pad: PadIndex | None, length: int) -> PadIndex | None:
    """Return the ranges of rows that were filled in, without those that are gone."""
    if pad is None or not len(pad.bounds):
        return None
    bounds = pad.bounds.reshape(-1, 2)
    bounds = np.minimum(bounds[bounds[:, 0] < length], np.asarray(length, pad.bounds.dtype))
    return PadIndex(bounds.reshape(-1)) if len(bounds) else None


def fitted_diff(diff: CommitDiff, rows: int, emptied: Sequence[int]) -> CommitDiff:
    """Return what a version changed in a tensor that now has ``rows`` rows, some of them emptied."""
    first = min(diff.first, rows)
    updated = np.union1d(diff.updated, np.array(emptied, np.uint64))
    return replace(diff, first=first, last=rows, updated=updated[updated < first])


def guessed_diff(before: int | None, rows: int, changed: Sequence[int]) -> CommitDiff:
    """Return what a version changed where its own record is lost.

    Parameters
    ----------
    before
        Rows in the parent version; None if it lacks the tensor.
    changed
        Rows whose chunk is another than in the parent version.
    """
    first = min(before or 0, rows)
    updated = np.array([row for row in changed if row < first], np.uint64)
    return CommitDiff(created=before is None, info_updated=True, first=first, last=rows, updated=updated)


# -- companions ----------------------------------------------------------------------------------------------


def fitted_ids(
    ids: Sequence[int | None], rows: int, removed: Collection[int], *, known: bool
) -> list[int | None]:
    """Return the sample id of every row; None asks for a new one.

    A removal that was cut off may leave ids of rows that are gone, which the tensor's ``commit_diff`` names, or rows
    whose ids are gone. Then it is unknown which row an id belongs to, and all get new ones: a wrong id would let a
    merge mistake one sample for another.

    Parameters
    ----------
    removed
        Ids of samples that the version removed.
    known
        Whether ids belong to the rows at the beginning where there are too few of them.
    """
    left = [i for i in ids if i is None or i not in removed]
    if len(left) == rows:
        return left
    if len(ids) < rows and not known:
        return [None] * rows
    return [*ids[:rows], *[None] * (rows - len(ids))]
