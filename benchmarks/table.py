"""Tables of results, for the terminal and for RESULTS.md."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.workloads import ENVIRONMENTS, WORKLOADS, Result, Results, Workload

BY_HAND = "<!-- What follows is written by hand and kept. -->"
_VERSIONS = """
import importlib.metadata as m, platform, sys
print(platform.python_version(), *(f"{n}={m.version(n)}" for n in sys.argv[1:]))
"""


def rows(workload: Workload, found: Results) -> list[list[str]]:
    """Head and rows, as text."""
    unit, factor, digits = ("ms", 1e3, 2) if workload.milliseconds else ("s", 1, 3)
    limits = [row.name for row in workload.contestants if row.part == "limit" and row.name in found]
    times = not any(name.startswith("wall") for name in workload.figures)  # else the figures are the times
    head = ["", "waits for the disk"]
    head += [f"CPU {unit}", f"wall {unit}"] if times else []
    head += list(workload.figures.values())
    head += ["CPU / limit"] if limits else []
    head += ["memory MB"]
    lines = [head]
    for row in workload.contestants:
        if row.name not in found:
            continue
        result = found[row.name]
        line = [f"**{row.name}**" if row.program == "ours" else row.name, "yes" if row.durable else ""]
        line += [f"{result.cpu * factor:.{digits}f}", f"{result.wall * factor:.{digits}f}"] if times else []
        line += [_number(result.figures.get(name)) for name in workload.figures]
        line += [f"{result.cpu / found[limits[0]].cpu:.2f}"] if limits else []
        line += [f"{result.peak / 1e6:.0f}"]
        lines.append(line)
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def verdicts(workload: Workload, found: Results) -> list[str]:
    """A line per bar."""
    lines = []
    for bar in workload.bars:
        try:
            value = bar.value(found)
        except (KeyError, ValueError):  # somebody failed
            lines.append(f"{bar.text}: not measured")
            continue
        sign = "<=" if bar.at_most else ">="
        verdict = "reached" if bar.reached(value) else "**MISSED**"
        lines.append(f"{bar.text}: {value:.3g}, bar {sign} {bar.bar:g}: {verdict}")
    return lines


def text(workload: Workload, found: Results) -> str:
    """Table for the terminal."""
    lines = [[cell.replace("**", "") for cell in line] for line in rows(workload, found)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    shown = [
        "  "
        + "  ".join(
            cell.rjust(width) if n else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return "\n".join(shown + [f"  {line.replace('**', '')}" for line in verdicts(workload, found)])


def markdown(workload: Workload, found: Results, when: str) -> str:
    """Section of RESULTS.md."""
    head, *body = rows(workload, found)
    lines = [f"## {workload.title}", ""]
    lines += [f"`--only {workload.name}`, {when}. {workload.note}".rstrip(), ""]
    lines += ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(line) + " |" for line in body]
    lines += ["", *(f"* {line}" for line in verdicts(workload, found)), ""]
    return "\n".join(lines)


def machine(folder: Path) -> str:
    """What the figures were taken on."""
    processor = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    home = str(folder.resolve())
    device, _, kind = max(
        ((m[0], m[1], m[2]) for m in mounts if home.startswith(m[1].rstrip("/") + "/")),
        key=lambda m: len(m[1]),
    )
    options = Path(f"/proc/fs/ext4/{Path(device).name}/options")
    if options.exists() and "data=" not in options.read_text():
        kind += " without a journal"
    elif "/loop" in device:
        kind += " on a loop device"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{processor}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB of memory, "
        f"Linux {platform.release()}, {kind}"
    )


def versions(pythons: Mapping[str | None, str | Path]) -> list[str]:
    """Python and the packages of each environment."""
    lines = []
    for name, python in pythons.items():
        packages = ["numpy", "pyarrow", "simplejpeg"] if name is None else ENVIRONMENTS[name]
        wanted = [package.split("=")[0].split("<")[0].split(">")[0] for package in packages]
        told = subprocess.run([python, "-c", _VERSIONS, *wanted], capture_output=True, text=True, check=False)
        if told.returncode == 0:
            version, *found = told.stdout.split()
            lines.append(f"{name or 'lakebed'}: Python {version}, {', '.join(found)}")
    return lines


def write(path: Path, saved: Mapping[str, Any], installed: list[str]) -> None:
    """Write RESULTS.md, all but the part that is kept by hand."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    kept = before.partition(BY_HAND)[2] or "\n\n## Where a bar is missed\n"
    sections = []
    for workload in WORKLOADS:
        if workload.name in saved:
            found = {name: Result(**value) for name, value in saved[workload.name]["results"].items()}
            when, load = saved[workload.name]["when"], saved[workload.name].get("load")
            busy = "" if load is None else f", load average {load:.1f}"
            sections.append(markdown(workload, found, when + busy))
    head = [
        "# The format beside its peers",
        "",
        "Written by `python -m benchmarks.format` (`make bench`). In a workload all took turns; medians.",
        "CPU seconds are user and system time of all threads and child processes, without start-up and imports; memory",
        "is the growth at its peak. Caches are warm. Bars on throughput compare CPU seconds, which a busy machine",
        "changes least; bars on latency are wall time. What does not wait for the disk may be lost with the power.",
        "",
        f"Machine: {machine(path.parent)}.",
        "",
        *(f"* {line}" for line in installed),
        "",
    ]
    path.write_text("\n".join([*head, *sections, BY_HAND]) + kept, encoding="utf-8")
