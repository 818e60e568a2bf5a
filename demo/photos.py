"""Train a small ResNet on photos with boxes: photos.py FOLDER DATASET.

FOLDER is laid out as COCO is: annotations/instances_NAME.json beside a folder NAME of JPEG files. DATASET is where the
dataset is made, a path or the address of a bucket. What a photo is to be called is the kind of its largest object.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

import lakebed
from lakebed.loaders import ops

SIDE = 64
MEAN, DEVIATION = (0.47, 0.45, 0.41), (0.27, 0.27, 0.28)
CROPS = ops.Compose(
    [
        ops.RandomResizedCrop(SIDE, scale=(0.3, 1.0)),
        ops.HorizontalFlip(),
        ops.ToFloat(),
        ops.Normalize(MEAN, DEVIATION),
        ops.ChannelsFirst(),
    ]
)


def build(folder: Path, address: str, creds: Mapping[str, str] | None = None) -> lakebed.Dataset:
    """Make the dataset: files as they are, boxes and their classes, and the kind of the largest object."""
    parts = [json.loads(file.read_bytes()) for file in sorted(folder.glob("annotations/instances_*.json"))]
    names = [file.stem.partition("_")[2] for file in sorted(folder.glob("annotations/instances_*.json"))]
    categories = parts[0]["categories"]
    numbers = {category["id"]: number for number, category in enumerate(categories)}
    kinds = sorted({category["supercategory"] for category in categories})
    ds = lakebed.empty(address, creds=dict(creds) if creds is not None else None)
    ds.create_tensor("images", htype="image", sample_compression="jpeg")
    ds.create_tensor("boxes", htype="bbox", coords={"type": "pixel", "mode": "LTWH"})
    ds.create_tensor(
        "categories", htype="class_label", class_names=[category["name"] for category in categories]
    )
    ds.create_tensor("kind", htype="class_label", class_names=kinds)
    with ds:
        for name, part in zip(names, parts, strict=True):
            objects: dict[int, list[Any]] = {}
            for found in part["annotations"]:
                objects.setdefault(found["image_id"], []).append(found)
            for photo in part["images"]:
                seen = objects.get(photo["id"])
                if seen is None:
                    continue
                largest = numbers[max(seen, key=lambda found: found["area"])["category_id"]]
                ds.append(
                    {
                        "images": lakebed.read(str(folder / name / photo["file_name"])),
                        "boxes": [found["bbox"] for found in seen],
                        "categories": [numbers[found["category_id"]] for found in seen],
                        "kind": categories[largest]["supercategory"],
                    }
                )
    ds.commit("photos with boxes")
    return ds


class Block(nn.Module):  # type: ignore[misc]
    """Two convolutions and a way around them."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        step = 1 if inner == outer else 2
        self.layers = nn.Sequential(
            nn.Conv2d(inner, outer, 3, step, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip
        self.around = nn.Identity() if step == 1 else nn.Conv2d(inner, outer, 1, step, bias=False)

    def forward(self, x: Any) -> Any:
        return nn.functional.relu(self.layers(x) + self.around(x))


def resnet(classes: int) -> nn.Module:
    """Return a ResNet of nine convolutions."""
    widths = (16, 16, 32, 64, 128)
    blocks = [Block(inner, outer) for inner, outer in pairwise(widths)]
    stem = [nn.Conv2d(3, widths[0], 3, 2, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    return nn.Sequential(
        *stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes)
    )


def train(loader: Any, classes: int, epochs: int) -> list[float]:
    """Train, and return the mean loss of each epoch."""
    torch.manual_seed(0)
    model = resnet(classes)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    losses = []
    for _ in range(epochs):
        total, count = 0.0, 0
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["images"]), batch["kind"][:, 0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(batch["kind"])
            count += len(batch["kind"])
        losses.append(total / count)
    return losses


def main() -> None:
    """Build, train, and tell."""
    ds = build(Path(sys.argv[1]), sys.argv[2])
    loader = ds.pytorch({"images": CROPS, "kind": None}, batch_size=16, shuffle=True)
    began = time.perf_counter()
    for epoch, loss in enumerate(train(loader, len(ds.kind.info.class_names), epochs=20)):
        print(f"  epoch {epoch}: loss {loss:.3f}")
    print(f"  {time.perf_counter() - began:.1f} s; the loop waited for {loader.stats()['bottleneck']}")


if __name__ == "__main__":
    main()
