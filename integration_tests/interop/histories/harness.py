"""Runs programs under both libraries, turn by turn, and compares all that each then sees."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from integration_tests.interop.histories.perform import Json
from integration_tests.interop.histories.programs import LIBRARIES, Turn

ROOT = Path(__file__).resolve().parent.parent.parent.parent
INTERPRETERS = {"deeplake": ROOT / ".cache/venvs/deeplake3/bin/python", "lakebed": Path(sys.executable)}
NOWHERE = "http://127.0.0.1:9"
"""Deep Lake calls its vendor on import; a proxy that refuses makes that fail at once instead of hang."""

IDENTIFIER = re.compile(r"firstdbf[0-9a-f]{32}|(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")


def perform(library: str, jobs: list[Json], home: Path) -> list[Json]:
    """Let a library do jobs, in one process: to import 3.9.52 takes longer than most of them."""
    if not jobs:
        return []
    environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    given, out = home / "jobs.json", home / "results.json"
    given.write_text(json.dumps(jobs))
    script = Path(__file__).with_name("perform.py")
    line = [str(INTERPRETERS[library]), str(script), library, str(given), str(out)]
    done = subprocess.run(line, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, f"{library} died: {done.stderr.decode()[-2000:]}"
    return list(json.loads(out.read_text()))


@dataclass
class Trial:
    """A program, the dataset it changes, and what came of it so far."""

    seed: int
    turns: list[Turn]
    path: Path
    seen: dict[str, Json] = field(default_factory=dict)
    """Content of every commit when it was seen first."""
    wrong: list[str] = field(default_factory=list)
    given_up: str | None = None
    """What 3.9.52 could not do."""
    compared: int = 0
    """Versions that both libraries saw alike."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to learn from it."""
        return bool(self.wrong) or self.given_up is not None


def run(trials: list[Trial], home: Path) -> None:
    """Take the turns of all trials side by side.

    In every turn one library goes on with the dataset, and the other takes the same steps on a copy. Then both read the
    dataset, and the one that worked on the copy reads that.
    """
    for number in range(max(len(trial.turns) for trial in trials)):
        due = [trial for trial in trials if number < len(trial.turns) and not trial.is_over]
        for trial in due:
            if trial.path.exists():
                shutil.copytree(trial.path, copy_of(trial))
        writes = {library: _jobs(due, number, library) for library in LIBRARIES}
        results = {library: perform(library, jobs, home) for library, jobs in writes.items()}
        reads = {
            library: [{"path": job["path"]} for job in jobs]
            + [{"path": str(trial.path)} for trial in due if trial.turns[number].library != library]
            for library, jobs in writes.items()
        }
        views = {library: perform(library, jobs, home) for library, jobs in reads.items()}
        for trial in due:
            own = trial.turns[number].library
            other = next(library for library in LIBRARIES if library != own)
            steps = {
                library: _found(writes[library], results[library], trial, on_copy=library == other)
                for library in LIBRARIES
            }
            judge(
                trial,
                number,
                steps,
                _found(reads[own], views[own], trial),
                _found(reads[other], views[other], trial),
                _found(reads[other], views[other], trial, on_copy=True),
            )
            shutil.rmtree(copy_of(trial), ignore_errors=True)


def copy_of(trial: Trial) -> Path:
    """Where the other library takes the same steps."""
    return trial.path.with_name(f"{trial.path.name}-copy")


def _jobs(due: list[Trial], number: int, library: str) -> list[Json]:
    jobs = []
    for trial in due:
        turn = trial.turns[number]
        path = trial.path if turn.library == library else copy_of(trial)
        jobs.append({"path": str(path), "steps": turn.steps})
    return jobs


def _found(jobs: list[Json], results: list[Json], trial: Trial, *, on_copy: bool = False) -> Json:
    path = str(copy_of(trial) if on_copy else trial.path)
    return next(result for job, result in zip(jobs, results, strict=True) if job["path"] == path)


# -- what must agree -----------------------------------------------------------------------------------------------


def judge(trial: Trial, number: int, steps: dict[str, Json], own: Json, other: Json, copied: Json) -> None:
    """Compare what both libraries see of the dataset, with what was there, and with the other's doing of the same."""
    turn = trial.turns[number]
    where = f"seed {trial.seed}, turn {number} ({turn.library})"
    failed = next((text for text in (failure(steps["deeplake"]),) if text), None)
    if failed is not None:
        trial.given_up = f"{where}: {failed}"
        return
    for library, found in steps.items():
        if "error" in found:
            trial.wrong.append(f"{where}: {library} fails: {found['error']}")
            return
    for index, step in enumerate(turn.steps):
        theirs, ours = (steps[library]["steps"][index] for library in LIBRARIES)
        if outcome(theirs) != outcome(ours):
            trial.wrong.append(f"{where}, step {index} {step}:\n  3.9.52 {theirs}\n  lakebed {ours}")
            return
    for name, view in ((turn.library, own), ("the other", other), ("the copy", copied)):
        if "error" in view:
            trial.wrong.append(f"{where}: {name} cannot be read: {view['error']}")
            return
    trial.wrong += [f"{where}: read by {turn.library} and the other: {d}" for d in differing(own, other)][:3]
    for version, content in own["versions"].items():
        if version not in own["branches"]:
            kept = {key: value for key, value in content.items() if key != "branch"}
            before = trial.seen.setdefault(version, kept)
            trial.wrong += [
                f"{where}: commit {version} is not as it was: {d}" for d in differing(before, kept)
            ][:3]
    mine, its = history(own), history(copied)
    trial.wrong += [f"{where}: done by {turn.library} and by the other: {d}" for d in differing(mine, its)][
        :3
    ]
    trial.compared += len(own["versions"])


def failure(result: Json) -> str | None:
    """Why a library could not take its turn, if it was an error from the inside of it."""
    if "error" in result:
        return str(result["error"])
    inside = ("KeyError", "IndexError", "TypeError", "AttributeError", "AssertionError", "UnboundLocalError")
    for step in result["steps"]:
        if "error" in step and step["error"][0] in inside:
            return str(step["text"])
    return None


def outcome(step: Json) -> Json:
    """What became of a step: what it says it did, or that it failed."""
    return step.get("done") if "error" not in step else "error"


def history(view: Json) -> Json:
    """Content of all versions along each branch, newest first, without ids and times."""
    labels = {}
    for branch in view["branches"]:
        for entry in view["versions"][branch]["commits"]:
            labels.setdefault(entry["commit"], entry["message"])
    lines = {}
    for branch in view["branches"]:
        head = view["versions"][branch]
        versions = [head, *(view["versions"][entry["commit"]] for entry in head["commits"])]
        lines[branch] = {
            "messages": [_named(entry["message"], labels) for entry in head["commits"]],
            "versions": [_content(version) for version in versions],
        }
    automatic = sorted((b for b in lines if b.startswith("auto_")), key=lambda b: json.dumps(lines[b]))
    return {
        **{branch: line for branch, line in lines.items() if branch not in automatic},
        **{f"auto {number}": lines[branch] for number, branch in enumerate(automatic)},
    }


def _named(message: str | None, labels: dict[str, str]) -> str:
    return IDENTIFIER.sub(lambda found: f"<{labels.get(found[0], 'unknown')}>", str(message))


def _content(version: Json) -> Json:
    kept = {key: version[key] for key in ("tensors", "groups", "info")}
    return {**kept, "changed": [_changed(entry) for entry in version["diff"]["tensor"]]}


def _changed(entry: Json) -> Json:
    """What a version changed in each tensor, but for what 3.9.52 does not count well after removals (FORMAT 10.2)."""
    exact = {}
    for name, change in entry.items():
        if name == "commit_id":
            continue
        told = ["created", "cleared"]
        if not change["data_deleted"]:
            told += ["data_added", "data_updated", "info_updated"]
        exact[name] = {key: change[key] for key in told}
    return exact


def differing(left: Json, right: Json, where: str = "") -> list[str]:
    """Where two values differ, for people."""
    if isinstance(left, dict) and isinstance(right, dict):
        found = []
        for key in [*left, *(key for key in right if key not in left)]:
            if key in left and key in right:
                found += differing(left[key], right[key], f"{where}[{key}]")
            else:
                found.append(f"{where}[{key}] is only in the {'first' if key in left else 'second'}")
        return found
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [
            line
            for number, pair in enumerate(zip(left, right, strict=True))
            for line in differing(*pair, f"{where}[{number}]")
        ]
    return [] if left == right else [f"{where}: {str(left)[:300]} and {str(right)[:300]}"]
