"""The ``lakebed`` command, for datasets from a shell: a file for each command, which calls public names and prints.

The options of a command and its help stand beside what it does.
"""

from __future__ import annotations

import click

import lakebed
from lakebed.cli import (
    backup,
    backups,
    branch,
    cp,
    creds,
    diff,
    doctor,
    export,
    gc,
    head,
    import_,
    info,
    log,
    ls,
    materialize,
    pack,
    query,
    repair,
    restore,
    tag,
    upgrade,
    verify,
)
from lakebed.cli.output import Commands


@click.group(cls=Commands)
@click.version_option(lakebed.__version__, prog_name="lakebed")
def main() -> None:
    """Look at, import, copy and mend tensor datasets in the Deep Lake 3.x format."""


for _command in (
    backup.backup,
    backups.backups,
    branch.branch,
    cp.cp,
    creds.creds,
    diff.diff,
    doctor.doctor,
    export.export,
    gc.gc,
    head.head,
    import_.import_,
    info.info,
    log.log,
    ls.ls,
    materialize.materialize,
    pack.pack,
    pack.unpack,
    query.query,
    repair.repair,
    restore.restore,
    tag.tag,
    upgrade.upgrade,
    verify.verify,
):
    main.add_command(_command)
