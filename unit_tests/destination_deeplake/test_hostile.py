"""100,000 records of which 10,000 lines are bad: nothing is lost, nothing is taken for something else."""

import hashlib
import json
from collections import Counter

import pyarrow.compute as pc

from destination_deeplake.columns import Column, Kind, RecordTable
from destination_deeplake.wire import Rejected, Wire
from unit_tests.destination_deeplake.hostile import (
    BLANK,
    CANARY,
    IGNORED,
    REJECTED,
    ROW,
    STRAY,
    WAYS,
    Line,
    lines,
)
from unit_tests.destination_deeplake.tables import batch

KINDS = {
    "id": Kind.INT64,
    "name": Kind.TEXT,
    "age": Kind.INT64,
    "price": Kind.FLOAT64,
    "born": Kind.DATE,
    "any": Kind.JSON,
}
BLOCK = 1 << 20


def run(given: list[Line]) -> tuple[str, RecordTable, Wire, list[Rejected], Counter[str], list[int]]:
    """Read all lines; return a digest of what came out, and what it was."""
    columns = [Column(field, kind) for field, kind in KINDS.items()]
    table = RecordTable(columns, sync_id=1, generation_id=1, keep_refused=True)
    refused: list[Rejected] = []
    wire = Wire({(None, "s"): table}, refused.append)
    digest = hashlib.sha256()
    nulled: Counter[str] = Counter()
    found: list[int] = []
    data = b"\n".join(line.text for line in given)
    for at in range(0, len(data), BLOCK):
        assert list(wire.feed(memoryview(data)[at : at + BLOCK])) == []
        if at + BLOCK >= len(data):
            assert list(wire.finish()) == []
        taken_batch = batch(table)
        values = taken_batch.refused
        assert values is not None
        nulled.update(values["field"].to_pylist())
        digest.update(repr(values.drop_columns(["bytes"]).to_pylist()).encode())
        taken = taken_batch.columns
        found += taken["id"].to_pylist()
        assert pc.sum(pc.match_substring(taken["_airbyte_meta"].storage, CANARY)).as_py() in (0, None)
        for field in KINDS:
            column = taken[field]
            digest.update(repr((column.storage if field == "any" else column).to_pylist()).encode())
    digest.update(repr(refused).encode())
    return digest.hexdigest(), table, wire, refused, nulled, found


def test_every_line_of_a_hostile_input_is_accounted_for() -> None:
    given = list(lines(100_000, 10_000, seed=7))
    fates = Counter(line.fate for line in given)
    digest, table, wire, refused, nulled, found = run(given)

    assert found == [line.id for line in given if line.fate == ROW]
    assert table.total_rows == fates[ROW]
    assert nulled == Counter(line.nulled for line in given if line.nulled)
    assert table.nulled == sum(nulled.values())

    wanted = [number for number, line in enumerate(given, 1) if line.fate in (REJECTED, STRAY)]
    assert [rejected.line_number for rejected in refused] == wanted
    assert all(rejected.raw == given[rejected.line_number - 1].text for rejected in refused)
    assert (table.rejected, wire.rejected_strays) == (fates[REJECTED], fates[STRAY])
    assert sum(wire.ignored.values()) == fates[IGNORED]
    assert wire.line_number == len(given) == sum(fates.values())
    assert fates[BLANK] > 0

    # What may be logged holds nothing of the records.
    assert CANARY not in json.dumps([*wire.ignored, *(rejected.reason for rejected in refused)])
    assert CANARY not in repr(refused)

    again = run(given)
    assert again[0] == digest
    assert len(WAYS) > 20
