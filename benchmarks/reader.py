"""The reader of browsers against its bars: `python -m benchmarks.reader`; writes its part of RESULTS.md. Needs node.

Decoding: CPU seconds, the least of 21 times in turns, from stored bytes in memory, whose checksums are verified, to the
same 4 MB of memory again and again in node, and to one array of NumPy in Python. Opening: a million rows from a web
server that waits 50 ms before each answer.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import lakebed
from benchmarks.results import put
from benchmarks.table import machine
from integration_tests.viewer.bucket import serving

LATENCY = 0.05
TIMES = 7
_WEB = Path(lakebed.__file__).parent / "viewer" / "web"
_MB = 1e6


def main() -> None:
    """Run all of it, and write the table."""
    draws = np.random.default_rng(0)
    blocks = draws.integers(0, 256, (6000, 16, 8, 3), np.uint8).repeat(4, 1).repeat(8, 2)
    numbers = np.arange(8_000_000) // 3
    vectors = draws.standard_normal((300_000, 32), np.float32)
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("arrays of 64 x 64 x 3 bytes, raw", blocks, {}),
        ("the same in LZ4 chunks", blocks, {"chunk_compression": "lz4"}),
        ("the same, each sample in LZ4", blocks, {"sample_compression": "lz4"}),
        ("numbers of 64 bits, raw", numbers, {}),
        ("the same in LZ4 chunks", numbers, {"chunk_compression": "lz4"}),
        ("vectors of 32 floats, raw", vectors, {}),
    ]
    lines = ["| decoded | Python MB/s | reader MB/s | ratio (bar 0.5) |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        subprocess.run(["node", _WEB / "module.mjs", "reader", root / "reader"], check=True, cwd=_WEB)
        for number, (what, values, made) in enumerate(cases):
            ds = lakebed.empty(root / str(number))
            ds.create_tensor("x", dtype=str(values.dtype), **made)
            ds.x.extend(values)
            ds.commit()
            rounds = [
                (_seconds(root / str(number)), _node(root, "decode", root / str(number))) for _ in range(3)
            ]
            python = values.nbytes / min(seconds for seconds, _ in rounds) / _MB
            reader = values.nbytes / min(told["seconds"] for _, told in rounds) / _MB
            lines.append(f"| {what} | {python:,.0f} | {reader:,.0f} | {reader / python:.2f} |")
            print(lines[-1], flush=True)
        lines += ["", _opened(root)]
        print(lines[-1])
        put("benchmarks.reader", "The reader of browsers", [machine(root), "", *lines])


def _seconds(path: Path) -> float:
    found = []
    for _ in range(TIMES):
        ds = lakebed.load(path, read_only=True)
        began = time.process_time()
        ds.x.numpy()
        found.append(time.process_time() - began)
    return min(found)


def _node(root: Path, *arguments: Any) -> dict[str, Any]:
    command = ["node", Path(__file__).with_suffix(".mjs"), root / "reader" / "reader.js", *arguments]
    done: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return done


def _opened(root: Path) -> str:
    ds = lakebed.empty(root / "million")
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("label", htype="class_label", class_names=["a", "b"])
    ds.extend({"x": np.arange(1_000_000), "label": np.arange(1_000_000) % 2})
    ds.commit()
    tree = json.loads((root / "million" / "version_control_info.json").read_text())
    head = tree["branches"]["main"]
    lock = bytes(18) + b"lakebed:" + tree["commits"][head]["lakebed_seal"].encode()  # as in a bucket
    (root / "million" / "versions" / head / "dataset_lock.lock").write_bytes(lock)
    with serving(root) as bucket:
        bucket.latency = LATENCY
        told = min(
            (_node(root, "open", f"{bucket.url}/million") for _ in range(5)), key=lambda one: one["seconds"]
        )
    waits = told["requests"] * LATENCY
    return (
        f"Opening {told['rows']:,} rows, {1000 * LATENCY:.0f} ms to each answer: {told['requests']} requests (bar 4), "
        f"{told['seconds']:.3f} s, {told['seconds'] / waits:.2f} x requests x latency (bar 1.2)."
    )


if __name__ == "__main__":
    main()
