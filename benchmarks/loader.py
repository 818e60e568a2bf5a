"""The loader beside its peers: `python -m benchmarks.loader`; writes its part of RESULTS.md.

Every contestant is a program in an environment of its own, and every pass a fresh process: they take turns in rounds,
in an order that moves on, and medians count. What decoding, copying and the network take at least is measured in the
same rounds. Data come from `data.py`, the programs are `peers/loader_*.py`, and `loading.py` is what they share.

Photos are shuffled by each as it does it. The memory of a contestant is that of all its processes together, without
pages of files, above what it has after its imports.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import measure
from benchmarks.format import SILENT, VENVS
from benchmarks.format import environment as made
from benchmarks.inputs import CACHE, ROOT
from benchmarks.loading import Task, held
from benchmarks.results import RESULTS, put
from benchmarks.static_s3 import program, serving
from benchmarks.table import machine
from integration_tests.stores.servers import faults

FOLDER = CACHE / "loader"
DATA = FOLDER / "data"
SAVED = FOLDER / "results.json"
BUCKET = "lake"
PATIENCE = 400
BUSY = 2.0 * len(os.sched_getaffinity(0))
"""Load average above which wall times say nothing: contestants have about as many threads as there are cores."""
TORCH = "torch==2.13.0"
DECODING = ["numpy", "simplejpeg", "opencv-python-headless"]
ENVIRONMENTS = {
    "loading": [TORCH, *DECODING, "lmdb", "webdataset", "datasets", "pylance", "spdl"],
    "loading-mosaic": [TORCH, *DECODING, "mosaicml-streaming"],
    "loading-litdata": [TORCH, *DECODING, "litdata", "boto3"],
    "loading-deeplake3": [TORCH, "deeplake==3.9.52", "numpy<2", "setuptools", "opencv-python-headless<4.12"],
    "loading-deeplake4": [TORCH, *DECODING, "deeplake>=4"],
}

Figures = dict[str, float]
Results = Mapping[str, Figures]


@dataclass(frozen=True)
class Contestant:
    """A row of a table.

    Parameters
    ----------
    environment
        Where its program runs; none for lakebed's.
    part
        ``ours``, ``limit`` or ``peer``.
    rounds
        Rounds that it takes part in, if it is too slow for all.
    """

    name: str
    program: str
    environment: str | None = None
    option: str = ""
    part: str = "peer"
    rounds: int = 99


@dataclass(frozen=True)
class Bar:
    """What has to be reached; wall time is judged only where the machine had little else to do."""

    text: str
    value: Callable[[Results], float]
    bar: float
    at_most: bool = True
    is_wall: bool = True


@dataclass(frozen=True)
class Workload:
    """A table.

    Parameters
    ----------
    writes
        What must have been written for it.
    count
        Samples.
    rate
        Bytes per second of the network, if it reads from a bucket.
    work
        What contestants are told to do, if not its name.
    """

    name: str
    title: str
    contestants: tuple[Contestant, ...]
    count: int
    bars: tuple[Bar, ...]
    writes: str = "write-photos"
    rounds: int = 3
    rate: float | None = None
    work: str = ""
    figures: tuple[str, ...] = ()
    note: str = ""


# -- who ----------------------------------------------------------------------------------------------------------

OURS = Contestant("lakebed", "loader_ours", part="ours")
LIMIT = Contestant("decoding alone", "loader_limit", part="limit")
FILES = Contestant("files + torch workers", "loader_files", "loading")
LMDB = Contestant("LMDB + torch workers", "loader_lmdb", "loading")
WEBDATASET = Contestant("WebDataset", "loader_webdataset", "loading")
DATASETS = Contestant("HF datasets", "loader_datasets", "loading")
SPDL = Contestant("files + SPDL", "loader_spdl", "loading")
LANCE = Contestant("Lance", "loader_lance", "loading")
MOSAIC = Contestant("MosaicML streaming", "loader_mosaic", "loading-mosaic")
LITDATA = Contestant("LitData", "loader_litdata", "loading-litdata")
DEEPLAKE4 = Contestant("Deep Lake 4", "loader_deeplake4", "loading-deeplake4", rounds=1)
DEEPLAKE3 = Contestant("Deep Lake 3.9.52", "loader_deeplake3", "loading-deeplake3", rounds=1)
LOCAL = (FILES, LMDB, WEBDATASET, DATASETS, SPDL, LANCE, MOSAIC, LITDATA, DEEPLAKE4, DEEPLAKE3)
REMOTE = (WEBDATASET, LANCE, MOSAIC, LITDATA, replace(DEEPLAKE3, rounds=1))
BOXES = Contestant("decoding of the crops alone", "loader_limit", option="boxes", part="limit")
MEMCPY = Contestant("memcpy", "loader_limit", option="memcpy", part="limit")


def _peers(found: Results) -> list[str]:
    return [row.name for row in LOCAL if row.name in found]


def _best(found: Results, figure: str = "wall") -> str:
    return min(_peers(found), key=lambda name: found[name][figure])


def _against(figure: str, other: Callable[[Results], str]) -> Callable[[Results], float]:
    """Ratio of lakebed's figure to that of another one."""
    return lambda found: found["lakebed"][figure] / found[other(found)][figure]


def _speed(other: Callable[[Results], str], figure: str = "wall") -> Callable[[Results], float]:
    """Ratio of lakebed's samples per second to those of another one."""
    return lambda found: found[other(found)][figure] / found["lakebed"][figure]


def _least(figure: str) -> Callable[[Results], float]:
    return lambda found: found["lakebed"][figure] / min(found[name][figure] for name in _peers(found))


def _orders(names: Mapping[str, str]) -> tuple[Contestant, ...]:
    return tuple(
        Contestant(f"lakebed, {name}", "loader_ours", option=o, part="ours") for name, o in names.items()
    )


def _order(name: str, sequential: str, figure: str) -> Callable[[Results], float]:
    return lambda found: found[f"lakebed, {sequential}"][figure] / found[f"lakebed, {name}"][figure]


def _of_limit(found: Results) -> float:
    limit = found["decoding alone"]["wall"]
    return found["lakebed"]["wall"] / max(limit, found["lakebed"]["network"])


def _first(found: Results) -> float:
    """First batch after opening, in units of three round trips, its bytes over the network, and its decoding."""
    part = 64 / found["lakebed"]["samples"]
    decoding = found["decoding alone"]["cpu"] * part  # by one thread
    least = 3 * 0.02 + found["lakebed"]["network"] * part + decoding
    return found["lakebed"]["first after opening"] / least


# -- what ---------------------------------------------------------------------------------------------------------

_SECOND = "The second pass of a process: its memory is there, and so are the buffers that memcpy fills."
AHEAD = (
    Bar("wall time / the fastest peer's", _against("wall", _best), 1.0),
    Bar("CPU / the thriftiest peer's", _least("cpu"), 1.0, is_wall=False),
    Bar("memory / the smallest peer's", _least("memory"), 1.0, is_wall=False),
)
WORKLOADS = (
    Workload(
        "crop",
        "Photos of about 375 x 500, shuffled, batches of 64, random resized crops of 224 x 224, 2 threads or workers",
        (LIMIT, BOXES, OURS, *LOCAL),
        10_000,
        (
            Bar(
                "samples per second / decoding of the crops alone",
                _speed(lambda _: BOXES.name),
                0.9,
                at_most=False,
            ),
            Bar(
                "CPU of decoding of the crops alone / lakebed's",
                _speed(lambda _: BOXES.name, "cpu"),
                0.9,
                at_most=False,
                is_wall=False,
            ),
            Bar("samples per second / the best peer's", _speed(_best), 1.35, at_most=False),
            Bar("CPU / the best peer's", _against("cpu", _best), 0.7, is_wall=False),
            Bar(
                "samples per CPU second / the thriftiest peer's",
                lambda found: 1 / _least("cpu")(found),
                1.35,
                at_most=False,
                is_wall=False,
            ),
            *AHEAD,
        ),
    ),
    Workload(
        "whole",
        "The same without a crop, into arrays of different shapes",
        (LIMIT, OURS, *LOCAL),
        10_000,
        (
            Bar(
                "samples per second / decoding alone", _speed(lambda _: "decoding alone"), 0.92, at_most=False
            ),
            Bar(
                "CPU of decoding alone / lakebed's",
                _speed(lambda _: "decoding alone", "cpu"),
                0.92,
                at_most=False,
                is_wall=False,
            ),
            *AHEAD,
        ),
    ),
    *(
        Workload(
            kind,
            f"Arrays of 512 x 512 x 3 bytes, {how}, shuffled, batches of 64, 2 threads",
            (MEMCPY, OURS),
            600,
            (
                Bar("bytes per second / memcpy", _speed(lambda _: "memcpy"), 0.6, at_most=False),
                Bar(
                    "CPU of memcpy / lakebed's",
                    _speed(lambda _: "memcpy", "cpu"),
                    0.6,
                    at_most=False,
                    is_wall=False,
                ),
            ),
            writes="write-raw",
            rounds=5,
            note=_SECOND,
        )
        for kind, how in {
            "raw": "as they are",
            "lz4": "each compressed by LZ4",
            "lz4-chunks": "in chunks compressed by LZ4",
        }.items()
    ),
    Workload(
        "orders",
        "lakebed's orders, whole photos",
        _orders({"in sequence": "none", "window": "window", "exact": "exact", "chunks": "chunk"}),
        10_000,
        tuple(
            Bar(
                f"samples per second, {name} / in sequence, by {figure}",
                _order(name, "in sequence", figure),
                bar,
                at_most=False,
                is_wall=figure == "wall",
            )
            for name, bar in {"window": 0.95, "exact": 0.8}.items()
            for figure in ("wall", "cpu")
        ),
        work="whole",
    ),
    Workload(
        "orders-raw",
        "lakebed's orders, arrays of 512 x 512 x 3 bytes as they are",
        _orders({"in sequence": "raw none", "window": "raw window", "exact": "raw exact"}),
        600,
        tuple(
            Bar(
                f"samples per second, {name} / in sequence, by {figure}",
                _order(name, "in sequence", figure),
                bar,
                at_most=False,
                is_wall=figure == "wall",
            )
            for name, bar in {"window": 0.95, "exact": 0.8}.items()
            for figure in ("wall", "cpu")
        ),
        writes="write-raw",
        rounds=5,
        work="arrays",
        note=_SECOND,
    ),
    Workload(
        "overhead",
        "lakebed's own costs: samples of one byte, CPU time, shuffled",
        (Contestant("lakebed", "loader_costs", part="ours"),),
        1_000_000,
        (
            Bar(
                "us a sample, as on a core that copies 10 GB/s",
                lambda found: found["lakebed"]["us a sample"] * found["lakebed"]["copied GB/s"] / 10,
                2.0,
                is_wall=False,
            ),
            Bar(
                "us a batch, as on a core that copies 10 GB/s",
                lambda found: found["lakebed"]["us a batch"] * found["lakebed"]["copied GB/s"] / 10,
                100.0,
                is_wall=False,
            ),
        ),
        writes="write-bytes",
        rounds=1,
        figures=("us a sample", "us a batch", "us of an empty generator", "copied GB/s"),
    ),
    *(
        Workload(
            f"bucket-{rate}",
            f"4,000 photos from a bucket, 20 ms, {rate} MB/s, shuffled, whole, 2 threads or workers",
            (LIMIT, OURS, *REMOTE),
            4_000,
            (
                Bar("wall time / the larger of network and decoding", _of_limit, 1.12),
                Bar(
                    "first batch after opening / (three round trips, its bytes, its decoding by one thread)",
                    _first,
                    1.0,
                ),
                *AHEAD[:1],
            ),
            rate=rate * 1e6,
            work="whole",
        )
        for rate in (80, 250)
    ),
    Workload(
        "epochs",
        "50 epochs of 640 shuffled photos",
        (Contestant("lakebed", "loader_costs", part="ours"),),
        640,
        (
            Bar(
                "growth of memory, KiB an epoch",
                lambda found: found["lakebed"]["KiB an epoch"],
                1024.0,
                is_wall=False,
            ),
        ),
        rounds=1,
        figures=("KiB an epoch", "first MB", "last MB"),
    ),
)


# -- doing it -----------------------------------------------------------------------------------------------------


def environment(name: str | None) -> Path:
    """Interpreter of an environment.

    PyTorch is installed by pip alone and first, so that what depends on it does not fetch another build of it.
    """
    if name is None:
        return Path(sys.executable)
    packages = ENVIRONMENTS[name]
    folder = VENVS / f"bench-{name}"
    stamp = folder / ".ready"
    if not stamp.exists() or stamp.read_text() != "\n".join(packages):
        python = folder / "bin/python"
        print(f"installing {', '.join(packages)} into {folder.relative_to(ROOT)}", flush=True)
        measure.run([sys.executable, "-m", "venv", folder])
        measure.run([python, "-m", "pip", "install", "-q", TORCH])
        measure.run([python, "-m", "pip", "install", "-q", *packages])
        stamp.write_text("\n".join(packages))
    return folder / "bin/python"


def make_data(folder: Path, photos: int, raw: int) -> None:
    """Make the data unless they are there."""
    if not folder.exists():
        python = made("data", ["scikit-image", "scikit-learn", "pillow", "simplejpeg"])
        counts = {"photos": photos, "raw": raw, "boxes": 10, "labels": 10, "seed": 2}
        options = [text for name, count in counts.items() for text in (f"--{name}", str(count))]
        sides = ["--low", "350", "475", "--high", "401", "526"]
        print(
            measure.run([python, "-m", "benchmarks.data", folder, *options, *sides]).output.decode(), end=""
        )


@dataclass
class Run:
    """All of one command: where contestants write, and the bucket that is served."""

    quick: bool
    most: int
    data: Path
    folder: Path
    served: Path = field(init=False)
    written: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.served = self.folder / "served"
        (self.served / BUCKET).mkdir(parents=True)

    @staticmethod
    def place(workload: Workload, program: str) -> str:
        """Return where a program's datasets lie; fewer samples are read from a bucket than from the disk."""
        return program if workload.rate is None else f"{program}-far"

    def task(self, workload: Workload, row: Contestant, work: str) -> Task:
        """Return what a contestant is to do."""
        scratch = tempfile.mkdtemp(prefix=f"{row.program}-", dir=self.folder)
        count = workload.count
        if self.quick:
            count = min(count, {"write-photos": 400, "write-raw": 64}.get(workload.writes, 100_000))
        place = self.served / BUCKET / self.place(workload, row.program)
        return Task(work, str(self.data), str(place), scratch, "", "", count, 64, 2, row.option)

    def write(self, workload: Workload, row: Contestant) -> None:
        """Let a contestant write its dataset, if it has not yet."""
        if row.part == "limit":
            return
        owner = replace(row, program="loader_ours") if row.part == "ours" else row
        key = self.place(workload, owner.program), workload.writes
        if key not in self.written:
            alike = [
                one.count
                for one in WORKLOADS
                if one.writes == workload.writes and (one.rate is None) == (workload.rate is None)
            ]
            size = min(self.most, max(alike))
            given = self.task(replace(workload, count=size), owner, workload.writes)
            Path(given.store).mkdir(exist_ok=True)
            do(owner, given)
            shutil.rmtree(given.scratch, ignore_errors=True)
            self.written[key] = given.store

    def once(self, workload: Workload, row: Contestant, endpoint: str) -> Figures:
        """Let a contestant do a workload once."""
        given = self.task(workload, row, workload.work or workload.name)
        program = "loader_ours" if row.part == "ours" else row.program
        place = self.place(workload, program)
        given = replace(given, store=str(self.served / BUCKET / place))
        if endpoint:
            given = replace(given, endpoint=endpoint, url=f"s3://{BUCKET}/{place}")
        try:
            return do(row, given)
        finally:
            shutil.rmtree(given.scratch, ignore_errors=True)

    def compare(self, workload: Workload, only: list[str]) -> Results:
        """Let all contestants do a workload, in rounds."""
        print(f"\n{workload.title}", flush=True)
        rows = []
        for row in workload.contestants:
            if not only or row.name in only or row.part == "limit":
                with _forgiven(row):
                    self.write(workload, row)
                    rows.append(row)
        found: dict[str, list[Figures]] = {}
        with contextlib.ExitStack() as stack:
            endpoint = ""
            if workload.rate is not None:
                network = stack.enter_context(faults(stack.enter_context(serving(self.served))))
                network.set(latency=0.02, rate=workload.rate)
                endpoint = network.endpoint
            for number in range(1 if self.quick else workload.rounds):
                for row in rows[:]:
                    if number >= row.rounds:
                        continue
                    with _forgiven(row, rows):
                        figures = self.once(workload, row, endpoint if row.part != "limit" else "")
                        if workload.rate is not None:
                            figures["network"] = self.stored(workload.count) / workload.rate
                        found.setdefault(row.name, []).append(figures)
                rows = rows[1:] + rows[:1]
        alive = {row.name for row in rows}
        loaders = [row.name for row in rows if row.part != "limit" or workload.name != "crop"]
        values = {round(one["values"]) for name in loaders for one in found[name]}
        if len(values) > 1:
            raise RuntimeError(f"{workload.name}: the contestants did not do the same: {values}")
        order = [row.name for row in workload.contestants if row.name in found and row.name in alive]
        return {name: middle(found[name]) for name in order}

    def stored(self, count: int) -> int:
        """Bytes of the first photos."""
        return sum(path.stat().st_size for path in sorted((self.data / "photos").iterdir())[:count])


@contextlib.contextmanager
def _forgiven(row: Contestant, rows: list[Contestant] | None = None) -> Iterator[None]:
    """Go on without a peer that fails."""
    try:
        yield
    except RuntimeError as error:
        if row.part != "peer":
            raise
        print(f"  without {row.name}, which failed: {str(error).strip().splitlines()[-1]}", flush=True)
        if rows is not None:
            rows.remove(row)


def do(row: Contestant, task: Task) -> Figures:
    """Let a contestant do one thing in a fresh process, and watch its memory.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    os.sync()
    command: list[str | Path] = [
        environment(row.environment),
        "-m",
        f"benchmarks.peers.{row.program}",
        json.dumps(task.__dict__),
    ]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=complaints,
            env={**measure.ENVIRONMENT, **SILENT},
            start_new_session=True,
        )
        peak = _watched(process)
        output.seek(0)
        complaints.seek(0)
        text = output.read()
        if process.returncode:
            said = (text[-2000:] + complaints.read()[-6000:]).decode(errors="replace")
            raise RuntimeError(f"{row.program} ended with {process.returncode}: {said}")
    figures: Figures = json.loads(text.splitlines()[-1])
    return {**figures, "memory": max(0.0, peak - figures.get("base", 0.0)), "resident": peak}


def _watched(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process, and return the most memory that it and its descendants had together."""
    peak, end = 0, time.monotonic() + PATIENCE
    while process.poll() is None:
        peak = max(peak, sum(held(pid) for pid in _descendants(process.pid)))
        if time.monotonic() > end:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    return float(peak)


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for listed in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, listed.read_text().split())
    return found


def middle(several: list[Figures]) -> Figures:
    """Medians of the rounds; of memory the largest."""
    return {
        name: (max if name in ("memory", "resident") else statistics.median)(one[name] for one in several)
        for name in several[0]
    }


# -- saying it ----------------------------------------------------------------------------------------------------


def rows(workload: Workload, found: Results) -> list[list[str]]:
    """Head and rows, as text."""
    if workload.figures:
        return [
            ["", *workload.figures],
            *([name, *(f"{one[figure]:.3g}" for figure in workload.figures)] for name, one in found.items()),
        ]
    is_raw = workload.writes == "write-raw"
    head = [
        "",
        "MB/s" if is_raw else "samples/s",
        "wall s",
        "CPU s",
        "CPU / limit",
        "first batch ms",
        "memory MB",
    ]
    all_limits = [row.name for row in workload.contestants if row.part == "limit" and row.name in found]
    limits = all_limits[-1:]
    lines = [head]
    for name, one in found.items():
        rate = one["values"] / 1e6 / one["wall"] if is_raw else one["samples"] / one["wall"]
        ratio = f"{one['cpu'] / found[limits[0]]['cpu']:.2f}" if limits else ""
        cells = [f"{rate:,.0f}", f"{one['wall']:.2f}", f"{one['cpu']:.2f}", ratio]
        is_limit = name in all_limits
        cells += [
            "" if is_limit else f"{one['first'] * 1e3:,.0f}",
            "" if is_limit else f"{one['memory'] / 1e6:,.0f}",
        ]
        lines.append([f"**{name}**" if name.startswith("lakebed") else name, *cells])
    return lines


def verdicts(workload: Workload, found: Results, load: float) -> list[str]:
    """A line per bar."""
    lines = []
    for bar in workload.bars:
        try:
            value = bar.value(found)
        except (KeyError, ValueError):  # a contestant failed, or was left out
            lines.append(f"{bar.text}: not measured")
            continue
        is_reached = value <= bar.bar if bar.at_most else value >= bar.bar
        sign, verdict = "<=" if bar.at_most else ">=", "reached" if is_reached else "**MISSED**"
        if bar.is_wall and load > BUSY:
            verdict = f"not judged, as the load average was {load:.0f}"
        lines.append(f"{bar.text}: {value:.3g}, bar {sign} {bar.bar:g}: {verdict}")
    return lines


def text(workload: Workload, found: Results, load: float) -> str:
    """Table for the terminal."""
    lines = [[cell.replace("**", "") for cell in line] for line in rows(workload, found)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    shown = [
        "  "
        + "  ".join(
            c.rjust(w) if n else c.ljust(w) for n, (c, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return "\n".join(shown + [f"  {line.replace('**', '')}" for line in verdicts(workload, found, load)])


def markdown(workload: Workload, found: Results, when: str) -> list[str]:
    """Section of RESULTS.md."""
    told = re.search(r"load average ([\d.]+)", when)
    load = float(told[1]) if told else 0.0
    head, *body = rows(workload, found)
    return [
        f"### {workload.title}",
        "",
        f"`--only {workload.name}`, {when}. {workload.note}".rstrip(),
        "",
        "| " + " | ".join(head) + " |",
        "|---|" + "---:|" * (len(head) - 1),
        *("| " + " | ".join(line) + " |" for line in body),
        "",
        *(f"* {line}" for line in verdicts(workload, found, load)),
        "",
    ]


_VERSIONS = (
    "import importlib.metadata as m, sys; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
)


def versions() -> list[str]:
    """Packages of each environment."""
    lines = []
    for name, packages in ENVIRONMENTS.items():
        python = VENVS / f"bench-{name}/bin/python"
        if python.exists():
            names = [package.split("=")[0].split("<")[0].split(">")[0] for package in packages]
            told = subprocess.run(
                [python, "-c", _VERSIONS, *names], capture_output=True, text=True, check=False
            )
            if told.returncode == 0:
                lines.append(f"* {name}: {told.stdout.strip()}")
    return lines


def save(workload: Workload, found: Results) -> None:
    """Keep the results, so that workloads may be measured one by one, and put all into RESULTS.md."""
    saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    when = f"{time.strftime('%Y-%m-%d %H:%M')}, load average {os.getloadavg()[1]:.1f}"
    samples = max(one["samples"] for one in found.values())
    if samples < next(one.count for one in WORKLOADS if one.name == workload.name):
        when += f", the first {samples:,} samples only"
    when += f", {workload.rounds} rounds"
    saved[workload.name] = {"when": when, "results": found}
    SAVED.write_text(json.dumps(saved, indent=1))
    sections = [
        line
        for one in WORKLOADS
        if one.name in saved
        for line in markdown(one, saved[one.name]["results"], saved[one.name]["when"])
    ]
    about = (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip()
    lines = [
        f"`python -m benchmarks.loader`. {about}",
        "",
        f"Machine: {machine(RESULTS.parent)}.",
        "",
        *versions(),
        "",
        *sections,
    ]
    put("benchmarks.loader", "Loading for training", lines)


def main() -> None:
    """Measure, print, save."""
    given = arguments()
    os.chdir(ROOT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = DATA.with_name("quick") if given.quick else DATA
    make_data(data, *((400, 64) if given.quick else (10_000, 600)))
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=FOLDER))
    try:
        run = Run(given.quick, given.count or sys.maxsize, data, folder)
        for workload in WORKLOADS:
            if given.only and workload.name not in given.only:
                continue
            if workload.rate is not None and program() is None:
                print(f"\nwithout {workload.name}: nginx is not installed", flush=True)
                continue
            if given.count:
                workload = replace(workload, count=min(given.count, workload.count))
            if given.rounds:
                workload = replace(workload, rounds=given.rounds)
            found = run.compare(workload, given.contestant or [])
            print(text(workload, found, os.getloadavg()[1]), flush=True)
            if not (given.quick or given.contestant):
                save(workload, found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="The loader beside its peers.")
    names = [workload.name for workload in WORKLOADS]
    contestants = sorted({row.name for workload in WORKLOADS for row in workload.contestants})
    parser.add_argument("--only", action="append", choices=names, help="measure this; may be repeated")
    parser.add_argument(
        "--contestant", action="append", choices=contestants, help="and only this, nothing saved"
    )
    parser.add_argument("--rounds", type=int, help="how often each takes its turn")
    parser.add_argument("--count", type=int, help="take no more samples than so many")
    parser.add_argument("--quick", action="store_true", help="few samples, one round, nothing saved")
    return parser.parse_args()


if __name__ == "__main__":
    main()
