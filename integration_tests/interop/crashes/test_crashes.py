"""What a killed 3.9.52 leaves, repaired: nothing that was finished is lost, and it opens, appends and commits again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.interop.test_interop import INTERPRETERS, NOWHERE
from lakebed.maintenance.repair import repair
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from unit_tests.lakebed.crash_states import logs, states

ENVIRONMENT = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}

pytestmark = pytest.mark.interop


def test_repaired_datasets_are_those_of_3_9_52_again(tmp_path: Path) -> None:
    """With its integrity check on, at some writes of each of its operations; both see the same lengths afterwards."""
    rng, paths = random.Random(52), []
    for operation in sorted(logs()):
        for state in rng.sample(list(states(operation)), 3):
            path = tmp_path / str(state).replace(" ", "_").replace(",", "")
            storage, memory = LocalStorage(path), state.stored()
            storage.put_many(((key, memory.get(key)) for key, _ in memory.list()), durable=False)
            repair(storage, apply=True)
            paths.append(path)
    line = [INTERPRETERS["deeplake"], Path(__file__).with_name("go_on.py"), *paths]
    done = subprocess.run(line, env=ENVIRONMENT, capture_output=True, check=True, text=True)
    answers = [json.loads(answer) for answer in done.stdout.splitlines() if answer[:1] in ("{", '"')]
    assert len(answers) == len(paths)
    for path, lengths in zip(paths, answers, strict=True):
        assert isinstance(lengths, dict), f"{path.name}: {lengths}"
        ds = lakebed.load(path, read_only=True)
        assert {name: len(tensor) - 1 for name, tensor in ds.tensors.items()} == lengths, path.name
        assert verify(LocalStorage(path), deep=True).is_sound, path.name


def killed(path: Path, rng: random.Random) -> int:
    """Let 3.9.52 append rows, and kill it at some time; returns the number of rows that it had finished."""
    line = [INTERPRETERS["deeplake"], Path(__file__).with_name("appending.py"), path]
    finished, last = 0, rng.randrange(3, 70)
    with subprocess.Popen(
        line, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for answer in process.stdout:
            finished = int(answer) if answer.strip().isdigit() else finished
            if finished >= last:
                break
        time.sleep(rng.random() * 0.06)
        process.kill()
        rest = [int(answer) for answer in process.stdout.read().split() if answer.isdigit()]
    return max([finished, *rest])


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_were_finished_before_a_kill_are_there(tmp_path: Path, seed: int) -> None:
    """All of them, whole, and nothing else; the next row goes behind."""
    finished = killed(tmp_path / "ds", random.Random(seed))
    storage = LocalStorage(tmp_path / "ds")
    report = repair(storage, apply=True)
    assert verify(storage, deep=True).is_sound
    # 3.9.52 empties a file before it writes it. Before the first commit nothing else tells the dtype of a tensor.
    dropped = {step.tensor for step in report.steps if step.kind == "tensor" and "dropped" in step.message}
    emptied = {step.tensor for step in report.steps if "emptied" in step.message}
    ds = lakebed.load(tmp_path / "ds")
    rows = max(len(tensor) for tensor in ds.tensors.values())
    assert rows >= finished
    assert {len(tensor) for tensor in ds.tensors.values()} == {rows}
    expected: dict[str, Callable[[int], Any]] = {
        "number": lambda row: [row],
        "words": lambda row: [f"row {row}"],
        "image": lambda row: np.full((3, 3, 3), row % 250).tolist(),
    }
    assert set(expected) - set(ds.tensors) == dropped
    for name in set(ds.tensors) - emptied:
        for row in range(rows):
            assert ds[name][row].numpy().tolist() == expected[name](row)
    new = {"number": rows, "words": "next", "image": np.zeros((3, 3, 3), np.uint8)}
    ds.append({name: new[name] for name in ds.tensors})
    ds.commit("goes on")
