"""Methods of a dataset as in pandas: they choose rows or columns, compute values, or change the dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Self

import numpy as np

from lakebed.errors import InvalidInputError
from lakebed.htypes.arrow import is_text
from lakebed.verbs.condition import VALUES, listed
from lakebed.verbs.output import OutputVerbs
from lakebed.verbs.rows import RowVerbs
from lakebed.verbs.values import flattened


class DatasetVerbs(RowVerbs, OutputVerbs):
    """Verbs of a dataset; a tensor of the same name hides a verb.

    Adding, retyping and removing columns and rows is stored; choosing or renaming columns returns a view.
    """

    # -- changes that are stored -------------------------------------------------------------------------------------

    def add_column(self, name: str, values: Any, **settings: Any) -> Self:
        """Add a column, or replace the values of an existing one; ``ds["new"] = values`` does the same.

        Parameters
        ----------
        name
            Name of the column.
        values
            One value for each row: an array, a list, a column of Arrow or pandas, or a condition; one value for all
            rows; or a function of a row, ``lambda row: row["x"] * 2``.
        settings
            Settings of :meth:`create_tensor`: ``htype``, ``class_names``, ``sample_compression``, ... Without settings,
            the type of the values determines them.

        Returns
        -------
        This dataset, with the column stored.

        Raises
        ------
        InvalidInputError
            If the number of values is not the number of rows; nothing is changed then.
        SampleAppendError
            If a value does not fit.
        """
        self._check_changeable("add_column")
        is_new = name not in self  # type: ignore[attr-defined]
        if not is_new and settings:
            raise InvalidInputError(
                f"column {name!r} exists and has its settings: {', '.join(settings)} can be set for a new column only"
            )
        if callable(values):
            if is_new and settings:
                self.create_tensor(name, **settings)
            return self._map(lambda row: {name: values(row)})  # type: ignore[no-any-return]
        count = self.max_len if self.tensors else None
        if isinstance(values, VALUES) or values is None or isinstance(values, Mapping):
            if count is None:
                raise InvalidInputError(f"no rows exist for this value: ds[{name!r}] = [...] adds rows")
            values = [values] * count
        elif not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
            values = np.asarray(values) if hasattr(values, "__array__") else list(values)
        if count is not None and len(values) != count:
            raise InvalidInputError(
                f"{len(values):,} values cannot fill the {count:,} rows of column {name!r}"
            )
        if not is_new:
            self[name][:] = values
            return self
        settings, values = _typed(name, values, settings)
        is_column = hasattr(values, "recorded_values")  # a column of a dataset has settings
        tensor = self.create_tensor_like(name, values) if is_column else self.create_tensor(name, **settings)
        with ExitStack() as undo:
            undo.callback(self.delete_tensor, name, large_ok=True)
            tensor.extend(values)
            undo.pop_all()
        return self

    def add_item(self, row: Mapping[str, Any]) -> Self:
        """Append a row, as ``ds.append`` does.

        Parameters
        ----------
        row
            {column: value}.

        Returns
        -------
        This dataset.
        """
        self.append(row)
        return self

    def cast_column(self, name: str, type: Any) -> Self:  # noqa: A002 - as Hugging Face calls it
        """Give a column a wider type, as :meth:`change_type` does.

        Parameters
        ----------
        name
            Name of the column.
        type
            A dtype, ``"float32"``, or an htype, ``"text"``.

        Returns
        -------
        This dataset, with the values rewritten.
        """
        is_htype = isinstance(type, str) and type in ("text", "json", "list", "generic")
        self.change_type(name, htype=type if is_htype else None, dtype=None if is_htype else type)
        return self

    def remove(self, rows: Any) -> None:
        """Remove rows by a condition, an expression, a function, a view, or row numbers.

        Parameters
        ----------
        rows
            ``ds["age"] > 90``, ``"age > 90"``, ``lambda row: row["age"] > 90``, ``ds[10:20]``, ``[3, 5]``, a mask.

        Raises
        ------
        InvalidInputError
            If `rows` is a view of another dataset.
        """
        if isinstance(rows, str) or callable(rows):
            rows = self.filter(rows)
        elif not isinstance(rows, self.__class__):
            rows = self[[rows] if isinstance(rows, int) else rows]
        self.pop(rows)

    # -- views of other columns --------------------------------------------------------------------------------------

    def select_columns(self, names: str | Sequence[str]) -> Self:
        """Return a view of some columns.

        Parameters
        ----------
        names
            One column, or several, in the order of the view.
        """
        return self[listed(names)]  # type: ignore[no-any-return]

    def remove_columns(self, names: str | Sequence[str]) -> Self:
        """Return a view without some columns; ``del ds["c"]`` removes a stored column.

        Parameters
        ----------
        names
            One column, or several.
        """
        wanted = listed(names)
        self[wanted]  # raises an error for columns that do not exist
        return self[[name for name in self.tensors if name not in wanted]]  # type: ignore[no-any-return]

    remove_column = remove_columns

    def drop(self, names: str | Sequence[str] = (), *, columns: str | Sequence[str] = ()) -> Self:
        """Return a view without some columns; ``ds.remove`` removes rows.

        Parameters
        ----------
        names, columns
            Name of one column, or of several columns; two arguments, as in pandas.
        """
        wanted = [*([names] if isinstance(names, int) else listed(names)), *listed(columns)]
        if rows := [name for name in wanted if not isinstance(name, str)]:
            raise InvalidInputError(
                f"drop takes names of columns, not {rows[0]!r}: ds.remove({rows}) removes rows"
            )
        return DatasetVerbs.remove_columns(self, wanted)

    def rename_columns(self, names: Mapping[str, str]) -> Self:
        """Return a view that shows columns by other names; ``ds.rename_tensor`` changes a stored name.

        Parameters
        ----------
        names
            {name: new name}.

        Raises
        ------
        InvalidInputError
            If two columns would have the same name.
        """
        self[list(names)]  # raises an error for columns that do not exist
        shown = {names.get(name, name): name for name in self.tensors}
        if len(shown) < len(self.tensors):
            raise InvalidInputError("two columns would have the same name: choose another for one of them")
        return self._renamed(shown)  # type: ignore[no-any-return]

    def rename_column(self, name: str, new_name: str) -> Self:
        """Return a view that shows a column by another name; ``ds.rename_tensor`` changes the stored name.

        Parameters
        ----------
        name
            Name of the column.
        new_name
            Name of the column in the view.
        """
        return DatasetVerbs.rename_columns(self, {name: new_name})


def _arrow_of(series: Any) -> Any:
    """Return a column of pandas as an Arrow array; None if its types are those of Python: dictionaries, decimals."""
    import pyarrow as pa

    try:
        column = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    kind = flattened(column).type
    if pa.types.is_dictionary(kind) and not is_text(kind.value_type):
        return _arrow_of(series.astype(object))  # or numbers would be taken for those of labels
    # Arrow gives each dictionary the keys of all others.
    return None if pa.types.is_struct(kind) or pa.types.is_decimal(kind) else column


def _typed(name: str, values: Any, settings: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return settings for a new tensor, and its values, if needed as an Arrow array or a tensor of another dataset."""
    if settings or hasattr(values, "recorded_values") or isinstance(values, np.ndarray | range):
        return settings, values
    # This is a column of a query result, of polars or of pandas.
    if hasattr(values, "to_arrow") or hasattr(values, "to_frame"):
        import pyarrow as pa

        column = values.to_arrow() if hasattr(values, "to_arrow") else _arrow_of(values)
        if column is not None and pa.types.is_dictionary(column.type):
            words = column.unify_dictionaries().chunk(0) if isinstance(column, pa.ChunkedArray) else column
            return {"htype": "class_label", "class_names": words.dictionary.to_pylist()}, column
        if column is not None:
            return settings, column
        values = list(values.astype(object).where(values.notna(), None))
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return {"dtype": "bool"}, values
    if set(map(type, known)) == {int, float}:
        return {"dtype": "float64"}, values
    if all(isinstance(value, (*VALUES, Mapping)) or hasattr(value, "dtype") for value in known):
        return settings, values
    # Import the module by name, because it belongs to an upper layer.
    from_dict = import_module("lakebed.importers.tables.from_tables").from_dict
    made = from_dict({name: list(values)})
    return settings, made[next(iter(made.tensors))]
