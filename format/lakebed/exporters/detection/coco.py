"""COCO: pictures with objects, key points, captions and panoptic segments, as the importer ``coco`` reads them.

    DEST/train/a.jpg                         the pictures of a split; images/ without splits
    DEST/annotations/instances_train.json    the annotations of a group; of other datasets, ``instances``
    DEST/panoptic_train/1.png                maps of segment ids

Datasets that the importer made are exported as they were imported. In any other dataset, the n-th box, class label,
polygon, mask and pose of a row are those of its n-th object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import ExportError
from lakebed.exporters.core.media import file_of, is_empty, png_of, suffix_of
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, tensor_of, tensors_of
from lakebed.exporters.core.target import Target
from lakebed.exporters.detection.boxes import IMAGES, as_ltwh

if TYPE_CHECKING:
    import lakebed

_PARTS = {
    "bbox": ("boxes", "bbox"),
    "segmentation": ("polygons", "polygon"),
    "masks": ("masks", "binary_mask"),
    "keypoints": ("keypoints", "keypoints_coco"),
}
"""Key -> option and htype of its tensor."""
_KEYS = frozenset(
    {*("bbox", "category_id", "segmentation", "segmentation_object", "rle_mask", "rle_object", "keypoints")}
    | {*("caption", "segment_ids", "other")}
)
"""Keys whose tensors are written by rules of their own; other tensors of a group hold a number for each object."""
_NUMBERS = ("int64", "float64", "int32", "float32")


@dataclass(frozen=True)
class _Group:
    """Tensors of a kind of annotations, by COCO's key.

    Parameters
    ----------
    numbers
        Tensors with a number for each object.
    category_ids
        Id of each class.
    count_by
        Tensor whose length is the number of objects.
    first
        Number of the first object of each row, if objects have no ids of their own.
    """

    name: str
    tensors: Mapping[str, str]
    numbers: Mapping[str, str]
    categories: Sequence[Mapping[str, Any]]
    category_ids: Sequence[int]
    count_by: str
    first: NDArray[np.int64] | None = None

    def count(self, row: lakebed.Dataset) -> int:
        """Return the number of objects in a row."""
        return _count(row[self.count_by], self.count_by == self.tensors.get("keypoints"))


@dataclass(frozen=True)
class _Context:
    """Tensors of the pictures, groups of annotations, and the other members of imported files by name."""

    images: str
    groups: Sequence[_Group]
    files: Mapping[str, Mapping[str, Any]]
    file: str | None
    image_id: str | None
    image_info: str | None


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
    image = tensor_of(ds, "images", images, *IMAGES)
    if image is None:
        raise ExportError("COCO needs images: the dataset has no tensor of htype image")
    given = {
        "bbox": boxes,
        "category_id": labels,
        "segmentation": polygons,
        "masks": masks,
        "keypoints": keypoints,
        "caption": captions,
    }
    groups = [] if any(given.values()) else _groups(ds)
    groups = groups or [_generic(ds, given)]
    names = {name: name if name in ds.tensors else None for name in ("file", "image_id", "image_info")}
    tensors = {"images": image}
    for group in groups:
        tensors |= {
            f"{group.name}: {key}": name for key, name in (*group.tensors.items(), *group.numbers.items())
        }
    taken = {*tensors.values(), *names, "split"}
    problems = [(name, "this tensor is not written") for name in ds.tensors if name not in taken]
    found = f"{len(ds):,} images with {', '.join(group.name for group in groups)}"
    context = _Context(image, groups, _files(ds), **names)
    return ExportPlan(found, tensors, context, piece_rows=128, problems=problems)


def write(view: lakebed.Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Write the pictures of some rows; return the text of their records."""
    done = Written(result={})
    for made in done.each(view, piece, lambda row, at: _records(row, at, piece, context, target)):
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
                    for at, text in enumerate(text for result in of for text in result.get(name, ())):
                        file.write(f",\n{text}".encode() if at else text.encode())
                    file.write(b"]")
                file.write(b"}\n")


# -- which tensors -----------------------------------------------------------------------------------------------


def _groups(ds: lakebed.Dataset) -> list[_Group]:
    """Return the groups whose tensors have the names of COCO's keys."""
    by_prefix: dict[str, dict[str, str]] = {}
    for name in ds.tensors:
        prefix, _, key = name.rpartition("/")
        by_prefix.setdefault(prefix, {})[key] = name
    return [
        _group(ds, prefix, tensors)
        for prefix, tensors in by_prefix.items()
        if "caption" in tensors or ("id" in tensors and tensors.keys() & {"bbox", "category_id", "keypoints"})
    ]


def _group(ds: lakebed.Dataset, prefix: str, tensors: Mapping[str, str]) -> _Group:
    defaults = {"segment_ids": "panoptic", "caption": "captions", "keypoints": "person_keypoints"}
    name = prefix or next((name for key, name in defaults.items() if key in tensors), "instances")
    numbers = {
        key: full
        for key, full in tensors.items()
        if key not in _KEYS and full != "image_id"
        if str(ds[full].htype) == "generic" and str(ds[full].dtype) in _NUMBERS
    }
    chosen = {key: full for key, full in tensors.items() if key in _KEYS}
    categories, ids = _categories(ds, chosen.get("category_id"))
    return _Group(name, chosen, numbers, categories, ids, numbers.get("id", next(iter(chosen.values()))))


def _generic(ds: lakebed.Dataset, given: Mapping[str, str | None]) -> _Group:
    """Return the single group of a dataset whose tensors do not have COCO's names."""
    chosen = {key: tensor_of(ds, part, given[key], htype) for key, (part, htype) in _PARTS.items()}
    label = given["category_id"]
    if label is None:
        others = [name for name in tensors_of(ds, "class_label") if name != "split"]
        label = tensor_of(ds, "labels", None, "class_label") if len(others) > 1 else next(iter(others), None)
    chosen |= {"category_id": label, "caption": given["caption"]}
    found = {key: name for key, name in chosen.items() if name is not None}
    counted = [found[key] for key in ("bbox", "category_id", "keypoints", "caption") if key in found]
    if not counted:
        raise ExportError(
            "COCO needs objects: the dataset has no tensor of htype bbox, class_label or keypoints_coco; if it has "
            "captions, name their tensor (captions=..., --captions)"
        )
    categories, ids = _categories(ds, label)
    name = "captions" if list(found) == ["caption"] else "instances"
    group = _Group(name, found, {}, categories, ids, counted[0])
    return replace(group, first=np.cumsum([1, *(group.count(ds[row]) for row in range(len(ds)))])[:-1])


def _count(sample: lakebed.Tensor, is_keypoints: bool) -> int:
    shape = sample.shape
    return int(shape[-1 if is_keypoints else 0] or 0) if shape else 0


def _categories(ds: lakebed.Dataset, name: str | None) -> tuple[Sequence[Mapping[str, Any]], Sequence[int]]:
    """Return the categories of a tensor of classes, and the id of each class."""
    if name is None:
        return (), ()
    info = ds[name].info
    names = list(info.get("class_names") or ())
    ids = list(info.get("category_ids") or range(1, len(names) + 1))
    known = {one["id"]: one for one in info.get("categories") or ()}
    ids += [max(ids, default=0) + 1 + more for more in range(len(names) - len(ids))]
    return [known.get(id_, {"id": id_, "name": of}) for id_, of in zip(ids, names, strict=False)], ids


def _files(ds: lakebed.Dataset) -> dict[str, Mapping[str, Any]]:
    """Return the other members of imported annotation files, such as licences, by group and split."""
    found: dict[str, Mapping[str, Any]] = {}
    for one in ds.info.get("imports") or ():
        for said in ((one.get("about") or {}).get("files") or {}).values():
            group, split = said.get("group"), said.get("split")
            found[f"{group}_{split}" if split else str(group)] = said.get("values") or {}
    return found


# -- rows --------------------------------------------------------------------------------------------------------


def _records(
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
    image_id: int | str = number + 1
    if context.image_id is not None:
        value = row[context.image_id]
        image_id = str(value.text()) if value.htype == "text" else int(value.numpy().reshape(-1)[0])
    record = {"id": image_id, "file_name": name.partition("/")[2], "height": height, "width": width}
    if context.image_info is not None:
        record |= row[context.image_info].dict() or {}
    found = {"images": [_text(record)]}
    for group in context.groups:
        if "segment_ids" in group.tensors:
            annotations = _panoptic(row, record, group, piece, target)
        else:
            annotations = [{"image_id": record["id"]} for _ in range(group.count(row))]
            for at, one in enumerate(annotations):
                if group.first is not None:
                    one["id"] = int(group.first[number]) + at
            _fill(annotations, row, group, record)
        found[group.name] = [_text(one) for one in annotations]
    return found


def _fill(
    found: list[dict[str, Any]], row: lakebed.Dataset, group: _Group, record: Mapping[str, Any]
) -> None:
    """Set the keys of annotations from the tensors of a row."""
    tensors = group.tensors
    for key, name in group.numbers.items():
        _set(found, key, row[name].numpy().reshape(-1).tolist(), name)
    if "bbox" in tensors:
        boxes = row[tensors["bbox"]]
        size = int(record["height"]), int(record["width"])
        of = as_ltwh(boxes.numpy(), dict(boxes.info.get("coords") or {}), size)
        _set(found, "bbox", of.tolist(), "bbox")
    if "category_id" in tensors:
        labels = row[tensors["category_id"]].numpy().reshape(-1).tolist()
        unknown = [label for label in labels if label >= len(group.category_ids)]
        if unknown:
            raise ExportError(f"class {unknown[0]} has no name in class_names of {tensors['category_id']}")
        _set(found, "category_id", [group.category_ids[label] for label in labels], "category_id")
    if "keypoints" in tensors and found:
        _set(found, "keypoints", row[tensors["keypoints"]].numpy().T.tolist(), "keypoints")
        for one in found:
            one.setdefault("num_keypoints", sum(1 for visible in one["keypoints"][2::3] if visible))
    if "caption" in tensors:
        texts = row[tensors["caption"]].data()["value"]
        _set(found, "caption", [texts] if isinstance(texts, str) else list(map(str, texts)), "caption")
    _put_polygons(found, row, tensors)
    _put_masks(found, row, tensors)
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


def _put_polygons(found: list[dict[str, Any]], row: lakebed.Dataset, tensors: Mapping[str, str]) -> None:
    if "segmentation" not in tensors:
        return
    parts = row[tensors["segmentation"]].numpy()
    owners = _owners(row, tensors.get("segmentation_object"), len(parts), len(found), "polygons")
    for one in found:
        one["segmentation"] = []
    for owner, part in zip(owners, parts, strict=True):
        found[owner]["segmentation"].append(np.asarray(part, np.float64).reshape(-1).tolist())


def _put_masks(found: list[dict[str, Any]], row: lakebed.Dataset, tensors: Mapping[str, str]) -> None:
    mask = tensors.get("rle_mask") or tensors.get("masks")
    if mask is None or is_empty(row[mask]):
        return
    layers = np.atleast_3d(row[mask].numpy())
    for layer, owner in enumerate(
        _owners(row, tensors.get("rle_object"), layers.shape[2], len(found), "masks")
    ):
        found[owner]["segmentation"] = _run_lengths(layers[..., layer])


def _owners(row: lakebed.Dataset, name: str | None, parts: int, objects: int, what: str) -> list[int]:
    """Return the number of the object of each polygon or mask: from a tensor, or 0, 1, 2, ... if no tensor is given."""
    if name is not None:
        return [int(one) for one in row[name].numpy().reshape(-1)]
    if parts != objects:
        raise ExportError(f"{parts} {what} for {objects} objects")
    return list(range(parts))


def _run_lengths(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Return a mask as run lengths of zeros and ones in turn, down its columns."""
    flat = mask.T.reshape(-1)
    edges = np.flatnonzero(np.diff(flat, prepend=False))
    counts = np.diff(edges, prepend=0, append=len(flat))
    return {"size": list(mask.shape), "counts": counts.tolist()}


def _area(one: Mapping[str, Any]) -> float:
    """Return the area of the mask, the polygons or the box of an annotation."""
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
    row: lakebed.Dataset, record: Mapping[str, Any], group: _Group, piece: Piece, target: Target
) -> list[dict[str, Any]]:
    """Write the map of a picture's segments; return its annotation."""
    ids = row[group.tensors["segment_ids"]]
    if is_empty(ids):
        return []
    pixels = ids.numpy().astype(np.uint32)
    folder = f"panoptic_{piece.split}" if piece.split else "panoptic"
    name = target.free(f"{folder}/{str(record['file_name']).rpartition('.')[0]}.png")
    target.put(name, png_of(np.stack([pixels & 255, (pixels >> 8) & 255, pixels >> 16], 2).astype(np.uint8)))
    others = row[group.tensors["other"]].dict() if "other" in group.tensors else []
    segments: list[dict[str, Any]] = [{} for _ in range(group.count(row))]
    tensors = {key: name for key, name in group.tensors.items() if key not in ("other", "segment_ids")}
    _fill(segments, row, replace(group, tensors=tensors), record)
    whole = dict(others[0]) if others else {}
    found = {"image_id": record["id"], "file_name": name.rpartition("/")[2], "segments_info": segments}
    return [{**whole, **found}]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")
