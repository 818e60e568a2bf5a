"""Transforms: their leading operations, of lakebed or torchvision (v1 and v2), and the functions that follow.

torchvision is not imported: its transforms are recognised by module, class name and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from lakebed.errors import InvalidInputError
from lakebed.loaders.ops import (
    CenterCrop,
    ChannelsFirst,
    Compose,
    HorizontalFlip,
    Normalize,
    Operation,
    RandomCrop,
    RandomResizedCrop,
    Resize,
    Step,
    ToFloat,
)

Given = Literal["array", "tensor", "image"]
Transform = Callable[[dict[str, Any]], Any] | Mapping[str, Callable[[Any], Any] | None]


@dataclass(frozen=True, slots=True)
class Recognised:
    """A transform in two parts: its leading operations, and the steps to be called.

    Parameters
    ----------
    operations
        The steps that are operations.
    rest
        Steps after the operations, to be called in Python one after another.
    given
        Type that the steps in `rest` expect: ``array``; or, if an operation converts to it, ``tensor`` (of PyTorch) or
        ``image`` (of torchvision).
    """

    operations: Compose
    rest: tuple[Any, ...]
    given: Given = "array"


def recognised(transform: Any) -> Recognised:
    """Split a transform after its leading steps that are declared operations.

    Operations are those of `lakebed.loaders.ops`, or transforms of torchvision that compute the same: bilinear, with
    antialiasing, zeros as padding.

    Parameters
    ----------
    transform
        An operation, a :class:`Compose`, torchvision's ``Compose``, a sequence of steps, or any function.
    """
    if isinstance(transform, Compose):
        return Recognised(transform, ())
    steps = list(_flattened(transform))
    # A leading ToPILImage changes no pixels, so skip it. Steps that are called as functions still need the PIL image,
    # unless they come after a conversion to a tensor.
    first = steps[:1] if steps and _name(steps[0]) == "ToPILImage" and steps[0].mode is None else []
    told = _recognised(steps[len(first) :])
    if told.operations.planar or not told.rest or not told.operations.operations:
        return told if told.operations.operations else replace(told, rest=tuple(steps))
    return replace(told, rest=(*first, *told.rest))


def _recognised(steps: list[Any]) -> Recognised:
    taken: list[Step] = []
    is_float = False
    given: Given = "array"
    for i, step in enumerate(steps):
        found = _meaning(step)
        misplaced = Operation if is_float else Normalize
        if found is None or any(isinstance(one, misplaced) for one in found):
            return Recognised(Compose(taken), tuple(steps[i:]), given)
        taken.extend(one for one in found if isinstance(one, Operation | Normalize) or one not in taken)
        is_float = ToFloat() in taken
        given = _CONVERSIONS.get(_name(step), given)
    return Recognised(Compose(taken), (), given)


def _flattened(transform: Any) -> Iterator[Any]:
    if isinstance(transform, Compose):
        yield from transform.operations
    elif _name(transform) == "Compose":
        for step in transform.transforms:
            yield from _flattened(step)
    elif isinstance(transform, list | tuple):
        for step in transform:
            yield from _flattened(step)
    else:
        yield transform


def _name(step: Any) -> str:
    """Return the class name of a transform of torchvision; an empty text for anything else."""
    kind = type(step)
    module = getattr(kind, "__module__", "") or ""
    return kind.__name__ if f"{module}.".startswith("torchvision.transforms.") else ""


def _meaning(step: Any) -> tuple[Step, ...] | None:
    """Return the operations that are equivalent to a step, possibly none; None if the step must be called."""
    if isinstance(step, Step):
        return (step,)
    reader = _TORCHVISION.get(_name(step))
    return reader(step) if reader is not None else None


_BILINEAR_OF_PILLOW = "2"


def _is_bilinear(step: Any) -> bool:
    """Return whether a resize equals `Resize`: bilinear, with antialiasing (which images of Pillow always have)."""
    mode = getattr(step, "interpolation", None)
    return (
        str(getattr(mode, "value", mode)) in ("bilinear", _BILINEAR_OF_PILLOW)
        and getattr(step, "antialias", True) is not False
    )


def _random_resized_crop(step: Any) -> tuple[Step, ...] | None:
    return (RandomResizedCrop(step.size, step.scale, step.ratio),) if _is_bilinear(step) else None


def _resize(step: Any) -> tuple[Step, ...] | None:
    if not _is_bilinear(step) or step.size is None:
        return None
    return (Resize(step.size, getattr(step, "max_size", None)),)


def _random_crop(step: Any) -> tuple[Step, ...] | None:
    pads = step.padding is not None or step.pad_if_needed
    if pads and (step.padding_mode != "constant" or step.fill not in (0, None, (0, 0, 0), [0, 0, 0])):
        return None
    return (RandomCrop(step.size, step.padding, step.pad_if_needed),)


def _to_dtype(step: Any) -> tuple[Step, ...] | None:
    is_scaled = getattr(step, "scale", True)  # ConvertImageDtype always scales
    return (ToFloat(),) if str(step.dtype) == "torch.float32" and is_scaled else None


_TORCHVISION: dict[str, Callable[[Any], tuple[Step, ...] | None]] = {
    "RandomResizedCrop": _random_resized_crop,
    "Resize": _resize,
    "CenterCrop": lambda step: (CenterCrop(step.size),),
    "RandomCrop": _random_crop,
    "RandomHorizontalFlip": lambda step: (HorizontalFlip(step.p),),
    "ToImage": lambda _: (ChannelsFirst(),),
    "PILToTensor": lambda _: (ChannelsFirst(),),
    "ToTensor": lambda _: (ChannelsFirst(), ToFloat()),
    "ToPureTensor": lambda _: (),
    "ToDtype": _to_dtype,
    "ConvertImageDtype": _to_dtype,
    "Normalize": lambda step: (Normalize(step.mean, step.std),),
}
"""Class name of a transform of torchvision -> function that returns the equivalent operations."""

_CONVERSIONS: dict[str, Given] = {
    "ToImage": "image",
    "PILToTensor": "tensor",
    "ToTensor": "tensor",
    "ToPureTensor": "tensor",
}
"""Class name of a conversion of torchvision -> type of its result."""


# -- functions to be called -------------------------------------------------------------------------------------


def split(
    operations: Mapping[str, Any] | None, transform: Transform | None
) -> tuple[dict[str, Recognised], Transform | None]:
    """Return the operations by tensor, and the remaining transform; a mapping may declare operations, too."""
    found: dict[str, Recognised] = {}
    rest: dict[str, Callable[[Any], Any]] = {}
    for name, given in (operations or {}).items():
        _split_one(name, given, found, rest)
        if name not in found:
            raise InvalidInputError(
                f"{given!r} for tensor {name!r} does not begin with an operation of lakebed.loaders.ops; pass it "
                "as transform="
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


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a composition that are called; steps after a conversion of torchvision get the converted type."""

    steps: tuple[Callable[[Any], Any], ...]
    given: Given

    def __call__(self, value: Any) -> Any:
        """Return the result of all steps."""
        if self.given != "array":
            import torch

            value = torch.from_numpy(value)
        if self.given == "image":
            from torchvision.tv_tensors import Image

            value = Image(value)
        for step in self.steps:
            value = step(value)
        return value


@dataclass(frozen=True, slots=True)
class _After:
    """Functions that follow the operations of single tensors, then a transform of the whole sample."""

    rest: Mapping[str, Callable[[Any], Any]]
    transform: Callable[[dict[str, Any]], Any] | None

    def __call__(self, sample: dict[str, Any]) -> Any:
        changed = sample | {name: function(sample[name]) for name, function in self.rest.items()}
        return changed if self.transform is None else self.transform(changed)


@dataclass(frozen=True, slots=True)
class PerTensor:
    """A function for each tensor of a sample; None leaves its value unchanged."""

    functions: Mapping[str, Callable[[Any], Any] | None]

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Return the results of the functions."""
        return type(sample)(
            (name, sample[name] if function is None else function(sample[name]))
            for name, function in self.functions.items()
        )
