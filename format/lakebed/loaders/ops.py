"""Declared crops, resizes and flips: the loader reads their parameters instead of calling them.

For each sample an operation computes a box of the image and the output to which the box is resized, from the image's
extents and from numbers drawn in [0, 1): arithmetic on arrays, without pixels and without state. The loader passes the
boxes to the region decoder, which decodes only these boxes, directly at their output size. Operations have the
parameters and meanings of torchvision's v2 transforms of the same names.

    operations of a Compose -> stages -> Geometry of each stage -> one pass of decoding or resizing per stage

Nearly always a single stage is enough. A second interpolation, or a resize of a padded image, begins another one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Flag, auto
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError

Ints = NDArray[np.int32]
Draws = NDArray[np.float64]
Size = tuple[int, int]

_TRIES = 10


class State(Flag):
    """The state of the image in a stage."""

    WHOLE = 0
    CUT = auto()
    """The resized image may have pixels outside of the window, which a later crop must not use."""
    PADDED = auto()
    """The window may contain padding zeros."""
    RESIZED = auto()


@dataclass(frozen=True, slots=True)
class Geometry:
    """Output of one stage for n images: arguments of the region decoder, one row per sample.

    A box is resized to `resized` pixels; the output is the window at `offsets` with the size of `rooms`.

    Parameters
    ----------
    boxes
        Top, left, height, width in pixels of the image, int32, shape (n, 4).
    resized
        Height and width, int32, shape (n, 2).
    offsets
        Row and column, int32, shape (n, 2).
    rooms
        Height and width of the output, int32, shape (n, 2).
    flips
        1 where the output is mirrored, uint8, shape (n,).
    """

    boxes: Ints
    resized: Ints
    offsets: Ints
    rooms: Ints
    flips: NDArray[np.uint8]

    @classmethod
    def whole(cls, extents: NDArray[Any]) -> Geometry:
        """Return the geometry of whole images of the given extents, shape (n, 2 or more): height, width."""
        sides = np.ascontiguousarray(extents[:, :2], dtype=np.int32)
        zeros = np.zeros_like(sides)
        return cls(np.hstack([zeros, sides]), sides, zeros, sides, np.zeros(len(sides), np.uint8))

    def cropped(self, top: NDArray[Any], left: NDArray[Any], size: NDArray[Any]) -> Geometry:
        """Cut a window of `size`, shape (n, 2) or (2,), out of the output; the window may extend beyond the output."""
        rooms = np.broadcast_to(np.asarray(size, np.int32), self.rooms.shape)
        mirrored = self.rooms[:, 1] - left - rooms[:, 1]
        across = np.where(self.flips, mirrored, left)
        offsets = self.offsets + np.stack([top, across], axis=1).astype(np.int32)
        return replace(self, offsets=offsets, rooms=np.ascontiguousarray(rooms))

    def resized_to(self, size: NDArray[Any]) -> Geometry:
        """Resize the output, which consists of pixels of the image, to `size`, shape (n, 2) or (2,)."""
        boxes = np.hstack([self.boxes[:, :2] + self.offsets, self.rooms])
        rooms = np.ascontiguousarray(np.broadcast_to(np.asarray(size, np.int32), self.rooms.shape))
        return replace(self, boxes=boxes, resized=rooms, offsets=np.zeros_like(rooms), rooms=rooms)

    def mirrored(self, chosen: NDArray[Any]) -> Geometry:
        """Mirror the chosen samples; bool, shape (n,)."""
        return replace(self, flips=self.flips ^ chosen.astype(np.uint8))


class Operation:
    """A geometric step: a crop, a resize or a flip."""

    __slots__ = ()

    @property
    def draws(self) -> int:
        """Number of random numbers that the operation needs per sample."""
        return 0

    @property
    def output(self) -> Size | None:
        """Height and width of the output; None if they depend on the image."""
        return None

    def follows(self, state: State) -> bool:  # noqa: ARG002 - operations override it
        """Return whether the operation can be done in the same pass as the previous operations."""
        return True

    def leads_to(self, state: State) -> State:
        """Return the state of the stage after the operation."""
        return state

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:
        """Return the geometry after the operation; `draws` has shape (n, self.draws)."""
        raise NotImplementedError


def _size(size: int | Sequence[int]) -> Size:
    """Return height and width; a single number stands for both."""
    pair = (size,) if isinstance(size, int) else tuple(size)
    pair = pair * 2 if len(pair) == 1 else pair
    if len(pair) != 2 or min(pair) < 1:
        raise InvalidInputError(
            f"{size!r} is not a size: give a height and a width of at least 1, or one number for both"
        )
    return int(pair[0]), int(pair[1])


def _probability(p: float) -> float:
    if not 0 <= p <= 1:
        raise InvalidInputError(f"a probability must be between 0 and 1, not {p!r}")
    return float(p)


def _least_and_greatest(name: str, pair: Sequence[float]) -> tuple[float, float]:
    if len(pair) != 2 or not 0 < pair[0] <= pair[1]:
        raise InvalidInputError(f"{name} must be two numbers above 0, (least, greatest), not {pair!r}")
    return float(pair[0]), float(pair[1])


def _below(draws: Draws, count: NDArray[Any]) -> NDArray[np.int64]:
    """Turn numbers in [0, 1) into integers in [0, count)."""
    below: NDArray[np.int64] = np.minimum((draws * count).astype(np.int64), count - 1)
    return below


def _set(operation: object, **values: Any) -> None:
    """Set fields of a frozen operation while it is made."""
    for name, value in values.items():
        object.__setattr__(operation, name, value)


@dataclass(frozen=True, slots=True)
class RandomResizedCrop(Operation):
    """Cut a box of a random area and shape and resize it, with a filter against aliasing.

    Parameters
    ----------
    size
        Height and width of the output, or one number for both.
    scale
        Minimum and maximum of the box's area, as a fraction of the image's area.
    ratio
        Minimum and maximum of the box's width / height.
    flip
        Probability that the output is mirrored, as by a following :class:`HorizontalFlip`.
    """

    size: int | Sequence[int]
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    flip: float = 0.0

    def __post_init__(self) -> None:
        scale, ratio = _least_and_greatest("scale", self.scale), _least_and_greatest("ratio", self.ratio)
        _set(self, size=_size(self.size), scale=scale, ratio=ratio, flip=_probability(self.flip))

    @property
    def draws(self) -> int:
        return 2 * _TRIES + 2 + (self.flip > 0)

    @property
    def output(self) -> Size | None:
        return _size(self.size)

    def follows(self, state: State) -> bool:
        return not state & (State.PADDED | State.RESIZED)

    def leads_to(self, state: State) -> State:  # noqa: ARG002
        return State.RESIZED

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:
        extents = geometry.rooms.astype(np.int64)
        sides, drawn = self._sides(extents, draws[:, : 2 * _TRIES])
        free = extents - sides
        at = draws[:, 2 * _TRIES : 2 * _TRIES + 2]
        corner = np.where(drawn[:, np.newaxis], _below(at, free + 1), free // 2)
        made = geometry.cropped(corner[:, 0], corner[:, 1], sides).resized_to(np.array(self.size))
        return made.mirrored(draws[:, 2 * _TRIES + 2] < self.flip) if self.flip else made

    def _sides(self, extents: NDArray[np.int64], draws: Draws) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return height and width of the boxes: the first of ten tries that fits, else a centred box."""
        tries = draws.reshape(len(draws), _TRIES, 2)
        height, width = extents[:, 0], extents[:, 1]
        area = (height * width)[:, np.newaxis] * _between(tries[..., 0], *self.scale)
        ratio = np.exp(_between(tries[..., 1], *map(math.log, self.ratio)))
        tall, wide = np.rint(np.sqrt(area / ratio)), np.rint(np.sqrt(area * ratio))
        fits = (tall > 0) & (tall <= height[:, np.newaxis]) & (wide > 0) & (wide <= width[:, np.newaxis])
        rows, first = np.arange(len(draws)), fits.argmax(axis=1)
        drawn = fits[rows, first]
        shape = width / height
        rest_height = np.where(shape < self.ratio[0], np.rint(width / self.ratio[0]), height)
        rest_width = np.where(shape > self.ratio[1], np.rint(height * self.ratio[1]), width)
        tall = np.where(drawn, tall[rows, first], rest_height)
        wide = np.where(drawn, wide[rows, first], rest_width)
        # In a narrow image, the box may be thinner than a pixel: take at least one pixel.
        return np.clip(np.stack([tall, wide], axis=1), 1, extents).astype(np.int64), drawn


def _between(draws: Draws, low: float, high: float) -> Draws:
    return low + (high - low) * draws


@dataclass(frozen=True, slots=True)
class CenterCrop(Operation):
    """Cut a box out of the centre; a smaller image is padded with zeros.

    Parameters
    ----------
    size
        Height and width, or one number for both.
    """

    size: int | Sequence[int]

    def __post_init__(self) -> None:
        _set(self, size=_size(self.size))

    @property
    def output(self) -> Size | None:
        return _size(self.size)

    def follows(self, state: State) -> bool:
        return not state & State.CUT

    def leads_to(self, state: State) -> State:
        return state | State.CUT | State.PADDED

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:  # noqa: ARG002
        free = geometry.rooms - np.array(self.size)
        corner = np.where(free < 0, -(-free // 2), np.rint(free / 2)).astype(np.int64)
        return geometry.cropped(corner[:, 0], corner[:, 1], np.array(self.size))


@dataclass(frozen=True, slots=True)
class RandomCrop(Operation):
    """Cut a box of a fixed size out at a random place.

    Parameters
    ----------
    size
        Height and width, or one number for both.
    padding
        Zeros around the image: one number, (left and right, top and bottom), or (left, top, right, bottom).
    pad_if_needed
        Pad images that are smaller than the box, instead of refusing them.
    """

    size: int | Sequence[int]
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False

    def __post_init__(self) -> None:
        sides = self.padding if self.padding is not None else 0
        sides = (sides,) if isinstance(sides, int) else tuple(sides)
        if len(sides) not in (1, 2, 4) or min(sides) < 0:
            raise InvalidInputError(
                f"{self.padding!r} is not a padding: give one, two or four numbers of at least 0"
            )
        padding = tuple(map(int, sides * (4 // len(sides))))
        _set(self, size=_size(self.size), padding=padding, pad_if_needed=bool(self.pad_if_needed))

    @property
    def draws(self) -> int:
        return 2

    @property
    def output(self) -> Size | None:
        return _size(self.size)

    @property
    def _pads(self) -> bool:
        return bool(np.any(self.padding)) or self.pad_if_needed

    def follows(self, state: State) -> bool:
        return not (self._pads and state & State.CUT)

    def leads_to(self, state: State) -> State:
        return state | State.CUT | (State.PADDED if self._pads else State.WHOLE)

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:
        left, top, right, bottom = np.array(self.padding).tolist()
        size = np.array(self.size)
        before = np.broadcast_to(np.array([top, left]), geometry.rooms.shape)
        free = geometry.rooms + np.array([top + bottom, left + right]) - size
        if self.pad_if_needed:
            before = before + np.maximum(-free, 0)
            # Padding both sides by the number of missing pixels leaves that number of free pixels.
            free = np.abs(free)
        elif (free < 0).any():
            found = geometry.rooms[int((free < 0).any(axis=1).argmax())].tolist()
            raise InvalidInputError(
                f"an image of {found[0]} x {found[1]} pixels is smaller than a crop of {size[0]} x "
                f"{size[1]}: give RandomCrop a padding, or pad_if_needed=True"
            )
        corner = _below(draws, free.astype(np.int64) + 1) - before
        return geometry.cropped(corner[:, 0], corner[:, 1], size)


@dataclass(frozen=True, slots=True)
class Resize(Operation):
    """Resize, with a filter against aliasing.

    Parameters
    ----------
    size
        Length of the shorter side, if it is one number; the other side keeps the image's shape. Or height and width.
    max_size
        Maximum length of the longer side, if `size` is one number.
    """

    size: int | Sequence[int]
    max_size: int | None = None

    def __post_init__(self) -> None:
        size, max_size = _size(self.size), self.max_size
        is_one = isinstance(self.size, int) or len(self.size) == 1
        if max_size is not None and (not is_one or max_size <= size[0]):
            raise InvalidInputError(
                f"with max_size={max_size!r}, size must be a single number below {max_size}, not {self.size!r}"
            )
        _set(self, size=size[0] if is_one else size)

    @property
    def output(self) -> Size | None:
        return None if isinstance(self.size, int) else _size(self.size)

    def follows(self, state: State) -> bool:
        return not state & (State.PADDED | State.RESIZED)

    def leads_to(self, state: State) -> State:  # noqa: ARG002
        return State.RESIZED

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:  # noqa: ARG002
        if not isinstance(self.size, int):
            return geometry.resized_to(np.array(self.size))
        rooms = geometry.rooms.astype(np.int64)
        short, long = rooms.min(axis=1), rooms.max(axis=1)
        new_short, new_long = np.full_like(short, self.size), (self.size * long / short).astype(np.int64)
        if self.max_size is not None:
            over = new_long > self.max_size
            new_short = np.where(over, (self.max_size * new_short / new_long).astype(np.int64), new_short)
            new_long = np.where(over, self.max_size, new_long)
        is_upright = rooms[:, 1] <= rooms[:, 0]
        height, width = np.where(is_upright, (new_long, new_short), (new_short, new_long))
        return geometry.resized_to(np.maximum(np.stack([height, width], axis=1), 1))


@dataclass(frozen=True, slots=True)
class HorizontalFlip(Operation):
    """Mirror left and right.

    Parameters
    ----------
    p
        Probability.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        _set(self, p=_probability(self.p))

    @property
    def draws(self) -> int:
        return 1

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:
        return geometry.mirrored(draws[:, 0] < self.p)


@dataclass(frozen=True, slots=True)
class ToFloat:
    """Turn the batch into float32 numbers in [0, 1]: each value divided by 255."""


@dataclass(frozen=True, slots=True)
class ChannelsFirst:
    """Make batches of shape (n, channels, height, width)."""


@dataclass(frozen=True, slots=True)
class Normalize:
    """Subtract the mean and divide by the deviation, for each channel of a batch that :class:`ToFloat` made.

    Parameters
    ----------
    mean, std
        One number per channel.
    """

    mean: Sequence[float]
    std: Sequence[float]

    def __post_init__(self) -> None:
        mean, std = self.mean, self.std
        if not mean or len(mean) != len(std) or not all(std):
            raise InvalidInputError(
                f"mean={mean!r} and std={std!r} must have one number per channel each, and no std may be 0"
            )
        _set(self, mean=tuple(map(float, mean)), std=tuple(map(float, std)))


Step: TypeAlias = Operation | ToFloat | Normalize | ChannelsFirst


@dataclass(frozen=True, slots=True)
class Compose:
    """A sequence of operations: crops, resizes and flips, then conversions of the whole batch.

    Parameters
    ----------
    operations
        The sequence; :class:`ToFloat` and :class:`Normalize` come last. :class:`ChannelsFirst` may be anywhere.
    scaled
        Let the decoder of JPEG files scale an image down by 2, 4 or 8 if the box then still has at least the requested
        number of pixels. Values differ by 1 or 2 of 255 on average, and large photos take half the time. None means
        True if an operation is random, as in training. If false, values equal those of decoding the whole image and
        resizing it with Pillow.
    """

    operations: Sequence[Step]
    scaled: bool | None = None

    def __post_init__(self) -> None:
        known = tuple(self.operations)
        is_float = False
        for operation in known:
            if isinstance(operation, ToFloat):
                is_float = True
            elif isinstance(operation, Normalize):
                if not is_float:
                    raise InvalidInputError("Normalize takes floats: put ToFloat() before it")
            elif isinstance(operation, ChannelsFirst):
                continue
            elif not isinstance(operation, Operation):
                raise InvalidInputError(f"{operation!r} is not an operation of lakebed.loaders.ops")
            elif is_float:
                raise InvalidInputError(f"put {operation!r} before ToFloat and Normalize")
        _set(self, operations=known)
        _set(self, scaled=self.draws > 0 if self.scaled is None else bool(self.scaled))

    @property
    def geometric(self) -> tuple[Operation, ...]:
        """The crops, resizes and flips."""
        return tuple(step for step in self.operations if isinstance(step, Operation))

    @property
    def stages(self) -> tuple[tuple[Operation, ...], ...]:
        """The geometric operations, divided into the passes that they need."""
        stages: list[list[Operation]] = [[]]
        state = State.WHOLE
        for step in self.geometric:
            if not step.follows(state):
                stages.append([])
                state = State.WHOLE
            stages[-1].append(step)
            state = step.leads_to(state)
        return tuple(tuple(stage) for stage in stages)

    @property
    def draws(self) -> int:
        """Number of random numbers in [0, 1) that each sample needs."""
        return sum(step.draws for step in self.geometric)

    @property
    def output(self) -> Size | None:
        """Height and width of all outputs; None if they depend on the images."""
        sizes = [step.output for step in self.geometric if not isinstance(step, HorizontalFlip)]
        return sizes[-1] if sizes else None

    def geometries(self, extents: NDArray[Any], draws: Draws) -> list[Geometry]:
        """Return the geometry of each stage.

        Parameters
        ----------
        extents
            Height and width of the images, shape (n, 2 or more).
        draws
            Numbers in [0, 1), shape (n, self.draws).

        Returns
        -------
        list of Geometry
            One per stage; each begins with the output of the previous one.

        Raises
        ------
        InvalidInputError
            If an image is too small for a crop.
        """
        found = []
        at = 0
        for stage in self.stages:
            geometry = Geometry.whole(extents)
            for step in stage:
                geometry = step.apply(geometry, draws[:, at : at + step.draws])
                at += step.draws
            found.append(geometry)
            extents = geometry.rooms
        return found

    @property
    def planar(self) -> bool:
        """Whether the output has its channels first."""
        return any(isinstance(step, ChannelsFirst) for step in self.operations)

    @property
    def is_float(self) -> bool:
        """Whether batches are converted to float32."""
        return any(isinstance(step, ToFloat) for step in self.operations)

    def factors(self, channels: int) -> NDArray[np.float32]:
        """Return scale and shift of each channel: a value v of channel c becomes v * factors[0, c] + factors[1, c].

        The shape is (2, channels), as the region decoder expects.

        Raises
        ------
        InvalidInputError
            If :class:`Normalize` has another number of channels.
        """
        scale, shift = np.full(channels, 1 / 255), np.zeros(channels)
        for step in self.operations:
            if isinstance(step, Normalize):
                if len(step.mean) not in (1, channels):
                    raise InvalidInputError(f"{step!r} is for {len(step.mean)} channels, not for {channels}")
                scale, shift = scale / step.std, (shift - step.mean) / step.std
        return np.stack([scale, shift]).astype(np.float32)
