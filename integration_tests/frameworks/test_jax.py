"""``ds.dataloader().jax`` hands out arrays of JAX, on which a model learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.frameworks import lake
from integration_tests.frameworks.lake import ROWS
from lakebed.errors import InvalidInputError

jax = pytest.importorskip("jax")

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


def test_batches(ds: lakebed.Dataset) -> None:
    loader = ds.dataloader().batch(8).jax()
    batches = list(loader)
    assert len(batches) == len(loader) == 13
    assert all(isinstance(batch["images"], jax.Array) for batch in batches)
    whole = np.concatenate([np.asarray(batch["images"]) for batch in batches])
    assert np.array_equal(whole, ds.images.numpy()), "no batch lies where a later one was made"
    assert batches[0]["texts"][:2] == ["row 0", "row 1"]
    assert len(next(iter(ds.dataloader().jax(tensors=["labels"]).batch(8)))["labels"]) == 8
    placed = next(iter(ds.dataloader().batch(8).jax(tensors=["images"], sharding=jax.devices()[0])))
    assert placed["images"].devices() == {jax.devices()[0]}


def train(rank: int, world: int, path: str, port: int) -> dict[str, Any]:
    """Return the rows of one process by the face of the loader that it asks."""
    jax.distributed.initialize(f"localhost:{port}", world, rank)
    ds = lakebed.load(path, read_only=True)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
    each, all_of_them = (
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (["rows"], [])
    )

    def rows(**given: Any) -> list[int]:
        loader = ds.dataloader().batch(8).shuffle().jax(tensors=["labels"], return_index=True, **given)
        batches = [batch["index"] for batch in loader]
        found["shapes"].append(batches[0].shape)
        return [int(row) for batch in batches for row in np.asarray(batch.addressable_shards[0].data).ravel()]

    found: dict[str, Any] = {"shapes": []}
    found |= {"own": rows(), "sharded": rows(sharding=each)}
    found |= {"whole": rows(distributed=False), "copied": rows(sharding=all_of_them, distributed=False)}
    with pytest.raises(InvalidInputError, match="distributed=False"):
        rows(sharding=all_of_them)
    loader = lakebed.Loader(ds, 8, tensors=["labels"], return_index=True)
    found["loader"] = [int(row) for batch in loader for row in batch["index"].ravel()]
    jax.distributed.shutdown()
    return found


def test_processes_take_shares(path: str) -> None:
    """Of batches that are sharded over the processes, each reads its own rows only."""
    parts = lake.together(train, 2, path, lake.free_port())
    for face in ("own", "sharded", "loader"):
        lake.check_shares([part[face] for part in parts])
    assert parts[0]["shapes"] == [(8,), (16,), (8,), (8,)]
    for face in ("whole", "copied"):
        assert parts[0][face] == parts[1][face], "all rows in one order"
        assert sorted(parts[0][face]) == list(range(ROWS))


def test_a_model_learns_and_resumes(ds: lakebed.Dataset) -> None:
    def loss(weights: Any, pixels: Any, labels: Any) -> Any:
        logits = pixels.reshape(len(pixels), -1) @ weights
        chosen = jax.nn.log_softmax(logits)[jax.numpy.arange(len(labels)), labels]
        return -chosen.mean()

    step = jax.jit(jax.value_and_grad(loss))
    loader = ds.dataloader().batch(16).shuffle().transform(lake.ready).jax()
    weights = jax.numpy.zeros((192, 2))
    losses = []
    for _ in range(4):
        for batch in loader:
            value, gradient = step(weights, batch["pixels"], batch["labels"])
            weights = weights - 0.05 * gradient
            losses.append(float(value))
    assert len(losses) == 4 * 7
    assert losses[-1] < 0.8 * losses[0]

    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [np.asarray(batch["labels"]).tolist() for batch in batches]
    other = ds.dataloader().batch(16).shuffle().transform(lake.ready).jax()
    other.load_state_dict(state)
    assert [np.asarray(batch["labels"]).tolist() for batch in other] == rest
    assert sum(map(len, rest)) == ROWS - 16
