"""What `benchmarks.viewer` looks with: the viewer as a process of its own, and a Chromium whose page tells when."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from benchmarks import measure

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

CHROMIUM = os.environ.get("LAKEBED_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE_MS = 60_000
GRID, ROW = "[role=grid] [role=gridcell]", "[role=application]"
"""What is waited for: the cells of a grid that are in sight, or the picture of an open row."""

_PROBE = """
(() => {
  let drawn = new WeakSet();
  const { drawImage } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.drawImage = function (...given) {
    drawn.add(this.canvas);
    return drawImage.apply(this, given);
  };
  const bench = (window.bench = { gaps: [], tasks: [], most: 0, decoded: 0 });
  const say = (word) => requestAnimationFrame(() => setTimeout(() => console.debug(`bench ${word}`)));

  const sizes = new WeakMap();
  const collected = new FinalizationRegistry((of) => (bench.decoded -= of.bytes));
  const { createImageBitmap } = window;
  window.createImageBitmap = async (...given) => {
    const made = await createImageBitmap(...given);
    const of = { bytes: 4 * made.width * made.height };
    sizes.set(made, of);
    collected.register(made, of);
    bench.decoded += of.bytes;
    return made;
  };
  const { close } = ImageBitmap.prototype;
  ImageBitmap.prototype.close = function () {
    const of = sizes.get(this) ?? { bytes: 0 };
    bench.decoded -= of.bytes;
    of.bytes = 0;
    close.call(this);
  };
  bench.pixels = () => // bytes of decoded pictures and of canvases
    [...document.querySelectorAll("canvas")].reduce((sum, one) => sum + 4 * one.width * one.height, bench.decoded);

  let isAnswered = true;
  bench.wait = (selector, isAsked = false) => {
    let isFirst = true;
    isAnswered = !isAsked;
    drawn = new WeakSet();
    const look = () => {
      const seen = [...document.querySelectorAll(selector)].filter((one) => {
        const { top, bottom } = one.getBoundingClientRect();
        const view = (one.closest("[role=grid]") ?? document.body).getBoundingClientRect();
        return bottom > view.top && top < view.bottom;
      });
      const done = seen.filter((one) => drawn.has(one.querySelector("canvas")));
      if (done.length && isFirst) say("first");
      if (done.length) isFirst = false;
      if (isAnswered && done.length && done.length === seen.length) say("all");
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  };

  // From the answer of a query on, only what is drawn again counts.
  const { fetch } = window;
  window.fetch = async (...given) => {
    const answer = await fetch(...given);
    if (/\\/query$/.test(answer.url)) [isAnswered, drawn] = [true, new WeakSet()];
    return answer;
  };

  bench.watch = () => {
    let last = performance.now();
    let isMoving = false;
    document.querySelector("[role=grid]").addEventListener("scroll", () => (isMoving = true), { passive: true });
    const elements = document.getElementsByTagName("*");
    const count = (now) => {
      if (isMoving) bench.gaps.push(now - last);
      [isMoving, last] = [false, now];
      bench.most = Math.max(bench.most, elements.length);
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
    new PerformanceObserver((list) => bench.tasks.push(...list.getEntries().map((one) => one.duration)))
      .observe({ type: "longtask" });
  };

  bench.drag = (share, milliseconds) =>
    new Promise((done) => {
      const grid = document.querySelector("[role=grid]");
      const [from, way, began] = [grid.scrollTop, share * grid.scrollHeight, performance.now()];
      const step = (now) => {
        const at = Math.min(1, Math.max(0, (now - began) / milliseconds));
        grid.scrollTop = from + way * at;
        at < 1 ? requestAnimationFrame(step) : done();
      };
      requestAnimationFrame(step);
    });

  bench.jump = (share) => {
    const film = document.querySelector("video");
    film.currentTime = share * film.duration;
  };

  for (const name of ["loadeddata", "seeked"]) {
    document.addEventListener(name, () => say(name), true); // of films, which tell nobody else
  }
})();
"""


class Server:
    """A viewer, from `began` on."""

    def __init__(self, path: Path | str, environment: Mapping[str, str] | None = None) -> None:
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lakebed.viewer", str(path), "--with-parent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**measure.ENVIRONMENT, **(environment or {})},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"{}\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        if "error" in told:
            raise RuntimeError(f"the viewer does not start: {told['error']}")
        self.url: str = told["url"]

    def at(self, **state: Any) -> str:
        """Return the address of a state of the page."""
        return f"{self.url}&v1={json.dumps(state)}" if state else self.url

    @property
    def cpu(self) -> float:
        """CPU seconds that it has used."""
        return used(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


def used(pid: int) -> float:
    """CPU seconds of a process, its ended threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start a Chromium of this machine.

    Raises
    ------
    SystemExit
        If there is none, or no Playwright.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise SystemExit("benchmarks.viewer needs Playwright: pip install playwright") from error
    if not CHROMIUM:
        raise SystemExit("benchmarks.viewer needs a Chromium: install it, or name it in LAKEBED_CHROMIUM")
    with sync_playwright() as started:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@contextlib.contextmanager
def blank(browser: Browser, selector: str = GRID) -> Iterator[Page]:
    """Open an empty page that keeps nothing of others; it tells when what is waited for is painted."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.add_init_script(_PROBE + f"bench.wait({json.dumps(selector)});")
    yield page
    context.close()


def told(page: Page, word: str, act: Callable[[], object]) -> float:
    """Do something, and return when the page said a word: as of `time.perf_counter`."""
    with page.expect_console_message(lambda said: said.text == f"bench {word}", timeout=PATIENCE_MS):
        act()
    return time.perf_counter()


class Painted(NamedTuple):
    """Seconds until the first thumbnail and until all in sight were painted, CPU seconds of the server."""

    first: float
    all: float
    cpu: float


def look(page: Page, server: Server, url: str, began: float) -> Painted:
    """Go to an address, and wait until what is in sight is painted."""
    first: list[float] = []

    def said(message: Any) -> None:
        if message.text == "bench first":
            first.append(time.perf_counter())

    page.on("console", said)
    cpu = server.cpu if began != server.began else 0.0
    end = told(page, "all", lambda: page.goto(url, wait_until="commit"))
    page.remove_listener("console", said)
    return Painted(first[0] - began, end - began, server.cpu - cpu)


def heap(session: CDPSession) -> int:
    """Return the bytes that scripts hold, once garbage is gone."""
    session.send("HeapProfiler.collectGarbage")
    found = session.send("Runtime.getHeapUsage")
    return int(found["usedSize"]) + int(found.get("backingStorageSize", 0))


def processes(browser: Browser) -> dict[int, str]:
    """Return the ids of the browser's processes, and what each is."""
    session = browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return {one["id"]: one["type"] for one in found}


def resident(pids: Mapping[int, str]) -> int:
    """Return the memory of those that draw, in bytes; what they share is counted in shares."""
    total = 0
    for pid, kind in pids.items():
        if kind in ("renderer", "GPU"):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total
