"""One version in the history: a node of `version_control_info.json`, and all of `commit_info.json` (FORMAT.md 9.1).

    {"branch", "parent", "children", "commit_message", "commit_time", "commit_user_name",
     "is_checkpoint", "total_samples_processed"}

A node without `commit_time` is uncommitted. In the history, lakebed adds the member `lakebed_seal`: the checksum of the
version's manifest. Deep Lake 3.9.52 reads over it, and drops it whenever it rewrites the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from lakebed.documents import fields, json_style
from lakebed.errors import FormatError

WHAT = "version_control_info.json"
DIGEST = "lakebed_seal"

_REQUIRED = ("branch", "children", "parent", "commit_message", "commit_time", "commit_user_name")
_OPTIONAL = ("is_checkpoint", "total_samples_processed")


@dataclass(frozen=True, slots=True)
class CommitNode:
    """One version; `time` in POSIX seconds, None while it is uncommitted.

    `digest` is the checksum of its manifest, None if there is none to be trusted; it says nothing of the version, so
    nodes that differ by it alone are equal.
    """

    id: str
    branch: str
    parent: str | None
    children: tuple[str, ...] = ()
    message: str | None = None
    time: float | None = None
    user: str | None = None
    is_checkpoint: bool = False
    total_samples_processed: int = 0
    digest: str | None = field(default=None, compare=False)

    @property
    def is_committed(self) -> bool:
        """Return whether the version is a commit."""
        return self.time is not None

    @classmethod
    def from_json(cls, id: str, doc: Any, what: str = WHAT) -> CommitNode:  # noqa: A002
        """Read a node.

        Raises
        ------
        FormatError
            If a member is missing or of the wrong type.
        """
        if not isinstance(doc, dict):
            raise FormatError(f"{what}: version {id} is no object")
        missing = [name for name in _REQUIRED if name not in doc]
        if missing:
            raise FormatError(f"{what}: version {id} has no {missing[0]}")
        what = f"{what}: version {id}"
        time = doc["commit_time"]
        if time is not None and type(time) not in (int, float):
            raise FormatError(f"{what}: commit_time is {time!r:.60}, not a number or null")
        # 3.9.52 stores whatever it was given: a number, a list. It prints it so.
        message, total = doc["commit_message"], doc.get("total_samples_processed")
        texts = fields.optional(doc, str, ("parent", "commit_user_name", DIGEST), what)
        return cls(
            id=id,
            branch=fields.text(doc, "branch", what, ""),
            parent=texts.get("parent"),
            children=fields.texts(doc, "children", what),
            message=None if message is None else str(message),
            time=time,
            user=texts.get("commit_user_name"),
            total_samples_processed=0
            if total is None
            else fields.count(doc, "total_samples_processed", what),
            digest=texts.get(DIGEST),
            **fields.optional(doc, bool, ("is_checkpoint",), what),
        )

    def to_json(self) -> dict[str, Any]:
        """Node as it stands in the document, without the digest."""
        return {
            "branch": self.branch,
            "parent": self.parent,
            "children": list(self.children),
            "commit_message": self.message,
            "commit_time": self.time,
            "commit_user_name": self.user,
            "is_checkpoint": self.is_checkpoint,
            "total_samples_processed": self.total_samples_processed,
        }

    def to_bytes(self) -> bytes:
        """Write the `commit_info.json` of the version, its members in the order that 3.9.52 has there."""
        node = self.to_json()
        return json_style.dump_compact({name: node[name] for name in (*_REQUIRED, *_OPTIONAL)})

    def member(self, *, with_digest: bool) -> bytes:
        """Write the node with its id, as a member of `commits`; `with_digest` with that of its manifest."""
        node = self.to_json()
        if with_digest and self.digest is not None:
            node[DIGEST] = self.digest
        return key_text(self.id) + json_style.dump_compact(node)


def key_text(id: str) -> bytes:  # noqa: A002
    """Return the id as the name of a member; no message or name inside of a string can look like this."""
    return f"{json.dumps(id)}: ".encode("ascii")
