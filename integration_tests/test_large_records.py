"""Records of up to 200 MB: a sync takes its buffers and twice the largest record, however many come."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

import lakebed
from integration_tests.connector import Connection, write_json
from integration_tests.messages import configure, lines, state, stream
from integration_tests.test_volume import run

MIB = 1 << 20
BUDGET = 64_000_000 + 150 * MIB
"""Bytes that may wait to be published, and the connector itself with its libraries."""
PIECE = 1 << 20
TEXTS = {
    # How the value is written, and how it begins; both are repeated.
    "plain": (b"x", b"x"),
    "escaped": (rb"\u00e9\n\"x", 'é\n"x'.encode()),
    "base64": (base64.b64encode(b"abc"), b"abc"),
    "slashes": (rb"\/\/\/\/", b"\xff\xff\xff"),
    "json": (b"[1,2],", b"[1,2],"),
}
READ = """
import json, lakebed
value = lakebed.load({url!r}, read_only=True)["value"][{last}].data()["value"]
if isinstance(value, list):
    value = json.dumps(value, separators=(",", ":"))
print(len(value.encode() if isinstance(value, str) else value.tobytes()))
"""


def blocks(kind: str, size: int, count: int) -> Iterator[bytes]:
    """Records of about `size` bytes each, with a state behind each."""
    unit, _ = TEXTS[kind]
    piece = unit * (PIECE // len(unit))
    for number in range(count):
        yield b'{"type":"RECORD","record":{"stream":"big","emitted_at":1,"data":{"id":%d,"value":' % number
        yield b"[" if kind == "json" else b'"'
        yield from [piece] * (size // len(piece))
        yield b"0]}}}\n" if kind == "json" else b'"}}}\n'
        yield lines([state("big", {"at": number})])


@pytest.mark.parametrize(
    ("size", "count", "kind"),
    [
        (20_000_000, 4, "plain"),
        *(pytest.param(20_000_000, 40, kind, marks=pytest.mark.soak) for kind in TEXTS),
        *(
            pytest.param(200_000_000, 5, kind, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])
            for kind in TEXTS
        ),
    ],
)
def test_memory_is_bounded_by_the_largest_record(
    connection: Connection, size: int, count: int, kind: str, record_property: Callable[[str, object], None]
) -> None:
    _, content = TEXTS[kind]
    config: dict[str, object] = {"destination_path": str(connection.lake)}
    if kind in ("base64", "slashes"):
        column = {"column": "value", "decoding": "base64"}
        config["streams"] = [{"name": "big", "columns": [column]}]
    write_json(connection.folder / "config.json", config)
    declared = {} if kind == "json" else {"type": "string"}
    catalog = configure([stream("big", id={"type": "integer"}, value=declared)], "append")
    status, peak = run(connection, catalog, blocks(kind, size, count))
    record_property("proof", f"{count} records of {size / 1e6:.0f} MB, {kind}: {peak / MIB:.0f} MiB")
    assert status == 0
    assert peak <= BUDGET + 2 * size
    stored = lakebed.load(str(connection.lake / "big"), read_only=True)
    assert stored["id"].numpy().ravel().tolist() == list(range(count))
    # In a process of its own: what this one takes would count for the connector that it starts next.
    script = READ.format(url=str(connection.lake / "big"), last=count - 1)
    length = int(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)
    unit, _ = TEXTS[kind]
    whole = size // (PIECE // len(unit) * len(unit)) * (PIECE // len(unit))
    assert length == whole * len(content) + (len("[0]") if kind == "json" else 0)
