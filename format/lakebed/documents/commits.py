"""All versions of a dataset by id; most stay unparsed text until they are needed (format.md 9.1).

One version is a node of `version_control_info.json`, and all of `commit_info.json`:

    {"branch", "parent", "children", "commit_message", "commit_time", "commit_user_name",
     "is_checkpoint", "total_samples_processed"}

A node without `commit_time` is uncommitted. In the history, lakebed adds the member `lakebed_seal`: the checksum of the
version's manifest. Deep Lake 3.9.52 ignores it, and drops it whenever it rewrites the file.

A history of ten thousand commits is megabytes of JSON. Opening a dataset, or publishing to it, needs only a few
versions, and only these are parsed. The other versions stay one run of members of the document, which is cut and
extended as bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from lakebed import limits
from lakebed.documents import fields, json_style
from lakebed.errors import FormatError

WHAT = "version_control_info.json"
DIGEST = "lakebed_seal"

_REQUIRED = ("branch", "children", "parent", "commit_message", "commit_time", "commit_user_name")
_OPTIONAL = ("is_checkpoint", "total_samples_processed")

OPENING = b'{"commits": {'
"""Beginning of the document; the text of each version that is not parsed follows, each with a comma after it."""

_FEW = 8
_WINDOW = 2048
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class CommitNode:
    """One version; `time` in POSIX seconds, None while it is uncommitted.

    `digest` is the checksum of its manifest, None if no valid manifest exists. Equality ignores it, because it is not
    part of the version.
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
            raise FormatError(f"{what}: version {id} is not an object")
        missing = [name for name in _REQUIRED if name not in doc]
        if missing:
            raise FormatError(f"{what}: version {id} has no {missing[0]}")
        what = f"{what}: version {id}"
        time = doc["commit_time"]
        if time is not None and type(time) not in (int, float):
            raise FormatError(f"{what}: commit_time is {time!r:.60}, not a number or null")
        # 3.9.52 stores and prints messages of any type, such as numbers and lists, so any type is accepted.
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
        """Return the node as in the document, without the digest."""
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
        """Write the node with its id, as a member of `commits`; `with_digest` adds the digest of its manifest."""
        node = self.to_json()
        if with_digest and self.digest is not None:
            node[DIGEST] = self.digest
        return key_text(self.id) + json_style.dump_compact(node)


def key_text(id: str) -> bytes:  # noqa: A002
    """Return the id as the name of a JSON member; text inside a string cannot have this form."""
    return f"{json.dumps(id)}: ".encode("ascii")


class ColdNodes:
    """Versions as text: `OPENING`, then the members, each followed by `, `.

    Parameters
    ----------
    count
        Number of versions.
    length, sum
        Bytes of the text, and their xxh3-64.
    read
        Returns the text and its number of versions; called once, when it is needed.
    """

    __slots__ = ("__weakref__", "_all", "_asked", "_found", "_read", "_text", "count", "length", "sum")

    def __init__(
        self,
        count: int,
        length: int,
        sum: int,  # noqa: A002
        read: Callable[[], tuple[bytes, int]] | None,
    ) -> None:
        self.count, self.length, self.sum = count, length, sum
        self._read = read
        self._text: bytes | None = None
        self._asked = 0
        self._found: dict[str, CommitNode | None] = {}
        self._all: dict[str, CommitNode] | None = None

    @classmethod
    def of(cls, text: bytes, count: int) -> ColdNodes:
        """Return the versions in a given text."""
        made = cls(count, len(text), xxhash.xxh3_64_intdigest(text), None)
        made._text = text
        return made

    @property
    def text(self) -> bytes:
        """Text of the versions, read on first use."""
        if self._text is None:
            if self._read is None:
                raise FormatError(f"{WHAT}: the text of the older versions is not available")
            text, self.count = self._read()
            self.length, self.sum = len(text), xxhash.xxh3_64_intdigest(text)
            self._text = text
        return self._text

    def get(self, id: str) -> CommitNode | None:  # noqa: A002
        """Return a version, or None; the first few calls search the text, later calls parse all of it."""
        if not self.count:
            return None
        if self._all is None and id not in self._found:
            if len(self._found) < _FEW:
                self._found[id] = self._search(id)
            else:
                self.all()
        return self._found.get(id) if self._all is None else self._all.get(id)

    def has(self, id: str) -> bool:  # noqa: A002
        """Tell whether a version is in the text; the first few calls search the text without parsing it."""
        if not self.count:
            return False
        self._asked += 1
        if self._all is not None or self._asked > _FEW:
            return id in self.all()
        return key_text(id) + b"{" in self.text

    def all(self) -> Mapping[str, CommitNode]:
        """Return every version by id.

        Raises
        ------
        FormatError
            If the text is damaged, or has another number of versions than expected.
        """
        if self._all is None:
            body = self.text.removesuffix(b", ") + b"}}"
            nodes = fields.mapping(json_style.load_object(body, WHAT), "commits", WHAT)
            self._keep(nodes)
        return self._all or {}

    def _keep(self, nodes: Mapping[str, object]) -> None:
        if len(nodes) != self.count:
            raise FormatError(f"{WHAT} has {len(nodes)} older versions, not {self.count}")
        limits.check("MAX_VERSIONS", len(nodes), f"{WHAT}: versions")
        self._all = {
            fields.checked_version(id_, WHAT): CommitNode.from_json(id_, node) for id_, node in nodes.items()
        }

    def starting_with(self, prefix: str) -> list[str]:
        """Return the ids that begin with a prefix."""
        if self._all is not None or not prefix.isalnum() or not prefix.isascii():
            return [id_ for id_ in self.all() if id_.startswith(prefix)]
        found = (
            re.findall(rb'"(' + prefix.encode("ascii") + rb'[^"\\]*)": \{', self.text) if self.count else []
        )
        return [id_.decode("ascii", "replace") for id_ in found]

    def with_(self, nodes: Iterable[CommitNode]) -> ColdNodes:
        """Return the text with more versions at its end."""
        texts = [node.member(with_digest=True) + b", " for node in nodes]
        return ColdNodes.of(b"".join([self.text, *texts]), self.count + len(texts)) if texts else self

    def without(self, ids: Iterable[str]) -> ColdNodes:
        """Return the text without some versions; versions that the text lacks are ignored."""
        gone = [id_ for id_ in dict.fromkeys(ids) if self.has(id_)]
        if not gone:
            return self
        if len(gone) > _FEW:
            left = [node for id_, node in self.all().items() if id_ not in set(gone)]
            return ColdNodes.of(OPENING, 0).with_(left)
        text = self.text
        for id_ in gone:
            start, stop = self._extent(text, id_)
            text = text[:start] + text[stop + 2 :]
        return ColdNodes.of(text, self.count - len(gone))

    def _search(self, id: str) -> CommitNode | None:  # noqa: A002
        text = self.text
        start, stop = self._extent(text, id)
        if start < 0:
            return None
        begin = start + len(key_text(id))
        node = json_style.load(text[begin:stop], WHAT)
        return CommitNode.from_json(fields.checked_version(id, WHAT), node)

    @staticmethod
    def _extent(text: bytes, id: str) -> tuple[int, int]:  # noqa: A002
        """Return the start and end of a member; -1, -1 if it is missing."""
        key = key_text(id)
        start = text.find(key + b"{")
        if start < 0:
            return -1, -1
        begin, window = start + len(key), _WINDOW
        while True:
            part = text[begin : begin + window]
            try:
                _, length = _DECODER.raw_decode(part.decode("latin-1"))
            except (ValueError, RecursionError) as error:
                if begin + window >= len(text) or isinstance(error, RecursionError):
                    raise FormatError(f"{WHAT}: version {id} is damaged: {error}") from error
                window *= 8
            else:
                return start, begin + length


class Commits(Mapping[str, CommitNode]):
    """Versions by id: some parsed, the others as text.

    Iterating over all versions, or getting many versions of the text, parses the text once.
    """

    __slots__ = ("_parts",)

    def __init__(self, hot: Mapping[str, CommitNode], cold: ColdNodes | None = None) -> None:
        # Keep both parts in one attribute, so that other threads never see `move_to_cold` half done.
        self._parts = (dict(hot), cold or ColdNodes.of(OPENING, 0))

    @classmethod
    def of(cls, commits: Mapping[str, CommitNode]) -> Commits:
        """Return any mapping of versions as an object of this class."""
        return commits if isinstance(commits, cls) else cls(commits)

    @property
    def hot(self) -> Mapping[str, CommitNode]:
        """The parsed versions."""
        return self._parts[0]

    @property
    def cold(self) -> ColdNodes:
        """The versions that are text."""
        return self._parts[1]

    def __getitem__(self, id: str) -> CommitNode:  # noqa: A002
        hot, cold = self._parts
        node = hot.get(id) or cold.get(id)
        if node is None:
            raise KeyError(id)
        return node

    def __contains__(self, id: object) -> bool:  # noqa: A002
        hot, cold = self._parts
        return id in hot or (isinstance(id, str) and cold.has(id))

    def __iter__(self) -> Iterator[str]:
        hot, cold = self._parts
        yield from cold.all() if cold.count else ()
        yield from hot

    def __len__(self) -> int:
        hot, cold = self._parts
        return cold.count + len(hot)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Commits):
            return Mapping.__eq__(self, other)
        (hot, cold), (other_hot, other_cold) = self._parts, other._parts
        if cold is other_cold or (cold.length, cold.sum) == (other_cold.length, other_cold.sum):
            return hot == other_hot
        return len(self) == len(other) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def starting_with(self, prefix: str) -> list[str]:
        """Return the ids that begin with a prefix."""
        hot, cold = self._parts
        return [*cold.starting_with(prefix), *(id_ for id_ in hot if id_.startswith(prefix))]

    def sharing(self, known: ColdNodes) -> Commits:
        """Return the same versions; if their text equals that of ``known``, with ``known`` as the text object."""
        hot, cold = self._parts
        same = (cold.count, cold.length, cold.sum) == (known.count, known.length, known.sum)
        return Commits(hot, known) if same else self

    def edited(
        self, added: Iterable[CommitNode], replaced: Iterable[CommitNode] = (), gone: Iterable[str] = ()
    ) -> Commits:
        """Return the versions with some added (their ids must be new), some replaced, and some removed."""
        hot, cold = self._parts
        drop, new = set(gone), {node.id: node for node in replaced}
        cold = cold.without([id_ for id_ in (*drop, *new) if id_ not in hot])
        kept = {id_: node for id_, node in hot.items() if id_ not in drop}
        return Commits({**kept, **new, **{node.id: node for node in added}}, cold)

    def move_to_cold(self, at_hand: set[str]) -> None:
        """Keep these versions parsed and turn all others into text; the content of the mapping stays the same."""
        hot, cold = self._parts
        missing = [id_ for id_ in at_hand if id_ not in hot]
        nodes = [node for node in map(cold.get, missing) if node is not None]
        cold = cold.without(node.id for node in nodes).with_(
            node for id_, node in hot.items() if id_ not in at_hand
        )
        kept = {id_: node for id_, node in hot.items() if id_ in at_hand}
        self._parts = ({**kept, **{node.id: node for node in nodes}}, cold)


# -- the end of the file, which can be read alone; for its layout see `version_tree` ----------------------------------

OWN = ("nodes", "begins", "rest", "sum")
"""Members that lakebed adds and that describe only the file."""

_ZEROS = "0" * 16
_CLOSING = 3
"""Bytes after the checksum."""

# JSON strings escape quotes, so no message or name can match these patterns.
_SUM = rb'"sum": "([^"]{16})"'
_TRAILER = re.compile(
    rb'"nodes": (\d{1,9}), "begins": "(\d{16})", "rest": "([0-9a-f]{16})", "sum": "([0-9a-f]{16})"\}\}\Z'
)
_TRAILER_BYTES = 160


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """End of the file: the number of versions before the offset `begins`, and checksums of that text and of the end."""

    nodes: int
    begins: int
    rest: int
    sum: str

    @classmethod
    def of(cls, data: bytes) -> TreeEnd | None:
        """Find the end in the last bytes of a file; None if the file has no such end."""
        found = _TRAILER.search(data, max(0, len(data) - _TRAILER_BYTES))
        if found is None:
            return None
        nodes, begins, rest, total = (part.decode("ascii") for part in found.groups())
        return cls(int(nodes), int(begins), int(rest, 16), total)

    def document(self, tail: bytes) -> dict[str, Any]:
        """Parse the end of the file as a document with fewer versions.

        Raises
        ------
        FormatError
            If its checksum is wrong.
        """
        if len(tail) < _TRAILER_BYTES // 2 or _sum(tail, len(tail) - len(_ZEROS) - _CLOSING) != self.sum:
            raise FormatError(f"{WHAT} is damaged: its checksum is wrong")
        return json_style.load_object(OPENING + tail, WHAT)

    def cold(self, rest: bytes) -> ColdNodes:
        """Return the versions before the end, as text.

        Raises
        ------
        FormatError
            If its checksum is wrong.
        """
        cold = ColdNodes.of(rest, self.nodes)
        if cold.sum != self.rest or not rest.startswith(OPENING):
            raise FormatError(f"{WHAT} is damaged: its checksum is wrong")
        return cold


def whole(commits: Commits, members: Mapping[str, Any], name: str, ours: Mapping[str, Any]) -> list[bytes]:
    """Write a file in pieces: versions as text, parsed versions, other members, and the member of lakebed."""
    cold = commits.cold
    rest = cold.text
    last = {
        **{key: value for key, value in ours.items() if key not in OWN},
        "nodes": cold.count,
        "begins": f"{len(rest):016d}",
        "rest": f"{cold.sum:016x}",
        "sum": _ZEROS,
    }
    nodes = b", ".join([node.member(with_digest=True) for node in commits.hot.values()])
    tail = nodes + b"}, " + json_style.dump_compact({**members, name: last})[1:]
    at = len(tail) - len(_ZEROS) - _CLOSING
    return [rest, tail[:at], _sum(tail, at).encode("ascii"), tail[-_CLOSING:]]


def check_early_sum(data: bytes) -> bool:
    """Tell whether the file has a checksum of the whole file, as early releases wrote it.

    Raises
    ------
    FormatError
        If the checksum is wrong.
    """
    found = list(re.finditer(_SUM, data))
    if found and _sum(data, found[-1].start(1)).encode("ascii") != found[-1][1]:
        raise FormatError(f"{WHAT} is damaged: its checksum is wrong")
    return bool(found)


def _sum(data: bytes, at: int) -> str:
    state = xxhash.xxh3_64(data[:at])
    state.update(_ZEROS.encode("ascii"))
    state.update(data[at + len(_ZEROS) :])
    return state.hexdigest()
