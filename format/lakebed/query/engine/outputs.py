"""The list of SELECT: the columns of the result and their names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lakebed.query.binding.binding import Binder
from lakebed.query.binding.names import Entry
from lakebed.query.engine.joins import From
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error
from lakebed.query.relations.bound import Apply, Bound, Input, RowNumber, inputs
from lakebed.query.relations.relation import Projected, Relation, Stored
from lakebed.query.values.columns import Column, Numbers
from lakebed.query.values.info import NUMBER, Given


class Outputs:
    """Makes the columns of a result."""

    def __init__(self, text: str, binder: Binder, source: From) -> None:
        self.text = text
        self.binder = binder
        self.source = source
        self._found: dict[str, Bound] = {}
        self._from_all: set[str] = set()
        self._numbers: tuple[str, NDArray[np.int64]] | None = None

    def add_numbers(self, name: str, numbers: NDArray[np.int64]) -> None:
        """Add a column with the given numbers, one for each row."""
        self._numbers = name, numbers

    def relation(self, items: Sequence[syntax.Item]) -> Relation:
        """Return the relation of the columns.

        Raises
        ------
        QueryError
            If a column has no name, or two columns have the same name.
        """
        base = self.source.relation
        only = items[0] if len(items) == 1 and self._numbers is None else None
        if only is not None and only.expression is None and not only.items and only.table is None:
            entries = self.binder.names.all_of(None)
            if [e.name for e in entries] == base.names == [e.column for e in entries]:
                return base
        for item in items:
            if item.expression is None:
                self._add_all(item)
            else:
                self._add(item, item.expression)
        if self._numbers is not None:
            name, numbers = self._numbers
            self._put(name, _listed(numbers), items[0].at)
        if all(isinstance(node, Input) and node.name == name for name, node in self._found.items()):
            if list(self._found) == base.names:
                return base
            if isinstance(base, Stored):
                columns = {name: base.column(name) for name in self._found}
                return Stored(base.table.only(self._found), base.places, columns)
        return Projected(base, self._found)

    def _add_all(self, item: syntax.Item) -> None:
        names = self.binder.names
        entries = names.all_of(item.table)
        if item.table is not None and not entries:
            names.one(self.text, item.at, item.table, "*")
        for entry in entries:
            if item.table is None:
                self._check_clear(entry, item.at)
            node: Bound = Input(entry.name, entry.info)
            if item.items:
                node = self.binder.subscripted(node, item.items, item.at)
            self._put(entry.column, node, item.at)
            self._from_all.add(entry.column)

    def _check_clear(self, entry: Entry, at: int) -> None:
        same = self.binder.names.find(None, entry.column)
        if len(same) > 1:
            tables = f"both {same[0].table} and {same[1].table}"
            message = f"{tables} have a column {entry.column!r}: name the columns that you want"
            raise query_error(self.text, at, "ambiguous", message)

    def _add(self, item: syntax.Item, expression: syntax.Expression) -> None:
        node = self.binder.bind(expression)
        name = self._own_name(expression, node, item.at) if item.alias is None else item.alias
        known = self._found[name] if name in self._from_all else None
        if isinstance(known, Input) and isinstance(node, Input) and known.name == node.name:
            return  # the column is repeated, as in `SELECT *, id`
        self._put(name, node, item.at)

    def _own_name(self, expression: syntax.Expression, node: Bound, at: int) -> str:
        if isinstance(expression, syntax.Name) and isinstance(node, Input):
            return expression.column
        read = [name for name in inputs(node) if name]
        if len(read) != 1:
            raise query_error(
                self.text, at, "alias_required", "give it a name with AS: it is computed from "
                + (f"{len(read)} columns" if read else "no column")
            )  # fmt: skip
        return next((e.column for e in self.binder.names.entries if e.name == read[0]), read[0])

    def _put(self, name: str, node: Bound, at: int) -> None:
        if name in self._found:
            message = f"two columns are called {name!r}: name one with AS"
            raise query_error(self.text, at, "duplicate_output", message)
        self._found[name] = node


def _listed(numbers: NDArray[np.int64]) -> Bound:
    """Return an expression whose value at each position is the number at that position."""

    def compute(given: Given) -> Column:
        (places,) = given.columns
        return Numbers(numbers[places.values]) if isinstance(places, Numbers) else places

    return Apply("EXPANDED", compute, (RowNumber(),), NUMBER, 0)
