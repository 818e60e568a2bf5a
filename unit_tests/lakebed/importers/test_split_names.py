"""Splits by the words of names, and which items are theirs."""

from __future__ import annotations

from lakebed.importers.core.splits import in_order, ranges_of, split_of


def test_the_last_word_that_names_a_split_counts() -> None:
    assert split_of("mnist_Training_leveldb") == "train"
    assert split_of("train/pets-dev") == "val"
    assert split_of("test.d/part-0") == "test"
    assert split_of("trained/contest") == ""


def test_items_of_splits() -> None:
    assert [name for name, _ in in_order({"z": 0, "": 1, "test": 2, "val": 3, "train": 4})] == [
        "train",
        "val",
        "test",
        "",
        "z",
    ]
    assert ranges_of([("train", [1, 2]), ("", [3])]) == (
        [1, 2, 3],
        {"train": range(2), "others": range(2, 3)},
    )
    assert ranges_of([("", [3])]) == ([3], {})
    assert ranges_of([]) == ([], {})
