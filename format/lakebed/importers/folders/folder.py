"""Folders of media: a class per folder, splits above the classes, files of one stem together in a row.

    photos/train/cat/1.jpg              images, labels "cat", split "train", file "train/cat/1.jpg"
    photos/train/cat/1.txt              text of the same row
    photos/val/dog/small/2.png          labels "dog/small"

A file without a suffix that begins as DICOM files do is one, as on discs of hospitals. Where files of audio, scans and
so on are of several kinds, or some have frames, those of the kind that fewer have are left out, file by file.

Rows are in the order of the splits, and within them of the names. Texts and JSON files that have no other file of their
stem, such as ``README.txt``, are rows of their own where they are as many as the other rows, as in a folder of texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from lakebed.codecs.images import is_stack, stack
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.arrays.numpy_files import loaded
from lakebed.importers.core.plan import Media, Plan, Problem, TensorPlan, columns_of_rows, media, tensor
from lakebed.importers.core.source import Source, kinds_of, suffix_of
from lakebed.importers.core.splits import SPLITS, in_order
from lakebed.importers.folders.passed_over import passed_over
from lakebed.importers.folders.pictures import IMAGE_KINDS, kind_of_images
from lakebed.transforms.output import Skipped

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


# Suffixes behind which DICOM files are: none, those of Siemens, and the last number of an id (1.2.840.113619).
_OF_SCANS = re.compile(r"(\.\d+|\.ima|\.dicom)?")
_DICOM_AT = 128
_LOOKED_AT = 64  # files whose headers are read to find out how many axes most have
# Htypes whose files are stored as they are, and have an axis more in some of them.
_OF_SOME_AXES = ("dicom", "nifti")
_NO_SCANS = ("dicomdir",)  # names of directories of discs, in the format of scans


# What may be said of the rows, or of all of them, and what may be the rows.
_ABOUT = ("text", "json")


# Rows that are made together, but no more than read so many bytes of texts and arrays.
BATCH = 1024
_READ_BYTES = 1 << 25


# What a row is left out for.
_WRONG = (LakebedError, OSError, ValueError)


class _Row(NamedTuple):
    """Files of a row, of which htype each is, and its class; the first one names it."""

    files: Sequence[str]
    htypes: Sequence[str]
    label: str

    def __str__(self) -> str:
        return self.files[0]


@dataclass(frozen=True)
class _Context:
    """What workers know: how files are held, the tensor of each htype, and how many axes samples of some have."""

    media: Media
    tensors: Mapping[str, str]
    labels: str | None
    axes: Mapping[str, int]


def recognise(source: Source) -> str | None:
    """Say what is in the folder; None if no file of it is of a known kind."""
    return _told(_htypes(source)) if source.is_folder else None


def _htypes(source: Source) -> dict[str, str]:
    """Return of which htype files are, by name; others are none of these."""
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
        with source.open(name) as file:
            return file.read(_DICOM_AT + 4)[_DICOM_AT:] == b"DICM"
    except _WRONG:
        return False  # told as a file of an unknown kind


def _others(source: Source, htypes: Mapping[str, str]) -> tuple[dict[str, Problem], dict[str, int]]:
    """Return the files that the tensor of their htype cannot hold, with what is told of each, and the axes of those."""
    found: dict[str, Problem] = {}
    axes: dict[str, int] = {}
    for htype in dict.fromkeys(htypes.values()):
        if htype == "image" or htype not in _FILES:
            continue
        of = {name: _FILES[htype].get(suffix_of(name), "dcm") for name, one in htypes.items() if one == htype}
        counts = Counter(of.values())
        kept = max(counts, key=lambda kind: (counts[kind], kind))
        for name, kind in of.items():
            if kind != kept:
                reason = (
                    f"it is {kind.upper()}, and the {htype} files that are imported are {kept.upper()}: import it "
                    "from a folder of its own, or all as links (link=True, --link)"
                )
                found[name] = Problem(name, reason)
        if htype in _OF_SOME_AXES:
            ranks = _ranks(source, [name for name in of if name not in found])
            if ranks:
                axes[htype] = Counter(ranks.values()).most_common(1)[0][0]
            for name, rank in ranks.items():
                if rank != axes[htype]:
                    found[name] = Problem(name, _of_other_axes(htype, rank, axes[htype]))
    return found, axes


def _ranks(source: Source, names: Sequence[str]) -> dict[str, int]:
    """Return how many axes files have; of many, of some all over the folder, and others are told when they are read."""
    found: dict[str, int] = {}
    for name in names[:: -(-len(names) // _LOOKED_AT) or 1]:
        try:
            found[name] = len(source.media(name).shape)
        except _WRONG:
            continue  # told when its row is made
    return found


def _of_other_axes(htype: str, rank: int, usual: int) -> str:
    told = f"it has {rank} axes, and most {htype} files have {usual}"
    if htype == "dicom":
        told = (
            "it has several frames, and most have one"
            if rank > usual
            else "it has one frame, and most several"
        )
    return f"{told}: import it from a folder of its own"


def _stacks(
    source: Source, htypes: dict[str, str], pages: Literal["auto", "stack", "first"], problems: list[Problem]
) -> None:
    """Note which TIFF files are stacks of pages; of many files, none is if none of some all over the folder is."""
    names = [
        name for name, htype in htypes.items() if htype == "image" and IMAGE_KINDS[suffix_of(name)] == "tiff"
    ]
    if pages == "first" or not any(
        _is_stack(source, name) for name in names[:: -(-len(names) // _LOOKED_AT) or 1]
    ):
        return
    found = [name for name in names if _is_stack(source, name)]
    htypes.update(dict.fromkeys(found, "stack"))
    if pages == "stack":
        return
    reason = (
        f"{len(found):,} TIFF files of several pages are arrays of pixels, (pages, height, width, channels), without "
        "what else they say; pages='first' (--pages first) stores the files, of which the first page is read"
    )
    problems.append(Problem(_NAMES["stack"], reason, 0))


def _is_stack(source: Source, name: str) -> bool:
    try:
        with source.open(name) as file:
            return is_stack(file, source.files[name])
    except _WRONG:
        return False  # told when its row is made


def _told(htypes: Mapping[str, str]) -> str | None:
    found = Counter(htypes.values())
    if not found:
        return None
    told = ", ".join(
        f"{count:,} {htype} files" for htype, count in sorted(found.items(), key=lambda pair: -pair[1])
    )
    return f"a folder of {told}"


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
        Whether folders are classes.
    splits
        Whether folders train, val, test at the root are splits.
    link
        Store links to the files in place of the files.
    creds_key
        Name of the credentials that the links need.
    compression
        Kind of image that is stored; left out, that of the files, and of most of them where they differ.
    notes
        Whether texts and JSON files without another file of their stem are rows, or passed over; auto passes them over
        where they are fewer than the other rows.
    pages
        What a TIFF file of several pages of one size becomes: an array of all, or an image, of which the first page is
        read; auto makes arrays, and tells it.
    """
    htypes = _htypes(source) if source.is_folder else {}
    found = _told(htypes)
    if found is None:
        raise IngestionError(f"{source.shown} is no folder with files of a known kind")
    problems = list(passed_over(source, [name for name in source.files if name not in htypes]))
    axes: dict[str, int] = {}
    if not link:
        others, axes = _others(source, htypes)
        problems += others.values()
        htypes = {name: htype for name, htype in htypes.items() if name not in others}
        _stacks(source, htypes, pages, problems)
    alone = _notes(htypes, notes)
    told = [Problem(name, f"{_ALONE[htypes.pop(name)]} is not imported ({_HOW})", 0) for name in alone]
    if notes == "auto":
        problems += told
    elif alone:
        found = (
            f"{found}; {len(alone):,} texts and JSON files beside no other file of their name are passed over"
        )
    by_split = _rows_of(htypes, splits=splits)
    named = [row for rows in by_split.values() for row in rows]
    has_labels = labels == "folders" and any(label for _, label in named)
    classes = sorted({label for _, label in named if label}) if has_labels else []
    tensors, names = _tensors(source, htypes, compression, problems, link=link)
    if has_labels:
        tensors.append(tensor("labels", "class_label", class_names=classes, create_shape_tensor=False))
    tensors.append(tensor("file", "text"))
    ranges: dict[str, range] = {}
    items: list[_Row] = []
    for split, rows in by_split.items():
        ranges[split] = range(len(items), len(items) + len(rows))
        items += [
            _Row(files, tuple(htypes[name] for name in files), label if has_labels else "")
            for files, label in rows
        ]
    return Plan(
        found,
        tensors,
        items,
        _Context(Media(source, link, creds_key), names, "labels" if has_labels else None, axes),
        rows=len(items),
        nbytes=source.nbytes,
        splits=ranges if set(ranges) != {""} else {},
        problems=problems,
        classes={"labels": classes} if has_labels else {},
    )


def rows(item: _Row, context: _Context) -> Iterator[Any]:
    """Make the row of a stem."""
    row: dict[str, Any] = dict.fromkeys(context.tensors.values())
    name = item.files[0]
    try:
        for name, htype in zip(item.files, item.htypes, strict=True):
            value = row[context.tensors[htype]] = _value(name, htype, context.media)
            usual = context.axes.get(htype, 0)
            if usual and len(value.shape) != usual:
                yield Skipped(name, _of_other_axes(htype, len(value.shape), usual))
                return
    except _WRONG as error:
        yield Skipped(name, f"{error}")
        return
    if context.labels is not None:
        row[context.labels] = item.label or None
    row["file"] = item.files[0]
    yield row


def many(items: Sequence[_Row], context: _Context) -> Iterator[Any]:
    """Make the rows of stems, as columns."""
    made: list[dict[str, Any]] = []
    which: list[int] = []
    held = 0
    sizes = context.media.source.files if set(context.tensors) - set(_FILES) else {}
    for at, item in enumerate(items):
        for row in rows(item, context):
            if isinstance(row, Skipped):
                yield row
                continue
            made.append(row)
            which.append(at)
            if sizes:
                read = zip(item.files, item.htypes, strict=True)
                held += sum(sizes[name] for name, htype in read if htype not in _FILES)
        if held > _READ_BYTES and made:
            yield which, columns_of_rows(made)
            made, which, held = [], [], 0
    if made:
        yield which, columns_of_rows(made)


def describe(plan: Plan) -> dict[str, Any]:
    """Say which classes there are."""
    return {"classes": {name: len(names) for name, names in plan.classes.items()}}


_ALONE = {
    "text": "a text file beside no other file of its name",
    "json": "a JSON file beside no other file of its name",
}
_HOW = "--notes rows, or notes='rows', makes a row of it; skip says that this is meant"


def _notes(htypes: Mapping[str, str], notes: Literal["auto", "rows", "skip"]) -> list[str]:
    """Return the texts and JSON files that are not imported."""
    if notes == "rows":
        return []
    held = {_stem(name) for name, htype in htypes.items() if htype not in _ABOUT}
    alone = [name for name, htype in htypes.items() if htype in _ABOUT and _stem(name) not in held]
    if notes == "auto" and len({_stem(name) for name in alone}) >= len(held):
        return []
    return alone


def _stem(name: str) -> str:
    suffix = suffix_of(name)
    return name.removesuffix(name[-len(suffix) :]) if suffix in _OF_SUFFIX else name


def _rows_of(htypes: Mapping[str, str], *, splits: bool) -> dict[str, list[tuple[list[str], str]]]:
    """Return the rows of each split: the files, and the class."""
    grouped: dict[str, list[str]] = {}
    for name in htypes:
        grouped.setdefault(_stem(name), []).append(name)
    found: dict[str, list[tuple[list[str], str]]] = {}
    for stem, files in grouped.items():
        first, slash, rest = stem.partition("/")
        split = SPLITS.get(first.lower(), "") if splits and slash else ""
        label = (rest if split else stem).rpartition("/")[0]
        for together in _apart(files, htypes):
            found.setdefault(split, []).append((together, label))
    return dict(in_order(found))


def _apart(files: list[str], htypes: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield files of one stem in rows: those of different htypes share one."""
    if len(files) == 1:
        yield files
        return
    rows: list[dict[str, str]] = []
    for name in files:
        htype = htypes[name]
        row = next((row for row in rows if htype not in row), None)
        if row is None:
            rows.append(row := {})
        row[htype] = name
    for row in rows:
        yield list(row.values())


def _tensors(
    source: Source,
    htypes: Mapping[str, str],
    compression: str | None,
    problems: list[Problem],
    *,
    link: bool,
) -> tuple[list[TensorPlan], dict[str, str]]:
    """Return a tensor for each htype of the files."""
    files: dict[str, list[str]] = {}
    for name, htype in htypes.items():
        files.setdefault(htype, []).append(name)
    tensors: list[TensorPlan] = []
    names: dict[str, str] = {}
    for htype, of in sorted(files.items(), key=lambda pair: list(_NAMES).index(pair[0])):
        name = names[htype] = _NAMES[htype]
        if htype == "image":
            tensors.append(
                media(
                    name,
                    htype,
                    compression=kind_of_images(source, of, compression, None if link else problems),
                    link=link,
                )
            )
        elif htype in _FILES:
            kinds = kinds_of(of, _FILES[htype]) or {"dcm": len(of)}
            tensors.append(media(name, htype, compression=next(iter(kinds)), link=link))
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
    if htype == "json":
        import json

        return json.loads(text)
    return text
