"""Rows for the DataLoader of PyTorch that is given a dataset itself."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from lakebed.loaders.samples import WIDER

_log = logging.getLogger(__name__)
_told: set[str] = set()


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
        _tell_once(
            f"{name!r} has missing values, which PyTorch's collate refuses: leave those rows out, "
            f"ds[ds[{name!r}].notna()], or pass collate_fn="
        )
        return list(np.ma.filled(column.reshape(-1).astype(object), None))
    if not isinstance(column, np.ndarray):
        values = list(column)
        if len({value.shape for value in values if isinstance(value, np.ndarray)}) > 1:
            _tell_once(
                f"the samples of {name!r} differ in shape, and PyTorch's collate stacks none of them: write "
                "ds.pytorch(batch_size=..., ragged='pad'), 'list' or 'nested', or pass collate_fn="
            )
        return [_written(value) if isinstance(value, np.ndarray) else value for value in values]
    column = _written(column)
    return list(column.reshape(-1) if column.shape[1:] == (1,) else column)


def _written(values: Any) -> Any:
    """Return an array that PyTorch may write to."""
    return values.astype(WIDER.get(values.dtype.name, values.dtype), copy=not values.flags.writeable)


def _tell_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        _log.warning(text)
