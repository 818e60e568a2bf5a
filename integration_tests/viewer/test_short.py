"""The short part, run by `make test` where there are Playwright and a Chromium: the page opens, and runs no data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import lakebed
from integration_tests.viewer.conftest import Served, painted, rows_said

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "<img src=x onerror=window.__hit=1>"


def test_the_page_opens_and_texts_are_texts(
    tmp_path: Path, serve: Callable[..., Served], open_page: Callable[..., Page]
) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    with ds:
        ds.create_tensor("image", htype="image", sample_compression="png")
        ds.create_tensor("label", htype="class_label", class_names=[EVIL])
        ds.extend({"image": np.zeros((5, 24, 32, 3), np.uint8), "label": np.zeros((5, 1), np.uint32)})
    page = open_page(serve(tmp_path / "ds").url)
    painted(page)
    rows_said(page, "5 rows")
    page.get_by_role("gridcell", name=f"row 4: {EVIL}").click()
    page.get_by_role("region", name="Row 4").get_by_role("application").locator("canvas").wait_for()
    assert EVIL in page.get_by_role("complementary", name="Values").inner_text()
    assert page.evaluate("window.__hit") is None
