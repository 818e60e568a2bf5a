"""What the Airbyte sources over SQL databases share: the commands of the protocol. For tests only.

Airbyte's own ones are JVM images. A `Database` tells its tables and streams the rows of one as JSON texts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass
class Table:
    """A table: JSON schemas of its columns, and the columns of its primary key."""

    name: str
    columns: dict[str, Json] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)

    def add(self, column: str, schema: Json, *, nullable: bool) -> None:
        """Add a column."""
        is_null_told = nullable and "type" in schema
        self.columns[column] = {**schema, "type": ["null", schema["type"]]} if is_null_told else schema

    def stream(self, schema: str) -> Json:
        """Stream of a discovered catalog."""
        return {
            "name": self.name,
            "namespace": schema,
            "json_schema": {"type": "object", "properties": self.columns},
            "supported_sync_modes": ["full_refresh", "incremental"],
            "source_defined_cursor": True,
            "default_cursor_field": self.keys[:1],
            "source_defined_primary_key": [[key] for key in self.keys],
        }


class Database(Protocol):
    """A schema of a database."""

    def tables(self) -> list[Table]:
        """Return all tables."""

    def rows(self, table: str, key: str, after: int) -> Iterator[bytes]:
        """JSON texts of the rows whose key is larger than `after`, in the order of the key."""


Connect = Callable[[Json], contextlib.AbstractContextManager[Database]]


def send(message: Json) -> None:
    """Write one message."""
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")


def read(database: Database, every: int, catalog: Json, positions: dict[str, int]) -> None:
    """Send every configured stream, with states."""
    out = sys.stdout.buffer
    for configured in catalog["streams"]:
        stream = configured["stream"]
        descriptor = {"name": stream["name"], "namespace": stream["namespace"]}
        key = stream["source_defined_primary_key"][0][0]
        about = {
            "stream": stream["name"],
            "namespace": stream["namespace"],
            "emitted_at": int(time.time() * 1000),
        }
        head = f'{{"type":"RECORD","record":{json.dumps(about)[:-1]},"data":'.encode()
        line = b""
        count = 0
        for count, line in enumerate(database.rows(stream["name"], key, positions.get(stream["name"], 0)), 1):
            out.write(head + line + b"}}\n")
            if count % every == 0:
                _send_state(descriptor, json.loads(line)[key], every)
        if count % every:
            _send_state(descriptor, json.loads(line)[key], count % every)
        status = {"stream_descriptor": descriptor, "status": "COMPLETE"}
        trace = {"type": "STREAM_STATUS", "emitted_at": time.time() * 1000, "stream_status": status}
        send({"type": "TRACE", "trace": trace})


def _send_state(descriptor: Json, position: int, count: int) -> None:
    stream = {"stream_descriptor": descriptor, "stream_state": {"position": position}}
    state = {"type": "STREAM", "stream": stream, "sourceStats": {"recordCount": float(count)}}
    send({"type": "STATE", "state": state})


def positions_of(path: Path | None) -> dict[str, int]:
    """Position after which each stream goes on, from a state file."""
    if path is None:
        return {}
    states = [state["stream"] for state in json.loads(path.read_text())]
    return {state["stream_descriptor"]["name"]: state["stream_state"]["position"] for state in states}


def specification(title: str, fields: dict[str, str]) -> Json:
    """Specification of a source whose fields are texts with these descriptions."""
    properties: Json = {name: {"type": "string", "description": text} for name, text in fields.items()}
    every = {"type": "integer", "default": 10000, "description": "rows between states"}
    return {
        "connectionSpecification": {
            "title": f"{title} (test source)",
            "type": "object",
            "required": [*fields],
            "properties": {**properties, "state_every": every},
        }
    }


def run(title: str, fields: dict[str, str], connect: Connect) -> None:
    """Run one command of the protocol.

    Parameters
    ----------
    title
        Name of the kind of database.
    fields
        Fields of the configuration, and their descriptions; one is ``schema``.
    connect
        Opens the schema of a configuration.
    """
    parser = argparse.ArgumentParser(description=f"A small Airbyte source over {title}.")
    parser.add_argument("command", choices=["spec", "check", "discover", "read"])
    for option in ("--config", "--catalog", "--state"):
        parser.add_argument(option, type=Path)
    given = parser.parse_args()
    if given.command == "spec":
        send({"type": "SPEC", "spec": specification(title, fields)})
        return
    config = json.loads(given.config.read_text())
    with connect(config) as database:
        if given.command == "check":
            send({"type": "CONNECTION_STATUS", "connectionStatus": {"status": "SUCCEEDED"}})
        elif given.command == "discover":
            streams = [table.stream(config["schema"]) for table in database.tables()]
            send({"type": "CATALOG", "catalog": {"streams": streams}})
        else:
            catalog = json.loads(given.catalog.read_text())
            read(database, config.get("state_every", 10_000), catalog, positions_of(given.state))
