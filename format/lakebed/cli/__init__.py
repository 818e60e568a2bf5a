"""The ``lakebed`` command: looks at datasets from a shell. Commands call the public API and print, nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

import lakebed
from lakebed.cli import branch as branching
from lakebed.cli import cp as copying
from lakebed.cli import creds as credentials
from lakebed.cli import describe
from lakebed.cli import diff as differences
from lakebed.cli import doctor as doctors
from lakebed.cli import gc as garbage
from lakebed.cli import log as logged
from lakebed.cli import materialize as materializing
from lakebed.cli import repair as repairing
from lakebed.cli import tag as tagging
from lakebed.cli import verify as verification
from lakebed.cli.lake import datasets
from lakebed.cli.opening import moment
from lakebed.cli.output import Commands, say, say_json, say_lines
from lakebed.errors import LakebedError

_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for programs instead of text for people."
)
_AS_OF = click.option(
    "--as-of",
    metavar="TIME",
    help="The newest commit of that time: 2026-11-21, '2026-11-21 09:30' (UTC), or seconds.",
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


@click.group(cls=Commands)
@click.version_option(lakebed.__version__, prog_name="lakebed")
def main() -> None:
    """Look at tensor datasets in the Deep Lake 3.x format."""


@main.command()
@click.argument("url", default=".")
@_JSON
@_with_errors
def ls(url: str, as_json: bool) -> None:
    """List the datasets at and below a folder or a prefix of a bucket, and the streams that syncs fill them from.

    Exit status 1: some can not be opened; their lines say why.
    """
    found = list(datasets(url))
    if as_json:
        say_json(found)
    elif not found:
        say(f"no datasets in {url}", err=True)
    else:
        say_lines(describe.lake_text(found))
    if any(entry["error"] for entry in found):
        sys.exit(1)


@main.command()
@click.argument("url")
@_AS_OF
@_JSON
@_with_errors
def info(url: str, as_of: str | None, as_json: bool) -> None:
    """Show schema, lengths, versions and info of URL[@branch, @commit or @tag]."""
    facts = describe.facts(lakebed.load(url, read_only=True, as_of=moment(as_of)))
    if as_json:
        say_json(facts)
    else:
        say_lines(describe.facts_text(facts))


@main.command()
@click.argument("url")
@click.option("-n", "--rows", default=10, show_default=True, help="How many rows.")
@click.option("-t", "--tensor", "tensors", multiple=True, help="Only this tensor; may be repeated.")
@_AS_OF
@_JSON
@_with_errors
def head(url: str, rows: int, tensors: tuple[str, ...], as_of: str | None, as_json: bool) -> None:
    """Show the first rows of URL[@branch, @commit or @tag]."""
    ds = lakebed.load(url, read_only=True, as_of=moment(as_of))
    records = describe.records(ds, rows, tensors or None)
    if as_json:
        for record in records:
            say_json(record, indent=None)
        return
    names = list(tensors) or list(ds.tensors)
    cells = [[describe.cell(record[name]) for name in names] for record in records]
    say_lines(describe.table(names, cells))


@main.command()
@click.argument("url")
@click.option(
    "--graph", is_flag=True, help="Draw lines to all parents, of all branches or of the one in URL."
)
@click.option("--stat", is_flag=True, help="Also show what each commit changed.")
@click.option("--all", "everything", is_flag=True, help="The commits of all branches.")
@click.option("-n", "--count", type=click.IntRange(0), help="So many commits at most.")
@_AS_OF
@_JSON
@_with_errors
def log(
    url: str, graph: bool, stat: bool, everything: bool, count: int | None, as_of: str | None, as_json: bool
) -> None:
    """Show the commits of URL[@branch, @commit or @tag], newest first."""
    logged.log(
        url,
        graph=graph,
        stat=stat,
        everything=everything,
        count=count,
        as_of=moment(as_of),
        as_json=as_json,
    )


@main.command()
@click.argument("url")
@click.argument("name", required=False)
@click.argument("commit", required=False)
@click.option("-m", "--message", help="Why it has this name.")
@click.option("-d", "--delete", is_flag=True, help="Delete the tag; its commit stays.")
@_JSON
@_with_errors
def tag(
    url: str, name: str | None, commit: str | None, message: str | None, delete: bool, as_json: bool
) -> None:
    """List the tags of URL; with NAME give that name to COMMIT, or to the last commit of URL[@branch]."""
    tagging.tag(url, name, commit, message, delete=delete, as_json=as_json)


@main.command()
@click.argument("url")
@click.argument("name", required=False)
@click.option("-d", "--delete", is_flag=True, help="Delete the branch with the commits that only it has.")
@click.option("--force", is_flag=True, help="Delete it also if it was merged into another branch.")
@_JSON
@_with_errors
def branch(url: str, name: str | None, delete: bool, force: bool, as_json: bool) -> None:
    """List the branches of URL; with NAME start a branch at URL[@branch, @commit or @tag].

    What is not committed there is committed first, as a checkout does; URL@HEAD~1 starts at the last commit.
    """
    branching.branch(url, name, delete=delete, force=force, as_json=as_json)


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


@main.command()
@click.argument("url")
@click.option(
    "--plan", "apply", flag_value=False, type=bool, default=False, help="Only tell what would be done."
)
@click.option(
    "--apply", "apply", flag_value=True, type=bool, help="Do it: damaged heads get sound ones beside them."
)
@_JSON
@_with_errors
def repair(url: str, apply: bool, as_json: bool) -> None:
    """Save what can be saved of URL after a crash of Deep Lake 3.x or damage. Exit status 1: some remains."""
    repairing.repair(url, apply=apply, as_json=as_json)


@main.command()
@click.argument("src")
@click.argument("dest", required=False)
@click.option("-t", "--tensor", "tensors", multiple=True, help="Only this tensor; may be repeated.")
@click.option("--overwrite", is_flag=True, help="Replace a dataset at DEST, or begin anew.")
@click.option("--ignore-errors", is_flag=True, help="Leave empty samples where links lead nowhere.")
@click.option("--progress/--no-progress", default=True, help="Show how far it is.")
@_JSON
@_with_errors
def materialize(
    src: str,
    dest: str | None,
    tensors: tuple[str, ...],
    overwrite: bool,
    ignore_errors: bool,
    progress: bool,
    as_json: bool,
) -> None:
    """Fetch what the links of SRC lead to: into a copy at DEST, or in their place. Goes on where it was stopped.

    Exit status 1: some links lead nowhere.
    """
    materializing.materialize(
        src,
        dest,
        tensors or None,
        overwrite=overwrite,
        ignore_errors=ignore_errors,
        progressbar=progress,
        as_json=as_json,
    )


@main.command()
@click.argument("url")
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
@click.option(
    "--grace",
    type=garbage.Duration(),
    default=None,
    help="How long everything stays after it was last in use: 90s, 15m, 1h (the default), 7d.",
)
@_JSON
@_with_errors
def gc(url: str, dry_run: bool, grace: float | None, as_json: bool) -> None:
    """Remove from URL what no branch, tag, commit, saved view or reader needs. Writers and readers may go on."""
    garbage.gc(url, grace=grace, dry_run=dry_run, as_json=as_json)


@main.command()
@click.argument("src")
@click.argument("dest")
@click.option("-t", "--tensor", "tensors", multiple=True, help="Only this tensor or group; may be repeated.")
@click.option(
    "--flat", is_flag=True, help="What the dataset holds now, or at SRC@VERSION, without its history."
)
@click.option("--overwrite", is_flag=True, help="Replace a dataset at DEST.")
@click.option("--progress/--no-progress", default=True, help="Show how far it is.")
@_JSON
@_with_errors
def cp(
    src: str,
    dest: str,
    tensors: tuple[str, ...],
    flat: bool,
    overwrite: bool,
    progress: bool,
    as_json: bool,
) -> None:
    """Copy a dataset with its history from SRC to DEST; after a kill, the same command goes on."""
    copying.cp(
        src,
        dest,
        list(tensors) or None,
        flat=flat,
        overwrite=overwrite,
        progressbar=progress,
        as_json=as_json,
    )


@main.command()
@click.argument("url", required=False)
@click.option("--creds-key", help="Name of the credentials to use.")
@click.option("--read-only", is_flag=True, help="Write nothing to URL, not even for a moment.")
@_JSON
@_with_errors
def doctor(url: str | None, creds_key: str | None, read_only: bool, as_json: bool) -> None:
    """Tell what is installed, and whether URL can be reached and relied on. Exit status 1: it can not be reached."""
    doctors.doctor(url, creds_key, read_only=read_only, as_json=as_json)


@main.group(cls=Commands)
def creds() -> None:
    """Keep credentials under names, for datasets that store only the names. Nothing here shows a secret."""


_OPTION = click.option(
    "-o",
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="What is no secret: endpoint_url, aws_region, profile_name, provider, urls, ...",
)
_KIND = click.option(
    "--kind",
    type=click.Choice(credentials.KINDS),
    default="s3",
    show_default=True,
    help="What to ask for at a terminal; else a JSON dictionary is read from standard input.",
)
_KEYRING = click.option(
    "--keyring", "in_keyring", is_flag=True, help="In the keyring of the operating system, not in the file."
)


@creds.command(name="list")
@click.argument("url", required=False)
@_JSON
@_with_errors
def list_creds(url: str | None, as_json: bool) -> None:
    """List the names that are known here, or those in the dataset URL. Exit status 1: the dataset lacks some."""
    credentials.show(url, as_json=as_json)


@creds.command(name="set")
@click.argument("name")
@_OPTION
@_KIND
@_KEYRING
@_with_errors
def set_creds(name: str, options: tuple[str, ...], kind: str, in_keyring: bool) -> None:
    """Store credentials under NAME, in place of any before: from a prompt, or JSON on standard input."""
    credentials.put(name, options, kind, in_keyring=in_keyring)


@creds.command(name="remove")
@click.argument("name")
@_KEYRING
@_with_errors
def remove_creds(name: str, in_keyring: bool) -> None:
    """Remove what is stored under NAME."""
    credentials.drop(name, in_keyring=in_keyring)


@creds.command(name="test")
@click.argument("name")
@click.argument("url")
@_JSON
@_with_errors
def test_creds(name: str, url: str, as_json: bool) -> None:
    """Ask for one object, or one line of a list, at URL with the credentials NAME. Exit status 1: not let in."""
    credentials.test(name, url, as_json=as_json)


@creds.command(name="rotate")
@click.argument("name")
@click.argument("url", required=False)
@click.option("--back", is_flag=True, help="Bring back what it was before the last rotation.")
@_OPTION
@_KIND
@_with_errors
def rotate_creds(name: str, url: str | None, back: bool, options: tuple[str, ...], kind: str) -> None:
    """Replace the credentials NAME; they stay as they were if URL does not let the new ones in."""
    credentials.rotate(name, url, options, kind, back=back)
