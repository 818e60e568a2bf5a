"""Make the pictures of docs/viewer.md: ``python -m integration_tests.viewer.screenshots``, in a real browser.

The datasets are always the same; ids of commits, and what requests took, are not.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from playwright.sync_api import sync_playwright

from integration_tests.viewer import lakes
from integration_tests.viewer.conftest import CHROMIUM, Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "assets" / "viewer"
MOST_BYTES = 60_000
NAMED = "path => document.querySelectorAll('p.quiet[title]').forEach(one => { one.textContent = path; })"
IS_STILL = "() => document.querySelectorAll('.later').length === 0 && document.fonts.status === 'loaded'"


def shots(numbers: dict[str, int], commits: list[str]) -> dict[str, tuple[dict[str, Any], bool]]:
    """Return the state of the page, and whether it is dark, of each picture."""
    street = {"dataset": numbers["street"], "hidden": ["outlines", "corners", "poses"]}
    return {
        "lake": ({}, False),
        "grid": (street, False),
        "detail": (street | {"row": 2, "hidden": ["outlines", "corners"]}, True),
        "table": ({"dataset": numbers["users"]}, False),
        "query": (street | {"query": "select * where contains(labels, 'dog') arrange by scene"}, False),
        "statistics": (street | {"panel": "statistics", "cell": 160}, False),
        "diff": (street | {"diff": {"a": commits[-1], "b": commits[0]}, "panel": "versions"}, False),
        "sides": ({"dataset": numbers["predictions"], "row": 6, "compare": {}}, False),
        "match": ({"dataset": numbers["predictions"], "compare": {"how": "match"}}, False),
        "crops": ({"dataset": numbers["predictions"], "compare": {"how": "crops"}}, False),
        "sequence": ({"dataset": numbers["moving"], "row": 1, "frame": 9}, True),
        "scan": ({"dataset": numbers["scans"], "row": 0, "frame": 12}, True),
        "film": ({"dataset": numbers["films"], "row": 0, "frame": 41}, True),
    }


def saved(png: bytes, path: Path) -> int:
    """Write a picture as WebP, as good as its size allows; return the bytes."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    for quality in range(92, 40, -6):
        image.save(path, "WEBP", quality=quality, method=6)
        if path.stat().st_size <= MOST_BYTES:
            break
    return path.stat().st_size


def shoot(browser: Browser, url: str, path: Path, is_dark: bool) -> int:
    """Write the picture of an address once nothing in it moves any more; return its bytes."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800},
        color_scheme="dark" if is_dark else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.wait_for_function(IS_STILL)
    page.evaluate(NAMED, "/data/lake")
    last = b""
    while (now := page.screenshot()) != last:
        last = now
        page.wait_for_timeout(700)
    context.close()
    return saved(now, path)


def main() -> None:
    """Write the datasets, serve them, and look."""
    lakes.CLASSES[-1] = "sign"
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "lake"
        lakes.lake(root)
        lakes.scans(root / "scans")
        lakes.films(root / "films")
        lakes.predictions(root / "predictions")
        server = Served(root)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            asked = started.request.new_context(
                extra_http_headers={"Authorization": f"Bearer {server.token}"}
            )
            told = asked.get(f"{server.base}v1/lake").json()
            numbers = {one["name"].rpartition("/")[2]: at for at, one in enumerate(told["datasets"])}
            meta = asked.get(f"{server.base}v1/{numbers['street']}/meta").json()
            commits = [one["id"] for one in meta["commits"] if one["branch"] == "main"]
            for name, (state, is_dark) in shots(numbers, commits).items():
                size = shoot(browser, server.at(**state), PICTURES / f"{name}.webp", is_dark)
                print(f"{name}: {size:,} bytes")  # noqa: T201
            browser.close()
        server.close()


if __name__ == "__main__":
    main()
