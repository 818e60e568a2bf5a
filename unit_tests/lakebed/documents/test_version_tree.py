"""The version history: parsing, walking, and edits that leave the old tree alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakebed.documents.commits import OPENING, Commits
from lakebed.documents.version_tree import FIRST, VersionTree, new_id, tail_begins
from lakebed.errors import BranchExistsError, CheckoutError, FormatError, InvalidInputError
from unit_tests.effort import examples

A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)


def node(
    parent: str | None, *children: str, branch: str = "main", time: float | None = None
) -> dict[str, Any]:
    return {
        "branch": branch,
        "parent": parent,
        "children": list(children),
        "commit_message": None if time is None else "m",
        "commit_time": time,
        "commit_user_name": None if time is None else "public",
        "is_checkpoint": False,
        "total_samples_processed": 0,
    }


def document(commits: dict[str, Any], branches: dict[str, Any]) -> bytes:
    return json.dumps({"commits": commits, "branches": branches}).encode()


def test_golden_bytes() -> None:
    """Style and order of format.md 9.1, as 3.9.52 writes a new dataset."""
    data = (
        b'{"commits": {"firstdbf9474d461a19e9333c2fd19b46115348f": {"branch": "main", "parent": null, '
        b'"children": [], "commit_message": null, "commit_time": null, "commit_user_name": null, '
        b'"is_checkpoint": false, '
        b'"total_samples_processed": 0}}, "branches": {"main": "firstdbf9474d461a19e9333c2fd19b46115348f"}}'
    )
    tree = VersionTree.from_bytes(data)
    assert tree.to_bytes() == data
    assert tree.head("main").id == FIRST
    assert json.loads(tree.node_bytes(FIRST)) == json.loads(data)["commits"][FIRST]


def test_what_lakebed_adds_carries_checksums() -> None:
    """Each byte of the file counts, a commit message that looks like a checksum does not."""
    nodes = {
        FIRST: {**node(None, A, time=1.5), "commit_message": '"sum": "0123456789abcdef"'},
        A: node(FIRST, B, time=2.5),
        B: node(A),
    }
    plain = VersionTree.from_bytes(document(nodes, {"main": B}))
    tree = replace(plain, extra={"lakebed": {"times": {B: 3}}}).with_digests({FIRST: "00", A: "01", B: "02"})
    data = tree.to_bytes()
    assert json.loads(data)["commits"].keys() == nodes.keys()
    assert VersionTree.from_bytes(data) == tree
    assert VersionTree.from_bytes(data).to_bytes() == data
    assert [VersionTree.from_bytes(data).commits[i].digest for i in (FIRST, A, B)] == ["00", "01", "02"]
    silent = []
    for at in range(len(data)):
        try:
            found = VersionTree.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        except FormatError:
            continue
        silent.append(at)
        assert replace(found, extra={}) == plain
        assert {version.digest for version in found.commits.values()} == {None}
    # Only the name of the checksum can change: then there is none to compare with, and no digest counts.
    name = data.rindex(b'"sum"')
    assert set(silent) <= set(range(name + 1, name + 4))


def history(commits: int) -> VersionTree:
    """A history of ours: so many commits on main, a branch beside the second one."""
    tree = replace(VersionTree.initial(f"{0:040x}"), extra={"lakebed": {"times": {}}})
    for i in range(commits):
        tree = tree.commit_head("main", f"{i + 1:040x}", f'commit "{i}" {{', float(i), "me")
        tree = tree.with_digests({f"{i:040x}": f"{i:016x}"})
        if i == 3:
            tree = tree.add_branch("dev", D, f"{1:040x}")
    return tree


def tail_of(data: bytes, length: int = 0) -> tuple[bytes, int]:
    """The end of a file, as short as it can be, or longer by some bytes."""
    begins = tail_begins(data)
    assert begins is not None
    return data[max(0, begins - length) :], len(data)


@pytest.mark.parametrize("more", [0, 1, 10**9])
def test_the_end_of_the_file_is_enough_for_heads(more: int) -> None:
    """Branches, heads, their parents and what lakebed adds need no more; the rest is read once, when asked for."""
    data = history(50).to_bytes()
    reads = []

    def read() -> bytes:
        reads.append(1)
        return data

    tree = VersionTree.from_tail(*tail_of(data, more), read)
    assert tree is not None
    full = VersionTree.from_bytes(data)
    assert len(tail_of(data)[0]) < 3000
    assert tree.branches == full.branches
    assert tree.branches["main"] == f"{50:040x}"
    assert tree.head("dev") == full.head("dev")
    assert tree.commits[str(tree.head("dev").parent)] == full.commits[f"{1:040x}"]
    assert len(tree.commits) == 53
    assert not reads
    assert tree.commits[f"{20:040x}"] == full.commits[f"{20:040x}"]
    assert tree.commits[f"{20:040x}"].digest == f"{20:016x}"
    assert tree == full
    assert len(list(tree.ancestors(tree.branches["main"]))) == 52
    assert Commits.of(tree.commits).starting_with(f"{20:040x}"[:39]) == [f"{i:040x}" for i in range(16, 32)]
    assert "e" * 40 not in tree.commits
    assert len(reads) == (more < 10**9)
    assert tree.to_bytes() == data


def test_a_file_that_was_replaced_since_its_end_was_read() -> None:
    """Older versions are taken from the one that took its place; heads stay as they were."""
    before = history(20)
    data = before.to_bytes()
    for after in (
        before.commit_head("main", A, "later", 1.0, "me").commit_head("main", B, "later", 1.0, "me"),
        before.add_branch("late", A, f"{2:040x}"),
        before.drop_branch("dev"),
    ):
        tree = VersionTree.from_tail(*tail_of(data), after.to_bytes)
        assert tree is not None
        assert [i for i in tree.ancestors(f"{20:040x}") if i in before.commits] == list(
            before.ancestors(f"{20:040x}")
        )
        assert tree.head("main") == before.head("main")


def test_what_a_damaged_rest_holds_is_not_believed() -> None:
    """Nothing of it is needed to open; whoever asks for it hears of the damage."""
    data = history(20).to_bytes()
    for at in (2, 40, 999, (tail_begins(data) or 0) - 1):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        tree = VersionTree.from_tail(*tail_of(changed), lambda changed=changed: changed)  # type: ignore[misc]
        assert tree is not None
        assert tree.head("main").id == f"{20:040x}"
        with pytest.raises(FormatError):
            tree.commits[f"{5:040x}"]
        with pytest.raises(FormatError):
            tree.to_bytes()


def signed_end(tail: bytes, rest: bytes = OPENING, nodes: int = 0, begins: int | None = None) -> bytes:
    """A file with an end of one's own: ``tail`` is text up to the members that lakebed adds."""
    at = len(rest) if begins is None else begins
    text = tail + (
        f'"nodes": {nodes}, "begins": "{at:016d}", "rest": "{xxhash.xxh3_64_hexdigest(rest)}", "sum": "'.encode()
    )
    return rest + text + xxhash.xxh3_64_hexdigest(text + b"0" * 16 + b'"}}').encode() + b'"}}'


def end_text(commits: dict[str, Any], branches: dict[str, Any]) -> bytes:
    return (
        json.dumps(commits)[1:-1].encode()
        + b'}, "branches": '
        + json.dumps(branches).encode()
        + b', "lakebed": {'
    )


@pytest.mark.parametrize(
    "lie",
    [
        signed_end(end_text({A: node(FIRST)}, {"main": A})),
        signed_end(end_text({FIRST: node(None)}, {"main": A})),
        signed_end(end_text({A: node(None)}, {"main": A})),
        signed_end(end_text({FIRST: node(None, branch="other")}, {"main": FIRST})),
        signed_end(end_text({FIRST: node(None)}, {"main": FIRST}), nodes=1),
        signed_end(end_text({FIRST: node(None)}, {"main": FIRST}), begins=0),
        signed_end(end_text({FIRST: node(None)}, {"main": FIRST}), begins=10**15),
        signed_end(end_text({FIRST: node(None)}, {"main": FIRST}), rest=b'{"kommits": {'),
        signed_end(
            end_text({FIRST: node(None)}, {"main": FIRST}),
            rest=OPENING + json.dumps({FIRST: node(None)})[1:-1].encode() + b", ",
            nodes=1,
        ),
        signed_end(
            end_text({FIRST: node(None, A)}, {"main": FIRST}),
            rest=OPENING + json.dumps({A: node(B)})[1:-1].encode() + b", ",
            nodes=1,
        ),
        signed_end(b'"x": 3}, "branches": {}, "lakebed": {'),
        signed_end(b"["),
    ],
)
def test_made_up_ends(lie: bytes) -> None:
    """An end with right checksums that contradicts itself, or the rest, is refused."""
    with pytest.raises(FormatError):
        VersionTree.from_bytes(lie)


def test_an_honest_end_can_be_made_up() -> None:
    """The helper of the test above makes files that are read if they tell the truth."""
    data = signed_end(end_text({FIRST: node(None)}, {"main": FIRST}))
    assert VersionTree.from_bytes(data).branches["main"] == FIRST
    data = signed_end(
        end_text({FIRST: node(None, A)}, {"main": FIRST}),
        rest=OPENING + json.dumps({A: node(FIRST)})[1:-1].encode() + b", ",
        nodes=1,
    )
    assert set(VersionTree.from_bytes(data).commits) == {FIRST, A}


def test_early_releases_wrote_seals_in_one_place() -> None:
    """Their files have no end that can be read alone; the digests of versions that they name count."""
    nodes = {FIRST: node(None, A, time=1), A: node(FIRST)}
    doc = {
        "commits": nodes,
        "branches": {"main": A},
        "lakebed": {"seals": {FIRST: "0" * 15 + "1", A: 3}, "times": {A: 7}, "sum": "0" * 16},
    }
    data = json.dumps(doc).encode()
    data = data[:-19] + xxhash.xxh3_64_hexdigest(data).encode() + data[-3:]
    assert VersionTree.from_tail(data, len(data), lambda: data) is None
    tree = VersionTree.from_bytes(data)
    assert (tree.commits[FIRST].digest, tree.commits[A].digest) == ("0" * 15 + "1", None)
    assert tree.extra == {"lakebed": {"times": {A: 7}}}
    again = VersionTree.from_bytes(tree.to_bytes())
    assert again == tree
    assert again.commits[FIRST].digest == "0" * 15 + "1"
    with pytest.raises(FormatError, match="checksum"):
        VersionTree.from_bytes(data.replace(b'"times"', b'"timez"'))


def test_new_ids_are_forty_hexadecimal_digits() -> None:
    """And no two are equal."""
    ids = {new_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(id_) == 40 and set(id_) <= set("0123456789abcdef") for id_ in ids)


def test_publish_commit_and_branch() -> None:
    """Each edit changes what the format says it changes, and no more."""
    born = VersionTree.initial(A)
    assert list(born.ancestors(A)) == [A, FIRST]
    assert born.commits[FIRST].children == (A,)
    assert not born.commits[FIRST].is_committed

    published = born.swap_head("main", B)
    assert set(published.commits) == {FIRST, B}
    assert published.commits[FIRST].children == (B,)
    assert published.head("main").parent == FIRST
    assert set(born.commits) == {FIRST, A}

    sealed = published.commit_head("main", C, "first", 12.5, "public")
    assert sealed.commits[B].message == "first"
    assert sealed.commits[B].time == 12.5
    assert sealed.commits[B].user == "public"
    assert sealed.commits[B].is_committed
    assert list(sealed.ancestors(sealed.branches["main"])) == [C, B, FIRST]

    branched = sealed.add_branch("dev", D, B)
    assert branched.commits[B].children == (C, D)
    assert branched.branches["dev"] == D
    assert branched.commits[D].branch == "dev"
    assert VersionTree.from_bytes(branched.to_bytes()) == branched
    assert branched.drop_branch("dev") == sealed


def test_a_head_that_is_the_root_stays_and_gets_a_new_head_below_it() -> None:
    """3.9.52 writes into the root until its first commit."""
    tree = VersionTree.from_bytes(document({FIRST: node(None)}, {"main": FIRST}))
    grown = tree.swap_head("main", A)
    assert grown.head("main").id == A
    assert grown.head("main").parent == FIRST
    assert grown.commits[FIRST].children == (A,)
    assert not grown.commits[FIRST].is_committed


def test_edits_that_are_not_possible() -> None:
    """The root version stays, ids and branch names are unique, a commit stays a commit."""
    tree = VersionTree.initial(A).commit_head("main", B, "m", 1, "public").add_branch("dev", C, A)
    with pytest.raises(BranchExistsError):
        tree.add_branch("dev", D, A)
    with pytest.raises(CheckoutError, match="main, dev"):
        tree.swap_head("other", D)
    edits: list[Callable[[], VersionTree]] = [
        lambda: tree.swap_head("main", A),
        lambda: tree.commit_head("main", C, "m", 1, "u"),
        lambda: tree.add_branch("new", B, A),
        lambda: tree.drop_branch("main"),
    ]
    for edit in edits:
        with pytest.raises(InvalidInputError):
            edit()
    sub = tree.commit_head("dev", D, "m", 1, "u").add_branch("sub", "e" * 40, C)
    with pytest.raises(InvalidInputError, match="'sub' begins on it"):
        sub.drop_branch("dev")
    assert set(sub.drop_branch("sub").drop_branch("dev").commits) == {FIRST, A, B}


def test_dropping_a_branch_takes_what_a_reset_left_below_it() -> None:
    """No version is left with a parent that is gone."""
    commits = {
        FIRST: node(None, A, B, time=1),
        A: node(FIRST),
        B: node(FIRST, C, D, branch="dev", time=2),
        C: node(B, branch="dev"),
        D: node(B, branch="dev"),
    }
    tree = VersionTree.from_bytes(document(commits, {"main": A, "dev": C})).drop_branch("dev")
    assert set(tree.commits) == {FIRST, A}
    assert tree.commits[FIRST].children == (A,)


def test_finds_versions_by_their_beginnings() -> None:
    """Among those at hand and among the others."""
    tree = VersionTree.initial(A).commit_head("main", "abcdefg" + "1" * 33, "m", 1, "u")
    tree = tree.add_branch("dev", "abcdefg" + "2" * 33, A)
    tree = VersionTree.from_bytes(replace(tree, extra={"lakebed": {}}).to_bytes())
    for prefix in ("abcdefg", "abcdefg1", A, "aaaaaaa", "firstdb", "nothing", "A" * 40):
        expected = [version for version in tree.commits if version.startswith(prefix)]
        assert sorted(Commits.of(tree.commits).starting_with(prefix)) == sorted(expected)


def test_unreachable_versions_are_tolerated() -> None:
    """A reset leaves heads that no branch names; a stale writer leaves versions that no child list names."""
    commits = {
        FIRST: node(None, A, B, time=1),
        A: node(FIRST),
        B: node(FIRST),
        C: node(FIRST),
        D: node("missing"),
    }
    tree = VersionTree.from_bytes(document(commits, {"main": C}))
    assert tree.branches["main"] == C
    assert list(tree.ancestors(C)) == [C, FIRST]
    assert VersionTree.from_bytes(tree.to_bytes()) == tree
    with pytest.raises(FormatError, match="missing"):
        list(tree.ancestors(D))


def test_optional_members_have_defaults() -> None:
    """`is_checkpoint` and `total_samples_processed` may be missing; a repeated child is one child."""
    root = {**node(None, A, A), "commit_time": 3}
    del root["is_checkpoint"], root["total_samples_processed"]
    tree = VersionTree.from_bytes(document({FIRST: root, A: node(FIRST)}, {"main": A}))
    assert not tree.commits[FIRST].is_checkpoint
    assert tree.commits[FIRST].total_samples_processed == 0


BAD_IDS = ("", ".", "..", "a/b", "a:b", "a,b", "a\\b", "a\n", "ä")


def circle() -> dict[str, Any]:
    return {FIRST: node(None), A: node(B, B), B: node(A, A)}


@pytest.mark.parametrize(
    ("commits", "branches"),
    [
        ({}, {"main": FIRST}),
        ({FIRST: node(None)}, {}),
        ({FIRST: node(None)}, {"main": A}),
        ({FIRST: node(None)}, {"main": None}),
        ({FIRST: node(None)}, {"main": [FIRST]}),
        ({FIRST: node(A, A), A: node(FIRST, FIRST)}, {"main": A}),
        ({FIRST: node(None, A)}, {"main": FIRST}),
        ({FIRST: node(None, A), A: node(FIRST, branch="gone")}, {"main": FIRST}),
        ({FIRST: node(None, A), A: node(B), B: node(FIRST)}, {"main": A}),
        ({FIRST: node(None, A, B), A: node(FIRST, B), B: node(FIRST)}, {"main": A}),
        ({FIRST: node(None, FIRST)}, {"main": FIRST}),
        (circle(), {"main": A}),
        ({FIRST: node(None), A: node(A)}, {"main": A}),
        ({FIRST: node(None), A: node(B)}, {"main": A}),
        ({FIRST: node(None), A: node(None)}, {"main": A}),
        ({FIRST: []}, {"main": FIRST}),
        ({FIRST: {**node(None), "children": "x"}}, {"main": FIRST}),
        ({FIRST: {**node(None), "children": [3]}}, {"main": FIRST}),
        ({FIRST: {**node(None), "commit_time": "now"}}, {"main": FIRST}),
        ({FIRST: {**node(None), "commit_time": True}}, {"main": FIRST}),
        ({FIRST: {**node(None), "branch": None}}, {"main": FIRST}),
        ({FIRST: {**node(None), "total_samples_processed": -1}}, {"main": FIRST}),
        ({FIRST: {**node(None), "is_checkpoint": 1}}, {"main": FIRST}),
        *(({FIRST: node(None), id_: node(FIRST)}, {"main": FIRST}) for id_ in BAD_IDS),
        *(
            ({FIRST: {k: v for k, v in node(None).items() if k != missing}}, {"main": FIRST})
            for missing in (
                "branch",
                "children",
                "parent",
                "commit_message",
                "commit_time",
                "commit_user_name",
            )
        ),
    ],
)
def test_histories_that_cannot_be_walked_are_refused(
    commits: dict[str, Any], branches: dict[str, Any]
) -> None:
    """Missing members, parents, children and heads; circles; ids that could lead out of the dataset."""
    with pytest.raises(FormatError, match=r"version_control_info\.json"):
        VersionTree.from_bytes(document(commits, branches))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"commits": []}', b'{"commits": {}, "branches": 3}'])
def test_other_documents_are_refused(data: bytes) -> None:
    """Without versions there is no dataset."""
    with pytest.raises(FormatError):
        VersionTree.from_bytes(data)


def test_circle_beside_the_history_is_met_on_the_walk() -> None:
    """An unreachable circle does no harm until somebody asks for it, and then it ends."""
    tree = VersionTree.from_bytes(document(circle(), {"main": FIRST}))
    with pytest.raises(FormatError, match="circular"):
        list(tree.ancestors(A))


def test_long_histories_are_walked_without_recursion() -> None:
    """Ten thousand commits are neither slow nor too deep."""
    ids = [f"{i:040x}" for i in range(10_000)]
    commits = {FIRST: node(None, ids[0], time=0.0)}
    for i, id_ in enumerate(ids):
        commits[id_] = node(ids[i - 1] if i else FIRST, *ids[i + 1 : i + 2])
    tree = VersionTree.from_bytes(document(commits, {"main": ids[-1]}))
    assert sum(1 for _ in tree.ancestors(ids[-1])) == 10_001


class Edits(RuleBasedStateMachine):
    """Any series of edits gives a tree that can be parsed and walked."""

    @initialize()
    def begin(self) -> None:
        self.serial = 0
        self.tree = replace(VersionTree.initial(self.fresh()), extra={"lakebed": {}})

    def fresh(self) -> str:
        self.serial += 1
        return f"{self.serial:040x}"

    def branch(self, n: int) -> str:
        return sorted(self.tree.branches)[n % len(self.tree.branches)]

    @rule(n=st.integers(0, 9))
    def publish(self, n: int) -> None:
        branch = self.branch(n)
        before = list(self.tree.ancestors(self.tree.branches[branch]))
        if self.tree.head(branch).children:
            with pytest.raises(InvalidInputError):
                self.tree.swap_head(branch, self.fresh())
            return
        self.tree = self.tree.swap_head(branch, self.fresh())
        assert list(self.tree.ancestors(self.tree.branches[branch]))[1:] == before[1:]

    @rule(n=st.integers(0, 9))
    def commit(self, n: int) -> None:
        branch = self.branch(n)
        before = list(self.tree.ancestors(self.tree.branches[branch]))
        self.tree = self.tree.commit_head(branch, self.fresh(), "m", float(self.serial), "public")
        assert list(self.tree.ancestors(self.tree.branches[branch]))[1:] == before

    @rule(n=st.integers(0, 9))
    def checkpoint(self, n: int) -> None:
        branch = self.branch(n)
        before = list(self.tree.ancestors(self.tree.branches[branch]))
        self.tree = self.tree.checkpoint_head(branch, self.fresh())
        assert list(self.tree.ancestors(self.tree.branches[branch]))[1:] == before

    @rule(n=st.integers(0, 9))
    def rewind(self, n: int) -> None:
        branch = self.branch(n)
        before = list(self.tree.ancestors(self.tree.branches[branch]))
        try:
            self.tree = self.tree.rewind_head(branch, self.fresh())
        except InvalidInputError:
            return
        _, *after = self.tree.ancestors(self.tree.branches[branch])
        assert after == before[-len(after) :]

    @rule(n=st.integers(0, 99))
    def start(self, n: int) -> None:
        base = sorted(self.tree.commits)[n % len(self.tree.commits)]
        self.tree = self.tree.add_branch(f"branch {self.serial}", self.fresh(), base)

    @precondition(lambda self: len(self.tree.branches) > 1)
    @rule(n=st.integers(0, 9))
    def stop(self, n: int) -> None:
        branch = self.branch(n)
        others = {
            name: list(self.tree.ancestors(head))
            for name, head in self.tree.branches.items()
            if name != branch
        }
        try:
            self.tree = self.tree.drop_branch(branch)
        except InvalidInputError:
            return
        for name, history in others.items():
            assert list(self.tree.ancestors(self.tree.branches[name])) == history

    @rule(n=st.integers(0, 9))
    def digest(self, n: int) -> None:
        head = self.tree.branches[self.branch(n)]
        self.tree = self.tree.with_digests({head: f"{self.serial:016x}", "nobody": "x"})
        assert self.tree.commits[head].digest == f"{self.serial:016x}"

    @rule()
    def reopen(self) -> None:
        data = self.tree.to_bytes()
        tree = VersionTree.from_tail(*tail_of(data), lambda: data)
        assert tree is not None
        self.tree = tree

    @invariant()
    def can_be_read_back(self) -> None:
        plain = VersionTree(dict(self.tree.commits), self.tree.branches, self.tree.extra)
        data = self.tree.to_bytes()
        found = VersionTree.from_bytes(data)
        assert found == self.tree == plain
        digests = {i: version.digest for i, version in plain.commits.items()}
        assert {i: version.digest for i, version in found.commits.items()} == digests
        assert json.loads(data)["commits"].keys() == plain.commits.keys()


Edits.TestCase.settings = settings(
    max_examples=examples(30), stateful_step_count=20, deadline=None, database=None
)
test_edits = Edits.TestCase


@given(st.binary(max_size=100))
def test_random_bytes(data: bytes) -> None:
    """Nothing but FormatError comes out."""
    with pytest.raises(FormatError):
        VersionTree.from_bytes(data)


JUNK = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.sampled_from([A, B, 1]))
)


@given(st.data())
def test_random_members(data: st.DataObject) -> None:
    """A document with any member replaced by junk is read or refused."""
    commits = {FIRST: node(None, A, time=1), A: node(FIRST, B, time=2), B: node(A)}
    target = data.draw(st.sampled_from(list(commits)))
    commits[target][data.draw(st.sampled_from(list(commits[target])))] = data.draw(JUNK)
    try:
        tree = VersionTree.from_bytes(document(commits, {"main": B}))
    except FormatError:
        return
    assert VersionTree.from_bytes(tree.to_bytes()).to_bytes() == tree.to_bytes()
