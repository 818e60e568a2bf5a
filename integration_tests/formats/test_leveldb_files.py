"""LevelDB databases come in as the library reads them: logs, tables of several levels, deletions, compressed or not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lakebed
from lakebed.importers.core.source import Source
from lakebed.importers.key_values.leveldb_tables import Folder

plyvel = pytest.importorskip("plyvel")

pytestmark = [pytest.mark.formats, pytest.mark.timeout(300)]


def written(path: Path, seed: int) -> list[tuple[bytes, bytes]]:
    """Write a database, open it anew some times, and return what the library reads."""
    draw = random.Random(seed)
    found: list[tuple[bytes, bytes]] = []
    for _ in range(draw.randint(1, 4)):
        db = plyvel.DB(
            str(path),
            create_if_missing=True,
            write_buffer_size=draw.choice([1 << 14, 1 << 16, 4 << 20]),
            max_file_size=1 << 20,
            compression=draw.choice([None, "snappy"]),
        )
        for _ in range(draw.choice([5, 300, 2000])):
            key = draw.choice([draw.randbytes(draw.randint(0, 30)), b"k%05d" % draw.randrange(1500)])
            if draw.random() < 0.2:
                db.delete(key)
            else:
                db.put(
                    key, draw.choice([draw.randbytes(draw.randint(0, 300)), b"x" * draw.randint(0, 40_000)])
                )
        if draw.random() < 0.3:
            db.compact_range()
        found = [(bytes(key), bytes(value)) for key, value in db]
        db.close()
    return found


@pytest.mark.parametrize("seed", range(12))
def test_databases_are_those_of_the_library(tmp_path: Path, seed: int) -> None:
    expected = written(tmp_path / "db", seed)
    before = {path.name: path.read_bytes() for path in (tmp_path / "db").iterdir()}
    with Folder(Source.of(tmp_path / "db"), "") as store:
        database = store.database("")
        for with_values in (False, True):
            entries = store.entries(database, None, None, with_values=with_values)
            found = [entry for entry in entries if not isinstance(entry, str)]
            assert [(key, store.read(value)) for key, value in found] == expected
        keys = [key for key, _ in expected]
        start, stop = keys[len(keys) // 3], keys[len(keys) // 2]
        some = [entry[0] for entry in store.entries(database, start, stop) if not isinstance(entry, str)]
        assert some == [key for key in keys if start <= key < stop]
    assert {path.name: path.read_bytes() for path in (tmp_path / "db").iterdir()} == before


def test_an_import(tmp_path: Path) -> None:
    db = plyvel.DB(str(tmp_path / "db"), create_if_missing=True, write_buffer_size=1 << 16)
    for at in range(3000):
        db.put(b"%06d" % at, f"text {at}".encode() * 10)
    db.close()
    report = lakebed.import_from("auto", tmp_path / "db", "mem://", progressbar=False, strict=True)
    assert (report.format, report.written) == ("leveldb", 3000)
    assert report.dataset.value.text() == [f"text {at}" * 10 for at in range(3000)]
