"""Random work on a versioned dataset, at most one publish per operation; the same for the same seed and model.

Worker and judge go through the same operations, one with a dataset and one with the model, so that the number of
acknowledged operations says all::

    for operation in operations(model, seed):
        operation.act(ds)
        ds.flush()
        operation.model(model)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakebed.dataset.dataset import Dataset
from unit_tests.proofs.content import Refused
from unit_tests.proofs.merge_model import Choice, NotModelled
from unit_tests.proofs.model import Model

BRANCHES = ("main", "side", "third")
LABELS = ("ant", "bee", "cat", "dog", "eel")
_MOST_ROWS = 60


@dataclass(frozen=True)
class Operation:
    """The same thing, done to a dataset and to a model."""

    name: str
    act: Callable[[Dataset], Any]
    model: Callable[[Model], Any]


@dataclass(frozen=True)
class _Now:
    """What an operation is chosen by."""

    model: Model
    dice: random.Random

    @property
    def rows(self) -> int:
        return len(self.model.content.tensors["n"].samples)

    def columns(self, count: int) -> dict[str, list[Any]]:
        """New rows."""
        numbers = [self.dice.randrange(1 << 40) for _ in range(count)]
        texts = [f"text {number} " * self.dice.randrange(4) for number in numbers]
        return {"n": numbers, "t": texts, "c": [self.dice.choice(LABELS) for _ in numbers]}

    def row(self) -> dict[str, Any]:
        """One new row."""
        return {name: values[0] for name, values in self.columns(1).items()}


def operations(model: Model, seed: int) -> Iterator[Operation]:
    """Iterate over operations; each is chosen by what the model holds after the one before."""
    now = _Now(model, random.Random(seed))
    if not model.content.tensors:
        yield Operation("create", _create, _create_model)
    while True:
        yield _next(now)


def _next(now: _Now) -> Operation:
    kinds = (
        ["extend"] * 4 + ["append"] * 3 + ["update"] * 3 + ["pop"] * 2 + ["commit"] * 3 + ["rechunk", "info"]
    )
    if not now.model.is_changed:
        kinds = ["branch", "go", "merge", "merge", *kinds[::4]]
    kind = now.dice.choice(kinds)
    if kind in ("update", "pop") and not now.rows:
        kind = "append"
    if now.rows > _MOST_ROWS and kind in ("extend", "append", "merge"):
        kind = now.dice.choice(["pop", "clear", "commit"])
    return _MAKERS[kind](now)


def _create(ds: Dataset) -> None:
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("t", htype="text")
    ds.create_tensor("c", htype="class_label", class_names=["ant"])


def _create_model(model: Model) -> None:
    model.create_tensor("n", "generic")
    model.create_tensor("t", "text")
    model.create_tensor("c", "class_label", ["ant"])


def _extend(now: _Now) -> Operation:
    rows = now.columns(now.dice.randrange(1, 6))
    return Operation("extend", lambda ds: ds.extend(rows), lambda m: m.extend(rows))


def _append(now: _Now) -> Operation:
    row = now.row()
    return Operation("append", lambda ds: ds.append(row), lambda m: m.append(row))


def _update(now: _Now) -> Operation:
    at, row = now.dice.randrange(now.rows), now.row()

    def on_model(model: Model) -> None:
        for name, value in row.items():
            model.update(name, at, value)

    return Operation("update", lambda ds: ds[at].update(row), on_model)


def _pop(now: _Now) -> Operation:
    at = now.dice.randrange(now.rows)
    return Operation("pop", lambda ds: ds.pop(at), lambda m: m.pop_row(at))


def _clear(_: _Now) -> Operation:
    def act(ds: Dataset) -> None:
        for name in "ntc":
            ds[name].clear()

    def on_model(model: Model) -> None:
        for name in "ntc":
            model.clear(name)

    return Operation("clear", act, on_model)


def _commit(now: _Now) -> Operation:
    message = f"message {now.dice.randrange(1000)}"
    return Operation(
        "commit",
        lambda ds: ds.commit(message, allow_empty=True),
        lambda m: m.commit(message, allow_empty=True),
    )


def _branch(now: _Now) -> Operation:
    free = [name for name in BRANCHES if name not in now.model.branches]
    if not free:
        return _go(now)
    name = now.dice.choice(free)
    return Operation(
        f"branch {name}", lambda ds: ds.checkout(name, create=True), lambda m: m.checkout(name, create=True)
    )


def _go(now: _Now) -> Operation:
    name = now.dice.choice([*now.model.branches])
    return Operation(f"checkout {name}", lambda ds: ds.checkout(name), lambda m: m.checkout(name))


def _merge(now: _Now) -> Operation:
    others = [name for name in now.model.branches if name != now.model.at]
    if not others:
        return _commit(now)
    name = now.dice.choice(others)
    choice: Choice = now.dice.choice(["ours", "theirs"])
    try:
        now.model.copy().merge(name, choice)
    except (Refused, NotModelled):
        return _commit(now)
    return Operation(f"merge {name}", lambda ds: ds.merge(name, choice), lambda m: m.merge(name, choice))


def _rechunk(_: _Now) -> Operation:
    return Operation("rechunk", lambda ds: ds.rechunk(), lambda m: m.rechunk())


def _info(now: _Now) -> Operation:
    value = now.dice.randrange(100)
    return Operation("info", lambda ds: ds.info.update(key=value), lambda m: m.set_info("key", value))


_MAKERS: Mapping[str, Callable[[_Now], Operation]] = {
    "extend": _extend,
    "append": _append,
    "update": _update,
    "pop": _pop,
    "clear": _clear,
    "commit": _commit,
    "branch": _branch,
    "go": _go,
    "merge": _merge,
    "rechunk": _rechunk,
    "info": _info,
}
