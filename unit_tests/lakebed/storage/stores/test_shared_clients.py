"""Who holds the same credentials shares the clients of a bucket, and so their connections."""

import gc
import os
import pickle
import threading
import weakref

import lakebed
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.stores.clients import BucketClient

KEYS = {
    "aws_access_key_id": "AKIAEXAMPLE",
    "aws_secret_access_key": "not-a-secret",
    "endpoint_url": "http://127.0.0.1:9",
}


def bucket_client(creds: object, bucket: str = "lake", prefix: str = "a") -> BucketClient:
    return ObjectStorage("s3", bucket, prefix, creds)._requests.client()  # type: ignore[arg-type]


def test_datasets_of_one_bucket_share_clients() -> None:
    creds = lakebed.Credentials(KEYS)
    first = bucket_client(creds)
    assert bucket_client(creds, prefix="b") is first
    assert bucket_client(creds, bucket="other") is not first
    assert bucket_client(KEYS) is not bucket_client(KEYS)
    assert bucket_client(lakebed.Credentials(KEYS)) is not first


def test_threads_that_begin_at_the_same_time_share_them_too() -> None:
    creds, found, barrier = lakebed.Credentials(KEYS), [], threading.Barrier(8)

    def begin(number: int) -> None:
        barrier.wait()
        found.append(bucket_client(creds, prefix=str(number)))

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in found}) == 1


def test_clients_that_were_given_up_are_given_up_by_all() -> None:
    """After a rejection: whoever asks next gets those with the new credentials."""
    creds = lakebed.Credentials(KEYS)
    first, second = ObjectStorage("s3", "lake", "a", creds), ObjectStorage("s3", "lake", "b", creds)
    old = first._requests.client()
    first._requests._forget(old)
    new = first._requests.client()
    assert new is not old
    assert second._requests.client() is new
    second._requests._forget(old)
    assert second._requests.client() is new


def test_a_forked_child_frees_no_clients_of_its_parent() -> None:
    """Nor does its garbage collector: to free a client could wait for threads that are not there."""
    gc.disable()
    try:
        cycle: list[object] = [bucket_client(KEYS)]
        cycle.append(cycle)
        found = weakref.ref(cycle[0])
        del cycle
        pid = os.fork()
        if pid == 0:
            gc.collect()
            os._exit(0 if found() is not None else 1)
        assert os.waitpid(pid, 0)[1] == 0
        gc.collect()
        assert found() is None
    finally:
        gc.enable()


def test_a_forked_child_and_another_process_make_their_own() -> None:
    creds = lakebed.Credentials(KEYS)
    old = bucket_client(creds)
    old.pid = os.getpid() + 1  # as if this were the child
    new = bucket_client(creds)
    assert new is not old
    assert bucket_client(creds) is new
    assert pickle.loads(pickle.dumps(creds)).made == {}
