"""One column of the result of a query, whose values are computed on reading."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.errors import (
    DynamicTensorNumpyError,
    InvalidInputError,
    InvalidKeyTypeError,
    QueryError,
)
from lakebed.htypes.arrow import is_text
from lakebed.query.functions.casts import label_names
from lakebed.query.relations.relation import Relation
from lakebed.query.values.columns import Column, Numbers, Objects, Ragged, Texts, concatenated, item_of, rows
from lakebed.query.values.info import Info
from lakebed.reading.columns.arrow import logical_type
from lakebed.reading.columns.shown import Names
from lakebed.verbs.condition import Condition, Name, Value, quoted
from lakebed.verbs.values import ColumnVerbs


class ResultColumn(ColumnVerbs):
    """One column of a result, or one value of the column."""

    def __init__(self, relation: Relation, name: str, single: int | None = None) -> None:
        self.relation = relation
        self.name = name
        self.info = relation.infos[name]
        self._single = single

    def __len__(self) -> int:
        return 1 if self._single is not None else len(self.relation)

    @property
    def is_single(self) -> bool:
        """True if this is a single value."""
        return self._single is not None

    @property
    def key(self) -> str:
        """Name of the column."""
        return self.name

    @property
    def htype(self) -> str:
        """Htype of the values."""
        kind = self.info.kind
        return self.info.htype or (kind if kind in ("text", "json") else "generic")

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of the arrays; None if it is unknown before reading."""
        return self.info.dtype

    @property
    def class_names(self) -> list[str] | None:
        """Class names, if the values are labels."""
        return None if self.info.class_names is None else list(self.info.class_names)

    def __getitem__(self, item: Any) -> Any:
        """Select a row, or some rows.

        Raises
        ------
        IndexError
            If a row number is out of range.
        """
        if self._single is not None:
            return self.numpy()[item]
        chosen = picked(item, len(self))
        if isinstance(chosen, int):
            return ResultColumn(self.relation, self.name, chosen)
        return ResultColumn(self.relation.select(chosen), self.name)

    def __iter__(self) -> Iterator[ResultColumn]:
        for i in range(len(self)):
            yield self[i]

    def _compared(self, compare: Callable[[Any, Any], Any], other: object) -> Any:
        if self._single is not None:
            return compare(self.numpy(), other)
        return super()._compared(compare, other)

    def _condition(self, *parts: str | Value | Condition) -> Condition:
        return Condition((Name(self.name),), self.relation, self._holds).followed_by(*parts)

    def _holds(self, condition: Condition) -> NDArray[np.bool_]:
        from lakebed.query.engine.sources import Sources
        from lakebed.query.run import weights

        text, parameters = condition.asked_of(self.relation)
        return weights(f"IF({text}, 1, 0)", Sources.of(keys_once(self.relation)), parameters=parameters) > 0

    def read(self) -> Column:
        """Return the values of all rows, which are computed by this call."""
        if self._single is not None:
            return read_rows(self.relation, self.name, range(self._single, self._single + 1))
        parts = [read_rows(self.relation, self.name, window) for window in self.relation.windows([self.name])]
        return concatenated(parts) if parts else read_rows(self.relation, self.name, range(0))

    def values(self) -> list[Any]:
        """Return the values of all rows, None for missing ones."""
        return rows(self.read())

    def once(self) -> list[Any]:
        """Return the values of all rows; in groups, a key appears once per group, not once per row of the group."""
        return rows(_once(self.read(), self.info))

    def value(self) -> Any:
        """Return the value of the selected row, None if it is missing."""
        return self.values()[0]

    def tolist(self) -> Any:
        """Return the values as Python values, None for missing ones."""
        column = _once(self.read(), self.info)
        if not isinstance(column, Objects) or not is_text(self.to_arrow().type):
            return super().tolist()
        values = _without_arrays(column.items)
        return values if self._single is None else values[0]

    def plain(self) -> Any:
        """Return the value of the selected row as a Python value, or as an array of numbers."""
        shown = self.shown(range(self._single or 0, (self._single or 0) + 1))[0]
        if not isinstance(shown, list) or self.info.is_key or logical_type(self.info.logical) is not None:
            return shown
        value = self.value()
        return value if isinstance(value, np.ndarray) and self.info.class_names is None else shown

    def numpy(self, aslist: bool = False) -> Any:
        """Read as an array of shape (rows, ...); a single sample as an array of its shape.

        Parameters
        ----------
        aslist
            Return a list of arrays, one per row.

        Returns
        -------
        An array or a list; a missing sample is an empty array.

        Raises
        ------
        DynamicTensorNumpyError
            If shapes differ and ``aslist`` is false.
        """
        column = self.read()
        if isinstance(column, Numbers) and column.missing is None and self._single is None and not aslist:
            return column.values
        found = [_array(value, column) for value in rows(column)]
        if self._single is not None:
            return found[0]
        if aslist:
            return found
        if len({array.shape for array in found}) > 1:
            raise DynamicTensorNumpyError(
                f"column {self.name!r} has samples of different shapes and can not become one array; "
                "pass aslist=True to get a list of arrays"
            )
        return np.stack(found) if found else np.empty(0)

    def text(self) -> Any:
        """Return the text of a single row, or a list with the texts of all rows."""
        return self._plain(str, "")

    def list(self) -> Any:
        """Return the list of a single row, or a list with the lists of all rows."""
        return self._plain(list, [])

    def dict(self) -> Any:
        """Return the JSON value of a single row, or a list with the JSON values of all rows."""
        return self._plain(object, {})

    def data(self) -> Mapping[str, Any]:
        """Return ``{"value": ...}`` for a single row or for all rows; labels also have ``text``, their class names."""
        found = self.values() if self._single is None else self.value()
        if self.info.class_names is None:
            return {"value": found}
        return {"value": found, "text": label_names(found, self.info.class_names)}

    def shown(self, window: range, most: int | None = None) -> Sequence[Any]:
        """Return values of some rows in a form that can be printed or written as JSON.

        Single numbers are numbers, arrays are lists, labels are class names.

        Parameters
        ----------
        window
            Numbers of the rows.
        most
            Maximum number of values of an array; a larger array is replaced by its dtype and shape. None for no limit.
        """
        column = _once(read_rows(self.relation, self.name, window), self.info)
        found = [_listed(value, most) for value in rows(column)]
        if (dated := self._dated(column)) is not None:
            dates: list[Any] = dated.to_pylist()
            return dates
        if isinstance(column, Numbers) and column.values.shape[1:] in ((), (1,)):
            found = [value[0] if isinstance(value, list) else value for value in found]
        words = self.info.class_names
        return found if words is None else [_named(value, words) for value in found]

    def _plain(self, kind: type, empty: Any) -> Any:
        found = [empty if value is None else value for value in self.values()]
        if not all(isinstance(value, kind) for value in found):
            raise InvalidInputError(
                f"column {self.name!r} holds values of another type; read it with numpy() or data()"
            )
        return found[0] if self._single is not None else found

    def to_arrow(self, *, labels: Literal["names", "numbers"] = "names") -> pa.Array:
        """Read as an Arrow array: arrays are nested lists, JSON values are text, dates and times have their types.

        Parameters
        ----------
        labels
            ``names``: class labels are dictionary columns of names; ``numbers``: as they are stored.

        Returns
        -------
        An array whose nulls are missing values.
        """
        column = _once(self.read(), self.info)
        if isinstance(column, Texts):
            return column.array
        if (dated := self._dated(column)) is not None:
            return dated
        if isinstance(column, Numbers) and column.values.shape[1:] in ((), (1,)):
            numbers = pa.array(column.values.reshape(-1), mask=column.missing)
            if self.info.class_names is not None and labels == "names":
                return Names.of(self.info.class_names).named(numbers)
            return numbers
        if isinstance(column, Numbers | Ragged):
            return pa.array([None if v is None else v.tolist() for v in rows(column)])
        found = rows(column)
        kinds = {_kind(value) for value in found if value is not None}
        if "dict" in kinds or len(kinds) > 1:
            return _json_texts(found)
        try:
            return pa.array([_jsonable(value) for value in found])
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # the lists hold values of several types
            return _json_texts(found)

    def _dated(self, column: Column) -> pa.Array | None:
        """Return dates and times, or the lists of them in groups, as an Arrow array; None for other values."""
        logical = logical_type(self.info.logical)
        if logical is None:
            return None
        if isinstance(column, Numbers) and column.values.shape[1:] in ((), (1,)):
            if column.values.dtype.kind != "i" or column.values.dtype.itemsize * 8 != logical.bit_width:
                return None
            return pa.array(column.values.reshape(-1), mask=column.missing).view(logical)
        whole = pa.int32() if logical.bit_width == 32 else pa.int64()
        groups = [None if group is None else _integers(group) for group in rows(column)]
        return None if ... in groups else pa.array(groups, pa.list_(whole)).cast(pa.list_(logical))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the values as an Arrow stream, which tensors and tables read."""
        return pa.chunked_array([self.to_arrow()]).__arrow_c_stream__(requested_schema)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found: NDArray[Any] = np.asarray(self.numpy())
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        return f"ResultColumn({self.name!r}, {len(self)} rows, htype={self.htype!r})"


def picked(item: Any, length: int) -> int | NDArray[np.int64]:
    """Return the position of one row, or the positions of several rows: int64, shape (rows,).

    Raises
    ------
    IndexError
        If a row number is out of range.
    InvalidKeyTypeError
        If the item selects no rows.
    """
    if isinstance(item, int | np.integer) and not isinstance(item, bool):
        if not -length <= item < length:
            raise IndexError(f"there is no row {item}: there are {length} rows")
        return int(item) % length
    if isinstance(item, slice):
        return np.arange(*item.indices(length), dtype=np.int64)
    wanted = np.asarray(item)
    if wanted.ndim != 1 or wanted.dtype.kind not in "ib":
        raise InvalidKeyTypeError(f"{item!r} selects no rows")
    places = np.flatnonzero(wanted) if wanted.dtype == np.bool_ else wanted.astype(np.int64)
    if len(places) and not (-length <= places.min() and places.max() < length):
        raise IndexError(f"a row number is out of range: there are {length} rows")
    return np.where(places < 0, places + length, places)


def read_rows(relation: Relation, name: str, window: range) -> Column:
    """Compute rows of a column; errors name the row."""
    try:
        return relation.read(name, window)
    except QueryError as error:
        if len(window) > 1:
            for place in window:
                read_rows(relation, name, range(place, place + 1))
        place = window.start + (error.row or 0) if len(window) > 1 else window.start
        raise QueryError(
            f"column {name!r}, row {place} of the result: {error.message}", kind=error.kind, row=place
        ) from error


def keys_once(relation: Relation) -> Relation:
    """Return a relation whose key columns have one value per group, not one per row, for queries of the result."""
    if not any(info.is_key for info in relation.infos.values()):
        return relation
    from lakebed.query.engine.sources import Sources
    from lakebed.query.run import run

    columns = (
        f"{quoted(name)}[0] AS {quoted(name)}" if info.is_key else quoted(name)
        for name, info in relation.infos.items()
    )
    return run(f"SELECT {', '.join(columns)}", Sources.of(relation))


def _once(column: Column, info: Info) -> Column:
    """Return one key per group if the column holds a key for each row of each group; return other columns unchanged."""
    if not info.is_key:
        return column
    firsts = [item_of(group, 0) if len(group) else None for group in rows(column)]
    known = [key for key in firsts if key is not None]
    if known and all(isinstance(key, np.ndarray | np.generic) and np.size(key) == 1 for key in known):
        filled = np.stack([np.reshape(known[0] if key is None else key, (1,)) for key in firsts])
        missing = np.array([key is None for key in firsts])
        return Numbers(filled, missing if missing.any() else None)
    return Objects(firsts)


def _without_arrays(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_arrays(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _integers(group: Any) -> Any:
    """Return the integers of a group, None for missing ones; return Ellipsis if the group holds other values."""
    if not isinstance(group, list | np.ndarray) or not np.ndim(group[:0]):
        return ...
    arrays = [np.asarray(item) for item in group]
    if any(array.size > 1 or array.dtype.kind != "i" for array in arrays):
        return ...
    return [array.item() if array.size else None for array in arrays]


def _listed(value: Any, most: int | None) -> Any:
    if isinstance(value, np.ndarray) and most is not None and value.size > most:
        return f"{value.dtype} {value.shape}"
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _named(value: Any, words: Sequence[str]) -> Any:
    """Return the class name of a label, or of a list of them; a label without a name becomes its number as text."""
    if isinstance(value, list):
        return [_named(one, words) for one in value]
    if not isinstance(value, int):
        return value
    return words[value] if 0 <= value < len(words) else str(value)


def _kind(value: Any) -> str:
    return "array" if isinstance(value, list | np.ndarray) else type(value).__name__


def _json_texts(values: Sequence[Any]) -> pa.Array:
    texts = [None if v is None else json.dumps(_jsonable(v), ensure_ascii=False) for v in values]
    return pa.array(texts, pa.string())


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_jsonable(item) for item in value] if isinstance(value, list) else value


def _array(value: Any, column: Column) -> NDArray[Any]:
    if value is None:
        dtype = column.values.dtype if isinstance(column, Numbers) else np.dtype(np.float64)
        return np.empty(0, column.flat.dtype if isinstance(column, Ragged) else dtype)
    if isinstance(value, list):
        with suppress(ValueError):  # the lists may differ in length
            array = np.asarray(value)
            if array.dtype.kind in "biuf" and array.size:
                return array
    if not isinstance(value, list | str | dict):
        return np.asarray(value)
    items = value if isinstance(value, list) else [value]
    found = np.empty(len(items), object)
    found[:] = items
    return found
