"""What expressions are bound in: a query, the columns that it may name, its parameters; constants are folded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from lakebed.errors import QueryError
from lakebed.query.binding.bound import Apply, Bound, Given, Info, Not, Value
from lakebed.query.binding.constants import python
from lakebed.query.binding.names import Names
from lakebed.query.engine.evaluate import folded
from lakebed.query.engine.limits import Watch
from lakebed.query.engine.relation import Relation
from lakebed.query.functions.spaces import NUMPY, Space
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error
from lakebed.query.values.columns import Column

Outer = Callable[[syntax.Name], Bound | None]
"""Returns what a name means in the query around one; None if nothing."""

Run = Callable[[syntax.Query, Outer | None, bool], Relation]
"""Answers a query inside another one; or checks it only, if the last argument is true."""


class Context(ABC):
    """One query and one relation.

    Parameters
    ----------
    text
        The query, for errors.
    relation
        What the names are columns of; DATA reads it.
    parameters
        Values of the ``?``; None while they are not known.
    run
        Answers a query inside this one.
    watch
        What the query has used.
    outer
        Finds names of the query around this one.
    is_dry
        Find names and check types, and answer no query inside this one.
    space
        Where vectors are computed.

    Attributes
    ----------
    aliases
        What SELECT computes -> its expression, where it may be named.
    later
        What SELECT computes -> the clause that does not know it yet.
    """

    def __init__(
        self,
        text: str,
        names: Names,
        relation: Relation,
        parameters: Sequence[Any] | None,
        run: Run,
        watch: Watch,
        *,
        outer: Outer | None = None,
        is_grouped: bool = False,
        is_dry: bool = False,
        space: Space = NUMPY,
    ) -> None:
        self.text = text
        self.names = names
        self.relation = relation
        self.parameters = parameters
        self.run = run
        self.watch = watch
        self.outer = outer
        self.is_grouped = is_grouped
        self.is_dry = is_dry
        self.space = space
        self.aliases: dict[str, syntax.Expression] = {}
        self.later: dict[str, str] = {}

    @abstractmethod
    def bind(self, node: syntax.Expression) -> Bound:
        """Return an expression over columns."""

    def error(self, at: int, kind: str, message: str) -> QueryError:
        """Return an error at a place."""
        return query_error(self.text, at, kind, message)

    def apply(
        self,
        name: str,
        compute: Callable[[Given], Column],
        operands: tuple[Bound, ...],
        info: Info,
        at: int,
        cost: float = 0.1,
        key: Callable[[Column], Column] | None = None,
    ) -> Bound:
        """Return a function of operands, computed now if all of them are constants."""
        return self.folded(Apply(name, compute, operands, info, at, cost, key))

    def folded(self, node: Bound) -> Bound:
        """Return an expression, computed now if all that it is made of are constants."""
        operands = (
            node.operands if isinstance(node, Apply) else (node.operand,) if isinstance(node, Not) else ()
        )
        if not operands or not all(isinstance(operand, Value) for operand in operands):
            return node
        at = node.at if isinstance(node, Apply) else 0
        try:
            return Value(python(folded(node)), node.info)
        except QueryError as error:
            raise self.error(at, error.kind, error.message) from error
