"""The plan of an export, made before anything is written: tensors by their part, rows by pieces.

An exporter is a module with these functions::

    plan(ds, *, ...) -> ExportPlan         its keyword arguments are the options of the format; help comes from its
                                           docstring
    write(view, piece, context, target)    writes the rows of a piece and returns Written; several threads call it
    append(piece, done, context, target)   optional: writes what must be in the order of the pieces, as one thread calls
                                           it with the Written of each piece, whose result it takes
    finish(results, context, target)       writes what needs all pieces, such as an index; ``results`` are pairs of a
                                           piece and the result of ``write``, in the order of the pieces
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lakebed.errors import ExportError, InvalidOperationError, LakebedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakebed.dataset.dataset import Dataset
    from lakebed.dataset.tensor import Tensor

# Default number of rows per piece.
PIECE_ROWS = 256


_SPLIT = "split"
_FAILURES = (LakebedError, ValueError, TypeError, IndexError, OverflowError, NotImplementedError)
"""Errors after which only the affected row is left out; other errors, such as a full disk, end the export."""
_READ_FAILURES = (LakebedError, ValueError, TypeError, OSError)
"""Errors of reading together after which the rows are read one by one."""

T = TypeVar("T")


@dataclass(frozen=True)
class Piece:
    """Rows that are written together.

    Parameters
    ----------
    number
        Number of the piece, over all splits.
    split
        Split of the rows; empty if the rows have no splits.
    rows
        Numbers of the rows in the dataset, ascending.
    first
        Number of rows of the split before the piece.
    """

    number: int
    split: str
    rows: NDArray[np.int64]
    first: int


@dataclass
class Written:
    """The outcome of a piece.

    Parameters
    ----------
    rows
        Number of rows that were written.
    skipped
        (row, reason) of rows that were left out.
    result
        Data for ``finish``.
    """

    rows: int = 0
    skipped: list[tuple[int, str]] = field(default_factory=list)
    result: Any = None

    def each(self, view: Dataset, piece: Piece, make: Callable[[Dataset, int], T]) -> Iterator[T]:
        """Yield the result of `make` for each row, with the row's number; count rows, and record those that fail."""
        for at, row in enumerate(piece.rows):
            try:
                made = make(view[at], int(row))
            except _FAILURES as error:
                self.skipped.append((int(row), str(error)))
                continue
            self.rows += 1
            yield made


@dataclass
class ExportPlan:
    """The plan of an export.

    Parameters
    ----------
    found
        Description of what is written.
    tensors
        Part of the export, such as ``images`` -> name of the tensor that it is written from; other tensors are not
        exported.
    context
        Data for ``write`` and ``finish``.
    piece_rows
        Rows of a piece.
    problems
        (where, reason) of what the format cannot hold.
    single_file
        One file is written, at the address itself.
    is_ordered
        Rows stay in the order of the dataset, whatever their splits.
    rows
        Rows that are exported, by split; set by the caller of ``plan``.
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


def splits_of(ds: Dataset, wanted: Sequence[str] = ()) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each split, as the class labels of a tensor ``split`` assign them.

    Parameters
    ----------
    wanted
        Names of splits; empty for all. Rows without a split are under "".

    Raises
    ------
    ExportError
        If the dataset has no such split.
    """
    everything = np.arange(ds.min_len, dtype=np.int64)
    found = {"": everything}
    if _has_splits(ds) and len(everything):
        names = list(ds[_SPLIT].info.get("class_names") or ())
        labels = ds[_SPLIT][: len(everything)].numpy(aslist=True)
        column = np.array([int(label[0]) if len(label) else -1 for label in labels], np.int64)
        found = {name: everything[column == number] for number, name in enumerate(names)}
        found[""] = everything[column < 0]
        found = {name: rows for name, rows in found.items() if len(rows)} or {"": everything}
    for name in wanted:
        if name not in found:
            known = ", ".join(name for name in found if name) or "none"
            raise ExportError(f"the dataset has no split {name!r}; splits: {known}")
    return {name: found[name] for name in wanted} if wanted else found


def _has_splits(ds: Dataset) -> bool:
    return _SPLIT in ds.tensors and ds[_SPLIT].htype == "class_label"


def without_splits(ds: Dataset) -> list[str]:
    """Return all tensors except that of splits, which become file names; if only that exists, return it."""
    return [name for name in ds.tensors if name != _SPLIT or not _has_splits(ds)] or list(ds.tensors)


def chosen_tensors(
    ds: Dataset, given: Sequence[str], otherwise: Sequence[str], nothing: str = "no tensors to write"
) -> list[str]:
    """Return the tensors that the user names, or else default ones.

    Raises
    ------
    ExportError
        If the dataset has no tensor of a name, or no tensor is left.
    """
    for name in given:
        tensor_of(ds, "tensors", name)
    chosen = list(given or otherwise)
    if not chosen:
        raise ExportError(f"the dataset has {nothing}")
    return chosen


def read_columns(
    view: Dataset, piece: Piece, columns: Sequence[Any], read: Callable[[Tensor, int, Any], T]
) -> tuple[list[T], list[tuple[int, str]]]:
    """Read columns of some rows; return them, and (row, reason) of rows left out because they cannot be read.

    Raises
    ------
    InvalidOperationError
        If a tensor cannot be read in this form.
    """

    def together(some: Dataset, count: int) -> list[T]:
        found = []
        for one in columns:
            try:
                found.append(read(some[one.name], count, one))
            except InvalidOperationError:
                raise
            except _READ_FAILURES as error:
                raise ExportError(f"{one.name}: {error}") from error
        return found

    return read_rows(view, piece, together)


def read_rows(
    view: Dataset, piece: Piece, read: Callable[[Dataset, int], T]
) -> tuple[T, list[tuple[int, str]]]:
    """Read some rows together, or without those that cannot be read; return the result, and (row, reason) of these.

    Parameters
    ----------
    read
        Called with a view and its number of rows.

    Raises
    ------
    InvalidOperationError
        If `read` raises it.
    """
    wrong: dict[int, str] = {}
    try:
        return read(view, len(piece.rows)), []
    except InvalidOperationError:
        raise
    except _READ_FAILURES:
        for at in range(len(piece.rows)):
            try:
                read(view[at : at + 1], 1)
            except _READ_FAILURES as error:
                wrong[at] = str(error)
    good = [at for at in range(len(piece.rows)) if at not in wrong]
    found = read(view[good], len(good)) if good else read(view[:0], 0)
    return found, [(int(piece.rows[at]), reason) for at, reason in wrong.items()]


def library(name: str, extra: str, what: str) -> Any:
    """Import a package, which an extra of this library installs.

    Raises
    ------
    ExportError
        If the package is missing.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ExportError(f"{what} need {name}: pip install 'lakebed[{extra}]'") from error


def tensors_of(ds: Dataset, *htypes: str) -> list[str]:
    """Return the sorted names of the tensors of these htypes, and of links to them."""
    return [
        name for name in ds.tensors if str(ds[name].htype).removeprefix("link[").removesuffix("]") in htypes
    ]


def tensor_of(ds: Dataset, part: str, given: str | None, *htypes: str) -> str | None:
    """Return the tensor of a part of the export: the tensor that the user names, or the only tensor of the htypes.

    Raises
    ------
    ExportError
        If the dataset has no such tensor, or several tensors fit.
    """
    if given is not None:
        if given not in ds.tensors:
            raise ExportError(
                f"the dataset has no tensor {given!r} to use for {part}; its tensors: {', '.join(ds.tensors)}"
            )
        return given
    found = tensors_of(ds, *htypes)
    if len(found) > 1:
        option = part.replace("_", "-")
        raise ExportError(
            f"several tensors could be the {part} ({', '.join(found)}): say which, {part}=... (--{option})"
        )
    return found[0] if found else None
