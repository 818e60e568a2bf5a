"""Airbyte's own public message files (`data/`, MIT) are replayed and read back, value by value."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from integration_tests import in_process, lake, messages
from integration_tests.comparison import assert_lake_equals
from integration_tests.connector import Connection
from integration_tests.messages import Message, configure, name_of, parse, read, record, records
from integration_tests.sockets.carrier import Carrier

DATA = Path(__file__).parent / "data"
FILES = [
    *sorted(path.relative_to(DATA) for path in DATA.glob("dat_*/*_messages.txt")),
    Path("normalization_simple/messages.txt"),
    Path("normalization_simple/messages_incremental.txt"),
    Path("deeplake_2022/messages.jsonl"),
]


def lines_of(path: Path) -> bytes:
    """Messages of a file; its blank and comment lines are notes to the reader."""
    lines = (DATA / path).read_bytes().splitlines()
    return b"".join(line + b"\n" for line in lines if line.startswith(b"{"))


def catalog_of(path: Path, sent: list[Message]) -> Message:
    """The catalog that lies beside a message file, every stream appended.

    The Stripe files have none: their streams get a schema that names the fields and says nothing of them.
    """
    beside = {"messages.jsonl": "configured_catalog.json"}.get(path.name, "catalog.json")
    if path.name.endswith("_messages.txt"):
        beside = path.name.replace("_messages.txt", "_catalog.json")
    found = (DATA / path).with_name(beside)
    if found.exists():
        return configure(parse(found.read_bytes())["streams"])
    streams = []
    for (namespace, name), rows in records(sent).items():
        fields: dict[str, Message] = {field: {} for row in rows for field in row["data"]}
        stream = {"name": name, "namespace": namespace, "json_schema": {"properties": fields}}
        streams.append(stream)
    return configure(streams)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_value_arrives_or_is_null_with_a_change_entry(
    connection: Connection, path: Path, carrier: Carrier
) -> None:
    lines = lines_of(path)
    sent = list(read(lines))
    catalog = catalog_of(path, sent)
    whole = carrier.lines(carrier.to_the_end(catalog, lines))
    outcome = in_process.sync(connection, catalog, whole, carrier).succeeded()
    known = {name_of(configured["stream"], "name") for configured in catalog["streams"]}
    configured_rows = {name: rows for name, rows in records(sent).items() if name in known}
    compared = assert_lake_equals(connection.lake, catalog, configured_rows, in_order=carrier.in_order)
    assert compared >= sum(map(len, configured_rows.values()))
    assert not carrier.violations(lines, outcome)


def test_some_values_of_the_files_do_not_fit_and_become_null(connection: Connection) -> None:
    """The comparison above would be weak if nothing were ever nulled."""
    path = Path("normalization_simple/messages.txt")
    lines = lines_of(path)
    connection.sync(catalog_of(path, list(read(lines))), lines).succeeded()
    changes: Counter[str] = Counter()
    for name in lake.datasets(connection.lake):
        for row in lake.rows(connection.lake, name):
            changes.update(change["field"] for change in row["_airbyte_meta"]["changes"])
    assert changes["date"] >= 1
    assert changes["timestamp_col"] >= 1


def test_each_namespace_of_the_name_cases_gets_a_dataset_of_its_own(connection: Connection) -> None:
    cases = parse((DATA / "dat_2022/namespace_test_cases.json").read_bytes())
    streams = parse((DATA / "dat_2022/namespace_catalog.json").read_bytes())["streams"]
    namespaces = [None, *(case["namespace"] for case in cases)]
    catalog = configure(
        {**stream, "namespace": namespace} if namespace else stream
        for namespace in namespaces
        for stream in streams
    )
    sent = [
        record("data_stream", {"field1": number % 2 == 0}, namespace, emitted_at=number)
        for number, namespace in enumerate(namespaces)
    ]
    connection.sync(catalog, messages.lines(sent)).succeeded()
    assert_lake_equals(connection.lake, catalog, records(sent))
    assert len(lake.datasets(connection.lake)) == len(namespaces)
