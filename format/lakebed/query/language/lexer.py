"""Text of a query to tokens.

    kind       text                                              value
    name       letter, then letters, digits, underscores         the text
    quoted     "..." without a line break                        what is inside
    string     '...', in which '' is a quote                     what is inside
    integer    decimal; octal after a leading 0                  int
    float      1. .5 1e3 1.5E-2                                  float
    version    what follows an @                                 the reference
    parameter  $ and a name                                      the name
    operator   one of OPERATORS                                  the text
    end        nothing                                           the empty text

White space is space, tab, line feed and carriage return; a comment goes from ``--`` to the end of its line. Any other
character is an error: the engines that this language comes from end the query there without a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakebed.query.language.errors import syntax_error

OPERATORS = (
    "...", "==", "!=", "<>", "<=", ">=", "||", "=", "<", ">", "+", "-", "*", "/", "%", "^", "(", ")", "[", "]", ",",
    ".", ":", "?", ";",
)  # fmt: skip
"""Longest first, as they are tried in this order."""

MAX_LENGTH = 1 << 22
"""Characters of a query: reading them takes seconds, and no limit of time is looked at."""

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|--[^\n]*)*")
_NAME = re.compile(r"[^\W\d_]\w*")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_VERSION = re.compile(r"[A-Za-z0-9_~^./+-]+")
_OPERATOR = re.compile("|".join(map(re.escape, OPERATORS)))
_LARGEST = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a query.

    Attributes
    ----------
    kind
        Which sort of word; see the module.
    text
        As it is written; of names in quotes, strings, versions and parameters what is inside.
    value
        The number, for numbers; else None.
    at
        Where its first character is in the query.
    """

    kind: str
    text: str
    value: int | float | None
    at: int


def tokens(text: str) -> list[Token]:
    """Return the words of a query, the last of kind ``end``.

    Raises
    ------
    QuerySyntaxError
        If a character begins no word, or a quotation does not end.
    """
    if len(text) > MAX_LENGTH:
        raise syntax_error(
            text,
            0,
            f"a query has up to {MAX_LENGTH:,} characters, not {len(text):,}; large values go in by ?",
        )
    if not is_writable(text):
        raise syntax_error(
            text, 0, "the text has half of a character, a lone surrogate, which no text can hold"
        )
    found: list[Token] = []
    at = _skip(text, 0)
    while at < len(text):
        token, at = _token(text, at)
        found.append(token)
        at = _skip(text, at)
    found.append(Token("end", "", None, len(text)))
    return found


def is_writable(text: str) -> bool:
    """Whether UTF-8 has bytes for a text; Python has texts with halves of characters, for which it has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _skip(text: str, at: int) -> int:
    match = _SKIPPED.match(text, at)
    return at if match is None else match.end()


def _token(text: str, at: int) -> tuple[Token, int]:
    """Return the word at a place, and the place behind it."""
    character = text[at]
    if character == "'":
        return _string(text, at)
    if character == '"':
        end = text.find('"', at + 1)
        inside = text[at + 1 : end] if end >= 0 else ""
        if end < 0 or "\n" in inside:
            raise syntax_error(text, at, 'a name in double quotes does not end: the closing " is missing')
        return Token("quoted", inside, None, at), end + 1
    if character == "@":
        version = _VERSION.match(text, at + 1)
        if version is None:
            raise syntax_error(text, at, "a branch, commit or tag must follow @")
        return Token("version", version.group(), None, at), version.end()
    if character == "$":
        name = _NAME.match(text, at + 1)
        if name is None:
            raise syntax_error(text, at, "a name must follow $; values in order are those of ?")
        return Token("parameter", name.group(), None, at), name.end()
    name = _NAME.match(text, at)
    if name is not None:
        return Token("name", name.group(), None, at), name.end()
    number = _NUMBER.match(text, at)
    if number is not None and character in "0123456789.":
        return _number(text, at, number.group())
    operator = _OPERATOR.match(text, at)
    if operator is not None:
        return Token("operator", operator.group(), None, at), operator.end()
    raise syntax_error(text, at, f"no word of a query begins with {character!r}{_advice(character)}")


def _string(text: str, at: int) -> tuple[Token, int]:
    parts: list[str] = []
    start = at + 1
    while True:
        end = text.find("'", start)
        if end < 0:
            hint = "; a quote inside is two of them: ''" if "\\'" in text[at:] or "\\'" in text[:at] else ""
            raise syntax_error(text, at, f"a string does not end: the closing ' is missing{hint}")
        parts.append(text[start:end])
        if not text.startswith("''", end):
            return Token("string", "'".join(parts), None, at), end + 1
        start = end + 2


def _number(text: str, at: int, digits: str) -> tuple[Token, int]:
    end = at + len(digits)
    if end < len(text) and (text[end].isalnum() or text[end] == "_"):
        raise syntax_error(text, end, f"a number does not go on with {text[end]!r}")
    if not digits.isdigit():
        return Token("float", digits, float(digits), at), end
    octal = len(digits) > 1 and digits[0] == "0"
    if octal and ("8" in digits or "9" in digits):
        raise syntax_error(text, at, f"{digits} begins with 0 and is octal, which has no digits 8 and 9")
    if len(digits) > 25:
        raise syntax_error(text, at, "the number is larger than 64 bits")
    value = int(digits, 8 if octal else 10)
    if value > _LARGEST:
        raise syntax_error(text, at, f"{digits} is larger than 64 bits")
    return Token("integer", digits, value, at), end


def _advice(character: str) -> str:
    if character == "!":
        return "; unequal is !=, and NOT is the word"
    if character == "&":
        return "; write AND"
    if character == "|":
        return "; write OR, and || to put texts together"
    if character == "#":
        return "; a comment goes from -- to the end of its line"
    if character == "`":
        return "; a name that is no single word stands in double quotes"
    if character == "_":
        return '; a name that begins with an underscore needs double quotes: "_name"'
    return ""
