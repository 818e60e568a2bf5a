"""Syncs in containers: everything arrives, states come back, and the ways to end early are told by the exit status."""

from __future__ import annotations

import stat
from collections.abc import Iterator

import pytest

import lakebed
from integration_tests import lake
from integration_tests.acknowledgements import stamp, violations
from integration_tests.comparison import assert_lake_equals
from integration_tests.conftest import Recording
from integration_tests.image.containers import LAKE, Connector
from integration_tests.messages import configure, lines, read, record, records, state, states, stream
from integration_tests.stores import servers
from integration_tests.stores.servers import Server

pytestmark = pytest.mark.image

CATALOG = configure([stream("t", n={"type": "integer"}, text={"type": "string"})])

BEGINNING = lines([state("t", {"position": 0})])
"""A state before any record is answered at once: the connector reads."""


def rows(first: int, count: int) -> bytes:
    """Rows with ascending numbers, and a state."""
    sent = [record("t", {"n": n, "text": f"row {n} " * 20}) for n in range(first, first + count)]
    return lines([*sent, state("t", {"position": first + count})])


def numbers(connector: Connector) -> list[int]:
    found: list[int] = lake.table(connector.lake, ("", "t"))["n"].to_pylist()
    return found


def test_check_succeeds_where_it_may_write(connector: Connector) -> None:
    ended = connector.check({"destination_path": LAKE}).succeeded()
    assert ended.messages[-1]["connectionStatus"] == {"status": "SUCCEEDED"}
    assert not list(connector.lake.iterdir())


@pytest.mark.parametrize("path", ["/elsewhere", "/airbyte/lake", f"{LAKE}/../etc/lake"])
def test_check_says_where_it_may_not_write(connector: Connector, path: str) -> None:
    """Exit status 0, as the protocol wants it."""
    ended = connector.check({"destination_path": path}).succeeded()
    status = ended.messages[-1]["connectionStatus"]
    assert status["status"] == "FAILED"
    assert "destination_path" in status["message"]


def test_what_the_demo_sends_is_in_the_mounted_folder(connector: Connector, faker: Recording) -> None:
    """As uid 1000, nothing else writable, 512 MB; every value is read back, and every state is acknowledged."""
    sent = stamp(faker.lines)
    ended = connector.sync(faker.catalog, sent).succeeded()
    assert not ended.failures
    assert not violations(read(sent), ended.messages)
    assert assert_lake_equals(connector.lake, faker.catalog, records(faker.messages)) > 30_000
    files = [path.stat() for path in connector.lake.rglob("*") if not path.is_dir()]
    assert {(found.st_uid, found.st_gid) for found in files} == {(1000, 1000)}
    assert all(stat.S_ISREG(found.st_mode) for found in files)


def test_any_other_user_will_do(connector: Connector) -> None:
    """OpenShift gives each project numbers of its own, which are in no list of users."""
    connector.sync(CATALOG, rows(0, 100), user="4711:0").succeeded()
    assert numbers(connector) == list(range(100))
    assert {path.stat().st_uid for path in connector.lake.rglob("*")} == {4711}


def test_a_second_sync_goes_on(connector: Connector) -> None:
    for first in (0, 100):
        connector.sync(CATALOG, rows(first, 100)).succeeded()
    assert numbers(connector) == list(range(200))


def test_sigterm_publishes_what_came_and_says_so(connector: Connector) -> None:
    """`docker stop` and Kubernetes ask once and then kill: what came is acknowledged before."""
    with connector.syncing(CATALOG) as running:
        running.write(BEGINNING)
        running.wait_for_states(1)
        running.deliver(rows(0, 500))
        running.container.kill("SIGTERM")
        ended = running.ended(10)
    assert ended.status == 128 + 15
    assert not ended.was_killed_for_memory
    positions = [answered["stream"]["stream_state"]["position"] for answered in states(ended.messages)]
    assert positions == [0, 500]
    assert numbers(connector) == list(range(500))


@pytest.mark.timeout(300)
def test_sigkill_leaves_what_was_acknowledged(connector: Connector) -> None:
    """The next container can not know that the writer before it is dead; it waits until its lease runs out."""
    connector.sync(CATALOG, rows(0, 100)).succeeded()
    with connector.syncing(CATALOG) as running:
        running.write(BEGINNING)
        running.wait_for_states(1)
        running.deliver(rows(100, 1000))
        running.container.kill("SIGKILL")
        assert running.ended(10).status == 128 + 9
    assert numbers(connector) == list(range(100))
    connector.sync(CATALOG, rows(2000, 1)).succeeded()
    assert numbers(connector) == [*range(100), 2000]


def test_a_hundred_megabytes_pass_through_512(connector: Connector) -> None:
    count = 25_000
    with connector.syncing(CATALOG) as running:
        for first in range(0, 20 * count, count):
            running.write(rows(first, count))
        running.close()
        ended = running.ended().succeeded()
    assert len(states(ended.messages)) == 20
    assert lake.open_stream(connector.lake, ("", "t")).num_samples == 20 * count


def test_too_little_memory_is_told_by_the_engine_and_harms_nothing(connector: Connector) -> None:
    """The kernel kills it: exit status 137, no TRACE; what was there stays, and the next sync works."""
    connector.sync(CATALOG, rows(0, 100)).succeeded()
    with connector.syncing(CATALOG, mem_limit="24m") as running:
        running.write(rows(100, 100))
        running.close()
        ended = running.ended()
    assert ended.status == 128 + 9
    assert ended.was_killed_for_memory
    assert not states(ended.messages)
    connector.sync(CATALOG, rows(100, 100)).succeeded()
    assert numbers(connector) == list(range(200))


def test_a_line_that_is_no_message_fails_with_a_trace(connector: Connector) -> None:
    ended = connector.sync(CATALOG, rows(0, 10) + b"{canary\n")
    assert ended.status == 1
    (failure,) = ended.failures
    assert failure["failure_type"] == "system_error"
    assert "canary" not in repr(ended.output) + ended.errors


@pytest.mark.parametrize("command", [[], ["read"], ["write"], ["check", "--config"]], ids=" ".join)
def test_a_wrong_command_line_ends_with_2(connector: Connector, command: list[str]) -> None:
    ended = connector.run(command)
    assert ended.status == 2
    assert "usage: destination-deeplake" in ended.errors


@pytest.fixture
def bucket() -> Iterator[Server]:
    with servers.moto() as server:
        yield server


def test_a_bucket_needs_no_folder(connector: Connector, bucket: Server) -> None:
    """S3 with keys from the configuration, over the network of this machine."""
    config = {
        "destination_path": bucket.url("lake"),
        "endpoint_url": bucket.endpoint,
        "credentials": {
            "method": "aws_keys",
            "aws_access_key_id": bucket.creds["aws_access_key_id"],
            "aws_secret_access_key": bucket.creds["aws_secret_access_key"],
        },
    }
    checked = connector.check(config, network_mode="host").succeeded()
    assert checked.messages[-1]["connectionStatus"] == {"status": "SUCCEEDED"}
    connector.sync(CATALOG, rows(0, 100), config, network_mode="host").succeeded()
    ds = lakebed.load(f"{config['destination_path']}/t", creds=bucket.creds, read_only=True)
    assert ds["n"].numpy().ravel().tolist() == list(range(100))
    assert not list(connector.lake.iterdir())
