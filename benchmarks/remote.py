"""Reading from a bucket beside peers: `python -m benchmarks.remote`; writes its part of RESULTS.md.

nginx serves the datasets on this machine, and a proxy before it makes the network: so many milliseconds to an answer,
so many bytes per second over all connections together. Every contestant is a program in an environment of its own; a
step is done in a fresh process that keeps nothing from the one before. They take turns in rounds; medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import measure
from benchmarks.far import Task
from benchmarks.format import SILENT, environment
from benchmarks.inputs import CACHE, ROOT
from benchmarks.results import put
from benchmarks.static_s3 import serving
from integration_tests.stores.servers import Server, faults, moto

BUCKET = "lake"
PATIENCE = 300


class Contestant(NamedTuple):
    """Who, which program, and where; whether it writes to the store itself."""

    name: str
    program: str
    environment: str | None
    writes_there: bool = False


PACKAGES = {
    "deeplake3": ["deeplake==3.9.52", "numpy<2", "setuptools"],
    "lance": ["pylance", "numpy"],
    "mosaic": ["torch", "mosaicml-streaming"],
    "litdata": ["torch", "litdata", "boto3"],
}
CONTESTANTS = (
    Contestant("lakebed", "remote_ours", None, writes_there=True),
    Contestant("Lance", "remote_lance", "lance"),
    Contestant("LitData", "remote_litdata", "litdata"),
    Contestant("MosaicML streaming", "remote_mosaic", "mosaic"),
    Contestant("Deep Lake 3.9.52", "remote_deeplake3", "deeplake3"),
)
WORKS = ("open", "scan", "random", "column")
STEPS = ("open", "first sample", "scan", "random", "column")

Found = dict[str, dict[str, list[float]]]


def do(row: Contestant, task: Task) -> dict[str, float]:
    """Let a contestant do one thing, in a fresh process.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    python = environment(row.environment, PACKAGES[row.environment]) if row.environment else sys.executable
    command = [
        "timeout",
        str(PATIENCE),
        python,
        "-m",
        f"benchmarks.peers.{row.program}",
        json.dumps(task.__dict__),
    ]
    output = measure.run(command, variables=SILENT).output
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def write(row: Contestant, task: Task, served: Path) -> None:
    """Let a contestant write its datasets below the folder that is served."""
    place = served / BUCKET / row.program
    place.mkdir(parents=True)
    if not row.writes_there:
        do(row, Task(**{**task.__dict__, "work": "write", "folder": str(place)}))
        return
    with moto() as store:
        store.make_bucket(BUCKET)
        there = {"work": "write", "endpoint": store.endpoint, "prefix": row.program}
        do(row, Task(**{**task.__dict__, **there}))
        _download(store, served)


def _download(store: Server, served: Path) -> None:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        aws_access_key_id=store.creds["aws_access_key_id"],
        aws_secret_access_key=store.creds["aws_secret_access_key"],
        region_name="us-east-1",
    )
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for found in page.get("Contents", ()):
            path = served / BUCKET / found["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(BUCKET, found["Key"], str(path))
    client.close()


def compare(given: argparse.Namespace, rows: list[Contestant], task: Task) -> tuple[Found, list[str]]:
    """Let all contestants take turns; who fails once is left out of that step."""
    found: Found = {row.name: {} for row in rows}
    failed: dict[tuple[str, str], str] = {}
    for number in range(given.rounds):
        for work in given.work or WORKS:
            for row in rows[number % len(rows) :] + rows[: number % len(rows)]:
                if (row.name, work) in failed:
                    continue
                folder = tempfile.mkdtemp(prefix=f"{row.program}-", dir=given.folder)
                try:
                    there = {"work": work, "prefix": row.program, "folder": folder}
                    times = do(row, Task(**{**task.__dict__, **there}))
                except RuntimeError as error:
                    failed[row.name, work] = _reason(error)
                    print(f"  {row.name} can not {work}: {failed[row.name, work]}", flush=True)
                    continue
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                for step, value in times.items():
                    name = f"{work} CPU" if step == "cpu" else step
                    found[row.name].setdefault(name, []).append(value)
    reasons = [f"{name} can not do `{work}`: {reason}" for (name, work), reason in failed.items()]
    return found, reasons


def _reason(error: RuntimeError) -> str:
    """Last line of what a program said that names an error."""
    lines = str(error).strip().splitlines()
    return next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[-1])


def table(found: Found, given: argparse.Namespace, task: Task) -> list[str]:
    """Return the medians, and the ratios to lakebed."""
    size = int(task.sizes().sum())
    middle = {
        name: {step: statistics.median(values) for step, values in one.items()} for name, one in found.items()
    }
    lines = [
        "|  | open ms | first sample ms | scan MB/s | of the cap | random images/s | column ms | CPU s of the scan |"
    ]
    lines += ["|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name, one in middle.items():
        cells = [
            f"{one['open'] * 1e3:,.0f}" if "open" in one else "",
            f"{one['first sample'] * 1e3:,.0f}" if "first sample" in one else "",
            f"{size / one['scan'] / 1e6:.1f}" if "scan" in one else "",
            f"{size / one['scan'] / given.rate:.2f}" if "scan" in one else "",
            f"{task.picked / one['random']:,.0f}" if "random" in one else "",
            f"{one['column'] * 1e3:,.0f}" if "column" in one else "",
            f"{one['scan CPU']:.2f}" if "scan CPU" in one else "",
        ]
        lines.append(f"| {f'**{name}**' if name == 'lakebed' else name} | {' | '.join(cells)} |")
    lines.append("")
    ours = middle.get("lakebed", {})
    for step in STEPS:
        times = {name: one[step] for name, one in middle.items() if step in one and name != "lakebed"}
        if step in ours and times:
            best = min(times, key=lambda name: times[name])
            lines.append(
                f"* {step}: the best peer, {best}, takes {times[best] / ours[step]:.2f} times as long as lakebed"
            )
    if "scan" in ours:
        share = size / ours["scan"] / given.rate
        lines.append(f"* scan / cap: {share:.2f}, bar >= 0.9: {'reached' if share >= 0.9 else '**MISSED**'}")
    return lines


def save(parts: list[str], given: argparse.Namespace) -> None:
    """Put the tables into RESULTS.md, at the end or in the place of those before."""
    machine = f"{os.cpu_count()} cores of {platform.machine()}, {platform.system()} {platform.release()}"
    when = f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}"
    about = (
        f"`python -m benchmarks.remote` (needs nginx), {when} on {machine}, which server, network and contestant "
        "share. "
        f"Medians of {given.rounds} rounds, wall time, each step in a fresh process; imports are not measured. "
        f"{given.images:,} images of 100 kB that nothing compresses, as bytes of different lengths, and "
        f"{given.numbers:,} int32. The network is a proxy: latency as given, {given.rate / 1e6:.0f} MB/s over all "
        f"connections. Random: {given.picked} images, {given.in_flight} requests or threads at once. "
        "For a random image lakebed, Lance and Deep Lake ask for its bytes or its chunk, LitData and MosaicML "
        "streaming fetch the whole file of 64 MB that it is in, and keep it."
    )
    put("benchmarks.remote", "From a bucket", [about, *parts])


def main() -> None:
    """Write, measure, print, save."""
    given = arguments()
    os.chdir(ROOT)
    given.folder.mkdir(parents=True, exist_ok=True)
    task = Task("", "", BUCKET, "", "", given.images, given.numbers, given.picked, given.in_flight)
    rows = [row for row in CONTESTANTS if not given.only or row.name in given.only]
    served = Path(tempfile.mkdtemp(prefix="served-", dir=given.folder))
    try:
        ready = []
        for row in rows:
            print(f"{row.name} writes", flush=True)
            try:
                write(row, task, served)
                ready.append(row)
            except RuntimeError as error:
                print(
                    f"  without {row.name}, which failed: {str(error).strip().splitlines()[-1]}", flush=True
                )
        parts: list[str] = []
        with serving(served) as port, faults(port) as network:
            there = Task(**{**task.__dict__, "endpoint": network.endpoint})
            for latency in given.latency:
                network.set(latency=latency / 1e3, rate=given.rate)
                found, reasons = compare(given, ready, there)
                part = [
                    f"\n### {latency} ms\n",
                    *table(found, given, there),
                    *(f"* {one}" for one in reasons),
                ]
                print("\n".join(part), flush=True)
                parts += part
    finally:
        shutil.rmtree(served, ignore_errors=True)
    if not (given.quick or given.only or given.work):
        save(parts, given)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Reading from a bucket beside peers.")
    parser.add_argument("--latency", type=int, nargs="+", default=[20, 50], help="ms")
    parser.add_argument("--rate", type=float, default=50e6, help="bytes per second")
    parser.add_argument("--images", type=int, default=2_000)
    parser.add_argument("--numbers", type=int, default=1_000_000)
    parser.add_argument("--picked", type=int, default=250, help="images that are read at random")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=CACHE / "remote", help="where datasets are written")
    parser.add_argument("--only", action="append", choices=[row.name for row in CONTESTANTS])
    parser.add_argument("--work", action="append", choices=WORKS)
    parser.add_argument("--quick", action="store_true", help="one round, fewer images, nothing saved")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.images, given.picked = 1, 500, 200
    return given


if __name__ == "__main__":
    main()
