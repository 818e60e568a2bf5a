"""``ds.dataloader().jax`` hands out arrays of JAX, on which a model learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.frameworks import lake
from integration_tests.frameworks.lake import ROWS

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
