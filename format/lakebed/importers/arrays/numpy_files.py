"""NumPy files: ``.npy``, an array; ``.npz``, several; a folder of ``.npy``, each an array. Pickles are never loaded.

Arrays in C order are read by rows, from a disk or a bucket. Compressed ones, of ``savez_compressed``, are unpacked as
they are read, in one pass.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.arrays.arrays import Block, Context, Found, made, planned
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source, stem_of
from lakebed.transforms.output import Skipped

BATCHED = True

# Arrays in Fortran order are read whole.
_MOST_WHOLE = 1 << 30
_MOST_HEADER = 65_536
# Arrays of a source, all of which are open at a time.
_MOST_ARRAYS = 4096
_FAILURES = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)


def recognise(source: Source) -> str | None:
    """Say which kind of file it is; None if it is no NumPy file."""
    return "NumPy arrays" if source.is_file and source.suffix in (".npy", ".npz") else None


def plan(source: Source, *, arrays: Sequence[str] = (), rows: str | None = None) -> Plan:
    """Plan a tensor for each array.

    Parameters
    ----------
    source
        A file, or a folder of ``.npy`` files.
    arrays
        Names of the arrays that are taken; left out, all.
    rows
        Name of the array whose first axis is that of the rows; left out, the length that most arrays have.
    """
    with ExitStack() as stack:
        opened, problems = _opened(source, stack)
        found = Found(opened, problems=problems)
        made_plan = planned(source, found, "NumPy arrays", arrays, rows)
    if any(one.is_stream for one in opened.values()):
        made_plan.items = [Block(0, made_plan.rows or 0)]
    return made_plan


def rows(item: Block, context: Context) -> Iterator[Any]:
    """Yield some rows of all arrays."""
    done = item.start
    try:
        with ExitStack() as stack:
            opened, _ = _opened(context.source, stack, list(context.tensors))
            step = item.stop - item.start
            if any(one.is_stream for one in opened.values()):
                widest = max(one.row_bytes for one in opened.values())
                step = max(1, (16 << 20) // max(1, widest))
            for at in range(item.start, item.stop, step):
                columns = list(made(opened, Block(at, min(at + step, item.stop)), context))
                done = at + step
                yield from columns
    except (*_FAILURES, KeyError) as error:
        yield Skipped(str(item), f"{error}", item.stop - done)


def describe(plan: Plan) -> dict[str, Any]:
    """Say which arrays are no columns of rows."""
    return plan.about


@dataclass
class _Array:
    """An array of a file that is open, in C order or read whole; streams are read once, from the start."""

    file: IO[bytes]
    begin: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    is_stream: bool
    whole: Any = None

    @property
    def row_bytes(self) -> int:
        return prod(self.shape[1:]) * self.dtype.itemsize

    def read(self, start: int, stop: int) -> Any:
        count = stop - start
        if self.fortran:
            self.whole = self._whole() if self.whole is None else self.whole
            return self.whole[start:stop]
        if not self.is_stream:
            self.file.seek(self.begin + start * self.row_bytes)
        size = count * self.row_bytes if self.shape else self.dtype.itemsize
        data = self.file.read(size)
        if len(data) != size:
            raise IngestionError(f"the array of shape {self.shape} ends before row {stop:,}")
        return np.frombuffer(data, self.dtype).reshape((count, *self.shape[1:]) if self.shape else ())

    def _whole(self) -> Any:
        if self.shape[0] * self.row_bytes > _MOST_WHOLE:
            raise IngestionError(
                f"an array of shape {self.shape} in Fortran order has to be read whole, which is more than "
                f"{_MOST_WHOLE:,} bytes: save it in C order"
            )
        if not self.is_stream:
            self.file.seek(self.begin)
        size = prod(self.shape) * self.dtype.itemsize
        data = self.file.read(size)
        if len(data) != size:
            raise IngestionError(f"the array of shape {self.shape} is cut short")
        return np.frombuffer(data, self.dtype).reshape(self.shape, order="F")


def _opened(
    source: Source, stack: ExitStack, wanted: Sequence[str] | None = None
) -> tuple[Mapping[str, _Array], list[Problem]]:
    """Open the arrays of a source, and say which ones cannot be.

    Raises
    ------
    IngestionError
        If the file is none.
    """
    found: dict[str, _Array] = {}
    problems: list[Problem] = []
    try:
        if source.suffix == ".npz":
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(source.open())))
            _check_count(source, len(archive.infolist()))
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    problems.append(Problem(name, "it is packed in a way that NumPy does not use", 0))
                elif info.filename.endswith(".npy") and (wanted is None or name in wanted):
                    _add(name, stack.enter_context(archive.open(info)), found, problems, size=info.file_size)
        else:
            files = [source.name] if source.is_file else source.with_suffix(".npy")
            _check_count(source, len(files))
            for file in files:
                name = stem_of(file) if source.is_file else file.removesuffix(".npy")
                if wanted is None or name in wanted:
                    size = source.files[file]
                    _add(name, stack.enter_context(source.open(file)), found, problems, size=size, seeks=True)
    except _FAILURES as error:
        if isinstance(error, LakebedError):
            raise
        raise IngestionError(f"{source.shown} is no NumPy file, or cut short: {error}") from error
    if not found and problems:
        raise IngestionError(f"{source.shown}: {problems[0].where}: {problems[0].reason}")
    return found, problems


def _check_count(source: Source, count: int) -> None:
    if count > _MOST_ARRAYS:
        raise IngestionError(
            f"{source.shown} holds {count:,} arrays; {_MOST_ARRAYS:,} are the most that are taken"
        )


def loaded(data: bytes) -> NDArray[Any]:
    """Return the array of a ``.npy`` file.

    Raises
    ------
    IngestionError
        If it is none, is cut short, or holds pickled objects.
    """
    found: dict[str, _Array] = {}
    problems: list[Problem] = []
    _add("", io.BytesIO(data), found, problems, size=len(data), seeks=True)
    if not found:
        raise IngestionError(problems[0].reason)
    array = found[""]
    if not array.shape:
        return np.asarray(array.read(0, 1))
    return np.asarray(array.read(0, array.shape[0]))


def _add(
    name: str,
    file: IO[bytes],
    found: dict[str, _Array],
    problems: list[Problem],
    *,
    size: int,
    seeks: bool = False,
) -> None:
    try:
        if npy.read_magic(file) == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(file, max_header_size=_MOST_HEADER)
        else:
            shape, fortran, dtype = npy.read_array_header_2_0(file, max_header_size=_MOST_HEADER)
    except (ValueError, SyntaxError, TokenError, RecursionError, MemoryError, OverflowError) as error:
        problems.append(Problem(name, f"it is no array: {error}", 0))
        return
    begin = file.tell()
    if name in found:
        problems.append(Problem(name, "an array of this name is there already: it is left out", 0))
    elif dtype.hasobject:
        problems.append(
            Problem(name, "it holds pickled objects, which are not loaded, since that would run code", 0)
        )
    elif any(length < 0 for length in shape):
        problems.append(Problem(name, f"no array has the shape {shape}", 0))
    elif begin + prod(shape) * dtype.itemsize > size:
        problems.append(
            Problem(name, f"an array of shape {shape} is cut short: the file has {size:,} bytes", 0)
        )
    else:
        found[name] = _Array(file, begin, tuple(shape), dtype, fortran and len(shape) > 1, not seeks)
