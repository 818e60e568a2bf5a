"""Folders of media files: split, class, file, as the importer ``folder`` reads them.

photos/train/cat/1.jpg       the image of a row, as it is stored
photos/train/cat/1.txt       its text
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from lakebed.errors import ExportError
from lakebed.exporters.core.media import MEDIA, file_of, is_empty, links_followed, suffix_of
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, tensor_of, tensors_of
from lakebed.exporters.core.target import Target

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset


class _Context(NamedTuple):
    """Tensors of media, and of texts, classes and names of files."""

    media: Sequence[str]
    text: str | None
    labels: str | None
    names: str | None


def plan(
    ds: Dataset,
    *,
    media: Sequence[str] = (),
    labels: str | None = None,
    names: str | None = None,
    text: str | None = None,
) -> ExportPlan:
    """Plan a file for each sample of the media tensors.

    Parameters
    ----------
    ds
        The dataset.
    media
        Tensors whose samples become files; by default all images, audio, video and other files.
    labels
        Tensor of the classes, which become folders.
    names
        Tensor of the names of the files; by default ``file``, or the numbers of the rows.
    text
        Tensor of texts, which become text files beside the files.
    """
    chosen = list(media) or tensors_of(ds, *MEDIA)
    if not chosen:
        raise ExportError("the dataset has no images, audio, video or other files: name tensors, media=[...]")
    for one in chosen:
        tensor_of(ds, "media", one)
    label = tensor_of(ds, "labels", labels, "class_label") if labels or "split" not in ds.tensors else None
    if label is None and labels is None:
        others = [name for name in tensors_of(ds, "class_label") if name != "split"]
        label = others[0] if len(others) == 1 else None
    name = names or ("file" if "file" in ds.tensors else None)
    texts = [one for one in tensors_of(ds, "text") if one != name]
    beside = text or (texts[0] if len(texts) == 1 else None)
    parts = {"labels": label, "names": name, "text": beside}
    tensors = {"media": ", ".join(chosen), **{part: one for part, one in parts.items() if one}}
    taken = {*chosen, *parts.values(), "split"}
    problems = [(one, "this tensor is not written") for one in ds.tensors if one not in taken]
    if len(chosen) > 1:
        problems += [(one, "the written files do not tell which of them belong to one row") for one in chosen]
    problems += [links_followed(one) for one in chosen if ds[one].is_link]
    found = f"{ds.min_len:,} rows with files of {', '.join(chosen)}"
    return ExportPlan(found, tensors, _Context(chosen, beside, label, name), problems=problems)


def write(view: Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Write the files of some rows."""
    done = Written()
    for _ in done.each(view, piece, lambda row, at: _write_row(row, at, piece.split, context, target)):
        pass
    return done


def finish(results: Sequence[Any], context: _Context, target: Target) -> None:
    """Do nothing: `write` has written everything."""


def _write_row(row: Dataset, number: int, split: str, context: _Context, target: Target) -> None:
    folders = [split] if split else []
    if context.labels is not None:
        found = row[context.labels].data()
        names = found.get("text", found["value"])
        folders.append(str(names[0]) if len(names) else "")
    stem = f"{number:08d}"
    if context.names is not None:
        stem = str(PurePosixPath(str(row[context.names].text())).with_suffix("").name) or stem
    several = len(context.media) > 1
    is_there = False
    for name in context.media:
        tensor = row[name]
        if is_empty(tensor):
            continue
        folder = [*folders, name] if several and context.labels is None else folders
        path = target.free("/".join([*folder, stem + suffix_of(tensor)]))
        target.put(path, file_of(tensor))
        is_there = True
        stem = PurePosixPath(path).stem if not several else stem
    if not is_there:
        raise ExportError("the row has no file: its media are null")
    if context.text is not None:
        text = str(row[context.text].text())
        if text:
            target.put(target.free("/".join([*folders, f"{stem}.txt"])), text.encode())
