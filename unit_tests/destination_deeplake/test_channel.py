"""Channel: what the environment says of it, and connections to sockets that are there early, late or never."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from destination_deeplake import channel
from destination_deeplake.channel import Channel, Format, Medium, connect, read_channel
from destination_deeplake.failures import ConfigError, FailureType, IncompleteSourceError, describe


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Channel()),
        ({"DATA_CHANNEL_MEDIUM": "", "DATA_CHANNEL_FORMAT": ""}, Channel()),
        ({"DATA_CHANNEL_MEDIUM": "STDIO", "DATA_CHANNEL_FORMAT": "JSONL"}, Channel()),
        ({"DATA_CHANNEL_MEDIUM": "STDIO", "DATA_CHANNEL_SOCKET_PATHS": "/a"}, Channel()),
        (
            {"DATA_CHANNEL_MEDIUM": "SOCKET", "DATA_CHANNEL_SOCKET_PATHS": "/a"},
            Channel(Medium.SOCKET, Format.JSONL, ("/a",)),
        ),
        (
            {
                "DATA_CHANNEL_MEDIUM": "SOCKET",
                "DATA_CHANNEL_FORMAT": "PROTOBUF",
                "DATA_CHANNEL_SOCKET_PATHS": "/a b,/c",
            },
            Channel(Medium.SOCKET, Format.PROTOBUF, ("/a b", "/c")),
        ),
    ],
)
def test_the_environment_names_the_channel(environ: dict[str, str], expected: Channel) -> None:
    assert read_channel(environ) == expected


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"DATA_CHANNEL_MEDIUM": "socket"}, "DATA_CHANNEL_MEDIUM is 'socket'; set it to STDIO or SOCKET"),
        ({"DATA_CHANNEL_FORMAT": "AVRO"}, "DATA_CHANNEL_FORMAT is 'AVRO'; set it to JSONL or PROTOBUF"),
        ({"DATA_CHANNEL_FORMAT": "PROTOBUF"}, "set DATA_CHANNEL_MEDIUM to SOCKET, or the format to JSONL"),
        ({"DATA_CHANNEL_MEDIUM": "SOCKET"}, "DATA_CHANNEL_SOCKET_PATHS is not set"),
        ({"DATA_CHANNEL_MEDIUM": "SOCKET", "DATA_CHANNEL_SOCKET_PATHS": "/a,"}, "empty path: '/a,'"),
        ({"DATA_CHANNEL_MEDIUM": "SOCKET", "DATA_CHANNEL_SOCKET_PATHS": "/a,/b,/a"}, "names '/a' twice"),
        ({"DATA_CHANNEL_MEDIUM": "SOCKET", "DATA_CHANNEL_SOCKET_PATHS": "/" + 107 * "é"}, "107 bytes"),
    ],
)
def test_what_is_wrong_is_named_with_its_variable(environ: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match="DATA_CHANNEL_") as caught:
        read_channel(environ)
    assert words in str(caught.value)


class Log(list[str]):
    """Lines of a log."""

    def __call__(self, level: str, text: str) -> None:
        self.append(f"{level} {text}")


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[list[str]]:
    """Three paths, relative to the folder: those of pytest can be too long for a socket."""
    with contextlib.chdir(tmp_path):
        yield ["one", "two", "three"]


def listening(path: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen()
    return server


def never() -> bool:
    return False


def test_sockets_come_in_the_order_of_their_paths(paths: list[str]) -> None:
    log = Log()
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(listening(path)) for path in paths]
        found = [stack.enter_context(one) for one in connect(paths, log, is_stopped=never)]
        for number, server in enumerate(servers):
            client, _ = server.accept()
            with client:
                client.sendall(b"%d" % number)
        assert [one.recv(10) for one in found] == [b"0", b"1", b"2"]
        assert all(one.getblocking() for one in found)
    assert log == [f"INFO Socket {path} connected for reading" for path in paths]


def test_each_socket_is_connected_to_as_soon_as_somebody_listens(paths: list[str]) -> None:
    """The last one is there first, and a file is there before somebody listens on it."""
    log = Log()
    with contextlib.ExitStack() as stack:
        stack.enter_context(listening("three"))
        bound = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        bound.bind("two")

        def later() -> None:
            while not log:
                time.sleep(0.01)
            bound.listen()
            while len(log) < 2:
                time.sleep(0.01)
            stack.enter_context(listening("one"))

        thread = threading.Thread(target=later)
        thread.start()
        found = [stack.enter_context(one) for one in connect(paths, log, is_stopped=never)]
        thread.join()
        assert [one.getpeername() for one in found] == paths
    assert [line.split()[2] for line in log] == ["three", "two", "one"]


def test_a_source_that_is_late_is_told_of_each_minute(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_SECONDS_BETWEEN_LINES", 0.05)
    log = Log()
    with listening("two"), pytest.raises(IncompleteSourceError) as caught:
        connect(paths, log, is_stopped=never, seconds=0.4)
    assert describe(caught.value).failure_type is FailureType.TRANSIENT
    missing = "one (No such file or directory), three (No such file or directory)"
    assert missing in str(caught.value)
    assert "DATA_CHANNEL_SOCKET_PATHS" in str(caught.value)
    first, *others = log
    assert first == "INFO Socket two connected for reading"
    assert others
    assert all(line.startswith("INFO Waiting for") and missing in line for line in others)


def test_a_full_queue_of_the_listener_does_not_block(paths: list[str]) -> None:
    """A connect that waits for the source to accept would not see a signal."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(listening("one"))
        server.listen(0)
        for _ in range(2):
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect("one")
        with pytest.raises(IncompleteSourceError, match=r"one \(Resource temporarily unavailable\)"):
            connect(["one"], Log(), is_stopped=never, seconds=0.1)


def test_a_signal_ends_the_wait(paths: list[str]) -> None:
    stopped = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        with listening("one"):
            timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
            timer.start()
            started = time.monotonic()
            assert connect(paths, Log(), is_stopped=stopped.is_set) == []
            assert time.monotonic() - started < 60
            timer.join()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_no_descriptor_stays_open_after_a_wait_in_vain(paths: list[str]) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with listening("one"):
        with pytest.raises(IncompleteSourceError):
            connect(paths, Log(), is_stopped=never, seconds=0.05)
        assert connect(paths, Log(), is_stopped=lambda: True) == []
        assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
