"""HDF5: one file with an array for each tensor, a group for each group; ``layout.py`` says how they lie.

Texts are UTF-8 of any length, ragged arrays and files lists of any length, class labels numbers whose names are an
attribute, and, of one class each, an enumeration. All else that is known of a tensor is JSON in the attribute
``lakebed``, by which the importer makes it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import lakebed
from lakebed.errors import ExportError
from lakebed.exporters.arrays.arrays import Writing, chunk_of, finish, planned, write
from lakebed.exporters.core.plan import ExportPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["Writing", "finish", "plan", "recognise", "write"]

# HDF5 writes the type of an array into a header of 64 kB.
_MOST_NAMES = 1000
_MOST_NAME_BYTES = 32_768
# Chunks of texts and lists hold where each lies: 1,024 of them.
_REFERENCE_BYTES = 1024


def recognise(ds: lakebed.Dataset) -> str | None:
    """Say how many rows and arrays there are; None without tensors."""
    return f"{ds.min_len:,} rows of {len(ds.tensors)} arrays" if ds.tensors else None


def plan(
    ds: lakebed.Dataset,
    *,
    tensors: Sequence[str] = (),
    decode: bool = False,
    links: bool = False,
    compression: Literal["gzip", "lzf", "none"] = "gzip",
) -> ExportPlan:
    """Plan an array for each tensor.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; left out, all.
    decode
        Write pixels and sounds in place of files, where all are of one shape.
    links
        Write addresses of linked files in place of the files.
    compression
        Compression of arrays of one shape: gzip, which everything reads, lzf, which h5py reads, or none.
    """
    _library()
    return planned(
        ds,
        lambda target: _File(target.path(), None if compression == "none" else compression),
        tensors=tensors,
        decode=decode,
        links=links,
        single_file=True,
        ends_at_nul=True,
    )


def _library() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ExportError(
            "HDF5 files need h5py: pip install h5py, or, in a checkout, pip install '.[hdf5]'"
        ) from error
    return h5py


class _File:
    """An HDF5 file that is open for writing."""

    def __init__(self, path: str, compression: str | None) -> None:
        self._h5py = _library()
        # Since HDF5 1.8, attributes may be larger than 64 kB.
        self._file = self._h5py.File(path, "w", libver=("v108", "v110"))
        self._settings: dict[str, Any] = {"shuffle": True, "compression": compression} if compression else {}
        if compression == "gzip":
            self._settings["compression_opts"] = 1

    def numbers(self, name: str, values: NDArray[Any], *, classes: Sequence[str] = ()) -> None:
        array = self._file.get(name)
        if array is None:
            dtype = values.dtype
            if values.ndim == 1 and dtype.kind in "iu" and _fits(classes, dtype):
                dtype = self._h5py.enum_dtype({one: number for number, one in enumerate(classes)}, dtype)
            array = self._made(name, values.shape[1:], dtype, values.dtype.itemsize, **self._settings)
        start = self._grown(array, len(values))
        if len(values):
            array[start:] = values

    def texts(self, name: str, values: Sequence[str]) -> None:
        array = self._file.get(name)
        if array is None:
            array = self._made(name, (), self._h5py.string_dtype(), _REFERENCE_BYTES)
        start = self._grown(array, len(values))
        if len(values):
            array[start:] = np.array(values, object)

    def pieces(self, name: str, values: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> None:
        array = self._file.get(name)
        kind = self._h5py.vlen_dtype(dtype)
        if array is None:
            array = self._made(name, (), kind, _REFERENCE_BYTES)
        start = self._grown(array, len(values))
        if not len(values):
            return
        # Arrays of arrays, which NumPy would make one array of where they are of one length.
        rows = np.empty(len(values), kind)
        for row, value in enumerate(values):
            rows[row] = np.ascontiguousarray(value)
        space = array.id.get_space()
        space.select_hyperslab((start,), (len(values),))
        array.id.write(self._h5py.h5s.create_simple((len(values),)), space, rows)

    def describe(self, name: str, attributes: Mapping[str, Any]) -> None:
        one = self._file[name] if name else self._file
        for key, value in attributes.items():
            one.attrs[key] = np.array(value, object) if isinstance(value, list) and value else value

    def close(self) -> None:
        self._file.close()

    def _made(self, name: str, shape: tuple[int, ...], dtype: Any, itemsize: int, **settings: Any) -> Any:
        return self._file.create_dataset(
            name,
            (0, *shape),
            dtype,
            maxshape=(None, *shape),
            chunks=chunk_of(shape, itemsize),
            **settings,
        )

    @staticmethod
    def _grown(array: Any, more: int) -> int:
        start = int(array.shape[0])
        array.resize(start + more, axis=0)
        return start


def _fits(classes: Sequence[Any], dtype: np.dtype[Any]) -> bool:
    """Whether names of classes can be the names of an enumeration."""
    names = [one for one in classes if isinstance(one, str) and one and "\0" not in one]
    return (
        0 < len(names) == len(classes) == len(set(names))
        and len(names) <= min(_MOST_NAMES, np.iinfo(dtype).max)
        and sum(len(name.encode("utf-8", "surrogatepass")) + 16 for name in names) <= _MOST_NAME_BYTES
    )
