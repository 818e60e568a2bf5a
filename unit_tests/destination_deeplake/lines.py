"""Lines of messages, and wires that read them, for tests."""

import json
from typing import Any

from destination_deeplake.columns import Column, Kind, RecordTable
from destination_deeplake.wire import Event, Wire

COLUMNS = [Column("id", Kind.INT64), Column("name", Kind.TEXT), Column("any", Kind.JSON)]


def make(*streams: tuple[str | None, str]) -> tuple[Wire, dict[tuple[str | None, str], RecordTable]]:
    tables = {key: RecordTable(COLUMNS, sync_id=1, generation_id=1) for key in streams or [(None, "s")]}
    return Wire(tables), tables


def line(kind: str = "RECORD", **body: Any) -> bytes:
    return json.dumps({"type": kind, kind.lower(): body}).encode() + b"\n"


def record(number: int, stream: str = "s", **more: Any) -> bytes:
    return line(stream=stream, data={"id": number}, emitted_at=1, **more)


def state(**body: Any) -> bytes:
    return line("STATE", **body)


def stream_state(name: str, **more: Any) -> bytes:
    return state(type="STREAM", stream={"stream_descriptor": {"name": name, **more}, "stream_state": {}})


def ids(table: RecordTable) -> list[int | None]:
    return [number for taken in table.take() for number in taken.columns["id"].to_pylist()]


def read(wire: Wire, data: bytes) -> list[Event]:
    return [*wire.feed(data), *wire.finish()]
