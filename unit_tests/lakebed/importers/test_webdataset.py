"""WebDataset comes in: suffixes, missing files, compressed shards, splits, and what is damaged or hostile."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source
from lakebed.importers.shards import webdataset
from unit_tests.lakebed.importers.sources import imported, photo


def npy(value: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, value, allow_pickle=True)
    return file.getvalue()


def shard(path: Path, files: list[tuple[str, bytes]], mode: str = "w") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def samples(root: Path, first: int, count: int) -> list[tuple[str, bytes]]:
    found = []
    for at in range(first, first + count):
        photo(root / "photo.jpg", at % 6)
        data = (root / "photo.jpg").read_bytes()
        (root / "photo.jpg").unlink()
        found += [
            (f"a.b/{at:04}.jpg", data),
            (f"a.b/{at:04}.cls", f"{at % 3 - 1}\n".encode()),
            (f"a.b/{at:04}.txt", f"Größe {at}".encode()),
            (f"a.b/{at:04}.json", json.dumps({"id": at}).encode()),
            (f"a.b/{at:04}.depth.npy", npy(np.full((2, at % 3 + 1), at, np.float32))),
        ]
    return found


def test_shards_with_headers_for_all_members_are_taken_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a global header says, such as the encoding of names, counts in each stretch."""
    monkeypatch.setattr(webdataset, "_ITEM_BYTES", 1)
    for headers, count in ({}, 3), ({"comment": "all"}, 1):
        path = tmp_path / f"{count}.tar"
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers=headers) as tar:
            for at in range(3):
                tar.addfile(tarfile.TarInfo(f"{at}.txt"), io.BytesIO())
        assert len(webdataset.plan(Source.of(path)).items) == count


load = partial(imported, "webdataset")


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_samples(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webdataset, "_ITEM_BYTES", 5000)
    root = tmp_path / "shards"
    root.mkdir()
    kind = suffix.partition(".")[2]
    contents = [samples(root, 0, 6), samples(root, 6, 2)]
    for at, files in enumerate(contents):
        shard(root / f"pets-{at:03}.{suffix}", files, f"w:{kind}")
    report = imported("auto", root, strict=True)
    ds = report.dataset
    assert (report.format, report.planned, report.written, report.problems) == ("webdataset", 8, 8, [])
    assert set(ds.tensors) == {"jpg", "cls", "txt", "json", "depth_npy", "key"}
    assert ds.key.text() == [f"a.b/{at:04}" for at in range(8)]
    assert [ds.jpg[at].tobytes() for at in range(8)] == [
        data for files in contents for name, data in files if ".jpg" in name
    ]
    assert [int(ds.cls[at].numpy()[0]) for at in range(8)] == [at % 3 - 1 for at in range(8)]
    assert ds.txt.text() == [f"Größe {at}" for at in range(8)]
    assert ds.json[7].dict() == {"id": 7}
    assert ds.depth_npy[5].numpy().tolist() == [[5, 5, 5]] * 2
    assert ds.depth_npy.dtype == np.float32


def test_files_that_lack_are_null_and_pickles_stay_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    shard(
        path, [("a.txt", b"one"), ("b.pkl", b"\x80\x04."), ("b.TXT", b"two"), ("c.key", b"k"), ("d.txt", b"")]
    )
    report = load(path)
    ds = report.dataset
    assert ds.txt.text()[:2] == ["one", "two"]
    assert len(ds) == 4
    assert ds.pkl[1].numpy().tobytes() == b"\x80\x04."
    assert ds.key_of_sample.text() == ["a", "b", "c", "d"]
    assert ds.key[2].numpy().tobytes() == b"k"
    assert ds.txt.null_mask().tolist() == [False, False, True, False]
    assert any("run code" in problem.reason for problem in report.problems)


def test_what_is_wrong_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    files = [
        *(("a.npy", npy(np.array([object()]))), ("b.npy", npy(np.arange(3)))),
        *(("c.cls", b"cat"), ("d.cls", b"1"), ("d.cls", b"2"), ("e.txt", b"\xff"), ("f.cls", b"4")),
        *(("g.json", b"[" * 100_000), ("/etc/passwd.cls", b"5"), ("../../h.cls", b"6")),
    ]
    shard(path, files)
    with tarfile.open(path, "a") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE):
            member = tarfile.TarInfo("link.txt")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    report = load(path)
    assert report.dataset.key.text() == ["b", "f", "/etc/passwd", "../../h"]
    assert [entry["where"] for entry in report.left_out] == [f"x.tar: {key}" for key in "acdeg"]
    assert sum("link, device" in problem.reason for problem in report.problems) == 3


def test_splits_and_names_of_shards(tmp_path: Path) -> None:
    for name in ("train-00", "train-01", "train-02", "val-00"):
        shard(tmp_path / f"{name}.tar", [(f"{name}.txt", name.encode())])
    report = load(tmp_path)
    assert report.splits == {"train": 3, "val": 1}
    assert report.dataset.key.text() == ["train-00", "train-01", "train-02", "val-00"]
    report = load(tmp_path, shards="train-{01..03}.tar")
    assert report.dataset.key.text() == ["train-01", "train-02"]
    assert [problem.where for problem in report.problems] == ["train-03.tar"]
    with pytest.raises(IngestionError, match="too many"):
        load(tmp_path, shards="{0..99999999}.tar")


@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_a_shard_that_ends_early_gives_the_samples_before(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    noise = np.random.default_rng(0)
    files = [(f"{at}.bin", noise.bytes(30_000)) for at in range(9)]
    shard(path, files, "w:gz" if "gz" in suffix else "w")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    report = load(path)
    assert 2 < report.written < 8
    assert report.skipped + len(report.problems) >= 1
    assert report.dataset.key.text() == [f"{at}" for at in range(report.written)]


def test_archives_that_unpack_without_end_are_refused(tmp_path: Path) -> None:
    member = tarfile.TarInfo("a.txt")
    member.size = 1 << 40
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(10_000)))
    with pytest.raises(IngestionError, match="claims to unpack"):
        load(tmp_path / "x.tar.gz")
    long = tarfile.TarInfo("././@LongLink")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 1 << 40
    (tmp_path / "y.tar").write_bytes(long.tobuf(tarfile.GNU_FORMAT) + bytes(10_000))
    with pytest.raises(IngestionError, match="header of"):
        load(tmp_path / "y.tar")


def hostile(path: Path) -> None:
    shard(path / "x.tar", samples(path.parent, 0, 2))
    shard(path / "y.tar.gz", samples(path.parent, 2, 2), "w:gz")
