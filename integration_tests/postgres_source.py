"""A small Airbyte source over PostgreSQL, our own and for tests only.

It reads each table with one COPY, in the order of its primary key. PostgreSQL itself makes the JSON of a row
(`row_to_json`): what is sent is what the database says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import sql

from integration_tests.sql_source import Json, Table, run

TYPES: dict[str, Json] = {
    "smallint": {"type": "integer"},
    "integer": {"type": "integer"},
    "bigint": {"type": "integer"},
    "real": {"type": "number"},
    "double precision": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "timestamp without time zone": {
        "type": "string",
        "format": "date-time",
        "airbyte_type": "timestamp_without_timezone",
    },
    "timestamp with time zone": {
        "type": "string",
        "format": "date-time",
        "airbyte_type": "timestamp_with_timezone",
    },
    "jsonb": {},
}
"""SQL type -> JSON schema of its values; every other type is sent as text."""

COLUMNS = """
    select c.table_name, c.column_name, c.data_type, c.is_nullable = 'YES'
    from information_schema.columns c where c.table_schema = %s order by c.table_name, c.ordinal_position
"""

KEYS = """
    select k.table_name, k.column_name
    from information_schema.key_column_usage k join information_schema.table_constraints t
        using (constraint_schema, constraint_name, table_name)
    where t.constraint_type = 'PRIMARY KEY' and k.table_schema = %s order by k.ordinal_position
"""


@dataclass(frozen=True)
class Database:
    """A schema, by an open connection."""

    connection: psycopg.Connection
    schema: str

    def tables(self) -> list[Table]:
        """Return all tables."""
        found: dict[str, Table] = {}
        for table, column, data_type, nullable in self.connection.execute(COLUMNS, [self.schema]):
            here = found.setdefault(table, Table(table))
            here.add(column, TYPES.get(data_type, {"type": "string"}), nullable=nullable)
        for table, column in self.connection.execute(KEYS, [self.schema]):
            found[table].keys.append(column)
        return [*found.values()]

    def rows(self, table: str, key: str, after: int) -> Iterator[bytes]:
        """JSON texts of the rows whose key is larger than `after`, in the order of the key."""
        # `t.*` is the row whatever its columns are called; a bare `t` would be a column of that name.
        query = sql.SQL(
            "copy (select row_to_json(t.*) from (select * from {} where {} > {} order by {}) t) to stdout"
        ).format(
            sql.Identifier(self.schema, table), sql.Identifier(key), sql.Literal(after), sql.Identifier(key)
        )
        with self.connection.cursor() as cursor, cursor.copy(query) as copy:
            pending = b""
            for block in copy:
                *complete, pending = (pending + bytes(block)).split(b"\n")
                for line in complete:
                    # COPY's text format escapes backslashes; JSON text holds no raw control characters.
                    yield line.replace(b"\\\\", b"\\")


@contextlib.contextmanager
def connect(config: Json) -> Iterator[Database]:
    """Open the schema that a configuration names."""
    with psycopg.connect(config["dsn"], options="-c TimeZone=UTC -c extra_float_digits=1") as connection:
        yield Database(connection, config["schema"])


if __name__ == "__main__":
    run(
        "PostgreSQL", {"dsn": "libpq connection string", "schema": "schema whose tables are streams"}, connect
    )
