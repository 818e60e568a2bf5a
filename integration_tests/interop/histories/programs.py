"""Random lists of steps that change a dataset and its history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from integration_tests.interop.histories.perform import KINDS, Json

Random = np.random.Generator

LIBRARIES = ("deeplake", "lakebed")


@dataclass(frozen=True)
class Turn:
    """What one library does in one go."""

    library: str
    steps: list[Json]


class Author:
    """Thinks of steps.

    Parameters
    ----------
    plain
        No steps of which 3.9.52 makes something odd in a merge: it keeps rows that the other line removed, leaves infos
        and with them new names of classes alone, gives a tensor that was renamed its old name beside the new one, and
        counts the changes of a first merge again in a second.
    """

    def __init__(self, random: Random, *, plain: bool) -> None:
        self._random = random
        self._plain = plain
        self._kinds = [kind for kind in KINDS if kind != "named" or not plain]
        self._number = 0
        choices: list[tuple[int, Callable[[], Json]]] = [
            (8, lambda: {"op": "append", "t": self._part(), "numbers": self._numbers(1)}),
            (6, lambda: {"op": "extend", "t": self._part(), "numbers": self._numbers(4)}),
            (6, lambda: {"op": "rows", "numbers": self._numbers(3)}),
            (9, lambda: {"op": "update", "t": self._part(), "at": self._part(), "number": self._next()}),
            (0 if plain else 5, lambda: {"op": "pop", "t": self._part(), "at": self._part()}),
            (0 if plain else 1, lambda: {"op": "clear", "t": self._part()}),
            (
                0 if plain else 2,
                lambda: {"op": "note", "key": f"k{self._random.integers(3)}", "value": self._next()},
            ),
            (0 if plain else 1, lambda: {"op": "tensor_note", "t": self._part(), "value": self._next()}),
            (2, self._create),
            (0 if plain else 2, lambda: {"op": "rename", "t": self._part(), "number": self._next()}),
            (0 if plain else 1, lambda: {"op": "delete", "t": self._part()}),
            (8, lambda: {"op": "commit", "label": f"commit {self._next()}"}),
            (5, lambda: {"op": "checkout", "branch": self._part()}),
            (3, lambda: {"op": "start", "name": f"branch{self._next()}"}),
            (1, lambda: {"op": "go_back", "commit": self._part(), "number": self._next()}),
            (5, self._merge),
            (2, lambda: {"op": "reset"}),
            (1, lambda: {"op": "drop", "branch": self._part()}),
            (2, lambda: {"op": "reopen"}),
            (2, lambda: {"op": "tag", "name": f"tag{self._next()}"}),
        ]
        weights = np.array([weight for weight, _ in choices], float)
        self._choices = [choice for _, choice in choices]
        self._weights = weights / weights.sum()

    def begin(self) -> list[Json]:
        """First steps of a dataset: tensors with rows, and a commit."""
        steps = [self._create(kind) for kind in self._kinds]
        return [*steps, {"op": "rows", "numbers": self._numbers(6)}, {"op": "commit", "label": "begin"}]

    def steps(self, count: int) -> list[Json]:
        """Steps of any kind."""
        return [
            self._choices[int(self._random.choice(len(self._choices), p=self._weights))]()
            for _ in range(count)
        ]

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _numbers(self, most: int) -> list[int]:
        return [self._next() for _ in range(int(self._random.integers(1, most + 1)))]

    def _part(self) -> float:
        return float(self._random.random())

    def _create(self, kind: str | None = None) -> Json:
        kind = kind or self._kinds[int(self._random.integers(len(self._kinds)))]
        prefix = "group/" if self._random.random() < 0.2 else ""
        return {"op": "create", "name": f"{prefix}{kind}{self._next()}", "kind": kind}

    def _merge(self) -> Json:
        resolution = [None, "ours", "theirs"][int(self._random.integers(3))]
        return {
            "op": "merge",
            "branch": self._part(),
            "resolution": resolution,
            "removed": bool(self._random.random() < 0.5),
            "once": self._plain,
        }


@dataclass(frozen=True)
class Program:
    """Turns of both libraries, of random lengths; who begins depends on the seed, and whether it is plain."""

    seed: int
    plain: bool
    turns: list[Turn]

    @classmethod
    def random(cls, seed: int) -> Program:
        """Return the program of a seed."""
        random = np.random.default_rng(seed)
        plain = seed % 4 < 2
        author = Author(random, plain=plain)
        lengths = random.integers(3, 15, size=random.integers(2, 6)).tolist()
        turns = [
            Turn(LIBRARIES[seed % 2], author.begin()),
            *(Turn(LIBRARIES[(seed + n) % 2], author.steps(length)) for n, length in enumerate(lengths, 1)),
        ]
        return cls(seed, plain, turns)
