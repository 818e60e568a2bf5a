"""TFRecord files of ``tf.train.Example`` and ``SequenceExample``: a tensor for each feature.

The first records decide the features; ``features.json`` of TensorFlow Datasets adds shapes, dtypes, classes. Boxes and
classes of the TensorFlow Object Detection API become ``boxes`` and ``labels``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.contents import Content, KindOptions, Looked, Planning, tensor_of, value_of
from lakebed.importers.core.packages import check_installed, is_installed
from lakebed.importers.core.plan import Plan, Problem, Stretch, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import SPLITS, by_split, ranges_of, split_of
from lakebed.importers.detection.objects import each
from lakebed.importers.tfrecord.examples import DTYPES, Example, Feature, parse
from lakebed.importers.tfrecord.tfds import FeatureTold, Told, told_of
from lakebed.importers.tfrecord.tfrecord_files import (
    DAMAGE,
    NAMES,
    files_of,
    items_of,
    only_files,
    records_of,
)
from lakebed.transforms.output import Skipped

_LEAST_LOOKED_AT = 8  # minimum number of records of a file that are inspected
_LOOKED_AT_BYTES = 32 << 20  # bytes of a file after which no more records are inspected
_CHUNKS = "lz4"
_LTRB = {"mode": "LTRB"}
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_PACKAGES = ("google-crc32c", "protobuf")
_DTYPE_KINDS = {"int": "iub", "float": "f"}
"""Kind of a feature -> kinds of the dtypes that a description may give its numbers."""

_FAILURES = (LakebedError, ValueError, OverflowError)


@dataclass(frozen=True)
class _Column:
    """Tensor of a feature, or of a list of features.

    Parameters
    ----------
    kind
        ``bytes``, ``float`` or ``int``.
    content
        Content of bytes.
    shape, dtype
        Shape of arrays, with -1 for a varying axis, and their dtype; () and "" for a list.
    ragged
        True if the steps of a list of features differ in length.
    is_boxes
        True if the numbers are boxes: top, left, bottom, right.
    """

    tensor: str
    kind: str
    content: Content | None = None
    shape: tuple[int, ...] = ()
    dtype: str = ""
    ragged: bool = False
    is_boxes: bool = False


@dataclass(frozen=True)
class _Objects:
    """Names of the tensors for one kind of object (boxes, labels), and of the feature that holds its classes."""

    prefix: str
    boxes: str
    labels: str | None
    classes: str | None

    @property
    def features(self) -> list[str]:
        """Names of the features that make up the objects."""
        sides = [f"{self.prefix}bbox/{side}" for side in _SIDES]
        return sides if self.classes is None else [*sides, self.classes]


@dataclass(frozen=True)
class _Context:
    """Data that workers need: columns by feature and by list of features; None for records stored as bytes."""

    source: Source
    columns: Mapping[str, _Column] | None
    lists: Mapping[str, _Column] = field(default_factory=dict)
    objects: Sequence[_Objects] = ()


@dataclass
class _Seen:
    """Statistics of a feature: its kinds, with the kinds of empty lists counted separately."""

    kinds: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)
    looked: Looked = field(default_factory=Looked)
    lengths: set[int] = field(default_factory=set)
    largest: float = 0.0

    def add(self, feature: Feature) -> None:
        if not feature.kind:
            return
        of = self.kinds if len(feature.values) else self.empty
        of[feature.kind] += 1
        self.lengths.add(len(feature.values))
        if feature.kind == "bytes":
            self.looked.add(feature.values)
        elif feature.kind == "float" and len(feature.values):
            self.largest = max(self.largest, float(np.nanmax(np.abs(feature.values), initial=0)))

    @property
    def kind(self) -> str:
        """The most frequent kind."""
        found = (self.kinds or self.empty).most_common(1)
        return found[0][0] if found else "bytes"


@dataclass
class _Look:
    """Statistics of the inspected records."""

    features: defaultdict[str, _Seen] = field(default_factory=lambda: defaultdict(_Seen))
    lists: defaultdict[str, _Seen] = field(default_factory=lambda: defaultdict(_Seen))
    records: int = 0
    others: int = 0

    def add(self, data: bytes) -> None:
        try:
            example = parse(data)
        except IngestionError:
            self.others += 1
            return
        if not example.features and not example.lists:
            self.others += bool(data)
            return
        self.records += 1
        for name, feature in example.features.items():
            self.features[name].add(feature)
        for name, steps in example.lists.items():
            seen = self.lists[name]  # also of a list without steps, which has a tensor
            for feature in steps:
                seen.add(feature)


def recognise(source: Source) -> str | None:
    """Describe the files for messages; None if the first one holds no records."""
    if not only_files(source):
        return None
    names = files_of(source)
    first = next((name for name in names if source.files[name]), None)
    if first is None:
        return None
    # Without the package, decide by the name of the file; the plan then reports the missing package.
    if is_installed("google-crc32c"):
        try:
            found = next(records_of(source, first, 0), None)
        except DAMAGE:
            return None
        if found is None or isinstance(found[1], IngestionError):
            return None
    return f"TFRecord of {len(names):,} files"


def plan(
    source: Source,
    *,
    look: int = 2000,
    objects: bool = True,
    splits: bool = True,
    **options: Unpack[KindOptions],
) -> Plan:
    """Plan a tensor for each feature of the records.

    Parameters
    ----------
    source
        A file, or the folder that they are in.
    look
        Number of records that are inspected to find the features, up to 32 MB of each file; 0 for all.
    objects
        Make boxes and labels of features of the Object Detection API.
    splits
        Make splits of the words train, val, test in names of files and folders.
    options
        Options of columns, which the features are.
    """
    check_installed("TFRecord files", "tfrecord", *_PACKAGES)
    names = files_of(source)
    if not names:
        raise IngestionError(f"{source.shown} has no TFRecord files")
    told = told_of(source)
    planning = Planning.of(source, [], **options)
    seen = _looked_at(source, names, look)
    planning.check(sorted({*seen.features, *seen.lists}), "feature")
    context = _planned(seen, told, planning, objects=objects)
    parts = {name: items_of(source, name) for name in names}
    in_splits = by_split(names, lambda name: _split_of(name, told) if splits else "")
    items, ranges = ranges_of(
        (split, [item for name in of for item in parts[name][0]]) for split, of in in_splits.items()
    )
    known = [count for _, count in parts.values() if count is not None]
    rows = sum(known) if len(known) == len(parts) else told.rows if set(names) <= set(told.files) else None
    shown = f" with {rows:,} records" if rows is not None else ""
    return Plan(
        f"TFRecord of {len(names):,} files{shown}",
        planning.tensors,
        items,
        context,
        rows=rows,
        nbytes=sum(source.files[name] for name in names),
        splits=ranges,
        problems=planning.problems,
        about={**told.about, "files": len(names), "looked_at": seen.records + seen.others},
    )


def rows(item: Stretch, context: _Context) -> Iterator[Any]:
    """Yield the rows of some records of a file."""
    at = item.start
    try:
        for at, data in records_of(context.source, item.name, item.start, item.stop):
            try:
                if isinstance(data, IngestionError):
                    raise data
                yield _row(data, context)
            except _FAILURES as error:
                yield Skipped(f"{item.name}, byte {at:,}", str(error))
    except DAMAGE as error:
        yield Skipped(
            f"{item.name}, behind byte {at:,}", f"the file is damaged and was read up to here: {error}"
        )


# -- files -------------------------------------------------------------------------------------------------------------


def _split_of(name: str, told: Told) -> str:
    """Return the split of a file: the last word of its name, or else of its folder, that names a split."""
    folder, _, last = name.rpartition("/")
    stem = NAMES.sub("", last)
    for split in told.splits:
        if stem == split or stem.endswith(f"-{split}"):
            return SPLITS.get(split.lower(), split)
    return split_of(f"{folder}/{stem}")


def _looked_at(source: Source, names: Sequence[str], look: int) -> _Look:
    """Inspect the first records of all files; damage is reported when rows are made."""
    seen = _Look()
    if look == 0:
        for name in names:
            for data in _records(source, name, None):
                seen.add(data)
        return seen
    most = max(_LEAST_LOOKED_AT, -(-look // len(names)))
    for found in each(source, names, lambda name: list(_records(source, name, most))):
        for data in found if isinstance(found, list) else ():
            seen.add(data)
    return seen


def _records(source: Source, name: str, most: int | None) -> Iterator[bytes]:
    """Yield the first intact records of a file: at most `most` of them, or all if it is None."""
    count = nbytes = 0
    try:
        for _, data in records_of(source, name, 0):
            if isinstance(data, bytes):
                yield data
                count, nbytes = count + 1, nbytes + len(data)
            if most is not None and (count >= most or nbytes >= _LOOKED_AT_BYTES):
                return
    except DAMAGE:
        return


# -- tensors ------------------------------------------------------------------------------------------------------


def _planned(seen: _Look, told: Told, planning: Planning, *, objects: bool) -> _Context:
    """Plan the tensors; return the state of workers."""
    source = planning.source
    if not seen.records:
        reason = "no inspected record is a tf.train.Example: records are stored as bytes"
        planning.problems.append(Problem(source.shown, reason, 0))
        planning.tensors.append(tensor("record", dtype="uint8", chunk_compression=_CHUNKS))
        return _Context(source, None)
    if seen.others:
        reason = f"{seen.others:,} inspected records are not a tf.train.Example"
        planning.problems.append(Problem(source.shown, reason, 0))
    found = _objects(seen, planning) if objects else []
    used = {name for one in found for name in one.features}
    columns = {
        name: _planned_column(name, seen.features[name], planning, told.features.get(name, FeatureTold()))
        for name in sorted(seen.features.keys() - used)
    }
    lists = {name: _planned_column(name, seen.lists[name], planning, None) for name in sorted(seen.lists)}
    if not planning.tensors:
        raise IngestionError(f"{source.shown} has only records without features")
    return _Context(source, columns, lists, found)


def _planned_column(name: str, seen: _Seen, planning: Planning, told: FeatureTold | None) -> _Column:
    """Plan the tensor of a feature, or of a list of features if `told` is None; return its column."""
    called, info = planning.named(name, "feature")
    kind = seen.kind
    if len(seen.kinds) > 1:
        found = ", ".join(f"{count:,} times {one}" for one, count in seen.kinds.most_common())
        reason = f"it is of several kinds ({found}): {kind} is stored"
        planning.problems.append(Problem(name, reason, 0))
    if kind == "bytes":
        if told is None:
            seen.looked.most = 2
        content = planning.content(name, seen.looked)
        planning.tensors.append(tensor_of(called, content, info))
        return _Column(called, kind, content)
    column, arguments = _numbers(_Column(called, kind), seen, told)
    planning.tensors.append(tensor(called, info=info, **{"dtype": DTYPES[kind], **arguments}))
    return column


def _objects(seen: _Look, planning: Planning) -> list[_Objects]:
    """Return the objects of the Object Detection API, and plan their tensors."""
    tensors = planning.tensors
    prefixes = []
    for name in sorted(seen.features):
        prefix = name.removesuffix("bbox/xmin")
        sides = [seen.features.get(f"{prefix}bbox/{side}") for side in _SIDES]
        if prefix != name and all(side is not None and set(side.kinds) <= {"float"} for side in sides):
            prefixes.append(prefix)
    found: list[_Objects] = []
    for prefix in prefixes:
        called = "" if len(prefixes) == 1 else prefix
        boxes = planning.free(f"{called}boxes")
        largest = max(seen.features[f"{prefix}bbox/{side}"].largest for side in _SIDES)
        coords = {"type": "pixel" if largest > 2 else "fractional", **_LTRB}
        tensors.append(tensor(boxes, "bbox", dtype="float32", coords=coords))
        classes = labels = None
        for name, kind in ((f"{prefix}class/text", "bytes"), (f"{prefix}class/label", "int")):
            of = seen.features.get(name)
            if classes is None and of is not None and set(of.kinds) == {kind}:
                classes = name if {one.name for one in of.looked.kinds} <= {"text", "json"} else None
        if classes is not None:
            labels = planning.free(f"{called}labels")
            number = None if classes.endswith("text") else "int64"
            tensors.append(tensor(labels, "class_label", dtype=number, is_list=True))
        found.append(_Objects(prefix, boxes, labels, classes))
    return found


def _numbers(column: _Column, seen: _Seen, told: FeatureTold | None) -> tuple[_Column, dict[str, Any]]:
    """Return the column of numbers with all its settings, and the arguments of its tensor."""
    shape: tuple[int, ...]
    if told is None:
        if len(seen.lengths) == 1 and min(seen.lengths):
            shape = (-1,) if seen.lengths == {1} else (-1, min(seen.lengths))
            return replace(column, shape=shape), {"chunk_compression": _CHUNKS}
        return replace(column, ragged=True), {"htype": "sequence"}
    if told.is_boxes and column.kind == "float":
        return replace(column, is_boxes=True), {"htype": "bbox", "coords": {"type": "fractional", **_LTRB}}
    if told.classes is not None and column.kind == "int":
        return column, {"htype": "class_label", "class_names": list(told.classes) or None}
    # Files contain float32 even where the description says float64.
    fits = told.dtype not in ("", "float64") and np.dtype(told.dtype).kind in _DTYPE_KINDS[column.kind]
    dtype = told.dtype if fits else ""
    shape = told.shape if len(told.shape) > 1 and sum(length < 0 for length in told.shape) <= 1 else ()
    packed = _CHUNKS if shape or not seen.lengths <= {1} else None
    arguments = {"chunk_compression": packed, "dtype": dtype or DTYPES[column.kind]}
    return replace(column, shape=shape, dtype=dtype), arguments


# -- rows ---------------------------------------------------------------------------------------------------------


def _row(data: bytes, context: _Context) -> dict[str, Any]:
    """Return the row of a record.

    Raises
    ------
    IngestionError
        If the record has a value that does not fit its tensor.
    """
    if context.columns is None:
        return {"record": np.frombuffer(data, np.uint8)}
    example = parse(data)
    row: dict[str, Any] = {}
    for one in context.objects:
        row.update(_values_of_objects(one, example))
    for name in sorted(_unseen(example, context)):
        raise IngestionError(
            f"the feature {name!r} is in no record that was inspected: inspect more records (look=0 for all)"
        )
    for name, column in context.columns.items():
        feature = example.features.get(name)
        row[column.tensor] = None if feature is None or not feature.kind else _of(name, feature, column)
    for name, column in context.lists.items():
        steps = example.lists.get(name)
        row[column.tensor] = None if steps is None else _list(name, steps, column)
    return row


def _unseen(example: Example, context: _Context) -> set[str]:
    """Return the features of a record for which no tensor exists."""
    used = {name for one in context.objects for name in one.features}
    columns: Mapping[str, _Column] = context.columns or {}
    return (example.features.keys() - columns.keys() - used) | (example.lists.keys() - context.lists.keys())


def _of(name: str, feature: Feature, column: _Column) -> Any:
    """Return the value of a feature."""
    if feature.kind != column.kind and not len(feature.values):
        feature = Feature(column.kind, [] if column.content else np.zeros(0, DTYPES[column.kind]))
    if feature.kind != column.kind:
        raise IngestionError(f"{name} is a list of {feature.kind}, but of {column.kind} in other records")
    try:
        if column.content is not None:
            if column.content.many:
                return [value_of(one, column.content) for one in feature.values]
            if len(feature.values) > 1:
                raise IngestionError(
                    f"it has {len(feature.values):,} values, but only one in the inspected records (look=0 inspects "
                    "all)"
                )
            return value_of(feature.values[0], column.content) if feature.values else None
        return _array(feature.values, column)
    except _FAILURES as error:
        raise IngestionError(f"{name}: {error}") from error


def _array(values: NDArray[Any], column: _Column) -> NDArray[Any]:
    if column.is_boxes:
        return np.ascontiguousarray(values.reshape(-1, 4)[:, [1, 0, 3, 2]])
    if column.dtype:
        found = values.astype(column.dtype)
        if not np.array_equal(found, values, equal_nan=values.dtype.kind == "f"):
            raise IngestionError(f"a value does not fit {column.dtype}")
        values = found
    return values.reshape(column.shape) if column.shape else values


def _list(name: str, steps: Sequence[Feature], column: _Column) -> Any:
    """Return the value of a list of features, with the steps along the first axis."""
    if any(len(step.values) and step.kind != column.kind for step in steps):
        raise IngestionError(f"{name} has steps of other kinds than {column.kind}")
    if column.content is not None:
        if all(len(step.values) == 1 for step in steps):
            return [value_of(step.values[0], column.content) for step in steps]
        if column.content.kind not in ("text", "json"):
            raise IngestionError(f"{name} has steps of several values, or of none")
        return [[value_of(one, column.content) for one in step.values] for step in steps]
    empty = np.zeros(0, DTYPES[column.kind])
    arrays: list[NDArray[Any]] = [step.values if len(step.values) else empty for step in steps]
    if column.ragged:
        return arrays
    width = column.shape[1] if len(column.shape) > 1 else 1
    if any(len(array) != width for array in arrays):
        raise IngestionError(
            f"{name} has steps of other lengths than {width}, the length in the inspected records (look=0 inspects all)"
        )
    found = np.concatenate(arrays) if arrays else empty
    return found.reshape(-1, width) if len(column.shape) > 1 else found


def _values_of_objects(one: _Objects, example: Example) -> dict[str, Any]:
    """Return boxes and labels of a record."""
    sides = [example.features.get(f"{one.prefix}bbox/{side}", Feature("", ())) for side in _SIDES]
    are_floats = all(side.kind == "float" for side in sides if len(side.values))
    if not are_floats or len({len(side.values) for side in sides}) > 1:
        raise IngestionError(f"{one.prefix}bbox has sides of several lengths or kinds")
    boxes = np.stack([np.asarray(side.values, np.float32) for side in sides], axis=1)
    found: dict[str, Any] = {one.boxes: boxes}
    if one.labels is None or one.classes is None:
        return found
    classes = example.features.get(one.classes, Feature("", ()))
    kind = "bytes" if one.classes.endswith("text") else "int"
    if (len(boxes) and classes.kind != kind) or len(classes.values) != len(boxes):
        raise IngestionError(
            f"{one.classes} has {len(classes.values):,} values for {len(boxes):,} boxes, or values of another kind"
        )
    if not len(boxes):
        found[one.labels] = np.zeros(0, np.uint32 if kind == "bytes" else np.int64)
    elif kind == "bytes":
        found[one.labels] = [text.decode() for text in classes.values]
    else:
        found[one.labels] = np.asarray(classes.values)
    return found
