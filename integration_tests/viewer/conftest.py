"""A server of its own, and a real browser that looks at it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.viewer import lakes

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a Chromium of the machine."""
    if not CHROMIUM:
        pytest.skip("no Chromium here: install it, or name it in LAKEBED_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Return a function that opens an address in a context of its own; whatever the page complains of fails the test."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def opened(url: str, *, width: int = 1280, height: int = 800, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page: Page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
