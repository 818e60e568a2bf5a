"""A small Airbyte source over PostgreSQL, our own and for tests only.

Airbyte's source-postgres is a JVM image. This speaks the same protocol (spec, check, discover, read), and
reads each table with one COPY, in the order of its primary key, with a state after every `state_every` rows.
PostgreSQL itself makes the JSON of a row (`row_to_json`): what is sent is what the database says.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

Json = dict[str, Any]

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

SPECIFICATION = {
    "connectionSpecification": {
        "title": "PostgreSQL (test source)",
        "type": "object",
        "required": ["dsn", "schema"],
        "properties": {
            "dsn": {"type": "string", "description": "libpq connection string"},
            "schema": {"type": "string", "description": "schema whose tables are streams"},
            "state_every": {"type": "integer", "default": 10000, "description": "rows between states"},
        },
    }
}

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


def send(message: Json) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps(message) + "\n")


def discover(connection: psycopg.Connection, schema: str) -> Json:
    """Catalog of the tables of a schema."""
    keys: dict[str, list[list[str]]] = {}
    for table, column in connection.execute(KEYS, [schema]):
        keys.setdefault(table, []).append([column])
    properties: dict[str, Json] = {}
    for table, column, data_type, nullable in connection.execute(COLUMNS, [schema]):
        described = dict(TYPES.get(data_type, {"type": "string"}))
        if nullable and "type" in described:
            described["type"] = ["null", described["type"]]
        properties.setdefault(table, {})[column] = described
    return {
        "streams": [
            {
                "name": table,
                "namespace": schema,
                "json_schema": {"type": "object", "properties": columns},
                "supported_sync_modes": ["full_refresh", "incremental"],
                "source_defined_cursor": True,
                "default_cursor_field": keys[table][0],
                "source_defined_primary_key": keys[table],
            }
            for table, columns in properties.items()
        ]
    }


def rows(connection: psycopg.Connection, schema: str, table: str, key: str, after: int) -> Iterator[bytes]:
    """JSON texts of the rows whose key is larger than `after`, in the order of the key."""
    query = sql.SQL(
        "copy (select row_to_json(t) from (select * from {} where {} > {} order by {}) t) to stdout"
    ).format(sql.Identifier(schema, table), sql.Identifier(key), sql.Literal(after), sql.Identifier(key))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        pending = b""
        for block in copy:
            *complete, pending = (pending + bytes(block)).split(b"\n")
            for line in complete:
                # COPY's text format escapes backslashes; JSON text holds no raw control characters.
                yield line.replace(b"\\\\", b"\\")


def read(connection: psycopg.Connection, config: Json, catalog: Json, states: dict[str, int]) -> None:
    """Send every configured stream, with states."""
    every = config.get("state_every", 10_000)
    out = sys.stdout.buffer
    for configured in catalog["streams"]:
        stream = configured["stream"]
        name, namespace = stream["name"], stream["namespace"]
        key = stream["source_defined_primary_key"][0][0]
        envelope = json.dumps({"stream": name, "namespace": namespace, "emitted_at": int(time.time() * 1000)})
        head = f'{{"type":"RECORD","record":{envelope[:-1]},"data":'.encode()
        line = b""
        count = 0
        for count, line in enumerate(rows(connection, namespace, name, key, states.get(name, 0)), 1):
            out.write(head + line + b"}}\n")
            if count % every == 0:
                _send_state(name, namespace, json.loads(line)[key], every)
        if count % every:
            _send_state(name, namespace, json.loads(line)[key], count % every)
        status = {"stream_descriptor": {"name": name, "namespace": namespace}, "status": "COMPLETE"}
        trace = {"type": "STREAM_STATUS", "emitted_at": time.time() * 1000, "stream_status": status}
        sys.stdout.flush()
        send({"type": "TRACE", "trace": trace})


def _send_state(name: str, namespace: str, position: int, count: int) -> None:
    stream = {
        "stream_descriptor": {"name": name, "namespace": namespace},
        "stream_state": {"position": position},
    }
    state = {"type": "STREAM", "stream": stream, "sourceStats": {"recordCount": float(count)}}
    message = json.dumps({"type": "STATE", "state": state})
    sys.stdout.buffer.write(message.encode() + b"\n")


def positions(path: Path | None) -> dict[str, int]:
    """Position after which each stream goes on, from a state file."""
    if path is None:
        return {}
    states = [state["stream"] for state in json.loads(path.read_text())]
    return {state["stream_descriptor"]["name"]: state["stream_state"]["position"] for state in states}


def main() -> None:
    """Run one command of the protocol."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=["spec", "check", "discover", "read"])
    for option in ("--config", "--catalog", "--state"):
        parser.add_argument(option, type=Path)
    given = parser.parse_args()
    if given.command == "spec":
        send({"type": "SPEC", "spec": SPECIFICATION})
        return
    config = json.loads(given.config.read_text())
    with psycopg.connect(config["dsn"], options="-c TimeZone=UTC -c extra_float_digits=1") as connection:
        if given.command == "check":
            send({"type": "CONNECTION_STATUS", "connectionStatus": {"status": "SUCCEEDED"}})
        elif given.command == "discover":
            send({"type": "CATALOG", "catalog": discover(connection, config["schema"])})
        else:
            catalog = json.loads(given.catalog.read_text())
            read(connection, config, catalog, positions(given.state))


if __name__ == "__main__":
    main()
