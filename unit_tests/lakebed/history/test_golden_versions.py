"""The history of every golden dataset of Deep Lake 3.9.52: branches, commits, and what each version changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import CheckoutError, DatasetCorruptError

NAMES = [f"f{n:02}" for n in range(1, 20)]


def of(golden: Path, name: str) -> tuple[str, dict[str, Any]]:
    (shown,) = golden.glob(f"{name}_*.expected.json")
    return str(shown).removesuffix(".expected.json"), json.loads(shown.read_text())


def plain(found: Any) -> Any:
    """A dictionary of differences as the expectations hold it: sets as ascending lists."""
    if isinstance(found, set):
        return sorted(found)
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    return [plain(value) for value in found] if isinstance(found, list | tuple) else found


@pytest.mark.parametrize("name", NAMES)
def test_history(golden: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches, the commits of each line with message, author and time, and what `diff` says in each version."""
    monkeypatch.chdir(golden)
    path, expected = of(golden, name)
    nodes = expected["commits"]
    for version, shown in expected["versions"].items():
        ds = lakebed.load(f"{path}@{version}", read_only=True)
        line, node = [], version
        while node is not None:
            if nodes[node]["committed"]:
                line.append((node, nodes[node]["message"], "public"))
            node = nodes[node]["parent"]
        assert [(c["commit"], c["message"], c["author"]) for c in ds.commits] == line
        assert sorted(ds.branches) == sorted(expected["branches"])
        assert ds.branch == nodes[version]["branch"]
        assert ds.is_head_node is (version in expected["branches"].values())
        assert ds.commit_id == (line[0][0] if line else None)
        assert plain(ds.diff(as_dict=True)) == shown["diff"], version
        if nodes[version]["committed"]:
            assert ds.get_commit_details(version)["time"] == shown["diff"]["dataset"][0]["date"]


def test_differences_of_two_branches(golden: Path) -> None:
    """Those that 3.9.52 told before it merged them: the head has become the merge since."""
    path, expected = of(golden, "f10")
    _, dev, main = expected["extra"]["c"]
    told = expected["extra"]["diff_main_dev"]
    ds = lakebed.load(path, read_only=True)
    found = plain(ds.diff(main, "dev", as_dict=True))
    for part in ("dataset", "tensor"):
        assert found[part][0] == told[part][0][1:]
        assert found[part][1] == told[part][1]
    assert [
        [e["message"] for e in side] for side in plain(ds.diff("main", dev, as_dict=True))["dataset"]
    ] == [
        [None, f"Merge {dev} into main", "main work"],
        ["dev work"],
    ]


def test_samples_that_a_merge_brought(golden: Path) -> None:
    """The rows of the merge are those that differ from the version before it."""
    path, expected = of(golden, "f10")
    merge = expected["commits"][expected["branches"]["main"]]["parent"]
    before = expected["commits"][merge]["parent"]
    ds = lakebed.load(f"{path}@{merge}", read_only=True)
    old = lakebed.load(f"{path}@{before}", read_only=True)
    for name, tensor in ds.tensors.items():
        was = old[name].numpy(aslist=True) if name in old.tensors else []
        now = tensor.numpy(aslist=True)
        other = [i for i, value in enumerate(now) if i >= len(was) or value.tobytes() != was[i].tobytes()]
        _, rows = tensor.modified_samples(return_indexes=True)
        assert rows == other, name
        assert tensor.modified_samples(before, return_indexes=True)[1] == other


def test_what_a_reset_left_is_no_version(golden: Path) -> None:
    """A node without a folder is passed over; whoever asks for it is told."""
    path, expected = of(golden, "f19")
    (dangling,) = expected["unloadable"]
    ds = lakebed.load(path, read_only=True)
    assert dangling not in [commit["commit"] for commit in ds.commits]
    with pytest.raises((CheckoutError, DatasetCorruptError), match=dangling):
        lakebed.load(f"{path}@{dangling}", read_only=True)
    with pytest.raises((CheckoutError, DatasetCorruptError), match=dangling):
        ds.checkout(dangling)
    assert ds.branch == "main"
    assert len(ds.diff("alt", as_dict=True)["dataset"]) == 2
