"""Real file systems that are full, out of inodes or read-only: clear errors, old data intact, then all goes on."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.power.verdict import goes_on, seen
from lakebed.errors import StorageError, StorageFullError, StorageReadOnlyError
from lakebed.storage.files import new_files
from lakebed.storage.local import LocalStorage
from lakebed.writing.draft import tensors

SEED = 20_261_121
SIZES = {"tmpfs": 8, "ext4": 8, "btrfs": 128, "xfs": 320}
"""Smallest useful size, in MiB."""
SLOW = [pytest.mark.soak, pytest.mark.timeout(900)]
DISKS = [
    "tmpfs",
    pytest.param("ext4", marks=SLOW),
    pytest.param("btrfs", marks=SLOW),
    pytest.param("xfs", marks=SLOW),
]


@contextlib.contextmanager
def mounted(kind: str, place: Path, *options: str, mkfs: tuple[str, ...] | None = ()) -> Iterator[Path]:
    """A small file system of its own, or the test is skipped; without `mkfs` the one that was there before."""
    if os.geteuid():
        pytest.skip("only root may mount a file system")
    mount, image = place / "mount", place / "image"
    mount.mkdir(exist_ok=True)
    source = "none"
    if kind != "tmpfs":
        if shutil.which(f"mkfs.{kind}") is None:
            pytest.skip(f"there is no mkfs.{kind} here")
        if mkfs is not None:
            with image.open("wb") as file:
                file.truncate(SIZES[kind] << 20)
            quiet = {"ext4": ["-q", "-F", "-m", "0"], "btrfs": ["-q", "-f", "--mixed"], "xfs": ["-q", "-f"]}[
                kind
            ]
            subprocess.run([f"mkfs.{kind}", *quiet, *mkfs, str(image)], check=True)
        source, options = str(image), ("loop", *options)
    else:
        options = (f"size={SIZES[kind]}m", *options)
    command = ["mount", "-t", kind, "-o", ",".join(options), source, str(mount)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{kind} cannot be mounted here: {done.stderr.strip()}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def extend(ds: lakebed.Dataset, count: int, width: int = 300) -> None:
    """Add rows of noise."""
    noise = np.random.default_rng(len(ds)).random((count, width, 2), np.float32)
    start = len(ds)
    ds.extend({"n": [row % 2 for row in range(start, start + count)], "x": list(noise)})


def _append(ds: lakebed.Dataset) -> None:
    extend(ds, 40)
    ds.flush()


def _spill(ds: lakebed.Dataset) -> None:
    for _ in range(4):
        extend(ds, 30)
        ds.x.numpy(aslist=True)
    ds.flush()


def _commit(ds: lakebed.Dataset) -> None:
    extend(ds, 10)
    ds.commit("now")


def _merge(ds: lakebed.Dataset) -> None:
    extend(ds, 3)
    ds.commit()
    ds.merge("side")


def _update(ds: lakebed.Dataset) -> None:
    with ds:
        ds.x[0] = np.zeros((500, 2), np.float32)
        ds.pop(1)


ACTIONS: dict[str, Callable[[Any], None]] = {
    "append": _append,
    "spill": _spill,
    "commit": _commit,
    "merge": _merge,
    "update": _update,
}


def prepared(url: str) -> None:
    """A dataset with a commit and a branch."""
    with lakebed.empty(url) as ds:
        ds.create_tensor("n", htype="class_label", class_names=["a", "b"])
        ds.create_tensor("x", dtype="float32")
        extend(ds, 5)
    ds.commit("first")
    ds.checkout("side", create=True)
    extend(ds, 2)
    ds.commit("second")
    ds.close()


def fill(mount: Path, room: int) -> Path:
    """Fill the disk but for about so many bytes."""
    filler, spare = mount / "filler", mount / "spare"
    spare.write_bytes(bytes(room))
    for step in (1 << 20, 512):
        with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(step))
    spare.unlink()  # where a file can not be cut on a full disk, one can be deleted
    subprocess.run(["sync", "-f", str(mount)], check=True)
    return filler


@pytest.mark.parametrize("kind", DISKS)
def test_a_full_disk_is_told_and_costs_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Wherever the disk runs full, old data stay readable, and the same work succeeds once there is room again."""
    monkeypatch.setattr(tensors, "SPILL_BYTES", 20_000)
    chance, told = random.Random(SEED), 0
    rounds = 24 if kind == "tmpfs" else 40
    with mounted(kind, tmp_path) as mount:
        url, original = str(mount / "ds"), str(mount / "original")
        prepared(original)
        for _ in range(rounds):
            shutil.copytree(original, url)
            name = chance.choice(list(ACTIONS))
            room = chance.randrange(0, 400_000, 512)
            before = seen(url)
            ds = lakebed.load(url, read_only=False)
            filler = fill(mount, room)
            try:
                ACTIONS[name](ds)
            except StorageFullError as error:
                assert url in str(error), error  # noqa: PT017
                assert "free some space" in str(error)  # noqa: PT017
                told += 1
                # A merge makes a commit first: whatever is there is whole.
                during = seen(url)
                assert during == before or name == "merge", (name, room)
                filler.unlink()
                ds.flush()
            else:
                filler.unlink()
            # What waited is published by now, or never waited; both go on from there.
            ds.close()
            after = seen(url)
            assert after is not None
            goes_on(url, after)
            assert not list(Path(url).rglob(".lb-*.tmp"))
            shutil.rmtree(url)
    assert told > rounds // 4


@pytest.mark.parametrize("kind", DISKS)
def test_creating_on_a_full_disk_is_told_and_works_later(kind: str, tmp_path: Path) -> None:
    """A dataset that could not be created is not there, and can be created once there is room."""
    told = 0
    with mounted(kind, tmp_path) as mount:
        url = str(mount / "ds")
        for room in range(0, 40_000, 2_048):
            filler = fill(mount, room)
            try:
                ds = lakebed.empty(url)
            except StorageFullError as error:
                assert "free some space" in str(error)  # noqa: PT017
                told += 1
                assert not lakebed.exists(url)
                filler.unlink()
                ds = lakebed.empty(url)
            else:
                filler.unlink()
            ds.close()
            goes_on(url, seen(url))
            shutil.rmtree(url)
    assert told


@pytest.mark.parametrize("kind", DISKS)
def test_a_disk_that_turns_read_only_is_told(kind: str, tmp_path: Path) -> None:
    """Remounted read-only under an open dataset: reading goes on, writing tells so and succeeds when it is back.

    (No disk can be remounted while a file on it is open for writing; the other tests fail in the middle.)
    """
    with mounted(kind, tmp_path) as mount:
        url = str(mount / "ds")
        prepared(url)
        ds = lakebed.load(url)
        count = len(ds)
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        with pytest.raises(StorageReadOnlyError, match="mount it writable") as caught:
            extend(ds, 3)
        assert caught.value.errno == errno.EROFS
        reader = lakebed.load(url, read_only=True)
        assert len(reader) == count
        assert reader.x.numpy(aslist=True)
        with pytest.raises(StorageReadOnlyError):
            lakebed.load(url, read_only=False).n.append(1)
        with pytest.raises(StorageReadOnlyError):
            lakebed.empty(str(mount / "other"))
        subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
        extend(ds, 3)
        ds.flush()
        ds.close()
        assert len(lakebed.load(url, read_only=True)) == count + 3
        goes_on(url, seen(url))


@pytest.mark.parametrize(
    ("kind", "options", "mkfs"),
    [("tmpfs", ("nr_inodes=1200",), ()), pytest.param("ext4", (), ("-N", "1200", "-I", "128"), marks=SLOW)],
)
def test_a_disk_without_inodes_is_told(
    kind: str, options: tuple[str, ...], mkfs: tuple[str, ...], tmp_path: Path
) -> None:
    """A disk that takes no more files although it has room is a full disk, and goes on after some are deleted."""
    told = 0
    with mounted(kind, tmp_path, *options, mkfs=mkfs) as mount:
        url = str(mount / "ds")
        prepared(url)
        for left in range(0, 60, 6):
            fillers: list[Path] = []
            with contextlib.suppress(OSError):
                while True:
                    filler = mount / f"filler-{len(fillers)}"
                    filler.touch()
                    fillers.append(filler)
            for filler in fillers[len(fillers) - left :]:
                filler.unlink()
            before = seen(url)
            ds = lakebed.load(url)
            try:
                extend(ds, 2)
                ds.flush()
            except StorageFullError:
                told += 1
                assert seen(url) == before
            for filler in fillers:
                filler.unlink(missing_ok=True)
            ds.flush()
            ds.close()
            lakebed.gc(url, grace=0)
        goes_on(url, seen(url))
    assert told


def break_tables(image: Path) -> None:
    """Damage what an ext4 keeps of the blocks that are free; its checksums tell."""
    told = subprocess.run(["dumpe2fs", str(image)], check=True, capture_output=True, text=True).stdout
    with image.open("r+b") as file:
        for number in re.findall(r"Block bitmap at (\d+)", told):
            file.seek(4096 * int(number) + 700)
            was = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([was ^ 16]))


@pytest.mark.parametrize("at_once", [True, False])
def test_a_disk_with_broken_tables_is_told(
    at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system drops what it finds no place for, and says so once: no forced write after it knows of that."""
    if shutil.which("dumpe2fs") is None:
        pytest.skip("there is no dumpe2fs here")
    monkeypatch.setattr(new_files, "_waiting_bytes", lambda: 0 if at_once else None)
    with mounted("ext4", tmp_path, "errors=continue", mkfs=("-b", "4096", "-O", "metadata_csum")) as mount:
        (mount / "before").write_bytes(b"before")
    break_tables(tmp_path / "image")
    with mounted("ext4", tmp_path, "errors=continue", mkfs=None) as mount:
        storage = LocalStorage(mount)
        with pytest.raises(StorageError, match="dmesg") as caught:
            storage.put_many((f"f{i}", bytes(100_000)) for i in range(10))
        assert caught.value.errno in (errno.EBADMSG, errno.EUCLEAN, errno.EIO)
        assert [key for key, _ in storage.list()] == ["before"]
        assert storage.get("before") == b"before"
