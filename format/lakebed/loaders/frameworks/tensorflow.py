"""TensorFlow: samples and batches as a ``tf.data.Dataset``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from lakebed.errors import InvalidOperationError
from lakebed.loaders.frameworks.adapters import NumpyLoader
from lakebed.loaders.frameworks.arguments import Source
from lakebed.loaders.frameworks.samples import Fields


def samples(source: Source) -> tf.data.Dataset:
    """Return the samples one by one: text, bytes, json and lists as strings of shape (1,)."""
    table = source.rows
    extents = {name: _extents(table.state(name).meta) for name in table.names}
    first = next(iter(source.samples(1)))["samples"][0].value
    spec = {name: _spec(_tensors(value), extents.get(name)) for name, value in first.items()}

    def read(loader: Any) -> Iterator[Any]:
        for single in loader:
            yield {name: _tensors(value) for name, value in single["samples"].value.items()}

    return _dataset(lambda: source.samples(None), read, spec)


def batches(made: NumpyLoader) -> tf.data.Dataset:
    """Return batches: text, bytes, json and lists as strings of shape (batch,).

    Raises
    ------
    InvalidOperationError
        If the samples of a tensor differ in shape.
    """
    size, has_rest = made.loader.batch_size, not made.loader.drop_last

    def again() -> NumpyLoader:
        return NumpyLoader(made.source, size or 1, made.collate_fn, drop_last=not has_rest)

    def read(loader: NumpyLoader) -> Iterator[Any]:
        for batch in loader:
            yield _batch(batch)

    first = _batch(next(iter(again())))
    spec = tf.nest.map_structure(lambda value: tf.TensorSpec((None, *value.shape[1:]), _dtype(value)), first)
    return _dataset(again, read, spec)


def _dataset(make: Callable[[], Any], read: Callable[[Any], Iterator[Any]], spec: Any) -> tf.data.Dataset:
    epochs = itertools.count()
    made = make()
    loader = made.loader if isinstance(made, NumpyLoader) else made

    def generate() -> Iterator[Any]:
        one = make()
        (one.loader if isinstance(one, NumpyLoader) else one).set_epoch(next(epochs))
        yield from read(one)

    found = tf.data.Dataset.from_generator(generate, output_signature=spec)
    if loader.on_error != "skip":
        found = found.apply(tf.data.experimental.assert_cardinality(len(loader)))
    if loader.ranks.now()[1] > 1:
        # The processes have divided the rows already; do not let TensorFlow divide them a second time.
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        found = found.with_options(options)
    return found


def _batch(batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return {name: _column(name, values) for name, values in Fields(batch).items()}
    return tuple(_column("", values) for values in batch) if isinstance(batch, tuple) else np.asarray(batch)


def _column(name: str, values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    if all(isinstance(value, np.ndarray) and value.dtype.kind in "biufc" for value in values):
        raise InvalidOperationError(
            f"the samples of {name!r} in one batch have different shapes; give them one shape with transform()"
        )
    return np.array([_text(value) for value in values], dtype=object)


def _tensors(value: Any) -> Any:
    is_array = isinstance(value, np.ndarray) and value.dtype.kind != "O"
    return value if is_array else np.array([_text(value)], dtype=object)


def _text(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=lambda found: found.tolist())
    return text.encode()


def _dtype(value: Any) -> Any:
    return tf.string if value.dtype.kind in "OUS" else value.dtype


def _spec(value: Any, extents: tuple[int | None, ...] | None) -> Any:
    fits = extents is not None and len(extents) == value.ndim and value.dtype.kind != "O"
    return tf.TensorSpec(
        extents if fits else (1,) if value.dtype.kind == "O" else (None,) * value.ndim, _dtype(value)
    )


def _extents(meta: Any) -> tuple[int | None, ...]:
    return tuple(a if a == b else None for a, b in zip(meta.min_shape, meta.max_shape, strict=True))
