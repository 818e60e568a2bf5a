"""Scans: slices by wheel and keys, and the window of values, from the file or its numbers, by mouse and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from integration_tests.viewer import lakes
from integration_tests.viewer.conftest import Served, painted, state, until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.viewer

Open = Callable[..., "Page"]
SLICES, SIZE = 24, 160
SHIFT = 1024  # between what is stored and what it stands for
PLACES = [(SIZE // 2 + dx, SIZE // 2 + dy) for dx in range(-60, 61, 12) for dy in range(-60, 61, 12)]
GREYS = """(places) => {
  const canvas = document.querySelector('[role=application] canvas');
  const scale = Math.min(canvas.width, canvas.height) / 160;
  const context = canvas.getContext('2d');
  const at = (x, whole) => Math.round(whole / 2 + (x + 0.5 - 80) * scale);
  return places.map(([x, y]) => context.getImageData(at(x, canvas.width), at(y, canvas.height), 1, 1).data[0]);
}"""


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the viewer of made-up heads: `slices` are DICOM files, two with a window, `volume` NIfTI files."""
    path = tmp_path_factory.mktemp("scans") / "scans"
    lakes.scans(path)
    server = Served(path)
    yield server
    server.close()


def slider(page: Page, name: str) -> Locator:
    return page.get_by_role("slider", name=name)


def window(page: Page) -> tuple[float, float]:
    """Return what the controls say is black and white."""
    slider(page, "black").wait_for()
    return float(slider(page, "black").input_value()), float(slider(page, "white").input_value())


def shows(page: Page, values: NDArray[Any], low: float, high: float) -> None:
    """Wait until the picture shows one slice in a window."""
    expected = np.clip((values[tuple(np.array(PLACES).T[::-1])] - low) * (255 / (high - low)), 0, 255)
    page.get_by_role("application").locator("canvas").wait_for()
    for _ in range(80):
        found = np.array(page.evaluate(GREYS, PLACES))
        if np.abs(found - expected).max() <= 1:
            return
        page.wait_for_timeout(100)
    raise AssertionError(np.abs(found - expected).max())


def frame(page: Page) -> int:
    return int(page.get_by_role("group", name="Frames").locator("output").inner_text().split("/")[0]) - 1


def test_a_scan_starts_with_the_window_of_its_file(scans: Served, open_page: Open) -> None:
    page = open_page(scans.at(row=1, frame=12))
    shows(page, lakes.head(1)[12] + SHIFT, 984, 1143)  # 40 +- 80 Hounsfield units
    assert window(page) == (984, 1143)


@pytest.mark.parametrize("tensor", ["slices", "volume"])
def test_a_scan_without_one_starts_with_the_percentiles_of_its_middle(
    scans: Served, open_page: Open, tensor: str
) -> None:
    values = lakes.head(2) + (SHIFT if tensor == "slices" else 0)
    low, high = np.percentile(values[SLICES // 2], (1, 99))
    low, high = np.floor(low), np.ceil(high)
    page = open_page(scans.at(row=2, frame=5, primary=tensor))
    shows(page, values[5], low, high)
    assert window(page) == (low, high)


def test_a_grid_shows_the_slices_in_the_middle_and_opens_them(scans: Served, open_page: Open) -> None:
    page = open_page(scans.url)
    painted(page)
    until(
        page,
        """() => [...document.querySelectorAll('.face canvas')].every((canvas) => {
      const [x, y] = [canvas.width * 0.56, canvas.height * 0.47];
      const grey = canvas.getContext('2d').getImageData(x, y, 1, 1).data[0];
      return grey > 20 && grey < 235; // inside of the skull, which the first slice does not show
    })""",
    )
    page.get_by_role("gridcell").nth(1).click()
    shows(page, lakes.head(1)[12] + SHIFT, 984, 1143)
    assert state(page)["frame"] == frame(page) == 12


def test_slices_turn_by_wheel_and_keys(scans: Served, open_page: Open) -> None:
    page = open_page(scans.at(row=0, frame=12))
    values = lakes.head(0) + SHIFT
    shows(page, values[12], 984, 1143)
    page.get_by_role("application").hover()
    for turn, at in ((100, 13), (100, 14), (-120, 13), (20, 13), (20, 13), (20, 14)):
        page.mouse.wheel(0, turn)
        shows(page, values[at], 984, 1143)
        assert frame(page) == at
    for key, at in (("...", 17), (",", 16)):
        page.keyboard.type(key)
        shows(page, values[at], 984, 1143)
    for _ in range(30):
        page.mouse.wheel(0, 100)
    shows(page, values[-1], 984, 1143)
    until(
        page,
        f"location.hash.includes('%22frame%22:{SLICES - 1}') || location.hash.includes('\"frame\":{SLICES - 1}')",
    )
    assert "zoom" not in state(page)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    until(page, "location.hash.includes('zoom')")
    assert frame(page) == SLICES - 1


def test_the_window_moves_by_mouse_and_keys_and_is_in_the_link(scans: Served, open_page: Open) -> None:
    page = open_page(scans.at(row=0, frame=12))
    whole = lakes.head(0) + SHIFT
    values = whole[12]
    shows(page, values, 984, 1143)
    page.get_by_role("application").hover()

    def moved(way: Callable[[], Any]) -> tuple[float, float, float, float]:
        (a, b), _ = window(page), way()
        for _ in range(50):  # the address follows when it rests
            page.wait_for_timeout(100)
            low, high = window(page)
            if (low, high) != (a, b) and state(page).get("window") == {"low": low, "high": high}:
                break
        shows(page, values, low, high)
        return a + b, b - a, low + high, high - low

    middle, width, now, narrow = moved(lambda: page.keyboard.type("h"))
    assert now == pytest.approx(middle, abs=2)
    assert narrow < width
    middle, width, now, wide = moved(lambda: page.keyboard.type("HH"))
    assert now == pytest.approx(middle, abs=2)
    assert wide > width
    middle, width, now, same = moved(lambda: page.keyboard.type("bb"))
    assert now < middle  # what was grey is white
    assert same == pytest.approx(width, abs=2)
    middle, width, now, same = moved(lambda: page.keyboard.type("B"))
    assert now > middle
    assert same == pytest.approx(width, abs=2)

    def drag(dx: int, dy: int) -> None:
        page.mouse.move(400, 400)
        page.mouse.down(button="right")
        page.mouse.move(400 + dx // 2, 400 + dy // 2)
        page.mouse.move(400 + dx, 400 + dy)
        page.mouse.up(button="right")

    middle, width, now, wide = moved(lambda: drag(80, 0))
    assert now == pytest.approx(middle, abs=2)
    assert wide > width
    middle, width, now, same = moved(lambda: drag(0, -80))
    assert now < middle  # upwards is brighter
    assert same == pytest.approx(width, abs=2)
    assert "zoom" not in state(page)  # it moved the window only

    other = open_page(page.url.replace("#", f"#token={scans.token}&"))
    shows(other, values, *window(page))
    assert window(other) == window(page)

    page.get_by_role("button", name="all values").click()
    shows(page, values, whole.min(), whole.max())
    slider(page, "black").fill("1500")
    slider(page, "white").fill("900")  # past each other: large values are dark
    shows(page, values, 1500, 900)
    page.get_by_role("button", name="reset").click()
    shows(page, values, 984, 1143)
    assert "window" not in state(page)
    assert page.get_by_role("button", name="reset").count() == 0
