"""Tensors of links: fetched at the same time, decoded like stored samples, errors that say where."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.codecs.video import Video
from lakebed.links import ranged
from lakebed.links.fetch import fetch
from lakebed.reading import linked
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.codecs.test_remote_video import movie
from unit_tests.lakebed.links.server import serving

COLOUR = (np.arange(6 * 7 * 3).reshape(6, 7, 3) % 251).astype(np.uint8)
GREY = (np.arange(5 * 4).reshape(5, 4) * 3).astype(np.uint8)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Image files to link to."""
    folder = tmp_path_factory.mktemp("files")
    Image.fromarray(COLOUR).save(folder / "colour.png")
    Image.fromarray(COLOUR[:3]).save(folder / "half.png")
    Image.fromarray(GREY).save(folder / "grey.png")
    return folder


@pytest.fixture(scope="module")
def ds(files: Path, tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    """Links in rows, in sequences and in a grid."""
    ds = lakebed.empty(tmp_path_factory.mktemp("links") / "ds")
    colour, grey, half = (lakebed.link(str(files / f"{n}.png")) for n in ("colour", "grey", "half"))
    with ds:
        ds.create_tensor("k", htype="link[image]", sample_compression="png").extend([colour, None, grey])
        ds.create_tensor("even", htype="link[image]", sample_compression="png").extend([colour] * 3)
        ds.create_tensor("s", htype="sequence[link[image]]", sample_compression="png").extend(
            [[colour, grey], [half]]
        )
        tiles = [[str(files / "colour.png"), str(files / "colour.png")]]
        ds.create_tensor("grid", htype="link[image]", sample_compression="png").append(
            lakebed.link_tiled(tiles)
        )
        ds.create_tensor("loose", htype="link[image]", sample_compression="png", verify=False).extend(
            [colour, lakebed.link(str(files / "missing.png"))]
        )
    return ds


def test_values(ds: lakebed.Dataset) -> None:
    """A link reads as the image it leads to, a grey one with the channel axis of the others; None is empty."""
    found = ds.k.numpy(aslist=True)
    assert [(a.dtype, a.shape) for a in found] == [
        (np.uint8, (6, 7, 3)),
        (np.float64, (0,)),
        (np.uint8, (5, 4, 1)),
    ]
    assert np.array_equal(found[0], COLOUR)
    assert np.array_equal(found[2][..., 0], GREY)
    assert np.array_equal(ds.k[0, 2:4, 1].numpy(), COLOUR[2:4, 1])
    assert np.array_equal(ds.even.numpy(), np.stack([COLOUR] * 3))
    assert [len(batch["even"]) for batch in ds.batches(2, ["even"])] == [2, 1]
    with pytest.raises(lakebed.errors.DynamicTensorNumpyError):
        ds.k.numpy()


def test_sequences_and_grids(ds: lakebed.Dataset) -> None:
    assert [[item.shape for item in row] for row in ds.s.numpy(aslist=True)] == [
        [(6, 7, 3), (5, 4, 1)],
        [(3, 7, 3)],
    ]
    assert np.array_equal(ds.s[1, 0].numpy(), COLOUR[:3])
    assert np.array_equal(ds.grid[0].numpy(), np.concatenate([COLOUR, COLOUR], axis=1))


def test_a_part_of_a_grid_follows_the_links_it_touches(
    ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[str] = []

    def noted(url: str, **rest: Any) -> bytes:
        followed.append(url)
        return fetch(url, **rest)

    monkeypatch.setattr(linked, "fetch", noted)
    assert np.array_equal(ds.grid[0, :, 8:10].numpy(), COLOUR[:, 1:3])
    assert len(followed) == 1


def test_links_are_followed_at_the_same_time(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slow fetches wait for each other's arrival: one after another they would never end."""
    barrier = threading.Barrier(3, timeout=PATIENCE)

    def slow(url: str, **rest: Any) -> bytes:
        barrier.wait()
        return fetch(url, **rest)

    monkeypatch.setattr(linked, "fetch", slow)
    assert ds.even.numpy().shape == (3, 6, 7, 3)


def test_shapes_need_no_files(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes of verified links are on record."""
    for name in ("fetch", "fetch_part"):
        monkeypatch.setattr(linked, name, lambda url, *_, **__: pytest.fail(url))
    assert ds.k.shapes().tolist() == [[6, 7, 3], [0, 0, 0], [5, 4, 1]]
    assert ds.k.shape == (3, None, None, None)
    assert ds.k[2].shape == (5, 4, 1)
    assert ds.s[1].shape == (1, 3, 7, 3)


def test_where_links_lead(ds: lakebed.Dataset, files: Path) -> None:
    """path() gives an array of one path per link, in a list unless one is selected."""
    assert ds.k[0].path().tolist() == [str(files / "colour.png")]
    assert [path.tolist() for path in ds.k.path()] == [
        [str(files / "colour.png")],
        [""],
        [str(files / "grey.png")],
    ]
    assert ds.even.path(aslist=False).shape == (3, 1)
    assert [[p.tolist() for p in row] for row in ds.s.path()][1] == [[str(files / "half.png")]]
    assert ds.k[0].creds_key() is None
    assert ds.k[0].tobytes() == (files / "colour.png").read_bytes()
    assert ds.k[0].sample_info["filename"] == str(files / "colour.png")


def test_iteration_fetches_ahead(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes next is under way while the caller works; slow fetches wait for each other here."""
    barrier = threading.Barrier(3, timeout=PATIENCE)

    def slow(url: str, **rest: Any) -> bytes:
        barrier.wait()
        return fetch(url, **rest)

    monkeypatch.setattr(linked, "fetch", slow)
    assert [sample.shape for sample in ds._session.reader("even", "even").values(range(3))] == [(6, 7, 3)] * 3


def test_shapes_of_unverified_links_cost_headers(tmp_path: Path) -> None:
    """Of a large file the beginning is read, of many at the same time."""
    noise = np.random.default_rng(0).integers(0, 255, (300, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    data = (tmp_path / "noise.png").read_bytes()
    with serving({"/noise.png": data}) as web:
        ds = lakebed.empty(tmp_path / "ds")
        with ds:
            tensor = ds.create_tensor("k", htype="link[image]", sample_compression="png", verify=False)
            tensor.extend([lakebed.link(f"{web.url}/noise.png?{n}") for n in range(12)])
        assert ds.k.shapes().tolist() == [[300, 200, 3]] * 12
        assert ds.k[3].shape == (300, 200, 3)
        assert {headers["Range"] for headers in web.headers} == {"bytes=0-65535"}
        assert len(data) > 150_000


@pytest.mark.parametrize("served", ["", "/whole", "/chunked"])
def test_a_scene_of_a_film_on_the_web(tmp_path: Path, served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs its index and a scene, if the server has ranges; its times too."""
    monkeypatch.setattr(ranged, "_SMALL", 0)
    film = movie("mp4", "mpeg4", 0)
    whole, times = Video("mp4").decode(film), Video("mp4").timestamps(film)
    with serving({"/film.mp4": film}) as web:
        ds = lakebed.empty(tmp_path / "ds")
        with ds:
            films = ds.create_tensor("v", htype="link[video]", sample_compression="mp4")
            films.append(lakebed.link(f"{web.url}{served}/film.mp4"))
        assert ds.v[0].shape == whole.shape
        assert ds.v[0].sample_info["fps"] == 25
        web.headers.clear()
        for selection in (slice(60, 70), 7, slice(90, 80, -3)):
            assert np.array_equal(ds.v[0, selection].numpy(), whole[selection])
            assert np.array_equal(ds.v[0, selection].timestamps, times[selection])
        assert np.array_equal(ds.v[0, 3:9, 10:20].numpy(), whole[3:9, 10:20])
        assert np.array_equal(ds.v[0].numpy(), whole)
        spans = [headers["Range"][6:].split("-") for headers in web.headers if "Range" in headers]
        asked = sum(min(int(last), len(film) - 1) - int(first) + 1 for first, last in spans)
        assert served or asked < 7 * len(film) * 0.5
        with pytest.raises(IndexError):
            ds.v[0, 500].numpy()


def test_broken_links_say_where(ds: lakebed.Dataset, files: Path) -> None:
    """The error names tensor, row and file, and has the reason as its cause; other rows are fine."""
    assert ds.loose[0].numpy().shape == (6, 7, 3)
    for read in (
        ds.loose[1].numpy,
        lambda: ds.loose.numpy(aslist=True),
        lambda: list(ds.batches(5, ["loose"])),
    ):
        with pytest.raises(lakebed.errors.GetDataFromLinkError, match=r"missing\.png") as caught:
            read()
        error = caught.value
        assert (error.tensor, error.row) == ("loose", 1)
        assert error.url == str(files / "missing.png")
        assert isinstance(error.__cause__, FileNotFoundError)


def test_links_to_what_is_no_image(tmp_path: Path) -> None:
    """A file that changed into something else after it was linked is an error that names it."""
    file = tmp_path / "a.png"
    Image.fromarray(COLOUR).save(file)
    ds = lakebed.empty(tmp_path / "ds")
    with ds:
        ds.create_tensor("k", htype="link[image]", sample_compression="png").append(lakebed.link(str(file)))
    good = file.read_bytes()
    for content in (b"no image at all", good[:45], b""):
        file.write_bytes(content)
        with pytest.raises(lakebed.errors.GetDataFromLinkError, match="row 0") as caught:
            ds.k[0].numpy()
        assert caught.value.__cause__ is not None


def test_links_are_followed_by_policy_only(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakebed.config, "LINK_SCHEMES", frozenset({"https"}))
    with pytest.raises(lakebed.errors.GetDataFromLinkError, match="LINK_SCHEMES"):
        ds.k[0].numpy()
