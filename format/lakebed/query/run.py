"""Running of queries: a text gives a result, a filter, weights, or an explanation (EXPLAIN, EXPLAIN ANALYZE)."""

from __future__ import annotations

import re
import time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.engine.execution import Execution
from lakebed.query.engine.sources import Sources
from lakebed.query.functions.numeric import weights_of
from lakebed.query.functions.spaces import Ways
from lakebed.query.language import syntax
from lakebed.query.language.parameters import Given, values_of
from lakebed.query.language.parser import parse, parse_expression
from lakebed.query.relations.relation import Relation
from lakebed.query.values.columns import Column, Rows, Texts
from lakebed.query.values.info import TEXT
from lakebed.query.values.limits import Limits, Watch, ticking
from lakebed.runtime.printable import printable

_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s+ANALYZE\b)?", re.IGNORECASE)


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
        Use of indexes, and the library that computes vectors.

    Raises
    ------
    QueryError
        If the text is not a query, does not fit the data, or a limit is reached.
    """
    limits = limits or Limits()
    if _EXPLAIN.match(text):
        return _Plan(explained(text, sources, parameters, limits).splitlines())
    query = parse(text)
    return run_parsed(text, query, sources, parameters, limits, ways)


def run_parsed(
    text: str,
    query: syntax.Query,
    sources: Sources,
    parameters: Given,
    limits: Limits,
    ways: Ways | None = None,
) -> Relation:
    """Answer a query that was parsed before; see :func:`run`."""
    values = values_of(text, query, parameters)
    watch = Watch(limits)
    with ticking(watch.tick), watch.waiting():
        try:
            found = Execution(text, sources, values, watch, ways=ways).run(query)
        except MemoryError as error:
            raise QueryError(
                f"the query ran out of memory ({error}): choose fewer rows, or pass the "
                "max_memory= that the machine has",
                kind="limit",
            ) from error
    watch.result(len(found))
    return found


def checked(
    text: str, query: syntax.Query, sources: Sources, limits: Limits, ways: Ways | None = None
) -> None:
    """Check a query whose parameters are not known yet; raise `QueryError` if a name is unknown or types do not fit."""
    watch = Watch(limits)
    with watch.waiting():
        Execution(text, sources, None, watch, is_dry=True, ways=ways).run(query)


def filtered(text: str, sources: Sources, parameters: Given = ()) -> Relation:
    """Return the rows for which an expression is true; the expression may be a Python filter, as in 3.x."""
    try:
        return _filtered(text, sources, parameters)
    except QueryError as error:
        if error.kind not in ("syntax", "unknown_column", "unknown_function", "unknown_source"):
            raise
        from lakebed.query.language.python_filters import translated

        try:
            if (translation := translated(text)) is not None:
                return _filtered(translation, sources, parameters)
        except QueryError:
            if error.kind == "syntax":
                raise
        raise


def _filtered(text: str, sources: Sources, parameters: Given) -> Relation:
    condition = parse_expression(text)
    query = _selecting(syntax.Item(None, None, None, (), 0), condition, parameters)
    return run_parsed(text, query, sources, parameters, Limits())


def weights(text: str, sources: Sources, parameters: Given = ()) -> NDArray[np.float64]:
    """Return the value of an expression for each row: float64, shape (rows,)."""
    weight = parse_expression(text)
    query = _selecting(syntax.Item(weight, "weight", None, (), 0), None, parameters)
    relation = run_parsed(text, query, sources, parameters, Limits())
    found = [weights_of(relation.read("weight", window)) for window in relation.windows(["weight"])]
    return np.concatenate(found) if found else np.zeros(0)


def _selecting(item: syntax.Item, where: syntax.Expression | None, parameters: Given) -> syntax.Query:
    select = syntax.Select((item,), None, where, None, (), None, None, False, (), None, 0)
    return syntax.Query(select, parameters=len(parameters))


def explained(
    text: str,
    sources: Sources,
    parameters: Given | None = (),
    limits: Limits | None = None,
    *,
    analyze: bool = False,
) -> str:
    """Return the plan of a query as lines of text; only metadata are read.

    Parameters
    ----------
    parameters
        Values of the ``?``, or of each ``$name``; None while they are not known.
    analyze
        True to run the query and add its running time.

    Raises
    ------
    QueryError
        If the text is not a query, or does not fit the data.
    """
    asked = _EXPLAIN.match(text)
    if asked is not None:
        # Replace EXPLAIN with spaces so that error positions still match the original text.
        text, analyze = " " * asked.end() + text[asked.end() :], analyze or asked.group(1) is not None
    limits = limits or Limits()
    query = parse(text)
    values = None if parameters is None else values_of(text, query, parameters)
    watch = Watch(limits)
    execution = Execution(text, sources, values, watch, is_dry=not analyze, is_told=True)
    began, used = time.perf_counter(), time.process_time()
    with ticking(watch.tick), watch.waiting():
        found = execution.run(query)
    lines = [f"{'  ' * (depth - 1)}{printable(step)}" for depth, step in execution.context.steps]
    lines.append(printable(f"columns: {', '.join(found.names)}"))
    if analyze:
        wall, cpu = time.perf_counter() - began, time.process_time() - used
        lines.append(f"{len(found):,} rows in {wall * 1e3:,.1f} ms ({cpu * 1e3:,.1f} ms of CPU)")
    return "\n".join(lines)


class _Plan(Relation):
    """Lines of an explanation, in the column ``plan``."""

    def __init__(self, lines: list[str]) -> None:
        self.infos = {"plan": TEXT}
        self._lines = pa.array(lines, pa.string())

    def __len__(self) -> int:
        return len(self._lines)

    def read(self, name: str, places: Rows) -> Column:
        """Return some of the lines."""
        del name
        return Texts(self._lines.take(pa.array(list(places), pa.int64())))
