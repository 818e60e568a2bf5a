"""A dataset's facade: how many rows there are, which of them are selected, and views of those that a query chooses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset._base import DatasetBase
from lakebed.errors import InvalidInputError, ReadOnlyModeError
from lakebed.reading.index import Index
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
    """Lengths, and views of rows."""

    @property
    def index(self) -> Index:
        """Which rows are selected."""
        return self._index

    @property
    def is_view(self) -> bool:
        """Whether rows are selected, or this is the copy that a saved view was optimized to."""
        view = self._handle.view
        return not self._index.is_trivial or (view is not None and not view.entry.is_virtual)

    def _lengths(self) -> list[int]:
        rows = self._index.padded_rows if self._pad else self._index.rows
        schema = self._session.schema()  # as it is at one moment
        lengths = [schema.tensor(self._full(name)).length for name in self._names_in(schema)]
        if self._index.is_single:
            return [1] * len(lengths)
        counts = {length: len(rows(length)) for length in set(lengths)}
        return [counts[length] for length in lengths]

    def _has_row(self, row: int) -> bool:
        """Whether a tensor shown here has a row, counted from the first; the first tensors are asked first."""
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
        """Rows of the whole dataset, whatever is selected: the length of the shortest tensor."""
        return self._whole().min_len

    @property
    def sample_indices(self) -> Sequence[int]:
        """Row numbers that this selection keeps, against the whole dataset."""
        rows = self._index.rows(self._whole().max_len if self._pad else self.num_samples)
        view = self._handle.view
        if view is not None and not view.entry.is_virtual:
            return [int(view.rows[row]) for row in rows]
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


class QueryMethods(DatasetBase):
    """Views of the rows that a query, an expression or a function chooses."""

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
    ) -> Self | Result:
        """Answer a query in the tensor query language, of these rows unless it says FROM.

        Parameters
        ----------
        query_string
            ``"SELECT * WHERE label == 'cat' ORDER BY score DESC LIMIT 10"``; or a condition, as of :meth:`filter`.
        runtime, return_data
            Of 3.x, where queries ran elsewhere; accepted as None and False.
        parameters
            Values for the ``?`` in the query, in order: numbers, texts, dates, arrays, lists, None; a dictionary for
            those that it names, ``$name``.
        timeout
            Seconds after which it gives up; None for never.
        max_memory
            Bytes of sort keys, groups and pairs that it may hold.
        max_rows
            Rows that the result may have.
        exact
            Use no index: look at all rows.
        namespace, device
            Where vectors are computed: in ``numpy``, ``torch`` or ``jax``, on ``cpu``, ``cuda`` or ``cuda:1``; None is
            NumPy, or PyTorch where a device is named.
        creds
            Credentials of the buckets that FROM names.
        named
            Datasets and results that FROM may name: {name: dataset}; or a function that returns the dataset of an
            address, for all of them: then no others are opened.

        Returns
        -------
        A view of this dataset where rows and tensors are chosen; a ``Result``, which reads alike, where columns are
        computed.

        Raises
        ------
        QueryError
            If it does not fit the data, or a limit is reached; ``kind`` says what it is.
        QuerySyntaxError
            If it is no query; the message points at the place.
        """
        from lakebed.dataset.queries import answered
        from lakebed.query.functions.spaces import Ways, space_of
        from lakebed.query.values.limits import Limits

        if isinstance(query_string, Condition):
            return self.filter(query_string)
        if runtime or return_data:
            raise InvalidInputError("queries run in this process: leave runtime and return_data out")
        limits = Limits(seconds=timeout, memory=max_memory, rows=max_rows)
        ways = Ways(exact, space_of(namespace, device))
        found: Self | Result = answered(query_string, self._queried(creds, named), parameters, limits, ways)
        return found

    def _explain(
        self, query_string: str, parameters: Sequence[Any] | Mapping[str, Any] = (), *, analyze: bool = False
    ) -> str:
        """Tell how a query would be answered: ``ds.explain``, unless a tensor has that name.

        Parameters
        ----------
        query_string
            The query.
        parameters
            Values for the ``?``, or each ``$name``, in it.
        analyze
            Answer it, and tell what that took; also where it begins with ``EXPLAIN ANALYZE``.

        Returns
        -------
        A line for each step, with the conditions in the order in which they are asked, what they read, and how many
        chunks of each column statistics leave.
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
    ) -> Prepared:
        """Read and check a query whose values are given later: ``ds.prepare``, unless a tensor has that name.

        Parameters
        ----------
        query_string
            ``"SELECT * WHERE wingspan > ? AND kind == ?"``; each ``?`` is a value.
        timeout, max_memory, max_rows, exact, namespace, device, creds
            Of each run, as of :meth:`query`.

        Returns
        -------
        What is run: ``prepared.run(0.5, "wren")``.

        Raises
        ------
        QueryError
            If it does not fit the data.
        QuerySyntaxError
            If it is no query.
        """
        from lakebed.dataset.prepared import Prepared
        from lakebed.query.functions.spaces import Ways, space_of
        from lakebed.query.values.limits import Limits

        limits = Limits(seconds=timeout, memory=max_memory, rows=max_rows)
        return Prepared(
            query_string, lambda: self._queried(creds), limits, Ways(exact, space_of(namespace, device))
        )

    # -- indexes -----------------------------------------------------------------------------------------------

    def create_index(
        self,
        tensor: str,
        kind: str,
        *,
        name: str | None = None,
        exist_ok: bool = False,
        progressbar: bool = True,
        **settings: Any,
    ) -> IndexInfo:
        """Make an index that ``ORDER BY ... LIMIT`` uses from now on, in all versions, for the rows that it holds.

        It holds the rows of the present version, published before. Rows that are appended or changed later are
        searched beside it, exactly, until :meth:`update_indexes` takes them in. Memory does not grow with the number of
        rows; the index is named with its first file, and what is stopped goes on when it is called again.

        Parameters
        ----------
        tensor
            Vectors, float or integer, shape (n,); or texts.
        kind
            ``hnsw`` for vectors (needs the extra ``search``), ``bm25`` for words.
        name
            None is the tensor's name and the kind: ``embedding_hnsw``.
        exist_ok
            Where there is the same index already, bring it up to date.
        progressbar
            Show a bar.
        settings
            Of ``hnsw``: ``metric``, ``cosine`` (default), ``l2`` or ``dot``, which decides which ORDER BY uses it;
            ``dtype`` of the graph, ``auto`` (default: ``i8``, a byte for a number, where that tells a sample of the
            vectors apart, else ``f32``), ``i8``, ``f16`` or ``f32``; ``connectivity`` (16); ``expansion_add`` (128);
            ``recall``, the part of the ten nearest that a search is to find (0.95).

        Returns
        -------
        What :meth:`indexes` tells of it.

        Raises
        ------
        InvalidInputError
            If the tensor has no such index, or a setting is unknown.
        ModuleNotInstalledException
            If usearch is not installed, for vectors.
        AlreadyExistsError
            If there is an index of that name.
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
        """Take the rows of the present version into indexes that do not hold them.

        Parameters
        ----------
        names
            None is all.
        progressbar
            Show a bar.

        Returns
        -------
        What :meth:`indexes` tells then.

        Raises
        ------
        NotFoundError
            If there is no such index.
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
            As :meth:`indexes` tells it.

        Raises
        ------
        NotFoundError
            If there is no such index.
        ReadOnlyModeError
            If the dataset is open for reading only.
        """
        from lakebed.query.indexes import making

        making.drop(self._to_index("drop_index"), name)

    def _indexes(self) -> list[IndexInfo]:
        """Tell the indexes: ``ds.indexes``, unless a tensor has that name.

        Returns
        -------
        For each its name, tensor, kind, settings, segments, bytes, the rows of this version that it holds (`covered`)
        and does not hold (`uncovered`), and its measured `recall`.
        """
        from lakebed.query.indexes import making

        return making.listed(self._every_row())

    def update_statistics(
        self, tensors: Sequence[str] | None = None, *, progressbar: bool = False
    ) -> list[TensorStatistics]:
        """Note what the chunks of tensors are like, so that queries leave out those that no row of theirs can be in.

        Queries do so by themselves, where they read whole columns of a dataset that they may write to. This is for a
        dataset that others query read-only, as in a bucket: each of their processes would read a column once. Chunks
        that something is known of are not read again.

        Parameters
        ----------
        tensors
            None is all that can have statistics: numbers and texts whose samples are not compressed one by one.
        progressbar
            Show how many rows were read.

        Returns
        -------
        For each tensor its name, its chunks in this version, and of how many of them something is `known`.

        Raises
        ------
        InvalidInputError
            If a tensor that was named can have none.
        TensorDoesNotExistError
            If there is no such tensor.
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
        """Return all rows, published, of a dataset that may be changed."""
        self._check_changeable(method)
        session = self._session
        if session.read_only:
            raise ReadOnlyModeError(
                f"{session.storage.url} was opened read-only; open it with read_only=False to change what is kept "
                "beside its rows"
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
        """Choose rows by an expression, or by a function of each row.

        Parameters
        ----------
        function
            An expression of the query language, which may be spelt as in 3.x:
            ``"labels == 'cat' and len(boxes) > 2"``; a condition, ``ds["age"] > 3``; or a function that takes a row, a
            view of this dataset, and returns whether it is kept. What ``lakebed.compute`` makes of a function is taken,
            too.
        num_workers
            Threads that call the function; 0 is this one.
        scheduler
            ``serial`` or ``threaded``; what 3.x calls ``processed`` runs on threads.
        progressbar
            Show a bar.
        save_result
            Save the view, as :meth:`save_view` does.
        result_path, result_ds_args
            Where to, and its further arguments: ``path``, and any other by name.

        Returns
        -------
        A view of the rows.

        Raises
        ------
        QueryError
            If the expression is none, or does not fit.
        DatasetViewSavingError
            If the view is to be saved, and there are changes that are not committed.
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
        """Draw rows with probabilities in proportion to weights.

        Parameters
        ----------
        weights
            An expression of the query language, such as ``"max_weight(label == 'cat': 5, True: 1)"``; or one per row.
        replace
            Whether a row can come more than once.
        size
            How many rows are drawn; as many as there are by default.
        seed
            What the choice follows from; None for that of ``lakebed.random.seed``, or chance.

        Returns
        -------
        A view of the rows, in the order in which they were drawn.

        Raises
        ------
        QueryError
            If no weight is above zero.
        InvalidInputError
            If there is not one weight per row.
        """
        from lakebed import random
        from lakebed.query.values.sampling import drawn

        found = self._weights(weights)
        count = len(found) if size is None else size
        rows = drawn(found, count, replace=replace, seed=random.get_seed() if seed is None else seed)
        return self[rows.tolist()]  # type: ignore[index,no-any-return]

    def _weights(self, weights: str | Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
        """Return a weight for each row, of an expression or as they are given."""
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
            A relation of DuckDB, or whatever hands out Arrow: a table, a reader, a data frame of polars or pandas. It
            is read once, of its column of row numbers alone where that is possible.
        row_ids
            The column that holds numbers of rows of the whole dataset, as ``to_duckdb(row_ids=True)`` gives them.

        Returns
        -------
        A view of the rows in the order of the table; a row that is there twice comes twice.

        Raises
        ------
        InvalidInputError
            If the table has no such column, or it holds others than row numbers, nulls among them.
        """
        from lakebed.reading import frames

        whole = type(self)(self._handle, self._group, None, self._columns)
        found: Self = whole[frames.row_numbers(relation, row_ids, len(whole))]  # type: ignore[index, arg-type]
        return found

    def _queried(
        self, creds: Creds | None = None, named: Mapping[str, Any] | Callable[[str], Any] | None = None
    ) -> Queried:
        from lakebed.dataset.queries import Queried

        return Queried(self, type(self), creds, named)
