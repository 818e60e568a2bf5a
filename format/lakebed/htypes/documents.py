"""json, list and tag: JSON text with the format's custom values (format.md 1.5, 5.3).

htype   value                             None      shape of a sample
json    anything that JSON can hold       ``{}``    (1,)
list    a list                            ``[]``    (length,)
tag     a text or a list of them          [null]    (length,)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from lakebed.codecs.block import Block, join_samples
from lakebed.codecs.sample import Sample
from lakebed.documents import json_style
from lakebed.errors import FormatError, InvalidInputError, TensorDtypeMismatchError

_PLAIN = json.JSONEncoder()


class Written:
    """A value of a json, list or tag tensor that is JSON text already, and the number of its items.

    Only :func:`written` makes these objects, from values that were checked; the values may change afterwards.
    """

    __slots__ = ("items", "text")

    def __init__(self, text: bytes, items: int) -> None:
        self.text, self.items = text, items


def plain_value(value: Any) -> Any:
    """Return a value of a table as JSON of the format; values of types that JSON lacks, such as dates, become text."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str | bytes) else str(value)


def _dump(value: Any, what: str) -> bytes:
    raw = _text_of(value, what)
    # Check when writing, because readers refuse texts that are nested too deeply.
    json_style.check_depth(raw, f"a {what} sample")
    return raw


def _text_of(value: Any, what: str) -> bytes:
    try:
        return _PLAIN.encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        pass  # a value that needs the JSON dialect of the format
    try:
        return json.dumps(json_style.encode_custom(value)).encode()
    except TypeError:
        value = _samples_encoded(value)
    except (ValueError, InvalidInputError) as error:
        raise TensorDtypeMismatchError(f"a {what} tensor takes JSON values: {error}") from error
    try:
        return json.dumps(json_style.encode_custom(value)).encode()
    except (TypeError, ValueError, InvalidInputError) as error:
        raise TensorDtypeMismatchError(f"a {what} tensor takes JSON values: {error}") from error


def _samples_encoded(value: Any) -> Any:
    """Replace Samples in a value by JSON objects that describe them, and uncompressed Samples by arrays."""
    if isinstance(value, Sample):
        if value.compression is None:
            return value.array
        data = base64.b64encode(value.compressed_bytes(value.compression)).decode("ascii")
        return {json_style.CUSTOM: "Sample", "data": data, "compression": value.compression}
    if isinstance(value, dict):
        return {key: _samples_encoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_samples_encoded(item) for item in value]
    return value


def written(value: Any, htype: str, dtype: str | None) -> Written:
    """Return a value of a json, list or tag tensor as the text that is stored.

    Raises
    ------
    TensorDtypeMismatchError, LimitError
        If the value cannot be written as such text; see the functions below that encode many values.
    """
    if htype == "json":
        block = encode_json([value], dtype)
    else:
        block = encode_tags([value]) if htype == "tag" else encode_list([value], dtype)
    (items,) = block.shape(0) or (1,)
    return Written(bytes(block.joined()), items)


def encode_json(values: Iterable[Any], dtype: str | None = None) -> Block:
    """Encode JSON values, in which ndarrays, bytes and Samples are allowed.

    Parameters
    ----------
    dtype
        The tensor's schema string.

    Raises
    ------
    TensorDtypeMismatchError
        If a value has no JSON form, or does not match the schema.
    """
    check = _check_of(None if dtype == "Any" else dtype, "json")
    parts = []
    for value in values:
        if type(value) is Written:
            parts.append(value.text)
            continue
        if isinstance(value, np.ndarray):
            value = value.tolist()
        check(value)
        parts.append(b"{}" if value is None else _dump(value, "json"))
    return join_samples(parts, (1,))


def encode_list(values: Iterable[Any], dtype: str | None = None) -> Block:
    """Encode lists; the shape of a sample is its length.

    Raises
    ------
    TensorDtypeMismatchError
        If a value is not a list, has no JSON form, or does not match the schema.
    """
    check = _check_of(None if dtype in ("Any", "List") else dtype, "list")

    def items_of(value: Any) -> list[Any]:
        if isinstance(value, np.ndarray) and value.ndim:
            value = value.tolist()
        if not isinstance(value, list | tuple | None):
            raise TensorDtypeMismatchError(f"a list tensor takes lists, not {type(value).__name__}")
        items = list(value or ())
        check(items)
        return items

    return _encode_items(values, items_of, "list")


def encode_tags(values: Iterable[Any]) -> Block:
    """Encode tags: a text, or a list of texts; any other JSON value is stored as one item.

    Raises
    ------
    TensorDtypeMismatchError
        If a value has no JSON form.
    """

    def items_of(value: Any) -> list[Any]:
        if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
            value = value.tolist()
        return (list(value) or [None]) if isinstance(value, list | tuple) else [value]

    return _encode_items(values, items_of, "tag")


def _encode_items(values: Iterable[Any], items_of: Callable[[Any], list[Any]], what: str) -> Block:
    parts, lengths = [], []
    for value in values:
        if type(value) is Written:
            parts.append(value.text)
            lengths.append(value.items)
            continue
        items = items_of(value)
        parts.append(_dump(items, what))
        lengths.append(len(items))
    return join_samples(parts, np.array(lengths, dtype=np.uint32).reshape(-1, 1))


def _check_of(dtype: str | None, what: str) -> Callable[[Any], None]:
    """Return a function that refuses values that do not match the schema of a tensor."""
    if dtype is None:
        return lambda _: None
    # Imported here, because few tensors have a schema.
    from lakebed.htypes.schema_text import fits, parse_schema

    schema = parse_schema(dtype)

    def check(value: Any) -> None:
        if not fits(value, schema):
            raise TensorDtypeMismatchError(
                f"a value of this {what} tensor does not have its schema: {value!r:.80}"
            )

    return check


def decode_document(data: bytes | memoryview) -> Any:
    """Decode the JSON text of one sample.

    Raises
    ------
    FormatError, LimitError
        If the text is not JSON, or is nested too deeply.
    """
    value = json_style.load(data, "a json sample")
    if json_style.CUSTOM.encode() not in bytes(data):
        return value
    try:
        return _samples_decoded(json_style.decode_custom(value))
    except FormatError:
        return value  # the user's own JSON has the marker of the format as a key
    except RecursionError as error:
        raise FormatError("a json sample is nested too deeply for this place in the program") from error


def _samples_decoded(value: Any) -> Any:
    """Replace JSON objects that describe Samples by Samples; a Sample is decompressed when its pixels are read."""
    if isinstance(value, list):
        return [_samples_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(json_style.CUSTOM)
    if not isinstance(kind, str) or kind != "Sample":  # the marker also marks arrays
        return {key: _samples_decoded(item) for key, item in value.items()}
    data, compression = value.get("data"), value.get("compression")
    if not isinstance(data, str) or not isinstance(compression, str):
        raise FormatError("a Sample in JSON has no data or no compression")
    try:
        return Sample(buffer=base64.b64decode(data, validate=True), compression=compression)
    except ValueError as error:
        raise FormatError(f"a Sample in JSON has bad base64 in `data`: {error}") from error
