"""Much data in little memory: what a sync takes grows with its buffers and its largest record, not with the input."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from integration_tests import lake
from integration_tests.connector import Connection
from integration_tests.messages import Message, configure, lines, state, stream

LIMIT = 512 << 20
"""Bytes of memory that a sync may take at most."""
BLOCK = 10_000
PADDING = "x" * 850


def rows(count: int, modulus: int) -> Iterator[bytes]:
    """Records of about 1 kB in blocks, with a state behind each."""
    head = b'{"type":"RECORD","record":{"stream":"wide","emitted_at":1700000000000,"data":{"id":'
    tail = b',"text":"' + PADDING.encode() + b'"}}}\n'
    for start in range(0, count, BLOCK):
        numbers = range(start, min(start + BLOCK, count))
        made = [b'%b%d,"key":%d,"value":%d.5%b' % (head, i, i * 7919 % modulus, i, tail) for i in numbers]
        yield b"".join(made) + lines([state("wide", {"id": numbers[-1]})])


RUN = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
open(sys.argv[1], "w").write(str(peak))
sys.exit(status)
"""
"""Starts a command and notes its peak. A process of its own: a fork takes over the peak of whoever forks."""


def run(connection: Connection, catalog: Message, blocks: Iterator[bytes]) -> tuple[int, int]:
    """Feed a sync; return its exit status and the most memory that it had, in bytes."""
    peak = connection.folder / "peak"
    command = [sys.executable, "-S", "-c", RUN, peak, *connection.command(catalog)]
    with (
        (connection.folder / "answers").open("wb") as answers,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=answers) as process,
    ):
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:  # the exit status tells that it ended early
            for block in blocks:
                process.stdin.write(block)
    return process.returncode, int(peak.read_text())


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
@pytest.mark.parametrize(
    "count", [20_000, pytest.param(10_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_memory_does_not_grow_with_the_input(
    connection: Connection, count: int, mode: str, record_property: Callable[[str, object], None]
) -> None:
    """Rows of 1 kB; by key, every one of them comes three times."""
    distinct = count if mode == "append" else count // 3 + 1
    properties = {
        "id": {"type": "integer"},
        "key": {"type": "integer"},
        "value": {"type": "number"},
        "text": {"type": "string"},
    }
    keyed = {} if mode == "append" else {"primary_key": [["key"]], "cursor_field": ["id"]}
    catalog = configure([stream("wide", **properties)], mode, **keyed)
    status, peak = run(connection, catalog, rows(count, distinct if keyed else 2**40))
    record_property("proof", f"{count} rows of 1 kB, {mode}: {peak / 2**20:.0f} MiB")
    assert status == 0
    assert peak <= LIMIT
    stored = lake.open_stream(connection.lake, ("", "wide"))
    assert len(stored) == distinct
    ids, keys = stored["id"].numpy().ravel(), stored["key"].numpy().ravel()
    assert len(np.unique(keys)) == distinct
    assert np.array_equal(ids * 7919 % (distinct if keyed else 2**40), keys)
    # The newest of each key is the last that came with it: none of the last `distinct` rows is missing.
    assert np.array_equal(np.sort(ids), np.arange(count - distinct, count))
    texts = pa.chunked_array([part["text"] for part in pa.table(stored[-1000:]).to_batches()])
    assert set(texts.to_pylist()) == {PADDING}
