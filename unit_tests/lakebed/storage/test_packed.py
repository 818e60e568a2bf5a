"""The storage of one file: what was written comes back, and what is no such file is told."""

from __future__ import annotations

import io
import pickle
import random
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import (
    CorruptError,
    InvalidInputError,
    InvalidKeyError,
    KeyNotFound,
    LakebedError,
    StorageReadOnlyError,
    TruncatedReadError,
)
from lakebed.storage import packed
from lakebed.storage.base import traits_of
from lakebed.storage.cache.caching import cached
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.pack_writer import PackWriter
from lakebed.storage.packed import PackedStorage, alignment, is_chunk
from lakebed.storage.url import open_storage, parse

# On both sides of what changes the alignment, of a page, and of what is read at first.
_SIZES = (0, 1, 63, 64, 4095, 4096, 65_535, 65_536, 65_537, 200_000)


def archive(objects: dict[str, bytes]) -> bytes:
    """Return a packed dataset of some objects."""
    file = io.BytesIO()
    writer = PackWriter(file, "test.lake")
    writer.put_many(objects.items())
    writer.finish()
    return file.getvalue()


def on_disk(tmp_path: Path, data: bytes, name: str = "a.lake") -> PackedStorage:
    """Open a file of some content."""
    (tmp_path / name).write_bytes(data)
    return PackedStorage(str(tmp_path / name))


def in_store(data: bytes, name: str = "a.lake") -> PackedStorage:
    """Open an object of some content."""
    below = MemoryStorage()
    below.put(name, data)
    return PackedStorage((below, name))


def read_all(storage: PackedStorage) -> dict[str, bytes]:
    """Return all objects."""
    return {key: storage.get(key) for key, _ in storage.list()}


def objects_of(rng: random.Random) -> dict[str, bytes]:
    """Return chunks and documents of all sizes."""
    keys = [f"t{i}/chunks/{i:x}" for i in range(len(_SIZES))] + [f"d{i}.json" for i in range(len(_SIZES))]
    return {key: rng.randbytes(size) for key, size in zip(keys, _SIZES * 2, strict=True)}


@pytest.mark.parametrize("where", ["disk", "store"])
def test_all_ways_of_reading(tmp_path: Path, where: str) -> None:
    """Every read returns what was put, from disk and store; each chunk begins on its boundary."""
    objects = objects_of(random.Random(1))
    data = archive(objects)
    storage = on_disk(tmp_path, data) if where == "disk" else in_store(data)
    assert {key: stat.size for key, stat in storage.list()} == {key: len(v) for key, v in objects.items()}
    for key, value in objects.items():
        assert storage.get(key) == value == bytes(storage.view(key)) == bytes(storage.map(key))
        buffer = bytearray(len(value) + 3)
        assert storage.get_into(key, memoryview(buffer)) == len(value)
        assert buffer[: len(value)] == value
        half = len(value) // 2
        assert storage.get_range(key, half, len(value) - half) == value[half:]
        assert bytes(storage.view_range(key, 0, half)) == value[:half]
        assert storage.get_ranges(key, [(half, 0), (0, half)]) == [b"", value[:half]]
        assert storage.get_tail(key, 10).data == value[-10:]
        assert storage.get_tail(key, 1 << 20).data == value
        with pytest.raises(TruncatedReadError):
            storage.get_range(key, half, len(value) + 1)
        if is_chunk(key) and value:
            assert data.index(value) % alignment(len(value)) == 0 or len(value) < 9
    with pytest.raises(KeyNotFound):
        storage.get("none")
    with pytest.raises(KeyNotFound):
        storage.get_tail("none", 3)
    assert storage.stat("none") is None
    with pytest.raises(InvalidKeyError):
        storage.get("../a.lake")
    assert traits_of(storage).read_only
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None


def test_a_mapping_is_private(tmp_path: Path) -> None:
    """Writes into a mapped chunk do not reach the file."""
    storage = on_disk(tmp_path, archive({"t/chunks/a": b"a" * 70_000}))
    storage.map("t/chunks/a")[0] = 7
    assert storage.get("t/chunks/a")[:1] == b"a"


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-zé/]{1,8}/(chunks/[0-9a-f]{1,3}|[a-z]{1,3})", fullmatch=True).filter(
            lambda key: "//" not in key and key[0] != "/"
        ),
        st.integers(0, 9000).map(lambda n: random.Random(n).randbytes(n)),
        max_size=12,
    )
)
def test_any_objects(objects: dict[str, bytes]) -> None:
    """Whatever the keys and sizes: all come back, however little is read at first."""
    storage = in_store(archive(objects))
    assert read_all(storage) == objects


def test_documents_beyond_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where documents are too many to be held, they are read by ranges; the directory is found anyway."""
    monkeypatch.setattr(packed, "_TAIL", 70_000)
    monkeypatch.setattr(packed, "_MOST_KEPT", 80_000)
    objects = objects_of(random.Random(2)) | {f"many{i}": b"x" * 10 for i in range(2000)}
    storage = in_store(archive(objects))
    assert read_all(storage) == objects


def test_a_chunk_that_is_put_again() -> None:
    """The last one counts; documents are replaced and removed, too."""
    file = io.BytesIO()
    writer = PackWriter(file, "test.lake")
    writer.put("t/chunks/a", [b"ol", b"d"])
    writer.put("t/chunks/b", b"gone")
    writer.put("x", b"old")
    writer.put_many([("t/chunks/a", b"new"), ("x", b"new"), ("y", b"gone")])
    writer.delete("t/chunks/b")
    writer.delete_prefix("y")
    assert sorted(key for key, _ in writer.list()) == ["t/chunks/a", "x"]
    assert writer.stat("t/chunks/a") != writer.stat("t/chunks/b")
    assert (writer.get("t/chunks/a"), writer.get_range("t/chunks/a", 1, 2)) == (b"new", b"ew")
    assert writer.get_tail("t/chunks/a", 1).data == b"w"
    with pytest.raises(TruncatedReadError):
        writer.get_range("t/chunks/a", 1, 3)
    writer.finish()
    storage = in_store(file.getvalue())
    assert read_all(storage) == {"t/chunks/a": b"new", "x": b"new"}


def test_archives_of_others(tmp_path: Path) -> None:
    """Members that are stored as they are can be read wherever they lie; folders in it are passed over."""
    objects = objects_of(random.Random(3))
    with zipfile.ZipFile(tmp_path / "a.lake", "w") as file:
        file.mkdir("t0") if hasattr(file, "mkdir") else file.writestr("t0/", b"")
        for key, value in objects.items():
            file.writestr(key, value)
    storage = PackedStorage(str(tmp_path / "a.lake"))
    assert read_all(storage) == objects


def test_what_cannot_be_read_in_place(tmp_path: Path) -> None:
    """Compressed members, names that lead elsewhere, and names that are there twice are refused."""
    with zipfile.ZipFile(tmp_path / "a.lake", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", b"a" * 1000)
    with pytest.raises(InvalidInputError, match="compressed"):
        PackedStorage(str(tmp_path / "a.lake"))
    for name in ("../out", "/etc/passwd", "a//b"):
        with zipfile.ZipFile(tmp_path / "b.lake", "w") as file:
            file.writestr(name, b"x")
        with pytest.raises(CorruptError, match="not a packed dataset"):
            PackedStorage(str(tmp_path / "b.lake"))
    with zipfile.ZipFile(tmp_path / "c.lake", "w") as file:
        file.writestr("a", b"x")
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("a", b"y")
    with pytest.raises(CorruptError, match="twice"):
        PackedStorage(str(tmp_path / "c.lake"))
    with pytest.raises(CorruptError, match="not a packed dataset"):
        on_disk(tmp_path, b"no archive at all")


def test_files_that_are_cut_short(tmp_path: Path) -> None:
    """Whatever is missing at the end or the beginning: an error, at once, or it was nothing that matters."""
    objects = objects_of(random.Random(4))
    whole = archive(objects)
    for cut in [1, 2, 22, 23, 60, 70, 1000, len(whole) // 2, len(whole) - 5]:
        try:
            assert read_all(on_disk(tmp_path, whole[:-cut])) == objects
            assert cut < 30  # of the comment
        except CorruptError:
            pass
        with pytest.raises(CorruptError):
            on_disk(tmp_path, whole[cut:])
        with pytest.raises(CorruptError):
            on_disk(tmp_path, b"x" * cut + whole)


def test_flipped_bits_are_told() -> None:
    """No change of a byte outside of the chunks goes unnoticed, unless nothing that is read depends on it."""
    objects = {"t/chunks/a": b"chunk" * 20, "meta.json": b'{"a": 1}', "sub/meta.json": b'{"b": 2}'}
    whole = archive(objects)
    rng = random.Random(5)
    for at in range(whole.index(b"chunkchunk") + 100, len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << rng.randrange(8)
        try:
            storage = in_store(bytes(data))
            found = read_all(storage)
        except LakebedError:
            continue
        assert found.get("meta.json", objects["meta.json"]) == objects["meta.json"]
        assert found.get("sub/meta.json", objects["sub/meta.json"]) == objects["sub/meta.json"]


def test_nothing_is_written(tmp_path: Path) -> None:
    """Every change is refused, with what to do; one that changes nothing is not."""
    storage = on_disk(tmp_path, archive({"a": b"1"}))
    changes = [
        lambda: storage.put("a", b""),
        lambda: storage.put_many([("a", b"")]),
        lambda: storage.put_if("a", b"", None),
        lambda: storage.copy("a", "b"),
        lambda: storage.delete("a"),
        lambda: storage.delete_prefix(""),
    ]
    for change in changes:
        with pytest.raises(StorageReadOnlyError, match="unpack"):
            change()
    storage.put_many([])
    storage.sync(["a"])


def test_the_file_stays_when_another_takes_its_name(tmp_path: Path) -> None:
    """Who has it open goes on reading the old one; a pickled copy opens what is there now."""
    storage = on_disk(tmp_path, archive({"a": b"old"}))
    (tmp_path / "b.lake").write_bytes(archive({"a": b"new"}))
    (tmp_path / "b.lake").replace(tmp_path / "a.lake")
    assert storage.get("a") == b"old"
    assert pickle.loads(pickle.dumps(storage)).get("a") == b"new"


def test_addresses(tmp_path: Path) -> None:
    """A file of this name is packed, a folder is none; branches with a slash are understood."""
    on_disk(tmp_path, archive({"version_control_info.json": b"{}"}))
    assert isinstance(open_storage(tmp_path / "a.lake"), PackedStorage)
    (tmp_path / "link.lake").symlink_to(tmp_path / "a.lake")
    assert isinstance(open_storage(tmp_path / "link.lake"), PackedStorage)
    assert not isinstance(open_storage(tmp_path / "folder.lake"), PackedStorage)
    location = parse(f"{tmp_path}/a.lake@side/b@c", existing=True)
    assert (location.path, location.ref) == (f"{tmp_path}/a.lake", "side/b@c")
    (tmp_path / "empty.lake").touch()
    with pytest.raises(CorruptError):
        open_storage(tmp_path / "empty.lake")


def test_a_cache_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a file in a store are kept on this machine as those of a folder are."""
    monkeypatch.setenv("LAKEBED_CACHE_DIR", str(tmp_path / "cache"))
    value = random.Random(6).randbytes(300_000)
    storage = cached(in_store(archive({"t/chunks/a": value})), 10 << 20)
    assert storage.get_range("t/chunks/a", 5, 100_000) == value[5:100_005]
    assert storage.get("t/chunks/a") == value
    assert any(path.is_file() for path in (tmp_path / "cache").rglob("*"))
