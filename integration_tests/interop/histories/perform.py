"""Change the history of datasets step by step, or write down all of it, under either library.

    perform.py LIBRARY

Every line that comes in is a job, `{"path", "steps"}` or `{"path"}` (read it); a line goes out for each: what became of
the steps, or everything there is. A step names tensors, rows and branches by fractions of what there is, so that it can
be taken in any state, and both libraries take the same one where both have the same state.

Run by the interpreter of either environment: NumPy is all that is there besides.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import copy
import gc
import importlib
import io
import json
import logging
import os
import sys
import traceback
import warnings
from typing import Any

import numpy as np

Json = Any

KINDS: dict[str, Json] = {
    "number": {"dtype": "int64"},
    "ragged": {"dtype": "float32"},
    "text": {"htype": "text"},
    "label": {"htype": "class_label", "class_names": ["a", "b"]},
    "named": {"htype": "class_label", "class_names": ["a", "b"]},
}
"""What tensors are called, but for a number, and how they are made; new names of classes come in the last."""

LABELS = ("label", "named")


def sample(kind: str, number: int) -> Any:
    """A sample of a kind that is like no other."""
    if kind == "number":
        return number
    if kind == "ragged":
        return np.full((number % 3, 2), number, np.float32)
    if kind == "text":
        return f"text {number} é"
    return ["a", "b", f"name {number}" if kind == "named" else "a"][number % 3]


class Writer:
    """One dataset that takes steps."""

    def __init__(self, deeplake: Any, path: str) -> None:
        self.deeplake = deeplake
        self.path = path
        known = deeplake.exists(path)
        self.dataset = (deeplake.load if known else deeplake.empty)(path, verbose=False)

    def take(self, op: str, **given: Any) -> Json:
        """Take one step; return what became of it."""
        try:
            return {"done": getattr(self, op)(**given)}
        except Exception as raised:  # noqa: BLE001 (whatever comes is the result)
            classes = [c.__name__ for c in type(raised).__mro__]
            return {"error": classes, "text": traceback.format_exc()[-2000:]}

    def _tensor(self, t: float) -> str | None:
        names = sorted(self.dataset.tensors)
        return names[int(t * len(names))] if names else None

    def _other(self, branch: float) -> str | None:
        names = sorted(n for n in self.dataset.branches if n != self.dataset.branch and n[:5] != "auto_")
        return names[int(branch * len(names))] if names else None

    def _kind(self, name: str) -> str:
        return name.rsplit("/", 1)[-1].rstrip("0123456789")

    def create(self, name: str, kind: str) -> Json:
        if name not in self.dataset.tensors:
            self.dataset.create_tensor(name, **copy.deepcopy(KINDS[kind]))  # 3.9.52 adds names to the list
        return name

    def append(self, t: float, numbers: list[int]) -> Json:
        name = self._tensor(t)
        if name is None:
            return None
        tensor = self.dataset[name]
        for number in numbers:
            tensor.append(sample(self._kind(name), number))
        return [name, len(tensor)]

    def extend(self, t: float, numbers: list[int]) -> Json:
        name = self._tensor(t)
        if name is None:
            return None
        self.dataset[name].extend([sample(self._kind(name), number) for number in numbers])
        return [name, len(self.dataset[name])]

    def rows(self, numbers: list[int]) -> Json:
        """Add rows to every tensor; in a block, as one change."""
        names = sorted(self.dataset.tensors)
        with self.dataset:
            for name in names:
                self.dataset[name].extend([sample(self._kind(name), number) for number in numbers])
        return names

    def update(self, t: float, at: float, number: int) -> Json:
        name = self._tensor(t)
        if name is None or not len(self.dataset[name]) or self._kind(name) in LABELS:
            return None
        row = int(at * len(self.dataset[name]))
        self.dataset[name][row] = sample(self._kind(name), number)
        return [name, row]

    def pop(self, t: float, at: float) -> Json:
        name = self._tensor(t)
        if name is None or not len(self.dataset[name]) or self._kind(name) in LABELS:
            return None
        row = int(at * len(self.dataset[name]))
        self.dataset[name].pop(row)
        return [name, row]

    def clear(self, t: float) -> Json:
        name = self._tensor(t)
        if name is None or self._kind(name) in LABELS:
            return None
        self.dataset[name].clear()
        self.dataset[name].info["note"] = 0  # 3.9.52 forgets it, lakebed does not
        return name

    def note(self, key: str, value: int) -> Json:
        self.dataset.info[key] = value

    def tensor_note(self, t: float, value: int) -> Json:
        name = self._tensor(t)
        if name is not None:
            self.dataset[name].info["note"] = value
        return name

    def rename(self, t: float, number: int) -> Json:
        name = self._tensor(t)
        if name is None:
            return None
        new = f"{name.rstrip('0123456789')}{number}"
        self.dataset.rename_tensor(name, new)
        return [name, new]

    def delete(self, t: float) -> Json:
        name = self._tensor(t)
        if name is None or len(self.dataset.tensors) < 3:
            return None
        self.dataset.delete_tensor(name)
        return name

    def commit(self, label: str) -> Json:
        self.dataset.commit(label)

    def checkout(self, branch: float) -> Json:
        name = self._other(branch)
        if name is not None:
            self.dataset.checkout(name)
        return name

    def start(self, name: str) -> Json:
        self.dataset.checkout(name, create=True)

    def go_back(self, commit: float, number: int) -> Json:
        """Write on an old commit, which starts a branch, and come back."""
        commits = [entry["commit"] for entry in self.dataset.commits]
        if not commits:
            return None
        branch, at = self.dataset.branch, int(commit * len(commits))
        if self.dataset.has_head_changes:
            self.dataset.commit("before going back")
            at += 1
            commits = [entry["commit"] for entry in self.dataset.commits]
        self.dataset.checkout(commits[min(at, len(commits) - 1)])
        found = self.append(0.0, [number])
        self.dataset.commit(f"beside {number}")
        self.dataset.checkout(branch)
        return found

    def merge(self, branch: float, resolution: str | None, removed: bool, once: bool) -> Json:
        """Merge another branch; ``once`` only if neither line has a merge in it."""
        name = self._other(branch)
        if name is None or (once and (self._is_merged(self.dataset.branch) or self._is_merged(name))):
            return None
        self.dataset.merge(name, conflict_resolution=resolution, delete_removed_tensors=removed)
        return name

    def _is_merged(self, branch: str) -> bool:
        line = self.deeplake.load(f"{self.path}@{branch}", read_only=True, verbose=False)
        return any(str(entry["message"]).startswith("Merge ") for entry in line.commits)

    def reset(self) -> Json:
        if self.dataset.commits:
            self.dataset.reset()

    def drop(self, branch: float) -> Json:
        name = self._other(branch)
        if name is not None:
            self.dataset.delete_branch(name)
        return name

    def reopen(self) -> Json:
        self.dataset = None
        self.dataset = self.deeplake.load(self.path, verbose=False)

    def tag(self, name: str) -> Json:
        """Name the last commit of main, which nobody drops, where the library knows tags."""
        here = self.dataset.branch == "main" and self.dataset.commits
        if here and hasattr(self.dataset, "create_tag"):
            self.dataset.create_tag(name)


def plain(value: Any) -> Json:
    """A value as JSON holds it: sets as ascending lists, arrays as type, shape and bytes."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc":
            return {"values": value.tolist()}
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.name, list(value.shape), content]}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set):
        return sorted(value)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def content(dataset: Any) -> Json:
    """Everything of the version that is checked out, and what it changed."""
    tensors = {}
    for name, tensor in dataset.tensors.items():
        about = {"htype": tensor.htype, "info": plain(dict(tensor.info))}
        tensors[name] = {**about, "rows": [plain(tensor[row].numpy()) for row in range(len(tensor))]}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        dataset.diff()
    return {
        "branch": dataset.branch,
        "tensors": tensors,
        "groups": sorted(dataset.groups),
        "info": plain(dict(dataset.info)),
        "commits": [{**entry, "time": str(entry["time"])} for entry in dataset.commits],
        "diff": plain(dataset.diff(as_dict=True)),
        "printed": printed.getvalue(),
    }


def everything(deeplake: Any, path: str) -> Json:
    """All branches and all commits on them, and the differences of every two branches."""
    dataset = deeplake.load(path, read_only=True, verbose=False)
    branches = sorted(dataset.branches)
    versions: dict[str, Json] = {}
    for branch in branches:
        dataset.checkout(branch)
        versions[branch] = content(dataset)
        for entry in versions[branch]["commits"]:
            if entry["commit"] not in versions:
                dataset.checkout(entry["commit"])
                versions[entry["commit"]] = content(dataset)
    pairs = [(a, b) for a in branches for b in branches if a < b]
    dataset.checkout("main")
    differences = {f"{a} and {b}": plain(dataset.diff(a, b, as_dict=True)) for a, b in pairs}
    found = {"branches": branches, "versions": versions, "differences": differences}
    if hasattr(dataset, "create_tag"):
        found["tags"] = {name: tag.commit for name, tag in dataset.get_tags().items()}
    return found


def tried(function: Any, *arguments: Any) -> Json:
    """The result, or the error."""
    try:
        return function(*arguments)
    except Exception:  # noqa: BLE001 (whatever comes is the result)
        return {"error": traceback.format_exc()[-3000:]}


def write(deeplake: Any, path: str, steps: list[Json]) -> Json:
    """Take steps, beginning on branch main."""
    writer = Writer(deeplake, path)
    found = [writer.take(**step) for step in steps]
    writer.dataset.flush()
    return {"steps": found}


def answer(deeplake: Any, job: Json) -> bytes:
    """Do a job in a process of its own, at whose end 3.9.52 gives its locks back."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe, contextlib.redirect_stdout(io.StringIO()):
            if "steps" in job:
                found = tried(write, deeplake, job["path"], job["steps"])
            else:
                found = tried(everything, deeplake, job["path"])
            gc.collect()
            atexit._run_exitfuncs()
            pipe.write(json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return found


def main(library: str) -> None:
    """Do one job after the other."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "wb")
    deeplake = importlib.import_module(library)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        answers.write(answer(deeplake, json.loads(line)) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
