"""A dataset on a store is read through the cache on this machine: once over the network, whoever reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import lakebed
from integration_tests.stores.servers import counting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from integration_tests.stores.servers import Counting, Server

ROWS = 40
IMAGES = [np.random.default_rng(row).integers(0, 255, 100_000 + 1000 * row, np.uint8) for row in range(ROWS)]

READ = """
import json, sys
import lakebed
url, creds = json.loads(sys.argv[1])
ds = lakebed.load(url, creds=creds, read_only=True, local_cache_size=50)
print(sum(int(image.sum()) for image in ds.image.numpy(aslist=True)))
"""


@pytest.fixture
def network(moto: Server) -> Iterator[Counting]:
    with counting(moto) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKEBED_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def url(moto: Server) -> str:
    url = moto.url("cached")
    with lakebed.empty(url, creds=moto.creds) as ds:
        ds.create_tensor("image", dtype="uint8", create_shape_tensor=False, create_id_tensor=False)
        ds.image.extend(IMAGES)
        ds.commit("all")
    return url


def chunk_requests(network: Counting) -> int:
    return sum("/chunks/" in request.path for request in network.requests)


def test_read_once(url: str, moto: Server, network: Counting) -> None:
    """All of it, single samples, in another process too: after the first reading no chunk comes over the network."""
    creds = moto.through(network)

    def load() -> lakebed.Dataset:
        return lakebed.load(url, creds=creds, read_only=True, local_cache_size=50)

    assert [image.tobytes() for image in load().image.numpy(aslist=True)] == [i.tobytes() for i in IMAGES]
    first = chunk_requests(network)
    assert first > 0
    assert [image.tobytes() for image in load().image.numpy(aslist=True)] == [i.tobytes() for i in IMAGES]
    ds = load()
    for row in (3, 30, 17):
        assert ds.image[row].numpy().tobytes() == IMAGES[row].tobytes()
    command = [sys.executable, "-c", READ, json.dumps([url, creds])]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(said) == sum(int(image.sum()) for image in IMAGES)
    assert chunk_requests(network) == first


def test_opening_asks_for_what_changes_only(url: str, moto: Server, network: Counting) -> None:
    """The manifest is here; what the newest version is, only the store knows."""
    creds = moto.through(network)
    for _ in range(2):
        before = len(network.requests)
        lakebed.load(url, creds=creds, read_only=True, local_cache_size=50)
    keys = [request.path.partition("/cached-")[2].partition("/")[2] for request in network.requests[before:]]
    assert "version_control_info.json" in keys
    assert not [key for key in keys if "manifest" in key]


def test_damage_is_read_again(url: str, moto: Server, network: Counting, folder: Path) -> None:
    """Every file of the cache is flipped somewhere: all samples are right."""
    creds = moto.through(network)
    lakebed.load(url, creds=creds, read_only=True, local_cache_size=50).image.numpy(aslist=True)
    files = list(folder.glob("*/*"))
    assert files
    for number, path in enumerate(files):
        data = bytearray(path.read_bytes())
        data[number * 7919 % len(data)] ^= 0x10
        data[-1] ^= 1
        path.write_bytes(data)
    found = lakebed.load(url, creds=creds, read_only=True, local_cache_size=50).image.numpy(aslist=True)
    assert [image.tobytes() for image in found] == [image.tobytes() for image in IMAGES]


def test_dataset_made_again_at_the_same_address(url: str, moto: Server) -> None:
    """Other data, none of the old."""
    lakebed.load(url, creds=moto.creds, read_only=True, local_cache_size=50).image.numpy(aslist=True)
    with lakebed.empty(url, creds=moto.creds, overwrite=True, local_cache_size=50) as ds:
        ds.create_tensor("image", dtype="uint8", create_shape_tensor=False, create_id_tensor=False)
        ds.image.extend(IMAGES[::-1])
        ds.commit("all")
    found = lakebed.load(url, creds=moto.creds, read_only=True, local_cache_size=50).image.numpy(aslist=True)
    assert [image.tobytes() for image in found] == [image.tobytes() for image in IMAGES[::-1]]
