"""A destination on the Airbyte CDK that makes typed columns: Python lists of values, then Arrow, then Parquet files.

The way to columns that the CDK leaves to a destination in Python, without conversions of values that do not fit and
without notes of them. A file is written for every 64 MB of input or so, as our connector publishes.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from airbyte_cdk.models import AirbyteMessage, ConfiguredAirbyteCatalog, Type

from benchmarks.cdk_destination import CdkDestination

ROWS = 100_000
"""Records of a file."""

TYPES = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
META = {
    "_airbyte_raw_id": pa.string(),
    "_airbyte_extracted_at": pa.int64(),
    "_airbyte_meta": pa.string(),
    "_airbyte_generation_id": pa.int64(),
}


class Columns:
    """Columns of one stream."""

    def __init__(self, schema: Mapping[str, Any], folder: Path) -> None:
        self.types = {name: _type_of(described) for name, described in schema["properties"].items()}
        self.folder = folder
        self.files = 0
        folder.mkdir(parents=True)
        self.clear()

    def clear(self) -> None:
        """Forget the rows."""
        self.values: dict[str, list[Any]] = {name: [] for name in [*self.types, *META]}

    def add(self, data: Mapping[str, Any], emitted_at: int) -> None:
        """Add a record."""
        values = self.values
        for name, kind in self.types.items():
            value = data.get(name)
            if kind == pa.string() and not isinstance(value, str | None):
                value = json.dumps(value)
            values[name].append(value)
        values["_airbyte_raw_id"].append(str(uuid.uuid4()))
        values["_airbyte_extracted_at"].append(emitted_at)
        values["_airbyte_meta"].append('{"changes":[]}')
        values["_airbyte_generation_id"].append(None)
        if len(values["_airbyte_raw_id"]) == ROWS:
            self.publish()

    def publish(self) -> None:
        """Write a file."""
        types = {**self.types, **META}
        table = pa.table({name: pa.array(values, types[name]) for name, values in self.values.items()})
        pq.write_table(table, self.folder / f"{self.files}.parquet", compression="none")
        self.files += 1
        self.clear()


def _type_of(described: Mapping[str, Any]) -> pa.DataType:
    kind = described.get("type", "string")
    words = [word for word in (kind if isinstance(kind, list) else [kind]) if word != "null"]
    return TYPES.get(words[0], pa.string()) if len(words) == 1 else pa.string()


class ColumnsDestination(CdkDestination):
    """Writes Parquet files."""

    def write(
        self,
        config: Mapping[str, Any],
        configured_catalog: ConfiguredAirbyteCatalog,
        input_messages: Iterable[AirbyteMessage],
    ) -> Iterable[AirbyteMessage]:
        streams = {
            configured.stream.name: Columns(
                configured.stream.json_schema, Path(config["path"]) / configured.stream.name
            )
            for configured in configured_catalog.streams
        }
        waiting = []
        for message in input_messages:
            if message.type == Type.RECORD and message.record is not None:
                streams[message.record.stream].add(message.record.data, message.record.emitted_at)
            elif message.type == Type.STATE:
                waiting.append(message)
        for columns in streams.values():
            columns.publish()
        yield from waiting


if __name__ == "__main__":
    ColumnsDestination().run(sys.argv[1:])
