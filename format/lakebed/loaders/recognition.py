"""What a transform begins with: steps that are declared operations, of ours or of torchvision (v1 and v2).

torchvision is not imported: its transforms are known by module, class name and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

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


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a transform begins with, and what is left of it.

    Parameters
    ----------
    operations
        The steps that are operations.
    rest
        The steps behind them, to be called in Python one after another.
    given
        What these expect: an ``array``, or, where one of the steps that were taken converts to it, a ``tensor`` of
        torch or an ``image`` of torchvision.
    """

    operations: Compose
    rest: tuple[Any, ...]
    given: Given = "array"

    @property
    def planar(self) -> bool:
        """Whether channels come first in what comes out."""
        return self.operations.planar


def recognised(transform: Any) -> Recognised:
    """Tell which leading steps of a transform are declared operations.

    Steps are our operations, or transforms of torchvision with parameters that mean the same:
    bilinear, with antialiasing, zeros as padding.

    Parameters
    ----------
    transform
        An operation, a :class:`Compose`, torchvision's ``Compose``, a sequence of steps, or anything to be called.

    Returns
    -------
    Recognised
        What was taken, and the rest.
    """
    if isinstance(transform, Compose):
        return Recognised(transform, ())
    steps = list(_flattened(transform))
    # A picture of Pillow at the start has the same pixels; steps that are called, and not behind a tensor, need it.
    first = steps[:1] if steps and _name(steps[0]) == "ToPILImage" and steps[0].mode is None else []
    told = _recognised(steps[len(first) :])
    if told.planar or not told.rest or not told.operations.operations:
        return told if told.operations.operations else replace(told, rest=tuple(steps))
    return replace(told, rest=(*first, *told.rest))


def _recognised(steps: list[Any]) -> Recognised:
    taken: list[Step] = []
    is_float = False
    given: Given = "array"
    for i, step in enumerate(steps):
        found = _meaning(step)
        if found is None or (is_float and any(isinstance(one, Operation) for one in found)):
            return Recognised(Compose(taken), tuple(steps[i:]), given)
        if not is_float and any(isinstance(one, Normalize) for one in found):
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
    """Return the name of a class of torchvision's transforms, empty for all others."""
    kind = type(step)
    module = getattr(kind, "__module__", "") or ""
    return kind.__name__ if f"{module}.".startswith("torchvision.transforms.") else ""


def _meaning(step: Any) -> tuple[Step, ...] | None:
    """Return the operations that a step means, perhaps none; None if it is to be called."""
    if isinstance(step, Step):
        return (step,)
    reader = _TORCHVISION.get(_name(step))
    return reader(step) if reader is not None else None


_BILINEAR_OF_PILLOW = "2"


def _is_bilinear(step: Any) -> bool:
    """Tell whether a resize is ours: bilinear, and not without antialiasing (which images of Pillow always get)."""
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
"""What transforms of torchvision mean, by the name of the class."""

_CONVERSIONS: dict[str, Given] = {
    "ToImage": "image",
    "PILToTensor": "tensor",
    "ToTensor": "tensor",
    "ToPureTensor": "tensor",
}
"""What torchvision's conversions make, by the name of the class."""
