"""What the cache's files give is what was put in, or nothing: whatever happens to them."""

from __future__ import annotations

import hashlib
import logging
import os
import random
import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest
import xxhash

from lakebed.storage.cache import files as files_module
from lakebed.storage.cache.files import CacheFiles, Item
from lakebed.storage.cache.layout import BLOCK, HEAD, name_of

if TYPE_CHECKING:
    from pathlib import Path

MB = 1_000_000
ITEM = Item("s3://bucket", "t/chunks/1", "etag/1")
DATA = os.urandom(2 * BLOCK + 77)
BLOCKS = {0: DATA[:BLOCK], 1: DATA[BLOCK : 2 * BLOCK], 2: DATA[2 * BLOCK :]}


@pytest.fixture
def files(tmp_path: Path) -> CacheFiles:
    return CacheFiles(str(tmp_path / "cache"), 50 * MB)


def only_file(files: CacheFiles, tmp_path: Path) -> Path:
    (found,) = (path for path in (tmp_path / "cache").glob("*/*"))
    return found


def test_layout(files: CacheFiles, tmp_path: Path) -> None:
    """The bytes that the documentation of the layout promises: another release reads them too."""
    files.keep(ITEM, {1: b"abc"}, 300_000)
    data = only_file(files, tmp_path).read_bytes()
    name = name_of("s3://bucket", "t/chunks/1", "etag/1", 0)
    assert name == hashlib.blake2b(b"s3://bucket\0t/chunks/1\0etag/1\0000", digest_size=16).digest()
    assert data[:8] == b"LBCACHE1"
    assert data[8:24] == name
    assert struct.unpack("<QQ", data[24:40]) == (300_000, xxhash.xxh3_64_intdigest(data[:32]))
    assert data[40:80] == bytes(40)
    seed = int.from_bytes(name[:8], "little") ^ (1 << 32 | 3)
    assert struct.unpack("<QII", data[80:96]) == (xxhash.xxh3_64_intdigest(b"abc", seed), 4096, 3)
    assert data[96:HEAD] == bytes(HEAD - 96)
    assert data[HEAD:] == b"abc"
    assert only_file(files, tmp_path).name == name.hex()


def test_only_its_owner_reads_it(files: CacheFiles, tmp_path: Path) -> None:
    """What somebody may read of a bucket is not for the others on this machine."""
    files.keep(ITEM, BLOCKS)
    assert only_file(files, tmp_path).stat().st_mode & 0o077 == 0
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def test_any_flipped_byte_is_a_miss(files: CacheFiles, tmp_path: Path) -> None:
    """In the header, the table or the data: nothing wrong is given, and what is whole still is."""
    files.keep(ITEM, BLOCKS, len(DATA))
    path = only_file(files, tmp_path)
    good = path.read_bytes()
    chance = random.Random(5)
    places = [*range(120), *(chance.randrange(len(good)) for _ in range(200)), len(good) - 1]
    for at in places:
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << chance.randrange(8))]) + good[at + 1 :])
        assert files.run(ITEM, 0, len(DATA)) in (None, DATA)
        assert (files.run(ITEM, 0, len(DATA)) is None) == (at < 40 or 64 <= at < 64 + 48 or at >= HEAD)
        assert files.size(ITEM) in (None, len(DATA))
        buffer = memoryview(bytearray(len(DATA)))
        assert not files.run_into(ITEM, len(DATA), buffer) or buffer == DATA
        assert [files.run(ITEM, block, block * BLOCK + 5) for block in BLOCKS].count(None) <= (
            3 if at < 40 else 1
        )


def test_damaged_length_takes_no_memory(files: CacheFiles, tmp_path: Path) -> None:
    """One flipped bit makes a block of 256 KiB one of 2 GB, which nobody reads."""
    files.keep(ITEM, BLOCKS, len(DATA))
    path = only_file(files, tmp_path)
    good = bytearray(path.read_bytes())
    good[64 + 2 * 16 + 15] ^= 0x80
    path.write_bytes(good)
    tracemalloc.start()
    try:
        assert files.run(ITEM, 2, len(DATA)) is None
        assert tracemalloc.get_traced_memory()[1] < 10 * MB
    finally:
        tracemalloc.stop()


def test_any_cut_is_a_miss(files: CacheFiles, tmp_path: Path) -> None:
    """As a power cut or a full disk leaves it."""
    files.keep(ITEM, BLOCKS, len(DATA))
    path = only_file(files, tmp_path)
    good = path.read_bytes()
    for size in (0, 1, 39, 40, HEAD - 1, HEAD, HEAD + 1, HEAD + BLOCK, len(good) - 1):
        path.write_bytes(good[:size])
        assert files.run(ITEM, 0, len(DATA)) is None
        assert files.run(ITEM, 2, len(DATA)) is None
        path.write_bytes(good[:size].ljust(len(good), b"\0"))
        assert files.run(ITEM, 0, len(DATA)) is None


def test_a_damaged_file_is_mended(files: CacheFiles, tmp_path: Path) -> None:
    """What is put in again counts, and a damaged table makes no file huge."""
    files.keep(ITEM, BLOCKS, len(DATA))
    path = only_file(files, tmp_path)
    good = path.read_bytes()
    for at in (3, 30, 64, 72, 75, 79, HEAD + 9):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x80]) + good[at + 1 :])
        files.keep(ITEM, BLOCKS, len(DATA))
        assert files.run(ITEM, 0, len(DATA)) == DATA
        assert path.stat().st_size <= 2 * len(good)


def test_file_of_another_object_is_a_miss(files: CacheFiles, tmp_path: Path) -> None:
    """Somebody may have moved files about."""
    files.keep(ITEM, BLOCKS, len(DATA))
    path = only_file(files, tmp_path)
    other = Item("s3://bucket", "t/chunks/2")
    there = tmp_path / "cache" / f"{other.name(0)[0] % 32:02x}" / other.name(0).hex()
    path.rename(there)
    assert files.run(ITEM, 0, len(DATA)) is None
    assert files.run(other, 0, len(DATA)) is None
    assert files.size(other) is None


def test_blocks_in_any_order(files: CacheFiles) -> None:
    """They lie in the file as they came, and are read as one."""
    for block in (2, 0, 1):
        files.keep(ITEM, {block: BLOCKS[block]})
    assert files.run(ITEM, 0, len(DATA)) == DATA
    buffer = memoryview(bytearray(len(DATA)))
    assert files.run_into(ITEM, len(DATA), buffer)
    assert buffer == DATA
    assert files.run(ITEM, 1, BLOCK + 9) == DATA[BLOCK : BLOCK + 9]


def test_a_link_in_the_place_of_a_file_is_not_followed(files: CacheFiles, tmp_path: Path) -> None:
    """Neither read nor written through."""
    files.keep(ITEM, BLOCKS, len(DATA))
    path = only_file(files, tmp_path)
    target = tmp_path / "elsewhere"
    path.rename(target)
    before = target.read_bytes()
    path.symlink_to(target)
    assert files.run(ITEM, 0, len(DATA)) is None
    files.keep(ITEM, {0: b"x"})
    assert target.read_bytes() == before


@pytest.mark.parametrize("fault", ["full", "no folder", "link"])
def test_failing_disk_turns_it_off_with_one_warning(
    files: CacheFiles,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    """What was there before is still read."""
    files.keep(ITEM, BLOCKS, len(DATA))
    if fault == "full":

        def refuse(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(files_module.os, "pwrite", refuse)
    elif fault == "link":
        (tmp_path / "cache" / "room").unlink()
        (tmp_path / "cache" / "room").symlink_to(tmp_path / "elsewhere")
    else:
        other = tmp_path / "file"
        other.write_bytes(b"")
        files = CacheFiles(str(other / "cache"), 50 * MB)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            files.keep(Item("a", f"chunks/{number}"), BLOCKS)
    assert len(caplog.records) == 1
    assert "LAKEBED_CACHE_DIR" in caplog.text
    assert files.run(ITEM, 0, len(DATA)) == (None if fault == "no folder" else DATA)


def test_removed_folder_is_made_again(files: CacheFiles, tmp_path: Path) -> None:
    """Somebody who needs room may remove it at any time."""
    files.keep(ITEM, BLOCKS, len(DATA))
    (tmp_path / "cache").rename(tmp_path / "gone")
    assert files.run(ITEM, 0, len(DATA)) is None
    files.keep(ITEM, BLOCKS, len(DATA))
    assert files.run(ITEM, 0, len(DATA)) == DATA
