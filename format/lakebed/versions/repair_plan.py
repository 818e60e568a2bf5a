"""What a repair decides: which rows of a tensor stay, what becomes of its companions and encoders. Pure.

A tensor keeps every sample that is whole. Lost samples at its end are cut off; lost ones with whole samples behind them
become empty, so that the rows behind stay where they are. Tensors are cut one by one: rows that one tensor has and
another one lacks are kept, as 3.x has it after an append to one tensor.
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

Kind = Literal["history", "branch", "tensor", "rows", "companion", "document", "lock", "rebase", "damage"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a repair does, or can not do.

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
        What nobody can read afterwards; bytes are those of the files or samples, as far as they are known.
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
        return text


@dataclass(slots=True)
class RepairReport:
    """Everything that a repair did, or would do."""

    dataset: str
    applied: bool = False
    steps: list[Step] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """Branch -> id of its new head."""

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


def kept_sequences(sequence: SequenceIndex, flat: int) -> SequenceIndex:
    """Return the sequences that lie whole within a number of flat samples."""
    if sequence.total <= flat:
        return sequence
    lengths = sequence.lengths
    return SequenceIndex.from_lengths(lengths[np.cumsum(lengths) <= flat])


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
    whose ids are gone. Then nobody knows which row an id belongs to, and all get new ones: a wrong id would let a merge
    mistake one sample for another.

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
