"""A Deep Lake 3.9.52 process that opened a dataset before lakebed publishes to it cannot hide what is published.

Its lock keeps lakebed out, lakebed's lock keeps it out. Where it outlives its lock all the same and takes the branch
back, the publish is found when the dataset is opened, and `lakebed repair` appends its rows again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import lakebed
from integration_tests.interop.histories.harness import INTERPRETERS, NOWHERE
from lakebed.cli import main
from lakebed.documents.lock import DatasetLock
from lakebed.errors import DisplacedWarning, LockedException

pytestmark = pytest.mark.interop

Json = Any


class Stale:
    """A process of 3.9.52 that does as it is told."""

    def __init__(self) -> None:
        environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
        line = [str(INTERPRETERS["deeplake"]), str(Path(__file__).with_name("writer.py"))]
        self._process = subprocess.Popen(
            line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, operation: str, *arguments: Json) -> Json:
        """Let it do something; return what it answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([operation, *map(_plain, arguments)]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def do(self, operation: str, *arguments: Json) -> Json:
        """Let it do something that must succeed."""
        found = self.ask(operation, *arguments)
        assert "error" not in found, f"{operation}: {found}"
        return found["done"]

    def end(self) -> None:
        """Let it end, which gives its locks back."""
        self._process.communicate(timeout=60)


def _plain(value: Json) -> Json:
    return str(value) if isinstance(value, Path) else value


@pytest.fixture
def stale() -> Iterator[Stale]:
    """A process of 3.9.52."""
    process = Stale()
    yield process
    process.end()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A dataset of two tensors with three rows, committed."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("number", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.extend({"number": [1, 2, 3], "text": ["a", "b", "c"]})
    ds.commit("first")
    ds.close()
    return tmp_path / "ds"


def rows(path: Path, ref: str = "main") -> dict[str, list[Any]]:
    ds = lakebed.load(f"{path}@{ref}", read_only=True)
    return {"number": ds.number.numpy().ravel().tolist(), "text": ds.text.text()}


def let_locks_run_out(path: Path) -> int:
    """Write all lock files of 3.9.52 anew as they would be 300 s later; return how many there are."""
    locks = list(path.rglob("dataset_lock.lock"))
    for file in locks:
        lock = DatasetLock.from_bytes(file.read_bytes())
        file.write_bytes(DatasetLock(lock.node, time.time() - 1, lock.pid).to_bytes())
    return len(locks)


def repair(path: Path, *options: str) -> str:
    result = CliRunner().invoke(main, ["repair", str(path), *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_its_live_lock_keeps_lakebed_out(path: Path, stale: Stale) -> None:
    """The error names the owner and how old its lock is; readers are not kept out, and later writing works."""
    stale.do("load", path)
    stale.do("append", "number", 4)
    assert rows(path)["number"] == [1, 2, 3, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer = lakebed.load(path)
    with pytest.raises(
        LockedException, match=rf"process {stale.do('pid')} on machine .* last seen \d+ s ago"
    ):
        writer.number.append(5)
    with pytest.raises(LockedException):
        lakebed.load(path, read_only=False)
    stale.end()
    writer = lakebed.load(path)
    writer.number.append(5)
    writer.close()
    assert rows(path)["number"] == [1, 2, 3, 4, 5]


def test_its_lock_does_not_outlive_it_for_long(path: Path, stale: Stale) -> None:
    """Where it was killed, nobody waits until its lock has run out: the process is known to be dead."""
    stale.do("load", path)
    stale._process.kill()
    stale._process.wait()
    assert list(path.rglob("dataset_lock.lock"))
    writer = lakebed.load(path)
    writer.number.append(4)
    writer.close()
    assert rows(path)["number"] == [1, 2, 3, 4]


def test_the_live_lock_of_lakebed_keeps_it_out(path: Path, stale: Stale) -> None:
    """From the first change to the end of the block, through publishes and commits, which change the head."""
    ds = lakebed.load(path)
    with ds:
        ds.number.append(4)
        assert stale.ask("load", path) == {"error": "LockedException"}
        ds.flush()
        assert stale.ask("load", path) == {"error": "LockedException"}
        ds.commit("second")
        assert stale.ask("load", path) == {"error": "LockedException"}
        ds.number.append(5)
        ds.flush()
        assert stale.ask("load", path) == {"error": "LockedException"}
    stale.do("load", path)
    stale.do("append", "number", 6)
    stale.do("close")
    stale.end()
    assert rows(path)["number"] == [1, 2, 3, 4, 5, 6]


def displaced(path: Path) -> str:
    """Open the dataset; return what the warning says."""
    with pytest.warns(DisplacedWarning) as caught:
        lakebed.load(path, read_only=True)
    return str(caught[0].message)


def assert_sound(path: Path, expected: dict[str, list[Any]]) -> None:
    """Nothing is wrong with the dataset any more, and both libraries read the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows(path) == expected
    result = CliRunner().invoke(main, ["verify", "--deep", str(path)])
    assert result.exit_code == 0, result.output
    reader = Stale()
    reader.do("load", path)
    assert reader.do("rows") == expected
    reader.do("append_row", {"number": 100, "text": "later"})
    reader.end()
    assert rows(path) == {"number": [*expected["number"], 100], "text": [*expected["text"], "later"]}


@pytest.mark.parametrize("committed", [False, True], ids=["published", "committed"])
def test_a_publish_that_it_displaced_is_found_and_rebased(path: Path, stale: Stale, committed: bool) -> None:
    """Its rows stay, ours are appended behind them, and nothing is left to be warned of."""
    stale.do("load", path)
    assert let_locks_run_out(path) == 1
    ds = lakebed.load(path)
    ds.extend({"number": [10, 11], "text": ["j", "k"]})
    if committed:
        ds.commit("ours")
        ds.append({"number": 12, "text": "l"})
    ds.close()
    ours: dict[str, list[Any]] = {
        "number": [10, 11, 12][: 2 + committed],
        "text": ["j", "k", "l"][: 2 + committed],
    }
    assert rows(path)["number"] == [1, 2, 3, *ours["number"]]
    stale.do("append_row", {"number": 20, "text": "t"})  # takes the branch back, without an error
    stale.end()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert rows(path)["number"] == [1, 2, 3, 20]
    assert re.search(r"displaced 1 versions .*lakebed repair", displaced(path))
    assert re.search(r"plan: .*main", repair(path, "--plan"))
    assert "displaced" in displaced(path)
    repair(path, "--apply")
    assert_sound(
        path, {"number": [1, 2, 3, 20, *ours["number"]], "text": ["a", "b", "c", "t", *ours["text"]]}
    )
    assert "nothing to repair" in repair(path, "--plan")


def test_two_publishes_and_a_commit_of_its_own(path: Path, stale: Stale) -> None:
    """It may go on for long before anybody looks; all that was displaced comes back, once."""
    stale.do("load", path)
    let_locks_run_out(path)
    for number in (10, 11):
        ds = lakebed.load(path)
        ds.append({"number": number, "text": f"n{number}"})
        ds.close()
    stale.do("append_row", {"number": 20, "text": "t"})
    stale.do("commit", "theirs")
    stale.do("append_row", {"number": 21, "text": "u"})
    stale.end()
    assert "displaced" in displaced(path)
    repair(path, "--apply")
    numbers, texts = [1, 2, 3, 20, 21, 10, 11], ["a", "b", "c", "t", "u", "n10", "n11"]
    ds = lakebed.load(path, read_only=True)
    assert [entry["message"] for entry in ds.commits] == ["theirs", "first"]
    assert_sound(path, {"number": numbers, "text": texts})


def test_lakebed_goes_on_where_nobody_repairs(path: Path, stale: Stale) -> None:
    """A warning stops nobody; what was displaced waits until somebody repairs."""
    stale.do("load", path)
    let_locks_run_out(path)
    ds = lakebed.load(path)
    ds.append({"number": 10, "text": "j"})
    ds.close()
    stale.do("append_row", {"number": 20, "text": "t"})
    stale.end()
    with pytest.warns(DisplacedWarning):
        ds = lakebed.load(path)
    ds.append({"number": 30, "text": "x"})
    ds.commit("on top")
    ds.close()
    repair(path, "--apply")
    assert_sound(path, {"number": [1, 2, 3, 20, 30, 10], "text": ["a", "b", "c", "t", "x", "j"]})


def test_what_cannot_be_appended_again_stays_as_a_branch(path: Path, stale: Stale) -> None:
    """Removed rows and new names are not forced upon the present head; rows are taken back whole or not at all."""
    stale.do("load", path)
    let_locks_run_out(path)
    ds = lakebed.load(path)
    ds.pop(0)
    ds.rename_tensor("text", "words")
    ds.append({"number": 10, "words": "j"})
    ds.close()
    stale.do("append_row", {"number": 20, "text": "t"})
    stale.end()
    repair(path, "--apply")
    ds = lakebed.load(path, read_only=True)
    assert len(ds.number) == len(ds.text) == len(set(ds.number.numpy().ravel().tolist()))
    (kept,) = set(ds.branches) - {"main"}
    ours = lakebed.load(f"{path}@{kept}", read_only=True)
    assert ours.number.numpy().ravel().tolist() == [2, 3, 10]
    assert ours.words.text() == ["b", "c", "j"]
    assert_sound(path, {"number": [1, 2, 3, 20, 10], "text": ["a", "b", "c", "t", "j"]})
