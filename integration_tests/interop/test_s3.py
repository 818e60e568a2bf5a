"""On S3: Deep Lake 3.9.52 reads and changes what lakebed wrote there, and lakebed sees whatever it did."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lakebed
from integration_tests.interop.datasets.harness import INTERPRETERS, NOWHERE, run
from integration_tests.interop.datasets.kinds import Kind
from integration_tests.interop.datasets.program import Program, covering_programs, samples
from integration_tests.interop.datasets.test_datasets import complaints, kinds
from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from lakebed.documents.lock import DatasetLock
from lakebed.errors import LockedException, LockedWarning
from lakebed.runtime import clock
from lakebed.storage.url import open_storage, parse
from lakebed.versions.locks.marker import lock_key, read_lock
from lakebed.versions.opening import read_tree

__all__ = ["kinds"]

pytestmark = pytest.mark.interop

SIZE = 40
"""Kinds of tensors in one dataset."""


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    """S3."""
    with servers.moto() as server:
        yield server


def test_every_kind_of_sample_is_read_from_s3(tmp_path: Path, kinds: list[Kind], s3: Server) -> None:
    """3.9.52 guesses there how long the header of a chunk is, from what the metadata says (FORMAT 5.5)."""
    random, programs = np.random.default_rng(7), []
    for start in range(0, len(kinds), SIZE):
        program = Program(f"kinds {start} to {start + SIZE}")
        program.turn("lakebed")
        for number, kind in enumerate(kinds[start : start + SIZE]):
            program.create(f"t{number}", kind)
            # Where nothing but None is stored, 3.9.52 gives up, on disk as well as here.
            program.extend(f"t{number}", [*samples(kind, random, 3, nones=0.3), kind.make(random)])
        programs.append(program)
    found = complaints(run(programs, tmp_path, s3.url("kinds"), s3.environment))
    assert not found, found


def test_both_write_on_s3_in_turn(tmp_path: Path, kinds: list[Kind], s3: Server) -> None:
    """Lakebed makes the dataset; 3.9.52 appends, updates, pops and commits there; lakebed goes on."""
    some = [kinds[number] for number in range(0, len(kinds), 60)]
    trials = run(list(covering_programs(some, "lakebed")), tmp_path, s3.url("turns"), s3.environment)
    found = complaints(trials) or "\n\n".join(trial.given_up for trial in trials if trial.given_up)
    assert not found, found


class Place:
    """A dataset on S3 with three numbers, and 3.9.52 for a visit."""

    def __init__(self, server: Server) -> None:
        self.url = server.url("visited")
        self.creds = server.creds
        self._environment = {
            **os.environ,
            **server.environment,
            "BUGGER_OFF": "true",
            "https_proxy": NOWHERE,
            "HTTPS_PROXY": NOWHERE,
        }
        ds = lakebed.empty(self.url, creds=self.creds)
        with ds:
            ds.create_tensor("x", dtype="int64")
            ds.x.extend([1, 2, 3])
        self.storage = open_storage(parse(self.url, creds=self.creds))

    def visit(self, code: str) -> subprocess.Popen[str]:
        """Let 3.9.52 open it for writing and do something."""
        start = """
        import os, sys, deeplake
        ds = deeplake.load(sys.argv[1], read_only=False, verbose=False)
        """
        program = textwrap.dedent(start) + textwrap.dedent(code)
        command = [str(INTERPRETERS["deeplake"]), "-W", "ignore", "-c", program, self.url]
        return subprocess.Popen(
            command, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def done(self, code: str) -> int:
        """Let it do something, and return its status."""
        process = self.visit(code)
        process.communicate()
        return process.returncode

    def load(self, ref: str = "", **options: bool) -> lakebed.Dataset:
        """Open it with lakebed."""
        return lakebed.load(self.url + ref, creds=self.creds, **options)

    def head(self) -> str:
        """Id of the head of main."""
        return read_tree(self.storage).branches["main"]


@pytest.fixture
def place(s3: Server) -> Place:
    """A dataset of its own for each test."""
    return Place(s3)


CHANGES = {
    "append": ("ds.x.append(4)", [1, 2, 3, 4]),
    "append a row": ("ds.append({'x': 4})", [1, 2, 3, 4]),
    "update": ("ds.x[1] = 9", [1, 9, 3]),
    "pop": ("ds.x.pop(0)", [2, 3]),
    "commit": ("ds.x.append(4); ds.commit('theirs')", [1, 2, 3, 4]),
}


@pytest.mark.parametrize(
    ("what", "ends"),
    [
        *(("append", ends) for ends in ("properly", "killed", "expired")),
        *(("append a row", "properly"), ("commit", "properly")),
        *(("update", "killed"), ("pop", "killed")),
    ],
)
def test_what_3_9_52_did_in_between_is_seen(place: Place, what: str, ends: str) -> None:
    """Whatever it leaves of its lock, and whether or not the version file tells that it was there."""
    code, expected = CHANGES[what]
    open_before = place.load()
    status = place.done(code if ends == "properly" else f"{code}; ds.flush(); os._exit(7)")
    assert status == (0 if ends == "properly" else 7)
    if ends == "expired":
        lock = read_lock(place.storage, place.head()).lock
        assert lock is not None
        stale = DatasetLock(lock.node, clock.now() - 1, lock.pid)
        place.storage.put(lock_key(place.head()), stale.to_bytes())
    assert read_lock(place.storage, place.head()).digest == ""
    assert place.load(read_only=True).x.numpy().ravel().tolist() == expected
    commit = open_before.commit("what is there now", allow_empty=True)
    assert open_before.x.numpy().ravel().tolist() == expected
    assert place.load(f"@{commit}").x.numpy().ravel().tolist() == expected
    open_before.x.append(5)
    open_before.flush()
    assert read_lock(place.storage, place.head()).digest != ""
    assert place.load().x.numpy().ravel().tolist() == [*expected, 5]
    assert place.done(f"assert ds.x.numpy().ravel().tolist() == {[*expected, 5]}") == 0


@pytest.mark.parametrize(
    ("what", "options"),
    [*((what, "") for what in (*CHANGES, "info", "clear")), ("update", ", lock_enabled=False")],
)
@pytest.mark.parametrize("ends", ["properly", "killed"])
def test_what_3_9_52_did_to_a_copied_dataset_is_seen(
    s3: Server, tmp_path: Path, what: str, options: str, ends: str
) -> None:
    """Its head has no lock file before, nor afterwards: the list of its files tells that 3.9.52 was there."""
    code, expected = {**CHANGES, "info": ("ds.x.info['a'] = 1", [1, 2, 3]), "clear": ("ds.x.clear()", [])}[
        what
    ]
    place = Place(s3)
    local = lakebed.empty(tmp_path / "d")
    with local:
        local.create_tensor("x", dtype="int64")
        local.x.extend([1, 2, 3])
    local.close()
    place.url = place.url.replace("visited", "copied")
    servers.copy_folder(s3, tmp_path / "d", place.url)
    place.storage = open_storage(parse(place.url, creds=place.creds))
    assert not read_lock(place.storage, place.head()).data
    assert place.load(read_only=True).x.numpy().ravel().tolist() == [1, 2, 3]
    if options:
        code = f"ds = deeplake.load(sys.argv[1], read_only=False, verbose=False{options})\n{code}"
    assert place.done(code if ends == "properly" else f"{code}; ds.flush(); os._exit(7)") in (0, 7)
    if ends == "killed" and read_lock(place.storage, place.head()).data:
        place.storage.delete(lock_key(place.head()))  # as whoever takes it over does, at the end
    ds = place.load(read_only=True)
    assert ds.x.numpy().ravel().tolist() == expected
    assert dict(ds.x.info) == ({"a": 1} if what == "info" else {})


def test_each_keeps_the_other_out_while_it_writes(place: Place) -> None:
    """A longer lock file means the same to 3.9.52 as its own; ours goes by its, and names it."""
    with place.load() as ds:
        ds.x.append(4)
        assert place.done("") != 0
    assert place.done("") == 0
    visitor = place.visit("print('open', flush=True); sys.stdin.readline()")
    assert visitor.stdout is not None
    assert visitor.stdout.readline() == "open\n"
    with pytest.warns(LockedWarning, match=f"process {visitor.pid} "):
        ds = place.load()
    with pytest.raises(LockedException, match=f"process {visitor.pid} "):
        ds.x.append(5)
    visitor.communicate("\n")
    ds.x.append(5)
    ds.flush()
    assert place.load().x.numpy().ravel().tolist() == [1, 2, 3, 4, 5]


def test_a_reader_of_3_9_52_leaves_no_trace(place: Place) -> None:
    """The manifest goes on to count after it."""
    code = "import sys, deeplake; print(deeplake.load(sys.argv[1], read_only=True, verbose=False).x.numpy().sum())"
    command = [str(INTERPRETERS["deeplake"]), "-W", "ignore", "-c", code, place.url]
    found = subprocess.run(command, env=place._environment, capture_output=True, text=True, check=True)
    assert found.stdout.split()[-1] == "6"
    assert read_lock(place.storage, place.head()).digest != ""
