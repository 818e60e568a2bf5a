"""The whole comparison of a synced lake with the messages that were sent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

from integration_tests import lake as lakes
from integration_tests.messages import Json, Message, StreamName, name_of
from integration_tests.oracle import expected, kinds


def assert_lake_equals(
    lake: Path, catalog: Message, sent: dict[StreamName, list[Message]], *, in_order: bool = True
) -> int:
    """Compare every value of every row of every stream, through Arrow and through batches.

    Parameters
    ----------
    sent
        Records of each stream in the order of the rows that are wanted.
    in_order
        Whether the rows must have that order.

    Returns
    -------
    int
        Number of values compared, so that a test can tell that it compared something.
    """
    compared = 0
    wanted_streams = {name_of(configured["stream"], "name"): configured for configured in catalog["streams"]}
    assert set(lakes.datasets(lake)) == set(wanted_streams)
    for name, configured in wanted_streams.items():
        records = sent.get(name, [])
        compared += _assert_stream_equals(lake, name, configured, records, in_order=in_order)
    return compared


def _assert_stream_equals(
    lake: Path, name: StreamName, configured: Message, records: list[Message], *, in_order: bool
) -> int:
    fields = kinds(configured["stream"]["json_schema"])
    found = stored = lakes.rows(lake, name)
    if not in_order:
        found = sorted(stored, key=lambda row: _place(row, row["_airbyte_extracted_at"]))
        records = sorted(
            records, key=lambda each: _place(expected(each, fields).values, each["emitted_at"] * 1000)
        )
    assert len(found) == len(records), f"{name}: {len(found)} rows for {len(records)} records"
    compared = 0
    for number, (row, record) in enumerate(zip(found, records, strict=True)):
        where = f"{name} row {number}"
        wanted = expected(record, fields)
        for field, value in wanted.values.items():
            # repr tells 1 from 1.0 and True, and -0.0 from 0.0.
            assert repr(row[field]) == repr(value), f"{where}, {field}: {row[field]!r} is not {value!r}"
        assert set(row) == set(wanted.values) | set(lakes.META), where
        _assert_meta(row, record, configured, wanted.nulled, wanted.incoming_changes, where)
        compared += len(row)
    ids = {row["_airbyte_raw_id"] for row in found}
    assert len(ids) == len(found), f"{name}: raw ids repeat"
    _assert_batches_agree(lake, name, stored, fields)
    return compared


def _place(row: dict[str, Json], extracted_at: int) -> str:
    """Where a row stands among those of its stream, by all that it holds."""
    values = sorted((field, repr(value)) for field, value in row.items() if field not in lakes.META)
    return repr((int(extracted_at), values))


def _assert_meta(
    row: dict[str, Json], record: Message, configured: Message, nulled: set[str], incoming: Json, where: str
) -> None:
    assert str(uuid.UUID(row["_airbyte_raw_id"])) == row["_airbyte_raw_id"], where
    assert row["_airbyte_extracted_at"] == record["emitted_at"] * 1000, where
    assert row["_airbyte_generation_id"] == configured.get("generation_id"), where
    meta = row["_airbyte_meta"]
    assert meta.get("sync_id") == configured.get("sync_id"), where
    changes = meta["changes"]
    assert changes[: len(incoming)] == incoming, where
    added = changes[len(incoming) :]
    assert sorted(change["field"] for change in added) == sorted(nulled), (where, added)
    for change in added:
        assert change["change"] == "NULLED", where
        assert change["reason"].startswith("DESTINATION_"), where


def _assert_batches_agree(
    lake: Path, name: StreamName, wanted: list[dict[str, Json]], fields: Mapping[str, str]
) -> None:
    """`batches` gives the same rows as Arrow, JSON parsed by Python's own rules."""
    documents = {"_airbyte_meta", *(field for field, kind in fields.items() if kind == "json")}
    found = lakes.rows_by_batches(lake, name)
    assert len(found) == len(wanted)
    for number, (row, other) in enumerate(zip(found, wanted, strict=True)):
        same = {key: lakes.rounded(value) if key in documents else value for key, value in other.items()}
        assert repr(row) == repr(same), f"{name} row {number} by batches: {row} is not {same}"
