"""What a store enforces is found out by trying, once, and made up for where it is nothing."""

from __future__ import annotations

import uuid
import warnings

import pytest

from lakebed.errors import PreconditionFailed, StoragePermissionError, WeakStoreWarning
from lakebed.storage.base import Data
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.stores.conditional_put import (
    ENFORCED,
    ConditionalPuts,
    conditional_puts,
    put_weakly,
    warn_of,
)


class Store:
    """A store with chosen manners; counts its requests."""

    def __init__(self, *, creates: bool = True, replaces: bool = True, quoted: bool = True) -> None:
        self.creates, self.replaces, self.quoted = creates, replaces, quoted
        self.objects: dict[str, int] = {}
        self.requests = 0
        self.error: Exception | None = None
        self.endpoint = f"http://{uuid.uuid4().hex}.test"

    def write(self, key: str, data: bytes) -> str:
        self.requests += 1
        if self.error is not None:
            raise self.error
        self.objects[key] = self.objects.get(key, 0) + 1
        return str(self.objects[key])

    def put(self, key: str, data: bytes, etag: str | None, is_quoted: bool) -> str:
        if etag is None:
            is_held = key not in self.objects or not self.creates
        else:
            is_held = (etag == str(self.objects.get(key)) and is_quoted == self.quoted) or not self.replaces
        if not is_held:
            self.requests += 1
            raise PreconditionFailed
        return self.write(key, data)

    def delete(self, key: str) -> None:
        self.requests += 1
        self.objects.pop(key, None)

    def found(self, scheme: str = "s3", bucket: str = "b") -> ConditionalPuts:
        return conditional_puts(scheme, self.endpoint, bucket, self.put, self.write, self.delete)


@pytest.mark.parametrize("creates", [True, False])
@pytest.mark.parametrize("replaces", [True, False])
@pytest.mark.parametrize("quoted", [True, False])
def test_finds_out_what_a_store_enforces(creates: bool, replaces: bool, quoted: bool) -> None:
    """Both kinds of conditions, and how it wants its etags; and leaves nothing behind."""
    store = Store(creates=creates, replaces=replaces, quoted=quoted)
    found = store.found()
    assert (found.creates, found.replaces) == (creates, replaces)
    assert found.hold is (creates and replaces)
    assert found.is_quoted is (quoted or not replaces)
    assert not store.objects
    assert store.requests <= 7


def test_asks_once_per_bucket() -> None:
    """Five requests the first time, none later."""
    store = Store()
    store.found()
    assert store.requests == 5
    store.found()
    assert store.requests == 5
    store.found(bucket="other")
    assert store.requests == 10


@pytest.mark.parametrize(
    ("scheme", "endpoint"),
    [
        ("s3", ""),
        ("s3", "https://s3.eu-west-1.amazonaws.com"),
        ("gs", "http://x.test"),
        ("az", "http://x.test"),
    ],
)
def test_clouds_that_are_known_to_enforce_them_are_not_asked(scheme: str, endpoint: str) -> None:
    """The three large ones."""
    store = Store()
    store.endpoint = endpoint
    assert store.found(scheme) is ENFORCED
    assert not store.requests
    lookalike = Store()
    lookalike.endpoint = f"https://{uuid.uuid4().hex}amazonaws.com"
    lookalike.found()
    assert lookalike.requests


def test_an_account_that_may_not_write_is_told() -> None:
    """It is no answer to the question, which is asked again next time."""
    store = Store()
    store.error = StoragePermissionError("no")
    with pytest.raises(StoragePermissionError):
        store.found()
    store.error = None
    assert store.found().hold


class Rivals(MemoryStorage):
    """Somebody else writes right after each put."""

    is_busy = False

    def put(self, key: str, data: Data) -> str:
        etag = super().put(key, data)
        if self.is_busy:
            super().put(key, b"theirs")
        return etag


def test_a_weak_put_looks_before_and_after() -> None:
    """What was changed before is not touched; what is changed at the same time is told."""
    storage = Rivals()
    etag = put_weakly(storage, "k", b"1", None)
    for wrong in (None, "other"):
        with pytest.raises(PreconditionFailed):
            put_weakly(storage, "k", b"2", wrong)
    assert storage.get("k") == b"1"
    storage.is_busy = True
    with pytest.raises(PreconditionFailed, match="same time"):
        put_weakly(storage, "k", b"2", etag)


def test_a_warning_comes_once_per_server() -> None:
    """Not with every put."""
    endpoint = f"http://{uuid.uuid4().hex}.test"
    with pytest.warns(WeakStoreWarning, match=endpoint):
        warn_of(endpoint, "s3://b/ds")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of(endpoint, "s3://b/other")
