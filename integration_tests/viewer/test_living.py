"""Datasets that change, and servers that end, while somebody looks: the page says so, and can be loaded again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import lakebed
from integration_tests.viewer.conftest import Served, painted, rows_said, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.viewer

Open = Callable[..., "Page"]
Serve = Callable[..., Served]
ROWS = 3000
TRACE = re.compile(r'Traceback|File "|\.py\b|\.js:\d|Error:|undefined|\[object')


def write(path: Path) -> lakebed.Dataset:
    """Write a dataset of small pictures and numbers, a commit of it, and a few rows that are not committed."""
    ds = lakebed.empty(str(path))
    with ds:
        ds.create_tensor("image", htype="image", sample_compression="png")
        ds.create_tensor("number", dtype="int64")
        rows = np.arange(ROWS)
        ds.extend({"image": [np.full((24, 32, 3), row % 256, np.uint8) for row in rows], "number": rows})
        ds.commit("first")
    return ds


def add(ds: lakebed.Dataset, many: int) -> None:
    with ds:
        ds.extend({"image": [np.zeros((24, 32, 3), np.uint8)] * many, "number": np.arange(many)})


def look_around(page: Page) -> str:
    """Look at rows that were not asked for yet, by the keyboard; return what the page says in the end."""
    for key in ("End", "Home", "PageDown", "PageDown"):
        page.get_by_role("grid").press(key)
        page.wait_for_timeout(250)
    until(page, "!document.querySelector('footer')?.innerText.includes('working')")
    said: str = page.locator("body").inner_text()
    assert not TRACE.search(said)
    return said


def test_two_viewers_and_a_writer(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    """What is on a page stays as it was opened while a writer goes on; loaded again, it shows what is new."""
    ds = write(tmp_path / "ds")
    servers = [serve(tmp_path / "ds"), serve(tmp_path)]
    pages = [open_page(servers[0].url), open_page(servers[1].at(dataset=0))]
    for page in pages:
        painted(page)

    stop = threading.Event()
    written: list[int] = []

    def go_on() -> None:
        while not stop.is_set():
            add(ds, 10)
            ds.commit(f"more {len(written)}")
            written.append(10)

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        for page in pages:
            look_around(page)
            rows_said(page, f"{ROWS:,} rows")
            assert page.get_by_role("alert").count() == 0
    finally:
        stop.set()
        writer.join()
    assert written
    for page in pages:
        page.reload()
        rows_said(page, f"{ROWS + sum(written):,} rows")
        page.keyboard.press("v")
        page.get_by_role("button", name=re.compile(f"^more {len(written) - 1}")).first.wait_for()


def test_a_dataset_that_is_deleted(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    write(tmp_path / "lake" / "ds")
    write(tmp_path / "lake" / "rest")
    server = serve(tmp_path / "lake")
    page = open_page(server.at(dataset=server.number("ds")), refused=True)
    painted(page)
    lakebed.delete(str(tmp_path / "lake" / "ds"), large_ok=True)
    look_around(page)  # what the server still has may be shown
    page.reload()
    page.get_by_role("alert").filter(has_text="dataset 'ds' was deleted").wait_for()
    page.get_by_role("button", name="All datasets").click()
    page.get_by_role("button", name="rest", exact=True).wait_for()
    page.reload()
    page.get_by_role("button", name="rest", exact=True).click()
    painted(page)


def test_a_row_that_is_open_while_its_dataset_is_deleted(
    tmp_path: Path, serve: Serve, open_page: Open
) -> None:
    write(tmp_path / "lake" / "ds")
    server = serve(tmp_path / "lake")
    page = open_page(server.at(dataset=0, row=0), refused=True)
    page.get_by_role("application").locator("canvas").wait_for()
    lakebed.delete(str(tmp_path / "lake" / "ds"), large_ok=True)
    for _ in range(70):
        page.keyboard.press("]")
    page.get_by_role("region", name="Row 70").wait_for()
    page.keyboard.press("v")
    page.get_by_role("button", name="main", exact=True).last.click()
    page.get_by_role("alert").filter(has_text="was deleted").wait_for()
    assert not TRACE.search(page.locator("body").inner_text())


def test_a_version_that_is_collected(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    """It can be read on, or the page says that it was replaced; loaded again, the new one is there."""
    ds = write(tmp_path / "ds")
    add(ds, 1000)
    server = serve(tmp_path / "ds")
    page = open_page(server.url, refused=True)
    painted(page)
    rows_said(page, f"{ROWS + 1000:,} rows")
    for _ in range(3):
        with ds:
            ds.number[ROWS] = 7
            ds.pop(ROWS + 5)
    lakebed.gc(str(tmp_path / "ds"), grace=0)
    said = look_around(page)
    assert page.get_by_role("alert").count() == 0 or "replaced by a newer one" in said
    page.reload()
    rows_said(page, f"{ROWS + 997:,} rows")
    look_around(page)
    assert page.get_by_role("alert").count() == 0


def test_rows_that_are_written_anew_in_other_chunks(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    ds = write(tmp_path / "ds")
    server = serve(tmp_path / "ds")
    page = open_page(server.url, refused=True)
    painted(page)
    ds.rechunk()
    lakebed.gc(str(tmp_path / "ds"), grace=0)
    look_around(page)
    assert page.get_by_role("alert").count() == 0  # a commit is looked at
    page.reload()
    painted(page)
    look_around(page)
    assert page.get_by_role("alert").count() == 0


def test_a_server_that_is_killed(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    write(tmp_path / "ds")
    server = serve(tmp_path / "ds")
    page = open_page(server.url, refused=True)
    painted(page)
    server.process.kill()
    server.process.wait()
    assert "server does not answer: start it again" in look_around(page)
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("alert").filter(has_text="does not answer").wait_for()
    port = server.base.rstrip("/").rpartition(":")[2]
    server = serve(tmp_path / "ds", "--port", port)
    page.reload()
    page.get_by_role("heading", name="This page needs its key").wait_for()
    page.goto(server.url)
    page.reload()
    painted(page)


def test_a_server_ends_with_its_parent(tmp_path: Path, open_page: Open) -> None:
    """Also where that is killed, and while a page is open."""
    write(tmp_path / "ds")
    program = (
        "import sys; from integration_tests.viewer.conftest import Served; server = Served(sys.argv[1]); "
        "print(server.url, server.process.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "ds")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert parent.stdout is not None
    url, pid = parent.stdout.readline().split()
    page = open_page(url, refused=True)
    painted(page)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    for _ in range(300):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            break
        page.wait_for_timeout(100)
    else:
        raise AssertionError("the server did not end")
    assert "server does not answer: start it again" in look_around(page)
