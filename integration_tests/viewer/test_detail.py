"""An open row beside its picture."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from integration_tests.viewer.conftest import Served, painted
from integration_tests.viewer.lakes import CLASSES

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_swatches_of_classes_differ_as_the_drawn_colours_do(
    served: Served, open_page: Callable[..., Page]
) -> None:
    page = open_page(served.at(dataset=4, row=2))
    page.wait_for_selector("input[type=color]")
    group = page.locator("fieldset", has=page.locator("legend", has_text="segments"))
    swatches = group.locator("input[type=color]").evaluate_all("all => all.map(one => one.value)")
    assert len(set(swatches)) == len(swatches) == len(CLASSES)


def test_pictures_behind_an_open_row_are_asked_for_when_they_are_seen(
    served: Served, open_page: Callable[..., Page]
) -> None:
    """A thumbnail can cost as much as the picture in front of it: all tiles of a large image are read for both."""
    page = open_page(served.at(dataset=4, row=2))
    page.get_by_role("application").locator("canvas").wait_for()
    page.wait_for_timeout(500)
    asked = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    assert {found[1] for url in asked if (found := re.search(r"/image/\w+/(\d+)", url))} == {"2"}
    page.keyboard.press("Escape")
    painted(page)
