"""Comparing on an ordinary day: predictions with the truth, two versions, two datasets; with a server and without."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import lakebed
from integration_tests.viewer.bucket import serving
from integration_tests.viewer.conftest import Served, rows_said, state, still, until
from lakebed.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.viewer

Open = Callable[..., "Page"]
ROWS = 24
NAMES = ["cat", "dog", "<b>bird</b>"]
FILLS = [(200, 40, 40), (40, 160, 60), (40, 80, 200)]
PLACES = [(20, 30, 80, 60), (180, 40, 80, 60), (40, 150, 80, 60)]
EXTRA = (230, 170, 60, 50)
AWAY = 16  # pixels by which the second box is moved: 2/3 of both is common
COLOURED = """([selector, at, red, green, blue]) => {
  const canvas = document.querySelectorAll(selector)[at];
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    count += Math.abs(data[i] - red) + Math.abs(data[i + 1] - green) + Math.abs(data[i + 2] - blue) < 24;
  }
  return count;
}"""
TENTH = """() => {
  const canvas = document.querySelectorAll('.list li')[9].querySelector('canvas');
  return [...document.querySelectorAll('.list canvas')].indexOf(canvas);
}"""
RIGHT, FALSE, MISSED = (0, 158, 115), (213, 94, 0), (86, 180, 233)
CHANGED, REMOVED = (230, 159, 0), (213, 94, 0)


def picture(row: int) -> np.ndarray[Any, Any]:
    pixels = np.full((240, 320, 3), 128, np.uint8)
    for place, (x, y, w, h) in enumerate(PLACES):
        pixels[y : y + h, x : x + w] = FILLS[(row + place) % 3]
    return pixels


def write(path: Path) -> tuple[str, str]:
    """Write pictures with true boxes and a model's: right, moved, of another class, and of nothing; two commits."""
    ds = lakebed.empty(str(path))
    with ds:
        ds.create_tensor("images", htype="image", sample_compression="png")
        ds.create_tensor("boxes", htype="bbox", coords={"type": "pixel", "mode": "LTWH"})
        ds.create_tensor("labels", htype="class_label", class_names=NAMES)
        ds.create_tensor("model/boxes", htype="bbox", coords={"type": "fractional", "mode": "LTRB"})
        ds.create_tensor("model/labels", htype="class_label", class_names=NAMES[::-1])
        ds.create_tensor("model/scores", dtype="float32")
        ds.create_tensor("model/pixels", htype="bbox", coords={"type": "pixel", "mode": "LTRB"})
        ds.create_tensor("caption", htype="text")
        for row in range(ROWS):
            first, second, third = PLACES
            theirs = np.array([first, (second[0] + AWAY, *second[1:]), third, EXTRA], np.float64)
            theirs[:, 2:] += theirs[:, :2]
            kinds = [row % 3, (row + 1) % 3, row % 3, 0]
            ds.append(
                {
                    "images": picture(row),
                    "boxes": np.array(PLACES, np.float32),
                    "labels": np.array([(row + place) % 3 for place in range(3)], np.uint32),
                    "model/boxes": (theirs / (320, 240, 320, 240)).astype(np.float32),
                    "model/pixels": theirs.astype(np.float32),
                    "model/labels": np.array([2 - kind for kind in kinds], np.uint32),
                    "model/scores": np.array([0.9, 0.8, 0.7, 0.3], np.float32),
                    "caption": f"picture {row}",
                }
            )
    first_commit = ds.commit("as drawn")
    with ds:
        ds.boxes[2] = np.array([(30, 30, 80, 60), PLACES[1]], np.float32)
        ds.labels[2] = np.array([2, 0], np.uint32)
        ds.caption[4] = "other words"
        pixels = picture(5)
        pixels[100:140, 150:200] = 255
        ds.images[5] = pixels
        ds.pop(7)
        ds.append({name: ds[name][0] for name in ds.tensors})
    return first_commit, ds.commit("as reviewed")


def bare(path: Path, rows: int) -> None:
    """Write boxes and no pictures, and no ids of samples."""
    ds = lakebed.empty(str(path))
    with ds:
        for name in ("truth", "predicted"):
            ds.create_tensor(name, htype="bbox", create_id_tensor=False)
            ds[name].extend(np.tile(np.array([[[1, 2, 3, 4]]], np.float32), (rows, 1, 1)))


class Compared:
    """A lake with three datasets, and its viewer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commits = write(root / "pets")
        for name, rows in (("long", 5000), ("short", 4)):
            bare(root / name, rows)
        self.served = Served(root)
        self.numbers = {name: self.served.number(name) for name in ("pets", "long", "short")}

    def at(self, name: str = "pets", **given: Any) -> str:
        return self.served.at(dataset=self.numbers[name], **given)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    found = Compared(tmp_path_factory.mktemp("compared"))
    yield found
    found.served.close()


@pytest.fixture(scope="module")
def published(compared: Compared) -> Iterator[Callable[..., str]]:
    """Return the address of a state of the page without a server."""
    CliRunner().invoke(main, ["view", str(compared.root), "--static", str(compared.root / "page")])
    listed = json.loads((compared.root / "page" / "lake.json").read_text())["datasets"]
    number = next(at for at, one in enumerate(listed) if one["name"] == "pets")
    with serving(compared.root) as bucket:
        yield lambda **given: f"{bucket.url}/page/index.html#v1={json.dumps({'dataset': number, **given})}"


def totals(page: Page, right: object, false: object, missed: object) -> None:
    page.locator(".totals").filter(
        has_text=re.compile(rf"{right}\s*right\s*{false}\s*false\s*{missed}\s*missed")
    ).wait_for()


def shown(page: Page, selector: str, count: int) -> None:
    """Wait until so many pictures are there."""
    until(
        page,
        f"document.querySelectorAll('{selector}').length === {count} && !document.querySelector('.skeleton')",
    )


def alike(page: Page, other: Page) -> None:
    """Check that two pages look the same; rounded corners are smoothed in one of several ways."""
    mine, theirs = (
        np.asarray(Image.open(io.BytesIO(still(one))).convert("RGB"), int) for one in (page, other)
    )
    assert (np.abs(mine - theirs).max(axis=2) > 60).sum() < 200


def drawn(page: Page, colour: tuple[int, int, int], selector: str = ".list canvas", at: int = 0) -> int:
    return int(page.evaluate(COLOURED, [selector, at, *colour]))


@pytest.mark.parametrize("is_static", [False, True], ids=["server", "static"])
def test_predictions_are_matched_and_counts_lead_to_rows(
    compared: Compared, published: Callable[..., str], open_page: Open, is_static: bool
) -> None:
    given = {"at": compared.commits[0], "compare": {"how": "match"}}
    page = open_page(published(**given) if is_static else compared.at(**given), refused=is_static)
    totals(page, 2 * ROWS, 2 * ROWS, ROWS)
    page.get_by_role("button", name="16 TP of <b>bird</b>").wait_for()
    page.get_by_role("button", name="24 nothing predicted as cat").wait_for()
    shown(page, ".list canvas", 24)
    assert min(drawn(page, colour) for colour in (RIGHT, FALSE)) > 50
    slider = page.get_by_role("slider", name="Least confidence")
    slider.fill("0.5")
    totals(page, 2 * ROWS, ROWS, ROWS)
    page.get_by_role("slider", name="Least intersection over union").fill("0.75")
    totals(page, ROWS, 2 * ROWS, 2 * ROWS)
    assert state(page)["compare"]["iou"] == 0.75
    page.get_by_role("button", name="8 <b>bird</b> predicted as cat").click()
    page.get_by_text("<b>bird</b> taken for cat: 8 rows").wait_for()
    names = page.locator(".list .rows button").evaluate_all("all => all.map((one) => one.ariaLabel)")
    assert names == [f"Row {row}" for row in range(0, ROWS, 3)]
    assert state(page)["compare"]["pick"] == ["cell", "<b>bird</b>", "cat"]
    page.locator(".list .rows button").nth(1).click()
    page.get_by_role("heading", name="Row 3").wait_for()
    page.keyboard.press("]")  # the next row of the list
    page.get_by_role("heading", name="Row 6").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Choose these rows").click()
    page.locator("footer").get_by_text("8 chosen").wait_for()
    assert state(page)["selected"] == "0.3.6.9.12.15.18.21"
    page.go_back()
    page.get_by_text("<b>bird</b> taken for cat: 8 rows").wait_for()


def test_reading_says_how_far_it_is_and_can_be_cancelled(compared: Compared, open_page: Open) -> None:
    page = open_page("about:blank")
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route(re.compile(r"/rows\?.*start=[1-9]\d{3}"), hold)
    page.goto(compared.at("long", compare={"how": "match"}))
    page.get_by_role("status").filter(has_text="1,024 of 10,000 rows").wait_for()
    page.get_by_role("button", name="Cancel").click()
    while held:
        held.pop().continue_()
        page.wait_for_timeout(100)
    page.get_by_text(re.compile(r"The first 1,\d+ rows")).wait_for()
    page.unroute_all()
    page.get_by_role("button", name="Read all").click()
    totals(page, "5,000", "0", "0")
    assert page.get_by_text("The first").count() == 0


def test_versions_stand_side_by_side_joined_by_ids(compared: Compared, open_page: Open) -> None:
    page = open_page(compared.at(compare={"at": compared.commits[0]}))
    page.get_by_text("Rows are joined by the ids of images.").wait_for()
    shown(page, ".list canvas", 47)
    # The row that was removed before it moves none: the tenth is red first on both sides.
    until(page, "document.querySelectorAll('.list li')[9].querySelectorAll('canvas').length === 2")
    number = page.evaluate(TENTH)
    assert drawn(page, FILLS[1], at=number) == drawn(page, FILLS[1], at=number + 1) > 500
    rows_said(page, "24 rows")
    page.get_by_role("button", name="Later").click()
    page.get_by_role("button", name="Row 7 of the right only").wait_for()
    page.get_by_role("button", name="Earlier").click()
    page.locator(".list .rows button").nth(5).click()
    shown(page, ".pair canvas", 2)
    assert drawn(page, (255, 255, 255), ".pair canvas", 0) > 1000
    assert drawn(page, (255, 255, 255), ".pair canvas", 1) < 100
    page.locator(".pair [role=application]").first.hover()
    page.mouse.wheel(0, -600)
    until(page, "location.hash.includes('zoom')")
    greens = [drawn(page, FILLS[2], ".pair canvas", at) for at in (0, 1)]
    assert greens[0] == pytest.approx(greens[1], rel=0.02)
    link = page.url
    again = open_page(f"{link.split('#')[0]}#token={compared.served.token}&{link.split('#')[1]}")
    shown(again, ".pair canvas", 2)
    page.mouse.move(4, 4)  # no pixel is read out
    alike(page, again)


def test_rows_without_common_ids_are_joined_by_number(compared: Compared, open_page: Open) -> None:
    page = open_page(compared.at("long", compare={"dataset": compared.numbers["short"]}))
    page.get_by_text("Rows are joined by their numbers: no tensor of both has ids.").wait_for()
    page.get_by_role("combobox", name="Dataset at the right").select_option(label="pets")
    page.get_by_text("Rows are joined by their numbers").wait_for()
    page.get_by_role("button", name="Match").click()
    page.get_by_role("combobox", name="Prediction").select_option("boxes")
    page.locator(".totals").wait_for()


@pytest.mark.parametrize("is_static", [False, True], ids=["server", "static"])
def test_what_changed_is_in_colour(
    compared: Compared, published: Callable[..., str], open_page: Open, is_static: bool
) -> None:
    given = {"diff": dict(zip("ab", compared.commits, strict=True))}
    page = open_page(published(**given) if is_static else compared.at(**given), refused=is_static)
    for heading in ("3 rows changed", "1 row removed", "1 row added"):
        page.get_by_role("heading", name=heading).wait_for()
    shown(page, "li canvas", 8)
    rows = page.locator("li.changed")
    rows.nth(0).get_by_text("1 removed").wait_for()
    rows.nth(0).get_by_text("1 changed").wait_for()
    assert rows.nth(0).locator("del").all_inner_texts() == ["dog"]
    assert rows.nth(1).locator("del").all_inner_texts() == ["picture 4"]
    assert rows.nth(1).locator("ins").all_inner_texts() == ["other words"]
    rows.nth(2).get_by_text(re.compile(r"\d % of the pixels of images changed")).wait_for()
    until(page, f"({COLOURED})(['li canvas', 5, 255, 105, 223]) > 200")
    page.get_by_role("button", name="Row 2, changed: boxes, labels").click()
    shown(page, ".open canvas", 2)
    assert drawn(page, CHANGED, ".open canvas", 0) > 200
    assert drawn(page, REMOVED, ".open canvas", 0) > 200
    assert drawn(page, CHANGED, ".open canvas", 1) > 200
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="Row 4, changed").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="1 row added").wait_for()


@pytest.mark.parametrize("is_static", [False, True], ids=["server", "static"])
def test_crops_of_predictions_are_ordered_by_their_error_and_arranged_by_label(
    compared: Compared, published: Callable[..., str], open_page: Open, is_static: bool
) -> None:
    """Figure 5 of the Deep Lake paper, as one link."""
    given = {"at": compared.commits[0], "compare": {"how": "crops"}}
    page = open_page(published(**given) if is_static else compared.at(**given), refused=is_static)
    headings = page.locator(".list h2")
    headings.nth(2).wait_for()
    assert [one.split("\n")[0].split("  ")[0].strip() for one in headings.all_inner_texts()] == [
        "<b>bird</b> 24 predictions, the least overlap first",
        "cat 48 predictions, the least overlap first",
        "dog 24 predictions, the least overlap first",
    ]
    shown(page, ".list canvas", 48)
    again = open_page(published(**given) if is_static else compared.at(**given), refused=is_static)
    shown(again, ".list canvas", 48)
    alike(page, again)
    page.get_by_role("button", name="Show more of 24").last.click()
    dogs = page.locator(".list ul").nth(2)
    shown(page, ".list ul:last-of-type canvas", 24)
    names = dogs.locator("button").evaluate_all("all => all.map((one) => one.ariaLabel)")
    overlaps = [float(name.rpartition(" ")[2]) for name in names]
    assert overlaps == sorted(overlaps)
    assert set(overlaps) == {0.0, 0.67, 1.0}
    # The worst one is a cat that was taken for a dog; the best one is a dog.
    for canvas, fill in ((dogs.locator("canvas").first, FILLS[0]), (dogs.locator("canvas").last, FILLS[1])):
        image = Image.open(io.BytesIO(canvas.screenshot())).convert("RGB")
        assert image.getpixel((image.width // 2, image.height // 2)) == pytest.approx(fill, abs=6)


def test_a_query_crops_as_the_paper_does(compared: Compared, open_page: Open) -> None:
    query = """
        select images[30:110, 20:120] as crop, normalize(boxes, [20, 30, 100, 80]) as box, labels[0] as label
        where any(iou(boxes, "model/pixels") > 0.95)
        order by mean(max(iou(boxes, "model/pixels"), 1)) arrange by label
    """
    page = open_page(compared.at(at=compared.commits[0], query=" ".join(query.split()), primary="crop"))
    page.locator(".band").nth(2).wait_for()
    shown(page, ".cell canvas", 24)
    assert page.locator(".band b").all_inner_texts() == ["cat", "dog", "<b>bird</b>"]
    # Each crop begins with the box that the model found best, which is an object of the group's class.
    for at, fill in ((0, FILLS[0]), (8, FILLS[1]), (16, FILLS[2])):
        assert drawn(page, fill, ".cell canvas", at) > 100
