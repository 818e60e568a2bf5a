"""class_label samples: names in, indices stored, names out (format.md 5.3)."""

from __future__ import annotations

import numpy as np

from lakebed.htypes.class_label import to_indices, to_names


def test_new_names_get_the_next_index() -> None:
    """Names are numbered in the order in which they are first seen, after the known ones."""
    assert to_indices(["b", "a", "b", None, "c"], ["a"]) == ([1, 0, 1, None, 2], ["a", "b", "c"])


def test_indices_pass_and_nesting_stays() -> None:
    """Numbers are taken as they are, names are found inside lists and arrays."""
    values = [5, ["x", 7], [["y"], ["x"]], np.array(["x", "z"]), np.array([3])]
    indices, names = to_indices(values, [])
    assert indices[:4] == [5, [0, 7], [[1], [0]], [0, 2]]
    assert indices[4].tolist() == [3]
    assert names == ["x", "y", "z"]


def test_lists_of_known_names_become_arrays() -> None:
    """Such samples are encoded together."""
    indices, names = to_indices([["b", "a"], ["a", "c"], []], ["a", "b"])
    assert (indices[0].tolist(), indices[0].dtype) == ([1, 0], np.uint32)
    assert (indices[1:], names) == ([[0, 2], []], ["a", "b", "c"])


def test_known_names_stay_untouched() -> None:
    """The list of the tensor's info is not changed in place."""
    known = ["a"]
    to_indices(["b"], known)
    assert known == ["a"]


def test_duplicate_names_go_to_one_of_their_indices() -> None:
    """Renamed classes may collide; a name still stands for an index that has it."""
    indices, names = to_indices(["a"], ["a", "b", "a"])
    assert names == ["a", "b", "a"]
    assert names[indices[0]] == "a"


def test_names_of_indices() -> None:
    """Names come nested as the indices are; an index without a name gives its number."""
    assert to_names(np.array([[0, 1], [2, 0]]), ["a", "b"]) == [["a", "b"], [None, "a"]]
    assert to_names(np.array([1]), ["a", "b"]) == ["b"]
    assert to_names(np.array([], dtype="uint32"), ["a"]) == []
