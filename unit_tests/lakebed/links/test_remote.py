"""Links into buckets: one client for each bucket and credentials; who may ask with whose credentials."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from lakebed import limits
from lakebed.errors import InvalidInputError, LimitError, StorageUnavailableError, UnsafePathError
from lakebed.links import fetch, remote
from lakebed.links.policy import Policy, remember
from lakebed.storage.base import Stat, Tail
from lakebed.storage.credentials import Grant, kept


class Bucket:
    """A bucket in memory."""

    made: ClassVar[list[tuple[str, str, Any]]] = []
    objects: ClassVar[dict[str, bytes]] = {}
    etag: ClassVar[str] = "1"

    def __init__(self, scheme: str, bucket: str, prefix: str, creds: Any) -> None:
        self.made.append((scheme, bucket, creds))

    def get_part(self, key: str, start: int, length: int) -> Tail:
        data = self.objects[key]
        return Tail(data[start : start + length], Stat(len(data), self.etag))


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> type[Bucket]:
    monkeypatch.setattr(remote, "ObjectStorage", Bucket)
    monkeypatch.setattr(remote, "_stores", type(remote._stores)())
    monkeypatch.setattr(Bucket, "made", [])
    monkeypatch.setattr(Bucket, "objects", {"a/b.png": bytes(range(256)) * 100})
    return Bucket


def test_one_client_for_each_bucket_and_credentials() -> None:
    """Equal dictionaries are the same credentials, nested ones too; order does not matter."""
    first = {"aws_access_key_id": "A", "headers": {"x": ["1"]}}
    same = {"headers": {"x": ["1"]}, "aws_access_key_id": "A"}
    for creds in (None, first, same, {"aws_access_key_id": "B"}):
        for scheme in ("s3", "gs", "gcs"):
            remote.fetch_object(f"{scheme}://one/a/b.png", creds, None)
    remote.fetch_object("s3://two/a/b.png", first, None)
    assert len(Bucket.made) == 3 * 2 + 1
    assert {scheme for scheme, _, _ in Bucket.made} == {"s3", "gs"}


class Source:
    """Credentials that somebody makes when they are needed."""

    name = "made"

    def grant(self) -> Grant:
        return Grant({"headers": {"X": "1"}})


def test_sources_of_credentials_are_told_apart() -> None:
    """Wrapped or not; each time the same one is one client."""
    one, two = Source(), Source()
    for creds in (one, two, one, kept(one), kept(two), kept({})):
        remote.fetch_object("s3://one/a/b.png", creds, None)
    assert len(Bucket.made) == 3


def test_a_web_server_gets_what_a_source_grants() -> None:
    for creds in (Source(), kept(Source()), {"headers": {"X": "1"}}):
        assert fetch._values(creds) == {"headers": {"X": "1"}}
    with pytest.raises(InvalidInputError):
        fetch._values("ENV")


def test_clients_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_MOST", 4)
    for number in range(10):
        remote.fetch_object(f"s3://bucket{number}/a/b.png", None, None)
    assert len(remote._stores) == 4


def test_large_objects_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of one object: one that is replaced meanwhile is an error, as is one that is too large."""
    monkeypatch.setattr(remote, "_PART", 1000)
    assert remote.fetch_object("s3://one/a/b.png", None, None) == Bucket.objects["a/b.png"]
    part = remote.object_part("s3://one/a/b.png", 0, 10, None, None, None)
    assert (part.data, part.total, part.tag) == (bytes(range(10)), 25_600, "1")
    monkeypatch.setattr(Bucket, "etag", "2")
    with pytest.raises(StorageUnavailableError, match="replaced"):
        remote.object_part("s3://one/a/b.png", 10, 10, None, None, "1")
    monkeypatch.setattr(limits, "MAX_FETCH_BYTES", 20_000)
    with pytest.raises(LimitError):
        remote.fetch_object("s3://one/a/b.png", None, None)


@pytest.mark.parametrize("url", ["s3://", "s3://bucket", "s3://bucket/", "s3:///key"])
def test_addresses_of_no_object(url: str) -> None:
    with pytest.raises(InvalidInputError):
        remote.fetch_object(url, None, None)


def test_what_others_linked_is_asked_for_as_anybody() -> None:
    """Unless the dataset names credentials, which the user has given; links of this process are the user's own."""
    policy = Policy("mem://theirs")
    remote.fetch_object("s3://one/a/b.png", None, policy)
    remote.fetch_object("s3://one/a/b.png", {"aws_access_key_id": "A"}, policy)
    assert [dict(creds) for _, _, creds in Bucket.made] == [{"anonymous": True}, {"aws_access_key_id": "A"}]
    Bucket.objects["c.png"] = b"mine"
    remember(["s3://two/c.png"])
    remote.fetch_object("s3://two/c.png", None, policy)
    assert Bucket.made[-1] == ("s3", "two", None)
    with pytest.raises(UnsafePathError):
        remote.fetch_object("s3://one/../two/c.png", None, policy)
