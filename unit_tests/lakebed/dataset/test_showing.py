"""What a notebook shows: text that does nothing, thumbnails within a bound, pictures with what is known of them."""

from __future__ import annotations

import base64
import datetime as dt
import io
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

import lakebed
from lakebed.dataset.display import showing
from lakebed.dataset.display.drawing import corners, picture
from lakebed.errors import InvalidOperationError, TensorDoesNotExistError

NUMBER = itertools.count()
RNG = np.random.default_rng(0)
EVIL = "<script>alert(1)</script>\x1b[31m\u202e"


def jpeg(height: int = 60, width: int = 80) -> bytes:
    file = io.BytesIO()
    Image.fromarray(RNG.integers(0, 255, (height, width, 3), np.uint8)).save(file, "jpeg")
    return file.getvalue()


@pytest.fixture
def ds() -> lakebed.Dataset:
    ds = lakebed.empty(f"mem://showing-{next(NUMBER)}")
    ds.create_tensor("image", htype="image", sample_compression="jpeg")
    ds.create_tensor("box", htype="bbox", coords={"type": "pixel", "mode": "LTRB"})
    ds.create_tensor("label", htype="class_label", class_names=["cat", EVIL])
    ds.create_tensor("mask", htype="binary_mask", sample_compression="lz4")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("when", dtype="int64").info["logical_type"] = "timestamp[us]"
    for i in range(7):
        mask = np.zeros((60, 80, 2), bool)
        mask[10:20, 10:20, 0] = True
        ds.append(
            {
                "image": lakebed.read(jpeg()),
                "box": np.array([[5, 5, 30, 40], [40, 10, 70, 50]], np.float32),
                "label": [0, 1],
                "mask": mask,
                "text": None if i == 1 else EVIL * 100,
                "when": 0,
            }
        )
    return ds


def test_repr_tells_what_there_is(ds: lakebed.Dataset) -> None:
    lines = repr(ds).split("\n")

    assert lines[0].startswith(
        f"Dataset(path='{ds.path}', rows=7, tensors=6, branch='main', version=None with changes"
    )
    assert lines[1].split() == ["image", "image", "uint8", "(7,", "60,", "80,", "3)", "jpeg"]
    assert lines[3].endswith("2 classes")
    assert lines[6].endswith("timestamp[us]")
    commit = ds.commit("all")
    assert f"version={commit!r}" in repr(ds)
    assert "with changes" not in repr(ds)
    assert "rows=2" in repr(ds[2:4])
    assert repr(ds.image) == "Tensor('image', htype=image, dtype=uint8, shape=(7, 60, 80, 3), rows=7, jpeg)"
    assert repr(ds[0].image).startswith(
        "Tensor('image', htype=image, dtype=uint8, shape=(60, 80, 3), jpeg, index="
    )
    ds.create_tensor("more").append(1)
    assert "rows=1 to 7" in repr(ds)


def test_repr_never_fails() -> None:
    ds = lakebed.empty(f"mem://showing-{next(NUMBER)}")
    assert repr(ds).startswith("Dataset(")
    tensor = ds.create_tensor("x")
    assert repr(tensor) == "Tensor('x', htype=None, dtype=None, shape=(0), rows=0)"
    view = ds[:0]
    ds.delete_tensor("x")
    assert repr(tensor) == "Tensor(key='x')"
    ds.create_tensor("y").extend([1, 2])
    first = ds[0].y
    ds.y.clear()
    assert repr(first).startswith("Tensor(")
    assert repr(view).startswith("Dataset(")


def test_html_shows_rows_and_does_nothing(ds: lakebed.Dataset) -> None:
    page = ds._repr_html_()

    assert page.count("<img ") == 10  # an image and a mask in five rows
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page
    assert "None" in page
    assert len(page) <= 200_000
    assert ds[3]._repr_html_().count("<img ") == 3  # the row as it is drawn, image, mask
    assert ds.image._repr_mimebundle_()["text/html"].count("<img ") == 5


def test_html_has_a_bound(monkeypatch: pytest.MonkeyPatch, ds: lakebed.Dataset) -> None:
    monkeypatch.setattr(showing, "_THUMBNAIL_BYTES", 5000)
    few = ds._repr_html_().count("<img ")
    assert 0 < few < 10
    wide = lakebed.empty(f"mem://showing-{next(NUMBER)}")
    for i in range(300):
        wide.create_tensor(f"{EVIL[:20]}{i}", htype="text", create_id_tensor=False, create_shape_tensor=False)
    page = wide._repr_html_()
    assert len(page) <= 200_000
    assert "and 100 more" in page
    assert "and 270 more" in repr(wide)


def test_a_damaged_sample_and_links_are_told(tmp_path: Path) -> None:
    path = tmp_path / ("a-rather-long-name-of-a-folder-" * 4) / "one.jpg"
    path.parent.mkdir()
    path.write_bytes(jpeg())
    ds = lakebed.empty(f"mem://showing-{next(NUMBER)}")
    ds.create_tensor("linked", htype="link[image]", sample_compression="jpeg")
    ds.create_tensor("items", htype="sequence[text]")
    ds.create_tensor("shape", htype="polygon")
    ds.append({"linked": lakebed.link(str(path)), "items": ["a", "b"], "shape": [np.ones((3, 2))]})
    path.unlink()

    page = ds._repr_html_()
    assert "one.jpg" in page
    assert "2 items" in page
    assert "1 polygons" in page
    assert showing._address("https://host.example/a.jpg?Signature=canary") == "https://host.example/a.jpg?..."
    assert "canary" not in showing._address(["https://host.example/a.jpg?Signature=canary", None])
    assert len(showing._address("x" * 500)) <= 80


def test_one_sample_is_a_picture_a_sound_or_a_table(ds: lakebed.Dataset) -> None:
    assert ds[0].image._repr_mimebundle_()["image/jpeg"] == ds[0].image.tobytes()
    png = ds[0].mask._repr_mimebundle_()["image/png"]
    assert Image.open(io.BytesIO(png)).size == (80, 60)
    assert Image.open(io.BytesIO(ds.image[0][:10, :20]._repr_mimebundle_()["image/png"])).size == (20, 10)
    assert "text/html" in ds[0].text._repr_mimebundle_()
    assert "Tensor(" in ds[0].text._repr_mimebundle_()["text/plain"]


def test_pictures_of_pillow(ds: lakebed.Dataset) -> None:
    assert np.array_equal(np.asarray(ds[0].image.pil()), ds[0].image.numpy())
    assert ds[0].mask.pil().getpixel((12, 12)) == 255
    with pytest.raises(InvalidOperationError, match=r"image\[0\]\.pil"):
        ds.image.pil()
    with pytest.raises(InvalidOperationError, match="no images"):
        ds[0].text.pil()
    with pytest.raises(InvalidOperationError, match="not a picture"):
        ds[0].when.pil()
    ds.append({"image": None, "box": None, "label": [], "mask": None, "text": "", "when": 1})
    with pytest.raises(InvalidOperationError, match="is null"):
        ds[7].image.pil()


@pytest.mark.parametrize(
    ("values", "htype", "mode"),
    [
        (np.ones((2, 3), np.uint8), "image", "L"),
        (np.ones((2, 3, 4), np.uint8), "image", "RGBA"),
        (np.ones((2, 3, 5), np.uint8), "image", "L"),
        (np.ones((2, 3, 3), np.float32), "image", "RGB"),
        (np.array([[0, 70000]], np.uint32), "image", "L"),
        (np.array([[np.nan, np.inf]], np.float64), "image", "L"),
        (np.array([[0, 3]], np.int64), "segment_mask", "RGB"),
    ],
    ids=str,
)
def test_arrays_of_any_dtype_are_pictures(values: np.ndarray, htype: str, mode: str) -> None:
    assert picture(values, htype).mode == mode


@pytest.mark.parametrize(
    ("coords", "box"),
    [
        ({"type": "pixel", "mode": "LTRB"}, [10, 20, 30, 60]),
        ({"type": "pixel", "mode": "LTWH"}, [10, 20, 20, 40]),
        ({"type": "pixel", "mode": "CCWH"}, [20, 40, 20, 40]),
        ({"type": "fractional", "mode": "LTRB"}, [0.1, 0.1, 0.3, 0.3]),
    ],
    ids=str,
)
def test_boxes_lie_where_their_coords_say(coords: dict[str, str], box: list[float]) -> None:
    np.testing.assert_allclose(corners(np.array([box]), coords, (100, 200)), [[10, 20, 30, 60]])


def test_boxes_masks_and_labels_are_drawn(ds: lakebed.Dataset) -> None:
    plain = np.asarray(ds[0].image.pil()).astype(int)
    drawn = np.asarray(ds[0].plot()).astype(int)
    only = np.asarray(lakebed.show(ds[0], "image", ["box"])).astype(int)

    assert drawn.shape == plain.shape
    assert (drawn[10:20, 15] != plain[10:20, 15]).any()  # the mask
    assert only[20, 5].tolist() == [230, 25, 75]  # an edge of the first box
    assert (only[55:] == plain[55:]).all()
    assert np.asarray(ds.plot(tensors=[], rows=1)).astype(int).tolist() == plain.tolist()
    assert ds.plot(rows=5, width=40).size == (160, 60)
    assert lakebed.show(ds.mask, rows=2, width=40).width == 80
    with pytest.raises(TensorDoesNotExistError, match="did you mean 'image'"):
        ds.plot("imag")
    with pytest.raises(InvalidOperationError, match="no rows"):
        ds[:0].plot()
    with pytest.raises(InvalidOperationError, match="htype image"):
        ds[["text"]].plot()


def test_hostile_numbers_are_drawn_without_harm() -> None:
    ds = lakebed.empty(f"mem://showing-{next(NUMBER)}")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("box", htype="bbox", coords={"type": "?", "mode": 3})
    ds.create_tensor("outline", htype="polygon")
    ds.create_tensor("points", htype="keypoints_coco")
    ds.create_tensor("mask", htype="segment_mask", sample_compression="lz4")
    ds.create_tensor("label", htype="class_label")
    ds.append(
        {
            "image": np.zeros((9, 8, 3), np.uint8),
            "box": np.array([[np.nan, np.inf, -np.inf, 1e30]], np.float32),
            "outline": [np.array([[np.nan, 1e30], [0, 0]])],
            "points": np.array([[2**31 - 1], [0], [1]], np.int32),
            "mask": np.ones((2, 2), np.uint32),
            "label": [99],
        }
    )

    assert ds.plot().size == (8, 9)


def test_names_are_completed_and_internals_are_not(ds: lakebed.Dataset) -> None:
    ds.create_tensor("g/x")

    assert ds._ipython_key_completions_() == ["box", "g", "g/x", "image", "label", "mask", "text", "when"]
    assert {"image", "to_pandas", "rows", "plot"} <= set(dir(ds))
    assert {"fix_vc", "token", "org_id", "username"}.isdisjoint(dir(ds))
    assert {"fits_stored", "goes_inside", "base_htype", "pad_tensor"}.isdisjoint(dir(ds.image))
    assert {"numpy", "pil", "shape"} <= set(dir(ds.image))
    assert ds.fix_vc
    names = [name for name in dir(lakebed) if not name.startswith("_")]
    assert set(names) == set(lakebed.__all__)
    assert not [name for name in names if name.endswith(("Error", "Exception"))]
    assert lakebed.TensorDoesNotExistError is TensorDoesNotExistError


def test_sounds_are_embedded() -> None:
    import wave

    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(1600))
    ds: Any = lakebed.empty(f"mem://showing-{next(NUMBER)}")
    ds.create_tensor("sound", htype="audio", sample_compression="wav").append(lakebed.read(file.getvalue()))

    assert (
        ds[0].sound._repr_mimebundle_()["text/html"].startswith('<audio controls src="data:audio/wav;base64,')
    )
    assert "wav (800, 1)" in ds._repr_html_()


@pytest.mark.parametrize("htype", ["image", "binary_mask"])
def test_thumbnails_come_from_a_stored_pyramid(htype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its layers the smallest that suffices is decoded, and the sample is not; a small sample has none that does."""
    ds = lakebed.empty(f"mem://showing-{next(NUMBER)}")
    compression = "png" if htype == "image" else "lz4"
    ds.create_tensor("x", htype=htype, sample_compression=compression, downsampling=(2, 4))
    shape = (800, 1000, 3) if htype == "image" else (800, 1000)
    ds.x.append(np.ones(shape, np.uint8 if htype == "image" else bool))
    ds.x.append(np.ones((90, 80, *shape[2:]), ds.x.dtype))

    layer = showing._layer(ds.x[0])
    assert layer.shape[:2] == (100, 125)
    assert showing._layer(ds.x[1]) is None
    monkeypatch.setattr(lakebed.Tensor, "numpy", lambda *_, **__: pytest.fail("the whole sample was decoded"))
    monkeypatch.setattr(lakebed.Tensor, "tobytes", lambda *_: pytest.fail("the whole sample was read"))
    monkeypatch.setattr(showing, "_MOST_PIXELS", 40_000)
    assert showing._cell(ds.x[0], 100_000).startswith("<img ")


def test_what_lies_in_groups_is_drawn_over_an_image_beside_them() -> None:
    """As an import of COCO lays it out: a split beside the image is no reason to draw no boxes."""
    ds = lakebed.empty("mem://")
    with ds:
        ds.create_tensor("image", htype="image", sample_compression="png")
        ds.create_tensor("captions/words", htype="class_label", class_names=["a photo"])
        ds.create_tensor("instances/bbox", htype="bbox")
        ds.create_tensor("instances/label", htype="class_label", class_names=["cat"])
        ds.create_tensor("people/bbox", htype="bbox")
        ds.create_tensor("split", htype="class_label", class_names=["train"])
        ds.append(
            {
                "image": np.zeros((60, 60, 3), np.uint8),
                "captions/words": 0,
                "instances/bbox": np.array([[5, 20, 30, 30]], np.float32),
                "instances/label": [0],
                "people/bbox": np.array([[50, 50, 5, 5]], np.float32),
                "split": 0,
            }
        )
    drawn = np.asarray(ds.plot(rows=1))
    wanted = lakebed.show(ds[0], "image", ["instances/bbox", "instances/label"])
    assert np.array_equal(drawn, np.asarray(wanted))
    assert drawn[35, 5].any()
    assert not drawn[52, 50].any()
    assert np.array_equal(np.asarray(ds[["image", "split"]].plot(rows=1)), np.zeros((60, 60, 3)))


def test_names_of_boxes_do_not_cover_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many boxes in one place, also where a picture is shown small; the largest ones get their names first."""
    rectangles: list[tuple[float, ...]] = []
    monkeypatch.setattr(
        ImageDraw.ImageDraw,
        "rectangle",
        lambda _, ends, fill=None, **more: rectangles.append(ends) if fill is not None else None,
    )
    written: list[str] = []
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda _, at, text, **more: written.append(text))
    ds = lakebed.empty(f"mem://showing-{next(NUMBER)}")
    with ds:
        ds.create_tensor("image", htype="image", sample_compression="png")
        ds.create_tensor("bbox", htype="bbox", coords={"type": "pixel", "mode": "LTWH"})
        ds.create_tensor("label", htype="class_label", class_names=["bottle", "person"])
        boxes = np.array([[100 + 5 * n, 100, 30, 30] for n in range(40)] + [[50, 50, 300, 200]], np.float32)
        row = {"image": np.zeros((300, 400, 3), np.uint8), "bbox": boxes, "label": [0] * 40 + [1]}
        ds.extend([row, row])

    ds[0].plot()
    assert written[0] == "person"
    assert 5 < len(written) < 41
    for at, (left, top, right, bottom) in enumerate(rectangles):
        assert 0 <= left < right <= 400
        assert 0 <= top < bottom <= 300
        assert all(left > r[2] or right < r[0] or top > r[3] or bottom < r[1] for r in rectangles[:at])
    usual = rectangles[0][3] - rectangles[0][1]
    rectangles.clear()
    assert ds.plot(width=100).width == 200
    assert rectangles[0][3] - rectangles[0][1] > 3 * usual


def test_a_row_shows_what_is_known_of_its_image() -> None:
    ds = lakebed.empty(f"mem://showing-{next(NUMBER)}")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("box", htype="bbox", coords={"type": "pixel", "mode": "LTWH"})
    ds.append({"image": np.zeros((90, 90, 3), np.uint8), "box": np.array([[10, 10, 60, 60]], np.float32)})

    first, second = re.findall(r"base64,([^\"]+)", ds[0]._repr_html_())
    shown = [np.asarray(Image.open(io.BytesIO(base64.b64decode(one)))) for one in (first, second)]
    assert shown[0][40, 10, 0] > 80  # an edge of the box
    assert not shown[1].any()  # the image itself, in its cell
    assert len(re.findall("base64", ds._repr_html_())) == 1


def test_repr_of_some_rows_shows_them_and_print_says_what_3x_says(monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lakebed.from_rows(
        "mem://shown-rows",
        [
            {
                "name": f"n{i}\n!",
                "age": None if i == 1 else i,
                "born": dt.date(2020, 1, i + 1),
                "long": "w" * 99,
            }
            for i in range(8)
        ],
    )
    ds.create_tensor("image", htype="image", sample_compression="png").extend(
        [np.zeros((4, 6, 3), np.uint8)] * 8
    )
    ds.create_tensor("kind", htype="class_label", class_names=["cat", "dog"]).extend([0, 1] * 4)

    lines = repr(ds.head(3)).splitlines()
    assert [line.split() for line in lines[7:9]] == [
        ["name", "age", "born", "long", "image", "kind"],
        ["n0", "!", "0", "2020-01-01", "w" * 30 + "...", "(4,", "6,", "3)", "cat"],
    ]
    assert (lines[9].split()[2], len(lines), len(repr(ds[1:]).splitlines())) == ("None", 11, 13)
    renamed = ds.rename_column("age", "years")[[2, 0]]
    assert repr(renamed[["years"]]).splitlines()[2:] == ["years", "2", "0"]
    assert str(ds.head(3)) == (
        "Dataset(path='mem://shown-rows', index=Index([slice(None, 3, None)]), "
        "tensors=['name', 'age', 'born', 'long', 'image', 'kind'])"
    )

    def read(*_: Any) -> Any:
        raise OSError("nothing is read")

    monkeypatch.setattr(showing, "_shown_value", read)
    assert "cannot be read: nothing" in repr(ds.head(3))
    assert len(repr(ds).splitlines()) == len(repr(ds[0]).splitlines()) == len(repr(ds[:0]).splitlines()) == 7
