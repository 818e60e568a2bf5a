"""A ResNet learns photos with boxes, from a disk and from a bucket, through a declared random crop.

`LAKEBED_COCO` names a folder laid out as COCO is: annotations/instances_NAME.json beside a folder NAME of JPEG files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.stores.servers import faults, moto

torch = pytest.importorskip("torch")
from demo import photos  # noqa: E402 - after the line that may skip all this

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

EPOCHS = 12


@pytest.fixture(scope="module")
def folder() -> Path:
    named = os.environ.get("LAKEBED_COCO")
    if not named:
        pytest.skip("LAKEBED_COCO names no folder of photos with boxes, laid out as COCO is")
    return Path(named)


@pytest.fixture(scope="module")
def lake(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    return photos.build(folder, str(tmp_path_factory.mktemp("photos") / "ds"))


def loader_of(ds: lakebed.Dataset) -> Any:
    return ds.pytorch({"images": photos.CROPS, "kind": None}, batch_size=16, shuffle=True)


@pytest.fixture(scope="module")
def losses(lake: lakebed.Dataset) -> list[float]:
    return photos.train(loader_of(lake), len(lake.kind.info.class_names), EPOCHS)


def test_files_are_stored_as_they_are(folder: Path, lake: lakebed.Dataset) -> None:
    stored = {file.read_bytes() for file in folder.glob("*/*.jpg")}
    assert len(lake) > 100
    assert {lake.images[row].tobytes() for row in range(len(lake))} <= stored
    assert any(len(lake.categories[row].numpy()) != len(lake.categories[0].numpy()) for row in range(9))


def test_a_resnet_learns(
    lake: lakebed.Dataset, losses: list[float], record_property: Callable[[str, object], None]
) -> None:
    """More than how often each kind is seen."""
    record_property("loss", f"{losses[0]:.3f} -> {losses[-1]:.3f}")
    shares = np.bincount(lake.kind.numpy().ravel()) / len(lake)
    entropy = -float(sum(share * np.log(share) for share in shares if share))
    assert np.mean(losses[-3:]) < 0.75 * losses[0]
    assert np.mean(losses[-3:]) < 0.9 * entropy


def test_only_what_comes_out_is_decoded(lake: lakebed.Dataset) -> None:
    """No sample passes through Python, and batches are what the operations say."""
    loader = loader_of(lake)
    assert loader.is_whole
    rows = []
    for batch in loader.loader:
        assert (batch["images"].shape[1:], batch["images"].dtype) == (
            (3, photos.SIDE, photos.SIDE),
            np.float32,
        )
        rows += batch.rows.tolist()
    assert sorted(rows) == list(range(len(lake)))


def test_a_bucket_trains_the_same_model(folder: Path, losses: list[float]) -> None:
    """Order and crops follow from the seed alone, so the losses are those from the disk."""
    with moto() as server, faults(server) as network:
        network.set(latency=0.01)
        creds = {**server.creds, "endpoint_url": network.endpoint}
        address = server.url("photos")
        photos.build(folder, address, creds)
        ds = lakebed.load(address, creds=creds, read_only=True)
        found = photos.train(loader_of(ds), len(ds.kind.info.class_names), 3)
    assert found == pytest.approx(losses[:3], rel=1e-4)
