"""Description of a dataset as JSON for the page (`Meta` of types.ts)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import lakebed
from lakebed.errors import CorruptError
from lakebed.history.log import Log
from lakebed.versions.refs import Refs, read_refs
from lakebed.viewer.cells import kind_of
from lakebed.viewer.lake import Opened

_SPLIT = "split"  # name of the tensor with the split of a row, which is not an annotation
_DRAWN = ("bbox", "mask", "polygon", "keypoints", "point", "label")
_FIRST = ("image", "video", "mask")
_MOST_NAMES = 100_000
_MOST_COMMITS = 10_000
NOTHING: dict[str, Any] = {
    **dict.fromkeys(("min_shape", "max_shape", "skeleton", "keypoints"), ()),
    **dict.fromkeys(("sequence", "link"), False),
    **dict.fromkeys(("coords", "over", "format")),
}
"""Description of a column about which nothing is known."""


def meta(opened: Opened) -> dict[str, Any]:
    """Return the description of a version as JSON (`Meta` of types.ts)."""
    ds, tree = opened.ds, opened.session.tree
    tensors = tensor_metas(opened)
    filled = [one for one in tensors if one["rows"]]
    try:
        refs = read_refs(ds.storage)
    except CorruptError:
        refs = Refs()
    nodes = (entry.node for entry in islice(Log(opened.session, refs).all_commits(), _MOST_COMMITS))
    commits = [
        {
            "id": node.id,
            "branch": node.branch,
            "message": str(node.message or ""),
            "author": str(node.user or ""),
            "time": node.time,
        }
        for node in nodes
    ]
    views = [
        {"id": view.id, "name": view.message or view.id, "text": view.tql_query or f"view:{view.id}"}
        for view in ds.get_views()
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
        "views": views,
        "primary": next((one["name"] for kind in _FIRST for one in filled if one["kind"] == kind), None),
    }


def tensor_metas(opened: Opened) -> list[dict[str, Any]]:
    """Return the descriptions of all tensors as JSON (`TensorMeta` of types.ts)."""
    if "tensors" not in opened.kept:
        found = [_tensor(name, tensor) for name, tensor in opened.tensors.items()]
        bases = [one for one in found if one["kind"] in ("image", "video")]
        for one in found:
            one["over"] = _over(one, bases)
        opened.kept["tensors"] = found
    metas: list[dict[str, Any]] = opened.kept["tensors"]
    return metas


def layers(opened: Opened, name: str) -> list[str]:
    """Return the names of the tensors that hold smaller copies of images, the smallest last."""
    group, slash, base = name.rpartition("/")
    start = f"{group}{slash}_{base}_downsampled_"
    factors = [one[len(start) :] for one in opened.ds.meta.hidden_tensors if one.startswith(start)]
    return [f"{start}{factor}" for factor in sorted(map(int, filter(str.isdecimal, factors)))]


def _tensor(name: str, tensor: lakebed.Tensor) -> dict[str, Any]:
    info, meta, kind = dict(tensor.info), tensor.meta, kind_of(tensor)
    is_skeleton = kind == "keypoints"
    return NOTHING | {
        "name": name,
        "htype": tensor.htype or "generic",
        "kind": kind,
        "dtype": str(tensor.dtype) if tensor.dtype is not None else "",
        "min_shape": list(meta.min_shape),
        "max_shape": list(meta.max_shape),
        "rows": len(tensor),
        "sequence": tensor.is_sequence,
        "link": tensor.is_link,
        "format": None if meta.sample_compression == "lz4" else meta.sample_compression,
        "class_names": _texts(info.get("class_names")),
        "coords": _coords(info.get("coords")) if kind == "bbox" else None,
        "skeleton": _pairs(info.get("connections")) if is_skeleton else [],
        "keypoints": _texts(info.get("keypoints")) if is_skeleton else [],
        "logical": logical(info.get("logical_type")),
    }


def logical(stored: Any) -> str | None:
    """Return the meaning of numbers: ``timestamp``, ``date``, ``time``, ``duration``; None for plain numbers."""
    return next((w for w in ("timestamp", "date", "time", "duration") if str(stored).startswith(w)), None)


def _coords(given: Any) -> dict[str, str]:
    coords = given if isinstance(given, Mapping) else {}
    mode = str(coords.get("mode")).upper()
    kind = "fractional" if coords.get("type") == "fractional" else "pixel"
    return {"type": kind, "mode": mode if mode in ("LTRB", "CCWH") else "LTWH"}


def _texts(given: Any) -> list[str]:
    return [str(one) for one in given[:_MOST_NAMES]] if isinstance(given, list | tuple) else []


def _pairs(given: Any) -> list[list[int]]:
    pairs = given[:_MOST_NAMES] if isinstance(given, list | tuple) else []
    lists = (list(pair) for pair in pairs if isinstance(pair, list | tuple))
    return [pair for pair in lists if [*map(type, pair)] == [int, int]]


def _over(one: Mapping[str, Any], bases: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the images over which annotations are drawn: the images of the same group, else the first images.

    Sequences of annotations belong to sequences of images; any annotations may belong to a video, frame by frame.
    """
    if one["kind"] not in _DRAWN or one["name"] == _SPLIT:
        return None
    fitting = [
        base["name"] for base in bases if one["sequence"] == base["sequence"] or base["kind"] == "video"
    ]
    group = one["name"].rpartition("/")[0]
    near = [name for name in fitting if name.rpartition("/")[0] == group]
    return next(iter(near or fitting), None)
