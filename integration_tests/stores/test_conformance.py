"""Every store keeps the promises of every storage, as far as it can."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest

from integration_tests.stores import servers
from integration_tests.stores.servers import Server, Web
from lakebed.errors import (
    InvalidInputError,
    InvalidKeyError,
    KeyNotFound,
    StorageReadOnlyError,
    TruncatedReadError,
    WeakStoreWarning,
)
from lakebed.storage.base import Stat, Storage
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.url import open_storage, parse
from lakebed.testing.storage_conformance import BAD_KEYS, GOOD_KEYS, StorageConformance


@pytest.fixture(scope="class")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The server of a test class."""
    with servers.BY_NAME[request.cls.name]() as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the web server shows."""
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module", params=["nginx", "own"])
def site(folder: Path, request: pytest.FixtureRequest) -> Iterator[Web]:
    """A web server: nginx if there is one, and ours for where there is none."""
    with servers.web(folder, own=request.param == "own") as server:
        yield server


class Objects(StorageConformance):
    """A store of `servers.BY_NAME`, a new prefix for each test."""

    name: ClassVar[str]

    @pytest.fixture
    def storage(self, server: Server) -> Storage:
        return open_storage(parse(server.url("conformance"), creds=server.creds))

    def test_conditions_are_known(self, storage: ObjectStorage) -> None:
        """The storage knows whether the store enforces conditions."""
        assert storage.conditional is (self.name != "rclone")


class TestMoto(Objects):
    """S3 as a Python program, a slow one."""

    name = "moto"
    batch = 100
    # It looks at the condition and then writes, without a lock in between: once in a while two writers both win. What
    # really locks shows this promise: Ceph and Azurite.
    test_one_of_several_conditional_puts_wins = None  # type: ignore[assignment]
    etags_name_contents = True


@pytest.mark.stores
class TestCeph(Objects):
    """A RADOS gateway, which wants etags without quotes."""

    name = "ceph"
    etags_name_contents = True


@pytest.mark.stores
class TestAzurite(Objects):
    """Azure's interface."""

    name = "azurite"


@pytest.mark.stores
class TestGoogle(Objects):
    """Google's XML interface; its listing has no generations."""

    name = "gcs"
    lists_etags = False


@pytest.mark.stores
class TestRclone(Objects):
    """A store without conditions: threads of one process still lose nothing."""

    name = "rclone"
    etags_name_contents = True

    @pytest.fixture(autouse=True)
    def _quiet(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakStoreWarning)
            yield

    def test_deletes(self, storage: Storage) -> None:
        """It answers 500 to who deletes what is a folder to it; otherwise it does as all do."""
        storage.put("a/b", b"1")
        storage.delete("missing")
        storage.delete("a/b")
        assert storage.stat("a/b") is None


class TestWeb:
    """A web server is for reading."""

    @pytest.fixture
    def storage(self, site: Web) -> Storage:
        return open_storage(site.url("place/of data"))

    @pytest.fixture
    def place(self, folder: Path) -> Path:
        place = folder / "place/of data"
        place.mkdir(parents=True, exist_ok=True)
        return place

    @pytest.mark.parametrize("key", GOOD_KEYS)
    def test_reads_what_is_there(self, storage: Storage, place: Path, key: str) -> None:
        """Any plain relative path is a key."""
        folder = f"keys-{GOOD_KEYS.index(key)}"
        path = place / folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"0123456789")
        key = f"{folder}/{key}"
        assert storage.get(key) == b"0123456789"
        assert storage.get_range(key, 2, 3) == b"234"
        assert storage.get_ranges(key, [(7, 3), (0, 2), (5, 0)]) == [b"789", b"01", b""]
        buffer = bytearray(12)
        assert storage.get_into(key, memoryview(buffer)) == 10
        assert buffer[:10] == b"0123456789"
        found = storage.stat(key)
        assert found is not None
        assert found.size == 10
        for length in (0, 4, 10, 99):
            tail = storage.get_tail(key, length)
            assert (tail.data, tail.stat) == (b"0123456789"[10 - min(length, 10) :], found)

    def test_says_what_is_missing(self, storage: Storage, place: Path) -> None:
        """Missing objects, ends of objects and empty objects are told apart."""
        (place / "k").write_bytes(b"0123456789")
        (place / "empty").write_bytes(b"")
        assert storage.stat("missing") is None
        with pytest.raises(KeyNotFound):
            storage.get("missing")
        for span in [(0, 11), (10, 1), (11, 0), (5, 2**62), (2**63, 1), (0, 2**70)]:
            with pytest.raises(TruncatedReadError):
                storage.get_range("k", *span)
        assert storage.get_tail("empty", 5).data == b""
        assert storage.get("empty") == b""
        assert storage.get_range("empty", 0, 0) == b""
        with pytest.raises(InvalidInputError, match="buffer"):
            storage.get_into("k", memoryview(bytearray(4)))

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_refuses_keys_that_could_leave_the_root(self, storage: Storage, key: str) -> None:
        """Keys may come from a hostile dataset."""
        for call in (storage.get, storage.stat):
            with pytest.raises(InvalidKeyError):
                call(key)

    def test_refuses_to_write(self, storage: Storage) -> None:
        """Each way to change something says that web servers are for reading."""
        for call in (
            lambda: storage.put("k", b""),
            lambda: storage.put_many([("k", b"")]),
            lambda: storage.put_if("k", b"", None),
            lambda: storage.copy("k", "l"),
            lambda: storage.delete("k"),
            lambda: storage.delete_prefix("k"),
            lambda: list(storage.list()),
        ):
            with pytest.raises(StorageReadOnlyError, match="web servers"):
                call()

    def test_a_query_goes_with_every_request_and_into_no_message(self, site: Web, place: Path) -> None:
        """It may be a signature."""
        (place / "k").write_bytes(b"1")
        with servers.counting(site.endpoint) as proxy:
            address = f"{proxy.endpoint}/place/of data?sig=topsecret"
            storage = open_storage(address)
            assert storage.get("k") == b"1"
            assert [request.path for request in proxy.requests] == ["/place/of%20data/k?sig=topsecret"]
            proxy.answer(403, "no", times=9)
            with pytest.raises(PermissionError) as caught:
                storage.get("k")
        assert "topsecret" not in f"{caught.value}{caught.value!r}{storage!r}{storage.url}{parse(address)!r}"


def test_stat_is_plain() -> None:
    """What names an object has no quotes, so that it is the same wherever it comes from."""
    meta = {"size": 1, "e_tag": '"abc"', "version": None, "last_modified": datetime.now(UTC)}
    assert ObjectStorage("s3", "b")._stat(meta) == Stat(1, "abc")
