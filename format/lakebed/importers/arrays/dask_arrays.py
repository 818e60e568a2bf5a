"""Arrays of Dask, one or several by name, read chunk by chunk.

Arrays lie side by side, as those of NumPy files do. An item is a run of rows, about 16 MB of all arrays, of whole
chunks where they are smaller; Dask computes it in the thread that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakebed.errors import IngestionError
from lakebed.importers.arrays.arrays import Block, Context, Found, made, planned
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Source
from lakebed.transforms.output import Skipped

BATCHED = True

_ALONE = "array"


@dataclass(frozen=True)
class _Context(Context):
    """What workers know: the arrays themselves, too, which Dask lets be pickled."""

    arrays: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Array:
    """An array of Dask."""

    data: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.data.dtype
        return found

    def read(self, start: int, stop: int) -> Any:
        part = self.data[start:stop] if self.data.shape else self.data
        return np.asarray(part.compute(scheduler="synchronous"))


def recognise(source: Source) -> str | None:
    """Say how many arrays there are; None if it is something else."""
    found = _arrays(source.data) if source.is_object else {}
    if not found:
        return None
    return f"{len(found)} arrays of Dask" if len(found) > 1 else "an array of Dask"


def plan(source: Source, *, arrays: Sequence[str] = (), rows: str | None = None) -> Plan:
    """Plan a tensor for each array.

    Parameters
    ----------
    source
        An array, or a dictionary of arrays.
    arrays
        Names of the arrays that are taken; left out, all.
    rows
        Name of the array whose first axis is that of the rows; left out, the length that most arrays have.
    """
    found = recognise(source)
    if found is None:
        raise IngestionError(
            f"{source.shown} is no array of Dask, and no dictionary of some: open what is stored with dask.array "
            "(from_npy_stack, from_zarr, ...), and import that"
        )
    given = _arrays(source.data)
    for name, array in given.items():
        if any(np.isnan(length) for length in array.shape):
            raise IngestionError(
                f"array {name!r} has chunks of unknown length: array.compute_chunk_sizes() finds them"
            )
    steps = {name: int(max(array.chunks[0])) for name, array in given.items() if array.shape}
    # Objects of the program may be as large as they say.
    made_plan = planned(
        source,
        Found({name: _Array(array) for name, array in given.items()}, steps=steps),
        found,
        arrays or list(given),
        rows,
    )
    context = made_plan.context
    made_plan.context = _Context(
        Source(""), context.tensors, context.kinds, {name: given[name] for name in context.tensors}
    )
    return made_plan


def rows(item: Block, context: _Context) -> Iterator[Any]:
    """Compute some rows of all arrays."""
    try:
        columns = list(made({name: _Array(one) for name, one in context.arrays.items()}, item, context))
    except Exception as error:  # noqa: BLE001 - whatever the functions of the graph raise
        yield Skipped(str(item), f"{type(error).__name__}: {error}", item.stop - item.start)
        return
    yield from columns


def describe(plan: Plan) -> dict[str, Any]:
    """Say which arrays are no columns of rows."""
    return plan.about


def _arrays(data: Any) -> dict[str, Any]:
    if isinstance(data, Mapping):
        found = {str(name): one for name, one in data.items()}
        return found if found and all(_is_array(one) for one in found.values()) else {}
    return {_ALONE: data} if _is_array(data) else {}


def _is_array(data: Any) -> bool:
    return (
        type(data).__module__.partition(".")[0] == "dask"
        and hasattr(data, "chunks")
        and hasattr(data, "compute")
    )
