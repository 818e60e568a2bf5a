"""Rows of a dataset: lengths, selections, queries, filters and samples of rows, and the indexes of queries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.base import DatasetBase
from lakebed.errors import InvalidInputError, ReadOnlyModeError
from lakebed.reading.subscripts import Index
from lakebed.verbs.condition import Compared, Condition

if TYPE_CHECKING:
    from lakebed.dataset.prepared import Prepared
    from lakebed.dataset.queries import Queried
    from lakebed.query.indexes.making import IndexInfo
    from lakebed.query.result import Result
    from lakebed.query.statistics.known import TensorStatistics
    from lakebed.session.table import Table
    from lakebed.storage.credentials import Creds


class SelectionMethods(DatasetBase):
    """Lengths, and views of selected rows."""

    @property
    def index(self) -> Index:
        """The selected rows."""
        return self._index

    @property
    def is_view(self) -> bool:
        """True if rows are selected, or this is the copied form of a saved view."""
        view = self._handle.view
        return not self._index.is_trivial or (view is not None and not view.entry.is_virtual)

    def _lengths(self) -> list[int]:
        rows = self._index.padded_rows if self._pad else self._index.rows
        schema = self._session.schema()  # take all lengths from the same state
        lengths = [schema.tensor(self._full(name)).length for name in self._names_in(schema)]
        if self._index.is_single:
            return [1] * len(lengths)
        counts = {length: len(rows(length)) for length in set(lengths)}
        return [counts[length] for length in lengths]

    def _has_row(self, row: int) -> bool:
        """Return whether a shown tensor has a row; the first tensors are checked first."""
        schema, prefix = self._session.schema(), f"{self._group}/" if self._group else ""
        names, hidden = schema.meta.tensor_names, schema.meta.hidden_tensors
        for name, key in names.items():
            if key not in hidden and name.startswith(prefix):
                tensor = schema.find(name)
                if tensor is not None and 0 <= row < tensor.length:
                    return True
        return False

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
        """Number of rows of the whole dataset, whatever is selected: the length of the shortest tensor."""
        return self._whole().min_len

    @property
    def sample_indices(self) -> Sequence[int]:
        """Numbers of the selected rows in the whole dataset."""
        rows = self._index.rows(self._whole().max_len if self._pad else self.num_samples)
        view = self._handle.view
        if view is not None and not view.entry.is_virtual:
            return [int(view.rows[row]) for row in rows]
        return rows if isinstance(rows, range) else [int(row) for row in rows]

    @property
    def max_view(self) -> Self:
        """View as long as the longest tensor; samples that shorter tensors lack are read as empty samples."""
        return type(self)(self._handle, self._group, self._index, self._columns, pad=True)

    @property
    def min_view(self) -> Self:
        """View of the rows that every tensor has."""
        return type(self)(self._handle, self._group, self._index[: self.min_len], self._columns)

    @property
    def no_view_dataset(self) -> Self:
        """The dataset without a selection of rows."""
        return type(self)(self._handle, self._group) if self.is_view else self


class QueryMethods(DatasetBase):
    """Views of the rows that a query, an expression or a function selects."""

    def query(
        self,
        query_string: str | Condition,
        runtime: dict[str, Any] | None = None,
        return_data: bool = False,
        *,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        timeout: float | None = None,
        max_memory: int | None = 4 << 30,
        max_rows: int | None = None,
        exact: bool = False,
        namespace: str | None = None,
        device: str | None = None,
        creds: Creds | None = None,
        named: Mapping[str, Any] | Callable[[str], Any] | None = None,
        engine: Literal["local", "ray"] = "local",
    ) -> Self | Result:
        """Run a query in the tensor query language, on these rows or on the datasets that its FROM names.

        Parameters
        ----------
        query_string
            ``"SELECT * WHERE label == 'cat' ORDER BY score DESC LIMIT 10"``; or a condition, as for :meth:`filter`.
        runtime, return_data
            Accepted for compatibility, as None and False: 3.x ran queries elsewhere.
        parameters
            Values for the ``?`` in the query, in order: numbers, texts, dates, arrays, lists, None; or a dictionary for
            its ``$name``.
        timeout
            Longest time in seconds; None sets no limit.
        max_memory
            Limit of bytes of sort keys, groups and pairs in memory.
        max_rows
            Maximum number of rows in the result.
        exact
            Read all rows instead of using an index.
        namespace, device
            Library and device for computations on vectors: ``numpy``, ``torch`` or ``jax``, on ``cpu``, ``cuda`` or
            ``cuda:1``; None is NumPy, or PyTorch if a device is named.
        creds
            Credentials of the buckets that FROM names.
        named
            Datasets and results that FROM may name: {name: dataset}; or a function that returns the dataset of an
            address. FROM then opens datasets only through this function.
        engine
            ``local`` is this process; ``ray`` is a Ray cluster, for queries that filter, compute columns, and group or
            sort the rows of one dataset. Computed columns are then computed by this call, not on reading.

        Returns
        -------
        A view of this dataset if the query selects rows and tensors; a ``Result``, which is read in the same way, if it
        computes columns.

        Raises
        ------
        QueryError
            If the query does not fit the data, or exceeds a limit; the error's ``kind`` names the problem.
        QuerySyntaxError
            If the query cannot be parsed; the message points at the position.
        """
        from lakebed.dataset.queries import answered, settings

        if isinstance(query_string, Condition):
            return self.filter(query_string)
        if runtime or return_data:
            raise InvalidInputError("queries run in this process: leave runtime and return_data out")
        how = settings(timeout, max_memory, max_rows, exact, namespace, device)
        found: Self | Result = answered(query_string, self._queried(creds, named), parameters, *how, engine)
        return found

    def _explain(
        self, query_string: str, parameters: Sequence[Any] | Mapping[str, Any] = (), *, analyze: bool = False
    ) -> str:
        """Describe how a query would be answered: ``ds.explain``, unless a tensor has that name.

        Parameters
        ----------
        query_string
            The query.
        parameters
            Values for each ``?`` or each ``$name`` in the query.
        analyze
            Also run the query, and report times and amounts of data; ``EXPLAIN ANALYZE`` before the query has the same
            effect.

        Returns
        -------
        A line for each step: the conditions in the order of their evaluation, the columns that they read, and for each
        column the number of chunks that statistics do not rule out.
        """
        from lakebed.query.run import explained

        return explained(query_string, self._queried().sources(), parameters, analyze=analyze)

    def _prepare(
        self,
        query_string: str,
        *,
        timeout: float | None = None,
        max_memory: int | None = 4 << 30,
        max_rows: int | None = None,
        exact: bool = False,
        namespace: str | None = None,
        device: str | None = None,
        creds: Creds | None = None,
    ) -> Prepared[Self]:
        """Parse and check a query, to run it later with values: ``ds.prepare``, unless a tensor has that name.

        Parameters
        ----------
        query_string
            ``"SELECT * WHERE wingspan > ? AND kind == ?"``; each ``?`` stands for a value.
        timeout, max_memory, max_rows, exact, namespace, device, creds
            Settings of each run, as for :meth:`query`.

        Returns
        -------
        The prepared query: ``prepared.run(0.5, "wren")``.

        Raises
        ------
        QueryError
            If the query does not fit the data.
        QuerySyntaxError
            If the query cannot be parsed.
        """
        from lakebed.dataset.prepared import Prepared
        from lakebed.dataset.queries import settings

        how = settings(timeout, max_memory, max_rows, exact, namespace, device)
        return Prepared(query_string, lambda: self._queried(creds), *how)

    # -- indexes -----------------------------------------------------------------------------------------------

    def create_index(
        self,
        tensor: str,
        kind: str | None = None,
        *,
        name: str | None = None,
        exist_ok: bool = False,
        progressbar: bool = True,
        **settings: Any,
    ) -> IndexInfo:
        """Create an index, which ``ORDER BY ... LIMIT`` uses in all versions for the rows that the index holds.

        The index holds the rows of the present version, which is published first. Rows that are appended or changed
        later are searched without the index, until :meth:`update_indexes` adds them. Memory does not grow with the
        number of rows. An interrupted call is continued by the same call.

        Parameters
        ----------
        tensor
            Name of a tensor of vectors, float or integer, shape (n,); or of texts.
        kind
            ``hnsw`` for vectors (needs the extra ``search``), ``bm25`` for words; None chooses by the tensor.
        name
            None joins the name of the tensor and the kind: ``embedding_hnsw``.
        exist_ok
            If the same index exists, update it.
        progressbar
            Show a progress bar.
        settings
            For ``hnsw``: ``metric``, which is ``cosine`` (default), ``l2`` or ``dot``, and has to match the ORDER BY;
            ``dtype`` of the graph, which is ``auto`` (default: ``i8``, one byte for a number, if that distinguishes a
            sample of the vectors, else ``f32``), ``i8``, ``f16`` or ``f32``; ``connectivity`` (16); ``expansion_add``
            (128); ``recall``, the share of the ten nearest neighbours that a search should find (0.95).

        Returns
        -------
        Entry of the index in :meth:`indexes`.

        Raises
        ------
        InvalidInputError
            If the tensor cannot have this kind of index, or a setting is unknown.
        ModuleNotInstalledException
            If the index is for vectors, and usearch is not installed.
        AlreadyExistsError
            If an index of that name exists.
        ReadOnlyModeError
            If the dataset is open for reading only.

        Examples
        --------
        >>> import lakebed
        >>> ds = lakebed.empty("mem://index-example")
        >>> _ = ds.create_tensor("title", htype="text")
        >>> ds.extend({"title": ["red kite", "a wren", "kites and gulls"]})
        >>> ds.create_index("title", "bm25").covered
        3
        >>> found = ds.query("SELECT * ORDER BY BM25_SIMILARITY(title, 'kite') DESC LIMIT 1")
        >>> found.title.data()["value"]
        ['red kite']
        """
        from lakebed.query.indexes import making

        return making.create(
            self._to_index("create_index"),
            tensor,
            kind,
            name,
            settings,
            exist_ok=exist_ok,
            progressbar=progressbar,
        )

    def update_indexes(
        self, names: Sequence[str] | None = None, *, progressbar: bool = True
    ) -> list[IndexInfo]:
        """Add the rows of the present version to indexes that do not hold them.

        Parameters
        ----------
        names
            Names of indexes; None is all.
        progressbar
            Show a progress bar.

        Returns
        -------
        The entries of :meth:`indexes`.

        Raises
        ------
        NotFoundError
            If the index does not exist.
        ReadOnlyModeError
            If the dataset is open for reading only.
        """
        from lakebed.query.indexes import making

        return making.update(self._to_index("update_indexes"), names, progressbar=progressbar)

    def drop_index(self, name: str) -> None:
        """Remove an index; rows and queries stay as they are.

        Parameters
        ----------
        name
            Name of the index.

        Raises
        ------
        NotFoundError
            If the index does not exist.
        ReadOnlyModeError
            If the dataset is open for reading only.
        """
        from lakebed.query.indexes import making

        making.drop(self._to_index("drop_index"), name)

    def _indexes(self) -> list[IndexInfo]:
        """List the indexes: ``ds.indexes``, unless a tensor has that name.

        Returns
        -------
        For each index its name, tensor, kind, settings, segments, bytes, the rows of this version that it holds
        (`covered`) and does not hold (`uncovered`), and its measured `recall`.
        """
        from lakebed.query.indexes import making

        return making.listed(self._every_row())

    def update_statistics(
        self, tensors: Sequence[str] | None = None, *, progressbar: bool = False
    ) -> list[TensorStatistics]:
        """Store statistics of chunks, with which queries skip chunks that cannot contain matching rows.

        Queries store them automatically when they read whole columns of a dataset that is open for writing. Call this
        for a dataset that other programs query read-only, for example in a bucket: otherwise each of their processes
        reads a column once. Chunks with statistics are not read again.

        Parameters
        ----------
        tensors
            Names of tensors; None is all that can have statistics: numbers and texts whose samples are not compressed
            one by one.
        progressbar
            Show a progress bar.

        Returns
        -------
        For each tensor its name, the number of its chunks in this version, and the number of chunks with statistics
        (`known`).

        Raises
        ------
        InvalidInputError
            If a named tensor cannot have statistics.
        TensorDoesNotExistError
            If the tensor does not exist.
        ReadOnlyModeError
            If the dataset is open for reading only.

        Examples
        --------
        >>> import lakebed
        >>> ds = lakebed.empty("mem://statistics-example")
        >>> _ = ds.create_tensor("age", dtype="int64")
        >>> ds.extend({"age": range(50_000)})
        >>> ds.update_statistics()
        [TensorStatistics(tensor='age', chunks=1, known=1)]
        """
        from lakebed.query.statistics.known import gathered

        table = self._to_index("update_statistics", tensors)
        return gathered(table, is_chosen=tensors is not None, progressbar=progressbar)

    def _to_index(self, method: str, tensors: Sequence[str] | None = None) -> Table:
        """Publish changes and return the table of all rows; refuse a read-only dataset or a selection of rows."""
        self._check_changeable(method)
        session = self._session
        if session.read_only:
            raise ReadOnlyModeError(
                f"{session.storage.url} was opened read-only; open it with read_only=False to change its indexes "
                "and statistics"
            )
        if session.has_unpublished:
            session.flush()
        return self._every_row(tensors)

    def _every_row(self, tensors: Sequence[str] | None = None) -> Table:
        whole = type(self)(self._handle)
        return whole._table(whole._names() if tensors is None else tensors)  # noqa: SLF001 - of this class

    def filter(
        self,
        function: Callable[..., Any] | str | Condition | Compared,
        num_workers: int = 0,
        scheduler: str = "threaded",
        progressbar: bool = True,
        save_result: bool = False,
        result_path: str | None = None,
        result_ds_args: dict[str, Any] | None = None,
    ) -> Self:
        """Select rows by an expression, or by a function of each row.

        Parameters
        ----------
        function
            An expression of the query language, also in the spelling of 3.x: ``"labels == 'cat' and len(boxes) > 2"``;
            a condition, ``ds["age"] > 3``; or a function that takes a row, as a view of this dataset, and returns
            whether to keep it; the function may be decorated by ``lakebed.compute``.
        num_workers
            Number of threads that call the function; 0 calls it in this thread.
        scheduler
            ``serial`` or ``threaded``; ``processed`` of 3.x runs on threads.
        progressbar
            Show a progress bar.
        save_result
            Save the view, as :meth:`save_view` does.
        result_path, result_ds_args
            ``path`` of the saved view, and other arguments of :meth:`save_view`.

        Returns
        -------
        A view of the rows.

        Raises
        ------
        QueryError
            If the expression cannot be parsed, or does not fit the data.
        DatasetViewSavingError
            If the view is to be saved, and the dataset has uncommitted changes.
        """
        from lakebed.dataset import queries

        if isinstance(function, Compared):
            function = function.asked()
        if isinstance(function, str | Condition):
            text, parameters = str(function), list[Any]()
            if isinstance(function, Condition):
                names = {full: name for name, full in self._table().names.items()}
                text, parameters = function.asked_of((self._handle, self._index), names)
            found: Self = queries.filtered(text, self._queried(), parameters)
            found._query_text, found._filter_text = None, str(function)
        else:
            rows = queries.kept_rows(self, function, num_workers, scheduler, progressbar=progressbar)
            found = self[rows]  # type: ignore[index]
            found._filter_text = getattr(function, "__name__", None)  # noqa: SLF001
        if save_result:
            found.save_view(path=result_path, **(result_ds_args or {}))  # type: ignore[attr-defined]
        return found

    def sample_by(
        self,
        weights: str | Sequence[float] | NDArray[Any],
        replace: bool = True,
        size: int | None = None,
        *,
        seed: int | None = None,
    ) -> Self:
        """Draw rows at random, with probabilities in proportion to weights.

        Parameters
        ----------
        weights
            An expression of the query language, such as ``"max_weight(label == 'cat': 5, True: 1)"``; or a number per
            row.
        replace
            A row may be drawn more than once.
        size
            Number of rows to draw; None draws as many as the dataset has.
        seed
            Seed of the generator; None takes the seed of ``lakebed.random.seed``, or a random seed.

        Returns
        -------
        A view of the rows, in the order in which they were drawn.

        Raises
        ------
        QueryError
            If no weight is above zero.
        InvalidInputError
            If the number of weights differs from the number of rows.
        """
        from lakebed import random
        from lakebed.query.values.sampling import drawn

        found = self._weights(weights)
        count = len(found) if size is None else size
        rows = drawn(found, count, replace=replace, seed=random.get_seed() if seed is None else seed)
        return self[rows.tolist()]  # type: ignore[index,no-any-return]

    def _weights(self, weights: str | Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
        """Return a weight for each row, computed from an expression or as given."""
        if isinstance(weights, str):
            from lakebed.query.run import weights as computed

            return computed(weights, self._queried().sources())
        found: NDArray[np.float64] = np.asarray(weights, np.float64).reshape(-1)
        if len(found) != len(self):  # type: ignore[arg-type]
            raise InvalidInputError(f"{len(found)} weights for {len(self)} rows")  # type: ignore[arg-type]
        return found

    def _view_of(self, relation: Any, row_ids: str = "row_id") -> Self:
        """Make a view of the rows that a table names: ``ds.view_of``, unless a tensor has that name.

        Parameters
        ----------
        relation
            A relation of DuckDB, or an object that exports Arrow: a table, a reader, a data frame of polars or pandas.
            The table is read once; if possible, only its column of row numbers is read.
        row_ids
            Name of the column with row numbers of the whole dataset, as ``to_duckdb(row_ids=True)`` returns them.

        Returns
        -------
        A view of the rows in the order of the table; repeated rows are repeated.

        Raises
        ------
        InvalidInputError
            If the table has no such column, or its values are null or not row numbers.
        """
        from lakebed.reading.columns import frames

        whole = type(self)(self._handle, self._group, None, self._columns)
        found: Self = whole[frames.row_numbers(relation, row_ids, len(whole))]  # type: ignore[index, arg-type]
        return found

    def _queried(
        self, creds: Creds | None = None, named: Mapping[str, Any] | Callable[[str], Any] | None = None
    ) -> Queried:
        from lakebed.dataset.queries import Queried

        return Queried(self, type(self), creds, named)
