"""States in which a killed 3.9.52 leaves a dataset: its recorded writes up to any of them, the last one cut or not.

``integration_tests/interop/crashes/record.py`` makes the recording.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import lakebed
from lakebed.storage.memory import MemoryStorage
from unit_tests.lakebed.datasets import new_memory

_FILE = Path(__file__).parents[1] / "data" / "crashes-3.9.52.json.xz"


@dataclass(frozen=True)
class Log:
    """The files before an operation, its changes in order (None: removed), and what each branch held around it."""

    files: dict[str, bytes]
    writes: list[tuple[str, bytes | None]]
    before: dict[str, dict[str, list[Any]]]
    after: dict[str, dict[str, list[Any]]]


@dataclass(frozen=True)
class State:
    """After so many writes of an operation; ``cut`` says how much the last one lacks: nothing, half, or all of it."""

    operation: str
    writes: int
    cut: str = ""

    def __str__(self) -> str:
        return f"{self.operation}, write {self.writes} {self.cut}".strip()

    def stored(self) -> MemoryStorage:
        """A storage in this state."""
        log, storage = logs()[self.operation], new_memory()
        files: dict[str, bytes | None] = dict(log.files)
        files.update(log.writes[: self.writes])
        if self.cut:
            path, data = log.writes[self.writes - 1]
            assert data is not None
            files[path] = data[: len(data) // 2] if self.cut == "half" else b""
        for path, content in files.items():
            if content is not None:
                storage.put(path, content)
        return storage


@cache
def logs() -> dict[str, Log]:
    """All recordings by operation."""
    document = json.loads(lzma.decompress(_FILE.read_bytes()))
    blobs = [base64.b64decode(blob) for blob in document["blobs"]]
    return {
        name: Log(
            {path: blobs[number] for path, number in log["files"].items()},
            [(path, None if number is None else blobs[number]) for path, number in log["writes"]],
            log["before"],
            log["after"],
        )
        for name, log in document["logs"].items()
    }


def states(operation: str) -> Iterator[State]:
    """Every state of an operation."""
    for writes in range(len(logs()[operation].writes) + 1):
        yield State(operation, writes)
        if writes and logs()[operation].writes[writes - 1][1] is not None:
            yield State(operation, writes, "half")
            yield State(operation, writes, "whole")


def held(ds: lakebed.Dataset) -> dict[str, list[Any]]:
    """The samples of all visible tensors, as the recording has them."""
    return {
        name: [sample_of(tensor, row) for row in range(len(tensor))] for name, tensor in ds.tensors.items()
    }


def sample_of(tensor: Any, row: int) -> Any:
    """One sample, as the recording has it."""
    if tensor.htype == "text":
        return str(tensor[row].numpy()[0])
    value = tensor[row].numpy(aslist=True) if tensor.is_sequence else tensor[row].numpy()
    return [_array(item) for item in value] if isinstance(value, list) else _array(value)


def _array(value: Any) -> list[Any]:
    array = np.asarray(value)
    return [array.dtype.name, list(array.shape), np.ravel(array).tolist()]
