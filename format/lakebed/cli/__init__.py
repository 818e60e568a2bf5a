"""The ``lakebed`` command, for datasets from a shell: one file for each command, which calls public names and prints.

A folder holds the commands of one heading of ``lakebed --help``. The options of a command and its help are in the file
of its code. Only the file of the command that is called is loaded; the list of commands takes their first sentences
from the sources.
"""

from __future__ import annotations

import click

import lakebed
from lakebed.cli.commands import Commands, Loaded

# Heading in the help -> folder of its commands, and the commands in the order of the help.
_GROUPS = {
    "Look": ("look", "view ls info head query sql serve views du"),
    "Bring in and out": ("exchange", "import export cp upgrade materialize"),
    "Versions": ("versions", "log diff commit tag branch merge rename"),
    "Keep": ("keep", "pack unpack backup backups restore gc delete"),
    "Mend": ("mend", "verify repair doctor"),
    "Set up": ("setup", "index statistics allow creds completion"),
}


@click.group(cls=Commands, commands=Loaded(__name__, _GROUPS))
@click.version_option(lakebed.__version__, prog_name="lakebed")
def main() -> None:
    """Look at, import, copy and mend tensor datasets in the Deep Lake 3.x format.

    URL, SRC and DATASET are paths, or addresses in a bucket. photos@v1 is a version of a dataset: a branch, commit or
    tag. head, info, query, export and cp also take a split of it, photos:train, and rows, 'photos[0:100]' or
    'photos@v1:train[3,5]'.
    """
