"""Random work on a versioned dataset, one publish per operation; the same for the same seed and model.

Worker and judge run the same operations, one on a dataset and one on the model, so that the number of acknowledged
operations says all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import lakebed
from lakebed.testing.content import Refused
from lakebed.testing.merge_model import Choice, NotModelled
from lakebed.testing.model import Model

BRANCHES = ("main", "side", "third")
LABELS = ("ant", "bee", "cat", "dog", "eel")
_MOST_ROWS = 60


@dataclass(frozen=True)
class Operation:
    """The same thing, done to a dataset and to a model."""

    name: str
    act: Callable[[lakebed.Dataset], Any]
    model: Callable[[Model], Any]


def begin(model: Model) -> Operation:
    """The first operation on a new dataset."""

    def act(ds: lakebed.Dataset) -> None:
        ds.create_tensor("n", dtype="int64")
        ds.create_tensor("t", htype="text")
        ds.create_tensor("c", htype="class_label", class_names=["ant"])

    def on_model(model: Model) -> None:
        model.create_tensor("n", "generic")
        model.create_tensor("t", "text")
        model.create_tensor("c", "class_label", ["ant"])

    return Operation("create", act, on_model)


def operations(model: Model, seed: int) -> Iterator[Operation]:
    """Iterate over operations; each is chosen by the state of the model after the one before."""
    dice = random.Random(seed)
    if not model.content.tensors:
        yield begin(model)
    while True:
        yield _next(model, dice)


def _rows(dice: random.Random, count: int) -> dict[str, list[Any]]:
    numbers = [dice.randrange(1 << 40) for _ in range(count)]
    texts = [f"text {number} " * dice.randrange(4) for number in numbers]
    return {"n": numbers, "t": texts, "c": [dice.choice(LABELS) for _ in numbers]}


def _next(model: Model, dice: random.Random) -> Operation:
    count = len(model.content.tensors["n"].samples)
    kind = dice.choice(
        ["extend"] * 4 + ["append"] * 3 + ["update"] * 2 + ["pop", "commit", "commit", "go", "branch"]
    )
    kind = dice.choice([kind] * 4 + ["merge", "rechunk", "info"])
    if kind in ("update", "pop") and not count:
        kind = "append"
    if count > _MOST_ROWS:
        kind = dice.choice(["pop", "clear", "commit", "merge"])
    if kind in ("branch", "merge") and model.is_changed:
        kind = "commit"
    return _MAKERS[kind](model, dice, count)


def _extend(model: Model, dice: random.Random, count: int) -> Operation:
    rows = _rows(dice, dice.randrange(1, 6))
    return Operation("extend", lambda ds: ds.extend(rows), lambda m: m.extend(rows))


def _append(model: Model, dice: random.Random, count: int) -> Operation:
    row = {name: values[0] for name, values in _rows(dice, 1).items()}
    return Operation("append", lambda ds: ds.append(row), lambda m: m.append(row))


def _update(model: Model, dice: random.Random, count: int) -> Operation:
    at = dice.randrange(count)
    row = {name: values[0] for name, values in _rows(dice, 1).items()}

    def on_model(model: Model) -> None:
        for name, value in row.items():
            model.update(name, at, value)

    return Operation("update", lambda ds: ds[at].update(row), on_model)


def _pop(model: Model, dice: random.Random, count: int) -> Operation:
    at = dice.randrange(count)
    return Operation("pop", lambda ds: ds.pop(at), lambda m: m.pop_row(at))


def _clear(model: Model, dice: random.Random, count: int) -> Operation:
    def act(ds: lakebed.Dataset) -> None:
        for name in "ntc":
            ds[name].clear()

    def on_model(model: Model) -> None:
        for name in "ntc":
            model.clear(name)

    return Operation("clear", act, on_model)


def _commit(model: Model, dice: random.Random, count: int) -> Operation:
    message = f"message {dice.randrange(1000)}"
    return Operation(
        "commit",
        lambda ds: ds.commit(message, allow_empty=True),
        lambda m: m.commit(message, allow_empty=True),
    )


def _branch(model: Model, dice: random.Random, count: int) -> Operation:
    free = [name for name in BRANCHES if name not in model.branches]
    if not free:
        return _go(model, dice, count)
    name = dice.choice(free)
    return Operation(
        f"branch {name}", lambda ds: ds.checkout(name, create=True), lambda m: m.checkout(name, create=True)
    )


def _go(model: Model, dice: random.Random, count: int) -> Operation:
    name = dice.choice([*model.branches])
    return Operation(f"checkout {name}", lambda ds: ds.checkout(name), lambda m: m.checkout(name))


def _merge(model: Model, dice: random.Random, count: int) -> Operation:
    others = [
        name for name in model.branches if name != model.at and not model.branches[name].head.is_changed
    ]
    if not others:
        return _commit(model, dice, count)
    name = dice.choice(others)
    choice: Choice = dice.choice(["ours", "theirs"])
    try:
        model.copy().merge(name, choice)
    except (Refused, NotModelled):
        return _commit(model, dice, count)
    return Operation(f"merge {name}", lambda ds: ds.merge(name, choice), lambda m: m.merge(name, choice))


def _rechunk(model: Model, dice: random.Random, count: int) -> Operation:
    return Operation("rechunk", lambda ds: ds.rechunk(), lambda m: m.rechunk())


def _info(model: Model, dice: random.Random, count: int) -> Operation:
    value = dice.randrange(100)
    return Operation("info", lambda ds: ds.info.update(key=value), lambda m: m.set_info("key", value))


_MAKERS: dict[str, Callable[[Model, random.Random, int], Operation]] = {
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
