"""Dataset: a whole dataset, one of its groups, or a selection of rows and columns; a thin facade over the session."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from lakebed.dataset import printing
from lakebed.dataset.columns import Batches, arrow_stream
from lakebed.dataset.info import Edit, Info
from lakebed.dataset.rows import append_row, extend_rows
from lakebed.dataset.tensor import Tensor
from lakebed.dataset.versioned import Versioned
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.errors import (
    GroupInfoNotSupportedError,
    InvalidKeyTypeError,
    InvalidOperationError,
    TensorDoesNotExistError,
)
from lakebed.writing.names import normalize, parents
from lakebed.writing.schema import (
    UNSPECIFIED,
    check_new_group,
    check_new_tensor,
    is_same_tensor,
    plan_tensor,
)


class Dataset(Versioned):
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
        """Address of the dataset."""
        return self._session.storage.url

    @property
    def meta(self) -> DatasetMeta:
        """Stored metadata: tensors, groups, hidden tensors, version."""
        return self._session.schema().meta

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
        return self._session.read_only

    @read_only.setter
    def read_only(self, value: bool) -> None:
        if value:
            self._session.flush()
        self._session.read_only = bool(value)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Visible tensors by name (relative to the group), nested names joined by ``/``."""
        return {name: self._tensor(self._full(name)) for name in self._names()}

    def _names(self) -> list[str]:
        prefix = f"{self._group}/" if self._group else ""
        names = [n[len(prefix) :] for n in self._session.schema().names() if n.startswith(prefix)]
        if self._columns is None:
            return names
        return [n for n in self._columns if self._session.schema().key_of(self._full(n)) is not None]

    def _full(self, name: str) -> str:
        return f"{self._group}/{name}" if self._group else name

    def _tensor(self, full_name: str) -> Tensor:
        return Tensor(self._handle, full_name, self._index)

    @property
    def groups(self) -> dict[str, Dataset]:
        """Direct sub-groups by name."""
        prefix = f"{self._group}/" if self._group else ""
        inside = [g[len(prefix) :] for g in self.meta.groups if g.startswith(prefix)]
        return {g: self._sub(self._full(g)) for g in sorted({g.split("/")[0] for g in inside})}

    def _sub(self, group: str) -> Dataset:
        return Dataset(self._handle, group, self._index)

    @property
    def root(self) -> Dataset:
        """The dataset without its group."""
        return Dataset(self._handle, "", self._index)

    @property
    def parent(self) -> Dataset | None:
        """The enclosing group; None at the root."""
        return self._sub(self._group.rpartition("/")[0]) if self._group else None

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
        return Info(lambda: self._session.schema().info, self._change_info)

    @info.setter
    def info(self, value: Mapping[str, Any]) -> None:
        if not isinstance(value, Mapping):
            raise TypeError(f"info must be a dictionary, not {type(value).__name__}")
        self.info.replace_with(value)

    def _change_info(self, edit: Edit) -> None:
        with self._session.writing() as draft:
            draft.set_info(edit(self._session.schema().info))

    # -- lengths -----------------------------------------------------------------------------------------------

    def _lengths(self) -> list[int]:
        return [len(t) for t in self.tensors.values()]

    def __len__(self) -> int:
        lengths = self._lengths()
        if len(set(lengths)) > 1 and not self._index.is_single:
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
        return max(self._lengths(), default=0)

    @property
    def min_len(self) -> int:
        """Length of the shortest tensor."""
        return min(self._lengths(), default=0)

    @property
    def num_samples(self) -> int:
        """Rows of the whole dataset, whatever is selected."""
        return min((len(t) for t in Dataset(self._handle, self._group).tensors.values()), default=0)

    @property
    def is_view(self) -> bool:
        """Whether rows are selected."""
        return not self._index.is_trivial

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
        if isinstance(item, list | tuple) and item and all(isinstance(i, str) for i in item):
            return Dataset(self._handle, self._group, self._index, tuple(self._expanded(item)))
        if isinstance(item, float | bytes | dict | set) or item is None:
            raise InvalidKeyTypeError(f"Item {item!r} of type {type(item).__name__!r} is not a valid key.")
        if isinstance(item, int) and not isinstance(item, bool):
            self._check_row(item)
        return Dataset(self._handle, self._group, self._index[item], self._columns)

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

    def _named(self, name: str) -> Any:
        full = normalize(name, self._group)
        schema = self._session.schema()
        if schema.key_of(full) is not None:
            return self._tensor(full)
        if full in schema.meta.groups:
            return self._sub(full)
        raise TensorDoesNotExistError(f"Tensor {name!r} does not exist.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._named(name)
        except TensorDoesNotExistError as error:
            raise AttributeError(
                f"'Dataset' object has no attribute {name!r}, and no tensor of that name"
            ) from error

    def __contains__(self, name: str) -> bool:
        return self._session.schema().key_of(normalize(name, self._group)) is not None

    def __iter__(self) -> Iterator[Dataset]:
        for i in range(self.min_len):
            yield self[i]

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
        return Batches(self._session, self._chosen(tensors), self._index, batch_size)

    def _chosen(self, tensors: Sequence[str] | None) -> dict[str, str]:
        names = self._names() if tensors is None else [normalize(n) for n in tensors]
        for name in names:
            if not isinstance(self._named(name), Tensor):
                raise TensorDoesNotExistError(f"{name!r} is a group, not a tensor.")
        return {name: self._full(name) for name in names}

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream: pyarrow, pandas, polars and DuckDB read a dataset directly."""
        return arrow_stream(self._session, self._chosen(None), self._index).__arrow_c_stream__(
            requested_schema
        )

    # -- writing -----------------------------------------------------------------------------------------------

    def create_tensor(
        self,
        name: str,
        htype: str | None = UNSPECIFIED,
        dtype: Any = UNSPECIFIED,
        sample_compression: str | None = UNSPECIFIED,
        chunk_compression: str | None = UNSPECIFIED,
        hidden: bool = False,
        create_sample_info_tensor: bool = True,
        create_shape_tensor: bool = True,
        create_id_tensor: bool = True,
        verify: bool = True,
        exist_ok: bool = False,
        verbose: bool = True,
        downsampling: tuple[int, int] | None = None,
        tiling_threshold: int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Create a tensor without samples.

        Parameters
        ----------
        htype
            ``generic``, ``text``, ``json``, ``list`` or ``class_label``; left out, the first sample decides.
        dtype
            NumPy dtype of the samples; left out, the htype's default or the first sample decides.
        sample_compression, chunk_compression
            ``lz4`` or None, one of the two.
        create_shape_tensor, create_id_tensor
            Whether hidden companions record the shape and a lasting id of each sample (merge needs ids).
        kwargs
            Settings of the htype: ``class_names``, ``max_chunk_size``.

        Raises
        ------
        TensorAlreadyExistsError, TensorGroupAlreadyExistsError, InvalidTensorNameError
            If the name is taken or impossible.
        ValueError
            If the tensor exists, ``exist_ok`` is true, and it is of another htype, dtype or compression.
        """
        self._check_changeable("create a tensor in")
        full = normalize(name, self._group) if name.strip("/") else ""
        if downsampling is not None:
            raise InvalidOperationError(
                "downsampling applies to images, which this release does not write yet"
            )
        if tiling_threshold is not None:
            kwargs["tiling_threshold"] = tiling_threshold
        plan = plan_tensor(
            full,
            htype,
            dtype,
            sample_compression,
            chunk_compression,
            hidden=hidden,
            with_shape=create_shape_tensor,
            with_id=create_id_tensor,
            settings=kwargs,
        )
        with self._session.writing() as draft:
            schema = self._session.schema()
            if not (exist_ok and is_same_tensor(schema, full, plan.meta)):
                check_new_tensor(schema, full, plan.companions)
                draft.add_tensor(full, plan.meta, plan.info, parents(full))
                for companion_name, meta in plan.companions.items():
                    draft.add_tensor(companion_name, meta, {}, ())
        return Tensor(self._handle, full)

    def create_group(self, name: str, exist_ok: bool = False) -> Dataset:
        """Create a group; nested names are allowed.

        Raises
        ------
        TensorGroupAlreadyExistsError, TensorAlreadyExistsError, InvalidTensorGroupNameError
            If the name is taken or impossible.
        """
        self._check_changeable("create a group in")
        full = normalize(name, self._group) if name.strip("/") else ""
        with self._session.writing() as draft:
            schema = self._session.schema()
            if not (exist_ok and full in schema.meta.groups):
                check_new_group(schema, full)
                draft.add_groups([full, *parents(full)])
        return self._sub(full)

    def append(self, sample: Mapping[str, Any], skip_ok: bool = False, append_empty: bool = False) -> None:
        """Add one row to all tensors, or to none if anything does not fit.

        Parameters
        ----------
        skip_ok
            Tensors that the row does not name stay as they are.
        append_empty
            Tensors that the row does not name get an empty sample.

        Raises
        ------
        SampleAppendingError, KeyError, TensorDoesNotExistError, ValueError, SampleAppendError
            If the row is no dictionary, leaves out or invents tensors, or a sample does not fit.
        """
        self._check_changeable("append to")
        append_row(
            self._session, self._chosen(None), self._group, sample, skip_ok=skip_ok, append_empty=append_empty
        )

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
            Accepted for compatibility.

        Raises
        ------
        SampleExtendingError, KeyError, TensorDoesNotExistError, ValueError, SampleAppendError
            If the columns leave out or invent tensors, differ in length, or a sample does not fit.
        """
        self._check_changeable("extend")
        columns = samples.tensors if isinstance(samples, Dataset) else samples
        extend_rows(
            self._session,
            self._chosen(None),
            self._group,
            columns,
            skip_ok=skip_ok,
            append_empty=append_empty,
            ignore_errors=ignore_errors,
        )

    def flush(self) -> None:
        """Publish all changes: durable and visible to every reader when this returns."""
        self._session.flush()

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
        print(printing.summary_table(self.tensors))

    def __repr__(self) -> str:
        read_only = ", read_only=True" if self.read_only else ""
        group = f", group_index={self._group!r}" if self._group else ""
        index = "" if self._index.is_trivial else f", index={self._index!r}"
        return f"Dataset(path={self.path!r}{read_only}{index}{group}, tensors={self._names()!r})"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names()]
