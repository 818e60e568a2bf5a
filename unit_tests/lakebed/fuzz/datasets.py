"""Datasets of every kind that lakebed writes, copies of the golden ones, and all that a reader sees of a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lakebed
from lakebed.session.session import Session
from lakebed.storage.local import LocalStorage

RNG = np.random.default_rng(3)


def _arrays(ds: lakebed.Dataset) -> None:
    for dtype in ("bool", "uint8", "int64", "float32"):
        ds.create_tensor(dtype, dtype=dtype)
    ds.extend(
        {dtype: np.arange(40).reshape(20, 2).astype(dtype) for dtype in ("bool", "uint8", "int64", "float32")}
    )


def _ragged(ds: lakebed.Dataset) -> None:
    ds.create_tensor("boxes", htype="bbox")
    ds.create_tensor("points", htype="point")
    with ds:
        for n in (3, 0, 1, 7):
            ds.append(
                {"boxes": np.ones((n, 4), "f4") * n, "points": np.arange(2 * n, dtype="i4").reshape(n, 2)}
            )
        ds.boxes.append(None)


def _large(ds: lakebed.Dataset) -> None:
    ds.create_tensor("big", create_id_tensor=False, create_shape_tensor=False)
    ds.big.extend(RNG.integers(0, 1 << 40, (300, 250)))  # above the size that is read by range


def _documents(ds: lakebed.Dataset) -> None:
    ds.create_tensor("text", htype="text")
    ds.create_tensor("json", htype="json")
    ds.create_tensor("list", htype="list")
    ds.create_tensor("tag", htype="tag")
    for i in range(6):
        value = {"text": "wörd " * i, "json": {"a": [i, None]}, "list": [i, "x"], "tag": [str(i)]}
        ds.append(value)
    ds.info["about"] = {"a": np.arange(3)}
    ds.text.info["b"] = "c"


def _lz4(ds: lakebed.Dataset) -> None:
    ds.create_tensor("sample", sample_compression="lz4")
    ds.create_tensor("chunk", chunk_compression="lz4")
    ds.create_tensor("text", htype="text", chunk_compression="lz4")
    for i in range(5):
        ds.append({"sample": np.full((4, i), i), "chunk": np.full((i + 1, 3), i), "text": "ab" * i})


def _images(ds: lakebed.Dataset) -> None:
    for name in ("png", "jpeg", "webp", "tiff"):
        ds.create_tensor(name, htype="image", sample_compression=name)
    for i in range(3):
        image = RNG.integers(0, 255, (9, 8 + i, 3), np.uint8)
        ds.append(dict.fromkeys(("png", "jpeg", "webp", "tiff"), image))


def _image_chunks(ds: lakebed.Dataset) -> None:
    ds.create_tensor("png", htype="image", chunk_compression="png")
    ds.create_tensor("mask", htype="segment_mask", chunk_compression="lz4")
    for i in range(4):
        ds.append(
            {"png": RNG.integers(0, 255, (7, 5 + i, 3), np.uint8), "mask": np.full((5, i), i, np.uint32)}
        )


def _tiled(ds: lakebed.Dataset) -> None:
    ds.create_tensor("raw", dtype="uint8", tiling_threshold=2_000, max_chunk_size=4_000)
    ds.create_tensor(
        "png", htype="image", sample_compression="png", tiling_threshold=2_000, max_chunk_size=4_000
    )
    ds.append(
        {"raw": RNG.integers(0, 255, (70, 80), np.uint8), "png": RNG.integers(0, 255, (60, 50, 3), np.uint8)}
    )
    ds.append({"raw": np.ones((3, 3), np.uint8), "png": RNG.integers(0, 255, (6, 5, 3), np.uint8)})


def _sequences(ds: lakebed.Dataset) -> None:
    ds.create_tensor("boxes", htype="sequence[bbox]")
    ds.create_tensor("words", htype="sequence[text]")
    for n in (2, 0, 1):
        ds.append({"boxes": [np.ones((n, 4), "f4")] * n, "words": ["a", "bc"][:n]})


def _history(ds: lakebed.Dataset) -> None:
    ds.create_tensor("x", dtype="int32")
    ds.create_tensor("g/y", htype="class_label", class_names=["cat", "dog"])
    ds.extend({"x": [1, 2, 3], "g/y": ["cat", "dog", "cat"]})
    ds.commit("first")
    ds.x[1] = 20
    ds.checkout("side", create=True)
    ds.extend({"x": [4], "g/y": ["dog"]})
    ds.commit("on the side")
    ds.checkout("main")
    ds.pop(0)
    ds.info["n"] = 2
    ds.commit("second")


def _structure(ds: lakebed.Dataset) -> None:
    ds.create_group("empty/inner")
    ds.create_tensor("a/b/c", dtype="int8")
    ds.create_tensor("gone", dtype="int8")
    ds["a/b/c"].extend([1, 2])
    ds.delete_tensor("gone")
    ds.rename_tensor("a/b/c", "a/b/d")


def _polygons(ds: lakebed.Dataset) -> None:
    ds.create_tensor("p", htype="polygon")
    ds.create_tensor("k", htype="keypoints_coco", keypoints=["a"], connections=[])
    for n in (1, 3):
        ds.append({"p": [np.ones((n + 2, 2), "f4")] * n, "k": np.ones((3, n), "i4")})


def _nothing(ds: lakebed.Dataset) -> None:
    ds.create_tensor("x")


KINDS: dict[str, Callable[[lakebed.Dataset], None]] = {
    "arrays": _arrays,
    "ragged": _ragged,
    "large": _large,
    "documents": _documents,
    "lz4": _lz4,
    "images": _images,
    "image chunks": _image_chunks,
    "tiled": _tiled,
    "sequences": _sequences,
    "history": _history,
    "structure": _structure,
    "polygons": _polygons,
    "nothing": _nothing,
}
"""What lakebed writes itself."""

GOLDEN = [f"f{n:02}" for n in range(1, 20)]


def write(name: str, path: Path, golden: Path) -> Path:
    """Write one dataset, or copy a golden one with all its versions; nobody holds it open afterwards."""
    if name in KINDS:
        ds = lakebed.empty(path)
        KINDS[name](ds)
    else:
        (source,) = (p for p in golden.glob(f"{name}_*") if p.is_dir())
        ds = lakebed.deepcopy(source, path, progressbar=False)
    ds.flush()
    del ds
    return path


def everything(path: Path) -> Any:
    """All that a reader sees, in every version that a branch leads to, in a form that can be compared."""
    session = Session(LocalStorage(path), None, read_only=True)
    tree = session.tree
    seen: dict[str, Any] = {"branches": dict(tree.branches)}
    for head in tree.branches.values():
        for version in tree.ancestors(head):
            node = tree.commits[version]
            if version not in seen and (node.is_committed or version in tree.branches.values()):
                seen[version] = (node, _version(path, version))
    return seen


def _version(path: Path, version: str) -> Any:
    session = Session(LocalStorage(path), version, read_only=True)
    schema = session.schema()
    names = {name: schema.key_of(name) for name in schema.names(hidden=True)}
    tensors = {}
    for name, key in names.items():
        if key is None:
            continue  # the schema has no name for it that leads back to it
        reader = session.reader(key, name)
        state = reader.state
        one = reader.raw if reader.is_link else reader.value
        lengths = None if state.sequence is None else state.sequence.lengths.tolist()
        values = [_plain(_value(one, row)) for row in range(state.meta.length)]
        tensors[name] = (state.meta, _plain(dict(state.info)), state.length, lengths, values)
    return _plain(dict(schema.info)), sorted(schema.meta.groups), tensors


def _value(one: Callable[[int], Any], row: int) -> Any:
    try:
        return one(row)
    except lakebed.EmptyTensorError:
        return "nothing"


def _plain(value: Any) -> Any:
    """Return values that compare by ``==``; large arrays by their hash."""
    if isinstance(value, np.ndarray):
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()
        return (str(value.dtype), value.shape, digest)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def files(path: Path) -> Iterator[Path]:
    """Every file of a dataset that has content, in a fixed order."""
    yield from sorted(file for file in path.rglob("*") if file.is_file() and file.stat().st_size)


def replace(file: Path, data: bytes) -> None:
    """Write a file under its name without touching those who have the old one open."""
    beside = file.with_name(file.name + ".new")
    beside.write_bytes(data)
    beside.replace(file)
