"""Deadlines for requests to storages, which apply to the calls inside a ``with``.

A request under way cannot be cancelled: its thread continues until the request itself times out.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, TypeVar

from lakebed.errors import StorageUnavailableError
from lakebed.runtime import clock
from lakebed.runtime.failures import Outcome, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

_deadline: ContextVar[tuple[float, float] | None] = ContextVar("deadline", default=None)


@contextmanager
def deadline(seconds: float | None, timeout: float | None) -> Iterator[None]:
    """Let requests inside a ``with`` fail after some time.

    Parameters
    ----------
    seconds
        Time from now; None for the timeouts of the storage alone.
    timeout
        The whole timeout, of which ``seconds`` remain, for messages.
    """
    if seconds is None or timeout is None:
        yield
        return
    token = _deadline.set((clock.monotonic() + seconds, timeout))
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining() -> float | None:
    """Return the remaining seconds, not below 0; None if no deadline is set."""
    found = _deadline.get()
    return None if found is None else max(0.0, found[0] - clock.monotonic())


def late(doing: str, where: str) -> StorageUnavailableError:
    """Return the error of a request that missed its deadline."""
    return StorageUnavailableError(
        f"cannot {doing} {where}: no answer within {told()}. Check that the server can be reached, or pass a larger "
        "timeout="
    )


def told() -> str:
    """Return the timeout as text for a message."""
    found = _deadline.get()
    return f"the timeout of {0.0 if found is None else found[1]:g} seconds"


def within(call: Callable[[], T], doing: str, where: Callable[[], str]) -> T:
    """Make a call and wait for it no longer than the deadline; Ctrl-C also ends the wait.

    Parameters
    ----------
    doing, where
        Action and place, for messages.

    Raises
    ------
    StorageUnavailableError
        If the call did not end in time; it may still end later, unnoticed.
    """
    left = remaining()
    if left is None:
        return call()
    outcomes: list[Outcome[T]] = []
    done = threading.Event()

    def run() -> None:
        outcomes.append(outcome(call))
        done.set()

    if left <= 0:
        raise late(doing, where())
    threading.Thread(target=copy_context().run, args=(run,), name="lakebed-request", daemon=True).start()
    if not done.wait(left):
        raise late(doing, where())
    return outcomes[0].result()
