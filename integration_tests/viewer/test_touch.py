"""A telephone: a picture follows two fingers and one, and rows are chosen by a long press."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.viewer.conftest import Served, painted, rows_said, state, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.viewer

Open = Callable[..., "Page"]
TELEPHONE: dict[str, Any] = {
    "width": 390,
    "height": 780,
    "has_touch": True,
    "is_mobile": True,
    "device_scale_factor": 2,
}
LONG, BRIEF = 700, 60  # milliseconds


class Hand:
    """Fingers on the screen of a page."""

    def __init__(self, page: Page) -> None:
        self._page, self._cdp = page, page.context.new_cdp_session(page)

    def put(self, kind: str, *places: tuple[float, float]) -> None:
        """Put the fingers down, move them, or lift them."""
        points = [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(places)]
        self._cdp.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})

    def press(self, x: float, y: float, milliseconds: int) -> None:
        self.put("Start", (x, y))
        self._page.wait_for_timeout(milliseconds)
        self.put("End")

    def move(self, *ways: tuple[tuple[float, float], tuple[float, float]]) -> None:
        """Move each finger from a place to another one, in steps."""
        self.put("Start", *(start for start, _ in ways))
        for step in range(1, 11):
            self.put("Move", *((a + (c - a) * step / 10, b + (d - b) * step / 10) for (a, b), (c, d) in ways))
        self.put("End")


def middle(page: Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).first.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def camera(page: Page) -> dict[str, float]:
    """Return the camera in the address, once it rests."""
    last: dict[str, float] = {}
    for _ in range(50):
        page.wait_for_timeout(350)
        now: dict[str, float] = state(page).get("zoom", {})
        if now and now == last:
            return now
        last = now
    raise AssertionError("the picture does not rest")


def test_a_picture_follows_two_fingers_and_one(served: Served, open_page: Open) -> None:
    page = open_page(served.at(dataset=served.number("street"), row=0), **TELEPHONE)
    page.get_by_role("application").locator("canvas").wait_for()
    hand = Hand(page)
    x, y = middle(page, "[role=application]")
    fit = 390 / 640  # the picture is as wide as the screen
    hand.move(((x - 30, y), (x - 90, y)), ((x + 30, y), (x + 90, y)))
    near = camera(page)
    assert near["scale"] == pytest.approx(3 * fit, rel=0.05)
    assert near["x"] == pytest.approx(320, abs=4)
    assert near["y"] == pytest.approx(240, abs=4)

    hand.move(((x, y), (x + 60, y - 40)))
    moved = camera(page)
    assert moved["scale"] == near["scale"]
    assert moved["x"] == pytest.approx(near["x"] - 60 / near["scale"], abs=3)
    assert moved["y"] == pytest.approx(near["y"] + 40 / near["scale"], abs=3)

    # What is below the fingers stays below them: here both move to the right, and closer.
    hand.move(((x - 60, y), (x + 10, y)), ((x + 60, y), (x + 70, y)))
    away = camera(page)
    assert away["scale"] == pytest.approx(moved["scale"] / 2, rel=0.05)
    assert away["x"] + 40 / away["scale"] == pytest.approx(moved["x"], abs=6)

    page.get_by_role("application").dblclick()
    until(page, "!location.hash.includes('zoom')")
    assert page.evaluate("[scrollX, scrollY, visualViewport.scale]") == [0, 0, 1]


@pytest.mark.parametrize("name", ["street", "users"])
def test_rows_are_chosen_by_a_long_press(served: Served, open_page: Open, name: str) -> None:
    """Then each tap chooses one more, or leaves it out; once none is chosen, a tap opens again."""
    number = served.number("street" if name == "street" else "crm/users")
    page = open_page(served.at(dataset=number), **TELEPHONE)
    if name == "street":
        painted(page)
    else:
        page.get_by_role("gridcell", name="Ada 0", exact=True).wait_for()
    rows = page.locator("[aria-rowindex][aria-selected]")
    hand = Hand(page)

    def place(at: int) -> tuple[float, float]:
        row = page.locator(f'[role=row][aria-rowindex="{at + (1 if name == "street" else 2)}"]')
        box = row.bounding_box()
        assert box is not None
        return box["x"] + 90, box["y"] + box["height"] / 2

    def chosen(*expected: int) -> None:
        until(page, f"document.querySelectorAll('[aria-selected=true]').length === {len(expected)}")
        told = str(state(page).get("selected", ""))
        runs = [part.split("+") for part in told.split(".") if part]
        found = [
            row for start, *more in runs for row in range(int(start), int(start) + int((more or ["1"])[0]))
        ]
        assert sorted(found) == sorted(expected)

    assert rows.count() > 4
    hand.press(*place(1), LONG)
    chosen(1)
    assert "row" not in state(page)  # it did not open
    page.get_by_role("button", name="1 chosen").wait_for()
    hand.press(*place(3), BRIEF)
    chosen(1, 3)
    hand.press(*place(1), BRIEF)
    chosen(3)
    hand.press(*place(0), LONG)
    chosen(0, 3)
    hand.press(*place(0), BRIEF)
    chosen(3)
    hand.press(*place(3), BRIEF)
    chosen()

    # Fingers that move scroll, and choose nothing.
    x, y = place(3)
    hand.put("Start", (x, y))
    for step in range(1, 13):
        hand.put("Move", (x, y - 12 * step))
        page.wait_for_timeout(60)
    hand.put("End")
    until(page, "document.querySelector('[role=grid]').scrollTop > 20")
    chosen()
    page.wait_for_timeout(600)
    page.locator(".face" if name == "street" else ".row .id").nth(5).tap()
    page.get_by_role("region", name=re.compile(r"^Row \d+$")).wait_for()
    rows_said(page, "119 rows" if name == "street" else "5,000 rows")
