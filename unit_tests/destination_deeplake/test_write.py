"""Intake: blocks as they come, deadlines and signals in between."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from destination_deeplake.stopping import Stop
from destination_deeplake.write import BLOCK_BYTES, blocks


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def test_a_file_comes_in_large_blocks(tmp_path: Path) -> None:
    data = os.urandom(BLOCK_BYTES + 10)
    (tmp_path / "input").write_bytes(data)
    with (tmp_path / "input").open("rb") as file, Stop() as stop:
        found = [bytes(block) for block in blocks(file.fileno(), stop, lambda: None) if block is not None]
    assert [len(block) for block in found] == [BLOCK_BYTES, 10]
    assert b"".join(found) == data


def test_what_is_there_comes_without_waiting_for_more(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    with Stop() as stop:
        found = blocks(reader, stop, lambda: None)
        os.write(writer, b"one")
        assert bytes(next(found) or b"") == b"one"
        os.write(writer, b"two")
        assert bytes(next(found) or b"") == b"two"
        os.close(writer)
        assert list(found) == []


def test_a_deadline_passes_although_no_input_comes(pipe: tuple[int, int]) -> None:
    with Stop() as stop:
        assert next(blocks(pipe[0], stop, lambda: 0.01)) is None


def test_a_signal_ends_the_wait_and_the_handlers_come_back(pipe: tuple[int, int]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stop() as stop:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        assert list(blocks(pipe[0], stop, lambda: None)) == []
        timer.join()
        assert stop.by == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
