"""Whole datasets with mutated files: opening and reading everything gives values or our errors, quickly and in bounds.

Here are no checksums to hide behind: the manifests are taken away, as in datasets that Deep Lake 3.x wrote. The suite
makes some eighty mutations; `make soak` LAKEBED_FUZZ_DATASETS (20,000), for LAKEBED_FUZZ_SECONDS of CPU at most.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import LakebedError
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from unit_tests.effort import EFFORT
from unit_tests.lakebed.fuzz.datasets import KINDS, everything, files, replace, write
from unit_tests.lakebed.fuzz.mutate import mutate_bytes, mutate_json

pytestmark = pytest.mark.filterwarnings("ignore")  # image libraries warn of what they then refuse

ROUNDS = int(os.environ.get("LAKEBED_FUZZ_DATASETS", EFFORT.dataset_mutations))
SECONDS = float(os.environ.get("LAKEBED_FUZZ_SECONDS", EFFORT.fuzz_seconds))
MOST_SECONDS = 2.0
MOST_MEMORY = 64 << 20


@pytest.fixture(scope="module", params=[*KINDS, "f02", "f06", "f07", "f09", "f10", "f12", "f16"])
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, golden: Path) -> Path:
    """A dataset without manifests and checksums."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(golden)
        path = write(request.param, tmp_path_factory.mktemp("fuzzed") / "ds", golden)
    shutil.rmtree(path / ".lakebed", ignore_errors=True)
    tree = json.loads((path / "version_control_info.json").read_bytes())
    tree.pop("lakebed", None)
    replace(path / "version_control_info.json", json.dumps(tree).encode())
    return path


LOOKS: list[Callable[[Any], object]] = [
    lambda tensor: tensor.numpy(aslist=True),
    lambda tensor: tensor.shapes(),
    lambda tensor: tensor[0].numpy(),
    lambda tensor: tensor.data(aslist=True),
    lambda tensor: tensor[0].data(),
    lambda tensor: tensor[0].sample_info,
    lambda tensor: (
        tensor.shape,
        tensor.shape_interval,
        tensor.htype,
        tensor.dtype,
        tensor.ndim,
        tensor.num_samples,
    ),
    lambda tensor: tensor[0].tobytes(),
    str,
]
"""Ways to look at a tensor."""


def read_columns(path: Path) -> None:
    """Look at a dataset as users do, which takes other ways than reading sample by sample."""
    ds = lakebed.load(path, read_only=True)
    for name in ds.tensors:
        for look in LOOKS:
            try:
                look(ds[name])
            except LakebedError:
                continue
            except (IndexError, NotImplementedError):
                # The first row of a tensor that turned out empty is out of range; sequences have no bytes of their own.
                continue
    with contextlib.redirect_stdout(io.StringIO()):
        ds.summary()
    for batch in ds.batches(7):
        assert batch.keys() <= ds.tensors.keys()


def attempt(path: Path, rng: random.Random, chosen: list[Path]) -> bool:
    """Mutate one to three files, read in every way, put the files back; return whether all could be read."""
    damaged = {}
    for file in rng.sample(chosen, min(len(chosen), rng.choice((1, 1, 2, 3)))):
        data, donor = file.read_bytes(), rng.choice(chosen).read_bytes()[:100_000]
        damaged[file] = data
        change = mutate_json if file.suffix == ".json" and rng.random() < 0.6 else mutate_bytes
        replace(file, change(rng, data, [donor if rng.random() < 0.3 else data]))
    accepted = 0
    try:
        for read in (everything, read_columns, lambda path: verify(LocalStorage(path), deep=True)):
            tracemalloc.reset_peak()
            before, start = tracemalloc.get_traced_memory()[0], time.process_time()
            try:
                read(path)
                accepted += 1
            except LakebedError:
                pass
            took, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1] - before
            assert took < MOST_SECONDS, f"{took:.1f} s"
            size = sum(file.stat().st_size for file in chosen)
            assert peak < MOST_MEMORY + 2 * size, f"{peak:,} bytes"
    except BaseException:
        keep = path.with_name("failed")
        shutil.rmtree(keep, ignore_errors=True)
        shutil.copytree(path, keep)
        raise
    finally:
        for file, data in damaged.items():
            replace(file, data)
    return accepted == 3


@pytest.fixture
def traced() -> Iterator[None]:
    """Let tracemalloc see what is allocated."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def fuzz(path: Path, rounds: int, seconds: float, seed: str) -> None:
    chosen = list(files(path))
    end = time.process_time() + seconds
    for number in range(rounds):
        attempt(path, random.Random(f"{seed} {number}"), chosen)
        if time.process_time() > end:
            break


@pytest.mark.usefixtures("traced")
def test_mutated_files(bare: Path, request: pytest.FixtureRequest) -> None:
    """A few mutations of each kind of dataset; in a soak as many as there is time for."""
    fuzz(bare, ROUNDS, SECONDS, request.node.callspec.params["bare"])
