"""What the connector compresses Deep Lake 3.9.52 reads, goes on with, and gives back."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration_tests.connector import Connection, write_json
from integration_tests.interop.test_interop import assert_both_see_the_same, assert_ping_pong
from integration_tests.messages import configure, lines, record, state, stream

pytestmark = pytest.mark.interop

TEXT, INTEGER, NUMBER = ({"type": ["null", name]} for name in ("string", "integer", "number"))


@pytest.mark.parametrize("compression", ["auto", "lz4"])
def test_compressed_streams_are_read_extended_and_read_back(tmp_path: Path, compression: str) -> None:
    orders = stream(
        "orders",
        None,
        id=INTEGER,
        status=TEXT,
        total=NUMBER,
        paid={"type": "boolean"},
        address={"type": "object"},
        _airbyte_meta=TEXT,
    )
    connection = Connection.make(tmp_path)
    config = {"destination_path": str(connection.lake), "chunk_compression": compression}
    write_json(tmp_path / "config.json", config)
    for first in (0, 60):
        # 3.9.52 knows no other nulls than those of numbers.
        rows = [
            {
                "id": n,
                "status": ("shipped", "paid", "é€", "")[n % 4],
                "total": n / 4 if n % 5 else None,
                "paid": n % 2 == 0,
                "address": {"city": "Łódź", "zip": f"{n:05}"},
                "_airbyte_meta": ["mine", n],
            }
            for n in range(first, first + 60)
        ]
        sent = [record("orders", row) for row in rows] + [state("orders", {"id": first})]
        connection.sync(configure([orders]), lines(sent)).succeeded()
    path = connection.lake / "orders"
    seen = assert_both_see_the_same(path, "main")["tensors"]
    assert len(seen["_airbyte_meta_"]["samples"]) == 120
    assert_ping_pong(path)
