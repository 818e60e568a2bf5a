"""A file system that passes everything on to a folder and writes down what it is told (FUSE).

    with recorded(source, mount, log):
        ...                      # work below `mount`; `mark(mount, "word")` writes a word into the log

Writes, fsync from compiled code, memory maps, child processes: whatever reaches the kernel is seen, in order.

It can be told to fail, too, as disks do::

    fail(mount, Fault("fsync", after=2, error=errno.EIO))
    calls(mount)                 # how many times each operation was called since

A failed fsync loses what it should have forced; with ``drops`` also for readers, as where memory forgets it as well.
"""

# Paths are strings here: so the kernel names them.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH208
from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration_tests.power.events import (
    ROOT,
    Event,
    Link,
    LostSync,
    Mark,
    Rename,
    Sync,
    Truncate,
    Unlink,
    Write,
    to_line,
)
from unit_tests.effort import PATIENCE

_MARK, _FAULT, _CALLS = "/.mark-", "/.fault-", "/.calls-"
CHANGES = (
    "create",
    "write",
    "fsync",
    "fsyncdir",
    "mkdir",
    "rename",
    "unlink",
    "rmdir",
    "truncate",
    "utimens",
)
"""Operations that change a disk."""
_STAT = (
    *("st_atime_ns", "st_ctime_ns", "st_mtime_ns"),
    *("st_gid", "st_mode", "st_nlink", "st_size", "st_uid", "st_ino"),
)


def why_not() -> str | None:
    """Say why nothing can be recorded here; None if it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "power loss is recorded through FUSE, and /dev/fuse cannot be opened here"
    if os.geteuid() and shutil.which("fusermount") is None:
        return "power loss is recorded through FUSE, and there is no fusermount here (apt install fuse)"
    try:
        import fuse  # noqa: F401
    except (ImportError, OSError) as error:
        return f"power loss is recorded through FUSE: pip install fusepy, apt install libfuse2 ({error})"
    return None


def mark(mount: Path, word: str) -> None:
    """Write a word into the log of a recorded folder."""
    os.path.lexists(f"{mount}{_MARK}{word}")


@dataclass(frozen=True, slots=True)
class Fault:
    """Let calls of an operation ("" is any that changes something) fail.

    Parameters
    ----------
    after
        How many calls succeed before.
    error
        Error number; 0 lets a write take only half of its bytes.
    times
        How many calls fail.
    drops
        Whether readers see the content before a failed fsync from then on.
    """

    operation: str
    after: int
    error: int
    times: int = 1
    drops: bool = False

    def fits(self, operation: str) -> bool:
        """Whether calls of this operation count."""
        return operation == self.operation or (not self.operation and operation in CHANGES)


def fail(mount: Path, fault: Fault | None) -> None:
    """Plan a fault, or none, and count calls from 0."""
    plan = [] if fault is None else [getattr(fault, name) for name in fault.__slots__]
    os.path.lexists(f"{mount}{_FAULT}{json.dumps(plan)}")


def calls(mount: Path) -> dict[str, int]:
    """Count the calls of each operation that changes something since :func:`fail`."""
    return {name: Path(f"{mount}{_CALLS}{name}").stat().st_size for name in CHANGES}


@contextlib.contextmanager
def recorded(source: Path, mount: Path, log: Path, *, folds: bool = False) -> Iterator[None]:
    """Mount a recorder of `source` at `mount`; `log` is complete when this ends.

    With ``folds`` names that differ in case only are one there, as by default on macOS and Windows.
    """
    command = [sys.executable, "-m", __spec__.name, str(source), str(mount), str(log)]
    command += ["--folds"] if folds else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + PATIENCE
        while not mount.is_mount():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise OSError(f"the recorder did not start: {process.communicate()[1]}")
            time.sleep(0.01)
        try:
            yield
        finally:
            _unmount(mount)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:  # somebody still has a file open there
                process.kill()


def _unmount(mount: Path) -> None:
    command = ["umount"] if os.geteuid() == 0 else ["fusermount", "-u"]
    for _ in range(10):
        if subprocess.run([*command, str(mount)], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return
        gc.collect()
        time.sleep(0.1)
    lazily = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount", "-u", "-z"]
    subprocess.run([*lazily, str(mount)], check=False)


class Recorder:
    """The operations of fusepy: what is asked, done below `source` and written to the log."""

    use_ns = True

    def __init__(self, source: str, log: Any, *, folds: bool = False) -> None:
        self._source = source
        self._folds = folds
        self._log = log
        self._serial = itertools.count(ROOT + 1)
        # Serial numbers by path, as they are named now, and by open file.
        self._nodes: dict[str, int] = {"/": ROOT}
        self._open: dict[int, int] = {}
        self._fault: Fault | None = None
        self._calls: Counter[str] = Counter()
        self._fitting = 0
        # Content of files at their last fsync, for those that lose what came after.
        self._forced: dict[int, bytes] = {}

    def __call__(self, operation: str, *arguments: Any) -> Any:
        """Entry of fusepy."""
        self._calls[operation] += 1
        if self._folds:
            arguments = tuple(a.lower() if isinstance(a, str) else a for a in arguments)
        try:
            fault = self._fault
            if fault is not None and fault.fits(operation):
                self._fitting += 1
                if 0 < self._fitting - fault.after <= fault.times:
                    return self._fail(fault, operation, arguments)
            return getattr(self, operation)(*arguments)
        except OSError as error:
            from fuse import FuseOSError

            raise FuseOSError(error.errno) from error

    def _fail(self, fault: Fault, operation: str, arguments: tuple[Any, ...]) -> int:
        if fault.error == 0 and operation == "write":
            path, data, offset, handle = arguments
            return self.write(path, data[: (len(data) + 1) // 2], offset, handle)
        if operation == "fsync":
            self._tell(LostSync(self._open[arguments[2]]))
            if fault.drops:
                path, _, handle = arguments
                zeros = bytes(os.fstat(handle).st_size)
                Path(self._real(path)).write_bytes(self._forced.get(self._open[handle], zeros))
        elif operation == "fsyncdir":
            self._tell(LostSync(self._nodes[arguments[0]]))
        raise OSError(fault.error, os.strerror(fault.error))

    def _tell(self, event: Event) -> None:
        self._log.write(to_line(event) + "\n")

    def _real(self, path: str) -> str:
        return self._source + path

    def _split(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rpartition("/")
        return self._nodes[folder or "/"], name

    def _renamed(self, old: str, new: str) -> None:
        self._nodes[new] = self._nodes.pop(old)
        for path in [path for path in self._nodes if path.startswith(old + "/")]:
            self._nodes[new + path.removeprefix(old)] = self._nodes.pop(path)

    # -- looking ---------------------------------------------------------------------------------------------------

    def init(self, path: str) -> None:
        """Nothing to prepare."""

    def destroy(self, path: str) -> None:
        self._log.flush()

    def getattr(self, path: str | None, handle: int | None = None) -> dict[str, int]:
        if path is not None and path.startswith(_MARK):
            self._tell(Mark(path.removeprefix(_MARK)))
        elif path is not None and path.startswith(_FAULT):
            plan = json.loads(path.removeprefix(_FAULT))
            self._fault = Fault(*plan) if plan else None
            self._calls.clear()
            self._fitting = 0
        elif path is not None and path.startswith(_CALLS):
            count = self._calls[path.removeprefix(_CALLS)]
            return {**self.getattr("/"), "st_mode": stat.S_IFREG | 0o400, "st_size": count}
        found = os.lstat(self._real(path)) if path is not None else os.fstat(handle or 0)
        return {name.removesuffix("_ns"): getattr(found, name) for name in _STAT}

    def readdir(self, path: str, handle: int) -> list[str]:
        return [".", "..", *os.listdir(self._real(path))]

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._real(path))
        names = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize")
        return {name: getattr(found, name) for name in names}

    def open(self, path: str, flags: int) -> int:
        handle = os.open(self._real(path), flags & ~os.O_APPEND)
        self._open[handle] = self._nodes[path]
        if flags & os.O_TRUNC:
            self._tell(Truncate(self._nodes[path], 0))
        return handle

    def read(self, path: str, length: int, offset: int, handle: int) -> bytes:
        return os.pread(handle, length, offset)

    def release(self, path: str, handle: int) -> int:
        self._open.pop(handle, None)
        os.close(handle)
        return 0

    # -- changing --------------------------------------------------------------------------------------------------

    def create(self, path: str, mode: int) -> int:
        handle = os.open(self._real(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        node = self._nodes[path] = self._open[handle] = next(self._serial)
        folder, name = self._split(path)
        self._tell(Link(folder, name, node, is_folder=False))
        return handle

    def write(self, path: str, data: bytes, offset: int, handle: int) -> int:
        done = os.pwrite(handle, data, offset)
        self._tell(Write(self._open[handle], offset, data[:done]))
        return done

    def truncate(self, path: str, length: int, handle: int | None = None) -> None:
        if handle is None:
            os.truncate(self._real(path), length)
            self._tell(Truncate(self._nodes[path], length))
        else:
            os.ftruncate(handle, length)
            self._tell(Truncate(self._open[handle], length))

    def fsync(self, path: str, datasync: int, handle: int) -> int:
        self._tell(Sync(self._open[handle]))
        with contextlib.suppress(OSError):  # opened for writing alone
            self._forced[self._open[handle]] = os.pread(handle, os.fstat(handle).st_size, 0)
        return 0

    def fsyncdir(self, path: str, datasync: int, handle: int) -> int:
        self._tell(Sync(self._nodes[path]))
        return 0

    def mkdir(self, path: str, mode: int) -> None:
        os.mkdir(self._real(path), mode)
        node = self._nodes[path] = next(self._serial)
        folder, name = self._split(path)
        self._tell(Link(folder, name, node, is_folder=True))

    def rename(self, old: str, new: str) -> None:
        os.rename(self._real(old), self._real(new))
        node = self._nodes[old]
        self._renamed(old, new)
        self._tell(Rename(*self._split(old), *self._split(new), node))

    def unlink(self, path: str) -> None:
        os.unlink(self._real(path))
        del self._nodes[path]
        self._tell(Unlink(*self._split(path)))

    def rmdir(self, path: str) -> None:
        os.rmdir(self._real(path))
        del self._nodes[path]
        self._tell(Unlink(*self._split(path)))

    def utimens(self, path: str, times: tuple[int, int]) -> None:
        os.utime(self._real(path), ns=times)

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self._real(path), mode)


def main() -> None:
    """Mount, and serve until somebody unmounts."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "mount", "log"):
        parser.add_argument(name)
    parser.add_argument("--folds", action="store_true")
    given = parser.parse_args()
    from fuse import FUSE

    with Path(given.log).open("w", encoding="utf-8", buffering=1 << 20) as log:
        recorder = Recorder(os.path.realpath(given.source), log, folds=given.folds)
        # One thread: the log has one order. Nothing is kept by the kernel that it should ask for.
        FUSE(
            recorder,
            given.mount,
            foreground=True,
            nothreads=True,
            big_writes=True,
            hard_remove=True,
            attr_timeout=0,
            entry_timeout=0,
        )


if __name__ == "__main__":
    main()
