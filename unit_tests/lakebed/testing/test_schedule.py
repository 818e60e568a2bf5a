"""Schedules fail where they are told to, in the way they are told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.errors import PreconditionFailed, StorageError, StorageFullError
from lakebed.runtime import clock
from lakebed.storage.base import MappableStorage
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.testing import Crash, Fault, FaultyStorage, Planned, Sometimes, VirtualClock
from lakebed.testing.schedule import Call, full, refused


def test_a_fault_before_does_nothing_and_one_after_does_all() -> None:
    """A lost answer is an error of something that was done."""
    plan = Planned(Fault("before", 0, ["put"], error=refused), Fault("after", 1, ["put"], error=full))
    storage = FaultyStorage(MemoryStorage(), plan)
    with pytest.raises(StorageError, match="on purpose"):
        storage.put("a", b"1")
    with pytest.raises(StorageFullError):
        storage.put("b", b"2")
    storage.put("c", b"3")
    assert sorted(key for key, _ in storage.list()) == ["b", "c"]
    assert [number for number, _ in storage.failed] == [0, 1]


def test_a_conditional_put_with_a_lost_answer_took_effect() -> None:
    """The next one with the old etag loses."""
    storage = FaultyStorage(MemoryStorage(), Planned(Fault("after", methods=["put_if"], error=refused)))
    with pytest.raises(StorageError):
        storage.put_if("k", b"1", None)
    with pytest.raises(PreconditionFailed):
        storage.put_if("k", b"2", None)


def test_after_a_crash_the_storage_is_dead() -> None:
    """Whatever a killed process would have done in its `finally` blocks is not done."""
    storage = FaultyStorage(MemoryStorage(), Planned(Fault("before", 1)))
    storage.put("a", b"1")
    for call in (lambda: storage.put("b", b""), lambda: storage.delete("a"), lambda: storage.get("a")):
        with pytest.raises(Crash):
            call()
    assert storage.inner.get("a") == b"1"


def test_a_torn_batch_leaves_any_subset_and_cuts_new_objects_short() -> None:
    """What replaces another object is whole or not there; over many seeds everything that may happen happens."""
    seen = set()
    for seed in range(60):
        inner = MemoryStorage()
        inner.put("old", b"before")
        plan = Planned(Fault("torn", methods=["put_many"], error=refused, seed=seed))
        with pytest.raises(StorageError):
            FaultyStorage(inner, plan).put_many(
                [("old", b"after"), ("new", b"12345"), ("other", [b"6", b"7"])]
            )
        found = {key: inner.get(key) for key, _ in inner.list()}
        assert found["old"] in (b"before", b"after")
        assert b"12345".startswith(found.get("new", b""))
        assert b"67".startswith(found.get("other", b""))
        seen.add((found["old"], found.get("new")))
    assert {old for old, _ in seen} == {b"before", b"after"}
    assert {None, b"12345"} < {new for _, new in seen}


def test_a_torn_copy_is_cut_short() -> None:
    """Like a new object of a batch; one that replaces another is whole or not there."""
    seen = set()
    for seed in range(60):
        inner = MemoryStorage()
        inner.put_many([("a", b"12345"), ("b", b"before")])
        for target in ("b", "c"):
            plan = Planned(Fault("torn", methods=["copy"], error=refused, seed=seed))
            with pytest.raises(StorageError):
                FaultyStorage(inner, plan).copy("a", target)
        assert inner.get("b") in (b"before", b"12345")
        seen.add(None if inner.stat("c") is None else inner.get("c"))
    assert {None, b"12345"} < seen


def test_a_torn_deletion_and_a_torn_listing_stop_midway() -> None:
    """Some objects stay; some are not told of, and that is an error, not a short list."""
    inner = MemoryStorage()
    inner.put_many((f"v/{i}", b"") for i in range(20))
    storage = FaultyStorage(inner, Planned(Fault("torn", methods=["list"], error=refused)))
    with pytest.raises(StorageError):
        list(storage.list("v/"))
    storage = FaultyStorage(inner, Planned(Fault("torn", methods=["delete_prefix"], error=refused)))
    with pytest.raises(StorageError):
        storage.delete_prefix("v/")
    assert 0 < len(list(inner.list("v/"))) < 20


def test_faults_choose_calls_by_number_method_and_key() -> None:
    """`nth` counts those that match only."""
    fault = Fault("before", 1, ["get"], "v/*", times=2, error=refused)
    plan = Planned(fault)
    calls = [("get", "v/1"), ("get", "w/1"), ("put", "v/1"), ("get", "v/2"), ("get", "v/3"), ("get", "v/4")]
    assert [plan.next(Call(m, (k,))) is not None for m, k in calls] == [
        False,
        False,
        False,
        True,
        True,
        False,
    ]


def test_random_faults_are_the_same_for_the_same_seed() -> None:
    """And end at their limit."""

    def run(seed: int) -> list[bool]:
        plan = Sometimes(seed, 0.2, limit=5)
        return [plan.next(Call("get", ("k",))) is not None for _ in range(100)]

    assert run(1) == run(1) != run(2)
    assert sum(run(1)) == 5


def test_a_delay_lets_time_pass_and_then_goes_on() -> None:
    """On the clock that leases go by."""
    virtual = VirtualClock()
    storage = FaultyStorage(MemoryStorage(), Planned(Fault("delay", seconds=400.0)))
    with clock.replaced(virtual):
        began = clock.monotonic()
        storage.put("a", b"1")
        assert clock.monotonic() - began == 400.0
    assert storage.get("a") == b"1"
    assert clock.now() != virtual.now()


def test_maps_if_the_inner_storage_does(tmp_path: Path) -> None:
    """Readers ask by the type."""
    local = FaultyStorage(LocalStorage(tmp_path), Planned(Fault("before", 1, ["map"], error=refused)))
    assert isinstance(local, MappableStorage)
    assert not isinstance(FaultyStorage(MemoryStorage()), MappableStorage)
    local.put("k", b"123")
    assert bytes(local.map("k")) == b"123"
    with pytest.raises(StorageError):
        local.map("k")
