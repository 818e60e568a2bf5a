"""Sources of datasets for queries, and the datasets that one query has opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError, LakebedError, QueryError
from lakebed.query.binding.names import Names
from lakebed.query.engine.context import QueryContext
from lakebed.query.engine.joins import From
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error
from lakebed.query.relations.relation import Relation, Stored

if TYPE_CHECKING:
    from lakebed.session.table import Table

Rows = NDArray[np.int64]

Open = Callable[[str, str | None], "Table | Relation"]
"""Function that opens a dataset by its address and a version."""

Differing = Callable[["Table", str, str], tuple["Table", Rows]]
"""Function that returns the table of the second version, and the numbers of its rows that differ from the first."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of datasets for one query.

    Attributes
    ----------
    implicit
        Rows that a query without FROM reads; None if queries must have FROM.
    """

    implicit: Table | Relation | None
    open: Open
    differing: Differing

    @classmethod
    def of(cls, implicit: Table | Relation) -> Sources:
        """Return the sources of a query that reads the given rows and may name no other datasets."""

        def opened(path: str, version: str | None) -> Table:
            raise InvalidInputError(
                f"a condition reads the compared rows and no other dataset: {path!r}, {version}"
            )

        def differing(_: Table, first: str, second: str) -> tuple[Table, Rows]:
            raise InvalidInputError(f"a condition reads no other versions: {first!r} and {second!r}")

        return cls(implicit, opened, differing)


class Opened:
    """The datasets of one query, each opened once."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._query: syntax.Query | None = None
        self._read: dict[tuple[str, str | None], Relation] = {}

    def ask(self, query: syntax.Query) -> None:
        """Remember the outermost query, which is the first one passed; ignore the queries inside it."""
        if self._query is None:
            self._query = query

    def implicit(self, context: QueryContext, at: int) -> Relation:
        """Return the rows of a query without FROM."""
        if self.sources.implicit is None:
            raise query_error(context.text, at, "unknown_source", 'the query needs FROM "path/of/a/dataset"')
        found = self._read.get(("", None))
        if found is None:
            found = self._read["", None] = self._stored(context, self.sources.implicit, at)
        if context.is_told:
            context.note(f"the dataset, {len(found):,} rows")
        return found

    def _stored(self, context: QueryContext, table: Table | Relation, at: int) -> Relation:
        """Return the rows of a table as a relation; return a relation unchanged.

        If the named columns differ in length, rows beyond the shortest column are left out. A query that names no
        column, such as COUNT(*), gets all rows of the table.
        """
        if isinstance(table, Relation):
            return table
        if len({state.length for state in table.states().values()}) == 1:
            return Stored(table, table.rows())
        asked = None if self._query is None else syntax.columns_of(self._query)
        names = [n for n in table.names if asked is None or n in asked or n.split("/")[-1] in asked]
        try:
            return Stored(table, table.shared_rows(names))
        except InvalidInputError as error:
            raise query_error(context.text, at, "type", str(error)) from error

    def dataset(self, context: QueryContext, node: syntax.Path) -> Relation:
        """Return a dataset by its address."""
        key = node.path, node.version
        found = self._read.get(key)
        if found is None:
            try:
                found = self._stored(context, self.sources.open(node.path, node.version), node.at)
            except QueryError:
                raise
            except (LakebedError, OSError, ValueError) as error:
                kind = "limit" if context.watch.left == 0 else "unknown_source"
                hint = ""
                if self.sources.implicit is not None and not node.is_quoted:
                    hint = " Without FROM, ds.query() reads the dataset ds."
                message = f"{node.path!r} cannot be read: {error}{hint}"
                raise query_error(context.text, node.at, kind, message) from error
            self._read[key] = found
        context.note(f"dataset {node.path}{'@' + node.version if node.version else ''}, {len(found):,} rows")
        return found

    def difference(self, context: QueryContext, node: syntax.Difference) -> From:
        """Return the rows of one version that another version lacks or has with other values."""
        table = self.sources.implicit if node.path is None else self.sources.open(node.path, None)
        if table is None or isinstance(table, Relation):
            message = "DIFF needs a dataset: DIFF(\"path\", 'a', 'b')"
            raise query_error(context.text, node.at, "unknown_source", message)
        try:
            second, rows = self.sources.differing(table, node.first, node.second)
        except LakebedError as error:
            raise query_error(context.text, node.at, "unknown_source", f"DIFF: {error}") from error
        relation = Stored(second).select(rows)
        context.note(f"rows of {node.second} that {node.first} lacks or changes, {len(relation):,} rows")
        return From(relation, Names.of(relation, node.alias))
