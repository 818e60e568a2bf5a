"""Which versions left the tree, and when."""

from __future__ import annotations

from dataclasses import replace

from lakebed import config
from lakebed.documents.version_tree import FIRST, OURS, VersionTree
from lakebed.versions.gc.tombstones import (
    MOST,
    Tombstones,
    with_sweep_by,
    with_tombstones,
    without_tombstones,
)


def number(n: int) -> str:
    """The n-th version id."""
    return f"{n:012x}" + "0" * 28


def swapped(tree: VersionTree, n: int, now: float) -> VersionTree:
    """The tree after a publish."""
    return with_tombstones(tree, tree.swap_head("main", number(n)), now)


def test_a_replaced_head_is_listed_with_its_time() -> None:
    """Heads that a publish, or a dropped branch, takes out of the tree are known by the time they left."""
    tree = VersionTree.initial(number(0))
    tree = swapped(tree, 1, 100.0)
    tree = swapped(tree, 2, 200.5)
    known = Tombstones.of(VersionTree.from_bytes(tree.to_bytes()))
    assert known.left_at(number(0)) == 100.0
    assert known.left_at(number(1)) == 200.5
    assert known.lists(number(1))
    assert not known.lists(number(2))
    assert (known.rank(number(0)), known.rank(number(1)), known.rank(number(2))) == (1, 0, None)
    assert known.left_at(number(9)) == 100.0  # whatever is in no list left before there was one
    assert known.left == 2
    branched = with_tombstones(tree, tree.commit_head("main", number(3), "m", 1.0, "me"), 300.0)
    branched = with_tombstones(branched, branched.add_branch("side", number(4), number(2)), 300.0)
    assert Tombstones.of(branched).left == 2  # a head that became a commit did not leave
    dropped = with_tombstones(branched, branched.drop_branch("side"), 400.0)
    assert Tombstones.of(dropped).left_at(number(4)) == 400.0


def test_the_list_is_bounded() -> None:
    """What falls off its end counts as having left when the last of those did."""
    tree = VersionTree.initial(number(0))
    for n in range(1, MOST + 11):
        tree = swapped(tree, n, float(n))
    known = Tombstones.of(tree)
    assert len(known.times) == MOST
    assert known.left == MOST + 10
    assert known.left_at(number(3)) == 10.0
    assert known.left_at(number(10)) == 11.0
    assert len(tree.to_bytes()) < 12_000


def test_what_was_collected_is_dropped_from_the_list() -> None:
    """The count of those left behind goes down with it, and to nothing after a full sweep."""
    tree = VersionTree.initial(number(0))
    for n in range(1, 6):
        tree = swapped(tree, n, float(n))
    less = without_tombstones(tree, {number(0), number(1)}, swept=None)
    assert list(Tombstones.of(less).times) == [number(n)[:12] for n in (2, 3, 4)]
    assert Tombstones.of(less).left == 3
    swept = without_tombstones(tree, set(), swept=1000.0)
    assert Tombstones.of(swept).left == 0
    assert Tombstones.of(swept).sweep > 1000.0
    assert without_tombstones(tree, set(), swept=None) is tree


def test_a_suspicion_brings_the_next_sweep_forward() -> None:
    """It is due at that time at the latest."""
    tree = swapped(VersionTree.initial(number(0)), 1, 100.0)
    sooner = with_sweep_by(tree, 500.0)
    assert Tombstones.of(sooner).sweep == 500.0
    assert with_sweep_by(sooner, 600.0) is sooner


def test_a_dropped_branch_brings_the_next_sweep_forward() -> None:
    """What only its versions had is looked for once the grace period is over."""
    tree = swapped(VersionTree.initial(number(0)), 1, 100.0)
    tree = with_tombstones(tree, tree.add_branch("side", number(2), FIRST), 200.0)
    tree = with_tombstones(tree, tree.commit_head("side", number(3), "m", 1.0, "me"), 300.0)
    assert Tombstones.of(tree).sweep > 80_000.0
    tree = with_tombstones(tree, tree.drop_branch("side"), 400.0)
    assert Tombstones.of(tree).sweep == 400.0 + config.GRACE_SECONDS


def test_a_tree_of_another_writer_tells_nothing() -> None:
    """Without the list, or with one that is none, nothing is known, and the next publish begins a new one."""
    tree = swapped(VersionTree.initial(number(0)), 1, 100.0)
    foreign = replace(tree, extra={})
    assert Tombstones.of(foreign).left_at(number(0)) is None
    again = swapped(foreign, 2, 900.0)
    assert Tombstones.of(again).left_at(number(0)) == 900.0
    for odd in (3, {}, {"ids": 4, "since": "x"}, {"ids": [[1, 2], "x"], "since": 1, "left": 0, "sweep": 0}):
        strange = replace(tree, extra={OURS: {"retired": odd}})
        assert Tombstones.of(strange).times == {}
