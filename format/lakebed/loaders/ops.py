"""Declared crops, resizes and flips: what a transform begins with, told instead of called.

An operation says of each sample which box of its image becomes which output, by the image's extents and numbers drawn
in [0, 1): arithmetic on arrays, without pixels and without a state. The loader hands the boxes to the region decoder,
so that only they are decoded, and already at their size. Parameters and meaning are those of torchvision's v2
transforms of the same names.

    operations of a Compose -> stages -> Geometry of each stage -> one pass of decoding or resizing per stage

Nearly always there is one stage. Another begins where a second interpolation, or a resize of what was padded, does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Flag, auto
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError

Ints = NDArray[np.int32]
Draws = NDArray[np.float64]
Size = tuple[int, int]

_TRIES = 10


class State(Flag):
    """What a stage has come to: what has been done to its image."""

    WHOLE = 0
    CUT = auto()
    """There may be pixels around the window that a later crop must not see."""
    PADDED = auto()
    """There may be zeros in the window."""
    RESIZED = auto()


@dataclass(frozen=True, slots=True)
class Geometry:
    """What one stage makes of n images: arguments of the region decoder, one row per sample.

    A box becomes `resized` pixels, of which the window at `offsets` with the size of the room is what comes out.

    Parameters
    ----------
    boxes
        Top, left, height, width in pixels of the image, int32, shape (n, 4).
    resized
        Height and width, int32, shape (n, 2).
    offsets
        Row and column, int32, shape (n, 2).
    rooms
        Height and width of what comes out, int32, shape (n, 2).
    flips
        1 where it is mirrored in the end, uint8, shape (n,).
    """

    boxes: Ints
    resized: Ints
    offsets: Ints
    rooms: Ints
    flips: NDArray[np.uint8]

    @classmethod
    def whole(cls, extents: NDArray[Any]) -> Geometry:
        """Begin with whole images of the given extents, shape (n, 2 or more): height, width."""
        sides = np.ascontiguousarray(extents[:, :2], dtype=np.int32)
        zeros = np.zeros_like(sides)
        return cls(np.hstack([zeros, sides]), sides, zeros, sides, np.zeros(len(sides), np.uint8))

    def cropped(self, top: NDArray[Any], left: NDArray[Any], size: NDArray[Any]) -> Geometry:
        """Cut a window of `size`, shape (n, 2) or (2,), out of what comes out now; it may leave it."""
        rooms = np.broadcast_to(np.asarray(size, np.int32), self.rooms.shape)
        mirrored = self.rooms[:, 1] - left - rooms[:, 1]
        across = np.where(self.flips, mirrored, left)
        offsets = self.offsets + np.stack([top, across], axis=1).astype(np.int32)
        return replace(self, offsets=offsets, rooms=np.ascontiguousarray(rooms))

    def resized_to(self, size: NDArray[Any]) -> Geometry:
        """Resize what comes out now, which is pixels of the image, to `size`, shape (n, 2) or (2,)."""
        boxes = np.hstack([self.boxes[:, :2] + self.offsets, self.rooms])
        rooms = np.ascontiguousarray(np.broadcast_to(np.asarray(size, np.int32), self.rooms.shape))
        return replace(self, boxes=boxes, resized=rooms, offsets=np.zeros_like(rooms), rooms=rooms)

    def mirrored(self, chosen: NDArray[Any]) -> Geometry:
        """Mirror the samples that are chosen, bool, shape (n,)."""
        return replace(self, flips=self.flips ^ chosen.astype(np.uint8))


@runtime_checkable
class Operation(Protocol):
    """One step of where pixels come from."""

    @property
    def draws(self) -> int:
        """How many numbers it needs per sample."""
        ...

    @property
    def output(self) -> Size | None:
        """Height and width of what comes out; None if they follow from the image."""
        ...

    def follows(self, state: State) -> bool:
        """Tell whether it can be done in the same pass as what has been done."""
        ...

    def leads_to(self, state: State) -> State:
        """Return what the stage has come to after it."""
        ...

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:
        """Return the geometry after it; `draws` has shape (n, self.draws)."""
        ...


def _size(size: int | Sequence[int]) -> Size:
    """Return height and width: of one number, both."""
    pair = (size,) if isinstance(size, int) else tuple(size)
    pair = pair * 2 if len(pair) == 1 else pair
    if len(pair) != 2 or min(pair) < 1:
        raise InvalidInputError(
            f"a size is a height and a width of at least 1, or one number for both: {size!r}"
        )
    return int(pair[0]), int(pair[1])


def _probability(p: float) -> float:
    if not 0 <= p <= 1:
        raise InvalidInputError(f"a probability lies in [0, 1]: {p!r}")
    return float(p)


def _least_and_greatest(name: str, pair: Sequence[float]) -> tuple[float, float]:
    if len(pair) != 2 or not 0 < pair[0] <= pair[1]:
        raise InvalidInputError(f"{name} is (least, greatest), above 0: {pair!r}")
    return float(pair[0]), float(pair[1])


def _below(draws: Draws, count: NDArray[Any]) -> NDArray[np.int64]:
    """Turn numbers in [0, 1) into integers in [0, count)."""
    below: NDArray[np.int64] = np.minimum((draws * count).astype(np.int64), count - 1)
    return below


@dataclass(frozen=True, slots=True, init=False)
class RandomResizedCrop:
    """Cut a box of a random area and shape and resize it, with a filter against aliasing.

    Parameters
    ----------
    size
        Height and width of what comes out, or one number for both.
    scale
        Least and greatest part of the image's area.
    ratio
        Least and greatest width / height.
    flip
        Probability that it is mirrored, as by a :class:`HorizontalFlip` behind it.
    """

    size: Size
    scale: tuple[float, float]
    ratio: tuple[float, float]
    flip: float

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        flip: float = 0.0,
    ) -> None:
        object.__setattr__(self, "size", _size(size))
        object.__setattr__(self, "scale", _least_and_greatest("scale", scale))
        object.__setattr__(self, "ratio", _least_and_greatest("ratio", ratio))
        object.__setattr__(self, "flip", _probability(flip))

    @property
    def draws(self) -> int:
        return 2 * _TRIES + 2 + (self.flip > 0)

    @property
    def output(self) -> Size | None:
        return self.size

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
        """Return height and width of the boxes: of the first of ten tries that fits, else of a box in the centre."""
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
        sides = np.stack(
            [np.where(drawn, tall[rows, first], rest_height), np.where(drawn, wide[rows, first], rest_width)],
            axis=1,
        )
        # A narrow image can have no box of that shape at all: one pixel at least.
        return np.clip(sides, 1, extents).astype(np.int64), drawn


def _between(draws: Draws, low: float, high: float) -> Draws:
    return low + (high - low) * draws


@dataclass(frozen=True, slots=True, init=False)
class CenterCrop:
    """Cut a box out of the centre; an image that is smaller gets zeros around it.

    Parameters
    ----------
    size
        Height and width, or one number for both.
    """

    size: Size

    def __init__(self, size: int | Sequence[int]) -> None:
        object.__setattr__(self, "size", _size(size))

    @property
    def draws(self) -> int:
        return 0

    @property
    def output(self) -> Size | None:
        return self.size

    def follows(self, state: State) -> bool:
        return not state & State.CUT

    def leads_to(self, state: State) -> State:
        return state | State.CUT | State.PADDED

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:  # noqa: ARG002
        free = geometry.rooms - np.array(self.size)
        corner = np.where(free < 0, -(-free // 2), np.rint(free / 2)).astype(np.int64)
        return geometry.cropped(corner[:, 0], corner[:, 1], np.array(self.size))


@dataclass(frozen=True, slots=True, init=False)
class RandomCrop:
    """Cut a box of a fixed size out of a random place.

    Parameters
    ----------
    size
        Height and width, or one number for both.
    padding
        Zeros around the image: one number, (left and right, top and bottom), or (left, top, right, bottom).
    pad_if_needed
        Pad images that are smaller than the box, instead of refusing them.
    """

    size: Size
    padding: tuple[int, int, int, int]
    pad_if_needed: bool

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
    ) -> None:
        sides = (0,) if padding is None else (padding,) if isinstance(padding, int) else tuple(padding)
        if len(sides) not in (1, 2, 4) or min(sides) < 0:
            raise InvalidInputError(f"a padding is one, two or four numbers, not below 0: {padding!r}")
        object.__setattr__(self, "size", _size(size))
        object.__setattr__(self, "padding", tuple(map(int, sides * (4 // len(sides)))))
        object.__setattr__(self, "pad_if_needed", bool(pad_if_needed))

    @property
    def draws(self) -> int:
        return 2

    @property
    def output(self) -> Size | None:
        return self.size

    @property
    def _pads(self) -> bool:
        return any(self.padding) or self.pad_if_needed

    def follows(self, state: State) -> bool:
        return not (self._pads and state & State.CUT)

    def leads_to(self, state: State) -> State:
        return state | State.CUT | (State.PADDED if self._pads else State.WHOLE)

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:
        left, top, right, bottom = self.padding
        before = np.broadcast_to(np.array([top, left]), geometry.rooms.shape)
        free = geometry.rooms + np.array([top + bottom, left + right]) - np.array(self.size)
        if self.pad_if_needed:
            before = before + np.maximum(-free, 0)
            free = np.abs(free)  # padded by what is missing on both sides, so that as much is left
        elif (free < 0).any():
            found = geometry.rooms[int((free < 0).any(axis=1).argmax())].tolist()
            raise InvalidInputError(
                f"an image of {found[0]} x {found[1]} pixels is smaller than a crop of {self.size[0]} x "
                f"{self.size[1]}: give RandomCrop a padding, or pad_if_needed=True"
            )
        corner = _below(draws, free.astype(np.int64) + 1) - before
        return geometry.cropped(corner[:, 0], corner[:, 1], np.array(self.size))


@dataclass(frozen=True, slots=True, init=False)
class Resize:
    """Resize, with a filter against aliasing.

    Parameters
    ----------
    size
        Of the shorter side, if it is one number; the other keeps the shape of the image. Or height and width.
    max_size
        Greatest length of the longer side, where `size` is one number.
    """

    size: int | Size
    max_size: int | None

    def __init__(self, size: int | Sequence[int], max_size: int | None = None) -> None:
        one = size if isinstance(size, int) else size[0] if len(size) == 1 else None
        if max_size is not None and (one is None or max_size <= one):
            raise InvalidInputError(
                f"max_size goes with a size that is one number, below it: {size!r}, {max_size!r}"
            )
        object.__setattr__(self, "size", _size(size)[0] if one is not None else _size(size))
        object.__setattr__(self, "max_size", max_size)

    @property
    def draws(self) -> int:
        return 0

    @property
    def output(self) -> Size | None:
        return None if isinstance(self.size, int) else self.size

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
        sides = np.stack(
            [np.where(is_upright, new_long, new_short), np.where(is_upright, new_short, new_long)], axis=1
        )
        return geometry.resized_to(np.maximum(sides, 1))


@dataclass(frozen=True, slots=True, init=False)
class HorizontalFlip:
    """Mirror left and right.

    Parameters
    ----------
    p
        Probability.
    """

    p: float

    def __init__(self, p: float = 0.5) -> None:
        object.__setattr__(self, "p", _probability(p))

    @property
    def draws(self) -> int:
        return 1

    @property
    def output(self) -> Size | None:
        return None

    def follows(self, state: State) -> bool:  # noqa: ARG002
        return True

    def leads_to(self, state: State) -> State:
        return state

    def apply(self, geometry: Geometry, draws: Draws) -> Geometry:
        return geometry.mirrored(draws[:, 0] < self.p)


@dataclass(frozen=True, slots=True)
class ToFloat:
    """Turn the batch into float32 numbers in [0, 1]: each value divided by 255."""


@dataclass(frozen=True, slots=True)
class ChannelsFirst:
    """Make batches of shape (n, channels, height, width)."""


@dataclass(frozen=True, slots=True, init=False)
class Normalize:
    """Subtract the mean and divide by the deviation, for each channel of a batch that :class:`ToFloat` made.

    Parameters
    ----------
    mean, std
        One number per channel.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        if not mean or len(mean) != len(std) or not all(std):
            raise InvalidInputError(f"mean and std are a number per channel, std not 0: {mean!r}, {std!r}")
        object.__setattr__(self, "mean", tuple(map(float, mean)))
        object.__setattr__(self, "std", tuple(map(float, std)))


Step: TypeAlias = Operation | ToFloat | Normalize | ChannelsFirst


@dataclass(frozen=True, slots=True, init=False)
class Compose:
    """Operations one after another: crops, resizes and flips, then what the whole batch goes through.

    Parameters
    ----------
    operations
        In their order; :class:`ToFloat` and :class:`Normalize` come last. :class:`ChannelsFirst` may stand anywhere.
    scaled
        Let the decoder of JPEG files scale an image down, by 2, 4 or 8, where a box keeps at least the pixels that are
        wanted: values differ by 1 or 2 of 255 on average, and large photos cost half. None is yes where an operation is
        random, as in training; without, as in evaluation, values are those of decoding all and resizing with Pillow.
    """

    operations: tuple[Step, ...]
    scaled: bool

    def __init__(self, operations: Sequence[Step], scaled: bool | None = None) -> None:
        known = tuple(operations)
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
                raise InvalidInputError(f"{operation!r} is no operation of lakebed.loaders.ops")
            elif is_float:
                raise InvalidInputError(f"{operation!r} comes before ToFloat and Normalize")
        object.__setattr__(self, "operations", known)
        object.__setattr__(self, "scaled", self.draws > 0 if scaled is None else bool(scaled))

    @property
    def geometric(self) -> tuple[Operation, ...]:
        """The crops, resizes and flips."""
        return tuple(step for step in self.operations if isinstance(step, Operation))

    @property
    def stages(self) -> tuple[tuple[Operation, ...], ...]:
        """The same, by the passes that they take."""
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
        """How many numbers in [0, 1) each sample needs."""
        return sum(step.draws for step in self.geometric)

    @property
    def output(self) -> Size | None:
        """Height and width of all that comes out; None if they follow from the images."""
        sizes = [step.output for step in self.geometric if not isinstance(step, HorizontalFlip)]
        return sizes[-1] if sizes else None

    def geometries(self, extents: NDArray[Any], draws: Draws) -> list[Geometry]:
        """Return what each stage makes of samples.

        Parameters
        ----------
        extents
            Height and width of their images, shape (n, 2 or more).
        draws
            Numbers in [0, 1), shape (n, self.draws).

        Returns
        -------
        list of Geometry
            One per stage; each begins with what the one before makes.

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
        """Whether channels come first in what comes out."""
        return any(isinstance(step, ChannelsFirst) for step in self.operations)

    @property
    def is_float(self) -> bool:
        """Whether a batch becomes float32."""
        return any(isinstance(step, ToFloat) for step in self.operations)

    def factors(self, channels: int) -> NDArray[np.float32]:
        """Return what floats are made with: a value v of channel c becomes v * factors[0, c] + factors[1, c].

        Shape (2, channels), as the region decoder takes it.

        Raises
        ------
        InvalidInputError
            If there is a :class:`Normalize` for another number of channels.
        """
        scale, shift = np.full(channels, 1 / 255), np.zeros(channels)
        for step in self.operations:
            if isinstance(step, Normalize):
                if len(step.mean) not in (1, channels):
                    raise InvalidInputError(f"{step!r} is for {len(step.mean)} channels, not for {channels}")
                scale, shift = scale / step.std, (shift - step.mean) / step.std
        return np.stack([scale, shift]).astype(np.float32)
