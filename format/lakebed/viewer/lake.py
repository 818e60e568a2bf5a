"""The datasets of a place, by number, and the open datasets, each at one fixed version."""

from __future__ import annotations

import base64
import pickle
import shutil
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

import lakebed
from lakebed import config, errors
from lakebed.dataset.open import open_at
from lakebed.errors import CheckoutError, InvalidInputError, LakebedError, NotFoundError
from lakebed.query.functions.registry import FUNCTIONS, SPECIAL
from lakebed.query.language.token_stream import KEYWORDS
from lakebed.storage.address import shown
from lakebed.storage.url import Location, open_storage, parse
from lakebed.versions.tree_file import TREE_KEY

_MOST_OPEN = 16

Key = tuple[int, str]
V = TypeVar("V")


class Gone(NotFoundError):
    """A version or dataset no longer exists."""


class Opened:
    """A dataset at one version, for reading.

    Attributes
    ----------
    ds : lakebed.Dataset
        The dataset.
    version : str
        Id of the version.
    is_lasting : bool
        Whether the version is a commit, which never changes.
    """

    def __init__(self, number: int, name: str, session: Any, ds: lakebed.Dataset) -> None:
        self.number, self.name, self.session, self.ds = number, name, session, ds
        self.version: str = session.snapshot.version_id
        self.is_lasting = not ds.is_head_node
        self.tensors: dict[str, lakebed.Tensor] = dict(ds.tensors)
        self.kept: dict[str, Any] = {}

    def tensor(self, name: str) -> lakebed.Tensor:
        """Return a tensor of the schema.

        Raises
        ------
        NotFoundError
            If the tensor does not exist.
        """
        if name not in self.tensors:
            raise NotFoundError(f"there is no tensor {name!r:.200} in this version")
        return self.tensors[name]

    def sample(self, name: str, row: int, frame: int = 0) -> lakebed.Tensor:
        """Return a sample of a tensor, or one item of a sequence.

        Raises
        ------
        NotFoundError
            If the tensor or row does not exist.
        """
        tensor = self.tensor(name)
        if not 0 <= row < len(tensor):
            raise NotFoundError(f"there is no row {row} in tensor {name!r}")
        return item(tensor, row, frame)


def item(tensor: lakebed.Tensor, row: int, frame: int) -> lakebed.Tensor:
    """Return a sample, or one item of a sequence."""
    return tensor[row, frame] if tensor.is_sequence else tensor[row]


Found = tuple[Opened, str, int] | NDArray[Any]
"""A version, tensor and row; or a value that a query computed."""


def keep(kept: dict[Key, V], key: Key, value: V, most: int) -> V:
    """Store a value as the most recently used, and drop the least recently used ones."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        del kept[next(iter(kept))]
    return value


def shape_of(sample: lakebed.Tensor) -> list[int]:
    """Return the shape of one sample."""
    return [int(axis or 0) for axis in sample.shape]


class Lake:
    """The datasets at and below an address.

    Parameters
    ----------
    given
        Settings from the process that started this one: ``creds`` (of the store), ``link_roots`` and ``link_hosts``
        (permitted targets of links), ``patience`` (timeout of requests) and ``temporary`` (a folder to remove at the
        end).

    Attributes
    ----------
    rows : dict
        Rows that the parent process shows, by name.
    """

    def __init__(self, path: str, given: Mapping[str, Any]) -> None:
        config.LINK_ROOTS = (*config.LINK_ROOTS, *given.get("link_roots", ()))
        config.LINK_HOSTS = (*config.LINK_HOSTS, *given.get("link_hosts", ()))
        for name, seconds in given.get("patience", {}).items():
            setattr(config, name, seconds)
        # The parent process sends the credentials through a pipe, so they can be unpickled.
        creds = given.get("creds")
        self._creds = None if creds is None else pickle.loads(base64.b64decode(creds))  # noqa: S301
        self._path = path
        self._temporary = given.get("temporary")
        self._place = parse(path, existing=True, creds=self._creds)
        self.rows: dict[str, Sequence[int]] = {}
        self._mutex = threading.RLock()
        self._open: dict[Key, Opened] = {}
        # (dataset, at) -> identity of the tree, version
        self._heads: dict[Key, tuple[str, str]] = {}
        self._numbers: dict[str, int] = {}
        self._found: list[tuple[str, Location]] = []
        self.is_single = True
        tree = open_storage(self._place).stat(TREE_KEY)
        try:
            handle = open_at(self._place, read_only=True)
        except errors.DatasetHandlerError:
            is_file = self._place.scheme == "file"
            if self._place.scheme in ("mem", "http", "https") or (
                is_file and not Path(self._place.path).is_dir()
            ):
                raise
            self.is_single = False  # the address is a folder, whose datasets are listed at the first request
        else:
            # Keep the dataset for the first request, which opens it again only if it was published meanwhile.
            name = self._place.shown.rstrip("/").rpartition("/")[2]
            opened = Opened(self._number(name, self._place), name, handle.session, lakebed.Dataset(handle))
            self._open[0, opened.version] = opened
            self._heads[0, ""] = "" if tree is None else tree.etag, opened.version

    def _number(self, name: str, place: Location) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._found)
            self._found.append((name, place))
        return self._numbers[name]

    def close(self) -> None:
        """Remove the folder that exists only for this process."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def listed(self) -> dict[str, Any]:
        """Return the list of datasets as JSON for the page (`Lake` of types.ts)."""
        found = [] if self.is_single else lakebed.ls(self._path, creds=self._creds)
        with self._mutex:
            datasets = list(map(self._entry, found))
        if self.is_single:
            ds = self.open(0).ds
            datasets = [self._row(0, ds.max_len, ds.size_approx(), ds.info.get("airbyte"), None)]
        title = shown(self._path).rstrip("/").rpartition("/")[2]
        return {
            "title": title or shown(self._path),
            "path": shown(self._path),
            "single": self.is_single,
            "datasets": datasets,
            "language": {"keywords": KEYWORDS, "functions": sorted({*FUNCTIONS, *SPECIAL})},
        }

    def _entry(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Describe the datasets that `lakebed.ls` found."""
        branch = found["branch"] if found["branch"] not in (None, "main") else None
        name, path = found["path"], self._place.path
        path = path if name == "." else f"{path.rstrip('/')}/{name}"
        place = replace(self._place, path=path, ref=branch)
        number = self._number(name if branch is None else f"{name}@{branch}", place)
        is_near = found["error"] is None and place.scheme == "file"
        size = lakebed.Dataset(open_at(place, read_only=True)).size_approx() if is_near else None
        return self._row(number, found["rows"], size, found["stream"], found["error"])

    def _row(
        self, number: int, rows: int | None, size: int | None, stream: Any, error: str | None
    ) -> dict[str, Any]:
        name, place = self._found[number]
        tree = open_storage(place).stat(TREE_KEY)
        return {
            "id": number,
            "name": name,
            "rows": rows,
            "bytes": size,
            "changed": None if tree is None else (tree.modified or tree.stored) / 1e9 or None,
            "mode": stream.get("mode") if isinstance(stream, dict) else None,
            "error": error,
        }

    # -- opening -----------------------------------------------------------------------------------------------------

    def place(self, number: int) -> Location:
        """Return the address of a dataset.

        Raises
        ------
        NotFoundError
            If the list has no such number.
        """
        if not self._found:
            self.listed()
        if not 0 <= number < len(self._found):
            raise NotFoundError(f"there is no dataset {number} in the list")
        return self._found[number][1]

    def open(self, number: int, at: str = "") -> Opened:
        """Open a dataset at a version: branch, commit, tag, or ``id:`` and an id; "" is the default version.

        Raises
        ------
        Gone
            If the version, or the dataset, is no longer there.
        CheckoutError
            If the version does not exist.
        """
        with self._mutex:
            if at.startswith("id:"):
                tree, version = "", at.removeprefix("id:")
            else:
                tree = self._tree(number)
                known, version = self._heads.get((number, at), ("", ""))
                version = version if known == tree else ""
            found = self._open.get((number, version))
            if found is None:
                # Open the dataset again: a dataset opened earlier may not know the newest versions.
                found = self._opened(number, at)
                self._heads |= {(number, at): (tree, found.version)} if tree else {}
            return keep(self._open, (number, found.version), found, _MOST_OPEN)

    def named(self, name: str, at: str) -> Opened:
        """Open a dataset by its name in the list.

        Raises
        ------
        InvalidInputError
            If the list has no such name.
        """
        if name not in self._numbers:
            raise InvalidInputError(
                "it is not a dataset of this lake; queries in the viewer can only use datasets of this lake"
            )
        return self.open(self._numbers[name], at)

    def _tree(self, number: int) -> str:
        """Return the identity of the version tree, which each publish replaces."""
        found = open_storage(self.place(number)).stat(TREE_KEY)
        if found is None:
            raise Gone(f"dataset {self._found[number][0]!r} was deleted, or moved")
        return found.etag

    def _opened(self, number: int, at: str) -> Opened:
        handle = open_at(self.place(number), read_only=True)
        ds, exact = lakebed.Dataset(handle), at.removeprefix("id:")
        gone = Gone("this version was replaced by a newer one; load the dataset again")
        try:
            if at:
                ds.checkout(exact)
        except CheckoutError as error:
            raise (gone if at != exact else error) from error
        if at != exact and handle.session.snapshot.version_id != exact:
            raise gone
        return Opened(number, self._found[number][0], handle.session, ds)

    def writable(self, opened: Opened) -> lakebed.Dataset:
        """Open the dataset of a version, to save a view of it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.LockedWarning)
            ds = lakebed.Dataset(open_at(replace(self.place(opened.number), ref=None)))
        ds.checkout(opened.version if opened.is_lasting else opened.ds.branch)
        return ds

    def check(self, opened: Opened) -> None:
        """Raise `Gone` if a version no longer exists, as the reason why its samples cannot be read."""
        try:
            self._tree(opened.number)
            self._opened(opened.number, f"id:{opened.version}")
        except Gone:
            with self._mutex:
                self._open.pop((opened.number, opened.version), None)
            raise
        except LakebedError:
            return  # the original error says more than this one
