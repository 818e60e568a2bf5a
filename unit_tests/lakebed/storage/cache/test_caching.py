"""A cached storage gives what its origin holds, and asks the origin for nothing twice."""

from __future__ import annotations

import os
import pickle
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.errors import InvalidInputError, KeyNotFound, TruncatedReadError
from lakebed.storage.base import CachingStorage, MappableStorage
from lakebed.storage.cache.caching import CachedStorage, cached, folder, is_kept
from lakebed.storage.cache.files import CacheFiles
from lakebed.storage.cache.layout import BLOCK, BLOCKS
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.url import open_storage, parse
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.storage_conformance import StorageConformance
from unit_tests.effort import PATIENCE, examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakebed.storage.base import Storage

MB = 1_000_000
KEY = "versions/0a/t/chunks/9f3"
DATA = os.urandom(3 * BLOCK + 1000)


class TestCached(StorageConformance):
    """Everything is kept here, though no object of these tests stays the same."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return CachedStorage(
            MemoryStorage(), CacheFiles(str(tmp_path / "cache"), 50 * MB), kept=lambda _: True
        )


class TestWithoutRoom(StorageConformance):
    """A folder that can not be made turns the cache off."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        (tmp_path / "cache").write_bytes(b"a file is in the way")
        return CachedStorage(
            MemoryStorage(), CacheFiles(str(tmp_path / "cache"), 50 * MB), kept=lambda _: True
        )


@pytest.fixture
def origin() -> FaultyStorage:
    counted = FaultyStorage(MemoryStorage())
    counted.put(KEY, DATA)
    return counted


@pytest.fixture
def storage(origin: FaultyStorage, tmp_path: Path) -> CachedStorage:
    return again(origin, tmp_path)


def again(origin: Storage, tmp_path: Path) -> CachedStorage:
    """Another process, as far as the cache can tell."""
    return CachedStorage(origin, CacheFiles(str(tmp_path / "cache"), 50 * MB))


def test_speaks_both_protocols(storage: CachedStorage) -> None:
    """Readers recognise it, and that its objects can not be mapped."""
    assert isinstance(storage, CachingStorage)
    assert not isinstance(storage, MappableStorage)


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        (KEY, True),
        ("t/chunks/1", True),
        ("a/b/chunks/0123456789abcdef", True),
        (".lakebed/manifest-0a1b", True),
        (".queries/x/t/chunks/1", True),
        ("version_control_info.json", False),
        (".lakebed/refs.json", False),
        ("versions/0a/dataset_lock.lock", False),
        ("t/chunks_index/unsharded", False),
        ("t/chunks/unsharded", False),
        ("t/chunk_set", False),
        ("dataset_meta.json", False),
        ("linked_creds.json", False),
    ],
)
def test_keeps_what_never_changes(key: str, kept: bool) -> None:
    """Chunks and manifests; nothing that says what the current version is, and no locks."""
    assert is_kept(key) == kept


def test_second_reading_asks_only_whether_it_is_the_same(
    origin: FaultyStorage, storage: CachedStorage, tmp_path: Path
) -> None:
    """Whole, into a buffer and by ranges: the bytes come once over the network, for all processes."""
    assert storage.get(KEY) == DATA
    origin.counts.clear()
    other = again(origin, tmp_path)
    buffer = memoryview(bytearray(len(DATA) + 5))
    assert other.get(KEY) == DATA
    assert other.get_into(KEY, buffer) == len(DATA)
    assert buffer[: len(DATA)] == DATA
    assert other.get_range(KEY, 5, 9) == DATA[5:14]
    spans = [(0, 1), (BLOCK - 3, 6), (3 * BLOCK, 1000), (100, 2 * BLOCK)]
    assert other.get_ranges(KEY, spans) == [DATA[a : a + n] for a, n in spans]
    assert origin.counts == {"stat": 1}


def test_sealed_reading_asks_nothing(origin: FaultyStorage, storage: CachedStorage, tmp_path: Path) -> None:
    """Who knows checksums needs no word from the origin once the bytes are here."""
    assert storage.trusted.get(KEY) == DATA
    assert origin.counts["stat"] == 0
    origin.counts.clear()
    other = again(origin, tmp_path).trusted
    buffer = memoryview(bytearray(len(DATA)))
    assert other.get(KEY) == DATA
    assert other.get_range(KEY, BLOCK + 7, 2 * BLOCK) == DATA[BLOCK + 7 :][: 2 * BLOCK]
    assert other.get_into(KEY, buffer) == len(DATA)
    assert buffer == DATA
    assert not origin.counts


def test_missing_ranges_come_with_one_request(origin: FaultyStorage, storage: CachedStorage) -> None:
    """Neighbouring blocks are one range, and what is here already is left out."""
    storage.get_range(KEY, BLOCK, 10)
    origin.counts.clear()
    spans = [(10, 10), (BLOCK + 5, 5), (2 * BLOCK + 1, BLOCK)]
    assert storage.get_ranges(KEY, spans) == [DATA[a : a + n] for a, n in spans]
    assert origin.counts == {"get_ranges": 1, "spans": 2}


def test_sealed_ranges_need_no_size(origin: FaultyStorage, storage: CachedStorage) -> None:
    """A range that ends within a block is kept from the block's beginning, and grows when more is asked for."""
    assert storage.trusted.get_range(KEY, 100, 50) == DATA[100:150]
    assert storage.trusted.get_range(KEY, 0, 150) == DATA[:150]
    assert origin.counts["get_ranges"] == 1
    assert storage.trusted.get_range(KEY, 120, 100) == DATA[120:220]
    assert storage.trusted.get_range(KEY, 10, BLOCK) == DATA[10 : BLOCK + 10]
    assert storage.trusted.get(KEY) == DATA


def test_replaced_object_is_not_taken_for_the_old_one(
    origin: FaultyStorage, storage: CachedStorage, tmp_path: Path
) -> None:
    """A dataset that was made again at the same address may have chunks of the same name and size."""
    other = bytes(reversed(DATA))
    assert storage.get(KEY) == DATA
    origin.put(KEY, other)
    assert again(origin, tmp_path).get(KEY) == other
    assert again(origin, tmp_path).get_range(KEY, BLOCK, 3) == other[BLOCK : BLOCK + 3]


def test_what_was_forgotten_is_read_again(origin: FaultyStorage, storage: CachedStorage) -> None:
    """So goes who finds a checksum wrong."""
    other = bytes(reversed(DATA))
    storage.get(KEY)
    storage.trusted.get(KEY)
    origin.put(KEY, other)
    assert storage.trusted.get(KEY) == DATA
    storage.forget(KEY)
    assert storage.trusted.get(KEY) == storage.get(KEY) == other


def test_writing_through_it_shows(storage: CachedStorage) -> None:
    """What this process writes, it reads, whatever is kept."""
    storage.get(KEY)
    storage.put(KEY, b"new")
    assert storage.get(KEY) == b"new"
    storage.put_many([(KEY, b"newer")])
    assert storage.get(KEY) == b"newer"
    for remove in (storage.delete, lambda key: storage.delete_many([key]), storage.delete_prefix):
        storage.put(KEY, b"newest")
        assert storage.get(KEY) == b"newest"
        remove(KEY)
        with pytest.raises(KeyNotFound):
            storage.get(KEY)


def test_two_servers_have_two_buckets_of_one_name(tmp_path: Path) -> None:
    """Without the address of the server, one would be taken for the other."""

    class Bucket(MemoryStorage):
        def __init__(self, endpoint: str) -> None:
            super().__init__("bucket")
            self.place = f"{self.url} at {endpoint}"

    for endpoint in ("http://one", "http://two"):
        origin = Bucket(endpoint)
        origin.put(KEY, endpoint.encode())
        assert again(origin, tmp_path).trusted.get(KEY) == endpoint.encode()


def test_objects_larger_than_a_file_of_the_cache(origin: FaultyStorage, tmp_path: Path) -> None:
    """They go into several, and are read across them."""
    large = os.urandom(BLOCK) * BLOCKS + b"the end" * 1000
    origin.put(KEY, large)
    storage = CachedStorage(origin, CacheFiles(str(tmp_path / "cache"), 200 * MB))
    edge = BLOCKS * BLOCK
    assert storage.get_range(KEY, edge - 10, 30) == large[edge - 10 : edge + 20]
    assert storage.get(KEY) == large
    origin.counts.clear()
    assert storage.get(KEY) == large
    buffer = memoryview(bytearray(len(large)))
    assert storage.get_into(KEY, buffer) == len(large)
    assert buffer == large
    assert not origin.counts


def test_errors_of_the_origin_pass_through(storage: CachedStorage) -> None:
    """The cache adds none of its own and hides none."""
    for reader in (storage, storage.trusted):
        with pytest.raises(KeyNotFound):
            reader.get("t/chunks/2")
        with pytest.raises(KeyNotFound):
            reader.get_range("t/chunks/2", 0, 1)
        with pytest.raises(TruncatedReadError):
            reader.get_range(KEY, 0, len(DATA) + 1)


class Slow(FaultyStorage):
    """Answers only once it was told to, and counts who asks."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.go = threading.Event()
        self.came = threading.Semaphore(0)

    def _wait(self) -> None:
        self.came.release()
        assert self.go.wait(PATIENCE)

    def get(self, key: str) -> bytes:
        self._wait()
        return super().get(key)

    def get_ranges(self, key: str, spans: object) -> list[bytes]:
        self._wait()
        return super().get_ranges(key, spans)  # type: ignore[arg-type]


def in_threads(work: Callable[[], object], number: int) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads


@pytest.mark.parametrize("is_off", [False, True])
@pytest.mark.parametrize("by_range", [False, True])
def test_threads_share_one_download(tmp_path: Path, is_off: bool, by_range: bool) -> None:
    """Also where nothing can be kept on disk."""
    if is_off:
        (tmp_path / "cache").write_bytes(b"")
    inner = MemoryStorage()
    inner.put(KEY, DATA)
    origin = Slow(inner)
    storage = again(origin, tmp_path)
    found: list[bytes] = []

    def read() -> None:
        found.append(storage.get_range(KEY, 10, 2 * BLOCK) if by_range else storage.get(KEY))

    threads = in_threads(read, 8)
    assert origin.came.acquire(timeout=PATIENCE)
    assert not origin.came.acquire(timeout=0.2)
    origin.go.set()
    for thread in threads:
        thread.join()
    assert found == [DATA[10 : 2 * BLOCK + 10] if by_range else DATA] * 8
    assert origin.counts["get"] + origin.counts["get_ranges"] == 1


def test_other_blocks_do_not_wait(tmp_path: Path) -> None:
    """Samples of one chunk are read at the same time."""
    inner = MemoryStorage()
    inner.put(KEY, DATA)
    origin = Slow(inner)
    storage = again(origin, tmp_path)
    threads = [
        t for block in range(3) for t in in_threads(lambda b=block: storage.get_range(KEY, b * BLOCK, 9), 1)
    ]  # type: ignore[misc]
    for _ in threads:
        assert origin.came.acquire(timeout=PATIENCE)
    origin.go.set()
    for thread in threads:
        thread.join()


def test_waiting_threads_look_for_themselves_when_a_download_fails(tmp_path: Path) -> None:
    """One error is one thread's."""
    inner = MemoryStorage()
    inner.put(KEY, DATA)

    class Failing(Slow):
        def get(self, key: str) -> bytes:
            data = super().get(key)
            if self.counts["get"] == 1:
                raise OSError("the first one fails")
            return data

    origin = Failing(inner)
    storage = again(origin, tmp_path)
    found: list[object] = []

    def read() -> None:
        try:
            found.append(storage.get(KEY))
        except OSError as error:
            found.append(str(error))

    threads = in_threads(read, 4)
    assert origin.came.acquire(timeout=PATIENCE)
    origin.go.set()
    for thread in threads:
        thread.join()
    assert sorted(found, key=str) == sorted(["the first one fails", DATA, DATA, DATA], key=str)


def test_forked_child_waits_for_nobody(tmp_path: Path) -> None:
    """What another thread of the parent was downloading, the child downloads itself."""
    inner = MemoryStorage()
    inner.put(KEY, DATA)
    origin = Slow(inner)
    storage = again(origin, tmp_path)
    threads = in_threads(lambda: storage.get(KEY), 1)
    assert origin.came.acquire(timeout=PATIENCE)
    pid = os.fork()
    if pid == 0:
        origin.go.set()
        os._exit(0 if storage.get(KEY) == DATA else 1)
    assert os.waitpid(pid, 0)[1] == 0
    origin.go.set()
    threads[0].join()


ranges = st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 2 * BLOCK))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("get"), st.booleans()),
        st.tuples(st.just("into"), st.booleans()),
        st.tuples(st.just("ranges"), st.booleans(), st.lists(ranges, max_size=4)),
        st.tuples(st.just("replace"), st.integers(1, len(DATA))),
        st.tuples(st.just("damage"), st.integers(0, 1 << 20)),
        st.tuples(st.just("reopen")),
    ),
    max_size=12,
)


@given(steps=steps)
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_reads_as_its_origin_does(
    steps: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is read in which order, replaced, forgotten, and damaged on this machine's disk."""
    path = tmp_path_factory.mktemp("cache")
    origin = MemoryStorage()
    origin.put(KEY, DATA)
    files = CacheFiles(str(path), 2 * MB)
    storage = CachedStorage(origin, files)
    for name, *arguments in steps:
        data = origin.get(KEY)
        reader: Storage = storage.trusted if arguments and arguments[0] is True else storage
        if name == "get":
            assert reader.get(KEY) == data
        elif name == "into":
            buffer = memoryview(bytearray(len(DATA)))
            assert reader.get_into(KEY, buffer) == len(data)
            assert buffer[: len(data)] == data
        elif name == "ranges":
            spans = [(a, min(n, len(data) - a)) for a, n in arguments[1] if a < len(data)]  # type: ignore[attr-defined]
            assert reader.get_ranges(KEY, spans) == [data[a : a + n] for a, n in spans]
        elif name == "replace":
            origin.put(KEY, os.urandom(int(str(arguments[0]))))
            storage.forget(KEY)
        elif name == "damage":
            for file in [file for file in path.rglob("*") if file.is_file()]:
                at = int(str(arguments[0])) % max(1, file.stat().st_size)
                with file.open("r+b") as opened:
                    opened.seek(at)
                    opened.write(b"\x55\xaa\x55")
        else:
            storage = CachedStorage(origin, files)


def test_addresses_say_whether_to_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remote ones, if a size is given; never what lies on this machine."""
    monkeypatch.setenv("LAKEBED_CACHE_DIR", str(tmp_path / "cache"))
    assert isinstance(open_storage(parse("s3://bucket/x", local_cache_bytes=MB)), CachedStorage)
    assert isinstance(open_storage(parse("s3://bucket/x")), ObjectStorage)
    assert isinstance(open_storage(parse(tmp_path, local_cache_bytes=MB)), LocalStorage)
    assert isinstance(open_storage(parse("mem://x", local_cache_bytes=MB)), MemoryStorage)
    assert not (tmp_path / "cache").exists()
    with pytest.raises(InvalidInputError, match="MB"):
        parse("s3://bucket/x", local_cache_bytes=-MB)


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user says, or among his caches."""
    monkeypatch.setenv("LAKEBED_CACHE_DIR", str(tmp_path))
    assert folder() == str(tmp_path)
    monkeypatch.delenv("LAKEBED_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert folder().startswith(str(tmp_path / "x"))


def test_travels_to_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickled one has the same folder, bound and origin."""
    monkeypatch.setenv("LAKEBED_CACHE_DIR", str(tmp_path / "cache"))
    origin = LocalStorage(tmp_path / "far")
    origin.put(KEY, DATA)
    storage = cached(origin, 50 * MB)
    assert storage.get(KEY) == DATA
    there = pickle.loads(pickle.dumps(storage))
    assert there.get(KEY) == DATA
    assert there.url == origin.url
    assert repr(there) == repr(storage)
