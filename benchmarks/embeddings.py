"""The viewer's map of a million vectors: `python -m benchmarks.embeddings`; writes its part of RESULTS.md.

A Chromium without a screen, which draws by software, zooms and moves a map of 1,000,000 points of 32 axes in 8 classes,
a step for each frame: frames as they follow each other, and the CPU seconds of the process that draws, by frame.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import lakebed
from benchmarks.results import put
from benchmarks.table import machine
from benchmarks.viewing import Server, chromium, processes, used

ROWS = 1_000_000
AXES = 32
SECONDS = 10
BAR = 33.4

_MOVE = """(seconds) => new Promise((done) => {
    const target = document.querySelector(".map [role=application]");
    const { left, top, width, height } = target.getBoundingClientRect();
    const [gaps, began] = [[], performance.now()];
    const at = (x, y) => ({ bubbles: true, pointerId: 1, isPrimary: true, clientX: left + x, clientY: top + y });
    target.setPointerCapture = () => {};
    let last = null;
    const step = (now) => {
        if (last !== null) gaps.push(now - last);
        last = now;
        const share = (now - began) / 1000;
        if (share > seconds) return done(gaps);
        const middle = { ...at(width / 2, height / 2), cancelable: true };
        const deltaY = share % 2 < 1 ? -30 : 30;
        if (share % 4 < 2) target.dispatchEvent(new WheelEvent("wheel", { ...middle, deltaY }));
        else {
            target.dispatchEvent(new PointerEvent("pointerdown", at(400, 300)));
            for (const far of [5, 10]) target.dispatchEvent(new PointerEvent("pointermove", at(400 + far, 300 + far)));
            target.dispatchEvent(new PointerEvent("pointerup", at(410, 310)));
        }
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""
_SEEN = "document.querySelector('.map canvas')?.getContext('2d').getImageData(0, 0, 2000, 2000).data.some(Boolean)"


def main() -> None:
    """Run all of it, and write the figures."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "vectors"
        _write(path)
        with chromium() as browser, Server(path) as server:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            began = time.perf_counter()
            page.goto(server.at(dataset=0, map={"tensor": "", "colour": "", "view": []}))
            while not page.evaluate(_SEEN):
                page.wait_for_timeout(50)
            opened = time.perf_counter() - began
            drawing = [pid for pid, kind in processes(browser).items() if kind == "renderer"]
            before = sum(map(used, drawing))
            gaps: Any = page.evaluate(_MOVE, SECONDS)
            spent = 1000 * (sum(map(used, drawing)) - before) / len(gaps)
        median, slow = statistics.median(gaps), sum(gap > BAR for gap in gaps) / len(gaps)
        lines = [
            f"{ROWS:,} points of {AXES} axes, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}:",
            "",
            f"* opened, the plane found and all points drawn, in {opened:.1f} s",
            f"* median frame while zooming and moving {median:.1f} ms (bar {BAR:.1f}: 30 a second), {slow:.0%} above",
            f"* CPU of the process that draws {spent:.1f} ms by frame",
        ]
        print("\n".join(lines))
        put("benchmarks.embeddings", "A map of a million vectors", [machine(Path(place)), "", *lines])


def _write(path: Path) -> None:
    draws = np.random.default_rng(1)
    group = draws.integers(0, 8, ROWS, np.uint32)
    centres = 4 * draws.standard_normal((8, AXES), np.float32)
    ds = lakebed.empty(path)
    ds.create_tensor("vector", htype="embedding", dtype="float32")
    ds.create_tensor("group", htype="class_label", class_names=list("abcdefgh"))
    ds.extend({"vector": centres[group] + draws.standard_normal((ROWS, AXES), np.float32), "group": group})
    ds.commit()


if __name__ == "__main__":
    main()
