"""Queries that are read and checked once, and answered for values as often as they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lakebed.dataset.queries import Queried, facade
from lakebed.errors import QueryError
from lakebed.query import run
from lakebed.query.explain import explained
from lakebed.query.limits import Limits, Ways
from lakebed.query.parser import parse

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset
    from lakebed.query.result import Result


class Prepared:
    """A query whose values are given when it is run; made by ``ds.prepare`` and ``lakebed.query.prepare``.

    It is read once, and checked: names that do not exist and types that do not go together raise when it is made. Each
    run asks the dataset as it is then: rows that were appended are among them, and a schema that has changed is looked
    up anew. Datasets of FROM are opened by each run.

    Parameters
    ----------
    text
        The query.
    queried
        Returns what it asks.
    """

    def __init__(self, text: str, queried: Callable[[], Queried], limits: Limits, ways: Ways) -> None:
        self.query_text = text
        self._query = parse(text, depth=limits.depth)
        self._queried = queried
        self._limits = limits
        self._ways = ways
        run.checked(text, self._query, queried().sources(), limits, ways)

    @property
    def count(self) -> int:
        """How many values it takes: that of its ``?``."""
        return self._query.parameters

    def run(self, *parameters: Any) -> Dataset | Result:
        """Answer it.

        Parameters
        ----------
        parameters
            A value for each ``?``, in order: numbers, texts, dates, arrays, lists, None.

        Returns
        -------
        What ``ds.query`` returns.

        Raises
        ------
        QueryError
            If the values are too few or too many, or do not fit, or a limit is reached.
        """
        return self._answered(parameters, self._queried())

    def run_many(self, parameters: Iterable[Sequence[Any]]) -> list[Dataset | Result]:
        """Answer it for several sets of values, all of them from the same rows.

        Parameters
        ----------
        parameters
            ``[[0.5, "wren"], [0.7, "kite"]]``: a value for each ``?``, for each run.

        Returns
        -------
        What :meth:`run` returns, for each of them.

        Raises
        ------
        QueryError
            As of :meth:`run`; it says which set of values it is about. Where their number is wrong, nothing is run.
        """
        sets = [list(values) for values in parameters]
        for number, values in enumerate(sets):
            if len(values) != self.count:
                raise QueryError(
                    f"values {number}: the query has {self.count} parameters (?), and {len(values)} values were given",
                    kind="arity",
                )
        queried = self._queried()
        found: list[Dataset | Result] = []
        for number, values in enumerate(sets):
            try:
                found.append(self._answered(values, queried))
            except QueryError as error:
                raise QueryError(f"values {number}: {error}", kind=error.kind, row=error.row) from error
        return found

    def explain(self, *parameters: Any, analyze: bool = False) -> str:
        """Tell how it would be answered.

        Parameters
        ----------
        parameters
            A value for each ``?``; none at all where they are not known.
        analyze
            Answer it, and tell what that took; this needs the values.

        Returns
        -------
        A line for each step.

        Raises
        ------
        QueryError
            If the values are too few or too many.
        """
        if (parameters or analyze) and len(parameters) != self.count:
            raise QueryError(
                f"the query has {self.count} parameters (?), and {len(parameters)} values were given",
                kind="arity",
            )
        values = parameters if parameters or not self.count else None
        sources = self._queried().sources()
        return explained(self.query_text, sources, values, self._limits, analyze=analyze)

    def _answered(self, parameters: Sequence[Any], queried: Queried) -> Dataset | Result:
        found = run.run_parsed(
            self.query_text, self._query, queried.sources(), parameters, self._limits, self._ways
        )
        answer: Dataset | Result = facade(found, self.query_text, queried)
        return answer

    def __repr__(self) -> str:
        return f"Prepared({self.query_text!r}, {self.count} parameters)"
