"""Runs programs under both libraries and compares what each then sees with what must be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from integration_tests.interop.datasets.model import disagreement
from integration_tests.interop.datasets.perform import Json
from integration_tests.interop.datasets.program import LIBRARIES, Program

ROOT = Path(__file__).resolve().parent.parent.parent.parent
INTERPRETERS = {"deeplake": ROOT / ".cache/venvs/deeplake3/bin/python", "lakebed": Path(sys.executable)}
NOWHERE = "http://127.0.0.1:9"
"""Deep Lake calls its vendor on import; a proxy that refuses makes that fail at once instead of hang."""


def perform(
    library: str, jobs: list[Json], home: Path, environment: Mapping[str, str] | None = None
) -> list[Json]:
    """Let a library do jobs, in one process: to import 3.9.52 takes longer than most of them."""
    if not jobs:
        return []
    around = {
        **os.environ,
        **(environment or {}),
        "BUGGER_OFF": "true",
        "https_proxy": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
    }
    around["LAKEBED_LINK_ROOTS"] = tempfile.gettempdir()  # links that another process has made
    given, out = home / "jobs.json", home / "results.json"
    given.write_text(json.dumps(jobs))
    script = Path(__file__).with_name("perform.py")
    line = [str(INTERPRETERS[library]), str(script), library, str(given), str(out)]
    done = subprocess.run(line, env=around, capture_output=True, check=False)
    assert done.returncode == 0, f"{library} died: {done.stderr.decode()[-2000:]}"
    return list(json.loads(out.read_text()))


class Trial:
    """One program and what came of it."""

    def __init__(self, program: Program, path: Path | str) -> None:
        self.program = program
        self.path = path
        self.commits: dict[str, str] = {}
        self.wrong: list[str] = []
        self.given_up: str | None = None
        """Why 3.9.52 could not take a step of its own."""

    def judge(self, library: str, versions: Json) -> None:
        """Compare what a library sees."""
        model = self.program.model
        states = {**model.branches, **{self.commits[label]: state for label, state in model.commits.items()}}
        names = {identifier: label for label, identifier in self.commits.items()}
        for version, state in states.items():
            wrong = disagreement(state, versions[version], self.program.lossy)
            if wrong is not None:
                self.wrong.append(f"{library} sees in {names.get(version, version)}: {wrong}")


def run(
    programs: list[Program],
    home: Path,
    root: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[Trial]:
    """Run programs side by side, stretch after stretch, then let both libraries read all versions.

    Parameters
    ----------
    home
        Folder for what the libraries are told, and for the datasets if there is no other place for them.
    root
        Address below which the datasets lie.
    environment
        Further variables of the libraries' processes.
    """
    trials = [Trial(program, f"{root or home}/dataset{number}") for number, program in enumerate(programs)]
    for turn in range(max(len(program.stretches) for program in programs)):
        for library in LIBRARIES:
            going = [trial for trial in trials if not trial.wrong and not trial.given_up]
            _turn(going, turn, library, home, environment)
    for library in LIBRARIES:
        going = [trial for trial in trials if not trial.given_up]
        whole = [
            trial for trial in going if not trial.wrong or trial.wrong[0].startswith(f"{LIBRARIES[0]} sees")
        ]
        jobs = [
            {"path": str(t.path), "versions": [*t.program.model.branches, *t.commits.values()]} for t in whole
        ]
        for trial, result in zip(whole, perform(library, jobs, home, environment), strict=True):
            if "error" in result:
                trial.wrong.append(f"{library} cannot read: {result['error']}")
            else:
                trial.judge(library, result["versions"])
    return trials


def _turn(
    trials: list[Trial], turn: int, library: str, home: Path, environment: Mapping[str, str] | None
) -> None:
    due = [trial for trial in trials if turn < len(trial.program.stretches)]
    due = [trial for trial in due if trial.program.stretches[turn].library == library]
    jobs = [{"path": str(t.path), "steps": t.program.stretches[turn].steps} for t in due]
    for trial, result in zip(due, perform(library, jobs, home, environment), strict=True):
        if "error" in result and library == "deeplake" and "deeplake" in result["error"]:
            trial.given_up = result["error"]
        elif "error" in result:
            trial.wrong.append(f"{library} fails in stretch {turn}: {result['error']}")
        else:
            trial.commits.update(result["commits"])
