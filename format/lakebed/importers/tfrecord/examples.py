"""Features of ``tf.train.Example`` and ``SequenceExample``, the messages that TFRecord files usually hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lakebed.importers.core.contents import decoded
from lakebed.importers.tfrecord.messages import parsed

DTYPES = {"int": "int64", "float": "float32"}
"""Kind of a feature of numbers -> dtype."""


class Feature(NamedTuple):
    """The values of one feature of a record.

    Parameters
    ----------
    kind
        ``bytes``, ``float`` or ``int``; empty if the feature sets none of them.
    values
        List of bytes, or array of float32 or int64.
    """

    kind: str
    values: Any


class Example(NamedTuple):
    """A record: its features, and lists of features by name."""

    features: dict[str, Feature]
    lists: dict[str, list[Feature]]


def parse(data: bytes) -> Example:
    """Parse a record.

    Raises
    ------
    IngestionError
        If the record is not such a message.
    """
    found = parsed("Example", data)
    return Example(
        {decoded(one.name): _feature(one.feature) for one in found.features.feature},
        {decoded(one.name): [_feature(step) for step in one.list.feature] for one in found.lists.list},
    )


def _feature(found: Any) -> Feature:
    kind = found.WhichOneof("kind")
    if kind is None:
        return Feature("", [])
    values = getattr(found, kind).value
    return Feature(kind, list(values) if kind == "bytes" else np.array(values, DTYPES[kind]))
