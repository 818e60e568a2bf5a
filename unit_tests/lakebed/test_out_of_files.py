"""Programs with few file descriptors: reading needs none for each chunk, and other calls say which ones they lack."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lakebed
from unit_tests.forks import Forks

STARVED = """
ds = lakebed.load({path!r})
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for descriptor in taken[:{left}]:
    os.close(descriptor)
try:
    {call}
    told = None
except lakebed.errors.StorageError as error:
    told = str(error)
for descriptor in taken[{left}:]:
    os.close(descriptor)
if told is not None:
    {call}
ds.flush()
found = lakebed.load({path!r}).x.numpy().ravel().tolist()
with open("found", "w") as file:
    json.dump([told, found], file)
"""
CALLS = {
    "append": ("ds.x.append(3)", [1, 2, 3]),
    "row": ("ds.append({'x': 3})", [1, 2, 3]),
    "extend": ("ds.x.extend([3, 4])", [1, 2, 3, 4]),
    "update": ("ds.x[0] = 5", [5, 2]),
    "commit": ("ds.commit(allow_empty=True)", [1, 2]),
    "tensor": ("ds.create_tensor('y', exist_ok=True)", [1, 2]),
}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """Processes that have loaded nothing else."""
    with Forks("import resource\nimport lakebed") as found:
        yield found


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("left", [0, 2])
def test_the_call_says_so_and_works_once_there_are_some(
    tmp_path: Path, forks: Forks, name: str, left: int
) -> None:
    path = str(tmp_path / "ds")
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="int64")
    ds.x.extend([1, 2])
    ds.commit()
    call, values = CALLS[name]

    assert forks.run(STARVED.format(path=path, left=left, call=call), tmp_path, {}) is None

    told, found = json.loads((tmp_path / "found").read_text())
    # How many descriptors a call takes depends on what the environment has loaded: with two left it may succeed.
    assert told is not None or left > 0
    if told is not None:
        assert "Too many open files" in told
        assert "raise the limit" in told
    assert left > 0 or "is the first to need" in told
    assert found == values


FEW = """
import os, resource, sys
import lakebed
from lakebed.reading import fetch
fetch.RANGES_ABOVE = 1000  # all chunks count as large
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
path, other = {paths!r}
for way in (
    lambda ds: ds.even.numpy(),
    lambda ds: ds.even[::2].numpy(),
    lambda ds: ds.uneven.numpy(aslist=True),
    lambda ds: ds.images.numpy(),
    lambda ds: [(row.even.numpy(), row.images.numpy()) for row in ds],
    lambda ds: list(ds.batches(len(ds))),
    lambda ds: ds.to_arrow(),
    lambda ds: ds.query("select * where any(even == 3) or any(images == 3)"),
    lambda ds: list(ds.dataloader().batch(32).shuffle().numpy()),
    lambda ds: ds.export("parquet", other),
    lambda ds: ds.deepcopy(other + "-deep"),
    lambda ds: ds[::2].copy(other + "-copy"),
    lambda ds: lakebed.verify(path),
):
    way(lakebed.load(path, read_only=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_reading_needs_no_descriptor_for_each_chunk(tmp_path: Path, kind: str) -> None:
    """A column may have more chunks than a process may have open files, whichever way it is read."""
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("even", dtype="int64", chunk_compression=None, max_chunk_size=4096)
    ds.create_tensor("uneven", dtype="uint8", chunk_compression=None, max_chunk_size=4096)
    ds.create_tensor("images", htype="image", sample_compression="png", max_chunk_size=4096)
    pictures = np.random.default_rng(0).integers(0, 256, (100, 36, 36, 3), dtype=np.uint8)
    ds.even.extend(np.arange(100 * 500).reshape(100, 500))
    ds.uneven.extend([np.zeros(4000 + i, np.uint8) for i in range(100)])
    ds.images.extend(pictures)
    ds.commit()
    path = str(tmp_path / "ds")
    if kind == "archive":
        path += ".lake"
        ds.pack(path)

    code = FEW.format(paths=(path, str(tmp_path / "other")))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
