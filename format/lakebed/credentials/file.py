"""Credentials in a TOML file that only its owner can read, one table each.

It is ``~/.config/lakebed/credentials.toml``, or the file that ``LAKEBED_CREDS_FILE`` names::

    [lab]
    aws_access_key_id = "..."
    aws_secret_access_key = "..."
    endpoint_url = "https://s3.lab.example"

    ["team/prod"]
    provider = "aws-secretsmanager"
    secret_id = "prod/datasets"
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lakebed.credentials import toml_text
from lakebed.credentials.base import entry
from lakebed.credentials.environment import FILE
from lakebed.errors import InvalidInputError, StoragePermissionError
from lakebed.errors.stores import storage_error
from lakebed.storage.credentials import Given
from lakebed.storage.files.disk import exclusive, flush_folders

_MOST_BYTES = 1 << 20
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class OwnersFile:
    """Provider that reads the file on each call, because the file is small and may have changed."""

    name = "file"

    def find(self, key: str) -> Given | None:
        """Return the entry of a name; None if the entry or the file does not exist.

        Raises
        ------
        StoragePermissionError
            If others can read the file, or it belongs to another user.
        InvalidInputError
            If the file is not TOML, or the entry holds no credentials.
        """
        tables = _tables(path())
        if key not in tables:
            return None
        found = tables[key]
        if found is None:
            raise InvalidInputError(
                f"[{key}] in {path()} must be a table of credentials: texts, numbers, lists and tables of text by name"
            )
        return found

    def names(self) -> list[str]:
        """Return the names of the tables."""
        return sorted(_tables(path()))

    def place(self, key: str) -> str:  # noqa: ARG002 - one of many
        """Return the path of the file."""
        return str(path())

    def change(self, key: str, edit: Callable[[Given | None], Mapping[str, Any] | None]) -> None:
        """Replace one table and keep the other text of the file; at any time, either the old or the new file exists.

        Parameters
        ----------
        edit
            Returns the new content of the table for the old one; None removes the table.

        Raises
        ------
        StoragePermissionError, InvalidInputError
            As for :meth:`find`, or if the file cannot be written.
        """
        place = path()
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(error, "create", str(place.parent)) from error
        with exclusive(f"{place}.lock"):
            old = _tables(place)
            problem = _replace(place, key, edit(old.get(key)))
        if problem is not None:
            raise InvalidInputError(f"{place} was not changed: {problem}")


def path() -> Path:
    """Return the path of the file, which need not exist."""
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(os.environ.get(FILE) or f"{folder}/lakebed/credentials.toml").expanduser()


def _tables(place: Path) -> dict[str, Given | None]:
    """Return the tables by name, None for a table that is not an entry.

    The text of the file, which holds secrets, is in no variable of this function: its errors show their variables.
    """
    problem, tables = _parsed(place)
    if problem is not None:
        raise InvalidInputError(f"{place} cannot be used: {problem}")
    return tables


def _parsed(place: Path) -> tuple[str | None, dict[str, Given | None]]:
    """Read the file; return the problem instead of raising, since an exception here would show the text."""
    data = _content(place)
    if data is None:
        return None, {}
    try:
        return None, {key: entry(value) for key, value in tomllib.loads(data.decode("utf-8")).items()}
    except UnicodeDecodeError:
        return "it is not UTF-8", {}
    except tomllib.TOMLDecodeError as error:
        # The error's message may quote a line with secrets, so use only its position.
        where = str(error).rpartition("(at ")[2].rstrip(")") if "(at " in str(error) else "its end"
        return f"it is not TOML at {where}", {}


def _content(place: Path) -> bytes | None:
    try:
        fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(error, "open", str(place)) from error
    with os.fdopen(fd, "rb") as file:
        _check_private(place, os.fstat(fd))
        return file.read(_MOST_BYTES)


def _check_private(place: Path, status: os.stat_result) -> None:
    problem = mend = ""
    if not stat.S_ISREG(status.st_mode):
        problem = "is not a file"
    elif status.st_uid not in (os.geteuid(), 0):
        problem = "belongs to another user"
    elif status.st_mode & _OTHERS:
        problem = f"can be read or written by others (mode {stat.S_IMODE(status.st_mode):04o})"
        mend = f": run `chmod 600 {place}`, and replace the credentials in it if others may have read them"
    if problem:
        raise StoragePermissionError(f"{place} {problem}; its credentials are not used{mend}")
    if status.st_size > _MOST_BYTES:
        raise InvalidInputError(f"{place} holds {status.st_size} bytes, too many for a file of credentials")


def _replace(place: Path, key: str, values: Mapping[str, Any] | None) -> str | None:
    """Rewrite the file with the named table replaced; return the problem instead of raising it."""
    text = (_content(place) or b"").decode("utf-8")
    changed = toml_text.with_table(text, key, values)
    if changed is None:
        return f"the table [{key}] cannot be separated from the text around it; change it in an editor"
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        _write(draft, changed)
        draft.replace(place)
    except OSError as error:
        draft.unlink(missing_ok=True)
        return str(error.strerror)
    flush_folders([str(place.parent)])
    return None


def _write(draft: Path, text: str) -> None:
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
