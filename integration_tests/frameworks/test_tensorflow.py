"""``ds.tensorflow`` and ``ds.dataloader().tensorflow`` are ``tf.data`` datasets; Keras trains on them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.frameworks import lake
from integration_tests.frameworks.lake import ROWS

tf = pytest.importorskip("tensorflow")

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


def test_samples_are_those_of_deep_lake(ds: lakebed.Dataset) -> None:
    """Shapes and dtypes as seen on 3.9.52, which cannot hand out json and lists."""
    found = ds.tensorflow()
    spec = {name: (tuple(part.shape), part.dtype.name) for name, part in found.element_spec.items()}
    assert spec == {
        "images": ((8, 8, 3), "uint8"),
        "labels": ((1,), "uint32"),
        "texts": ((1,), "string"),
        "facts": ((1,), "string"),
        "boxes": ((None, 4), "float32"),
    }
    samples = list(found)
    assert len(samples) == int(found.cardinality()) == ROWS
    assert np.array_equal(samples[7]["images"].numpy(), ds.images[7].numpy())
    assert samples[7]["texts"].numpy().tolist() == [b"row 7"]
    assert samples[7]["facts"].numpy().tolist() == [b'{"row": 7}']
    assert samples[8]["boxes"].numpy().tolist() == [[8.0] * 4] * 2


def test_what_is_stored(ds: lakebed.Dataset) -> None:
    sample = next(iter(ds.tensorflow(tensors=["images", "labels"], tobytes=["images"])))
    assert sample["images"].numpy()[0].startswith(b"\x89PNG")
    assert sample["labels"].dtype == tf.uint32
    sample = next(iter(ds.tensorflow(tensors=["images", "labels"], tobytes=True)))
    assert sample["labels"].numpy().tolist() == [b"\0\0\0\0"]
    assert [int(sample["labels"][0]) for sample in ds[[3, 2]].tensorflow(tensors=["labels"])] == [1, 0]


def test_batches(ds: lakebed.Dataset) -> None:
    found = ds.dataloader().batch(8).shuffle().tensorflow(tensors=["images", "labels", "texts"])
    epochs = [[int(row) for batch in found for row in batch["index"]] for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(ROWS))
    assert epochs[0] != epochs[1]
    batch = next(iter(found))
    assert tuple(batch["images"].shape) == (8, 8, 8, 3)
    assert batch["texts"].numpy().tolist() == [b"row %d" % row for row in batch["index"].numpy()]
    pairs = list(tf.data.Dataset.zip((found, found)).take(3))
    assert len(pairs) == 3, "two iterations at a time"


def rows_of(ds: lakebed.Dataset) -> dict[str, Any]:
    """Return rows and lengths by the face of the loader that is asked."""
    singles = ds.tensorflow(tensors=["texts"])
    batches = ds.dataloader().batch(8).shuffle().tensorflow(tensors=["labels"])
    whole = ds.tensorflow(tensors=["texts"], distributed=False)
    return {
        "singles": [int(sample["texts"].numpy()[0].split()[1]) for sample in singles],
        "batches": [int(row) for batch in batches for row in batch["index"]],
        "whole": [int(sample["texts"].numpy()[0].split()[1]) for sample in whole],
        "lengths": [int(singles.cardinality()), int(batches.cardinality()), int(whole.cardinality())],
    }


def grouped(rank: int, world: int, path: str, store: str) -> dict[str, Any]:
    """Return what one process of a group of PyTorch reads."""
    import torch

    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    found = rows_of(lakebed.load(path, read_only=True))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return found


def working(rank: int, world: int, path: str, ports: list[int]) -> dict[str, Any]:
    """Return what one worker of TensorFlow reads, by itself and as a strategy deals it out."""
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ds = lakebed.load(path, read_only=True)
    found = rows_of(ds)
    batches = ds.dataloader().batch(8).shuffle().tensorflow(tensors=["labels"])
    dealt = strategy.experimental_distribute_dataset(batches.map(lambda batch: batch["index"]))
    found["dealt"] = [
        int(row) for batch in dealt for row in strategy.experimental_local_results(batch)[0].numpy().ravel()
    ]
    return found


@pytest.mark.parametrize("maker", ["torch", "tensorflow"])
def test_processes_take_shares(path: str, tmp_path: Path, maker: str) -> None:
    if maker == "torch":
        pytest.importorskip("torch")
        parts = lake.together(grouped, 2, path, str(tmp_path / "store"))
    else:
        parts = lake.together(working, 2, path, [lake.free_port() for _ in range(2)])
    for face in ("singles", "batches", *(["dealt"] if maker == "tensorflow" else [])):
        lake.check_shares([part[face] for part in parts])
    assert all(part["whole"] == list(range(ROWS)) for part in parts)
    assert all(part["lengths"] == [49, 7, ROWS] for part in parts)


def test_keras_fits(ds: lakebed.Dataset) -> None:
    def ready(sample: Any) -> Any:
        return tuple(lake.ready(sample).values())

    tf.keras.utils.set_random_seed(0)
    found = ds.dataloader().batch(16).shuffle().transform(ready).tensorflow(tensors=["images", "labels"])
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Flatten(), layers.Dense(16, activation="relu"), layers.Dense(2)])
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit(found, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
