"""Links of one tensor into several stores: two accounts of S3, a web server, files; read, checked, made into data."""

from __future__ import annotations

import io
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from PIL import Image

import lakebed
from integration_tests.stores.servers import Server, Web, counting, faults, moto, web
from lakebed import config
from lakebed.codecs.video import Video
from lakebed.errors import (
    BadLinkError,
    GetDataFromLinkError,
    LinkCredentialsError,
    LinkForbiddenError,
    LinkMissingError,
    LinkUnavailableError,
    SampleAppendError,
)
from lakebed.links import policy
from lakebed.storage.url import Location, open_storage
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.codecs.test_remote_video import movie

COUNT = 12

_ds: lakebed.Dataset


def picture(number: int) -> np.ndarray:
    return (np.arange(60 * 70 * 3).reshape(60, 70, 3) * (number + 1) % 251).astype(np.uint8)


def png(number: int) -> bytes:
    target = io.BytesIO()
    Image.fromarray(picture(number)).save(target, "png")
    return target.getvalue()


def put(store: Server, bucket: str, name: str, data: bytes) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        region_name="us-east-1",
        aws_access_key_id=store.creds["aws_access_key_id"],
        aws_secret_access_key=store.creds["aws_secret_access_key"],
    )
    client.put_object(Bucket=bucket, Key=name, Body=data)
    client.close()


@pytest.fixture(scope="module")
def other() -> Iterator[Server]:
    """Another account: its buckets are not those of the first."""
    with moto() as server:
        yield server


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    folder = tmp_path_factory.mktemp("pages")
    for number in range(COUNT):
        (folder / f"{number}.png").write_bytes(png(number))
    with web(folder) as server:
        yield server


@pytest.fixture(scope="module")
def filled(moto: Server, other: Server) -> None:
    """Pictures in buckets of both accounts."""
    for number in range(COUNT):
        put(moto, moto.bucket, f"photos/{number}.png", png(number))
        put(other, other.bucket, f"{number}.png", png(number))


@pytest.fixture
def mixed(
    moto: Server,
    other: Server,
    pages: Web,
    filled: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> lakebed.Dataset:
    """A tensor whose rows lead to four places in turn."""
    monkeypatch.setattr(config, "LINK_HOSTS", ("127.0.0.1",))
    monkeypatch.setattr(config, "LINK_ROOTS", (str(tmp_path),))
    for number in range(COUNT):
        (tmp_path / f"{number}.png").write_bytes(png(number))
    ds = lakebed.empty(tmp_path / "ds")
    with ds:
        for key, store in (("ONE", moto), ("TWO", other)):
            ds.add_creds_key(key)
            ds.populate_creds(key, store.creds)
        places = [
            lambda n: lakebed.link(f"s3://{moto.bucket}/photos/{n}.png", "ONE"),
            lambda n: lakebed.link(f"s3://{other.bucket}/{n}.png", "TWO"),
            lambda n: lakebed.link(pages.url(f"{n}.png")),
            lambda n: lakebed.link(tmp_path / f"{n}.png"),
        ]
        photo = ds.create_tensor("photo", htype="link[image]", sample_compression="png")
        photo.extend([places[number % 4](number) for number in range(COUNT)])
    return ds


def opened(
    ds: lakebed.Dataset, *stores: tuple[str, Server], monkeypatch: pytest.MonkeyPatch
) -> lakebed.Dataset:
    """The dataset as another process opens it: nothing that was linked here is remembered."""
    monkeypatch.setattr(policy, "_MEMORY", policy._Memory())
    again = lakebed.load(ds.path)
    for key, store in stores:
        again.populate_creds(key, store.creds)
    return again


def test_one_tensor_leads_to_four_places(
    mixed: lakebed.Dataset, moto: Server, other: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked when appended, read at once or one by one, with the credentials of each."""
    assert mixed.photo.shape == (COUNT, 60, 70, 3)
    ds = opened(mixed, ("ONE", moto), ("TWO", other), monkeypatch=monkeypatch)
    assert np.array_equal(ds.photo.numpy(), np.stack([picture(n) for n in range(COUNT)]))
    assert [ds.photo[row].creds_key() for row in range(4)] == ["ONE", "TWO", None, None]
    assert ds.photo[1].path().tolist() == [f"s3://{other.bucket}/1.png"]
    assert ds.photo[4].tobytes() == png(4)
    for row, sample in enumerate(ds.photo):
        assert np.array_equal(sample.numpy(), picture(row))
    ds.photo[0] = lakebed.link(f"s3://{other.bucket}/5.png", "TWO")
    assert np.array_equal(ds.photo[0].numpy(), picture(5))


def test_why_a_link_of_a_store_fails(
    mixed: lakebed.Dataset, moto: Server, other: Server, pages: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing there; no credentials; not allowed; nobody answers: each an error of its own that names row and place."""
    ds = opened(mixed, ("ONE", moto), monkeypatch=monkeypatch)
    with pytest.raises(LinkCredentialsError, match="TWO") as caught:
        ds.photo[1].numpy()
    assert (caught.value.tensor, caught.value.row) == ("photo", 1)
    with pytest.raises(SampleAppendError) as refused:
        ds.photo.append(lakebed.link(f"s3://{moto.bucket}/none.png", "ONE"))
    assert isinstance(refused.value.__cause__, BadLinkError)
    assert isinstance(refused.value.__cause__.__cause__, LinkMissingError)
    monkeypatch.setattr(config, "LINK_HOSTS", ())
    with pytest.raises(LinkForbiddenError):
        ds.photo[2].numpy()
    ds.populate_creds("TWO", {**other.creds, "endpoint_url": "http://127.0.0.1:1"})
    monkeypatch.setattr(config, "RETRY_SECONDS", 1.0)
    with pytest.raises(LinkUnavailableError):
        ds.photo[1].numpy()


def test_links_into_every_store(store: Server, tmp_path: Path) -> None:
    """Read, in part and as a whole, with the credentials that a name stands for."""
    scheme, _, path = store.url("files").partition("://")
    film = movie("mp4", "mpeg4", 0) + (8_000_000).to_bytes(4, "big") + b"free" + bytes(7_999_992)
    files = open_storage(Location(scheme, path, None, store.creds))
    files.put("a b/picture.png", png(3))
    files.put("film.mp4", film)
    files.put("empty.png", b"")
    ds = lakebed.empty(tmp_path / "ds")
    ds.add_creds_key("K")
    ds.populate_creds("K", store.creds)
    photo = ds.create_tensor("photo", htype="link[image]", sample_compression="png")
    photo.append(lakebed.link(f"{scheme}://{path}/a b/picture.png", "K"))
    assert np.array_equal(photo[0].numpy(), picture(3))
    for name, kind in (("none.png", LinkMissingError), ("empty.png", GetDataFromLinkError)):
        with pytest.raises(SampleAppendError) as caught:
            photo.append(lakebed.link(f"{scheme}://{path}/{name}", "K"))
        assert type(caught.value.__cause__.__cause__) is kind  # type: ignore[union-attr]
    films = ds.create_tensor("film", htype="link[video]", sample_compression="mp4")
    films.append(lakebed.link(f"{scheme}://{path}/film.mp4", "K"))
    assert np.array_equal(films[0, 60:63].numpy(), Video("mp4").part(film, slice(60, 63)))
    assert films[0].tobytes() == film


def test_wrong_keys_are_told_from_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a store that checks keys."""
    with moto(checks_keys=True) as store:
        ds = lakebed.empty(tmp_path / "ds")
        ds.add_creds_key("K")
        ds.populate_creds("K", {**store.creds, "aws_access_key_id": "nobody"})
        photo = ds.create_tensor("photo", htype="link[image]", sample_compression="png", verify=False)
        photo.append(lakebed.link("s3://bucket/a.png", "K"))
        with pytest.raises(LinkCredentialsError, match="row 0"):
            ds.photo[0].numpy()


def test_workers_that_are_forked_follow_links_too(
    mixed: lakebed.Dataset, moto: Server, other: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After their parent has done so: connections and threads are their own."""
    ds = opened(mixed, ("ONE", moto), ("TWO", other), monkeypatch=monkeypatch)
    assert ds.photo[0].numpy().shape == (60, 70, 3)
    with multiprocessing.get_context("fork").Pool(2, initializer=_enter, initargs=(ds,)) as pool:
        sums = pool.map_async(_sum, range(COUNT)).get(timeout=PATIENCE)
    assert sums == [int(picture(n).sum()) for n in range(COUNT)]


def _enter(ds: lakebed.Dataset) -> None:
    global _ds  # noqa: PLW0603 - what a worker works with
    _ds = ds


def _sum(row: int) -> int:
    return int(_ds.photo[row].numpy().sum())


def test_links_become_data(
    mixed: lakebed.Dataset, moto: Server, other: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another store, byte for byte."""
    ds = opened(mixed, ("ONE", moto), ("TWO", other), monkeypatch=monkeypatch)
    dest = other.url("copy")
    assert lakebed.materialize(ds, dest, progressbar=False, dest_creds=other.creds) == []
    copy = lakebed.load(dest, creds=other.creds, read_only=True)
    assert [copy.photo[row].tobytes() for row in range(COUNT)] == [png(row) for row in range(COUNT)]
    assert copy.photo[3].sample_info["format"] == "png"


def test_a_scene_of_a_film_costs_a_scene(moto: Server, tmp_path: Path) -> None:
    """Of a film in a bucket: bytes as they went over the network."""
    film = movie("mp4", "mpeg4", 0) + (2_000_000).to_bytes(4, "big") + b"free" + bytes(1_999_992)
    put(moto, moto.bucket, "film.mp4", film)
    with counting(moto) as proxy:
        ds = lakebed.empty(tmp_path / "ds")
        ds.add_creds_key("K")
        ds.populate_creds("K", moto.through(proxy))
        films = ds.create_tensor("film", htype="link[video]", sample_compression="mp4", verify=False)
        films.append(lakebed.link(f"s3://{moto.bucket}/film.mp4", "K"))
        whole = films[0].numpy()
        before = len(proxy.requests)
        assert np.array_equal(films[0, 60:70].numpy(), whole[60:70])
        asked = proxy.requests[before:]
    assert all(request.method == "GET" for request in asked)
    assert sum(request.bytes for request in asked) < len(film) // 3


def test_waiting_is_shared(pages: Web, tmp_path: Path) -> None:
    """50 ms away: many links are looked at together, not one after another."""
    with faults(pages) as network, counting(network) as book:
        ds = lakebed.empty(tmp_path / "ds")
        photo = ds.create_tensor("photo", htype="link[image]", sample_compression="png")
        links = [lakebed.link(f"{book.endpoint}/{n % COUNT}.png?{n}") for n in range(192)]
        photo.append(links[0])
        network.set(latency=0.05)
        book.clear()
        photo.extend(links)
        seen = book.requests
    at_once = [sum(r.began <= request.began < r.ended for r in seen) for request in seen]
    assert len(seen) >= 192
    assert max(at_once) >= 8


_MATERIALIZE = """
import sys
import lakebed
from lakebed.copying import materialize, resolve_links

lakebed.allow_links("127.0.0.1")
materialize._PUBLISH_BYTES = resolve_links._BATCH_BYTES = 4_000
print("begun", flush=True)
lakebed.materialize(sys.argv[1], sys.argv[2], progressbar=False)
"""


def test_a_killed_process_is_gone_on_from(pages: Web, tmp_path: Path) -> None:
    """SIGKILL in the middle: what was published is not fetched again, and all of it is there in the end."""
    count = 400
    with counting(pages) as proxy:
        ds = lakebed.empty(tmp_path / "ds")
        with ds:
            settings: dict[str, Any] = {"sample_compression": "png", "verify": False}
            photo = ds.create_tensor("photo", htype="link[image]", **settings)
            photo.extend([lakebed.link(f"{proxy.endpoint}/{n % COUNT}.png?{n}") for n in range(count)])
        command = [sys.executable, "-c", _MATERIALIZE, ds.path, str(tmp_path / "copy")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            while len(proxy.requests) < count // 2:
                time.sleep(0.01)
            process.kill()
        before = {request.path for request in proxy.requests}
        done = len(lakebed.load(tmp_path / "copy", read_only=True).photo)
        assert 0 < done < count
        seen = len(proxy.requests)
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        again = [request.path for request in proxy.requests[seen:]]
    assert len(again) == count - done
    assert len(before) < count
    copy = lakebed.load(tmp_path / "copy", read_only=True)
    assert [copy.photo[row].tobytes() for row in range(count)] == [png(row % COUNT) for row in range(count)]
