"""Journal of an unfinished copy, in ``.lakebed/copy/`` of the destination.

    source.json       {"source": address, "endpoint": server, "tensors": [names] or null, "head": id or ""}
    <n>-<random>.json {"done": [[key, etag of the source], ...]}

An object need not be copied again if the journal lists it with the etag that it now has in the source. The folder is
removed at the end of the copy.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.documents import json_style
from lakebed.errors import FormatError, KeyNotFound
from lakebed.storage.base import Storage

FOLDER = ".lakebed/copy/"
HEADER = f"{FOLDER}source.json"

# Seconds between writes of the journal; if the process is killed, at most this much of the copying is repeated.
_EVERY = 3.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Source of a copy.

    Parameters
    ----------
    source
        Address of the dataset.
    endpoint
        Address of the server, for object stores that are not a cloud provider's.
    tensors
        Names of the copied tensors; None is all.
    flat
        True if one version is copied, without the history.
    head
        Id that this version has in the copy; "" if the history is copied.
    """

    source: str
    endpoint: str
    tensors: tuple[str, ...] | None
    flat: bool = False
    head: str = field(default="", compare=False)

    @classmethod
    def of(cls, storage: Storage, tensors: Sequence[str] | None, head: str = "") -> Origin:
        """Return the origin of a copy from a storage, or of one version if a head is given."""
        names = None if tensors is None else tuple(sorted(tensors))
        return cls(storage.url, str(getattr(storage, "endpoint", "")), names, bool(head), head)

    def __str__(self) -> str:
        what = "" if self.tensors is None else f" (of {', '.join(self.tensors)})"
        return f"{self.source}{what}"


def unfinished(target: Storage) -> Origin | None:
    """Return the origin of an unfinished copy at a destination.

    None if no such copy exists, or if its journal is damaged.
    """
    try:
        found = json_style.load_object(target.get(HEADER), HEADER)
        names, head = found["tensors"], str(found.get("head", ""))
        return Origin(
            str(found["source"]),
            str(found["endpoint"]),
            None if names is None else tuple(map(str, names)),
            bool(head),
            head,
        )
    except (KeyNotFound, FormatError, KeyError, TypeError):
        return None


class Journal:
    """Record of copied objects, written every few seconds; objects on a disk are made durable first.

    A new journal contains the origin, and the entries of an earlier attempt if one was interrupted.

    Parameters
    ----------
    target
        Destination of the copy.
    origin
        Source of the copy.

    Attributes
    ----------
    done
        Etag in the source of each copied object, by key.
    """

    def __init__(self, target: Storage, origin: Origin) -> None:
        self._target = target
        self._mutex = threading.Lock()
        self._fresh: list[tuple[str, str]] = []
        self._written = time.monotonic()
        self._number = 0
        self.done: dict[str, str] = {}
        for key in [key for key, _ in target.list(FOLDER)]:
            if key != HEADER:
                self.done.update(_entries(target.get(key)))
        header: dict[str, Any] = {
            "source": origin.source,
            "endpoint": origin.endpoint,
            "tensors": None if origin.tensors is None else list(origin.tensors),
            "head": origin.head,
        }
        if unfinished(target) != origin:
            target.put(HEADER, json.dumps(header).encode())

    def add(self, entries: Sequence[tuple[str, str]]) -> None:
        """Record copied keys with their etags in the source."""
        with self._mutex:
            self._fresh += entries
            self.done.update(entries)
            if time.monotonic() - self._written > _EVERY:
                self._write()

    def flush(self) -> None:
        """Write the recorded keys."""
        with self._mutex:
            self._write()

    def _write(self) -> None:
        if self._fresh:
            self._target.sync([key for key, _ in self._fresh])
            self._number += 1
            name = f"{FOLDER}{self._number:06d}-{uuid.uuid4().hex[:12]}.json"
            self._target.put(name, json.dumps({"done": self._fresh}).encode())
        self._fresh = []
        self._written = time.monotonic()

    def end(self) -> None:
        """Remove the journal, since the copy is complete."""
        self._target.delete_prefix(FOLDER)


def _entries(data: bytes) -> dict[str, str]:
    """Parse entries; an object whose entry is damaged is copied again."""
    try:
        return {str(key): str(etag) for key, etag in json_style.load_object(data, FOLDER)["done"]}
    except (FormatError, KeyError, TypeError, ValueError):
        return {}
