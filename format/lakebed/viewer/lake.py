"""The datasets of a place, by number, and those that are open: each at one version that does not change."""

from __future__ import annotations

import base64
import pickle
import shutil
import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lakebed
from lakebed import config
from lakebed.dataclass import replace
from lakebed.dataset.open import open_at
from lakebed.errors import CheckoutError, DatasetHandlerError, LakebedError, LockedWarning, NotFoundError
from lakebed.query.functions.registry import FUNCTIONS, SPECIAL
from lakebed.storage.address import shown
from lakebed.storage.url import Location, open_storage, parse
from lakebed.versions.tree_file import TREE_KEY

_MOST_OPEN = 16
_KEYWORDS = (
    "SELECT FROM WHERE GROUP BY HAVING UNGROUP SPLIT EXPAND ORDER ASC DESC LIMIT OFFSET SAMPLE ARRANGE UNION "
    "INTERSECT EXCEPT AS AND OR NOT IN BETWEEN LIKE ILIKE IS NULL CASE WHEN THEN ELSE END CAST DISTINCT ALL ANY "
    "CONTAINS TRUE FALSE"
).split()


class Gone(NotFoundError):
    """A version, or a dataset, that was there is no more."""


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
        self.number = number
        self.name = name
        self.session = session
        self.ds = ds
        self.version: str = session.snapshot.version_id
        self.is_lasting = not ds.is_head_node
        self.tensors: dict[str, lakebed.Tensor] = dict(ds.tensors)
        self.kept: dict[str, Any] = {}

    def tensor(self, name: str) -> lakebed.Tensor:
        """Return a tensor of the schema.

        Raises
        ------
        NotFoundError
            If there is none of this name.
        """
        if name not in self.tensors:
            raise NotFoundError(f"there is no tensor {name!r:.200} in this version")
        return self.tensors[name]


class Lake:
    """The datasets at and below an address.

    Parameters
    ----------
    given
        Settings of the process that started this one: ``creds`` of the store, ``link_roots`` and ``link_hosts``, where
        links may lead, ``temporary``, a folder to remove in the end.

    Attributes
    ----------
    rows : dict
        Rows that the process that started this one shows, by name.
    """

    def __init__(self, path: str, given: Mapping[str, Any]) -> None:
        config.LINK_ROOTS = (*config.LINK_ROOTS, *given.get("link_roots", ()))
        config.LINK_HOSTS = (*config.LINK_HOSTS, *given.get("link_hosts", ()))
        # From the process that started this one, through a pipe.
        creds = given.get("creds")
        self._path, self._creds = path, None if creds is None else pickle.loads(base64.b64decode(creds))  # noqa: S301
        self._temporary = given.get("temporary")
        self._place = parse(path, existing=True, creds=self._creds)
        self.rows: dict[str, Sequence[int]] = {}
        self._mutex = threading.RLock()
        self._open: OrderedDict[tuple[int, str], Opened] = OrderedDict()
        self._heads: dict[
            tuple[int, str], tuple[str, str]
        ] = {}  # (dataset, at) -> identity of the tree, version
        self._places: dict[tuple[str, str], int] = {}
        self._found: list[tuple[str, Location]] = []
        self.is_single = True
        try:
            open_at(self._place, read_only=True)
        except DatasetHandlerError:
            if self._place.scheme in ("mem", "http", "https") or not self._is_folder():
                raise
            self.is_single = False  # what lies in it is looked for once somebody asks
        else:
            self._number(self._place.shown.rstrip("/").rpartition("/")[2], self._place)

    def _is_folder(self) -> bool:
        return self._place.scheme != "file" or Path(self._place.path).is_dir()

    def _number(self, name: str, place: Location) -> int:
        key = (name, place.ref or "")
        if key not in self._places:
            self._places[key] = len(self._found)
            self._found.append((name, place))
        return self._places[key]

    def close(self) -> None:
        """Remove what is there for this process only."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def names(self) -> list[str]:
        """Return the names of the datasets, by number."""
        return [name for name, _ in self._found]

    def listed(self) -> dict[str, Any]:
        """Return what there is: `Lake` of types.ts."""
        found = [] if self.is_single else lakebed.ls(self._path, creds=self._creds)
        with self._mutex:
            datasets = [self._row(0)] if self.is_single else list(map(self._entry, found))
        title = shown(self._path).rstrip("/").rpartition("/")[2]
        return {
            "title": title or shown(self._path),
            "path": shown(self._path),
            "single": self.is_single,
            "datasets": datasets,
            "language": {"keywords": _KEYWORDS, "functions": sorted({*FUNCTIONS, *SPECIAL})},
        }

    def _entry(self, found: Mapping[str, Any]) -> dict[str, Any]:
        branch = found["branch"] if found["branch"] not in (None, "main") else None
        below = found["path"]
        path = self._place.path if below == "." else f"{self._place.path.rstrip('/')}/{below}"
        number = self._number(
            below if branch is None else f"{below}@{branch}", replace(self._place, path=path, ref=branch)
        )
        is_near = found["error"] is None and self._place.scheme == "file"
        return {
            "id": number,
            "name": self._found[number][0],
            "rows": found["rows"],
            "bytes": _size(self.place(number)) if is_near else None,
            "changed": self._changed(number),
            "mode": (found["stream"] or {}).get("mode"),
            "error": found["error"],
        }

    def _row(self, number: int) -> dict[str, Any]:
        opened = self.open(number)
        stream = opened.ds.info.get("airbyte")
        return {
            "id": number,
            "name": opened.name,
            "rows": opened.ds.max_len,
            "bytes": opened.ds.size_approx(),
            "changed": self._changed(number),
            "mode": stream.get("mode") if isinstance(stream, dict) else None,
            "error": None,
        }

    def _changed(self, number: int) -> float | None:
        found = open_storage(self.place(number)).stat(TREE_KEY)
        return (found.modified or found.stored) / 1e9 or None if found is not None else None

    # -- opening -----------------------------------------------------------------------------------------------------

    def place(self, number: int) -> Location:
        """Return where a dataset lies.

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
        """Open a dataset at a version: a branch, commit, tag, ``id:`` and the id of a version; "" is where it begins.

        Raises
        ------
        Gone
            If the version, or the dataset, is no longer there.
        CheckoutError
            If there is no such version.
        """
        place = self.place(number)
        with self._mutex:
            exact = at.removeprefix("id:") if at.startswith("id:") else None
            if exact is not None and (number, exact) in self._open:
                self._open.move_to_end((number, exact))
                return self._open[number, exact]
            known, tree = self._heads.get((number, at)), self._tree(number)
            if known is not None and known[0] == tree and (number, known[1]) in self._open:
                self._open.move_to_end((number, known[1]))
                return self._open[number, known[1]]
            found = self._opened(number, place, at, exact)
            if exact is None:
                self._heads[number, at] = tree, found.version
            self._open.pop((number, found.version), None)  # which knew less of the other versions
            self._open[number, found.version] = found
            while len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
            return found

    def _tree(self, number: int) -> str:
        """Return the identity of the file that names all versions, which each publish replaces."""
        found = open_storage(self.place(number)).stat(TREE_KEY)
        if found is None:
            raise Gone(f"dataset {self._found[number][0]!r} was deleted, or moved")
        return found.etag

    def _opened(self, number: int, place: Location, at: str, exact: str | None) -> Opened:
        handle = open_at(place, read_only=True)
        ds = lakebed.Dataset(handle)
        if exact is not None:
            try:
                ds.checkout(exact)
            except CheckoutError as error:
                raise Gone("this version was replaced by a newer one; load the dataset again") from error
            if handle.session.snapshot.version_id != exact:
                raise Gone("this version was replaced by a newer one; load the dataset again")
        elif at:
            ds.checkout(at)
        return Opened(number, self._found[number][0], handle.session, ds)

    def writable(self, opened: Opened) -> lakebed.Dataset:
        """Open the dataset of a version, to save a view of it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LockedWarning)
            ds = lakebed.Dataset(open_at(replace(self.place(opened.number), ref=None)))
        ds.checkout(opened.version if opened.is_lasting else opened.ds.branch)
        return ds

    def check(self, opened: Opened) -> None:
        """Raise `Gone` if a version is no longer there, which explains why samples of it cannot be read."""
        found = self.explained(opened, LakebedError())
        if isinstance(found, Gone):
            raise found

    def explained(self, opened: Opened, error: LakebedError) -> LakebedError:
        """Return why a version cannot be read: that it is gone, if it is."""
        with self._mutex:
            try:
                self._tree(opened.number)
                self._opened(opened.number, self.place(opened.number), "", opened.version)
            except Gone as gone:
                self._open.pop((opened.number, opened.version), None)
                return gone
            except LakebedError:
                return error
        return error


def _size(place: Location) -> int:
    return lakebed.Dataset(open_at(place, read_only=True)).size_approx()
