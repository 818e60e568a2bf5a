"""Options of an importer or exporter: the keyword arguments of its ``plan``, by their annotations and docstrings.

A choice is ``Literal["a", "b"]``, a repeatable option ``tuple[str, ...]`` or ``Sequence[str]``, pairs
``Mapping[str, str]``; each may be ``| None``. Options that several formats share are a ``TypedDict`` of
``Annotated[type, help]``, taken as ``**options: Unpack[ThatDict]``.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lakebed.errors import InvalidInputError, UnsupportedParameterException


@dataclass(frozen=True)
class Option:
    """An option of a format.

    Parameters
    ----------
    kind
        ``bool``, ``int``, ``float``, ``str``, ``list`` (of text), ``pairs`` ({text: text}), or ``any``, which cannot be
        given on a command line.
    choices
        Allowed values; empty for any value.
    help
        Description in a sentence.
    """

    name: str
    kind: str
    default: Any = None
    choices: tuple[str, ...] = ()
    help: str = ""


def options_of(plan: Callable[..., Any]) -> list[Option]:
    """Return the options that a function ``plan`` takes."""
    asked = inspect.signature(plan).parameters.values()
    keywords = {one.name: one for one in asked if one.kind in (one.KEYWORD_ONLY, one.VAR_KEYWORD)}
    # Evaluate only the annotations of options, because those of other parameters may exist only for type checkers.
    annotated = types.SimpleNamespace(
        __annotations__={name: one.annotation for name, one in keywords.items()}
    )
    hints = get_type_hints(annotated, vars(import_module(plan.__module__)))
    told = _told(inspect.getdoc(plan) or "")
    found: list[Option] = []
    for name, parameter in keywords.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            found += _shared(get_args(hints[name])[0])
        else:
            kind, choices = _kind(hints.get(name, str))
            found.append(Option(name, kind, parameter.default, choices, told.get(name, "")))
    return found


def _shared(options: type) -> Iterator[Option]:
    """Yield the options of a TypedDict, whose members are ``Annotated[type, help]``."""
    for name, hint in get_type_hints(options, include_extras=True).items():
        kind, choices = _kind(hint.__origin__)
        default = {"bool": False, "list": (), "pairs": {}}.get(kind)
        yield Option(name, kind, default, choices, hint.__metadata__[0])


def checked_options(name: str, options: Sequence[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a format; one text stands for a list that has only this text.

    Raises
    ------
    UnsupportedParameterException, InvalidInputError
        If an option or a choice is unknown.
    """
    known = {option.name: option for option in options}
    found = {}
    for key, value in given.items():
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = (
                f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(sorted(known)) or 'none'}"
            )
            raise UnsupportedParameterException(f"{name} has no option {key!r}{hint}")
        choices = known[key].choices
        if choices and value is not None and value not in choices:
            raise InvalidInputError(f"{key} is one of {', '.join(choices)}, not {value!r}")
        found[key] = (value,) if known[key].kind == "list" and isinstance(value, str) else value
    return found


def _kind(hint: Any) -> tuple[str, tuple[str, ...]]:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = [part for part in get_args(hint) if part is not type(None)]
        return _kind(inner[0]) if len(inner) == 1 else ("any", ())
    if origin is Literal:
        return "str", tuple(str(choice) for choice in get_args(hint))
    if hint in (bool, int, float, str):
        return hint.__name__, ()
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Mapping):
            return ("pairs" if get_args(hint) == (str, str) else "any"), ()
        if issubclass(origin, Sequence) and get_args(hint)[:1] == (str,):
            return "list", ()
    return "any", ()


def _told(text: str) -> dict[str, str]:
    """Return the descriptions of the parameters in a numpydoc docstring."""
    found: dict[str, str] = {}
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    names: list[str] = []
    for line in section[1].splitlines() if section else ():
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.split(",")]
        elif line.strip():
            for name in names:
                found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    return found
