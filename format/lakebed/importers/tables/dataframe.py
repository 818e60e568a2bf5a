"""Tables of the program: pandas, polars, PyArrow, DuckDB and other sources of Arrow; and Arrow IPC and Feather files.

A stream, which can be read once, is one item; a table is cut into items of some rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import (
    FIRST_ROWS,
    ColumnOptions,
    Table,
    Wishes,
    check_rows,
    owned,
    reading,
    renamed,
    table_of,
    tensor_name,
)
from lakebed.importers.core.described_columns import innermost
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.plan import Plan, Problem, TensorPlan, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.tables.python_values import PythonColumns, columns_of_rows
from lakebed.transforms.output import Skipped
from lakebed.writing.encode.missing_values import SPELLED

BATCHED = True

_ITEM_ROWS = 65_536
_SUFFIXES = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class _Context(Table):
    """A table, or a reader of batches.

    Parameters
    ----------
    beside
        Values by tensor of columns without a type of Arrow, such as arrays of several dimensions.
    """

    table: Any = None
    beside: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def recognise(source: Source) -> str | None:
    """Describe a table, or an Arrow file."""
    if source.is_object:
        found = source.data
        is_table = hasattr(found, "__arrow_c_stream__") or is_pandas(found)
        return f"a table ({source.shown})" if is_table else None
    return "an Arrow file" if source.is_file and source.suffix in _SUFFIXES else None


def plan(source: Source, *, nan: bool = False, **options: Unpack[ColumnOptions]) -> Plan:
    """Plan a tensor for each column.

    Parameters
    ----------
    source
        The table, or an Arrow file.
    nan
        Keep NaN of pandas; otherwise it is null.
    options
        Options of columns.
    """
    wishes = Wishes.of(options)
    found = _of_python(source, wishes, nan=nan)
    below = source if not source.is_object else Source("", None, source.creds)
    made = plan_of_table(_table(source, found, nan=nan), below, wishes, [], found)
    if source.is_object and is_pandas(source.data):
        made = replace(made, tensors=[_with_categories(one, source.data) for one in made.tensors])
    return made


def _with_categories(made: TensorPlan, frame: Any) -> TensorPlan:
    """Return the plan of a tensor with all categories of its column as class names, so that labels keep their codes."""
    column = frame.get(made.info.get("column", made.name))
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if categories is None or made.htype != "class_label":
        return made
    return replace(made, arguments={**made.arguments, "class_names": list(map(str, categories))})


def plan_of_table(
    table: Any,
    source: Source,
    wishes: Wishes,
    problems: list[Problem],
    found: PythonColumns | None = None,
) -> Plan:
    """Plan a tensor for each column of a table of Arrow.

    Parameters
    ----------
    table
        The table, or a reader of batches.
    source
        Folder of files that the table names.
    problems
        Known problems.
    found
        Further columns, whose types Python knows better than Arrow.
    """
    found = found or PythonColumns(0, ())
    first = None
    items: list[range] = [range(1)]
    count: int | None = None
    if isinstance(table, pa.Table):
        count = found.count if found.apart else table.num_rows
        first = next(iter(table.slice(0, FIRST_ROWS).combine_chunks().to_batches()), None)
        items = [range(at, min(at + _ITEM_ROWS, count)) for at in range(0, count, _ITEM_ROWS)]
    known = replace(
        wishes,
        documents=[name for name in wishes.documents if name not in found.apart],
        embeddings=[name for name in wishes.embeddings if name not in found.apart],
    )
    columns, tensors = table_of(table.schema, known, first, source, problems)
    beside = _placed_beside(found, tensors, problems)
    told = "an unknown number of" if count is None else f"{count:,}"
    return Plan(
        f"a table of {told} rows of {len(tensors)} columns",
        tensors,
        items,
        _Context(columns.source, columns.wishes, columns.columns, table, beside),
        rows=count,
        nbytes=table.nbytes if isinstance(table, pa.Table) else 0,
        problems=problems,
    )


def plan_of_rows(
    rows: Iterable[Mapping[str, Any]] | Mapping[str, Any], **options: Unpack[ColumnOptions]
) -> Plan:
    """Plan a tensor for each key of rows of Python; a key that a row lacks is null.

    Raises
    ------
    IngestionError
        If a row is not a dictionary, or a key is not text.
    """
    wishes = Wishes.of(options)
    found = columns_of_rows(rows, wishes.documents, wishes.embeddings, {*wishes.media, *wishes.documents})
    wishes.check(list(found.names))
    return plan_of_table(pa.table(dict(found.arrow)), Source("", "rows"), wishes, [], found)


def _placed_beside(
    found: PythonColumns, tensors: list[TensorPlan], problems: list[Problem]
) -> dict[str, Sequence[Any]]:
    """Add the tensors of columns that are not in the table, in order; return their values by tensor."""
    names = {plan.name for plan in tensors}
    beside = {}
    for name, values in found.apart.items():
        htype = "json" if name in found.documents else None
        one = found.files.get(name) or tensor(name, htype, chunk_compression="lz4")
        called = tensor_name(name, names)
        names.add(called)
        beside[called] = values
        if called != name:
            problems.append(renamed(name, called))
        tensors.append(TensorPlan(called, one.arguments, {"column": name} if called != name else {}))
    order = {str(name): at for at, name in enumerate(found.names)}
    tensors.sort(key=lambda one: order.get(str(one.info.get("column", one.name)), 0))
    return beside


def rows(item: range, context: _Context) -> Iterator[Any]:
    """Yield some rows, or all batches of a stream."""
    table = context.table
    if not isinstance(table, pa.Table):
        for batch in table:
            for start in range(0, batch.num_rows, _ITEM_ROWS):
                yield from context.rows(owned(batch.slice(start, _ITEM_ROWS)), str(item))
        return
    if not context.columns:
        yield {name: values[item.start : item.stop] for name, values in context.beside.items()}
        return
    at = item.start
    piece = table.slice(item.start, len(item))
    # Combine chunks only of objects: combining reads texts, and a damaged file may place texts outside of memory.
    for batch in (piece.combine_chunks() if context.source.is_object else piece).to_batches():
        yield from _beside(batch, at, context, str(item))
        at += batch.num_rows


def _beside(batch: Any, at: int, context: _Context, where: str) -> Iterator[Any]:
    """Yield the rows of a batch with the values of the other columns; row by row if one row cannot be made."""
    if not context.beside:
        yield from context.rows(batch, where)
        return
    made = list(context.rows(batch, where))
    if batch.num_rows > 1 and any(isinstance(one, Skipped) for one in made):
        for row in range(batch.num_rows):
            yield from _beside(batch.slice(row, 1), at + row, context, f"row {at + row:,}")
        return
    for one in made:
        if isinstance(one, Skipped):
            yield one
        else:
            more = {name: values[at : at + batch.num_rows] for name, values in context.beside.items()}
            yield {**one, **more}


def is_pandas(found: Any) -> bool:
    """Return whether an object is a data frame of pandas."""
    return type(found).__module__.partition(".")[0] == "pandas" and hasattr(found, "columns")


def _of_python(source: Source, wishes: Wishes, *, nan: bool) -> PythonColumns:
    """Return the columns of a pandas data frame whose types Python knows better than Arrow.

    These are arrays and lists of several axes, periods and intervals, and values that Arrow refuses, such as pictures.
    """
    if not source.is_object or not is_pandas(source.data):
        return PythonColumns(0, ())
    frame = source.data
    columns = {
        name: [None if isinstance(one, float) and one != one and not nan else one for one in frame[name]]
        for name in frame.columns
        if isinstance(name, str)
        and (name in wishes.documents or not (wishes.link or name in wishes.names))
        and _is_of_python(frame[name])
    }
    return replace(columns_of_rows(columns, wishes.documents), names=list(frame.columns))


def _is_of_python(column: Any) -> bool:
    import pandas as pd

    kind = str(getattr(column, "dtype", ""))
    if kind != "object":
        return kind.startswith(SPELLED)
    if not pd.api.types.infer_dtype(column).startswith(("mixed", "datetime64", "timedelta", *SPELLED)):
        return False
    first = next((value for value in column if value is not None), None)
    is_deep = isinstance(first, np.ndarray) and first.ndim > 1
    if is_deep or (isinstance(first, list | tuple) and any(map(_is_list, first))):
        return True
    try:
        kind, _ = innermost(pa.array(column, from_pandas=True).type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return True
    # Arrow would give each dictionary the keys of all others.
    return pa.types.is_struct(kind) and {one.name for one in kind} != {"bytes", "path"}


def _is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)


def _table(source: Source, more: PythonColumns, *, nan: bool = False) -> Any:
    """Return a table, or a reader of batches."""
    if not source.is_object:
        with reading(source.shown), source.open() as file:
            is_stream = not source.head.startswith(b"ARROW1")
            opened = pa.ipc.open_stream(file) if is_stream else pa.ipc.open_file(file)
            table = opened.read_all()
            table.validate()
            check_rows(table.num_rows, source.nbytes, source.shown)
            return table
    errors = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)
    with damaged(f"{source.shown} is not a table that Arrow knows", *errors):
        found = source.data
        if isinstance(found, pa.Table | pa.RecordBatchReader):
            return found
        if isinstance(found, pa.RecordBatch):
            return pa.Table.from_batches([found])
        if is_pandas(found):
            found = found.drop(columns=[*more.apart, *more.arrow])
            for name in found.columns:
                categories: Any = getattr(getattr(found[name], "dtype", None), "categories", None)
                if str(getattr(categories, "dtype", "")).startswith(SPELLED):
                    found = found.assign(**{name: found[name].cat.rename_categories(categories.map(str))})
            table = pa.Table.from_pandas(found, preserve_index=False)
            table = _with_nan(table, found) if nan else table
            return pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **more.arrow})
        if hasattr(found, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(found)
            return reader if not hasattr(found, "__len__") else reader.read_all()
    raise IngestionError(
        f"{source.shown} is not a table: a table of pandas, polars, PyArrow or another library that exports Arrow "
        "data was expected"
    )


def _with_nan(table: Any, frame: Any) -> Any:
    for at, name in enumerate(frame.columns):
        if isinstance(frame.dtypes.iloc[at], np.dtype) and frame.dtypes.iloc[at].kind == "f":
            values = pa.array(frame.iloc[:, at].to_numpy(), from_pandas=False)
            table = table.set_column(at, str(name), values)
    return table
