"""Output: whole lines, at once, whatever the pipe does."""

import json
import os
import threading

import pytest

from destination_deeplake.failures import SourceProtocolError, describe
from destination_deeplake.messages import Output, log_message, status_message


def test_a_pipe_that_takes_a_line_in_parts_gets_all_of_it() -> None:
    reader, writer = os.pipe()
    lines = [b"x" * 300_000, b"", b"y"]
    received = bytearray()

    def drain() -> None:
        while data := os.read(reader, 1000):
            received.extend(data)

    thread = threading.Thread(target=drain)
    thread.start()
    Output(writer).lines(lines)
    os.close(writer)
    thread.join()
    os.close(reader)
    assert bytes(received) == b"".join(line + b"\n" for line in lines)


def test_a_reader_that_went_away_is_told_once() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    out = Output(writer)
    with pytest.raises(BrokenPipeError):
        out.lines([b"state"])
    out.log("INFO", "said into the void")
    os.close(writer)


def test_a_log_line_that_nobody_reads_ends_nothing_but_a_state_does() -> None:
    reader, writer = os.pipe()
    out = Output(writer)
    out.log("INFO", "read")
    assert not out.is_unread
    os.close(reader)
    out.log("INFO", "said into the void")
    assert out.is_unread
    with pytest.raises(BrokenPipeError):
        out.lines([b"state"])
    os.close(writer)


def test_lines_of_several_threads_stay_whole() -> None:
    reader, writer = os.pipe()
    out = Output(writer)
    threads = [
        threading.Thread(target=out.lines, args=([letter * 300_000] * 3,)) for letter in (b"a", b"b", b"c")
    ]
    for thread in threads:
        thread.start()
    with os.fdopen(reader, "rb") as file:
        found = sorted(file.readline() for _ in range(9))
    for thread in threads:
        thread.join()
    os.close(writer)
    assert found == [letter * 300_000 + b"\n" for letter in (b"a", b"b", b"c") for _ in range(3)]


def test_messages_are_one_json_object_per_line() -> None:
    reader, writer = os.pipe()
    out = Output(writer)
    out.log("DEBUG", "not asked for")
    out.log("WARN", "two\nlines")
    out.send(status_message("change it"))
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        found = [json.loads(line) for line in file]
    assert found == [
        {"type": "LOG", "log": {"level": "WARN", "message": "two\nlines"}},
        {"type": "CONNECTION_STATUS", "connectionStatus": {"status": "FAILED", "message": "change it"}},
    ]


def test_what_is_said_leaves_the_terminal_and_the_browser_alone_that_show_it() -> None:
    """Control characters, C1 and marks of direction in names are escaped in the text itself; lines stay lines."""
    evil, shown = "\x07\x9b31m\u202e\u2028\r\nb", "\\x07\\x9b31m\\u202e\\u2028\\r\nb"
    assert log_message("INFO", evil)["log"]["message"] == shown
    assert status_message(evil)["connectionStatus"]["message"] == shown
    error = describe(SourceProtocolError(evil)).trace()["trace"]["error"]
    assert error["message"] == error["internal_message"] == shown
    assert error["stack_trace"].endswith(f"SourceProtocolError: {shown}\n")
