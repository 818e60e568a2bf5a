"""A server of its own, and a real browser that looks at it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.viewer import lakes

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OTHER_SITE = "other.test"  # a name that leads to this machine, for the browser only
CHROMIUM = os.environ.get("LAKEBED_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


class Served:
    """A viewer that runs as its users' does: a process, which ends with its standard input."""

    def __init__(self, path: Path | str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lakebed.viewer", str(path), "--with-parent", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("{}\n")
        self.process.stdin.flush()
        self.url: str = json.loads(self.process.stdout.readline())["url"]
        self.base, _, fragment = self.url.partition("#")
        self.token = fragment.removeprefix("token=").split("&")[0]

    def at(self, **state: Any) -> str:
        """Return the address of a state of the page."""
        return f"{self.base}#token={self.token}&v1={json.dumps(state)}"

    def number(self, name: str) -> int:
        """Return the number of a dataset of the lake."""
        asked = urllib.request.Request(
            f"{self.base}v1/lake", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(asked) as answer:
            return int(next(one["id"] for one in json.load(answer)["datasets"] if one["name"] == name))

    def close(self) -> None:
        """End it as the end of its parent would."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with datasets of every kind; tests do not change them."""
    root = tmp_path_factory.mktemp("lake")
    lakes.lake(root)
    return root


@pytest.fixture(scope="session")
def served(lake: Path) -> Iterator[Served]:
    """Return the viewer of that folder."""
    server = Served(lake)
    yield server
    server.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Return a function that starts a viewer, which ends with the test."""
    started: list[Served] = []

    def begin(path: Path | str, *arguments: str) -> Served:
        started.append(Served(path, *arguments))
        return started[-1]

    yield begin
    for server in started:
        server.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a Chromium of the machine."""
    if not CHROMIUM:
        pytest.skip("no Chromium here: install it, or name it in LAKEBED_CHROMIUM")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright here: make test-viewer installs it"
    )
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        arguments += [f"--host-resolver-rules=MAP {OTHER_SITE} 127.0.0.1", "--enable-precise-memory-info"]
        found = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Return a function that opens an address in a context of its own; what the page complains of fails it.

    With ``refused``, a page may be told that something cannot be had: the browser writes that into its console.
    """
    contexts: list[Any] = []
    complaints: list[str] = []

    def opened(
        url: str, *, width: int = 1280, height: int = 800, refused: bool = False, **options: Any
    ) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page: Page = context.new_page()

        def said(message: Any) -> None:
            is_refusal = refused and message.text.startswith(("Failed to load resource", "Access to fetch"))
            if message.type == "error" and not is_refusal:
                complaints.append(message.text)

        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", said)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


def still(page: Page) -> bytes:
    """Return a picture of the page once it changes no more; its footer, which says what requests cost, is left out."""
    last = b""
    for _ in range(150):
        now: bytes = page.screenshot(mask=[page.locator("footer")], animations="disabled", caret="hide")
        if now == last:
            return now
        last = now
        page.wait_for_timeout(200)
    raise AssertionError("the page does not come to rest")


def until(page: Page, script: str, arg: Any = None) -> None:
    """Wait until a script says so; Playwright's own way needs what the page's policy forbids."""
    for _ in range(300):
        if page.evaluate(script, arg):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"not in time: {script}")


def state(page: Page) -> dict[str, Any]:
    """Return what the address says."""
    found = page.evaluate("decodeURIComponent(location.hash.replace(/^#v1=/, '') || '{}')")
    return dict(json.loads(found))


def rows_said(page: Page, words: str) -> None:
    """Wait until the footer says so many rows: `119 rows`, `40 rows of 119`."""
    page.locator("footer").filter(has_text=re.compile(rf"^\s*{words}\b")).wait_for()


def painted(page: Page) -> None:
    """Wait until the pictures of a grid are there."""
    page.locator(".face canvas").first.wait_for()
    until(page, "!document.querySelector('.cell .skeleton')")
