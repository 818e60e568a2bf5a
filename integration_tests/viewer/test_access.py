"""What axe-core finds wrong for people who see, hear or move otherwise: nothing, on any page, light and dark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakebed
from integration_tests.viewer.conftest import Served, painted, still, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = Path(lakebed.__file__).parent / "viewer" / "web" / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    pytest.mark.viewer,
    pytest.mark.skipif(not AXE.exists(), reason="axe-core is not here: npm ci in viewer/web installs it"),
]

PAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "lake": ("", {}),
    "grid": ("street", {"selected": "1+2"}),
    "groups": ("street", {"query": "select * arrange by scene"}),
    "table": ("crm/users", {}),
    "row": ("street", {"row": 1}),
    "sequence": ("moving", {"row": 0, "primary": "frames"}),
    "film": ("moving", {"row": 0, "primary": "film"}),
    "sound": ("moving", {"row": 0, "primary": "sound"}),
    "values": ("crm/users", {"row": 3}),
    "numbers": ("pictures", {"row": 1, "primary": "deep"}),
    "statistics": ("street", {"panel": "statistics"}),
    "statistics of a table": ("crm/users", {"panel": "statistics"}),
    "versions": ("street", {"panel": "versions"}),
    "views": ("street", {"panel": "views", "query": "scene == 'day'", "selected": "1.3"}),
    "difference": ("street", {"diff": {"a": "main", "b": "review"}}),
    "side by side": ("street", {"compare": {"at": "review"}}),
    "match": ("street", {"compare": {"how": "match", "at": "review"}}),
    "crops": ("street", {"compare": {"how": "crops", "at": "review"}}),
    "keys": ("street", {"panel": "help"}),
    "nothing": ("nothing", {}),
    "no row": ("crm/users", {"query": "age > 1000"}),
    "failed query": ("street", {"query": "taken2 > 4"}),
    "failed page": ("street", {"at": "nowhere"}),
}
CHECKED = """async () => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  const shown = (nodes) => nodes.slice(0, 3).map((one) => one.html.slice(0, 160)).join(' ');
  return found.violations.map(({id, help, nodes}) => `${id}: ${help}: ${shown(nodes)}`);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(served: Served, open_page: Callable[..., Page], theme: str) -> None:
    """Each page in a state that has something on it."""
    page = open_page(served.url, color_scheme=theme, bypass_csp=True, refused=True)
    page.add_script_tag(path=str(AXE))
    wrong: dict[str, list[str]] = {}
    for name, (dataset, state) in PAGES.items():
        shown = {"dataset": served.number(dataset), **state} if dataset else {}
        page.evaluate("(to) => { location.hash = to; }", "v1=" + json.dumps(shown))
        until(page, "!document.querySelector('footer').innerText.includes('working')")
        if name in ("grid", "groups"):
            painted(page)
        still(page)
        if found := page.evaluate(CHECKED):
            wrong[name] = found
    assert not wrong, json.dumps(wrong, indent=1)
    page.goto("about:blank")
    page.goto(f"{served.base}#token=wrong")
    page.get_by_role("heading", name="This page needs its key").wait_for()
    page.add_script_tag(path=str(AXE))
    assert page.evaluate(CHECKED) == []
