"""The graph of versions, merges included."""

from __future__ import annotations

from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.versions.ancestry import Ancestry, merge_message


def history() -> VersionTree:
    """main: m1, m2; side from m1: s1. Heads above them."""
    tree = VersionTree.initial("h0")
    tree = tree.commit_head("main", "h1", "m1", 1.0, "me")
    tree = tree.add_branch("side", "sh0", "h0")
    tree = tree.commit_head("side", "sh1", "s1", 2.0, "me")
    return tree.commit_head("main", "h2", "m2", 3.0, "me")


def test_without_merges_the_base_is_where_the_branch_began() -> None:
    """Lines that never met again have one common ancestor: where one left the other."""
    ancestry = Ancestry(history(), {})
    assert ancestry.of("h2") == {"h2", "h1", "h0", FIRST}
    assert ancestry.bases("h2", "sh0") == ["h0"]
    assert ancestry.bases("h2", "h1") == ["h1"]


def test_a_recorded_merge_moves_the_base() -> None:
    """After a merge the base is what was merged, and what came before it counts as known."""
    ancestry = Ancestry(history(), {"h1": ("sh0",), "unknown": ("h0",)})
    assert ancestry.parents("h1") == ("h0", "sh0")
    assert "sh0" in ancestry.of("h2")
    assert ancestry.bases("h2", "sh1") == ["sh0"]


def test_lines_that_merged_each_other_have_two_bases() -> None:
    """Crosswise merges leave two common ancestors of which none descends from the other, newest first."""
    tree = history().commit_head("side", "sh2", "s2", 4.0, "me").commit_head("main", "h3", "m3", 5.0, "me")
    ancestry = Ancestry(tree, {"h2": ("sh0",), "sh1": ("h1",)})
    assert ancestry.bases("h2", "sh2") == ["h1", "sh0"]


def test_a_head_has_merged_nothing() -> None:
    """A merge is recorded before it is published: of a head, the record tells of one that was cut off."""
    assert Ancestry(history(), {"h2": ("sh0",)}).parents("h2") == ("h1",)


def test_merges_of_deep_lake_are_known_by_their_message() -> None:
    """A merge that only its message tells of counts, as long as it names a version that exists."""
    other = "5" * 40
    tree = history().add_branch("third", other, "h0").commit_head("third", "th1", "t1", 4.0, "me")
    merged = tree.commit_head("main", "h3", merge_message(other, "main"), 5.0, "me")
    assert Ancestry(merged, {}).parents("h2") == ("h1", other)
    missing = tree.commit_head("main", "h3", merge_message("6" * 40, "main"), 5.0, "me")
    assert Ancestry(missing, {}).parents("h2") == ("h1",)
    assert Ancestry(merged, {"h2": ("sh0",)}).parents("h2") == ("h1", "sh0")
