"""The identity of a transform, and the note that identifies an interrupted transform so that it can continue.

The version tree records the progress of a transform: the checkpoint below the head says how many items are done. The
note beside the dataset identifies the transform: digests of function, arguments and input, and the first checkpoint of
the run. The note is written after that checkpoint, and removed after the last publish; a note is obsolete if its
checkpoints are not directly below the head.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import CodeType
from typing import Any

import numpy as np

from lakebed.documents import json_style
from lakebed.errors import FormatError, KeyNotFound
from lakebed.session.session import Session
from lakebed.storage.base import Storage
from lakebed.transforms.stages import Stage

# Number of items whose digests are recorded. They let a resumed run recognise an input from which the caller has
# removed the items that are already processed.
_SAMPLES = 64
_DIGESTED = 100_000  # number of evenly spread items that the digest of an input covers
_DIGESTED_BYTES = 1 << 20  # bytes of an array that its digest covers


@dataclass(frozen=True, slots=True)
class Plan:
    """The identity of a transform.

    Parameters
    ----------
    function, arguments, data
        Digests of the functions, of their arguments, and of the input.
    length
        Number of items of the input; None if unknown.
    samples
        Number of an item -> digest of the item, for some of the items.
    """

    name: str
    function: str
    arguments: str
    data: str
    length: int | None
    samples: Mapping[int, str]

    def is_rest_of(self, other: Plan, done: int) -> bool:
        """Return whether this input is another plan's input without its first ``done`` items."""
        if other.length is None or self.length != other.length - done:
            return False
        mine = {index + done: digest for index, digest in self.samples.items()}
        both = mine.keys() & other.samples.keys()
        return bool(both) and all(mine[index] == other.samples[index] for index in both)


@dataclass(frozen=True, slots=True)
class Note:
    """An unfinished transform: its plan, and the id of its first checkpoint.

    ``last`` is the id of the head that will hold all rows, set just before they are published.
    """

    plan: Plan
    first: str
    last: str | None = None

    def to_bytes(self) -> bytes:
        """Return the note as JSON."""
        found = asdict(self.plan)
        found["samples"] = {str(index): digest for index, digest in self.plan.samples.items()}
        return json.dumps({"first": self.first, "last": self.last, **found}, indent=1).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Note:
        """Parse a note.

        Raises
        ------
        FormatError
            If the data is damaged.
        """
        found = json_style.load_object(data, "the note of a transform")
        try:
            first, last = str(found.pop("first")), found.pop("last", None)
            samples = {int(index): str(digest) for index, digest in found.pop("samples").items()}
            return cls(Plan(**found, samples=samples), first, None if last is None else str(last))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"the note of a transform is damaged: {error}") from error


def _key(branch: str) -> str:
    return f".lakebed/transform-{hashlib.sha256(branch.encode()).hexdigest()[:16]}.json"


def read_note(storage: Storage, branch: str) -> Note | None:
    """Return the note of a branch; None if no transform is unfinished there."""
    try:
        return Note.from_bytes(storage.get(_key(branch)))
    except KeyNotFound:
        return None


def write_note(storage: Storage, branch: str, note: Note) -> None:
    """Write the note of a branch."""
    storage.put(_key(branch), note.to_bytes())


def remove_note(storage: Storage, branch: str) -> None:
    """Remove the note of a branch, if it exists."""
    try:
        storage.delete(_key(branch))
    except KeyNotFound:
        return


def items_done(session: Session, note: Note) -> int | None:
    """Return the number of items that the checkpoint below the head includes; None if the note is obsolete."""
    tree, done = session.tree, None
    for id_ in list(tree.ancestors(session.snapshot.version_id))[1:]:
        node = tree.commits[id_]
        if not node.is_committed:
            continue
        if not node.is_checkpoint:
            return None
        if done is None:
            done = node.total_samples_processed
        if id_ == note.first:
            return done
    return None


# -- digests -----------------------------------------------------------------------------------------------------


def plan_of(name: str, stages: Sequence[Stage], data: Any, length: int | None) -> Plan:
    """Return the identity of a transform."""
    function = _Digest()
    for stage in stages:
        function.code(stage.function)
    arguments = _Digest()
    for stage in stages:
        arguments.value([list(stage.args), dict(stage.kwargs)])
    digest, samples = _of_input(data, length)
    return Plan(name, function.text, arguments.text, digest, length, samples)


def _of_input(data: Any, length: int | None) -> tuple[str, dict[int, str]]:
    """Return the digest of an input, and the digests of some of its items."""
    table = data._table() if hasattr(data, "_table") else None  # noqa: SLF001
    found = _Digest()
    if table is not None:
        found.value([table.session.storage.url, table.version, sorted(table.names)])
        rows: Any = table.rows()
    elif length is None or not hasattr(data, "__getitem__"):
        found.value([type(data).__name__, length])
        return found.text, {}
    else:
        rows = data
        found.value([type(data).__name__, length])
    # Items of inputs of other types may be expensive to read.
    is_cheap = isinstance(data, list | tuple | range | np.ndarray)
    if not is_cheap and table is None:
        return found.text, {}
    count = len(rows)
    for index in range(0, count, max(1, count // _DIGESTED)):
        found.value(rows[index])
    step = max(1, count // _SAMPLES)
    # Count from the end, so that an input without its first items has samples at the same places.
    chosen = sorted({count - 1 - at for at in range(0, count, step)})
    return found.text, {index: _Digest.of(rows[index]) for index in chosen}


class _Digest:
    """A digest of values that is equal in every process."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    @classmethod
    def of(cls, value: Any) -> str:
        found = cls()
        found.value(value)
        return found.text[:16]

    @property
    def text(self) -> str:
        return self._hash.hexdigest()

    def value(self, value: Any) -> None:
        """Add a value; for objects of unknown types, add only the type."""
        if isinstance(value, np.ndarray):
            self._add(f"a{value.dtype}{value.shape}")
            if value.dtype != object:
                step = max(1, value.size * value.itemsize // _DIGESTED_BYTES)
                self._hash.update(np.ascontiguousarray(value.reshape(-1)[::step]).tobytes())
        elif value is None or isinstance(value, bool | int | float | complex | np.generic):
            self._add(f"n{type(value).__name__}{value!r}")
        elif isinstance(value, str):
            self._add(f"s{value}")
        elif isinstance(value, bytes | bytearray):
            self._add("b")
            self._hash.update(hashlib.sha256(value).digest())
        elif isinstance(value, Mapping):
            self._add(f"m{len(value)}")
            self._all(part for pair in value.items() for part in pair)
        elif isinstance(value, list | tuple):
            self._add(f"l{len(value)}")
            self._all(value)
        elif callable(value) and hasattr(value, "__code__"):
            self.code(value)
        else:
            self._add(f"o{type(value).__module__}.{type(value).__qualname__}")

    def code(self, function: Any) -> None:
        """Add the code of a function, without its file name and line numbers."""
        code = getattr(function, "__code__", None)
        self._add(f"f{getattr(function, '__qualname__', type(function).__qualname__)}")
        if isinstance(code, CodeType):
            self._code(code)

    def _code(self, code: CodeType) -> None:
        self._hash.update(code.co_code)
        self._add(",".join(code.co_names))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            elif not isinstance(constant, frozenset):
                self.value(constant)

    def _all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.value(value)

    def _add(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "surrogatepass") + b"\0")
