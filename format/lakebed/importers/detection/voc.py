"""Pascal VOC: an XML file of objects for each image (host.robots.ox.ac.uk/pascal/VOC).

    VOC2012/JPEGImages/1.jpg, Annotations/1.xml, ImageSets/Main/train.txt
    VOC2012/SegmentationClass/1.png, SegmentationObject/1.png
    photos/1.jpg, photos/1.xml                                        as labelImg writes them

Boxes have the numbers of the file, in which the first pixel is 1; corners in another order are sorted. ``attributes``
has the other elements of an object (pose, truncated, difficult, occluded, parts, actions), ``annotation`` the other
elements of the image. ``masks`` are the numbers of the palette: 0 is background, 255 the border of objects. An image
without an XML file has nulls. An image whose XML file cannot be read has no row, because its objects are unknown.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Unpack
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.plan import ImageOptions, Plan, Problem, tensor
from lakebed.importers.core.source import Source, stem_of
from lakebed.importers.core.splits import ranges_of
from lakebed.importers.detection.markup import parse_xml, plain
from lakebed.importers.detection.objects import (
    Context,
    Images,
    Object,
    Objects,
    annotated,
    by_folder,
    each,
    number_of,
    plan_of,
)

_CLASSES = (
    "background aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person "
    "pottedplant sheep sofa train tvmonitor"
).split()
_MOST_BYTES = 1 << 26
_HEAD_BYTES = 4096
_SIBLINGS = ("JPEGImages", "images", "imgs", "data")
_SETS = ("train", "val", "test", "trainval")
_MASKS = ("SegmentationClass", "SegmentationObject")
_SIDES = ("xmin", "ymin", "xmax", "ymax")


class _Row(NamedTuple):
    """An image, its XML file, its mask of classes, and its mask of objects; all but the image may be missing."""

    image: str
    annotation: str | None
    masks: str | None
    instances: str | None

    def __str__(self) -> str:
        return self.annotation or self.image


def recognise(source: Source) -> str | None:
    """Count the XML files; None if the first files are not of VOC."""
    if not source.is_folder:
        return None
    names = source.with_suffix(".xml")
    is_known = any(_looks_like_voc(source, name) for name in names[:5])
    return f"{len(names):,} Pascal VOC annotations" if is_known else None


def plan(
    source: Source,
    *,
    sets: Sequence[str] = (),
    classes: Sequence[str] = (),
    **options: Unpack[ImageOptions],
) -> Plan:
    """Plan a row for each image.

    Parameters
    ----------
    source
        The folder.
    sets
        Folders of ImageSets that name the splits, such as Main; earlier ones take precedence. By default, all folders.
    classes
        Names of classes that come first; others are added.
    options
        Options of images.
    """
    if not source.with_suffix(".xml") and not any(folder.endswith(_MASKS) for folder in source.folders):
        raise IngestionError(f"{source.shown} has neither XML files nor masks of Pascal VOC")
    planner = _Planner(source)
    labels = planner.labels
    usual = [one for one in _CLASSES[1:] if one in labels] if labels.issubset(_CLASSES) else []
    found = list(dict.fromkeys([*classes, *usual, *sorted(labels)]))
    items, splits = ranges_of(planner.rows(tuple(sets)))
    colors, names = planner.colors(found)
    more = []
    if any(item.masks for item in items):
        kept: dict[str, Any] = {"dtype": "uint8", "sample_compression": "lz4", "class_names": names or None}
        more.append(tensor("masks", "segment_mask", **kept))
    if any(item.instances for item in items):
        more.append(tensor("instances", "instance_label", dtype="uint32", sample_compression="lz4"))
    return plan_of(
        "Pascal VOC",
        source,
        items,
        [item.image for item in items],
        found,
        planner.problems,
        without=("polygons",),
        info={"first_pixel": 1},
        more=more,
        known=colors,
        splits=splits,
        about={"unlabelled": sum(item.annotation is None for item in items)},
        **options,
    )


def rows(item: _Row, context: Context) -> Iterator[Any]:
    """Make the row of an image; damaged objects are left out and counted."""
    source = context.media.source
    row, objects = context.begun(item.image, item.image), Objects()
    if item.annotation is not None:
        root = _document(source, item.annotation)
        for at, one in enumerate(root.findall("object"), 1):
            objects.add(f"{item.annotation} object {at}", _object, one)
        row.update(objects.values(), annotation=_rest_of(root, ("object",)))
    if item.masks is not None:
        row["masks"] = _mask(source, item.masks, context.known)
    if item.instances is not None:
        row["instances"] = _mask(source, item.instances, None)
    yield from context.finished(row, objects)


# -- files -------------------------------------------------------------------------------------------------------


class _Planner:
    """XML files, images, sets and colors of a folder."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.problems: list[Problem] = []
        self._images = Images(source)
        names = source.with_suffix(".xml")
        looked = zip(names, each(source, names, self._look), strict=True)
        found, self._unreadable = annotated(looked, itemgetter(0), self._image_beside, self.problems)
        self._of_image = {image: name for image, (name, _) in found.items()}
        self.labels = {label for _, (_, labels) in found.values() for label in labels}

    def _look(self, name: str) -> tuple[str | None, set[str]]:
        """Return the image of an XML file, and the classes in it."""
        root = _document(self._source, name)
        image = self._image_beside(name)
        named = (root.findtext("filename") or "").strip()
        if image is None and named:
            folder = name.rpartition("/")[0]
            above = folder.rpartition("/")[0]
            image = self._images.named(
                named, [folder, *(f"{above}/{sibling}".lstrip("/") for sibling in _SIBLINGS)]
            )
        return image, {(one.findtext("name") or "").strip() for one in root.iter("object")} - {""}

    def _image_beside(self, name: str) -> str | None:
        return self._images.of_stem(stem_of(name), name.rpartition("/")[0], _SIBLINGS)

    def rows(self, sets: tuple[str, ...]) -> Iterator[tuple[str, list[_Row]]]:
        """Yield the rows of each split, in order."""
        if not self._images.names:
            raise IngestionError(f"{self._source.shown} has no images")
        images = [name for name in self._images.names if not {*name.split("/")[:-1]} & {*_MASKS}]
        for split, names in (self._listed(images, sets) or by_folder(images)).items():
            rows = []
            for name in names:
                if name in self._unreadable and name not in self._of_image:
                    continue
                root = name.rpartition("/")[0].rpartition("/")[0]
                beside = [f"{root}/{folder}/{stem_of(name)}.png".lstrip("/") for folder in _MASKS]
                masks, instances = (one if one in self._source.files else None for one in beside)
                rows.append(_Row(name, self._of_image.get(name), masks, instances))
            yield split, rows

    def _listed(self, images: list[str], sets: tuple[str, ...]) -> dict[str, list[str]]:
        """Return the images of each split of ImageSets; an image in train, val or test does not belong to trainval."""
        by_key = {(name.rpartition("/")[0].rpartition("/")[0], stem_of(name)): name for name in images}
        order = sets or ("Main",)
        lists = [
            name
            for name in self._source.with_suffix(".txt")
            if "ImageSets" in name.split("/")[:-1] and stem_of(name) in _SETS
            if not sets or name.split("/")[-2] in sets
        ]

        def rank(name: str) -> tuple[int, int]:
            kind = name.split("/")[-2]
            return _SETS.index(stem_of(name)) // 3, order.index(kind) if kind in order else len(order)

        found: dict[str, str] = {}
        for name in sorted(lists, key=rank):
            root = name.partition("ImageSets")[0].rstrip("/")
            lines = self._source.document(name).decode("utf-8", "replace").splitlines()
            for number, words in enumerate(map(str.split, lines), 1):
                image = by_key.get((root, words[0])) if words else None
                if image is not None:
                    found.setdefault(image, stem_of(name))
                elif words:
                    where = f"{name} line {number}"
                    self.problems.append(Problem(where, f"the image {words[0]!r} is missing"))
        if found and len(found) < len(images):
            beside = len(images) - len(found)
            self.problems.append(Problem("ImageSets", "images that no set has are not imported", beside))
        splits = {split: [name for name in images if found.get(name) == split] for split in _SETS}
        return {split: names for split, names in splits.items() if names}

    def colors(self, labels: Sequence[str]) -> tuple[dict[int, int], list[str]]:
        """Return the class of each color, from a labelmap.txt or the palette, and the class names of masks."""
        usual = _palette()
        colors = {color: number for number, color in enumerate(usual)}
        name = next((one for one in self._source.files if one.rpartition("/")[2] == "labelmap.txt"), None)
        if name is None:
            return colors, [*_CLASSES] if set(labels) <= {*_CLASSES} else []
        colors = {}
        names: list[str] = []
        for line in self._source.document(name).decode("utf-8", "replace").splitlines():
            label, colon, rest = line.partition(":")
            if not colon or line.startswith("#"):
                continue
            text = rest.split(":")[0].strip()
            color = usual[len(names)] if len(names) < len(usual) else -1
            try:
                if text:
                    red, green, blue = (int(part) for part in text.split(","))
                    color = (red << 16) + (green << 8) + blue
            except ValueError:
                self.problems.append(Problem(name, f"{line!r} is not a label with its color", 0))
                continue
            colors.setdefault(color, len(names))
            names.append(label)
        return colors, names


def _palette() -> list[int]:
    """Return the colors of the palette: the bits of a number are, in turn, high bits of red, green and blue."""
    found = []
    for number in range(256):
        color = [0, 0, 0]
        for bit in range(8):
            color[bit % 3] |= (number >> bit & 1) << (7 - bit // 3)
        found.append((color[0] << 16) + (color[1] << 8) + color[2])
    return found


def _looks_like_voc(source: Source, name: str) -> bool:
    head = source.start_of(name, _HEAD_BYTES)
    return b"<annotation>" in head or b"<annotation " in head


def _document(source: Source, name: str) -> Element:
    root = parse_xml(source.document(name, _MOST_BYTES), name)
    if root.tag != "annotation":
        raise IngestionError(f"{name} is not an annotation of Pascal VOC: its root is {root.tag[:40]!r}")
    return root


# -- objects and masks -------------------------------------------------------------------------------------------


def _object(one: Element) -> Object:
    wrong: list[str] = []
    children = _children(one, ("name", "bndbox"), wrong)
    if "bndbox" not in children:
        raise ValueError("it has no bndbox")
    box = _children(children["bndbox"], _SIDES, wrong)
    sides = [number_of(_text_of(box, side), side) for side in _SIDES]
    attributes = _rest_of(one, ("name", "bndbox"))
    if not isinstance(attributes.get("part", []), list):
        attributes["part"] = [attributes["part"]]
    return Object(_text_of(children, "name"), sides, attributes=attributes, wrong=wrong)


def _children(one: Element, once: Sequence[str], wrong: list[str]) -> dict[str, Element]:
    """Return the first child of each name; report different children of a name that may occur only once."""
    found: dict[str, Element] = {}
    for child in one:
        first = found.setdefault(child.tag, child)
        if first is not child and child.tag in once and plain(child) != plain(first):
            wrong.append(f"it has several of {child.tag}, and the first is taken")
    return found


def _text_of(children: Mapping[str, Element], tag: str) -> str:
    return (children[tag].text or "").strip() if tag in children else ""


def _rest_of(one: Element, without: Sequence[str]) -> dict[str, Any]:
    """Return an element as JSON, without some children."""
    rest = Element(one.tag, one.attrib)
    rest.extend(child for child in one if child.tag not in without)
    found = plain(rest)
    return found if isinstance(found, dict) else {}


def _mask(source: Source, name: str, colors: dict[int, int] | None) -> NDArray[Any]:
    """Return the numbers of a mask: those of its palette, or the classes of its colors.

    Parameters
    ----------
    colors
        Class of each color; None for a mask of objects.
    """
    from PIL import Image, UnidentifiedImageError

    errors = (OSError, SyntaxError, Image.DecompressionBombError)
    with damaged(f"the mask {name} cannot be read", *errors):
        try:
            image = Image.open(io.BytesIO(source.document(name)))
        except UnidentifiedImageError:
            # Its own text has an address in memory, so that equal reasons would differ.
            raise IngestionError(f"the mask {name} is not an image that Pillow knows") from None
        pixels = np.asarray(image if image.mode in ("P", "L") else image.convert("RGB"))
    dtype = np.uint8 if colors is not None else np.uint32
    if pixels.ndim == 2:
        return pixels.astype(dtype)
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    numbers = colors if colors is not None else {color: number for number, color in enumerate(_palette())}
    known, places = np.unique(packed, return_inverse=True)
    missing = [int(one) for one in known if int(one) not in numbers]
    if missing and colors is not None:
        raise IngestionError(f"the mask {name} has a color that belongs to no class: #{missing[0]:06x}")
    if missing:
        return packed  # the palette lacks a color: let each color be the number of an object
    return np.array([numbers[int(one)] for one in known], dtype)[places].reshape(packed.shape)
