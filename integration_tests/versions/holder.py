"""A writer that does one step at a time, as it is told: holder.py PATH LEASE_SECONDS.

Each line on stdin is a step, and each is answered by one line: ``ok``, or the name of the error.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from lakebed import config
from lakebed.errors import LakebedError
from lakebed.storage.base import Data
from lakebed.storage.local import LocalStorage
from lakebed.testing.faulty import FaultyStorage
from unit_tests.proofs.observe import open_on


class Stopping(FaultyStorage):
    """Stops the process right before the next replacement of the version tree."""

    is_armed = False

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        if self.is_armed and key == "version_control_info.json":
            self.is_armed = False
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().put_if(key, data, etag)


class Holder:
    """One open dataset."""

    def __init__(self, path: str) -> None:
        self.storage = Stopping(LocalStorage(path))
        self.ds = open_on(self.storage)

    def append(self, value: str) -> None:
        self.ds.append({"n": int(value)})

    def flush(self, _: str) -> None:
        self.ds.flush()

    def commit(self, message: str) -> None:
        self.ds.commit(message)

    def hold(self, _: str) -> None:
        self.ds.__enter__()

    def stop_at_swap(self, _: str) -> None:
        self.storage.is_armed = True

    def close(self, _: str) -> None:
        self.ds.close()

    def reopen(self, _: str) -> None:
        self.ds = open_on(self.storage)


def main() -> None:
    path, lease = sys.argv[1:]
    config.LEASE_SECONDS = float(lease)
    holder = Holder(path)
    print("ok", flush=True)  # noqa: T201
    for line in sys.stdin:
        step, _, argument = line.strip().partition(" ")
        act: Callable[[str], None] = getattr(holder, step)
        try:
            act(argument)
        except LakebedError as error:
            print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201
        else:
            print("ok", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
