"""Small data for the examples: replace it by your own."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

RNG = np.random.default_rng(0)


def fresh(folder: str) -> Path:
    """Make an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    Path(folder).mkdir(parents=True)
    return Path(folder)


def picture(colour: tuple[int, int, int], box: list[int]) -> Image.Image:
    """Draw a disc on noise; the box is left, top, width, height."""
    noise = RNG.integers(0, 130, (64, 64, 3), dtype=np.uint8)
    drawn = Image.fromarray(noise)
    x, y, width, height = box
    ImageDraw.Draw(drawn).ellipse([x, y, x + width, y + height], fill=colour)
    return drawn


def coco(folder: str, count: int = 24) -> Path:
    """Make a folder as COCO has it: pictures, boxes and outlines."""
    root = fresh(folder)
    (root / "train2017").mkdir()
    (root / "annotations").mkdir()
    images, annotations = [], []
    for number in range(count):
        x, y, width, height = RNG.integers([4, 4, 18, 18], [24, 24, 36, 36])
        box = [int(x), int(y), int(width), int(height)]
        picture((230, 60, 40), box).save(root / f"train2017/{number}.jpg")
        turns = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        xs = x + width * (1 + np.cos(turns)) / 2
        ys = y + height * (1 + np.sin(turns)) / 2
        outline = np.stack([xs, ys], axis=1).round(2).ravel().tolist()
        annotation = {"id": number, "image_id": number, "category_id": 5}
        annotation |= {"bbox": box, "segmentation": [outline], "iscrowd": 0}
        annotations.append({**annotation, "area": float(width * height)})
        image = {"id": number, "file_name": f"{number}.jpg"}
        images.append({**image, "width": 64, "height": 64})
    content = {"images": images, "annotations": annotations}
    content["categories"] = [{"id": 5, "name": "ball"}]
    target = root / "annotations/instances_train2017.json"
    target.write_text(json.dumps(content))
    return root


def folder_of_classes(folder: str) -> Path:
    """Make a folder for each class, with what real ones have."""
    root = fresh(folder)
    for kind, colour in (("red", (220, 40, 40)), ("blue", (40, 40, 220))):
        (root / kind).mkdir()
        for number in range(20):
            drawn = picture(colour, [10, 10, 30 + number % 4, 30])
            drawn.save(root / kind / f"{number}.png")
    (root / "red/torn.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    shutil.copy(root / "red/1.png", root / "red/1 (copy).png")
    picture((40, 40, 220), [12, 12, 34, 30]).save(root / "red/wrong.png")
    return root


def deeplake3(folder: str) -> Path:
    """Take a dataset that Deep Lake 3.9.52 wrote out of the test data."""
    root, name = fresh(folder), "golden/f10_branches_merge/"
    tests = Path(__file__).resolve().parent.parent / "unit_tests"
    with tarfile.open(tests / "data/golden-3.9.52.tar.xz") as archive:
        for member in archive.getmembers():
            if member.name.startswith(name) and member.isfile():
                file = archive.extractfile(member)
                target = root / member.name.removeprefix(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read() if file else b"")
    return root
