"""Statistics of all chunks of tensors, gathered on request: for those who query a dataset and may not write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakebed.errors import InvalidInputError
from lakebed.query.statistics import known
from lakebed.query.statistics.stored import StoredColumn
from lakebed.runtime.progress import rows_bar

if TYPE_CHECKING:
    from lakebed.session.table import Table


class TensorStatistics(NamedTuple):
    """What is known of the chunks of a tensor.

    Attributes
    ----------
    tensor
        Its name.
    chunks
        How many it has in this version.
    known
        Of how many of them something is known. Of those without checksums, which Deep Lake 3.9.52 wrote, nothing is.
    """

    tensor: str
    chunks: int
    known: int


def gathered(table: Table, *, is_chosen: bool, progressbar: bool) -> list[TensorStatistics]:
    """Read the chunks that nothing is known of, and write what they are like beside the dataset.

    Parameters
    ----------
    is_chosen
        Each tensor was named by the caller, who is told where one has no statistics; others are left out.

    Raises
    ------
    InvalidInputError
        If a tensor that was named has none.
    """
    columns = [StoredColumn(table, name) for name in table.names]
    telling = [column for column in columns if column.has_statistics and not column.scan.is_special]
    if is_chosen and len(telling) < len(columns):
        wrong = next(column.name for column in columns if column not in telling)
        raise InvalidInputError(
            f"tensor {wrong!r} has no statistics: numbers and texts have, whose samples are not compressed one by one; "
            "leave it out, or name no tensors"
        )
    known.load(telling)
    rows = sum(column.state.meta.length for column in telling)
    found = []
    with rows_bar("Reading", rows, shown=progressbar) as advance:
        for column in telling:
            known.complete(column, advance)
            found.append(TensorStatistics(column.name, len(column.state.table), known.count_known(column)))
    return found
