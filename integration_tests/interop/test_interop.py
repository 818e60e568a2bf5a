"""What lakebed writes Deep Lake 3.9.52 reads and goes on with, and the other way round."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from integration_tests.lake import MARKER
from integration_tests.messages import Json

pytestmark = pytest.mark.interop

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "demo-lake"
INTERPRETERS = {"deeplake": ROOT / ".cache/venvs/deeplake3/bin/python", "lakebed": Path(sys.executable)}
SCRIPT = Path(__file__).with_name("script.py")
LIBRARIES = tuple(INTERPRETERS)
TURNS = ("deeplake", "lakebed", "deeplake")

NOWHERE = "http://127.0.0.1:9"
"""Deep Lake calls its vendor on import; a proxy that refuses makes that fail at once instead of hang."""


def run(library: str, command: str, *arguments: str | Path) -> None:
    """Run a command of the script under a library."""
    environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    line = [INTERPRETERS[library], SCRIPT, library, command, *arguments]
    done = subprocess.run(line, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-4000:]


def seen(library: str, command: str, path: Path, *arguments: str) -> Json:
    """What a library shows of a dataset."""
    out = path.with_name(f"{path.name}.{library}.{command}.json")
    run(library, command, path, out, *arguments)
    return json.loads(out.read_text())


def assert_both_see_the_same(path: Path, *refs: str) -> Json:
    """Compare every sample of every tensor, and what is known of them; returns what both saw last."""
    theirs, ours = seen("deeplake", "dump", path, *refs), seen("lakebed", "dump", path, *refs)
    for ref in refs:
        _assert_same(f"{path}@{ref}", theirs[ref], ours[ref])
    return theirs[refs[-1]]


def _assert_same(where: str, theirs: Json, ours: Json) -> None:
    assert theirs["tensors"].keys() == ours["tensors"].keys(), where
    for name, tensor in theirs["tensors"].items():
        mine = ours["tensors"][name]
        for number, (left, right) in enumerate(zip(tensor["samples"], mine["samples"], strict=True)):
            assert left == right, f"{where} {name}[{number}]: 3.9.52 reads {left}, lakebed {right}"
        assert mine == tensor, f"{where} {name}"
    assert theirs == ours, where


def assert_all_versions_agree(path: Path) -> int:
    """Compare the head and every commit of every branch; returns the number of versions."""
    theirs, ours = seen("deeplake", "history", path), seen("lakebed", "history", path)
    assert sorted(theirs["branches"]) == sorted(ours["branches"])
    assert sorted(theirs["groups"]) == sorted(ours["groups"])
    # A dataset of ours is born with an empty root below its first version; 3.9.52 may show it.
    messages = [commit["message"] for commit in theirs["commits"]]
    assert [commit["message"] for commit in ours["commits"]] == messages
    versions = set(theirs["branches"])
    versions |= {commit["commit"] for commit in ours["commits"]}
    assert_both_see_the_same(path, *sorted(versions))
    return len(versions)


def assert_ping_pong(path: Path) -> None:
    """Both libraries write in turn; each time both see the same, and what was there is still there."""
    before = assert_both_see_the_same(path, "main")["tensors"]
    rows = 0
    for library in TURNS:
        run(library, "extend", path, "main")
        rows += 2
        after = assert_both_see_the_same(path, "main")["tensors"]
        for name, tensor in after.items():
            old = before[name]["samples"]
            assert tensor["samples"][: len(old)] == old
            grown = rows if len(old) >= 2 else 0
            assert tensor["samples"][len(old) :] == (old[:2] * len(TURNS))[:grown], f"{name} after {library}"
    assert assert_all_versions_agree(path) >= 5


def demo_datasets() -> list[Path]:
    """Those of the demo, but for photos behind links: the server that they lead to ended with the demo."""
    found = (marker.parent.relative_to(DEMO) for marker in DEMO.rglob(MARKER))
    return sorted(name for name in found if name != Path("photos"))


@pytest.mark.parametrize("name", demo_datasets(), ids=str)
def test_datasets_of_the_demo_are_read_extended_and_read_back(tmp_path: Path, name: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(DEMO / name, path)
    assert assert_all_versions_agree(path) >= 3
    before = pa.table(lakebed.load(str(path)))
    assert_ping_pong(path)
    assert pa.table(lakebed.load(str(path))).slice(0, len(before)).equals(before)


DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
]


def fill(dataset: lakebed.Dataset, start: int, count: int, dtypes: list[str]) -> None:
    """Rows with everything that the first formats of samples can be."""
    random = np.random.default_rng(start)
    numbers = range(start, start + count)
    for dtype in dtypes:
        values = random.integers(0, 2 if dtype == "bool" else 100, (count, 2, 3)).astype(dtype)
        dataset[f"fixed/{dtype}"].extend(values)
        dataset[f"scalar/{dtype}"].extend(values[:, 0, 0])
        dataset[f"ragged/{dtype}"].extend([values[i, : i % 3, : i % 4] for i in range(count)])
        dataset[f"lz4/{dtype}"].extend([values[i].repeat(i % 5, axis=0) for i in range(count)])
    for name in ("text", "text_sample_lz4", "text_chunk_lz4"):
        dataset[name].extend([None if n % 9 == 4 else f"é€𐍈 {n} " * (n % 6) for n in numbers])
    documents = [
        {"n": n, "list": [1.5, None, "ü", {}], "": {"deep": [[]]}} if n % 5 else None for n in numbers
    ]
    dataset["json"].extend(documents)
    dataset["json_lz4"].extend(documents)
    dataset["list"].extend([list(range(n % 4)) for n in numbers])
    dataset["label"].extend([("cat", "dog", "cow")[n % 3] for n in numbers])
    dataset["embedding/empty"].extend([None if n % 2 else np.full(3, n, np.float32) for n in numbers])


def create(path: Path, dtypes: list[str]) -> lakebed.Dataset:
    dataset = lakebed.empty(str(path))
    for dtype in dtypes:
        dataset.create_tensor(f"fixed/{dtype}", dtype=dtype)
        dataset.create_tensor(f"scalar/{dtype}", dtype=dtype)
        dataset.create_tensor(f"ragged/{dtype}", dtype=dtype, sample_compression="lz4")
        dataset.create_tensor(f"lz4/{dtype}", dtype=dtype, chunk_compression="lz4")
    dataset.create_tensor("text", htype="text")
    dataset.create_tensor("text_sample_lz4", htype="text", sample_compression="lz4")
    dataset.create_tensor("text_chunk_lz4", htype="text", chunk_compression="lz4")
    dataset.create_tensor("json", htype="json")
    dataset.create_tensor("json_lz4", htype="json", sample_compression="lz4")
    dataset.create_tensor("list", htype="list")
    dataset.create_tensor("label", htype="class_label", class_names=["cat", "dog"])
    dataset.create_tensor("embedding/empty", dtype="float32")
    dataset.create_tensor("never_filled")
    dataset.create_group("empty_group")
    return dataset


@pytest.mark.parametrize("dtypes", [DTYPES[:6], DTYPES[6:]], ids=["small", "large"])
def test_every_kind_of_sample_is_the_same_in_every_version(tmp_path: Path, dtypes: list[str]) -> None:
    path = tmp_path / "kinds"
    dataset = create(path, dtypes)
    fill(dataset, 0, 20, dtypes)
    dataset.commit("first")
    fill(dataset, 20, 7, dtypes)
    dataset.flush()
    fill(dataset, 27, 1, dtypes)
    dataset.info["about"] = {"nested": [1, "é"]}
    dataset.commit("second")
    fill(dataset, 28, 3, dtypes)
    dataset.close()
    assert assert_all_versions_agree(path) == 3


def test_both_libraries_extend_every_kind_of_sample_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "turns"
    dtypes = ["bool", "int64", "float16"]
    dataset = create(path, dtypes)
    fill(dataset, 0, 20, dtypes)
    dataset.commit("first")
    fill(dataset, 20, 3, dtypes)
    dataset.close()
    assert_ping_pong(path)


@pytest.mark.parametrize("first", LIBRARIES)
def test_branches_of_either_library_are_read_and_continued_by_the_other(tmp_path: Path, first: str) -> None:
    path = tmp_path / "branches"
    run(first, "create", path)
    assert_all_versions_agree(path)
    for library in LIBRARIES:
        run(library, "branch", path, f"branch_of_{library}")
        assert_both_see_the_same(path, f"branch_of_{library}")
    for library in LIBRARIES:
        run(library, "extend", path, "main", "branch_of_lakebed", "branch_of_deeplake")
    assert_all_versions_agree(path)


@pytest.fixture
def arrow_dataset(tmp_path: Path) -> Path:
    """Columns with exact nulls, as the destination writes them."""
    path = tmp_path / "arrow"
    dataset = lakebed.empty(str(path))
    dataset.create_tensor("number", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
    dataset.create_tensor("text", htype="text", create_id_tensor=False, create_shape_tensor=False)
    dataset.create_tensor("document", htype="json", create_id_tensor=False, create_shape_tensor=False)
    columns: dict[str, Callable[[int], Json]] = {
        "number": lambda n: None if n % 3 == 1 else n,
        "text": lambda n: None if n % 4 == 1 else "" if n % 4 == 2 else f"t{n}",
        "document": lambda n: None if n % 5 == 1 else "{}" if n % 5 == 2 else f'{{"n": {n}}}',
    }
    dataset.extend({name: pa.array([make(n) for n in range(100)]) for name, make in columns.items()})
    dataset.commit("with nulls")
    dataset.close()
    return path


def test_rows_that_the_reference_appends_to_a_nullable_tensor_are_not_null(arrow_dataset: Path) -> None:
    before = pa.table(lakebed.load(str(arrow_dataset)))
    assert [before[name].null_count for name in ("number", "text", "document")] == [33, 25, 20]
    run("deeplake", "extend", arrow_dataset, "main")
    after = pa.table(lakebed.load(str(arrow_dataset)))
    assert after.slice(0, 100).equals(before)
    appended = after.slice(100).to_pylist()
    # 3.9.52 knows nothing of nulls: row 1 was an empty text, {} and an empty array for it, and is so again.
    # An empty array has no number in it.
    assert appended[0] == {"number": 0, "text": "t0", "document": '{"n": 0}'}
    assert appended[1] == {"number": None, "text": "", "document": "{}"}


def test_none_is_the_empty_sample_for_the_reference(tmp_path: Path) -> None:
    """Nulls of every htype, first and among values: both read the same, before and after the reference adds rows."""
    path = tmp_path / "none"
    picture = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    columns: dict[str, tuple[dict[str, Json], list[Json]]] = {
        "number": ({}, [1, None, 2, None]),
        "late": ({"dtype": "int16"}, [None, None, 3, None]),
        "ragged": ({}, [[1], None, [2, 3], []]),
        "text": ({"htype": "text"}, ["a", None, "", None]),
        "json": ({"htype": "json"}, [{"a": 1}, None, {}, None]),
        "list": ({"htype": "list"}, [[1], None, [], None]),
        "tag": ({"htype": "tag"}, ["a", None, ["b", "c"], None]),
        "label": ({"htype": "class_label"}, ["a", None, "b", None]),
        "bbox": ({"htype": "bbox"}, [np.ones((2, 4), "f4"), None, np.ones((1, 4), "f4"), None]),
        "embedding": ({"htype": "embedding"}, [np.ones(3, "f4"), None, np.ones(3, "f4"), None]),
        "png": ({"htype": "image", "sample_compression": "png"}, [None, picture, None, picture[:2]]),
        "image": ({"htype": "image", "chunk_compression": "lz4"}, [picture, None, picture[:2], None]),
        "sequence": ({"htype": "sequence", "dtype": "int16"}, [None, [1, 2], [], None]),
    }
    dataset = lakebed.empty(str(path))
    for name, (settings, _) in columns.items():
        dataset.create_tensor(name, **settings)
    dataset.extend({name: rows for name, (_, rows) in columns.items()})
    for name in ("text", "json", "ragged"):
        dataset[name][0] = None
        dataset[name][1] = columns[name][1][0]
    dataset.commit("with nulls")
    dataset.close()
    found = assert_both_see_the_same(path, "main")["tensors"]
    assert found["text"]["samples"] == ["", "a", "", ""]
    assert found["json"]["samples"] == [{}, {"a": 1}, {}, {}]
    assert found["list"]["samples"] == [[1], [], [], []]
    run("deeplake", "extend", path, "main")
    assert_both_see_the_same(path, "main")
    after = lakebed.load(str(path), read_only=True)
    assert [len(after[name]) for name in columns] == [6] * len(columns)
    # What 3.9.52 adds is no null, except among numbers, where an empty sample is one.
    masks = {name: np.flatnonzero(after[name].null_mask()).tolist() for name in columns if name != "sequence"}
    assert masks == {
        "number": [1, 3, 5],
        "late": [0, 1, 3, 4, 5],
        "ragged": [0],
        "text": [0, 3],
        "json": [0, 3],
        "list": [1, 3],
        "tag": [1, 3],
        "label": [1, 3, 5],
        "bbox": [1, 3],
        "embedding": [1, 3],
        "png": [0, 2],
        "image": [1, 3],
    }
