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
from integration_tests.interop.histories.programs import LIBRARIES, Program, Turn

ROOT = Path(__file__).resolve().parent.parent.parent.parent
INTERPRETERS = {"deeplake": ROOT / ".cache/venvs/deeplake3/bin/python", "lakebed": Path(sys.executable)}
NOWHERE = "http://127.0.0.1:9"
"""Deep Lake calls its vendor on import; a proxy that refuses makes that fail at once instead of hang."""

IDENTIFIER = re.compile(r"firstdbf[0-9a-f]{32}|(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")


class Library:
    """A process that does jobs with one of the libraries: to import 3.9.52 takes longer than most of them."""

    def __init__(self, name: str) -> None:
        environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
        line = [str(INTERPRETERS[name]), str(Path(__file__).with_name("perform.py")), name]
        self.name = name
        self._process = subprocess.Popen(
            line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def write(self, path: Path, steps: list[Json]) -> Json:
        """Take steps; return what became of each."""
        return self._do({"path": str(path), "steps": steps})

    def read(self, path: Path) -> Json:
        """Return everything there is."""
        return self._do({"path": str(path)})

    def _do(self, job: Json) -> Json:
        pipes = self._process.stdin, self._process.stdout
        assert pipes[0] is not None
        assert pipes[1] is not None
        pipes[0].write(json.dumps(job) + "\n")
        pipes[0].flush()
        answer = pipes[1].readline()
        assert answer, f"{self.name} died of {job}"
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=600)


@dataclass
class Trial:
    """A program, the dataset it changes, and what came of it so far."""

    program: Program
    path: Path
    seen: dict[str, Json] = field(default_factory=dict)
    """Content of every commit when it was seen first."""
    tags: dict[str, str] = field(default_factory=dict)
    """What tags stand for."""
    wrong: list[str] = field(default_factory=list)
    given_up: str | None = None
    """What 3.9.52 could not do."""
    compared: int = 0
    """Versions that both libraries saw alike."""


def run(trial: Trial, libraries: dict[str, Library]) -> None:
    """Take the turns of a program.

    In every turn one library goes on with the dataset, and the other takes the same steps on a copy. Then both read the
    dataset, and the one that worked on the copy reads that.
    """
    copied = trial.path.with_name(f"{trial.path.name}-copy")
    for number, turn in enumerate(trial.program.turns):
        own = libraries[turn.library]
        other = next(library for name, library in libraries.items() if name != turn.library)
        if trial.path.exists():
            shutil.copytree(trial.path, copied)
        steps = {
            own.name: own.write(trial.path, turn.steps),
            other.name: other.write(copied, turn.steps),
        }
        judge(trial, number, steps, own.read(trial.path), other.read(trial.path), other.read(copied))
        shutil.rmtree(copied, ignore_errors=True)
        if trial.wrong or trial.given_up:
            return


# -- what must agree -----------------------------------------------------------------------------------------------


def judge(trial: Trial, number: int, steps: dict[str, Json], own: Json, other: Json, copied: Json) -> None:
    """Compare what both libraries see of the dataset, with what was there, and with the other's doing of the same."""
    turn = trial.program.turns[number]
    where = f"seed {trial.program.seed}, turn {number} ({turn.library})"
    failed = failure(steps["deeplake"])
    if failed is not None:
        trial.given_up = f"{where}: {failed}"
        return
    for library, found in steps.items():
        if "error" in found:
            trial.wrong.append(f"{where}: {library} fails: {found['error']}")
            return
    is_same = is_comparable(trial.program, turn, steps["deeplake"])
    for index, step in enumerate(turn.steps if is_same else ()):
        theirs, ours = (steps[library]["steps"][index] for library in LIBRARIES)
        if outcome(theirs) != outcome(ours):
            trial.wrong.append(f"{where}, step {index} {step}:\n  3.9.52 {theirs}\n  lakebed {ours}")
            return
    if turn.library == "deeplake" and "error" in own:
        trial.given_up = f"{where}: 3.9.52 cannot read what it has written: {own['error']}"
        return
    for name, view in ((turn.library, own), ("the other", other), ("the copy", copied)):
        if "error" in view:
            trial.wrong.append(f"{where}: {name} cannot be read: {view['error']}")
            return
    tags = next(found for view in (own, other) if (found := view.pop("tags", None)) is not None)
    lost = {name: commit for name, commit in trial.tags.items() if tags.get(name) != commit}
    trial.wrong += [f"{where}: tags {lost} have become {tags}"] if lost else []
    trial.tags = tags
    trial.wrong += [f"{where}: read by {turn.library} and the other: {d}" for d in differing(own, other)][:3]
    for version, content in own["versions"].items():
        if version not in own["branches"]:
            kept = {key: value for key, value in content.items() if key != "branch"}
            before = trial.seen.setdefault(version, kept)
            trial.wrong += [
                f"{where}: commit {version} is not as it was: {d}" for d in differing(before, kept)
            ][:3]
    if is_same:
        found = differing(history(own), history(copied))
        trial.wrong += [f"{where}: done by {turn.library} and by the other: {d}" for d in found][:3]
    trial.compared += len(own["versions"])


def is_comparable(program: Program, turn: Turn, theirs: Json) -> bool:
    """Whether both libraries must make the same of a turn: without merges, or with merges that 3.9.52 does well."""
    merges = [f for step, f in zip(turn.steps, theirs["steps"], strict=True) if step["op"] == "merge"]
    # Where it refuses a merge it has committed what was not committed; lakebed has touched nothing.
    return all(f.get("done", "refused") is None for f in merges) or (
        program.plain and not any("error" in f for f in merges)
    )


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
    labels: dict[str, str] = {}
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
    (schema,), (change,) = version["diff"]["dataset"], version["diff"]["tensor"]
    if str(schema["message"]).startswith("Merge "):
        return kept  # 3.9.52 touches tensors that it does not change, and does not count what it then removes
    return {**kept, "changed": _changed(change)}


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
