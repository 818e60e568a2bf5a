"""A destination on the Airbyte CDK that stores raw records: one table per stream, each record as JSON text, in SQLite.

What many a destination does before anything is typed: an id, the time, and a blob. Rows are written at every state.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from airbyte_cdk.models import AirbyteMessage, ConfiguredAirbyteCatalog, Type

from benchmarks.cdk_destination import CdkDestination


class SqliteDestination(CdkDestination):
    """Keeps records as they are."""

    def write(
        self,
        config: Mapping[str, Any],
        configured_catalog: ConfiguredAirbyteCatalog,
        input_messages: Iterable[AirbyteMessage],
    ) -> Iterable[AirbyteMessage]:
        database = sqlite3.connect(config["path"])
        for configured in configured_catalog.streams:
            name = configured.stream.name
            database.execute(
                f'create table "_airbyte_raw_{name}" (ab_id text, emitted_at integer, data text)'
            )
        waiting: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
        for message in input_messages:
            if message.type == Type.RECORD and message.record is not None:
                record = message.record
                row = (str(uuid.uuid4()), record.emitted_at, json.dumps(record.data))
                waiting[record.stream].append(row)
            elif message.type == Type.STATE:
                _store(database, waiting)
                yield message
        _store(database, waiting)
        database.close()


def _store(database: sqlite3.Connection, waiting: dict[str, list[tuple[str, int, str]]]) -> None:
    for name, rows in waiting.items():
        database.executemany(f'insert into "_airbyte_raw_{name}" values (?, ?, ?)', rows)
    database.commit()
    waiting.clear()


if __name__ == "__main__":
    SqliteDestination().run(sys.argv[1:])
