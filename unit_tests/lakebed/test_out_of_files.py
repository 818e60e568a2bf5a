"""A program that has no file descriptors left hears so from the call that loads what it is the first to need."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

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
