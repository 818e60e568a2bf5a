"""Every golden dataset of Deep Lake 3.9.52: what this release reads is what 3.9.52 read, the rest is refused."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named

REFUSALS = (lakebed.errors.InvalidOperationError, lakebed.errors.UnsupportedCompressionError)
NAMES = [f"f{n:02}" for n in range(1, 20)]


class Golden:
    """One golden dataset and what 3.9.52 read back from it."""

    def __init__(self, folder: Path, name: str) -> None:
        (shown,) = folder.glob(f"{name}_*.expected.json")
        self.expected: dict[str, Any] = json.loads(shown.read_text())
        with np.load(str(shown).removesuffix("json") + "npz") as file:
            self.arrays = dict(file)
        self.path = str(shown).removesuffix(".expected.json")

    def versions(self) -> Iterator[tuple[str, lakebed.Dataset, dict[str, Any]]]:
        """Every version that 3.9.52 could check out, opened."""
        for version, shown in self.expected["versions"].items():
            yield version, lakebed.load(f"{self.path}@{version}", read_only=True), shown

    def value(self, sample: dict[str, Any]) -> Any:
        """The value that 3.9.52 read, as lakebed should give it."""
        return plain(sample["json"]) if "json" in sample else self.arrays[sample["npz"]]


def plain(value: Any) -> Any:
    """JSON values with arrays and bytes as the expectations write them."""
    if isinstance(value, dict):
        if "__ndarray__" in value:
            dtype, items = np.dtype(value["dtype"]), value["__ndarray__"]
            if dtype.kind in "SV":
                return np.frombuffer(bytes.fromhex(items), dtype).reshape(value["shape"])
            return np.array(items, dtype=dtype).reshape(value["shape"])
        if "__bytes__" in value:
            return bytes.fromhex(value["__bytes__"])
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def same(found: Any, expected: Any) -> bool:
    """Equal values, types and dtypes, at any depth."""
    if isinstance(expected, np.ndarray):
        return (
            isinstance(found, np.ndarray)
            and (found.dtype, found.shape) == (expected.dtype, expected.shape)
            and found.tobytes() == expected.tobytes()
        )
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[k], v) for k, v in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected) and type(found) is type(expected)


def is_readable(shown: dict[str, Any]) -> bool:
    """Whether this release claims to read the tensor."""
    return (
        not shown["is_link"]
        and not shown["is_sequence"]
        and htype_named(shown["htype"]).storing is not Storing.FILE
        and {shown["sample_compression"], shown["chunk_compression"]} <= {None, "lz4"}
        and shown["dtype"] not in ("complex64", "complex128")
    )


def read(tensor: lakebed.Tensor) -> Any:
    """One sample in the form of the expectations."""
    storing = htype_named(tensor.base_htype).storing
    return tensor.numpy() if storing is Storing.ARRAY else tensor.data()["value"]


@pytest.mark.parametrize("name", NAMES)
def test_all_versions_and_tensors(golden: Path, name: str) -> None:
    """Schema, infos, lengths and each sample of each version agree; what is not read yet is an error that says so."""
    dataset = Golden(golden, name)
    seen: Counter[str] = Counter()
    for version, ds, shown in dataset.versions():
        assert sorted(ds.tensors) == shown["visible_tensors"]
        assert same(dict(ds.info), plain(shown["info"]))
        for tensor_name, expected in shown["tensors"].items():
            tensor = ds[tensor_name]
            assert len(tensor) == expected["length"], (version, tensor_name)
            assert same(dict(tensor.info), plain(expected["info"]))
            assert [list(tensor.meta.min_shape), list(tensor.meta.max_shape)] == [
                expected["min_shape"],
                expected["max_shape"],
            ]
            for i, sample in enumerate(expected["samples"]):
                seen[check_sample(dataset, tensor, i, sample, expected)] += 1
    assert seen["read"] + seen["refused"] + seen["empty"] > 0 or name == "f18"


def check_sample(dataset: Golden, tensor: lakebed.Tensor, i: int, sample: Any, shown: dict[str, Any]) -> str:
    """Compare one sample; return what became of it."""
    where = (dataset.path, tensor.key, i)
    if not is_readable(shown):
        with pytest.raises(REFUSALS):
            read(tensor[i])
        return "refused"
    try:
        value = read(tensor[i])
    except lakebed.errors.EmptyTensorError:
        assert sample["error"] == "EmptyTensorError", where
        return "empty"
    except lakebed.errors.InvalidOperationError as error:
        if "tiled" not in str(error):
            raise
        return "refused"
    assert same(value, dataset.value(sample)), where
    if "raw_sha256" in sample:
        assert hashlib.sha256(tensor[i].tobytes()).hexdigest() == sample["raw_sha256"], where
    return "read"


@pytest.mark.parametrize("name", NAMES)
def test_columns_agree_with_samples(golden: Path, name: str) -> None:
    """The heads of all branches read the same sample by sample, as lists, in batches and through Arrow."""
    dataset = Golden(golden, name)
    for head in dataset.expected["branches"].values():
        ds = lakebed.load(f"{dataset.path}@{head}", read_only=True)
        for tensor_name, shown in dataset.expected["versions"][head]["tensors"].items():
            samples = shown["samples"]
            tensor = ds[tensor_name]
            if not is_readable(shown) or any("error" in s for s in samples) or is_tiled(tensor, len(samples)):
                continue
            expected = [dataset.value(sample) for sample in samples]
            listed = list(tensor.values())
            assert all(map(same, listed, expected)), tensor_name
            for size in (1, 7, 1000):
                parts = [batch[tensor_name] for batch in ds.batches(size, [tensor_name])]
                rows = [row for part in parts for row in rows_of(part, shown)]
                assert all(map(same, rows, expected)), (tensor_name, size)
                assert len(rows) == len(expected)
            if shown["htype"] not in ("json", "list", "tag") and expected:
                column = pa.table(ds[[tensor_name]])[tensor_name].to_pylist()
                assert all(map(same_as_arrow, column, expected)), tensor_name


def is_tiled(tensor: lakebed.Tensor, length: int) -> bool:
    """Whether some sample is stored in tiles."""
    try:
        for i in range(length):
            tensor[i].numpy()
    except lakebed.errors.InvalidOperationError:
        return True
    return False


def rows_of(part: Any, shown: dict[str, Any]) -> list[Any]:
    """Rows of a batch column as single samples."""
    if isinstance(part, np.ma.MaskedArray):
        absent = np.ma.getmaskarray(part).reshape(-1)
        return [part.data[i][: 0 if gone else 1] for i, gone in enumerate(absent)]
    return list(part)


def same_as_arrow(found: Any, expected: Any) -> bool:
    """Compare a value of a column with a sample: one number stands for an array of one, null for an empty one."""
    if isinstance(expected, str):
        return bool(found == expected)
    if found is None:
        return expected.size == 0
    if not isinstance(found, list):
        found = [found]
    return np.array_equal(np.array(found, dtype=expected.dtype).reshape(expected.shape), expected)


def test_branches_and_commits(golden: Path) -> None:
    """Branches, commits and their messages are those that 3.9.52 shows, on every branch of every dataset."""
    for name in NAMES:
        dataset = Golden(golden, name)
        assert set(lakebed.load(dataset.path).branches) == set(dataset.expected["branches"])
        for branch, head in dataset.expected["branches"].items():
            ds = lakebed.load(f"{dataset.path}@{branch}", read_only=True)
            assert (ds.branch, ds.pending_commit_id, ds.is_head_node) == (branch, head, True)
            line, at = [], dataset.expected["commits"][head]["parent"]
            while at is not None:
                line.append((at, dataset.expected["commits"][at]["message"]))
                at = dataset.expected["commits"][at]["parent"]
            assert [(c["commit"], c["message"]) for c in ds.commits] == line
            assert ds.commit_id == (line[0][0] if line else None)


def test_dangling_versions_are_refused(golden: Path) -> None:
    """A version whose folder a reset removed is an error, not an empty dataset."""
    dataset = Golden(golden, "f19")
    (version,) = dataset.expected["unloadable"]
    with pytest.raises(lakebed.DatasetCorruptError, match=version):
        lakebed.load(f"{dataset.path}@{version}")


def test_groups(golden: Path) -> None:
    """Groups are found by name, also renamed and empty ones."""
    dataset = Golden(golden, "f08")
    ds = lakebed.load(dataset.path, read_only=True)
    assert {"emptygroup", "g1", "lead", "renamed_group"} <= set(ds.groups)
    assert ds["emptygroup/inner"].tensors == {}
    assert list(ds["g1"].groups) == ["g2"]
    assert ds["renamed_group/sub"]["b"].numpy().tolist() == ds["renamed_group/sub/b"].numpy().tolist()


def test_reading_changes_nothing(golden: Path) -> None:
    """Opening and reading a dataset of 3.9.52 leaves its folder as it was."""
    dataset = Golden(golden, "f11")
    before = {path: path.stat().st_mtime_ns for path in Path(dataset.path).rglob("*")}
    ds = lakebed.load(dataset.path)
    ds.a.numpy()
    del ds
    assert {path: path.stat().st_mtime_ns for path in Path(dataset.path).rglob("*")} == before
