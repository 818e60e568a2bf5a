"""Tables of one stream, `s`, for tests: make, fill, take."""

from collections.abc import Mapping
from typing import Any

from destination_deeplake.columns import Batch, Column, Kind, RecordTable
from destination_deeplake.wire import Wire


def table(columns: Mapping[str, Kind], sync_id: int | None = 7, generation_id: int | None = 3) -> RecordTable:
    return RecordTable(
        [Column(field, kind) for field, kind in columns.items()], sync_id=sync_id, generation_id=generation_id
    )


def record(data: str, rest: str = ',"emitted_at":1') -> bytes:
    return f'{{"type":"RECORD","record":{{"stream":"s","data":{data}{rest}}}}}\n'.encode()


def fill(target: RecordTable, *lines: bytes) -> None:
    assert list(Wire({(None, "s"): target}).feed(b"".join(lines))) == []


def batch(target: RecordTable) -> Batch:
    (taken,) = target.take()
    return taken


def take(target: RecordTable) -> dict[str, list[Any]]:
    taken = batch(target).columns
    for array in taken.values():
        array.validate(full=True)
    return {name: array.to_pylist() for name, array in taken.items()}
