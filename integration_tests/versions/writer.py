"""The worker of the kill tests: random operations, each flushed, each acknowledged once it is published."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lakebed
from unit_tests.proofs.model import Model
from unit_tests.proofs.work import operations


def work(arguments: Sequence[Any], say: Callable[[str], None]) -> None:
    """Open the dataset, or create it, and work; arguments: path, file of the model, seed, number of operations."""
    path, model_file, seed, count = arguments
    model: Model = pickle.loads(Path(model_file).read_bytes())
    ds = lakebed.load(f"{path}@{model.at}")
    say("opened")
    for operation, _ in zip(operations(model, seed), range(count), strict=False):
        operation.act(ds)
        ds.flush()
        operation.model(model)
        say(operation.name)
    ds.close()
