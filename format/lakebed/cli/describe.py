"""Descriptions of datasets, first as plain data for programs, then as text for people."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np

import lakebed
from lakebed.cli.cells import Damage
from lakebed.cli.output import table, tell
from lakebed.errors import CorruptError, FormatError, GetDataFromLinkError
from lakebed.runtime.printable import printable

_WIDEST = 40
_NAMES = 4


def lake_text(entries: Sequence[dict[str, Any]]) -> str:
    """Format the lines of ``ls``, with the streams of datasets that syncs fill."""
    headings, keys = ["dataset"], []
    if has_branches := any(entry["branch"] not in ("main", None) for entry in entries):
        headings.append("branch")
    if any(entry["stream"] for entry in entries):
        keys = ["namespace", "stream", "mode"]
        headings += keys
    about_columns = len(headings) - 1
    headings += ["rows", "tensors", "branches", "commit", "time", "message"]
    rows = []
    for entry in entries:
        first, *more = str(entry["error"] or entry["message"]).splitlines() or [""]
        about = [str((entry["stream"] or {}).get(key) or "") for key in keys]
        branch = [str(entry["branch"] or "-")] if has_branches else []
        rows.append(
            [str(entry["path"]), *branch, *about]
            + ["-" if entry[key] is None else str(entry[key]) for key in ("rows", "tensors")]
            + [_some(entry["branch_names"])]
            + [(entry["commit"] or "-")[:12], str(entry["time"] or "-")]
            + [first + (" ..." if more else "")]
        )
    return table(headings, rows, right={about_columns + column for column in (1, 2)})


def _some(names: Sequence[str] | None) -> str:
    """Return the first names, and the number of other names."""
    if names is None:
        return "-"
    more = f", +{len(names) - _NAMES}" if len(names) > _NAMES else ""
    return cell(", ".join(names[:_NAMES])) + more


def facts(ds: lakebed.Dataset) -> dict[str, Any]:
    """Return everything that ``info`` shows."""
    return {
        "path": ds.path,
        "branch": ds.branch,
        "branches": ds.branches,
        "commit": ds.commit_id,
        "commits": len(ds.commits),
        "tags": tags(ds),
        "rows": ds.max_len,
        "info": plain(dict(ds.info)),
        "tensors": [
            {
                "name": name,
                "htype": tensor.htype,
                "dtype": tensor.meta.dtype,
                "length": len(tensor),
                "min_shape": list(tensor.meta.min_shape),
                "max_shape": list(tensor.meta.max_shape),
                "compression": tensor.meta.sample_compression or tensor.meta.chunk_compression,
                "logical_type": tensor.info.get("logical_type"),
            }
            for name, tensor in ds.tensors.items()
        ],
    }


def tags(ds: lakebed.Dataset) -> dict[str, str] | None:
    """Return the commit of each tag; None if the file of tags is damaged."""
    try:
        return {name: tag.commit for name, tag in ds.get_tags().items()}
    except CorruptError:
        return None


def facts_text(known: dict[str, Any]) -> str:
    """Format the facts that ``info`` shows as text."""
    lines = [
        f"{known['path']}",
        f"branch {known['branch']} of {', '.join(known['branches'])}",
        f"{known['commits']} commit(s), last {known['commit']}",
        *([f"tags {', '.join(known['tags'])}"] if known["tags"] else []),
        f"{known['rows']} rows",
    ]
    lines = list(map(printable, lines))
    rows = [
        [
            tensor["name"],
            str(tensor["htype"]),
            str(tensor["logical_type"] or tensor["dtype"]),
            str(tensor["length"]),
            _extents(tensor["min_shape"], tensor["max_shape"]),
            str(tensor["compression"] or "-"),
        ]
        for tensor in known["tensors"]
    ]
    lines += ["", table(["tensor", "htype", "type", "length", "shape", "compression"], rows, right={3})]
    if known["info"]:
        lines += ["", "info"]
        lines += [f"  {printable(key)}: {cell(value, 100)}" for key, value in known["info"].items()]
    return "\n".join(lines)


def _extents(low: Sequence[int], high: Sequence[int]) -> str:
    return "(" + ", ".join(str(a) if a == b else f"{a}:{b}" for a, b in zip(low, high, strict=True)) + ")"


def _value(sample: lakebed.Tensor) -> Any:
    """Return a sample's value; for a link that cannot be followed, its address."""
    try:
        return sample.data()["value"]
    except GetDataFromLinkError as error:
        return error.url or str(error)


def records(
    ds: lakebed.Dataset, count: int, tensors: Sequence[str] | None, damage: Damage
) -> list[dict[str, Any]]:
    """Return the first rows as plain data; None stands for nulls, and for damaged samples, which are recorded."""
    chosen = ds.tensors if tensors is None else {name: ds[name] for name in tensors}
    count = min(count, max((len(t) for t in chosen.values()), default=0))
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, tensor in chosen.items():
        there = min(count, len(tensor))
        nulls = _nulls(tensor, there)
        # A single number is stored as an array of one item: return the item.
        is_scalar = tensor._reader.is_scalar and not tensor.is_sequence  # noqa: SLF001
        for i in range(count):
            rows[i][name] = None
            try:
                if i < there and not (nulls is not None and bool(nulls[i])):
                    value = _value(tensor[i])
                    is_number = is_scalar and isinstance(value, np.ndarray)
                    rows[i][name] = plain(next(iter(value), None) if is_number else value)
            except FormatError as error:
                damage.note(name, i, error)
    return rows


def _nulls(tensor: lakebed.Tensor, there: int) -> Any:
    """Return a mask of nulls among the first samples; None if none is null, or if the mask cannot be read."""
    try:
        return tensor[:there].null_mask() if there else None
    except FormatError:
        return None


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; arrays become lists, even arrays of one value."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def cell(value: Any, widest: int = _WIDEST) -> str:
    """Return a value as one short line."""
    text = "" if value is None else printable(str(value))
    return text if len(text) <= widest else text[: widest - 1] + "…"


def tell_made(
    made: lakebed.Dataset, dest: str, origin: dict[str, str], *, is_flat: bool = False, as_json: bool
) -> None:
    """Print what was copied: source, tensors, rows, and history if it was copied."""
    history = "without history" if is_flat else f"{len(made.commits):,} commits on {made.branch}"
    tell(
        {**origin, "dataset": dest, "tensors": list(made.tensors), "commits": len(made.commits)},
        f"{dest}: {len(made.tensors):,} tensors, {made.max_len:,} rows, {history}",
        as_json=as_json,
    )
