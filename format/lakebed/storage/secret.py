"""Text that must not be shown: passwords, keys, tokens."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

from lakebed.errors import InvalidInputError

SHOWN = "***"

# Texts shorter than this are not hidden, because they may occur in any other text.
_SHORTEST = 8
_travel: ContextVar[bool] = ContextVar("secrets_travel", default=False)
_all: weakref.WeakValueDictionary[int, Secret] = weakref.WeakValueDictionary()


class Secret:
    """A text that prints as ``***`` and is only available by :meth:`reveal`.

    It cannot be pickled, copied into JSON or formatted by accident.
    """

    __slots__ = ("__weakref__", "_text")

    def __init__(self, text: str | Secret) -> None:
        self._text = text.reveal() if isinstance(text, Secret) else text
        _all[id(self)] = self

    def reveal(self) -> str:
        """Return the text, for the code that needs it."""
        return self._text

    def __repr__(self) -> str:
        return SHOWN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return SHOWN

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise InvalidInputError(
            "a secret cannot be pickled: name the credentials, so that every process looks them up itself"
        )


@contextmanager
def for_own_process() -> Iterator[None]:
    """Let pickles that this thread makes inside the block hold the secrets of credentials.

    Only for data that goes through a pipe to a process that this one has started; never for files or a network.
    """
    token = _travel.set(True)
    try:
        yield
    finally:
        _travel.reset(token)


def may_travel() -> bool:
    """Tell whether a pickle is made for a process that this one has started."""
    return _travel.get()


def hidden(text: str) -> str:
    """Return a text from another program, such as a server's answer, without the secrets of this process."""
    # `valuerefs` returns a list, because other threads may make secrets during the loop.
    for reference in _all.valuerefs():
        secret = reference()
        found = "" if secret is None else secret.reveal()
        if len(found) >= _SHORTEST and found in text:
            text = text.replace(found, SHOWN)
    return text
