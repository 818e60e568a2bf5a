"""A small Airbyte source over MariaDB, our own and for tests only.

The twin of `postgres_source`: spec, check, discover, read; each table in the order of its primary key, with a state
after every `state_every` rows. MariaDB itself makes the JSON of a row (`json_object`), and its own client streams it.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from integration_tests.mariadb import client, query
from integration_tests.sql_source import Json, Table, run

MOMENT = "date_format({0}, '%Y-%m-%dT%H:%i:%s.%f')"
TYPES: dict[str, tuple[Json, str]] = {
    "tinyint(1)": ({"type": "boolean"}, "json_extract(elt({0} + 1, 'false', 'true'), '$')"),
    "smallint": ({"type": "integer"}, "{0}"),
    "int": ({"type": "integer"}, "{0}"),
    "bigint": ({"type": "integer"}, "{0}"),
    "double": ({"type": "number"}, "{0}"),
    "date": ({"type": "string", "format": "date"}, "{0}"),
    "datetime": (
        {"type": "string", "format": "date-time", "airbyte_type": "timestamp_without_timezone"},
        MOMENT,
    ),
    "timestamp": (
        {"type": "string", "format": "date-time", "airbyte_type": "timestamp_with_timezone"},
        f"concat({MOMENT}, 'Z')",
    ),
    "json": ({}, "json_extract({0}, '$')"),
}
"""SQL type -> JSON schema, and the expression of its JSON."""

TEXT: tuple[Json, str] = ({"type": "string"}, "{0}")
"""The same of every other type."""

COLUMNS = """
    select c.table_name, c.column_name, c.is_nullable, c.column_key, if(c.column_type = 'tinyint(1)', c.column_type,
        if(k.constraint_name is null, c.data_type, 'json'))
    from information_schema.columns c left join information_schema.check_constraints k
        on k.constraint_schema = c.table_schema and k.table_name = c.table_name and k.constraint_name = c.column_name
        and k.check_clause like 'json_valid%'
    where c.table_schema = '{0}' order by c.table_name, c.ordinal_position
"""


@dataclass(frozen=True)
class Database:
    """A schema, by the socket of its server."""

    socket: str
    schema: str

    def tables(self) -> list[Table]:
        """Return all tables."""
        found: dict[str, Table] = {}
        for table, column, nullable, key, data_type in self._columns():
            here = found.setdefault(table, Table(table))
            here.add(column, TYPES.get(data_type, TEXT)[0], nullable=nullable == "YES")
            if key == "PRI":
                here.keys.append(column)
        return [*found.values()]

    def rows(self, table: str, key: str, after: int) -> Iterator[bytes]:
        """JSON texts of the rows whose key is larger than `after`, in the order of the key."""
        pairs = ", ".join(
            f"'{column}', {TYPES.get(data_type, TEXT)[1].format(f'`{column}`')}"
            for of, column, _, _, data_type in self._columns()
            if of == table
        )
        select = (
            f"select json_object({pairs}) from {self.schema}.{table} where {key} > {after} order by {key}"
        )
        command = [*client(self.socket), "--execute", f"set time_zone = '+00:00'; {select}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield line.rstrip(b"\n")
        if process.returncode:
            raise SystemExit(f"the client ended with {process.returncode}")

    def _columns(self) -> list[list[str]]:
        return query(self.socket, COLUMNS.format(self.schema))


@contextlib.contextmanager
def connect(config: Json) -> Iterator[Database]:
    """Open the schema that a configuration names."""
    yield Database(config["socket"], config["schema"])


if __name__ == "__main__":
    run(
        "MariaDB",
        {"socket": "path of the server's socket", "schema": "schema whose tables are streams"},
        connect,
    )
