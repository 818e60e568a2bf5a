"""The list of saved views: `queries.json`, and the same entry as info of a view's own data (format.md 12).

    [{"id": text, "virtual-datasource": bool, "source-dataset": address, "source-dataset-version": id of a commit,
      "created_at": POSIX seconds, "message"?: text, "query"?: text, "tql_query"?: text,
      "source-dataset-index": selectors or null, "first-index-subscriptable"?: bool, "sub-sample-index"?: selectors,
      "path"?: folder}, ...]

The data are in `.queries/<path or id>/`. Selectors are a list with one entry for each axis: a number, a list of
numbers, or `{"start": , "stop": , "step": }`. Unknown members are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakebed.documents import fields, json_style
from lakebed.errors import FormatError

FILE = "queries.json"
FOLDER = ".queries/"
"""Folder with the data of views."""

_FLAG = "virtual-datasource"


@dataclass(frozen=True, slots=True)
class SavedView:
    """An entry of the list of saved views."""

    doc: Mapping[str, Any]

    @classmethod
    def from_json(cls, doc: Any, what: str = FILE) -> SavedView:
        """Read one entry.

        Raises
        ------
        FormatError
            If a member is missing or of the wrong type, or the folder could lead out of the dataset.
        """
        if not isinstance(doc, dict) or not isinstance(doc.get("id"), str):
            raise FormatError(f"{what}: an entry is not an object with the id of a view")
        named = f"{what}: view {doc['id']!r:.60}"
        fields.optional(doc, str, ("message", "query", "tql_query", "path", "source-dataset"), named)
        fields.optional(doc, bool, (_FLAG, "first-index-subscriptable"), named)
        found = cls(doc)
        if found.place:
            fields.checked_key(found.place, named)
        fields.checked_version(doc.get("source-dataset-version"), named)
        return found

    @property
    def id(self) -> str:
        """Name of the view."""
        return str(self.doc["id"])

    @property
    def place(self) -> str:
        """The folder with the data of the view, below `.queries/`."""
        return str(self.doc.get("path") or self.id)

    @property
    def folder(self) -> str:
        """Prefix of the keys of the view's data."""
        return f"{FOLDER}{self.place}/" if self.place else FOLDER

    @property
    def is_virtual(self) -> bool:
        """Return whether only row numbers are stored, not samples."""
        return bool(self.doc.get(_FLAG, True))

    @property
    def version(self) -> str:
        """Id of the commit to which the view's rows belong."""
        return str(self.doc["source-dataset-version"])

    @property
    def source(self) -> str | None:
        """Address that the dataset had when the view was saved."""
        found = self.doc.get("source-dataset")
        return None if found is None else str(found)

    @property
    def is_single(self) -> bool:
        """Return whether the view is a single row, without the sample axis."""
        axes = self.doc.get("source-dataset-index")
        is_int = isinstance(axes, list) and bool(axes) and type(axes[0]) is int
        return is_int or self.doc.get("first-index-subscriptable") is False

    @property
    def inside(self) -> Any:
        """Selectors within samples; None for whole samples."""
        return self.doc.get("sub-sample-index")

    def changed(self, members: Mapping[str, Any]) -> SavedView:
        """Return an entry with some members changed."""
        return SavedView({**self.doc, **members})


@dataclass(frozen=True, slots=True)
class SavedViews:
    """All entries, in the order in which they were saved."""

    entries: tuple[SavedView, ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes) -> SavedViews:
        """Parse `queries.json`.

        Raises
        ------
        FormatError
            If the document is not a list, or an entry is damaged.
        """
        docs = json_style.load(data, FILE)
        if not isinstance(docs, list):
            raise FormatError(f"{FILE} is not a list")
        return cls(tuple(map(SavedView.from_json, docs)))

    def to_bytes(self) -> bytes:
        """Write `queries.json`."""
        return json_style.dump_compact([dict(entry.doc) for entry in self.entries])

    def __iter__(self) -> Iterator[SavedView]:
        return iter(self.entries)

    def find(self, name: str) -> SavedView | None:
        """Return the view with an id, or None."""
        return next((entry for entry in self.entries if entry.id == name), None)

    def with_entry(self, entry: SavedView) -> SavedViews:
        """Return the list with an entry, which replaces an entry with the same id."""
        if self.find(entry.id) is None:
            return SavedViews((*self.entries, entry))
        return SavedViews(tuple(entry if other.id == entry.id else other for other in self.entries))

    def without(self, name: str) -> SavedViews:
        """Return the list without the view that has an id."""
        return SavedViews(tuple(entry for entry in self.entries if entry.id != name))

    def owner(self, key: str) -> SavedView | None:
        """Return the view whose folder contains an object; if several do, the view with the innermost folder."""
        found = [entry for entry in self.entries if key.startswith(entry.folder)]
        return max(found, key=lambda entry: len(entry.folder), default=None)
