"""A million rows under a scroll bar: few elements, little memory, and requests only for what is looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import lakebed
from integration_tests.viewer import lakes
from integration_tests.viewer.conftest import Served, painted, rows_said, still, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.viewer

ROWS = 1_000_000
MOST_ELEMENTS = 500
MOST_GROWTH = 50 << 20
FLINGS = 25
WATCHED = """() => {
  window.most = 0;
  const count = () => {
    window.most = Math.max(window.most, document.querySelectorAll('main *').length);
    requestAnimationFrame(count);
  };
  count();
}"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the viewer of a million small photos, and of as many rows of numbers."""
    root = tmp_path_factory.mktemp("large")
    lakes.many(root / "photos", ROWS, 96)
    numbers(root / "numbers")
    server = Served(root)
    yield server
    server.close()


def numbers(path: Path) -> None:
    ds = lakebed.empty(str(path))
    with ds:
        for name, values in {
            "id": np.arange(ROWS),
            "half": np.arange(ROWS) / 2,
            "sign": np.arange(ROWS) % 2 * 2 - 1,
        }.items():
            ds.create_tensor(name, dtype=values.dtype.name)
            ds[name].extend(values)
    ds.commit("all")


def heap(page: Page) -> int:
    """Return the bytes that scripts hold, once garbage is gone."""
    session: Any = page.context.new_cdp_session(page)
    session.send("HeapProfiler.enable")
    session.send("HeapProfiler.collectGarbage")
    found = session.send("Runtime.getHeapUsage")
    session.detach()
    return int(found["usedSize"]) + int(found.get("backingStorageSize", 0))


@pytest.mark.parametrize(("name", "layout"), [("photos", "grid"), ("photos", "table"), ("numbers", "table")])
def test_a_long_fling(large: Served, open_page: Callable[..., Page], name: str, layout: str) -> None:
    page = open_page(large.at(dataset=large.number(name), layout=layout))
    rows_said(page, f"{ROWS:,} rows")
    page.get_by_role("gridcell").first.wait_for()
    still(page)
    asked: list[str] = []
    ended: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: ended.append(request.url))
    page.evaluate(WATCHED)
    before = heap(page)
    grid = page.get_by_role("grid")
    grid.hover()
    for way in (1, 1, -1):
        for _ in range(FLINGS):
            page.mouse.wheel(0, way * 6000)
            page.wait_for_timeout(16)
        page.wait_for_timeout(150)  # short enough that rows are asked for and not waited for
        grid.evaluate("(one, way) => { one.scrollTop += way * one.scrollHeight / 5; }", way)
    still(page)
    assert page.evaluate("window.most") < MOST_ELEMENTS
    assert heap(page) - before < MOST_GROWTH
    shown = page.locator("[role=grid] [aria-rowindex]").count()
    # Four places were looked at, for a moment or in the end; what flew past was not asked for.
    rows = [url for url in asked if "/rows?" in url]
    assert len(rows) <= 40, len(rows)
    assert len(asked) - len(ended) <= 8 * shown + 40, (len(asked), len(ended), shown)


def test_what_flew_past_is_not_waited_for(large: Served, open_page: Callable[..., Page]) -> None:
    """Requests for rows that have left are cancelled while they are on their way."""
    page = open_page(large.at(dataset=large.number("photos")))
    painted(page)
    still(page)
    held: list[Any] = []
    cancelled: list[str] = []
    page.on("requestfailed", lambda request: cancelled.append(request.url))

    def hold(route: Any) -> None:  # as a server that does not answer
        held.append(route)

    page.route(re.compile("/v1/.*/(rows|image)"), hold)
    grid = page.get_by_role("grid")
    for at in (0.2, 0.4, 0.6):
        count = len(held)
        grid.evaluate("(one, at) => { one.scrollTop = at * one.scrollHeight; }", at)
        for _ in range(100):
            if len(held) > count:
                break
            page.wait_for_timeout(100)
        assert len(held) > count
    grid.evaluate("(one) => { one.scrollTop = 0; }")
    until(page, "document.querySelector('[aria-rowindex=\"1\"] canvas')")
    page.wait_for_timeout(500)
    assert set(cancelled) == {route.request.url for route in held}
    page.unroute_all(behavior="ignoreErrors")


@pytest.mark.parametrize(("name", "layout"), [("photos", "grid"), ("numbers", "table")])
def test_both_ends_are_reached(large: Served, open_page: Callable[..., Page], name: str, layout: str) -> None:
    page = open_page(large.at(dataset=large.number(name), layout=layout))
    page.get_by_role("gridcell").first.focus()
    page.keyboard.press("End")
    last = page.locator(f"[aria-rowindex='{ROWS + (layout == 'table')}']")
    last.wait_for()
    box, view = last.bounding_box(), page.get_by_role("grid").bounding_box()
    assert box is not None
    assert view is not None
    assert view["y"] <= box["y"]
    assert box["y"] + box["height"] <= view["y"] + view["height"] + 1
    until(page, f"document.activeElement.dataset.at.startsWith('{ROWS - 1}')")
    if name == "numbers":
        last.get_by_text(str(ROWS - 1)).first.wait_for()
    else:
        last.locator("canvas").wait_for()
    page.get_by_role("grid").evaluate("(one) => { one.scrollTop = one.scrollHeight; }")
    last.wait_for()
    page.keyboard.press("Home")
    page.locator(f"[aria-rowindex='{1 + (layout == 'table')}']").wait_for()
