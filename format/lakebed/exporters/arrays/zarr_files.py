"""Zarr: a folder with an array for each tensor, a group for each group; :mod:`layout` defines the arrays.

Ragged arrays and files are flat, and ``NAME.offsets``, of rows + 1, has the beginning of each row. Texts are UTF-8 of
any length. The names of classes are an attribute. The attribute ``lakebed`` describes each tensor as JSON; the importer
restores the tensors from it.
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

_TEXT_ROWS = 4096


def plan(
    ds: Dataset,
    *,
    zarr_format: Literal["3", "2"] = "3",
    compression: Literal["zstd", "gzip", "none"] = "zstd",
    **options: Unpack[ArrayOptions],
) -> ExportPlan:
    """Plan an array for each tensor.

    Parameters
    ----------
    ds
        The dataset.
    zarr_format
        Version of the format.
    compression
        Compression of chunks: zstd, gzip or none.
    options
        Options ``tensors``, ``decode`` and ``links``; see :class:`ArrayOptions`.
    """
    library("zarr", "zarr", "Zarr folders")
    return planned(
        ds,
        lambda target: _Folder(target.folder, int(zarr_format), compression),
        single_file=False,
        ends_at_nul=False,
        **options,
    )


class _Folder:
    """A Zarr group that is being written."""

    def __init__(self, path: str, version: int, compression: str) -> None:
        self._root = library("zarr", "zarr", "Zarr folders").open_group(path, mode="w", zarr_format=version)
        self._compressors = _compressors(compression, version)
        self._arrays: dict[str, Any] = {}
        self._ends: dict[str, int] = {}

    def numbers(self, name: str, values: NDArray[Any], *, classes: Sequence[str] = ()) -> None:
        del classes
        if name not in self._arrays:
            chunks = chunk_of(values.shape[1:], values.dtype.itemsize)
            self._make(name, values.shape[1:], values.dtype, chunks, fill_value=0)
        self._append(name, values)

    def texts(self, name: str, values: Sequence[str]) -> None:
        if name not in self._arrays:
            self._make(name, (), str, (_TEXT_ROWS,))
        self._append(name, np.array(values, object))

    def pieces(self, name: str, values: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> None:
        ends = np.cumsum([len(value) for value in values], dtype=np.int64) + self._ends.get(name, 0)
        self.numbers(
            f"{name}.offsets", ends if name in self._ends else np.concatenate([[0], ends]).astype(np.int64)
        )
        self._ends[name] = int(ends[-1]) if len(ends) else self._ends.get(name, 0)
        self.numbers(name, np.concatenate(values) if len(values) else np.zeros(0, dtype))

    def describe(self, name: str, attributes: Mapping[str, Any]) -> None:
        (self._arrays[name] if name else self._root).attrs.update(dict(attributes))

    def close(self) -> None:
        """Do nothing: everything is written."""

    def _make(
        self, name: str, shape: tuple[int, ...], dtype: Any, chunks: tuple[int, ...], **more: Any
    ) -> None:
        self._arrays[name] = self._root.create_array(
            name, shape=(0, *shape), dtype=dtype, chunks=chunks, compressors=self._compressors, **more
        )

    def _append(self, name: str, values: Any) -> None:
        array = self._arrays[name]
        start = int(array.shape[0])
        if len(values):
            array.resize((start + len(values), *array.shape[1:]))
            array[start:] = values


def _compressors(name: str, version: int) -> Any:
    """Return the compressor of chunks: of numcodecs for version 2, of Zarr for version 3."""
    if name == "none":
        return None
    if version == 2:
        import numcodecs

        return numcodecs.Zstd(level=3) if name == "zstd" else numcodecs.GZip(level=1)
    from zarr import codecs

    return codecs.ZstdCodec(level=3) if name == "zstd" else codecs.GzipCodec(level=1)
