"""Collections of Dask whose partitions are read from a dataset, or written into one.

Workers read chunks and write parts (chunk files in no version yet); this process adopts the parts in order and
publishes once.
``pip install 'lakebed[dask]'``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow.dataset as pads
from numpy.typing import NDArray

from lakebed.dataset.dataset import Dataset
from lakebed.engines.arrow_dataset import Keep, filtering
from lakebed.errors import InvalidInputError, ModuleNotInstalledException
from lakebed.session.columns import Batches, arrow_stream
from lakebed.session.parts import Part, PartTarget, adopt, writing_parts, written
from lakebed.session.table import Table
from lakebed.session.windows import WINDOW_BYTES, WINDOW_ROWS, bytes_of_row, even, has_arrays, windows

try:
    import dask
except ImportError as missing:
    raise ModuleNotInstalledException(
        "Dask is needed for this and is not installed: pip install 'lakebed[dask]'"
    ) from missing

__all__ = ["read_array", "read_bag", "read_dataframe", "write"]


def read_bag(
    ds: Dataset,
    tensors: Sequence[str] | None = None,
    *,
    filter: pads.Expression | None = None,  # noqa: A002 - as in Dataset.scanner
    partitions: int | None = None,
) -> Any:
    """Return the rows of a dataset, or of a view of one, as a ``dask.bag`` of dictionaries.

    Parameters
    ----------
    ds
        A dataset or a view; workers read the version that is open at the time of this call.
    tensors
        Names of the tensors to read; None reads all.
    filter
        Expression on any columns, as for ``Dataset.scanner``, such as ``pyarrow.dataset.field("age") > 3``. Workers
        apply the filter while they read: of the tensors, only the rows that pass are read, and chunks whose statistics
        show that no row can pass are not read at all.
    partitions
        Number of partitions; None cuts by the size of the values.

    Returns
    -------
    A bag of ``{tensor: value}``: arrays as ndarrays, nulls as None.

    Raises
    ------
    InvalidInputError
        If a tensor has fewer rows than another, or the filter does not fit the columns.
    """
    import dask.bag

    table = even(ds._table(tensors))  # noqa: SLF001
    keep = filtering(ds._table(), filter)  # noqa: SLF001
    return dask.bag.from_delayed(_delayed(_dictionaries, table, _windows(table, partitions), keep))


def read_dataframe(
    ds: Dataset,
    tensors: Sequence[str] | None = None,
    *,
    filter: pads.Expression | None = None,  # noqa: A002
    partitions: int | None = None,
) -> Any:
    """Return the rows of a dataset, or of a view of one, as a ``dask.dataframe`` with columns of Arrow types.

    Parameters
    ----------
    ds, tensors, filter, partitions
        As for :func:`read_bag`. Arrays become lists.

    Raises
    ------
    InvalidInputError
        If a tensor has fewer rows than another, or the filter does not fit the columns.
    """
    import dask.dataframe

    table = even(ds._table(tensors))  # noqa: SLF001
    meta = _frame(table[0:0])
    keep = filtering(ds._table(), filter)  # noqa: SLF001
    return dask.dataframe.from_delayed(
        _delayed(_frame, table, _windows(table, partitions), keep), meta=meta, verify_meta=False
    )


def read_array(ds: Dataset, tensor: str, *, partitions: int | None = None) -> Any:
    """Return a tensor whose samples have one shape as a ``dask.array`` of shape (rows, ...).

    Parameters
    ----------
    ds, partitions
        As for :func:`read_bag`.
    tensor
        Name of the tensor.

    Raises
    ------
    InvalidInputError
        If samples differ in shape, are null, or are not arrays.
    """
    import dask.array

    table = ds._table([tensor])  # noqa: SLF001
    reader = table.reader(tensor)
    is_number = reader.is_scalar and not reader.is_nullable and table.companion(tensor, "null") is None
    if not reader.is_fixed or not (is_number or has_arrays(table, tensor)):
        raise InvalidInputError(
            f"the samples of tensor {tensor!r} are not arrays of one shape: read them as a bag"
        )
    shape, dtype = tuple(reader.state.meta.max_shape), reader.known_dtype()
    cuts = _windows(table, partitions)
    if not cuts:
        return dask.array.empty((0, *shape), dtype=dtype)
    pieces = [
        dask.array.from_delayed(piece, (stop - start, *shape), dtype)
        for piece, (start, stop) in zip(_delayed(_array, table, cuts), cuts, strict=True)
    ]
    return dask.array.concatenate(pieces)


def write(collection: Any, ds: Dataset, tensor: str | None = None, *, skip_ok: bool = False) -> None:
    """Append the rows of a bag, a data frame or an array of Dask, in order: all of them, or none.

    Parameters
    ----------
    collection
        A bag of ``{tensor: value}``; a data frame whose columns have the names of tensors; or an array of rows.
    ds
        The dataset. On a disk, all workers must have it under the same path.
    tensor
        Name of the tensor for an array; None if the dataset has only one tensor.
    skip_ok
        Tensors without a column stay as they are.

    Raises
    ------
    KeyError
        If a tensor has no column.
    TensorDoesNotExistError
        If a column has no tensor.
    SampleExtendError
        If a value does not fit.
    InvalidInputError
        If ``collection`` is not a collection of Dask.
    """
    table = ds._table(None if tensor is None else [tensor])  # noqa: SLF001
    pieces = _pieces(collection)
    with writing_parts(table) as target:
        work = dask.delayed(partial(_part, target, skip_ok=skip_ok), traverse=False, pure=False)
        parts: Iterable[Part | None] = dask.compute(*(work(piece) for piece in pieces))
        adopt(table.session, [part for part in parts if part is not None])
    table.session.epoch += 1


def _pieces(collection: Any) -> list[Any]:
    if not dask.is_dask_collection(collection) or not hasattr(collection, "to_delayed"):
        raise InvalidInputError(
            f"write takes a bag, a data frame or an array of Dask, not {type(collection).__name__}"
        )
    if hasattr(collection, "chunks"):
        if not collection.ndim:
            raise InvalidInputError("an array without axes has no rows")
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    found = collection.to_delayed()
    return list(found.ravel() if isinstance(found, np.ndarray) else found)


def _batches(rows: Table) -> Iterable[dict[str, Any]]:
    return Batches(rows, WINDOW_ROWS)


def _dictionaries(rows: Table) -> list[dict[str, Any]]:
    found = []
    for batch in _batches(rows):
        numbers = {name for name in batch if rows.reader(name).is_scalar}
        count = len(next(iter(batch.values()), ()))
        found += [
            {name: _value(column[i], is_number=name in numbers) for name, column in batch.items()}
            for i in range(count)
        ]
    return found


def _frame(rows: Table) -> Any:
    import pandas as pd

    return arrow_stream(rows).read_all().to_pandas(types_mapper=pd.ArrowDtype)


def _array(rows: Table) -> NDArray[Any]:
    return np.concatenate([np.array(column) for batch in _batches(rows) for column in batch.values()])


def _part(target: PartTarget, piece: Any, *, skip_ok: bool) -> Part | None:
    """Write a partition as a part."""
    return written(target, _columns(target, piece), skip_ok=skip_ok)


def _columns(target: PartTarget, piece: Any) -> Iterable[dict[str, Any]]:
    if isinstance(piece, np.ndarray):
        if len(target.names) != 1:
            raise InvalidInputError(f"name the tensor of an array: one of {sorted(target.names)}")
        yield {next(iter(target.names)): piece} if len(piece) else {}
    elif hasattr(piece, "columns"):
        yield {name: piece[name] for name in piece.columns} if len(piece) else {}
    else:
        rows = iter(piece)
        while some := list(islice(rows, WINDOW_ROWS)):
            names = dict.fromkeys(name for row in some for name in row)
            yield {name: [row.get(name) for row in some] for name in names}


def _value(value: Any, *, is_number: bool) -> Any:
    if value is np.ma.masked or value is None:
        return None
    if is_number:
        return None if np.ma.is_masked(value) else np.asarray(value).reshape(-1)[0].item()
    return np.array(value) if isinstance(value, np.ndarray) else value


def _windows(table: Table, partitions: int | None) -> list[tuple[int, int]]:
    count = partitions or int(len(table) * bytes_of_row(table) // WINDOW_BYTES) + 1
    return windows(table, count)


def _delayed(
    read: Callable[[Table], Any], table: Table, cuts: Sequence[tuple[int, int]], keep: Keep = None
) -> list[Any]:
    """Return delayed calls of a function, one per run of rows; Dask does not traverse a table inside ``partial``."""
    runs = [partial(_kept, read, table[start:stop], keep) for start, stop in cuts or [(0, 0)]]
    return [dask.delayed(one, traverse=False, pure=False)() for one in runs]


def _kept(read: Callable[[Table], Any], rows: Table, keep: Keep) -> Any:
    return read(rows if keep is None else keep(rows))
