"""Regions of images: the pixels of the whole image, Pillow's resizing, and nothing outside of a sample's room."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
import PIL.Image
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakebed.codecs import regions as codecs
from lakebed.codecs.jpeg import Jpeg
from lakebed.native import headers
from lakebed.native import regions as native
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(150))
VARIANTS = range(native.BEST + 1)
SUBSAMPLINGS = ["444", "422", "420", "440", "411", "Gray"]
SENTINEL = 0xA5

Pixels = NDArray[np.uint8]


@pytest.fixture(scope="module", autouse=True)
def _bound() -> None:
    path, problem = codecs.library()
    assert path, f"the tests need Pillow's wheel: {problem}"


def picture(height: int, width: int, channels: int = 3) -> Pixels:
    """Return an image with edges, gradients and noise: what upsampling and filters treat differently."""
    y, x = np.mgrid[:height, :width]
    rng = np.random.default_rng(height * 1000 + width)
    planes = [
        128 + 90 * np.sin(x / 5 + c) * np.cos(y / 7 - c) + 60 * ((x // 9 + y // 5 + c) % 2)
        for c in range(channels)
    ]
    noisy = np.stack(planes, axis=-1) + rng.normal(0, 20, (height, width, channels))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def jpeg(
    height: int, width: int, subsampling: str = "420", *, progressive: bool = False, quality: int = 90
) -> bytes:
    if progressive:
        target = io.BytesIO()
        PIL.Image.fromarray(picture(height, width)).save(
            target,
            "JPEG",
            quality=quality,
            progressive=True,
            subsampling={"444": 0, "422": 1}.get(subsampling, 2),
        )
        return target.getvalue()
    if subsampling == "Gray":
        return bytes(simplejpeg.encode_jpeg(picture(height, width, 1), quality, "GRAY", "Gray"))
    return bytes(simplejpeg.encode_jpeg(picture(height, width), quality, "RGB", subsampling))


def whole(data: bytes) -> Pixels:
    """Return the pixels that a reader of the dataset gets."""
    pixels: Pixels = Jpeg().decode(data)
    return pixels if pixels.ndim == 3 else pixels[..., np.newaxis]


def region(
    data: bytes | Pixels, box: tuple[int, ...], size: tuple[int, int], *, channels: int = 3, **options: Any
) -> tuple[int, Pixels]:
    """Make one region in the middle of guarded memory; return its status and its room."""
    planar = options.get("planar", False)
    shape = (channels, *size) if planar else (*size, channels)
    guarded = np.full((3, *shape), SENTINEL, np.uint8)
    rows: dict[str, Any] = {
        name: np.array([options.pop(name)], np.int32) for name in ("resized", "offsets") if name in options
    }
    if "flip" in options:
        rows["flips"] = np.array([options.pop("flip")], np.uint8)
    boxes = np.array([box], np.int32)
    if isinstance(data, bytes):
        shapes = options.pop("shapes", None)
        shapes = headers.jpeg_headers([data])[0] if shapes is None else shapes
        status = native.decode_regions([data], shapes, boxes, guarded[1:2], **rows, **options)
    else:
        status = native.resize_regions([data], boxes, guarded[1:2], **rows, **options)
    assert np.all(guarded[0] == SENTINEL)
    assert np.all(guarded[2] == SENTINEL)
    room = guarded[1]
    return int(status[0]), np.moveaxis(room, 0, 2) if planar else room


def by_pillow(pixels: Pixels, box: tuple[int, ...], size: tuple[int, int]) -> NDArray[np.int64]:
    """Crop, then resize, as torchvision does it with images of Pillow."""
    top, left, height, width = box
    bands = [
        np.asarray(
            PIL.Image.fromarray(pixels[top : top + height, left : left + width, c]).resize(
                (size[1], size[0]), PIL.Image.Resampling.BILINEAR
            )
        )
        for c in range(pixels.shape[2])
    ]
    return np.stack(bands, axis=-1).astype(np.int64)


@st.composite
def boxed(draw: st.DrawFn, most: int = 90) -> tuple[int, int, tuple[int, int, int, int]]:
    height, width = draw(st.integers(1, most)), draw(st.integers(1, most))
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    return (
        height,
        width,
        (top, left, draw(st.integers(1, height - top)), draw(st.integers(1, width - left))),
    )


@SMALL
@given(boxed(), st.sampled_from(SUBSAMPLINGS), st.booleans(), st.booleans(), st.booleans())
def test_region_has_the_pixels_of_the_whole_image(
    made: tuple[int, int, tuple[int, int, int, int]],
    subsampling: str,
    progressive: bool,
    planar: bool,
    flip: bool,
) -> None:
    """Bit by bit, wherever its borders lie in blocks and between samples of chroma."""
    height, width, box = made
    channels = 1 if subsampling == "Gray" else 3
    data = jpeg(height, width, subsampling, progressive=progressive and channels == 3)
    status, room = region(data, box, box[2:], channels=channels, planar=planar, flip=flip)
    assert status == native.DONE
    top, left, h, w = box
    expected = whole(data)[top : top + h, left : left + w]
    np.testing.assert_array_equal(room, expected[:, ::-1] if flip else expected)


@pytest.mark.parametrize("subsampling", ["444", "422", "420"])
def test_every_border_of_a_region(subsampling: str) -> None:
    """All offsets and extents around the blocks of an image that is larger than a few of them."""
    data = jpeg(83, 101, subsampling)
    pixels = whole(data)
    for first in range(50):
        for extent in (1, 2, 15, 16, 17, 33):
            box = (first, first + 7, extent, extent + 1)
            status, room = region(data, box, box[2:])
            assert status == native.DONE
            np.testing.assert_array_equal(
                room, pixels[box[0] : box[0] + extent, box[1] : box[1] + extent + 1], f"{box}"
            )


@SMALL
@given(boxed(), st.integers(1, 70), st.integers(1, 70), st.sampled_from([1, 3]), st.booleans(), st.booleans())
def test_resizing_is_that_of_pillow(
    made: tuple[int, int, tuple[int, int, int, int]],
    out_height: int,
    out_width: int,
    channels: int,
    planar: bool,
    flip: bool,
) -> None:
    """Within 1 of 255, and the same for all instructions of the processor and for files and arrays."""
    height, width, box = made
    data = jpeg(height, width, "Gray" if channels == 1 else "420")
    pixels, size = whole(data), (out_height, out_width)
    expected = by_pillow(pixels, box, size)
    expected = expected[:, ::-1] if flip else expected
    rooms = []
    for variant in VARIANTS:
        for source, more in ((data, {"scaled": False}), (pixels, {})):
            status, room = region(
                source, box, size, channels=channels, variant=variant, planar=planar, flip=flip, **more
            )
            assert status == native.DONE
            rooms.append(room)
    for room in rooms[1:]:
        np.testing.assert_array_equal(room, rooms[0])
    assert np.abs(rooms[0] - expected).max() <= 1


def test_large_images_are_resized_like_pillow() -> None:
    """Many taps, odd extents and enlarging as well as shrinking far."""
    data = jpeg(700, 911)
    pixels = whole(data)
    for box, size in (
        ((0, 0, 700, 911), (224, 224)),
        ((3, 5, 690, 900), (7, 8)),
        ((0, 0, 700, 911), (6, 900)),
        ((100, 200, 20, 30), (224, 331)),
        ((1, 1, 600, 2), (224, 224)),
    ):
        expected = by_pillow(pixels, box, size)
        for variant in VARIANTS:
            status, room = region(data, box, size, scaled=False, variant=variant)
            assert status == native.DONE
            assert np.abs(room - expected).max() <= 1, (box, size)


@pytest.mark.parametrize("value", [0, 1, 127, 254, 255])
def test_even_images_stay_even(value: int) -> None:
    """Weights sum to one: no pixel of an image of one colour changes, and none overflows."""
    pixels = np.full((61, 83, 3), value, np.uint8)
    for size in ((1, 1), (7, 5), (61, 40), (224, 224), (61, 200)):
        for variant in VARIANTS:
            status, room = region(pixels, (0, 0, 61, 83), size, variant=variant)
            assert status == native.DONE
            assert np.all(room == value)


@pytest.mark.parametrize(
    ("box", "resized"),
    [
        ((5, 6, 40, 50), (40, 50)),
        ((5, 6, 40, 50), (25, 61)),
        ((0, 0, 60, 75), (60, 75)),
        ((0, 0, 60, 75), (30, 30)),
    ],
)
@pytest.mark.parametrize("offset", [(0, 0), (3, 4), (-5, -9), (-2, 11), (30, -40), (500, 0), (-60, 2)])
@pytest.mark.parametrize("planar", [False, True])
def test_window_of_what_is_resized(
    box: tuple[int, int, int, int], resized: tuple[int, int], offset: tuple[int, int], planar: bool
) -> None:
    """A window shows what is there of the resized box, zeros around it, and mirrored if that is wanted."""
    data, size = jpeg(60, 75), (29, 37)
    canvas = np.zeros((3000, 3000, 3), np.int64)
    at = (1000, 1000)
    if resized == box[2:]:
        shown = whole(data)[box[0] : box[0] + box[2], box[1] : box[1] + box[3]].astype(np.int64)
    else:
        shown = by_pillow(whole(data), box, resized)
    canvas[at[0] : at[0] + resized[0], at[1] : at[1] + resized[1]] = shown
    y, x = at[0] + offset[0], at[1] + offset[1]
    expected = canvas[y : y + size[0], x : x + size[1]]
    for source, more in ((data, {"scaled": False}), (whole(data), {})):
        for flip in (False, True):
            status, room = region(
                source, box, size, resized=resized, offsets=offset, flip=flip, planar=planar, **more
            )
            assert status == native.DONE
            difference = np.abs(room - (expected[:, ::-1] if flip else expected))
            assert difference.max() <= (0 if resized == box[2:] else 1)


@pytest.mark.parametrize("scale", [2, 4, 8])
@pytest.mark.parametrize("subsampling", ["444", "420", "Gray"])
def test_decoder_scales_down_where_pixels_are_left(scale: int, subsampling: str) -> None:
    """What comes out is the scaled image of the decoder, resized; a box one pixel smaller is decoded at twice."""
    channels = 1 if subsampling == "Gray" else 3
    height, width, side = 480, 640, 48
    data = jpeg(height, width, subsampling)
    small = simplejpeg.decode_jpeg(
        data,
        "GRAY" if channels == 1 else "RGB",
        min_height=height // scale,
        min_width=width // scale,
        min_factor=1,
    )
    assert small.shape[:2] == (height // scale, width // scale)
    box = (16, 32, side * scale, side * scale)
    scaled_box = tuple(part // scale for part in box)
    status, room = region(data, box, (side, side), channels=channels)
    assert status == native.DONE
    assert np.abs(room - by_pillow(small, scaled_box, (side, side))).max() <= 1
    status, room = region(data, (16, 32, side * scale, side * scale - 1), (side, side), channels=channels)
    assert status == native.DONE
    assert np.abs(room - by_pillow(small, scaled_box, (side, side))).max() > 1


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_rooms_of_floats(channels: int, planar: bool) -> None:
    """The same values, multiplied and added to by channel, zeros outside of the box as well."""
    data = jpeg(60, 75, "Gray" if channels == 1 else "420")
    factors = np.array([[0.5, 0.25, 3.0], [-1.0, 7.0, 0.125]], np.float32)[:, :channels].copy()
    across = factors.reshape((2, channels, 1, 1) if planar else (2, 1, 1, channels))
    shapes, boxes = headers.jpeg_headers([data])[0], np.array([[3, 4, 50, 61]], np.int32)
    for size, resized, offset in (
        ((33, 41), (33, 41), (0, 0)),
        ((50, 61), (50, 61), (0, 0)),
        ((70, 50), (31, 90), (-7, 9)),
    ):
        shape = (channels, *size) if planar else (*size, channels)
        for flip in (0, 1):
            rows: tuple[Any, ...] = (
                np.array([resized], np.int32), np.array([offset], np.int32), np.array([flip], np.uint8)
            )  # fmt: skip
            values = np.zeros((1, *shape), np.uint8)
            assert not native.decode_regions([data], shapes, boxes, values, *rows, planar=planar).any()
            for variant in VARIANTS:
                floats = np.full((3, *shape), np.nan, np.float32)
                options: Any = {"factors": factors, "planar": planar, "variant": variant}
                assert not native.decode_regions([data], shapes, boxes, floats[1:2], *rows, **options).any()
                assert np.isnan(floats[[0, 2]]).all()
                np.testing.assert_allclose(floats[1], values[0] * across[0] + across[1], rtol=1e-6, atol=1e-6)


def test_grey_files_fill_three_channels() -> None:
    data = jpeg(40, 50, "Gray")
    status, room = region(data, (4, 5, 20, 30), (20, 30))
    assert status == native.DONE
    np.testing.assert_array_equal(room, np.repeat(whole(data)[4:24, 5:35], 3, axis=2))


def test_batch_with_rooms_of_their_own() -> None:
    """A list of arrays of several sizes; each sample gets its own pixels."""
    sizes = [(30, 40), (17, 90), (64, 64), (1, 5)]
    files = [jpeg(*size) for size in sizes]
    shapes, _ = headers.jpeg_headers(files)
    rooms = [np.empty((*size, 3), np.uint8) for size in sizes]
    boxes = np.array([(0, 0, *size) for size in sizes], np.int32)
    assert not native.decode_regions(files, shapes, boxes, rooms).any()
    for data, room in zip(files, rooms, strict=True):
        np.testing.assert_array_equal(room, whole(data))


@pytest.mark.parametrize(
    ("box", "size"),
    [
        ((0, 0, 31, 40), (8, 8)),
        ((0, 0, 30, 41), (8, 8)),
        ((-1, 0, 3, 4), (8, 8)),
        ((0, -1, 3, 4), (8, 8)),
        ((29, 39, 2, 1), (8, 8)),
        ((0, 0, 0, 4), (8, 8)),
        ((0, 0, 3, -4), (8, 8)),
        ((2**31 - 1, 0, 2**31 - 1, 3), (8, 8)),
    ],
)
def test_boxes_that_leave_the_image_are_refused(box: tuple[int, ...], size: tuple[int, int]) -> None:
    for source in (jpeg(30, 40), picture(30, 40)):
        assert region(source, box, size)[0] == native.BOX


def test_sides_that_no_jpeg_file_has_are_refused() -> None:
    assert region(jpeg(30, 40), (0, 0, 30, 1), (65_536, 1))[0] == native.BOX
    assert region(jpeg(30, 40), (0, 0, 30, 1), (65_535, 1))[0] == native.DONE


def test_boxes_that_shrink_too_far_are_refused() -> None:
    assert region(picture(250, 5), (0, 0, 250, 5), (1, 5))[0] == native.BOX
    pixels = picture(249, 5)
    status, room = region(pixels, (0, 0, 249, 5), (1, 5))
    assert status == native.DONE
    assert np.abs(room - by_pillow(pixels, (0, 0, 249, 5), (1, 5))).max() <= 1


def test_header_must_say_what_the_caller_says() -> None:
    """Extents and channels of the header are not trusted, so nothing is allocated by them."""
    data = jpeg(30, 40)
    for shape in ((31, 40, 3), (30, 41, 3), (30, 40, 1), (29, 40, 3), (2**32 - 1, 40, 3)):
        status, _ = region(data, (0, 0, 8, 8), (8, 8), shapes=np.array([shape], np.uint32))
        assert status in (native.OTHER, native.BOX), shape
    assert region(jpeg(30, 40), (0, 0, 8, 8), (8, 8), channels=1)[0] == native.OTHER


def test_other_kinds_of_files_are_left() -> None:
    """CMYK, and what is no JPEG at all."""
    target = io.BytesIO()
    PIL.Image.fromarray(picture(30, 40)).convert("CMYK").save(target, "JPEG")
    assert region(target.getvalue(), (0, 0, 8, 8), (8, 8))[0] == native.OTHER
    for data in (b"", b"\xff\xd8\xff\xd9", b"\x89PNG\r\n\x1a\n" + bytes(40), bytes(1000)):
        status, _ = region(data, (0, 0, 8, 8), (8, 8), shapes=np.array([[30, 40, 3]], np.uint32))
        assert status in (native.DAMAGED, native.ENDS)


def test_each_truncation_is_told() -> None:
    """A file that was cut off at any byte is not done, even where the region lies before the cut."""
    data = jpeg(40, 33)
    shapes = headers.jpeg_headers([data])[0]
    for cut in range(len(data)):
        status, _ = region(data[:cut], (0, 0, 8, 8), (8, 8), shapes=shapes)
        assert status != native.DONE, cut
    for cut in range(700, len(data) - 2):
        status, _ = region(data[:cut] + b"\xff\xd9", (0, 0, 40, 33), (40, 33), shapes=shapes)
        assert status != native.DONE, cut


def test_flipped_bytes_break_nothing() -> None:
    """Damage is told or shows as other pixels, in its own room only; the next file is decoded as ever."""
    data, rng = jpeg(40, 33), np.random.default_rng(5)
    shapes = headers.jpeg_headers([data])[0]
    seen = set()
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(8))
        seen.add(region(bytes(damaged), (3, 3, 30, 30), (17, 9), shapes=shapes)[0])
    assert {native.DONE, native.DAMAGED, native.OTHER} <= seen
    status, room = region(data, (0, 0, 40, 33), (40, 33))
    assert status == native.DONE
    np.testing.assert_array_equal(room, whole(data))


def test_a_damaged_file_leaves_its_neighbours() -> None:
    files = [jpeg(40, 33), jpeg(40, 33)[:900] + b"\xff\xd9", jpeg(40, 33)]
    shapes = headers.jpeg_headers([files[0]] * 3)[0]
    out = np.zeros((3, 40, 33, 3), np.uint8)
    status = native.decode_regions(files, shapes, np.array([[0, 0, 40, 33]] * 3, np.int32), out)
    assert status.tolist() == [native.DONE, native.DAMAGED, native.DONE]
    np.testing.assert_array_equal(out[2], whole(files[2]))


def test_threads_decode_at_once() -> None:
    """Each call has its own decoder and memory."""
    files = [jpeg(200 + i, 300 - i) for i in range(16)]
    shapes, _ = headers.jpeg_headers(files)
    boxes = np.array([(i, 2 * i, 150, 120 + i) for i in range(16)], np.int32)
    expected = np.empty((16, 64, 64, 3), np.uint8)
    assert not native.decode_regions(files, shapes, boxes, expected).any()
    found = [np.empty_like(expected) for _ in range(6)]

    def work(out: Pixels) -> None:
        for _ in range(5):
            assert not native.decode_regions(files, shapes, boxes, out).any()

    threads = [threading.Thread(target=work, args=(out,)) for out in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in found:
        np.testing.assert_array_equal(out, expected)


def test_arguments_that_do_not_fit_together() -> None:
    data = jpeg(8, 8)
    shapes, boxes = np.array([[8, 8, 3]], np.uint32), np.array([[0, 0, 8, 8]], np.int32)
    out = np.zeros((1, 8, 8, 3), np.uint8)
    two = np.zeros((2, 2), np.int32)
    for files, arguments in (
        ([data, data], (shapes, boxes, out)),
        ([data], (shapes[:, :2].copy(), boxes, out)),
        ([data], (shapes, np.zeros((2, 4), np.int32), out)),
        ([data], (shapes, boxes[:, :3].copy(), out)),
        ([data], (shapes, boxes, np.zeros((2, 8, 8, 3), np.uint8))),
        ([data], (shapes, boxes, [out[0], out[0]])),
        ([data], (shapes, boxes, np.zeros((1, 8, 8, 5), np.uint8))),
        ([data], (shapes, boxes, np.zeros((1, 8, 8, 3), np.float32))),
        ([data], (shapes, boxes, np.zeros((1, 0, 8, 3), np.uint8))),
        ([data], (shapes, boxes, np.zeros((1, 8, 8, 3), np.int32))),
        ([data], (shapes, boxes, out, two)),
        ([data], (shapes, boxes, out, None, two)),
        ([data], (shapes, boxes, out, None, None, np.zeros(2, np.uint8))),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            native.decode_regions(files, *arguments)  # type: ignore[arg-type]
    for room, factors in ((out, np.zeros((2, 3))), (out.astype(np.float32), np.zeros((2, 2)))):
        with pytest.raises(ValueError, match="factors"):
            native.decode_regions([data], shapes, boxes, room, factors=factors.astype(np.float32))
    for image in (np.zeros((8, 8), np.float32), np.zeros(8, np.uint8), np.zeros((1, 8, 8, 3), np.uint8)):
        with pytest.raises(ValueError):  # noqa: PT011
            native.resize_regions([image], boxes, out)  # type: ignore[list-item]


def test_libraries_that_cannot_be_bound_say_why(tmp_path: Any) -> None:
    """In a process of its own: here one is bound already, and stays."""
    import subprocess
    import sys

    program = (
        "import sys; from lakebed.native import regions\n"
        "for path in sys.argv[1:]:\n"
        "    try: regions.bind(path)\n"
        "    except OSError as error: print(error)\n"
        "import numpy as np\n"
        "room = np.zeros((1, 8, 8, 3), np.uint8)\n"
        "rows = np.array([[8, 8, 3]], np.uint32), np.array([[0, 0, 8, 8]], np.int32)\n"
        "print(regions.decode_regions([b'x'], *rows, room)[0] == regions.LIBRARY)\n"
    )
    import _ctypes

    said = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "none.so"), str(native.__file__), _ctypes.__file__],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert "none.so" in said[0]
    assert said[1].endswith("it has no jpeg_crop_scanline")
    assert said[-1] == "True"
