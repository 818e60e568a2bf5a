"""Names of the credentials that links use, never the credentials: `linked_creds.json` (format.md 13).

member               meaning                                            if missing
creds_keys           names; the k-th has the code k, 0 is for none      none
managed_creds_keys   names that a provider knows                        none
used_creds_keys      names that samples refer to                        none

3.9.52 can write null or numbers among the names: they keep their codes, and no link uses them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakebed.documents import json_style
from lakebed.errors import AlreadyExistsError, FormatError, InvalidInputError, MissingCredsError

FILE = "linked_creds.json"
_MEMBERS = ("creds_keys", "managed_creds_keys", "used_creds_keys")
_LEGACY = "ENV"

Name = str | int | None
"""An entry of the file; it is a name only if it is text."""


@dataclass(frozen=True, slots=True)
class LinkedCreds:
    """Names in the order of their codes, the managed names, and the used names; unknown members are kept."""

    keys: tuple[Name, ...] = ()
    managed: tuple[Name, ...] = ()
    used: tuple[Name, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, data: bytes) -> LinkedCreds:
        """Parse the file.

        If ``ENV`` is used but not declared, it is added in front, as 3.9.52 does.

        Raises
        ------
        FormatError
            If the file is damaged.
        """
        doc = json_style.load_object(data, FILE)
        keys, managed, used = (_names(doc, member) for member in _MEMBERS)
        if _LEGACY in used and _LEGACY not in keys:
            keys = (_LEGACY, *keys)
        extra = {name: value for name, value in doc.items() if name not in _MEMBERS}
        return cls(keys, tuple(dict.fromkeys(managed)), tuple(dict.fromkeys(used)), extra)

    def to_bytes(self) -> bytes:
        """Write the file with all three lists, without which 3.9.52 cannot open the dataset."""
        lists = zip(_MEMBERS, (self.keys, self.managed, self.used), strict=True)
        return json_style.dump_compact({name: list(names) for name, names in lists} | dict(self.extra))

    # -- looking up ------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names that links can use, each once."""
        return list(dict.fromkeys(name for name in self.keys if isinstance(name, str)))

    @property
    def codes(self) -> dict[str, int]:
        """Codes of the names for new samples; of a name that occurs twice, the last code, as in 3.9.52."""
        return {name: code for code, name in enumerate(self.keys, 1) if isinstance(name, str)}

    def name_of(self, code: int) -> str | None:
        """Return the name of a code; None for code 0, no credentials.

        Raises
        ------
        FormatError
            If no name has the code.
        """
        if code == 0:
            return None
        if not 0 < code <= len(self.keys):
            raise FormatError(f"{FILE} declares {len(self.keys)} names, but a link uses number {code}")
        name = self.keys[code - 1]
        if not isinstance(name, str):
            raise FormatError(f"{FILE}: number {code}, which a link uses, is {name!r}, not a name")
        return name

    # -- changing --------------------------------------------------------------------------------------------

    def declared(self, name: str, *, managed: bool = False) -> LinkedCreds:
        """Add a name; it gets the next code.

        Raises
        ------
        AlreadyExistsError
            If the name is declared already.
        InvalidInputError
            If the name is not text, or empty.
        """
        if check_name(name) in self.keys:
            raise AlreadyExistsError(f"Creds key {name} already exists")
        return replace(
            self, keys=(*self.keys, name), managed=(*self.managed, name) if managed else self.managed
        )

    def renamed(self, old: str, new: str) -> LinkedCreds:
        """Replace a name by another one; codes stay, even if the new name exists already.

        Raises
        ------
        MissingCredsError
            If the name does not exist.
        InvalidInputError
            If the new name is not text, or empty.
        """
        self.check(old)
        check_name(new)
        keys, managed, used = (
            tuple(new if name == old else name for name in names)
            for names in (self.keys, self.managed, self.used)
        )
        return replace(
            self, keys=keys, managed=tuple(dict.fromkeys(managed)), used=tuple(dict.fromkeys(used))
        )

    def with_management(self, name: str, *, managed: bool) -> LinkedCreds:
        """Set whether a provider knows a name.

        Raises
        ------
        MissingCredsError
            If the name is not declared.
        """
        self.check(name)
        others = tuple(other for other in self.managed if other != name)
        return replace(self, managed=(*others, name) if managed else others)

    def with_used(self, names: Collection[str]) -> LinkedCreds:
        """Record that samples refer to some names."""
        return replace(self, used=tuple(dict.fromkeys((*self.used, *names))))

    def check(self, name: str) -> None:
        """Make sure that a name is declared.

        Raises
        ------
        MissingCredsError
            If the name is not declared.
        """
        if name not in self.names:
            known = f"there are: {', '.join(map(repr, self.names))}" if self.names else "there are none"
            raise MissingCredsError(
                f"Creds key {name} does not exist; add it with ds.add_creds_key ({known})"
            )


def check_name(name: Any) -> str:
    """Check a name for credentials, and return it.

    Raises
    ------
    InvalidInputError
        If the name is not text, empty, or cannot be written.
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"a credentials key must be text, not {type(name).__name__}")
    if not name or not name.isprintable():
        raise InvalidInputError("a credentials key must be text of one or more printable characters")
    return name


def _names(doc: Mapping[str, Any], member: str) -> tuple[Name, ...]:
    value = doc.get(member)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str | int | None) for name in value):
        raise FormatError(f"{FILE}: {member} is {value!r:.60}, not a list of names")
    return tuple(value)
