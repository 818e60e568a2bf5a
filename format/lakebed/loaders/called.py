"""What a loader calls with samples: a transform of whole samples, of single tensors, or what follows operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakebed.errors import InvalidInputError
from lakebed.loaders.recognition import Given, Recognised, recognised

Transform = Callable[[dict[str, Any]], Any] | Mapping[str, Callable[[Any], Any] | None]


def called(transform: Transform | None) -> Callable[[dict[str, Any]], Any] | None:
    """Return a transform as a function of a sample."""
    if transform is None or not isinstance(transform, Mapping):
        return transform
    return _Each(transform)


def split(
    operations: Mapping[str, Any] | None, transform: Transform | None
) -> tuple[dict[str, Recognised], Transform | None]:
    """Return the operations by tensor, and the transform that is left; a mapping may declare operations, too."""
    found: dict[str, Recognised] = {}
    rest: dict[str, Callable[[Any], Any]] = {}
    for name, given in (operations or {}).items():
        _split_one(name, given, found, rest)
        if name not in found:
            raise InvalidInputError(
                f"{given!r} for tensor {name!r} begins with no operation of lakebed.loaders.ops; pass it as transform="
            )
    if not isinstance(transform, Mapping):
        return found, _After(rest, transform) if rest else transform
    left: dict[str, Callable[[Any], Any] | None] = {}
    for name, given in transform.items():
        if given is not None:
            _split_one(name, given, found, rest)
        left[name] = rest.get(name) if name in found else given
    return found, left


def _split_one(
    name: str, given: Any, found: dict[str, Recognised], rest: dict[str, Callable[[Any], Any]]
) -> None:
    told = recognised(given)
    if told.operations.operations:
        if name in found:
            raise InvalidInputError(f"operations and transform both have operations for tensor {name!r}")
        found[name] = told
        if told.rest:
            rest[name] = Steps(told.rest, told.given)


class Steps:
    """The steps of a composition that are called; those behind torchvision's conversions get what these make."""

    def __init__(self, steps: tuple[Callable[[Any], Any], ...], given: Given) -> None:
        self._steps = steps
        self._given = given

    def __call__(self, value: Any) -> Any:
        if self._given != "array":
            import torch

            value = torch.from_numpy(value)
        if self._given == "image":
            from torchvision.tv_tensors import Image

            value = Image(value)
        for step in self._steps:
            value = step(value)
        return value


class _After:
    """Calls what follows the operations of single tensors, then a transform of the whole sample."""

    def __init__(
        self, rest: Mapping[str, Callable[[Any], Any]], transform: Callable[[dict[str, Any]], Any] | None
    ) -> None:
        self._rest = dict(rest)
        self._transform = transform

    def __call__(self, sample: dict[str, Any]) -> Any:
        changed = sample | {name: function(sample[name]) for name, function in self._rest.items()}
        return changed if self._transform is None else self._transform(changed)


class _Each:
    """Changes each tensor of a sample by a function of its own; None leaves it."""

    def __init__(self, functions: Mapping[str, Callable[[Any], Any] | None]) -> None:
        self._functions = dict(functions)

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        return {
            name: sample[name] if function is None else function(sample[name])
            for name, function in self._functions.items()
        }
