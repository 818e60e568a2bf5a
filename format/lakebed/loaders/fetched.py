"""Rows for the DataLoader of PyTorch that is given a dataset itself."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from lakebed.loaders.samples import WIDER

_log = logging.getLogger(__name__)


def fetched(batch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a batch of columns, integers of types that PyTorch knows."""
    torch = sys.modules.get("torch")
    if torch is None or torch.utils.data.get_worker_info() is None:  # workers are new ones in each epoch
        _tell_once(
            "ds.pytorch(batch_size=..., shuffle=...) reads faster than torch.utils.data.DataLoader(ds)"
        )
    columns = {name: _samples(name, column) for name, column in batch.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _samples(name: str, column: Any) -> list[Any]:
    if isinstance(column, np.ma.MaskedArray):
        gone = np.ma.getmaskarray(column).reshape(-1).tolist()
        numbers = _written(column.data).reshape(-1)
        values = [None if is_gone else value for value, is_gone in zip(numbers, gone, strict=True)]
    elif isinstance(column, np.ndarray):
        column = _written(column)
        values = list(column.reshape(-1) if column.shape[1:] == (1,) else column)
    else:
        values = [_written(value) if isinstance(value, np.ndarray) else value for value in column]
    shapes = {value.shape for value in values if isinstance(value, np.ndarray)}
    if len(shapes) > 1 or any(value is None for value in values):
        _tell_once(
            f"samples of {name!r} are missing or differ in shape, and PyTorch's collate stacks none of them: leave "
            f"rows out, ds[ds[{name!r}].notna()], write ds.pytorch(batch_size=..., ragged='pad'), or pass collate_fn="
        )
    return values


def _written(values: Any) -> Any:
    """Return an array that PyTorch may write to."""
    return values.astype(WIDER.get(values.dtype.name, values.dtype), copy=not values.flags.writeable)


@cache
def _tell_once(text: str) -> None:
    _log.warning(text)
