"""What an unfinished copy has done, kept beside what it has copied: ``.lakebed/copy/`` of the destination.

    source.json       {"source": address, "endpoint": server, "tensors": [names] or null, "head": id or ""}
    <n>-<random>.json {"done": [[key, etag of the source], ...]}

An object that is named with the etag that the source still has need not be copied again. The folder goes with the end
of the copy.
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

# Seconds of work that a kill may undo.
_EVERY = 3.0


@dataclass(frozen=True, slots=True)
class Origin:
    """What is copied.

    Parameters
    ----------
    source
        Address of the dataset.
    endpoint
        The server, for stores that are not those of a cloud.
    tensors
        Names of the tensors that are kept; None keeps all.
    flat
        Whether one version is copied, and not the history.
    head
        The version that it becomes then.
    """

    source: str
    endpoint: str
    tensors: tuple[str, ...] | None
    flat: bool = False
    head: str = field(default="", compare=False)

    @classmethod
    def of(cls, storage: Storage, tensors: Sequence[str] | None, head: str = "") -> Origin:
        """Return the origin of a copy from a storage; with a head, of one version."""
        names = None if tensors is None else tuple(sorted(tensors))
        return cls(storage.url, str(getattr(storage, "endpoint", "")), names, bool(head), head)

    def __str__(self) -> str:
        what = "" if self.tensors is None else f" (of {', '.join(self.tensors)})"
        return f"{self.source}{what}"


def unfinished(target: Storage) -> Origin | None:
    """Return what an unfinished copy at a place is a copy of; None if there is no such, or it does not tell."""
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
    """Notes what has arrived, every few seconds: on a disk once it is there for good.

    Parameters
    ----------
    target
        Where the copy goes.
    origin
        What is copied.
    """

    def __init__(self, target: Storage, origin: Origin) -> None:
        self._target = target
        self._origin = origin
        self._mutex = threading.Lock()
        self._fresh: list[tuple[str, str]] = []
        self._written = time.monotonic()
        self._number = 0

    def begin(self) -> dict[str, str]:
        """Say whose copy this is, unless an earlier attempt has; return the etags by key of what that has done."""
        done: dict[str, str] = {}
        for key in [key for key, _ in self._target.list(FOLDER)]:
            if key != HEADER:
                done.update(_entries(self._target.get(key)))
        origin = self._origin
        header: dict[str, Any] = {
            "source": origin.source,
            "endpoint": origin.endpoint,
            "tensors": None if origin.tensors is None else list(origin.tensors),
            "head": origin.head,
        }
        if unfinished(self._target) != origin:
            self._target.put(HEADER, json.dumps(header).encode())
        return done

    def add(self, entries: Sequence[tuple[str, str]]) -> None:
        """Note keys that have arrived, with the etags that they have in the source."""
        with self._mutex:
            self._fresh += entries
            if time.monotonic() - self._written > _EVERY:
                self._write()

    def flush(self) -> None:
        """Write down what is noted."""
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
        """Remove the journal: the copy is a dataset."""
        self._target.delete_prefix(FOLDER)


def _entries(data: bytes) -> dict[str, str]:
    """Parse entries; those that are damaged count for nothing, and their objects are copied again."""
    try:
        return {str(key): str(etag) for key, etag in json_style.load_object(data, FOLDER)["done"]}
    except (FormatError, KeyError, TypeError, ValueError):
        return {}
