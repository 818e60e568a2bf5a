"""Output: whole lines, at once, whatever the pipe does."""

import json
import os
import threading

import pytest

from destination_deeplake.messages import Output, status_message


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
