"""Tags, parents of merges, and the addresses of versions."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.version_tree import FIRST, CommitNode, VersionTree
from lakebed.errors import (
    CheckoutError,
    CommitFailed,
    CommitStateUnknown,
    DatasetCorruptError,
    StorageError,
    TagExistsError,
)
from lakebed.runtime import clock
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.clock import VirtualClock
from lakebed.testing.faulty import Crash, FaultyStorage
from lakebed.versions.create import create
from lakebed.versions.opening import TREE_KEY, read_tree
from lakebed.versions.refs import (
    REFS_KEY,
    DropTag,
    RecordMerge,
    Refs,
    SetTag,
    Tag,
    drop_tag,
    read_refs,
    record_merge,
    resolve,
    set_tag,
)

TAG = Tag("v1", "ab" * 20, "first", 1.0, "ann")


@pytest.fixture
def storage() -> MemoryStorage:
    """An empty dataset."""
    storage = MemoryStorage()
    create(storage)
    return storage


def line(*ids: str, branch: str = "main") -> VersionTree:
    """A history of one branch below the uncommitted root; the last id is its head."""
    nodes, parent = {FIRST: CommitNode(FIRST, branch, None, ids[:1])}, FIRST
    for at, id_ in enumerate(ids):
        time = None if at == len(ids) - 1 else float(at)
        nodes[id_] = CommitNode(id_, branch, parent, ids[at + 1 : at + 2], "m", time, "u")
        parent = id_
    return VersionTree(nodes, {branch: ids[-1]})


def committed(storage: MemoryStorage) -> str:
    """Commit once by editing the tree; return the id of the commit."""
    tree = read_tree(storage)
    head = tree.branches["main"]
    storage.put(TREE_KEY, tree.commit_head("main", "cd" * 20, "m", 1.0, "u").to_bytes())
    return head


# -- the file ------------------------------------------------------------------------------------------------------


def test_nothing_there_is_empty_and_stays_away(storage: MemoryStorage) -> None:
    """A dataset without tags has no file, and asking does not make one."""
    assert read_refs(storage) == Refs()
    with pytest.raises(CheckoutError, match="there is no tag 'v1'; there are none"):
        drop_tag(storage, "v1")
    assert storage.stat(REFS_KEY) is None


def test_tags_come_and_go(storage: MemoryStorage) -> None:
    """A tag is there until it is dropped; others stay."""
    set_tag(storage, TAG)
    set_tag(storage, replace(TAG, name="v2"))
    assert read_refs(storage).tags == {"v1": TAG, "v2": replace(TAG, name="v2")}
    drop_tag(storage, "v1")
    assert list(read_refs(storage).tags) == ["v2"]
    with pytest.raises(CheckoutError, match="no tag 'v1'; there are: v2"):
        drop_tag(storage, "v1")


def test_a_tag_is_not_replaced_by_accident(storage: MemoryStorage) -> None:
    """Whoever asks for a new tag does not move an old one."""
    set_tag(storage, TAG, replacing=False)
    set_tag(storage, TAG, replacing=False)
    with pytest.raises(TagExistsError, match="already a tag 'v1'"):
        set_tag(storage, replace(TAG, commit="cd" * 20), replacing=False)
    assert read_refs(storage).tags["v1"] == TAG


def test_nothing_is_written_when_nothing_changes(storage: MemoryStorage) -> None:
    """The same tag or merge again leaves the file alone."""
    set_tag(storage, TAG)
    record_merge(storage, "ab", ("cd",))
    before = storage.stat(REFS_KEY)
    counting = FaultyStorage(storage)
    set_tag(counting, TAG)
    record_merge(counting, "ab", ("cd",))
    assert storage.stat(REFS_KEY) == before
    assert counting.changes == 0


def test_merges_are_kept_while_they_may_still_be_published(storage: MemoryStorage) -> None:
    """A record outlives a slow publish, and goes when its commit has not come for a day; published ones stay."""
    with clock.replaced(VirtualClock()) as _:
        head = committed(storage)
        record_merge(storage, head, ("c1", "c2"))
        record_merge(storage, "never", ("c3",))
        clock.sleep(3600)
        set_tag(storage, TAG)
        assert read_refs(storage).merges == {head: ("c1", "c2"), "never": ("c3",)}
        clock.sleep(86400)
        drop_tag(storage, "v1")
        assert read_refs(storage) == Refs({}, {head: ("c1", "c2")}, read_refs(storage).recorded)
        assert list(read_refs(storage).recorded) == [head]


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"tags": {}}', b"\xff\xfe"])
def test_damage_names_the_file_and_the_way_out(storage: MemoryStorage, damage: bytes) -> None:
    """A damaged file is neither taken for an empty one nor overwritten."""
    storage.put(REFS_KEY, damage)
    for act in (
        lambda: read_refs(storage),
        lambda: set_tag(storage, TAG),
        lambda: record_merge(storage, "ab", ("cd",)),
        lambda: drop_tag(storage, "v1"),
    ):
        with pytest.raises(DatasetCorruptError, match=r"refs\.json of mem://.*remove the file"):
            act()
    assert storage.get(REFS_KEY) == damage


def test_members_of_later_releases_survive(storage: MemoryStorage) -> None:
    """A change keeps what it does not know."""
    storage.put(REFS_KEY, Refs({"x": replace(TAG, name="x", extra={"sig": [1]})}, extra={"z": 2}).to_bytes())
    set_tag(storage, TAG)
    assert read_refs(storage).extra == {"z": 2}
    assert read_refs(storage).tags["x"].extra == {"sig": [1]}


# -- others at the same time, and faults ---------------------------------------------------------------------------


def test_writers_at_the_same_time_lose_nothing(tmp_path: object) -> None:
    """Tags that several threads set through handles of their own are all there."""
    create(LocalStorage(str(tmp_path)))

    def work(worker: int) -> None:
        mine = LocalStorage(str(tmp_path))
        for i in range(5):
            set_tag(mine, replace(TAG, name=f"{worker}-{i}"))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_refs(LocalStorage(str(tmp_path))).tags) == [
        f"{w}-{i}" for w in range(4) for i in range(5)
    ]


def test_what_others_set_between_reading_and_writing_stays(storage: MemoryStorage) -> None:
    """A change is made to the file as it is then, not as it was read."""
    other = replace(TAG, name="other")

    class Interrupted(FaultyStorage):
        def get(self, key: str) -> bytes:
            data = super().get(key)
            if "other" not in read_refs(self.inner).tags:
                set_tag(self.inner, other)
            return data

    set_tag(storage, replace(TAG, name="old"))
    set_tag(Interrupted(storage), TAG)
    assert list(read_refs(storage).tags) == ["old", "other", "v1"]


class Racing(FaultyStorage):
    """Somebody else is always faster."""

    def put_if(self, key: str, data: object, etag: str | None) -> str:
        """Let the other one go first."""
        name = f"other{self.changes}"
        self.inner.put(key, Refs({name: replace(TAG, name=name)}).to_bytes())
        return super().put_if(key, data, etag)  # type: ignore[arg-type]


def test_a_file_that_never_rests_is_an_error(storage: MemoryStorage) -> None:
    """Nobody tries for ever."""
    with (
        clock.replaced(VirtualClock()),
        pytest.raises(CommitFailed, match="rewritten again and again") as found,
    ):
        set_tag(Racing(storage), TAG)
    assert found.value.updates == f"set tag 'v1' to {TAG.commit[:12]}"
    assert "v1" not in read_refs(storage).tags


ACTS = {
    "set": (lambda s: set_tag(s, TAG), lambda r: r.tags.get("v1") == TAG),
    "drop": (lambda s: drop_tag(s, "old"), lambda r: "old" not in r.tags),
    "merge": (lambda s: record_merge(s, "ab", ("cd",)), lambda r: r.merges.get("ab") == ("cd",)),
}


@pytest.mark.parametrize("name", list(ACTS))
def test_an_error_means_that_nothing_happened(storage: MemoryStorage, name: str) -> None:
    """A refused write leaves the file as it was; after it, the same works."""
    act, holds = ACTS[name]
    set_tag(storage, replace(TAG, name="old"))
    faulty = FaultyStorage(storage, fail_after=0, error=lambda: StorageError("input/output error"))
    with pytest.raises(StorageError, match="input/output error"):
        act(faulty)
    assert not holds(read_refs(storage))
    act(storage)
    assert holds(read_refs(storage))


@pytest.mark.parametrize("name", list(ACTS))
def test_a_lost_answer_is_settled(storage: MemoryStorage, name: str) -> None:
    """A change that was made is no error, though its answer was lost."""
    act, holds = ACTS[name]
    set_tag(storage, replace(TAG, name="old"))

    class Losing(FaultyStorage):
        def put_if(self, key: str, data: object, etag: str | None) -> str:
            self.inner.put_if(key, data, etag)  # type: ignore[arg-type]
            raise StorageError("timed out")

    act(Losing(storage))
    assert holds(read_refs(storage))


def test_changes_are_printed_in_a_few_words() -> None:
    """As they stand in errors: names quoted, ids short."""
    assert str(RecordMerge("ab" * 20, ("cd" * 20, "ef" * 20), 1.0)) == (
        "record parents cdcdcdcdcdcd, efefefefefef of merge abababababab"
    )
    assert str(SetTag(replace(TAG, name="a\nb"))) == f"set tag 'a\\nb' to {TAG.commit[:12]}"
    assert str(DropTag("old")) == "drop tag 'old'"


def test_an_answer_lost_for_good_is_said_to_be_unknown(storage: MemoryStorage) -> None:
    """When reading fails, too, nobody knows: neither success nor failure is claimed."""

    class Gone(FaultyStorage):
        def put_if(self, key: str, data: object, etag: str | None) -> str:
            self.get = self.stat = self._gone  # type: ignore[method-assign,assignment]
            return self._gone()

        def _gone(self, *_: object) -> str:
            raise StorageError("no route")

    with pytest.raises(CommitStateUnknown, match=r"refs\.json"):
        set_tag(Gone(storage), TAG)


@pytest.mark.parametrize("name", list(ACTS))
def test_every_crash_leaves_the_old_or_the_new_file(storage: MemoryStorage, name: str) -> None:
    """A crash before any change leaves a file that reads."""
    act, holds = ACTS[name]
    set_tag(storage, replace(TAG, name="old"))
    before = read_refs(storage)
    with pytest.raises(Crash):
        act(FaultyStorage(storage, fail_after=0))
    assert read_refs(storage) == before
    act(FaultyStorage(storage, fail_after=1))
    assert holds(read_refs(storage))


# -- addresses -----------------------------------------------------------------------------------------------------

IDS = ("aaaaaaa1" + "0" * 32, "aaaaaaa2" + "0" * 32, "bbbbbbb3" + "0" * 32, "cccccccc" + "0" * 32)
C1, C2, C3, TIP = IDS


@pytest.fixture
def tree() -> VersionTree:
    """Three commits and a head."""
    return line(*IDS)


@pytest.fixture
def tagged(storage: MemoryStorage) -> MemoryStorage:
    """A storage with tags for the second commit, and for one that is gone."""
    for name, commit in (("v1", C2), ("lost", "dd" * 20), ("main", C1), ("2026-11-21", C1), ("a b", C3)):
        set_tag(storage, Tag(name, commit, None, 1.0, "u"))
    return storage


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("main", TIP),
        ("HEAD", TIP),
        ("HEAD~0", TIP),
        ("HEAD~", C3),
        ("HEAD~1", C3),
        ("HEAD~2", C2),
        ("main~3", C1),
        (C3, C3),
        (f"{C3}~1", C2),
        ("bbbbbbb", C3),
        ("bbbbbbb3000~2", C1),
        ("aaaaaaa2", C2),
        ("v1", C2),
        ("v1~1", C1),
        ("v1~0", C2),
        ("2026-11-21", C1),
        ("a b~1", C2),
        (FIRST, FIRST),
    ],
)
def test_addresses(tagged: MemoryStorage, tree: VersionTree, address: str, expected: str) -> None:
    """Branches, ids, abbreviated ids, tags and HEAD, with commits up from there; a branch wins over a tag."""
    assert resolve(tagged, tree, address) == expected


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nobody", "Address nobody not found.*Branches are: main"),
        ("nobody~1", "Address nobody~1 not found"),
        ("", "Address  not found"),
        ("~1", "Address ~1 not found"),
        ("HEAD~x", "Address HEAD~x not found"),
        ("HEAD~-1", "Address HEAD~-1 not found"),
        ("main~4", "'main~4' goes beyond the first commit"),
        (f"{C1}~1", "goes beyond the first commit"),
        (f"{FIRST}~1", "goes beyond the first commit"),
        ("main~999999999", "goes beyond the first commit"),
        ("main~9999999999", "Address main~9999999999 not found"),
        ("aaaaaaa", "'aaaaaaa' is the beginning of 2 versions; give more characters"),
        ("bbbbbb", "Address bbbbbb not found"),
        ("lost", "no longer part of the history"),
        ("lost~1", "no longer part of the history"),
    ],
)
def test_addresses_of_nothing(tagged: MemoryStorage, tree: VersionTree, address: str, message: str) -> None:
    """What stands for nothing, or for several versions, is an error that says so."""
    with pytest.raises(CheckoutError, match=message):
        resolve(tagged, tree, address)


@pytest.mark.parametrize("message", [5, True, 1.5, [1], {"a": None}, "text", None])
def test_messages_that_are_no_text(message: object) -> None:
    """3.9.52 stores whatever it is given as a message: such a history can be read, and shows what was given."""
    doc = json.loads(line(C1, C2).to_bytes())
    doc["commits"][C1]["commit_message"] = message
    read = VersionTree.from_bytes(json.dumps(doc).encode())
    assert read.commits[C1].message == (None if message is None else str(message))
    assert VersionTree.from_bytes(read.to_bytes()) == read


def test_a_branch_with_a_tilde_in_its_name(storage: MemoryStorage, tree: VersionTree) -> None:
    """A name that there is comes before its parts."""
    tree = tree.add_branch("main~1", "ee" * 20, C1)
    assert resolve(storage, tree, "main~1") == "ee" * 20
    assert resolve(storage, tree, "main~1~1") == C1
    assert resolve(storage, tree, "main~2") == C2


def test_head_is_that_of_the_branch_asked_for(storage: MemoryStorage) -> None:
    """HEAD means the branch that is checked out, unless a branch has that name."""
    tree = line(C1, C2).add_branch("side", C3, C1)
    assert resolve(storage, tree, "HEAD", "side") == C3
    assert resolve(storage, tree, "HEAD~1", "side") == C1
    assert resolve(storage, tree.add_branch("HEAD", TIP, C1), "HEAD", "side") == TIP


def test_a_tag_that_looks_like_another_id_is_ambiguous(storage: MemoryStorage, tree: VersionTree) -> None:
    """No guess is made between a tag and the beginning of an id."""
    set_tag(storage, Tag("bbbbbbb", C1, None, 1.0, "u"))
    with pytest.raises(CheckoutError, match="beginning of 1 versions and the name of a tag"):
        resolve(storage, tree, "bbbbbbb")
    set_tag(storage, Tag("bbbbbbb", C3, None, 1.0, "u"))
    assert resolve(storage, tree, "bbbbbbb") == C3


def test_branches_and_ids_need_no_file(tree: VersionTree) -> None:
    """Tags are read only for what can be a tag; damage there does not close the way to branches and ids."""
    storage = FaultyStorage(MemoryStorage())
    storage.inner.put(REFS_KEY, b"damaged")
    for address in ("main", "HEAD", "main~1", C1, f"{C2}~1"):
        resolve(storage, tree, address)
    assert not storage.counts
    assert resolve(storage, tree, "bbbbbbb") == C3
    with pytest.raises(DatasetCorruptError, match=r"refs\.json"):
        resolve(storage, tree, "v1")


@given(st.integers(1, 30), st.data())
def test_going_up_counts_commits(commits: int, data: st.DataObject) -> None:
    """``~n`` of any version is its n-th committed ancestor, whatever stands before the tilde."""
    ids = tuple(f"{i:040x}" for i in range(commits + 1))
    tree, storage = line(*ids), MemoryStorage()
    at = data.draw(st.integers(0, commits))
    n = data.draw(st.integers(1, commits + 1))
    for base in {ids[at], *(("main", "HEAD") if at == commits else ())}:
        if n <= at:
            assert resolve(storage, tree, f"{base}~{n}") == ids[at - n]
        else:
            with pytest.raises(CheckoutError):
                resolve(storage, tree, f"{base}~{n}")
