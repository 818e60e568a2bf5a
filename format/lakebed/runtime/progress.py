"""Progress of long operations: bars on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

Advance = Callable[[int], object]
"""Function that any thread calls with the amount of further progress."""


@contextmanager
def bytes_bar(what: str, total: int, *, done: int = 0, shown: bool) -> Iterator[Advance]:
    """Show how many bytes of a total are done.

    Parameters
    ----------
    what
        Title of the bar.
    done
        Bytes of an earlier attempt.

    Examples
    --------
    >>> with bytes_bar("Copying", 100, shown=False) as advance:
    ...     _ = advance(60)
    """
    if not shown:
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(
        desc=what, total=total, initial=done, unit="B", unit_scale=True, unit_divisor=1024, mininterval=0.2
    ) as bar:
        yield bar.update


_LINE_SECONDS = 60.0  # without a terminal, seconds between two lines of progress


@contextmanager
def rows_bar(what: str, total: int | None, *, done: int = 0, shown: bool) -> Iterator[Advance]:
    """Show how many rows of a total are done: by a bar in terminals and notebooks, elsewhere by a line per minute.

    Parameters
    ----------
    what
        Title of the bar.
    total
        Number of rows; None if unknown.
    done
        Rows of an earlier attempt.

    Examples
    --------
    >>> with rows_bar("Evaluating f", 100, shown=False) as advance:
    ...     _ = advance(60)
    """
    if not shown:
        yield lambda _: None
    elif sys.stderr.isatty() or "ipykernel" in sys.modules:
        from tqdm.auto import tqdm

        with tqdm(desc=what, total=total, initial=done, mininterval=0.2) as bar:
            yield bar.update
    else:
        yield _Lines(what, total, done).advance


class _Lines:
    """Progress as lines for logs."""

    def __init__(self, what: str, total: int | None, done: int) -> None:
        self._what = what
        self._total = total
        self._first = self._done = done
        self._started = self._told = monotonic()

    def advance(self, count: int) -> None:
        self._done += count
        now = monotonic()
        if now - self._told < _LINE_SECONDS:
            return
        self._told = now
        rate = (self._done - self._first) / (now - self._started)
        of = left = ""
        if self._total is not None:
            of = f" of {self._total} ({100 * self._done / max(1, self._total):.0f}%)"
            left = f", {(self._total - self._done) / rate:.0f} s left"
        print(f"{self._what}: {self._done}{of} rows, {rate:.0f} rows/s{left}", file=sys.stderr, flush=True)
