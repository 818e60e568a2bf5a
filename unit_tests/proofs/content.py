"""What one version of a dataset holds, in plain dicts and tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Value = int | str | None
State = dict[str, Any]


class Refused(Exception):
    """The dataset refuses this, and nothing has changed."""


@dataclass(frozen=True)
class Sample:
    """One value; None is an empty sample. The id stays when the value is replaced."""

    id: int
    value: Value


@dataclass(frozen=True)
class Tensor:
    """One tensor: its kind, its samples, its info, and whether anything in it changed since the last commit.

    `key` is the name that it was made under: a rename keeps it.
    """

    htype: str
    key: int
    samples: tuple[Sample, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    is_new: bool = True
    is_touched: bool = True


@dataclass(frozen=True)
class Content:
    """All tensors by name, in the order of their creation, and the dataset's info."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)
    is_recorded: bool = False
    """Whether the dataset's own record has changes: its info, renamed and deleted tensors."""

    @property
    def is_changed(self) -> bool:
        """Whether anything changed since the last commit."""
        return self.is_recorded or any(tensor.is_touched for tensor in self.tensors.values())

    def with_tensor(self, name: str, tensor: Tensor) -> Content:
        """Return the content with one tensor replaced or added."""
        return replace(self, tensors={**self.tensors, name: tensor})

    def inherited(self) -> Content:
        """Return the content as a new head begins with it: the same, unchanged so far."""
        tensors = {n: replace(t, is_new=False, is_touched=False) for n, t in self.tensors.items()}
        return Content(tensors, self.info)


def shown(content: Content) -> State:
    """Return what a reader sees of a content."""
    tensors = {
        name: {"htype": t.htype, "values": [s.value for s in t.samples], "info": dict(t.info)}
        for name, t in content.tensors.items()
    }
    return {"tensors": tensors, "info": dict(content.info)}


def named(tensor: Tensor, value: Value) -> Tensor:
    """Return the tensor after it has learned a new class name, if this is one."""
    names = tensor.info.get("class_names", [])
    if tensor.htype != "class_label" or value in names:
        return tensor
    return replace(tensor, info={**tensor.info, "class_names": [*names, value]})


def differences(seen: Any, due: Any, where: str = "") -> list[str]:
    """Say where two states differ, a line for each place: what is seen there, and what is due."""
    if isinstance(seen, dict) and isinstance(due, dict):
        return [
            line
            for name in dict.fromkeys([*seen, *due])
            for line in differences(seen.get(name, "nothing"), due.get(name, "nothing"), f"{where}/{name}")
        ]
    return [] if seen == due else [f"{where}: {seen!r}, not {due!r}"]
