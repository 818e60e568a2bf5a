"""What the proofs of this folder have found, each as a case of its own."""

from __future__ import annotations

import pytest

import lakebed
from lakebed.errors import StorageError
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.schedule import Fault, Planned, refused
from unit_tests.lakebed.datasets import create_on, new_memory
from unit_tests.proofs.observe import open_on


def two_sessions() -> tuple[FaultyStorage, lakebed.Dataset, lakebed.Dataset]:
    """A dataset with one row, opened twice; the first one over a storage that may fail."""
    storage = FaultyStorage(new_memory(), Planned())
    ds = create_on(storage.inner)
    ds.create_tensor("n", dtype="int64")
    ds.append({"n": 0})
    ds.close()
    return storage, open_on(storage), open_on(storage.inner)


def test_an_error_while_the_lock_is_taken_does_not_lead_to_another_branch() -> None:
    """Whoever fails to read the head that another writer made still stands on its branch, not on an old commit."""
    storage, one, other = two_sessions()
    other.commit("by the other one")
    calls = len(storage.trace)
    one.append({"n": 1})
    one.flush()
    reads = [i for i, call in enumerate(storage.trace[calls:]) if call.method in ("get", "stat", "get_tail")]
    assert len(reads) > 2
    for read in reads:
        storage, one, other = two_sessions()
        other.commit("by the other one")
        storage.schedule = Planned(Fault("before", read, error=refused))
        try:
            one.append({"n": 1})
            one.flush()
        except StorageError:
            storage.schedule = Planned()
            if len(one.n) == 1:
                one.append({"n": 1})
        one.flush()
        assert one.branches == ["main"]
        assert open_on(storage.inner).n.numpy().ravel().tolist() == [0, 1]


@pytest.mark.parametrize("step", ["delete_branch", "create_tag", "branch", "merge"])
def test_whoever_learns_of_another_ones_commit_stays_at_the_tip(step: str) -> None:
    """Steps that read the history anew do not leave a dataset on the version that was the head before."""
    storage, one, other = two_sessions()
    other.commit("first")
    other.checkout("side", create=True)
    other.append({"n": 5})
    other.commit("on side")
    other.checkout("main")
    other.close()
    one = open_on(storage)
    other.append({"n": 1})
    other.commit("second")
    other.close()
    if step == "delete_branch":
        one.delete_branch("side")
    elif step == "create_tag":
        one.create_tag("v1")
    elif step == "merge":
        one.merge("side")
    else:
        one.checkout("new", create=True)
        one.checkout("main")
    one.append({"n": 2})
    one.flush()
    assert one.branch == "main"
    assert not [name for name in one.branches if name.startswith("auto_")]
    expected = [0, 1, 5, 2] if step == "merge" else [0, 1, 2]
    assert open_on(storage.inner).n.numpy().ravel().tolist() == expected


def test_labels_that_both_lines_changed_to_different_new_names_are_a_conflict() -> None:
    """Names of classes that are new on both lines have the same number there, and mean something else."""
    ds = create_on(new_memory())
    ds.create_tensor("c", htype="class_label", class_names=["ant"])
    ds.c.extend(["ant", "ant"])
    ds.commit("base")
    ds.checkout("side", create=True)
    ds.c[0] = "dog"
    ds.commit("side")
    ds.checkout("main")
    ds.c[0] = "cat"
    ds.commit("main")
    with pytest.raises(lakebed.errors.MergeConflictError):
        ds.merge("side")
    ds.merge("side", "theirs")
    assert ds.c.data()["text"] == [["dog"], ["ant"]]
