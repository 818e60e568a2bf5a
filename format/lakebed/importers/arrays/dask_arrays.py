"""Arrays of Dask, one or several by name.

An item is a run of rows of all arrays, about 16 MB; it consists of whole chunks if chunks are smaller. Dask computes an
item in the thread that requests it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.arrays.arrays import ALONE, ArrayOptions, Block, Context, Found, Sliced, made, planned
from lakebed.importers.core.packages import foreign
from lakebed.importers.core.plan import Plan, several
from lakebed.importers.core.source import Source
from lakebed.transforms.output import Skipped

BATCHED = True


@dataclass(frozen=True)
class _Context(Context):
    """Context of workers; it contains the arrays, because Dask can pickle them."""

    arrays: Mapping[str, Any] = field(default_factory=dict)


class _Array(Sliced):
    """An array of Dask."""

    def read(self, start: int, stop: int) -> Any:
        """Compute rows."""
        part = self.data[start:stop] if self.data.shape else self.data
        return np.asarray(part.compute(scheduler="synchronous"))


def recognise(source: Source) -> str | None:
    """Describe the source for messages, such as "3 arrays of Dask"; None if it is not one."""
    found = _arrays(source.data) if source.is_object else {}
    return several(list(found), "an array of Dask", "arrays of Dask") if found else None


def plan(source: Source, **options: Unpack[ArrayOptions]) -> Plan:
    """Plan a tensor for each array of a dictionary, or for one array."""
    found = recognise(source)
    if found is None:
        raise IngestionError(
            f"{source.shown} is neither an array of Dask nor a dictionary of them: to import stored arrays, open them "
            "with dask.array (from_npy_stack, from_zarr, ...) and pass the result"
        )
    given = _arrays(source.data)
    for name, array in given.items():
        if any(np.isnan(length) for length in array.shape):
            raise IngestionError(
                f"array {name!r} has chunks of unknown length: array.compute_chunk_sizes() finds them"
            )
    steps = {name: int(max(array.chunks[0])) for name, array in given.items() if array.shape}
    arrays = {name: _Array(array) for name, array in given.items()}
    # Arrays of a program have no file to compare their size with. Naming all of them skips that check (`_check_sizes`).
    options["arrays"] = options.get("arrays") or list(given)
    planned_ = planned(source, Found(arrays, steps=steps), found, **options)
    of = planned_.context
    planned_.context = _Context(Source(""), of.tensors, of.kinds, {name: given[name] for name in of.tensors})
    return planned_


def rows(item: Block, context: _Context) -> Iterator[Any]:
    """Compute some rows of all arrays."""
    try:
        with foreign("Dask cannot compute them"):
            columns = made({name: _Array(one) for name, one in context.arrays.items()}, item, context)
    except LakebedError as error:
        yield Skipped(str(item), str(error), item.stop - item.start)
    else:
        yield columns


def _arrays(data: Any) -> dict[str, Any]:
    found = {str(name): one for name, one in data.items()} if isinstance(data, Mapping) else {ALONE: data}
    return found if all(map(_is_array, found.values())) else {}


def _is_array(data: Any) -> bool:
    is_dask = type(data).__module__.partition(".")[0] == "dask"
    return is_dask and hasattr(data, "chunks") and hasattr(data, "compute")
