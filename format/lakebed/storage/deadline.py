"""When whoever waits for a storage gives up: known to the calls inside a ``with``, and to no others.

A request that is under way cannot be taken back; the thread that makes it is left to its own patience, which ends.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, TypeVar

from lakebed.errors import StorageUnavailableError
from lakebed.runtime import clock

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
        From now on; None for no end but that of the storage's own patience.
    timeout
        Of which it is the rest, for messages.
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
    """Return the seconds that are left, not below 0; None where there is no end."""
    found = _deadline.get()
    return None if found is None else max(0.0, found[0] - clock.monotonic())


def late(doing: str, where: str) -> StorageUnavailableError:
    """Return the error of a request that was given up."""
    return StorageUnavailableError(
        f"cannot {doing} {where}: no answer within {told()}. See that the server can be reached, or pass a larger "
        "timeout="
    )


def told() -> str:
    """Return the timeout as a message names it."""
    found = _deadline.get()
    return f"the timeout of {0.0 if found is None else found[1]:g} seconds"


def within(call: Callable[[], T], doing: str, where: Callable[[], str]) -> T:
    """Make a call, and wait for it no longer than until the deadline; Ctrl-C ends the waiting as well.

    Parameters
    ----------
    doing, where
        What is tried where, for messages.

    Raises
    ------
    StorageUnavailableError
        If it did not end in time; it may still come to an end, which nobody learns of.
    """
    left = remaining()
    if left is None:
        return call()
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            errors.append(error)
        finally:
            done.set()

    if left <= 0:
        raise late(doing, where())
    threading.Thread(target=copy_context().run, args=(run,), name="lakebed-request", daemon=True).start()
    if not done.wait(left):
        raise late(doing, where())
    if errors:
        raise errors[0]
    return results[0]
