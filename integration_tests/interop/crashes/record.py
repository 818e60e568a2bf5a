"""Record every file write of 3.9.52 during some operations, for ``unit_tests/lakebed/crash_states.py``.

Run it with the Python that has Deep Lake 3.9.52::

    BUGGER_OFF=true PYTHON integration_tests/interop/crashes/record.py unit_tests/data/crashes-3.9.52.json.xz

A log is JSON: for each operation the files before it, the changes in order (``[path, content]``, content null where a
file was removed), and what every branch held before and after. Contents are numbers of blobs, which are base64. A file
that is opened for writing is empty until it is written: whoever replays a prefix may also cut its last change short.
"""

# Paths are strings, as audit events have them.
# ruff: noqa: PTH100, PTH110, PTH118, PTH123
from __future__ import annotations

import base64
import json
import lzma
import os
import pathlib
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import deeplake
import numpy as np

Op = Callable[[Any], None]


class Recorder:
    """Watches one folder through the interpreter's audit events; what a file got is read when it is touched again."""

    def __init__(self) -> None:
        self.root: str | None = None
        self.log: list[tuple[str, bytes | None]] = []
        self._open: dict[str, int] = {}
        sys.addaudithook(self._event)

    def start(self, root: str) -> None:
        """Begin a log."""
        self.log, self._open, self.root = [], {}, root

    def stop(self) -> list[tuple[str, bytes | None]]:
        """End the log and return it."""
        for path in list(self._open):
            self._settle(path)
        self.root = None
        return self.log

    def _event(self, event: str, args: tuple[Any, ...]) -> None:
        root = self.root
        if root is None or not args or not isinstance(args[0], str | os.PathLike):
            return
        path = os.path.abspath(args[0])
        if not path.startswith(f"{root}{os.sep}"):
            return
        if event == "open":
            if args[2] & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_CREAT):
                self._settle(path)
                self._open[path] = len(self.log)
                self.log.append((os.path.relpath(path, root), b""))
        elif event == "os.remove":
            self._removed(path)
        elif event == "shutil.rmtree":
            for folder, _, names in os.walk(path, topdown=False):
                for name in sorted(names):
                    self._removed(os.path.join(folder, name))
        elif event in ("os.rename", "os.link", "os.truncate"):
            raise AssertionError(f"{event} {args} is not recorded")

    def _settle(self, path: str) -> None:
        if path in self._open and os.path.exists(path):
            root, self.root = self.root, None  # reading is an event too
            at = self._open.pop(path)
            with open(path, "rb") as file:
                self.log[at] = (self.log[at][0], file.read())
            self.root = root

    def _removed(self, path: str) -> None:
        self._settle(path)
        self.log.append((os.path.relpath(path, self.root), None))


def files(root: str) -> dict[str, bytes]:
    """Return every file of a folder."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = pathlib.Path(path).read_bytes()
    return found


def content(root: str) -> dict[str, Any]:
    """Return what every branch holds: samples of visible tensors, as 3.9.52 reads them from a copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "copy")
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns("*.lock"))
        main = deeplake.load(copy, read_only=True)
        return {branch: held(deeplake.load(f"{copy}@{branch}", read_only=True)) for branch in main.branches}


def held(ds: Any) -> dict[str, Any]:
    """Return the samples of the visible tensors of a version, by commit for all of its line."""
    return {name: [sample(tensor[i]) for i in range(len(tensor))] for name, tensor in ds.tensors.items()}


def sample(one: Any) -> Any:
    """Return a sample in a form that JSON has."""
    if one.htype == "text":
        return str(one.numpy()[0])
    value = one.numpy(aslist=True) if one.is_sequence else one.numpy()
    return [array(v) for v in value] if isinstance(value, list) else array(value)


def array(value: Any) -> Any:
    """Return an array as dtype, shape and values."""
    return [value.dtype.name, list(value.shape), np.ravel(value).tolist()]


def row(i: int) -> dict[str, Any]:
    """Return row ``i`` of the dataset: everything in it says which one it is."""
    random = np.random.default_rng(i)
    return {
        "number": np.int32(1000 + i),
        "g/ragged": np.full((i % 3 + 1, 2), i, np.float32),
        "words": f"row {i} " * (i % 4 + 1),
        "image": random.integers(0, 255, (3 + i % 2, 4, 3), dtype=np.uint8),
    }


def new(root: str) -> Any:
    """Make the dataset that all operations begin with."""
    ds = deeplake.empty(root)
    with ds:
        ds.create_tensor("number", dtype="int32")
        ds.create_tensor("g/ragged", dtype="float32")
        ds.create_tensor("words", htype="text", chunk_compression="lz4")
        ds.create_tensor("image", htype="image", sample_compression="png")
    return ds


def fresh(root: str) -> Any:
    """Five rows, nothing committed."""
    ds = new(root)
    with ds:
        for i in range(5):
            ds.append(row(i))
    return ds


def committed(root: str) -> Any:
    """Five rows in a commit."""
    ds = fresh(root)
    ds.commit("five rows")
    return ds


def grown(root: str) -> Any:
    """Five rows in a commit, two after it."""
    ds = committed(root)
    with ds:
        ds.append(row(5))
        ds.append(row(6))
    return ds


def branched(root: str) -> Any:
    """Two branches that both added rows to what they have in common, and changed one."""
    ds = committed(root)
    ds.checkout("side", create=True)
    with ds:
        ds.append(row(20))
        ds.number[1] = np.int32(7777)
    ds.commit("on the side")
    ds.checkout("main")
    with ds:
        ds.append(row(10))
    ds.commit("on main")
    return ds


def large(root: str) -> Any:
    """Many chunks, tiles, sequences and lz4 samples."""
    ds = deeplake.empty(root)
    with ds:
        ds.create_tensor("many", dtype="int64", max_chunk_size=64)
        ds.create_tensor("boxes", htype="sequence[bbox]")
        ds.create_tensor("tiled", dtype="uint8", tiling_threshold=600, sample_compression="lz4")
        ds.create_tensor("labels", htype="class_label", class_names=["a", "b"])
        for i in range(4):
            ds.append(big_row(i))
    return ds


def big_row(i: int) -> dict[str, Any]:
    """Return a row of ``large``."""
    return {
        "many": np.arange(4) + i,
        "boxes": [np.full((1, 4), 10 * i + k, np.float32) for k in range(i % 3)],
        "tiled": np.full((40 if i % 2 else 4, 30), i + 1, np.uint8),
        "labels": "ab"[i % 2],
    }


def on_rows(start: int, count: int) -> Op:
    """Append rows, one call."""

    def act(ds: Any) -> None:
        rows = [row(i) for i in range(start, start + count)]
        ds.extend({name: [r[name] for r in rows] for name in rows[0]})

    return act


def append(i: int) -> Op:
    """Append one row."""
    return lambda ds: ds.append(row(i))


def update(ds: Any) -> None:
    """Replace parts of three rows; shapes change."""
    with ds:
        ds.number[1] = np.int32(-5)
        ds["g/ragged"][2] = np.full((4, 2), 99, np.float32)
        ds.words[0] = "another text, a longer one than before"
        ds.image[3] = np.zeros((5, 5, 3), np.uint8)


def pop(ds: Any) -> None:
    """Remove a row from the middle."""
    ds.pop(1)


def sizes(ds: Any) -> None:
    """Change and remove among many chunks and tiles."""
    with ds:
        ds.many[1] = np.arange(4) * 100
        ds.tiled[1] = np.full((6, 6), 200, np.uint8)


OPERATIONS: dict[str, tuple[Callable[[str], Any], Op]] = {
    "append": (fresh, append(5)),
    "append to nothing": (new, append(0)),
    "append after commit": (committed, append(5)),
    "append again after commit": (grown, append(7)),
    "extend": (fresh, on_rows(5, 3)),
    "extend after commit": (committed, on_rows(5, 3)),
    "update": (fresh, update),
    "update after commit": (committed, update),
    "update again after commit": (grown, update),
    "pop": (fresh, pop),
    "pop after commit": (committed, pop),
    "pop the last": (fresh, lambda ds: ds.pop(4)),
    "merge": (branched, lambda ds: ds.merge("side", conflict_resolution="theirs")),
    "create tensor": (fresh, lambda ds: ds.create_tensor("late", htype="image", sample_compression="png")),
    "create tensor after commit": (committed, lambda ds: ds.create_tensor("late", dtype="int8")),
    "delete tensor": (fresh, lambda ds: ds.delete_tensor("image")),
    "delete tensor after commit": (grown, lambda ds: ds.delete_tensor("words")),
    "rename": (committed, lambda ds: ds.rename_tensor("words", "texts")),
    "commit": (fresh, lambda ds: ds.commit("more")),
    "commit again": (grown, lambda ds: ds.commit("more")),
    "branch": (committed, lambda ds: ds.checkout("new", create=True)),
    "branch with changes": (grown, lambda ds: ds.checkout("new", create=True)),
    "delete branch": (branched, lambda ds: ds.delete_branch("side")),
    "reset": (grown, lambda ds: ds.reset()),
    "clear": (fresh, lambda ds: ds.words.clear()),
    "clear after commit": (grown, lambda ds: ds.image.clear()),
    "large append": (large, lambda ds: ds.append(big_row(5))),
    "large extend": (
        large,
        lambda ds: ds.extend({k: [big_row(i)[k] for i in (6, 7, 8)] for k in big_row(0)}),
    ),
    "large update": (large, sizes),
    "large pop": (large, lambda ds: ds.pop(1)),
}


def main(target: pathlib.Path) -> None:
    """Record everything and write the archive."""
    warnings.simplefilter("ignore")
    recorder, logs = Recorder(), {}
    blobs: dict[bytes, int] = {}

    def blob(data: bytes | None) -> int | None:
        return None if data is None else blobs.setdefault(data, len(blobs))

    for name, (make, act) in OPERATIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "ds")
            ds = make(root)
            ds.flush()
            before, had = files(root), content(root)
            recorder.start(root)
            act(ds)
            ds.flush()
            log = recorder.stop()
            state: dict[str, bytes | None] = {**before, **dict(log)}
            after = files(root)
            missed = {k for k in state.keys() | after.keys() if state.get(k) != after.get(k)}
            assert not missed, f"{name}: writes of {missed} were missed"
            logs[name] = {
                "files": {path: blob(data) for path, data in sorted(before.items())},
                "writes": [[path, blob(data)] for path, data in log],
                "before": had,
                "after": content(root),
            }
            sys.stdout.write(f"{name}: {len(log)} writes\n")
    document = {"logs": logs, "blobs": [base64.b64encode(data).decode() for data in blobs]}
    text = json.dumps(document, separators=(",", ":"), default=lambda value: value.tolist())
    target.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
