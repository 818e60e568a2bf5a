"""Datasets as one release writes them, in an archive that every later release opens, extends and verifies.

    PYTHONPATH=format:. python -m integration_tests.frozen.make integration_tests/frozen/0.1.0.tar.xz

Ids and times are the same in each run, so the same writer writes the same bytes. An archive that was released is never
made again: a release that writes other bytes gets one of its own.
"""

from __future__ import annotations

import gc
import hashlib
import io
import itertools
import json
import os
import random
import sys
import tarfile
import tempfile
import time
import uuid
import zipfile
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import lakebed

NOW = 4_102_444_800
"""2100-01-01, in POSIX seconds: files must be older than the time that a version names for its checksums."""

LEFT_OUT = "encoded/ media/ backups/ searched/.lakebed/ind history/queries.json history/.queries/".split()
"""Begins of keys whose bytes come from Pillow, LZ4, zlib, usearch and readers of media, or name the folder."""

MEDIA = Path(__file__).resolve().parents[2] / "unit_tests" / "data" / "golden-3.9.52.tar.xz"
MODES = ("append", "append_dedup", "overwrite")
DATASETS = "htypes layouts history searched paged encoded media packed.lake".split()
DATASETS += [f"synced/shop/{mode}" for mode in MODES]
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
BARE: dict[str, Any] = {"create_id_tensor": False, "create_shape_tensor": False}


def fix() -> None:
    """Give this process fixed ids and times."""
    counter = itertools.count()
    os.urandom = lambda size: hashlib.shake_256(str(next(counter)).encode()).digest(size)
    random._urandom = os.urandom  # type: ignore[attr-defined]
    os.getpid = uuid.getnode = lambda: 1
    time.time, time.time_ns = lambda: float(NOW), lambda: NOW * 10**9
    os.environ |= {"LAKEBED_AUTHOR": "frozen", "LAKEBED_REMEMBER_LINKS": "0"}
    lakebed.config.THREADS = 1


def seen(ds: lakebed.Dataset) -> dict[str, Any]:
    """Return what a reader sees, as JSON: values, addresses of links, checksums of stored files and of PNG's pixels."""
    tensors = {}
    for name, tensor in ds.tensors.items():
        compression = tensor.meta.sample_compression
        if tensor.is_link:
            tensors[name] = [str(sample.path()) for sample in tensor]
        elif compression in (None, "lz4") or tensor.is_sequence:
            tensors[name] = [plain(value) for value in tensor.values()]
        else:
            tensors[name] = [digest(sample.tobytes()) for sample in tensor]
            tensors[name] += [plain(sample.numpy()) for sample in tensor if compression == "png"]
    messages = [commit["message"] for commit in ds.commits]
    return {"tensors": tensors, "info": dict(ds.info), "commits": messages, "branches": sorted(ds.branches)}


def digest(data: bytes) -> str:
    """Return a short checksum."""
    return hashlib.sha256(data).hexdigest()[:16]


def plain(value: Any) -> Any:
    """Return a value of any tensor as JSON; arrays of more than 64 numbers as their checksum."""
    if hasattr(value, "dtype") and value.dtype != object:
        numbers = digest(value.tobytes()) if value.size > 64 or value.dtype.kind == "c" else value.tolist()
        return [str(value.dtype), list(value.shape), numbers]
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def add(ds: lakebed.Dataset, name: str, values: Any, **options: Any) -> None:
    """Create a tensor with samples."""
    ds.create_tensor(name, **options).extend(values)


def htypes(folder: Path) -> None:
    """Write each htype and dtype, uncompressed or as picture files, with missing samples."""
    import numpy as np

    ds = lakebed.empty(folder / "htypes")
    ds.info.update({"made": "with care", "numbers": [1, 2]})
    for number, dtype in enumerate(DTYPES.split()):
        values = (np.arange(6).reshape(2, 3) * (number + 1)).astype(dtype)
        add(ds, f"numbers/{dtype}", [values, values[:1], None], dtype=dtype, **BARE)
    boxes = np.arange(8, dtype="f4").reshape(2, 4)
    polygons = [np.array([[0, 0], [4, 0], [2, 3]], "f4"), np.array([[1, 1], [3, 1], [3, 3], [1, 3]], "f4")]
    coords, names = {"type": "pixel", "mode": "LTWH"}, ["cat", "dog"]
    add(ds, "text", ["a wren", "", None, "grüße, 霧"], htype="text")
    add(ds, "json", [{"a": [1, None]}, {"b": "c"}, None], htype="json")
    add(ds, "list", [[1, "two", 3.0], [], None], htype="list")
    add(ds, "tag", [["sun", "snow"], ["rain"]], htype="tag")
    add(ds, "label", ["dog", ["cat", "dog"], None], htype="class_label", class_names=names)
    add(ds, "box", [boxes, boxes[:0], None], htype="bbox", coords=coords)
    add(ds, "box3d", [np.ones((2, 8), "f4")], htype="bbox.3d", coords={"mode": "center"})
    add(ds, "polygon", [polygons, polygons[:1], None], htype="polygon")
    add(ds, "point", [np.array([[1, 2], [3, 4]], "i4")], htype="point")
    add(ds, "pose", [np.ones((3, 2), "i4")], htype="keypoints_coco", keypoints=["nose"], connections=[])
    add(ds, "vector", [np.arange(4, dtype="f4"), np.ones(4, "f4")], htype="embedding")
    add(ds, "camera", [np.eye(3, dtype="f4")], htype="intrinsics")
    add(ds, "mask", [np.eye(5, 6, dtype=bool), None], htype="binary_mask")
    add(ds, "segments", [np.eye(4, dtype="u4")], htype="segment_mask", class_names=["sky"])
    add(ds, "instances", [np.eye(4, dtype="u4") * 7], htype="instance_label")
    add(ds, "sequence", [[1, 2, 3], [], [4]], htype="sequence")
    add(ds, "boxes", [[boxes, boxes[:1]], [boxes]], htype="sequence[bbox]")
    add(ds, "texts", [["a", "b"], ["c"]], htype="sequence[text]")
    ds.create_tensor("time", dtype="int64", **BARE).info["logical_type"] = "timestamp[us]"
    ds["time"].extend([1_700_000_000_000_000, None])
    for kind, files in (("jpeg", ("b.jpg", "exif.jpg")), ("png", ("a.png", "t0.png"))):
        stored = [*(lakebed.read(folder / "_files" / name) for name in files), None]
        add(ds, f"files/{kind}", stored, htype="image", sample_compression=kind)
    links = [lakebed.link("https://example.org/a.png"), None]
    add(ds, "link", links, htype="link[image]", sample_compression="png", verify=False)
    ds.add_creds_key("partner")
    ds.commit("each htype")


def layouts(folder: Path) -> None:
    """Write tiles, many chunks, ragged shapes, changed and removed rows, padding and empty tensors."""
    import numpy as np

    ds = lakebed.empty(folder / "layouts")
    tiled = [np.arange(64 * 48, dtype="u2").reshape(64, 48), np.ones((3, 3), "u2")]
    add(ds, "tiled", tiled, dtype="uint16", tiling_threshold=2_000, max_chunk_size=4_000)
    add(ds, "many", np.arange(1_000, dtype="i4").reshape(500, 2), max_chunk_size=400, **BARE)
    ragged = [np.full((row % 5, row % 3 + 1), row, "f4") for row in range(60)]
    add(ds, "ragged", ragged, dtype="float32", max_chunk_size=1_000)
    add(ds, "words", ["word " * (row % 7) for row in range(60)], htype="text", max_chunk_size=300)
    ds.create_tensor("padded", dtype="int64")[5] = 7
    ds.create_tensor("empty", htype="image", sample_compression="png")
    ds.commit("as written")
    ds.tiled[0][10:20, 5] = 9
    ds.many[7] = [-1, -2]
    ds.ragged[3] = np.zeros((9, 9), "f4")
    ds.words.pop(10)
    ds.words[[1, 5, 30]] = ["x", "yy", ""]
    for row in range(5):
        ds.many.append([row, row])
        ds.flush()
    ds.commit("as changed")


def history(folder: Path) -> None:
    """Write commits, branches, merges, tags, renamed and deleted tensors, saved views, and an uncommitted head."""
    import numpy as np

    ds = lakebed.empty(folder / "history")
    add(ds, "name", ["wren", "kite", "tit"], htype="text")
    add(ds, "wingspan", np.array([0.2, 1.8, 0.3], "f4"), dtype="float32")
    add(ds, "gone", [4, 5, 6], dtype="int64")
    ds.create_tag("v1", ds.commit("three birds"), message="the first")
    ds[[2, 0]].save_view(message="small ones", id="small")
    ds.checkout("fixes", create=True)
    ds.wingspan[1] = np.float32(1.7)
    add(ds, "ring", ["a", "b", "a"], htype="class_label", class_names=["a", "b"])
    ds.commit("kites are smaller")
    ds.checkout("main")
    ds.delete_tensor("gone")
    ds.rename_tensor("name", "title")
    ds.commit("renamed, deleted")
    ds.merge("fixes")
    ds.load_view("small", optimize=True, progressbar=False)
    ds.title.append("gull")
    ds.flush()


def searched(folder: Path) -> None:
    """Write indexes of words and vectors, and the statistics that queries leave."""
    import numpy as np

    ds = lakebed.empty(folder / "searched")
    add(ds, "title", [f"bird {row} of {row % 4}" for row in range(40)], htype="text")
    add(ds, "vector", (np.arange(120) * 37 % 101 / 101).reshape(40, 3), htype="embedding")
    add(ds, "age", np.arange(40) % 9, dtype="int64", max_chunk_size=800)
    ds.commit("forty")
    ds.create_index("title", "bm25", progressbar=False)
    ds.create_index("vector", "hnsw", progressbar=False)
    assert len(ds.query("SELECT * WHERE age > 5 AND title = 'bird 7 of 3'")) == 1


def paged(folder: Path) -> None:
    """Write pages of a chunk index, for which lower constants make dozens of chunks enough."""
    import numpy as np

    from lakebed import versions
    from lakebed.documents import indexes

    lowered = {"PAGED_FROM": 6, "_MOST_LOOSE": 3, "SPREAD": 3, "MOST_ROWS": 4}
    modules = [
        one for room in (versions, indexes) for one in iter_modules(room.__path__, f"{room.__name__}.")
    ]
    rooms = [import_module(found.name) for found in modules]
    before = {(room, name): getattr(room, name) for room in rooms for name in lowered if name in vars(room)}
    assert {name for _, name in before} == set(lowered)
    for room, name in before:
        setattr(room, name, lowered[name])
    ds = lakebed.empty(folder / "paged")
    numbers = np.repeat(np.arange(60), 10).reshape(-1, 10)
    add(ds, "x", numbers[:40], dtype="int64", max_chunk_size=100, **BARE)
    for number in range(40):
        ds.create_tensor(f"tensor {number} of many", dtype="int64", **BARE)
    ds.commit("forty chunks")
    ds.x.extend(numbers[40:])
    ds.commit("twenty more")
    for (room, name), value in before.items():
        setattr(room, name, value)


def encoded(folder: Path) -> None:
    """Write what Pillow, simplejpeg and LZ4 encode from arrays and bytes."""
    import numpy as np

    ds = lakebed.empty(folder / "encoded")
    pictures = [np.full((9, 7, 3), shade, "u1") for shade in (10, 20, 200)]
    grey = [one[:, :, 0] for one in pictures]
    add(ds, "png", pictures, htype="image", sample_compression="png")
    add(ds, "jpeg", pictures, htype="image", sample_compression="jpeg")
    add(ds, "together", pictures, htype="image", chunk_compression="png")
    add(ds, "grey", grey, htype="image.gray", sample_compression="png")
    add(ds, "frames", [pictures, pictures[:1]], htype="sequence[image]", sample_compression="png")
    for kind in ("sample_compression", "chunk_compression"):
        add(ds, f"text {kind}", ["a" * 100, "b" * 50, None], htype="text", **{kind: "lz4"})
        add(ds, f"mask {kind}", [np.eye(9, dtype=bool)] * 2, htype="binary_mask", **{kind: "lz4"})
    ds.commit("encoded")


def media(folder: Path) -> None:
    """Write files of films, sounds, scans, clouds and meshes as they are."""
    ds = lakebed.empty(folder / "media")
    kinds = (
        "video.mp4 video.mkv video.avi audio.wav audio.flac audio.mp3 nifti.nii nifti.nii.gz point_cloud.las"
    )
    for kind in f"{kinds} mesh.ply mesh.stl dicom.dcm".split():
        htype, suffix = kind.split(".", 1)
        (file,) = (folder / "_files").glob(f"?.{suffix}")
        add(ds, kind.replace(".", " "), [lakebed.read(file)], htype=htype, sample_compression=suffix)
    ds.commit("media")


def sync(folder: Path, mode: str, number: int) -> None:
    """Run one sync of a stream into a folder: rows appended or replaced by key, one value refused, one missing."""
    from integration_tests import in_process, messages
    from integration_tests.connector import Connection

    types: dict[str, Any] = {name: {"type": kind} for name, kind in TYPES.items()}
    types |= {
        name: {"type": "string", "format": kind} for name, kind in (("at", "date-time"), ("on", "date"))
    }
    generation = {"generation_id": number, "minimum_generation_id": 0, "sync_id": number}
    key = {"primary_key": [["id"]], "cursor_field": ["id"]}
    catalog = messages.configure([messages.stream(mode, "shop", **types)], mode, **generation, **key)
    given = []
    for row in range(number * 3, number * 3 + 6):
        data: dict[str, Any] = {
            "id": row,
            "name": None if row == 2 else f"thing {row}",
            "price": row / 4,
            "good": row % 2 == 0,
        }
        data |= {"at": "2026-01-02T03:04:05Z", "on": "2026-01-02", "tags": [row], "more": {"n": row}}
        given.append(messages.record(mode, data | ({"price": "dear"} if row == 4 else {}), "shop"))
    given += [messages.state(mode, {"n": number}, "shop"), *messages.completed(catalog)]
    with tempfile.TemporaryDirectory() as scratch:
        in_process.sync(Connection(folder.absolute(), Path(scratch)), catalog, given).succeeded()


TYPES = {
    "id": "integer",
    "name": "string",
    "price": "number",
    "tags": "array",
    "more": "object",
    "good": "boolean",
}


def copies(folder: Path) -> None:
    """Write syncs of each mode, two backups, and a dataset in one file."""
    for number, mode in itertools.product(range(2), MODES):
        sync(folder / "synced", mode, number)
    for _ in range(2):
        lakebed.backup(str(folder / "history"), str(folder / "backups"), progressbar=False)
    lakebed.pack(str(folder / "layouts"), str(folder / "packed.lake"), progressbar=False)


def write(folder: Path) -> None:
    """Fill an empty folder, in a process that `fix` has prepared; names are relative: some are stored."""
    os.chdir(folder)
    Path("_files").mkdir()
    with tarfile.open(MEDIA) as archive:
        for member in archive.getmembers():
            if member.name.startswith("golden/_files/") and (file := archive.extractfile(member)):
                Path("_files", Path(member.name).name).write_bytes(file.read())
    for step in (htypes, layouts, history, searched, paged, encoded, media, copies):
        step(Path())
        gc.collect()  # datasets are closed


def expected(folder: Path) -> dict[str, Any]:
    """Return what is seen at each commit and branch of each dataset."""
    found = {}
    for place in (f"{folder / name}" for name in DATASETS):
        branches = lakebed.load(place, read_only=True).branches
        commits = [
            one["commit"]
            for name in branches
            for one in lakebed.load(f"{place}@{name}", read_only=True).commits
        ]
        for ref in [*branches, *dict.fromkeys(commits)]:
            name = f"{Path(place).relative_to(folder).as_posix()}@{ref}"
            found[name] = seen(lakebed.load(f"{place}@{ref}", read_only=True))
    return found


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their names, without those that name a process or came from elsewhere."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock"]
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return {key: data for key, data in found.items() if not key.startswith("_files/")}


def members(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, and those in its packed file, whose order is that in which threads end."""
    found = files(folder)
    with zipfile.ZipFile(io.BytesIO(found.pop("packed.lake"))) as packed:
        return found | {f"packed.lake/{name}": packed.read(name) for name in packed.namelist()}


def main() -> None:
    """Write an archive; to a folder that is empty, the files alone."""
    fix()
    target = Path(sys.argv[1]).absolute()
    if target.is_dir():
        write(target)
        return
    with tempfile.TemporaryDirectory() as folder, tarfile.open(target, "x:xz") as archive:
        write(Path(folder))
        for key, data in {
            **files(Path(folder)),
            "expected.json": json.dumps(expected(Path(folder))).encode(),
        }.items():
            member = tarfile.TarInfo(key)
            member.size, member.mtime = len(data), NOW - 86_400
            archive.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    main()
