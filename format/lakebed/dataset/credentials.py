"""Names of credentials that links use: ``linked_creds.json`` (FORMAT.md 13). The secrets are nowhere in a dataset."""

from __future__ import annotations

from lakebed.documents import json_style
from lakebed.errors import FormatError, KeyNotFound
from lakebed.storage.base import Storage

KEY = "linked_creds.json"


def creds_names(storage: Storage) -> list[str]:
    """Return the declared names in the order of their codes.

    Raises
    ------
    FormatError
        If the file is damaged.
    """
    try:
        data = storage.get(KEY)
    except KeyNotFound:
        return []
    names = json_style.load_object(data, KEY).get("creds_keys", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(f"{KEY}: creds_keys is no list of names")
    return names


def name_of(names: list[str], code: int) -> str | None:
    """Return the name that a code stands for (FORMAT.md 4.5); None for no credentials.

    Raises
    ------
    FormatError
        If no name has the code.
    """
    if code == 0:
        return None
    if not 0 < code <= len(names):
        raise FormatError(f"{KEY} declares {len(names)} names, but a link uses number {code}")
    return names[code - 1]
