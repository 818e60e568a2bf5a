"""Credentials in a TOML file that only its owner can read, one table each.

It is ``~/.config/lakebed/credentials.toml``, or what ``LAKEBED_CREDS_FILE`` names::

    [lab]
    aws_access_key_id = "..."
    aws_secret_access_key = "..."
    endpoint_url = "https://s3.lab.example"

    ["team/prod"]
    provider = "aws-secretsmanager"
    secret_id = "prod/datasets"
"""

from __future__ import annotations

import fcntl
import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakebed.credentials import toml_text
from lakebed.credentials.base import entry
from lakebed.credentials.environment import FILE
from lakebed.errors import InvalidInputError, StorageError, StoragePermissionError
from lakebed.storage.credentials import Given

_MOST_BYTES = 1 << 20
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class OwnersFile:
    """Reads the file whenever it is asked: it is small, and may have changed."""

    name = "file"

    def find(self, key: str) -> Given | None:
        """Return the entry of a name, None if the file has none, or there is no file.

        Raises
        ------
        StoragePermissionError
            If others can read the file, or it belongs to another user.
        InvalidInputError
            If it is no TOML, or the entry none of credentials.
        """
        tables = _tables(path())
        if key not in tables:
            return None
        found = tables[key]
        if found is None:
            raise InvalidInputError(
                f"[{key}] in {path()} is no table of credentials: it takes text, numbers, lists and tables of text"
            )
        return found

    def names(self) -> list[str]:
        """Return the names of the tables."""
        return sorted(_tables(path()))

    def place(self, key: str) -> str:  # noqa: ARG002 - one of many
        """Return where the file is."""
        return str(path())

    def change(self, key: str, edit: Callable[[Given | None], Mapping[str, Any] | None]) -> None:
        """Replace one table, leaving all else in the file as it is; the old file or the new one is there at any time.

        Parameters
        ----------
        edit
            What the table will hold, from what it holds; None removes it.

        Raises
        ------
        StoragePermissionError, InvalidInputError
            As for :meth:`find`, or if the file cannot be written.
        """
        place = path()
        with _alone(place):
            old = _tables(place)
            problem = _replace(place, key, edit(old.get(key)))
        if problem is not None:
            raise InvalidInputError(f"{place} was not changed: {problem}")


def path() -> Path:
    """Return where the file is, or would be."""
    given = os.environ.get(FILE)
    if given:
        return Path(given).expanduser()
    return (
        Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "lakebed" / "credentials.toml"
    )


def _tables(place: Path) -> dict[str, Given | None]:
    """Return the tables by name, None for one that is no entry. The text of the file stays out of this frame."""
    problem, tables = _parsed(place)
    if problem is not None:
        raise InvalidInputError(f"{place} can not be used: {problem}")
    return tables


def _parsed(place: Path) -> tuple[str | None, dict[str, Given | None]]:
    """Read the file; return what is wrong with it instead of raising, as an error here would show its text."""
    data = _content(place)
    if data is None:
        return None, {}
    try:
        return None, {key: entry(value) for key, value in tomllib.loads(data.decode("utf-8")).items()}
    except UnicodeDecodeError:
        return "it is no UTF-8", {}
    except tomllib.TOMLDecodeError as error:
        # The message may quote the line that it is about.
        where = str(error).rpartition("(at ")[2].rstrip(")") if "(at " in str(error) else "its end"
        return f"it is no TOML at {where}", {}


def _content(place: Path) -> bytes | None:
    try:
        fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoragePermissionError(
            f"{place} can not be opened: {error.strerror}", errno=error.errno
        ) from error
    with os.fdopen(fd, "rb") as file:
        _check_private(place, os.fstat(fd))
        return file.read(_MOST_BYTES)


def _check_private(place: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StoragePermissionError(f"{place} is no file, and no credentials are taken from it")
    if status.st_uid not in (os.geteuid(), 0):
        raise StoragePermissionError(
            f"{place} belongs to somebody else, and no credentials are taken from it"
        )
    if status.st_mode & _OTHERS:
        raise StoragePermissionError(
            f"{place} can be read or written by others (mode {stat.S_IMODE(status.st_mode):04o}), and no credentials "
            f"are taken from it: chmod 600 {place}, and replace what is in it if others had a chance to read it"
        )
    if status.st_size > _MOST_BYTES:
        raise InvalidInputError(f"{place} holds {status.st_size} bytes, which can not be credentials only")


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Keep other processes from changing the file at the same time."""
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(f"{place}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoragePermissionError(
            f"{place.parent} takes no file with credentials: {error.strerror}", errno=error.errno
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _replace(place: Path, key: str, values: Mapping[str, Any] | None) -> str | None:
    """Write the file anew with another table of a name; return what went wrong instead of raising."""
    text = (_content(place) or b"").decode("utf-8")
    changed = toml_text.with_table(text, key, values)
    if changed is None:
        return f"the table [{key}] can not be told apart from what is around it; change it in an editor"
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        _write(draft, changed)
        draft.replace(place)
    except OSError as error:
        draft.unlink(missing_ok=True)
        return str(error.strerror)
    _sync_folder(place.parent)
    return None


def _write(draft: Path, text: str) -> None:
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        raise StorageError(
            f"{folder} can not be made durable: {error.strerror}", errno=error.errno
        ) from error
    finally:
        os.close(fd)
