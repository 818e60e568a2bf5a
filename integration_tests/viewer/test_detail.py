"""An open row beside its picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from integration_tests.viewer.conftest import Served
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
