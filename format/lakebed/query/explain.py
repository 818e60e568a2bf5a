"""How queries are answered, as lines of text: EXPLAIN tells what is expected, EXPLAIN ANALYZE what it took."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import pyarrow as pa

from lakebed.query.binding.bound import TEXT
from lakebed.query.engine.execute import Execution
from lakebed.query.engine.limits import Limits, Watch
from lakebed.query.engine.relation import Relation
from lakebed.query.engine.sources import Sources
from lakebed.query.language.parameters import Given, values_of
from lakebed.query.language.parser import parse
from lakebed.query.values.columns import Column, Rows, Texts, ticking
from lakebed.runtime.printable import printable

_EXPLAIN = re.compile(r"\s*EXPLAIN\b(\s+ANALYZE\b)?", re.IGNORECASE)


class Plan(Relation):
    """Lines of text, in the column ``plan``."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.infos = {"plan": TEXT}
        self._lines = pa.array(lines, pa.string())

    def __len__(self) -> int:
        return len(self._lines)

    def read(self, name: str, places: Rows) -> Column:
        """Return some of the lines."""
        del name
        wanted = (
            range(len(self))[places.start : places.stop : places.step]
            if isinstance(places, range)
            else places
        )
        return Texts(self._lines.take(pa.array(list(wanted), pa.int64())))


def asks_for_plan(text: str) -> tuple[str, bool] | None:
    """Return the query behind EXPLAIN, its places as they were, and whether it is to be answered; None without one."""
    found = _EXPLAIN.match(text)
    if found is None:
        return None
    return " " * found.end() + text[found.end() :], found.group(1) is not None


def explained(
    text: str,
    sources: Sources,
    parameters: Given | None = (),
    limits: Limits | None = None,
    *,
    analyze: bool = False,
) -> str:
    """Return how a query would be answered, as lines of text; nothing but metadata is read.

    Parameters
    ----------
    parameters
        Values of the ``?``, or of each ``$name``; None while they are not known.
    analyze
        Answer it, and tell what that took.

    Raises
    ------
    QueryError
        If it is no query, or does not fit the data.
    """
    asked = asks_for_plan(text)
    if asked is not None:
        text, analyze = asked[0], analyze or asked[1]
    limits = limits or Limits()
    query = parse(text, depth=limits.depth)
    values = None if parameters is None else values_of(text, query, parameters)
    watch = Watch(limits)
    execution = Execution(text, sources, values, watch, is_dry=not analyze, is_told=True)
    began, used = time.perf_counter(), time.process_time()
    with ticking(watch.tick), watch.waiting():
        found = execution.run(query)
    lines = [f"{'  ' * (depth - 1)}{printable(step)}" for depth, step in execution.work.steps]
    lines.append(printable(f"columns: {', '.join(found.names)}"))
    if analyze:
        wall, cpu = time.perf_counter() - began, time.process_time() - used
        lines.append(f"{len(found):,} rows in {wall * 1e3:,.1f} ms ({cpu * 1e3:,.1f} ms of processors)")
    return "\n".join(lines)
