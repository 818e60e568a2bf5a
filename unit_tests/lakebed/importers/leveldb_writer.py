"""Write LevelDB databases of the simplest shape, without the library: tables of some blocks, and a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lakebed.importers.tfrecord.tfrecord_files import masked_crc32c

Changes = Mapping[bytes, bytes | None]


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def part(data: bytes) -> bytes:
    return varint(len(data)) + data


def records(contents: Sequence[bytes]) -> bytes:
    """Return the records of a log or manifest."""
    found = b""
    for content in contents:
        is_first = True
        while True:
            left = 32768 - len(found) % 32768
            if left < 7:
                found += b"\0" * left
                continue
            now, content = content[: left - 7], content[left - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[
                is_first, not content
            ]
            typed = bytes([kind]) + now
            found += masked_crc32c(typed).to_bytes(4, "little") + len(now).to_bytes(2, "little") + typed
            is_first = False
            if not content:
                break
    return found


def block(entries: Sequence[tuple[bytes, bytes]], *, snappy: bool) -> bytes:
    """Return a block with its compression and checksum."""
    content, before, restarts = b"", b"", []
    for at, (key, value) in enumerate(entries):
        shared = 0
        if at % 4:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        else:
            restarts.append(len(content))
        content += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    restarts = restarts or [0]
    content += b"".join(at.to_bytes(4, "little") for at in (*restarts, len(restarts)))
    if snappy:
        content = pa.compress(content, "snappy", asbytes=True)
    content += bytes([snappy])
    return content + masked_crc32c(content).to_bytes(4, "little")


def internal(key: bytes, number: int, *, is_put: bool = True) -> bytes:
    return key + (number << 8 | is_put).to_bytes(8, "little")


def table(changes: Changes, number: int, *, snappy: bool, fill: int) -> bytes:
    """Return a table whose changes have numbers from one on."""
    keys = sorted(changes)
    entries = [
        (internal(key, number + at, is_put=changes[key] is not None), changes[key] or b"")
        for at, key in enumerate(keys)
    ]
    data, index = b"", []
    for start in range(0, len(entries), fill):
        run = entries[start : start + fill]
        made = block(run, snappy=snappy)
        index.append((run[-1][0], varint(len(data)) + varint(len(made) - 5)))
        data += made
    places = b""
    for of in ([], index):
        made = block(of, snappy=False)
        places += varint(len(data)) + varint(len(made) - 5)
        data += made
    return data + places.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")


def batch(changes: Changes, number: int) -> bytes:
    found = number.to_bytes(8, "little") + len(changes).to_bytes(4, "little")
    for key, value in changes.items():
        found += (b"\0" + part(key)) if value is None else (b"\1" + part(key) + part(value))
    return found


def write(
    path: Path,
    tables: Sequence[Changes],
    log: Sequence[Changes] = (),
    *,
    level: int = 0,
    snappy: bool = True,
    fill: int = 5,
) -> None:
    """Write a database: older tables first, then what is in its log; a value of None is a deletion."""
    path.mkdir(parents=True, exist_ok=True)
    edit = (
        b"\x01"
        + part(b"leveldb.BytewiseComparator")
        + b"\x02"
        + varint(90)
        + b"\x03"
        + varint(99)
        + b"\x04"
        + varint(10_000)
    )
    number = 1
    for at, changes in enumerate(tables):
        data = table(changes, number, snappy=snappy, fill=fill)
        (path / f"{10 + at:06}.ldb").write_bytes(data)
        keys = sorted(changes)
        ends = part(internal(keys[0], 1)) + part(internal(keys[-1], 1))
        edit += b"\x07" + varint(level) + varint(10 + at) + varint(len(data)) + ends
        number += len(changes)
    (path / "MANIFEST-000007").write_bytes(records([edit]))
    (path / "CURRENT").write_text("MANIFEST-000007\n")
    (path / "000080.log").write_bytes(records([batch({b"of": b"before"}, 1)]))
    batches = []
    for changes in log:
        batches.append(batch(changes, number))
        number += len(changes)
    (path / "000090.log").write_bytes(records(batches))
    (path / "LOCK").write_bytes(b"")
