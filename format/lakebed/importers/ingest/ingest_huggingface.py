"""``ingest_huggingface`` of Deep Lake 3.x, with its arguments, on the importer ``huggingface``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lakebed
from lakebed.importers.core.importing import import_from
from lakebed.importers.core.source import Source
from lakebed.importers.ingest.ingest import Path, ingested
from lakebed.importers.tables import huggingface


def ingest_huggingface(
    src: Any,
    dest: Path | lakebed.Dataset,
    use_progressbar: bool = True,
    token: str | None = None,
    connect_kwargs: Mapping[str, Any] | None = None,
    progressbar: bool = True,
    **dataset_kwargs: Any,
) -> lakebed.Dataset:
    """Import an open Hugging Face dataset, a tensor for each column; ``import_from("huggingface", ...)`` has options.

    Parameters
    ----------
    src
        A ``datasets.Dataset`` or ``IterableDataset``; or a dictionary of them, whose rows name their splits in the
        tensor ``split``.
    dest
        Where the dataset is made; an open one is appended to.
    use_progressbar, progressbar
        Show how far it is, unless one of them is false: 3.x has the first, and its other functions the second.
    token, connect_kwargs
        Without a meaning here.
    dataset_kwargs
        Arguments of ``lakebed.empty``, such as ``overwrite=True``.

    Returns
    -------
    The dataset.

    Raises
    ------
    ValueError
        If ``src`` is no such object, such as the name of a dataset.
    """
    del token, connect_kwargs
    use_progressbar = use_progressbar and progressbar
    source = Source("", src)
    if isinstance(src, str) or huggingface.recognise(source) is None:
        raise ValueError(
            f"a dataset of the datasets package was expected, such as load_dataset(...) returns, not {src!r}"
        )
    plan = huggingface.plan(source)
    if not plan.splits:
        return ingested("huggingface", source, plan, dest, None, use_progressbar, False, 0, dataset_kwargs)
    ds = dest if isinstance(dest, lakebed.Dataset) else lakebed.empty(dest, **dataset_kwargs)
    import_from("huggingface", src, ds, append=True, commit=False, progressbar=use_progressbar)
    return ds
