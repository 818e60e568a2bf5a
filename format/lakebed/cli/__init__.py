"""The ``lakebed`` command: looks at datasets from a shell. Commands call the public API and print, nothing else."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli import diff as differences
from lakebed.cli import verify as verification
from lakebed.errors import LakebedError

_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for programs instead of text for people."
)


def _with_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Print errors that a user can act on as one sentence instead of a traceback."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except LakebedError as error:
            raise click.ClickException(str(error)) from error
        except BrokenPipeError:
            # The reader (head, less) has seen enough; a second error at exit would only be noise.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return run


@click.group()
@click.version_option(lakebed.__version__, prog_name="lakebed")
def main() -> None:
    """Look at tensor datasets in the Deep Lake 3.x format."""


@main.command()
@click.argument("url", default=".")
@_JSON
@_with_errors
def ls(url: str, as_json: bool) -> None:
    """List the datasets at and below a folder."""
    found = list(_datasets(url))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo(f"no datasets in {url}", err=True)
        return
    headings = ["dataset", "rows", "tensors", "branches", "last commit", "message"]
    rows = [
        [str(entry[h]) for h in ("path", "rows", "tensors", "branches", "time", "message")] for entry in found
    ]
    click.echo(describe.table(headings, rows, right={1, 2, 3}))


def _datasets(url: str) -> Iterator[dict[str, Any]]:
    if "://" in url and not url.startswith("file://"):
        yield describe.entry(url, lakebed.load(url, read_only=True))
        return
    root = url.removeprefix("file://")
    if not Path(root).is_dir():
        raise click.ClickException(f"{root} is no folder")
    for folder, below, files in os.walk(root):
        below[:] = sorted(d for d in below if d != "versions" and not d.startswith("."))
        if "version_control_info.json" in files:
            yield describe.entry(os.path.relpath(folder, root), lakebed.load(folder, read_only=True))


@main.command()
@click.argument("url")
@_JSON
@_with_errors
def info(url: str, as_json: bool) -> None:
    """Show schema, lengths, versions and info of URL[@branch or @commit]."""
    facts = describe.facts(lakebed.load(url, read_only=True))
    click.echo(json.dumps(facts, indent=2) if as_json else describe.facts_text(facts))


@main.command()
@click.argument("url")
@click.option("-n", "--rows", default=10, show_default=True, help="How many rows.")
@click.option("-t", "--tensor", "tensors", multiple=True, help="Only this tensor; may be repeated.")
@_JSON
@_with_errors
def head(url: str, rows: int, tensors: tuple[str, ...], as_json: bool) -> None:
    """Show the first rows of URL[@branch or @commit]."""
    ds = lakebed.load(url, read_only=True)
    records = describe.records(ds, rows, tensors or None)
    if as_json:
        for record in records:
            click.echo(json.dumps(record))
        return
    names = list(tensors) or list(ds.tensors)
    cells = [[describe.cell(record[name]) for name in names] for record in records]
    click.echo(describe.table(names, cells))


@main.command()
@click.argument("url")
@_JSON
@_with_errors
def log(url: str, as_json: bool) -> None:
    """Show the commits of URL[@branch or @commit], newest first."""
    commits = lakebed.load(url, read_only=True).commits
    if as_json:
        click.echo(json.dumps(commits, indent=2))
        return
    for commit in commits:
        click.echo(f"{commit['commit'][:12]}  {commit['time']} UTC  {commit['author']}")
        click.echo(f"    {commit['message']}")
    if not commits:
        click.echo("no commits yet", err=True)


@main.command()
@click.argument("url")
@click.argument("id_1", required=False)
@click.argument("id_2", required=False)
@_JSON
@_with_errors
def diff(url: str, id_1: str | None, id_2: str | None, as_json: bool) -> None:
    """Show what changed in URL[@branch or @commit] since its last commit, since ID_1, or between ID_1 and ID_2."""
    differences.diff(url, id_1, id_2, as_json=as_json)


@main.command()
@click.argument("url")
@click.option("--deep", is_flag=True, help="Also decode every sample.")
@_JSON
@_with_errors
def verify(url: str, deep: bool, as_json: bool) -> None:
    """Check URL, or only URL[@branch or @commit]: documents, chunks, checksums. Exit status 1 means damage."""
    verification.verify(url, deep=deep, as_json=as_json)
