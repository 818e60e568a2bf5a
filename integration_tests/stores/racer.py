"""One of several processes that publish to the same dataset: racer.py URL NUMBER CREDENTIALS.

Orders come on standard input, one per line; each is answered by a line of JSON.

    open        look at the dataset, and keep what the version tree says
    publish     publish an empty change of ``main`` on top of that tree, without a lease: who is first wins
    rows N      append N rows, each published by itself, waiting for whoever writes
    exit        append one row and leave without publishing it: that happens at the end of the interpreter
"""

from __future__ import annotations

import json
import sys

import lakebed
from lakebed.documents.version_tree import new_id
from lakebed.errors import CommitFailed, LockedException
from lakebed.storage.url import open_storage, parse
from lakebed.versions.derive import inherited
from lakebed.versions.opening import open_version
from lakebed.versions.publish import publish
from lakebed.versions.swap import TreeAt, read_tree_at
from lakebed.versions.updates import SwapHead


class Racer:
    """One process."""

    def __init__(self, url: str, number: int, creds: dict[str, str]) -> None:
        self._url, self._number, self._creds = url, number, creds
        self._storage = open_storage(parse(url, creds=creds))
        self._at: TreeAt | None = None
        self._rows = 0

    def open(self) -> object:
        """Keep the tree as it is now."""
        self._at = read_tree_at(self._storage)
        return self._at.tree.branches["main"]

    def publish(self) -> object:
        """Swap the head of that tree for one with the same content; return its id if that was first."""
        at = self._at
        if at is None:
            raise ValueError("open comes first")
        head = inherited(open_version(self._storage, at.tree, at.tree.branches["main"]), new_id())
        try:
            publish(self._storage, at, [SwapHead("main", head.version_id)], [head])
        except CommitFailed:
            return None
        return head.version_id

    def rows(self, count: int) -> object:
        """Append rows, each published by itself; return how often somebody else was in the way."""
        waited = 0
        ds = lakebed.load(self._url, creds=self._creds, read_only=None, lock_timeout=60)
        for _ in range(count):
            while True:
                try:
                    ds.append({"writer": self._number, "row": self._rows})
                    ds.flush()
                    break
                except (CommitFailed, LockedException):
                    waited += 1
            self._rows += 1
        return waited

    def exit(self) -> object:
        """Append a row that is not published before the interpreter ends."""
        self._ds = lakebed.load(self._url, creds=self._creds, lock_timeout=60)
        self._ds.append({"writer": self._number, "row": self._rows})
        return None


def main() -> None:
    """Follow orders."""
    racer = Racer(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
    for line in sys.stdin:
        order, *rest = line.split()
        sys.stdout.write(json.dumps(getattr(racer, order)(*map(int, rest))) + "\n")
        sys.stdout.flush()
        if order == "exit":
            return


main()
