"""Stored smaller copies of images: the smallest that is fine enough is read, and nothing moves from one to another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import lakebed
from integration_tests.viewer.conftest import Served, painted, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.viewer

Open = Callable[..., "Page"]
# Odd sides, which halves do not fit; and one beyond what is asked for in one piece.
SIZES = {"photos": (1501, 2003), "plan": (4201, 5003)}
LEFT, TOP = 0.3, 0.35  # where the bright part begins, of width and height
SIZE = """(() => {
  const canvas = document.querySelector('.detail canvas');
  return [canvas.clientWidth, canvas.clientHeight];
})()"""
EDGES = """([x, y, left, top]) => {
  const canvas = document.querySelector('.detail canvas');
  const context = canvas.getContext('2d');
  const edge = (data) => {
    for (let at = 4; at < data.length; at += 4) {
      if (data[at] >= 128 && data[at - 4] < 128) {
        return at / 4 - (data[at] - 128) / Math.max(1, data[at] - data[at - 4]);
      }
    }
    return null;
  };
  const grey = (one, two) => context.getImageData(one, two, 1, 1).data[0];
  return {
    left: edge(context.getImageData(left, y, canvas.width - left, 1).data) + left,
    top: edge(context.getImageData(x, top, 1, canvas.height - top).data) + top,
    grey: [grey(x, y), grey(left + 2, y)],
  };
}"""


def write(path: Path, name: str) -> None:
    """Write a dark picture with a bright part, and copies of a half, a fourth and an eighth."""
    height, width = SIZES[name]
    pixels = np.full((height, width, 3), 40, np.uint8)
    pixels[round(TOP * height) :, round(LEFT * width) :] = 200
    ds = lakebed.empty(str(path))
    with ds:
        ds.create_tensor("image", htype="image", sample_compression="png", downsampling=(2, 3))
        for _ in range(2):
            ds.image.append(pixels)


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the viewer of such pictures whose largest, of `damaged`, can no longer be read."""
    root = tmp_path_factory.mktemp("layers")
    for name in SIZES:
        write(root / name, name)
    write(root / "damaged", "plan")
    for chunk in (root / "damaged").glob("**/image/chunks/*"):
        chunk.write_bytes(bytes(chunk.stat().st_size))
    server = Served(root)
    yield server
    server.close()


def test_small_pictures_are_read_from_their_copies(layered: Served, open_page: Open) -> None:
    """The large picture cannot be read at all, and nothing of the grid or of the whole row needs it."""
    page = open_page(layered.at(dataset=layered.number("damaged")), refused=True)
    painted(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("gridcell").first.click()
    canvas = page.get_by_role("application").locator("canvas")
    canvas.wait_for()
    until(
        page,
        "document.querySelector('.detail canvas').getContext('2d').getImageData(470, 450, 1, 1).data[0] > 190",
    )
    page.get_by_role("application").focus()
    for _ in range(2):
        page.keyboard.press("+")
    until(page, "location.hash.includes('zoom')")
    page.wait_for_timeout(1500)  # tiles, of a part that copies have
    pictures = [url for url in asked if "/image/" in url]
    assert any("box=" in url for url in pictures)
    assert page.get_by_role("region", name="Row 0").locator("p.error").count() == 0
    for _ in range(5):
        page.keyboard.press("+")
    page.locator(".detail p.error").wait_for()  # which is finer than any copy


@pytest.mark.parametrize("name", SIZES)
def test_nothing_jumps_from_copy_to_copy(layered: Served, open_page: Open, name: str) -> None:
    """Edges and colours stay where they belong at each zoom, whichever copy it is painted from."""
    height, width = SIZES[name]
    page = open_page(layered.at(dataset=layered.number(name), row=0))
    widths = set()

    def asked(request: Any) -> None:
        if "/image/" in request.url:
            widths.update(re.findall(r"[?&]w=(\d+)", request.url) or ["all"])

    page.on("request", asked)
    page.get_by_role("application").locator("canvas").wait_for()
    x, y = round(LEFT * width), round(TOP * height)
    for scale in (0.06, 0.12, 0.25, 0.31, 0.5, 0.62, 1, 1.5):
        camera = f'{{"scale":{scale},"x":{x},"y":{y}}}'
        page.goto("about:blank")
        page.goto(layered.at(dataset=layered.number(name), row=0).replace("}", f',"zoom":{camera}}}'))
        page.get_by_role("application").locator("canvas").wait_for()
        across, down = page.evaluate(SIZE)
        near = min(30, int(0.2 * scale * min(width, height)))
        place = [across // 2 + near, down // 2 + near, across // 2 - near, down // 2 - near]
        for _ in range(60):
            found = page.evaluate(EDGES, place)
            page.wait_for_timeout(50)
            if page.evaluate(EDGES, place) == found and found["left"] is not None and found["grey"][0] > 190:
                break
        page.wait_for_timeout(400)
        found = page.evaluate(EDGES, place)
        assert found["left"] == pytest.approx(across / 2, abs=1), scale
        assert found["top"] == pytest.approx(down / 2, abs=1), scale
        assert found["grey"] == [pytest.approx(200, abs=3), pytest.approx(40, abs=3)], scale
    assert len(widths) >= 2  # several copies
