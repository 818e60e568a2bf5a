"""The write command: open the datasets, feed the sync from its channel, and end it in any case."""

import contextlib
import fcntl
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Sequence

import lakebed
from destination_deeplake.catalog import StreamPlan
from destination_deeplake.channel import STDIO, Channel, Format, read_channel
from destination_deeplake.columns import Lanes, PartitionIds
from destination_deeplake.config import Deletes, DestinationConfig, Rejected
from destination_deeplake.failures import IncompleteSourceError
from destination_deeplake.lake import Lake
from destination_deeplake.memory import keep_little
from destination_deeplake.messages import Output
from destination_deeplake.parallel import for_each
from destination_deeplake.progress import opening
from destination_deeplake.stopping import Stop
from destination_deeplake.stream.writer import StreamWriter, open_stream
from destination_deeplake.sync import PACE, Pace, Sync, unreadable
from destination_deeplake.wire import WireError
from lakebed.runtime.failures import OnFailure
from lakebed.upserts.putting_off import MergePutOffError

BLOCK_BYTES = 4 << 20
_PIPE_BYTES = 1 << 20


def begin(
    config: DestinationConfig,
    plans: Sequence[StreamPlan],
    out: Output,
    pace: Pace = PACE,
    time_left: Callable[[], float | None] = lambda: None,
    channel: Channel = STDIO,
    locks: Sequence[threading.Lock] = (),
) -> Sync:
    """Open the dataset of every stream and return the sync; `locks` are those of the lanes.

    Raises
    ------
    ConfigError, lakebed.errors.LakebedError, OSError
        If a dataset cannot be opened; then all datasets are closed.
    MergePutOffError
        If `time_left` says that the process is to end, and an interrupted sync left rows that must be merged first.
    """
    lakebed.config.TELL_NEW_CLASSES = False  # standard output is reserved for messages to the platform
    lakebed.config.REMEMBER_LINKS = False  # the source has chosen the links, not the user
    lake = Lake(config.place, config.branch)
    keeps = config.rejected is Rejected.KEEP
    ids = None
    if channel.is_parallel:
        ids = PartitionIds.PROTOBUF if channel.format is Format.PROTOBUF else PartitionIds.JSON
    lanes = Lanes(tuple(locks), ids)
    opened: list[StreamWriter] = []

    def checkpoint() -> None:
        if time_left() is not None:
            raise MergePutOffError

    def open_one(plan: StreamPlan) -> StreamWriter:
        writer = open_stream(
            lake,
            plan,
            hard_deletes=config.deletes is Deletes.HARD,
            keep_refused=keeps,
            checkpoint=checkpoint,
            deletion_days=config.deletion_days,
            lanes=lanes,
        )
        opened.append(writer)
        return writer

    def release() -> None:
        for writer in opened:
            writer.release()

    with OnFailure(release):
        writers = for_each(plans, open_one)
    for rule in config.unmatched(plan.dataset_key for plan in plans):
        out.log("WARN", f"{rule.where} ({rule.name!r}) matches no stream of this sync; check the name.")
    for writer in writers:
        for note in writer.notes:
            out.log("WARN", f"Stream {str(writer.plan)!r}: {note}.")
    for line in opening(str(config.place), config.branch, writers):
        out.log("INFO", line)
    sync_id = next((plan.sync_id for plan in plans if plan.sync_id is not None), None)
    letters = None
    if keeps:
        # Imported here, because most syncs have no dead letters.
        from destination_deeplake.letters import DeadLetters

        names = {plan.key: plan.dataset_key for plan in plans}
        letters = DeadLetters(config.place.url, config.place.creds, sync_id, names)
    return Sync(
        writers,
        out,
        pace,
        letters=letters,
        connection=config.connection,
        without_status=config.without_status,
        time_left=time_left,
        channel=channel,
    )


def write(
    config: DestinationConfig,
    plans: Sequence[StreamPlan],
    descriptor: int,
    out: Output,
    pace: Pace = PACE,
) -> int:
    """Run one sync from a file descriptor and return the exit status.

    Raises
    ------
    Exception
        The error that ended the sync early; all complete records before it are written and acknowledged.
    """
    keep_little()
    channel = read_channel(os.environ)
    with Stop() as stop:
        locks = [threading.Lock() for _ in range(channel.lanes)]
        try:
            sync = begin(config, plans, out, pace, stop.time_left, channel, locks)
        except MergePutOffError:
            out.log("WARN", f"Stopped by {_signal(stop)} before the first record.")
            return _stopped(stop)
        try:
            if channel.is_parallel:
                _read_sockets(sync, stop, out, channel.paths, locks)
            else:
                _read_input(sync, stop, descriptor)
            if stop.by is None:
                sync.complete()
            else:
                out.log("WARN", f"Stopped by {_signal(stop)}; writing the records received so far.")
        finally:
            sync.stop()
        return _stopped(stop)


def blocks(
    descriptor: int, stop: Stop, seconds_left: Callable[[], float | None]
) -> Iterator[memoryview | None]:
    """Yield blocks of input as they arrive; None each time a deadline passes without input.

    The blocks end with the input, or with a signal to stop.

    Parameters
    ----------
    descriptor : int
        File descriptor of the input.
    stop : Stop
        Receives signals.
    seconds_left : callable
        Returns the seconds until the deadline, None without a deadline; called before each wait.

    Yields
    ------
    memoryview or None
        Valid until the next step; the buffer is used again.
    """
    # A pipe of 64 KiB needs a system call per hundred records, so enlarge it if possible.
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


def _read_input(sync: Sync, stop: Stop, descriptor: int) -> None:
    """Feed a sync from a file descriptor until its end or a signal."""
    for block in blocks(descriptor, stop, sync.seconds_asleep):
        if block is None:
            sync.idle()
        else:
            sync.feed(block)


def _read_sockets(
    sync: Sync, stop: Stop, out: Output, paths: Sequence[str], locks: Sequence[threading.Lock]
) -> None:
    """Feed a sync from sockets until all of them end or a signal arrives."""
    # Imported here, because nearly all syncs read standard input.
    from destination_deeplake.channel import connect
    from destination_deeplake.lanes import SocketLanes

    sockets = connect(paths, out.log, is_stopped=lambda: stop.by is not None)
    torn = []
    with SocketLanes(sockets, sync.wires, locks, stop, lambda: sync.room) as lanes:
        for turn in lanes.turns(sync.seconds_asleep):
            if turn is None:
                sync.idle()
                continue
            sync.take_in(turn.lane, turn.events, turn.nbytes)
            if turn.is_torn:
                torn.append(paths[turn.lane])
            elif isinstance(turn.error, WireError):
                raise unreadable(turn.error, paths[turn.lane])
            elif turn.error is not None:
                raise turn.error
    if torn:
        raise IncompleteSourceError(
            f"The source ended in the middle of a message on {', '.join(torn)}. Complete records are kept, "
            "streams to be overwritten still show their old rows unless they were complete. Run the sync again."
        )


def _signal(stop: Stop) -> str:
    """Return the name of the signal that ended the input."""
    return "a signal" if stop.by is None else signal.Signals(stop.by).name


def _stopped(stop: Stop) -> int:
    """Return the exit status: 0, or that of a program ended by a signal."""
    return 0 if stop.by is None else 128 + stop.by
