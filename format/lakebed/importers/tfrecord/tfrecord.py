"""TFRecord files of ``tf.train.Example`` and ``SequenceExample``: a tensor for each feature.

Features are found out by looking at some records; ``features.json`` of TensorFlow Datasets tells more of them. Boxes
and classes of the TensorFlow Object Detection API become ``boxes`` and ``labels``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.columns import tensor_name
from lakebed.importers.core.contents import Content, Looked, content_of, tensor_of, value_of
from lakebed.importers.core.plan import Plan, Problem, TensorPlan, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import SPLITS, in_order, ranges_of, split_of
from lakebed.importers.detection.objects import each
from lakebed.importers.tfrecord.examples import Example, Feature, parse
from lakebed.importers.tfrecord.tfds import Told, told_of
from lakebed.importers.tfrecord.tfrecord_files import (
    DAMAGE,
    NAMES,
    Item,
    files_of,
    items_of,
    only_files,
    records_of,
)
from lakebed.transforms.output import Skipped

# The fewest records of a file that are looked at, and the bytes after which no more are.
_LEAST_LOOKED_AT = 8
_LOOKED_AT_BYTES = 32 << 20
_CHUNKS = "lz4"
_LTRB = {"mode": "LTRB"}
_DTYPES = {"int": "int64", "float": "float32"}
_SIDES = ("xmin", "ymin", "xmax", "ymax")

_FAILURES = (LakebedError, ValueError, OverflowError)


@dataclass(frozen=True)
class _Column:
    """Where a feature goes.

    Parameters
    ----------
    kind
        ``bytes``, ``float`` or ``int``.
    content
        What bytes are.
    shape, dtype
        Shape, with -1 for what varies, and dtype that arrays have; () and "" for a list.
    ragged
        Whether a list of features has elements of several lengths.
    is_boxes
        Whether its numbers are boxes: top, left, bottom, right.
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
    """Features that are boxes and classes of one kind of objects, and their tensors."""

    prefix: str
    boxes: str
    labels: str | None
    classes: str | None


@dataclass(frozen=True)
class _Context:
    """What workers know: columns by feature, and by list of features; None in place of them for records of anything."""

    source: Source
    columns: Mapping[str, _Column] | None
    lists: Mapping[str, _Column]
    objects: Sequence[_Objects]
    used: frozenset[str]


@dataclass
class _Seen:
    """What was seen of a feature: how often it is of which kind, of lists without values apart."""

    kinds: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)
    looked: Looked = field(default_factory=Looked)
    lengths: set[int] = field(default_factory=set)
    largest: float = 0.0

    def add(self, feature: Feature) -> None:
        """Look at what a record has."""
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
        """The kind that it is most often of."""
        found = (self.kinds or self.empty).most_common(1)
        return found[0][0] if found else "bytes"


@dataclass
class _Look:
    """What was seen of records."""

    features: dict[str, _Seen] = field(default_factory=dict)
    lists: dict[str, _Seen] = field(default_factory=dict)
    records: int = 0
    others: int = 0

    def add(self, data: bytes) -> None:
        """Look at a record."""
        try:
            example = parse(data)
        except ValueError:
            self.others += 1
            return
        if not example.features and not example.lists:
            self.others += bool(data)
            return
        self.records += 1
        for name, feature in example.features.items():
            self.features.setdefault(name, _Seen()).add(feature)
        for name, steps in example.lists.items():
            seen = self.lists.setdefault(name, _Seen())
            for feature in steps:
                seen.add(feature)


def recognise(source: Source) -> str | None:
    """Say how many files there are; None if the first one holds no records."""
    if source.is_object:
        return None
    if not only_files(source):
        return None
    names = files_of(source)
    first = next((name for name in names if source.files[name]), None)
    if first is None:
        return None
    try:
        found = next(records_of(source, first, 0), None)
    except DAMAGE:
        return None
    return (
        None if found is None or isinstance(found[1], IngestionError) else f"TFRecord of {len(names):,} files"
    )


def plan(
    source: Source,
    *,
    kinds: Mapping[str, str] | None = None,
    compression: str | None = None,
    look: int = 2000,
    objects: bool = True,
    splits: bool = True,
) -> Plan:
    """Plan a tensor for each feature.

    Parameters
    ----------
    source
        A file, or the folder that they are in.
    kinds
        What features of bytes hold, where the first records do not tell it: image/encoded=image, note=text; image,
        audio, video, dicom, array, json, text or bytes.
    compression
        Kind of file that tensors of images store.
    look
        How many records are looked at to find out the features, 32 MB of each file at most; 0 for all.
    objects
        Whether features of the Object Detection API become boxes and labels.
    splits
        Whether names of files and folders tell splits.
    """
    names = files_of(source)
    if not names:
        raise IngestionError(f"{source.shown} has no TFRecord files")
    told = told_of(source)
    problems: list[Problem] = []
    seen = _looked_at(source, names, look)
    wishes = dict(kinds or {})
    for name in wishes:
        if name not in seen.features and name not in seen.lists:
            there = ", ".join(sorted({*seen.features, *seen.lists})) or "no record that was looked at has any"
            raise IngestionError(f"{source.shown} has no feature {name!r}: {there}")
    context, tensors = _planned(source, seen, told, wishes, compression, problems, objects=objects)
    by_split: dict[str, list[str]] = {}
    for name in names:
        by_split.setdefault(_split_of(name, told) if splits else "", []).append(name)
    parts = {name: items_of(source, name) for name in names}
    items, ranges = ranges_of(
        (split, [item for name in of for item in parts[name][0]]) for split, of in in_order(by_split)
    )
    counts = [count for _, count in parts.values()]
    known = [count for count in counts if count is not None]
    rows = sum(known) if len(known) == len(counts) else told.rows if set(names) <= set(told.files) else None
    shown = f" with {rows:,} records" if rows is not None else ""
    return Plan(
        f"TFRecord of {len(names):,} files{shown}",
        tensors,
        items,
        context,
        rows=rows,
        nbytes=sum(source.files[name] for name in names),
        splits=ranges,
        problems=problems,
        about={**told.about, "files": len(names), "looked_at": seen.records + seen.others},
    )


def rows(item: Item, context: _Context) -> Iterator[Any]:
    """Make the rows of some records of a file."""
    at = item.start
    try:
        for at, data in records_of(context.source, item.name, item.start, item.stop):
            where = f"{item.name}, byte {at:,}"
            if isinstance(data, IngestionError):
                yield Skipped(where, str(data))
                continue
            try:
                yield _row(data, context)
            except _FAILURES as error:
                yield Skipped(where, str(error))
    except DAMAGE as error:
        yield Skipped(
            f"{item.name}, behind byte {at:,}", f"the file is damaged, and read up to here: {error}"
        )


def describe(plan: Plan) -> dict[str, Any]:
    """Say how many files there are, and what TensorFlow Datasets says of the set."""
    return plan.about


# -- files -------------------------------------------------------------------------------------------------------------


def _split_of(name: str, told: Told) -> str:
    """Return the split that a file is of: the last word of its name, or its folder, that is one."""
    folder, _, last = name.rpartition("/")
    stem = NAMES.sub("", last)
    for split in told.splits:
        if stem == split or stem.endswith(f"-{split}"):
            return SPLITS.get(split.lower(), split)
    return split_of(f"{folder}/{stem}")


def _looked_at(source: Source, names: Sequence[str], look: int) -> _Look:
    """Look at records of all files; what is damaged is told when its rows are made."""
    seen = _Look()
    most = max(_LEAST_LOOKED_AT, -(-look // len(names)))

    def first(name: str) -> list[bytes]:
        found: list[bytes] = []
        nbytes = 0
        try:
            for _, data in records_of(source, name, 0):
                if isinstance(data, bytes):
                    found.append(data)
                    nbytes += len(data)
                if len(found) >= most or nbytes >= _LOOKED_AT_BYTES:
                    break
        except DAMAGE:
            return found
        return found

    if look == 0:
        for name in names:
            try:
                for _, data in records_of(source, name, 0):
                    if isinstance(data, bytes):
                        seen.add(data)
            except DAMAGE:
                continue
        return seen
    for found in each(source, names, first):
        for data in found if isinstance(found, list) else ():
            seen.add(data)
    return seen


# -- tensors ------------------------------------------------------------------------------------------------------


def _planned(
    source: Source,
    seen: _Look,
    told: Told,
    wishes: Mapping[str, str],
    compression: str | None,
    problems: list[Problem],
    *,
    objects: bool,
) -> tuple[_Context, list[TensorPlan]]:
    """Return what workers know, and the tensors."""
    if not seen.records:
        reason = "no record that was looked at is a tf.train.Example: records are stored as bytes"
        problems.append(Problem(source.shown, reason, 0))
        made = tensor("record", dtype="uint8", chunk_compression=_CHUNKS)
        return _Context(source, None, {}, (), frozenset()), [made]
    if seen.others:
        problems.append(
            Problem(source.shown, f"{seen.others:,} records that were looked at are no Example", 0)
        )
    taken: set[str] = set()
    tensors: list[TensorPlan] = []
    found = _objects(seen, taken, tensors) if objects else []
    used = frozenset(name for one in found for name in _used(one))
    columns: dict[str, _Column] = {}
    lists: dict[str, _Column] = {}
    for into, of in ((columns, seen.features), (lists, seen.lists)):
        for name in sorted(of):
            if name in used and into is columns:
                continue
            called = tensor_name(name, taken)
            taken.add(called)
            info = {"feature": name} if called != name else {}
            into[name], plan = _column(
                called,
                name,
                of[name],
                told,
                wishes.get(name),
                compression,
                info,
                problems,
                is_list=into is lists,
            )
            tensors.append(plan)
    if not tensors:
        raise IngestionError(f"{source.shown} has records without features")
    return _Context(source, columns, lists, found, used), tensors


def _objects(seen: _Look, taken: set[str], tensors: list[TensorPlan]) -> list[_Objects]:
    """Return what the Object Detection API calls objects, and plan their tensors."""
    prefixes = [
        name.removesuffix("bbox/xmin")
        for name in sorted(seen.features)
        if name.endswith("bbox/xmin")
        and all(
            set(seen.features.get(f"{name.removesuffix('xmin')}{side}", _Seen()).kinds) <= {"float"}
            and f"{name.removesuffix('xmin')}{side}" in seen.features
            for side in _SIDES
        )
    ]
    found: list[_Objects] = []
    for prefix in prefixes:
        called = "" if len(prefixes) == 1 else prefix
        boxes = tensor_name(f"{called}boxes", taken)
        taken.add(boxes)
        largest = max(seen.features[f"{prefix}bbox/{side}"].largest for side in _SIDES)
        coords = {"type": "pixel" if largest > 2 else "fractional", **_LTRB}
        tensors.append(tensor(boxes, "bbox", dtype="float32", coords=coords))
        classes = None
        for name, kind in ((f"{prefix}class/text", "bytes"), (f"{prefix}class/label", "int")):
            of = seen.features.get(name)
            if classes is None and of is not None and set(of.kinds) == {kind}:
                classes = name if {one.name for one in of.looked.kinds} <= {"text", "json"} else None
        labels = None
        if classes is not None:
            labels = tensor_name(f"{called}labels", taken)
            taken.add(labels)
            number = None if classes.endswith("text") else "int64"
            tensors.append(tensor(labels, "class_label", dtype=number, is_list=True))
        found.append(_Objects(prefix, boxes, labels, classes))
    return found


def _used(one: _Objects) -> Iterator[str]:
    yield from (f"{one.prefix}bbox/{side}" for side in _SIDES)
    if one.classes is not None:
        yield one.classes


def _column(
    called: str,
    name: str,
    seen: _Seen,
    told: Told,
    wish: str | None,
    compression: str | None,
    info: Mapping[str, Any],
    problems: list[Problem],
    *,
    is_list: bool,
) -> tuple[_Column, TensorPlan]:
    """Return how a feature gets into its tensor, and the tensor."""
    kind = seen.kind
    if len(seen.kinds) > 1:
        told_kinds = ", ".join(f"{count:,} times {one}" for one, count in seen.kinds.most_common())
        problems.append(Problem(name, f"it is of several kinds ({told_kinds}): {kind} is stored", 0))
    if kind == "bytes":
        if is_list:
            seen.looked.most = 2
        content = content_of(name, seen.looked, problems, wish=wish, compression=compression)
        return _Column(called, kind, content), tensor_of(called, content, info)
    dtype = _DTYPES[kind]
    of = told.features.get(name)
    if is_list:
        if len(seen.lengths) == 1 and min(seen.lengths):
            steps = (-1,) if seen.lengths == {1} else (-1, min(seen.lengths))
            return _Column(called, kind, None, steps), tensor(
                called, dtype=dtype, info=info, chunk_compression=_CHUNKS
            )
        return _Column(called, kind, ragged=True), tensor(called, "sequence", dtype=dtype, info=info)
    if of is None:
        single = seen.lengths <= {1}
        return _Column(called, kind), tensor(
            called, dtype=dtype, info=info, chunk_compression=None if single else _CHUNKS
        )
    if of.is_boxes and kind == "float":
        coords = {"type": "fractional", **_LTRB}
        return _Column(called, kind, is_boxes=True), tensor(
            called, "bbox", dtype=dtype, coords=coords, info=info
        )
    if of.classes is not None and kind == "int":
        names = list(of.classes) or None
        return _Column(called, kind), tensor(
            called, "class_label", dtype="int64", class_names=names, info=info
        )
    stored = of.dtype if of.dtype and np.dtype(of.dtype).kind in ("iub" if kind == "int" else "f") else ""
    if stored == "float64":
        stored = ""  # float32 is what the file has
    shape = of.shape if len(of.shape) > 1 and sum(length < 0 for length in of.shape) <= 1 else ()
    compressed = _CHUNKS if shape or seen.lengths > {1} else None
    return _Column(called, kind, None, shape, stored), tensor(
        called, dtype=stored or dtype, info=info, chunk_compression=compressed
    )


# -- rows ---------------------------------------------------------------------------------------------------------


def _row(data: bytes, context: _Context) -> dict[str, Any]:
    """Return the row of a record.

    Raises
    ------
    IngestionError
        If it has something that no tensor takes.
    """
    if context.columns is None:
        return {"record": np.frombuffer(data, np.uint8)}
    example = parse(data)
    row: dict[str, Any] = {}
    for one in context.objects:
        row.update(_values_of_objects(one, example))
    for columns, found in ((context.columns, example.features), (context.lists, example.lists)):
        for name in found:
            if name not in columns and not (name in context.used and columns is context.columns):
                raise IngestionError(
                    f"the feature {name!r} is in no record that was looked at: look at more of them (look=0 for all)"
                )
    for name, column in context.columns.items():
        feature = example.features.get(name)
        row[column.tensor] = None if feature is None or not feature.kind else _of(name, feature, column)
    for name, column in context.lists.items():
        steps = example.lists.get(name)
        row[column.tensor] = None if steps is None else _list(name, steps, column)
    return row


def _of(name: str, feature: Feature, column: _Column) -> Any:
    """Return the value of a feature."""
    if feature.kind != column.kind and not len(feature.values):
        feature = Feature(column.kind, [] if column.content else np.zeros(0, _DTYPES[column.kind]))
    if feature.kind != column.kind:
        raise IngestionError(f"{name} is a list of {feature.kind}, and of {column.kind} in other records")
    try:
        if column.content is not None:
            if column.content.many:
                return [value_of(one, column.content) for one in feature.values]
            if len(feature.values) > 1:
                raise IngestionError(
                    f"it has {len(feature.values):,} values, and one in records that were looked at (look=0 for all)"
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
            raise IngestionError(f"a value is not {column.dtype}")
        values = found
    return values.reshape(column.shape) if column.shape else values


def _list(name: str, steps: Sequence[Feature], column: _Column) -> Any:
    """Return the value of a list of features: its steps are along the first axis."""
    if any(len(step.values) and step.kind != column.kind for step in steps):
        raise IngestionError(f"{name} has steps of other kinds than {column.kind}")
    if column.content is not None:
        texts = column.content.kind in ("text", "json")
        if texts and any(len(step.values) != 1 for step in steps):
            return [[value_of(one, column.content) for one in step.values] for step in steps]
        if any(len(step.values) != 1 for step in steps):
            raise IngestionError(f"{name} has steps of several values, or of none")
        return [value_of(step.values[0], column.content) for step in steps]
    dtype = _DTYPES[column.kind]
    arrays: list[NDArray[Any]] = [step.values if len(step.values) else np.zeros(0, dtype) for step in steps]
    if column.ragged:
        return arrays
    width = column.shape[1] if len(column.shape) > 1 else 1
    if any(len(array) != width for array in arrays):
        raise IngestionError(
            f"{name} has steps of other lengths than {width}, that of the records looked at (look=0 for all)"
        )
    found = np.concatenate(arrays) if arrays else np.zeros(0, dtype)
    return found.reshape(-1, width) if len(column.shape) > 1 else found


def _values_of_objects(one: _Objects, example: Example) -> dict[str, Any]:
    """Return boxes and labels of a record."""
    sides = [example.features.get(f"{one.prefix}bbox/{side}", Feature("", ())) for side in _SIDES]
    if (
        any(len(side.values) and side.kind != "float" for side in sides)
        or len({len(side.values) for side in sides}) > 1
    ):
        raise IngestionError(f"{one.prefix}bbox has sides of several lengths or kinds")
    boxes = np.stack([np.asarray(side.values, np.float32) for side in sides], axis=1)
    found: dict[str, Any] = {one.boxes: boxes}
    if one.labels is None or one.classes is None:
        return found
    classes = example.features.get(one.classes, Feature("", ()))
    kind = "bytes" if one.classes.endswith("text") else "int"
    if (len(boxes) and classes.kind != kind) or len(classes.values) != len(boxes):
        raise IngestionError(
            f"{len(classes.values):,} classes in {one.classes} are not those of {len(boxes):,} boxes"
        )
    if not len(boxes):
        found[one.labels] = np.zeros(0, np.uint32 if kind == "bytes" else np.int64)
    elif kind == "bytes":
        found[one.labels] = [text.decode() for text in classes.values]
    else:
        found[one.labels] = np.asarray(classes.values)
    return found
