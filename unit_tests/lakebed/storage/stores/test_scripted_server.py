"""Web servers that do less than they should: no etags, no ranges, answers that break off."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lakebed import config
from lakebed.errors import KeyNotFound, StorageUnavailableError, TruncatedReadError
from lakebed.storage.objects import ObjectStorage

CONTENT = bytes(range(256)) * 400


class Script:
    """What the server does, and what it was asked."""

    def __init__(self) -> None:
        self.broken = 0  # so many answers end after half of their body
        self.asked: list[tuple[str, str]] = []


class Handler(BaseHTTPRequestHandler):
    """Sends whole files without etags, whatever range is asked for."""

    protocol_version = "HTTP/1.1"
    script: Script

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        self.script.asked.append((self.command, self.headers.get("Range", "")))
        if not self.path.endswith("/k"):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.send_header("Last-Modified", "Wed, 21 Oct 2026 07:28:00 GMT")
        self.end_headers()
        if with_body and self.script.broken:
            self.script.broken -= 1
            self.wfile.write(CONTENT[: len(CONTENT) // 2])
            self.close_connection = True
        elif with_body:
            self.wfile.write(CONTENT)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def storage(script: Script, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStorage]:
    monkeypatch.setattr(config, "RETRY_SECONDS", 1.0)

    class Scripted(Handler):
        pass

    Scripted.script = script
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield ObjectStorage("http", f"127.0.0.1:{server.server_port}", "data")
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_broken_answer_without_etag_is_asked_for_anew(storage: ObjectStorage, script: Script) -> None:
    """The client can not go on in the middle, as it does not know whether the object is still the same."""
    script.broken = 2
    assert storage.get("k") == CONTENT
    assert len(script.asked) == 3
    script.broken = 1
    buffer = bytearray(len(CONTENT))
    assert storage.get_into("k", memoryview(buffer)) == len(CONTENT)
    assert buffer == CONTENT


def test_a_server_that_always_breaks_off_is_unavailable(storage: ObjectStorage, script: Script) -> None:
    """Half of an object is never returned."""
    script.broken = 10**6
    with pytest.raises(StorageUnavailableError, match="'k'"):
        storage.get("k")


def test_a_server_without_ranges_is_read_as_a_whole(storage: ObjectStorage) -> None:
    """Slowly, and rightly."""
    assert storage.get_range("k", 10, 5) == CONTENT[10:15]
    assert storage.get_ranges("k", [(0, 3), (100_000, 2400), (7, 0)]) == [CONTENT[:3], CONTENT[100_000:], b""]
    tail = storage.get_tail("k", 7)
    assert tail.data == CONTENT[-7:]
    assert tail.stat.size == len(CONTENT)
    assert tail.stat == storage.stat("k")
    with pytest.raises(TruncatedReadError):
        storage.get_range("k", 100_000, 9999)
    with pytest.raises(KeyNotFound):
        storage.get_range("missing", 0, 1)
