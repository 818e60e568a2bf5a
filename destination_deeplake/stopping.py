"""Signals to stop: waiting ends at once, and running work can ask for the remaining time.

A blocking read would miss deadlines and SIGTERM, since Python resumes interrupted calls. So all waits include
`Stop.descriptor`.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from types import FrameType, TracebackType
from typing import Self

_GRACE_SECONDS = 9.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Handler of SIGTERM and SIGINT for the duration of a `with` block.

    Attributes
    ----------
    by : int or None
        Number of the received signal, or None.
    descriptor : int
        Descriptor that becomes readable after a signal or `wake`.
    """

    def __init__(self) -> None:
        self.by: int | None = None
        self._ends_at: float | None = None
        self.descriptor, self._wake = os.pipe()
        self._restore: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._wake, False)
        for number in _SIGNALS:
            with contextlib.suppress(ValueError):  # only the main thread can handle signals
                self._restore.append(partial(signal.signal, number, signal.signal(number, self._stop)))
        with contextlib.suppress(ValueError):
            before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
            self._restore.append(partial(signal.set_wakeup_fd, before))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for restore in reversed(self._restore):
            restore()
        os.close(self.descriptor)
        os.close(self._wake)

    def wake(self) -> None:
        """Wake the waiting thread; callable from any thread."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full, so the thread will wake anyway
            os.write(self._wake, b"\0")

    def heard(self) -> None:
        """Empty the descriptor."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def time_left(self) -> float | None:
        """Return the seconds until the process is killed; None if no signal asked it to stop."""
        return None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        if self.by is None:
            self.by = number
            # Published data is safe however the process ends, so exit even if the reader of the output does not read.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)
            self._ends_at = time.monotonic() + _GRACE_SECONDS
