"""The reader in the browser's language, in node: the same values as Python reads, from a web server of files."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from integration_tests.viewer.bucket import Bucket, serving

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WEB = ROOT / "format" / "lakebed" / "viewer" / "web"
GOLDEN = ROOT / "unit_tests" / "data" / "golden-3.9.52.tar.xz"
NAMES = [f"f{number:02}" for number in range(1, 20)]
TYPES = {"Float32Array": "float32", "Float64Array": "float64"}

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules").is_dir(), reason="no node here: make lint installs it"
)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader as one file of JavaScript."""
    out = tmp_path_factory.mktemp("reader")
    subprocess.run(["node", WEB / "reader" / "build.mjs", out], check=True, cwd=WEB)
    return out / "reader.js"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """Datasets that Deep Lake 3.9.52 has written."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(folder, filter="data")
    with serving(folder / "golden") as bucket:
        yield bucket


def read(reader: Path, address: str, *refs: str) -> dict[str, Any]:
    """Return what the reader finds at an address."""
    done = subprocess.run(
        ["node", HERE / "read.mjs", reader, address, *refs], check=True, capture_output=True, timeout=120
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def array_of(told: dict[str, Any], dtype: str) -> np.ndarray[Any, Any]:
    data = np.frombuffer(base64.b64decode(told["data"]), TYPES.get(told["type"], dtype))
    data = data if np.dtype(dtype).kind != "c" else data.view(dtype)
    return data.reshape(told["shape"])


def untold(value: Any) -> Any:
    """JSON with the numbers that JSON has no words for."""
    if isinstance(value, list):
        return [untold(item) for item in value]
    if isinstance(value, dict):
        if "_hub_custom_type" in value:
            data = base64.b64decode(value["data"])
            kind = value["_hub_custom_type"]
            return data if kind == "bytes" else np.frombuffer(data, value["dtype"]).reshape(value["shape"])
        if set(value) == {"$int"}:
            return int(value["$int"])
        if set(value) == {"$float"}:
            return float(value["$float"].replace("Infinity", "inf"))
        return {key: untold(member) for key, member in value.items()}
    return value


def decoded(told: dict[str, Any]) -> np.ndarray[Any, Any]:
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(told["bytes"]))))
    if "crop" in told:
        left, top, width, height = told["crop"]
        image = image[top : top + height, left : left + width]
    return image.reshape(told["shape"]).astype(told["dtype"])


def check(told: Any, tensor: lakebed.Tensor, row: int, value: Any, item: int | None = None) -> None:
    """Compare one value with what Python reads."""
    where = tensor[row] if item is None else tensor[row, item]
    if told is None:
        assert value is None, (value, tensor.name, row)
        return
    kind = told.get("kind")
    assert kind is not None, (told, tensor.name, row)
    if kind == "sequence":
        values = list(value)
        assert len(told["items"]) == len(values)
        for number, (one, other) in enumerate(zip(told["items"], values, strict=True)):
            check(one, tensor, row, other, number)
    elif kind == "array":
        expected = np.asarray(value)
        if expected.size == 0:
            assert not told["data"], (told, expected)
            return
        found = array_of(told, told["dtype"])
        assert told["dtype"] == expected.dtype.name
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.astype(expected.dtype), expected)
    elif kind == "text":
        assert told["text"] == value
    elif kind == "json":
        np.testing.assert_equal(untold(told["value"]), value)
    elif kind == "list":
        assert untold(told["items"]) == list(value)
    elif kind == "polygons":
        dtype = told["dtype"]
        assert len(told["polygons"]) == len(value)
        for one, other in zip(told["polygons"], value, strict=True):
            np.testing.assert_array_equal(array_of(one, dtype), np.asarray(other))
    elif kind == "file" and "crop" not in told:
        assert base64.b64decode(told["bytes"]) == where.tobytes()
        assert tuple(told["shape"]) == tuple(where.shape)
    elif kind == "file":
        np.testing.assert_array_equal(decoded(told), value)
    elif kind == "tiles":
        whole = np.zeros(told["shape"], told["dtype"])
        for tile in told["tiles"]:
            part = decoded(tile["value"])
            whole[tuple(slice(at, at + n) for at, n in zip(tile["at"], part.shape, strict=True))] = part
        np.testing.assert_array_equal(whole, value)
    else:
        pytest.fail(f"{kind}?")


def compare(found: dict[str, Any], path: Path, refs: list[str]) -> dict[str, str]:
    """Compare all versions with what Python reads; return why samples were not read, by tensor."""
    unread: dict[str, str] = {}
    for ref in refs:
        told = found[ref]
        assert "tensors" in told, told
        ds = lakebed.load(path, read_only=True)
        ds.checkout(ref)
        assert set(told["tensors"]) == set(ds.tensors)
        assert told["branches"] == ds.branches
        for name, tensor in ds.tensors.items():
            of = told["tensors"][name]
            assert of["length"] == len(tensor), name
            assert of["htype"] == tensor.meta.htype or of["htype"] == "generic"
            if tensor.holds_nothing:
                assert set(map(str, of["rows"])) <= {"None"}
                continue
            if tensor.meta.is_link:
                assert [row for row in of["rows"] if "error" in (row or ())] == []
                continue
            for row in range(len(tensor)):
                cell = of["rows"][row]
                if isinstance(cell, dict) and "error" in cell:
                    unread[f"{name}"] = cell["error"] + ": " + cell["message"]
                    continue
                (value,) = tensor[row : row + 1].values()
                check(cell, tensor, row, value)
            if name not in unread:
                assert of["all"] == of["rows"], name
    return unread


def refs_of(path: Path) -> list[str]:
    """Branches and commits of a dataset."""
    ds = lakebed.load(path, read_only=True)
    commits = [commit["commit"] for branch in ds.branches for commit in (ds.checkout(branch), ds.commits)[1]]
    return [*ds.branches, *dict.fromkeys(commits)]


@pytest.mark.parametrize("name", NAMES)
def test_what_deep_lake_has_written_reads_as_in_python(name: str, reader: Path, golden: Bucket) -> None:
    (path,) = (one for one in golden.root.glob(f"{name}_*") if one.is_dir())
    refs = refs_of(path)
    found = read(reader, f"{golden.url}/{path.name}", *refs)
    assert compare(found, path, refs) == {}
