"""Links to parts of files: bytes, and base64 among other text; what a part may reach is what its file may."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import lakebed
from lakebed import limits
from lakebed.errors import (
    FormatError,
    GetDataFromLinkError,
    InvalidInputError,
    LimitError,
    LinkForbiddenError,
    UnsafePathError,
)
from lakebed.links.fetch import fetch, fetch_part
from lakebed.links.policy import Policy, remember
from lakebed.links.ranged import RangedFile
from lakebed.links.span import span_of
from unit_tests.lakebed.links.server import serving

DATA = np.random.default_rng(0).integers(0, 256, 1000, np.uint8).tobytes()


def encoded(data: bytes, before: bytes = b"key\t", after: bytes = b"\tmore\n") -> tuple[bytes, str]:
    """Return a line with base64 in it, and the fragment of its place."""
    text = base64.b64encode(data)
    last = len(before) + len(text.rstrip(b"=")) - 1
    return before + text + after, f"#bytes={len(before)}-{last}&encoding=base64"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 299, 300, 301, 1000])
def test_any_part_of_a_part_is_that_of_the_content(tmp_path: Path, size: int) -> None:
    line, fragment = encoded(DATA[:size])
    (tmp_path / "a.tsv").write_bytes(line)
    url = f"{tmp_path}/a.tsv{fragment}"
    assert fetch(url) == DATA[:size]
    for start in (0, 1, 2, 3, 4, 7, size - 1, size, size + 5):
        for length in (0, 1, 2, 3, 50, size, 2 * size):
            part = fetch_part(url, start, length)
            assert part.data == DATA[:size][start : start + length]
            assert part.total == size
    assert (
        RangedFile(lambda start, length, tag: fetch_part(url, start, length, tag=tag), 7).whole()
        == DATA[:size]
    )


def test_plain_bytes_and_names_that_only_look_like_parts(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    assert fetch(f"{tmp_path}/a#bytes=10-19") == DATA[10:20]
    assert fetch((tmp_path / "a").as_uri() + "#bytes=10-10") == DATA[10:11]
    assert fetch_part(f"{tmp_path}/a#bytes=10-19", 8, 50).data == DATA[18:20]
    for name in ("b#bytes=1", "b#bytes=1-x", "b#bytes=1-2&encoding=hex", "b#bytes=1-2\n", "b#bytes=-1-2"):
        (tmp_path / name).write_bytes(b"whole")
        assert fetch(f"{tmp_path}/{name}") == b"whole"
    assert str(span_of("x#bytes=3-9&encoding=base64")) == "x#bytes=3-9&encoding=base64"


def test_what_is_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"QUJD*UJDQQ==")
    with pytest.raises(InvalidInputError, match="before it begins"):
        fetch(f"{tmp_path}/a#bytes=9-3")
    with pytest.raises(InvalidInputError, match="length"):
        fetch(f"{tmp_path}/a#bytes=0-4&encoding=base64")
    with pytest.raises(FormatError, match="not base64"):
        fetch(f"{tmp_path}/a#bytes=0-7&encoding=base64")
    with pytest.raises(FormatError, match="not base64"):
        fetch(f"{tmp_path}/a#bytes=8-11&encoding=base64")
    assert fetch(f"{tmp_path}/a#bytes=8-9&encoding=base64") == b"A"
    for last in (12, 10**17):
        with pytest.raises((FormatError, LimitError)):
            fetch(f"{tmp_path}/a#bytes=0-{last}")
    monkeypatch.setattr(limits, "MAX_FETCH_BYTES", 5)
    with pytest.raises(LimitError):
        fetch(f"{tmp_path}/a#bytes=0-7")


def test_a_part_leads_where_its_file_may_lead(tmp_path: Path, nothing_allowed: None) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(DATA)
    (tmp_path / "ds").mkdir()
    (tmp_path / "ds" / "inside").write_bytes(DATA)
    (tmp_path / "ds" / "to_outside").symlink_to(outside)
    policy = Policy(str(tmp_path / "ds"))
    assert fetch(f"{tmp_path}/ds/inside#bytes=0-9", policy=policy) == DATA[:10]
    for path in (outside, tmp_path / "ds" / "to_outside", tmp_path / "ds/../outside", tmp_path / "missing"):
        with pytest.raises(UnsafePathError):
            fetch(f"{path}#bytes=0-9", policy=policy)
    remember([f"{outside}#bytes=0-9"])
    assert fetch(f"{outside}#bytes=0-9", policy=policy) == DATA[:10]
    for other in (f"{outside}#bytes=0-10", str(outside), f"{outside}#bytes=0-9#bytes=0-9"):
        with pytest.raises((UnsafePathError, InvalidInputError)):
            fetch(other, policy=policy)
    remember([str(outside)])
    assert fetch(f"{outside}#bytes=0-10", policy=policy) == DATA[:11]


def test_images_in_a_table_on_a_server_and_here(tmp_path: Path, nothing_allowed: None) -> None:
    images = [np.full((20, 30 + at, 3), at, np.uint8) for at in range(3)]
    images.append(np.random.default_rng(0).integers(0, 255, (300, 301, 3), np.uint8))
    table, links = b"", []
    for image in images:
        file = io.BytesIO()
        PIL.Image.fromarray(image).save(file, "png")
        line, fragment = encoded(file.getvalue(), table + b"key\t")
        table = line
        links.append(fragment)
    path = tmp_path / "images.tsv"
    path.write_bytes(table)
    with serving({"/images.tsv": table}) as web:
        for address in (str(path), f"{web.url}/images.tsv"):
            ds = lakebed.empty(tmp_path / "ds", overwrite=True)
            ds.create_tensor("image", htype="link[image]", sample_compression="png")
            ds.image.extend([lakebed.link(address + fragment) for fragment in links])
            assert [tuple(shape) for shape in ds.image.shapes()] == [image.shape for image in images]
            for row, image in enumerate(images):
                assert np.array_equal(ds.image[row].numpy(), image)
                assert np.array_equal(ds.image[row, 3:5].numpy(), image[3:5])
            assert lakebed.read(address + links[1]).shape == images[1].shape
            copy = lakebed.materialize(ds, tmp_path / "copy", overwrite=True, progressbar=False)
            assert copy == []
            assert np.array_equal(lakebed.load(tmp_path / "copy").image[3].numpy(), images[3])
            ds.image.append(lakebed.link(address + links[0]))
    with pytest.raises(lakebed.errors.SampleAppendError, match="not base64"):
        ds.image.append(lakebed.link(f"{path}#bytes=4-{len(table) + 7}&encoding=base64"))


def test_others_must_allow_the_folder(
    tmp_path: Path, nothing_allowed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakebed.links import policy

    file = io.BytesIO()
    PIL.Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(file, "png")
    line, fragment = encoded(file.getvalue())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.tsv").write_bytes(line)
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("image", htype="link[image]", sample_compression="png")
    ds.image.append(lakebed.link(f"{tmp_path}/data/a.tsv{fragment}"))
    ds.close()
    monkeypatch.setattr(policy, "_MEMORY", policy._Memory())
    ds = lakebed.load(tmp_path / "ds")
    with pytest.raises(LinkForbiddenError):
        ds.image[0].numpy()
    lakebed.allow_links(tmp_path / "data")
    assert ds.image[0].numpy().shape == (4, 4, 3)
    (tmp_path / "data" / "a.tsv").write_bytes(line[:30])
    with pytest.raises(GetDataFromLinkError, match="ends before"):
        ds.image[0].numpy()
