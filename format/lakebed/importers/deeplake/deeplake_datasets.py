"""Deep Lake datasets: of format 3, and what 2 wrote of it, as a copy with all versions; of format 4 by its own package.

    column of Deep Lake 4                tensor
    Image, SegmentMask with a file       image, segment_mask: the files as they are
    ClassLabel                           class_label; ``class_names`` of the column's metadata
    BoundingBox, BinaryMask, Point       bbox, binary_mask, point
    Polygon, Embedding, Text             polygon, embedding, text
    Dict, Struct                         json
    Video, Audio, Medical, Mesh          video, audio, nifti or dicom, mesh: the files
    Link                                 links
    Sequence                             a sequence of what it holds
    Nullable                             what it holds; nulls are nulls
    numbers, arrays, bytes               tensors of that dtype; bytes are uint8

The files of format 4 are opened by nothing else than the package ``deeplake`` of version 4. The rows of one version
come in: of the last one, or of that with an id or a tag; earlier versions are told. With ``history=True`` all versions
come in as commits (:mod:`deeplake_history`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.core.columns import tensor_name
from lakebed.importers.core.plan import Copied, Plan, Problem, TensorPlan, media, tensor
from lakebed.importers.core.source import Source
from lakebed.transforms.output import Skipped

BATCHED = True

_ITEM_ROWS = 256
_CHUNKS = "lz4"
_LOG_OF_4 = "_deeplake_log/"
_OF_3 = ("version_control_info.json", "dataset_meta.json")
_FILES = {"Video": "video", "Audio": "audio", "Mesh": "mesh"}
_HTYPES = {
    "ClassLabel": "class_label",
    "BoundingBox": "bbox",
    "BinaryMask": "binary_mask",
    "SegmentMask": "segment_mask",
    "Point": "point",
    "Embedding": "embedding",
}


class _Rows(NamedTuple):
    """A run of rows."""

    start: int
    stop: int

    def __str__(self) -> str:
        return f"rows {self.start:,} to {self.stop:,}"


@dataclass(frozen=True)
class _Column:
    """A column, its tensor, and what values are: ``file``, ``files``, ``link``, ``json``, ``bytes``, ``polygon``."""

    name: str
    tensor: str
    how: str


@dataclass(frozen=True)
class _Context:
    source: Source
    version: str | None
    columns: Sequence[_Column]


def recognise(source: Source) -> str | None:
    """Say of which version the dataset is; None if it is none."""
    if not source.is_folder or source.is_object:
        return None
    if any(name in source.files for name in _OF_3):
        return "a Deep Lake 3 dataset"
    return "a Deep Lake 4 dataset" if any(name.startswith(_LOG_OF_4) for name in source.files) else None


def copied(
    source: Source,
    dest: Any,
    *,
    overwrite: bool,
    creds: Any,
    progressbar: bool,
    history: bool = False,
    columns: Sequence[str] = (),
    version: str | None = None,
) -> Copied | None:
    """Copy a dataset of format 3 with its history, and one of format 4 if that is asked for; None for others.

    Raises
    ------
    IngestionError
        If only a part of a dataset of format 3 was asked for, or one version and all.
    """
    found = recognise(source)
    if history and found != "a Deep Lake 3 dataset":
        if version is not None:
            raise IngestionError(
                "history=True brings all versions, and version= one of them: say one or the other"
            )
        theirs = _opened(source)
        _check_columns(source, theirs, columns)
        if dest is None:
            return Copied(len(theirs))
        from lakebed.importers.deeplake.deeplake_history import Reader, copy_versions

        reader = Reader(lambda ds: _held(ds, columns), _raw, _made, _metadata)
        options = {"overwrite": overwrite, "creds": creds, "progressbar": progressbar, "columns": columns}
        made, problems = copy_versions(source, theirs, reader, dest, **options)
        return Copied(made.max_len, made, [*problems, *_branches_left(theirs)])
    if found != "a Deep Lake 3 dataset":
        return None
    if columns or version is not None:
        raise IngestionError(
            f"{found} is copied as a whole, with its versions; lakebed cp copies parts of one"
        )
    ds = lakebed.load(source.address, read_only=True, creds=source.creds)
    if dest is None:
        return Copied(ds.max_len)
    copy = lakebed.deepcopy(ds, dest, overwrite=overwrite, progressbar=progressbar, dest_creds=creds)
    return Copied(copy.max_len, copy)


def plan(
    source: Source, *, version: str | None = None, columns: Sequence[str] = (), history: bool = False
) -> Plan:
    """Plan a tensor for each column of a dataset of Deep Lake 4; those of format 3 are copied as a whole.

    Parameters
    ----------
    source
        The dataset.
    version
        Id or tag of the version that is taken; left out, the last one.
    columns
        Columns that are taken; left out, all.
    history
        Take all versions, each as a commit, into a new dataset.
    """
    if history:
        raise AssertionError("all versions are copied, and not planned")
    ds = _at(source, version)
    _check_columns(source, ds, columns)
    problems: list[Problem] = []
    found, tensors = _planned(ds, columns)
    count = len(ds)
    versions = [
        {"id": one.id, "message": one.message, "time": str(one.timestamp)} for one in _opened(source).history
    ]
    tags = {name: ds.tags[name].version for name in ds.tags.names()}
    if len(versions) > 2:  # the first one is empty
        reason = (
            f"{len(versions) - 2:,} earlier versions are not imported: history=True (--history) brings all as "
            "commits, version=ID (--version) one by itself; they are listed in the info"
        )
        problems.append(Problem("versions", reason, 0))
    problems += _branches_left(ds)
    return Plan(
        f"a Deep Lake 4 dataset of {count:,} rows of {len(found)} columns",
        tensors,
        [_Rows(at, min(at + _ITEM_ROWS, count)) for at in range(0, count, _ITEM_ROWS)],
        _Context(source, version, found),
        rows=count,
        nbytes=source.nbytes,
        problems=problems,
        classes={
            one.name: one.arguments["class_names"] for one in tensors if one.arguments.get("class_names")
        },
        about={"metadata": _metadata(ds), "versions": versions, "tags": tags, "version": version},
    )


def _check_columns(source: Source, ds: Any, columns: Sequence[str]) -> None:
    names = [column.name for column in ds.schema.columns]
    for name in columns:
        if name not in names:
            raise IngestionError(f"{source.shown} has no column {name!r}: {', '.join(names)}")


def _planned(ds: Any, columns: Sequence[str]) -> tuple[list[_Column], list[TensorPlan]]:
    """Return the columns that are taken of a version, and their tensors."""
    found: list[_Column] = []
    tensors: list[TensorPlan] = []
    names = [column.name for column in ds.schema.columns]
    for name in columns or names:
        if name not in names:
            continue  # an earlier version need not have it
        called = tensor_name(name, {one.tensor for one in found})
        how, made = _tensor_of(ds[name], called, _dtype(ds, name))
        if called != name:
            made = TensorPlan(made.name, made.arguments, {**made.info, "column": name})
        found.append(_Column(name, called, how))
        tensors.append(made)
    return found, tensors


def _held(ds: Any, columns: Sequence[str]) -> dict[str, Any]:
    from lakebed.importers.deeplake.deeplake_history import Held

    found, tensors = _planned(ds, columns)
    return {one.name: Held(made, one.how) for one, made in zip(found, tensors, strict=True)}


def _branches_left(ds: Any) -> list[Problem]:
    """Tell of branches other than the one that is open."""
    others = [name for name in ds.branches.names() if name != ds.current_branch.name]
    reason = f"branches other than {ds.current_branch.name} are not imported: {', '.join(others)}"
    return [Problem("branches", reason, 0)] if others else []


def rows(item: _Rows, context: _Context) -> Iterator[Any]:
    """Read some rows; one by one if some of them cannot be read together."""
    ds = _of_thread(context)
    try:
        with _mutex:
            found = {
                one.tensor: _values(ds[one.name], one.how, item.start, item.stop) for one in context.columns
            }
        yield found
    except Exception as error:  # noqa: BLE001 - whatever their package raises
        if item.stop - item.start == 1:
            yield Skipped(f"row {item.start:,}", f"{error}")
            return
        for row in range(item.start, item.stop):
            yield from rows(_Rows(row, row + 1), context)


def describe(plan: Plan) -> dict[str, Any]:
    """Say what the metadata were, and which versions and tags there are."""
    return plan.about


def _opened(source: Source) -> Any:
    """Open a dataset with the package of Deep Lake 4.

    Raises
    ------
    IngestionError
        If the package is not there, or cannot open it.
    """
    try:
        import deeplake
    except ImportError as error:
        raise IngestionError(
            "datasets of Deep Lake 4 are opened by its own package: pip install 'deeplake>=4'"
        ) from error
    if not hasattr(deeplake, "open_read_only"):
        raise IngestionError(
            f"datasets of Deep Lake 4 are opened by version 4 of its package, and version {deeplake.__version__} is "
            "installed: pip install 'deeplake>=4'"
        )
    options = {} if source.creds is None else {"creds": source.creds}
    try:
        return deeplake.open_read_only(source.address, **options)
    except Exception as error:
        raise IngestionError(f"Deep Lake 4 cannot open {source.shown}: {error}") from error


def _at(source: Source, version: str | None) -> Any:
    ds = _opened(source)
    if version is None:
        return ds
    if version in ds.tags.names():
        return ds.tags[version].open()
    history = ds.history
    for number in range(len(history)):
        if history[number].id == version:
            return history[number].open()
    raise IngestionError(f"{source.shown} has no version or tag {version!r}")


_own = threading.local()
# Their package does not say that threads may read at the same time.
_mutex = threading.Lock()


def _of_thread(context: _Context) -> Any:
    """Return the dataset as this thread has it open."""
    key = (context.source.identity, context.version)
    known: tuple[Any, Any] | None = getattr(_own, "known", None)
    if known is None or known[0] != key:
        known = _own.known = (key, _at(context.source, context.version))
    return known[1]


def _dtype(ds: Any, name: str) -> Any:
    return next(column.dtype for column in ds.schema.columns if column.name == name)


def _kind(dtype: Any) -> str:
    """Return the last part of ``TypeKind.Image``; of Dict and Struct ``Dict``."""
    kind = str(dtype.kind).rpartition(".")[2]
    return "Dict" if kind in ("Dict", "Struct", "???") else kind


def _tensor_of(column: Any, name: str, dtype: Any) -> tuple[str, TensorPlan]:
    """Return how values of a column get into its tensor, and the tensor."""
    kind, called = _kind(dtype), str(dtype)
    file = {"jpg": "jpeg"}.get(str(dtype.sample_compression), dtype.sample_compression)
    if dtype.is_sequence:
        return _sequence_of(name, called, dtype)
    if dtype.is_link:
        return "link", media(name, _of_link(called), compression=file, link=True)
    number = str(dtype.id).partition("[")[0]
    if kind == "Dict" or number in ("object", "dict"):
        return "json", tensor(name, "json", chunk_compression=_CHUNKS)
    if kind == "Text" or number == "text":
        return "value", tensor(name, "text", chunk_compression=_CHUNKS)
    if kind == "Image":
        # Without files, arrays are stored without loss.
        return ("file" if file else "value"), media(name, "image", compression=file or "png")
    if kind == "SegmentMask" and file:
        return "file", media(name, "segment_mask", compression=file)
    if kind in _FILES:
        return "file", media(
            name, _FILES[kind], compression=file or _named(called) or {"Mesh": "ply"}.get(kind)
        )
    if kind == "Medical":
        file = file or _named(called) or "nii.gz"
        return "file", media(name, "dicom" if file == "dcm" else "nifti", compression=file)
    if kind == "Polygon":
        return "polygon", tensor(name, "polygon", chunk_compression=_CHUNKS)
    if number in ("bytes", "binary"):
        return "bytes", tensor(name, dtype="uint8", chunk_compression=_CHUNKS)
    if kind == "ClassLabel":
        names = _plain(dict(_items(column.metadata))).get("class_names")
        classes = [str(one) for one in names] if isinstance(names, list) else None
        return "value", tensor(name, "class_label", dtype=number, class_names=classes)
    htype = _HTYPES.get(kind)
    packed = _CHUNKS if htype not in ("point", "bbox") and len(dtype.shape or ()) > 1 else None
    return "value", tensor(name, htype, dtype=number, chunk_compression=packed)


def _sequence_of(name: str, called: str, dtype: Any) -> tuple[str, TensorPlan]:
    file = {"jpg": "jpeg"}.get(str(dtype.sample_compression), dtype.sample_compression)
    inner = called.partition("[")[2]
    number = str(dtype.id)
    if "kind=image" in inner:
        how = "files" if file else "items"
        return how, tensor(name, "sequence[image]", sample_compression=file or "png")
    if "kind=class_label" in inner:
        return "items", tensor(name, "sequence[class_label]", dtype=number)
    if "kind=bbox" in inner:
        return "items", tensor(name, "sequence[bbox]", dtype=number)
    if inner.startswith("text"):
        return "items", tensor(name, "sequence[text]", chunk_compression=_CHUNKS)
    try:
        np.dtype(number)
    except TypeError:
        return "documents", tensor(name, "json", chunk_compression=_CHUNKS)
    return "items", tensor(name, "sequence", dtype=number)


def _of_link(called: str) -> str:
    for kind in ("video", "audio"):
        if f"kind={kind}" in called:
            return kind
    return "image"


def _named(called: str) -> str | None:
    """Return the compression that the text of a type ends in: ``compression=mp4``, ``(compression: nii.gz)``."""
    for kinds in lakebed.file_kinds.values():
        for kind in sorted(kinds, key=len, reverse=True):
            if called.endswith((f"={kind}", f": {kind})", f"={kind})")):
                return str(kind)
    return None


def _values(column: Any, how: str, start: int, stop: int) -> list[Any]:
    return _made(_raw(column, how, start, stop), how)


def _raw(column: Any, how: str, start: int, stop: int) -> list[Any]:
    """Return values of a column, and files as bytes."""
    if how in ("file", "link"):
        return list(column.get_bytes(slice(start, stop)))
    if how == "files":
        return [column.get_bytes(row) for row in range(start, stop)]
    if how in ("items", "documents"):
        # Of several rows together their package makes one list of files, and now and then a crash of texts.
        values: Any = [column[row] for row in range(start, stop)]
    else:
        values = column[start:stop]
    return [_plain(one) for one in values] if how in ("json", "documents") else list(values)


def _made(values: list[Any], how: str) -> list[Any]:
    """Return values as tensors take them."""
    if how in ("file", "link"):
        return [_file(one, how) for one in values]
    if how == "files":
        return [None if of is None else [lakebed.read(bytes(one)) for one in of] for of in values]
    if how == "bytes":
        return [None if one is None else np.frombuffer(one, np.uint8) for one in values]
    if how == "polygon":
        return [None if one is None else [np.asarray(part) for part in one] for one in values]
    return values


def _file(data: Any, how: str) -> Any:
    if data is None or len(data) == 0:
        return None
    return lakebed.link(bytes(data).decode()) if how == "link" else lakebed.read(bytes(data))


def _plain(value: Any) -> Any:
    """Return what JSON has of a value of theirs."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _items(metadata: Any) -> Iterator[tuple[str, Any]]:
    for key in metadata.keys():  # noqa: SIM118 - theirs is no mapping
        yield str(key), metadata[key]


def _metadata(ds: Any) -> dict[str, Any]:
    """Return the metadata of the dataset, and of its columns."""
    found = {"dataset": _plain(dict(_items(ds.metadata)))}
    for column in ds.schema.columns:
        of = dict(_items(ds[column.name].metadata))
        if of:
            found[column.name] = _plain(of)
    return found
