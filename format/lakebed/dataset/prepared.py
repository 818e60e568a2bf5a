"""Queries that are read and checked once, and answered for values as often as they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakebed.dataset.queries import Queried, facade
from lakebed.errors import QueryError
from lakebed.query import run
from lakebed.query.functions.spaces import Ways
from lakebed.query.language.parameters import Given, values_of
from lakebed.query.language.parser import parse
from lakebed.query.run import explained
from lakebed.query.values.limits import Limits

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
        """How many values it takes: that of its ``?``, or of the names ``$name`` in it."""
        return self._query.parameters

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its values, in the order in which they first stand in it; none where it has ``?``."""
        return tuple(name for name, _ in self._query.named)

    def run(self, /, *parameters: Any, **named: Any) -> Dataset | Result:
        """Answer it.

        Parameters
        ----------
        parameters
            A value for each ``?``, in order: numbers, texts, dates, arrays, lists, None.
        named
            A value for each ``$name``: ``prepared.run(kind="wren")``, or ``prepared.run({"kind": "wren"})``.

        Returns
        -------
        What ``ds.query`` returns.

        Raises
        ------
        QueryError
            If the values are too few or too many, or do not fit, or a limit is reached.
        """
        return self._answered(self._given(parameters, named), self._queried())

    def run_many(self, parameters: Iterable[Given]) -> list[Dataset | Result]:
        """Answer it for several sets of values, all of them from the same rows.

        Parameters
        ----------
        parameters
            ``[[0.5, "wren"], [0.7, "kite"]]``: a value for each ``?``, for each run; dictionaries for ``$name``.

        Returns
        -------
        What :meth:`run` returns, for each of them.

        Raises
        ------
        QueryError
            As of :meth:`run`; it says which set of values it is about. Where values are missing, nothing is run.
        """
        sets = [values if isinstance(values, Mapping) else list(values) for values in parameters]
        for number, values in enumerate(sets):
            with _told_of(number):
                values_of(self.query_text, self._query, values)
        queried = self._queried()
        found: list[Dataset | Result] = []
        for number, values in enumerate(sets):
            with _told_of(number):
                found.append(self._answered(values, queried))
        return found

    def explain(self, /, *parameters: Any, analyze: bool = False, **named: Any) -> str:
        """Tell how it would be answered.

        Parameters
        ----------
        parameters, named
            Its values, as of :meth:`run`; none at all where they are not known.
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
        given = self._given(parameters, named)
        values = given if given or analyze or not self.count else None
        return explained(self.query_text, self._queried().sources(), values, self._limits, analyze=analyze)

    def _given(self, parameters: tuple[Any, ...], named: dict[str, Any]) -> Given:
        """Return the values of a call: a mapping where the query names them."""
        if self._query.named and not named and len(parameters) == 1 and isinstance(parameters[0], Mapping):
            only: Mapping[str, Any] = parameters[0]
            return only
        if parameters and named:
            raise QueryError("values are given in order or by their names, not both", kind="arity")
        return named or parameters

    def _answered(self, parameters: Given, queried: Queried) -> Dataset | Result:
        found = run.run_parsed(
            self.query_text, self._query, queried.sources(), parameters, self._limits, self._ways
        )
        answer: Dataset | Result = facade(found, self.query_text, queried)
        return answer

    def __repr__(self) -> str:
        return f"Prepared({self.query_text!r}, {self.count} parameters)"


@contextmanager
def _told_of(number: int) -> Iterator[None]:
    """Let an error say which set of values it is about."""
    try:
        yield
    except QueryError as error:
        raise QueryError(f"values {number}: {error}", kind=error.kind, row=error.row) from error
