"""The ``lakebed`` command, for datasets from a shell: a file for each command, which calls public names and prints.

The options of a command and its help stand beside what it does. Only the file of the command that is called is loaded:
the list of commands in the help comes from the table below.
"""

from __future__ import annotations

import click

import lakebed
from lakebed.cli.output import Commands, Loaded

# Name -> where it is below this package, and the first sentence of its help.
_COMMANDS = {
    "allow": (
        "allow.allow",
        "Let the links of all datasets lead into FOLDER and below, for you and from now on.",
    ),
    "backup": (
        "backup.backup",
        "Back up dataset SRC with all versions to DEST: only what is new, all or nothing; after a kill, it goes on.",
    ),
    "backups": ("backups.backups", "List the backups at DEST, the oldest first."),
    "branch": (
        "branch.branch",
        "List the branches of URL; with NAME start a branch at URL[@branch, @commit or @tag].",
    ),
    "commit": ("commit.commit", "Make a commit of what changed in URL[@branch]."),
    "completion": (
        "completion.completion",
        "Print what makes SHELL complete the commands and options of lakebed, and the names of tensors after -t.",
    ),
    "cp": (
        "cp.cp",
        "Copy a dataset with its history from SRC to DEST; after a kill, the same command goes on.",
    ),
    "creds": ("creds.creds", "Keep credentials under names, for datasets that store only the names."),
    "delete": (
        "delete.delete",
        "Delete URL with all its versions, or with -t only tensors from its last version.",
    ),
    "diff": (
        "diff.diff",
        "Show what changed in URL[@branch or @commit] since its last commit, since ID_1, or between ID_1 and ID_2.",
    ),
    "doctor": ("doctor.doctor", "Tell what is installed, and whether URL can be reached and relied on."),
    "du": (
        "du.du",
        "Show how many bytes URL takes: by tensor, branch and version, what branches share, and what nothing needs.",
    ),
    "export": (
        "export.export",
        "Write a dataset in another format; lakebed export FORMAT --help lists the options of a format.",
    ),
    "gc": ("gc.gc", "Remove from URL what no branch, tag, commit, saved view or reader needs."),
    "head": ("head.head", "Show the first rows of URL[@branch, @commit or @tag]."),
    "import": (
        "import_.import_",
        "Import a data set of another format; lakebed import FORMAT --help lists the options of a format.",
    ),
    "index": ("index.index", "List the indexes of DATASET; with TENSOR and KIND make one."),
    "info": ("info.info", "Show schema, lengths, versions and info of URL[@branch, @commit or @tag]."),
    "log": ("log.log", "Show the commits of URL[@branch, @commit or @tag], newest first."),
    "ls": (
        "ls.ls",
        "List the datasets at and below a folder or a prefix of a bucket, and the streams that syncs fill them from.",
    ),
    "materialize": (
        "materialize.materialize",
        "Fetch what the links of SRC lead to: into a copy at DEST, or in their place.",
    ),
    "merge": ("merge.merge", "Merge a branch, commit or tag of URL[@branch] into that branch."),
    "pack": (
        "pack.pack",
        "Write DATASET with its history to one FILE, whose name ends in .lake, and which opens in place, for reading.",
    ),
    "query": (
        "query.query",
        "Answer QUERY, in the tensor query language, about URL[@branch, @commit or @tag].",
    ),
    "rename": ("rename.rename", "Give the tensor or group NAME of URL[@branch] the name NEW."),
    "repair": ("repair.repair", "Save what can be saved of URL after a crash of Deep Lake 3.x or damage."),
    "restore": (
        "restore.restore",
        "Make a dataset at DEST from the backups at BACKUP, byte for byte; after a kill, the same command goes on.",
    ),
    "statistics": (
        "statistics.statistics",
        "Note what the chunks of DATASET hold, for the queries of those who may only read it.",
    ),
    "tag": (
        "tag.tag",
        "List the tags of URL; with NAME give that name to COMMIT, or to the last commit of URL[@branch].",
    ),
    "unpack": (
        "pack.unpack",
        "Make a dataset that can be written of a packed one; after a kill, the same command goes on.",
    ),
    "upgrade": (
        "upgrade.upgrade",
        "Copy a dataset of Deep Lake 2, 3 or 4 from SRC to DEST, with checksums, and verify the copy.",
    ),
    "verify": ("verify.verify", "Check URL, or only URL[@branch or @commit]: documents, chunks, checksums."),
    "view": ("view.view", "Look at PATH, a dataset or a folder of some, in the browser."),
    "views": (
        "views.views",
        "List the saved views of DATASET; --delete ID removes one, --materialize ID DEST makes a dataset of its rows.",
    ),
}


# Heading in the help -> its commands, in this order.
_GROUPS = {
    "Look": "view ls info head query views du",
    "Bring in and out": "import export cp upgrade materialize",
    "Versions": "log diff commit tag branch merge rename",
    "Keep": "pack unpack backup backups restore gc delete",
    "Mend": "verify repair doctor",
    "Set up": "index statistics allow creds completion",
}


@click.group(cls=Commands, commands=Loaded(__name__, _COMMANDS, _GROUPS))
@click.version_option(lakebed.__version__, prog_name="lakebed")
def main() -> None:
    """Look at, import, copy and mend tensor datasets in the Deep Lake 3.x format.

    URL, SRC and DATASET are paths, or addresses in a bucket. photos@v1 is a version of a dataset: a branch, commit or
    tag. head, info, query, export and cp also take a split of it, photos:train, and rows, 'photos[0:100]' or
    'photos@v1:train[3,5]'.
    """
