"""Decoders for training: a random crop of a photo, 224 x 224, beside a bare loop that only decodes its scan lines.

    python -m benchmarks.regions FOLDER [RUNS]

FOLDER holds photos as JPEG files; they are made 375 x 500 (and, as mosaics, 1500 x 2000) with quality 90. The limit
is compiled here from regions_limit.c and uses the same library: it decodes each box, scaled down where that leaves
enough pixels, into one hot buffer, and resizes nothing. All ways take turns; times are CPU microseconds per photo, the
least of the runs. OpenCV joins where it is installed.
"""

from __future__ import annotations

import ctypes
import io
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import PIL.Image
import simplejpeg
from numpy.typing import NDArray

from lakebed.codecs import regions as codec
from lakebed.loaders import ops
from lakebed.loaders.draws import draws
from lakebed.native import headers
from lakebed.native import regions as native

PHOTOS = 32
SIDE = 224
RUNS = 9
BILINEAR = PIL.Image.Resampling.BILINEAR
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Pixels = NDArray[np.uint8]


def photos(folder: Path) -> list[Pixels]:
    """Photos of 375 x 500 pixels, in colour."""
    found = []
    for path in sorted(folder.rglob("*.jpg")):
        with PIL.Image.open(path) as image:
            if image.mode == "RGB" and image.width > image.height and image.width >= 500:
                found.append(np.asarray(image.resize((500, 375), PIL.Image.Resampling.LANCZOS)))
        if len(found) == PHOTOS:
            break
    if not found:
        raise SystemExit(f"no photos of 500 pixels in {folder}")
    return found


def encoded(pixels: list[Pixels]) -> list[bytes]:
    """Compress photos as most are."""
    return [bytes(simplejpeg.encode_jpeg(image, 90, "RGB", "420")) for image in pixels]


def mosaics(pixels: list[Pixels]) -> list[Pixels]:
    """Eight photos of 1500 x 2000 pixels, of sixteen small ones each."""
    rows = [np.hstack([pixels[(i + j) % len(pixels)] for j in range(4)]) for i in range(len(pixels))]
    return [np.vstack([rows[(4 * i + j) % len(rows)] for j in range(4)]) for i in range(8)]


class Limit:
    """The bare loop."""

    def __init__(self, library: str, folder: Path) -> None:
        target = folder / "limit.so"
        source = Path(__file__).with_name("regions_limit.c")
        include = source.parent.parent / "ext"
        subprocess.run(
            ["cc", "-O3", "-shared", "-fPIC", f"-I{include}", "-o", target, source, "-ldl"], check=True
        )
        self._loop = ctypes.CDLL(str(target))
        why = ctypes.create_string_buffer(512)
        if not self._loop.limit_bind(library.encode(), why, ctypes.c_size_t(512)):
            raise SystemExit(why.value.decode())
        self._room = np.empty(1500 * 2000 * 3, np.uint8)

    def decode(
        self, files: list[bytes], boxes: NDArray[np.int32], scales: NDArray[np.int32], partial: bool
    ) -> None:
        sizes = np.array([len(file) for file in files], np.uintp)
        failed = self._loop.limit_decode(
            (ctypes.c_char_p * len(files))(*files),
            *(ctypes.c_void_p(array.ctypes.data) for array in (sizes, boxes, scales)),
            len(files),
            ctypes.c_void_p(self._room.ctypes.data),
            ctypes.c_size_t(self._room.size),
            int(partial),
        )
        assert failed == 0


def by_pillow(image: PIL.Image.Image, box: list[int]) -> Pixels:
    """Cut the box and resize it."""
    top, left, height, width = box
    cut = image.crop((left, top, left + width, top + height))
    return np.asarray(cut.resize((SIDE, SIDE), BILINEAR))


def by_draft(file: bytes, box: list[int]) -> Pixels:
    """Let Pillow's decoder scale down, as far as the box keeps its pixels."""
    image = PIL.Image.open(io.BytesIO(file))
    full = image.size
    scale = scale_of(box)
    image.draft("RGB", (full[0] // scale, full[1] // scale))
    across, down = image.width / full[0], image.height / full[1]
    top, left, height, width = box
    corners = (left * across, top * down, (left + width) * across, (top + height) * down)
    return np.asarray(image.resize((SIDE, SIDE), BILINEAR, box=corners))


def by_min_factor(file: bytes, box: list[int], whole: tuple[int, int]) -> Pixels:
    """Let simplejpeg scale down, as far as the box keeps its pixels."""
    scale = scale_of(box)
    pixels = simplejpeg.decode_jpeg(
        file, min_height=whole[0] // scale, min_width=whole[1] // scale, min_factor=1
    )
    down, across = pixels.shape[0] / whole[0], pixels.shape[1] / whole[1]
    top, left, height, width = box
    corners = (left * across, top * down, (left + width) * across, (top + height) * down)
    return np.asarray(PIL.Image.fromarray(pixels).resize((SIDE, SIDE), BILINEAR, box=corners))


def scale_of(box: list[int] | NDArray[np.int32]) -> int:
    """Return how far the decoder may scale down."""
    return next(scale for scale in (8, 4, 2, 1) if scale == 1 or min(box[2], box[3]) >= SIDE * scale)


def cases(files: list[Any], limit: Limit) -> dict[str, Callable[[], Any]]:
    """Name everything that takes part, the limit first."""
    n = len(files)
    shapes, _ = headers.jpeg_headers(files)
    transform = ops.Compose([ops.RandomResizedCrop(SIDE, flip=0.5), ops.ToFloat(), ops.Normalize(MEAN, STD)])
    (geometry,) = transform.geometries(shapes, draws(0, 0, np.arange(n), transform.draws))
    boxes, whole = geometry.boxes, ops.Geometry.whole(shapes).boxes
    scales, ones = np.array([scale_of(box) for box in boxes], np.int32), np.ones(n, np.int32)
    height, width = (int(side) for side in shapes[0, :2])
    flips, factors = geometry.flips, transform.factors(3)
    batch = np.zeros((n, SIDE, SIDE, 3), np.uint8)
    planes = np.zeros((n, 3, SIDE, SIDE), np.uint8)
    floats = np.zeros((n, 3, SIDE, SIDE), np.float32)
    images = np.zeros((n, height, width, 3), np.uint8)
    hot = np.zeros((height, width, 3), np.uint8)
    rows = boxes.tolist()

    def ours(out: NDArray[Any], **options: Any) -> None:
        assert not native.decode_regions(files, shapes, boxes, out, None, None, flips, **options).any()

    def each(make: Callable[[bytes, list[int]], Pixels]) -> Callable[[], None]:
        def run() -> None:
            for i, (file, box) in enumerate(zip(files, rows, strict=True)):
                batch[i] = make(file, box)

        return run

    def one_by_one() -> None:
        for i, file in enumerate(files):
            simplejpeg.decode_jpeg(file, buffer=images[i])

    def hot_pixels(file: bytes) -> PIL.Image.Image:
        return PIL.Image.fromarray(simplejpeg.decode_jpeg(file, buffer=hot))

    def ours_of_whole() -> None:
        for i, file in enumerate(files):
            simplejpeg.decode_jpeg(file, buffer=hot)
            native.resize_regions([hot], boxes[i : i + 1], batch[i : i + 1])

    found: dict[str, Callable[[], Any]] = {
        "limit: bare loop, box only": lambda: limit.decode(files, boxes, scales, partial=True),
        "bare loop, whole": lambda: limit.decode(files, whole, ones, partial=False),
        "decode_regions": lambda: ours(batch),
        "decode_regions, never scaled down": lambda: ours(batch, scaled=False),
        "decode_regions, channels first": lambda: ours(planes, planar=True),
        "decode_regions, normalised floats, channels first": lambda: ours(
            floats, planar=True, factors=factors
        ),
        "decode_regions, SSE4.1": lambda: ours(batch, variant=native.SSE41),
        "decode_regions, plain C": lambda: ours(batch, variant=native.PLAIN),
        "simplejpeg whole + resize_regions": ours_of_whole,
        "simplejpeg whole + Pillow": each(lambda file, box: by_pillow(hot_pixels(file), box)),
        "simplejpeg min_factor + Pillow": each(lambda file, box: by_min_factor(file, box, (height, width))),
        "Pillow draft": each(by_draft),
        "Pillow": each(lambda file, box: by_pillow(PIL.Image.open(io.BytesIO(file)), box)),
        "whole images: decode_regions": lambda: native.decode_regions(files, shapes, whole, images),
        "whole images: simplejpeg one by one": one_by_one,
    }
    try:
        import cv2  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return found
    cv2.setNumThreads(1)

    def by_opencv(file: bytes, box: list[int]) -> Pixels:
        top, left, height, width = box
        pixels = cv2.cvtColor(
            cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB
        )
        cut = pixels[top : top + height, left : left + width]
        made: Pixels = cv2.resize(cut, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        return made

    found["OpenCV, area"] = each(by_opencv)
    return found


def measure(name: str, files: list[bytes], limit: Limit, runs: int) -> None:
    """Print a table for files of one size."""
    running = cases(files, limit)
    least = dict.fromkeys(running, float("inf"))
    for call in running.values():
        call()
    for _ in range(runs):
        for case, call in running.items():
            began = time.process_time()
            call()
            least[case] = min(least[case], (time.process_time() - began) / len(files) * 1e6)
    first = next(iter(least.values()))
    print(f"\n{name}, {np.mean([len(file) for file in files]) / 1000:.0f} kB each\n")
    print("| | CPU us per photo | limit / it |\n|---|---:|---:|")
    for case, spent in least.items():
        print(f"| {case} | {spent:,.0f} | {first / spent:.2f} |")


def main(folder: Path, runs: int) -> None:
    """Compare on photos and on mosaics of them."""
    library, problem = codec.library()
    if library is None:
        raise SystemExit(problem)
    small = photos(folder)
    print(
        f"{platform.machine()}, {Path(library).name}, Pillow {PIL.__version__}, simplejpeg {simplejpeg.__version__}"
    )
    with tempfile.TemporaryDirectory() as work:
        limit = Limit(library, Path(work))
        measure("375 x 500", encoded(small), limit, runs)
        measure("1500 x 2000", encoded(mosaics(small)), limit, max(runs // 3, 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else RUNS)
