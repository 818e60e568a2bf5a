"""The growth of the cost of each step with the size of a dataset: `python -m benchmarks.scale`, into RESULTS.md.

Datasets come from `generated.py`: everything but the payload is as the library writes it. Each step is done in a fresh
process, after the same step on a small dataset of the kind, so that imports do not count; the storage is one behind a
network without latency. Slopes are those between the two largest sizes, in log-log: 0 is constant, 1 linear.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg

import lakebed
from benchmarks import measure
from benchmarks.generated import GeneratedStorage, created, grow, opened
from benchmarks.results import RESULTS, put
from benchmarks.table import machine
from lakebed.storage.memory import MemoryStorage
from lakebed.versions.chunk_table import MOST_WHOLE
from lakebed.versions.gc.collect import collect

PLAIN: dict[str, Any] = {"create_id_tensor": False, "create_shape_tensor": False}
SEED = 38
CHUNK = 1_000_000
"""Rows of a chunk of numbers, 8 MB."""
PATTERNS = 4
"""Distinct chunk files of a tensor."""


# -- datasets ---------------------------------------------------------------------------------------------------------


def rows(folder: Path, size: int) -> None:
    """Write rows of one number each, which is that of the row; statistics of all chunks are there."""
    small = created(MemoryStorage())
    small.create_tensor("x", dtype="int64", max_chunk_size=17 * CHUNK, **PLAIN)
    small.x.extend(np.arange(min(size, CHUNK)))
    ds = grow(small, folder, size, ["x"])
    ds.update_statistics()
    _finish(ds, folder, {"x": size})


def images(folder: Path, size: int) -> None:
    """Write JPEG files of about 100 kB, 80 in a chunk, and labels."""
    random = np.random.default_rng(SEED)
    small = created(MemoryStorage())
    plain = {**PLAIN, "create_sample_info_tensor": False, "max_chunk_size": 17 * CHUNK}
    small.create_tensor("image", htype="image", sample_compression="jpeg", **plain)
    small.create_tensor("label", dtype="int64", max_chunk_size=17 * CHUNK, **PLAIN)
    for _ in range(PATTERNS):
        # One photo in each chunk file is distinct: the shuffled loader sees one size, the checksums differ.
        noise = simplejpeg.encode_jpeg(random.integers(0, 256, (200, 240, 3), np.uint8), quality=92)
        small.image.extend([lakebed.read(noise) for _ in range(80)])
        small.flush()
    small.label.extend(np.arange(min(size, CHUNK)))
    ds = grow(small, folder, size, ["label"])
    ds.update_statistics(["label"])
    _finish(ds, folder, {"image": "jpeg", "label": size})


def chunks(folder: Path, size: int) -> None:
    """Write arrays of 1 MB, 8 in a chunk; ``size`` counts chunks: 125 million would be a petabyte."""
    random = np.random.default_rng(SEED)
    small = created(MemoryStorage())
    small.create_tensor("x", dtype="uint8", max_chunk_size=17 * CHUNK, **PLAIN)
    small.x.extend(random.integers(0, 256, (8 * PATTERNS, 1000, 1000), np.uint8))
    whole = size if size <= MOST_WHOLE else -(-size // 256) * 256  # pages of 256 chunks
    _finish(grow(small, folder, 8 * whole), folder, {"x": "array"})


def tensors(folder: Path, size: int) -> None:
    """Write 10 rows of many tensors."""
    ds = created(GeneratedStorage(folder))
    with ds:
        for number in range(size):
            ds.create_tensor(f"t{number:05}", dtype="int64", **PLAIN)
        ds.extend({f"t{number:05}": np.arange(10) for number in range(size)})
    _finish(ds, folder, dict.fromkeys(ds.tensors, 10))


def commits(folder: Path, size: int) -> None:
    """Write a commit for each row."""
    ds = created(GeneratedStorage(folder))
    ds.create_tensor("x", dtype="int64", **PLAIN)
    for number in range(size - 1):
        ds.x.append(number)
        ds.commit(f"row {number}")
    _finish(ds, folder, {"x": size})


def branches(folder: Path, size: int) -> None:
    """Write many branches that begin at one commit."""
    ds = created(GeneratedStorage(folder))
    ds.create_tensor("x", dtype="int64", **PLAIN)
    ds.x.extend(np.arange(10))
    ds.commit("rows")
    for number in range(size - 1):
        ds.checkout(f"branch-{number}", create=True)
        ds.checkout("main")
    _finish(ds, folder, {"x": 10})


def classes(folder: Path, size: int) -> None:
    """Write labels with many class names."""
    ds = created(GeneratedStorage(folder))
    names = [f"class {number:07}" for number in range(size)]
    ds.create_tensor("label", htype="class_label", class_names=names, **PLAIN)
    ds.label.extend(np.arange(1000) * (size // 1000))
    _finish(ds, folder, {"label": names[-1]})


def lake(folder: Path, size: int) -> None:
    """Write many datasets below one folder."""
    first = folder / "files/dataset-0"
    ds = lakebed.empty(first)
    ds.create_tensor("x", dtype="int64", **PLAIN)
    ds.x.extend(np.arange(10))
    ds.commit("rows")
    ds.close()
    for number in range(1, size):
        shutil.copytree(first, folder / f"files/dataset-{number}")
    (folder / "about.json").write_text("{}")


def _finish(ds: lakebed.Dataset, folder: Path, row: Mapping[str, Any]) -> None:
    """Commit, append a row, commit again, and note what the steps need: that row, and the first commit."""
    first = ds.commit("first", allow_empty=True)
    ds.append(_row(row))
    ds.commit("second")
    ds.close()
    at_rest = GeneratedStorage(folder).metadata_bytes
    (folder / "about.json").write_text(json.dumps({"first": first, "row": dict(row), "at rest": at_rest}))


def _row(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row to append, given its values, or the names of those that JSON cannot have."""
    return {name: PAYLOADS[value]() if value in PAYLOADS else value for name, value in told.items()}


PAYLOADS: Mapping[object, Callable[[], Any]] = {
    "jpeg": lambda: lakebed.read(simplejpeg.encode_jpeg(np.zeros((200, 240, 3), np.uint8))),
    "array": lambda: np.zeros((1000, 1000), np.uint8),
}


# -- steps ------------------------------------------------------------------------------------------------------------


class Run:
    """A dataset on which one step is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = GeneratedStorage(folder)
        self.about = json.loads((folder / "about.json").read_text())
        self.ds: Any = None
        self.kept: Any = None

    def open(self) -> None:
        self.ds = opened(self.storage)

    def row(self, number: int) -> None:
        names = list(self.ds.tensors)
        self.kept = [self.ds[name][number].tobytes() for name in names]

    def append(self) -> None:
        self.ds.append(_row(self.about["row"]))
        self.ds.flush()

    def order(self) -> None:
        loader = self.ds.dataloader().batch(16).shuffle().numpy(tensors=self._read()).loader
        self.kept = loader._order(0)[1].positions(0, 0, 16), loader._fingerprint()  # noqa: SLF001

    def _read(self) -> list[str]:
        return [name for name in ("image", "x", "label", "t00000") if name in self.ds.tensors]

    def epoch(self) -> None:
        loader = self.ds.dataloader().batch(16).shuffle().numpy(tensors=self._read())
        self.kept = next(iter(loader))

    def collect(self) -> None:
        collect(self.storage, grace=0)

    def query(self) -> None:
        name = next(name for name in ("label", "x", "t00000") if name in self.ds.tensors)
        self.kept = len(self.ds.query(f"select * where {name} == 7"))


@dataclass(frozen=True)
class Step:
    """A step, what is done before it, and whether it changes the dataset."""

    name: str
    act: Callable[[Run], object]
    prepare: Sequence[Callable[[Run], object]] = ()
    changes: bool = False


OPEN = Run.open
STEPS = (
    Step("open", OPEN),
    Step("`len`", lambda run: len(run.ds), (OPEN,)),
    Step("first row", lambda run: run.row(0), (OPEN,)),
    Step("random row", lambda run: run.row(int(len(run.ds) * 0.618)), (OPEN,)),
    Step("append and publish", Run.append, (OPEN,), changes=True),
    Step("commit", lambda run: run.ds.commit("third"), (OPEN, Run.append), changes=True),
    Step("checkout", lambda run: run.ds.checkout(run.about["first"]), (OPEN,)),
    Step("diff", lambda run: run.ds.diff(run.about["first"], as_dict=True), (OPEN,)),
    Step("gc", Run.collect, changes=True),
    Step("epoch, its order", Run.order, (OPEN,)),
    Step("epoch, first batch", Run.epoch, (OPEN,)),
    Step("query by a condition", Run.query, (OPEN,)),
    Step("`ls`", lambda run: lakebed.ls(str(run.folder / "files"))),
)
AT_REST = "metadata at rest"
FEW = ("open", "`len`", "first row", "append and publish", "commit", "checkout", "diff", "gc", "`ls`")


@dataclass(frozen=True)
class Kind:
    """Datasets of which one thing grows."""

    name: str
    make: Callable[[Path, int], None]
    sizes: Sequence[int]
    steps: Sequence[str] = tuple(step.name for step in STEPS)


KINDS = (
    Kind("rows", rows, (10**6, 10**7, 10**8, 10**9)),
    Kind("images", images, (10**4, 10**6, 10**7, 10**8)),
    Kind(
        "chunks", chunks, (10**3, 10**4, 10**5, 10**6), tuple(s.name for s in STEPS if "query" not in s.name)
    ),
    Kind(
        "petabyte",
        chunks,
        (10**4, 10**6, 125 * 10**6),
        tuple(s.name for s in STEPS if s.name not in ("query by a condition", "gc")),
    ),
    Kind("tensors", tensors, (30, 300, 3000)),
    Kind("commits", commits, (10, 100, 1000, 10_000), FEW),
    Kind("branches", branches, (10, 100, 1000), FEW),
    Kind("classes", classes, (10**3, 10**4, 10**5, 10**6), (*FEW, "query by a condition")),
    Kind("lake", lake, (50, 500, 5000), ("`ls`",)),
)


# -- measuring ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """CPU seconds, requests, bytes received and sent, bytes of memory at the peak above those before the dataset."""

    cpu: float
    requests: int
    received: int
    sent: int
    memory: int


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _cost(step: Step, folder: Path, number: int) -> Cost:
    """Do a step once, and measure it."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmHWM")
    run = Run(folder)
    for prepare in step.prepare:
        prepare(run)
    storage = run.storage
    counts = storage.requests, storage.received, storage.sent
    began = time.process_time()
    step.act(run)
    cpu = time.process_time() - began
    requests, received, sent = (
        after - at
        for after, at in zip((storage.requests, storage.received, storage.sent), counts, strict=True)
    )
    return Cost(cpu, requests, received, sent, _status("VmHWM") - before)


def child(step: str, warm: Path, folder: Path) -> None:
    """Do a step twice, on a small dataset and on the one that counts, and print what the second one cost."""
    found = next(one for one in STEPS if one.name == step)
    _cost(found, warm, 0)
    print(json.dumps(vars(_cost(found, folder, 1))))
    sys.stdout.flush()
    os._exit(0)


def _linked(folder: Path, target: Path) -> Path:
    """Copy a folder by hard links: files are replaced, never changed, by those who write there."""
    return Path(shutil.copytree(folder, target, copy_function=os.link))


def _measured(step: Step, warm: Path, folder: Path, scratch: Path) -> Cost:
    places = [warm, folder]
    if step.changes:
        places = [_linked(place, scratch / f"copy-{number}") for number, place in enumerate(places)]
    command = [sys.executable, "-m", "benchmarks.scale", "--child", step.name, *map(str, places)]
    cost = Cost(**json.loads(measure.run(command, variables={"LAKEBED_FSYNC": "0"}).output.splitlines()[-1]))
    if step.changes:
        for place in places:
            shutil.rmtree(place)
    return cost


def measured(kind: Kind, sizes: Sequence[int], scratch: Path) -> dict[str, list[Cost]]:
    """Measure every step of a kind at every size."""
    found: dict[str, list[Cost]] = {name: [] for name in kind.steps}
    warm = scratch / "warm"
    for size in (sizes[0], *sizes):
        folder = scratch / f"{kind.name}-{size}" if warm.exists() else warm
        folder.mkdir()
        made = measure.run(
            [sys.executable, "-m", "benchmarks.scale", "--make", kind.name, str(size), str(folder)],
            variables={"LAKEBED_FSYNC": "0"},
        )
        if folder == warm:
            continue
        print(
            f"{kind.name} {size:,}: made in {made.cpu_seconds:.1f} s, {made.peak_bytes / 1e6:.0f} MB",
            flush=True,
        )
        at_rest = json.loads((folder / "about.json").read_text()).get("at rest")
        if at_rest is not None:
            print(f"  metadata at rest       {at_rest / 1e6:,.1f} MB", flush=True)
            found.setdefault(AT_REST, []).append(Cost(0.0, 0, 0, at_rest, 0))
        for step in STEPS:
            if step.name in found:
                cost = _measured(step, warm, folder, scratch)
                found[step.name].append(cost)
                print(f"  {step.name:22} {cell(cost)}", flush=True)
        shutil.rmtree(folder)
    shutil.rmtree(warm)
    return found


def slope(sizes: Sequence[int], values: Sequence[float]) -> float | None:
    """Return how a value grows between the last two sizes, in log-log; None if there are not two."""
    if len(values) < 2 or min(values[-2:]) <= 0:
        return None
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])


def cell(cost: Cost) -> str:
    """Milliseconds, requests, MB to and fro, MB of memory."""
    moved = (cost.received + cost.sent) / 1e6
    return f"{cost.cpu * 1e3:,.1f} / {cost.requests:,} / {moved:,.1f} / {cost.memory / 1e6:,.0f}"


def table(kind: Kind, sizes: Sequence[int], found: Mapping[str, Sequence[Cost]]) -> list[str]:
    """Rows of a table: a step at each size, and its slopes."""
    lines = [
        f"| {kind.name} | " + " | ".join(f"{size:,}" for size in sizes) + " | slopes |",
        "|---|" + "---:|" * (len(sizes) + 1),
    ]
    for name, costs in found.items():
        pairs = ((cost.cpu, cost.requests, cost.received + cost.sent, cost.memory) for cost in costs)
        slopes = [slope(sizes, values) for values in zip(*pairs, strict=True)]
        shown = " / ".join("" if value is None else f"{value:.1f}".replace("-0.0", "0.0") for value in slopes)
        cells = [f"{cost.sent / 1e6:,.1f} MB" if name == AT_REST else cell(cost) for cost in costs]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {shown} |")
    return lines


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "kinds", nargs="*", help=f"of {', '.join(kind.name for kind in KINDS)}; all without any"
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", help="sizes, ascending, in place of those of the kind"
    )
    parser.add_argument("--folder", type=Path, help="where datasets are made; a temporary folder by default")
    parser.add_argument("--dry-run", action="store_true", help="print, and leave RESULTS.md alone")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        name, size, folder = options.make
        next(kind for kind in KINDS if kind.name == name).make(Path(folder), int(size))
        return
    if options.child:
        child(options.child[0], *map(Path, options.child[1:]))
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="scale-", dir=options.folder) as scratch:
        for kind in KINDS:
            if not options.kinds or kind.name in options.kinds:
                sizes = options.sizes or kind.sizes
                lines += ["", *table(kind, sizes, measured(kind, sizes, Path(scratch)))]
    print("\n".join(lines))
    if not options.dry_run:
        about = (
            f"`python -m benchmarks.scale`, {time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}. Each "
            "cell: CPU ms / requests / MB to and fro / MB of memory at the peak above that of the process before. "
            f"Slopes of the same between the last two sizes. Machine: {machine(RESULTS.parent)}."
        )
        put("benchmarks.scale", "Scale", [about, *lines])


if __name__ == "__main__":
    main()
