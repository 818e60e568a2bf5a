"""What a dataset is, for the page: `Meta` of types.ts, and the kind of each tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import lakebed
from lakebed.errors import CorruptError
from lakebed.history.log import Log
from lakebed.versions.refs import Refs, read_refs
from lakebed.viewer.cells import plain
from lakebed.viewer.lake import Opened

_KINDS = {
    **dict.fromkeys(("image", "image.rgb", "image.gray", "dicom", "nifti"), "image"),
    **dict.fromkeys(("binary_mask", "segment_mask", "instance_label"), "mask"),
    **dict.fromkeys(("point_cloud", "mesh"), "mesh"),
    **dict.fromkeys(("bbox.3d", "embedding", "intrinsics"), "array"),
    **dict.fromkeys(("text", "tag"), "text"),
    **dict.fromkeys(("json", "list"), "json"),
    **{name: name for name in ("video", "audio", "bbox", "polygon", "point")},
    "keypoints_coco": "keypoints",
    "class_label": "label",
}
_SPLIT = "split"  # which part of a data set a row is of: no annotation
_DRAWN = ("bbox", "mask", "polygon", "keypoints", "point", "label")
_FIRST = (("image",), ("video",), ("mask",))
_SCALARS: tuple[list[int], ...] = ([], [1], [0])
_MOST_NAMES = 100_000
_MOST_COMMITS = 10_000


def kind_of(tensor: lakebed.Tensor) -> str:
    """Return how the page treats a tensor."""
    htype = tensor.base_htype
    if htype in _KINDS:
        return _KINDS[htype]
    if htype not in (None, "generic"):
        return "unknown"
    return "scalar" if tensor.meta.max_shape in _SCALARS else "array"


def meta(opened: Opened) -> dict[str, Any]:
    """Return `Meta` of a version."""
    ds, tree = opened.ds, opened.session.tree
    tensors = tensor_metas(opened)
    try:
        refs = read_refs(ds.storage)
    except CorruptError:
        refs = Refs()
    commits = [
        {
            "id": entry.node.id,
            "branch": entry.node.branch,
            "message": str(entry.node.message or ""),
            "author": str(entry.node.user or ""),
            "time": entry.node.time,
        }
        for entry, _ in zip(Log(opened.session, refs).all_commits(), range(_MOST_COMMITS), strict=False)
    ]
    return {
        "id": opened.number,
        "name": opened.name,
        "branch": ds.branch if ds.is_head_node else None,
        "commit": ds.commit_id,
        "version": opened.version,
        "head": not opened.is_lasting,
        "rows": ds.max_len,
        "tensors": tensors,
        "branches": list(tree.branches),
        "commits": commits,
        "tags": [{"name": tag.name, "commit": tag.commit} for tag in refs.tags.values()],
        "views": [
            {
                "id": view.id,
                "name": view.message or view.id,
                "text": view.tql_query or f"view:{view.id}",
                "rows": None,
            }
            for view in ds.get_views()
        ],
        "primary": primary(tensors),
        "info": plain(dict(ds.info))[0],
    }


def tensor_metas(opened: Opened) -> list[dict[str, Any]]:
    """Return `TensorMeta` of all tensors."""
    if "tensors" not in opened.kept:
        hidden = opened.ds.meta.hidden_tensors
        found = [_tensor(name, tensor, hidden) for name, tensor in opened.tensors.items()]
        _place_over(found)
        opened.kept["tensors"] = found
    metas: list[dict[str, Any]] = opened.kept["tensors"]
    return metas


def _tensor(name: str, tensor: lakebed.Tensor, hidden: Iterable[str]) -> dict[str, Any]:
    info, meta, kind = dict(tensor.info), tensor.meta, kind_of(tensor)
    given = info.get("coords")
    coords = given if isinstance(given, Mapping) else {}
    group, slash, base = name.rpartition("/")
    layer = f"{group}{slash}_{base}_downsampled_"
    layers = [one for one in hidden if one.startswith(layer) and one.removeprefix(layer).isdecimal()]
    return {
        "name": name,
        "htype": tensor.htype or "generic",
        "kind": kind,
        "dtype": str(tensor.dtype) if tensor.dtype is not None else "",
        "min_shape": list(meta.min_shape),
        "max_shape": list(meta.max_shape),
        "rows": len(tensor),
        "sequence": tensor.is_sequence,
        "link": tensor.is_link,
        "compression": meta.sample_compression or meta.chunk_compression,
        "class_names": _texts(info.get("class_names")),
        "coords": None
        if kind != "bbox"
        else {
            "type": "fractional" if coords.get("type") == "fractional" else "pixel",
            "mode": _mode(coords.get("mode")),
        },
        "skeleton": _pairs(info.get("connections")) if kind == "keypoints" else [],
        "keypoints": _texts(info.get("keypoints")) if kind == "keypoints" else [],
        "over": None,
        "logical": logical(info.get("logical_type")),
        "pyramid": sorted(layers, key=lambda one: int(one.removeprefix(layer))),
    }


def logical(stored: Any) -> str | None:
    """Return what numbers stand for: ``timestamp``, ``date``, ``time``, ``duration``; None for themselves."""
    return next((w for w in ("timestamp", "date", "time", "duration") if str(stored).startswith(w)), None)


def _mode(given: Any) -> str:
    return given.upper() if isinstance(given, str) and given.upper() in ("LTRB", "CCWH") else "LTWH"


def _texts(given: Any) -> list[str]:
    return [str(one) for one in given[:_MOST_NAMES]] if isinstance(given, list | tuple) else []


def _pairs(given: Any) -> list[list[int]]:
    pairs = given[:_MOST_NAMES] if isinstance(given, list | tuple) else []
    return [
        list(pair)
        for pair in pairs
        if isinstance(pair, list | tuple) and len(pair) == 2 and all(type(one) is int for one in pair)
    ]


def _place_over(tensors: list[dict[str, Any]]) -> None:
    """Find the images that annotations are drawn over: those of their own group, else the first."""

    def group(tensor: dict[str, Any]) -> str:
        return str(tensor["name"]).rpartition("/")[0]

    bases = [one for one in tensors if one["kind"] in ("image", "video")]
    for one in tensors:
        if one["kind"] not in _DRAWN or one["name"] == _SPLIT:
            continue
        fitting = [base for base in bases if _goes_with(one, base)]
        near = [base for base in fitting if group(base) == group(one)] or fitting
        one["over"] = near[0]["name"] if near else None


def _goes_with(one: dict[str, Any], base: dict[str, Any]) -> bool:
    """Whether annotations have an item for each picture: sequences of both, or what a film has per frame."""
    return bool(one["sequence"]) == bool(base["sequence"]) or base["kind"] == "video"


def primary(tensors: list[dict[str, Any]]) -> str | None:
    """Return the tensor that a grid shows."""
    for kinds in _FIRST:
        for tensor in tensors:
            if tensor["kind"] in kinds and tensor["rows"]:
                return str(tensor["name"])
    return None
