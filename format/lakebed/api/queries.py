"""Module-level functions for queries, which name their datasets in FROM."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lakebed.api.datasets import check_options, load
from lakebed.dataset.dataset import Dataset
from lakebed.dataset.prepared import Prepared
from lakebed.dataset.queries import Queried, answered, settings
from lakebed.query.run import explained

if TYPE_CHECKING:
    import duckdb

    from lakebed.query.result import Result
    from lakebed.storage.credentials import Creds


def query(
    query_string: str,
    token: str = "",
    *,
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    timeout: float | None = None,
    max_memory: int | None = 4 << 30,
    max_rows: int | None = None,
    exact: bool = False,
    namespace: str | None = None,
    device: str | None = None,
    creds: Creds | None = None,
    engine: Literal["local", "ray"] = "local",
    **options: Any,
) -> Dataset | Result:
    """Answer a query in the tensor query language, whose FROM names datasets.

    Parameters
    ----------
    query_string
        ``'SELECT * FROM "s3://lake/birds"@v1 WHERE wingspan > 1'``.
    token
        Accepted for compatibility.
    parameters, timeout, max_memory, max_rows, exact, namespace, device, engine
        As for :meth:`lakebed.Dataset.query`.
    creds
        Credentials of the buckets that FROM names, as for ``lakebed.load``. Datasets on disks and in buckets may be
        mixed.
    options
        Other arguments of the 3.x call, which have no effect.

    Returns
    -------
    A view of the dataset if the query selects rows and tensors; a ``Result``, which is read in the same way, if it
    computes columns or takes them from several datasets.

    Raises
    ------
    QueryError
        If the query does not fit the data, or a limit is exceeded.
    QuerySyntaxError
        If the text cannot be parsed; the message points at the position.
    """
    del token
    check_options(options)
    how = settings(timeout, max_memory, max_rows, exact, namespace, device)
    found: Dataset | Result = answered(query_string, Queried(None, Dataset, creds), parameters, *how, engine)
    return found


def prepare(
    query_string: str,
    *,
    timeout: float | None = None,
    max_memory: int | None = 4 << 30,
    max_rows: int | None = None,
    exact: bool = False,
    namespace: str | None = None,
    device: str | None = None,
    creds: Creds | None = None,
) -> Prepared[Dataset]:
    """Parse and check a query that names its datasets, to run it later with values: ``lakebed.query.prepare``.

    Parameters
    ----------
    query_string
        ``'SELECT * FROM "birds" WHERE wingspan > ?'``; each ``?`` stands for a value.
    timeout, max_memory, max_rows, exact, namespace, device, creds
        Settings of each run, as for :func:`query`.

    Returns
    -------
    The prepared query: ``prepared.run(0.5)``, ``prepared.run_many([[0.5], [0.7]])``.

    Raises
    ------
    QueryError
        If the query does not fit the data.
    QuerySyntaxError
        If the text is not a query.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://prepare-example")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> ds.extend({"x": [1, 2, 3]})
    >>> above = lakebed.query.prepare('SELECT * FROM "mem://prepare-example" WHERE x > ?')
    >>> [len(found) for found in above.run_many([[0], [2]])]
    [3, 1]
    """
    how = settings(timeout, max_memory, max_rows, exact, namespace, device)
    return Prepared(query_string, lambda: Queried(None, Dataset, creds), *how)


def explain(
    query_string: str,
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    *,
    analyze: bool = False,
    creds: Creds | None = None,
) -> str:
    """Describe how a query would be answered; only metadata is read.

    Parameters
    ----------
    query_string
        The query.
    parameters
        Values for each ``?`` or each ``$name`` in the query.
    analyze
        Also run the query, and report times and amounts of data; ``EXPLAIN ANALYZE`` before the query has the same
        effect.
    creds
        As for :func:`query`.

    Returns
    -------
    A line for each step: the conditions in the order of their evaluation, the columns that they read, and for each
    column the number of chunks that statistics do not rule out.

    Raises
    ------
    QueryError
        If the query does not fit the data.
    """
    return explained(query_string, Queried(None, Dataset, creds).sources(), parameters, analyze=analyze)


def sql(
    query_string: str,
    /,
    *,
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    connection: duckdb.DuckDBPyConnection | None = None,
    creds: Creds | None = None,
    **tables: Dataset,
) -> duckdb.DuckDBPyRelation | None:
    """Answer a statement in the SQL of DuckDB about datasets, and about other sources that DuckDB reads.

    Only the columns and rows of a dataset that the statement needs are read, in batches.

    Parameters
    ----------
    query_string
        ``"SELECT label, count(*) FROM lake('s3://lake/photos') GROUP BY label"``: ``lake`` takes the address of a
        dataset, with a branch, commit or tag after @. Variables of the caller that are datasets are tables, too.
    parameters
        Values of ``?``, or of ``$name``.
    connection
        Connection of DuckDB, in which the tables then stay; None opens a new connection in memory.
    creds
        Credentials of the buckets, as for ``lakebed.load``.
    tables
        Datasets, by the names that the statement uses for them.

    Returns
    -------
    A relation of DuckDB, which reads the data when its rows are fetched; None if the statement is of a kind that
    returns no rows. Class labels are returned by name, files as bytes, and links as addresses.

    Raises
    ------
    ModuleNotInstalledException
        If DuckDB is not installed.
    InvalidInputError
        If ``lake`` is called with anything but one address in single quotes.
    """
    from lakebed.engines.sql import tables_of
    from lakebed.reading.columns.frames import needed

    where = needed("duckdb", "lakebed.sql").connect() if connection is None else connection
    statement, addresses, words = tables_of(query_string)
    caller = sys._getframe(1)  # noqa: SLF001 - DuckDB takes the variables of its caller for tables, too
    variables = {**caller.f_globals, **caller.f_locals}
    found = {name: each for name in words if isinstance(each := variables.get(name), Dataset)} | tables
    found |= {address: load(address, read_only=True, creds=creds) for address in addresses}
    for name, dataset in found.items():
        dataset.to_duckdb(connection=where).create_view(name)
    relation: duckdb.DuckDBPyRelation | None = where.sql(statement, params=parameters or None)
    return relation
