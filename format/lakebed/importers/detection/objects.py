"""Objects of images, as Pascal VOC, LabelMe, CVAT and Open Images have them: the same tensors for all of them.

labels        class_label: a class for each object
boxes         bbox, float64: left, top, right, bottom
polygons      polygon, float64: the points that the file has for an object, whatever its shape is
attributes    json: an object for each object, with all else that is said of it
annotation    json: what is said of the image
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from lakebed.errors import LakebedError
from lakebed.importers.core.plan import TensorPlan, tensor
from lakebed.importers.core.source import Source, stem_of, suffix_of
from lakebed.importers.folders.pictures import IMAGE_KINDS
from lakebed.transforms.output import Skipped

T = TypeVar("T")

# Files of a bucket that a plan reads at the same time: so many, and no more than so many bytes of the largest.
_READERS = 32
_READ_BYTES = 1 << 26
_LTRB = {"mode": "LTRB"}
_TURNED = "corners of a box were in another order: it is left, top, right, bottom now"


@dataclass
class Object:
    """An object of an image.

    Parameters
    ----------
    box
        Left, top, right, bottom; None is the one around the points.
    points
        What the file has: corners, a center and a point of a circle, points of a line.
    attributes
        All else, as JSON.
    wrong
        What is wrong with it, and is left out of it.
    is_turned
        Whether the corners of its box were in another order.
    """

    label: str
    box: Sequence[float] | None = None
    points: Sequence[Sequence[float]] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    is_turned: bool = False


@dataclass
class Objects:
    """The objects of an image, and what is told of those that are damaged."""

    found: list[Object] = field(default_factory=list)
    told: list[Skipped] = field(default_factory=list)

    def add(self, where: str, make: Callable[[], Object]) -> Object | None:
        """Add an object, or tell why it is none.

        Parameters
        ----------
        where
            File and place of the object.
        make
            Returns it, or raises ValueError.
        """
        try:
            one = checked(make())
        except ValueError as error:
            self.told.append(Skipped(where, f"no object: {error}"))
            return None
        self.told += [Skipped(where, reason, 0) for reason in one.wrong]
        if one.is_turned:
            self.told.append(Skipped(where, _TURNED, 0, is_change=True))
        self.found.append(one)
        return one


def tensors_of(
    classes: Sequence[str],
    *,
    polygons: bool,
    fractional: bool = False,
    info: Mapping[str, Any] | None = None,
) -> list[TensorPlan]:
    """Return the tensors of objects.

    Parameters
    ----------
    classes
        Names of the classes.
    polygons
        Whether objects have points.
    fractional
        Numbers are fractions of the image's sides, not pixels.
    info
        What is said of the classes.
    """
    kind = {"type": "fractional" if fractional else "pixel"}
    found = [
        tensor("labels", "class_label", class_names=list(classes), info=info, is_list=True),
        tensor("boxes", "bbox", dtype="float64", coords={**kind, **_LTRB}),
    ]
    if polygons:
        found.append(tensor("polygons", "polygon", dtype="float64", info={"coords": kind}))
    return [*found, tensor("attributes", "json"), tensor("annotation", "json"), tensor("file", "text")]


def values_of(objects: Sequence[Object], *, polygons: bool) -> dict[str, Any]:
    """Return the values of a row that has these objects."""
    found: dict[str, Any] = {
        "labels": [one.label for one in objects] or np.zeros(0, np.uint32),
        "boxes": np.array([one.box for one in objects], np.float64).reshape(len(objects), 4),
        "attributes": [one.attributes for one in objects],
    }
    if polygons:
        found["polygons"] = [np.array(one.points, np.float64).reshape(-1, 2) for one in objects]
    return found


def checked(one: Object) -> Object:
    """Return an object with its box, and with points.

    Raises
    ------
    ValueError
        If it has neither, or a number is not finite.
    """
    if not one.label.strip():
        raise ValueError("it has no class")
    if one.box is None:
        if not one.points:
            raise ValueError("it has no points")
        across, down = [point[0] for point in one.points], [point[1] for point in one.points]
        one.box = (min(across), min(down), max(across), max(down))
    if not one.points:
        one.points = (tuple(one.box[:2]), tuple(one.box[2:]))
    if not all(math.isfinite(value) for point in (one.box, *one.points) for value in point):
        raise ValueError("a number is not finite")
    left, top, right, bottom = one.box
    if left > right or top > bottom:
        one.box = (min(left, right), min(top, bottom), max(left, right), max(top, bottom))
        one.is_turned = True
    return one


def number_of(value: Any, name: str) -> float:
    """Return a number, or text that is one.

    Raises
    ------
    ValueError
        If it is none, or not finite.
    """
    found = math.nan
    if type(value) in (int, float) or (type(value) is str and "_" not in value):  # 1_0 is one in Python alone
        try:
            found = float(value)
        except (ValueError, OverflowError):
            found = math.nan
    if math.isfinite(found):
        return found
    if value is None or (type(value) is str and not value.strip()):
        raise ValueError(f"its {name} is missing")
    raise ValueError(f"its {name} is {str(value)[:80]!r}, and no number")


def plain_number(text: str) -> Any:
    """Return text as a number, where the number's text is the same; otherwise the text."""
    stripped = text.strip()
    for kind in (int, float):
        try:
            found = kind(stripped)
        except ValueError:
            continue
        if str(found) == stripped and abs(found) <= sys.float_info.max:
            return found
    return text


def each(source: Source, names: Iterable[str], function: Callable[[str], T]) -> list[T | LakebedError]:
    """Return what a function makes of files, in order, or why it could not; files elsewhere are read together."""

    def one(name: str) -> T | LakebedError:
        try:
            return function(name)
        except LakebedError as error:
            return error

    if source.is_local:
        return [one(name) for name in names]
    chosen = list(names)
    largest = max((source.files[name] for name in chosen), default=0)
    readers = max(1, min(_READERS, _READ_BYTES // max(largest, 1)))
    with ThreadPoolExecutor(readers, thread_name_prefix="import") as pool:
        return list(pool.map(one, chosen))


class Images:
    """Images of a source, found for the annotations that name them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.names = [name for name in source.files if suffix_of(name) in IMAGE_KINDS]
        self._known = set(self.names)
        self._by_stem: dict[str, list[str]] = {}
        for name in self.names:
            self._by_stem.setdefault(stem_of(name), []).append(name)

    def named(self, name: str, folders: Iterable[str] = ("",)) -> str | None:
        """Return the image of a name, as written from one of the folders; otherwise the only one of its last part."""
        wanted = name.replace("\\", "/")
        for folder in folders:
            try:
                found = self._source.find(f"{folder}/{wanted}".lstrip("/"))
            except LakebedError:
                continue
            if found in self._known:
                return found
        last = wanted.rpartition("/")[2]
        same = [one for one in self._by_stem.get(stem_of(last), ()) if one.rpartition("/")[2] == last]
        return same[0] if len(same) == 1 else None

    def of_stem(self, stem: str, folder: str = "", siblings: Sequence[str] = ()) -> str | None:
        """Return the image of a stem: in a folder, in a folder beside it, or the only one that there is."""
        found = self._by_stem.get(stem, [])
        above = folder.rpartition("/")[0]
        for place in (folder, *(f"{above}/{sibling}".lstrip("/") for sibling in siblings)):
            here = [name for name in found if name.rpartition("/")[0] == place]
            if len(here) == 1:
                return here[0]
        return found[0] if len(found) == 1 else None
