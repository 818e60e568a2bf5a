"""``deeplake.VectorStore``, which stores of LangChain and LlamaIndex use: a dataset, queries and indexes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.errors import InvalidInputError

Filter = Mapping[str, Any] | Callable[[Any], Any] | None
"""Values by tensor, for json by key; or a function of a row."""

_SMALL = {"create_id_tensor": False, "create_sample_info_tensor": False, "create_shape_tensor": False}

DEFAULT_VECTORSTORE_TENSORS: list[dict[str, Any]] = [
    {"name": "text", "htype": "text", **_SMALL},
    {"name": "metadata", "htype": "json", **_SMALL},
    {"name": "embedding", "htype": "embedding", "dtype": "float32", "create_id_tensor": False},
    {"name": "id", "htype": "text", **_SMALL},
]

_METRICS = {
    "cos": ("COSINE_SIMILARITY({0}, ?) DESC", "cosine"),
    "l2": ("L2_NORM({0} - ?)", "l2"),
    "l1": ("L1_NORM({0} - ?)", ""),
    "max": ("LINF_NORM({0} - ?)", ""),
    "dot": ("DOT({0}, ?) DESC", "dot"),
}
"""Name of a metric, in small letters -> the order of the nearest rows, and the metric of an index."""


class VectorStore:
    """Store of vectors of Deep Lake 3.x, without an account: all searches run in this process.

    Parameters
    ----------
    path, dataset
        Address of the dataset, which is created if it does not exist; or an open dataset.
    tensor_params
        Arguments of ``create_tensor`` for each tensor of a new dataset.
    embedding_function
        Function that makes vectors of texts, or an object with ``embed_documents`` and ``embed_query``.
    ingestion_batch_size
        Number of texts that the function is given at once.
    index_params
        ``{"threshold": rows, "distance_metric": "COS"}``: the number of rows from which on the vectors have an index
        (-1: none), and the metric of searches that name none.
    exec_option
        ``auto``, ``python`` and ``compute_engine`` mean the same; ``tensor_db``, as ``runtime``, is refused.
    options
        Accepted for compatibility: ``token``, ``org_id``, ``verbose``, ``num_workers``, ``logger``, ``runtime``.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        dataset: lakebed.Dataset | None = None,
        tensor_params: Sequence[Mapping[str, Any]] = DEFAULT_VECTORSTORE_TENSORS,
        embedding_function: Any = None,
        read_only: bool | None = None,
        ingestion_batch_size: int = 1000,
        index_params: Mapping[str, Any] | None = None,
        exec_option: str | None = "auto",
        overwrite: bool = False,
        creds: Any = None,
        branch: str = "main",
        **options: Any,
    ) -> None:
        if unknown := set(options) - {"token", "org_id", "verbose", "num_workers", "logger", "runtime"}:
            raise TypeError(f"VectorStore takes no argument {', '.join(sorted(unknown))}")
        _check_local("tensor_db" if (options.get("runtime") or {}).get("tensor_db") else exec_option)
        if ingestion_batch_size < 1:
            raise InvalidInputError(f"ingestion_batch_size is {ingestion_batch_size}; it must be at least 1")
        index = index_params or {}
        self._threshold = int(index.get("threshold", -1))
        self._metric = _metric(index.get("distance_metric", "cos"))
        if self._threshold > 0 and not _METRICS[self._metric][1]:
            raise InvalidInputError("an index needs the distance_metric COS, L2 or dot")
        self.embedding_function = embedding_function
        self.ingestion_batch_size = ingestion_batch_size
        if dataset is None and path is not None:
            dataset = lakebed.dataset(path, read_only=read_only, overwrite=overwrite, creds=creds)
        elif dataset is None or path is not None:
            raise InvalidInputError("pass the path of a vector store, or an open dataset")
        self.dataset: lakebed.Dataset = dataset
        if not dataset.tensors and not dataset.read_only:
            for tensor in tensor_params:
                dataset.create_tensor(**{str(key): value for key, value in tensor.items()})
            dataset.flush()
        if branch != dataset.branch:
            self.checkout(branch)

    def tensors(self) -> list[str]:
        """Return the names of the tensors."""
        return list(self.dataset.tensors)

    def summary(self) -> None:
        """Print the tensors of the dataset."""
        self.dataset.summary()

    def __len__(self) -> int:
        return len(self.dataset)

    def commit(self, allow_empty: bool = True) -> None:
        """Commit the dataset."""
        self.dataset.commit(allow_empty=allow_empty)

    def checkout(self, branch: str = "main", create: bool = False) -> None:
        """Check out a branch of the dataset."""
        self.dataset.checkout(branch, create=create)

    def add(
        self,
        embedding_function: Any = None,
        embedding_data: Sequence[Any] | None = None,
        embedding_tensor: str | Sequence[str] | None = None,
        return_ids: bool = False,
        rate_limiter: Mapping[str, Any] | None = None,
        **tensors: Any,
    ) -> list[str] | None:
        """Add rows, all or none, and publish them; missing ids are generated.

        Parameters
        ----------
        embedding_function, embedding_data, embedding_tensor
            The function makes the vectors of the tensor from the data; for several tensors, pass lists.
        return_ids
            Return the ids of the rows instead of None.
        rate_limiter
            Refused if enabled.
        tensors
            Values by tensor, as for ``ds.extend``.
        """
        if rate_limiter and rate_limiter.get("enabled"):
            raise InvalidInputError(
                "rate_limiter is not supported: limit the calls in the embedding function itself"
            )
        rows = dict(tensors)
        if embedding_data is not None:
            names = self._vectors(embedding_tensor)
            is_one = embedding_tensor is None or isinstance(embedding_tensor, str)
            data = [embedding_data] if is_one else list(embedding_data)
            for name, values, make in zip(names, data, _each(names, embedding_function), strict=True):
                if name in rows:
                    raise InvalidInputError(f"pass either values or embedding_data for {name!r}, not both")
                rows[name] = self._embedded(values, make)
        ids = next((name for name in ("id", "ids") if name in self.dataset.tensors), None)
        if ids is not None and rows and rows.get(ids) is None:
            rows[ids] = [str(uuid.uuid4()) for _ in next(iter(rows.values()))]
        self.dataset.extend(rows)
        self.dataset.flush()
        if 0 < self._threshold <= len(self):
            metric = _METRICS[self._metric][1]
            for name in self._vectors(None):
                self.dataset.create_index(name, "hnsw", exist_ok=True, progressbar=False, metric=metric)
        return [str(one) for one in rows[ids]] if return_ids and ids is not None else None

    def search(
        self,
        embedding_data: Any = None,
        embedding_function: Any = None,
        embedding: Sequence[float] | NDArray[Any] | None = None,
        k: int = 4,
        distance_metric: str | None = None,
        query: str | None = None,
        filter: Filter = None,  # noqa: A002 - the name of 3.x
        exec_option: str | None = None,
        embedding_tensor: str = "embedding",
        return_tensors: Sequence[str] | None = None,
        return_view: bool = False,
        deep_memory: bool = False,
        return_tql: bool = False,
    ) -> Any:
        """Return the rows whose vectors are nearest to a vector, all rows that match a filter, or the rows of a query.

        Parameters
        ----------
        embedding_data, embedding_function, embedding, embedding_tensor
            The vector, or data from which the function makes it; and the tensor to compare it with.
        k
            Number of nearest rows; without a vector it means nothing.
        distance_metric
            ``COS`` or ``dot``, whose largest values come first, ``L2``, ``L1`` or ``max``.
        query
            Query instead of vector and filter, as for ``ds.query``.
        filter
            ``{"id": ["a", "b"], "metadata": {"page": 1}}``: for each tensor, the value or a list of possible values;
            or a function of a row.
        return_tensors
            Tensors to read; None reads all but vectors, ``["*"]`` all.
        return_view
            Return a view of the dataset instead of lists by tensor, with ``score`` if a vector is given.
        """
        _check_local(exec_option)
        if deep_memory or return_tql:
            raise InvalidInputError("deep_memory and return_tql belong to the service of Deep Lake's vendor")
        if embedding_data is not None and embedding is None:
            is_one = isinstance(embedding_data, list) and len(embedding_data) == 1
            make = self._function(embedding_function, "embed_query")
            embedding = make(embedding_data[0] if is_one else embedding_data)
        if embedding is None and query is None and filter is None:
            raise InvalidInputError("pass an embedding, embedding_data, a filter or a query to search for")
        view = self._chosen(None, None, {} if filter is None and query is None else filter, query)
        scores: dict[str, Any] = {}
        if embedding is not None:
            if query is not None:
                raise InvalidInputError(
                    "pass a query or an embedding, not both: a query can order rows by their distance to the vector"
                )
            if k < 1:
                raise InvalidInputError(f"k is {k}; it must be at least 1")
            vector = np.asarray(embedding, np.float32)
            vector = vector[0] if vector.ndim == 2 and len(vector) == 1 else vector
            tensor = self._vectors(embedding_tensor)[0]
            metric = self._metric if distance_metric is None else _metric(distance_metric)
            order = _METRICS[metric][0].format(_quoted(tensor))
            view = view.query(f"SELECT * ORDER BY {order} LIMIT {int(k)}", parameters=[vector])
            if not return_view:
                value = order.removesuffix(" DESC")
                found = view.query(f"SELECT {value} AS score", parameters=[vector])
                scores["score"] = found["score"].numpy().ravel().tolist()
        if return_view:
            return view
        return scores | {name: _values(view[name]) for name in self._returned(view, return_tensors)}

    def delete(
        self,
        row_ids: Sequence[int] | None = None,
        ids: Sequence[str] | None = None,
        filter: Filter = None,  # noqa: A002 - the name of 3.x
        query: str | None = None,
        exec_option: str | None = None,
        delete_all: bool | None = None,
    ) -> bool:
        """Remove rows by their numbers or ids, or as a filter or a query selects them; or all rows."""
        _check_local(exec_option)
        if not delete_all and isinstance(filter, Mapping) and all(value == {} for value in filter.values()):
            raise InvalidInputError(
                "an empty filter selects all rows; to remove all rows, pass delete_all=True"
            )
        chosen = self.dataset if delete_all else self._chosen(row_ids, ids, filter, query)
        self.dataset.pop(list(chosen.sample_indices))
        self.dataset.flush()
        return True

    def update_embedding(
        self,
        row_ids: Sequence[int] | None = None,
        ids: Sequence[str] | None = None,
        filter: Filter = None,  # noqa: A002 - the name of 3.x
        query: str | None = None,
        exec_option: str | None = None,
        embedding_function: Any = None,
        embedding_source_tensor: str | Sequence[str] = "text",
        embedding_tensor: str | Sequence[str] | None = None,
    ) -> None:
        """Make new vectors of some rows from other tensors."""
        _check_local(exec_option)
        names = self._vectors(embedding_tensor)
        sources, makes = _each(names, embedding_source_tensor), _each(names, embedding_function)
        rows = self._chosen(row_ids, ids, filter, query).sample_indices
        if len(rows):
            view = self.dataset[list(rows)]
            found = zip(names, sources, makes, strict=True)
            view.update({name: self._embedded(_values(view[source]), make) for name, source, make in found})
            self.dataset.flush()

    @staticmethod
    def delete_by_path(path: Any, token: Any = None, force: bool = False, creds: Any = None) -> None:
        """Remove the dataset at an address; the token is ignored."""
        lakebed.delete(path, force=force, large_ok=True, creds=creds, token=token)

    def _chosen(self, row_ids: Any, ids: Any, filter: Filter, query: str | None) -> Any:  # noqa: A002
        given = [value for value in (row_ids, ids, filter, query) if value is not None]
        if len(given) != 1:
            raise InvalidInputError("select rows by one of row_ids, ids, filter and query")
        if row_ids is not None:
            return self.dataset[[int(row) for row in row_ids]]
        if query is not None:
            return self.dataset.query(query)
        if callable(filter):
            return self.dataset.filter(filter)
        if ids is not None:
            filter = {"ids" if "ids" in self.dataset.tensors else "id": list(ids)}  # noqa: A001
        return self._filtered(filter)

    def _filtered(self, wanted: Filter) -> Any:
        if not isinstance(wanted, Mapping):
            raise InvalidInputError(
                f"a filter must be a dictionary of values by tensor or a function of a row, not {type(wanted).__name__}"
            )
        terms, values = list[str](), list[Any]()
        for tensor, value in wanted.items():
            name = _quoted(tensor)
            is_json = self.dataset[tensor].htype == "json"
            for key, one in value.items() if is_json and isinstance(value, Mapping) else [(None, value)]:
                terms.append(
                    name + ("" if key is None else "[?]") + (" IN (?)" if isinstance(one, list) else " == ?")
                )
                values += [one] if key is None else [key, one]
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        return self.dataset.query(f"SELECT *{where}", parameters=values)

    def _vectors(self, names: str | Sequence[str] | None) -> list[str]:
        """Return the names of the tensors of vectors; for None, those of all tensors of htype embedding."""
        if names is None:
            return [name for name, tensor in self.dataset.tensors.items() if tensor.htype == "embedding"]
        return [self.dataset[name].key for name in ([names] if isinstance(names, str) else names)]

    def _returned(self, view: Any, names: Sequence[str] | None) -> list[str]:
        if names is None:
            return [name for name, tensor in view.tensors.items() if tensor.htype != "embedding"]
        return list(view.tensors) if list(names) == ["*"] else list(names)

    def _function(self, given: Any, method: str) -> Callable[[Any], Any]:
        given = self.embedding_function if given is None else given
        function: Callable[[Any], Any] | None = getattr(given, method, given)
        if not callable(function):
            raise InvalidInputError("pass an embedding_function to this method or to the vector store")
        return function

    def _embedded(self, data: Sequence[Any], function: Any) -> NDArray[np.float32]:
        make, step = self._function(function, "embed_documents"), self.ingestion_batch_size
        return np.concatenate(
            [np.asarray(make(list(data[i : i + step])), np.float32) for i in range(0, len(data), step)]
        )


def _each(names: Sequence[str], given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given] * len(names)


def _check_local(exec_option: str | None) -> None:
    if exec_option == "tensor_db":
        raise InvalidInputError("exec_option tensor_db belongs to the service of Deep Lake's vendor")
    if exec_option not in (None, "auto", "python", "compute_engine"):
        raise InvalidInputError(f"exec_option must be auto, python or compute_engine, not {exec_option!r}")


def _metric(name: str) -> str:
    if str(name).lower() not in _METRICS:
        raise InvalidInputError(f"distance_metric must be one of COS, L2, L1, max and dot, not {name!r}")
    return str(name).lower()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _values(tensor: Any) -> Any:
    return tensor.numpy() if tensor.htype == "embedding" else list(tensor.data()["value"])
