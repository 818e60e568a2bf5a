"""Prepared queries: parsed and checked once, then run with any number of sets of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lakebed.dataset.queries import Queried, facade
from lakebed.errors import QueryError
from lakebed.query import run
from lakebed.query.functions.spaces import Ways
from lakebed.query.language.parameters import Given, values_of
from lakebed.query.language.parser import parse
from lakebed.query.run import explained
from lakebed.query.values.limits import Limits

if TYPE_CHECKING:
    from lakebed.query.result import Result

D = TypeVar("D")
"""Class of the dataset that a query of rows returns."""


class Prepared(Generic[D]):
    """A query whose values are passed to each run; made by ``ds.prepare`` and ``lakebed.query.prepare``.

    The query is parsed and checked once, when it is prepared: unknown names and incompatible types raise an error then.
    Each run reads the dataset's present schema and rows, and opens the datasets that FROM names.

    Parameters
    ----------
    text
        The query.
    queried
        Returns the source of the query's rows.
    """

    def __init__(self, text: str, queried: Callable[[], Queried], limits: Limits, ways: Ways) -> None:
        self.query_text = text
        self._query = parse(text)
        self._queried = queried
        self._limits = limits
        self._ways = ways
        run.checked(text, self._query, queried().sources(), limits, ways)

    @property
    def count(self) -> int:
        """Number of values that the query needs: one for each ``?``, or for each ``$name``."""
        return self._query.parameters

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the values, in the order of their first use; empty if the query has ``?``."""
        return tuple(name for name, _ in self._query.named)

    def run(self, /, *parameters: Any, **named: Any) -> D | Result:
        """Run the query with the given values.

        Parameters
        ----------
        parameters
            A value for each ``?``, in order: numbers, texts, dates, arrays, lists, None.
        named
            A value for each ``$name``: ``prepared.run(kind="wren")``, or ``prepared.run({"kind": "wren"})``.

        Returns
        -------
        The result of ``ds.query``.

        Raises
        ------
        QueryError
            If the values are too few or too many, or do not fit, or a limit is exceeded.
        """
        return self._answered(self._given(parameters, named), self._queried())

    def run_many(self, parameters: Iterable[Given]) -> list[D | Result]:
        """Run the query for several sets of values, all on the same state of the rows.

        Parameters
        ----------
        parameters
            ``[[0.5, "wren"], [0.7, "kite"]]``: a value for each ``?``, for each run; dictionaries for ``$name``.

        Returns
        -------
        The result of :meth:`run` for each set.

        Raises
        ------
        QueryError
            As for :meth:`run`; the message names the set of values. If values are missing, nothing is run.
        """
        sets = [values if isinstance(values, Mapping) else list(values) for values in parameters]
        for number, values in enumerate(sets):
            with _told_of(number):
                values_of(self.query_text, self._query, values)
        queried = self._queried()
        found: list[D | Result] = []
        for number, values in enumerate(sets):
            with _told_of(number):
                found.append(self._answered(values, queried))
        return found

    def explain(self, /, *parameters: Any, analyze: bool = False, **named: Any) -> str:
        """Describe how the query would be run.

        Parameters
        ----------
        parameters, named
            Values of the query, as for :meth:`run`; pass no values if they are unknown.
        analyze
            Also run the query, and report times and amounts of data; this needs the values.

        Returns
        -------
        A line for each step.

        Raises
        ------
        QueryError
            If the values are too few or too many.
        """
        given = self._given(parameters, named)
        values = given if given or analyze or not self.count else None
        return explained(self.query_text, self._queried().sources(), values, self._limits, analyze=analyze)

    def _given(self, parameters: tuple[Any, ...], named: dict[str, Any]) -> Given:
        """Return the values of a call: a mapping if the query names them."""
        if self._query.named and not named and len(parameters) == 1 and isinstance(parameters[0], Mapping):
            only: Mapping[str, Any] = parameters[0]
            return only
        if parameters and named:
            raise QueryError("values are given in order or by their names, not both", kind="arity")
        return named or parameters

    def _answered(self, parameters: Given, queried: Queried) -> D | Result:
        found = run.run_parsed(
            self.query_text, self._query, queried.sources(), parameters, self._limits, self._ways
        )
        answer: D | Result = facade(found, self.query_text, queried)
        return answer

    def __repr__(self) -> str:
        return f"Prepared({self.query_text!r}, {self.count} parameters)"


@contextmanager
def _told_of(number: int) -> Iterator[None]:
    """Add the number of the set of values to errors inside the block."""
    try:
        yield
    except QueryError as error:
        raise QueryError(f"set {number} of the values: {error}", kind=error.kind, row=error.row) from error
