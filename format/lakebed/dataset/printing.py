"""Printed forms: summary table and log, laid out as in the 3.x API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakebed.dataset.history import when
from lakebed.documents.version_tree import VersionTree

if TYPE_CHECKING:
    from lakebed.dataset.tensor import Tensor

_HEADINGS = ("tensor", "htype", "shape", "dtype", "compression")


def summary_table(tensors: Mapping[str, Tensor]) -> str:
    """Return the table of ``ds.summary()``."""
    rows = [_HEADINGS, tuple("-" * len(h) for h in _HEADINGS), *(_row(n, t) for n, t in tensors.items())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS))]
    return "\n" + "\n".join(
        " " + "  ".join(c.center(w) for c, w in zip(r, widths, strict=True)) for r in rows
    )


def _row(name: str, tensor: Tensor) -> tuple[str, ...]:
    meta = tensor.meta
    dtype = "str" if tensor.dtype is not None and tensor.dtype.kind == "U" else str(tensor.dtype)
    return (
        name,
        str(tensor.htype),
        _shape(tensor),
        dtype,
        str(meta.sample_compression or meta.chunk_compression),
    )


def _shape(tensor: Tensor) -> str:
    low, high = tensor.meta.min_shape, tensor.meta.max_shape
    axes = [str(a) if a == b else f"{a}:{b}" for a, b in zip(low, high, strict=True)]
    parts = [str(len(tensor)), *axes]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def log_text(tree: VersionTree, version_id: str, branch: str) -> str:
    """Return what ``ds.log()`` prints."""
    lines = ["---------------", "Deep Lake Version Log", "---------------", "", f"Current Branch: {branch}"]
    for i in tree.ancestors(version_id):
        node = tree.commits[i]
        if node.is_committed:
            lines += ["", f"Commit : {i} ({node.branch}) ", f"Author : {node.user}", f"Time   : {when(node)}"]
            lines += [f"Message: {node.message}"]
    return "\n".join(lines) + "\n"
