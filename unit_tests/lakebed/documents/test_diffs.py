"""What a version changed: `commit_diff` and `dataset_diff`."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.errors import FormatError

U64 = st.integers(0, 2**64 - 1)


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, np.uint64)


def test_commit_diff_golden_bytes() -> None:
    """The example of format.md 10.2: created, two samples added."""
    data = bytes.fromhex("01 00 00 0000000000000000 0000000000000002 0000000000000000 00 0000000000000000")
    diff = CommitDiff.from_bytes(data)
    assert diff == CommitDiff(created=True, last=2)
    assert diff.added == 2
    assert diff.to_bytes() == data
    assert not diff.is_empty
    assert CommitDiff(first=5, last=5).is_empty


def test_commit_diff_may_end_early_and_have_more_ids() -> None:
    """After `cleared`, as old writers leave it; and with ids of samples that came and went in one version."""
    full = CommitDiff(cleared=True, updated=array([1, 2]))
    data = full.to_bytes()
    assert CommitDiff.from_bytes(data[:-8]) == full
    more = CommitDiff(deleted=array([3]), deleted_ids=array([2**64 - 1, 7]))
    again = CommitDiff.from_bytes(more.to_bytes())
    assert again.deleted.tolist() == [3]
    assert again.deleted_ids.tolist() == [2**64 - 1, 7]


@given(
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.lists(st.integers(0, 2**62), min_size=2, max_size=2).map(sorted),
    st.lists(st.lists(U64, max_size=4), min_size=3, max_size=3),
)
def test_commit_diff_round_trip(flags: list[bool], added: list[int], lists: list[list[int]]) -> None:
    """Every member survives."""
    deleted, ids = lists[1], lists[1] + lists[2]
    diff = CommitDiff(
        created=flags[0],
        info_updated=flags[1],
        data_transformed=flags[2],
        first=added[0],
        last=added[1],
        updated=array(lists[0]),
        cleared=flags[3],
        deleted=array(deleted),
        deleted_ids=array(ids),
    )
    again = CommitDiff.from_bytes(diff.to_bytes())
    assert again == diff
    assert again.updated.tolist() == lists[0]
    assert again.deleted_ids.tolist() == ids


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"\x02" + data[1:],
        lambda data: data[:27] + b"\x05" + data[28:],
        lambda data: data[:19] + b"\xff" * 8 + data[27:],
        lambda data: data[:-8] + b"\xff" * 8,
        lambda data: data[:3] + (9).to_bytes(8, "big") + data[11:],
        lambda data: data[:11] + b"\xff" * 8 + data[19:],
    ],
)
def test_damaged_commit_diffs(change: object) -> None:
    """Counts beyond the end, flags that are none, ranges that end before they begin."""
    with pytest.raises(FormatError):
        CommitDiff.from_bytes(change(CommitDiff(created=True, last=2).to_bytes()))  # type: ignore[operator]


def test_dataset_diff_golden_bytes() -> None:
    """The example of format.md 10.3."""
    data = (
        b"\x01"
        + (1).to_bytes(8, "big")
        + (7).to_bytes(8, "big") * 2
        + b"ren_oldren_new"
        + (1).to_bytes(8, "big")
        + (6).to_bytes(8, "big")
        + b"del_me"
    )
    diff = DatasetDiff.from_bytes(data)
    assert diff == DatasetDiff(True, (("ren_old", "ren_new"),), ("del_me",))
    assert diff.to_bytes() == data
    assert not diff.is_empty
    assert DatasetDiff().is_empty
    assert DatasetDiff().to_bytes() == bytes(17)


NAME = st.text(max_size=5)


@given(st.booleans(), st.lists(st.tuples(NAME, NAME), max_size=3), st.lists(NAME, max_size=3))
def test_dataset_diff_round_trip(flag: bool, renamed: list[tuple[str, str]], deleted: list[str]) -> None:
    """Any names survive."""
    diff = DatasetDiff(flag, tuple(renamed), tuple(deleted))
    assert DatasetDiff.from_bytes(diff.to_bytes()) == diff


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02" + bytes(16),
        bytes(16),
        bytes(18),
        b"\0" + b"\xff" * 16,
        bytes(16) + b"\x01" + bytes(7),
        bytes(16) + b"\x01" + bytes(7) + b"\x01\xff",
    ],
)
def test_damaged_dataset_diffs(data: bytes) -> None:
    """Counts beyond the end, bytes after the end, names that are no text."""
    with pytest.raises(FormatError):
        DatasetDiff.from_bytes(data)


@given(st.binary(max_size=70))
def test_random_bytes(data: bytes) -> None:
    """Nothing but FormatError comes out."""
    for parse in (CommitDiff.from_bytes, DatasetDiff.from_bytes):
        with contextlib.suppress(FormatError):
            parse(data)
