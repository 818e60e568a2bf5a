"""Images with their annotations drawn over them: boxes, masks, polygons, points and labels, by Pillow alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.base import DatasetBase, TensorBase
from lakebed.dataset.chapters.splits import TENSOR as SPLIT
from lakebed.errors import InvalidInputError, InvalidOperationError, LakebedError
from lakebed.runtime.printable import printable

if TYPE_CHECKING:
    from PIL.Image import Image

_COLORS = (
    *((230, 25, 75), (60, 180, 75), (0, 130, 200), (245, 130, 48), (145, 30, 180), (70, 240, 240)),
    *((240, 50, 230), (210, 245, 60), (250, 190, 212), (0, 128, 128), (170, 110, 40), (255, 225, 25)),
)
_IMAGES = ("image", "image.rgb", "image.gray")
_DRAWN = ("bbox", "binary_mask", "segment_mask", "instance_label", "polygon", "keypoints_coco", "point")
_MOST_OBJECTS = 1000
_MOST_TEXT = 60
_LETTERS = 11  # height of letters in the returned picture, in pixels

Pixels = NDArray[np.uint8]
Rectangle = tuple[float, float, float, float]  # left, top, right, bottom


def picture(values: NDArray[Any], htype: str | None = "image") -> Image:
    """Return an array as a Pillow image; masks are white on black, labels of segments coloured.

    Raises
    ------
    InvalidOperationError
        If the array is not an image.
    """
    from PIL import Image

    if values.size == 0 or values.ndim not in (2, 3):
        raise InvalidOperationError(f"an array of shape {values.shape} is not a picture")
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if htype == "binary_mask" or values.dtype == np.bool_:
        flat = values if values.ndim == 2 else values.any(axis=2)
        return Image.fromarray(flat.astype(np.uint8) * 255)
    if htype == "segment_mask":
        return Image.fromarray(_colored(values if values.ndim == 2 else values[:, :, 0]))
    if values.ndim == 3 and values.shape[2] not in (3, 4):
        values = values[:, :, 0]
    return Image.fromarray(_bytes(values))


def _bytes(values: NDArray[Any]) -> Pixels:
    """Return pixels as bytes: floats from 0 to 1 are scaled by 255, other numbers by their range."""
    if values.dtype == np.uint8:
        return np.ascontiguousarray(values)
    numbers = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    low, high = float(numbers.min()), float(numbers.max())
    if values.dtype.kind == "f" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    return ((numbers - low) * (255.0 / ((high - low) or 1.0))).astype(np.uint8)


def _colored(segments: NDArray[Any]) -> Pixels:
    palette = np.array([(0, 0, 0), *_COLORS], np.uint8)
    numbers = segments.astype(np.int64)
    return palette[np.where(numbers == 0, 0, (numbers - 1) % len(_COLORS) + 1)]


def show(
    source: DatasetBase | TensorBase,
    image: str | None = None,
    tensors: Sequence[str] | None = None,
    *,
    rows: int = 8,
    width: int = 320,
) -> Image:
    """Draw images with their boxes, masks, polygons, points and labels; several side by side.

    Names of boxes do not cover each other: the largest boxes get their names first, and a name for which no room is
    left is not drawn. A notebook displays the result; ``.save("rows.png")`` and ``.show()`` are methods of Pillow.

    Parameters
    ----------
    source
        A dataset or view, whose first rows are drawn; one row; or a tensor of images or masks.
    image
        Name of the tensor of images; None takes the first tensor of images, or of masks if the dataset has no images.
    tensors
        Names of the tensors that are drawn over the images; None takes the tensors of the image's group, or of the
        first group with boxes, such as ``instances`` of COCO, but never ``split``.
    rows
        Number of rows.
    width
        Width of each image in pixels; a single image keeps its size.

    Returns
    -------
    The picture.

    Raises
    ------
    InvalidOperationError
        If the dataset has no tensor of images, or no row.
    TensorDoesNotExistError
        If the tensor does not exist.
    """
    ds: Any = source
    if isinstance(ds, TensorBase):
        tensor: Any = ds
        singles = [tensor] if tensor.is_single else [tensor[i] for i in range(min(rows, len(tensor)))]
        pictures = [one.pil() for one in singles]
    else:
        name = image or image_of(ds)
        chosen = [ds[one] for one in (name, *(tensors or ()))]
        if not all(isinstance(one, TensorBase) for one in chosen):
            raise InvalidInputError("groups cannot be drawn; name tensors")
        views = [ds] if ds.index.is_single else [ds[i] for i in range(min(rows, len(ds)))]
        pictures = [_drawn(view, name, tensors, width if len(views) > 1 else None) for view in views]
    if not pictures:
        raise InvalidOperationError("there are no rows to draw")
    return pictures[0] if len(pictures) == 1 else _grid(pictures, width)


def image_of(ds: Any) -> str:
    """Return the name of the tensor of images, or of masks if the dataset has no images.

    Raises
    ------
    InvalidOperationError
        If the dataset has neither.
    """
    for wanted in (_IMAGES, ("binary_mask", "segment_mask")):
        for name, tensor in ds.tensors.items():
            if tensor.base_htype in wanted and not tensor.is_sequence:
                return str(name)
    raise InvalidOperationError(
        f"no tensor has the htype image: name the one to draw with image=... Tensors: {', '.join(ds.tensors)}"
    )


def _grid(pictures: Sequence[Image], width: int) -> Image:
    from PIL import Image

    columns = min(4, len(pictures))
    small = [
        one.convert("RGB").resize((width, max(1, min(2 * width, one.height * width // max(1, one.width)))))
        for one in pictures
    ]
    heights = [max(one.height for one in small[at : at + columns]) for at in range(0, len(small), columns)]
    whole = Image.new("RGB", (columns * width, sum(heights)), (255, 255, 255))
    for at, one in enumerate(small):
        whole.paste(one, (at % columns * width, sum(heights[: at // columns])))
    return whole


def _drawn(row: Any, name: str, tensors: Sequence[str] | None, width: int | None) -> Image:
    """Draw one row for display at the given width; None keeps the size of the image."""
    found = row.tensors
    base: Image = found[name].pil().convert("RGB")
    letters = max(_LETTERS, base.width // 32 if width is None else base.width * _LETTERS // max(1, width))
    chosen = list(tensors) if tensors is not None else _over(found, name)
    values = {one: _value(found[one]) for one in chosen}
    words = {one: _words(found[one], values[one]) for one in chosen if found[one].base_htype == "class_label"}
    for one in chosen:
        tensor, value = found[one], values[one]
        if value is None or (isinstance(value, np.ndarray) and not value.size):
            continue
        htype = tensor.base_htype
        if htype in ("binary_mask", "segment_mask", "instance_label") and isinstance(value, np.ndarray):
            base = _with_mask(base, value, htype)
        elif htype == "bbox":
            coords, names = dict(tensor.info.get("coords") or {}), _beside(words, one, len(value))
            _draw_boxes(base, value, coords, names, letters)
        elif htype == "polygon":
            _draw_polygons(base, value)
        elif htype in ("keypoints_coco", "point"):
            _draw_points(base, value, htype)
    alone = [text for one, texts in words.items() if len(texts) == 1 for text in texts]
    boxed = any(found[one].base_htype == "bbox" for one in chosen)
    if alone and not boxed:
        _write(base, [(2, 2, base.width, base.height)], [", ".join(alone)], [(255, 255, 255)], letters)
    return base


def _over(tensors: Mapping[str, Any], image: str) -> list[str]:
    """Return the tensors to draw over an image: all in its group, else in the first group with boxes, else in any.

    The importer of COCO stores image and split outside of the groups.
    """
    own = image.rpartition("/")[0]
    order = (own, "instances")
    of = [
        name
        for name, tensor in tensors.items()
        if name not in (image, SPLIT)
        and (tensor.base_htype in _DRAWN or tensor.base_htype == "class_label")
        and not tensor.is_sequence
        and not tensor.is_link
    ]
    groups: dict[str, list[str]] = {}
    for name in of:
        groups.setdefault(name.rpartition("/")[0], []).append(name)
    for htypes in (("bbox",), _DRAWN):
        for group in sorted(groups, key=lambda group: order.index(group) if group in order else len(order)):
            if any(tensors[name].base_htype in htypes for name in groups[group]):
                return groups[group]
    return groups.get(own) or of


def _value(tensor: Any) -> Any:
    try:
        return next(iter(tensor.values()))
    except (LakebedError, StopIteration):  # the tensor does not have this row
        return None


def _words(tensor: Any, value: Any) -> list[str]:
    if value is None:
        return []
    names = list(tensor.info.get("class_names") or ())
    numbers = np.asarray(value).reshape(-1).tolist()
    return [str(names[n]) if 0 <= n < len(names) else str(n) for n in numbers[:_MOST_OBJECTS]]


def _beside(words: Mapping[str, list[str]], box: str, count: int) -> list[str]:
    """Return the labels of boxes from a tensor with one label per box, if possible from the group of the boxes."""
    group = box.rpartition("/")[0]
    fitting = [name for name, texts in words.items() if len(texts) == count]
    near = [name for name in fitting if name.rpartition("/")[0] == group] or fitting
    return words[near[0]] if near else []


def _with_mask(base: Image, mask: NDArray[Any], htype: str) -> Image:
    from PIL import Image

    pixels = np.asarray(base).copy()
    layers = mask if mask.ndim == 3 else mask[:, :, np.newaxis]
    if layers.shape[:2] != pixels.shape[:2] or layers.shape[2] > _MOST_OBJECTS:
        return base
    for at in range(layers.shape[2] if htype == "binary_mask" else 1):
        chosen = layers[:, :, at] != 0
        color = _COLORS[at % len(_COLORS)] if htype == "binary_mask" else _colored(layers[:, :, 0])[chosen]
        pixels[chosen] = pixels[chosen] // 2 + np.asarray(color, np.uint8) // 2
    return Image.fromarray(pixels)


def corners(boxes: NDArray[Any], coords: Mapping[str, Any], size: tuple[int, int]) -> NDArray[np.float64]:
    """Return boxes as left, top, right and bottom in pixels.

    Parameters
    ----------
    coords
        ``type`` and ``mode`` of the info of the tensor.
    size
        Width and height of the image.
    """
    found = np.nan_to_num(
        np.asarray(boxes, np.float64).reshape(-1, boxes.shape[-1])[:, :4], posinf=1e6, neginf=-1e6
    )
    mode = str(coords.get("mode", "LTWH")).upper()
    if mode == "CCWH":
        found = np.concatenate([found[:, :2] - found[:, 2:] / 2, found[:, :2] + found[:, 2:] / 2], axis=1)
    elif mode != "LTRB":
        found = np.concatenate([found[:, :2], found[:, :2] + found[:, 2:]], axis=1)
    if coords.get("type") == "fractional":
        found = found * np.array([size[0], size[1], size[0], size[1]], np.float64)
    return found


def _draw_boxes(
    base: Image, boxes: NDArray[Any], coords: Mapping[str, Any], words: Sequence[str], letters: int
) -> None:
    from PIL import ImageDraw

    if boxes.ndim != 2 or boxes.shape[1] != 4:
        return
    draw, line = ImageDraw.Draw(base), max(1, ceil(max(base.size) / 300))
    found = np.clip(corners(boxes, coords, base.size)[:_MOST_OBJECTS], -1e4, 1e5)
    low, high = np.minimum(found[:, :2], found[:, 2:]), np.maximum(found[:, :2], found[:, 2:])
    ends = [(left, top, right, bottom) for left, top, right, bottom in np.hstack([low, high]).tolist()]
    colors = [_COLORS[at % len(_COLORS)] for at in range(len(ends))]
    for box, color in zip(ends, colors, strict=True):
        draw.rectangle(box, outline=color, width=line)
    order = np.argsort(-np.prod(high - low, axis=1), kind="stable").tolist() if words else []
    inside = [(left + line, top + line, right - line, bottom - line) for left, top, right, bottom in ends]
    of = ([inside[at] for at in order], [words[at] for at in order], [colors[at] for at in order])
    _write(base, *of, letters)


def _draw_polygons(base: Image, polygons: Sequence[Any]) -> None:
    from PIL import ImageDraw

    draw = ImageDraw.Draw(base)
    for at, polygon in enumerate(polygons[:_MOST_OBJECTS]):
        points = np.clip(np.nan_to_num(np.asarray(polygon, np.float64))[:, :2], -1e4, 1e5).tolist()
        if len(points) > 1:
            line = [tuple(point) for point in (*points, points[0])]
            draw.line(line, fill=_COLORS[at % len(_COLORS)], width=2)


def _draw_points(base: Image, value: NDArray[Any], htype: str) -> None:
    """Mark points; a sample of COCO has one column per object, with x, y and visibility of each point in sequence."""
    from PIL import ImageDraw

    found = np.nan_to_num(np.asarray(value, np.float64))
    if htype == "keypoints_coco":
        if found.ndim != 2 or found.shape[0] % 3:
            return
        triples = found.T.reshape(-1, 3)
        found = triples[triples[:, 2] > 0]
    draw, radius = ImageDraw.Draw(base), max(2, max(base.size) // 200)
    for at, point in enumerate(found.reshape(-1, found.shape[-1])[: 17 * _MOST_OBJECTS]):
        x, y = np.clip(point[:2], -1e4, 1e5).tolist()
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_COLORS[at % len(_COLORS)])


def _write(
    base: Image,
    boxes: Sequence[Rectangle],
    words: Sequence[str],
    colors: Sequence[tuple[int, int, int]],
    letters: int,
) -> None:
    """Write words on a dark background, each in a free corner of its box or beside it."""
    from PIL import ImageDraw, ImageFont

    draw, font = ImageDraw.Draw(base), ImageFont.load_default(letters)
    taken = np.zeros((0, 4))
    for (left, top, right, bottom), text, color in zip(boxes, words, colors, strict=True):
        shown = printable(text)[:_MOST_TEXT].encode("latin-1", "replace").decode("latin-1")
        start, _, stop, below = draw.textbbox((0, 0), shown, font=font)
        width, height = int(stop - start) + 2, int(below) + 2
        for x, y in (
            *((left, top), (left, bottom - height), (right - width, top), (right - width, bottom - height)),
            *((left, top - height), (left, bottom), (right, top), (left - width, top)),
        ):
            x = max(0, min(int(x), base.width - width))
            y = max(0, min(int(y), base.height - height - 2))
            mine = np.array([x, y, x + width, y + height])
            if ((mine[:2] <= taken[:, 2:]) & (mine[2:] >= taken[:, :2])).all(axis=1).any():
                continue
            taken = np.vstack([taken, mine])
            draw.rectangle(tuple(mine.tolist()), fill=(0, 0, 0))
            draw.text((x + 1, y), shown, fill=color, font=font)
            break
