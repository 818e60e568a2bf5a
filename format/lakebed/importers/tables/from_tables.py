"""``lakebed.from_pandas``, ``from_polars``, ``from_arrow``, ``from_rows`` and so on: a dataset of a table, in one call.

The place comes first, and may be left out: ``from_rows("lake", rows)``, or ``from_rows(rows)`` for a dataset in memory.
Types are those of the importer ``dataframe`` (`importers.columns`); nothing is left out: what cannot be stored is an
error, and then there is no dataset.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import lakebed
from lakebed.errors import IngestionError, InvalidPandasDataframeError, LakebedError
from lakebed.importers.core.importing import import_plan
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Source
from lakebed.importers.folders.pictures import LOSSLESS
from lakebed.importers.tables import dataframe

Path = str | os.PathLike[str]
Rows = Iterable[Mapping[str, Any]] | Mapping[str, Any] | Callable[[], Iterable[Mapping[str, Any]]]


def from_pandas(
    dest: Path | lakebed.Dataset | Any,
    frame: Any = None,
    *,
    media: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    documents: Sequence[str] = (),
    link: bool = False,
    creds_key: str | None = None,
    nan: bool = False,
    overwrite: bool = False,
    creds: Any = None,
) -> lakebed.Dataset:
    """Make a dataset of a data frame of pandas, a tensor for each column.

    Parameters
    ----------
    dest
        Where the dataset is made; an open one is appended to. Left out, it is made in memory.
    frame
        The data frame. Its index is left out: ``frame.reset_index()`` makes a column of it.
    media
        Columns that hold files, as bytes, paths or addresses: ``{"photo": "image"}``.
    labels
        Columns whose texts are names of classes; categories are such by themselves.
    embeddings
        Columns of lists that are embeddings; lists of floats of one length are such by themselves.
    documents
        Columns that are stored as JSON.
    link
        Store links to files that are given by path in place of the files.
    creds_key
        Name of the credentials that the links need.
    nan
        Whether NaN stays NaN; otherwise it is null.
    overwrite
        Replace a dataset that is there.
    creds
        Credentials of ``dest``.

    Returns
    -------
    The dataset, published and not committed.

    Raises
    ------
    InvalidPandasDataframeError
        If ``frame`` is none.
    IngestionError
        If a column holds what has no type, or there is no such column.
    DatasetExistsError
        If a dataset is at ``dest``, and ``overwrite`` was not said.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"id": [1, 2], "kind": pd.Categorical(["cat", None])})
    >>> ds = lakebed.from_pandas("mem://kinds-of-a-frame", frame)
    >>> ds.kind.htype, ds.kind.to_arrow().to_pylist()
    ('class_label', ['cat', None])
    """
    dest, frame = _placed(dest, frame, "from_pandas")
    if not dataframe.is_pandas(frame):
        raise InvalidPandasDataframeError(
            f"from_pandas(dest, frame) takes a data frame of pandas as its second argument, not {type(frame).__name__}"
        )
    source = Source("", frame)
    plan = dataframe.plan(
        source,
        media=media,
        compression=LOSSLESS,  # nobody could be told what was lost
        labels=labels,
        embeddings=embeddings,
        documents=documents,
        link=link,
        creds_key=creds_key,
        nan=nan,
    )
    return _made(dest, source, plan, overwrite=overwrite, creds=creds)


def from_arrow(
    dest: Path | lakebed.Dataset | Any,
    table: Any = None,
    *,
    media: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    documents: Sequence[str] = (),
    link: bool = False,
    creds_key: str | None = None,
    overwrite: bool = False,
    creds: Any = None,
) -> lakebed.Dataset:
    """Make a dataset of a table of Arrow, a tensor for each column; nulls stay nulls.

    Parameters
    ----------
    dest
        Where the dataset is made; an open one is appended to. Left out, it is made in memory.
    table
        A table, a batch, a reader, or whatever hands out Arrow, such as a relation of DuckDB. A reader may hold more
        than memory does.
    media, labels, embeddings, documents, link, creds_key, overwrite, creds
        As for :func:`from_pandas`.

    Returns
    -------
    The dataset, published and not committed.

    Raises
    ------
    IngestionError
        If ``table`` is none, or a column holds what has no type.
    DatasetExistsError
        If a dataset is at ``dest``, and ``overwrite`` was not said.

    Examples
    --------
    >>> import pyarrow as pa
    >>> ds = lakebed.from_arrow("mem://ids-of-a-table", pa.table({"id": [1, None, 3]}))
    >>> ds.id.to_arrow().to_pylist()
    [1, None, 3]
    """
    dest, table = _placed(dest, table, "from_arrow")
    source = Source("", table)
    if not hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__arrow_c_array__"):
        raise IngestionError(
            f"from_arrow(dest, table) takes what hands out Arrow as its second argument, not {type(table).__name__}"
        )
    plan = dataframe.plan(
        source,
        media=media,
        compression=LOSSLESS,  # nobody could be told what was lost
        labels=labels,
        embeddings=embeddings,
        documents=documents,
        link=link,
        creds_key=creds_key,
    )
    return _made(dest, source, plan, overwrite=overwrite, creds=creds)


def from_polars(
    dest: Path | lakebed.Dataset | Any,
    frame: Any = None,
    *,
    media: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    documents: Sequence[str] = (),
    link: bool = False,
    creds_key: str | None = None,
    overwrite: bool = False,
    creds: Any = None,
) -> lakebed.Dataset:
    """Make a dataset of a data frame of polars, a tensor for each column; a lazy one is collected.

    Parameters
    ----------
    dest
        Where the dataset is made; an open one is appended to. Left out, it is made in memory.
    frame
        The data frame.
    media, labels, embeddings, documents, link, creds_key, overwrite, creds
        As for :func:`from_pandas`.

    Returns
    -------
    The dataset, published and not committed.

    Raises
    ------
    IngestionError
        If ``frame`` is no data frame of polars, or a column holds what has no type.
    DatasetExistsError
        If a dataset is at ``dest``, and ``overwrite`` was not said.
    """
    dest, frame = _placed(dest, frame, "from_polars")
    if type(frame).__module__.partition(".")[0] != "polars":
        raise IngestionError(
            f"from_polars(dest, frame) takes a data frame of polars as its second argument, not {type(frame).__name__}"
        )
    return from_arrow(
        dest,
        frame.collect() if hasattr(frame, "collect") else frame,
        media=media,
        labels=labels,
        embeddings=embeddings,
        documents=documents,
        link=link,
        creds_key=creds_key,
        overwrite=overwrite,
        creds=creds,
    )


def from_rows(
    dest: Path | lakebed.Dataset | Rows,
    rows: Rows | None = None,
    *,
    media: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    documents: Sequence[str] = (),
    link: bool = False,
    creds_key: str | None = None,
    overwrite: bool = False,
    creds: Any = None,
) -> lakebed.Dataset:
    """Make a dataset of rows that are dictionaries, or of a dictionary of columns: a tensor for each key.

    ``from_list``, ``from_dict`` and ``from_generator`` are other names of it. Types are those that all values of a key
    have: numbers of one kind, text, dates and times, bytes, lists and arrays of numbers, tensors of PyTorch, pictures
    of Pillow, files (``lakebed.read``, or a ``pathlib.Path`` of media) and links to them; decimals, UUIDs, other paths,
    and pandas' periods and intervals are text. What is mixed, dictionaries, lists of texts, and lists of lists of
    several lengths are JSON. A key that a row lacks is null there.

    Parameters
    ----------
    dest
        Where the dataset is made; an open one is appended to. Left out, it is made in memory.
    rows
        The rows; all are held in memory. Also a dictionary of columns of one length, or a generator function.
    media, labels, embeddings, documents, link, creds_key, overwrite, creds
        As for :func:`from_pandas`.

    Returns
    -------
    The dataset, published and not committed.

    Raises
    ------
    IngestionError
        If a row is no dictionary, or a value has no type.
    DatasetExistsError
        If a dataset is at ``dest``, and ``overwrite`` was not said.

    Examples
    --------
    >>> ds = lakebed.from_rows("mem://some-rows", [{"id": 1, "word": "a"}, {"id": 2}])
    >>> ds.to_arrow().to_pylist()
    [{'id': 1, 'word': 'a'}, {'id': 2, 'word': None}]
    """
    place, given = _placed(dest, rows, "from_rows")
    source = Source("", "rows")
    if isinstance(place, lakebed.Dataset):
        given = given if isinstance(given, Mapping) else list(given)
        there = {name for name, one in place.tensors.items() if one.htype == "json"}
        listed = [given] if isinstance(given, Mapping) else given
        named = {key for row in listed if isinstance(row, Mapping) for key in row}
        documents = [*documents, *sorted(there & named - {*documents})]
    plan = dataframe.plan_of_rows(
        given,
        media=media,
        labels=labels,
        embeddings=embeddings,
        documents=documents,
        link=link,
        creds_key=creds_key,
    )
    return _made(place, source, plan, overwrite=overwrite, creds=creds)


from_dict = from_list = from_generator = from_rows


def in_memory() -> str:
    """Return an address in memory that no dataset has."""
    return f"mem://{os.urandom(8).hex()}"


def _placed(dest: Any, data: Any, name: str) -> tuple[Any, Any]:
    """Return where a dataset is made, and of what: in memory where the first argument is the data.

    Raises
    ------
    IngestionError
        If there is a place alone.
    """
    if data is None:
        if isinstance(dest, str | os.PathLike | lakebed.Dataset):
            raise IngestionError(
                f"{name} has a place, {dest!r}, and no data: {name}(place, data), or {name}(data)"
            )
        dest, data = None, dest
    dest = in_memory() if dest is None else dest
    return dest, data() if inspect.isroutine(data) else data


def _made(
    dest: Path | lakebed.Dataset, source: Source, plan: Plan, *, overwrite: bool, creds: Any
) -> lakebed.Dataset:
    if isinstance(dest, lakebed.Dataset):
        import_plan("dataframe", source, plan, dest, workers=0, progressbar=False, strict=True, lossless=True)
        return dest
    if not isinstance(dest, str | os.PathLike):
        raise IngestionError(
            f"the first argument is where the dataset is made, an address or an open one, not {type(dest).__name__}"
        )
    ds = lakebed.empty(dest, overwrite=overwrite, creds=creds)
    try:
        import_plan("dataframe", source, plan, ds, workers=0, progressbar=False, strict=True, lossless=True)
    except LakebedError:
        ds.delete(large_ok=True)
        raise
    return ds
