"""Pascal VOC: an XML file of objects for each image (host.robots.ox.ac.uk/pascal/VOC).

    VOC2012/JPEGImages/1.jpg, Annotations/1.xml, ImageSets/Main/train.txt
    VOC2012/SegmentationClass/1.png, SegmentationObject/1.png
    photos/1.jpg, photos/1.xml                                        as labelImg writes them

Boxes have the numbers of the file, of which the first pixel is 1; corners in another order are put in order. What else
an object has (pose, truncated, difficult, occluded, parts, actions) is in ``attributes``, what is said of the image in
``annotation``. ``masks`` are the numbers of the palette: 0 is background, 255 the border of objects. An image without
an XML file has nulls; one whose XML file cannot be read has no row, as nothing tells what is in it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.plan import Media, Plan, Problem, TensorPlan, media, tensor
from lakebed.importers.core.source import Source, stem_of
from lakebed.importers.detection.markup import parse_xml, plain
from lakebed.importers.detection.objects import (
    Images,
    Object,
    Objects,
    each,
    number_of,
    tensors_of,
    values_of,
)
from lakebed.importers.detection.yolo_layout import by_folder
from lakebed.importers.folders.pictures import kind_of_images
from lakebed.transforms.output import Skipped

_CLASSES = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *(
        "diningtable",
        "dog",
        "horse",
        "motorbike",
        "person",
        "pottedplant",
        "sheep",
        "sofa",
        "train",
        "tvmonitor",
    ),
)
_MOST_BYTES = 1 << 26
_HEAD_BYTES = 4096
_SIBLINGS = ("JPEGImages", "images", "imgs", "data")
_SETS = ("train", "val", "test", "trainval")
_MASKS = ("SegmentationClass", "SegmentationObject")
_SIDES = ("xmin", "ymin", "xmax", "ymax")


class _Row(NamedTuple):
    """An image, its XML file, and its masks of classes and of objects; None where it has none."""

    image: str
    annotation: str | None
    masks: str | None
    instances: str | None

    def __str__(self) -> str:
        return self.annotation or self.image


@dataclass(frozen=True)
class _Context:
    """What workers know: how files are held, colors of classes, and the tensors."""

    media: Media
    colors: dict[int, int]
    tensors: tuple[str, ...]


def recognise(source: Source) -> str | None:
    """Say how many XML files there are; None unless one of the first is VOC's."""
    if not source.is_folder:
        return None
    names = source.with_suffix(".xml")
    if not any(_looks_like_voc(source, name) for name in names[:5]):
        return None
    return f"{len(names):,} Pascal VOC annotations"


def plan(
    source: Source,
    *,
    sets: Sequence[str] = (),
    classes: Sequence[str] = (),
    link: bool = False,
    creds_key: str | None = None,
    compression: str | None = None,
) -> Plan:
    """Plan a row for each image.

    Parameters
    ----------
    source
        The folder.
    sets
        Folders of ImageSets that tell the splits, the first counts more: Main, Segmentation; left out, all of them.
    classes
        Names of classes that come first; others are added.
    link
        Store links to the images in place of the images.
    creds_key
        Name of the credentials that the links need.
    compression
        Kind of image that is stored; left out, that of the files, and of most of them where they differ.
    """
    if not source.with_suffix(".xml") and not any(folder.endswith(_MASKS) for folder in source.folders):
        raise IngestionError(f"{source.shown} has neither XML files nor masks of Pascal VOC")
    planner = _Planner(source)
    found = planner.classes(classes)
    items, splits = planner.items(tuple(sets))
    compression = kind_of_images(
        source, (item.image for item in items), compression, None if link else planner.problems
    )
    tensors = [
        media("images", "image", compression=compression, link=link),
        *tensors_of(found, polygons=False, info={"first_pixel": 1}),
    ]
    colors, names = planner.colors(found)
    tensors += _masks_of(items, names)
    return Plan(
        f"{len(items):,} images with Pascal VOC annotations",
        tensors,
        items,
        _Context(Media(source, link, creds_key), colors, tuple(one.name for one in tensors)),
        rows=len(items),
        nbytes=sum(source.files[item.image] for item in items),
        splits=splits,
        problems=planner.problems,
        classes={"labels": found},
        about={"unlabelled": sum(item.annotation is None for item in items)},
    )


def rows(item: _Row, context: _Context) -> Iterator[Any]:
    """Make the row of an image; objects that are damaged are left out, each counted."""
    source = context.media.source
    made: dict[str, Any] = {"file": item.image}
    objects = Objects()
    try:
        made["images"] = context.media.value(item.image)
        if item.annotation is not None:
            root = _document(source, item.annotation)
            for at, one in enumerate(root.findall("object"), 1):
                objects.add(f"{item.annotation} object {at}", partial(_object, one))
            made.update(values_of(objects.found, polygons=False))
            made["annotation"] = _image_level(root)
        if item.masks is not None:
            made["masks"] = _mask(source, item.masks, context.colors)
        if item.instances is not None:
            made["instances"] = _mask(source, item.instances, None)
    except (LakebedError, OSError, ValueError) as error:
        yield Skipped(str(item), f"{error}")
        return
    yield from objects.told
    yield {name: made.get(name) for name in context.tensors}


def describe(plan: Plan) -> dict[str, Any]:
    """Say how many images have no annotation."""
    return plan.about


class _Planner:
    """What a folder has."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.problems: list[Problem] = []
        self._images = Images(source)
        self._of_image: dict[str, str] = {}
        self._labels: set[str] = set()
        self._unreadable: set[str] = set()
        names = source.with_suffix(".xml")
        for name, found in zip(names, each(source, names, self._look), strict=True):
            if isinstance(found, LakebedError):
                self.problems.append(Problem(name, str(found)))
                self._unreadable |= {self._image_beside(name) or ""}
                continue
            image, labels = found
            if image is None:
                self.problems.append(Problem(name, "its image is missing"))
            elif image in self._of_image:
                self.problems.append(Problem(name, f"{self._of_image[image]} is of the same image"))
            else:
                self._of_image[image] = name
                self._labels |= labels

    def _look(self, name: str) -> tuple[str | None, set[str]]:
        """Return the image of an XML file, and the classes in it."""
        root = _document(self._source, name)
        image = self._image_beside(name)
        if image is None:
            folder = name.rpartition("/")[0]
            above = folder.rpartition("/")[0]
            named = (root.findtext("filename") or "").strip()
            places = [folder, *(f"{above}/{sibling}".lstrip("/") for sibling in _SIBLINGS)]
            image = self._images.named(named, places) if named else None
        return image, {(one.findtext("name") or "").strip() for one in root.iter("object")} - {""}

    def _image_beside(self, name: str) -> str | None:
        return self._images.of_stem(stem_of(name), name.rpartition("/")[0], _SIBLINGS)

    def classes(self, first: Sequence[str]) -> list[str]:
        known = [one for one in _CLASSES[1:] if one in self._labels] if self._labels <= {*_CLASSES} else []
        return [*dict.fromkeys([*first, *known, *sorted(self._labels)])]

    def items(self, sets: tuple[str, ...]) -> tuple[list[_Row], dict[str, range]]:
        """Return the rows of all splits, in order."""
        if not self._images.names:
            raise IngestionError(f"{self._source.shown} has no images")
        images = [name for name in self._images.names if not {*name.split("/")[:-1]} & {*_MASKS}]
        splits = self._listed(images, sets) or by_folder(images)
        files = self._source.files
        items: list[_Row] = []
        ranges: dict[str, range] = {}
        for split, names in splits.items():
            first = len(items)
            for name in names:
                if name in self._unreadable and name not in self._of_image:
                    continue
                root = name.rpartition("/")[0].rpartition("/")[0]
                beside = [f"{root}/{folder}/{stem_of(name)}.png".lstrip("/") for folder in _MASKS]
                masks, instances = (one if one in files else None for one in beside)
                items.append(_Row(name, self._of_image.get(name), masks, instances))
            ranges[split] = range(first, len(items))
        return items, ranges if set(ranges) != {""} else {}

    def _listed(self, images: list[str], sets: tuple[str, ...]) -> dict[str, list[str]]:
        """Return the images of each split that ImageSets tells: of train, val and test before that of trainval."""
        by_key = {(name.rpartition("/")[0].rpartition("/")[0], stem_of(name)): name for name in images}
        found: dict[str, str] = {}
        lists = [name for name in self._source.with_suffix(".txt") if "ImageSets" in name.split("/")[:-1]]
        lists = [name for name in lists if stem_of(name) in _SETS]
        order = [*sets] if sets else ["Main"]
        lists = [name for name in lists if not sets or name.split("/")[-2] in sets]

        def rank(name: str) -> tuple[int, int]:
            kind = name.split("/")[-2]
            return _SETS.index(stem_of(name)) // 3, order.index(kind) if kind in order else len(order)

        for name in sorted(lists, key=rank):
            root = name.partition("ImageSets")[0].rstrip("/")
            for number, line in enumerate(
                self._source.document(name).decode("utf-8", "replace").splitlines(), 1
            ):
                if not line.strip():
                    continue
                image = by_key.get((root, line.split()[0]))
                if image is None:
                    self.problems.append(
                        Problem(f"{name} line {number}", f"the image {line.split()[0]!r} is missing")
                    )
                else:
                    found.setdefault(image, stem_of(name))
        if not found:
            return {}
        beside = len(images) - len(found)
        if beside:
            self.problems.append(Problem("ImageSets", "images that no set has are not imported", beside))
        splits: dict[str, list[str]] = {name: [] for name in _SETS}
        for name in images:
            if name in found:
                splits[found[name]].append(name)
        return {split: names for split, names in splits.items() if names}

    def colors(self, labels: Sequence[str]) -> tuple[dict[int, int], list[str]]:
        """Return the class of each color, as a labelmap.txt has it, and the names of the classes of masks."""
        colors = _colormap()
        name = next((one for one in self._source.files if one.rpartition("/")[2] == "labelmap.txt"), None)
        if name is None:
            return colors, [*_CLASSES] if set(labels) <= {*_CLASSES} else []
        usual = {number: color for color, number in colors.items()}
        colors = {}
        names: list[str] = []
        for line in self._source.document(name).decode("utf-8", "replace").splitlines():
            label, colon, rest = line.partition(":")
            if not colon or line.startswith("#"):
                continue
            text = rest.split(":")[0].strip()
            try:
                red, green, blue = (int(part) for part in text.split(",")) if text else (0, 0, 0)
            except ValueError:
                self.problems.append(Problem(name, f"{line!r} is no label with its color", 0))
                continue
            color = (red << 16) + (green << 8) + blue if text else usual.get(len(names), -1)
            colors.setdefault(color, len(names))
            names.append(label)
        return colors, names


def _colormap() -> dict[int, int]:
    """Return the number of each color of the palette: bits of the number in turn are high bits of red, green, blue."""
    found = {}
    for number in range(256):
        color = [0, 0, 0]
        for bit in range(8):
            color[bit % 3] |= (number >> bit & 1) << (7 - bit // 3)
        found[(color[0] << 16) + (color[1] << 8) + color[2]] = number
    return found


def _looks_like_voc(source: Source, name: str) -> bool:
    with source.open(name) as file:
        head = file.read(_HEAD_BYTES)
    return b"<annotation>" in head or b"<annotation " in head


def _document(source: Source, name: str) -> Element:
    if source.files[name] > _MOST_BYTES:
        raise IngestionError(f"{name} of {source.files[name]:,} bytes is larger than {_MOST_BYTES:,}")
    root = parse_xml(source.read(name), name)
    if root.tag != "annotation":
        raise IngestionError(f"{name} is no annotation of Pascal VOC: its root is {root.tag[:40]!r}")
    return root


def _object(one: Element) -> Object:
    wrong: list[str] = []
    children = _children(one, ("name", "bndbox"), wrong)
    if "bndbox" not in children:
        raise ValueError("it has no bndbox")
    box = _children(children["bndbox"], _SIDES, wrong)
    sides = [number_of(_text_of(box, side), side) for side in _SIDES]
    attributes = Element("object", one.attrib)
    attributes.extend(child for child in one if child.tag not in ("name", "bndbox"))
    found = plain(attributes)
    parts = found.get("part") if isinstance(found, dict) else None
    if parts is not None:
        found["part"] = parts if isinstance(parts, list) else [parts]
    return Object(
        _text_of(children, "name"), sides, attributes=found if isinstance(found, dict) else {}, wrong=wrong
    )


def _children(one: Element, once: Sequence[str], wrong: list[str]) -> dict[str, Element]:
    """Return children by name, of several the first; of those that are there once it is told if others differ."""
    found: dict[str, Element] = {}
    for child in one:
        first = found.setdefault(child.tag, child)
        if first is not child and child.tag in once and plain(child) != plain(first):
            wrong.append(f"it has several of {child.tag}, and the first is taken")
    return found


def _text_of(children: Mapping[str, Element], tag: str) -> str:
    return (children[tag].text or "").strip() if tag in children else ""


def _image_level(root: Element) -> Any:
    rest = Element("annotation", root.attrib)
    rest.extend(child for child in root if child.tag != "object")
    found = plain(rest)
    return found if isinstance(found, dict) else {}


def _masks_of(items: Sequence[_Row], names: list[str]) -> list[TensorPlan]:
    found = []
    if any(item.masks for item in items):
        found.append(
            tensor(
                "masks", "segment_mask", dtype="uint8", sample_compression="lz4", class_names=names or None
            )
        )
    if any(item.instances for item in items):
        found.append(tensor("instances", "instance_label", dtype="uint32", sample_compression="lz4"))
    return found


def _mask(source: Source, name: str, colors: dict[int, int] | None) -> NDArray[Any]:
    """Return the numbers of a mask: those of its palette, or the classes of its colors; of objects no classes."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(source.document(name))) as image:
            pixels = np.asarray(image if image.mode in ("P", "L") else image.convert("RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise IngestionError(f"the mask {name} cannot be read: {error}") from error
    if pixels.ndim == 2:
        return pixels.astype(np.uint8 if colors is not None else np.uint32)
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    known, places = np.unique(packed, return_inverse=True)
    of = colors if colors is not None else _colormap()
    missing = [int(one) for one in known if int(one) not in of]
    if missing and colors is not None:
        raise IngestionError(f"the mask {name} has a color that no class has: #{missing[0]:06x}")
    if missing:
        return packed  # numbers of objects of another palette
    dtype = np.uint8 if colors is not None else np.uint32
    return np.array([of[int(one)] for one in known], dtype)[places].reshape(packed.shape)
