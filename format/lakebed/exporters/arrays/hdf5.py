"""HDF5: one file with an array for each tensor, a group for each group; :mod:`layout` defines the arrays.

Texts are UTF-8 of any length; ragged arrays and files are lists of any length. Class labels are numbers with the names
as an attribute, and, for one class each, an enumeration. The attribute ``lakebed`` describes each tensor as JSON; the
importer restores the tensors from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from lakebed.exporters.arrays.arrays import ArrayOptions, append, chunk_of, finish, planned, write
from lakebed.exporters.core.plan import ExportPlan, library

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakebed.dataset.dataset import Dataset


__all__ = ["append", "finish", "plan", "write"]

# Limits of the names of an enumeration: HDF5 writes them, with the type of an array, into a header of at most 64 kB.
_MOST_NAMES = 1000
_MOST_NAME_BYTES = 32_768
# Chunks of texts and lists hold 1,024 references to the values.
_REFERENCE_BYTES = 1024


def plan(
    ds: Dataset, *, compression: Literal["gzip", "lzf", "none"] = "gzip", **options: Unpack[ArrayOptions]
) -> ExportPlan:
    """Plan an array for each tensor.

    Parameters
    ----------
    ds
        The dataset.
    compression
        Compression of arrays of one shape: gzip, which everything reads, lzf, which h5py reads, or none.
    options
        Options ``tensors``, ``decode`` and ``links``; see :class:`ArrayOptions`.
    """
    library("h5py", "hdf5", "HDF5 files")
    return planned(
        ds,
        lambda target: _File(target.path(), None if compression == "none" else compression),
        single_file=True,
        ends_at_nul=True,
        **options,
    )


class _File:
    """An HDF5 file that is open for writing."""

    def __init__(self, path: str, compression: str | None) -> None:
        self._h5py = library("h5py", "hdf5", "HDF5 files")
        # HDF5 1.8 is the first version that can store attributes above 64 kB.
        self._file = self._h5py.File(path, "w", libver=("v108", "v110"))
        self._settings: dict[str, Any] = {"shuffle": True, "compression": compression} if compression else {}
        if compression == "gzip":
            self._settings["compression_opts"] = 1

    def numbers(self, name: str, values: NDArray[Any], *, classes: Sequence[str] = ()) -> None:
        dtype = values.dtype
        if name not in self._file and values.ndim == 1 and dtype.kind in "iu" and _fits(classes, dtype):
            dtype = self._h5py.enum_dtype({one: number for number, one in enumerate(classes)}, dtype)
        array, start = self._grown(
            name, len(values), values.shape[1:], dtype, values.dtype.itemsize, **self._settings
        )
        if len(values):
            array[start:] = values

    def texts(self, name: str, values: Sequence[str]) -> None:
        array, start = self._grown(name, len(values), (), self._h5py.string_dtype(), _REFERENCE_BYTES)
        if len(values):
            array[start:] = np.array(values, object)

    def pieces(self, name: str, values: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> None:
        kind = self._h5py.vlen_dtype(dtype)
        array, start = self._grown(name, len(values), (), kind, _REFERENCE_BYTES)
        if not len(values):
            return
        # Assign row by row, because NumPy would build one array of several axes from arrays of equal length.
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

    def _grown(
        self, name: str, more: int, shape: tuple[int, ...], dtype: Any, itemsize: int, **settings: Any
    ) -> tuple[Any, int]:
        """Extend an array, created if it does not exist, by more rows; return it and the first new row's number."""
        array = self._file.get(name)
        if array is None:
            settings |= {"maxshape": (None, *shape), "chunks": chunk_of(shape, itemsize)}
            array = self._file.create_dataset(name, (0, *shape), dtype, **settings)
        start = int(array.shape[0])
        array.resize(start + more, axis=0)
        return array, start


def _fits(classes: Sequence[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether the names of classes can be the names of an enumeration."""
    names = [one for one in classes if isinstance(one, str) and one and "\0" not in one]
    return (
        0 < len(names) == len(classes) == len(set(names))
        and len(names) <= min(_MOST_NAMES, np.iinfo(dtype).max)
        and sum(len(name.encode("utf-8", "surrogatepass")) + 16 for name in names) <= _MOST_NAME_BYTES
    )
