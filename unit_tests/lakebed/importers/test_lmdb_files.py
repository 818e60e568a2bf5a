"""LMDB comes in: keys as rows, numbered words as columns, several databases, Caffe's Datum, and what is damaged."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source
from lakebed.importers.key_values import key_scans, lmdb_files
from lakebed.importers.key_values.key_values import datum_of
from lakebed.storage.url import open_storage, parse
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.importers.hostile import check_hostile, flip, truncate
from unit_tests.lakebed.importers.sources import imported
from unit_tests.lakebed.importers.test_tfrecord import varint
from unit_tests.lakebed.importers.test_tsv import image

PAGE = 4096


def write(
    path: Path, entries: Mapping[bytes, bytes], named: Mapping[str, Mapping[bytes, bytes]] | None = None
) -> None:
    """Write ``path/data.mdb`` anew, with named databases beside the entries."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    with lmdb.open(str(path), map_size=1 << 28, max_dbs=8, lock=False) as env:
        databases = {name: env.open_db(name.encode()) for name in named or {}}
        with env.begin(write=True) as transaction:
            for key, value in entries.items():
                transaction.put(key, value)
            for name, of in (named or {}).items():
                for key, value in of.items():
                    transaction.put(key, value, db=databases[name])


load = partial(imported, "lmdb")


def files(root: Path, count: int, suffix: str = "jpg") -> dict[bytes, bytes]:
    root.mkdir(parents=True, exist_ok=True)
    return {f"photos/{at:04}.{suffix}".encode(): image(root, at % 6, suffix) for at in range(count)}


def test_entries_in_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of few entries or bytes are put together; long values, several values of a key, and orders of keys."""
    monkeypatch.setattr(lmdb_files, "_MOST_ENTRIES", 7)
    draw = np.random.default_rng(0)
    entries = {b"%05d" % at: draw.bytes(int(draw.integers(0, 9000))) for at in range(400)}
    write(tmp_path, entries, {"other": {b"a": b"b"}})
    with lmdb.open(str(tmp_path), map_size=1 << 28, max_dbs=8) as env:
        several = env.open_db(b"several", dupsort=True)
        numbers = env.open_db(b"numbers", integerkey=True)
        turned = env.open_db(b"turned", reverse_key=True)
        with env.begin(write=True) as transaction:
            for at in range(60):
                transaction.put(b"%d" % (at % 3), b"%02d" % at, db=several)
                transaction.put((1000 * at).to_bytes(8, "little"), b"%d" % at, db=numbers)
                transaction.put(b"%02d" % at, b"", db=turned)

    def found(
        name: str, start: bytes | None, stop: bytes | None, with_values: bool = True
    ) -> list[tuple[bytes, bytes]]:
        every = store.entries(store.database(name), start, stop, with_values=with_values)
        return [
            (one[0], store.read(one[1])) for one in every if not isinstance(one, key_scans.Database | str)
        ]

    with lmdb_files._Opener()(Source.of(tmp_path), "data.mdb") as store:
        assert found("", None, None) == list(entries.items())
        databases = store.entries(store.database(""), b"a", None)
        assert [one.name for one in databases if isinstance(one, key_scans.Database)] == [
            "numbers",
            "other",
            "several",
            "turned",
        ]
        for start, stop in ((b"00000", b"00001"), (b"001", b"00399"), (b"00200x", None), (b"9", b"1")):
            keys = [key for key in entries if start <= key < (stop or b"z")]
            assert [key for key, _ in found("", start, stop, with_values=False)] == keys
        for with_values in (False, True):
            several_of_1 = [(b"1", b"%02d" % at) for at in range(1, 60, 3)]
            assert found("several", b"1", b"2", with_values=with_values) == several_of_1
        wanted = [((1000 * at).to_bytes(8, "little"), b"%d" % at) for at in range(3, 40)]
        assert found("numbers", wanted[0][0], (40_000).to_bytes(8, "little")) == wanted
        keys = sorted((b"%02d" % at for at in range(60)), key=lambda key: key[::-1])
        assert [key for key, _ in found("turned", keys[7], keys[30])] == keys[7:30]


def test_files_by_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_scans, "_ITEM_BYTES", 3000)
    entries = files(tmp_path / "photos", 30)
    write(tmp_path / "pets", entries | {b"__len__": b"30", b"__keys__": pickle.dumps(list(entries))})
    (tmp_path / "pets" / "lock.mdb").write_bytes(b"\0" * 100)
    report = imported("auto", tmp_path / "pets", workers=2)
    ds = report.dataset
    assert (report.format, report.planned, report.written, report.skipped) == ("lmdb", 30, 30, 0)
    assert ds.key.text() == [key.decode() for key in entries]
    assert [ds.images[row].tobytes() for row in range(30)] == list(entries.values())
    assert ds.info["imports"][0]["about"] == {"others": {"__len__": "30"}}
    assert ["__keys__" in problem.where for problem in report.problems] == [True]
    assert sorted(path.name for path in (tmp_path / "pets").iterdir()) == ["data.mdb", "lock.mdb"]


def numbered(root: Path, count: int = 12) -> dict[bytes, bytes]:
    root.mkdir(parents=True, exist_ok=True)
    entries = {b"num-samples": str(count).encode()}
    for at in range(1, count + 1):
        entries[f"image-{at:09}".encode()] = image(root, at % 6)
        if at != 3:
            entries[f"label-{at:09}".encode()] = f"wörd {at}".encode()
    return entries


def words(root: Path) -> None:
    write(root, numbered(root.parent / "photos"))


def test_numbered_words_are_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_scans, "_ITEM_ENTRIES", 2)
    entries = numbered(tmp_path / "photos")
    write(tmp_path / "words", entries)
    report = load(tmp_path / "words", strict=True)
    ds = report.dataset
    assert list(ds.tensors) == ["key", "image", "label"]
    assert ds.key.text() == [f"{at:09}" for at in range(1, 13)]
    assert [ds.image[row].tobytes() for row in range(12)] == [
        value for key, value in entries.items() if key[:1] == b"i"
    ]
    assert ds.label.null_mask().tolist() == [at == 2 for at in range(12)]
    assert ds.label.text()[11] == "wörd 12"
    assert ds.info["imports"][0]["about"]["others"] == {"num-samples": "12"}
    monkeypatch.setattr(key_scans, "MOST_LOOKED_AT", 1)
    report = load(tmp_path / "words", layout="keys")
    assert (report.written, report.skipped) == (12, 12)
    write(tmp_path / "pets", files(tmp_path / "photos", 3))
    with pytest.raises(IngestionError, match="made of a word and a number"):
        load(tmp_path / "pets", layout="columns")


def test_words_that_are_no_columns(tmp_path: Path) -> None:
    for entries in (
        {f"{word}-{at}".encode(): b"x" for word in ("cat", "dog") for at in range(3 if word == "cat" else 4)},
        {f"{word}_{at}".encode(): b"x" for word in ("train", "val") for at in range(3)},
        {f"word{sep}{at}".encode(): b"x" for sep in "-_" for at in range(3)},
    ):
        write(tmp_path / "db", entries)
        assert load(tmp_path / "db", strict=True).dataset.key.text() == sorted(
            key.decode() for key in entries
        )


def test_kinds_of_values(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    file = io.BytesIO()
    np.save(file, array)
    for values, name, check in (
        ([b"a text", "ein Wört".encode()], "value", lambda ds: ds.value.text() == ["a text", "ein Wört"]),
        ([b'{"a": 1}', b"[1]"], "value", lambda ds: ds.value[0].dict() == {"a": 1}),
        ([file.getvalue()] * 2, "value", lambda ds: np.array_equal(ds.value[1].numpy(), array)),
        (
            [pickle.dumps({"a": 1})] * 2,
            "value",
            lambda ds: ds.value[0].numpy().tobytes() == pickle.dumps({"a": 1}),
        ),
        ([b"a text", b"\x00\xff"], "value", lambda ds: ds.value[0].numpy().tobytes() == b"a text"),
        ([b"\x01\x00", b""], "value", lambda ds: ds.value[1].numpy().tobytes() == b""),
    ):
        write(tmp_path / "db", {f"k{at}!".encode(): value for at, value in enumerate(values)})
        ds = load(tmp_path / "db").dataset
        assert list(ds.tensors) == ["key", name]
        assert check(ds), values
    write(tmp_path / "db", {b"\xff\x00": b"x", b"\xfe": b"y"})
    assert [one.numpy().tobytes() for one in load(tmp_path / "db").dataset.key] == [b"\xfe", b"\xff\x00"]


def test_what_the_user_says_that_values_are(tmp_path: Path) -> None:
    """Also of columns, and of what looks like something else."""
    write(tmp_path / "db", {b"a!": b"[1]", b"b!": b"{}"})
    assert load(tmp_path / "db", kinds={"value": "text"}).dataset.value.text() == ["[1]", "{}"]
    with pytest.raises(IngestionError, match="no column 'a'; it has: value"):
        load(tmp_path / "db", kinds={"a": "text"})
    with pytest.raises(IngestionError, match="kinds are"):
        load(tmp_path / "db", kinds={"value": "picture"})
    entries = numbered(tmp_path / "photos")
    write(tmp_path / "db", entries)
    ds = load(tmp_path / "db", kinds={"image": "bytes"}).dataset
    assert ds.image[0].numpy().tobytes() == entries[b"image-000000001"]
    assert ds.label.text()[11] == "wörd 12"
    datums = {f"{at}!".encode(): datum((1, 2, 2), bytes(4), label=at) for at in range(3)}
    write(tmp_path / "db", datums)
    ds = load(tmp_path / "db", kinds={"value": "bytes"}).dataset
    assert [one.numpy().tobytes() for one in ds.value] == list(datums.values())


def datum(
    shape: tuple[int, int, int], data: bytes = b"", floats: Any = (), label: int = 0, encoded: bool = False
) -> bytes:
    message = b"".join(
        bytes([number << 3]) + varint(value) for number, value in zip((1, 2, 3), shape, strict=True)
    )
    if data:
        message += b"\x22" + varint(len(data)) + data
    message += b"\x28" + varint(label)
    message += b"".join(b"\x35" + struct.pack("<f", value) for value in floats)
    return message + (b"\x38\x01" if encoded else b"")


def test_caffe(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (5, 3, 4, 6), np.uint8)
    write(
        tmp_path / "db",
        {f"{at:08}".encode(): datum((3, 4, 6), pixels[at].tobytes(), label=at - 2) for at in range(5)},
    )
    ds = load(tmp_path / "db", strict=True).dataset
    assert list(ds.tensors) == ["key", "arrays", "labels"]
    assert np.array_equal(ds.arrays.numpy(), pixels)
    assert [int(ds.labels[row].numpy()[0]) for row in range(5)] == [-2, -1, 0, 1, 2]
    photos = list(files(tmp_path / "photos", 3).values())
    write(
        tmp_path / "db",
        {f"{at:08}".encode(): datum((0, 0, 0), one, label=at, encoded=True) for at, one in enumerate(photos)},
    )
    ds = load(tmp_path / "db", strict=True).dataset
    assert [ds.images[row].tobytes() for row in range(3)] == photos
    values = np.linspace(0, 1, 6, dtype=np.float32)
    write(
        tmp_path / "db",
        {b"0": datum((1, 2, 3), floats=values), b"1": datum((1, 2, 3), bytes(6)), b"2": b"\x08"},
    )
    report = load(tmp_path / "db")
    assert (report.written, report.skipped) == (2, 1)
    assert np.array_equal(report.dataset.floats[0].numpy().ravel(), values)
    for wrong in (
        b"\x08",
        b"\x08\x80",
        b"\x22\x05ab",
        datum((1, 2, 3), bytes(5)),
        datum((1 << 40, 1 << 40, 2), b"ab"),
        datum((1, 1, 2), b"ab") + b"\x4a\x01x",  # a field that Datum does not have
        b"\xff" * 20,
    ):
        with pytest.raises(IngestionError):
            datum_of(wrong)
    assert datum_of(b"\x08\x01\x10\x01\x18\x01\x22\x01a").label is None


def test_entries_that_repeat_are_refused() -> None:
    """As of pages that damage has made their own children."""

    class Repeating:
        version, limit = 0, 1000

        def database(self, name: str) -> key_scans.Database:
            return key_scans.Database(name, None, None)

        def entries(self, *_: Any, **how: Any) -> Any:
            yield from [(b"key", lmdb_files._Value(5, "", b"key", 0, None))] * 1000

        def read(self, value: Any) -> bytes:
            return b"value"

    with pytest.raises(IngestionError, match="more bytes than the file"):
        key_scans.scanned(Repeating(), Source.of(Path(__file__)), "data.mdb", None, [])


def test_several_databases(tmp_path: Path) -> None:
    photos = {f"{at:03}".encode(): one for at, one in enumerate(files(tmp_path / "photos", 5).values())}
    notes = {key: json.dumps({"at": at}).encode() for at, key in enumerate([*photos][1:])}
    write(tmp_path / "db", {}, {"photo": photos, "note": notes})
    report = load(tmp_path / "db", strict=True)
    ds = report.dataset
    assert list(ds.tensors) == ["key", "note", "photo"]
    assert (report.planned, report.written) == (None, 5)
    assert ds.note.null_mask().tolist() == [True, False, False, False, False]
    assert ds.note[4].dict() == {"at": 3}
    assert [ds.photo[row].tobytes() for row in range(5)] == list(photos.values())
    report = load(tmp_path / "db", database="photo", strict=True)
    assert list(report.dataset.tensors) == ["key", "images"]
    with pytest.raises(IngestionError, match="note, photo"):
        load(tmp_path / "db", database="none")
    write(tmp_path / "db", {}, {"train": photos, "test": dict(list(photos.items())[:2])})
    assert load(tmp_path / "db", strict=True).splits == {"train": 5, "test": 2}
    assert load(tmp_path / "db", split="test").written == 2


def test_numbers_as_keys_and_several_values_of_a_key(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path / "db"), map_size=1 << 28, max_dbs=2) as env:
        numbers, many = env.open_db(b"numbers", integerkey=True), env.open_db(b"many", dupsort=True)
        with env.begin(write=True) as transaction:
            for at in range(500):
                transaction.put((at * 7).to_bytes(8, "little"), b"text %d" % at, db=numbers)
                transaction.put(b"%03d" % (at % 5), b"text %03d" % at, db=many)
    ds = load(tmp_path / "db", database="numbers", strict=True).dataset
    assert ds.key.numpy().ravel().tolist() == [at * 7 for at in range(500)]
    assert ds.value.text() == [f"text {at}" for at in range(500)]
    ds = load(tmp_path / "db", database="many", strict=True).dataset
    assert len(ds) == 500
    assert ds.value.text()[:3] == ["text 000", "text 005", "text 010"]
    with pytest.raises(IngestionError, match="import each database alone"):
        load(tmp_path / "db")


def test_several_files_are_splits(tmp_path: Path) -> None:
    entries = files(tmp_path / "photos", 6)
    for name, count in (("pets_train_lmdb", 6), ("pets_val_lmdb", 2)):
        write(tmp_path / "dbs" / name, dict(list(entries.items())[:count]))
    (tmp_path / "dbs" / "readme.txt").write_text("about")
    report = imported("auto", tmp_path / "dbs", strict=True)
    assert report.splits == {"train": 6, "val": 2}
    assert load(tmp_path / "dbs", splits=False).splits == {}
    (tmp_path / "dbs" / "pets_val_lmdb" / "data.mdb").rename(tmp_path / "one.lmdb")
    assert load(tmp_path / "one.lmdb").written == 2
    (tmp_path / "dbs" / "photo.jpg").write_bytes(b"")
    assert lmdb_files.recognise(Source.of(tmp_path / "dbs")) is None


def test_a_file_that_is_written_to_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "db", files(tmp_path / "photos", 3))
    real = lmdb_files.rows

    def written(item: Any, context: Any) -> Any:
        with lmdb.open(str(tmp_path / "db")) as env, env.begin(write=True) as transaction:
            transaction.put(b"another", b"")
        return real(item, context)

    monkeypatch.setattr(lmdb_files, "rows", written)
    with pytest.raises(IngestionError, match="written to"):
        load(tmp_path / "db")


def test_a_file_in_a_bucket_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No copy is left behind."""
    entries = files(tmp_path / "photos", 5)
    write(tmp_path / "db", entries)
    bucket = open_storage(parse("mem://bucket-of-lmdb"))
    bucket.put("db/data.mdb", (tmp_path / "db" / "data.mdb").read_bytes())
    (tmp_path / "copies").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "copies"))
    ds = load("mem://bucket-of-lmdb", strict=True).dataset
    assert [ds.images[row].tobytes() for row in range(5)] == list(entries.values())
    assert not list((tmp_path / "copies").iterdir())


def leaves(path: Path) -> list[int]:
    """Return the numbers of the leaves of a file, in the order of their first keys."""
    data = (path / "data.mdb").read_bytes()
    found = []
    for at in range(2 * PAGE, len(data), PAGE):
        flags, node = data[at + 10], at + int.from_bytes(data[at + 16 : at + 18], "little")
        if flags & 2:
            length = int.from_bytes(data[node + 6 : node + 8], "little")
            found.append((data[node + 8 : node + 8 + length], at // PAGE))
    return [number for _, number in sorted(found)]


def broken(path: Path, page: int, at: int, data: bytes) -> None:
    with (path / "data.mdb").open("r+b") as file:
        file.seek(page * PAGE + at)
        file.write(data)


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (10, b"\xff\xff"),  # flags of the page
        (12, b"\xff\xff"),  # number of nodes
        pytest.param(
            16, b"\xff\xff", marks=pytest.mark.soak
        ),  # a node beyond the page; a crash as the one below
    ],
)
def test_entries_before_a_damaged_page_come_in(tmp_path: Path, at: int, data: bytes) -> None:
    """The library reports some damage, and crashes at other."""
    path = tmp_path / "db"
    write(path, {b"%03d.txt" % number: b"x" * 300 for number in range(60)})
    broken(path, leaves(path)[2], at, data)
    report = load(path)
    assert 0 < report.written < 60
    assert report.written + report.skipped == 60
    assert "damaged" in report.problems[0].reason
    if at == 10 or IS_SOAK:  # each crash costs several processes
        with pytest.raises(IngestionError, match="damaged"):
            load(path, strict=True)


def test_a_file_without_its_end(tmp_path: Path) -> None:
    """The library ends its process with a bus error here."""
    write(tmp_path / "db", {b"%05d" % at: b"x" * 900 for at in range(500)})
    path = tmp_path / "db" / "data.mdb"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    report = load(tmp_path / "db")
    assert 0 < report.written < 500
    assert report.written + report.skipped == 500


def test_what_is_no_lmdb_file(tmp_path: Path) -> None:
    path = tmp_path / "db"
    write(path, {b"a": b"b"})
    broken(path, 0, 16, b"\0\0\0\0")
    broken(path, 1, 16, b"\0\0\0\0")
    with pytest.raises(IngestionError, match="not of the format"):
        load(path)
    for size in (0, 200):
        write(path, {b"a": b"b"})
        (path / "data.mdb").write_bytes((path / "data.mdb").read_bytes()[:size])
        with pytest.raises(IngestionError):
            load(path)
    write(path, {})
    with pytest.raises(IngestionError, match="no entries"):
        load(path)


def hostile(root: Path) -> None:
    entries = {f"{at:04}.bin".encode(): bytes([at]) * (300 * at) for at in range(20)}
    write(root, numbered(root.parent / "photos", 3) | entries, {"other": entries})


@pytest.mark.soak
def test_damage(tmp_path: Path) -> None:
    check_hostile("lmdb", hostile, tmp_path, 1)
    check_hostile("lmdb", hostile, tmp_path, 1, mutations=(flip, truncate), seed=2)


@pytest.mark.soak
def test_much_damage(tmp_path: Path) -> None:
    check_hostile("lmdb", hostile, tmp_path, 100, seed=3)
    check_hostile("lmdb", hostile, tmp_path, 100, mutations=(flip, truncate), seed=4)
