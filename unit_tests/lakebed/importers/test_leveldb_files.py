"""LevelDB comes in: tables, logs, deletions, words with numbers, splits, and what is damaged."""

from __future__ import annotations

import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source
from lakebed.importers.key_values import key_scans, leveldb_files
from lakebed.importers.key_values.leveldb_tables import Folder
from unit_tests.lakebed.importers.hostile import check_hostile, flip, truncate
from unit_tests.lakebed.importers.leveldb_writer import write
from unit_tests.lakebed.importers.sources import imported
from unit_tests.lakebed.importers.test_lmdb_files import datum, files, numbered

load = partial(imported, "leveldb")


def texts(ds: Any) -> dict[str, str]:
    return dict(zip(ds.key.text(), ds.value.text(), strict=True))


@pytest.mark.parametrize("snappy", [False, True])
def test_the_newest_change_counts(tmp_path: Path, snappy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_scans, "_ITEM_ENTRIES", 3)
    old: dict[bytes, bytes | None] = {f"k{at:03}!".encode(): f"old {at}".encode() * 20 for at in range(40)}
    new: dict[bytes, bytes | None] = {f"k{at:03}!".encode(): f"new {at}".encode() for at in range(10, 20)}
    gone: dict[bytes, bytes | None] = {f"k{at:03}!".encode(): None for at in range(15, 25)}
    log: list[dict[bytes, bytes | None]] = [
        {b"k000!": None, b"k016!": b"again"},
        {b"k001!": b"x" * 100_000},
        {b"k001!": b"last"},
    ]
    write(tmp_path / "db", [old, new, gone], log, snappy=snappy)
    with (tmp_path / "db" / "000090.log").open("ab") as file:
        file.write(bytes(1000))  # allocated beforehand
    expected = {**old, **new, **gone, **log[0], **log[2]}
    before = {path.name: path.read_bytes() for path in (tmp_path / "db").iterdir()}
    report = imported("auto", tmp_path / "db", workers=2, strict=True)
    assert report.format == "leveldb"
    assert texts(report.dataset) == {
        key.decode(): value.decode() for key, value in sorted(expected.items()) if value is not None
    }
    assert {path.name: path.read_bytes() for path in (tmp_path / "db").iterdir()} == before


def test_tables_of_a_level_follow_each_other(tmp_path: Path) -> None:
    runs: list[dict[bytes, bytes | None]] = [
        {f"k{at:03}!".encode(): b"text" for at in range(start, start + 7)} for start in (14, 0, 7)
    ]
    write(tmp_path / "db", runs, level=2)
    assert list(texts(load(tmp_path / "db", strict=True).dataset)) == [f"k{at:03}!" for at in range(21)]


def test_a_range_holds_only_its_changes_of_the_log(tmp_path: Path) -> None:
    """Workers scan ranges of a database: each holds its part of the logs, not all of them."""
    write(tmp_path / "db", [], [{f"k{at}".encode(): bytes(1 << 20)} for at in range(8)])
    with Folder(Source.of(tmp_path / "db"), "") as folder:
        tracemalloc.start()
        try:
            entries = folder.entries(folder.database(""), b"k3", b"k4")
            assert next(entries)[0] == b"k3"
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held < 3 << 20


def words(root: Path) -> None:
    write(root, [dict(numbered(root.parent / "photos"))])


def test_words_datums_and_splits(tmp_path: Path) -> None:
    entries: dict[bytes, bytes | None] = dict(numbered(tmp_path / "photos"))
    write(tmp_path / "words", [entries])
    ds = load(tmp_path / "words", strict=True).dataset
    assert list(ds.tensors) == ["key", "image", "label"]
    assert ds.image[4].tobytes() == entries[b"image-000000005"]
    for split, count in (("train", 5), ("test", 2)):
        values: dict[bytes, bytes | None] = {
            f"{at:05}".encode(): datum((1, 2, 2), bytes(4), label=at) for at in range(count)
        }
        write(tmp_path / "dbs" / f"mnist_{split}_leveldb", [values])
    report = imported("auto", tmp_path / "dbs", strict=True)
    assert report.splits == {"train": 5, "test": 2}
    assert report.dataset.arrays.shape == (7, 1, 2, 2)
    photos: dict[bytes, bytes | None] = dict(files(tmp_path / "photos", 6))
    write(tmp_path / "files", [photos])
    ds = load(tmp_path / "files", strict=True).dataset
    assert [ds.images[row].tobytes() for row in range(6)] == list(photos.values())
    (tmp_path / "files" / "photo.jpg").write_bytes(b"")
    assert leveldb_files.recognise(Source.of(tmp_path / "files")) is None


def test_damage_is_told_and_others_come_in(tmp_path: Path) -> None:
    old: dict[bytes, bytes | None] = {f"k{at:03}!".encode(): f"text {at}".encode() for at in range(40)}
    new: dict[bytes, bytes | None] = {f"l{at:03}!".encode(): f"text {at}".encode() for at in range(10)}

    def damaged(name: str, at: int, data: bytes) -> Any:
        write(tmp_path / "db", [old], [new, {b"m!": b"text"}])
        with (tmp_path / "db" / name).open("r+b") as file:
            file.seek(at)
            file.write(data)
        with pytest.raises(IngestionError):
            load(tmp_path / "db", strict=True)
        return load(tmp_path / "db")

    report = damaged("000010.ldb", 20, b"\xff")
    assert report.written == 35 + 11
    assert "checksum" in report.problems[0].reason
    report = damaged("000090.log", 20, b"\xff")
    assert report.written == 40  # the rest of a block of a log lies behind the damage
    report = damaged("000010.ldb", (tmp_path / "db" / "000010.ldb").stat().st_size - 3, b"\xff")
    assert report.written == 11
    for name in ("CURRENT", "MANIFEST-000007"):
        write(tmp_path / "db", [old], [new])
        data = bytearray((tmp_path / "db" / name).read_bytes())
        data[10] ^= 0xFF
        (tmp_path / "db" / name).write_bytes(data)
        with pytest.raises(IngestionError, match="manifest"):
            load(tmp_path / "db")
    write(tmp_path / "db", [old], [new])
    (tmp_path / "db" / "000010.ldb").unlink()
    assert "missing" in load(tmp_path / "db").problems[0].reason


def hostile(root: Path) -> None:
    entries: dict[bytes, bytes | None] = {
        f"{at:04}.bin".encode(): bytes([at]) * (300 * at) for at in range(20)
    }
    write(root, [dict(numbered(root.parent / "photos", 3)), entries], [entries, {b"0003.bin": None}])


def test_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_hostile("leveldb", hostile, tmp_path, 5)
    monkeypatch.setattr("lakebed.importers.key_values.leveldb_tables.masked_crc32c", lambda data: 0)
    monkeypatch.setattr("unit_tests.lakebed.importers.leveldb_writer.masked_crc32c", lambda data: 0)
    check_hostile(
        "leveldb", hostile, tmp_path, 10, mutations=(flip, truncate), seed=2
    )  # as one who knows checksums


@pytest.mark.soak
def test_much_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_hostile("leveldb", hostile, tmp_path, 200, seed=3)
    monkeypatch.setattr("lakebed.importers.key_values.leveldb_tables.masked_crc32c", lambda data: 0)
    monkeypatch.setattr("unit_tests.lakebed.importers.leveldb_writer.masked_crc32c", lambda data: 0)
    check_hostile("leveldb", hostile, tmp_path, 300, mutations=(flip, truncate), seed=4)
