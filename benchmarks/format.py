"""The format beside its peers: `python -m benchmarks.format`; writes RESULTS.md.

Every contestant is a program in an environment of its own. Within a workload they take turns, several rounds, in an
order that moves on, as a busy machine then disturbs all alike; the median counts. Data come from `data.py`,
the programs are in `peers/`, and `workloads.py` says who does what and what is to be reached.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import measure, table
from benchmarks.inputs import CACHE, ROOT
from benchmarks.results import RESULTS
from benchmarks.workloads import ENVIRONMENTS, WORKLOADS, Contestant, Result, Workload

FOLDER = CACHE / "format"
DATA = FOLDER / "data"
SAVED = FOLDER / "results.json"
VENVS = ROOT / ".cache/venvs"
FEW = 20
"""So many files are deleted without disturbing what is measured next."""
SILENT = {
    "BUGGER_OFF": "true",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def environment(name: str, packages: list[str]) -> Path:
    """Interpreter of an environment, which is made if it is missing or was made for other packages."""
    folder = VENVS / f"bench-{name}"
    stamp = folder / ".ready"
    wanted = "\n".join(packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {', '.join(packages)} into {folder.relative_to(ROOT)}", flush=True)
        python = ["--python", ">=3.10,<3.13"] if name == "deeplake3" else []
        measure.run([ROOT / "scripts/venv.sh", *python, folder, *packages])
        stamp.write_text(wanted)
    return folder / "bin/python"


def make_data() -> None:
    """Make the data unless they are there."""
    if not DATA.exists():
        python = environment("data", ["scikit-image", "scikit-learn", "pillow", "simplejpeg"])
        print(measure.run([python, "-m", "benchmarks.data", DATA]).output.decode(), end="")


class Run:
    """All of one command: where contestants write, and what was written for others to read."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.folder = Path(tempfile.mkdtemp(prefix="run-", dir=FOLDER))
        self.stores: dict[tuple[str, str], Path] = {}
        self.number = 0

    def close(self) -> None:
        """Delete what was written: at the end, as ext4 is slow to create files after many were deleted."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def once(self, workload: Workload, row: Contestant) -> dict[str, Any]:
        """Let one contestant do a workload once."""
        store = self.store(workload, row) if workload.needs else self.folder
        self.number += 1
        out = self.folder / f"{self.number:04d}-{workload.name}-{row.program}"
        out.mkdir()
        count = row.count or workload.count
        task = {
            "workload": workload.name,
            "data": str(DATA),
            "out": str(out),
            "store": str(store),
            "durable": row.durable,
            "option": row.option,
            "count": max(count // 20, min(count, 1_000)) if self.quick else count,
            "warm": workload.warm,
            "repeats": min(workload.repeats, 3) if self.quick else workload.repeats,
        }
        python = (
            environment(row.environment, ENVIRONMENTS[row.environment]) if row.environment else sys.executable
        )
        variables = SILENT if row.durable else {**SILENT, "LAKEBED_FSYNC": "0"}
        os.sync()  # nobody pays for what another one wrote
        command = [python, "-m", f"benchmarks.peers.{row.program}", json.dumps(task)]
        found: dict[str, Any] = json.loads(measure.run(command, variables=variables).output.splitlines()[-1])
        key = (workload.name, row.program)
        if key not in self.stores:
            self.stores[key] = out
        elif sum(1 for _ in out.rglob("*")) < FEW:
            shutil.rmtree(out)
        return found

    def store(self, workload: Workload, row: Contestant) -> Path:
        """What this contestant wrote in the workload that this one needs, which it does now if it has not yet."""
        needed = workload.needs
        if (needed, row.program) not in self.stores:
            known = {workload.name: workload for workload in WORKLOADS}
            writing = known.get(needed) or Workload(needed, "", (), workload.count)
            self.once(writing, Contestant(row.name, row.program, row.environment))
        return self.stores[needed, row.program]

    def compare(self, workload: Workload) -> dict[str, Result]:
        """Let all contestants do a workload, in rounds."""
        print(f"\n{workload.title}", flush=True)
        found: dict[str, list[dict[str, Any]]] = {row.name: [] for row in workload.contestants}
        rows = list(workload.contestants)
        for number in range(1 if self.quick else workload.rounds):
            for row in rows[:]:
                if number >= row.rounds:
                    continue
                try:
                    found[row.name].append(self.once(workload, row))
                except RuntimeError as error:
                    print(
                        f"  without {row.name}, which failed: {str(error).strip().splitlines()[-1]}",
                        flush=True,
                    )
                    rows.remove(row)
                    del found[row.name]
            rows = rows[1:] + rows[:1]
        checks = {row.name: found[row.name][0]["check"] for row in rows if row.count is None}
        if len(set(checks.values())) > 1:
            raise RuntimeError(f"{workload.name}: the contestants did not do the same: {checks}")
        return {name: middle(several) for name, several in found.items()}


def middle(several: list[dict[str, Any]]) -> Result:
    """Medians of the rounds, of which each may be several repetitions; of memory the largest."""

    def median(name: str) -> float:
        return float(statistics.median(statistics.median(one[name]) for one in several))

    figures = several[0]["figures"]
    return Result(
        median("cpu"),
        median("wall"),
        max(max(one["peak"]) for one in several),
        {name: statistics.median(one["figures"][name] for one in several) for name in figures},
    )


def save(workload: Workload, found: dict[str, Result]) -> None:
    """Keep the results, so that workloads may be measured one by one."""
    saved = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    saved[workload.name] = {
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "load": os.getloadavg()[1],
        "results": {name: asdict(result) for name, result in found.items()},
    }
    SAVED.write_text(json.dumps(saved, indent=1))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="The format's speed beside its peers'.")
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument(
        "--only", action="append", choices=names, help="measure this workload; may be repeated"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a twentieth of the data, one round, nothing saved"
    )
    given = parser.parse_args()
    os.chdir(ROOT)
    FOLDER.mkdir(parents=True, exist_ok=True)
    make_data()
    run = Run(quick=given.quick)
    try:
        for workload in WORKLOADS:
            if given.only and workload.name not in given.only:
                continue
            found = run.compare(workload)
            print(table.text(workload, found), flush=True)
            if not given.quick:
                save(workload, found)
                pythons: dict[str | None, str | Path] = {None: sys.executable}
                pythons |= {name: VENVS / f"bench-{name}/bin/python" for name in ENVIRONMENTS}
                versions = table.versions(
                    {n: python for n, python in pythons.items() if Path(python).exists()}
                )
                table.write(RESULTS, json.loads(SAVED.read_text()), versions)
    finally:
        run.close()


if __name__ == "__main__":
    main()
