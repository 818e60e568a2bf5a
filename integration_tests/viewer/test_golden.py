"""Overlays stand where they belong: the canvas of a real browser, read back at several zooms and densities of pixels.

Every kind of overlay marks the same rectangle of one image. The place of its left and top edges is the middle of what
the overlay changed there: at most half a CSS pixel away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lakebed
from integration_tests.viewer.conftest import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

Pixels = NDArray[np.float64]

WIDTH, HEIGHT = 640, 480
LEFT, TOP, RIGHT, BOTTOM = 200, 120, 440, 300
MOST = 0.5  # CSS pixels
NAMES = [f"{mode}_{unit}" for mode in ("LTWH", "LTRB", "CCWH") for unit in ("pixel", "fractional")]
NAMES += ["polygon", "binary_mask", "segment_mask"]
ZOOMS: tuple[dict[str, float] | None, ...] = (
    None,
    {"scale": 0.6, "x": 320, "y": 240},
    {"scale": 1, "x": 250.3, "y": 180.7},
    {"scale": 2.5, "x": 300, "y": 200},
    {"scale": 17, "x": 205.5, "y": 123.25},
)
SIZE = """() => {
  const canvas = document.querySelector('[role=application] canvas');
  return [canvas.clientWidth, canvas.clientHeight];
}"""
LINES = """([x, y]) => {
  const canvas = document.querySelector('[role=application] canvas');
  const read = (...box) => Array.from(canvas.getContext('2d').getImageData(...box).data);
  return [read(0, y, canvas.width, 1), read(x, 0, 1, canvas.height)];
}"""


def write(path: Path) -> None:
    """Write one image and its overlays, each in a tensor of its own."""
    boxes = {
        "LTWH": (LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP),
        "LTRB": (LEFT, TOP, RIGHT, BOTTOM),
        "CCWH": ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2, RIGHT - LEFT, BOTTOM - TOP),
    }
    corners = np.array([[LEFT, TOP], [RIGHT, TOP], [RIGHT, BOTTOM], [LEFT, BOTTOM]], np.float32)
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[TOP:BOTTOM, LEFT:RIGHT] = True
    ds = lakebed.empty(str(path))
    with ds:
        ds.create_tensor("image", htype="image", sample_compression="png")
        row: dict[str, Any] = {"image": np.full((HEIGHT, WIDTH, 3), 128, np.uint8)}
        for mode, box in boxes.items():
            for unit, by in (("pixel", (1, 1, 1, 1)), ("fractional", (WIDTH, HEIGHT, WIDTH, HEIGHT))):
                name = f"{mode}_{unit}"
                ds.create_tensor(name, htype="bbox", coords={"type": unit, "mode": mode})
                row[name] = np.array([box], np.float32) / np.array([by], np.float32)
        ds.create_tensor("polygon", htype="polygon")
        ds.create_tensor("binary_mask", htype="binary_mask", sample_compression="lz4")
        ds.create_tensor("segment_mask", htype="segment_mask", sample_compression="lz4")
        row |= {"polygon": [corners], "binary_mask": mask, "segment_mask": mask.astype(np.uint32)}
        ds.append(row)


def lines(page: Page, inside: tuple[int, int], before: list[Pixels] | None = None) -> list[Pixels]:
    """Return the pixels of the row and of the column through a place of the canvas, once both differ and stay."""
    before = before or [np.zeros((1, 3))] * 2
    last: list[Pixels] = []
    for _ in range(100):
        now = [np.array(one, np.float64).reshape(-1, 4)[:, :3] for one in page.evaluate(LINES, list(inside))]
        is_drawn = all((one != other).any() for one, other in zip(now, before, strict=True))
        if is_drawn and last and all(map(np.array_equal, now, last)):
            return now
        last = now
        page.wait_for_timeout(60)
    raise AssertionError("nothing was drawn in 6 seconds")


def edge(changed: Pixels, expected: float, is_step: bool) -> float:
    """Return where an edge is on a line of pixels: the middle of a stroke, or where an area starts."""
    if is_step:
        return float(np.flatnonzero(changed > changed.max() / 2)[0])
    near = np.arange(max(0, int(expected) - 8), min(len(changed), int(expected) + 9))
    weights = changed[near]
    # An outline's inside may be filled evenly: what the far inside has is no part of its stroke.
    weights = np.clip(weights - weights[-1], 0, None)
    return float((weights * (near + 0.5)).sum() / weights.sum())


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the viewer of that dataset."""
    path = tmp_path_factory.mktemp("golden") / "golden"
    write(path)
    server = Served(path)
    yield server
    server.close()


@pytest.mark.parametrize("density", [1, pytest.param(2, marks=pytest.mark.viewer)])
@pytest.mark.parametrize(
    "zoom",
    [pytest.param(zoom, marks=pytest.mark.viewer) if zoom else zoom for zoom in ZOOMS],
    ids=lambda zoom: f"{zoom['scale']}x" if zoom else "fit",
)
def test_overlays_stand_within_half_a_pixel(
    golden: Served, open_page: Callable[..., Page], zoom: dict[str, float] | None, density: int
) -> None:
    shown: dict[str, Any] = {"dataset": 0, "row": 0, **({"zoom": zoom} if zoom else {})}
    page = open_page(golden.at(**shown, hidden=NAMES), device_scale_factor=density)
    page.wait_for_selector("[role=application] canvas")
    width, height = page.evaluate(SIZE)
    camera = zoom or {"scale": min(width / WIDTH, height / HEIGHT), "x": WIDTH / 2, "y": HEIGHT / 2}
    left = (LEFT - camera["x"]) * camera["scale"] + width / 2
    top = (TOP - camera["y"]) * camera["scale"] + height / 2
    inside = (int((left + 20) * density), int((top + 20) * density))
    ground = lines(page, inside)
    for name in NAMES:
        address = golden.at(**shown, hidden=[one for one in NAMES if one != name])
        page.evaluate("(to) => { location.hash = to; }", address.partition("&")[2])
        for expected, now, before in zip((left, top), lines(page, inside, ground), ground, strict=True):
            changed = np.abs(now - before).sum(axis=1)
            at = edge(changed, expected * density, name.endswith("mask")) / density
            assert abs(at - expected) <= MOST, f"{name}: {at} instead of {expected}"
