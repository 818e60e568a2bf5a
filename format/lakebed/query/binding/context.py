"""Context of binding: a query, the columns that it may name, and its parameters; folding of constants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from lakebed.errors import QueryError
from lakebed.query.binding.constants import python
from lakebed.query.binding.names import Names
from lakebed.query.functions.spaces import NUMPY, Space
from lakebed.query.language import syntax
from lakebed.query.language.errors import placed, query_error
from lakebed.query.relations.bound import Apply, Bound, Not, Value
from lakebed.query.relations.evaluate import folded
from lakebed.query.relations.relation import Relation
from lakebed.query.values.columns import Column
from lakebed.query.values.info import Given, Info
from lakebed.query.values.limits import Watch

Outer = Callable[[syntax.Name], Bound | None]
"""Function that returns the meaning of a name in the outer query, or None."""

Run = Callable[[syntax.Query, Outer | None, bool], Relation]
"""Function that answers a subquery, or only checks it if the last argument is true."""


class Context(ABC):
    """One query and one relation.

    Parameters
    ----------
    text
        The query, for errors.
    relation
        Relation whose columns the query may name, and which DATA reads.
    parameters
        Values of the ``?``; None while they are not known.
    run
        Function that answers a subquery.
    watch
        Resources that the query has used.
    outer
        Function that finds names of the outer query.
    is_dry
        Find names and check types without answering subqueries.
    space
        Library that computes vectors.

    Attributes
    ----------
    aliases
        Names that SELECT gives -> their expressions, where they may be used.
    later
        Names that SELECT gives -> the clause that cannot use them, because it runs before SELECT computes them.
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
        """Return an error that points at a position of the query's text."""
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
        """Return a function of operands, folded if all of them are constants."""
        return self.folded(Apply(name, compute, operands, info, at, cost, key))

    def folded(self, node: Bound) -> Bound:
        """Compute an expression if all of its operands are constants; return other expressions unchanged."""
        if not isinstance(node, Apply | Not):
            return node
        operands = node.operands if isinstance(node, Apply) else (node.operand,)
        if not operands or not all(isinstance(operand, Value) for operand in operands):
            return node
        with placed(self.text, node.at if isinstance(node, Apply) else 0):
            return Value(python(folded(node)), node.info)
