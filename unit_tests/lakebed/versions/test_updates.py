"""Changes of the version tree as data: what a list of them makes of a tree, when it is refused, how it is printed."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.documents.version_tree import FIRST, MAIN, OURS, VersionTree
from lakebed.errors import BranchExistsError, CommitFailed, InvalidInputError, LeaseLost
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.memory import MemoryStorage
from lakebed.versions.create import create
from lakebed.versions.gc.tombstones import Tombstones
from lakebed.versions.opening import read_tree
from lakebed.versions.updates import (
    AddBranch,
    CheckpointHead,
    CommitHead,
    CutBranch,
    DropBranch,
    DropTombstones,
    DropUnverified,
    DropVersion,
    FenceIs,
    HeadIs,
    NameVersion,
    RaiseFence,
    ReplaceHistory,
    RequestSweep,
    RewindHead,
    SetDigests,
    SetTree,
    SwapHead,
    Update,
    apply,
    describe,
    fences_of,
    required,
)


def id_of(number: int) -> str:
    return f"{number:012x}" + "0" * 28


def start(head: str = id_of(0)) -> VersionTree:
    return replace(VersionTree.initial(head), extra={OURS: {}, "other": 1})


def shape(tree: VersionTree) -> Mapping[str, tuple[str | None, Collection[str], str, str | None]]:
    return {i: (n.parent, n.children, n.branch, n.message) for i, n in tree.commits.items()}


# What each update is made of and what the tree does for it: of a branch, another, a version, and a new id.
PAIRS: list[tuple[Callable[..., Update], Callable[..., VersionTree]]] = [
    (lambda b, _, __, new: SwapHead(b, new), lambda t, b, _, __, new: t.swap_head(b, new)),
    (lambda b, _, __, new: CheckpointHead(b, new), lambda t, b, _, __, new: t.checkpoint_head(b, new)),
    (lambda b, _, __, new: RewindHead(b, new), lambda t, b, _, __, new: t.rewind_head(b, new)),
    (
        lambda b, _, __, new: CommitHead(b, new, "text", 3.5, "me"),
        lambda t, b, _, __, new: t.commit_head(b, new, "text", 3.5, "me"),
    ),
    (lambda _, o, v, new: AddBranch(o, new, v), lambda t, _, o, v, new: t.add_branch(o, new, v)),
    (lambda b, _, __, ___: DropBranch(b), lambda t, b, _, __, ___: t.drop_branch(b)),
]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_a_list_of_updates_does_what_the_tree_does_one_by_one(
    choices: list[tuple[int, int, int]],
) -> None:
    """In the order given, whatever came before; what the tree refuses is refused, and the tree stays as it was."""
    before = expected = start()
    updates: list[Update] = []
    for number, (kind, one, other) in enumerate(choices, 1):
        branches, versions = sorted(expected.branches), sorted(expected.commits)
        given_ = (
            branches[one % len(branches)],
            f"branch {other}",
            versions[other % len(versions)],
            id_of(number),
        )
        make, do = PAIRS[kind]
        refused: Exception | None = None
        try:
            expected = do(expected, *given_)
            updates.append(make(*given_))
        except (InvalidInputError, BranchExistsError) as error:
            refused = error
        if refused is not None:
            with pytest.raises(type(refused), match=re.escape(str(refused))):
                apply(before, [*updates, make(*given_)])
    assert apply(before, updates) == expected
    assert shape(before) == shape(start())
    assert pickle.loads(pickle.dumps(updates)) == updates


def test_requirements_are_checked_before_anything_changes() -> None:
    """They speak of the tree that the list is applied to, wherever in the list they stand."""
    tree = start()
    swap, head = SwapHead(MAIN, id_of(1)), HeadIs(MAIN, id_of(0), "main has moved")
    assert apply(tree, [swap, head]).branches == {MAIN: id_of(1)}
    with pytest.raises(CommitFailed, match=r"^main has moved\n") as found:
        apply(apply(tree, [swap]), [head, SwapHead(MAIN, id_of(2))])
    line = "require head 000000000000 of 'main'; swap head of 'main' to 000000000002"
    assert found.value.updates == line
    assert found.value.__notes__ == [f"updates: {line}"]
    with pytest.raises(CommitFailed, match="'main' was written to"):
        apply(tree, [HeadIs(MAIN, None)])
    assert apply(tree, [HeadIs("dev", None)]) == tree
    with pytest.raises(LeaseLost, match="took over branch 'main'"):
        apply(apply(tree, [RaiseFence(MAIN)]), [FenceIs(MAIN, 0)])


def test_what_a_repeat_requires() -> None:
    """Fences and heads of the branches that the updates changed, none of the others."""
    before = apply(
        start(), [AddBranch("dev", id_of(1), FIRST), AddBranch("old", id_of(2), FIRST), RaiseFence("dev")]
    )
    after = apply(before, [SwapHead("dev", id_of(3)), AddBranch("new", id_of(4), FIRST), DropBranch("old")])
    expected = [FenceIs("dev", 1), FenceIs("new", 0), FenceIs("old", 0)]
    heads = [HeadIs("dev", id_of(1)), HeadIs("new", None), HeadIs("old", id_of(2))]
    found = required(before, after)
    assert sorted(found, key=str) == sorted([*expected, *heads], key=str)
    assert all(isinstance(one, FenceIs) for one in found[:3]), "a lost lease is told before a lost race"
    assert all(one.holds(apply(before, [SwapHead(MAIN, id_of(5)), RaiseFence(MAIN)])) for one in found)
    assert not all(one.holds(apply(before, [SwapHead("dev", id_of(5))])) for one in found)
    assert not all(one.holds(apply(before, [RaiseFence("old")])) for one in found)
    assert required(before, apply(before, [RaiseFence(MAIN)])) == []


def test_a_history_is_replaced_and_what_lakebed_adds_stays() -> None:
    """As squash does, together with a commit; a tree that was made elsewhere takes all places."""
    tree = apply(start(), [CommitHead(MAIN, id_of(1), "one", 1.0, "me"), RaiseFence(MAIN)])
    new = apply(tree, [ReplaceHistory("dev", id_of(7)), CommitHead("dev", id_of(8), "all", 2.0, "me")])
    assert set(new.commits) == {FIRST, id_of(7), id_of(8)}
    assert new.branches == {"dev": id_of(8)}
    assert new.extra == tree.extra
    assert apply(VersionTree({}, {}), [ReplaceHistory(MAIN, id_of(7))]) == VersionTree.initial(id_of(7))
    assert apply(new, [SetTree(tree)]) is tree


def test_a_branch_is_cut_below_a_commit() -> None:
    """What follows the commit goes, whatever branch it is on; the branch has a new head."""
    tree = start()
    for number in range(1, 5):
        tree = apply(tree, [CommitHead(MAIN, id_of(number), f"c{number}", float(number), "me")])
    tree = apply(tree, [AddBranch("dev", id_of(9), id_of(0)), AddBranch("side", id_of(8), id_of(3))])
    tree = replace(tree, branches={name: head for name, head in tree.branches.items() if name != "side"})
    cut = apply(tree, [CutBranch(MAIN, id_of(1), id_of(7))])
    assert set(cut.commits) == {FIRST, id_of(0), id_of(1), id_of(7), id_of(9)}
    assert cut.commits[id_of(1)].children == (id_of(7),)
    assert cut.branches == {MAIN: id_of(7), "dev": id_of(9)}
    assert VersionTree.from_bytes(cut.to_bytes()) == cut


def test_versions_that_no_branch_leads_to_get_a_name_or_go() -> None:
    """Neither has an effect where the version is gone: another writer was faster."""
    tree = apply(start(), [CommitHead(MAIN, id_of(1), "one", 1.0, "me"), AddBranch("x", id_of(2), id_of(0))])
    stray = replace(tree, branches={MAIN: id_of(1)})
    named = apply(stray, [NameVersion(id_of(2), "found")])
    assert named.branches == {MAIN: id_of(1), "found": id_of(2)}
    assert named.commits[id_of(2)].branch == "found"
    without = apply(stray, [DropVersion(id_of(2))])
    assert set(without.commits) == {FIRST, id_of(0), id_of(1)}
    assert without.commits[id_of(0)].children == (id_of(1),)
    assert apply(without, [NameVersion(id_of(2), "found"), DropVersion(id_of(2))]) == without


def test_digests_have_the_time_that_the_update_gives() -> None:
    """Heads are named with it; a version that the tree lacks is left out."""
    tree = apply(start(), [SetDigests({id_of(0): "ab", id_of(5): "cd"}, 17)])
    assert tree.commits[id_of(0)].digest == "ab"
    assert tree.extra == {OURS: {"times": {id_of(0): 17}}, "other": 1}
    assert apply(tree, [DropUnverified(id_of(0))]).commits[id_of(0)].digest == "ab", "a head keeps it"
    committed = apply(tree, [CommitHead(MAIN, id_of(1), None, 1.0, "me"), DropUnverified(id_of(0))])
    assert committed.commits[id_of(0)].digest is None
    assert apply(tree, [SwapHead(MAIN, id_of(1)), DropUnverified(id_of(0))]).commits[id_of(1)].digest is None


def test_fences_grow_and_those_of_dropped_branches_go() -> None:
    """Each takeover counts; other members of what lakebed adds stay."""
    tree = apply(
        start(), [AddBranch("dev", id_of(1), FIRST), RaiseFence("dev"), RaiseFence("dev"), RaiseFence(MAIN)]
    )
    assert fences_of(tree) == {"dev": 2, MAIN: 1}
    assert tree.extra["other"] == 1
    assert fences_of(apply(tree, [DropBranch("dev"), RaiseFence(MAIN)])) == {MAIN: 2}
    assert fences_of(replace(tree, extra={OURS: {"fences": {"a": True, "b": "1", "c": 3}}})) == {"c": 3}


def test_tombstones_of_what_was_collected_go() -> None:
    """A sweep that was done, or that somebody asks for, moves the time of the next."""
    tree = Tombstones({id_of(0)[:12]: 5.0}, 1.0, 2, 1000.0).into(start())
    assert Tombstones.of(apply(tree, [DropTombstones({id_of(0)})])).times == {}
    assert Tombstones.of(apply(tree, [DropTombstones((), 500.0)])).sweep == 500.0 + 86_400.0
    assert Tombstones.of(apply(tree, [RequestSweep(30.0)])).sweep == 30.0
    assert Tombstones.of(apply(tree, [RequestSweep(3000.0)])).sweep == 1000.0


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (SwapHead("a\nb", "1" * 40), "swap head of 'a\\nb' to 111111111111"),
        (CheckpointHead("x", "1" * 40), "checkpoint head of 'x', new head 111111111111"),
        (CommitHead("x", "1" * 40, "secret", 1.0, "me"), "commit head of 'x', new head 111111111111"),
        (RewindHead("x", "1" * 40), "rewind 'x' to its last commit, new head 111111111111"),
        (AddBranch("x", "1" * 40, FIRST), "add branch 'x' below firstdbf9474, head 111111111111"),
        (DropBranch("x"), "drop branch 'x'"),
        (CutBranch("x", "1" * 40, "2" * 40), "cut branch 'x' below 111111111111, new head 222222222222"),
        (NameVersion("1" * 40, "x"), "name version 111111111111 branch 'x'"),
        (DropVersion("1" * 40), "drop version 111111111111"),
        (ReplaceHistory("x", "1" * 40), "replace the history by branch 'x', head 111111111111"),
        (SetTree(start()), "set the tree to 2 versions, branches 'main'"),
        (SetDigests({"1" * 40: "ab"}, 1), "set digests of 111111111111"),
        (SetDigests(dict.fromkeys("abc", "x"), 1), "set digests of 3 versions"),
        (DropUnverified("1" * 40), "drop the digest of 111111111111 unless it stays a head"),
        (RaiseFence("x"), "raise the fence of 'x'"),
        (DropTombstones({"1" * 40}), "drop tombstones of 111111111111"),
        (DropTombstones((), 0.0), "drop tombstones of no version, full sweep done 1970-01-01 00:00:00 UTC"),
        (RequestSweep(0.0), "request a full sweep by 1970-01-01 00:00:00 UTC"),
        (HeadIs("x", None), "require that there is no branch 'x'"),
        (FenceIs("x", 3), "require fence 3 of 'x'"),
    ],
)
def test_the_printed_form(update: Update, text: str) -> None:
    """One line, whatever the names are; no text that users wrote beside them."""
    assert describe([update]) == text
    assert describe([update, update]) == f"{text}; {text}"
    assert "\n" not in text


def test_an_error_tells_what_was_to_be_published(caplog: pytest.LogCaptureFixture) -> None:
    """As an attribute and a note, also after a trip to another process; a log of details has it of every publish."""
    storage = MemoryStorage()
    create(storage)
    ds = lakebed.Dataset(Handle(Session(storage)))
    ds.create_tensor("x", dtype="int64")
    ds.flush()
    with caplog.at_level("DEBUG", logger="lakebed.versions.swap"):
        ds.x.append(1)
        storage.put(
            "version_control_info.json", apply(read_tree(storage), [SwapHead(MAIN, id_of(3))]).to_bytes()
        )
        with pytest.raises(CommitFailed) as found:
            ds.flush()
    updates = found.value.updates
    assert updates.startswith("swap head of 'main' to ")
    assert f"updates: {updates}" in found.value.__notes__
    assert pickle.loads(pickle.dumps(found.value)).updates == updates
    assert str(found.value) == found.value.message, "the text itself stays as it was"
