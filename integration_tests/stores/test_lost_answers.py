"""The publishing put and its answer: lost, late, or refused though it was done. What happened is found out."""

from __future__ import annotations

import pytest

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from lakebed import config
from lakebed.errors import CommitFailed, StorageUnavailableError

TREE = "version_control_info.json"


@pytest.fixture(scope="module")
def store(moto: Server) -> Server:
    """S3."""
    return moto


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "RETRY_SECONDS", 1.0)


def rows(store: Server, url: str) -> list[int]:
    """Read what everybody sees."""
    ds = lakebed.load(url, creds=store.creds, read_only=True)
    return [int(value) for value in ds["x"].numpy().ravel()]


def test_a_lost_answer_is_recognised_as_ours(store: Server) -> None:
    """The put has worked, the connection is gone: the commit is there, and nobody hears of it."""
    url = store.url("lost")
    with servers.faults(store) as network:
        ds = lakebed.empty(url, creds=store.through(network))
        ds.create_tensor("x", dtype="int64")
        for n in range(3):
            ds.x.append(n)
            network.set(lose_answer=True, only="PUT .*control", times=1)
            ds.commit(f"number {n}")
            assert network.hits == 1
            network.set()
            assert rows(store, url) == list(range(n + 1))
        assert [entry["message"] for entry in ds.commits] == ["number 2", "number 1", "number 0"]
        ds.close()


def test_a_put_that_is_repeated_by_the_client_does_not_fail_over_itself(store: Server) -> None:
    """The store has done it and answered 500; the client asks again, and is told that the object has changed."""
    url = store.url("repeated")
    with servers.counting(store) as book:
        ds = lakebed.empty(url, creds=store.through(book))
        ds.create_tensor("x", dtype="int64")
        for n in range(2):
            ds.x.append(n)
            book.clear()
            book.answer(
                500,
                "<Error><Code>InternalError</Code></Error>",
                only=f"PUT {_path(url)}/{TREE}",
                reaches=True,
            )
            ds.commit(f"number {n}")
            puts = [r.status for r in book.requests if r.method == "PUT" and r.path.endswith(TREE)]
            assert puts[:2] == [500, 412]
            assert rows(store, url) == list(range(n + 1))
        assert len(ds.commits) == 2
        ds.close()


def test_a_put_that_did_not_arrive_is_told_and_can_be_repeated(store: Server) -> None:
    """Nothing is published, nothing is lost, and the next attempt works."""
    url = store.url("refused")
    with servers.counting(store) as book:
        ds = lakebed.empty(url, creds=store.through(book))
        ds.create_tensor("x", dtype="int64")
        ds.flush()
        ds.x.append(1)
        book.clear()
        book.answer(503, "<Error><Code>SlowDown</Code></Error>", only=f"PUT {_path(url)}/{TREE}", times=10**6)
        with pytest.raises((StorageUnavailableError, CommitFailed)):
            ds.flush()
        assert rows(store, url) == []
        book.clear()
        ds.flush()
        assert rows(store, url) == [1]
        ds.close()


@pytest.mark.stores
@pytest.mark.parametrize("name", [name for name in servers.BY_NAME if name not in ("moto", "rclone")])
def test_lost_answers_on_every_store_that_enforces_conditions(name: str) -> None:
    """As on S3, so by Ceph, Azure's interface and Google's."""
    with servers.BY_NAME[name]() as store:
        test_a_lost_answer_is_recognised_as_ours(store)


@pytest.mark.stores
@pytest.mark.filterwarnings("ignore::lakebed.errors.WeakStoreWarning")
def test_a_store_without_conditions_is_written_by_one() -> None:
    """It works, with a warning."""
    with servers.rclone() as store:
        url = store.url("weak")
        ds = lakebed.empty(url, creds=store.creds)
        ds.create_tensor("x", dtype="int64")
        for n in range(3):
            ds.x.append(n)
            ds.commit(f"number {n}")
        assert rows(store, url) == [0, 1, 2]
        ds.close()
        again = lakebed.load(url, creds=store.creds)
        again.x.append(3)
        again.commit()
        again.close()
        assert rows(store, url) == [0, 1, 2, 3]


def _path(url: str) -> str:
    return "/" + url.partition("://")[2]
