"""Processes that publish at the same time, and answers that get lost: one wins, nobody's rows are lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from lakebed.errors import LockedException, LockedWarning
from lakebed.storage.base import Storage
from lakebed.storage.url import open_storage, parse
from lakebed.versions.gc.collect import collect
from lakebed.versions.locks.leases import renew_all
from lakebed.versions.opening import read_tree
from lakebed.versions.updates import fences_of
from unit_tests.effort import PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
RACERS = 6


class Process:
    """A racer in a process of its own."""

    def __init__(self, url: str, number: int, server: Server) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "integration_tests.stores.racer", url, str(number)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [*command, json.dumps(server.creds)], cwd=ROOT, stdin=pipe, stdout=pipe, text=True
        )

    def order(self, text: str) -> None:
        """Send an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def answer(self) -> object:
        """Wait for the answer to an order."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process died"
        return json.loads(line)

    def close(self) -> int:
        """Let the process end, and return its status."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            return process.wait(PATIENCE)


@pytest.fixture(
    params=[
        "gcs",
        pytest.param("ceph", marks=pytest.mark.stores),
        pytest.param("azurite", marks=pytest.mark.stores),
    ]
)
def strict(request: pytest.FixtureRequest, running_stores: Callable[[str], Server]) -> Server:
    """A store that looks at a condition and writes in one step; moto does one after the other."""
    return running_stores(request.param)


@pytest.fixture
def racers(strict: Server) -> Iterator[tuple[str, list[Process]]]:
    """A dataset on a store, and processes that wait for orders."""
    url = strict.url("race")
    ds = lakebed.empty(url, creds=strict.creds)
    with ds:
        ds.create_tensor("writer", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
        ds.create_tensor("row", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
    with ExitStack() as stack:
        found = [Process(url, number, strict) for number in range(RACERS)]
        for process in found:
            stack.callback(process.close)
        yield url, found


def test_six_processes_publish_at_the_same_time(strict: Server, racers: tuple[str, list[Process]]) -> None:
    """Without leases the conditional put alone decides, every time; with them all take turns, and no row is lost."""
    _race(open_storage(parse(racers[0], creds=strict.creds)), racers[1])
    _take_turns(strict, *racers)


def _race(storage: Storage, processes: list[Process]) -> None:
    """Of publishers that build on the same tree one wins."""
    for _ in range(3):
        for process in processes:
            process.order("open")
        heads = {process.answer() for process in processes}
        assert len(heads) == 1
        for process in processes:
            process.order("publish")
        won = [found for process in processes if (found := process.answer()) is not None]
        assert len(won) == 1
        assert read_tree(storage).branches["main"] == won[0]


def _take_turns(store: Server, url: str, processes: list[Process]) -> None:
    """Each waits for the others' leases; the last row of each is published when its interpreter ends."""
    for process in processes:
        process.order("rows 1")
    for process in processes:
        process.answer()
    for process in processes:
        process.order("exit")
    for process in processes:
        process.answer()
        assert process.close() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", LockedWarning)
        ds = lakebed.load(url, creds=store.creds)
    found = list(zip(ds.writer.numpy().ravel().tolist(), ds.row.numpy().ravel().tolist(), strict=True))
    assert sorted(found) == [(writer, row) for writer in range(RACERS) for row in range(2)]
    for writer in range(RACERS):
        assert [row for w, row in found if w == writer] == [0, 1]
    storage = open_storage(parse(url, creds=store.creds))
    assert fences_of(read_tree(storage)) == {}, "nobody had to take over from a writer that was still there"
    collect(storage)
    assert len(lakebed.load(url, creds=store.creds, read_only=True)) == len(found)


@pytest.mark.parametrize("what", ["version_control_info.json", "dataset_lock.lock"])
def test_a_publish_whose_answer_is_lost_is_ours(moto: Server, what: str) -> None:
    """The store did it and the connection broke: reading again tells, and the rows are there once."""
    with servers.faults(moto) as network:
        url, creds = moto.url("lost"), moto.through(network)
        ds = lakebed.empty(url, creds=creds)
        with ds:
            ds.create_tensor("x", dtype="int64")
            ds.x.append(1)
        with ds:
            ds.x.append(2)
            path = url.partition("://")[2]
            only = f"PUT /{path}/{what}" if what.startswith("version") else f"/{what}"
            network.set(lose_answer=True, only=only, times=1)
            ds.flush()
            assert network.hits == 1
            network.set()
            ds.x.append(3)
        assert lakebed.load(url, creds=creds).x.numpy().ravel().tolist() == [1, 2, 3]
        assert ds.x.numpy().ravel().tolist() == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_reads_and_writes_and_does_not_hang(moto: Server) -> None:
    """The thread that renews leases, and the client's threads, are its parent's: it has none of them, and its own."""
    url = moto.url("fork")
    ds = lakebed.empty(url, creds=moto.creds)
    with ds:
        ds.create_tensor("x", dtype="int64")
        ds.x.extend([1, 2, 3])
    ds.commit("one")
    ds.checkout("side", create=True)
    ds.checkout("main")
    with ds:
        ds.x.append(4)
        ds.flush()
        pid = os.fork()
        if pid == 0:
            signal.alarm(int(PATIENCE))  # the default is to end the process
            status = 1
            try:
                status = _in_child(ds, url, moto)
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        ds.x.append(5)
    assert lakebed.load(url, creds=moto.creds).x.numpy().ravel().tolist() == [1, 2, 3, 4, 5]
    assert lakebed.load(f"{url}@side", creds=moto.creds).x.numpy().ravel().tolist() == [1, 2, 3, 7]


def _in_child(ds: lakebed.Dataset, url: str, moto: Server) -> int:
    """Read what the parent has open, be refused as a writer of its branch, write on another; return the status."""
    if ds.x.numpy().ravel().tolist() != [1, 2, 3, 4]:
        return 2
    try:
        ds.x.append(9)
    except LockedException:
        side = lakebed.load(f"{url}@side", creds=moto.creds)
        with side:
            side.x.append(7)
            renew_all()
        return 0 if len(side.x) == 4 else 3
    return 4
