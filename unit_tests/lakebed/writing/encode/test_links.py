"""Links on their way into a tensor: without looking, with a look at headers only, with credentials."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import lakebed
from lakebed import config
from lakebed.errors import (
    BadLinkError,
    GetDataFromLinkError,
    InvalidInputError,
    LinkCredentialsError,
    LinkMissingError,
    LinkUnavailableError,
    MissingCredsError,
    SampleAppendError,
)
from lakebed.links import fetch as fetching
from lakebed.links import verify
from unit_tests.lakebed.links.server import serving

BLIND: dict[str, Any] = {
    "verify": False,
    "create_shape_tensor": False,
    "create_sample_info_tensor": False,
}


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks at a file fails."""

    def refuse(*args: object, **_: object) -> None:
        pytest.fail(f"{args} was looked at")

    monkeypatch.setattr(fetching, "_known_scheme", refuse)


def jpeg(noise: int = 0, width: int = 700) -> bytes:
    """A file of more than 64 KiB."""
    pixels = np.random.default_rng(noise).integers(0, 255, (500, width, 3), dtype=np.uint8)
    target = io.BytesIO()
    PIL.Image.fromarray(pixels).save(target, "jpeg", quality=90)
    return target.getvalue()


# -- without looking -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unasked")
def test_nobody_looks_at_unverified_links(tmp_path: Path) -> None:
    """Whatever the htype; the dtype is what 3.9.52 writes if it cannot read the first file."""
    ds = lakebed.empty(tmp_path / "ds")
    kinds = {
        "image": ("png", "uint8", "|u1"), "dicom": ("dcm", "uint8", "|u1"), "mesh": ("ply", "uint8", "|u1"),
        "segment_mask": ("png", "uint32", None), "audio": ("wav", "float64", None), "video": ("mp4", "uint8", None),
        "text": (None, "str", None),
    }  # fmt: skip
    with ds:
        for kind, (compression, *_) in kinds.items():
            tensor = ds.create_tensor(kind, htype=f"link[{kind}]", sample_compression=compression, **BLIND)
            tensor.extend([lakebed.link("s3://bucket/a"), None, lakebed.link("https://nobody.invalid/ä.png")])
            tensor.append(lakebed.link("nowhere"))
            tensor[1] = lakebed.link("gs://other/b")
        pages = ds.create_tensor("pages", htype="sequence[link[image]]", sample_compression="png", **BLIND)
        pages.extend([[lakebed.link("a"), lakebed.link("b")], []])
    for kind, (_, dtype, typestr) in kinds.items():
        meta = json.loads((tmp_path / "ds").joinpath(*_head(ds), kind, "tensor_meta.json").read_text())
        assert (meta["dtype"], meta["typestr"], meta["max_shape"], meta["length"]) == (dtype, typestr, [], 4)
        assert [path.tolist() for path in ds[kind].path()] == [
            ["s3://bucket/a"], ["gs://other/b"], ["https://nobody.invalid/ä.png"], ["nowhere"],
        ]  # fmt: skip
    assert [len(row) for row in ds.pages.path()] == [2, 0]
    assert ds.image.shape == (4,)
    assert ds.image[0].sample_info is None


def _head(ds: lakebed.Dataset) -> tuple[str, str]:
    return "versions", ds._session.snapshot.version_id


@pytest.mark.usefixtures("unasked")
def test_links_that_are_all_empty_settle_nothing(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    tensor = ds.create_tensor("x", htype="link[image]", sample_compression="png", **BLIND)
    tensor.extend([None, None])
    assert ds._session.schema().tensor("x").meta.dtype is None


def test_what_no_file_name_can_be_is_refused(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    tensor = ds.create_tensor("x", htype="link[image]", sample_compression="png", **BLIND)
    with pytest.raises(SampleAppendError) as caught:
        tensor.extend([lakebed.link("a"), lakebed.link("b\udcff")])
    assert isinstance(caught.value.__cause__, InvalidInputError)
    assert len(tensor) == 0


def test_of_an_unverified_grid_the_first_file_tells_the_shape(tmp_path: Path) -> None:
    """Somebody has to: the format records it."""
    PIL.Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(tmp_path / "a.png")
    ds = lakebed.empty(tmp_path / "ds")
    tensor = ds.create_tensor("x", htype="link[image]", sample_compression="png", **BLIND)
    tensor.append(lakebed.link_tiled([[str(tmp_path / "a.png"), "nowhere"]]))
    assert tensor[0].shape == (4, 10, 3)


# -- with a look -----------------------------------------------------------------------------------------------------


def test_headers_suffice(tmp_path: Path) -> None:
    """Of a large photo 64 KiB are fetched; a header behind a long profile takes two requests more."""
    photo = jpeg()
    profiled = photo[:2] + (b"\xff\xe2\xff\xff" + bytes(65_533)) * 3 + photo[2:]
    with serving({"/a.jpg": photo, "/b.jpg": profiled}) as web:
        ds = lakebed.empty(tmp_path / "ds")
        tensor = ds.create_tensor("x", htype="link[image]", sample_compression="jpeg")
        tensor.append(lakebed.link(f"{web.url}/a.jpg"))
        assert [headers.get("Range") for headers in web.headers] == ["bytes=0-65535"]
        tensor.append(lakebed.link(f"{web.url}/b.jpg"))
        assert len(web.headers) == 3
    assert len(photo) > 200_000
    assert tensor.shapes().tolist() == [[500, 700, 3]] * 2
    assert tensor[0].sample_info["format"] == "jpeg"


def test_servers_without_ranges_serve_too(tmp_path: Path) -> None:
    with serving({"/a.jpg": jpeg()}) as web:
        ds = lakebed.empty(tmp_path / "ds")
        tensor = ds.create_tensor("x", htype="link[image]", sample_compression="jpeg")
        tensor.append(lakebed.link(f"{web.url}/whole/a.jpg"))
        assert tensor[0].shape == (500, 700, 3)
        assert tensor[0].numpy().shape == (500, 700, 3)


def test_many_are_looked_at_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are to be all there, or what is broken is left out."""
    small = io.BytesIO()
    PIL.Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(small, "png")
    monkeypatch.setattr(config, "LINK_THREADS", 16)
    with serving({"/a.png": small.getvalue()}) as web:
        links = [lakebed.link(f"{web.url}/slow/a.png?{n}") for n in range(48)]
        broken = lakebed.link(f"{web.url}/none.png")
        ds = lakebed.empty(tmp_path / "ds")
        tensor = ds.create_tensor("x", htype="link[image]", sample_compression="png")
        tensor.extend(links)
        assert web.most_at_once > 8
        web.most_at_once = 0
        tensor.extend([*links[:20], broken, *links[20:]], ignore_errors=True)
        assert web.most_at_once > 8
        assert len(tensor) == 96
        web.most_at_once = 0
        ds.extend({"x": [*links[:20], broken]}, ignore_errors=True)
        assert web.most_at_once > 8
        assert len(tensor) == 116
        with pytest.raises(SampleAppendError):
            tensor.extend([*links, broken])
        assert len(tensor) == 116


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("{folder}/none.png", LinkMissingError),
        ("{web}/none.png", LinkMissingError),
        ("{web}/status/403", LinkCredentialsError),
        ("{web}/status/410", LinkMissingError),
        ("{web}/status/500", LinkUnavailableError),
        ("http://127.0.0.1:1/a.png", LinkUnavailableError),
        ("{folder}/a.txt", GetDataFromLinkError),
    ],
)
def test_why_a_link_is_bad(
    tmp_path: Path, url: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, not let in, and not there are different errors."""
    (tmp_path / "a.txt").write_text("no picture")
    monkeypatch.setattr(config, "HTTP_TIMEOUT", 5.0)
    with serving({}) as web, pytest.raises(BadLinkError) as caught:
        verify.inspect(lakebed.link(url.format(folder=tmp_path, web=web.url)))
    assert type(caught.value.__cause__) is kind


# -- credentials -----------------------------------------------------------------------------------------------------


def test_codes_of_credentials(tmp_path: Path) -> None:
    """Names that the dataset has, in any mixture; others are an error."""
    ds = lakebed.empty(tmp_path / "ds")
    for key in ("J", "K"):
        ds.add_creds_key(key)
    tensor = ds.create_tensor("x", htype="link[image]", sample_compression="png", **BLIND)
    tensor.extend(
        [lakebed.link("a"), lakebed.link("b", "K"), None, lakebed.link("c", "J"), lakebed.link("d", "K")]
    )
    tensor.append(lakebed.link("e", "J"))
    tensor[0] = lakebed.link("a", "J")
    assert [tensor[row].creds_key() for row in range(6)] == ["J", "K", None, "J", "K", "J"]
    ds.extend({"x": [lakebed.link("f", "K")]})
    ds.append({"x": lakebed.link("g", "J")})
    assert [tensor[row].creds_key() for row in (6, 7)] == ["K", "J"]
    with pytest.raises(SampleAppendError) as caught:
        tensor.append(lakebed.link("h", "L"))
    assert isinstance(caught.value.__cause__, MissingCredsError)


@pytest.mark.parametrize("verify", [True, False])
def test_links_without_credentials_are_left_out_like_broken_ones(tmp_path: Path, verify: bool) -> None:
    """A name that the dataset does not have; one that nobody has credentials for, if anybody is to look."""
    PIL.Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(tmp_path / "a.png")
    ds = lakebed.empty(tmp_path / "ds")
    ds.add_creds_key("K")
    tensor = ds.create_tensor("x", htype="link[image]", sample_compression="png", verify=verify)
    path = str(tmp_path / "a.png")
    given = [
        lakebed.link(path),
        lakebed.link(path, "J"),
        lakebed.link("s3://bucket/a.png", "K"),
        lakebed.link(path),
    ]
    tensor.extend(given, ignore_errors=True)
    assert [tensor[row].creds_key() for row in range(len(tensor))] == (
        [None, None] if verify else [None, "K", None]
    )
    ds.extend({"x": given}, ignore_errors=True)
    assert len(tensor) == (4 if verify else 6)
    with pytest.raises(SampleAppendError):
        tensor.extend(given)


def test_links_of_another_dataset_keep_their_credentials(tmp_path: Path) -> None:
    """By name: the same name may have another code there, or be missing."""
    one, two = lakebed.empty(tmp_path / "one"), lakebed.empty(tmp_path / "two")
    for ds, keys in ((one, "JK"), (two, "KJ")):
        for key in keys:
            ds.add_creds_key(key)
        ds.create_tensor("x", htype="link[image]", sample_compression="png", **BLIND)
    one.x.extend([lakebed.link("a", "K"), lakebed.link("b"), lakebed.link("c", "J")])
    two.x.extend(one.x)
    assert [two.x[row].creds_key() for row in range(3)] == ["K", None, "J"]
    two.x.append(one.x[2])
    assert two.x[3].creds_key() == "J"
    one.add_creds_key("L")
    one.x.append(lakebed.link("d", "L"))
    with pytest.raises(SampleAppendError, match="key L"):
        two.x.extend(one.x)
