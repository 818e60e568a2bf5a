"""Small valid sources of each format, for damage to be done to them: see ``hostile``."""

from __future__ import annotations

import gzip
import json
import wave
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

ROWS = 40
NAMES = ("a.png", "b.jpg", "deep/c.png", "deep/d.gif")


@dataclass(frozen=True)
class Family:
    """A format, what makes a source of it at a path, and the options of its import.

    ``make`` may return what is imported in place of the path; only files of ``suffixes`` are damaged, or all.
    """

    format: str
    make: Callable[[Path], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    suffixes: tuple[str, ...] = ()


def pictures(root: Path) -> None:
    """Write small pictures of several kinds."""
    for number, name in enumerate(NAMES):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((5, 6, 3), 40 * number, np.uint8)).save(path)


def coco(root: Path) -> None:
    """Instances of two splits, captions, key points and panoptic segments."""
    images = [{"id": at, "file_name": name, "height": 5, "width": 6} for at, name in enumerate(NAMES)]
    pictures(root / "images")
    box = {"bbox": [1.5, 2, 3, 2], "area": 6.0, "iscrowd": 0, "category_id": 3}
    polygon = [[1, 1, 2, 1, 2, 2.5], [3, 3, 4, 3, 4, 4]]
    crowd = {"size": [5, 6], "counts": [2, 10, 18]}
    objects = [
        {"id": 1, "image_id": 0, "segmentation": polygon, "score": 0.5, **box},
        {"id": 2, "image_id": 1, "segmentation": crowd, **box, "iscrowd": 1},
        {"id": 3, "image_id": 1, "segmentation": polygon[:1], "more": {"a": [1]}, **box},
        {"id": 4, "image_id": 2, "segmentation": {"size": [5, 6], "counts": "PPYo0"}, **box},
    ]
    captions = [{"id": 5, "image_id": 0, "caption": "grüß"}, {"id": 6, "image_id": 3, "caption": "b"}]
    points = [{"id": 7, "image_id": 0, "keypoints": [1, 2, 2, 0, 0, 0], "num_keypoints": 1, **box}]
    segments = np.zeros((5, 6, 3), np.uint8)
    segments[2:] = 7
    (root / "panoptic_train").mkdir()
    Image.fromarray(segments).save(root / "panoptic_train/a.png")
    of_segments = [{"image_id": 0, "file_name": "a.png", "segments_info": [{"id": 460551, "category_id": 3}]}]
    categories = [{"id": 3, "name": "cat", "supercategory": "animal", "keypoints": ["nose", "ear"]}]
    (root / "annotations").mkdir()
    for name, found in (
        ("instances_train", objects),
        ("captions_train", captions),
        ("person_keypoints_train", points),
        ("panoptic_train", of_segments),
    ):
        text = json.dumps({"images": images, "annotations": found, "categories": categories})
        (root / f"annotations/{name}.json").write_text(text)


def folder(root: Path) -> None:
    """Pictures, sounds, text, JSON and arrays, in classes and splits."""
    pictures(root / "train/cat")
    pictures(root / "val/dog")
    (root / "train/cat/a.txt").write_text("größer")
    (root / "train/cat/a.json").write_text('{"a": [1, 2.5, null, {"b": "c"}]}')
    np.save(root / "train/cat/a.npy", np.arange(12).reshape(3, 4))
    with wave.open(str(root / "val/dog/a.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(range(64)))


def table() -> pa.Table:
    """Return a table of most types, with a column of paths."""
    at = np.arange(ROWS)
    return pa.table(
        {
            "id": pa.array([None if row == 3 else row for row in range(ROWS)], pa.int32()),
            "share": pa.array(at / 7),
            "name": pa.array([None if row == 5 else f"nº {row}" for row in range(ROWS)]),
            "kind": pa.array([("cat", "dog")[row % 2] for row in range(ROWS)]).dictionary_encode(),
            "vector": pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float32(), 2)),
            "ragged": pa.array([[1] * (row % 4) for row in range(ROWS)], pa.list_(pa.int64())),
            "more": pa.array([{"a": row, "b": ["x"]} for row in range(ROWS)]),
            "raw": pa.array([bytes(row) for row in range(ROWS)]),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "file": pa.array([NAMES[row % 2] for row in range(ROWS)]),
        }
    )


def parquet(root: Path) -> None:
    """Two files of several row groups, compressed and not, beside pictures."""
    pictures(root)
    pq.write_table(table(), root / "train-0.parquet", row_group_size=16)
    pq.write_table(table(), root / "train-1.parquet", compression="none", use_dictionary=False)


def delimited(root: Path) -> None:
    """Two files with quotes, nulls and dates, one of them compressed, beside pictures."""
    pictures(root)
    lines = ["id,share,name,day,flag,file"]
    lines += [
        f'{row},{row / 7},"n\nº, {row}",2024-01-{row % 28 + 1:02},true,{NAMES[row % 2]}'
        for row in range(ROWS)
    ]
    (root / "train.csv").write_text("\n".join(lines))
    (root / "val.csv.gz").write_bytes(gzip.compress("\n".join(lines[:9]).encode(), mtime=0))
    (root / "readme").write_text("")


def tabbed(root: Path) -> Path:
    """A file of tabs."""
    root.mkdir()
    lines = ["id\tname\twhen"]
    lines += [f"{row}\tnº {row}\t2024-01-02 03:04:{row % 60:02}" for row in range(ROWS)]
    (root / "a.tsv").write_text("\r\n".join(lines))
    return root / "a.tsv"


def json_lines(root: Path) -> None:
    """Two files of objects, beside pictures."""
    pictures(root)
    for name in ("train", "val", "test", "x1", "x2"):
        with (root / f"{name}.jsonl").open("w") as file:
            for row in range(ROWS // 4):
                found = {
                    "id": row,
                    "share": row / 7,
                    "name": f"nº {row}",
                    "vector": [1, 2.5],
                    "file": "a.png",
                }
                file.write(json.dumps({**found, "more": {"a": [row, None]}, "ragged": [1] * row}) + "\n")


def arrow_file(root: Path) -> Path:
    """An Arrow file of several batches."""
    root.mkdir()
    with pa.OSFile(str(root / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table().schema) as writer:
        writer.write_table(table(), max_chunksize=16)
    return root / "a.arrow"


def arrow_stream(root: Path) -> Path:
    """An Arrow stream, compressed."""
    root.mkdir()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        pa.OSFile(str(root / "a.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table().schema, options=options) as writer,
    ):
        writer.write_table(table(), max_chunksize=16)
    return root / "a.arrow"


def huggingface(root: Path) -> None:
    """What ``save_to_disk`` writes: two splits, pictures as bytes and a class label."""
    features = {"photo": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["no", "yes"]}}
    photo = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema(
        [("photo", photo), ("label", pa.int64()), ("text", pa.string())],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    pictures(root.parent / f"{root.name}-pictures")
    data = (root.parent / f"{root.name}-pictures/a.png").read_bytes()
    root.mkdir()
    (root / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    for split in ("train", "test"):
        (root / split).mkdir()
        names = [f"data-{part:05}-of-00002.arrow" for part in range(2)]
        state = {"_data_files": [{"filename": name} for name in names], "_indices_data_files": None}
        (root / split / "state.json").write_text(json.dumps(state))
        (root / split / "dataset_info.json").write_text("{}")
        rows = [{"photo": {"bytes": data, "path": None}, "label": row % 2, "text": "ü"} for row in range(8)]
        for name in names:
            with pa.OSFile(str(root / split / name), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
                writer.write_table(pa.Table.from_pylist(rows, schema))


def _arrays() -> dict[str, np.ndarray[Any, Any]]:
    return {
        "images": np.arange(ROWS * 60, dtype=np.uint8).reshape(ROWS, 4, 5, 3),
        "labels": np.arange(ROWS),
        "names": np.array([f"nº {row}" for row in range(ROWS)]),
        "turned": np.asfortranarray(np.arange(ROWS * 3.0).reshape(ROWS, 3)),
        "record": np.array([(1, 0.5)] * ROWS, [("a", "i4"), ("b", "f8")]),
        "days": np.arange(ROWS).astype("datetime64[D]"),
        "mean": np.array([0.5, 0.25]),
    }


def npy(root: Path) -> None:
    """A folder of arrays."""
    root.mkdir()
    for name, values in _arrays().items():
        np.save(root / f"{name}.npy", values)


def npz(root: Path) -> Path:
    """An archive of arrays, of which some are compressed."""
    root.mkdir()
    np.savez_compressed(root / "a.npz", **_arrays())
    return root / "a.npz"


def npz_stored(root: Path) -> Path:
    """An archive of arrays without compression."""
    root.mkdir()
    np.savez(root / "a.npz", **_arrays())
    return root / "a.npz"


def bzip_npz(root: Path) -> Path:
    """An archive packed in ways that NumPy does not use."""
    stored = npz_stored(root)
    with zipfile.ZipFile(stored) as old, zipfile.ZipFile(root / "b.npz", "w", zipfile.ZIP_BZIP2) as new:
        for info in old.infolist():
            new.writestr(
                info.filename, old.read(info), zipfile.ZIP_BZIP2 if "a" in info.filename else zipfile.ZIP_LZMA
            )
    stored.unlink()
    return root / "b.npz"


FAMILIES = {
    "coco": Family("coco", coco),
    "folder": Family("folder", folder),
    "parquet": Family("parquet", parquet, {"media": {"file": "image"}}, (".parquet",)),
    "csv": Family("csv", delimited, {"media": {"file": "image"}}, (".csv", ".gz")),
    "tsv": Family("csv", tabbed),
    "jsonl": Family("jsonl", json_lines, {"media": {"file": "image"}}, (".jsonl",)),
    "arrow file": Family("dataframe", arrow_file),
    "arrow stream": Family("dataframe", arrow_stream),
    "huggingface": Family("huggingface", huggingface),
    "npy": Family("numpy", npy),
    "npz": Family("numpy", npz),
    "npz stored": Family("numpy", npz_stored),
    "npz bzip2": Family("numpy", bzip_npz),
}
"""Format families by name."""
