"""The data of the format's benchmark: photos, raw arrays, boxes, labels; made once, the same for the same seed.

Runs in an environment of its own, with scikit-image and scikit-learn, whose pictures it cuts up, flips, blends and
compresses anew. `BENCH_PHOTOS` names a folder with further JPEG files to start from, such as some of COCO.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image

Picture = NDArray[np.uint8]

BYTES = 60_000
CLASSES = 80
SIDE = 512
NO_DERIVATIVES = 6
"""COCO's number of the licence CC BY-ND, whose pictures may not be changed."""


def pictures(further: Path | None) -> list[Picture]:
    """Photos of at least 300 x 300 pixels, in color."""
    import skimage
    import sklearn.datasets

    folders = [Path(skimage.__file__).parent / "data", Path(sklearn.datasets.__file__).parent / "images"]
    files = [path for folder in folders for path in sorted(folder.iterdir())]
    # Drawings and test charts are no photos.
    files = [path for path in files if path.stem not in {"color", "logo", "page", "text", "chessboard_RGB"}]
    if further is not None:
        files += _changeable(further)
    found = []
    for path in files:
        if path.suffix.lower() not in {".png", ".jpg", ".jpeg"}:
            continue
        with Image.open(path) as image:
            if image.mode == "RGB" and min(image.size) >= 300:
                found.append(np.asarray(image))
    return found


def _changeable(folder: Path) -> Iterator[Path]:
    """JPEG files below a folder; a list of their licences beside them is heeded."""
    provenance = folder / "provenance.json"
    entries = json.loads(provenance.read_text(encoding="utf-8")) if provenance.exists() else []
    forbidden = {folder / entry["file"] for entry in entries if entry["license"] == NO_DERIVATIVES}
    return (path for path in sorted(folder.rglob("*.jpg")) if path not in forbidden)


def derived(originals: list[Picture], height: int, width: int, random: np.random.Generator) -> Picture:
    """A cut from one picture, flipped, and blended with a cut of another one."""

    def cut() -> Picture:
        picture = originals[random.integers(len(originals))]
        tall, wide = picture.shape[:2]
        scale = max(1.0, height / tall, width / wide)
        if scale > 1:
            size = (int(np.ceil(wide * scale)), int(np.ceil(tall * scale)))
            picture = np.asarray(Image.fromarray(picture).resize(size))
        top = random.integers(picture.shape[0] - height + 1)
        left = random.integers(picture.shape[1] - width + 1)
        part = picture[top : top + height, left : left + width]
        return part[:, ::-1] if random.random() < 0.5 else part

    picture = cut()
    if random.random() < 0.5:
        share = random.uniform(0.05, 0.35)
        picture = np.asarray(Image.blend(Image.fromarray(picture), Image.fromarray(cut()), share))
    return np.ascontiguousarray(picture)


def compressed(picture: Picture, size: int) -> bytes:
    """JPEG of about `size` bytes, as far as its quality can bring it there."""
    low, high = 50, 98
    while True:
        quality = (low + high) // 2
        data = bytes(simplejpeg.encode_jpeg(picture, quality=quality, colorsubsampling="420"))
        if high - low <= 2:
            return data
        low, high = (quality, high) if len(data) < size else (low, quality)


def make_photos(
    folder: Path,
    originals: list[Picture],
    count: int,
    random: np.random.Generator,
    low: tuple[int, int],
    high: tuple[int, int],
) -> None:
    """Write numbered JPEG files of about 60 kB, all of different shapes: from `low` to below `high`."""
    (folder / "photos").mkdir()
    for number in range(count):
        height, width = random.integers(low, high)
        data = compressed(
            derived(originals, height, width, random), int(BYTES * random.lognormal(-0.02, 0.2))
        )
        (folder / "photos" / f"{number:06d}.jpg").write_bytes(data)
    np.save(folder / "photo_labels.npy", random.integers(0, CLASSES, count, np.uint32))


def make_raw(folder: Path, originals: list[Picture], count: int, random: np.random.Generator) -> None:
    """Write arrays of 512 x 512 x 3 bytes, one after the other."""
    with (folder / "raw.bin").open("wb") as out:
        for _ in range(count):
            out.write(derived(originals, SIDE, SIDE, random).data)


def make_boxes(folder: Path, count: int, random: np.random.Generator) -> None:
    """Write boxes and their labels; as in COCO 7.3 per picture on average, and none in one of a hundred."""
    numbers = 1 + random.negative_binomial(0.9, 0.9 / (0.9 + 6.36), count)
    numbers[random.random(count) < 0.009] = 0
    offsets = np.concatenate([[0], np.cumsum(numbers)])
    corners = random.uniform(0, 400, (offsets[-1], 2))
    extents = random.lognormal(4, 1, (offsets[-1], 2))
    np.save(folder / "boxes.npy", np.hstack([corners, extents]).astype(np.float32))
    np.save(folder / "box_labels.npy", random.integers(0, CLASSES, offsets[-1], np.uint32))
    np.save(folder / "box_offsets.npy", offsets.astype(np.int64))


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=4_000)
    parser.add_argument("--raw", type=int, default=2_000)
    parser.add_argument("--boxes", type=int, default=118_000)
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--low", type=int, nargs=2, default=(352, 352), help="smallest height and width")
    parser.add_argument("--high", type=int, nargs=2, default=(481, 481), help="one more than the largest")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    further = os.environ.get("BENCH_PHOTOS")
    partial = given.folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    originals = pictures(Path(further) if further else None)
    print(f"making {given.photos:,} photos out of {len(originals)} pictures, once", flush=True)
    # A generator each: more of one kind changes nothing of the others.
    randoms = [np.random.default_rng([given.seed, number]) for number in range(4)]
    make_photos(partial, originals, given.photos, randoms[0], given.low, given.high)
    make_raw(partial, originals, given.raw, randoms[1])
    make_boxes(partial, given.boxes, randoms[2])
    np.save(partial / "labels.npy", randoms[3].integers(0, CLASSES, given.labels, np.uint32))
    partial.rename(given.folder)


if __name__ == "__main__":
    main()
