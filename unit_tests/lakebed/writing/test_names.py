"""Which names tensors and groups may have."""

from __future__ import annotations

import pytest

from lakebed.errors import InvalidTensorGroupNameError, InvalidTensorNameError
from lakebed.writing.names import check_group_name, check_tensor_name, companion, normalize, parents


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "a/b/c",
        "näme",
        "with space",
        ".dot",
        "_x_id",
        "_null",
        "x_null",
        "Versions",
        "append",
        "g/path",
        "tensors",
        "a/versions",
        "日本",
    ],
)
def test_names_that_can_be_stored(name: str) -> None:
    """Unicode, blanks, dots and underscores are fine."""
    check_tensor_name(name)
    check_group_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            "a/..",
            "../a",
            "a/./b",
            "a,b",
            "a:b",
            "a\\b",
            "a\0b",
            "\ud800",
            "x" * 241,
            "ä" * 121,
        ),
        *(
            "index",
            "g/index",
            "index/x",
            "version_state",
            "versions",
            "versions/x",
            ".lakebed",
            "chunks",
            "a/chunks",
        ),
        *(
            "dataset_meta.json",
            "version_control_info.json",
            "a/tensor_meta.json",
            "chunk_set/x",
            "commit_diff",
        ),
    ],
)
def test_names_that_cannot_be_stored(name: str) -> None:
    """Names that 3.9.52 refuses, that leave their folder, or that meet files of the format are refused."""
    with pytest.raises(InvalidTensorNameError):
        check_tensor_name(name)
    with pytest.raises(InvalidTensorGroupNameError):
        check_group_name(name)


def test_names_of_null_records_are_taken() -> None:
    """A visible tensor cannot sit where the nulls of another are recorded."""
    for name in ("_x_null", "g/_x_null"):
        with pytest.raises(InvalidTensorNameError, match="nulls"):
            check_tensor_name(name)


def test_paths_of_names() -> None:
    """Slashes are stripped and collapsed, groups prefixed; parents come deepest first; companions stay in the group."""
    assert [normalize(n) for n in ("/a//b/", "a", "//")] == ["a/b", "a", ""]
    assert normalize("b//c", "a") == "a/b/c"
    assert parents("a/b/c") == ["a/b", "a"]
    assert parents("a") == []
    assert [companion("x", "id"), companion("g/h/x", "shape")] == ["_x_id", "g/h/_x_shape"]
