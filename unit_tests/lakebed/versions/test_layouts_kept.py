"""Where the samples of large chunks lie goes with the chunks from version to version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.chunks import pack
from lakebed.documents.layouts import Layout
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage

RNG = np.random.default_rng(12)
PICTURES = [RNG.integers(0, 256, (90 + i % 5, 80, 3), np.uint8) for i in range(100)]


def check(ds: lakebed.Dataset, name: str = "x") -> list[bool]:
    """Compare each layout with its chunk's header; tell which chunks have one."""
    table = ds[name]._state.table
    known = []
    for row in range(len(table)):
        words = table.places.layout(row)
        known.append(len(words) > 0)
        if not known[-1]:
            continue
        count, size = table.samples(row), int(table.places.sizes[row])
        layout = Layout(words, count, size)
        chunk = ds._session.source.chunk(table, row, None)
        assert np.array_equal(np.diff(layout.starts), np.diff(chunk.offsets()))
        assert size - layout.starts[0] == len(chunk.data)
        shapes = [layout.shape(i) for i in range(count)]
        assert name == "png" or shapes == [chunk.shape(i) for i in range(count)]
    return known


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with lakebed.empty(tmp_path / "ds") as ds:
        ds.create_tensor("x", dtype="uint8", max_chunk_size=1_600_000).extend(PICTURES)
        ds.create_tensor("png", htype="image", sample_compression="png", max_chunk_size=1_600_000)
        ds.png.extend(PICTURES)
        ds.create_tensor("coded", dtype="uint8", chunk_compression="lz4").extend(PICTURES)
        ds.commit("first")
    return tmp_path / "ds"


def test_large_chunks_have_them(path: Path) -> None:
    """Not those that are compressed as a whole, whose samples can not be read alone."""
    ds = lakebed.load(path, read_only=True)
    assert check(ds)[:2] == check(ds, "png")[:2] == [True, True]
    assert check(ds, "coded") == [False]


def test_they_stay_through_commits_updates_and_branches(path: Path) -> None:
    """Chunks that stay keep theirs, new ones get their own, in whole manifests and in deltas."""
    with lakebed.load(path) as ds:
        for number in range(5):
            ds.x.extend(PICTURES[:30])
            ds.x[3] = PICTURES[4 + number]
            ds.commit(f"more {number}")
        ds.checkout("side", create=True)
        ds.x.pop(50)
        ds.x.extend(PICTURES)
        ds.commit("side")
        ds.checkout("main")
        ds.merge("side")
    for address in ("main", "side"):
        ds = lakebed.load(f"{path}@{address}", read_only=True)
        known = check(ds)
        large = ds.x._state.table.places.sizes > 2 * 2**18
        assert known == large.tolist()
        assert sum(known) >= 3


def test_rechunking_and_copies_have_them(path: Path, tmp_path: Path) -> None:
    with lakebed.load(path) as ds:
        ds.x[10] = PICTURES[11]
        ds.rechunk()
    lakebed.deepcopy(path, tmp_path / "copy")
    for each in (path, tmp_path / "copy"):
        assert any(check(lakebed.load(each, read_only=True)))


def test_verify_compares_them_with_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that noted places where no samples begin is found out."""
    right = pack.layout_words

    def wrong(sizes: np.ndarray, *rest: object) -> np.ndarray:
        moved = sizes.copy()
        moved[:2] += np.array([1, -1]).astype(moved.dtype)
        return right(moved, *rest)  # type: ignore[arg-type]

    with lakebed.empty(tmp_path / "ds") as ds:
        ds.create_tensor("png", htype="image", sample_compression="png").extend(PICTURES)
    assert not verify(LocalStorage(str(tmp_path / "ds"))).damage
    monkeypatch.setattr(pack, "layout_words", wrong)
    with lakebed.empty(tmp_path / "wrong") as ds:
        ds.create_tensor("png", htype="image", sample_compression="png").extend(PICTURES)
    (damage,) = verify(LocalStorage(str(tmp_path / "wrong"))).damage
    monkeypatch.setattr(pack, "layout_words", lambda *given: right(*given[:3], lambda: [b""] * given[2]))
    with lakebed.empty(tmp_path / "sums") as ds:
        ds.create_tensor("png", htype="image", sample_compression="png").extend(PICTURES)
    (other,) = verify(LocalStorage(str(tmp_path / "sums"))).damage
    assert "checksum of sample" in other.message
    assert "sample positions differ from the manifest" in damage.message
    assert damage.tensor == "png"
