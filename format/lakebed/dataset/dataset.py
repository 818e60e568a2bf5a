"""Dataset: a whole dataset, one of its groups, or a selection of rows and columns; a thin facade over the session."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lakebed.dataset import printing
from lakebed.dataset._columns import Bulk
from lakebed.dataset._compat import Accountless
from lakebed.dataset._creds import Credentialed
from lakebed.dataset.info import Edit, Info
from lakebed.dataset.tensor import Tensor
from lakebed.errors import (
    GroupInfoNotSupportedError,
    InvalidKeyTypeError,
    TensorDoesNotExistError,
)
from lakebed.errors.root import instead
from lakebed.printable import printable
from lakebed.session.append import append_row, extend_rows, pop_rows
from lakebed.session.assign import assign_all
from lakebed.session.branches import check_info_changeable
from lakebed.session.columns import Batches, arrow_stream
from lakebed.session.handle import Handle, Live
from lakebed.session.pickling import Address
from lakebed.writing.names import normalize

if TYPE_CHECKING:
    from lakebed.reading.index import Index
    from lakebed.storage.base import Storage
    from lakebed.versions.state import Snapshot


class Dataset(Bulk, Credentialed, Accountless):
    """Tensors of equal meaning row by row, versioned; made by ``lakebed.empty``, ``load`` and ``dataset``.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://example")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> ds.extend({"x": [1, 2, 3]})
    >>> ds.x.numpy().ravel().tolist()
    [1, 2, 3]
    """

    # -- what it holds -----------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Address of the dataset, as it was given."""
        return self._handle.path

    @property
    def storage(self) -> Storage:
        """Where the files lie."""
        return self._session.storage

    @property
    def info(self) -> Info:
        """Dictionary stored with the dataset and versioned with it.

        Raises
        ------
        GroupInfoNotSupportedError
            On a group.
        """
        if self._group:
            raise GroupInfoNotSupportedError("Groups have no info. Use the dataset's or a tensor's.")
        live = self._handle.infos.setdefault("", Live())
        return Info(lambda: self._session.schema().info, self._change_info, live)

    @info.setter
    def info(self, value: Mapping[str, Any]) -> None:
        if not isinstance(value, Mapping):
            raise TypeError(f"info must be a dictionary, not {type(value).__name__}")
        self.info.replace_with(value)

    def _change_info(self, edit: Edit) -> None:
        check_info_changeable(self._session)
        with self._session.mutex, self._session.writing() as draft:
            draft.set_info(edit(self._session.schema().info))

    # -- rows --------------------------------------------------------------------------------------------------

    @property
    def index(self) -> Index:
        """Which rows are selected."""
        return self._index

    def _lengths(self) -> list[int]:
        with self._session.mutex:  # all of them as they are at one moment
            return [1 if self._index.is_single else len(t) for t in self.tensors.values()]

    def __len__(self) -> int:
        if self._pad:
            return self.max_len
        lengths = self._lengths()
        if len(set(lengths)) > 1:
            warnings.warn(
                "The tensors differ in length; len(ds) is that of the shortest, ds.max_len of the longest.",
                stacklevel=2,
            )
        return min(lengths, default=0)

    def __bool__(self) -> bool:
        return True

    @property
    def max_len(self) -> int:
        """Length of the longest tensor."""
        if self._pad and not self._index.is_single:
            return len(self._index.rows(self._whole().max_len))
        return max(self._lengths(), default=0)

    @property
    def min_len(self) -> int:
        """Length of the shortest tensor."""
        return min(self._lengths(), default=0)

    def _whole(self) -> Self:
        return type(self)(self._handle, self._group, None, self._columns)

    @property
    def num_samples(self) -> int:
        """Rows of the whole dataset, whatever is selected: the length of the shortest tensor."""
        return self._whole().min_len

    @property
    def sample_indices(self) -> Sequence[int]:
        """Row numbers that this selection keeps, against the whole dataset."""
        rows = self._index.rows(self._whole().max_len if self._pad else self.num_samples)
        return rows if isinstance(rows, range) else [int(row) for row in rows]

    @property
    def max_view(self) -> Self:
        """View as long as the longest tensor; samples that the others lack read as empty ones."""
        return type(self)(self._handle, self._group, self._index, self._columns, pad=True)

    @property
    def min_view(self) -> Self:
        """View of the rows that every tensor has."""
        return type(self)(self._handle, self._group, self._index[: self.min_len], self._columns)

    @property
    def no_view_dataset(self) -> Self:
        """The dataset without a selection of rows."""
        return type(self)(self._handle, self._group) if self.is_view else self

    # -- selecting ---------------------------------------------------------------------------------------------

    def __getitem__(self, item: Any) -> Any:
        """Select rows (int, slice, list), a tensor or group (name), or columns (list of names).

        Raises
        ------
        TensorDoesNotExistError
            If no tensor or group has the name.
        InvalidKeyTypeError
            If the item is of no kind that selects.
        """
        if isinstance(item, str):
            return self._named(item)
        _ = self._session  # what is selected of an outdated view is of what that was made of
        if isinstance(item, list | tuple) and item and (names := _names_of(item)) is not None:
            columns = tuple(self._expanded(names))
            return type(self)(self._handle, self._group, self._index, columns, pad=self._pad)
        if isinstance(item, float | bytes | dict | set) or item is None:
            raise InvalidKeyTypeError(f"Item {item!r} of type {type(item).__name__!r} is not a valid key.")
        if isinstance(item, int) and not isinstance(item, bool):
            self._check_row(item)
        elif isinstance(item, list):
            self._index[item].rows(self._whole().max_len)
        return type(self)(self._handle, self._group, self._index[item], self._columns, pad=self._pad)

    def _expanded(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the names of tensors and, for groups, of all tensors inside."""
        for name in names:
            found, plain = self._named(name), normalize(name)
            if isinstance(found, Tensor):
                yield plain
            else:
                yield from (f"{plain}/{inner}" for inner in found.tensors)

    def _check_row(self, row: int) -> None:
        length = self.max_len if not self._index.is_single else 1
        if not -length <= row < length:
            raise IndexError(f"Index ({row},) is out of range for tensors with length {length}")

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("__") and name.endswith("__")) or name == "_handle":
            raise AttributeError(name)
        try:
            return self._named(name)
        except TensorDoesNotExistError as error:
            if name == "tags":  # no property, as in 3.x it is a name like any other for a tensor
                return self.get_tags()
            # Programs ask for names with _ all the time, only to hear that there are none.
            hint = "" if name.startswith("_") else instead(name, self._names())
            raise AttributeError(
                printable(f"'Dataset' object has no attribute {name!r}, and no tensor of that name{hint}")
            ) from error

    def _has(self, name: str) -> bool:
        """Whether a tensor or a group has this name."""
        full, meta = normalize(name, self._group), self._session.structure()
        return meta.key_of(full) is not None or full in meta.meta.groups

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and normalize(name, self._group) in self._session.schema().names()

    def __iter__(self) -> Iterator[Self]:
        for i in range(self.max_len if self._pad else self.min_len):
            index = self._index[i]
            # Rows may be added while one iterates.
            yield type(self)(self._handle, self._group, index, self._columns, pad=self._pad, lasting=True)

    # -- reading columns ---------------------------------------------------------------------------------------

    def batches(self, batch_size: int, tensors: Sequence[str] | None = None) -> Batches:
        """Iterate over the rows as dictionaries of columns, ``batch_size`` rows each, the last one shorter.

        Parameters
        ----------
        batch_size
            Rows per batch.
        tensors
            Names of the tensors to read; None reads all.

        Returns
        -------
        Iterable of {name: column}. A column is an ndarray of shape (rows, ...) for samples of one shape, a
        MaskedArray of shape (rows, 1) for numbers of which some are null, a sequence of str for text, else a list.
        Arrays may be views of one chunk and are the caller's; drop a batch before taking the next to reuse its memory.
        """
        return Batches(self._table(tensors), batch_size)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream: pyarrow, pandas, polars and DuckDB read a dataset directly."""
        return arrow_stream(self._table()).__arrow_c_stream__(requested_schema)

    # -- writing -----------------------------------------------------------------------------------------------

    def append(
        self, sample: Mapping[str, Any] | Dataset, skip_ok: bool = False, append_empty: bool = False
    ) -> None:
        """Add one row to all tensors, or to none if anything does not fit.

        Parameters
        ----------
        sample
            {tensor: sample}, or one row of a dataset.
        skip_ok
            Tensors that the row does not name stay as they are.
        append_empty
            Tensors that the row does not name get an empty sample.

        Raises
        ------
        SampleAppendingError, KeyError, TensorDoesNotExistError, ValueError, SampleAppendError
            If the row is no dictionary, leaves out or invents tensors, or a sample does not fit.
        """
        whole = self._columns is None and self._index.is_trivial
        if whole and isinstance(sample, dict) and self._session.offer_row(self._group, sample):
            self._session.epoch += 1
            return
        self._check_changeable("append")
        row = sample.tensors if isinstance(sample, Dataset) else sample
        append_row(self._table(), self._group, row, skip_ok=skip_ok, append_empty=append_empty)
        self._session.epoch += 1

    def extend(
        self,
        samples: Mapping[str, Any] | Dataset,
        skip_ok: bool = False,
        append_empty: bool = False,
        ignore_errors: bool = False,
        progressbar: bool = False,
    ) -> None:
        """Add many rows given as columns: {tensor: ndarray, list, Tensor or Arrow array}, all or nothing.

        Parameters
        ----------
        skip_ok, append_empty
            As for :meth:`append`.
        ignore_errors
            Leave out rows that do not fit instead of failing.
        progressbar
            Show how far it is.

        Raises
        ------
        SampleExtendingError, KeyError, TensorDoesNotExistError, ValueError, SampleExtendError
            If the columns leave out or invent tensors, differ in length, or a sample does not fit.
        """
        self._check_changeable("extend")
        columns = samples.tensors if isinstance(samples, Dataset) else samples
        extend_rows(
            self._table(),
            self._group,
            columns,
            skip_ok=skip_ok,
            append_empty=append_empty,
            ignore_errors=ignore_errors,
            progressbar=progressbar,
        )
        self._session.epoch += 1

    def update(self, sample: Mapping[str, Any]) -> None:
        """Replace the samples of the selected row in the tensors that are named: all of them, or none.

        Raises
        ------
        TensorDoesNotExistError
            If there is no such tensor.
        SampleUpdateError
            If a sample does not fit; the cause says why.
        """
        if not isinstance(sample, Mapping):
            raise TypeError(
                f"update takes a dictionary from tensor names to samples, not {type(sample).__name__}"
            )
        names = self._table_of(sample).names
        assign_all(self._session, [(names[name], self._index, value) for name, value in sample.items()])

    def __setitem__(self, item: str, value: Any) -> None:
        """Replace the selected samples of a tensor; see ``Tensor.__setitem__``.

        Raises
        ------
        TypeError
            If the item is no name of a tensor.
        """
        if not isinstance(item, str):
            raise TypeError("Datasets do not support item assignment")
        tensor = self._named(item)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Tensor groups do not support item assignment: {item!r} is one, assign to its tensors"
            )
        tensor.assign(value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Replace the selected samples of the tensor of that name; without one, set an attribute.

        Raises
        ------
        TypeError
            If a group has the name.
        """
        public = name.startswith("__") or not name.startswith("_")  # 3.x knows tensors such as __temp_x
        if public and not hasattr(type(self), name) and self._has(name):
            self[name] = value
        else:
            super().__setattr__(name, value)

    def pop(self, index: int | Sequence[int] | slice | None = None) -> None:
        """Remove rows from all tensors that have them: one, several, or (None) the last of the longest tensor.

        Raises
        ------
        IndexError
            If no tensor has such a row, or a row number is negative.
        ValueError
            If a row is named twice.
        """
        self._check_changeable("pop")
        pop_rows(self._table(), index)

    def rechunk(
        self,
        tensors: str | Sequence[str] | None = None,
        num_workers: int = 0,
        scheduler: str = "threaded",
        progressbar: bool = True,
    ) -> None:
        """Put the samples of chunks that became small together again.

        Parameters
        ----------
        tensors
            Names of tensors; None takes all.
        num_workers, scheduler, progressbar
            Accepted for compatibility.

        Raises
        ------
        TensorDoesNotExistError
            If there is no such tensor.
        """
        self._check_changeable("rechunk")
        table = self._table([tensors] if isinstance(tensors, str) else tensors)
        with self._session.mutex, self._session.writing() as draft:
            for state in table.states().values():
                draft.rechunk(state.key)

    def flush(self) -> None:
        """Publish all changes: durable and visible to every reader when this returns."""
        self._session.flush()

    def discard(self) -> None:
        """Forget all changes that are not published: rows, values, tensors and info are as the last `flush` left them.

        A ``with`` block keeps the writer's lock.
        """
        self._session.discard()
        self._session.epoch += 1

    def maybe_flush(self) -> None:
        """Publish all changes unless a ``with`` block is open, which does so at its end."""
        if not self._session.is_held:
            self._session.flush()

    def clear_cache(self) -> None:
        """Publish all changes and drop the chunks that are kept in memory."""
        self._session.flush()
        self._session.source.clear()

    def close(self) -> None:
        """Publish all changes and release the writer's lock; the dataset stays usable."""
        self._session.close()

    def __enter__(self) -> Self:
        self._session.hold()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.release()

    # -- showing -----------------------------------------------------------------------------------------------

    def summary(self, force: bool = False) -> None:
        """Print a table of the tensors: htype, shape, dtype, compression.

        Raises
        ------
        ValueError
            For selections above 10,000 rows unless ``force``: their shapes are found by reading.
        """
        if not force and self.is_view and self.max_len >= 10_000:
            raise ValueError(
                "a summary of a selection reads its shapes; pass force=True for more than 10000 rows"
            )
        print(self)
        tensors = self.tensors
        print(printing.summary_table({name: tensors[name] for name in self._shown(self._session.schema())}))

    def __repr__(self) -> str:
        session = self._handle.session  # of an outdated view, too
        read_only = ", read_only=True" if session.read_only else ""
        group = f", group_index={self._group!r}" if self._group else ""
        index = "" if self._index.is_trivial else f", index={self._index!r}"
        names = self._shown(session.schema())
        return f"Dataset(path={self.path!r}{read_only}{index}{group}, tensors={names!r})"

    def _shown(self, schema: Snapshot) -> list[str]:
        """Return the names in the order in which 3.9.52 prints them: that of the table of names in the metadata."""
        order = {name: i for i, name in enumerate(schema.meta.tensor_names)}
        return sorted(self._names_in(schema), key=lambda name: order.get(self._full(name), 0))

    def __reduce__(self) -> tuple[Any, ...]:
        handle = self._handle
        place = Address.of(handle.session), handle.path
        return _reopened, (type(self), place, self._group, self._index, self._columns, self._pad)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names()]


def _names_of(item: Sequence[Any]) -> list[str] | None:
    """Return names of tensors and groups, of which those in a list may be tuples of their parts; None if it is rows."""
    if all(isinstance(name, str) for name in item):
        return list(item)
    if isinstance(item, tuple) or not isinstance(item[0], str | tuple | list):
        return None
    parts = [(name,) if isinstance(name, str) else name for name in item]
    if not all(isinstance(p, list | tuple) and p and all(isinstance(s, str) for s in p) for p in parts):
        return None
    return ["/".join(part) for part in parts]


def _reopened(
    cls: type[Dataset],
    place: tuple[Address, str],
    group: str,
    index: Index,
    columns: tuple[str, ...] | None,
    pad: bool,
) -> Dataset:
    address, path = place
    return cls(Handle(address.open(), path), group, index, columns, pad=pad)
