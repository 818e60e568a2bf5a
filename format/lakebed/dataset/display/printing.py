"""Printed forms: summary table and log, laid out as in the 3.x API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.documents.version_tree import VersionTree
from lakebed.history.commits import commit_time
from lakebed.runtime.printable import printable

_HEADINGS = ("tensor", "htype", "shape", "dtype", "compression")
_RULE = "-------"


def summary_table(tensors: Mapping[str, Any], *, named: bool = True) -> str:
    """Return the table of ``ds.summary()``; if `named` is False, the table of ``tensor.summary()``, without names."""
    skip = 0 if named else 1
    rows = [_row(name, tensor)[skip:] for name, tensor in tensors.items()]
    headings = _HEADINGS[skip:]
    # As in 3.x, the width of a column does not depend on the length of its heading.
    widths = [max([len(_RULE), *(len(row[i]) for row in rows)]) for i in range(len(headings))]
    lines = [headings, (_RULE,) * len(headings), *rows]
    return "".join("\n" + "".join(map(_cell, line, widths)) for line in lines)


def _cell(text: str, width: int) -> str:
    room = max(0, width - len(text) + 2)
    return " " * (room // 2) + text + " " * (room - room // 2)


def _row(name: str, tensor: Any) -> tuple[str, ...]:
    meta = tensor.meta
    dtype = "str" if tensor.dtype is not None and tensor.dtype.kind == "U" else str(tensor.dtype)
    return (
        printable(name),
        printable(str(tensor.htype)),
        str(tensor.shape_interval),
        dtype,
        printable(str(meta.sample_compression)),  # like 3.x, do not show the chunk compression
    )


def log_text(tree: VersionTree, version_id: str, branch: str, *, changed: bool) -> str:
    """Return the text of ``ds.log()``; ``changed`` adds a line about uncommitted changes."""
    lines = ["---------------", "Deep Lake Version Log", "---------------", "", f"Current Branch: {branch}"]
    if changed:
        lines.append("** There are uncommitted changes on this branch.")
    for i in tree.ancestors(version_id):
        node = tree.commits[i]
        if node.is_committed:
            lines += [
                "",
                f"Commit : {i} ({node.branch}) ",
                f"Author : {node.user}",
                f"Time   : {commit_time(node)}",
            ]
            lines += [f"Message: {node.message}"]
            if node.is_checkpoint:
                lines += [f"Total samples processed in transform: {node.total_samples_processed}"]
    return printable("\n".join(lines), lines=True) + "\n"
