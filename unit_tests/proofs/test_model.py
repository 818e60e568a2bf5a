"""The model itself: what a stranger would expect of a versioned dataset, spelled out once by hand."""

from __future__ import annotations

import pytest

from unit_tests.proofs.content import Refused
from unit_tests.proofs.model import Model


def numbers(model: Model, branch: str) -> list[object]:
    values: list[object] = model.state()["branches"][branch]["tensors"]["n"]["values"]
    return values


def started() -> Model:
    model = Model()
    model.create_tensor("n", "generic")
    model.extend({"n": [1, 2, 3]})
    model.commit("one")
    return model


def test_a_branch_goes_its_own_way() -> None:
    """What is written on it is not on the other one."""
    model = started()
    model.checkout("side", create=True)
    model.append({"n": 4})
    assert (numbers(model, "main"), numbers(model, "side")) == ([1, 2, 3], [1, 2, 3, 4])
    assert model.state()["branches"]["side"]["log"] == ["one"]


def test_a_merge_brings_additions_changes_and_removals_in() -> None:
    """Each by its sample's id, wherever it is now."""
    model = started()
    model.checkout("side", create=True)
    model.update("n", 1, 20)
    model.pop("n", 0)
    model.append({"n": 4})
    model.commit("two")
    model.checkout("main")
    model.append({"n": 5})
    model.merge("side")
    assert numbers(model, "main") == [20, 3, 5, 4]
    assert model.state()["branches"]["main"]["log"] == ["Merge # into main", "one"]
    before = model.state()
    model.merge("side")
    assert model.state() == before


def test_a_merge_of_what_both_changed_needs_a_choice() -> None:
    """Without one nothing happens."""
    model = started()
    model.checkout("side", create=True)
    model.update("n", 0, 10)
    model.commit("two")
    model.checkout("main")
    model.update("n", 0, 11)
    before = model.state()
    with pytest.raises(Refused):
        model.merge("side")
    assert model.state() == before
    other = model.copy()
    model.merge("side", "ours")
    other.merge("side", "theirs")
    assert (numbers(model, "main"), numbers(other, "main")) == ([11, 2, 3], [10, 2, 3])


def test_reset_goes_back_to_the_last_commit() -> None:
    """And only the head."""
    model = started()
    model.clear("n")
    model.set_info("a", 1)
    model.reset()
    assert numbers(model, "main") == [1, 2, 3]
    assert not model.is_changed


def test_what_others_need_is_not_deleted() -> None:
    """A branch whose commits are below another, merged or tagged stays."""
    model = started()
    model.checkout("side", create=True)
    model.append({"n": 4})
    tagged = model.commit("two")
    model.create_tag("v1", tagged)
    model.checkout("main")
    with pytest.raises(Refused):
        model.delete_branch("side")
    model.delete_tag("v1")
    model.delete_branch("side")
    assert list(model.branches) == ["main"]
    with pytest.raises(Refused):
        model.checkout("side")


def test_whoever_writes_on_an_old_commit_goes_on_beside_it() -> None:
    """On a branch of its own."""
    model = started()
    old = model.log()[0]
    model.append({"n": 4})
    model.commit("two")
    model.checkout(old)
    model.append({"n": 5})
    assert model.at == "auto"
    assert (numbers(model, "main"), numbers(model, "auto")) == ([1, 2, 3, 4], [1, 2, 3, 5])


def test_what_comes_and_goes_beside_an_old_commit_is_no_change() -> None:
    """Whatever the commit itself had recorded."""
    model = started()
    model.set_info("key", 1)
    model.commit("two")
    model.checkout(model.log()[0])
    model.create_tensor("new", "generic")
    assert model.is_changed
    model.delete_tensor("new")
    assert not model.is_changed
