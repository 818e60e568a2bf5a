"""What real Airbyte sources send is in the lake, value by value."""

from __future__ import annotations

from integration_tests.comparison import assert_lake_equals
from integration_tests.conftest import Recording
from integration_tests.connector import Connection
from integration_tests.messages import records
from integration_tests.sockets.carrier import Carrier


def test_every_value_of_source_faker_arrives_and_states_are_acknowledged(
    connection: Connection, faker: Recording, carrier: Carrier
) -> None:
    outcome = carrier.sync(connection, faker.catalog, faker.lines).succeeded()
    assert not outcome.failures
    sent = records(faker.messages)
    compared = assert_lake_equals(connection.lake, faker.catalog, sent, in_order=carrier.in_order)
    assert compared > 30_000
    assert not carrier.violations(faker.lines, outcome)


def test_a_second_sync_of_source_faker_is_appended(connection: Connection, faker: Recording) -> None:
    for _ in range(2):
        connection.sync(faker.catalog, faker.lines).succeeded()
    sent = {name: rows + rows for name, rows in records(faker.messages).items()}
    assert_lake_equals(connection.lake, faker.catalog, sent)


def test_every_value_of_all_scenarios_of_source_smoke_test_arrives(
    connection: Connection, smoke: Recording, carrier: Carrier
) -> None:
    outcome = carrier.sync(connection, smoke.catalog, smoke.lines).succeeded()
    assert not outcome.failures
    assert len(smoke.catalog["streams"]) >= 22
    sent = records(smoke.messages)
    compared = assert_lake_equals(connection.lake, smoke.catalog, sent, in_order=carrier.in_order)
    assert compared > 5_000
