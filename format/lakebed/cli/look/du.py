"""``lakebed du``: disk usage of a dataset by tensor, branch and version."""

from __future__ import annotations

import click

from lakebed.cli import describe
from lakebed.cli.cells import size
from lakebed.cli.commands import command
from lakebed.cli.output import say_json, say_lines, table
from lakebed.maintenance.usage import OfTensor, Usage, Used, usage
from lakebed.storage.url import parse

_VERSIONS = 20
_HIDDEN = "(ids, shapes, nulls)"


@command
@click.argument("url")
def du(url: str, as_json: bool) -> None:
    """Show the disk usage of URL by tensor, branch and version, with shared and unneeded bytes.

    URL[@branch, @commit or @tag] chooses the version whose tensors are listed. The command reads only lists of
    files and the indexes.

    For example: lakebed du photos
    """
    found = usage(parse(url, existing=True))
    if as_json:
        say_json(found.to_json())
    else:
        say_lines(_text(found))


def _text(found: Usage) -> str:
    shown = {name: one for name, one in found.tensors.items() if not one.hidden}
    hidden = OfTensor(True)
    for one in found.tensors.values():
        for total, part in ((hidden.now, one.now), (hidden.all, one.all)) if one.hidden else ():
            total.bytes, total.files = total.bytes + part.bytes, total.files + part.files
    if hidden.all.files:
        shown[_HIDDEN] = hidden
    tensors = [[name, *_pair(one.now), *_pair(one.all)] for name, one in shown.items()]
    branches = [[name, *_pair(one.needed), size(one.shared.bytes)] for name, one in found.branches.items()]
    versions = [
        [
            version[:12],
            one.branch or "-",
            size(one.data.bytes),
            size(one.metadata.bytes),
            f"{one.data.files + one.metadata.files:,}",
            describe.cell("in no history" if one.branch is None else (one.message or "")),
        ]
        for version, one in found.versions.items()
    ]
    parts = [
        table(
            ["tensor", f"on {found.branch}", "files", "all versions", "files"], tensors, right={1, 2, 3, 4}
        ),
        table(["branch", "needs", "files", "shared"], branches, right={1, 2, 3}),
        table(
            ["version", "branch", "data", "metadata", "files", "message"],
            versions[:_VERSIONS],
            right={2, 3, 4},
        ),
    ]
    if len(versions) > _VERSIONS:
        parts[-1] += f"\n... and {len(versions) - _VERSIONS:,} more; --json lists all"
    return "\n\n".join([*parts, _total(found)])


def _total(found: Usage) -> str:
    files = found.data.files + found.metadata.files
    text = (
        f"{size(found.data.bytes + found.metadata.bytes)} in {files:,} files: {size(found.data.bytes)} data, "
        f"{size(found.metadata.bytes)} metadata"
    )
    left = found.unreferenced
    if left is None:
        return f"{text}; what nothing needs cannot be told: see `lakebed verify`"
    if not left.files:
        return f"{text}; everything is needed"
    return f"{text}; nothing needs {size(left.bytes)} in {left.files:,} files, which `lakebed gc` removes in time"


def _pair(used: Used) -> list[str]:
    return [size(used.bytes), f"{used.files:,}"]
