"""NumPy files: ``.npy``, an array; ``.npz``, several; a folder of ``.npy``, each an array. Pickles are never loaded.

Arrays in C order are read by rows, from a disk or a bucket. Compressed arrays (``savez_compressed``) are decompressed
while they are read, in one pass.
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
from typing import IO, Any, Literal, Unpack

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from lakebed.errors import IngestionError
from lakebed.importers.arrays.arrays import ArrayOptions, Block, Context, Found, made, planned
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source, stem_of
from lakebed.transforms.output import Skipped

BATCHED = True

_STREAMED_BYTES = 16 << 20
# Maximum size in bytes of an array in Fortran order, because such an array is read as a whole.
_MOST_WHOLE = 1 << 30
_MOST_HEADER = 65_536
# Maximum number of arrays per source, because all of them are open at the same time.
_MOST_ARRAYS = 4096
_FAILURES = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)


def recognise(source: Source) -> str | None:
    """Describe a NumPy file."""
    return "NumPy arrays" if source.is_file and source.suffix in (".npy", ".npz") else None


def plan(source: Source, **options: Unpack[ArrayOptions]) -> Plan:
    """Plan a tensor for each array of a file, or of a folder of ``.npy`` files."""
    with ExitStack() as stack:
        opened, problems = _opened(source, stack)
        found = planned(source, Found(opened, problems=problems), "NumPy arrays", **options)
    if any(one.is_stream for one in opened.values()):
        found.items = [Block(0, found.rows or 0)]
    return found


def rows(item: Block, context: Context) -> Iterator[Any]:
    """Yield some rows of all arrays."""
    done = item.start
    try:
        with ExitStack() as stack:
            opened, _ = _opened(context.source, stack, list(context.tensors))
            step = item.stop - item.start
            if any(one.is_stream for one in opened.values()):
                step = max(1, _STREAMED_BYTES // max(1, *(one.row_bytes for one in opened.values())))
            for at in range(item.start, item.stop, step):
                columns = made(opened, Block(at, min(at + step, item.stop)), context)
                done = at + step
                yield columns
    except (*_FAILURES, KeyError) as error:
        yield Skipped(str(item), f"{error}", item.stop - done)


@dataclass
class _Array:
    """An array of an open file; streams are read once, from the start."""

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
        if self.fortran:
            self.whole = self._whole() if self.whole is None else self.whole
            return self.whole[start:stop]
        if not self.is_stream:
            self.file.seek(self.begin + start * self.row_bytes)
        shape = (stop - start, *self.shape[1:]) if self.shape else ()
        return self._next(shape, f"ends before row {stop:,}")

    def _whole(self) -> Any:
        if self.shape[0] * self.row_bytes > _MOST_WHOLE:
            raise IngestionError(
                f"an array of shape {self.shape} in Fortran order has to be read whole, which is more than "
                f"{_MOST_WHOLE:,} bytes: save it in C order"
            )
        if not self.is_stream:
            self.file.seek(self.begin)
        return self._next(self.shape, "is cut short", order="F")

    def _next(self, shape: tuple[int, ...], damage: str, order: Literal["C", "F"] = "C") -> Any:
        size = prod(shape) * self.dtype.itemsize
        data = self.file.read(size)
        if len(data) != size:
            raise IngestionError(f"the array of shape {self.shape} {damage}")
        return np.frombuffer(data, self.dtype).reshape(shape, order=order)


def _opened(
    source: Source, stack: ExitStack, wanted: Sequence[str] | None = None
) -> tuple[Mapping[str, _Array], list[Problem]]:
    """Open the arrays of a source; return the arrays that opened, and the problems of the others.

    Raises
    ------
    IngestionError
        If the file is not a NumPy file.
    """
    found: dict[str, _Array] = {}
    problems: list[Problem] = []

    def add(name: str, file: IO[bytes], size: int, *, is_stream: bool = False) -> None:
        stack.enter_context(file)
        if name in found:
            problems.append(Problem(name, "it is left out, because an earlier array has the same name", 0))
            return
        try:
            found[name] = _array_in(file, size, is_stream=is_stream)
        except IngestionError as error:
            problems.append(Problem(name, str(error), 0))

    with damaged(f"{source.shown} is not a NumPy file, or is cut short", *_FAILURES):
        if source.suffix == ".npz":
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(source.open())))
            _check_count(source, len(archive.infolist()))
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    problems.append(Problem(name, "it is packed in a way that NumPy does not use", 0))
                elif info.filename.endswith(".npy") and (wanted is None or name in wanted):
                    add(name, archive.open(info), info.file_size, is_stream=True)
        else:
            files = [source.name] if source.is_file else source.with_suffix(".npy")
            _check_count(source, len(files))
            for file in files:
                name = stem_of(file) if source.is_file else file.removesuffix(".npy")
                if wanted is None or name in wanted:
                    add(name, source.open(file), source.files[file])
    if not found and problems:
        raise IngestionError(f"{source.shown}: {problems[0].where}: {problems[0].reason}")
    return found, problems


def _check_count(source: Source, count: int) -> None:
    if count > _MOST_ARRAYS:
        raise IngestionError(
            f"{source.shown} holds {count:,} arrays; at most {_MOST_ARRAYS:,} can be imported"
        )


def loaded(data: bytes) -> NDArray[Any]:
    """Return the array of a ``.npy`` file.

    Raises
    ------
    IngestionError
        If the file is not an array, is truncated, or contains pickled objects.
    """
    found = _array_in(io.BytesIO(data), len(data))
    return np.asarray(found.read(0, found.shape[0] if found.shape else 1))


def _array_in(file: IO[bytes], size: int, *, is_stream: bool = False) -> _Array:
    """Return the array of an open file of `size` bytes.

    Raises
    ------
    IngestionError
        If the file is not an array of numbers, or is cut short.
    """
    errors = (ValueError, SyntaxError, TokenError, RecursionError, MemoryError, OverflowError)
    with damaged("it is not an array", *errors):
        is_first = npy.read_magic(file) == (1, 0)
        read = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
        shape, fortran, dtype = read(file, max_header_size=_MOST_HEADER)
    begin = file.tell()
    if dtype.hasobject:
        raise IngestionError("it holds pickled objects, which are not loaded, since that would run code")
    if any(length < 0 for length in shape):
        raise IngestionError(f"no array has the shape {shape}")
    if begin + prod(shape) * dtype.itemsize > size:
        raise IngestionError(f"an array of shape {shape} is cut short: the file has {size:,} bytes")
    return _Array(file, begin, tuple(shape), dtype, fortran and len(shape) > 1, is_stream)
