"""Names of columns, of one relation or of the relations that a join combines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakebed.query.language.errors import near, query_error
from lakebed.query.relations.bound import Input
from lakebed.query.relations.relation import Relation
from lakebed.query.values.info import Info


@dataclass(frozen=True, slots=True)
class Entry:
    """A column: its table, its name there, and its name in the relation.

    Attributes
    ----------
    is_behind
        True if a query can name the column only together with its table, as in ``t.id``. An example is a column of
        USING: ``id`` alone means the joined column.
    """

    table: str | None
    column: str
    name: str
    told: Info | Mapping[str, Info]
    is_behind: bool = False

    @property
    def info(self) -> Info:
        """Properties of the column; a stored column's properties are looked up on first use."""
        return self.told if isinstance(self.told, Info) else self.told[self.name]


class Names:
    """The columns that a query may name.

    Parameters
    ----------
    stored
        Relations that hold the columns; they also know the hidden tensors.
    """

    def __init__(self, entries: Iterable[Entry], stored: Iterable[Relation] = ()) -> None:
        self.entries = list(entries)
        self.stored = tuple(stored)

    @classmethod
    def of(cls, relation: Relation, table: str | None = None) -> Names:
        """Return the names of a relation's columns, all under the same name of a table."""
        return cls((Entry(table, name, name, relation.infos) for name in relation.names), [relation])

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return list(dict.fromkeys(e.table for e in self.entries if e.table is not None))

    def find(self, table: str | None, column: str) -> list[Entry]:
        """Return the columns that a name can mean."""
        return [e for e in self.all_of(table) if e.column == column]

    def one(self, text: str, at: int, table: str | None, column: str) -> Input:
        """Return the column that a name means.

        Raises
        ------
        QueryError
            If the name means no column, or several.
        """
        found = self.find(table, column)
        if not found:
            renamed = {relation.stored_name(column) for relation in self.stored}
            found = [entry for other in renamed for entry in self.find(table, other)]
        if len(found) > 1:
            owners = ", ".join(f"{e.table}.{column}" for e in found)
            raise query_error(text, at, "ambiguous", f"{column!r} can be any of {owners}: say which")
        if found:
            return Input(found[0].name, found[0].info)
        if table is not None and table not in self.tables:
            hint = near(table, self.tables)
            if self.find(None, table):
                hint = f"; {table} is a column: a part of a JSON value is {table}['{column}']"
            raise query_error(text, at, "unknown_column", f"there is no table {table!r}{hint}")
        if any(column in relation.hidden() for relation in self.stored):
            raise query_error(
                text,
                at,
                "unknown_column",
                f"{column!r} is a hidden tensor and not a column; query a view that names it: ds[[{column!r}, "
                "...]].query(...)",
            )
        known = [e.column for e in self.all_of(table)]
        hint = near(column, known)
        if not hint.startswith("; did"):
            hint += "; write a text in single quotes"
        raise query_error(text, at, "unknown_column", f"there is no column {column!r}{hint}")

    def all_of(self, table: str | None) -> Sequence[Entry]:
        """Return the columns of a table; if `table` is None, all columns that can be named without their table."""
        return [e for e in self.entries if (not e.is_behind if table is None else e.table == table)]
