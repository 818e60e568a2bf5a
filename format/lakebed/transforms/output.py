"""The rows that functions make (``sample_out``), and the rows that the next function of a pipeline receives."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakebed.codecs.sample import Sample
from lakebed.errors import InvalidTransformDataset, SampleAppendingError, TensorDoesNotExistError
from lakebed.verbs.one import Key, OneValue, of_row

# Values of these types are immutable.
_CONSTANT = frozenset({int, float, complex, bool, str, bytes, type(None)})

# Maximum number of samples of a tensor that one call may hold in memory.
_MOST = 65_536

_NOT_SUPPORTED = (
    "`skip_ok` is not supported for `ds.append` in transforms. "
    "Use `skip_ok` parameter of the `eval` method instead."
)


# Assumed bytes of memory that a value needs in addition to its content.
_OBJECT = 64
_SMALL_ONES = frozenset({int, float, bool, type(None), list, dict, tuple})


def held_bytes(value: Any) -> int:
    """Return the approximate size of a value in memory, in bytes."""
    kind = type(value)
    if kind is np.ndarray:
        return int(value.nbytes) + _OBJECT
    if kind is str or kind is bytes:
        return len(value) + _OBJECT
    if kind in _SMALL_ONES:
        return _OBJECT
    if isinstance(value, Sample):
        return value.held_bytes + _OBJECT
    return int(value.nbytes) + _OBJECT if isinstance(value, np.ndarray) else _OBJECT


@dataclass(frozen=True, slots=True)
class Skipped:
    """Object that a function returns or yields in place of a row that it leaves out; allowed if errors are ignored.

    Parameters
    ----------
    where
        Location of the row, for messages: a file, a line.
    reason
        Reason why the row is left out.
    rows
        Number of rows that were left out; 0 if only a part of one row was left out.
    is_change
        True if the row was not left out but changed, as `reason` says.
    """

    where: str
    reason: str
    rows: int = 1
    is_change: bool = False


class RowsOfItems(dict[str, Any]):
    """Columns of a batch, {tensor: values}, in which each row was made from one item.

    Parameters
    ----------
    which
        For each row, the number of its item in the batch.
    batch
        The items, for messages.
    """

    def __init__(self, columns: Mapping[str, Any], which: Sequence[int], batch: Sequence[Any]) -> None:
        super().__init__(columns)
        self.which, self.batch = which, batch


class SampleOut:
    """Rows made by one call of a function.

    Parameters
    ----------
    tensors
        Names of tensors that rows may have; None allows all names.
    overflow
        Called with {tensor: values} of the rows so far whenever they exceed ``limit`` bytes; the tensors may then still
        differ in the number of values.
    copy
        Whether values are copied, since the function may change them afterwards.

    Attributes
    ----------
    overflowed
        Number of samples of each tensor that were passed to ``overflow`` before the last :meth:`take`.

    Examples
    --------
    >>> out = SampleOut({"images", "labels/main"})
    >>> out.images.append(1)
    >>> out.labels.main.append(2)
    >>> out.append({"images": 3, "labels/main": 4})
    >>> out.take()
    {'images': [1, 3], 'labels/main': [2, 4]}
    """

    __slots__ = (
        "_columns",
        "_copy",
        "_limit",
        "_nbytes",
        "_overflow",
        "_proxies",
        "_sent",
        "_tensors",
        "overflowed",
    )

    def __init__(
        self,
        tensors: Container[str] | None,
        overflow: Callable[[dict[str, list[Any]]], object] | None = None,
        limit: float = 0,
        *,
        copy: bool = True,
    ) -> None:
        self._tensors = tensors
        self._copy = copy
        self._columns: dict[str, list[Any]] = {}
        self._proxies: dict[str, TensorOut] = {}
        self._overflow = overflow
        self._limit = limit
        self._nbytes = 0
        self._sent: dict[str, int] = {}  # tensor -> number of samples that were passed on by overflow
        self.overflowed: dict[str, int] = {}

    # -- for functions -----------------------------------------------------------------------------------------

    def append(self, sample: Mapping[str, Any], skip_ok: bool = False, append_empty: bool = False) -> None:
        """Add one row: {tensor: value}, or a row of a dataset.

        Parameters
        ----------
        skip_ok
            Must be False, as in 3.x: only the transform itself has this option.
        append_empty
            Tensors that the row does not name get an empty sample.

        Raises
        ------
        SampleAppendingError
            If the row is not a dictionary.
        """
        if not isinstance(sample, Mapping):
            sample = getattr(sample, "tensors", sample)  # the sample may be a row of a dataset
        if not isinstance(sample, Mapping):
            raise SampleAppendingError(
                "Cannot append sample because tensor(s) are not specified. Append a dictionary, as in "
                "`sample_out.append({'images': image, 'labels': label})`, or append to a tensor, as in "
                f"`sample_out.images.append(image)`. This is {type(sample).__name__}"
            )
        if skip_ok:
            raise ValueError(_NOT_SUPPORTED)
        for name, value in sample.items():
            self._column(name).append(value if type(value) in _CONSTANT else self._owned(value))
        if append_empty:
            for name in self._others(sample):
                self._column(name).append(None)
        if self._nbytes > self._limit:
            self._send()

    def extend(self, samples: Mapping[str, Any], skip_ok: bool = False, append_empty: bool = False) -> None:
        """Add rows given as columns: {tensor: values}, all of one length.

        Parameters
        ----------
        skip_ok, append_empty
            As for :meth:`append`.

        Raises
        ------
        SampleAppendingError
            If the rows are not a dictionary.
        """
        if not isinstance(samples, Mapping):
            raise SampleAppendingError(
                f"Cannot extend: samples are a dictionary from tensor names to columns, not {type(samples).__name__}"
            )
        if skip_ok:
            raise ValueError(_NOT_SUPPORTED)
        most = 0
        for name, values in samples.items():
            column = self._column(name)
            before = len(column)
            column.extend(self._owned(value) for value in values)
            most = max(most, len(column) - before)
        if append_empty:
            for name in self._others(samples):
                self._column(name).extend([None] * most)
        if self._nbytes > self._limit:
            self._send()

    def __getattr__(self, name: str) -> TensorOut:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> TensorOut:
        found = self._proxies.get(name)
        if found is None:
            if not isinstance(name, str):
                raise TypeError(f"sample_out[...] takes the name of a tensor, not {type(name).__name__}")
            found = self._proxies[name] = TensorOut(self, name.strip("/"))
        return found

    @property
    def tensors(self) -> list[str]:
        """Names of the tensors that rows may have; if all names are allowed, names of the tensors that have rows."""
        if isinstance(self._tensors, Iterable):
            return list(self._tensors)
        return [name for name in self._columns if self._count(name)]

    def __len__(self) -> int:
        return max(map(self._count, self._columns), default=0)

    def __bool__(self) -> bool:
        return True

    # -- for the caller of the function ------------------------------------------------------------------------

    def take(self) -> dict[str, list[Any]]:
        """Return {tensor: values} of the added rows, and forget these rows.

        Raises
        ------
        InvalidTransformDataset
            If one tensor has more rows than another.
        """
        found = {name: values for name, values in self._columns.items() if values}
        sent = self._sent
        self._columns, self._nbytes = {}, 0
        self.overflowed = sent
        if sent:
            self._sent = {}
            counted = {name: sent.get(name, 0) + len(found.get(name, ())) for name in {**sent, **found}}
        else:
            counted = {name: len(values) for name, values in found.items()}
        if len(set(counted.values())) > 1:
            counts = ", ".join(f"{name!r} {count}" for name, count in counted.items())
            raise InvalidTransformDataset(
                "The number of samples added to each tensor in transform should be the same. One call added to "
                + counts
            )
        return found

    def forget(self) -> None:
        """Drop the added rows, as after an error."""
        self._columns, self._nbytes, self._sent = {}, 0, {}

    def _send(self) -> None:
        """Pass the rows so far to ``overflow``."""
        if self._overflow is None:
            return
        found = {name: values for name, values in self._columns.items() if values}
        for name, values in found.items():
            self._sent[name] = self._sent.get(name, 0) + len(values)
            self._columns[name] = []
        self._nbytes = 0
        self._overflow(found)

    def _count(self, name: str) -> int:
        return self._sent.get(name, 0) + len(self._columns.get(name, ()))

    def _owned(self, value: Any) -> Any:
        found = _own(value) if self._copy else value
        self._nbytes += held_bytes(found)
        return found

    def _column(self, name: str) -> list[Any]:
        found = self._columns.get(name)
        if found is None:
            if self._tensors is not None and name not in self._tensors:
                raise TensorDoesNotExistError(f"Tensor {name!r} does not exist.")
            found = self._columns[name] = []
        return found

    def _others(self, given: Container[str]) -> Iterator[str]:
        if isinstance(self._tensors, Iterable):
            yield from (name for name in self._tensors if name not in given)


class TensorOut:
    """One tensor, or one group, of the rows of a call."""

    __slots__ = ("_name", "_out")

    def __init__(self, out: SampleOut, name: str) -> None:
        self._out = out
        self._name = name

    def append(self, sample: Any) -> None:
        """Add one sample.

        Raises
        ------
        TensorDoesNotExistError
            If the output has no such tensor.
        """
        out = self._out
        column = out._column(self._name)  # noqa: SLF001
        column.append(sample if type(sample) in _CONSTANT else out._owned(sample))  # noqa: SLF001
        if out._nbytes > out._limit or len(column) > _MOST:  # noqa: SLF001
            out._send()  # noqa: SLF001

    def extend(self, samples: Iterable[Any]) -> None:
        """Add many samples.

        Raises
        ------
        TensorDoesNotExistError
            If the output has no such tensor.
        """
        for sample in samples:
            self.append(sample)

    def numpy(self) -> list[Any]:
        """Return the samples that this call has added so far."""
        return list(self._out._columns.get(self._name, ()))  # noqa: SLF001

    def __getattr__(self, name: str) -> TensorOut:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._out[f"{self._name}/{name}"]

    def __getitem__(self, name: str) -> TensorOut:
        if not isinstance(name, str):
            raise TypeError(
                f"samples added to tensor {self._name!r} cannot be selected; `.numpy()` returns them all"
            )
        return self._out[f"{self._name}/{name.strip('/')}"]

    def __len__(self) -> int:
        return self._out._count(self._name)  # noqa: SLF001

    def __bool__(self) -> bool:
        return True


class RowIn:
    """One row that a function of a pipeline made, for the next function: ``row.images.numpy()``.

    Examples
    --------
    >>> row = RowIn({"images": 3, "labels/main": "cat"})
    >>> row.images.numpy(), row["labels/main"].value, row.labels.main.value
    (array(3), 'cat', 'cat')
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    @property
    def tensors(self) -> list[str]:
        """Names of the tensors that the row has."""
        return list(self._values)

    def to_dict(self) -> dict[str, Any]:
        """Return {tensor: value}."""
        return dict(self._values)

    def _names(self) -> list[str]:
        return list(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except TensorDoesNotExistError:
            if (found := of_row(self, name)) is None:
                raise
            return found

    def __getitem__(self, name: str) -> Any:
        if type(name) is Key:
            return self._values[name]
        if name in self._values:
            return ValueIn(self._values[name])
        inner = {full[len(name) + 1 :]: v for full, v in self._values.items() if full.startswith(f"{name}/")}
        if not inner:
            raise TensorDoesNotExistError.among(name, self._values)
        return RowIn(inner)


class ValueIn(OneValue):
    """One value of a row of a pipeline; a label also has the names of the classes."""

    __slots__ = ("moment", "value", "words")

    def __init__(self, value: Any, words: list[str] | None = None) -> None:
        self.value = value
        self.words = words
        self.moment: Any = None  # the date or time that the number represents

    def _value(self) -> Any:
        value = self.value if self.moment is None else self.moment
        if not isinstance(value, np.ndarray) or value.shape != (1,):
            return value
        return None if np.ma.is_masked(value) else value[0]

    def _words(self) -> list[str] | None:
        return self.words

    @property
    def stored(self) -> Any:
        """The value as stored; dates and times as objects of Python or NumPy; None if the value is missing."""
        if np.ma.is_masked(self.value) or self.moment is None:
            return None if np.ma.is_masked(self.value) else self.value
        # Timestamps of pandas are passed as datetime64, which keeps nanoseconds but has no time zone.
        is_local = getattr(self.moment, "tzinfo", None) is None
        return getattr(self.moment, "asm8", self.moment) if is_local else self.moment

    def __getitem__(self, item: Any) -> Any:
        return self.value[item]

    def __repr__(self) -> str:
        return repr(self.value if self.moment is None else self.moment)

    def _is_array(self) -> bool:
        return isinstance(self._value(), np.ndarray)

    def numpy(self, aslist: bool = False) -> Any:
        """Return the value as an array; with ``aslist`` in a list."""
        found = self.value if isinstance(self.value, np.ndarray) else np.asarray(self.value)
        return [found] if aslist else found

    def data(self) -> dict[str, Any]:
        """Return ``{"value": value}``."""
        return {"value": self.value}

    def text(self) -> str:
        """Return the value as text."""
        return str(self.value)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the value."""
        return tuple(np.shape(self.value))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the value's elements."""
        return np.asarray(self.value).dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if np.ma.is_masked(self.value):
            self._known()
        found = np.asarray(self.value, dtype=dtype)
        return found.copy() if copy else found


def _own(value: Any) -> Any:
    """Copy a value if the function could still change it before it is encoded; return other values themselves."""
    kind = type(value)
    if kind in _CONSTANT:
        return value
    if kind is ValueIn:
        return value.stored
    if isinstance(value, np.ndarray):
        return value.copy() if value.flags.writeable or value.base is not None else value
    if kind in (list, dict, tuple, bytearray):
        return deepcopy(value)
    return value
