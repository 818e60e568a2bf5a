"""Data sets that `benchmarks.imports` imports, and what every contestant of it is: a program that imports one.

The pictures are those of a small COCO folder (``LAKEBED_COCO``: pictures in folders, ``annotations/instances_*.json``,
``person_keypoints_*.json``, ``captions_*.json``), copied under new names as often as it takes; with each go what the
annotations say of it. This imports nothing but the standard library, as it runs in the environment of each contestant.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

KINDS = ("instances", "person_keypoints", "captions")
PART_BYTES = 16_000_000
"""Bytes of a file of those that the limits write, about as in a chunk."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What to do.

    Parameters
    ----------
    work
        ``coco``, ``folder`` or ``parquet``.
    source, store
        What is imported, and where to; the store is not there yet.
    warm
        A tiny source of the same kind.
    rows
        How many there must be in the end.
    workers
        As of the import; None is what it takes by itself.
    """

    work: str
    source: str
    store: str
    warm: str
    rows: int
    workers: int | None = None


# -- what is imported --------------------------------------------------------------------------------------------


def make_coco(
    coco: Path,
    folder: Path,
    images: int,
    annotations: int,
    kinds: Sequence[str] = KINDS,
    *,
    crowds: bool = True,
) -> None:
    """Make a data set as val2017 is, of so many pictures and annotations of objects, at most."""
    read = {kind: _together(coco, kind) for kind in kinds}
    pictures = sorted(read["instances"]["images"], key=lambda one: str(one["file_name"]))
    paths = {path.name: path for path in coco.glob("*/*.jpg")}
    (folder / "val2017").mkdir(parents=True)
    (folder / "annotations").mkdir()
    made: dict[str, list[Record]] = {kind: [] for kind in kinds}
    by_picture: dict[str, dict[int, list[Record]]] = {kind: {} for kind in kinds}
    for kind in kinds:
        for one in read[kind]["annotations"]:
            if one.get("iscrowd") and not crowds:
                continue
            by_picture[kind].setdefault(one["image_id"], []).append(one)
    records: list[Record] = []
    seen = 0
    each = sum(map(len, by_picture["instances"].values())) / len(pictures)
    for number in range(images):
        picture = pictures[number % len(pictures)]
        name = f"{number + 1:012d}.jpg"
        shutil.copyfile(paths[picture["file_name"]], folder / "val2017" / name)
        records.append({**picture, "file_name": name, "id": number + 1})
        share = annotations / (images * each)
        for kind in kinds:
            for one in by_picture[kind].get(picture["id"], ()):
                if kind == "instances":
                    # Spread over all pictures: COCO has fewer of them for each than the folder may have.
                    seen += 1
                    if len(made[kind]) >= annotations or int(seen * share) == int((seen - 1) * share):
                        continue
                made[kind].append({**one, "id": len(made[kind]) + 1, "image_id": number + 1})
    for kind in kinds:
        whole = {**read[kind], "images": records, "annotations": made[kind]}
        (folder / "annotations" / f"{kind}_val2017.json").write_text(json.dumps(whole))


def _together(coco: Path, kind: str) -> dict[str, Any]:
    """Return the annotation files of a kind as one."""
    found: dict[str, Any] = {}
    for path in sorted(coco.glob(f"annotations/{kind}_*.json")):
        for key, value in json.loads(path.read_text()).items():
            if key in ("images", "annotations"):
                found.setdefault(key, []).extend(value)
            else:
                found.setdefault(key, value)
    if not found:
        raise SystemExit(f"{coco} has no annotations/{kind}_*.json")
    return found


def make_folder(coco: Path, folder: Path, images: int) -> None:
    """Make a folder of pictures, a hundred classes."""
    paths = sorted(coco.glob("*/*.jpg"))
    for number in range(images):
        place = folder / f"class-{number % 100:02d}"
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(paths[number % len(paths)], place / f"{number:08d}.jpg")


def make_table(path: Path, rows: int) -> None:
    """Make a Parquet file: integers, floats, texts, times, and a list of numbers."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(5)
    words = np.array([f"word{number}" for number in range(5_000)])
    schema: Any = None
    writer: Any = None
    at = 0
    while at < rows:
        count = min(100_000, rows - at)
        lengths = chance.integers(0, 8, count)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        columns = {
            "id": pa.array(np.arange(at, at + count)),
            "kind": pa.array(chance.integers(0, 50, count).astype(np.int32)),
            "score": pa.array(chance.random(count)),
            "weight": pa.array(chance.random(count).astype(np.float32)),
            "name": pa.array(
                np.char.add(chance.choice(words, count), chance.integers(0, 1000, count).astype(str))
            ),
            "note": pa.array(
                [
                    None if skip else text
                    for skip, text in zip(
                        chance.random(count) < 0.1, chance.choice(words, count), strict=True
                    )
                ]
            ),
            "time": pa.array(
                1_700_000_000_000_000 + np.arange(at, at + count) * 1_000_000, pa.timestamp("us")
            ),
            "values": pa.ListArray.from_arrays(
                offsets, pa.array(chance.random(int(offsets[-1])).astype(np.float32))
            ),
        }
        table = pa.table(columns)
        if writer is None:
            schema = table.schema
            writer = pq.ParquetWriter(path, schema)
        writer.write_table(table)
        at += count
    writer.close()


# -- what contestants share --------------------------------------------------------------------------------------


def files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield all files, without pathlib's cost, which is no contestant's."""
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                else:
                    yield entry


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main(works: dict[str, Callable[[Task], int]]) -> None:
    """Do what the command line says, and print what it cost.

    Imports are not measured: of each work a tiny source, ``Task.warm``, is imported before.

    Parameters
    ----------
    works
        What does each work, and returns how many rows were stored.
    """
    task = Task(**json.loads(sys.argv[1]))
    work = works[task.work]
    work(replace(task, source=task.warm, store=f"{task.store}-warm"))
    gc.collect()
    cpu, began = _cpu(), time.perf_counter()
    rows = work(task)
    wall, cpu = time.perf_counter() - began, _cpu() - cpu
    if rows != task.rows:
        raise RuntimeError(f"{rows} rows of {task.rows}")
    print(json.dumps({"wall": wall, "cpu": cpu}))
