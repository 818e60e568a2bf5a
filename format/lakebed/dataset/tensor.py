"""Tensor: one named column of a dataset, or a selection of its samples."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.dataset.chapters.show import TensorShowMethods
from lakebed.dataset.chapters.tables import TensorTableMethods
from lakebed.dataset.tensor_chapters.info import InfoMethods
from lakebed.dataset.tensor_chapters.operators import CompareMethods, OperatorMethods
from lakebed.dataset.tensor_chapters.read import ReadMethods
from lakebed.dataset.tensor_chapters.shape import ShapeMethods
from lakebed.htypes.base import Storing
from lakebed.reading.subscripts import Index
from lakebed.session.handle import Handle
from lakebed.session.tensor_samples import TensorSamples
from lakebed.verbs.condition import Condition
from lakebed.verbs.one import OneValue

if TYPE_CHECKING:
    from lakebed.session.process.pickling import Address
    from lakebed.verbs.values import ColumnVerbs
else:

    class ColumnVerbs:
        """Methods of columns as in pandas, loaded on first use."""


class Tensor(
    InfoMethods,
    ShapeMethods,
    ReadMethods,
    TensorTableMethods,
    TensorShowMethods,
    CompareMethods,
    OperatorMethods,
    ColumnVerbs,
    TensorSamples,
):
    """A column of samples; indexing selects samples without reading them, ``numpy()`` and similar methods read them.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://tensor-example")
    >>> x = ds.create_tensor("x", dtype="int64")
    >>> x.extend([[1, 2], [3, 4]])
    >>> x[0, 1] = 7
    >>> x[3] = [5, 6]
    >>> x[0:2] += 1
    >>> [sample.tolist() for sample in x.numpy(aslist=True)]
    [[2, 8], [4, 5], [], [5, 6]]
    """

    # -- selecting ---------------------------------------------------------------------------------------------

    def __getitem__(self, item: Any) -> Tensor:
        if type(item) is int and not self._pad and self._index.is_trivial:
            # Fast path for `tensor[i]` in loops: only check the index against the length of the tensor.
            index, length = Index((item,)), self._state.length
            if not -length <= item < length:
                index.rows(length)
            return TensorSample(self._handle, self._name, index, key=self._key)
        index = self._index[self._holds(item) if isinstance(item, Condition) else item]
        if isinstance(item, int | list) and not self._index.is_single and not self._pad:
            index.rows(self._state.length)
        of_row = isinstance(self, RowSample)
        return selected(self._handle, self._name, index, pad=self._pad, key=self._key, of_row=of_row)

    if not TYPE_CHECKING:  # type checkers would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Return a verb; for an attribute of other libraries, raise an error that names its equivalent here."""
            if name.startswith("_"):
                raise AttributeError(f"'Tensor' object has no attribute {name!r}")
            from lakebed.verbs.rows import verb
            from lakebed.verbs.values import ColumnVerbs

            if (found := verb(self, ColumnVerbs, name)) is not None:
                return found
            from lakebed.runtime.absent import explained

            if (told := explained("Tensor", name)) is not None:
                raise AttributeError(told)
            return object.__getattribute__(self, name)  # raises the usual error

    def __iter__(self) -> Iterator[Tensor]:
        count = int(self.shape[0] or 0) if self._index.is_single else len(self)
        for i in range(count):
            yield self[i]

    def __copy__(self) -> Tensor:
        """Return another object for the same samples."""
        return type(self)(self._handle, self._name, self._index, pad=self._pad, key=self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        from lakebed.session.process.pickling import Address

        place = Address.of(self._handle.session), self._handle.path
        return _reopened, (Tensor, place, self._name, self._index, self._pad, isinstance(self, RowSample))

    # -- writing -----------------------------------------------------------------------------------------------

    def __setitem__(self, item: Any, value: Any) -> None:
        """Replace samples, or parts of samples; a row beyond the end is appended, and empty samples fill the gap.

        Raises
        ------
        SampleUpdateError
            If the index or the value does not fit; the cause gives the reason, and nothing is changed.
        """
        if isinstance(item, Condition):
            item = self._holds(item)
        Tensor(self._handle, self._name, self._index[item]).assign(value)
        if self._index.is_trivial:
            self._session.epoch += 1

    def assign(self, value: Any) -> None:
        """Replace all selected samples, or parts of samples; see :meth:`__setitem__`.

        Parameters
        ----------
        value
            Samples, or one sample if a single one is selected.
        """
        from lakebed.session.changes.assign import assign_all

        # An in-place operator assigns its own result; do nothing then.
        if not (isinstance(value, Tensor) and self._is_same(value)):
            assign_all(self._session, [(self._name, self._index, value)])

    def append(self, sample: Any) -> None:
        """Add one sample: an array, number, text, JSON value, file, link, or None for a missing one.

        Parameters
        ----------
        sample
            Array, number, text, file (``lakebed.read``), link, or a sample of a tensor.

        Raises
        ------
        SampleAppendError
            If the sample does not fit; the cause gives the reason.
        """
        self._check_whole("append")
        if self._key is None or not self._session.try_append(self._key, sample):
            from lakebed.session.changes.inputs import encode_sample, of_one_length
            from lakebed.session.changes.new_classes import NewClasses

            with self._session.mutex, NewClasses(self._session) as new, self._session.writing() as draft:
                state = self._state
                new.of([state])
                column = of_one_length(encode_sample(sample, state, self._session.linking), state)
                draft.rows.extend({state.key: column})
                draft.expect_samples(state.key)
        self._session.epoch += 1

    def extend(self, samples: Any, progressbar: bool = False, ignore_errors: bool = False) -> None:
        """Add many samples: an array (first axis = samples), a list, a Tensor, or an Arrow array.

        Parameters
        ----------
        samples
            A column: array, list, Arrow data, or a tensor.
        progressbar
            Show a progress bar.
        ignore_errors
            Leave out samples that do not fit instead of failing.

        Raises
        ------
        SampleAppendError
            If a sample does not fit; nothing is added then.
        """
        from lakebed.session.changes.inputs import encode_samples, encode_singly, of_one_length
        from lakebed.session.changes.new_classes import NewClasses

        self._check_whole("extend")
        with self._session.mutex, NewClasses(self._session) as new, self._session.writing() as draft:
            state = self._state
            new.of([state])
            if progressbar or ignore_errors:
                column = encode_singly(
                    samples, state, self._session.linking, strict=not ignore_errors, progressbar=progressbar
                )
            else:
                column = of_one_length(encode_samples(samples, state, self._session.linking), state)
            draft.rows.extend({state.key: column})
        self._session.epoch += 1

    def pop(self, index: int | list[int] | None = None) -> None:
        """Remove samples: one, several, or (None) the last.

        Parameters
        ----------
        index
            Row, slice or list of rows; None is the last row.

        Raises
        ------
        IndexError
            If the sample does not exist, or a row number is negative.
        ValueError
            If a row is named twice.
        """
        from lakebed.session.changes.append import checked_rows

        self._check_whole("pop")
        with self._session.mutex, self._session.writing() as draft:
            state = self._state
            draft.rows.pop(state.key, checked_rows(index, state.length, "tensor"))

    def clear(self) -> None:
        """Remove all samples; settings are kept."""
        self._check_whole("clear")
        with self._session.mutex, self._session.writing() as draft:
            draft.rows.clear(self._state.key)

    # -- history -----------------------------------------------------------------------------------------------

    def recorded_values(self) -> Iterator[Any]:
        """Yield the selected samples: None for nulls; for empty samples an empty array of the tensor's dtype."""
        return self._selection.values(recorded=True)

    def modified_samples(
        self, target_id: str | None = None, return_indexes: bool = False
    ) -> Tensor | tuple[Tensor, list[int]]:
        """Select the samples of the whole tensor that were added or replaced since a version, in order.

        Parameters
        ----------
        target_id
            Address of an earlier version in this history; None is the version before the checked-out version.
        return_indexes
            Also return the row numbers.

        Returns
        -------
        The modified samples; with ``return_indexes`` also their row numbers.

        Raises
        ------
        KeyError
            If the version does not exist.
        TensorModifiedError
            If the version is in another history.
        """
        from lakebed.history import diff

        rows = diff.modified(self._session, self._state.key, target_id)
        samples = Tensor(self._handle, self._name, Index()[rows])
        return (samples, rows) if return_indexes else samples

    # -- showing -----------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """Return the same text as 3.x; ``repr`` is more detailed."""
        index = "" if self._index.is_trivial else f", index={self._index!r}"
        return f"Tensor(key={self._name!r}{index})"

    def summary(self) -> None:
        """Print htype, shape, dtype and compression."""
        from lakebed.dataset.display.printing import summary_table

        print(Tensor.__str__(self))
        print(summary_table({self._name: self}, named=False))


class TensorSample(OneValue, Tensor):
    """One sample, or a part of it: a tensor as in 3.x that can also be used like its value, which is read when needed.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.from_rows("mem://sample-example", [{"age": 3, "name": "tom"}])
    >>> row = ds[0]
    >>> row["age"] + 1, row["age"] > 3, f"{row['name']}", row["name"].upper(), row.age.numpy()
    (4, False, 'tom', 'TOM', array([3]))
    """

    def _value(self) -> Any:
        chain, reader = self._index.chain, self._reader
        is_row = len(chain) == 1 and not self._index.inside and not self._pad
        if is_row and reader.is_number and self._companion("null") is None:
            # Fast path for loops over rows of numbers: read only the number.
            number: Any = reader.value(int(self._index.rows(reader.state.length)[0]))
            return number.item() if number.size else None
        from lakebed.session.row_values import value_of

        return value_of(self._selection)

    def _words(self) -> list[str] | None:
        from lakebed.session.row_values import words_of

        return words_of(self._state)

    def _is_array(self) -> bool:
        reader = self._reader
        if reader.storing is not Storing.ARRAY or self._words() is not None:
            return False
        return bool(np.ndim(self.numpy())) if self._index.inside else not reader.is_scalar

    def __str__(self) -> str:
        """Return a text itself; for other samples the text of 3.x."""
        return str(self._shown()) if self._reader.storing is Storing.TEXT else Tensor.__str__(self)

    def _compared(self, apply: Callable[[Any, Any], Any], other: Any) -> Any:
        if isinstance(other, Tensor) and apply in (operator.eq, operator.ne):
            # As in 3.x, equal selections of one tensor are equal; numbers and texts are also equal if their values are.
            same = self._is_same(other)
            if same or not isinstance(other, OneValue) or self._is_array() or other._is_array():  # noqa: SLF001
                return same == (apply is operator.eq)
        return super()._compared(apply, other)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, str) and isinstance(value := self._value(), dict):
            return value[item]
        return super().__getitem__(item)

    __len__ = Tensor.__len__  # as in 3.x, the length of a sample is 1


class RowSample(TensorSample):
    """One value of a row, ``row["boxes"]``, with the length of the stored value."""

    def __len__(self) -> int:
        if not self._is_array():
            return OneValue.__len__(self)
        return int(next(iter(self.shape), 0) or 0)  # `shape` needs no decoding; a null may have no axis


for _class in (TensorSample, RowSample):  # use the name that the class has in 3.x, also in error messages
    _class.__name__ = _class.__qualname__ = Tensor.__name__


def selected(
    handle: Handle,
    name: str,
    index: Index,
    *,
    pad: bool = False,
    key: str | None = None,
    of_row: bool = False,
) -> Tensor:
    """Return a part of a tensor; if a single row is selected, a :class:`TensorSample`, which has no sample axis."""
    kind = Tensor if not index.is_single else RowSample if of_row else TensorSample
    return kind(handle, name, index, pad=pad, key=key)


def _reopened(
    _: type[Tensor], place: tuple[Address, str], name: str, index: Index, pad: bool, of_row: bool = False
) -> Tensor:
    address, path = place
    return selected(Handle(address.open(), path), name, index, pad=pad, of_row=of_row)
