r"""Drawing of a history with branches and merges in columns of text. Pure.

    * a       merges c into b
    |\        a line to each parent: straight down, or by / \ and _ to another column
    * | b
    | * c
    |/        lines that wait for the same commit join at once
    * d

Column ``n`` is character ``2n``. A line keeps its column until it ends; a free column is used again by the next line
that begins.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drawn:
    """One commit in the drawing.

    Parameters
    ----------
    lines
        The line with the commit's ``*``, then the lines that lead to its parents.
    below
        Lines that continue below it, beside further lines of text.
    """

    id: str
    lines: tuple[str, ...]
    below: str


def newest_first(parents: Mapping[str, Sequence[str]], times: Mapping[str, float]) -> Iterator[str]:
    """Iterate over commits by time, newest first, but each commit before its parents even if clocks were wrong.

    If damaged records form a circle, its newest commit comes first.

    Parameters
    ----------
    parents
        Parents of each commit; parents that are not keys of the mapping are left out.
    times
        Time of each commit.
    """
    pending = dict.fromkeys(parents, 0)
    for above in parents.values():
        for parent in set(above) & pending.keys():
            pending[parent] += 1
    order = {commit: (-times[commit], -number, commit) for number, commit in enumerate(parents)}
    ready = [order[commit] for commit, children in pending.items() if not children]
    heapq.heapify(ready)
    while pending:
        *_, commit = heapq.heappop(ready) if ready else min(map(order.__getitem__, pending))
        del pending[commit]
        yield commit
        for parent in set(parents[commit]) & pending.keys():
            pending[parent] -= 1
            if not pending[parent]:
                heapq.heappush(ready, order[parent])


def draw(history: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Drawn]:
    """Draw commits in the order given.

    Parameters
    ----------
    history
        Each commit with its parents, before its parents. A parent that is not among the commits leaves a line without
        end.
    """
    waiting: list[str | None] = []
    avoided = -1
    for commit, parents in history:
        at = waiting.index(commit) if commit in waiting else _free(waiting, avoided)
        waiting[at] = None
        star = _row([name is not None for name in waiting], {2 * at: "*"})
        lines = [star, *_connect(waiting, at, list(dict.fromkeys(parents)))]
        # Keep the column free on the next line: a commit without parents would otherwise seem to have the commit
        # below it as parent.
        avoided = at if len(lines) == 1 else -1
        while waiting and waiting[-1] is None:
            waiting.pop()
        yield Drawn(commit, tuple(lines), _row([name is not None for name in waiting]))


def _free(waiting: list[str | None], avoided: int) -> int:
    """Return the first free column, or a new column."""
    for at, name in enumerate(waiting):
        if name is None and at != avoided:
            return at
    if len(waiting) == avoided:
        waiting.append(None)
    waiting.append(None)
    return len(waiting) - 1


def _connect(waiting: list[str | None], at: int, parents: Sequence[str]) -> Iterator[str]:
    """Reserve columns for the parents of the commit in column ``at``; return the lines of text that lead to them."""
    alive = [name is not None for name in waiting]
    targets = []
    for parent in parents:
        if parent in waiting:
            targets.append(waiting.index(parent))
        elif waiting[at] is None:
            waiting[at] = parent
        else:
            beside = _beside(waiting, at)
            waiting[beside] = parent
            targets.append(beside)
    alive += [False] * (len(waiting) - len(alive))
    for number, target in enumerate(targets, 1):
        alive[at] = waiting[at] is not None or number < len(targets)
        yield from _path(alive, at, target)
        alive[target] = True


def _beside(waiting: list[str | None], at: int) -> int:
    """Return the nearest free column to the right of column ``at``, or a new column."""
    for beside in range(at + 1, len(waiting)):
        if waiting[beside] is None:
            return beside
    waiting.append(None)
    return len(waiting) - 1


def _path(alive: Sequence[bool], start: int, end: int) -> Iterator[str]:
    r"""Return the one or two lines of text that lead from a column to another: ``/``, or ``|_|/`` and ``/``."""
    step, slash = (1, "\\") if end > start else (-1, "/")
    first, last = 2 * start + step, 2 * end - step
    if first == last:
        yield _row(alive, {first: slash})
        return
    between = range(first + step, last, step)
    # Draw the bar through free columns; an occupied column keeps its line, so that the bar seems to cross it.
    bar = {} if len(between) == 1 else dict.fromkeys((c for c in between if c % 2 or not alive[c // 2]), "_")
    yield _row(alive, {**bar, first: slash})
    yield _row(alive, {last: slash})


def _row(alive: Sequence[bool], marks: Mapping[int, str] | None = None) -> str:
    row = [" "] * (2 * len(alive))
    for column, is_alive in enumerate(alive):
        if is_alive:
            row[2 * column] = "|"
    for character, mark in (marks or {}).items():
        row[character] = mark
    return "".join(row).rstrip()
