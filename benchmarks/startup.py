"""The first second of a process: `python -m benchmarks.startup`; writes its part of RESULTS.md.

CPU seconds, user and system time of all threads, of fresh processes whose files the system has in memory; contestants
take turns, and ratios are of this run. The limit is a program that imports NumPy and PyArrow and does nothing.

    import          the library, and no more
    first read      import, open a local dataset, one sample and a slice of a hundred
    lakebed ...     the command from the shell
    spec, check     the connector's commands; a check writes, reads and removes a dataset
    write           from the start of a sync until it has taken the first record and waits for the next
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import lakebed
from benchmarks import measure
from benchmarks.format import environment
from benchmarks.results import RESULTS, put
from benchmarks.table import machine
from benchmarks.workloads import ENVIRONMENTS

LIMIT = "numpy and pyarrow"
BARE = "Python alone"
_STILL = 0.15
"""Seconds without work after which a process waits for what comes next."""
_PATIENCE = 60.0

STREAM = {"name": "orders", "namespace": "shop"}
CATALOG = {
    "streams": [
        {
            "stream": {
                **STREAM,
                "json_schema": {
                    "type": "object",
                    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
                },
                "supported_sync_modes": ["full_refresh", "incremental"],
            },
            "sync_mode": "incremental",
            "destination_sync_mode": "append",
            "generation_id": 1,
            "minimum_generation_id": 0,
            "sync_id": 1,
        }
    ]
}
RECORD = {
    "type": "RECORD",
    "record": {
        "stream": STREAM["name"],
        "namespace": STREAM["namespace"],
        "data": {"id": 1, "name": "first"},
        "emitted_at": 1_700_000_000_000,
    },
}


@dataclass(frozen=True)
class Contestant:
    """A command line; what it may cost in terms of the limit, 0 if nothing is asked of it."""

    name: str
    command: Sequence[str | Path]
    bar: float = 0.0
    until_first_record: bool = False


def contestants(folder: Path, *, peers: bool) -> list[Contestant]:
    """Return who takes part; ``folder`` gets a dataset and what the connector reads."""
    dataset, config, catalog = folder / "dataset", folder / "config.json", folder / "catalog.json"
    ds = lakebed.empty(dataset)
    ds.create_tensor("x", dtype="float32")
    ds.x.extend(np.arange(8_000, dtype=np.float32).reshape(1_000, 8))
    ds.commit()
    config.write_text(json.dumps({"destination_path": str(folder / "lake")}))
    catalog.write_text(json.dumps(CATALOG))

    def python(code: str) -> list[str | Path]:
        return [sys.executable, "-c", code]

    def called(module: str, function: str, *args: object) -> list[str | Path]:
        return python(
            f"import sys; sys.argv[1:] = {[str(a) for a in args]}; from {module} import {function} as f; f()"
        )

    read = f"import lakebed; ds = lakebed.load({str(dataset)!r}); ds.x[0].numpy(); ds.x[:100].numpy()"
    cli, connector = ("lakebed.cli", "main"), ("destination_deeplake.run", "run")
    found = [
        Contestant(BARE, python("pass")),
        Contestant("numpy", python("import numpy")),
        Contestant(LIMIT, python("import numpy, pyarrow")),
        Contestant("**lakebed: import**", python("import lakebed"), 1.2),
        Contestant("**lakebed: first read**", python(read), 1.2),
        Contestant("**lakebed --version**", called(*cli, "--version"), 1.4),
        Contestant("**lakebed --help**", called(*cli, "--help"), 1.4),
        Contestant("**lakebed ls**", called(*cli, "ls", dataset), 1.4),
        Contestant("**lakebed head**", called(*cli, "head", dataset), 1.4),
        Contestant("**connector: spec**", called(*connector, "spec"), 1.3),
        Contestant("**connector: check**", called(*connector, "check", "--config", config), 1.3),
        Contestant(
            "**connector: write, first record**",
            called(*connector, "write", "--config", config, "--catalog", catalog),
            1.3,
            until_first_record=True,
        ),
    ]
    if peers:
        for name, title in (("deeplake4", "Deep Lake 4: import"), ("deeplake3", "Deep Lake 3.9.52: import")):
            interpreter = environment(name, ENVIRONMENTS[name])
            found.append(Contestant(title, [interpreter, "-c", "import deeplake"]))
    return found


def cost(contestant: Contestant) -> float:
    """CPU seconds of one fresh process."""
    if contestant.until_first_record:
        return _until_it_waits(contestant.command)
    return measure.run(contestant.command).cpu_seconds


def _until_it_waits(command: Sequence[str | Path]) -> float:
    """CPU seconds that a sync has used when it has taken a first record and waits for another."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=measure.ENVIRONMENT,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(RECORD).encode() + b"\n")
        process.stdin.flush()
        try:
            _settle(lambda: _used(process))
        finally:
            process.kill()
            _, status, usage = os.wait4(process.pid, 0)  # threads that have ended count as well
            process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _settle(used: Callable[[], int]) -> None:
    """Wait until a number has stayed the same for a while."""
    began = changed = time.monotonic()
    last = used()
    while time.monotonic() - changed < _STILL or last == 0:
        if time.monotonic() - began > _PATIENCE:
            raise RuntimeError("the process does not come to rest")
        time.sleep(0.02)
        now = used()
        if now != last:
            last, changed = now, time.monotonic()


def _used(process: subprocess.Popen[bytes]) -> int:
    """Nanoseconds that the threads of a process have run; waiting for a processor counts as running on.

    Raises
    ------
    RuntimeError
        If the process is gone.
    """
    if process.poll() is not None:
        raise RuntimeError(f"the process ended with {process.returncode} before it had taken a record")
    found = 0
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += int((task / "schedstat").read_text().split()[0])
    return found


def table(found: Mapping[str, list[float]], taking_part: Sequence[Contestant]) -> list[str]:
    """Minima and medians in milliseconds, as multiples of the limit, and what is asked."""
    limit_least, limit_median = min(found[LIMIT]), statistics.median(found[LIMIT])
    lines = [
        "|  | least, ms | median, ms | least / limit | median / limit | bar |  |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for one in taking_part:
        least, median = min(found[one.name]), statistics.median(found[one.name])
        ratio = median / limit_median
        verdict = "" if not one.bar else "reached" if ratio <= one.bar else "**MISSED**"
        bar = f"{one.bar:g}" if one.bar else ""
        lines.append(
            f"| {one.name} | {least * 1e3:.0f} | {median * 1e3:.0f} | {least / limit_least:.2f} | {ratio:.2f} | {bar} "
            f"| {verdict} |"
        )
    return lines


def save(lines: list[str], runs: int) -> None:
    """Put the table into RESULTS.md, at the end or in the place of the one before."""
    about = (
        f"`python -m benchmarks.startup`, {time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}. CPU time "
        f"of fresh processes in {runs} rounds, in turns; the limit is a program that imports NumPy and PyArrow. "
        f"Machine: {machine(RESULTS.parent)}."
    )
    put("benchmarks.startup", "The first second of a process", [about, "", *lines])


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument(
        "--no-peers", action="store_true", help="no Deep Lake, which takes environments of its own"
    )
    parser.add_argument("--dry-run", action="store_true", help="print, and leave RESULTS.md alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="startup-") as name:
        taking_part = contestants(Path(name), peers=not options.no_peers)
        found: dict[str, list[float]] = {one.name: [] for one in taking_part}
        for one in taking_part:
            cost(one)  # Python compiles what it imports, and the system reads the files
        for _ in range(options.runs):
            for one in taking_part:
                found[one.name].append(cost(one))
    lines = table(found, taking_part)
    print("\n".join(lines))
    if not options.dry_run:
        save(lines, options.runs)


if __name__ == "__main__":
    main()
