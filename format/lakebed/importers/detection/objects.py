"""Objects of images in Pascal VOC, LabelMe, CVAT and Open Images, which share one plan and one set of tensors.

labels        class_label: a class for each object
boxes         bbox, float64: left, top, right, bottom
polygons      polygon, float64: the points that the file has for an object, for any kind of shape
attributes    json: a JSON object for each object, with its other values
annotation    json: the values of the image
file          text: the name of the image in the source
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack

import numpy as np

from lakebed.errors import LakebedError
from lakebed.importers.core.plan import ImageOptions, Media, Plan, Problem, TensorPlan, tensor
from lakebed.importers.core.source import Source, grouped, stem_of
from lakebed.importers.core.splits import SPLITS, in_order
from lakebed.importers.folders.pictures import images_of, planned_images
from lakebed.transforms.output import Skipped

T = TypeVar("T")

_READERS = 32
_READ_BYTES = 1 << 26
"""Maximum number of files of a bucket that a plan reads at the same time, and maximum number of their bytes."""

IMAGE_FOLDERS = ("images", "JPEGImages")
"""Folders of images that lie in the folder of a split, or around it."""

_TURNED = "corners of a box were in another order: it is left, top, right, bottom now"


@dataclass
class Object:
    """An object of an image.

    Parameters
    ----------
    box
        Left, top, right, bottom; None means the box around the points.
    points
        Points as the file has them: corners, a center and a point of a circle, points of a line.
    attributes
        Other values, as JSON.
    wrong
        Reasons why some of its values are left out.
    """

    label: str
    box: Sequence[float] | None = None
    points: Sequence[Sequence[float]] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


@dataclass
class Objects:
    """The objects of an image, and reports of damaged ones."""

    found: list[Object] = field(default_factory=list)
    told: list[Skipped] = field(default_factory=list)

    def add(self, where: str, make: Callable[..., Object], *arguments: Any) -> bool:
        """Add an object, or report why that is impossible; return whether it was added.

        Parameters
        ----------
        where
            File and place of the object.
        make
            Function that makes the object of the arguments, or raises ValueError.
        """
        try:
            one = make(*arguments)
            is_turned = _complete(one)
        except ValueError as error:
            self.told.append(Skipped(where, f"no object: {error}"))
            return False
        self.told += [Skipped(where, reason, 0) for reason in one.wrong]
        if is_turned:
            self.told.append(Skipped(where, _TURNED, 0, is_change=True))
        self.found.append(one)
        return True

    def values(self) -> dict[str, Any]:
        """Return the values of the row that has these objects."""
        return {
            "labels": [one.label for one in self.found] or np.zeros(0, np.uint32),
            "boxes": np.array([one.box for one in self.found], np.float64).reshape(len(self.found), 4),
            "polygons": [np.array(one.points, np.float64).reshape(-1, 2) for one in self.found],
            "attributes": [one.attributes for one in self.found],
        }


def _complete(one: Object) -> bool:
    """Complete the box and points of an object, and sort the box's corners; return True if they were not sorted.

    Raises
    ------
    ValueError
        If the object has no class, has neither box nor points, or has a number that is not finite.
    """
    if not one.label.strip():
        raise ValueError("it has no class")
    if one.box is None:
        if not one.points:
            raise ValueError("it has no points")
        across, down = [point[0] for point in one.points], [point[1] for point in one.points]
        one.box = (min(across), min(down), max(across), max(down))
    one.points = one.points or (tuple(one.box[:2]), tuple(one.box[2:]))
    if not all(math.isfinite(value) for point in (one.box, *one.points) for value in point):
        raise ValueError("a number is not finite")
    left, top, right, bottom = one.box
    one.box = (min(left, right), min(top, bottom), max(left, right), max(top, bottom))
    return left > right or top > bottom


def number_of(value: Any, name: str) -> float:
    """Return a number, or parse a text that is a number.

    Raises
    ------
    ValueError
        If the value is neither, or not finite.
    """
    found = math.nan
    # Reject underscores: 1_0 is a number only in Python.
    if type(value) in (int, float) or (type(value) is str and "_" not in value):
        try:
            found = float(value)
        except (ValueError, OverflowError):
            found = math.nan
    if math.isfinite(found):
        return found
    if value is None or (type(value) is str and not value.strip()):
        raise ValueError(f"its {name} is missing")
    raise ValueError(f"its {name} is {str(value)[:80]!r}, not a number")


def plain_number(text: str) -> Any:
    """Return text as a number if the number prints as the same text; otherwise the text."""
    stripped = text.strip()
    for kind in (int, float):
        try:
            found = kind(stripped)
        except ValueError:
            continue
        if str(found) == stripped and abs(found) <= sys.float_info.max:
            return found
    return text


# -- plans and rows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Context:
    """Settings that workers need; `known` has the settings of the format."""

    media: Media
    tensors: tuple[str, ...]
    known: Any = None

    def begun(self, image: str | None, file: str) -> dict[str, Any]:
        """Return the row of an image, which may be missing or inside another file; `file` names the row."""
        row: dict[str, Any] = {"file": file}
        return row if image is None else {**row, "images": self.media.value(image)}

    def finished(self, row: Mapping[str, Any], objects: Objects) -> Iterator[Any]:
        """Yield the reports of damaged objects, and the row."""
        yield from objects.told
        yield {name: row.get(name) for name in self.tensors}


def plan_of(
    name: str,
    source: Source,
    items: Sequence[Any],
    images: Sequence[str],
    classes: Sequence[str],
    problems: list[Problem],
    *,
    without: Sequence[str] = (),
    coords: str = "pixel",
    info: Mapping[str, Any] | None = None,
    more: Sequence[TensorPlan] = (),
    known: Any = None,
    nbytes: int | None = None,
    splits: Mapping[str, range],
    about: dict[str, Any],
    **options: Unpack[ImageOptions],
) -> Plan:
    """Return the plan of images with objects.

    Parameters
    ----------
    name
        Name of the format, for messages.
    source
        Source of the images.
    images
        Names of the images, or of files with the suffixes of their kinds.
    without
        Tensors of objects for which the format has no values.
    coords
        Unit of numbers: ``pixel``, or ``fractional`` for fractions of the image's sides.
    info
        Info of the labels.
    more
        Further tensors.
    known
        Settings of the format that workers need.
    nbytes
        Bytes of the images; None adds up the sizes of ``images``.
    """
    image, held = planned_images(source, images, problems, **options)
    objects = [
        tensor("labels", "class_label", class_names=list(classes), info=info, is_list=True),
        tensor("boxes", "bbox", dtype="float64", coords={"type": coords, "mode": "LTRB"}),
        tensor("polygons", "polygon", dtype="float64", info={"coords": {"type": coords}}),
        *(tensor("attributes", "json"), tensor("annotation", "json"), tensor("file", "text")),
    ]
    tensors = [image, *(one for one in objects if one.name not in without), *more]
    return Plan(
        f"{len(items):,} images with {name} annotations",
        tensors,
        items,
        Context(held, tuple(one.name for one in tensors), known),
        rows=len(items),
        nbytes=sum(source.files[image] for image in images) if nbytes is None else nbytes,
        splits=splits,
        problems=problems,
        classes={"labels": list(classes)},
        about=about,
    )


# -- files -------------------------------------------------------------------------------------------------------


def each(source: Source, names: Iterable[str], function: Callable[[str], T]) -> list[T | LakebedError]:
    """Return for each file the result of a function, or its error, in order; files of a bucket are read in parallel."""

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


def annotated(
    looked: Iterable[tuple[str, T | LakebedError]],
    image_of: Callable[[T], str | None],
    beside: Callable[[str], str | None],
    problems: list[Problem],
) -> tuple[dict[str, tuple[str, T]], set[str | None]]:
    """Match annotation files to images; return file and contents by image, and the images beside unreadable files.

    Parameters
    ----------
    looked
        Annotation files, each with its contents, or the error of reading it.
    image_of
        Function that returns the image of some contents, or the annotation file if the image is inside; None if the
        image is missing.
    beside
        Function that returns the image beside an annotation file.
    problems
        List to which reports of files are added: unreadable files, and files whose image is missing or has another
        annotation file.
    """
    found: dict[str, tuple[str, T]] = {}
    unreadable: set[str | None] = set()
    for name, one in looked:
        if isinstance(one, LakebedError):
            problems.append(Problem(name, str(one)))
            unreadable.add(beside(name))
            continue
        image = image_of(one)
        if image is None:
            problems.append(Problem(name, "its image is missing"))
        elif image in found:
            problems.append(Problem(name, f"{found[image][0]} is of the same image"))
        else:
            found[image] = (name, one)
    return found, unreadable


def by_folder(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of each split that folders name; all files under "" unless each file is in such a folder."""
    found: dict[str, list[str]] = {}
    for name in names:
        folders = [part for part in name.split("/")[:-1] if part not in IMAGE_FOLDERS][:2]
        split = next((SPLITS[part.lower()] for part in folders if part.lower() in SPLITS), None)
        if split is None:
            return {"": list(names)}
        found.setdefault(split, []).append(name)
    return dict(in_order(found))


class Images:
    """Images of a source, which are looked up by the names in annotations."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.names = images_of(source)
        self._known = set(self.names)
        self._by_stem = grouped(self.names, stem_of)

    def named(self, name: str, folders: Iterable[str] = ("",)) -> str | None:
        """Return the image of a name, relative to one of the folders; otherwise the only image of that file name."""
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
        """Return the image with a stem: in a folder, in a sibling of it, or the only one in the source; else None."""
        found = self._by_stem.get(stem, [])
        above = folder.rpartition("/")[0]
        for place in (folder, *(f"{above}/{sibling}".lstrip("/") for sibling in siblings)):
            here = [name for name in found if name.rpartition("/")[0] == place]
            if len(here) == 1:
                return here[0]
        return found[0] if len(found) == 1 else None
