"""Reading ahead over a network: what will be needed is asked for while what came before it is being used.

`ahead` is for whoever knows which rows come next, as loaders do::

    with ahead([Wanted(images, rows), Wanted(labels, rows)]):
        for row in rows:
            images.value(row), labels.value(row)

Inside, samples are read as ever; what is on its way is waited for. How much is asked for ahead begins small and grows
while the reader has to wait, up to ``config.AHEAD_BYTES`` for all of a dataset, so that the first samples come soon and
no more memory is taken than keeps the network busy. Storage on this machine is not read ahead.
"""

from __future__ import annotations

import heapq
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple, Self

from lakebed import config
from lakebed.errors import LakebedError
from lakebed.reading.remote.plan import Window, headers, tiles, windows
from lakebed.reading.remote.tasks import submit
from lakebed.reading.stored import StoredSamples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lakebed.reading.index import Rows
    from lakebed.reading.remote.ranges import FarRanges, Flight
    from lakebed.reading.samples import SampleReader

# Bytes that are asked for ahead before the reader has had to wait.
_FIRST = 16 << 20
# Of what was asked for ahead, so many pieces for each request that may be under way.
_PIECES = 4
# Reads of neighbouring rows, one after the other, from which on more of them are expected: of single ones, of several.
_STREAK = 3
_STREAK_OF_SLICES = 1


class Wanted(NamedTuple):
    """Rows of a tensor that will be read; ``whole`` if chunks will be asked for as a whole, as scans do."""

    reader: SampleReader
    rows: Rows
    whole: bool = False


def ahead(wanted: Sequence[Wanted], *, knows_all: bool = True) -> AbstractContextManager[object]:
    """Return a context in which rows of tensors of one dataset are read ahead, in the order given.

    Parameters
    ----------
    wanted
        Rows of several tensors ascend without gaps: then chunks come in the order in which rows need them.
    knows_all
        Nothing else will be read of these tensors meanwhile, so that nobody need watch what is.
    """
    far = next((reader.source.far for reader, _, _ in wanted), None)
    if far is None:
        return nullcontext()
    most = config.AHEAD_BYTES // 2
    lanes = [
        windows(reader, rows, most, lane, whole=whole) for lane, (reader, rows, whole) in enumerate(wanted)
    ]
    planned = lanes[0] if len(lanes) == 1 else heapq.merge(*lanes, key=lambda window: window.row)
    followings = [reader.following for reader, _, _ in wanted if knows_all and reader.following is not None]
    return Ahead(far, planned, followings=followings)


def headers_ahead(reader: SampleReader, ordinals: NDArray[np.int64]) -> AbstractContextManager[object]:
    """Return a context in which the headers of chunks are read ahead, small chunks as a whole."""
    far = reader.source.far
    return nullcontext() if far is None else Ahead(far, headers(reader, ordinals))


def tiles_ahead(reader: SampleReader, ordinals: Iterable[int]) -> AbstractContextManager[object]:
    """Return a context in which chunks that hold one tile each are read ahead."""
    far = reader.source.far
    return nullcontext() if far is None else Ahead(far, tiles(reader, ordinals))


class Ahead:
    """What is asked for ahead of one reader.

    Parameters
    ----------
    planned
        What will be needed, in order.
    most
        Bytes to ask for at most; None is ``config.AHEAD_BYTES``.
    passing
        Whole chunks that were taken are not wanted again: they are kept elsewhere.
    followings
        What need not watch meanwhile which rows are read.
    """

    def __init__(
        self,
        far: FarRanges,
        planned: Iterable[Window],
        *,
        most: int | None = None,
        passing: bool = False,
        followings: Sequence[Following] = (),
    ) -> None:
        self._far = far
        self._passing = passing
        self._followings = followings
        self._planned: Iterator[Window] = iter(planned)
        self._pieces: deque[tuple[Window, int]] = deque()
        self._flights: list[Flight] = []
        self._most = config.AHEAD_BYTES if most is None else most
        self._allowed = min(_FIRST, self._most)
        self._bytes = 0
        self._number = 0
        self._turn = threading.Lock()
        self._pid = os.getpid()
        self._is_over = False

    def __enter__(self) -> Self:
        for following in self._followings:
            following.pause()
        self._issue()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for following in self._followings:
            following.resume()

    def __del__(self) -> None:
        if self._flights:
            self.close()

    @property
    def is_alive(self) -> bool:
        """Whether it may still ask for something, in this process."""
        return not self._is_over and self._pid == os.getpid()

    def close(self) -> None:
        """Forget what was asked for and not used: what was not begun never will be."""
        self._is_over = True
        if self._pid == os.getpid():
            self._drop(lambda _: True)

    def taken(self, flight: Flight, *, waited: bool, is_last: bool) -> None:
        """Go on, as the reader has got so far; see :class:`lakebed.reading.remote.ranges.Owner`."""
        if not self.is_alive:
            return
        if waited:
            self._allowed = min(2 * self._allowed, self._most)
        lane, window, passing = flight.lane, flight.window, self._passing
        if is_last or (passing and flight.is_whole):
            self._drop(lambda f: f is flight)
        # Somebody else may have taken what this one's reader has not come to yet; he will take whole chunks himself.
        self._drop(lambda f: f.lane == lane and f.window < window and not (passing and f.is_whole))
        self._issue()

    def _drop(self, is_over: Callable[[Flight], bool]) -> None:
        with self._far.mutex:
            over = [flight for flight in self._flights if is_over(flight)]
            for flight in over:
                self._flights.remove(flight)
                self._bytes -= flight.nbytes
                self._far.drop(flight)

    def _has_room(self) -> bool:
        return (
            self.is_alive
            and self._bytes < self._allowed
            and len(self._flights) < _PIECES * config.REQUESTS
            and (self._far.ahead_bytes < config.AHEAD_BYTES or not self._flights)
        )

    def _issue(self) -> None:
        """Ask for as much as there is room for; whoever finds another thread at it leaves it to that one."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            while self._has_room():
                if self._pieces:
                    self._launch(*self._pieces.popleft())
                elif not self._plan():
                    return
        finally:
            self._turn.release()

    def _plan(self) -> bool:
        try:
            window = next(self._planned, None)
        except (LakebedError, IndexError):
            window = None  # the row that can not be located fails when it is read, where its error says which it is
        if window is None:
            self._planned = iter(())
            return False
        self._number += 1
        self._pieces.extend((window, n) for n in range(len(window.pieces)))
        return True

    def _launch(self, window: Window, number: int) -> None:
        chunk, span = window.pieces[number]
        with self._far.mutex:
            flight = self._far.launch(chunk, span, self, window.lane, self._number)
            if flight is None:
                return
            self._flights.append(flight)
            self._bytes += flight.nbytes
        for errand in flight.errands:
            submit(errand)


class Following:
    """Notices that rows of a tensor are read one after the other, and then reads ahead of them."""

    def __init__(self) -> None:
        self._last = range(-1, -1)
        self._streak = 0
        self._paused = 0
        self._ahead: Ahead | None = None

    @property
    def is_paused(self) -> bool:
        """Whether somebody else reads ahead."""
        return self._paused > 0

    def pause(self) -> None:
        """Let somebody else read ahead, who knows what will be read."""
        self._paused += 1
        self._stop()

    def resume(self) -> None:
        """Watch again."""
        self._paused -= 1

    def _stop(self) -> None:
        running, self._ahead = self._ahead, None
        if running is not None:
            running.close()

    def note(self, reader: SampleReader, first: int, stop: int) -> bool:
        """Take note that rows ``first`` to ``stop`` are about to be read; tell whether they are read ahead."""
        last = self._last
        if self._paused or (last.start <= first and stop <= last.stop):
            return self._is_running
        self._last = range(first, stop)
        if first != last.stop:
            self._streak = 0
            self._stop()
            return False
        self._streak += 1
        far, wanted = reader.source.far, _STREAK if stop - first == 1 else _STREAK_OF_SLICES
        if far is not None and self._streak >= wanted and not self._is_running:
            most = config.AHEAD_BYTES // 4
            rows = range(first, reader.state.meta.length)
            # Not for the reader itself, which would keep itself alive.
            planned = windows(StoredSamples(reader.name, reader.state, reader.source), rows, most, 0)
            self._ahead = Ahead(far, planned, most=most, passing=True)
            far.follow(self._ahead)
            self._ahead.__enter__()
        return self._is_running

    @property
    def _is_running(self) -> bool:
        return self._ahead is not None and self._ahead.is_alive
