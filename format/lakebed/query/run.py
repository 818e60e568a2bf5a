"""Queries from text to result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.engine.execute import Execution
from lakebed.query.engine.limits import Limits, Watch, Ways
from lakebed.query.engine.relation import Relation
from lakebed.query.engine.sources import Sources
from lakebed.query.explain import Plan, asks_for_plan, explained
from lakebed.query.functions.numeric import weights_of
from lakebed.query.language import syntax
from lakebed.query.language.parameters import Given, values_of
from lakebed.query.language.parser import parse, parse_expression
from lakebed.query.values.columns import ticking

if TYPE_CHECKING:
    from lakebed.session.table import Table


def run(
    text: str,
    sources: Sources,
    parameters: Given = (),
    limits: Limits | None = None,
    ways: Ways | None = None,
) -> Relation:
    """Answer a query.

    Parameters
    ----------
    parameters
        Values of the ``?`` in order, or of each ``$name``.
    ways
        Where vectors are computed, and whether indexes are used.

    Raises
    ------
    QueryError
        If it is no query, does not fit the data, or a limit is reached.
    """
    limits = limits or Limits()
    asked = asks_for_plan(text)
    if asked is not None:
        return Plan(explained(text, sources, parameters, limits).splitlines())
    query = parse(text, depth=limits.depth)
    return run_parsed(text, query, sources, parameters, limits, ways)


def run_parsed(
    text: str,
    query: syntax.Query,
    sources: Sources,
    parameters: Given,
    limits: Limits,
    ways: Ways | None = None,
) -> Relation:
    """Answer a query that was read before; see :func:`run`."""
    values = values_of(text, query, parameters)
    watch = Watch(limits)
    with ticking(watch.tick), watch.waiting():
        try:
            found = Execution(text, sources, values, watch, ways=ways).run(query)
        except MemoryError as error:
            raise QueryError(
                f"the query needs more memory than there is ({error}): choose fewer rows, or pass the "
                "max_memory= that the machine has",
                kind="limit",
            ) from error
    watch.result(len(found))
    return found


def checked(
    text: str, query: syntax.Query, sources: Sources, limits: Limits, ways: Ways | None = None
) -> None:
    """Check a query whose parameters are not known yet: names are found, and types go together.

    Raises
    ------
    QueryError
        If it does not fit the data.
    """
    watch = Watch(limits)
    with watch.waiting():
        Execution(text, sources, None, watch, is_dry=True, ways=ways).run(query)


def filtered(text: str, sources: Sources, limits: Limits | None = None, parameters: Given = ()) -> Relation:
    """Return the rows of the dataset for which an expression is true; it may be spelt in Python, as in 3.x."""
    try:
        return _filtered(text, sources, limits, parameters)
    except QueryError as error:
        if error.kind not in ("syntax", "unknown_column", "unknown_function", "unknown_source"):
            raise
        from lakebed.query.language.python_filters import translated

        try:
            if (spelt := translated(text)) is not None:
                return _filtered(spelt, sources, limits, parameters)
        except QueryError:
            if error.kind == "syntax":
                raise
        raise


def _filtered(text: str, sources: Sources, limits: Limits | None, parameters: Given) -> Relation:
    limits = limits or Limits()
    condition = parse_expression(text, depth=limits.depth)
    item = syntax.Item(None, None, None, (), 0)
    select = syntax.Select((item,), None, condition, None, (), None, None, False, (), None, 0)
    return run_parsed(text, syntax.Query(select, parameters=len(parameters)), sources, parameters, limits)


def weights(
    text: str, sources: Sources, limits: Limits | None = None, parameters: Given = ()
) -> NDArray[np.float64]:
    """Return the value of an expression for each row of the dataset: float64, shape (rows,)."""
    limits = limits or Limits()
    condition = parse_expression(text, depth=limits.depth)
    item = syntax.Item(condition, "weight", None, (), 0)
    select = syntax.Select((item,), None, None, None, (), None, None, False, (), None, 0)
    query = syntax.Query(select, parameters=len(parameters))
    relation = run_parsed(text, query, sources, parameters, limits)
    found = [weights_of(relation.read("weight", window)) for window in relation.windows(["weight"])]
    return np.concatenate(found) if found else np.zeros(0)


def table_of(relation: Relation) -> Table | None:
    """Return a result that is a selection of rows and tensors as a table; None if columns are computed."""
    from lakebed.query.engine.relation import Stored

    return relation.as_table() if isinstance(relation, Stored) else None
