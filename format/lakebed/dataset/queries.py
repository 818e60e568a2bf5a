"""Queries of datasets: their sources, and their results, which are views if rows are selected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.traits import keeps_values
from lakebed.dataset.base import Columns
from lakebed.dataset.open import open_at
from lakebed.errors import InvalidInputError
from lakebed.query import run
from lakebed.query.engine.sources import Sources
from lakebed.query.functions.spaces import Ways, space_of
from lakebed.query.relations.relation import Relation, Run, Stored
from lakebed.query.result import Result
from lakebed.query.result_column import keys_once
from lakebed.query.values.info import Info
from lakebed.query.values.limits import Limits
from lakebed.runtime.progress import rows_bar
from lakebed.session import places
from lakebed.storage.credentials import Creds, kept
from lakebed.storage.url import parse
from lakebed.writing.names import any_name

if TYPE_CHECKING:
    from lakebed.session.table import Table

_BATCH = 1024


def settings(
    timeout: float | None,
    max_memory: int | None,
    max_rows: int | None,
    exact: bool,
    namespace: str | None,
    device: str | None,
) -> tuple[Limits, Ways]:
    """Return the limits and the methods of a query, from arguments of ``Dataset.query``."""
    limits = Limits(seconds=timeout, memory=max_memory, rows=max_rows)
    return limits, Ways(exact, space_of(namespace, device))


class Queried:
    """The source of a query's rows, and the datasets that the query opens.

    Parameters
    ----------
    dataset
        Dataset or result that a query without FROM reads; None if FROM is needed.
    made
        Function that makes a dataset from a handle.
    creds
        Credentials of the datasets that FROM names in buckets.
    named
        Datasets and results that FROM may name, by name; or a function that returns the dataset of an address. FROM
        then opens datasets only through this function.
    """

    def __init__(
        self,
        dataset: Any,
        made: Callable[..., Any],
        creds: Creds | None = None,
        named: Mapping[str, Any] | Callable[[str], Any] | None = None,
    ) -> None:
        self.creds = kept(creds)
        self.dataset = dataset
        self.made = made
        self.opened: list[Any] = []
        self.whole: Table | None = None
        self._open: Callable[[str], Any] = named if callable(named) else self._at
        self._named: dict[str, Any] = {} if callable(named) else dict(named or {})
        for one in (*(() if dataset is None else (dataset,)), *self._named.values()):
            self.opened += one.queried.opened if isinstance(one, Result) else [one]

    def table(self) -> Table | Relation | None:
        """Return the rows that a query without FROM reads."""
        if self.dataset is None:
            return None
        asked = _asked(self.dataset)
        self.whole = None if isinstance(asked, Relation) else asked
        return asked

    def open(self, path: str, version: str | None) -> Table | Relation:
        """Open another dataset for reading."""
        address = path if version is None else f"{path}@{version}"
        made = self._named.get(address)
        if made is None:
            made = self._named[address] = self._open(address)
            self.opened.append(made)
        return _asked(made)

    def _at(self, address: str) -> Any:
        return self.made(open_at(parse(address, existing=True, creds=self.creds), read_only=True))

    def differing(self, table: Table, first: str, second: str) -> tuple[Table, NDArray[np.int64]]:
        """Return the table of the second version, and its rows that are new or changed since the first version."""
        dataset = self.owner(table)
        path = dataset._handle.path.partition("@")[0]  # noqa: SLF001
        later = type(dataset)(open_at(f"{path}@{second}", read_only=True))
        rows: set[int] = set()
        for name in later._names():  # noqa: SLF001
            rows.update(later[name].modified_samples(first, return_indexes=True)[1])
        self.opened.append(later)
        length = len(later)
        return later._table(), np.array(sorted(row for row in rows if row < length), np.int64)  # noqa: SLF001

    def sources(self) -> Sources:
        """Return the sources of a query."""
        return Sources(self.table(), self.open, self.differing)

    def owner(self, table: Table) -> Any:
        """Return the dataset of a table."""
        return next(ds for ds in self.opened if ds._session is table.session)  # noqa: SLF001

    def tensor(self, relation: Stored, name: str) -> Any:
        """Return the tensor of a stored column, with all its rows."""
        return self.owner(relation.table)._unselected()[name]  # noqa: SLF001

    def again(
        self,
        result: Result,
        text: str,
        parameters: Sequence[Any] | Mapping[str, Any],
        named: Mapping[str, Any],
    ) -> Any:
        """Run a query on the rows of a result."""
        return answered(text, Queried(result, self.made, self.creds, named), parameters, Limits())

    def stored(self, result: Result, dest: Any, *, overwrite: bool) -> Any:
        """Store a result as a dataset and commit it."""
        relation = result.relation
        made = self.made(places.make(dest, overwrite=overwrite))
        with made:
            for name in relation.names:
                runs = list(relation.copied(name, np.arange(len(relation))) or ())
                model = _model(runs, self)
                if model is None:
                    _store_column(made, relation, name, result)
                    continue
                tensor = made.create_tensor_like(name, model)
                for source, own, rows in runs:
                    if source is None:
                        tensor.extend([None] * len(rows))
                    else:
                        tensor.extend(self.tensor(source, own)[rows.tolist()])
        made.commit(f"query: {result.query_text}")
        return made


def _asked(one: Any) -> Table | Relation:
    """Return the rows of a dataset or of a result."""
    if isinstance(one, Result):
        return keys_once(one.relation)
    if one.index.inside:
        raise InvalidInputError(
            "a query reads whole samples, but this view shows a part of each: query the rows, ds[rows].query(...), and "
            "select the part in the query (SELECT image[0:2]) or from its result"
        )
    table: Table = one._table()  # noqa: SLF001
    return table


def answered(
    text: str,
    queried: Queried,
    parameters: Sequence[Any] | Mapping[str, Any],
    limits: Limits,
    ways: Ways | None = None,
    engine: str = "local",
) -> Any:
    """Run a query; return a view if the query selects rows and tensors, else a result.

    Raises
    ------
    InvalidInputError
        If the engine is unknown.
    """
    if engine == "ray":
        from lakebed.engines import on_ray

        found = on_ray.answer(text, queried.sources(), parameters, limits, ways or Ways())
    elif engine == "local":
        found = run.run(text, queried.sources(), parameters, limits, ways)
    else:
        raise InvalidInputError(f"engine is 'local' or 'ray', not {engine!r}")
    return facade(found, text, queried)


def filtered(text: str, queried: Queried, parameters: Sequence[Any] = ()) -> Any:
    """Return the view of the rows for which an expression is true."""
    return facade(run.filtered(text, queried.sources(), parameters=parameters), text, queried)


def facade(relation: Relation, text: str, queried: Queried) -> Any:
    """Return a relation as users see it: a view of a dataset if it is one, else a result."""
    if isinstance(relation, Stored):
        owner = queried.owner(relation.table)
        table = relation.as_table()
        columns: Columns = owner._columns  # noqa: SLF001
        if relation.table is not queried.whole and tuple(table.names) != tuple(owner._names()):  # noqa: SLF001
            shown = columns if isinstance(columns, dict) else None
            columns = tuple(table.names) if shown is None else {name: shown[name] for name in table.names}
        view = type(owner)(owner._handle, owner._group, table.index, columns)  # noqa: SLF001
        view._query_text = text  # noqa: SLF001
        return view

    return Result(relation, text, queried)


def kept_rows(
    dataset: Any, function: Callable[..., Any], workers: int, scheduler: str, *, progressbar: bool
) -> list[int]:
    """Return the rows for which a function is true, in order.

    Raises
    ------
    InvalidInputError
        If the scheduler is unknown, ``function`` is not callable, or it returns no truth value.
    """
    from lakebed.transforms.function import Pipeline

    if scheduler not in ("serial", "threaded", "processed", "ray"):
        raise InvalidInputError(f"scheduler is 'serial' or 'threaded', not {scheduler!r}")
    if not callable(function):
        raise InvalidInputError(f"filter takes a function or an expression, not {type(function).__name__}")
    rows = range(len(dataset._table().shared_rows()))  # noqa: SLF001

    def keeps(row: int) -> bool:
        sample = dataset[row]
        found = function(sample)
        if isinstance(found, Pipeline):  # a function of `lakebed.compute` that was not called
            found = function()(sample)
        return _truth(found, row)

    is_serial = workers < 2 or scheduler == "serial"
    found, step = list[int](), 1 if is_serial else _BATCH
    with (
        rows_bar("Filtering", len(rows), shown=progressbar) as advance,
        ThreadPoolExecutor(workers or 1) as pool,
    ):
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            kept = map(keeps, part) if is_serial else pool.map(keeps, part)
            found += [row for row, is_kept in zip(part, kept, strict=True) if is_kept]
            advance(len(part))
    return found


def _truth(found: Any, row: int) -> bool:
    if hasattr(found, "numpy"):
        found = found.numpy()
    if isinstance(found, bool | int | float | np.generic):
        return bool(found)
    if isinstance(found, np.ndarray) and found.size == 1 and found.dtype.kind in "biuf":
        return bool(found.item())
    what = f"an array of shape {found.shape}" if isinstance(found, np.ndarray) else f"{found!r:.80}"
    raise InvalidInputError(
        f"the function of filter returned {what} for row {row}: it must return True or False, or one number"
    )


# -- storing ---------------------------------------------------------------------------------------------------------


def _model(runs: Sequence[Run], queried: Queried) -> Any:
    """Return the tensor whose settings suit all runs of a column; None if the sources hold different kinds of values.

    If the files differ in compression, the tensor is one whose compression keeps all pixels of the others.
    """
    found: dict[tuple[int, str], tuple[Any, Info]] = {}
    for source, name, _ in runs:
        if source is not None and (id(source.table), name) not in found:
            info = replace(source.infos[name], rank=None, cost=1.0, are_nulls_apart=False)
            found[id(source.table), name] = queried.tensor(source, name), info
    tensors = [tensor for tensor, _ in found.values()]
    if len({(tensor.htype, info) for tensor, info in found.values()}) != 1:
        return None
    if len({tensor.meta.sample_compression for tensor in tensors}) == 1:
        return tensors[0]
    return next((tensor for tensor in tensors if keeps_values(tensor.meta.sample_compression)), None)


def _store_column(made: Any, relation: Relation, name: str, result: Result) -> None:
    info: Info = relation.infos[name]
    column = result.column(name)
    tensor: Any = None
    for start in range(0, len(result), _BATCH):
        values = column[start : start + _BATCH].once()
        if tensor is None:
            with any_name():
                tensor = made.create_tensor(name, **_settings(info, values))
        tensor.extend(values)
    if tensor is None:
        with any_name():
            made.create_tensor(name, **_settings(info, []))


def _settings(info: Info, values: Sequence[Any]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, str) for value in known):
        return {"htype": "text"}
    if known and not all(isinstance(value, np.ndarray | np.generic | int | float) for value in known):
        return {"htype": "json"}
    if not known:
        return {"htype": {"text": "text", "json": "json"}.get(info.kind, "generic")}
    dtype = np.asarray(known[0]).dtype
    if info.class_names is not None and dtype.kind in "iu":
        return {"htype": "class_label", "class_names": list(info.class_names), "dtype": dtype}
    return {"htype": "generic", "dtype": dtype}
