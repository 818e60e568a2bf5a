"""``ingest_dataframe`` and ``ingest_huggingface`` of Deep Lake 3.x, with their arguments, tensors and results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakebed.api.datasets import empty
from lakebed.dataset.dataset import Dataset
from lakebed.errors import IngestionError, InvalidPandasDataframeError
from lakebed.importers.core.importing import import_from
from lakebed.importers.core.plan import Plan, TensorPlan
from lakebed.importers.core.source import Source
from lakebed.importers.ingest.ingest import Path, ingested
from lakebed.importers.tables import dataframe, huggingface

_MEDIA = ("image", "audio", "video")


def ingest_dataframe(
    src: Any,
    dest: Path | Dataset,
    column_params: Mapping[str, Mapping[str, Any]] | None = None,
    src_creds: Any = None,
    dest_creds: Any = None,
    creds_key: str | None = None,
    progressbar: bool = True,
    token: str | None = None,
    connect_kwargs: Mapping[str, Any] | None = None,
    indra: bool = False,
    **dataset_kwargs: Any,
) -> Dataset:
    """Import a data frame, a tensor for each column, as Deep Lake 3.x does.

    ``import_from("dataframe", ...)`` keeps more: dates as such, nulls of numbers, any name of a column.

    Parameters
    ----------
    src
        The data frame: of pandas, or any object that exports Arrow.
    dest
        Address of the new dataset, or an open dataset, to which rows are appended.
    column_params
        Column -> ``name``, ``htype`` and other arguments of its tensor. Columns of htype ``image``, ``audio`` and
        ``video`` hold files as bytes, paths or addresses; those of ``link[image]`` and so on become links to them.
    src_creds, dest_creds
        Credentials of the files, and of the dataset.
    creds_key
        Name of the credentials that links need.
    progressbar
        Show a progress bar.
    token, connect_kwargs, indra
        Ignored.
    dataset_kwargs
        Arguments of ``lakebed.empty``, such as ``overwrite=True``.

    Returns
    -------
    The dataset.

    Raises
    ------
    InvalidPandasDataframeError
        If ``src`` is not a data frame.
    IngestionError
        If a column holds values without a type, or does not exist.
    """
    del token, connect_kwargs, indra
    source = Source("", _texts_for_dates(src), src_creds)
    if isinstance(src, str) or dataframe.recognise(source) is None:
        raise InvalidPandasDataframeError(f"a data frame was expected, not {type(src).__name__}")
    params = {str(column): dict(given) for column, given in (column_params or {}).items()}
    htypes = {column: str(given.get("htype") or "") for column, given in params.items()}
    links = {column for column, htype in htypes.items() if htype.startswith("link[")}
    plain = {column: htype.removeprefix("link[").removesuffix("]") for column, htype in htypes.items()}
    media = {column: htype for column, htype in plain.items() if htype in _MEDIA}
    if links and links != set(media):
        raise IngestionError(
            f"columns of files must all be links, or all files: {', '.join(sorted(set(media) - links))} are not links"
        )
    plan = dataframe.plan(
        source,
        media=media,
        labels=[column for column, htype in plain.items() if htype == "class_label"],
        embeddings=[column for column, htype in plain.items() if htype == "embedding"],
        documents=[column for column, htype in plain.items() if htype == "json"],
        link=bool(links),
        creds_key=creds_key,
        nan=True,
    )
    return ingested(
        "dataframe", source, _named(plan, params), dest, dest_creds, progressbar, False, 0, dataset_kwargs
    )


def _texts_for_dates(src: Any) -> Any:
    """Return a pandas data frame whose dates are text, as 3.x stores them."""
    if not hasattr(src, "select_dtypes") or not hasattr(src, "assign"):
        return src
    kinds = ["datetime", "datetimetz", "timedelta"]
    dates = {name: src[name].astype("string") for name in src.select_dtypes(kinds).columns}
    return src.assign(**dates) if dates else src


def _named(plan: Plan, params: Mapping[str, Mapping[str, Any]]) -> Plan:
    """Return the plan with the names and arguments that the caller gives the tensors."""
    columns = {column.tensor: column.name for column in plan.context.columns}
    names: dict[str, str] = {}
    tensors: list[TensorPlan] = []
    for one in plan.tensors:
        given = dict(params.get(columns.get(one.name, one.name), {}))
        name = str(given.pop("name", None) or re.sub(r"\s+", "_", one.name))
        while name in names.values():
            name += "_"
        names[one.name] = name
        tensors.append(TensorPlan(name, {**one.arguments, **given}, one.info))
    context = replace(
        plan.context,
        columns=[replace(column, tensor=names[column.tensor]) for column in plan.context.columns],
        beside={names[name]: values for name, values in plan.context.beside.items()},
    )
    return replace(plan, tensors=tensors, context=context)


def ingest_huggingface(
    src: Any,
    dest: Path | Dataset,
    use_progressbar: bool = True,
    token: str | None = None,
    connect_kwargs: Mapping[str, Any] | None = None,
    progressbar: bool = True,
    **dataset_kwargs: Any,
) -> Dataset:
    """Import an open Hugging Face dataset, a tensor for each column; ``import_from("huggingface", ...)`` has options.

    Parameters
    ----------
    src
        A ``datasets.Dataset`` or ``IterableDataset``; or a dictionary of them, whose rows name their splits in the
        tensor ``split``.
    dest
        Address of the new dataset, or an open dataset, to which rows are appended.
    use_progressbar, progressbar
        Show a progress bar, unless one of the two is false; in 3.x, this function has the first, others the second.
    token, connect_kwargs
        Ignored.
    dataset_kwargs
        Arguments of ``lakebed.empty``, such as ``overwrite=True``.

    Returns
    -------
    The dataset.

    Raises
    ------
    ValueError
        If ``src`` is not such an object, for example the name of a dataset.
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
    ds = dest if isinstance(dest, Dataset) else empty(dest, **dataset_kwargs)
    import_from("huggingface", src, ds, append=True, commit=False, progressbar=use_progressbar)
    return ds
