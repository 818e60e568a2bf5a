"""Transforms on a Ray cluster of two nodes: the same rows as in one thread, whatever is killed."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest

import lakebed
from integration_tests.ray.nodes import Nodes
from lakebed.errors import (
    InvalidInputDataError,
    InvalidOutputDatasetError,
    TransformError,
    WorkerDied,
)
from lakebed.maintenance.verify import verify
from unit_tests.lakebed.transforms import functions

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore:::ray")]

RAY: dict[str, Any] = {"scheduler": "ray", "num_workers": 2, "progressbar": False}


@lakebed.compute
def traced(item: Any, out: Any, folder: str, seconds: float) -> None:
    """One row an item, which takes a while; the processes that do any leave a trace."""
    (Path(folder) / f"process-{os.getpid()}").touch()
    time.sleep(seconds)
    out.append({"a": item, "b": str(os.getppid())})


@lakebed.compute
def from_ten_on(item: Any, out: Any) -> None:
    """No row of the first items."""
    time.sleep(0.01)
    if item >= 10:
        out.append({"a": item, "b": ""})


@lakebed.compute
def written_to(item: Any, out: Any) -> None:
    """Change the item itself, as functions of arrays do."""
    item += 1
    out.append({"a": int(item[0]), "b": "changed"})


def make(path: Path | str) -> lakebed.Dataset:
    ds = lakebed.empty(str(path))
    ds.create_tensor("a")
    ds.create_tensor("b", htype="text")
    return ds


def rows(ds: lakebed.Dataset) -> list[tuple[Any, str]]:
    ds = lakebed.load(ds.path, read_only=True)
    findings = verify(ds.storage, deep=True)
    assert findings.is_sound, findings.damage
    return [(ds.a[i].numpy().item(), ds.b[i].text()) for i in range(len(ds))]


def test_the_same_as_in_one_thread(nodes: Nodes, tmp_path: Path) -> None:
    serial, ray = make(tmp_path / "serial"), make(tmp_path / "ray")
    functions.pair(factor=3).eval(list(range(500)), serial, progressbar=False)
    report = functions.pair(factor=3).eval(list(range(500)), ray, **RAY)
    assert (report.items, report.rows) == (500, 500)
    assert rows(ray) == rows(serial)
    assert list((tmp_path / "ray").rglob("parts")) == []


def test_both_nodes_work_in_order(nodes: Nodes, tmp_path: Path) -> None:
    ds = make(tmp_path / "ds")
    traced(folder=str(tmp_path), seconds=0.005).eval(list(range(600)), ds, **RAY)
    found = rows(ds)
    assert [a for a, _ in found] == list(range(600))
    assert len({node for _, node in found}) == 2


def test_parts_that_are_made_again_stay_in_order(nodes: Nodes, tmp_path: Path) -> None:
    """Tasks that were begun before a tensor had its dtype are done again, while others run."""
    ds = make(tmp_path / "ds")
    from_ten_on().eval(list(range(200)), ds, **{**RAY, "num_workers": 4})
    assert [a for a, _ in rows(ds)] == list(range(10, 200))


def test_a_dataset_in_and_in_place(nodes: Nodes, tmp_path: Path) -> None:
    ds, out = make(tmp_path / "ds"), make(tmp_path / "out")
    ds.extend({"a": np.arange(200), "b": [f"{i}" for i in range(200)]})
    functions.plus_one().eval(ds[50:], out, **RAY)
    assert rows(out) == [(i + 1, f"{i}") for i in range(50, 200)]
    functions.plus_one().eval(ds, **RAY)
    assert rows(ds) == [(i + 1, f"{i}") for i in range(200)]


def test_a_function_may_change_an_array(nodes: Nodes, tmp_path: Path) -> None:
    ds = make(tmp_path / "ds")
    written_to().eval(np.arange(60_000).reshape(6, 10_000), ds, **RAY)
    assert [a for a, _ in rows(ds)] == [1, 10_001, 20_001, 30_001, 40_001, 50_001]


def test_an_item_that_fails(nodes: Nodes, tmp_path: Path) -> None:
    ds = make(tmp_path / "ds")
    with pytest.raises(TransformError, match="index 70") as caught:
        functions.fails_at(bad=70).eval(list(range(100)), ds, **RAY)
    assert (caught.value.index, caught.value.item) == (70, "70")
    assert isinstance(caught.value.__cause__, KeyError)
    assert rows(ds) == []
    with pytest.raises(TransformError) as caught:
        functions.raises_unpicklable().eval([1], ds, **RAY)
    assert "Unpicklable: 1 and 2" in str(caught.value.__cause__)


def test_checkpoints_and_a_run_that_goes_on(nodes: Nodes, tmp_path: Path) -> None:
    ds = make(tmp_path / "ds")
    with pytest.raises(TransformError) as caught:
        functions.fails_at(bad=70).eval(list(range(100)), ds, checkpoint_interval=20, **RAY)
    assert caught.value.checkpoint == 60
    with pytest.warns(UserWarning, match="arguments"):
        report = functions.fails_at(bad=-1).eval(list(range(100)), ds, checkpoint_interval=20, **RAY)
    assert report.resumed_at == 60
    assert [a for a, _ in rows(ds)] == list(range(100))


def test_a_worker_that_dies_once_and_one_that_dies_again(nodes: Nodes, tmp_path: Path) -> None:
    ds = make(tmp_path / "ds")
    functions.dies_at(bad=30, flag=str(tmp_path / "once"), times=1).eval(list(range(60)), ds, **RAY)
    assert [a for a, _ in rows(ds)] == list(range(60))
    with pytest.raises(TransformError) as caught:
        functions.dies_at(bad=30, flag=str(tmp_path / "ever"), times=9).eval(list(range(60)), ds, **RAY)
    assert isinstance(caught.value.__cause__, WorkerDied)
    assert "items" in str(caught.value.__cause__)
    assert len((tmp_path / "ever").read_text()) == 2
    assert len(ds) == 60


def test_a_node_that_is_killed(nodes: Nodes, tmp_path: Path) -> None:
    third = nodes.add()
    ds, killed = make(tmp_path / "ds"), []

    def kill() -> None:
        while len(list(tmp_path.glob("process-*"))) < 3:  # all three nodes are at work
            time.sleep(0.05)
        time.sleep(0.5)
        nodes.kill(third)
        killed.append(third)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    work = traced(folder=str(tmp_path), seconds=0.01)
    work.eval(list(range(2000)), ds, **{**RAY, "num_workers": 3})
    assert killed
    assert [a for a, _ in rows(ds)] == list(range(2000))


def test_a_run_that_is_given_up_ends_its_workers(nodes: Nodes, tmp_path: Path) -> None:
    ds = make(tmp_path / "ds")

    def items() -> Any:
        yield from range(12)
        while not list(tmp_path.glob("process-*")):
            time.sleep(0.05)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        traced(folder=str(tmp_path), seconds=3).eval(items(), ds, **RAY)
    at_work = [int(path.name.partition("-")[2]) for path in tmp_path.glob("process-*")]
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in at_work[-1:]) and time.monotonic() < until:
        time.sleep(0.1)
    assert rows(ds) == []


def test_disks_that_nodes_do_not_share_are_refused(nodes: Nodes, tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    apart.mkdir()
    source, ds = make(apart / "source"), make(apart / "ds")
    source.extend({"a": [1, 2], "b": ["x", "y"]})
    source.flush()
    out = make(tmp_path / "shared")
    try:
        other = nodes.add(hidden=str(apart))
    except RuntimeError as error:
        pytest.skip(f"no mounts of one process: {error}")
    try:
        with pytest.raises(InvalidOutputDatasetError, match=r"1 of 2 other nodes.*do not share the disk"):
            functions.pair().eval([1, 2], ds, **RAY)
        with pytest.raises(InvalidInputDataError, match="1 of 2 other nodes"):
            functions.plus_one().eval(source, out, **RAY)
        functions.pair().eval([1, 2], out, **RAY)  # all see that one
    finally:
        nodes.kill(other)
    assert len(out) == 2
    assert rows(ds) == []


def test_an_object_store(nodes: Nodes) -> None:
    """Nodes read the input and write their parts there, with credentials of their own."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        creds = {
            "endpoint_url": f"http://{host}:{port}",
            "aws_access_key_id": "mine",
            "aws_secret_access_key": "mine alone",
            "aws_region": "us-east-1",
        }
        boto3.client(
            "s3",
            endpoint_url=creds["endpoint_url"],
            aws_access_key_id="mine",
            aws_secret_access_key="mine",
            region_name="us-east-1",
        ).create_bucket(Bucket="lake")
        ds = lakebed.empty("s3://lake/in", creds=creds)
        out = lakebed.empty("s3://lake/out", creds=creds)
        for made in (ds, out):
            made.create_tensor("a")
            made.create_tensor("b", htype="text")
        ds.extend({"a": np.arange(100), "b": [f"{i}" for i in range(100)]})
        functions.plus_one().eval(ds, out, **RAY)
        again = lakebed.load("s3://lake/out", creds=creds, read_only=True)
        assert again.a.numpy().ravel().tolist() == list(range(1, 101))
    finally:
        server.stop()
