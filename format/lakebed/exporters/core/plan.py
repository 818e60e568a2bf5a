"""What an export will do, before it does it: which tensors play which part, which rows go where.

An exporter is a module with four functions::

    recognise(ds) -> str | None            what would be written, in words; None if the dataset lacks what is needed
    plan(ds, *, ...) -> ExportPlan         its keyword arguments are the exporter's options, told in its docstring
    write(view, piece, context, target)    write the rows of a piece; called by several threads; returns Written
    finish(results, context, target)       write what needs all pieces, such as an index: ``results`` are those of
                                           ``write``, in the order of the pieces
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.errors import ExportError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import lakebed

# Rows of a piece, where the exporter says nothing.
PIECE_ROWS = 256

_SPLIT = "split"


@dataclass(frozen=True)
class Piece:
    """Rows that are written in one go.

    Parameters
    ----------
    number
        Counted over all splits.
    split
        Their split; empty where there are none.
    rows
        Numbers of the rows in the dataset, ascending.
    first
        How many rows of the split come before.
    """

    number: int
    split: str
    rows: NDArray[np.int64]
    first: int


@dataclass
class Written:
    """What became of a piece.

    Parameters
    ----------
    rows
        Rows that were written.
    skipped
        (row, reason) of those that were left out.
    result
        What ``finish`` needs of it.
    """

    rows: int = 0
    skipped: list[tuple[int, str]] = field(default_factory=list)
    result: Any = None


@dataclass
class ExportPlan:
    """What an export will do.

    Parameters
    ----------
    found
        What is written, in words.
    tensors
        Part that a tensor plays -> its name; what is not among them is not exported.
    context
        What ``write`` and ``finish`` are given.
    piece_rows
        Rows of a piece.
    problems
        (where, reason) of what does not go into the format.
    single_file
        What is written is one file, at the address itself.
    is_ordered
        Rows stay in the order of the dataset, whatever their splits.
    rows
        Rows that are exported, by split; filled in by the caller of ``plan``.
    """

    found: str
    tensors: Mapping[str, str]
    context: Any = None
    piece_rows: int = PIECE_ROWS
    problems: list[tuple[str, str]] = field(default_factory=list)
    single_file: bool = False
    is_ordered: bool = False
    rows: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def pieces(self) -> list[Piece]:
        """Return the pieces of all splits, in order."""
        found: list[Piece] = []
        for split, rows in self.rows.items():
            for start in range(0, len(rows), self.piece_rows):
                found.append(Piece(len(found), split, rows[start : start + self.piece_rows], start))
        return found


def splits_of(ds: lakebed.Dataset, wanted: Sequence[str] = ()) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each split: of the saved ones, or those that a tensor ``split`` of class labels tells.

    Parameters
    ----------
    wanted
        Names of splits; none for all. Rows of no split are under "".

    Raises
    ------
    ExportError
        If there is no such split.
    """
    everything = np.arange(ds.min_len, dtype=np.int64)
    found: dict[str, NDArray[np.int64]] = {}
    if _SPLIT in ds.tensors and ds[_SPLIT].htype == "class_label" and len(everything):
        names = list(ds[_SPLIT].info.get("class_names") or ())
        labels = ds[_SPLIT][: len(everything)].numpy(aslist=True)
        column = np.array([int(label[0]) if len(label) else -1 for label in labels], np.int64)
        found = {name: everything[column == number] for number, name in enumerate(names)}
        found[""] = everything[column < 0]
        found = {name: rows for name, rows in found.items() if len(rows)}
    if not found:
        found = {"": everything}
    if not wanted:
        return found
    for name in wanted:
        if name not in found:
            there = ", ".join(name for name in found if name) or "it has none"
            raise ExportError(f"the dataset has no split {name!r}: {there}")
    return {name: found[name] for name in wanted}


def without_splits(ds: lakebed.Dataset) -> list[str]:
    """Return the names of all tensors but the one of the splits, which names of files tell; of it alone, that."""
    is_told = _SPLIT in ds.tensors and ds[_SPLIT].htype == "class_label"
    return [name for name in ds.tensors if name != _SPLIT or not is_told] or list(ds.tensors)


def tensors_of(ds: lakebed.Dataset, *htypes: str) -> list[str]:
    """Return the names of the tensors of these htypes, links to them included, in the order of their names."""
    found = []
    for name in ds.tensors:
        htype = str(ds[name].htype)
        if htype.startswith("link["):
            htype = htype[5:-1]
        if htype in htypes:
            found.append(name)
    return found


def tensor_of(ds: lakebed.Dataset, part: str, given: str | None, *htypes: str) -> str | None:
    """Return the tensor that plays a part: the one that the user names, or the only one of its htypes.

    Raises
    ------
    ExportError
        If there is no such tensor, or several could be meant.
    """
    if given is not None:
        if given not in ds.tensors:
            raise ExportError(f"the dataset has no tensor {given!r} for {part}: {', '.join(ds.tensors)}")
        return given
    found = tensors_of(ds, *htypes)
    if len(found) > 1:
        option = part.replace("_", "-")
        raise ExportError(
            f"several tensors could be the {part} ({', '.join(found)}): say which, {part}=... (--{option})"
        )
    return found[0] if found else None
