"""COCO: pictures with objects, key points, captions and panoptic segments, as the importer ``coco`` reads them.

    DEST/train/a.jpg                         the pictures of a split; images/ where there are no splits
    DEST/annotations/instances_train.json    the annotations of a group; of other datasets, ``instances``
    DEST/panoptic_train/1.png                maps of segment ids

What ``importers/detection/coco.py`` made goes out as it came in. Of any other dataset, the boxes, class labels,
polygons, masks
and key points of a row are those of its objects, in their order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import ExportError, LakebedError
from lakebed.exporters.core.media import file_of, png_of, suffix_of
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, tensor_of, tensors_of
from lakebed.exporters.core.target import Target
from lakebed.exporters.detection.boxes import as_ltwh

if TYPE_CHECKING:
    import lakebed

_IMAGES = ("image", "image.rgb", "image.gray")


@dataclass(frozen=True)
class _Group:
    """Tensors of a kind of annotations, by COCO's key.

    Parameters
    ----------
    count_by
        The tensor whose length is the number of objects.
    first
        Number of the first object of each row, where objects have no ids of their own.
    """

    name: str
    tensors: Mapping[str, str]
    numbers: Mapping[str, str]
    categories: Sequence[Mapping[str, Any]]
    category_ids: Sequence[int]
    count_by: str
    first: Any = None

    @property
    def is_panoptic(self) -> bool:
        return "segment_ids" in self.tensors


@dataclass(frozen=True)
class _Context:
    images: str
    file: str | None
    image_id: str | None
    image_info: str | None
    groups: Sequence[_Group]
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def recognise(ds: lakebed.Dataset) -> str | None:
    """Say which annotations there are; None without pictures and objects."""
    try:
        return plan(ds).found
    except ExportError:
        return None


def plan(
    ds: lakebed.Dataset,
    *,
    images: str | None = None,
    boxes: str | None = None,
    labels: str | None = None,
    polygons: str | None = None,
    masks: str | None = None,
    keypoints: str | None = None,
    captions: str | None = None,
) -> ExportPlan:
    """Plan the pictures and a file for each kind of annotations.

    Parameters
    ----------
    ds
        The dataset.
    images
        Tensor of the pictures.
    boxes
        Tensor of the boxes.
    labels
        Tensor of the classes.
    polygons
        Tensor of outlines: a polygon for each object.
    masks
        Tensor of masks: a layer for each object.
    keypoints
        Tensor of key points.
    captions
        Tensor of captions: text, or a sequence of texts.
    """
    image = tensor_of(ds, "images", images, *_IMAGES)
    if image is None:
        raise ExportError("COCO needs pictures: the dataset has no tensor of htype image")
    given = {
        "bbox": boxes,
        "category_id": labels,
        "segmentation": polygons,
        "masks": masks,
        "keypoints": keypoints,
        "caption": captions,
    }
    groups = [] if any(given.values()) else _groups(ds)
    if not groups:
        groups = [_generic(ds, given)]
    names = {name: name if name in ds.tensors else None for name in ("file", "image_id", "image_info")}
    context = _Context(image, names["file"], names["image_id"], names["image_info"], groups, _files(ds))
    tensors = {"images": image}
    for group in groups:
        tensors.update({f"{group.name}: {key}": name for key, name in group.tensors.items()})
        tensors.update({f"{group.name}: {key}": name for key, name in group.numbers.items()})
    taken = {*tensors.values(), *(name for name in names.values() if name), "split"}
    problems = [(name, "this tensor is not written") for name in ds.tensors if name not in taken]
    found = f"{len(ds):,} pictures with {', '.join(group.name for group in groups)}"
    return ExportPlan(found, tensors, context, piece_rows=128, problems=problems)


def write(view: lakebed.Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Write the pictures of some rows; return the text of their records."""
    done = Written(result={})
    for at, row in enumerate(piece.rows):
        try:
            made = _record(view[at], int(row), piece, context, target)
        except (LakebedError, ValueError, IndexError) as error:
            done.skipped.append((int(row), str(error)))
            continue
        done.rows += 1
        for key, texts in made.items():
            done.result.setdefault(key, []).extend(texts)
    return done


def finish(results: Sequence[tuple[Piece, dict[str, list[str]]]], context: _Context, target: Target) -> None:
    """Write the annotation files of each split."""
    for split in dict.fromkeys(piece.split for piece, _ in results):
        of = [result for piece, result in results if piece.split == split]
        for group in context.groups:
            suffix = f"_{split}" if split else ""
            about = context.files.get(f"{group.name}{suffix}", {})
            with target.open(f"annotations/{group.name}{suffix}.json") as file:
                file.write(b'{"info": ' + _text(about.get("info", {})).encode())
                file.write(b', "licenses": ' + _text(about.get("licenses", [])).encode())
                for key in about.keys() - {"info", "licenses", "images", "annotations", "categories"}:
                    file.write(f", {_text(key)}: {_text(about[key])}".encode())
                if group.categories:
                    file.write(f', "categories": {_text(list(group.categories))}'.encode())
                for key, name in (("images", "images"), ("annotations", group.name)):
                    file.write(f', "{key}": [\n'.encode())
                    first = True
                    for result in of:
                        for text in result.get(name, ()):
                            file.write((text if first else f",\n{text}").encode())
                            first = False
                    file.write(b"]")
                file.write(b"}\n")


# -- which tensors -----------------------------------------------------------------------------------------------


def _groups(ds: lakebed.Dataset) -> list[_Group]:
    """Return the groups whose tensors have the names of COCO's keys."""
    by_prefix: dict[str, dict[str, str]] = {}
    for name in ds.tensors:
        prefix, _, key = name.rpartition("/")
        by_prefix.setdefault(prefix, {})[key] = name
    found = []
    for prefix, tensors in by_prefix.items():
        if "caption" in tensors or (
            "id" in tensors and tensors.keys() & {"bbox", "category_id", "keypoints"}
        ):
            found.append(
                _group(ds, prefix or _default(tensors), tensors, by_prefix.get("", {}) if not prefix else {})
            )
    return found


def _default(tensors: Mapping[str, str]) -> str:
    if "segment_ids" in tensors:
        return "panoptic"
    if "caption" in tensors:
        return "captions"
    return "person_keypoints" if "keypoints" in tensors else "instances"


def _group(ds: lakebed.Dataset, name: str, tensors: Mapping[str, str], root: Mapping[str, str]) -> _Group:
    known = {
        "bbox", "category_id", "segmentation", "segmentation_object", "rle_mask", "rle_object", "keypoints", "caption",
        "segment_ids", "other",
    }  # fmt: skip
    numbers = {
        key: full
        for key, full in tensors.items()
        if key not in known
        and str(ds[full].htype) == "generic"
        and str(ds[full].dtype) in ("int64", "float64", "int32", "float32")
        and not (full in root.values() and key == "image_id")
    }
    chosen = {key: full for key, full in tensors.items() if key in known}
    categories: Sequence[Mapping[str, Any]] = ()
    ids: Sequence[int] = ()
    if "category_id" in chosen:
        categories, ids = _categories(ds, chosen["category_id"])
    return _Group(name, chosen, numbers, categories, ids, numbers.get("id", next(iter(chosen.values()))))


def _generic(ds: lakebed.Dataset, given: Mapping[str, str | None]) -> _Group:
    """Return the one group of a dataset that COCO knows nothing of."""
    htypes = {
        "bbox": ("bbox",),
        "segmentation": ("polygon",),
        "masks": ("binary_mask",),
        "keypoints": ("keypoints_coco",),
    }
    found: dict[str, str] = {}
    for key, of in htypes.items():
        name = tensor_of(ds, _PARTS[key], given[key], *of)
        if name is not None:
            found[key] = name
    label = given["category_id"]
    if label is None:
        others = [name for name in tensors_of(ds, "class_label") if name != "split"]
        label = tensor_of(ds, "labels", None, "class_label") if len(others) > 1 else next(iter(others), None)
    if label is not None:
        found["category_id"] = label
    if given["caption"] is not None:
        found["caption"] = given["caption"]
    counted = next(
        (found[key] for key in ("bbox", "category_id", "keypoints", "caption") if key in found), None
    )
    if counted is None:
        raise ExportError(
            "COCO needs objects: the dataset has no tensor of htype bbox, class_label or keypoints_coco, and captions "
            "are not named (captions=..., --captions)"
        )
    categories: Sequence[Mapping[str, Any]] = ()
    ids: Sequence[int] = ()
    if "category_id" in found:
        categories, ids = _categories(ds, found["category_id"])
    counts = [_count(ds[counted][row], counted == found.get("keypoints")) for row in range(len(ds))]
    first = np.cumsum([1, *counts])[:-1]
    name = "captions" if list(found) == ["caption"] else "instances"
    return _Group(name, found, {}, categories, ids, counted, first)


_PARTS = {"bbox": "boxes", "segmentation": "polygons", "masks": "masks", "keypoints": "keypoints"}


def _count(sample: lakebed.Tensor, is_keypoints: bool) -> int:
    shape = sample.shape
    if not shape:
        return 0
    return int((shape[-1] if is_keypoints else shape[0]) or 0)


def _categories(ds: lakebed.Dataset, name: str) -> tuple[Sequence[Mapping[str, Any]], Sequence[int]]:
    """Return the categories, and the id of each class."""
    info = ds[name].info
    names = list(info.get("class_names") or ())
    ids = list(info.get("category_ids") or range(1, len(names) + 1))
    known = {one["id"]: one for one in info.get("categories") or ()}
    ids += [max(ids, default=0) + 1 + more for more in range(len(names) - len(ids))]
    return [known.get(id_, {"id": id_, "name": of}) for id_, of in zip(ids, names, strict=False)], ids


def _files(ds: lakebed.Dataset) -> dict[str, Mapping[str, Any]]:
    """Return what imported annotation files said of themselves, by group and split."""
    found: dict[str, Mapping[str, Any]] = {}
    for one in ds.info.get("imports") or ():
        for said in ((one.get("about") or {}).get("files") or {}).values():
            group, split = said.get("group"), said.get("split")
            found[f"{group}_{split}" if split else str(group)] = said.get("values") or {}
    return found


# -- rows --------------------------------------------------------------------------------------------------------


def _record(
    row: lakebed.Dataset, number: int, piece: Piece, context: _Context, target: Target
) -> dict[str, list[str]]:
    """Write the picture of a row; return the text of its record, and of its annotations by group."""
    picture = row[context.images]
    stem = f"{number:012d}"
    if context.file is not None:
        stem = str(row[context.file].text()).rpartition("/")[2].rpartition(".")[0] or stem
    name = target.free(f"{piece.split or 'images'}/{stem}{suffix_of(picture)}")
    target.put(name, file_of(picture))
    height, width = (int(side) for side in picture.shape[:2])
    image_id = _id(row[context.image_id]) if context.image_id is not None else number + 1
    record: dict[str, Any] = (
        dict(row[context.image_info].dict() or {}) if context.image_info is not None else {}
    )
    record = {"id": image_id, "file_name": name.partition("/")[2], "height": height, "width": width, **record}
    found = {"images": [_text(record)]}
    for group in context.groups:
        of = _panoptic if group.is_panoptic else _annotations
        found[group.name] = [_text(one) for one in of(row, number, record, group, piece, target)]
    return found


def _id(value: lakebed.Tensor) -> int | str:
    return str(value.text()) if value.htype == "text" else int(value.numpy().reshape(-1)[0])


def _annotations(
    row: lakebed.Dataset, number: int, record: Mapping[str, Any], group: _Group, piece: Piece, target: Target
) -> list[dict[str, Any]]:
    """Return the annotations of a picture."""
    del piece, target
    count = _count(row[group.count_by], group.count_by == group.tensors.get("keypoints"))
    found: list[dict[str, Any]] = [{"image_id": record["id"]} for _ in range(count)]
    if group.first is not None:
        for at, one in enumerate(found):
            one["id"] = int(group.first[number]) + at
    _fill(found, row, group, (int(record["height"]), int(record["width"])))
    return found


def _fill(found: list[dict[str, Any]], row: lakebed.Dataset, group: _Group, size: tuple[int, int]) -> None:
    """Set the keys of annotations from the tensors of a row."""
    for key, name in group.numbers.items():
        _set(found, key, row[name].numpy().reshape(-1).tolist(), name)
    tensors = group.tensors
    if "bbox" in tensors:
        boxes = row[tensors["bbox"]]
        _set(
            found, "bbox", as_ltwh(boxes.numpy(), dict(boxes.info.get("coords") or {}), size).tolist(), "bbox"
        )
    if "category_id" in tensors:
        labels = row[tensors["category_id"]].numpy().reshape(-1)
        unknown = [int(label) for label in labels if not int(label) < len(group.category_ids)]
        if unknown:
            raise ExportError(f"class {unknown[0]} has no name in class_names of {tensors['category_id']}")
        _set(found, "category_id", [group.category_ids[int(label)] for label in labels], "category_id")
    if "keypoints" in tensors and found:
        points = row[tensors["keypoints"]].numpy()
        _set(found, "keypoints", points.T.tolist(), "keypoints")
        for one in found:
            one.setdefault("num_keypoints", sum(1 for visible in one["keypoints"][2::3] if visible))
    if "caption" in tensors:
        texts = row[tensors["caption"]].data()["value"]
        _set(
            found, "caption", [texts] if isinstance(texts, str) else [str(text) for text in texts], "caption"
        )
    _segment(found, row, tensors)
    if "other" in tensors:
        for one, more in zip(found, row[tensors["other"]].dict() or (), strict=False):
            one.update(more)
    if "bbox" in tensors or "segmentation" in tensors:
        for one in found:
            one.setdefault("iscrowd", 0)
            one.setdefault("area", _area(one))


def _set(found: list[dict[str, Any]], key: str, values: Sequence[Any], name: str) -> None:
    if len(values) != len(found):
        raise ExportError(f"{name} has {len(values)} values for {len(found)} objects")
    for one, value in zip(found, values, strict=True):
        one[key] = value


def _segment(found: list[dict[str, Any]], row: lakebed.Dataset, tensors: Mapping[str, str]) -> None:
    if "segmentation" in tensors:
        parts = row[tensors["segmentation"]].numpy()
        owners: Callable[[int], int] = int
        if "segmentation_object" in tensors:
            of = row[tensors["segmentation_object"]].numpy().reshape(-1)
            owners = of.__getitem__
        elif len(parts) != len(found):
            raise ExportError(f"there are {len(parts)} polygons for {len(found)} objects")
        for one in found:
            one["segmentation"] = []
        for at, part in enumerate(parts):
            found[int(owners(at))]["segmentation"].append(np.asarray(part, np.float64).reshape(-1).tolist())
    mask = tensors.get("rle_mask") or tensors.get("masks")
    if mask is None or 0 in (row[mask].shape or (0,)):
        return
    layers = row[mask].numpy()
    layers = layers[..., None] if layers.ndim == 2 else layers
    whose = range(layers.shape[2])
    if "rle_object" in tensors:
        whose = row[tensors["rle_object"]].numpy().reshape(-1).tolist()
    elif layers.shape[2] != len(found):
        raise ExportError(f"there are {layers.shape[2]} masks for {len(found)} objects")
    for layer, owner in enumerate(whose):
        found[owner]["segmentation"] = _run_lengths(layers[..., layer])


def _run_lengths(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Return a mask as counts of zeros and ones in turn, down its columns."""
    flat = mask.T.reshape(-1)
    edges = np.flatnonzero(np.diff(flat, prepend=False))
    counts = np.diff(edges, prepend=0, append=len(flat))
    return {"size": list(mask.shape), "counts": counts.tolist()}


def _area(one: Mapping[str, Any]) -> float:
    """Return the area of an annotation that says none: of its mask, its polygons or its box."""
    of = one.get("segmentation")
    if isinstance(of, dict):
        return float(sum(of["counts"][1::2]))
    if of:
        total = 0.0
        for part in of:
            x, y = np.array(part).reshape(-1, 2).T
            total += abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))) / 2
        return total
    return float(one["bbox"][2] * one["bbox"][3]) if "bbox" in one else 0.0


def _panoptic(
    row: lakebed.Dataset, number: int, record: Mapping[str, Any], group: _Group, piece: Piece, target: Target
) -> list[dict[str, Any]]:
    """Write the map of a picture's segments; return its annotation."""
    del number
    ids = row[group.tensors["segment_ids"]]
    if 0 in (ids.shape or (0,)):
        return []
    pixels = ids.numpy().astype(np.uint32)
    folder = f"panoptic_{piece.split}" if piece.split else "panoptic"
    name = target.free(f"{folder}/{str(record['file_name']).rpartition('.')[0]}.png")
    target.put(name, png_of(np.stack([pixels & 255, (pixels >> 8) & 255, pixels >> 16], 2).astype(np.uint8)))
    others = row[group.tensors["other"]].dict() if "other" in group.tensors else []
    segments: list[dict[str, Any]] = [{} for _ in range(_count(row[group.count_by], is_keypoints=False))]
    tensors = {key: name for key, name in group.tensors.items() if key not in ("other", "segment_ids")}
    inner = _Group(group.name, tensors, group.numbers, (), group.category_ids, group.count_by)
    _fill(segments, row, inner, (int(record["height"]), int(record["width"])))
    whole = dict(others[0]) if others else {}
    return [
        {**whole, "image_id": record["id"], "file_name": name.rpartition("/")[2], "segments_info": segments}
    ]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
