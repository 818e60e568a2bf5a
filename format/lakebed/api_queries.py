"""Module-level queries: those that name their datasets in FROM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakebed.api import check_options
from lakebed.dataset.dataset import Dataset
from lakebed.dataset.prepared import Prepared
from lakebed.dataset.queries import Queried, answered
from lakebed.query.functions.spaces import Ways, space_of
from lakebed.query.run import explained
from lakebed.query.values.limits import Limits

if TYPE_CHECKING:
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
    **options: Any,
) -> Dataset | Result:
    """Answer a query in the tensor query language that names its datasets.

    Parameters
    ----------
    query_string
        ``'SELECT * FROM "s3://lake/birds"@v1 WHERE wingspan > 1'``.
    token
        Of 3.x; without a meaning here.
    parameters
        Values for the ``?`` in the query, in order; a dictionary for those that it names, ``$name``.
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
        Credentials of the buckets that FROM names, as of ``lakebed.load``; None finds them as that does. Datasets on
        disks and in buckets go together.
    options
        Further arguments of the 3.x call that have no meaning here.

    Returns
    -------
    A view of the dataset where rows and tensors are chosen; a ``Result``, which reads alike, where columns are
    computed, or come from several datasets.

    Raises
    ------
    QueryError
        If it does not fit the data, or a limit is reached.
    QuerySyntaxError
        If it is no query; the message points at the place.
    """
    del token
    check_options(options)
    limits = Limits(seconds=timeout, memory=max_memory, rows=max_rows)
    ways = Ways(exact, space_of(namespace, device))
    found: Dataset | Result = answered(query_string, Queried(None, Dataset, creds), parameters, limits, ways)
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
) -> Prepared:
    """Read and check a query that names its datasets, whose values are given later: ``lakebed.query.prepare``.

    Parameters
    ----------
    query_string
        ``'SELECT * FROM "birds" WHERE wingspan > ?'``; each ``?`` is a value.
    timeout, max_memory, max_rows, exact, namespace, device, creds
        Of each run, as of :func:`query`.

    Returns
    -------
    What is run: ``prepared.run(0.5)``, ``prepared.run_many([[0.5], [0.7]])``.

    Raises
    ------
    QueryError
        If it does not fit the data.
    QuerySyntaxError
        If it is no query.

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
    limits = Limits(seconds=timeout, memory=max_memory, rows=max_rows)
    return Prepared(
        query_string, lambda: Queried(None, Dataset, creds), limits, Ways(exact, space_of(namespace, device))
    )


def explain(
    query_string: str,
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    *,
    analyze: bool = False,
    creds: Creds | None = None,
) -> str:
    """Tell how a query would be answered; nothing but metadata is read.

    Parameters
    ----------
    query_string
        The query.
    parameters
        Values for the ``?``, or each ``$name``, in it.
    analyze
        Answer it, and tell what that took; also where it begins with ``EXPLAIN ANALYZE``.
    creds
        As of :func:`query`.

    Returns
    -------
    A line for each step, with the conditions in the order in which they are asked, what they read, and how many chunks
    of each column statistics leave.

    Raises
    ------
    QueryError
        If it does not fit the data.
    """
    return explained(query_string, Queried(None, Dataset, creds).sources(), parameters, analyze=analyze)
