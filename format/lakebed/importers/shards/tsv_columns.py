"""Columns of TSV files: the tensors that they become, and the values of a row.

column                                      tensors
media in base64                             ``images``, ``audio``, ``videos``
label: JSON of objects with class, rect     ``boxes``, ``labels``, and ``objects`` for their other entries
label: a number, or a name of a label map   ``labels``
hw: JSON, or two numbers                    ``hw``
JSON; text                                  ``json``; ``text``

The majority of the inspected lines decides the tensors; lines that do not fit them are refused.
"""

from __future__ import annotations

import binascii
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import tensor_name
from lakebed.importers.core.contents import (
    FILES,
    NAMES,
    Content,
    Kind,
    Looked,
    Planning,
    document,
    kind_of,
    reads,
    tensor_of,
    value_of,
)
from lakebed.importers.core.plan import tensor

_MAGIC_CHARACTERS = 4096  # enough to recognise each kind, such as two frames of MP3
_FEWEST_CHARACTERS = 40  # shortest text that can be an image in base64
_ENCODED = FILES | {"array"}  # kinds whose values are base64 if the user names the kind
_BOXES = {"type": "pixel", "mode": "LTRB"}


class Field(NamedTuple):
    """A column of a file: its position in the line, its type, its tensors, and the content of its bytes."""

    at: int
    how: str
    tensors: tuple[str, ...]
    content: Content


class Role(NamedTuple):
    """Columns of the files of a role, and whether the first column is the key of the row."""

    name: str
    columns: int
    fields: tuple[Field, ...]
    has_key: bool


def values_of(field: Field, data: bytes, classes: Sequence[str]) -> Sequence[Any]:
    """Return the values of a field, one for each of its tensors."""
    if data == b"":
        return (None,) * len(field.tensors)
    if field.how == "objects":
        return _objects(data, classes, has_boxes=len(field.tensors) == 3)
    if field.how == "size":
        return (np.array(_size(data), np.int64),)
    if field.how == "number":
        if not _is_number(data):
            raise IngestionError("a class is not a number, although those of other rows are")
        return (np.int64(int(data)),)
    return (value_of(_bytes(data) if field.how == "media" else data, field.content),)


def _bytes(text: bytes) -> bytes:
    text = text.rstrip(b"=")
    try:
        return binascii.a2b_base64(text + b"=" * (-len(text) % 4), strict_mode=True)
    except binascii.Error as error:
        raise IngestionError(f"a field is not base64: {error}") from error


def _objects(data: bytes, classes: Sequence[str], *, has_boxes: bool) -> Sequence[Any]:
    """Return boxes, labels, and the other entries of objects."""
    found = document(data)
    if not _are_objects(found, has_boxes=has_boxes):
        raise IngestionError(
            "a label is not a list of objects with class and rect, although those of other rows are"
        )
    labels = [_class(one["class"], classes) for one in found]
    rest = [{key: value for key, value in one.items() if key not in ("class", "rect")} for one in found]
    beside = rest if any(rest) else None
    if not has_boxes:
        return labels, beside
    return np.array([one["rect"] for one in found], np.float64).reshape(len(found), 4), labels, beside


def _are_objects(found: Any, *, has_boxes: bool) -> bool:
    """Return whether JSON is a list of objects that each have a class, and, only if `has_boxes`, a box."""
    return isinstance(found, list) and all(
        isinstance(one, Mapping)
        and type(one.get("class")) in (str, int)
        and (_is_box(one.get("rect")) if has_boxes else "rect" not in one)
        for one in found
    )


def _is_box(rect: Any) -> bool:
    return isinstance(rect, list) and len(rect) == 4 and all(type(one) in (int, float) for one in rect)


def _class(value: str | int, names: Sequence[str]) -> str:
    if isinstance(value, int):
        return names[value] if 0 <= value < len(names) else str(value)
    return value


def _size(data: bytes) -> tuple[int, int]:
    """Return height and width, from JSON or two numbers.

    Raises
    ------
    IngestionError
        If the field is neither.
    """
    words = data.split()
    if len(words) == 2 and all(word.isdigit() and len(word) < 10 for word in words):
        return int(words[0]), int(words[1])
    found = document(data)
    found = found[0] if isinstance(found, list) and len(found) == 1 else found
    if isinstance(found, Mapping) and set(found) == {"height", "width"}:
        height, width = found["height"], found["width"]
        if type(height) is int and type(width) is int and 0 <= height < 1 << 31 and 0 <= width < 1 << 31:
            return height, width
    raise IngestionError("a size is not a height and a width, although those of other rows are")


def magic(field: bytes) -> Kind | None:
    """Return the kind of media of a field by its first characters; None if it holds no known media."""
    if len(field) < _FEWEST_CHARACTERS:
        return None
    head = field[:_MAGIC_CHARACTERS].rstrip(b"=")
    head = head[: len(head) // 4 * 4]
    try:
        found = kind_of(binascii.a2b_base64(head, strict_mode=True))
    except binascii.Error:
        return None
    return found if found.name in FILES else None


def field_of(
    role: str,
    at: int,
    name: str,
    values: Sequence[bytes],
    classes: Sequence[str],
    link: bool,
    planning: Planning,
) -> Field:
    """Return a column, and plan its tensors.

    Parameters
    ----------
    at, name
        Position of the column in the lines, and its name.
    values
        Some values of the column.
    """
    media = [kind for kind in map(magic, values) if kind is not None]
    is_media = 2 * len(media) > len(values)
    wanted = tensor_name(NAMES[media[0].name] if is_media else name, planning.taken)
    wish = planning.kinds.get(wanted)
    if wish in _ENCODED or (is_media and wish in (None, "bytes")):
        planning.taken.add(wanted)
        looked = Looked(Counter(media))
        content = _linked(wanted, looked, wish) if link else planning.content(wanted, looked)
        planning.tensors.append(tensor_of(wanted, content, link=link))
        return Field(at, "media", (wanted,), content)
    if wish is not None:
        planning.taken.add(wanted)
        content = planning.content(wanted, Looked())
        planning.tensors.append(tensor_of(wanted, content))
        return Field(at, "value", (wanted,), content)

    if role == name == "label" and values:
        documents = [_parsed(value) for value in values]
        boxed = sum(_are_objects(one, has_boxes=True) for one in documents)
        plain = sum(_are_objects(one, has_boxes=False) for one in documents)
        if 2 * max(boxed, plain) > len(documents):
            return _object_field(at, boxed >= plain, classes, planning)
        numbers = sum(map(_is_number, values))
        known = sum(value.decode("utf-8", "replace") in classes for value in values)
        if 2 * max(numbers, known) > len(values):
            labels = planning.free("labels")
            planning.tensors.append(tensor(labels, "class_label", class_names=list(classes) or None))
            return Field(at, "number" if numbers >= known else "name", (labels,), Content("text"))
    if role == "hw" and values and 2 * sum(reads(_size, value) for value in values) > len(values):
        size = planning.free("hw")
        planning.tensors.append(tensor(size, dtype="int64"))
        return Field(at, "size", (size,), Content("text"))
    called = planning.free(name)
    is_json = bool(values) and all(kind_of(value).name == "json" for value in values)
    content = Content("json" if is_json else "text")
    planning.tensors.append(tensor_of(called, content))
    return Field(at, "value", (called,), content)


def _linked(name: str, looked: Looked, wish: str | None) -> Content:
    """Return the content of linked files: the most frequent kind, since links may lead to files of any kind."""
    usual = looked.kinds.most_common(1)
    if not usual or wish not in (None, usual[0][0].name):
        raise IngestionError(f"{name} cannot be links to {wish} files: import it without link")
    return Content(*usual[0][0])


def _object_field(at: int, has_boxes: bool, classes: Sequence[str], planning: Planning) -> Field:
    names = [planning.free(name) for name in (("boxes",) if has_boxes else ()) + ("labels", "objects")]
    if has_boxes:
        planning.tensors.append(tensor(names[0], "bbox", dtype="float64", coords=_BOXES))
    planning.tensors.append(tensor(names[-2], "class_label", class_names=list(classes) or None, is_list=True))
    planning.tensors.append(tensor(names[-1], "json"))
    return Field(at, "objects", tuple(names), Content("json"))


def _parsed(value: bytes) -> Any:
    try:
        return document(value)
    except IngestionError:
        return None


def _is_number(value: bytes) -> bool:
    return value.isdigit() and len(value) < 10
