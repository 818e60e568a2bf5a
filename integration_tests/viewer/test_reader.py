"""The reader in the browser's language, in node: the same values as Python reads, from a web server of files."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from integration_tests.viewer import lakes
from integration_tests.viewer.bucket import Bucket, serving
from unit_tests.effort import LEVEL, Level
from unit_tests.once import extracted

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WEB = ROOT / "format" / "lakebed" / "viewer" / "web"
GOLDEN = ROOT / "unit_tests" / "data" / "golden-3.9.52.tar.xz"
NAMES = [f"f{number:02}" for number in range(1, 20)]
TYPES = {"Float32Array": "float32", "Float64Array": "float64"}

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules").is_dir(),
    reason="no node here: make lint installs it",
)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader as one file of JavaScript."""
    out = tmp_path_factory.mktemp("reader")
    subprocess.run(["node", WEB / "module.mjs", "reader", out], check=True, cwd=WEB)
    return out / "reader.js"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """Datasets that Deep Lake 3.9.52 has written."""
    with serving(extracted(tmp_path_factory, GOLDEN) / "golden") as bucket:
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
    if told is None:
        assert value is None, (value, tensor.key, row)
        return
    kind = told.get("kind")
    if kind == "sequence":
        values = list(value)
        assert len(told["items"]) == len(values)
        for number, (one, other) in enumerate(zip(told["items"], values, strict=True)):
            check(one, tensor, row, other, number)
    elif kind == "array":
        check_array(told, np.asarray(value))
    elif kind == "text":
        assert told["text"] == value
    elif kind in ("json", "list"):
        expected = value if kind == "json" else list(value)
        np.testing.assert_equal(untold(told["value" if kind == "json" else "items"]), expected)
    elif kind == "polygons":
        assert len(told["polygons"]) == len(value)
        for one, other in zip(told["polygons"], value, strict=True):
            np.testing.assert_array_equal(array_of(one, told["dtype"]), np.asarray(other))
    else:
        check_file(told, tensor[row] if item is None else tensor[row, item], value)


def check_array(told: dict[str, Any], expected: np.ndarray[Any, Any]) -> None:
    """Compare numbers, large ones by their digest."""
    if expected.size == 0:
        assert not told["data"], (told, expected)
        return
    assert (told["dtype"], told["shape"]) == (expected.dtype.name, list(expected.shape))
    if "sha1" in told:
        if expected.dtype.kind == "f":
            expected = expected.astype(TYPES[told["type"]])
        assert told["sha1"] == hashlib.sha1(expected.tobytes()).hexdigest()
        return
    values = array_of(told, told["dtype"]).astype(expected.dtype)
    assert np.array_equal(values, expected, equal_nan=True), (values, expected)


def check_file(told: dict[str, Any], where: Any, value: Any) -> None:
    """Compare stored files with the bytes that Python reads, parts of images with its pixels."""
    if told["kind"] == "tiles":
        whole = np.zeros(told["shape"], told["dtype"])
        for tile in told["tiles"]:
            part = decoded(tile["value"])
            whole[tuple(slice(at, at + n) for at, n in zip(tile["at"], part.shape, strict=True))] = part
        np.testing.assert_array_equal(whole, value)
    elif "crop" in told:
        np.testing.assert_array_equal(decoded(told), value)
    else:
        assert told["kind"] == "file", told
        assert told["sha1"] == hashlib.sha1(where.tobytes()).hexdigest()
        assert tuple(told["shape"]) == tuple(where.shape)


def compare(found: dict[str, Any], path: Path, refs: list[str]) -> None:
    """Compare all versions with what Python reads."""
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
            errors = [row for row in of["rows"] if isinstance(row, dict) and "error" in row]
            assert errors == [], name
            if tensor.holds_nothing:
                assert set(map(str, of["rows"])) <= {"None"}
            elif not tensor.meta.is_link:
                for row, (cell, value) in enumerate(zip(of["rows"], tensor.values(), strict=True)):
                    check(cell, tensor, row, value)
                assert of["same"], name


def refs_of(path: Path) -> list[str]:
    """Branches and commits of a dataset."""
    ds = lakebed.load(path, read_only=True)
    commits = [commit["commit"] for branch in ds.branches for commit in (ds.checkout(branch), ds.commits)[1]]
    return [*ds.branches, *list(dict.fromkeys(commits))[-4:]]


@pytest.mark.parametrize("name", NAMES)
def test_what_deep_lake_has_written_reads_as_in_python(name: str, reader: Path, golden: Bucket) -> None:
    (path,) = (one for one in golden.root.glob(f"{name}_*") if one.is_dir())
    refs = refs_of(path)
    found = read(reader, f"{golden.url}/{path.name}", *refs)
    compare(found, path, refs)


@pytest.mark.viewer
def test_chromium_reads_as_python_and_node_do(
    reader: Path, golden: Bucket, kinds: Path, tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    for file in (reader, HERE / "read.mjs"):
        shutil.copy(file, tmp_path / file.name.replace(".mjs", ".js"))
    script = """async ([address, refs]) => {
        const [{ read }, reader] = await Promise.all([import("/read.js"), import("/reader.js")]);
        return read(reader, address, refs);
    }"""
    paths = [path.parent for path in sorted(golden.root.glob("*/version_control_info.json"))]
    assert len(paths) == len(NAMES)
    for path in (*paths, kinds / "stored"):
        (tmp_path / path.name).symlink_to(path)
    with serving(tmp_path) as bucket:
        page = open_page(f"{bucket.url}/reader.js", refused=True)
        for path in (*paths, kinds / "stored"):
            refs = refs_of(path)
            found = json.loads(page.evaluate(script, [f"{bucket.url}/{path.name}", refs]))
            compare(found, path, refs)


def sizes(asked: list[tuple[str, int]], part: str) -> int:
    """Sum the bytes of answers whose path has a part."""
    return sum(nbytes for path, nbytes in asked if part in path)


MADE: dict[str, Callable[[Path], None]] = {
    "street": partial(lakes.street, rows=36),
    "users": partial(lakes.table, rows=500),
    "moving": lakes.moving,
    "pictures": lakes.pictures,
}
"""Datasets of lakebed; the browser shows the last two by other code."""


@pytest.mark.parametrize(
    "name", ["street", "users", *(pytest.param(name, marks=pytest.mark.viewer) for name in list(MADE)[2:])]
)
def test_what_lakebed_has_written_reads_as_in_python(name: str, reader: Path, tmp_path: Path) -> None:
    """As a folder, and packed as one file."""
    path = tmp_path / name
    MADE[name](path)
    refs = refs_of(path)[:2]
    with serving(tmp_path) as bucket:
        compare(read(reader, f"{bucket.url}/{name}", *refs), path, refs)
        assert any(".lakebed/manifest-" in path for path, _ in bucket.asked)
        lakebed.pack(path, tmp_path / "packed.lake")
        compare(read(reader, f"{bucket.url}/packed.lake", "main"), path, ["main"])


def test_nulls_of_every_kind(reader: Path, tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "nulls")
    ds.create_tensor("number", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("json", htype="json")
    ds.create_tensor("array", dtype="float32")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("flag", dtype="bool")
    rows: dict[str, list[Any]] = {
        "number": [1, None, 3],
        "text": ["a", None, ""],
        "json": [{"a": [float("nan"), 2**60]}, None, []],
        "array": [np.ones((2, 3)), None, np.zeros((0, 3))],
        "image": [np.zeros((4, 5, 3), np.uint8), None, np.ones((1, 1, 3), np.uint8)],
        "flag": [True, None, False],
    }
    for row in range(3):
        ds.append({name: values[row] for name, values in rows.items()})
    ds.commit()
    with serving(tmp_path) as bucket:
        found = read(reader, f"{bucket.url}/nulls", "main")
    compare(found, tmp_path / "nulls", ["main"])
    told = found["main"]["tensors"]
    assert [told[name]["rows"][1] for name in rows] == [None] * 6
    assert told["json"]["rows"][0]["value"] == {"a": [{"$float": "NaN"}, {"$int": str(2**60)}]}
    assert told["text"]["rows"][2] == {"kind": "text", "text": ""}


@pytest.mark.viewer
def test_versions_that_build_on_others(reader: Path, tmp_path: Path) -> None:
    """Manifests of many chunks say only what differs; chunks of parents are found where they lie."""
    ds = lakebed.empty(tmp_path / "deltas")
    ds.create_tensor("x", dtype="int64", max_chunk_size=2_000)
    ds.create_tensor("text", htype="text", max_chunk_size=2_000)
    for commit in range(3):
        ds.extend({"x": np.arange(30_000) + commit, "text": [f"row {n}" for n in range(30_000)]})
        ds.commit(f"commit {commit}")
        ds.x[7] = -commit
    ds.checkout("other", create=True)
    ds.x.append(1)
    ds.flush()
    path = tmp_path / "deltas"
    assert any(file.read_bytes()[:8] == b"LBMANIF2" for file in path.glob(".lakebed/manifest-*"))
    refs = refs_of(path)
    with serving(tmp_path) as bucket:
        script = """
        const [library, address, ...refs] = process.argv.slice(1);
        const { open } = await import(library);
        const sums = {};
        for (const ref of refs) {
          const ds = await open(address, { ref });
          const x = await ds.tensor("x").rows(0, ds.tensor("x").length);
          const text = await ds.tensor("text").rows(0, ds.tensor("text").length);
          const letters = text.map((value) => value.text).join("").length;
          sums[ref] = [x.reduce((sum, value) => sum + Number(value.data[0]), 0), letters];
        }
        console.log(JSON.stringify(sums));
        """
        done = node(script, reader, f"{bucket.url}/deltas", *refs)
    for ref in refs:
        ds.checkout(ref)
        assert done[ref] == [int(ds.x.numpy().sum()), sum(map(len, ds.text.data()["value"]))], ref


def node(script: str, reader: Path, *arguments: str) -> Any:
    """Run some JavaScript with the address of the reader and further arguments; return what it prints as JSON."""
    command = [
        "node",
        "--input-type=module",
        "-e",
        textwrap.dedent(script),
        "--",
        reader.as_uri(),
        *arguments,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


ONE_ROW = """
const [library, address, name, row] = process.argv.slice(1);
const { open, traffic } = await import(library);
const ds = await open(address);
const opened = traffic.requests;
const value = await ds.tensor(name).at(Number(row));
const first = Number(value.data[0]);
console.log(JSON.stringify({ length: ds.longest, opened, shape: value.shape, first }));
"""


def test_one_sample_of_a_large_chunk_is_read_by_its_range(reader: Path, tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "large")
    ds.create_tensor("x", dtype="uint8")
    ds.x.extend([np.full((100, 1000), n, np.uint8) for n in range(60)])
    ds.create_tensor("y", dtype="int64")
    ds.y.extend(np.arange(400_000))
    ds.commit()
    with serving(tmp_path) as bucket:
        found = node(ONE_ROW, reader, f"{bucket.url}/large", "x", "41")
        assert (found["first"], found["shape"]) == (41, [100, 1000])
        assert sizes(bucket.asked, "/x/chunks/") < 700_000
        bucket.asked.clear()
        found = node(ONE_ROW, reader, f"{bucket.url}/large", "y", "399999")
        assert found["first"] == 399_999
        assert sizes(bucket.asked, "/y/chunks/") < 700_000


def test_a_million_rows_open_by_four_requests(reader: Path, tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "million")
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("label", htype="class_label", class_names=["a", "b"])
    ds.extend({"x": np.arange(1_000_000), "label": np.arange(1_000_000) % 2})
    ds.commit()
    # As in a bucket, where the lock file of a head confirms its manifest.
    tree = json.loads((tmp_path / "million" / "version_control_info.json").read_text())
    head = tree["branches"]["main"]
    lock = bytes(18) + b"lakebed:" + tree["commits"][head]["lakebed_seal"].encode()
    (tmp_path / "million" / "versions" / head / "dataset_lock.lock").write_bytes(lock)
    with serving(tmp_path) as bucket:
        found = node(ONE_ROW, reader, f"{bucket.url}/million", "x", "999999")
        assert found["opened"] == 3
        assert (found["length"], found["first"]) == (1_000_000, 999_999)
        bucket.has_ranges = False
        assert node(ONE_ROW, reader, f"{bucket.url}/million", "x", "5")["first"] == 5


def test_a_flipped_bit_is_an_error(reader: Path, tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "flipped")
    ds.create_tensor("x", dtype="uint8")
    ds.x.extend(np.zeros((10, 100), np.uint8))
    ds.commit()
    (chunk,) = (tmp_path / "flipped").rglob("x/chunks/*")
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    chunk.write_bytes(data)
    with serving(tmp_path) as bucket:
        found = read(reader, f"{bucket.url}/flipped", "main")
    cell = found["main"]["tensors"]["x"]["rows"][5]
    assert cell["error"] == "FormatError"
    assert "checksum" in cell["message"]


def test_what_deep_lake_writes_into_a_head_is_seen(reader: Path, tmp_path: Path) -> None:
    """A manifest that no longer fits is left aside, though the version tree names it still."""
    ds = lakebed.empty(tmp_path / "head")
    ds.create_tensor("x", dtype="int64")
    ds.x.extend([1, 2, 3])
    ds.flush()
    head = tmp_path / "head" / "versions" / ds._session.snapshot.version_id
    script = """
    const [library, address] = process.argv.slice(1);
    const { open } = await import(library);
    console.log((await open(address)).longest);
    """
    with serving(tmp_path) as bucket:
        assert node(script, reader, f"{bucket.url}/head") == 3
        assert any(".lakebed/manifest-" in path for path, _ in bucket.asked)
        # As 3.9.52 leaves it: the missing index of tiles, and the metadata changed in place.
        (head / "x" / "tiles_index").mkdir()
        (head / "x" / "tiles_index" / "unsharded").write_bytes(b"\x063.9.52" + bytes(8))
        meta = head / "x" / "tensor_meta.json"
        meta.write_text(meta.read_text().replace('"length": 3', '"length": 2'))
        assert node(script, reader, f"{bucket.url}/head") == 2


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("nothing", "MissingError"),
        ("no tree", "FormatError"),
        ("no version", "FormatError"),
        ("a circle", "FormatError"),
    ],
)
def test_what_is_no_dataset_is_an_error(what: str, error: str, reader: Path, tmp_path: Path) -> None:
    node_of: dict[str, Any] = {
        "branch": "main",
        "parent": "a",
        "children": [],
        "commit_message": None,
        "commit_time": None,
    }
    trees: dict[str, Any] = {
        "no tree": "{",
        "no version": {"commits": {}, "branches": {"main": "x"}},
        "a circle": {"commits": {"a": node_of}, "branches": {"main": "a"}},
    }
    if what in trees:
        tree = trees[what]
        (tmp_path / "version_control_info.json").write_text(
            tree if isinstance(tree, str) else json.dumps(tree)
        )
    with serving(tmp_path) as bucket:
        found = read(reader, bucket.url, "main")
    assert found["main"].get("error") == error


def test_the_reader_is_small(reader: Path, tmp_path: Path) -> None:
    subprocess.run(["node", WEB / "module.mjs", "reader", tmp_path, "--minify"], check=True, cwd=WEB)
    assert len(gzip.compress((tmp_path / "reader.js").read_bytes())) <= 40_000


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small datasets of lakebed with every way to store samples, manifests that build on others, and a large chunk."""
    root, draws = tmp_path_factory.mktemp("kinds"), np.random.default_rng(3)
    ds = lakebed.empty(root / "stored")
    blocks = np.repeat(draws.integers(0, 9, (40, 6)), 5, 1)
    ways: dict[str, tuple[dict[str, Any], Any]] = {
        "raw": ({"dtype": "int32"}, blocks.astype(np.int32)),
        "packed": ({"dtype": "float32", "chunk_compression": "lz4"}, blocks.astype(np.float32)),
        "single": ({"dtype": "int64", "sample_compression": "lz4"}, blocks),
        "ragged": ({"dtype": "uint16"}, [np.arange(n % 7, dtype=np.uint16) for n in range(40)]),
        "number": ({"dtype": "float64"}, [None if n % 5 == 4 else n / 3 for n in range(40)]),
        "text": ({"htype": "text", "chunk_compression": "lz4"}, [f"row {n} " * (n % 4) for n in range(40)]),
        "json": ({"htype": "json"}, [{"a": [n, None]} for n in range(40)]),
        "steps": (
            {"htype": "sequence", "dtype": "uint8"},
            [[np.full((2, 2), n, np.uint8)] * 3 for n in range(40)],
        ),
        "outline": (
            {"htype": "polygon", "dtype": "float32"},
            [[np.ones((3, 2), np.float32)] * (1 + n % 2) for n in range(40)],
        ),
        "image": (
            {"htype": "image", "sample_compression": "png"},
            list(draws.integers(0, 255, (40, 4, 4, 3), np.uint8)),
        ),
        "strip": (
            {"htype": "image", "chunk_compression": "png"},
            list(draws.integers(0, 255, (40, 4, 4, 3), np.uint8)),
        ),
    }
    for name, (made, rows) in ways.items():
        ds.create_tensor(name, **made)
        ds[name].extend(rows)
    ds.create_tensor("tiled", dtype="uint8", tiling_threshold=1 << 15)
    ds.tiled.append(draws.integers(0, 9, (300, 300), np.uint8))
    ds.commit()
    ds = lakebed.empty(root / "large")
    ds.create_tensor("x", dtype="uint8")
    ds.x.extend([np.full((90, 1000 + n % 2), n, np.uint8) for n in range(8)])
    ds.commit()
    ds = lakebed.empty(root / "deltas")
    ds.create_tensor("x", dtype="int64", max_chunk_size=2_000)
    for _ in range(3):
        ds.x.extend(np.arange(100_000))
        ds.commit()
    return root


@pytest.mark.viewer
def test_damaged_files_are_refused_by_errors_of_its_own(reader: Path, golden: Bucket, kinds: Path) -> None:
    runs = 1_000_000 if LEVEL is Level.SOAK else 2_000
    done = subprocess.run(
        ["node", HERE / "fuzz.mjs", reader, str(runs), "1", golden.root, *[kinds] * 8],
        check=False,
        capture_output=True,
        text=True,
        timeout=4 * 3600,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["refused"]["FormatError"] > runs // 10
    assert told["sealed"] > runs // 3
    assert told["sums"] < runs // 20, "damage that was sealed does not end at its checksum"
