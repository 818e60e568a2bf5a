"""LMDB databases come in as the library reads them: kinds of keys, duplicates, long values, deletions, names."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import lakebed
from lakebed.importers.key_values.lmdb_pages import Entry, Environment

lmdb = pytest.importorskip("lmdb")

pytestmark = [pytest.mark.formats, pytest.mark.timeout(300)]

_KINDS: list[dict[str, bool]] = [
    {},
    {"dupsort": True},
    {"dupsort": True, "dupfixed": True},
    {"dupsort": True, "dupfixed": True, "integerdup": True},
    {"dupsort": True, "reverse_key": True},
    {"reverse_key": True},
    {"integerkey": True},
]


def key_of(draw: random.Random, kind: dict[str, bool]) -> bytes:
    if kind.get("integerkey"):
        return draw.randbytes(8)
    return draw.choice([draw.randbytes(draw.randint(1, 40)), b"k%06d" % draw.randrange(500)])


def value_of(draw: random.Random, kind: dict[str, bool]) -> bytes:
    if kind.get("integerdup"):
        return draw.randbytes(8)
    if kind.get("dupfixed"):
        return draw.randbytes(20)
    return draw.randbytes(
        draw.randint(1, 100) if kind.get("dupsort") else draw.choice([0, 10, 2030, 5000, 30_000])
    )


def written(path: Path, seed: int) -> dict[bytes | None, list[tuple[bytes, bytes]]]:
    """Write databases, change and delete some, and return what the library reads of each."""
    draw = random.Random(seed)
    found: dict[bytes | None, list[tuple[bytes, bytes]]] = {}
    with lmdb.open(str(path), map_size=1 << 28, max_dbs=8, subdir=bool(seed % 2)) as env:
        names = [None, *(b"db%d" % at for at in range(draw.randint(0, 4)))]
        kinds = {name: draw.choice(_KINDS) if name else {} for name in names}
        handles = {name: env.open_db(name, **kinds[name]) if name else None for name in names}
        for name, kind in kinds.items():
            for _ in range(draw.randint(1, 4)):
                with env.begin(write=True, db=handles[name]) as transaction:
                    for _ in range(draw.choice([3, 50, 1000])):
                        key = key_of(draw, kind)
                        transaction.put(key, value_of(draw, kind))
                        if draw.random() < 0.3:
                            transaction.delete(draw.choice([key, b"k%06d" % draw.randrange(500)]))
        for name in names:
            with env.begin(db=handles[name]) as transaction:
                found[name] = [
                    (bytes(key), bytes(value)) for key, value in transaction.cursor() if key not in names
                ]
    return found


@pytest.mark.parametrize("seed", range(24))
def test_databases_are_those_of_the_library(tmp_path: Path, seed: int) -> None:
    expected = written(tmp_path / "db", seed)
    path = tmp_path / "db" / "data.mdb" if seed % 2 else tmp_path / "db"
    with path.open("rb") as file:
        environment = Environment(file, path.stat().st_size)
        trees: dict[bytes | None, Any] = {None: environment.main}
        for one in environment.entries(environment.main):
            assert isinstance(one, Entry)
            if one.tree is not None:
                trees[one.key] = one.tree
        assert set(trees) == set(expected)
        for name, entries in expected.items():
            found = [
                one for one in environment.entries(trees[name]) if isinstance(one, Entry) and one.tree is None
            ]
            assert [(one.key, environment.read(one.value)) for one in found] == entries
            if name is None:
                continue
            assert trees[name].entries == len(entries)
            order = trees[name].order or (lambda key: key)
            keys = sorted({key for key, _ in entries}, key=order)
            for start, stop in (
                ((keys[len(keys) // 4], keys[len(keys) // 2]), (keys[-1], None)) if keys else ()
            ):
                some = [
                    one.key for one in environment.entries(trees[name], start, stop) if isinstance(one, Entry)
                ]
                wanted = [key for key, _ in entries if order(key) >= order(start)]
                assert some == [key for key in wanted if stop is None or order(key) < order(stop)]


def test_pictures_with_words(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    photos = []
    with lmdb.open(str(tmp_path / "words"), map_size=1 << 28) as env, env.begin(write=True) as transaction:
        for at in range(1, 301):
            file = io.BytesIO()
            PIL.Image.fromarray(draw.integers(0, 255, (32, 20 + at % 90, 3), np.uint8)).save(file, "jpeg")
            photos.append(file.getvalue())
            transaction.put(b"image-%09d" % at, photos[-1])
            transaction.put(b"label-%09d" % at, f"Nº {at}".encode())
        transaction.put(b"num-samples", b"300")
    before = {path.name: path.read_bytes() for path in (tmp_path / "words").iterdir()}
    report = lakebed.import_from("auto", tmp_path / "words", "mem://", progressbar=False, strict=True)
    ds = report.dataset
    assert (report.format, report.written) == ("lmdb", 300)
    assert [ds.image[row].tobytes() for row in range(300)] == photos
    assert ds.label.text() == [f"Nº {at}" for at in range(1, 301)]
    assert {path.name: path.read_bytes() for path in (tmp_path / "words").iterdir()} == before


def test_numbers_as_keys_and_several_values_of_a_key(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path / "db"), map_size=1 << 28, max_dbs=2) as env:
        numbers = env.open_db(b"numbers", integerkey=True)
        many = env.open_db(b"many", dupsort=True)
        with env.begin(write=True) as transaction:
            for at in range(500):
                transaction.put((at * 7).to_bytes(8, "little"), f"text {at}".encode(), db=numbers)
                transaction.put(b"%03d" % (at % 5), f"text {at:03}".encode(), db=many)
    ds = lakebed.import_from("lmdb", tmp_path / "db", "mem://", database="numbers", progressbar=False).dataset
    assert ds.key.numpy().ravel().tolist() == [at * 7 for at in range(500)]
    assert ds.value.text() == [f"text {at}" for at in range(500)]
    ds = lakebed.import_from("lmdb", tmp_path / "db", "mem://", database="many", progressbar=False).dataset
    assert len(ds) == 500
    assert ds.value.text()[:3] == ["text 000", "text 005", "text 010"]
    with pytest.raises(lakebed.errors.LakebedError, match="import it alone"):
        lakebed.import_from("lmdb", tmp_path / "db", "mem://", progressbar=False)


def test_a_file_without_its_end(tmp_path: Path) -> None:
    """The library ends the process with a bus error here."""
    with lmdb.open(str(tmp_path / "db"), map_size=1 << 28) as env, env.begin(write=True) as transaction:
        for at in range(2000):
            transaction.put(b"%05d" % at, b"x" * 900)
    path = tmp_path / "db" / "data.mdb"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    report = lakebed.import_from("lmdb", tmp_path / "db", "mem://", progressbar=False)
    assert 0 < report.written < 2000
    assert report.written + report.skipped == 2000
