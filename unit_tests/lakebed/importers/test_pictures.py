"""Pictures of several kinds in one tensor: most stay as they are, the few others still show what they showed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import lakebed
from lakebed.errors import IngestionError, SampleAppendError, UnsupportedParameterException
from lakebed.importers.folders.pictures import form_of

_COLOURS = np.kron(
    np.random.default_rng(0).integers(0, 255, (6, 5, 3), dtype=np.uint8), np.ones((16, 16, 1), np.uint8)
)
RGB = Image.fromarray(_COLOURS)
GREY = np.asarray(RGB.convert("L"))


def _file(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


_16 = Image.fromarray(GREY.astype(np.uint16) * 257)
_SEE_THROUGH = RGB.copy()
_SEE_THROUGH.putalpha(Image.fromarray(GREY))

# name -> (file, whether it is grey, what is told of it as a JPEG)
OTHERS: dict[str, tuple[bytes, bool, set[str]]] = {
    "rgb.png": (_file(RGB, "PNG"), False, set()),
    "rgba.png": (_file(_SEE_THROUGH, "PNG"), False, {"transparency of PNG left out"}),
    "grey.png": (_file(RGB.convert("L"), "PNG"), True, set()),
    "grey_alpha.png": (_file(_SEE_THROUGH.convert("LA"), "PNG"), True, {"transparency of PNG left out"}),
    "palette.png": (_file(RGB.quantize(64), "PNG"), False, set()),
    "16.png": (_file(_16, "PNG"), True, {"16 bits of PNG became 8"}),
    "palette.gif": (_file(RGB.quantize(64), "GIF"), False, set()),
    "frames.gif": (
        _file(RGB.quantize(64), "GIF", save_all=True, append_images=[RGB.rotate(90).quantize(64)]),
        False,
        {"GIF of several frames, of which the first one is read"},
    ),
    "still.webp": (_file(RGB, "WEBP", lossless=True), False, set()),
    "inks.tif": (_file(RGB.convert("CMYK"), "TIFF", compression="tiff_lzw"), False, set()),
    "palette.bmp": (_file(RGB.quantize(64), "BMP"), False, set()),
}  # fmt: skip

JPEG = _file(RGB, "JPEG", quality=95)


def _folder(root: Path, *names: str, jpegs: int = 12) -> Path:
    (root / "a").mkdir(parents=True)
    for at in range(jpegs):
        (root / "a" / f"{at:02}.jpg").write_bytes(JPEG)
    for name in names:
        (root / "a" / f"x_{name}").write_bytes(OTHERS[name][0])
    return root


def _shows(pixels: np.ndarray[Any, Any], *, is_grey: bool, within: float) -> None:
    expected = GREY[..., np.newaxis] if is_grey else _COLOURS
    assert pixels.shape[:2] == expected.shape[:2]
    channels = pixels[..., : expected.shape[2]].astype(float)
    assert np.abs(channels - expected).mean() < within


@pytest.mark.parametrize("name", OTHERS)
def test_one_file_of_another_kind_leaves_the_others_as_they_are(name: str, tmp_path: Path) -> None:
    _, is_grey, told = OTHERS[name]
    source = _folder(tmp_path / "s", name)
    report = lakebed.import_from("folder", source, tmp_path / "l", progressbar=False)
    ds = report.dataset
    assert (report.written, report.skipped) == (13, 0)
    assert ds.images.meta.sample_compression == "jpeg"
    assert {ds.images[row].tobytes() for row in range(12)} == {JPEG}
    _shows(ds.images[12].numpy(), is_grey=is_grey, within=14)
    kind = lakebed.read(OTHERS[name][0]).compression
    anew = f"{str(kind).upper()} encoded anew as JPEG at quality 95"
    assert {what: one["count"] for what, one in report.changes.items()} == dict.fromkeys({anew, *told}, 1)
    assert report.changes[anew]["first"] == f"a/x_{name}"
    assert f"changed 1: {anew} (first a/x_{name})" in str(report)
    assert ds.info["imports"][-1]["changes"] == report.changes


@pytest.mark.parametrize("name", sorted(set(OTHERS) - {"inks.tif"}))
def test_lossless_stores_all_as_png(name: str, tmp_path: Path) -> None:
    source = _folder(tmp_path / "s", name)
    ds = lakebed.import_from("folder", source, tmp_path / "l", lossless=True, progressbar=False).dataset
    assert ds.images.meta.sample_compression == "png"
    assert np.array_equal(ds.images[0].numpy(), lakebed.read(JPEG).array)
    with Image.open(io.BytesIO(OTHERS[name][0])) as image:
        if name.endswith(".png"):
            assert ds.images[12].tobytes() == OTHERS[name][0]
        else:
            assert np.array_equal(ds.images[12].numpy(), np.asarray(image.convert("RGB")))


def test_most_by_bytes_stay(tmp_path: Path) -> None:
    """A JPEG among PNGs becomes a PNG, without a loss; links lead to files of any kind, and nothing is converted."""
    source = tmp_path / "s" / "a"
    source.mkdir(parents=True)
    for at in range(5):
        (source / f"{at}.png").write_bytes(OTHERS["rgb.png"][0])
    for at in range(2):
        (source / f"x{at}.jpg").write_bytes(_file(RGB.resize((8, 8)), "JPEG"))
    report = lakebed.import_from("folder", tmp_path / "s", tmp_path / "l", progressbar=False)
    assert report.dataset.images.meta.sample_compression == "png"
    assert report.changes["JPEG encoded anew as PNG"]["count"] == 2
    linked = lakebed.import_from("folder", tmp_path / "s", tmp_path / "k", link=True, progressbar=False)
    assert (linked.written, linked.changes, linked.problems) == (7, {}, [])


@pytest.mark.parametrize(
    ("found", "compression", "chosen"),
    [
        ({}, None, "jpeg"),
        ({"jpeg": (400, 1000), "png": (1, 900)}, None, "jpeg"),
        ({"jpeg": (400, 1000), "png": (1, 1100)}, None, "png"),
        ({"jpeg": (400, 1000), "png": (1, 900)}, "auto", "jpeg"),
        ({"jpeg": (400, 1000), "png": (1, 900)}, "lossless", "png"),
        ({"jpeg": (400, 1000)}, "lossless", "jpeg"),
        ({"jpeg": (400, 1000), "png": (1, 900)}, "webp", "webp"),
        ({"gif": (400, 1000)}, None, "gif"),
        ({"gif": (400, 1000), "jpeg": (1, 900)}, None, "png"),  # GIF has no place for colours beyond 256
        ({"jpeg2000": (1, 5), "jpeg": (1, 5)}, None, "jpeg2000"),
    ],
)
def test_the_kind(found: dict[str, tuple[int, int]], compression: str | None, chosen: str) -> None:
    assert form_of(found, compression) == chosen


@pytest.mark.parametrize("looked_at", [True, False])
def test_tables_of_files(looked_at: bool, tmp_path: Path) -> None:
    """A file of another kind is converted and counted, whether or not it is among those that the plan looked at."""
    others = [OTHERS["palette.png"][0], OTHERS["rgba.png"][0]]
    files = [JPEG, *others, JPEG, JPEG, JPEG] if looked_at else [JPEG] * 3000 + others
    pq.write_table(pa.table({"image": pa.array(files, pa.binary())}), tmp_path / "t.parquet")
    report = lakebed.import_from(
        "parquet", tmp_path / "t.parquet", tmp_path / "l", media={"image": "image"}, progressbar=False
    )
    assert (report.written, report.dataset.image.meta.sample_compression) == (len(files), "jpeg")
    assert report.changes["PNG encoded anew as JPEG at quality 95"]["count"] == 2
    assert report.changes["transparency of PNG left out"]["count"] == 1
    at = files.index(others[0])
    _shows(report.dataset.image[at].numpy(), is_grey=False, within=14)


def test_formats_without_pictures_have_nothing_to_keep(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(UnsupportedParameterException):
        lakebed.import_from("numpy", tmp_path / "a.npy", tmp_path / "l", lossless=True, progressbar=False)


@pytest.mark.parametrize("htype", ["image", "image.rgb", "image.gray", "segment_mask"])
@pytest.mark.parametrize("kind", ["png", "jpeg"])
@pytest.mark.parametrize("name", ["palette.png", "palette.gif", "palette.bmp", "inks.tif"])
def test_appended_files_show_the_same(name: str, kind: str, htype: str) -> None:
    """Numbers of a palette are a mask, and no picture."""
    if htype == "segment_mask" and (kind == "jpeg" or name == "inks.tif"):
        pytest.skip("masks are stored as they are")
    content = OTHERS[name][0]
    ds = lakebed.empty("mem://")
    ds.create_tensor("x", htype=htype, sample_compression=kind if htype != "segment_mask" else None)
    ds.x.append(lakebed.read(content))
    found = ds.x[0].numpy()
    if htype == "segment_mask" or (htype == "image" and lakebed.read(content).compression == kind):
        with Image.open(io.BytesIO(content)) as image:
            assert np.array_equal(found.reshape(GREY.shape), np.asarray(image))  # as 3.9.52 reads it
        return
    _shows(found.reshape(*GREY.shape, -1), is_grey=htype == "image.gray", within=14)


def test_transparency_is_left_out_only_by_who_says_so() -> None:
    ds = lakebed.empty("mem://")
    ds.create_tensor("x", htype="image", sample_compression="jpeg")
    with pytest.raises(SampleAppendError):
        ds.x.append(lakebed.read(OTHERS["rgba.png"][0]))
    sample = lakebed.read(OTHERS["rgba.png"][0])
    sample.may_lose = True
    ds.x.append(sample)
    _shows(ds.x[0].numpy(), is_grey=False, within=3)


def test_opaque_webp_keeps_its_channels() -> None:
    """WebP files whose pixels are all opaque have three channels: such an array would not be read again."""
    ds = lakebed.empty("mem://")
    ds.create_tensor("x", htype="image", sample_compression="webp")
    opaque = np.dstack([_COLOURS, np.full(GREY.shape, 255, np.uint8)])
    ds.x.extend([opaque, opaque[:, ::-1]])
    found = ds.x[1].numpy()
    assert found.shape == opaque.shape
    assert found[..., 3].min() >= 254


@pytest.mark.parametrize("late", [False, True])
def test_tables_in_memory_lose_nothing(late: bool) -> None:
    """``from_arrow`` has no report: several kinds are PNG, and what comes too late for that is an error."""
    files = [JPEG] * (3000 if late else 2) + [OTHERS["rgba.png"][0]]
    table = pa.table({"image": pa.array(files, pa.binary())})
    if late:
        with pytest.raises(IngestionError, match="compression='png'"):
            lakebed.from_arrow("mem://late-picture", table, media={"image": "image"}, overwrite=True)
        return
    ds = lakebed.from_arrow("mem://", table, media={"image": "image"}, overwrite=True)
    assert ds.image.meta.sample_compression == "png"
    assert ds.image[2].tobytes() == files[2]
    assert np.array_equal(ds.image[0].numpy(), lakebed.read(JPEG).array)


def test_what_changes_in_rows_that_are_not_written_is_not_counted(tmp_path: Path) -> None:
    """A file that breaks off is converted to nothing, and a row of another split is somebody else's."""
    source = _folder(tmp_path / "s", "rgb.png", "palette.png")
    (source / "a" / "x_cut.png").write_bytes(OTHERS["rgb.png"][0][:-200])
    anew = "PNG encoded anew as JPEG at quality 95"
    report = lakebed.import_from("folder", source, tmp_path / "l", progressbar=False)
    assert (report.written, report.skipped, report.changes[anew]["count"]) == (14, 1, 2)
    files = [JPEG] * 20 + [OTHERS["rgb.png"][0]] * 6
    pq.write_table(pa.table({"image": pa.array(files, pa.binary())}), tmp_path / "t.parquet")
    report = lakebed.import_from(
        *("parquet", tmp_path / "t.parquet", tmp_path / "apart"),
        media={"image": "image"},
        split={"train": 0.5, "val": 0.5},
        separate=True,
        progressbar=False,
    )
    apart = [lakebed.load(tmp_path / "apart" / name) for name in ("train", "val")]
    counts = [ds.info["imports"][-1]["changes"].get(anew, {"count": 0})["count"] for ds in apart]
    assert sum(counts) == 6
