"""``lakebed.from_pandas``, ``from_polars``, ``from_arrow``, ``from_rows`` and so on: a dataset of a table, in one call.

The destination comes first, and may be omitted: ``from_rows("lake", rows)``, or ``from_rows(rows)`` for a dataset in
memory. Types are those of the importer ``dataframe``. Nothing is left out: a value that cannot be stored is an error,
and no dataset is made.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack

from lakebed.api.datasets import empty
from lakebed.dataset.dataset import Dataset
from lakebed.errors import IngestionError, InvalidPandasDataframeError, LakebedError
from lakebed.importers.core.columns import ColumnOptions
from lakebed.importers.core.importing import import_plan
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Source
from lakebed.importers.folders.pictures import LOSSLESS
from lakebed.importers.tables import dataframe

Path = str | os.PathLike[str]
Rows = Iterable[Mapping[str, Any]] | Mapping[str, Any] | Callable[[], Iterable[Mapping[str, Any]]]


def from_pandas(
    dest: Path | Dataset | Any,
    frame: Any = None,
    *,
    nan: bool = False,
    overwrite: bool = False,
    creds: Any = None,
    **columns: Unpack[ColumnOptions],
) -> Dataset:
    """Make a dataset of a data frame of pandas, a tensor for each column.

    Parameters
    ----------
    dest
        Address of the new dataset, or an open dataset, to which rows are appended. If omitted, it is made in memory.
    frame
        The data frame. Its index is left out, with a warning if it has a name or is no index of integers:
        ``frame.reset_index()`` makes a column of it.
    nan
        Keep NaN; otherwise it is null.
    overwrite
        Replace an existing dataset.
    creds
        Credentials of ``dest``.
    columns
        Description of the columns:

        - ``media``: columns of files, as bytes, paths or addresses: ``{"photo": "image"}``;
        - ``labels``: text columns that hold class names; categorical columns become labels
          without being named;
        - ``embeddings``: columns of lists that are embeddings; lists of floats of one length become
          embeddings without being named;
        - ``documents``: columns that are stored as JSON;
        - ``link=True``: store links to files that are given by path instead of the files;
        - ``creds_key``: name of the credentials that the links need;
        - ``compression``: kind of file that tensors of media store; by default, no pixel is lost.

    Returns
    -------
    The dataset, published and not committed.

    Raises
    ------
    InvalidPandasDataframeError
        If ``frame`` is not a data frame of pandas.
    IngestionError
        If a value of a column has no type, or a named column does not exist.
    DatasetExistsError
        If a dataset exists at ``dest``, without ``overwrite``.

    Examples
    --------
    >>> import lakebed, pandas as pd
    >>> frame = pd.DataFrame({"id": [1, 2], "kind": pd.Categorical(["cat", None])})
    >>> ds = lakebed.from_pandas("mem://kinds-of-a-frame", frame)
    >>> ds.kind.htype, ds.kind.to_arrow().to_pylist()
    ('class_label', ['cat', None])
    """
    dest, frame = _placed(dest, frame, "from_pandas")
    if not dataframe.is_pandas(frame):
        kind = f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}".removeprefix("builtins.")
        raise InvalidPandasDataframeError(
            f"from_pandas(dest, frame) takes a data frame of pandas as its second argument, not {kind}"
        )
    named = [name for name in frame.index.names if name is not None]
    if named or frame.index.nlevels > 1 or frame.index.dtype.kind not in "iu":
        told = f"index {', '.join(map(repr, named))}" if named else "index"
        warnings.warn(
            f"from_pandas leaves out the {told} of the frame: frame.reset_index() makes a column of it, and "
            "frame.reset_index(drop=True) has none",
            stacklevel=2,
        )
    # Use lossless compression, because no report lists losses here.
    columns.setdefault("compression", LOSSLESS)
    source = Source("", frame)
    return _made(dest, source, dataframe.plan(source, nan=nan, **columns), overwrite=overwrite, creds=creds)


def from_arrow(
    dest: Path | Dataset | Any,
    table: Any = None,
    *,
    overwrite: bool = False,
    creds: Any = None,
    **columns: Unpack[ColumnOptions],
) -> Dataset:
    """Make a dataset of a table of Arrow, a tensor for each column; nulls stay nulls.

    Parameters
    ----------
    dest
        Address of the new dataset, or an open dataset, to which rows are appended. If omitted, it is made in memory.
    table
        A table, a batch, a reader, or any object that exports Arrow, such as a relation of DuckDB. The data of a reader
        may be larger than memory.
    overwrite, creds, columns
        As for :func:`from_pandas`.

    Returns
    -------
    The dataset, published and not committed.

    Raises
    ------
    IngestionError
        If ``table`` is not such an object, or a value of a column has no type.
    DatasetExistsError
        If a dataset exists at ``dest``, without ``overwrite``.

    Examples
    --------
    >>> import lakebed, pyarrow as pa
    >>> ds = lakebed.from_arrow("mem://ids-of-a-table", pa.table({"id": [1, None, 3]}))
    >>> ds.id.to_arrow().to_pylist()
    [1, None, 3]
    """
    dest, table = _placed(dest, table, "from_arrow")
    if not hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__arrow_c_array__"):
        raise IngestionError(
            "from_arrow(dest, table) takes an object that exports Arrow data as its second argument, not "
            f"{type(table).__name__}"
        )
    columns.setdefault("compression", LOSSLESS)
    source = Source("", table)
    return _made(dest, source, dataframe.plan(source, **columns), overwrite=overwrite, creds=creds)


def from_polars(
    dest: Path | Dataset | Any,
    frame: Any = None,
    *,
    overwrite: bool = False,
    creds: Any = None,
    **columns: Unpack[ColumnOptions],
) -> Dataset:
    """Make a dataset of a data frame of polars, a tensor for each column; a lazy one is collected.

    Parameters
    ----------
    dest
        Address of the new dataset, or an open dataset, to which rows are appended. If omitted, it is made in memory.
    frame
        The data frame.
    overwrite, creds, columns
        As for :func:`from_pandas`.

    Returns
    -------
    The dataset, published and not committed.

    Raises
    ------
    IngestionError
        If ``frame`` is not a data frame of polars, or a value of a column has no type.
    DatasetExistsError
        If a dataset exists at ``dest``, without ``overwrite``.
    """
    dest, frame = _placed(dest, frame, "from_polars")
    if type(frame).__module__.partition(".")[0] != "polars":
        raise IngestionError(
            f"from_polars(dest, frame) takes a data frame of polars as its second argument, not {type(frame).__name__}"
        )
    frame = frame.collect() if hasattr(frame, "collect") else frame
    return from_arrow(dest, frame, overwrite=overwrite, creds=creds, **columns)


def from_rows(
    dest: Path | Dataset | Rows,
    rows: Rows | None = None,
    *,
    overwrite: bool = False,
    creds: Any = None,
    **columns: Unpack[ColumnOptions],
) -> Dataset:
    """Make a dataset of rows that are dictionaries, or of a dictionary of columns: a tensor for each key.

    ``from_list``, ``from_dict`` and ``from_generator`` are other names of it. A tensor has the type that all values of
    its key have: numbers of one kind, text, dates and times, bytes, lists and arrays of numbers, tensors of PyTorch,
    pictures of Pillow, files (``lakebed.read``, or a ``pathlib.Path`` of media) and links to them. Decimals, UUIDs,
    other paths, and pandas' periods and intervals are text. Mixed values, dictionaries, lists of texts, and lists of
    lists of several lengths are JSON. A key that a row lacks is null in it.

    Parameters
    ----------
    dest
        Address of the new dataset, or an open dataset, to which rows are appended. If omitted, it is made in memory.
    rows
        The rows; all are held in memory. Also a dictionary of columns of one length, or a generator function.
    overwrite, creds, columns
        As for :func:`from_pandas`.

    Returns
    -------
    The dataset, published and not committed.

    Raises
    ------
    IngestionError
        If a row is not a dictionary, or a value has no type.
    DatasetExistsError
        If a dataset exists at ``dest``, without ``overwrite``.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.from_rows("mem://some-rows", [{"id": 1, "word": "a"}, {"id": 2}])
    >>> ds.to_arrow().to_pylist()
    [{'id': 1, 'word': 'a'}, {'id': 2, 'word': None}]
    """
    place, given = _placed(dest, rows, "from_rows")
    if isinstance(place, Dataset):
        given = given if isinstance(given, Mapping) else list(given)
        there = {name for name, one in place.tensors.items() if one.htype == "json"}
        listed = [given] if isinstance(given, Mapping) else given
        named = {key for row in listed if isinstance(row, Mapping) for key in row}
        known = list(columns.get("documents") or ())
        columns["documents"] = [*known, *sorted(there & named - {*known})]
    plan = dataframe.plan_of_rows(given, **columns)
    return _made(place, Source("", "rows"), plan, overwrite=overwrite, creds=creds)


from_dict = from_list = from_generator = from_rows


def in_memory() -> str:
    """Return an address in memory that no dataset has."""
    return f"mem://{os.urandom(8).hex()}"


def _placed(dest: Any, data: Any, name: str) -> tuple[Any, Any]:
    """Return the destination of a dataset and its data; if the first argument is the data, it is stored in memory.

    Raises
    ------
    IngestionError
        If only a destination is passed.
    """
    if data is None:
        if isinstance(dest, str | os.PathLike | Dataset):
            raise IngestionError(
                f"{name} got a place, {dest!r}, but no data: call {name}(place, data), or {name}(data)"
            )
        dest, data = None, dest
    dest = in_memory() if dest is None else dest
    return dest, data() if inspect.isroutine(data) else data


def _made(dest: Path | Dataset, source: Source, plan: Plan, *, overwrite: bool, creds: Any) -> Dataset:
    is_open = isinstance(dest, Dataset)
    if not is_open and not isinstance(dest, str | os.PathLike):
        raise IngestionError(
            f"the first argument must be the address of a new dataset or an open dataset, not {type(dest).__name__}"
        )
    ds = dest if isinstance(dest, Dataset) else empty(dest, overwrite=overwrite, creds=creds)
    try:
        import_plan("dataframe", source, plan, ds, workers=0, progressbar=False, strict=True, lossless=True)
    except LakebedError:
        if not is_open:
            ds.delete(large_ok=True)
        raise
    return ds
