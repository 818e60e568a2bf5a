"""Servers that are not there, or say nothing: who gave a timeout waits no longer for them."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import lakebed
from lakebed.errors import QueryError, StorageUnavailableError
from lakebed.reading.remote.tasks import LazyFuture
from lakebed.storage.concurrently import concurrently
from lakebed.storage.deadline import deadline, remaining, within
from lakebed.storage.objects import ObjectStorage

SECONDS = 0.4
WITHOUT = 9.0
"""Seconds that a call without a deadline takes, and more: the machine may have other things to do."""


@pytest.fixture
def silent() -> Iterator[int]:
    """Return the port of a server that takes connections, and never answers."""
    yield from _server(lambda _: None)


@pytest.fixture
def mad() -> Iterator[int]:
    """Return the port of a server that speaks another protocol."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"nonsense\r\n\r\n")
        connection.close()

    yield from _server(answer)


def _server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    taken = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    taken.append(connection)
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        thread.join(5)
    for connection in taken:
        connection.close()


@pytest.fixture
def absent() -> int:
    """Return a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _asked(address: str, endpoint: str | None) -> tuple[QueryError, float]:
    creds = None
    if endpoint is not None:
        creds = {"endpoint_url": endpoint, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    began = time.monotonic()
    with pytest.raises(QueryError) as caught:
        lakebed.query(f'SELECT * FROM "{address}" WHERE x > 1', timeout=SECONDS, creds=creds)
    return caught.value, time.monotonic() - began


@pytest.mark.parametrize("scheme", ["http", "https", "s3"])
@pytest.mark.parametrize("kind", ["silent", "mad", "absent"])
def test_a_query_waits_no_longer_than_its_timeout(
    scheme: str, kind: str, request: pytest.FixtureRequest
) -> None:
    port = request.getfixturevalue(kind)
    if scheme == "s3":
        error, took = _asked("s3://bucket/data", f"http://127.0.0.1:{port}")
    else:
        error, took = _asked(f"{scheme}://127.0.0.1:{port}/data", None)
    assert took < WITHOUT
    assert f"127.0.0.1:{port}" in str(error)
    if not (
        kind == "mad" and scheme == "http"
    ):  # an answer that is none ends it at once, or as the timeout does
        assert re.search(rf"timeout of {SECONDS:g} seconds.*line 1, column 15", str(error))
        assert error.kind == "limit"


def test_who_gave_no_timeout_waits_as_long_as_the_storage_does(
    absent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.config.RETRY_SECONDS", 0.2)
    storage = ObjectStorage("http", f"127.0.0.1:{absent}", "data")
    with pytest.raises(StorageUnavailableError, match="refused") as caught:
        storage.get("k")
    assert "timeout" not in str(caught.value)


def test_all_requests_of_a_storage_know_the_deadline(silent: int) -> None:
    storage = ObjectStorage("http", f"127.0.0.1:{silent}", "data")
    for call in (
        lambda: storage.get("k"),
        lambda: storage.stat("k"),
        lambda: storage.get_ranges("k", [(0, 10), (1 << 20, 10)]),
        lambda: concurrently([lambda: storage.get("a"), lambda: storage.get("b")]),
    ):
        began = time.monotonic()
        with deadline(0.1, 7.0), pytest.raises(StorageUnavailableError, match="timeout of 7 seconds"):
            call()
        assert time.monotonic() - began < WITHOUT


def test_a_deadline_is_known_inside_and_nowhere_else() -> None:
    assert remaining() is None
    with deadline(None, None):
        assert remaining() is None
    with deadline(100.0, 100.0):
        left = remaining()
        assert left is not None
        assert 90 < left <= 100
        assert within(remaining, "read", str) is not None
        assert all(found is not None for found in concurrently([remaining] * 5))
        elsewhere: list[float | None] = []
        thread = threading.Thread(target=lambda: elsewhere.append(remaining()))
        thread.start()
        thread.join()
        assert elsewhere == [None]
        with pytest.raises(ZeroDivisionError):
            within(lambda: 1 / 0, "read", str)
    assert remaining() is None
    with deadline(-1.0, 1.0), pytest.raises(StorageUnavailableError, match="cannot read here"):
        within(lambda: None, "read", lambda: "here")


def test_what_another_thread_asks_for_is_waited_for_until_the_deadline() -> None:
    go_on, begun = threading.Event(), threading.Event()

    def call() -> bool:
        begun.set()
        return go_on.wait(20)

    task = LazyFuture(call)
    thread = threading.Thread(target=task.run)
    thread.start()
    begun.wait(20)
    with deadline(0.05, 3.0), pytest.raises(StorageUnavailableError, match="timeout of 3 seconds"):
        task.result()
    go_on.set()
    assert task.result()
    thread.join()
