"""A tour of the page as its users take it: everything that can be looked at, by mouse, by keyboard, on every screen."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from integration_tests.viewer.conftest import Served, painted, rows_said, state, still, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.viewer

Open = Callable[..., "Page"]
COPYING = {"permissions": ["clipboard-read", "clipboard-write"]}
ROWS, NIGHTS = 119, 40
ROUND = 8  # of 255: round corners are not always drawn alike


@pytest.fixture
def street(served: Served, open_page: Open) -> Page:
    """Return the page of the photos, once they are painted."""
    page = open_page(served.at(dataset=served.number("street")), **COPYING)
    painted(page)
    return page


@pytest.fixture
def own(lake: Path, tmp_path: Path, serve: Callable[..., Served]) -> tuple[Served, Path]:
    """Return the viewer of a copy of the photos, which may be written."""
    path = tmp_path / "street"
    shutil.copytree(lake / "street", path)
    return serve(path), path


def ask(page: Page, query: str) -> None:
    """Ask a query."""
    box = page.get_by_role("textbox", name="Query")
    box.fill(query)
    box.press("Enter")


def panel(page: Page, name: str) -> Any:
    """Open a panel."""
    page.get_by_role("button", name=name, exact=True).click()
    return page.get_by_role("complementary", name=name)


def test_the_lake_lists_its_streams_and_opens_each(served: Served, open_page: Open) -> None:
    page = open_page(served.url)
    streams = {"street": f"{ROWS} rows", "crm/users": "5,000 rows", "moving": "4 rows", "pictures": "5 rows"}
    for name, rows in streams.items():
        line = page.get_by_role("row").filter(has=page.get_by_role("button", name=name, exact=True))
        assert rows.split()[0] in line.inner_text().split()
        line.get_by_role("button").click()
        page.get_by_role("heading", name=name, level=1).wait_for()
        rows_said(page, rows)
        page.go_back()
    page.get_by_role("button", name="nothing", exact=True).click()
    page.get_by_role("heading", name="No tensors yet").wait_for()
    page.get_by_role("navigation").get_by_role("button").first.click()
    page.get_by_text("5 streams").wait_for()


def test_a_row_opens_from_the_grid_and_leads_back(street: Page) -> None:
    cell = street.get_by_role("gridcell").nth(2)
    assert cell.get_attribute("aria-label").startswith("row 2: ")
    cell.click()
    row = street.get_by_role("region", name="Row 2")
    row.get_by_role("application").locator("canvas").wait_for()
    assert "Photo 2:" in row.inner_text()
    assert "Block & Sons" not in row.get_by_role("heading").inner_text()
    before = still(street)
    row.get_by_role("checkbox", name="boxes").uncheck()
    assert still(street) != before
    row.get_by_role("button", name="Next row").click()
    # A photo was taken out before the last commit: row 3 is the fifth that was written.
    street.get_by_role("region", name="Row 3").get_by_text("Photo 4:").wait_for()
    street.get_by_role("button", name="Close").click()
    street.get_by_role("region", name="Row 3").wait_for(state="detached")
    assert "boxes" in state(street)["hidden"]
    until(street, "document.activeElement?.dataset.at === '3'")


def test_a_table_is_sorted_by_its_heads(served: Served, open_page: Open) -> None:
    page = open_page(served.at(dataset=served.number("crm/users")))
    page.get_by_role("gridcell", name="Ada 0", exact=True).wait_for()
    head = page.get_by_role("columnheader", name=re.compile("^balance"))
    for direction, least in (("ascending", -1000.0), ("descending", 999.98)):
        head.get_by_role("button").click()
        page.locator(f"[role=columnheader][aria-sort={direction}]").wait_for()
        first = page.locator('[aria-rowindex="2"]')
        column = int(head.get_attribute("aria-colindex") or 0)
        value = first.locator(f'[aria-colindex="{column}"]')
        value.filter(has_text=re.compile(r"\d")).wait_for()
        until(
            page,
            "([column, value]) => Math.abs(document.querySelector(`[aria-rowindex='2'] [aria-colindex='${column}']`)"
            ".innerText - value) < 0.1",
            [column, least],
        )
    head.get_by_role("button").click()
    page.get_by_role("gridcell", name="Ada 0", exact=True).wait_for()
    page.locator('[aria-rowindex="2"] [role=rowheader]').click()
    assert "Oslo" in page.get_by_role("complementary", name="Values").inner_text()


def test_a_sequence_plays(served: Served, open_page: Open) -> None:
    page = open_page(served.at(dataset=served.number("moving"), row=0, primary="frames"))
    player = page.get_by_role("group", name="Frames")
    told = player.locator("output")
    told.filter(has_text="1 / 24").wait_for()
    first = still(page)
    player.get_by_role("button", name="Play").click()
    told.filter(has_text="24 / 24").wait_for()
    player.get_by_role("button", name="Play").wait_for()  # it stopped at the end
    assert still(page) != first
    player.get_by_role("slider", name="Frame").fill("0")
    told.filter(has_text="1 / 24").wait_for()
    player.get_by_role("slider", name="Frame").fill("12")
    told.filter(has_text="13 / 24").wait_for()
    until(page, "decodeURIComponent(location.hash).includes('\"frame\":12')")


def test_a_film_and_a_sound_play(served: Served, open_page: Open) -> None:
    page = open_page(served.at(dataset=served.number("moving"), row=1, primary="film"))
    page.locator("video").wait_for()
    until(page, "document.querySelector('video').readyState >= 2")
    assert page.evaluate("document.querySelector('video').duration") == pytest.approx(2, abs=0.2)
    page.evaluate("document.querySelector('video').currentTime = 1.5")
    until(page, "!document.querySelector('video').seeking && document.querySelector('video').currentTime > 1")
    page.get_by_role("group", name="Pictures").get_by_role("button", name="sound").click()
    until(page, "document.querySelector('.stage audio')?.readyState >= 1")
    assert page.evaluate("document.querySelector('.stage audio').duration") == pytest.approx(2, abs=0.05)


def test_a_click_on_statistics_filters(street: Page) -> None:
    found = panel(street, "Statistics")
    card = found.locator("section").filter(has=street.get_by_text("scene", exact=True))
    card.scroll_into_view_if_needed()
    card.get_by_role("button", name="night").click()
    rows_said(street, f"{NIGHTS} rows of {ROWS}")
    assert (
        street.get_by_role("textbox", name="Query").input_value()
        == "select * where contains(\"scene\", 'night')"
    )
    card = found.locator("section").filter(has=street.get_by_text("taken", exact=True))
    card.scroll_into_view_if_needed()
    bars = card.get_by_role("slider")
    bars.focus()
    street.keyboard.press("ArrowRight")
    street.keyboard.press("Enter")
    until(street, "document.querySelector('textarea').value.includes('taken')")
    assert "'night'" in state(street)["query"]
    street.get_by_role("button", name="Clear").click()
    rows_said(street, f"{ROWS} rows")


def test_statistics_say_that_a_dataset_is_opening(served: Served, open_page: Open) -> None:
    """After 150 ms, and not that nothing is open."""
    page = open_page(served.url)
    page.get_by_text("5 streams").wait_for()
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route(re.compile("/meta"), hold)
    number = served.number("street")
    page.evaluate("(to) => { location.hash = to; }", f'v1={{"dataset":{number},"panel":"statistics"}}')
    aside = page.get_by_role("complementary", name="Statistics")
    said = aside.get_by_text("Opening…")
    said.wait_for()
    assert said.evaluate("(one) => getComputedStyle(one).animationDelay") == "0.15s"
    assert "Nothing is open" not in aside.inner_text()
    held[0].continue_()
    aside.get_by_role("heading", name=re.compile("^images")).wait_for()
    assert said.count() == 0


def test_a_query_is_completed(street: Page) -> None:
    box = street.get_by_role("textbox", name="Query")
    box.press_sequentially("sce")
    street.get_by_role("option", name=re.compile("^scene")).wait_for()
    box.press("Tab")
    assert box.input_value().strip() == "scene"
    box.press_sequentially(" == 'night'")
    box.press("Enter")
    rows_said(street, f"{NIGHTS} rows of {ROWS}")
    ask(street, "scene == 'night' and taken < 0")
    street.get_by_role("heading", name="No row meets this query").wait_for()
    street.get_by_role("button", name="Show all rows").click()
    rows_said(street, f"{ROWS} rows")


def test_an_error_of_a_query_has_its_place(served: Served, open_page: Open) -> None:
    page = open_page(served.at(dataset=served.number("street")), refused=True)
    painted(page)
    ask(page, "scene == 'night' and taken2 > 4")
    page.get_by_role("alert").filter(has_text="taken2").wait_for()
    assert page.locator(".behind .here").inner_text() == "taken2"
    box = page.get_by_role("textbox", name="Query")
    assert box.get_attribute("aria-invalid") == "true"
    assert page.get_by_role("gridcell").count() > 5  # the rows from before stay
    box.fill("scene == 'night'")
    page.get_by_role("alert").wait_for(state="detached")


def test_groups_have_bands(street: Page) -> None:
    ask(street, "select * arrange by scene")
    bands = street.locator(".band")
    bands.filter(has_text="day").filter(has_text="39 rows").wait_for()
    street.get_by_role("gridcell").first.focus()
    street.keyboard.press("End")
    bands.filter(has_text="night").filter(has_text=f"{NIGHTS} rows").wait_for()
    street.get_by_role("button", name="Table", exact=True).click()
    street.locator(".table .band").first.wait_for()


def test_rows_beyond_a_shorter_tensor(tmp_path: Path, serve: Callable[..., Served], open_page: Open) -> None:
    """A selection shows them as the grid of all rows does: without a picture, with the values that there are."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.image.extend(np.zeros((3, 24, 32, 3), np.uint8))
    ds.create_tensor("number", dtype="int64").extend(range(6))
    ds.close()
    server = serve(tmp_path / "ds")
    page = open_page(server.at(dataset=0))
    rows_said(page, "6 rows")
    painted(page)
    cells = page.get_by_role("gridcell")
    whole = [[cell.get_attribute("aria-label"), cell.locator("canvas").count()] for cell in cells.all()]
    ask(page, "SELECT * WHERE number > 1")
    rows_said(page, "4 rows of 6")
    page.get_by_role("gridcell", name="row 0").wait_for(state="detached")
    painted(page)
    found = [[cell.get_attribute("aria-label"), cell.locator("canvas").count()] for cell in cells.all()]
    assert found == whole[2:]
    assert len({count for _, count in found}) == 2
    page.get_by_role("gridcell", name="row 5").click()
    assert page.get_by_role("complementary", name="Values").get_by_text("5", exact=True).count()


def test_computed_columns_are_drawn_by_what_they_are(street: Page) -> None:
    ask(street, "select scene, taken / 3600 - 472000 as hours, images[0:100, 0:50] as corner")
    for name in ("scene", "hours", "corner"):
        street.get_by_role("columnheader", name=re.compile(f"^{name}")).wait_for()
    first = street.locator('[aria-rowindex="2"]')
    first.get_by_text("day").wait_for()
    assert re.search(r"\d+\.\d+", first.inner_text())
    first.locator("canvas").wait_for()
    assert first.get_by_text(re.compile("^100 . 50$")).count() == 0


def test_versions_and_what_changed(street: Page) -> None:
    versions = panel(street, "Versions")
    versions.get_by_role("button", name=re.compile("^the first half")).click()
    rows_said(street, "61 rows")
    versions.get_by_role("button", name="review", exact=True).click()
    rows_said(street, f"{ROWS} rows")
    versions.get_by_role("button", name=re.compile("^changes of the first photo's labels")).click()
    street.get_by_role("heading", name="1 row changed").wait_for()
    street.get_by_role("heading", name="1 row removed").wait_for()
    street.get_by_role("heading", name=re.compile(r"^from all photos to the first photo's labels")).wait_for()
    changed = street.locator("li.changed")
    assert changed.count() == 1
    changed.get_by_text("changed", exact=True).or_(
        changed.get_by_text(re.compile(r"\d changed"))
    ).first.wait_for()
    assert changed.locator("canvas").count() == 2  # both sides are there
    street.locator("li.removed canvas").wait_for()
    street.keyboard.press("Escape")
    painted(street)


def test_a_view_is_saved_listed_and_opened(own: tuple[Served, Path], open_page: Open) -> None:
    served, path = own
    page = open_page(served.url)
    painted(page)
    ask(page, "scene == 'dusk'")
    rows_said(page, f"{NIGHTS} rows of {ROWS}")
    views = panel(page, "Views")
    views.get_by_role("textbox", name="Name of the view").fill("Dusks of mine")
    views.get_by_role("button", name="Save the query").click()
    views.get_by_role("button", name=re.compile("^Dusks of mine")).wait_for()
    page.get_by_role("button", name="Clear").click()
    rows_said(page, f"{ROWS} rows")
    page.get_by_role("gridcell").nth(4).click(modifiers=["Control"])
    page.get_by_role("gridcell").nth(1).click(modifiers=["Control"])
    views.get_by_role("textbox", name="Name of the view").fill("Two")
    views.get_by_role("button", name="Save 2 rows").click()
    views.get_by_role("button", name=re.compile("^Two")).click()
    rows_said(page, f"2 rows of {ROWS}")
    views.get_by_role("button", name=re.compile("^Dusks of mine")).click()
    rows_said(page, f"{NIGHTS} rows of {ROWS}")
    saved = {view.message: view for view in lakebed.load(path, read_only=True).get_views()}
    assert list(saved["Two"].load().caption.numpy(aslist=True)) == [
        lakebed.load(path, read_only=True).caption[row].text() for row in (1, 4)
    ]
    assert len(saved["Dusks of mine"].load()) == NIGHTS


def test_chosen_rows_are_ids(street: Page) -> None:
    cells = street.get_by_role("gridcell")
    cells.nth(2).click(modifiers=["Control"])
    cells.nth(5).click(modifiers=["Shift"])
    street.get_by_role("button", name="4 chosen").click()
    views = street.get_by_role("complementary", name="Views")
    views.get_by_role("button", name="Copy ids").click()
    street.get_by_text("Copied 4 row ids").wait_for()
    assert street.evaluate("navigator.clipboard.readText()") == "2\n3\n4\n5"
    with street.expect_download() as coming:
        views.get_by_role("button", name="Download JSON").click()
    assert json.loads(Path(coming.value.path()).read_text())["rows"] == [2, 3, 4, 5]
    views.get_by_role("button", name="Show only these").click()
    rows_said(street, f"4 rows of {ROWS}")


def test_back_and_forward(served: Served, open_page: Open) -> None:
    page = open_page(served.url)
    page.get_by_role("button", name="street", exact=True).click()
    painted(page)
    page.get_by_role("gridcell").nth(1).click()
    page.get_by_role("region", name="Row 1").wait_for()
    page.keyboard.press("Escape")
    ask(page, "scene == 'night'")
    rows_said(page, f"{NIGHTS} rows of {ROWS}")
    page.go_back()
    rows_said(page, f"{ROWS} rows")
    page.go_back()
    page.get_by_role("region", name="Row 1").wait_for()
    page.go_back()
    page.get_by_role("region", name="Row 1").wait_for(state="detached")
    page.go_back()
    page.get_by_text("5 streams").wait_for()
    for _ in range(2):
        page.go_forward()
    page.get_by_role("region", name="Row 1").wait_for()
    for _ in range(2):
        page.go_forward()
    rows_said(page, f"{NIGHTS} rows of {ROWS}")
    page.reload()
    rows_said(page, f"{NIGHTS} rows of {ROWS}")


def test_a_link_is_all_that_another_browser_needs(street: Page, open_page: Open) -> None:
    def copied() -> str:
        street.keyboard.press("c")
        street.get_by_text("Copied a link").wait_for()
        street.get_by_text("Copied a link").wait_for(state="detached")
        return str(street.evaluate("navigator.clipboard.readText()"))

    def rests() -> None:
        """Wait until the page moves no more, and its address says so, too: it follows within half a second."""
        for _ in range(50):
            before = (still(street), street.url)
            street.wait_for_timeout(600)
            if (still(street), street.url) == before:
                return
        raise AssertionError("the page and its address do not come to rest")

    def same(page: Page, canvas: str) -> bool:
        page.locator(canvas).first.wait_for()
        until(page, "!document.querySelector('main .skeleton')")
        for each in (page, street):
            each.mouse.move(1, 1)
            each.evaluate("document.activeElement.blur()")
        for _ in range(20):  # pictures may come late
            one, other = (
                np.asarray(Image.open(io.BytesIO(still(each)))).astype(int) for each in (page, street)
            )
            if np.abs(one - other).max() <= ROUND:
                return True
        return False

    ask(street, "scene != 'day'")
    rows_said(street, f"{ROWS - 39} rows of {ROWS}")
    street.get_by_role("button", name="segments", exact=True).click()
    street.get_by_role("gridcell").nth(3).click(modifiers=["Control"])
    street.get_by_role("gridcell").nth(3).press("PageDown")
    panel(street, "Views")
    street.get_by_role("grid").hover()
    street.mouse.wheel(0, 333)
    rests()
    assert same(open_page(copied()), ".face canvas")
    street.get_by_role("gridcell").nth(3).click()
    picture = street.get_by_role("application")
    picture.hover()
    street.mouse.wheel(0, -400)
    street.get_by_role("checkbox", name="outlines").uncheck()
    until(street, "location.hash.includes('zoom') && location.hash.includes('outlines')")
    rests()
    assert same(open_page(copied()), "[role=application] canvas")


def focused(page: Page) -> str:
    """Return what has the focus, in words, once it is something; a ring shows where."""
    until(page, "document.activeElement !== document.body")
    return str(page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.innerText.trim()"))


def tab_to(page: Page, name: str) -> None:
    """Press Tab until something of that name has the focus; it must be seen there."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if focused(page) == name:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"Tab does not lead to {name!r}")


def test_the_whole_tour_by_keyboard(served: Served, open_page: Open) -> None:
    page = open_page(served.url, **COPYING)
    page.get_by_text("5 streams").wait_for()
    press = page.keyboard.press
    tab_to(page, "street")
    press("Enter")
    painted(page)
    press("ArrowRight")
    press("ArrowRight")
    until(page, "document.activeElement?.dataset.at === '2'")
    press("x")
    page.get_by_text("1 chosen").wait_for()
    press("Enter")
    page.get_by_role("region", name="Row 2").get_by_role("application").locator("canvas").wait_for()
    press("1")
    until(page, "location.hash.includes('hidden')")
    press("1")
    press("]")
    page.get_by_role("region", name="Row 3").wait_for()
    press("ArrowLeft")
    page.get_by_role("region", name="Row 2").wait_for()
    press("+")
    until(page, "location.hash.includes('zoom')")
    press("Escape")
    until(page, "document.activeElement?.dataset.at === '2'")
    press("/")
    page.keyboard.type("scene == 'night'")
    press("Enter")
    rows_said(page, f"{NIGHTS} rows of {ROWS}")
    press("Escape")  # empties the box,
    press("Escape")  # shows all rows,
    rows_said(page, f"{ROWS} rows")
    press("Escape")  # and leaves the box
    for key, name in (("s", "Statistics"), ("v", "Versions"), ("w", "Views"), ("?", "Keys")):
        press(key)
        page.get_by_role("complementary", name=name).wait_for()
    press("Escape")
    page.get_by_role("complementary").wait_for(state="detached")
    press("s")
    tab_to(page, "Filter columns")
    page.keyboard.type("taken")
    page.get_by_role("slider").wait_for()
    tab_to(page, "Values of taken: arrows move, Enter chooses these rows")
    press("ArrowRight")
    press("Enter")
    until(page, "document.querySelector('textarea').value.includes('taken')")
    press("Escape")
    press("v")
    tab_to(page, "changes of all photos")
    press("Enter")
    page.get_by_role("heading", name=re.compile("^from the first half")).wait_for()
    press("Escape")
    press("g")
    press("t")
    page.get_by_role("columnheader", name=re.compile("^images")).wait_for()
    press("g")
    press("g")
    painted(page)
    press("c")
    page.get_by_text("Copied a link").wait_for()
    dark = page.evaluate("document.documentElement.dataset.theme")
    press("d")
    assert page.evaluate("document.documentElement.dataset.theme") != dark
    press("End")
    until(
        page,
        "document.activeElement.closest('[role=row]')?.ariaRowIndex"
        " === document.querySelector('[role=grid]').ariaRowCount",
    )


STATES: dict[str, dict[str, Any]] = {
    "grid": {},
    "table": {"layout": "table"},
    "row": {"row": 1},
    "statistics": {"panel": "statistics"},
    "versions": {"panel": "versions"},
    "views": {"panel": "views", "selected": "1.4"},
    "keys": {"panel": "help"},
}
OUTSIDE = """() => {
  const seen = (one) => {
    const box = one.getBoundingClientRect();
    const isShown = box.width && one.checkVisibility({visibilityProperty: true});
    if (!isShown || one.closest('.table, .grid, [inert]')) return null;
    for (let up = one.parentElement; up; up = up.parentElement) {
      if (/auto|scroll/.test(getComputedStyle(up).overflow)) return null;  // it can be scrolled to
    }
    return box;
  };
  const found = [...document.querySelectorAll('button, input, textarea, select, [role=application]')].filter((one) => {
    const box = seen(one);
    return box && (box.left < -1 || box.right > innerWidth + 1 || box.top < -1 || box.bottom > innerHeight + 1);
  });
  const root = document.scrollingElement;
  const names = found.map((one) => one.ariaLabel || one.innerText || one.outerHTML.slice(0, 80));
  return [names, root.scrollWidth > innerWidth];
}"""


@pytest.mark.parametrize(
    "screen",
    [{"width": 390, "height": 780}, {"width": 640, "height": 400, "device_scale_factor": 2}],
    ids=["telephone", "twice as large"],
)
def test_small_screens_show_all(served: Served, open_page: Open, screen: dict[str, Any]) -> None:
    page = open_page(served.url, **screen)
    page.get_by_text("5 streams").wait_for()
    still(page)
    assert page.evaluate(OUTSIDE) == [[], False]
    page.get_by_role("button", name="street", exact=True).click()
    painted(page)
    dataset = state(page)["dataset"]
    for name, parts in STATES.items():
        page.evaluate("(to) => { location.hash = to; }", "v1=" + json.dumps({"dataset": dataset, **parts}))
        still(page)
        assert page.evaluate(OUTSIDE) == [[], False], name
        if name in ("grid", "table"):
            box = page.get_by_role("grid").bounding_box()
            assert box is not None
            assert box["height"] >= 150, name  # something is seen of the rows
        elif "panel" in parts:
            page.locator("aside").get_by_role("button", name="Close").click()
            page.locator("aside").wait_for(state="detached")


def luminance(page: Page, selector: str, what: str) -> float:
    text = page.evaluate(
        "([one, what]) => getComputedStyle(document.querySelector(one))[what]", [selector, what]
    )
    return sum(map(int, re.findall(r"\d+", text)[:3])) / 3


def test_dark_is_followed_and_chosen(served: Served, open_page: Open) -> None:
    page = open_page(served.url, color_scheme="dark")
    page.get_by_text("5 streams").wait_for()
    assert luminance(page, "body", "backgroundColor") < 60 < 180 < luminance(page, "h1", "color")
    page.emulate_media(color_scheme="light")
    until(page, "document.documentElement.dataset.theme === 'light'")
    assert luminance(page, "body", "backgroundColor") > 200
    page.get_by_role("button", name="Dark or light").click()
    assert luminance(page, "body", "backgroundColor") < 60
    page.reload()
    page.get_by_text("5 streams").wait_for()
    assert luminance(page, "body", "backgroundColor") < 60


def test_nothing_moves_by_itself_for_who_wants_that(served: Served, open_page: Open) -> None:
    page = open_page(served.url, reduced_motion="reduce")
    page.evaluate("""() => {
      window.moving = [];
      setInterval(() => {
        for (const one of document.getAnimations()) {
          const {duration, iterations} = one.effect.getComputedTiming();
          if (duration > 1 || iterations > 1) window.moving.push(one.animationName ?? one.transitionProperty);
        }
      }, 10);
    }""")
    page.get_by_role("button", name="street", exact=True).click()
    painted(page)
    panel(page, "Statistics")
    page.get_by_role("gridcell").first.click()
    page.get_by_role("application").locator("canvas").wait_for()
    page.keyboard.press("]")
    still(page)
    assert page.evaluate("window.moving") == []
