"""Folders of media: a class for each folder, splits above the classes, files with the same stem in one row.

    photos/train/cat/1.jpg              images, labels "cat", split "train", file "train/cat/1.jpg"
    photos/train/cat/1.txt              text of the same row
    photos/val/dog/small/2.png          labels "dog/small"

A file without a suffix that begins like a DICOM file is a DICOM file, as on hospital discs. If files of audio, scans
and so on are of several kinds, or differ in their number of axes, files of the rarer kinds are left out.

Rows are sorted by split, then by name. Texts and JSON files without another file of their stem, such as ``README.txt``,
become rows only if their number is at least that of the other rows, as in a folder of texts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from lakebed.codecs.images import is_stack, stack
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.arrays.numpy_files import loaded
from lakebed.importers.core.plan import Media, Plan, Problem, TensorPlan, media, tensor
from lakebed.importers.core.source import Source, grouped, kinds_of, suffix_of
from lakebed.importers.core.splits import SPLITS, in_order, ranges_of
from lakebed.importers.folders.passed_over import passed_over
from lakebed.importers.folders.pictures import IMAGE_KINDS, kind_of_images
from lakebed.transforms.output import Skipped

BATCH = 1024
"""Maximum number of rows that are written together."""

_FILES: Mapping[str, Mapping[str, str]] = {
    "image": IMAGE_KINDS,
    "audio": {".wav": "wav", ".flac": "flac", ".mp3": "mp3"},
    "video": {".mp4": "mp4", ".mkv": "mkv", ".avi": "avi"},
    "dicom": {".dcm": "dcm"},
    "nifti": {".nii": "nii", ".nii.gz": "nii.gz"},
    "point_cloud": {".las": "las"},
    "mesh": {".ply": "ply", ".stl": "stl"},
}
_NAMES: Mapping[str, str] = {
    "image": "images",
    "stack": "stacks",
    "audio": "audio",
    "video": "videos",
    "dicom": "scans",
    "nifti": "volumes",
    "point_cloud": "point_clouds",
    "mesh": "meshes",
    "text": "text",
    "json": "json",
    "array": "arrays",
}
_OF_SUFFIX = {
    **{suffix: htype for htype, kinds in _FILES.items() for suffix in kinds},
    ".txt": "text",
    ".md": "text",
    ".json": "json",
    ".npy": "array",
}
_ABOUT = {"text": "text", "json": "JSON"}
"""Htype -> name, for files that may describe rows, describe the folder, or be rows themselves."""

_OF_SCANS = re.compile(r"(\.\d+|\.ima|\.dicom)?")
"""Suffixes of DICOM files: no suffix, those of Siemens, or the last number of an id (1.2.840.113619)."""
_NO_SCANS = ("dicomdir",)
"""Names of directory files of discs, which begin like scans but are not scans."""
_DICOM_AT = 128
_OF_SOME_AXES = ("dicom", "nifti")
"""Htypes whose files are stored unchanged, and whose number of axes varies."""
_LOOKED_AT = 64
"""Number of files whose headers decide the usual number of axes."""

_WRONG = (LakebedError, OSError, ValueError)
"""Exceptions of a file that cannot be read: its row is left out."""


class _Row(NamedTuple):
    """Files of a row, their htypes, and the class; the first file names the row."""

    files: Sequence[str]
    htypes: Sequence[str]
    label: str

    def __str__(self) -> str:
        return self.files[0]


@dataclass(frozen=True)
class _Context:
    """Settings that workers need: the tensor of each htype, and the number of axes of samples of some htypes."""

    media: Media
    tensors: Mapping[str, str]
    labels: str | None
    axes: Mapping[str, int]


def recognise(source: Source) -> str | None:
    """Count the files of each htype; None if the folder has no file of a known kind."""
    return _told(_htypes(source)) if source.is_folder else None


def plan(
    source: Source,
    *,
    labels: Literal["folders", "none"] = "folders",
    splits: bool = True,
    link: bool = False,
    creds_key: str | None = None,
    compression: str | None = None,
    notes: Literal["auto", "rows", "skip"] = "auto",
    pages: Literal["auto", "stack", "first"] = "auto",
) -> Plan:
    """Plan a row for each stem.

    Parameters
    ----------
    source
        The folder.
    labels
        ``folders`` makes a class of each folder.
    splits
        Make splits of folders train, val, test at the root.
    link
        Store links to the files in place of the files.
    creds_key
        Name of the credentials that the links need.
    compression
        Kind of image that is stored; left out, the kind of the files with the most bytes.
    notes
        Texts and JSON files without another file of their stem: rows makes rows of them, skip passes them over, auto
        passes them over if they are fewer than the other rows.
    pages
        TIFF files of several pages of one size: stack makes an array of all pages, first an image of the first page;
        auto makes arrays, and reports it.
    """
    htypes = _htypes(source) if source.is_folder else {}
    found = _told(htypes)
    if found is None:
        raise IngestionError(f"{source.shown} is not a folder with files of a known kind")
    problems = list(passed_over(source, [name for name in source.files if name not in htypes]))
    axes: dict[str, int] = {}
    if not link:
        others, axes = _others(source, htypes)
        problems += others
        htypes = {name: htype for name, htype in htypes.items() if name not in {one.where for one in others}}
        _find_stacks(source, htypes, pages, problems)
    alone = _notes(htypes, notes)
    for name in alone:
        told = f"a {_ABOUT[htypes.pop(name)]} file beside no other file of its name is not imported"
        how = "--notes rows, or notes='rows', makes a row of it; skip says that this is meant"
        if notes == "auto":
            problems.append(Problem(name, f"{told} ({how})", 0))
    if alone and notes == "skip":
        found += f"; {len(alone):,} texts and JSON files beside no other file of their name are passed over"
    by_split = _rows_of(htypes, splits=splits)
    classes: list[str] = []
    if labels == "folders":
        classes = sorted({row.label for rows in by_split.values() for row in rows} - {""})
    tensors, names = _tensors(source, htypes, compression, problems, link=link)
    if classes:
        tensors.append(tensor("labels", "class_label", class_names=classes, create_shape_tensor=False))
    tensors.append(tensor("file", "text"))
    items, ranges = ranges_of(by_split.items(), rest="")
    return Plan(
        found,
        tensors,
        items,
        _Context(Media(source, link, creds_key), names, "labels" if classes else None, axes),
        rows=len(items),
        nbytes=source.nbytes,
        splits=ranges,
        problems=problems,
        classes={"labels": classes} if classes else {},
        about={"classes": {"labels": len(classes)} if classes else {}},
    )


def rows(item: _Row, context: _Context) -> Iterator[Any]:
    """Make the row of a stem."""
    row: dict[str, Any] = dict.fromkeys(context.tensors.values())
    for name, htype in zip(item.files, item.htypes, strict=True):
        try:
            value = row[context.tensors[htype]] = _value(name, htype, context.media)
            usual = context.axes.get(htype, 0)
            if usual and len(value.shape) != usual:
                raise IngestionError(_of_other_axes(htype, len(value.shape), usual))
        except _WRONG as error:
            yield Skipped(name, f"{error}")  # names the file of the row that is damaged
            return
    if context.labels is not None:
        row[context.labels] = item.label or None
    row["file"] = item.files[0]
    yield row


# -- files -------------------------------------------------------------------------------------------------------


def _htypes(source: Source) -> dict[str, str]:
    """Return {name of a file: its htype}, without files of unknown kinds."""
    found = {}
    for name in source.files:
        suffix = suffix_of(name)
        htype = _OF_SUFFIX.get(suffix)
        if htype is None and _OF_SCANS.fullmatch(suffix) and _is_scan(source, name):
            htype = "dicom"
        if htype is not None:
            found[name] = htype
    return found


def _is_scan(source: Source, name: str) -> bool:
    if name.rpartition("/")[2].lower() in _NO_SCANS or source.files[name] < _DICOM_AT + 4:
        return False
    try:
        return source.start_of(name, _DICOM_AT + 4)[_DICOM_AT:] == b"DICM"
    except _WRONG:
        return False  # the report lists the file as a file of unknown kind


def _told(htypes: Mapping[str, str]) -> str | None:
    told = [f"{count:,} {htype} files" for htype, count in Counter(htypes.values()).most_common()]
    return f"a folder of {', '.join(told)}" if told else None


def _others(source: Source, htypes: Mapping[str, str]) -> tuple[list[Problem], dict[str, int]]:
    """Return reports of files that do not fit the tensor of their htype, and (htype -> number of axes)."""
    found: list[Problem] = []
    axes: dict[str, int] = {}
    for htype in dict.fromkeys(htypes.values()):
        if htype == "image" or htype not in _FILES:
            continue
        of = {name: _FILES[htype].get(suffix_of(name), "dcm") for name, one in htypes.items() if one == htype}
        counts = Counter(of.values())
        usual = max(counts, key=lambda kind: (counts[kind], kind))
        found += [
            Problem(
                name,
                f"it is {kind.upper()}, and the {htype} files that are imported are {usual.upper()}: import it "
                "from a folder of its own, or all as links (link=True, --link)",
            )
            for name, kind in of.items()
            if kind != usual
        ]
        if htype in _OF_SOME_AXES:
            ranks = _ranks(source, [name for name, kind in of.items() if kind == usual])
            most = axes[htype] = Counter(ranks.values()).most_common(1)[0][0] if ranks else 0
            found += [
                Problem(name, _of_other_axes(htype, rank, most))
                for name, rank in ranks.items()
                if rank != most
            ]
    return found, axes


def _spread(names: Sequence[str]) -> Sequence[str]:
    """Return about `_LOOKED_AT` names, evenly spread over all."""
    return names[:: -(-len(names) // _LOOKED_AT) or 1]


def _ranks(source: Source, names: Sequence[str]) -> dict[str, int]:
    """Return (name -> number of axes) of some files; other files are checked when their rows are made."""
    found: dict[str, int] = {}
    for name in _spread(names):
        try:
            found[name] = len(source.media(name).shape)
        except _WRONG:
            continue  # the error is reported when the row is made
    return found


def _of_other_axes(htype: str, rank: int, usual: int) -> str:
    told = f"it has {rank} axes, and most {htype} files have {usual}"
    if htype == "dicom" and rank > usual:
        told = "it has several frames, and most have one"
    elif htype == "dicom":
        told = "it has one frame, and most several"
    return f"{told}: import it from a folder of its own"


def _find_stacks(
    source: Source, htypes: dict[str, str], pages: Literal["auto", "stack", "first"], problems: list[Problem]
) -> None:
    """Mark TIFF files of several pages as stacks, if one of some inspected files has several pages."""
    names = [
        name for name, htype in htypes.items() if htype == "image" and IMAGE_KINDS[suffix_of(name)] == "tiff"
    ]
    if pages == "first" or not any(_is_stack(source, name) for name in _spread(names)):
        return
    found = [name for name in names if _is_stack(source, name)]
    htypes.update(dict.fromkeys(found, "stack"))
    if pages == "auto":
        reason = (
            f"{len(found):,} TIFF files of several pages are arrays of pixels, (pages, height, width, channels), "
            "without the tags of the files; pages='first' (--pages first) stores the files, of which the first page is "
            "read"
        )
        problems.append(Problem(_NAMES["stack"], reason, 0))


def _is_stack(source: Source, name: str) -> bool:
    try:
        with source.open(name) as file:
            return is_stack(file, source.files[name])
    except _WRONG:
        return False  # the error is reported when the row is made


# -- rows --------------------------------------------------------------------------------------------------------


def _notes(htypes: Mapping[str, str], notes: Literal["auto", "rows", "skip"]) -> list[str]:
    """Return the texts and JSON files that are skipped."""
    if notes == "rows":
        return []
    held = {_stem(name) for name, htype in htypes.items() if htype not in _ABOUT}
    alone = [name for name, htype in htypes.items() if htype in _ABOUT and _stem(name) not in held]
    if notes == "auto" and len({_stem(name) for name in alone}) >= len(held):
        return []
    return alone


def _stem(name: str) -> str:
    suffix = suffix_of(name)
    return name[: -len(suffix)] if suffix in _OF_SUFFIX else name


def _rows_of(htypes: Mapping[str, str], *, splits: bool) -> dict[str, list[_Row]]:
    """Return the rows of each split."""
    found: dict[str, list[_Row]] = {}
    for stem, files in grouped(htypes, _stem).items():
        first, slash, rest = stem.partition("/")
        split = SPLITS.get(first.lower(), "") if splits and slash else ""
        label = (rest if split else stem).rpartition("/")[0]
        together: list[dict[str, str]] = []  # files of one stem share a row if their htypes differ
        for name in files:
            row = next((row for row in together if htypes[name] not in row), None)
            if row is None:
                together.append(row := {})
            row[htypes[name]] = name
        found.setdefault(split, []).extend(_Row(tuple(row.values()), tuple(row), label) for row in together)
    return dict(in_order(found))


def _tensors(
    source: Source, htypes: Mapping[str, str], compression: str | None, problems: list[Problem], *, link: bool
) -> tuple[list[TensorPlan], dict[str, str]]:
    """Return a tensor for each htype of the files, and (htype -> name of its tensor)."""
    files = grouped(htypes, htypes.__getitem__)
    tensors: list[TensorPlan] = []
    names = {htype: name for htype, name in _NAMES.items() if htype in files}
    for htype, name in names.items():
        if htype == "image":
            kind = kind_of_images(source, files[htype], compression, None if link else problems)
            tensors.append(media(name, htype, compression=kind, link=link))
        elif htype in _FILES:
            kind = next(iter(kinds_of(files[htype], _FILES[htype])), "dcm")
            tensors.append(media(name, htype, compression=kind, link=link))
        elif htype in ("array", "stack"):
            tensors.append(tensor(name, chunk_compression="lz4"))
        else:
            tensors.append(tensor(name, htype))
    return tensors, names


def _value(name: str, htype: str, held: Media) -> Any:
    if htype in _FILES:
        return held.value(name)
    data = held.source.document(name)
    if htype == "array":
        return loaded(data)
    if htype == "stack":
        return stack(data)
    text = data.decode()
    return json.loads(text) if htype == "json" else text
