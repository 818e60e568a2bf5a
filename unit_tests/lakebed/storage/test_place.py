"""Where a storage lies: what keeps buckets of two servers apart, though they go by one name."""

from __future__ import annotations

from lakebed.session.process.open_sessions import sessions_at
from lakebed.storage.base import place_of
from lakebed.storage.lock import WriterLock
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import FaultyStorage
from unit_tests.lakebed.datasets import create_on


class Bucket(MemoryStorage):
    """A bucket of the same name on any server."""

    def __init__(self, server: str) -> None:
        super().__init__("bucket")
        self.place = f"{self.url} at {server}"


def test_writers_on_two_servers_do_not_wait_for_each_other() -> None:
    """The slots of writers, and the datasets that take turns, are those of one server."""
    one, two = Bucket("one"), Bucket("two")
    datasets = [create_on(one), create_on(two)]
    with WriterLock(one, "main"), WriterLock(two, "main"):
        pass
    assert [ds._session in sessions_at(one) for ds in datasets] == [True, False]


def test_a_storage_around_another_lies_where_that_one_does() -> None:
    bucket = Bucket("one")
    assert place_of(FaultyStorage(bucket)) == place_of(bucket) == "mem://bucket at one"
    assert place_of(MemoryStorage("plain")) == "mem://plain"
