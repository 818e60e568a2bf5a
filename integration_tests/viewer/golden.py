"""Hold what the viewer draws against the pixels where it belongs: ``python golden.py`` prints the largest distances.

Every kind of overlay marks the same rectangle of one image. Chromium draws it at several zooms and densities of pixels;
the place of its left and top edges is read back from the canvas, as the middle of what the overlay changed there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

import lakebed

WIDTH, HEIGHT = 640, 480
LEFT, TOP, RIGHT, BOTTOM = 200, 120, 440, 300
MOST = 0.5  # CSS pixels
CHROMIUM = "/usr/bin/chromium"
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


def make(path: str) -> list[str]:
    """Write the dataset, and return the names of its overlays."""
    boxes = {
        "LTWH": (LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP),
        "LTRB": (LEFT, TOP, RIGHT, BOTTOM),
        "CCWH": ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2, RIGHT - LEFT, BOTTOM - TOP),
    }
    corners = np.array([[LEFT, TOP], [RIGHT, TOP], [RIGHT, BOTTOM], [LEFT, BOTTOM]], np.float32)
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[TOP:BOTTOM, LEFT:RIGHT] = True
    ds = lakebed.empty(path)
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
    return [name for name in row if name != "image"]


@contextmanager
def serving(path: str) -> Iterator[dict[str, Any]]:
    """Run the viewer on a dataset, and give what it prints."""
    command = [sys.executable, "-m", "lakebed.viewer", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def fragment(**state: Any) -> str:
    """Write a state of the page as the fragment of an address."""
    text = json.dumps({"dataset": 0, "row": 0, **state}, separators=(",", ":"))
    return "v1=" + quote(text, safe='{}":,[]')


def lines(page: Any, inside: tuple[int, int]) -> list[NDArray[np.float64]]:
    """Return the pixels of the row and of the column through a place of the canvas, once they are drawn."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(100)
    return [np.array(one, np.float64).reshape(-1, 4)[:, :3] for one in page.evaluate(LINES, list(inside))]


def edge(changed: NDArray[np.float64], expected: float, is_step: bool) -> float:
    """Return where an edge is on a line of pixels: the middle of a stroke, or where an area starts."""
    if is_step:
        return float(np.flatnonzero(changed > changed.max() / 2)[0])
    near = np.arange(max(0, int(expected) - 8), min(len(changed), int(expected) + 9))
    weights = changed[near]
    # An outline's inside may be filled evenly: what the far inside has is no part of its stroke.
    weights = np.clip(weights - weights[-1], 0, None)
    return float((weights * (near + 0.5)).sum() / weights.sum())


def main() -> int:
    """Print the largest distance of each overlay, and return 1 if one is too large."""
    from playwright.sync_api import sync_playwright

    worst: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        names = make(str(Path(folder) / "golden"))
        with serving(str(Path(folder) / "golden")) as server, sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for density in (1, 2):
                context = browser.new_context(
                    viewport={"width": 1100, "height": 700}, device_scale_factor=density
                )
                page = context.new_page()
                for zoom in ZOOMS:
                    shown = {"zoom": zoom} if zoom else {}
                    page.goto("about:blank")
                    start = fragment(hidden=names, **shown)
                    page.goto(f"http://127.0.0.1:{server['port']}/#token={server['token']}&{start}")
                    page.wait_for_selector("[role=application] canvas")
                    width, height = page.evaluate(SIZE)
                    fit = {"scale": min(width / WIDTH, height / HEIGHT), "x": WIDTH / 2, "y": HEIGHT / 2}
                    camera = zoom or fit
                    left = (LEFT - camera["x"]) * camera["scale"] + width / 2
                    top = (TOP - camera["y"]) * camera["scale"] + height / 2
                    inside = (int((left + 20) * density), int((top + 20) * density))
                    ground = lines(page, inside)
                    for name in names:
                        hidden = [one for one in names if one != name]
                        page.evaluate("(to) => { location.hash = to; }", fragment(hidden=hidden, **shown))
                        found = lines(page, inside)
                        for expected, now, before in zip((left, top), found, ground, strict=True):
                            changed = np.abs(now - before).sum(axis=1)
                            at = edge(changed, expected * density, name.endswith("mask")) / density
                            worst[name] = max(worst.get(name, 0), abs(at - expected))
                context.close()
            browser.close()
    for name, distance in worst.items():
        print(f"{name:20} {distance:.3f} CSS pixels")
    return int(any(distance > MOST for distance in worst.values()))


if __name__ == "__main__":
    sys.exit(main())
