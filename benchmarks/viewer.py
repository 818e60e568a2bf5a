"""The viewer against its bars: `python -m benchmarks.viewer --folder FOLDER`; writes its part of RESULTS.md.

A real Chromium without a screen looks at a viewer that runs as its users' does. Data are made once and kept in the
folder (8 GB): a million photos of 160 x 120 pixels, 20,000 distinct ones repeated; an image of 20,000 x 20,000; a film
of 1 GB twice; 10,000 files. Seconds are wall time, as a person waits, beside the CPU seconds of the viewer's process;
medians, with the least and the most in brackets. Where `unshare` may, all of it runs without a network.

    start     from the start of the viewer's process until the thumbnails in sight are painted, local and in a bucket
    scroll    a minute of wheel, flings and the bar over a million rows: frames, tasks, elements, memory
    seek      jumps in a film in a bucket: what the viewer reads there
    tiles     an open image of 20,000 x 20,000, then a part of it
    query     from Enter until the rows are painted, less what the engine takes for the same query alone
    beside    from 10,000 files until the first grid is painted, beside FiftyOne
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakebed
from benchmarks import measure, viewer_data
from benchmarks.inputs import CACHE
from benchmarks.results import put
from benchmarks.static_s3 import program, serving
from benchmarks.table import machine
from benchmarks.viewing import (
    GRID,
    ROW,
    Painted,
    Server,
    blank,
    chromium,
    heap,
    look,
    processes,
    resident,
    told,
    used,
)
from integration_tests.stores.servers import counting, faults

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BUCKET = "lake"
LATENCY = 0.02
CYCLE = 10
"""Seconds of the parts of scrolling, which are repeated."""
MILLION = 1e6
BUSY = 2.5
"""Load, of two cores, above which seconds that are too many are not held against the viewer."""
NOT = "not measured"

_ALONE = "LAKEBED_BENCH_ALONE"
_INGEST = "import lakebed, sys; lakebed.ingest_classification(*sys.argv[1:], progressbar=False)"
_FIFTYONE = (
    "import fiftyone as fo, sys; "
    "fo.Dataset.from_dir(dataset_dir=sys.argv[1], dataset_type=fo.types.ImageClassificationDirectoryTree)"
)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    found: str
    bar: str = ""
    verdict: str = ""


def verdict(is_reached: bool, load: float) -> str:
    """Say whether a bar is reached; ``load`` is 0 for what a busy machine does not change."""
    if is_reached:
        return "reached"
    return f"not judged, the load is {load:.0f}" if load > BUSY else "**MISSED**"


def timed(is_reached: bool) -> str:
    """Say whether a bar on seconds as a person waits is reached."""
    return verdict(is_reached, os.getloadavg()[0])


def exact(is_reached: bool) -> str:
    """Say whether a bar on a number is reached."""
    return verdict(is_reached, 0)


@dataclass(frozen=True)
class Bench:
    """What all measurements share."""

    browser: Browser
    folder: Path
    repeats: int
    seconds: int
    fiftyone: str | None

    def data(self, name: str) -> Path:
        make: Callable[[Path], None] = getattr(viewer_data, name)
        return viewer_data.made(self.folder / BUCKET / name, make)


def spread(values: Sequence[float], unit: str = "s", digits: int = 2) -> str:
    """Write a median, with the least and the most."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} {unit} ({low:.{digits}f} to {high:.{digits}f})"


def table(rows: Sequence[Row]) -> list[str]:
    """Write the table."""
    lines = ["| what | measured | bar | |", "|---|---|---|---|"]
    return lines + [f"| {one.what} | {one.found} | {one.bar} | {one.verdict} |" for one in rows]


# -- start ------------------------------------------------------------------------------------------------------------


def start(bench: Bench) -> list[Row]:
    """From the start of the process to the first thumbnails."""
    path = bench.data("photos")
    _started(bench, path)  # Python compiles what it imports
    cold = []
    for _ in range(bench.repeats):
        _forget(path)
        cold.append(_started(bench, path))
    warm = [_started(bench, path) for _ in range(bench.repeats)]
    with Server(path) as server, blank(bench.browser) as page:
        look(page, server, server.at(), server.began)
        again = []
        for _ in range(bench.repeats):
            with blank(bench.browser) as page:
                again.append(look(page, server, server.at(), time.perf_counter()))
    rows = [
        _start_row("1,000,000 images, start of the process, files not in memory", cold),
        _start_row("1,000,000 images, start of the process, files in memory", warm, 1.5),
        _start_row("1,000,000 images, the viewer runs: the page is opened", again),
    ]
    if program() is None:
        return [*rows, Row("1,000,000 images in a bucket", "nginx is not installed", "<= 2.5 s", NOT)]
    with serving(bench.folder) as port, faults(port) as network:
        network.set(latency=LATENCY)
        far = [_started(bench, f"s3://{BUCKET}/photos", network.endpoint) for _ in range(bench.repeats)]
    return [*rows, _start_row("1,000,000 images in a bucket, 20 ms to each answer", far, 2.5)]


def _started(bench: Bench, path: Path | str, endpoint: str = "") -> Painted:
    with blank(bench.browser) as page, Server(path, _keys(endpoint)) as server:
        return look(page, server, server.at(), server.began)


def _start_row(what: str, found: list[Painted], bar: float | None = None) -> Row:
    firsts, alls, cpus = ([one[at] for one in found] for at in range(3))
    text = f"first {spread(firsts)}, all in sight {spread(alls)}; CPU of the viewer {spread(cpus)}"
    if bar is None:
        return Row(what, text)
    return Row(what, text, f"first <= {bar} s", timed(statistics.median(firsts) <= bar))


def _keys(endpoint: str) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    return {**keys, "AWS_ENDPOINT_URL": endpoint} if endpoint else {}


def _forget(folder: Path) -> None:
    """Let the system drop from memory what it has of the files in a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            number = os.open(path, os.O_RDONLY)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(number)


# -- scroll -----------------------------------------------------------------------------------------------------------


def scroll(bench: Bench) -> list[Row]:
    """A minute of scrolling."""
    with Server(bench.data("photos")) as server, blank(bench.browser) as page:
        look(page, server, server.at(), server.began)
        page.wait_for_timeout(1000)
        pids = processes(bench.browser)
        session = page.context.new_cdp_session(page)
        before = _memory(page, session), resident(pids)
        cpu, own = server.cpu, sum(map(used, pids))
        bench.browser.start_tracing(page=page, categories=["disabled-by-default-devtools.timeline"])
        page.evaluate("bench.watch()")
        began = time.perf_counter()
        for at in range(max(1, bench.seconds // CYCLE)):
            _cycle(page, session, 1 if at % 4 < 2 else -1)
        wall = time.perf_counter() - began
        cpu, own = server.cpu - cpu, sum(map(used, pids)) - own
        found = page.evaluate("({ gaps: bench.gaps, tasks: bench.tasks, most: bench.most })")
        tasks = main_tasks(bench.browser.stop_tracing())
        after = _memory(page, session), resident(pids)
        fling = _flings(page, session)
    gaps = sorted(found["gaps"])
    median, slow = statistics.median(gaps), sum(gap > 33 for gap in gaps) / len(gaps)
    text = f"{median:.1f} ms; {slow:.0%} above 33 ms; {len(gaps):,} frames that moved, software rendering on "
    text += f"{len(os.sched_getaffinity(0))} cores; CPU of the browser {own:.0f} s, of the viewer {cpu:.1f} s"
    long, longest = sum(one > 100 for one in found["tasks"]), max(tasks)
    most = f"{long} above 100 ms; the longest {longest[0]:.0f} ms, of them {longest[1]:.0f} ms CPU; "
    most += f"most CPU of a task {max(one[1] for one in tasks):.0f} ms"
    (scripts, pixels), grown = (
        ((one - old) / MILLION for one, old in zip(after[0], before[0], strict=True)),
        (after[1] - before[1]) / MILLION,
    )
    memory = (
        f"{scripts:+.0f} MB of scripts, {pixels:+.0f} MB of pixels; the processes that draw {grown:+.0f} MB"
    )
    what = f"1,000,000 rows, {wall:.0f} s of scrolling: median frame"
    return [
        Row(what, text, "<= 16.7 ms", timed(median <= 16.75)),
        Row("... tasks of the page", most, "none > 100 ms", timed(not long)),
        Row("... elements of the page", f"{found['most']} at most", "< 500", exact(found["most"] < 500)),
        Row("... memory", memory, "< 50 MB of both", exact(scripts + pixels < 50)),
        fling,
    ]


def _memory(page: Page, session: Any) -> tuple[int, int]:
    """Return the bytes of scripts, and those of decoded pictures and canvases."""
    return heap(session), page.evaluate("bench.pixels()")


def _cycle(page: Page, session: Any, way: int) -> None:
    """Scroll for ten seconds: as one who looks, as one who seeks, by the bar."""
    wheel = {"x": 640, "y": 400, "gestureSourceType": "mouse", "preventFling": True}
    for speed, seconds in ((1500, 5), (12_000, 2)):
        distance = -way * speed * seconds
        session.send("Input.synthesizeScrollGesture", {**wheel, "yDistance": distance, "speed": speed})
    page.evaluate("(way) => bench.drag(way * 0.2, 2000)", way)
    page.wait_for_timeout(1000)


def main_tasks(trace: bytes) -> list[tuple[float, float]]:
    """Return milliseconds and CPU milliseconds of the tasks of the page's main thread, from a trace."""
    events = json.loads(trace)["traceEvents"]
    threads = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    found = [one for one in events if one["name"] == "RunTask" and (one["pid"], one["tid"]) in threads]
    return [(one.get("dur", 0) / 1e3, one.get("tdur", 0) / 1e3) for one in found]


def _flings(page: Page, session: Any) -> Row:
    """Fling rows away while they are asked for, over a connection that is slow enough that they are not there yet."""
    session.send("Network.enable")
    slow = {"offline": False, "latency": 400, "downloadThroughput": -1, "uploadThroughput": -1}
    session.send("Network.emulateNetworkConditions", slow)
    states: dict[Any, str] = {}

    def noting(word: str) -> Callable[[Any], None]:
        def note(request: Any) -> None:
            states[request] = word

        return note

    page.on("request", noting("under way"))
    page.on("requestfinished", noting("came"))
    page.on("requestfailed", noting("cancelled"))
    left: list[Any] = []
    flying = 0
    page.mouse.move(640, 400)
    jump = "(at) => { const g = document.querySelector('[role=grid]'); g.scrollTop = at * g.scrollHeight; }"
    for at in (0.15, 0.35, 0.55, 0.75, 0.95):
        page.evaluate(jump, at)
        page.wait_for_timeout(700)  # rows have come, pictures are asked for
        left += [one for one, word in states.items() if word == "under way"]
        count = len(states)
        for _ in range(25):
            page.mouse.wheel(0, -6000)
            page.wait_for_timeout(16)
        flying += len(states) - count
    page.wait_for_timeout(500)
    gone, came = (sum(states[one] == word for one in left) for word in ("cancelled", "came"))
    text = f"{gone} of {len(left)} that were under way were cancelled, {came} came all the same"
    text += f"; {flying} were made while rows flew past"
    return Row("... requests of five flings", text, "all cancelled", exact(gone == len(left) > 0))


# -- films and tiles --------------------------------------------------------------------------------------------------


def seek(bench: Bench) -> list[Row]:
    """Jumps in a film of 1 GB in a bucket."""
    bench.data("films")
    if program() is None:
        return [Row("a jump in a film of 1 GB in a bucket", "nginx is not installed", "< 5 MB", NOT)]
    return [_jumps(bench, row, where) for row, where in enumerate(("behind", "before"))]


def _jumps(bench: Bench, row: int, where: str) -> Row:
    read, waited, cpus = [], [], []

    def reads() -> float:
        found = sum(one.bytes for one in network.requests) / MILLION
        network.clear()
        return found

    with (
        serving(bench.folder) as port,
        counting(port) as network,
        blank(bench.browser, ROW) as page,
        Server(f"s3://{BUCKET}/films", _keys(network.endpoint)) as server,
    ):
        url, began = server.at(dataset=0, row=row), time.perf_counter()
        opening = told(page, "loadeddata", lambda: page.goto(url, wait_until="commit")) - began
        page.wait_for_timeout(2000)
        opened = reads()
        for at in (0.5, 0.9, 0.2, 0.7):
            cpu, began = server.cpu, time.perf_counter()
            jump = partial(page.evaluate, "(at) => bench.jump(at)", at)
            waited.append(told(page, "seeked", jump) - began)
            page.wait_for_timeout(2000)  # the browser reads on
            read.append(reads())
            cpus.append(server.cpu - cpu)
    text = f"{spread(read, 'MB', 1)} read, after {spread(waited)}; CPU of the viewer {spread(cpus)}"
    text += f"; opened with {opened:.1f} MB in {opening:.2f} s"
    what = f"a jump in a film of 1 GB in a bucket, index {where} the frames"
    return Row(what, text, "< 5 MB", exact(max(read) < 5))


def tiles(bench: Bench) -> list[Row]:
    """A large image, then a part of it."""
    path, found = bench.data("large"), []
    for _ in range(bench.repeats):
        with Server(path) as server, blank(bench.browser, ROW) as page:
            cpu = server.cpu
            painted = look(page, server, server.at(dataset=0, row=0), time.perf_counter())
            found.append((painted.all, server.cpu - cpu))
    times, cpus = zip(*found, strict=True)
    text = f"{spread(times)}; CPU of the viewer {spread(cpus)}"
    rows = [
        Row(
            "an image of 20,000 x 20,000 in tiles: painted",
            text,
            "<= 1 s",
            timed(statistics.median(times) <= 1),
        )
    ]
    if program() is None:
        return [*rows, Row("... tiles that are read", "nginx is not installed", "those in sight", NOT)]
    return [*rows, _tiles_read(bench)]


def _tiles_read(bench: Bench) -> Row:
    """Open a part of the large image in a bucket; a picture of the whole, which needs all tiles, is held back."""
    zoom = {"scale": 0.5, "x": 9000, "y": 7000}
    boxes: list[list[int]] = []
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    def said(request: Any) -> None:
        box = re.search(r"[?&]box=([\d%C]+)", request.url)
        if box:
            boxes.append([int(one) for one in box[1].split("%2C")])

    with serving(bench.folder) as port, counting(port) as network, blank(bench.browser, ROW) as page:
        page.on("request", said)
        page.route(re.compile("/image/(?!.*box=)"), hold)
        with Server(f"s3://{BUCKET}/large", _keys(network.endpoint)) as server:
            page.goto(server.at(dataset=0, row=0, zoom=zoom))
            page.wait_for_timeout(4000)
            tiles = [one for one in network.requests if "/image/chunks/" in one.path]
            for one in held:
                one.abort()
    stored = len(list((bench.data("large") / "versions").glob("*/image/chunks/*")))
    inside = touched(boxes, viewer_data.SIDE / math.isqrt(stored))
    read = len({one.path for one in tiles})
    text = (
        f"{read} of {stored}, by {len(tiles)} requests of {sum(one.bytes for one in tiles) / MILLION:.1f} MB"
    )
    text += f", for {len(boxes)} pieces in sight that lie in {len(inside)} tiles"
    return Row("... zoomed in: tiles that are read", text, "those in sight", exact(0 < read <= len(inside)))


def touched(boxes: Sequence[Sequence[int]], side: float) -> set[tuple[int, int]]:
    """Return row and column of the tiles that parts (left, top, width, height) lie in."""
    return {
        (row, column)
        for left, top, width, height in boxes
        for row in range(int(top / side), math.ceil((top + height) / side))
        for column in range(int(left / side), math.ceil((left + width) / side))
    }


# -- query ------------------------------------------------------------------------------------------------------------


def query(bench: Bench) -> list[Row]:
    """A query of a million rows, from the box."""
    path = bench.data("photos")
    texts = [f"select * where labels == 'dog' and score > 0.{at}" for at in range(5, 6 + bench.repeats)]
    ds = lakebed.load(str(path), read_only=True)
    engine, waited, cpus = [], [], []
    with Server(path) as server, blank(bench.browser) as page:
        look(page, server, server.at(), server.began)
        for text in texts:
            began = time.perf_counter()
            rows = len(ds.query(text).sample_indices)
            engine.append(time.perf_counter() - began)
            page.get_by_role("textbox", name="Query").fill(text)
            page.evaluate("(cells) => bench.wait(cells, true)", GRID)
            cpu, began = server.cpu, time.perf_counter()
            waited.append(told(page, "all", lambda: page.keyboard.press("Enter")) - began)
            cpus.append(server.cpu - cpu)
            page.locator("footer").filter(has_text=f"{rows:,} rows").wait_for()
    after = [one - own for one, own in zip(waited, engine, strict=True)][1:]
    text = f"{spread(after)}; painted {spread(waited[1:])}, engine alone {spread(engine[1:])}"
    text += f"; CPU of the viewer {spread(cpus[1:])}"
    text += f"; the first one {waited[0]:.2f} s, engine {engine[0]:.2f} s"
    bar = timed(statistics.median(after) <= 0.5)
    return [Row(f"`{texts[1]}` over 1,000,000 rows: painted after the engine's time", text, "<= 0.5 s", bar)]


# -- beside -----------------------------------------------------------------------------------------------------------


def beside(bench: Bench) -> list[Row]:
    """10,000 files, from the import to the first grid, beside FiftyOne."""
    files = bench.data("files")
    ours = []
    for _ in range(bench.repeats):
        folder = Path(tempfile.mkdtemp(prefix="ours-", dir=bench.folder))
        try:
            began = time.perf_counter()
            cost = measure.run([sys.executable, "-c", _INGEST, files, folder / "ds"])
            painted = _started(bench, folder / "ds")
            ours.append((time.perf_counter() - began, cost.cpu_seconds + painted.cpu))
        finally:
            shutil.rmtree(folder)
    times, cpus = zip(*ours, strict=True)
    what = "10,000 files: import and first grid"
    rows = [Row(what, f"{spread(times)}; CPU of import and viewer {spread(cpus)}")]
    return [*rows, _fiftyone(bench, files, statistics.median(times))]


def _fiftyone(bench: Bench, files: Path, ours: float) -> Row:
    what, bar = "FiftyOne, import alone, without its page", ">= 5 times as long"
    if bench.fiftyone is None:
        return Row(what, "no `--fiftyone PYTHON` was given", bar, NOT)
    with tempfile.TemporaryDirectory() as home:
        variables = {"HOME": home, "FIFTYONE_DO_NOT_TRACK": "1"}
        try:
            bare = measure.run([bench.fiftyone, "-c", "import fiftyone"], variables=variables)
            found = measure.run([bench.fiftyone, "-c", _FIFTYONE, files], variables=variables)
        except RuntimeError as error:
            said = str(error).strip().splitlines()[-1]
            return Row(what, f"fails: {said[:200]}", bar, NOT)
    ratio = found.wall_seconds / ours
    text = (
        f"{found.wall_seconds:.1f} s, {ratio:.1f} times as long; `import fiftyone` {bare.wall_seconds:.1f} s"
    )
    return Row(what, text, bar, exact(ratio >= 5))


# -- all --------------------------------------------------------------------------------------------------------------

WORKS: dict[str, Callable[[Bench], list[Row]]] = {
    "start": start,
    "scroll": scroll,
    "seek": seek,
    "tiles": tiles,
    "query": query,
    "beside": beside,
}


def leave_network() -> None:
    """Go on in a place of this machine that has no network but itself, where the system lets it."""
    if os.environ.get(_ALONE):
        return
    begin = ["unshare", "--map-root-user", "--net"]
    script = 'ip link set lo up && exec "$@"'
    try:
        subprocess.run([*begin, "sh", "-c", script, "sh", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return
    os.environ[_ALONE] = "1"
    command = [*begin, "sh", "-c", script, "sh", sys.executable, "-m", "benchmarks.viewer", *sys.argv[1:]]
    os.execvp(command[0], command)


def main() -> None:
    """Measure, print, save."""
    given = arguments()
    leave_network()
    network = "without a network" if os.environ.get(_ALONE) else "with a network: `unshare` may not"
    rows: list[Row] = []
    with chromium() as browser:
        bench = Bench(browser, given.folder.resolve(), given.repeats, given.seconds, given.fiftyone)
        for name in given.only or WORKS:
            found = WORKS[name](bench)
            print("\n".join(table(found)), flush=True)
            rows += found
        about = (
            f"`python -m benchmarks.viewer`, {time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[1]:.1f}, "
            f"{given.repeats} times each, {network}. Chromium {browser.version}. Machine: {machine(given.folder)}."
        )
    print(about)
    if not (given.only or given.quick):
        explained = (__doc__ or "").split("\n\n")[1].replace("\n", " ")
        put("benchmarks.viewer", "The viewer", [about, explained, "", *table(rows)])


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="The viewer against its bars.")
    parser.add_argument("--folder", type=Path, default=CACHE / "viewer", help="where data are made and kept")
    parser.add_argument("--only", action="append", choices=WORKS, help="measure this; may be repeated")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=60, help="of scrolling")
    parser.add_argument("--fiftyone", metavar="PYTHON", help="an interpreter that has FiftyOne")
    parser.add_argument(
        "--quick", action="store_true", help="twice each, ten seconds of scrolling, nothing saved"
    )
    given = parser.parse_args()
    if given.quick:
        given.repeats, given.seconds = 2, CYCLE
    return given


if __name__ == "__main__":
    main()
