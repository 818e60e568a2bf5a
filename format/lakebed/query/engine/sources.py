"""Where queries find datasets, and those that one query has opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError, LakebedError, QueryError
from lakebed.query.binding.names import Names
from lakebed.query.engine.joins import From
from lakebed.query.engine.relation import Relation, Stored
from lakebed.query.engine.work import Work
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error

if TYPE_CHECKING:
    from lakebed.session.table import Table

Rows = NDArray[np.int64]

Open = Callable[[str, str | None], "Table | Relation"]
"""Opens a dataset by its address and a version."""

Differing = Callable[["Table", str, str], tuple["Table", Rows]]
"""Returns the table of the second version, and the rows that the first lacks or has otherwise."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a query finds datasets.

    Attributes
    ----------
    implicit
        What a query without FROM asks; None if it needs one.
    """

    implicit: Table | Relation | None
    open: Open
    differing: Differing

    @classmethod
    def of(cls, implicit: Table | Relation) -> Sources:
        """Return what asks some rows, and no others."""

        def opened(path: str, version: str | None) -> Table:
            raise InvalidInputError(f"conditions ask the rows that are compared, and not {path!r}, {version}")

        def differing(_: Table, first: str, second: str) -> tuple[Table, Rows]:
            raise InvalidInputError(f"conditions ask no versions, {first!r} and {second!r}")

        return cls(implicit, opened, differing)


class Opened:
    """The datasets of one query, each opened once."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._query: syntax.Query | None = None
        self._read: dict[tuple[str, str | None], Relation] = {}

    def ask(self, query: syntax.Query) -> None:
        """Say which query this is of: the first that is said is the outermost."""
        if self._query is None:
            self._query = query

    def implicit(self, work: Work, at: int) -> Relation:
        """Return what a query without FROM asks."""
        if self.sources.implicit is None:
            raise query_error(work.text, at, "unknown_source", 'the query needs FROM "path/of/a/dataset"')
        found = self._read.get(("", None))
        if found is None:
            found = self._read["", None] = self._stored(work, self.sources.implicit, at)
        if work.is_told:
            work.note(f"the dataset, {len(found):,} rows")
        return found

    def _stored(self, work: Work, table: Table | Relation, at: int) -> Relation:
        """Return the rows of a table, of which the columns that are asked for have all; an answer as it is.

        A table without such a column is asked for its rows alone, as by COUNT(*).
        """
        if isinstance(table, Relation):
            return table
        if len({state.length for state in table.states().values()}) == 1:
            return Stored(table, table.rows())
        asked = None if self._query is None else syntax.columns_of(self._query)
        names = [
            name for name in table.names if asked is None or name in asked or name.split("/")[-1] in asked
        ]
        try:
            return Stored(table, table.shared_rows(names))
        except InvalidInputError as error:
            raise query_error(work.text, at, "type", str(error)) from error

    def dataset(self, work: Work, node: syntax.Path) -> Relation:
        """Return a dataset that is named by its address."""
        key = node.path, node.version
        found = self._read.get(key)
        if found is None:
            try:
                found = self._stored(work, self.sources.open(node.path, node.version), node.at)
            except QueryError:
                raise
            except (LakebedError, OSError, ValueError) as error:
                kind = "limit" if work.watch.left == 0 else "unknown_source"
                hint = ""
                if self.sources.implicit is not None and not node.is_quoted:
                    hint = " Without FROM, the query asks the dataset that it is a query of."
                message = f"{node.path!r} cannot be read: {error}{hint}"
                raise query_error(work.text, node.at, kind, message) from error
            self._read[key] = found
        work.note(f"dataset {node.path}{'@' + node.version if node.version else ''}, {len(found):,} rows")
        return found

    def difference(self, work: Work, node: syntax.Difference) -> From:
        """Return the rows of a version that another lacks or has otherwise."""
        table = self.sources.implicit if node.path is None else self.sources.open(node.path, None)
        if table is None or isinstance(table, Relation):
            raise query_error(
                work.text, node.at, "unknown_source", "DIFF needs a dataset: DIFF(\"path\", 'a', 'b')"
            )
        try:
            second, rows = self.sources.differing(table, node.first, node.second)
        except LakebedError as error:
            raise query_error(work.text, node.at, "unknown_source", f"DIFF: {error}") from error
        relation = Stored(second).select(rows)
        work.note(f"rows of {node.second} that {node.first} lacks or has otherwise, {len(relation):,} rows")
        return From(relation, Names.of(relation, node.alias))
