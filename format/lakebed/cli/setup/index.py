"""``lakebed index``: list, make, update and drop the indexes that searches use."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

import lakebed
from lakebed.cli.addresses import writable
from lakebed.cli.commands import command
from lakebed.cli.output import say, tell_table


@command
@click.argument("dataset")
@click.argument("tensor", required=False)
@click.argument("kind", required=False, type=click.Choice(["hnsw", "bm25"]))
@click.option("--name", help="Name of the index; TENSOR_KIND where it is left out.")
@click.option("--metric", type=click.Choice(["cosine", "l2", "dot"]), help="Of vectors: what is near.")
@click.option("--drop", is_flag=True, help="Remove the index --name, or TENSOR_KIND.")
@click.option("--update", is_flag=True, help="Take in the rows that the indexes do not hold.")
def index(
    dataset: str,
    tensor: str | None,
    kind: str | None,
    name: str | None,
    metric: str | None,
    drop: bool,
    update: bool,
    as_json: bool,
) -> None:
    """List the indexes of DATASET; with TENSOR and KIND make one.

    For example: lakebed index photos caption bm25
    """
    if drop and update:
        raise click.UsageError("--drop and --update do not go together")
    if (tensor is None) != (kind is None):
        raise click.UsageError("give TENSOR and KIND, hnsw or bm25")
    if metric is not None and (kind != "hnsw" or drop or update):
        raise click.UsageError("--metric is only for making an index of kind hnsw")
    known = name if tensor is None else name or f"{tensor}_{kind}"
    if drop:
        if known is None:
            raise click.UsageError("--drop needs --name, or TENSOR and KIND")
        writable(dataset).drop_index(known)
        if not as_json:
            say(f"dropped index {known}")
        return
    if update:
        found = writable(dataset).update_indexes(None if known is None else [known])
    elif tensor is not None and kind is not None:
        settings: dict[str, Any] = {} if metric is None else {"metric": metric}
        found = [writable(dataset).create_index(tensor, kind, name=name, **settings)]
    else:
        found = lakebed.load(dataset, read_only=True).indexes()
    headings = ["index", "tensor", "kind", "settings", "rows", "rows beside it", "bytes", "recall"]
    rows = list(map(_row, found))
    tell_table([asdict(info) for info in found], headings, rows, "no indexes yet", as_json=as_json)


def _row(info: Any) -> list[str]:
    return [
        info.name,
        info.tensor or "(not in this version)",
        info.kind,
        ", ".join(f"{key} {value}" for key, value in info.settings.items()),
        *(f"{count:,}" for count in (info.covered, info.uncovered, info.bytes)),
        "" if info.recall is None else f"{info.recall:.1%}",
    ]
