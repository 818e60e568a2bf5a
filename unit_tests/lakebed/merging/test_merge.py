"""``Dataset.merge``: what comes in, what is refused, and that nothing is touched before that is known."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import lakebed
from lakebed.session.session import Session
from lakebed.versions.refs import read_refs
from unit_tests.lakebed.datasets import create_on, new_memory, open_on
from unit_tests.lakebed.merging.branching import (
    Edit,
    both,
    commit_of,
    everything,
    held,
    ids,
    lines,
    messages,
    numbers,
    set_row,
    storage_of,
)

# -- what comes in -----------------------------------------------------------------------------------------------------


def test_rows_changes_and_deletions_of_both_lines_come_together() -> None:
    """New rows follow ours, changes and deletions of either line take effect, ids and companions go along.

    3.9.52 ignores deletions of the other line, and brings back rows that this line deleted.
    """
    ds = lines(
        numbers(0, 1, 2, 3, 4, 5),
        both(set_row(0, 100), lambda ds: ds.a.pop(5), lambda ds: ds.a.extend([7, 8])),
        both(set_row(1, 101), lambda ds: ds.a.pop(3), lambda ds: ds.a.append(6)),
    )
    ours = ids(ds)
    ds.checkout("b")
    theirs = ids(ds)
    ds.checkout("main")
    ds.merge("b")
    assert held(ds)["a"] == [100, 101, 2, 4, 6, 7, 8]
    assert len(ds["_a_id"]) == len(ds["_a_shape"]) == 7
    merged = ids(ds)
    assert {value: merged[value] for value in (101, 2, 4, 6)} == {v: ours[v] for v in (101, 2, 4, 6)}
    assert {value: merged[value] for value in (100, 7, 8)} == {v: theirs[v] for v in (100, 7, 8)}
    assert messages(ds) == [f"Merge {commit_of(ds, 'b')} into main", "here", "start"]
    assert not ds.has_head_changes


def test_merging_again_brings_only_what_is_new() -> None:
    """The other line is known after a merge: later changes of either side are no conflicts, nothing comes twice."""
    ds = lines(numbers(0, 1, 2), both(set_row(0, 10), lambda ds: ds.a.append(3)))
    ds.merge("b")
    ds.a[0] = 11
    ds.a.pop(3)
    ds.commit("ours again")
    ds.checkout("b")
    ds.a[1] = 12
    ds.a.append(4)
    ds.commit("theirs again")
    ds.checkout("main")
    ds.merge("b")
    assert held(ds)["a"] == [11, 12, 2, 4]
    ds.checkout("b")
    ds.merge("main")
    assert held(ds)["a"] == [11, 12, 2, 4]


def test_lines_that_merged_each_other_at_the_same_time_merge_again() -> None:
    """After crosswise merges both commits count as common ancestors."""
    ds = lines(
        numbers(0, 1, 2, 3),
        both(set_row(0, 10), lambda ds: ds.a.append(4)),
        both(set_row(1, 11), lambda ds: ds.a.append(5)),
    )
    here, there = ds.commit_id, ds.checkout("b")
    ds.merge(str(here))
    ds.a[0] = 20  # what the other line knows as 10
    ds.a.pop(2)
    ds.commit("b goes on")
    ds.checkout("main")
    ds.merge(str(there))
    ds.a[1] = 21
    ds.commit("main goes on")
    ds.merge("b")
    assert held(ds)["a"] == [20, 21, 3, 5, 4]


def test_an_ancestor_needs_no_merge(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written, not even a commit, where everything is here already."""
    ds = lines(numbers(0, 1), lambda ds: ds.a.append(2))
    ds.merge("b")
    before = everything(ds)
    ds.merge("b")
    ds.merge("main")
    ds.merge(str(ds.commits[-1]["commit"]))
    assert everything(ds) == before
    assert capsys.readouterr().out.count("No merge needed, target id is an ancestor") == 3


def test_own_changes_become_part_of_the_merge_and_theirs_are_committed_first() -> None:
    """As in 3.9.52: uncommitted changes here are in the merge commit, those there in one of their own."""
    ds = create_on(new_memory())
    numbers(0, 1)(ds)
    ds.commit("start")
    ds.checkout("b", create=True)
    ds.a.append(2)
    ds.checkout("main")
    ds.a.append(3)
    ds.merge("b")
    assert held(ds)["a"] == [0, 1, 3, 2]
    merged = ds.commits[0]
    target = ds.checkout("b")
    assert messages(ds) == ["Auto commit before merging into main", "start"]
    assert merged["message"] == f"Merge {target} into main"
    assert not ds.has_head_changes
    assert read_refs(storage_of(ds)).merges[merged["commit"]] == (target,)
    ds.a.append(4)
    ds.commit("the branch goes on")
    assert held(ds)["a"] == [0, 1, 2, 4]


def test_infos_are_merged_key_by_key() -> None:
    """What only they changed comes in; of what both changed ours stands, or theirs where that was asked for.

    3.9.52 leaves infos alone, so that changes of the other line are lost.
    """

    def put(**values: Any) -> Edit:
        return both(lambda ds: ds.info.update(values), lambda ds: ds.a.info.update(values))

    for resolution, x in ((None, 3), ("ours", 3), ("theirs", 2)):
        ds = lines(
            both(numbers(0), put(x=1, y=1, gone=1)),
            both(put(x=2, y=2, z=2), lambda ds: ds.info.pop("gone")),
            put(x=3, w=3),
        )
        ds.merge("b", conflict_resolution=resolution)
        assert dict(ds.info) == {"x": x, "y": 2, "z": 2, "w": 3}
        assert dict(ds.a.info) == {"x": x, "y": 2, "z": 2, "w": 3, "gone": 1}


def test_labels_keep_their_names() -> None:
    """Numbers of classes are translated by name where both lines added classes."""
    ds = lines(
        lambda ds: ds.create_tensor("l", htype="class_label", class_names=["cat", "dog"]).extend(
            ["cat", "dog"]
        ),
        both(lambda ds: ds.l.extend(["bird", "cat"]), lambda ds: ds.l.__setitem__(0, "fish")),
        lambda ds: ds.l.extend(["horse", "dog"]),
    )
    ds.merge("b")
    assert ds.l.info.class_names == ["cat", "dog", "horse", "bird", "fish"]
    names = [x.data()["text"][0] for x in ds.l]
    assert names == ["fish", "dog", "horse", "dog", "bird", "cat"]


@pytest.mark.parametrize("resolution", [None, "ours", "theirs"])
@pytest.mark.parametrize(
    ("ours", "theirs", "names"),
    [(["cat"], [], ["cat"]), ([], ["cat"], ["cat"]), (["cat", "dog"], ["dog", "fox"], ["cat", "dog", "fox"])],
)
def test_labels_that_both_lines_made_keep_their_names(
    ours: list[str], theirs: list[str], names: list[str], resolution: Literal["ours", "theirs"] | None
) -> None:
    """A tensor of the same name that is new on both sides, and in which one of them has no class yet."""

    def make(labels: list[str], key: str) -> Edit:
        def edit(ds: lakebed.Dataset) -> None:
            ds.create_tensor("l", htype="class_label").extend(labels)
            ds.l.info.update({"k": key, key: 1})

        return edit

    ds = lines(lambda ds: ds.create_tensor("a"), make(theirs, "there"), make(ours, "here"))
    ds.merge("b", conflict_resolution=resolution)
    assert [x.data()["text"][0] for x in ds.l] == ours + theirs
    chosen = "there" if resolution == "theirs" else "here"
    assert dict(ds.l.info) == {"class_names": names, "k": chosen, "here": 1, "there": 1}


def test_labels_are_compared_by_name() -> None:
    """The same number for another class is another value, and the other way round."""

    def put(*names: str) -> Edit:
        return both(
            *(lambda ds, row=row, name=name: ds.l.__setitem__(row, name) for row, name in enumerate(names))
        )

    make = lambda ds: ds.create_tensor("l", htype="class_label", class_names=["ant"]).extend(["ant"] * 3)  # noqa: E731
    ds = lines(make, put("dog", "dog", "bee"), put("cat", "bee", "bee"))
    with pytest.raises(lakebed.MergeConflictError) as caught:
        ds.merge("b")
    assert caught.value.conflicts == (("l", 0, 0), ("l", 1, 1))
    ds.merge("b", conflict_resolution=lambda _, ours, theirs: theirs if ours[0] == 1 else ours)
    assert [x.data()["text"][0] for x in ds.l] == ["dog", "bee", "bee"]
    assert ds.l.info.class_names == ["ant", "cat", "bee", "dog"]


# -- conflicts ---------------------------------------------------------------------------------------------------------


def conflicting() -> lakebed.Dataset:
    """Two tensors, with a conflict of each kind on the rows of the dataset."""
    return lines(
        numbers(0, 1, 2, 3, 4, names="at"),
        both(
            set_row(0, 10),
            set_row(0, 10, "t"),
            set_row(1, 11),
            lambda ds: ds.pop(4),
            lambda ds: ds.append({"a": 5, "t": 5}),
        ),
        both(set_row(0, 20), set_row(4, 24), lambda ds: ds.pop(1), lambda ds: ds.append({"a": 6, "t": 6})),
    )


def test_all_conflicts_are_reported_before_anything_is_touched() -> None:
    """The error names every tensor and row, and not a single byte was written; no commit there either."""
    ds = conflicting()
    ds.checkout("b")
    ds.append({"a": 7, "t": 7})
    ds.flush()
    ds.checkout("main")
    before = everything(ds)
    with pytest.raises(
        lakebed.MergeConflictError, match=r"'a', rows 0, 3 .deleted there., 1 there .deleted here"
    ):
        ds.merge("b")
    try:
        ds.merge("b")
    except lakebed.MergeConflictError as error:
        found = error.conflicts
    assert found == (("a", 0, 0), ("a", 3, None), ("a", None, 1))
    assert everything(ds) == before


def test_ours_and_theirs_decide_on_whole_rows() -> None:
    """A row that stays, or comes back, does so in all tensors: rows still belong together."""
    ds = conflicting()
    ds.merge("b", conflict_resolution="ours")
    assert held(ds) == {"a": [20, 2, 3, 24, 6, 5], "t": [10, 2, 3, 4, 6, 5]}
    ds = conflicting()
    ds.merge("b", conflict_resolution="theirs")
    assert held(ds) == {"a": [10, 2, 3, 6, 11, 5], "t": [10, 2, 3, 6, 1, 5]}


def test_a_function_chooses() -> None:
    """It gets the tensor's name and both values, None for a deleted row, and what it returns is kept."""
    ds, asked = conflicting(), []

    def choose(name: str, ours: Any, theirs: Any) -> Any:
        asked.append(
            (name, None if ours is None else int(ours[0]), None if theirs is None else int(theirs[0]))
        )
        if ours is None:
            return [77]
        return ours if theirs is None else ours + theirs

    ds.merge("b", conflict_resolution=choose)
    assert sorted(asked, key=str) == [("a", 20, 10), ("a", 24, None), ("a", None, 11)]
    assert held(ds) == {"a": [30, 2, 3, 24, 6, 77, 5], "t": [10, 2, 3, 4, 6, 1, 5]}
    ds = conflicting()
    ds.merge(
        "b",
        conflict_resolution=lambda _name, ours, theirs: None if ours is None or theirs is None else theirs,
    )
    assert held(ds) == {"a": [10, 2, 3, 6, 5], "t": [10, 2, 3, 6, 5]}


def test_a_function_that_fails_leaves_everything_as_it_is() -> None:
    """Its error comes through, and so does that of a value which does not fit; nothing was written."""
    for choose in (lambda *_: 1 / 0, lambda *_: "no number"):
        ds = conflicting()
        before = everything(ds)
        with pytest.raises((ZeroDivisionError, lakebed.LakebedError)):
            ds.merge("b", conflict_resolution=choose)
        assert everything(ds) == before
        ds.append({"a": 9, "t": 9})
        assert held(ds)["a"] == [20, 2, 3, 24, 6, 9]


def test_the_same_change_on_both_lines_is_no_conflict() -> None:
    """3.9.52 takes it for one."""
    ds = lines(numbers(0, 1), set_row(0, 5), set_row(0, 5))
    ds.merge("b")
    assert held(ds)["a"] == [5, 1]


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ({"dtype": "int64"}, {"dtype": "float32"}),
        ({"htype": "text"}, {"dtype": "float32"}),
        ({"dtype": "int64", "chunk_compression": "lz4"}, {"dtype": "int64"}),
        ({"htype": "sequence", "dtype": "int64"}, {"dtype": "int64"}),
    ],
)
def test_tensors_of_other_settings_are_refused(there: dict[str, str], here: dict[str, str]) -> None:
    """Samples that are stored in different ways are not put together; 3.9.52 makes garbage of some."""
    ds = lines(
        numbers(0), lambda ds: ds.create_tensor("n", **there), lambda ds: ds.create_tensor("n", **here)
    )
    before = everything(ds)
    with pytest.raises(lakebed.MergeMismatchError, match="tensor n has different"):
        ds.merge("b")
    assert everything(ds) == before


def test_tensors_without_ids_are_refused() -> None:
    """Without ids nobody knows which rows are the same."""
    ds = lines(
        lambda ds: ds.create_tensor("a", create_id_tensor=False).extend([1]), lambda ds: ds.a.append(2)
    )
    with pytest.raises(lakebed.MergeNotSupportedError, match="'a'"):
        ds.merge("b")


def test_other_refusals() -> None:
    """Unknown targets, unknown resolutions, views and read-only datasets: each says what is wrong."""
    ds = lines(numbers(0, 1), lambda ds: ds.a.append(2))
    with pytest.raises(KeyError, match="nope"):
        ds.merge("nope")
    with pytest.raises(ValueError, match="conflict_resolution"):
        ds.merge("b", conflict_resolution="mine")  # type: ignore[arg-type]
    with pytest.raises(lakebed.InvalidOperationError):
        ds[0:1].merge("b")
    with pytest.raises(lakebed.ReadOnlyModeError):
        open_on(storage_of(ds), read_only=True).merge("b")


def test_a_branch_that_somebody_writes_is_not_committed() -> None:
    """Where the other branch has uncommitted changes, its writer must be done; nothing is touched."""
    ds = lines(numbers(0, 1), lambda ds: ds.a.append(2))
    other = lakebed.Dataset(ds._handle.__class__(Session(storage_of(ds), "b")))
    with other:
        other.a.append(3)
        other.flush()
        before = everything(ds)
        with pytest.raises(lakebed.LockedException):
            ds.merge("b")
        assert everything(ds) == before
    ds.merge("b")
    assert held(ds)["a"] == [0, 1, 2, 3]


def test_merging_on_an_old_commit_makes_a_branch() -> None:
    """As every change there; a merge that is refused makes none."""
    ds = lines(numbers(0, 1), set_row(0, 5), set_row(0, 6))
    ds.checkout(ds.commits[0]["commit"])
    with pytest.raises(lakebed.MergeConflictError):
        ds.merge("b")
    assert sorted(ds.branches) == ["b", "main"]
    ds.merge("b", conflict_resolution="theirs")
    assert ds.branch.startswith("auto_")
    assert held(ds)["a"] == [5, 1]


# -- tensors -----------------------------------------------------------------------------------------------------------


def test_new_tensors_come_in_along_the_rows() -> None:
    """A tensor that they added has its samples beside the rows that it was made for, empty ones beside ours.

    3.9.52 puts its samples beside whatever rows come first.
    """
    ds = lines(
        numbers(0, 1),
        both(numbers(names="n"), lambda ds: ds.a.append(2), lambda ds: ds.n.extend([10, 11, 12])),
        both(numbers(names="o"), lambda ds: ds.a.append(3), lambda ds: ds.o.extend([20, 21, 23])),
    )
    ds.merge("b")
    assert held(ds) == {"a": [0, 1, 3, 2], "n": [10, 11, None, 12], "o": [20, 21, 23, None]}
    assert len(ds["_n_id"]) == len(ds["_o_id"]) == 4


def test_new_tensors_of_other_lengths_come_in_as_they_are() -> None:
    """Their chunks are not copied."""
    ds = lines(numbers(0, 1), lambda ds: ds.create_tensor("g/n", dtype="int64").extend(np.arange(50_000)))
    ds.create_group("h")
    before = everything(ds)
    ds.merge("b")
    assert ds["g/n"].numpy().ravel().tolist() == list(range(50_000))
    written = everything(ds).keys() - before.keys()
    assert not [key for key in written if "/chunks/" in key]
    assert sorted(ds.groups) == ["g", "h"]
    ds["g/n"].append(1)
    ds["g/n"][0] = 7
    ds.commit("goes on")
    again = open_on(storage_of(ds), read_only=True)
    assert again["g/n"][0].numpy().tolist() == [7]


def test_deleted_tensors_go_only_when_asked() -> None:
    """They stay, unless delete_removed_tensors says otherwise; what we deleted and they changed comes back."""

    def there(ds: lakebed.Dataset) -> None:
        ds.delete_tensor("d")
        ds.e.append(5)

    def here(ds: lakebed.Dataset) -> None:
        ds.delete_tensor("e")
        ds.delete_tensor("f")

    for delete, names in ((False, ["a", "d", "e"]), (True, ["a", "e"])):
        ds = lines(numbers(0, 1, names="adef"), there, here)
        ds.merge("b", delete_removed_tensors=delete)
        assert sorted(ds.tensors) == names
        assert held(ds)["e"] == [0, 1, 5]


def test_tensors_that_two_lines_got_or_kept_alone_stay_beside_their_rows() -> None:
    """Lines that went different ways with a tensor merge it row by row all the same: no row is torn."""
    ds = lines(numbers(0, 1, 2, 3, names="ag"), lambda ds: ds.delete_tensor("g"))
    ds.checkout("b")
    ds.create_tensor("n", dtype="int64").extend([0, 1, 2, 3])
    ds.commit("n")
    for name in ("x", "y"):
        ds.checkout("main")
        ds.checkout(name, create=True)
        ds.append({"a": 4 + ord(name), "g": 4 + ord(name)})
        ds.merge("b")
        ds.pop(1 if name == "x" else 2)
        ds.commit("popped")
    ds.merge("x")
    assert held(ds) == {"a": [0, 3, 125, 124], "g": [0, 3, 125, 124], "n": [0, 3, None, None]}


def test_deleted_tensors_can_go_later() -> None:
    """Who merged first, and asks for the deletions afterwards, gets those and nothing else."""
    ds = lines(numbers(0, 1, names="ad"), lambda ds: ds.delete_tensor("d"), set_row(0, 5))
    ds.merge("b")
    ds.a[1] = 6
    assert sorted(ds.tensors) == ["a", "d"]
    ds.merge("b", delete_removed_tensors=True)
    assert held(ds) == {"a": [5, 6]}
    assert [message.split()[0] for message in messages(ds)] == ["Merge", "Merge", "here", "start"]
    before = everything(ds)
    ds.merge("b", delete_removed_tensors=True)
    assert everything(ds) == before


def test_renamed_tensors_are_the_same_tensors() -> None:
    """Names of either line are taken over; rows of both come together.

    Where we renamed a tensor, 3.9.52 brings it in a second time and loses rows.
    """

    def rename(*names: str) -> Edit:
        def edit(ds: lakebed.Dataset) -> None:
            for old, new in zip(names[::2], names[1::2], strict=True):
                ds.rename_tensor(old, new)

        return edit

    append = [lambda ds, v=v: next(iter(ds.tensors.values())).append(v) for v in (2, 3)]
    for there, here in (("az", ""), ("", "az"), ("az", "az")):
        ds = lines(numbers(0, 1), both(rename(*there), append[0]), both(rename(*here), append[1]))
        ds.merge("b")
        assert held(ds) == {"z": [0, 1, 3, 2]}
    ds = lines(
        both(numbers(0), numbers(1, names="b")), both(rename("a", "x"), rename("b", "a"), rename("x", "b"))
    )
    ds.merge("b")
    assert held(ds) == {"a": [1], "b": [0]}
    ds = lines(numbers(0, 1), rename("a", "y"), rename("a", "z"))
    with pytest.raises(lakebed.MergeConflictError, match="renamed in both"):
        ds.merge("b")
    ds.merge("b", force=True)
    assert held(ds) == {"y": [0, 1], "z": [0, 1]}
