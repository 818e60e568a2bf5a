"""Datasets of earlier releases are opened, read, extended and verified; writers write the bytes of the last release."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakebed
from integration_tests.frozen import make
from unit_tests.once import extracted

ARCHIVES = sorted(
    Path(__file__).parent.glob("*.tar.xz"),
    key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)],
)
NUMBER = re.compile(rb"LB[A-Z]+\d+|lbstat\d+")
"""Number of the format of each file that only lakebed writes: its first eight bytes."""

CASES = [(archive, name) for archive in ARCHIVES for name in make.DATASETS]
IDS = [f"{archive.name.removesuffix('.tar.xz')}-{name}" for archive, name in CASES]


def wanted(folder: Path, name: str) -> dict[str, Any]:
    everything = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return {ref: told for ref, told in everything.items() if ref.startswith(f"{name}@")}


def found(folder: Path, refs: dict[str, Any]) -> dict[str, Any]:
    """What is seen now; by JSON and back, as what is expected was written."""
    told = {ref: make.seen(lakebed.load(f"{folder / ref}", read_only=True)) for ref in refs}
    again: dict[str, Any] = json.loads(json.dumps(told))
    return again


@pytest.mark.parametrize(("archive", "name"), CASES, ids=IDS)
def test_every_version_is_read_then_extended_and_verified(
    archive: Path, name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = extracted(tmp_path_factory, archive)
    refs = wanted(folder, name)
    assert refs
    assert found(folder, refs) == refs
    if name.endswith(".lake"):  # packed: read-only, until it is unpacked
        lakebed.unpack(folder / name, tmp_path / name.removesuffix(".lake"), progressbar=False)
        refs = {ref.replace(".lake@", "@"): told for ref, told in refs.items()}
        name = name.removesuffix(".lake")
    else:
        shutil.copytree(folder / name, tmp_path / name)
    ds = lakebed.load(tmp_path / name)
    rows = {tensor: len(ds[tensor]) for tensor in ds.tensors}
    for tensor in (tensor for tensor, length in rows.items() if length):
        ds[tensor].append(ds[tensor][0])
    ds.commit("appended by a later release")
    assert {tensor: len(ds[tensor]) for tensor in ds.tensors} == {n: rows[n] + bool(rows[n]) for n in rows}
    ds.close()
    assert lakebed.verify(tmp_path / name, deep=True).is_sound
    commits = {ref: told for ref, told in refs.items() if not ref.endswith("@main")}
    assert {ref: told["tensors"] for ref, told in found(tmp_path, commits).items()} == {
        ref: told["tensors"] for ref, told in commits.items()
    }


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_views_indexes_and_backups_are_used(
    archive: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytest.importorskip("usearch")
    folder = shutil.copytree(extracted(tmp_path_factory, archive), tmp_path / "copy")
    history = lakebed.load(folder / "history")
    assert history.load_view("small").name.text() == ["tit", "wren"]
    assert lakebed.load(f"{folder}/history@v1").name.text() == ["wren", "kite", "tit"]

    searched = lakebed.load(folder / "searched")
    assert {index.name: index.covered for index in searched.indexes()} == {
        "title_bm25": 40,
        "vector_hnsw": 40,
    }
    nearest = "SELECT age ORDER BY COSINE_SIMILARITY(vector, ARRAY[0.9, 0.8, 0.7]) DESC LIMIT 3"
    assert "vector_hnsw" in str(searched.explain(nearest))
    words = searched.query("SELECT title ORDER BY BM25_SIMILARITY(title, 'bird 7') DESC LIMIT 1")
    assert words.title.text() == ["bird 7 of 3"]

    assert lakebed.verify_backups(folder / "backups", progressbar=False).is_sound
    refs = wanted(folder, "history")
    history.title.append("a heron")
    history.commit("after the backup")
    points = lakebed.backups(folder / "backups")
    assert len(points) == 2
    lakebed.backup(history, folder / "backups", progressbar=False)
    lakebed.restore(folder / "backups", tmp_path / "again/history", at=points[0].id, progressbar=False)
    assert found(tmp_path / "again", refs) == refs


@pytest.mark.parametrize("mode", make.MODES)
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_a_sync_goes_on_where_an_earlier_release_stopped(
    archive: Path, mode: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = extracted(tmp_path_factory, archive)
    shutil.copytree(folder / "synced", tmp_path / "synced")
    make.sync(tmp_path / "synced", mode, 2)
    ids = {"append": [*range(6), *range(3, 9), *range(6, 12)], "append_dedup": [*range(12)]}
    rows = lakebed.load(tmp_path / f"synced/shop/{mode}")["id"].numpy().ravel().tolist()
    assert sorted(rows) == sorted(ids.get(mode, [*range(6, 12)]))


def differences(old: dict[str, bytes], new: dict[str, bytes]) -> list[str]:
    """Name the files whose bytes differ; a new format number in a dataset excuses its files for lakebed alone."""
    changed = []
    for name in make.DATASETS:
        before, after = ({k: v for k, v in side.items() if k.startswith(name)} for side in (old, new))
        numbers = [
            {data[:8] for data in side.values() if NUMBER.fullmatch(data[:8])} for side in (before, after)
        ]
        keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        is_numbered = not numbers[1] <= numbers[0]
        changed += [key for key in keys if not (is_numbered and ".lakebed/" in key)]
    return [key for key in changed if not key.startswith(tuple(make.LEFT_OUT))]


def test_other_bytes_need_another_format_number(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytest.importorskip("usearch")
    command = [sys.executable, "-m", "integration_tests.frozen.make", str(tmp_path)]
    subprocess.run(command, check=True, cwd=Path(__file__).resolve().parents[2])
    old, new = make.members(extracted(tmp_path_factory, ARCHIVES[-1])), make.members(tmp_path)
    assert differences(old, new) == [], (
        f"no longer written as in {ARCHIVES[-1].name}. If that is meant, and earlier releases read it or its format "
        "has a new number, freeze what is written now beside it: python -m integration_tests.frozen.make"
    )
    last = max(key for key in new if not key.startswith(tuple(make.LEFT_OUT)))
    flipped = bytes([new[last][0] ^ 1]) + new[last][1:]
    assert differences(new, {**new, last: flipped}) == [last]
    manifest = next(key for key in new if key.startswith("layouts/.lakebed/manifest-"))
    assert differences(new, {**new, manifest: new[manifest][:8] + b"9" + new[manifest][9:]}) == [manifest]
    renumbered = {**new, manifest: b"LBMANIF9" + new[manifest][8:]}
    assert differences(new, renumbered) == []
    chunk = next(key for key in new if key.startswith("layouts/") and "/many/chunks/" in key)
    assert differences(new, {**renumbered, chunk: new[chunk] + b"."}) == [chunk], "read by Deep Lake, too"
