"""Standard input as blocks of bytes, with a clock and an ear for signals; it reads only what is there."""

import contextlib
import fcntl
import os
import select
from collections.abc import Callable, Iterator

from destination_deeplake.stopping import Stop

BLOCK_BYTES = 4 << 20
_PIPE_BYTES = 1 << 20


def blocks(
    descriptor: int, stop: Stop, seconds_left: Callable[[], float | None]
) -> Iterator[memoryview | None]:
    """Yield blocks of input as they come; None each time a deadline passes without any.

    They end with the input, or with a signal to stop.

    Parameters
    ----------
    descriptor : int
        Where the input comes from.
    stop : Stop
        Signals.
    seconds_left : callable
        Asked before each wait: seconds to the deadline, None for no deadline.

    Yields
    ------
    memoryview or None
        Valid until the next step; the buffer is used again.
    """
    # A pipe of 64 KiB makes one system call of each hundred records; where it can grow, let it.
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    buffer = memoryview(bytearray(BLOCK_BYTES))
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(stop.descriptor, select.POLLIN)
    while stop.by is None:
        left = seconds_left()
        ready = poll.poll(None if left is None else max(0.0, left) * 1000)
        if stop.by is not None:
            return
        if not any(found == descriptor for found, _ in ready):
            stop.heard()
            yield None
            continue
        count = os.readv(descriptor, [buffer])
        if count == 0:
            return
        yield buffer[:count]
