"""Rows of an import by key, through the merge that syncs of the connector use (docs/design/020-rows-by-key.md).

Each publish is durable, and reading the same rows again changes nothing: an interrupted import begins again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pyarrow as pa

from lakebed.dataset.dataset import Dataset
from lakebed.errors import IngestionError
from lakebed.htypes.documents import written
from lakebed.importers.core.plan import Upsert
from lakebed.runtime.failures import OnFailure
from lakebed.transforms.output import Skipped
from lakebed.transforms.report import SkippedLog, TransformReport
from lakebed.upserts.store import UpsertStore

_PUBLISH_BYTES = 64_000_000
"""Approximate number of bytes per publish; it is large because each publish writes a list of all chunks."""


def upserted(
    ds: Dataset, made: Iterable[Any], upsert: Upsert, *, rekeyed: bool, strict: bool
) -> tuple[dict[str, int], TransformReport]:
    """Store rows, which come as columns, one row for each key; return the counts of keys and of rows.

    Parameters
    ----------
    made
        Columns {tensor: values}, and reports of rows that cannot be made.
    rekeyed
        Whether rows of the dataset may share a key, because it had another key or none before.

    Raises
    ------
    IngestionError
        If a column cannot be a key, or, with `strict`, a row cannot be made.
    """
    report = TransformReport("import by key", items=1)
    log = SkippedLog(report)
    rows = ds.max_len
    store = UpsertStore(
        ds, key=upsert.key, cursor=upsert.cursor, deleted=None, extracted=None, rekeyed=rekeyed and rows > 0
    )
    waiting: list[dict[str, pa.Array]] = []
    with OnFailure(ds.discard), OnFailure(store.forget), closing(log):
        for found in made:
            if isinstance(found, Skipped):
                if strict and not found.is_change:
                    raise IngestionError(f"{found.where}: {found.reason}")
                log.add_rows([(0, found)])
                continue
            columns = {name: _as_arrow(values) for name, values in found.items()}
            waiting.append(columns)
            report.rows += len(columns[upsert.key[0]])
            if sum(column.nbytes for batch in waiting for column in batch.values()) >= _PUBLISH_BYTES:
                _publish(store, waiting)
        _publish(store, waiting)
        count = store.merge()
    added = ds.max_len - rows + count.deleted + count.collapsed
    told = {"added": added, "replaced": count.updated, "older than the dataset's": count.superseded}
    return {what: keys for what, keys in told.items() if keys}, report


def _publish(store: UpsertStore, waiting: list[dict[str, pa.Array]]) -> None:
    if not waiting:
        return
    joined = {name: pa.concat_arrays([batch[name] for batch in waiting]) for name in waiting[0]}
    waiting.clear()
    try:
        store.publish(joined)
    except TypeError as error:
        raise IngestionError(f"the key cannot identify rows: {error}") from error
    store.make_room()


def _as_arrow(values: Any) -> pa.Array:
    """Convert the values of a tensor to an Arrow array; JSON values, which come as a list, become JSON text."""
    if isinstance(values, pa.Array):
        return values
    texts = [None if one is None else written(one, "json", None).text.decode() for one in values]
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
