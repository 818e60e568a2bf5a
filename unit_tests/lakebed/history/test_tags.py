"""Tags, as users make and meet them, and who made them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lakebed
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from lakebed.testing.faulty import FaultyStorage
from lakebed.versions.refs import REFS_KEY
from unit_tests.lakebed.datasets import create_on, new_memory, open_on
from unit_tests.lakebed.history.history import ids, rows, three_commits


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Three commits an hour apart, with as many rows, and an uncommitted fourth row."""
    return three_commits(tmp_path / "ds")


# -- tags ----------------------------------------------------------------------------------------------------------


def test_a_tag_names_the_last_commit(url: str) -> None:
    """Without an address it is the last commit of the line; everybody who opens the dataset sees it."""
    ds = lakebed.load(url)
    tag = ds.create_tag("v1", message="first release")
    assert (tag.name, tag.commit, tag.message) == ("v1", ids(url)[2], "first release")
    assert tag.user
    assert lakebed.load(url).tags == {"v1": tag} == ds.tags
    assert ds.has_head_changes


@pytest.mark.parametrize(
    ("address", "at"),
    [("HEAD~2", 1), ("main", 2), ("main~3", 0), ("ID", 0), ("PREFIX", 0), ("old", 1), (None, 2)],
)
def test_a_tag_for_any_address(url: str, address: str | None, at: int) -> None:
    """A branch stands for its last commit; other addresses for what they name, another tag's included."""
    ds = lakebed.load(url)
    ds.create_tag("old", "HEAD~2")
    known = {"ID": ids(url)[0], "PREFIX": ids(url)[0][:8]}
    assert ds.create_tag("new", known.get(address or "", address)).commit == ids(url)[at]


def test_tags_work_wherever_ids_do(url: str) -> None:
    """In addresses, checkout, details and as the ground for a branch."""
    ds = lakebed.load(url)
    ds.create_tag("v2", "HEAD~2")
    assert rows(lakebed.load(f"{url}@v2")) == 2
    assert rows(lakebed.load(f"{url}@v2~1")) == 1
    assert rows(lakebed.copy(f"{url}@v2", new_memory().url, progressbar=False)) == 2
    assert ds.get_commit_details("v2")["message"] == "commit 1"
    assert ds.checkout("v2") == ids(url)[1] == ds.commit_id
    assert not ds.is_head_node
    ds.checkout("side", create=True)
    assert (rows(ds), ds.branch) == (2, "side")


def test_writing_at_a_tag_starts_a_branch(url: str) -> None:
    """The tag stays where it is, as any old commit does."""
    lakebed.load(url).create_tag("v2", "HEAD~2")
    with lakebed.load(f"{url}@v2") as ds:
        ds.x.append(7)
        assert re.fullmatch("auto_[0-9a-f]{40}", ds.branch)
    assert rows(lakebed.load(f"{url}@v2")) == 2
    assert rows(lakebed.load(f"{url}@{ds.branch}")) == 3
    assert rows(lakebed.load(url)) == 4


def test_names_that_are_taken(url: str) -> None:
    """No name means two things: tags, branches and ids stay apart."""
    ds = lakebed.load(url)
    ds.create_tag("v1")
    ds.checkout("side", create=True)
    for name in ("v1", "side", "main", ids(url)[0], ids(url)[0][:9]):
        with pytest.raises(lakebed.TagExistsError, match="choose another name"):
            ds.create_tag(name, "HEAD~1")
    with pytest.raises(lakebed.CheckoutError, match="there is a tag 'v1'"):
        ds.checkout("v1", create=True)
    with pytest.raises(lakebed.CheckoutError, match="HEAD"):
        ds.checkout("HEAD", create=True)
    with pytest.raises(lakebed.CheckoutError, match="already exists"):
        ds.checkout(ids(url)[0], create=True)
    assert list(ds.tags) == ["v1"]
    assert ds.branches == ["main", "side"]


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "a/b", "a@b", "a~1", "a\n", "HEAD", "x" * 201, 5, None], ids=repr
)
def test_names_that_no_address_could_hold(url: str, name: object) -> None:
    """What would not be found again is refused."""
    with pytest.raises(lakebed.InvalidInputError, match="not a name of a tag"):
        lakebed.load(url).create_tag(name)  # type: ignore[arg-type]


def test_there_must_be_a_commit() -> None:
    """What is not committed can change, so it gets no name."""
    ds = create_on(new_memory())
    with pytest.raises(lakebed.CheckoutError, match="no commit yet"):
        ds.create_tag("v1")
    with pytest.raises(lakebed.CheckoutError, match="not found"):
        ds.create_tag("v1", "nobody")
    with pytest.raises(lakebed.InvalidInputError, match="text"):
        ds.create_tag("v1", message=5)  # type: ignore[arg-type]
    assert ds.tags == {}


def test_a_tag_goes_and_its_commit_stays(url: str) -> None:
    """Deleting a tag deletes a name."""
    ds = lakebed.load(url)
    ds.create_tag("v1")
    ds.delete_tag("v1")
    assert ds.tags == {}
    with pytest.raises(lakebed.CheckoutError, match="no tag 'v1'"):
        ds.delete_tag("v1")
    with pytest.raises(lakebed.CheckoutError, match="not found"):
        lakebed.load(f"{url}@v1")
    assert len(ids(url)) == 3


def test_read_only_datasets_keep_their_tags(url: str) -> None:
    """Who can not write can look."""
    lakebed.load(url).create_tag("v1")
    ds = lakebed.load(url, read_only=True)
    assert list(ds.tags) == ["v1"]
    with pytest.raises(lakebed.ReadOnlyModeError):
        ds.create_tag("v2")
    with pytest.raises(lakebed.ReadOnlyModeError):
        ds.delete_tag("v1")


def test_an_old_handle_tags_what_there_is_now() -> None:
    """A head that another writer has replaced since does not matter: commits are looked up anew."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x")
    ds.commit("one")
    old = open_on(storage)
    ds.x.append(1)
    two = ds.commit("two")
    assert old.create_tag("now", "main").commit == two
    assert old.create_tag("then").commit in {two, ds.commits[1]["commit"]}


def test_damage_to_the_tags_leaves_branches_and_commits(url: str) -> None:
    """Only who asks for a tag hears of it."""
    ds = lakebed.load(url)
    ds.create_tag("v1")
    (Path(url) / REFS_KEY).write_bytes(b"{")
    assert rows(lakebed.load(url)) == 4
    assert rows(lakebed.load(f"{url}@{ids(url)[0][:10]}~0")) == 1
    for act in (lambda: ds.tags, lambda: ds.create_tag("v2"), lambda: lakebed.load(f"{url}@v1")):
        with pytest.raises(lakebed.DatasetCorruptError, match=r"refs\.json"):
            act()
    ds.checkout("side", create=True)
    ds.x.append(9)
    ds.commit()


def test_a_plain_load_does_not_look_for_tags() -> None:
    """Opening costs what it cost before there were tags."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x")
    ds.commit()
    ds.create_tag("v1")
    counting = FaultyStorage(storage)
    for ref in (None, "main", "HEAD", "main~1", ds.commit_id):
        open_on(counting, ref)
    before = counting.counts["get"]
    open_on(counting, "v1")
    plain = FaultyStorage(storage)
    open_on(plain, ds.commit_id)
    assert counting.counts["get"] - before == plain.counts["get"] + 1
    assert before % 5 == 0


# -- where datasets come and go ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tensors", [None, ["x"]])
def test_deep_copies_keep_tags(url: str, tmp_path: Path, tensors: list[str] | None) -> None:
    """A copy with its history has the names for it, too; a copy without has none."""
    lakebed.load(url).create_tag("v2", "HEAD~2")
    copied = lakebed.deepcopy(url, tmp_path / "deep", tensors=tensors, progressbar=False)
    assert copied.tags == lakebed.load(url).tags
    assert rows(lakebed.load(f"{tmp_path / 'deep'}@v2")) == 2
    assert lakebed.copy(url, tmp_path / "flat", progressbar=False).tags == {}


def test_verify_notices_damaged_tags(url: str) -> None:
    """The side file is part of what can be damaged."""
    lakebed.load(url).create_tag("v1")
    assert verify(LocalStorage(url)).is_sound
    (Path(url) / REFS_KEY).write_bytes(b"{}")
    assert [damage.key for damage in verify(LocalStorage(url)).damage] == [REFS_KEY]


def test_a_new_dataset_has_no_old_tags(url: str) -> None:
    """What a removal that was cut off left behind is not taken over."""
    lakebed.load(url).create_tag("v1")
    tags = (Path(url) / REFS_KEY).read_bytes()
    lakebed.delete(url)
    (Path(url) / REFS_KEY).parent.mkdir(parents=True)
    (Path(url) / REFS_KEY).write_bytes(tags)
    assert lakebed.empty(url).tags == {}
    lakebed.load(url).commit("first", allow_empty=True)
    lakebed.load(url).create_tag("v1")
    assert lakebed.empty(url, overwrite=True).tags == {}


# -- authors -------------------------------------------------------------------------------------------------------


def test_the_author_is_configured_or_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of this process comes before the environment, and that before the operating system's user."""
    ds = create_on(new_memory())
    monkeypatch.delenv("LAKEBED_AUTHOR", raising=False)
    monkeypatch.setattr("getpass.getuser", lambda: "login")
    ds.commit("as the user", allow_empty=True)
    monkeypatch.setenv("LAKEBED_AUTHOR", "from the environment")
    ds.commit("as the environment says", allow_empty=True)
    monkeypatch.setattr(lakebed.config, "AUTHOR", "Ada Lovelace")
    ds.commit("as configured", allow_empty=True)
    assert ds.create_tag("v1").user == "Ada Lovelace"
    assert [commit_entry["author"] for commit_entry in ds.commits] == [
        "Ada Lovelace",
        "from the environment",
        "login",
    ]


def test_a_tensor_may_be_called_tags() -> None:
    """Scripts for 3.x that have such a tensor, or group, go on as they are."""
    ds = create_on(new_memory())
    assert ds.tags == {}
    ds.create_tensor("tags", htype="text")
    ds.tags.append("a")
    first = ds.commit()
    ds.create_tag("v1")
    assert [ds.tags[0].text(), ds.get_tags()["v1"].commit] == ["a", first]
    grouped = create_on(new_memory())
    grouped.create_tensor("tags/x")
    assert list(grouped.tags.tensors) == ["x"]
