"""A file system that passes everything on to a folder and writes down what it is told (FUSE).

    with recorded(source, mount, log):
        ...                      # work below `mount`; `mark(mount, "word")` writes a word into the log

Writes, fsync from compiled code, memory maps, child processes: whatever reaches the kernel is seen, in order.
"""

# Paths are strings here: so the kernel names them.
# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH208
from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from integration_tests.power.events import (
    ROOT,
    Event,
    Link,
    Mark,
    Rename,
    Sync,
    Truncate,
    Unlink,
    Write,
    to_line,
)

_MARK = "/.mark-"
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


@contextlib.contextmanager
def recorded(source: Path, mount: Path, log: Path) -> Iterator[None]:
    """Mount a recorder of `source` at `mount`; `log` is complete when this ends."""
    command = [sys.executable, "-m", __spec__.name, str(source), str(mount), str(log)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 20
        while not mount.is_mount():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise OSError(f"the recorder did not start: {process.communicate()[1]}")
            time.sleep(0.01)
        try:
            yield
        finally:
            _unmount(mount)
            process.wait(20)


def _unmount(mount: Path) -> None:
    command = ["umount"] if os.geteuid() == 0 else ["fusermount", "-u"]
    for _ in range(50):
        if subprocess.run([*command, str(mount)], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(["fusermount", "-u", "-z", str(mount)], check=False)


class Recorder:
    """The operations of fusepy: what is asked, done below `source` and written to the log."""

    use_ns = True

    def __init__(self, source: str, log: Any) -> None:
        self._source = source
        self._log = log
        self._serial = itertools.count(ROOT + 1)
        # Serial numbers by path, as they are named now, and by open file.
        self._nodes: dict[str, int] = {"/": ROOT}
        self._open: dict[int, int] = {}

    def __call__(self, operation: str, *arguments: Any) -> Any:
        """Entry of fusepy."""
        try:
            return getattr(self, operation)(*arguments)
        except OSError as error:
            from fuse import FuseOSError

            raise FuseOSError(error.errno) from error

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

    def getattr(self, path: str, handle: int | None = None) -> dict[str, int]:
        if path is not None and path.startswith(_MARK):
            self._tell(Mark(path.removeprefix(_MARK)))
        found = os.lstat(self._real(path)) if handle is None else os.fstat(handle)
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

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        os.utime(self._real(path), ns=times)

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(self._real(path), mode)


def main() -> None:
    """Mount, and serve until somebody unmounts."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "mount", "log"):
        parser.add_argument(name)
    given = parser.parse_args()
    from fuse import FUSE

    with Path(given.log).open("w", encoding="utf-8", buffering=1 << 20) as log:
        recorder = Recorder(os.path.realpath(given.source), log)
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
