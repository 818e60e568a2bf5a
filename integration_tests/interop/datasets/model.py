"""What a dataset must hold after a list of steps: plain Python, nothing of the library."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from integration_tests.interop.datasets.perform import Json, unpack

EMPTY: dict[str, Any] = {
    "text": {"value": ""},
    "json": {"value": {}},
    "list": {"value": []},
    "tag": {"value": [None]},
}


@dataclass
class Tensor:
    """One tensor: its rows as they were given; None is an empty sample."""

    kind: str
    rows: list[Any] = field(default_factory=list)
    info: dict[str, Any] | None = field(default_factory=dict)
    """None after a clear: 3.9.52 forgets the info (and cannot go on with labels then), lakebed keeps it."""
    rank: int | None = None
    """Axes of a sample, as soon as one was there."""

    def note(self, value: Any) -> None:
        """See the rank of a sample that comes."""
        for item in value if isinstance(value, list) and self.kind.startswith("sequence") else [value]:
            if isinstance(item, np.ndarray) and self.rank is None:
                self.rank = max(item.ndim, 1)


@dataclass
class State:
    """One version."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    info: dict[str, Any] = field(default_factory=dict)


class Model:
    """A dataset with its branches and commits; takes the same steps as `perform.Maker`, with plain values."""

    def __init__(self) -> None:
        self.branch = "main"
        self.branches: dict[str, State] = {"main": State()}
        self.commits: dict[str, State] = {}

    @property
    def head(self) -> State:
        """The version that takes the steps."""
        return self.branches[self.branch]

    def tensor(self, name: str) -> Tensor:
        """A tensor of the head."""
        return self.head.tensors[name]

    def create(self, name: str, kind: str, info: dict[str, Any]) -> None:
        self.head.tensors[name] = Tensor(kind, info=copy.deepcopy(info))
        parts = name.split("/")
        self.head.groups |= {"/".join(parts[:end]) for end in range(1, len(parts))}

    def extend(self, name: str, values: list[Any]) -> None:
        tensor = self.tensor(name)
        for value in values:
            tensor.note(value)
            tensor.rows.append(value)

    def note(self, name: str, key: str, value: Any) -> None:
        info = self.tensor(name).info
        if info is not None:
            info[key] = value

    def update(self, name: str, at: int, value: Any) -> None:
        tensor = self.tensor(name)
        tensor.rows.extend([None] * (at + 1 - len(tensor.rows)))
        tensor.note(value)
        tensor.rows[at] = value

    def item(self, name: str, at: int, item: int, value: Any) -> None:
        row = list(self.tensor(name).rows[at])
        row[item] = value
        self.tensor(name).rows[at] = row

    def part(self, name: str, at: int, box: list[list[int]], value: Any) -> None:
        changed = self.tensor(name).rows[at].copy()
        changed[tuple(slice(start, stop) for start, stop in box)] = value
        self.tensor(name).rows[at] = changed

    def add(self, name: str, value: int) -> None:
        tensor = self.tensor(name)
        tensor.rows = [(row + row.dtype.type(value)).astype(row.dtype) for row in tensor.rows]

    def pop(self, name: str, at: list[int]) -> None:
        tensor = self.tensor(name)
        for index in sorted(at, reverse=True):
            del tensor.rows[index]
        if not tensor.rows:
            tensor.rank = None

    def clear(self, name: str) -> None:
        tensor = self.tensor(name)
        tensor.rows, tensor.rank, tensor.info = [], None, None

    def rename(self, name: str, new: str) -> None:
        tensors = self.head.tensors
        self.head.tensors = {new if key == name else key: value for key, value in tensors.items()}

    def delete(self, name: str) -> None:
        del self.head.tensors[name]

    def commit(self, label: str) -> None:
        self.commits[label] = copy.deepcopy(self.head)

    def checkout(self, branch: str, create: bool = False) -> None:
        if create:
            self.branches[branch] = copy.deepcopy(self.head)
        self.branch = branch


def disagreement(expected: State, seen: Json, close: frozenset[str]) -> str | None:
    """The first difference between what must be there and what a library showed; tensors in `close` are lossy."""
    if "error" in seen:
        return f"cannot be read: {seen['error']}"
    if set(seen["tensors"]) != set(expected.tensors):
        return f"tensors {sorted(seen['tensors'])}, not {sorted(expected.tensors)}"
    if set(seen["groups"]) != {group for group in expected.groups if "/" not in group}:
        return f"groups {sorted(seen['groups'])}, not {sorted(expected.groups)}"
    if seen["info"] != expected.info:
        return f"info {seen['info']}, not {expected.info}"
    for name, tensor in expected.tensors.items():
        found = seen["tensors"][name]
        if tensor.info is not None and found["info"] != tensor.info:
            return f"{name}: info {found['info']}, not {tensor.info}"
        if found["length"] != len(tensor.rows):
            return f"{name}: {found['length']} rows, not {len(tensor.rows)}"
        for number, (value, row) in enumerate(zip(tensor.rows, found["rows"], strict=True)):
            wrong = _difference(tensor, value, row, lossy=tensor.kind in close)
            if wrong is not None:
                return f"{name}[{number}] ({tensor.kind}): {wrong}"
    return None


def _difference(tensor: Tensor, value: Any, seen: Json, *, lossy: bool) -> str | None:
    if tensor.kind.startswith("sequence"):
        items = [] if value is None else value
        if "items" not in seen or len(seen["items"]) != len(items):
            return f"{str(seen)[:300]}, not a sequence of {len(items)}"
        pairs = zip(items, seen["items"], strict=True)
        return next(
            (wrong for pair in pairs if (wrong := _flat(tensor, *pair, lossy=lossy, inside=True))), None
        )
    return _flat(tensor, value, seen, lossy=lossy)


def _flat(tensor: Tensor, value: Any, seen: Json, *, lossy: bool, inside: bool = False) -> str | None:
    base = tensor.kind.removeprefix("sequence ").split(" ")[0]
    if value is None and base in EMPTY:
        value = EMPTY[base]["value"]
    if isinstance(value, dict) and "sha" in value:
        return None if seen == value else f"{seen}, not {value}"
    if base in EMPTY:
        return None if seen == {"value": value} else f"{str(seen)[:300]}, not {str(value)[:300]}"
    if base == "polygon":
        polygons = [] if value is None else value
        if "items" not in seen or len(seen["items"]) != len(polygons):
            return f"{str(seen)[:300]}, not {len(polygons)} polygons"
        pairs = zip(polygons, seen["items"], strict=True)
        return next((wrong for left, right in pairs if (wrong := _arrays(left, right, lossy=False))), None)
    if value is None and base == "link":
        nothing = _is_empty(seen, 1) or seen.get("error", "").startswith("EmptyTensorError")
        return None if nothing else f"{str(seen)[:300]}, not an empty link"
    if value is None:
        if tensor.rank is None:
            empty = "array" in seen or seen.get("error", "").startswith("EmptyTensorError")
            return None if empty else f"{seen}, not an empty sample of unknown rank"
        value = np.zeros((0,) * tensor.rank)
        return None if _is_empty(seen, tensor.rank) else f"{str(seen)[:300]}, not empty of rank {tensor.rank}"
    if inside and value.size == 0 and "array" in seen and 0 in seen["array"][1]:
        return None  # 3.9.52 gives empty items another shape
    return _arrays(value, seen, lossy=lossy)


def _is_empty(seen: Json, rank: int) -> bool:
    return "array" in seen and seen["array"][1] == [0] * rank


def _arrays(value: Any, seen: Json, *, lossy: bool) -> str | None:
    if "array" not in seen:
        return f"{str(seen)[:300]}, not an array of shape {value.shape}"
    found = unpack(seen, None)
    expected = np.atleast_1d(value)
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype} {found.shape}, not {expected.dtype} {expected.shape}"
    if lossy:
        distance = float(np.abs(found.astype(float) - expected).mean()) if found.size else 0.0
        return None if distance < 12 else f"pixels differ by {distance} on average"
    same = np.array_equal(found, expected) if found.dtype == bool else found.tobytes() == expected.tobytes()
    if not same:
        return f"{found.ravel()[:8].tolist()}..., not {expected.ravel()[:8].tolist()}..."
    return None
