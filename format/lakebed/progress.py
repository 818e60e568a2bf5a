"""How far something is that takes long: bars on a terminal, and nothing where none is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], object]
"""Tells that so much more is done; any thread may."""


@contextmanager
def bytes_bar(what: str, total: int, *, done: int = 0, shown: bool) -> Iterator[Advance]:
    """Show how many bytes of a total are done.

    Parameters
    ----------
    what
        What is being done, at the head of the bar.
    done
        Bytes that an earlier attempt has done.

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
