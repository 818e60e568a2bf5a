"""Module-level queries: those that name their datasets in FROM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakebed.api import check_options
from lakebed.dataset.dataset import Dataset
from lakebed.dataset.queries import Queried, answered
from lakebed.query.explain import explained
from lakebed.query.limits import Limits

if TYPE_CHECKING:
    from lakebed.query.result import Result


def query(
    query_string: str,
    token: str = "",
    *,
    parameters: Sequence[Any] = (),
    timeout: float | None = None,
    max_memory: int | None = 4 << 30,
    max_rows: int | None = None,
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
        Values for the ``?`` in the query, in order.
    timeout
        Seconds after which it gives up; None for never.
    max_memory
        Bytes of sort keys, groups and pairs that it may hold.
    max_rows
        Rows that the result may have.
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
    found: Dataset | Result = answered(query_string, Queried(None, Dataset), parameters, limits)
    return found


def explain(query_string: str, parameters: Sequence[Any] = (), *, analyze: bool = False) -> str:
    """Tell how a query would be answered; nothing but metadata is read.

    Parameters
    ----------
    query_string
        The query.
    parameters
        Values for the ``?`` in it.
    analyze
        Answer it, and tell what that took; also where it begins with ``EXPLAIN ANALYZE``.

    Returns
    -------
    A line for each step, with the conditions in the order in which they are asked, what they read, and how many chunks
    of each column statistics leave.

    Raises
    ------
    QueryError
        If it does not fit the data.
    """
    return explained(query_string, Queried(None, Dataset).sources(), parameters, analyze=analyze)
