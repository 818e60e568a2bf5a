"""The swap of the version tree: a lost answer is settled, a lost race repeated or refused, never guessed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakebed
from lakebed.errors import CommitFailed, CommitStateUnknown, StorageError
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.base import Data, Tail
from lakebed.storage.memory import MemoryStorage
from lakebed.versions.create import create
from lakebed.versions.opening import TREE_KEY, read_tree


class Flaky(MemoryStorage):
    """A store whose conditional puts and reads of the tree can go wrong on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] | None = None
        self.refuse = False
        self.swallow = False
        self.deaf = False

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        before, self.before = self.before, None
        if before is not None:
            before()
        if self.refuse:
            raise StorageError("503 slow down")
        answer = super().put_if(key, data, etag)
        if self.swallow:
            raise StorageError("connection reset")
        return answer

    def get(self, key: str) -> bytes:
        if self.deaf and key == TREE_KEY:
            raise StorageError("host unreachable")
        return super().get(key)

    def get_tail(self, key: str, length: int) -> Tail:
        if self.deaf and key == TREE_KEY:
            raise StorageError("host unreachable")
        return super().get_tail(key, length)


def opened(storage: MemoryStorage, ref: str | None = None) -> lakebed.Dataset:
    return lakebed.Dataset(Handle(Session(storage, ref)))


@pytest.fixture
def storage() -> Flaky:
    made = Flaky()
    create(made)
    ds = opened(made)
    ds.create_tensor("x", dtype="int64")
    ds.x.append(1)
    ds.commit("one")
    return made


def rows(storage: MemoryStorage, ref: str | None = None) -> list[int]:
    return [int(v) for v in opened(storage, ref).x.numpy().ravel()]


def test_a_lost_answer_is_settled_by_reading_again(storage: Flaky) -> None:
    """The put worked: the writer goes on as if the answer had come, and publishes nothing twice."""
    ds = opened(storage)
    ds.x.append(2)
    storage.swallow = True
    ds.flush()
    storage.swallow = False
    assert rows(storage) == [1, 2]
    ds.x.append(3)
    ds.commit("more")
    assert rows(storage) == [1, 2, 3]
    assert [c["message"] for c in opened(storage).commits] == ["more", "one"]


def test_a_put_that_did_not_work_can_be_tried_again(storage: Flaky) -> None:
    """The store's own error comes through, nothing is visible, and nothing unpublished is lost."""
    ds = opened(storage)
    ds.x.append(2)
    storage.refuse = True
    with pytest.raises(StorageError, match="503"):
        ds.flush()
    assert rows(storage) == [1]
    storage.refuse = False
    ds.flush()
    assert rows(storage) == [1, 2]


@pytest.mark.parametrize("worked", [True, False])
def test_when_nobody_answers_the_state_is_unknown_until_the_next_try(storage: Flaky, *, worked: bool) -> None:
    """CommitStateUnknown, not CommitFailed; flush() again settles it without doubling a row."""
    ds = opened(storage)
    ds.x.append(2)
    storage.swallow = worked
    storage.refuse = not worked
    storage.deaf = True
    with pytest.raises(CommitStateUnknown, match=r"lost .* and reading again failed .*unreachable"):
        ds.flush()
    storage.deaf = storage.swallow = storage.refuse = False
    assert rows(storage) == ([1, 2] if worked else [1])
    ds.flush()
    assert rows(storage) == [1, 2]
    ds.x.append(3)
    ds.flush()
    assert rows(storage) == [1, 2, 3]


@pytest.mark.parametrize("retry", [True, False])
def test_a_commit_of_unknown_state_is_not_made_twice(storage: Flaky, *, retry: bool) -> None:
    """What the dataset has then is published once, also if the commit itself is tried again."""
    ds = opened(storage)
    ds.x.append(2)
    storage.swallow = storage.deaf = True
    with pytest.raises(CommitStateUnknown):
        ds.commit("two")
    storage.deaf = storage.swallow = False
    assert [c["message"] for c in opened(storage).commits] == ["two", "one"]
    if retry:
        assert ds.commit("two") == opened(storage).commit_id
    else:
        ds.flush()
    assert rows(storage) == [1, 2]
    assert [c["message"] for c in opened(storage).commits] == ["two", "one"]


def test_a_publish_on_another_branch_in_between_is_no_conflict(storage: Flaky) -> None:
    """The same change is repeated on top of the other one's tree, lost answers or not."""
    side = opened(storage)
    side.checkout("side", create=True)
    ds = opened(storage)
    ds.x.append(2)

    def meanwhile() -> None:
        side.x.append(7)
        side.flush()

    for swallow in (False, True):
        storage.before, storage.swallow = meanwhile, swallow
        try:
            ds.flush()
        finally:
            storage.swallow = False
        ds.x.append(3)
    ds.flush()
    assert rows(storage) == [1, 2, 3, 3]
    assert rows(storage, "side") == [1, 7, 7]


def test_a_publish_on_the_same_branch_in_between_is_commit_failed(storage: Flaky) -> None:
    """Whoever comes second hears that nothing of it was published; the first one's rows stay."""
    ds = opened(storage)
    ds.x.append(2)
    before = read_tree(storage)

    def meanwhile() -> None:
        lock = ds._session._lock
        assert lock is not None
        lock.forget()
        other = opened(storage)
        other.x.append(9)
        other.flush()

    storage.before = meanwhile
    with pytest.raises(CommitFailed, match="another writer published"):
        ds.flush()
    assert rows(storage) == [1, 9]
    assert read_tree(storage).branches != before.branches


def test_a_dataset_that_is_deleted_meanwhile_is_commit_failed(storage: Flaky) -> None:
    """A publish does not bring half of a deleted dataset back."""
    ds = opened(storage)
    ds.x.append(2)
    storage.before = lambda: storage.delete(TREE_KEY)
    with pytest.raises(CommitFailed, match="deleted"):
        ds.flush()
    assert storage.stat(TREE_KEY) is None


def test_a_retry_does_not_write_over_an_attempt_that_may_still_become_visible(storage: Flaky) -> None:
    """A put that was given up may arrive late: the folder that it names must hold what it held then."""
    ds = opened(storage)
    ds.x.append(2)
    storage.refuse = True
    with pytest.raises(StorageError, match="503"):
        ds.flush()
    # The parent's commit_info.json names its child, and so changes with every publish.
    keys = [k for k, _ in storage.list("versions/") if not k.endswith((".lock", "/commit_info.json"))]
    attempt = {key: storage.get(key) for key in keys}
    storage.refuse = False
    ds.x.append(3)
    ds.flush()
    assert rows(storage) == [1, 2, 3]
    assert {k: storage.get(k) for k in attempt} == attempt
