"""WebDataset: shards of some rows each, a file for each sample of a tensor.

    DEST/train-000000.tar            000000.tar without splits
        00000000.jpg                 an image, as it is stored
        00000000.cls                 number of its class
        00000000.txt, .json, .npy    texts, JSON, arrays; caption.txt if several tensors would have one suffix
    DEST/dataset.json                tensors by suffix, their descriptions, names of classes, samples of each shard: the
                                     importer reads it

Sequences and polygons are lists in JSON. A null has no file; a row of nulls has an empty file, ``00000000.null``.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.codecs.registry import sniff
from lakebed.dataset.described import Described
from lakebed.errors import ExportError
from lakebed.exporters.core.media import (
    as_json,
    extents,
    file_of,
    is_drawn,
    is_empty,
    is_null,
    links_followed,
    suffix_of,
)
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, chosen_tensors, tensor_of
from lakebed.htypes.base import Storing

if TYPE_CHECKING:
    import lakebed
    from lakebed.exporters.core.target import Target


_NOTHING = "null"  # suffix of the file that stands for a row without files


@dataclass(frozen=True)
class _Context:
    """Data of all writers: kind and suffix by tensor (for media, the file adds its suffix), and the tensor of keys."""

    fields: Mapping[str, tuple[str, str]]
    key: str | None
    rows: int
    classes: Mapping[str, Sequence[str]]
    described: Mapping[str, Mapping[str, Any]]


def plan(
    ds: lakebed.Dataset, *, tensors: Sequence[str] = (), rows: int = 1000, key: str | None = None
) -> ExportPlan:
    """Plan a file for each sample of each tensor.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; left out, all but ``split``.
    rows
        Number of samples in a shard.
    key
        Tensor of texts that are the keys of samples; left out, ``key`` if there is one, or the numbers of the rows.
    """
    if rows < 1:
        raise ExportError(f"a shard must have at least one row, not {rows}")
    if key is not None:
        tensor_of(ds, "key", key, "text")
    elif "key" in ds.tensors and ds["key"].htype == "text":
        key = "key"
    chosen = chosen_tensors(ds, tensors, [name for name in ds.tensors if name not in ("split", key)])
    problems: list[tuple[str, str]] = []
    described = {name: Described.of(ds[name], shape=extents(ds[name])) for name in chosen}
    described = {name: of.decoded() if of.is_chunked_file else of for name, of in described.items()}
    kinds: dict[str, str] = {}
    for name, of in described.items():
        kind = _kind(ds[name], of)
        if kind is None:
            problems.append((name, "it is left out: its rows hold several files, but a sample has one file"))
            continue
        kinds[name] = kind
        if ds[name].is_link:
            problems.append(links_followed(name))
    if not kinds:
        raise ExportError("the dataset has no tensors to write")
    fields = {name: (kind, _field(name, kind, kinds)) for name, kind in kinds.items()}
    classes = {
        name: list(ds[name].info.get("class_names") or ())
        for name, kind in kinds.items()
        if kind in ("cls", "labels")
    }
    parts = {"files": ", ".join(kinds), **({"key": key} if key else {})}
    told = {name: described[name].to_dict() for name in kinds}
    context = _Context(fields, key, rows, {name: names for name, names in classes.items() if names}, told)
    found = f"{ds.min_len:,} samples of {len(kinds)} files"
    return ExportPlan(found, parts, context, piece_rows=rows, problems=problems)


def write(view: lakebed.Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Write a shard."""
    done = Written()
    number = f"{piece.first // context.rows:06d}"
    shard = f"{piece.split}-{number}.tar" if piece.split else f"{number}.tar"
    taken: set[str] = set()
    suffixes: dict[str, str] = {}
    seen: dict[str, set[str]] = {}
    with target.open(shard) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        made = done.each(view, piece, lambda row, at: (_key(row, at, context, taken), _files(row, context)))
        for key, files in made:
            for name, suffix, data in files or [("", _NOTHING, b"")]:
                if name:
                    suffixes[suffix] = name
                if name and context.fields[name][0] == "media" and (of_file := sniff(data)):
                    seen.setdefault(name, set()).add(of_file)
                info = tarfile.TarInfo(f"{key}.{suffix}")
                info.size, info.mode = len(data), 0o644
                tar.addfile(info, io.BytesIO(data))
            taken.add(key)
    done.result = (shard, done.rows, suffixes, seen)
    return done


def finish(results: Sequence[Any], context: _Context, target: Target) -> None:
    """Write the tensors, the names of the classes, and the number of samples of each shard."""
    told: dict[str, Any] = {
        "shards": {},
        "tensors": {},
        "classes": context.classes,
        "described": dict(context.described),
    }
    kinds: dict[str, set[str]] = {}
    for _, (shard, rows, suffixes, seen) in results:
        told["shards"][shard] = rows
        told["tensors"].update(suffixes)
        for name, of in seen.items():
            kinds.setdefault(name, set()).update(of)
    for name, of in kinds.items():
        # Links may lead to files of another kind than the tensor declares.
        kind = context.described[name].get("sample_compression")
        if kind is not None and of != {kind}:
            told["described"][name] = {
                **context.described[name],
                "sample_compression": "png" if len(of) > 1 else min(of),
            }
    target.write("dataset.json", json.dumps(told, indent=2, ensure_ascii=False).encode())


def _kind(tensor: lakebed.Tensor, described: Described) -> str | None:
    """Return the kind of the files of a tensor; None if a row is several files."""
    if described.is_file or tensor.is_link or is_drawn(tensor, described):
        return None if described.is_sequence else "media"
    if described.is_sequence or described.storing not in (Storing.ARRAY, Storing.TEXT):
        return "json"
    if described.storing is Storing.TEXT:
        return "txt"
    if described.base == "class_label":
        longest = tensor.shape_interval.upper[1:]
        return "cls" if not longest or max(int(length or 0) for length in longest) <= 1 else "labels"
    return "npy"


def _field(name: str, kind: str, kinds: Mapping[str, str]) -> str:
    """Return the suffix of a tensor's files; for media, the part before the suffix of their kind."""
    suffix = {"media": "", "labels": "json"}.get(kind, kind)
    alone = sum(_like(other) == _like(kind) for other in kinds.values()) == 1
    plain = name.replace("/", "_").replace(".", "_")
    if alone or plain == suffix:
        return suffix
    return plain if kind == "media" else f"{plain}.{suffix}"


def _like(kind: str) -> str:
    return "json" if kind == "labels" else kind


def _key(row: lakebed.Dataset, number: int, context: _Context, taken: set[str]) -> str:
    if context.key is None:
        return f"{number:08d}"
    key = str(row[context.key].text())
    last = key.rpartition("/")[2]
    if not last or "." in last or key.startswith("/") or "\0" in key or ".." in key.split("/"):
        raise ExportError(f"{key!r} cannot be the key of a sample: a name without a dot was expected")
    if key in taken:
        raise ExportError(f"the key {key!r} occurs twice in one shard")
    return key


def _files(row: lakebed.Dataset, context: _Context) -> list[tuple[str, str, bytes]]:
    """Return tensor, suffix and content of the files of a row."""
    files: list[tuple[str, str, bytes]] = []
    for name, (kind, suffix) in context.fields.items():
        tensor = row[name]
        if is_null(tensor) or (kind == "media" and is_empty(tensor)):
            continue
        if kind == "media":
            of_file = suffix_of(tensor).removeprefix(".")
            files.append((name, f"{suffix}.{of_file}" if suffix else of_file, bytes(file_of(tensor))))
        elif kind == "txt":
            files.append((name, suffix, str(tensor.text()).encode()))
        elif kind == "json":
            value = as_json(next(tensor.values()))
            files.append((name, suffix, json.dumps(value, ensure_ascii=False).encode()))
        elif kind == "cls":
            labels = tensor.numpy().ravel()
            if len(labels):
                files.append((name, suffix, str(int(labels[0])).encode()))
        elif kind == "labels":
            files.append((name, suffix, json.dumps(tensor.numpy().ravel().tolist()).encode()))
        else:
            content = io.BytesIO()
            np.save(content, tensor.numpy(), allow_pickle=False)
            files.append((name, suffix, content.getvalue()))
    return files
