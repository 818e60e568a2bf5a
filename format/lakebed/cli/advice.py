"""Translation of the advice in messages for the shell: options in place of arguments of Python.

Messages name Python arguments, because most readers write Python. Only the output of commands goes through
:func:`in_shell`. A test finds each phrase in the library, so that a reworded message is noticed, and searches the
library for phrases that are missing here.
"""

from __future__ import annotations

import re

PHRASES: tuple[tuple[str, str], ...] = (
    (
        r"If you want to create a new empty dataset, .* or use overwrite=True\. To open it, use lakebed\.load\(\)\.",
        "Choose another place, or pass --overwrite.",
    ),
    (r"overwrite=True \(--overwrite\)", "--overwrite"),
    (r"\(append=True, --append\)", "(--append)"),
    (r"\(overwrite=True, --overwrite\)", "(--overwrite)"),
    (r"overwrite=True", "--overwrite"),
    (
        r"Check the path, or create one with lakebed\.empty\(\)\.",
        "Check the path; `lakebed ls FOLDER` lists the datasets below a folder.",
    ),
    (
        r"It is a file: lakebed\.read\(path\) reads one, lakebed\.import_from\('auto', path, dest\) imports a table\.",
        "It is a file: `lakebed import auto FILE DEST` makes a dataset of a table.",
    ),
    (
        r"Other files are there: lakebed\.import_from\('auto', path, dest\) makes a dataset of them\.",
        "Other files are there: `lakebed ls FOLDER` lists datasets, `lakebed import auto FOLDER DEST` makes one.",
    ),
    (
        r"If you want to create a new branch, use checkout with create=True\.",
        "`lakebed branch URL NAME` starts a branch.",
    ),
    (r", or open it with read_only=True", ""),
    (r"force=True removes", "--force removes"),
    (
        r"Use conflict_resolution='ours', 'theirs', or a function that chooses\.",
        "Choose with --conflict ours or --conflict theirs.",
    ),
    (r"Pass force=True", "Pass --force"),
    (r"large_ok=True", "--large"),
    (r"allow_empty=True", "--allow-empty"),
    (r"lakebed\.unpack\([^()]*, DEST\), or `lakebed unpack`", "`lakebed unpack FILE.lake DEST`"),
    (r'call lakebed\.allow_links\("[^"]*"\), or name it in', "name it in"),
    (r"; set allow_delete = True on it first", "; a program may set its allow_delete to True"),
)
"""Regular expressions for texts of messages, and their replacements, in the order of application."""


def in_shell(message: str) -> str:
    """Return a message with its advice in the words of a shell.

    Examples
    --------
    >>> in_shell("x is there already; choose another name, or pass overwrite=True")
    'x is there already; choose another name, or pass --overwrite'
    """
    for said, instead in PHRASES:
        message = re.sub(said, instead, message)
    return message
