"""Verbs that return or write rows: as Python values, arrays, a file, another dataset, or in batches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError

Path = str | os.PathLike[str]


class Owner:
    """A dataset, view or result that has verbs; this class declares the methods that verbs call."""

    if TYPE_CHECKING:

        def __len__(self) -> int: ...
        def __getitem__(self, item: Any) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...


class OutputVerbs(Owner):
    """Verbs that return or write the rows of a dataset, view or result."""

    # -- values ------------------------------------------------------------------------------------------------------

    def to_list(self) -> list[dict[str, Any]]:
        """Read all rows as dictionaries, as ``ds.rows()`` yields them one by one."""
        # Do not use `rows` of a dataset, which may be a tensor of that name, nor of a result, where keys of groups
        # are lists.
        if _is_dataset(self):
            return list(self._rows_of())
        columns = self.to_dict()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_numpy(self) -> dict[str, NDArray[Any]]:
        """Read all rows as arrays: {column: array}, the first axis runs over the rows.

        Returns
        -------
        Single numbers have the shape (rows,), masked where some are missing; labels are numbers; dates and times
        ``datetime64``. Text, JSON, and samples that differ in shape are arrays of objects.
        """
        # In the result of this query, a key of groups is a single value, not a list.
        rows: Any = self if _is_dataset(self) else self.query("SELECT *")
        batches = rows.batches(max(len(self), 1), **({"datetimes": True} if _is_dataset(self) else {}))
        found = next(iter(batches), dict.fromkeys(self.tensors, ()))
        return {name: _array(column) for name, column in found.items()}

    # -- files and datasets ------------------------------------------------------------------------------------------

    def to_csv(self, path: Path, *, overwrite: bool = False, **options: Any) -> Any:
        """Write one CSV file; a warning names the tensors of files, which are left out.

        Parameters
        ----------
        path
            Path or address of the file.
        overwrite
            Replace an existing file.
        options
            Options of ``lakebed.export_to("csv", ...)``: ``tensors``, ``delimiter``.

        Returns
        -------
        An ``ExportReport``.

        Raises
        ------
        ExportError
            If the file exists, or a row cannot be written.
        """
        return _one_file(self, "csv", path, overwrite, options)

    def to_json(self, path: Path, *, overwrite: bool = False, **options: Any) -> Any:
        """Write one file of JSON lines, an object for each row; see :meth:`to_csv`."""
        return _one_file(self, "jsonl", path, overwrite, options)

    def to_parquet(self, path: Path, *, overwrite: bool = False, **options: Any) -> Any:
        """Write one Parquet file, with files and their features as Hugging Face stores them; see :meth:`to_csv`."""
        return _one_file(self, "parquet", path, overwrite, options)

    def save_to_disk(self, path: Path, *, overwrite: bool = False) -> Any:
        """Copy the rows to a dataset that ``lakebed.load`` opens.

        For a dataset that ``datasets.load_from_disk`` opens, use ``ds.export("huggingface", path)``.

        Parameters
        ----------
        path
            Path or address of the dataset.
        overwrite
            Replace an existing dataset.

        Returns
        -------
        The new dataset.
        """
        if _is_dataset(self):
            return self.copy(path, overwrite=overwrite, progressbar=False)
        return self.materialize(path, overwrite=overwrite)

    def export(self, format: str, dest: Path, **options: Any) -> Any:  # noqa: A002 - the user's word
        """Write another format; see ``lakebed.export_to``.

        Parameters
        ----------
        format
            Name of the format, such as ``coco``; `lakebed export --help` lists them.
        dest
            Path or address of the export.
        options
            Options of the format.

        Returns
        -------
        An ``ExportReport``.
        """
        return _exporting().export_to(format, _stored(self), dest, **options)

    # -- for training ------------------------------------------------------------------------------------------------

    def batch(self, batch_size: int) -> Iterable[Mapping[str, Any]]:
        """Return batches of columns, as ``ds.batches(batch_size)``.

        Parameters
        ----------
        batch_size
            Number of rows in a batch; the last batch may have fewer.
        """
        return self.batches(batch_size)  # type: ignore[no-any-return]

    def iter(self, batch_size: int) -> Iterator[Mapping[str, Any]]:
        """Return an iterator over batches of columns, as ``ds.batches(batch_size)`` gives them.

        Parameters
        ----------
        batch_size
            Number of rows in a batch; the last batch may have fewer.
        """
        return iter(self.batches(batch_size))

    def with_format(self, type: str | None = None) -> Any:  # noqa: A002 - as Hugging Face calls it
        """Return the rows in the types of a framework.

        Parameters
        ----------
        type
            ``torch``: a dataset of PyTorch whose rows are dictionaries of tensors. ``numpy`` and None: this dataset.

        Raises
        ------
        InvalidInputError
            For other formats; the message says what to write.
        """
        if type in (None, "numpy"):
            return self
        if type == "torch" and _is_dataset(self):
            row = import_module("lakebed.loaders.frameworks.adapters").adapter("torch").row_of_tensors
            return self.torch_dataset(transform=row, map_style=True)
        raise InvalidInputError(
            f"rows have no format {type!r}: choose 'torch' (for a result, of result.materialize(dest)), 'numpy' or "
            "None; ds.to_pandas(), ds.to_arrow() and ds.to_polars() read all rows"
        )

    def set_format(self, type: str | None = None) -> None:  # noqa: A002 - as Hugging Face calls it
        """Do nothing for ``numpy`` and None, the format of rows; other formats are chosen where rows are read.

        Parameters
        ----------
        type
            ``numpy`` or None.

        Raises
        ------
        InvalidInputError
            For other formats; the message says what to write.
        """
        if type not in (None, "numpy"):
            raise InvalidInputError(
                f"a dataset does not keep a format: read rows in a format by ds.with_format({type!r}), "
                "ds.pytorch(...), ds.tensorflow() or ds.to_pandas()"
            )


def _exporting() -> Any:
    """Return the module of exports, which is in an upper layer; imported on use, since most programs export nothing."""
    return import_module("lakebed.exporters.core.exporting")


def _is_dataset(owner: Any) -> bool:
    return hasattr(type(owner), "torch_dataset")


def _stored(owner: Any) -> Any:
    """Return the rows as a dataset; the rows of a result become a dataset in memory."""
    return owner if _is_dataset(owner) else owner.materialize("mem://")


def _one_file(owner: Any, how: str, path: Path, overwrite: bool, options: Mapping[str, Any]) -> Any:
    ds = _stored(owner)
    # Write the tensor of splits as a column, because a single file has no separate names for splits.
    is_table = how == "parquet"
    names = (
        list(ds.tensors) if is_table else import_module("lakebed.exporters.tables.delimited").columns_of(ds)
    )
    given = {"tensors": names, "strict": True, "progressbar": False, **options}
    report = _exporting().export_to(how, ds, path, single_file=True, overwrite=overwrite, **given)
    left_out = [f"{name} ({ds[name].htype})" for name in ds.tensors if name not in report.tensors.values()]
    if left_out and "tensors" not in options:
        warnings.warn(f"{path} has no column for {', '.join(left_out)}", stacklevel=3)
    return report


def _array(column: Any) -> NDArray[Any]:
    if isinstance(column, np.ndarray):
        array: NDArray[Any] = column if np.ma.is_masked(column) else np.asarray(column)
        return array.reshape(-1) if array.shape[1:] == (1,) else array
    return np.fromiter(column, object, len(column))
