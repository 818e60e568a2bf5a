"""Syncs from databases, and checksums of columns that a database can compute as well.

Checksums are made for blocks of rows, so that neither side holds a column of ten million values at once: MD5 of the
non-null values, and of the null flags, in the order of the rows.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from integration_tests import lake
from integration_tests.connector import Connection, write_json
from integration_tests.messages import Json, StreamName, configure, parse, read

BLOCK = 100_000
"""Rows of a checksum."""
ROOT = Path(__file__).resolve().parent.parent
Digest = tuple[str, str]
Content = Callable[[pa.Array], bytes]


def sync(connection: Connection, source: str, config: Mapping[str, Json]) -> list[Json]:
    """Pipe a source into the destination; the messages that came back.

    Parameters
    ----------
    source
        Module of the source, such as ``integration_tests.postgres_source``.
    config
        Its configuration.
    """
    folder = connection.folder
    write_json(folder / "source.json", config)

    def start(command: str, *options: str | Path) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-m", source, command, "--config", folder / "source.json", *options]
        return subprocess.Popen(line, stdout=subprocess.PIPE, cwd=ROOT)

    found, _ = start("discover").communicate()
    catalog = configure(parse(found)["catalog"]["streams"])
    command = connection.command(catalog)
    sending = start("read", "--catalog", folder / "catalog.json")
    with sending:
        done = subprocess.run(command, stdin=sending.stdout, stdout=subprocess.PIPE, check=True)
    assert sending.returncode == 0
    return list(read(done.stdout))


def digests(place: Path, name: StreamName, content: Mapping[str, Content]) -> dict[str, list[Digest]]:
    """Checksums of the columns of a stream, block by block.

    Parameters
    ----------
    content
        For each column, the bytes of its values; it is given an array without nulls.
    """
    return digests_of(_blocks(place, name), content)


def digests_of(blocks: Iterable[pa.Table], content: Mapping[str, Content]) -> dict[str, list[Digest]]:
    """Checksums of the columns of tables, each of them a block."""
    found: dict[str, list[Digest]] = {column: [] for column in content}
    for table in blocks:
        for column, bytes_of in content.items():
            values = table[column].combine_chunks()
            nulls = values.is_null().to_numpy(zero_copy_only=False).astype(np.uint8) + ord("0")
            found[column].append((_md5(bytes_of(values.drop_null())), _md5(nulls.tobytes())))
    return found


def _blocks(place: Path, name: StreamName) -> Iterator[pa.Table]:
    dataset = lake.open_stream(place, name)
    tensors = lake.columns(dataset)
    for start in range(0, len(dataset), BLOCK):
        part = pa.table(dataset[start : start + BLOCK])
        yield pa.table({field: part[tensor] for field, tensor in tensors.items()})


def _md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def check_states(answered: list[Json], rows: int) -> None:
    """The last state speaks of the last row, and each row is counted once."""
    states = [message["state"] for message in answered if message["type"] == "STATE"]
    assert states[-1]["stream"]["stream_state"] == {"position": rows}
    assert sum(state["destinationStats"]["recordCount"] for state in states) == rows
