"""Requests on a bad network: broken off, silent, refused, throttled; and what is said about it."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from integration_tests.stores import servers
from integration_tests.stores.servers import Counting, Faults, Server
from lakebed import config
from lakebed.errors import (
    BucketNotFoundError,
    CredentialsRejectedError,
    KeyNotFound,
    LakebedError,
    PreconditionFailed,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageUnavailableError,
    TruncatedReadError,
)
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.stores import clients as buckets
from lakebed.storage.url import open_storage, parse
from unit_tests.effort import PATIENCE

LARGE = os.urandom(3_000_000)


@pytest.fixture(scope="module")
def store(moto: Server) -> Server:
    """S3."""
    return moto


@pytest.fixture(scope="module")
def _network(store: Server) -> Iterator[Faults]:
    with servers.faults(store) as network:
        yield network


@pytest.fixture
def network(_network: Faults, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    """A network that is sound at first, and again at the end; nobody waits long for it."""
    monkeypatch.setattr(config, "STALL_SECONDS", 0.5)
    _network.set()
    yield _network
    _network.set()


@pytest.fixture(scope="module")
def _book(store: Server) -> Iterator[Counting]:
    with servers.counting(store) as book:
        yield book


@pytest.fixture
def book(_book: Counting) -> Counting:
    """Notes of requests, none yet."""
    _book.clear()
    return _book


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "RETRY_SECONDS", 2.0)


def through(store: Server, proxy: Faults | Counting) -> ObjectStorage:
    """Return an empty storage behind a proxy, after its first request."""
    found = open_storage(parse(store.url("requests"), creds=store.through(proxy)))
    assert isinstance(found, ObjectStorage)
    assert found.conditional
    return found


# -- reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["reset_after", "stall_after"])
@pytest.mark.parametrize(
    "after", [*(pytest.param(after, marks=pytest.mark.stores) for after in (0, 200)), 1_000_000]
)
def test_an_answer_that_ends_early_is_read_again(
    store: Server, network: Faults, fault: str, after: int
) -> None:
    """Wherever it breaks off, in its head or its body, by a reset or by silence: all of it comes in the end."""
    storage = through(store, network)
    storage.put("k", LARGE)
    network.set(**{fault: after, "times": 2, "only": "GET"})
    assert storage.get("k") == LARGE
    assert network.hits == 2
    network.set(**{fault: after, "times": 1, "only": "GET"})
    assert storage.get_range("k", 5, 2_000_000) == LARGE[5:2_000_005]
    network.set(**{fault: after, "times": 1, "only": "GET"})
    assert storage.get_ranges("k", [(5, 1_500_000), (2_000_000, 900_000)])[1] == LARGE[2_000_000:2_900_000]
    network.set(**{fault: after, "times": 1, "only": "GET"})
    buffer = bytearray(len(LARGE))
    assert storage.get_into("k", memoryview(buffer)) == len(LARGE)
    assert buffer == LARGE


@pytest.mark.stores
def test_an_answer_that_always_ends_early_is_an_error(store: Server, network: Faults) -> None:
    """Nothing short is passed off as data; after the time for retries the cause is told."""
    storage = through(store, network)
    storage.put("k", LARGE)
    network.set(reset_after=100_000, only="GET")
    began = time.monotonic()
    with pytest.raises(StorageUnavailableError, match="cannot read 'k'") as caught:
        storage.get("k")
    assert time.monotonic() - began < 50
    assert caught.value.errno == errno.ECONNRESET
    assert network.hits > 2


@pytest.mark.stores
def test_an_address_where_nobody_answers_is_told_early(
    store: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever mistypes an address does not wait as long as for a store that has an outage."""
    monkeypatch.setattr(config, "RETRY_SECONDS", 60.0)
    monkeypatch.setattr(buckets, "_CLIENT_RETRY_SECONDS", 1.0)
    for endpoint, says in (("http://127.0.0.1:1", "refused"), ("http://nobody.invalid", "not known")):
        storage = open_storage(parse("s3://b/ds", creds={**store.creds, "endpoint_url": endpoint}))
        began = time.monotonic()
        with pytest.raises(StorageUnavailableError, match=says):
            storage.get("k")
        assert time.monotonic() - began < 50


def test_an_outage_is_sat_out(store: Server, network: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that has answered before is asked for longer than the client alone would."""
    monkeypatch.setattr(config, "RETRY_SECONDS", 30.0)
    monkeypatch.setattr(buckets, "_CLIENT_RETRY_SECONDS", 0.2)
    storage = through(store, network)
    network.set(refuse=True, reset_after=0)
    timer = threading.Timer(1.5, network.set)
    timer.start()
    storage.put("k", b"content")
    timer.join()
    assert storage.get("k") == b"content"


@pytest.mark.stores
def test_no_server_is_an_error_that_names_the_cause(store: Server, network: Faults) -> None:
    """A port that refuses, a name that nobody knows, a host that is silent."""
    for endpoint, says in (("http://127.0.0.1:1", "refused"), ("http://nobody.invalid", "not known")):
        storage = open_storage(parse("s3://b/ds", creds={**store.creds, "endpoint_url": endpoint}))
        with pytest.raises(StorageUnavailableError, match=says):
            storage.get("k")
    storage = open_storage(parse("s3://b/ds", creds=store.through(network)))
    network.set(blackhole=True)
    with pytest.raises(StorageUnavailableError, match="in time") as caught:
        storage.get("k")
    assert caught.value.errno == errno.ETIMEDOUT
    assert isinstance(caught.value, ConnectionError)


@pytest.mark.parametrize(
    "status", [*(pytest.param(status, marks=pytest.mark.stores) for status in (429, 500, 502, 504)), 503]
)
def test_a_busy_store_is_asked_again_after_growing_pauses(store: Server, book: Counting, status: int) -> None:
    """`SlowDown` and the like are no errors until the time is over."""
    storage = through(store, book)
    storage.put("k", b"content")
    book.clear()
    book.answer(status, "<Error><Code>SlowDown</Code></Error>", times=3)
    assert storage.get("k") == b"content"
    began = [request.began for request in book.requests]
    assert [request.status for request in book.requests] == [status] * 3 + [200]
    assert all(later - earlier >= 0.08 for earlier, later in pairwise(began))


def test_a_busy_store_is_asked_for_less_at_a_time(store: Server, book: Counting) -> None:
    """A refusal halves the number of reads under way; a missing object does not. What was repeated is counted."""
    storage = through(store, book)
    storage.put("k", b"content")
    before, limit = storage.traffic.counts(), storage.traffic.limit
    with pytest.raises(KeyNotFound):
        storage.get("missing")
    assert storage.traffic.limit == limit
    book.answer(503, "<Error><Code>SlowDown</Code></Error>", times=2)
    assert storage.get_range("k", 1, 3) == b"ont"
    found = storage.traffic.counts().since(before)
    assert (found.requests, found.retried, found.refused, found.nbytes) == (4, 2, 2, 3)
    assert storage.traffic.limit == limit // 4


@pytest.mark.stores
def test_a_store_that_stays_busy_is_an_error(store: Server, book: Counting) -> None:
    """After the time for retries, and with far fewer requests than could be sent in that time."""
    storage = through(store, book)
    book.clear()
    book.answer(503, "<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>", times=10**6)
    began = time.monotonic()
    with pytest.raises(StorageUnavailableError, match=r"503 SlowDown \(Reduce your rate\)"):
        storage.get("k")
    assert 1.0 < time.monotonic() - began < 50
    assert len(book.requests) < 25


# -- writing ------------------------------------------------------------------------------------------------


def test_a_plain_put_whose_answer_is_lost_is_repeated(store: Server, network: Faults) -> None:
    """The same content twice is the same content."""
    storage = through(store, network)
    network.set(lose_answer=True, only="PUT", times=2)
    storage.put("k", b"content")
    assert storage.get("k") == b"content"
    assert network.hits == 2


def test_a_conditional_put_whose_answer_is_lost_is_told(store: Server, network: Faults) -> None:
    """It has worked, and nobody here knows: whoever asked must look. It is not repeated, which would find it done."""
    storage = through(store, network)
    for etag, content in ((None, b"one"), (storage.put("other", b"zero"), b"two")):
        key = "k" if etag is None else "other"
        network.set(lose_answer=True, only="PUT", times=1)
        with pytest.raises(StorageUnavailableError, match=f"cannot write '{key}'"):
            storage.put_if(key, content, etag)
        assert storage.get(key) == content
        assert network.hits == 1


@pytest.mark.stores
def test_large_objects_go_in_parts(store: Server, book: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit, and with the right etag."""
    monkeypatch.setattr(config, "PART_BYTES", 5 * 1024 * 1024)
    storage = through(store, book)
    book.clear()
    data = os.urandom(12_000_000)
    etag = storage.put("k", [data[:7_000_000], data[7_000_000:]])
    sent = [request for request in book.requests if request.method == "PUT"]
    assert sorted(request.sent for request in sent) == [
        12_000_000 - 2 * config.PART_BYTES,
        *[config.PART_BYTES] * 2,
    ]
    assert storage.get("k") == data
    found = storage.stat("k")
    assert found is not None
    assert found.etag == etag


def test_a_batch_goes_at_the_same_time(store: Server, book: Counting) -> None:
    """Nothing waits for anything else, and not too many are under way."""
    storage = through(store, book)
    book.clear()
    storage.put_many([(f"k{n}", b"x" * n) for n in range(100)])
    assert 4 < book.most_at_once <= config.REQUESTS
    assert len(book.requests) == 100


def test_a_batch_bears_in_mind_how_much_is_under_way(
    store: Server, book: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes are bounded too; one object may be larger than the bound."""
    monkeypatch.setattr(config, "UPLOAD_BYTES", 1_000_000)
    storage = through(store, book)
    book.clear()
    storage.put_many([(f"k{n}", bytes(400_000)) for n in range(8)] + [("large", bytes(2_000_000))])
    assert book.most_at_once <= 2
    assert len(book.requests) == 9


@pytest.mark.stores
def test_a_batch_ends_with_its_first_error(store: Server, book: Counting) -> None:
    """What is under way is finished, nothing else is begun, and the error is raised."""
    storage = through(store, book)
    book.clear()
    book.answer(403, "<Error><Code>AccessDenied</Code></Error>", only="/k5 ", times=1)
    with pytest.raises(StoragePermissionError, match="'k5'"):
        storage.put_many((f"k{n}", b"x") for n in range(2000))
    assert len(book.requests) < 1000
    assert all(request.ended for request in book.requests)


@pytest.mark.stores
def test_a_folder_goes_by_few_requests(store: Server, book: Counting) -> None:
    """Objects are deleted a thousand at a time."""
    storage = through(store, book)
    storage.put_many((f"a/{n}", b"") for n in range(1100))
    storage.put("ab", b"")
    book.clear()
    storage.delete_prefix("a/")
    assert [request.method for request in book.requests].count("POST") == 2
    assert len(book.requests) <= 5
    assert [key for key, _ in storage.list()] == ["ab"]


# -- what is said -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "AccessDenied", StoragePermissionError),
        (403, "InvalidAccessKeyId", CredentialsRejectedError),
        (403, "SignatureDoesNotMatch", CredentialsRejectedError),
        (400, "ExpiredToken", CredentialsRejectedError),
        (401, "", CredentialsRejectedError),
        (404, "NoSuchBucket", BucketNotFoundError),
        (404, "ContainerNotFound", BucketNotFoundError),
        (404, "NoSuchKey", KeyNotFound),
        (416, "InvalidRange", TruncatedReadError),
        (412, "PreconditionFailed", PreconditionFailed),
        (409, "ConditionalRequestConflict", PreconditionFailed),
        (507, "QuotaExceeded", StorageFullError),
        (418, "Teapot", StorageError),
    ],
)
def test_answers_become_errors_of_one_line(
    store: Server, book: Counting, status: int, code: str, error: type[LakebedError]
) -> None:
    """Each kind has its class; neither XML nor addresses nor keys get through."""
    storage = through(store, book)
    book.answer(
        status, f"<Error>\n<Code>{code}</Code><Message>See http://x/?sig=1</Message></Error>", times=50
    )
    with pytest.raises(error) as caught:
        storage.put_if("some key", b"", "0") if error is PreconditionFailed else storage.get("some key")
    assert type(caught.value) is error or error is TruncatedReadError
    text = "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)
    assert "'some key'" in str(caught.value)
    for hidden in ("<Code", "http://", "sig=1", store.creds["aws_secret_access_key"]):
        assert hidden not in text


def test_a_silent_refusal_is_asked_for_its_reason(store: Server, book: Counting) -> None:
    """The answer to HEAD has no room for it."""
    storage = through(store, book)
    book.answer(403, only="HEAD", times=9)
    book.answer(403, "<Error><Code>InvalidAccessKeyId</Code></Error>", only="GET", times=9)
    with pytest.raises(CredentialsRejectedError, match="InvalidAccessKeyId"):
        storage.stat("k")


def test_missing_buckets_are_told_from_missing_objects(store: Server) -> None:
    """Also by what lists and writes."""
    storage = open_storage(parse("s3://no-such-bucket/ds", creds=store.creds))
    for call in (
        lambda: storage.get("k"),
        lambda: storage.put("k", b""),
        lambda: storage.put_if("k", b"", None),
        lambda: list(storage.list()),
        lambda: storage.copy("k", "l"),
    ):
        with pytest.raises(BucketNotFoundError, match="bucket"):
            call()


@pytest.mark.stores
def test_wrong_keys_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a store that checks them."""
    with servers.moto(checks_keys=True) as strict:
        storage = open_storage(parse("s3://b/ds", creds=strict.creds))
        with pytest.raises(CredentialsRejectedError, match="InvalidAccessKeyId"):
            storage.get("k")
        with pytest.raises(PermissionError):
            storage.stat("k")


# -- processes ----------------------------------------------------------------------------------------------


def _read_in_child(storage: ObjectStorage, depth: int) -> int:
    """Fork, read in the child, and in a child of that; return the status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        signal.alarm(int(PATIENCE))  # a child that hangs would hold the pipes of the test runner for ever
        try:
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(storage.get, ["k"] * 8))
            storage.put_many([(f"child-{depth}-{n}", b"") for n in range(4)])
            status = 0 if found == [b"content"] * 8 else 2
            if depth and not status:
                status = _read_in_child(storage, depth - 1)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_goes_on(store: Server) -> None:
    """After use in the parent, in a child, in its child; and the parent goes on as well."""
    storage = open_storage(parse(store.url("fork"), creds=store.creds))
    assert isinstance(storage, ObjectStorage)
    storage.put("k", b"content")
    assert _read_in_child(storage, depth=2) == 0
    assert storage.get("k") == b"content"
    assert len(list(storage.list("child-"))) == 12


def test_a_pickle_holds_no_secret(store: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address travels, and what says where to ask; the secret comes from the other process's environment."""
    storage = open_storage(parse(store.url("pickle"), creds=store.creds))
    storage.put("k", b"content")
    data = pickle.dumps(storage)
    for key in ("aws_access_key_id", "aws_secret_access_key"):
        assert store.creds[key].encode() not in data
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    copy = pickle.loads(data)
    assert copy.url == storage.url
    assert copy.get("k") == b"content"
