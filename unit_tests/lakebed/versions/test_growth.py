"""Many publishes leave few files, and what they wrote reads as if it had been written at once."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from lakebed.versions.gc import collect as collect_module

ROWS = 100


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here has to survive a power cut."""
    monkeypatch.setattr(config, "FSYNC", False)


def grow(path: Path, publishes: int) -> list[float]:
    """Publish that often, a hundred rows each time; return the processor seconds of each publish."""
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="float32")
    rows = np.arange(4 * ROWS, dtype="float32").reshape(ROWS, 4)
    seconds = []
    for number in range(publishes):
        began = time.process_time()
        ds.x.extend(rows + number)
        ds.flush()
        seconds.append(time.process_time() - began)
    ds.close()
    return seconds


def files(path: Path) -> list[Path]:
    """All files below a folder."""
    return [found for found in path.rglob("*") if found.is_file()]


def expected(publishes: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """What `grow` wrote."""
    rows = np.arange(4 * ROWS, dtype="float32").reshape(ROWS, 4)
    return np.concatenate([rows + number for number in range(publishes)])


@pytest.mark.parametrize("publishes", [200, pytest.param(10_000, marks=pytest.mark.soak)])
def test_publishes_leave_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, publishes: int) -> None:
    """Replaced heads go while the writer goes on, small chunks are merged, and a collection leaves what is needed."""
    monkeypatch.setattr(
        collect_module, "YOUNG_SECONDS", 0.0
    )  # else a fast machine keeps what it wrote in 2 s
    path = tmp_path / "d"
    grow(path, publishes)
    payload = publishes * ROWS * 16
    kept = config.KEEP_HEADS + 2 * collect_module._EVERY
    found = files(path)
    versions = [f for f in found if f.name == "dataset_meta.json"]
    assert len(versions) <= kept + 3
    assert len(found) <= 25 * kept
    # Ids and shapes weigh as much as the rows; each head that is kept may have merged chunks of 1 MB for each tensor.
    assert sum(f.stat().st_size for f in found) <= 4 * payload + kept * 4_000_000
    ds = lakebed.load(path, read_only=True)
    assert np.array_equal(ds.x.numpy(), expected(publishes))
    chunks = {key: len(tensor.table) for key, tensor in ds._session.snapshot.tensors.items()}
    assert max(chunks.values()) <= 12 + payload // 500_000
    del ds
    lakebed.gc(path, grace=0)
    found = files(path)
    assert len(found) <= 40 + sum(chunks.values())
    assert sum(f.stat().st_size for f in found) <= 3 * payload + 100_000
    assert verify(LocalStorage(path), None, deep=publishes < 1000).is_sound
    assert np.array_equal(lakebed.load(path, read_only=True).x.numpy(), expected(publishes))
