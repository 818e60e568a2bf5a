"""Lexer: the text of a query to tokens.

    kind       source                                            text
    name       letter, then letters, digits, underscores         the source
    quoted     "..." without a line break                        the part inside the quotes
    string     '...', in which '' is a quote                     the part inside the quotes
    integer    decimal; octal after a leading 0                  the source; `value` is an int
    float      1. .5 1e3 1.5E-2                                  the source; `value` is a float
    version    @ and a reference                                 the reference
    parameter  $ and a name                                      the name
    operator   one of OPERATORS                                  the source
    end        end of the query                                  empty

White space is space, tab, line feed and carriage return; a comment goes from ``--`` to the end of its line. Any other
character is an error. (Deep Lake's engines, from which this language comes, silently end the query at such a
character.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakebed.query.language.errors import syntax_error

OPERATORS = (
    "...", "==", "!=", "<>", "<=", ">=", "||", "=", "<", ">", "+", "-", "*", "/", "%", "^", "(", ")", "[", "]", ",",
    ".", ":", "?", ";",
)  # fmt: skip
"""Operators in the order in which they are tried, longest first."""

MAX_LENGTH = 1 << 22
"""Maximum number of characters in a query: parsing a longer one would take many seconds without checking the clock."""

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|--[^\n]*)*")
_NAME = re.compile(r"[^\W\d_]\w*")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_VERSION = re.compile(r"[A-Za-z0-9_~^./+-]+")
_OPERATOR = re.compile("|".join(map(re.escape, OPERATORS)))
_LARGEST = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a query; see the module for `kind` and `text`.

    Attributes
    ----------
    value
        Value of a number; None for other tokens.
    at
        Position of the first character in the query.
    """

    kind: str
    text: str
    value: int | float | None
    at: int


def tokens(text: str) -> list[Token]:
    """Return the tokens of a query, the last of kind ``end``.

    Raises
    ------
    QuerySyntaxError
        If a character begins no token, or a quotation does not end.
    """
    if len(text) > MAX_LENGTH:
        message = f"a query has up to {MAX_LENGTH:,} characters, not {len(text):,}; pass large values for ?"
        raise syntax_error(text, 0, message)
    if not is_writable(text):
        raise syntax_error(text, 0, f"the text {HALF}")
    found: list[Token] = []
    at = _skip(text, 0)
    while at < len(text):
        token, at = _token(text, at)
        found.append(token)
        at = _skip(text, at)
    found.append(Token("end", "", None, len(text)))
    return found


HALF = "has half of a character, a lone surrogate, which UTF-8 cannot encode"


def is_writable(text: str) -> bool:
    """Return whether UTF-8 can encode a text; it cannot encode lone surrogates, which Python's texts may contain."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _skip(text: str, at: int) -> int:
    match = _SKIPPED.match(text, at)
    return at if match is None else match.end()


def _token(text: str, at: int) -> tuple[Token, int]:
    """Return the token at a position, and the position after the token."""
    character = text[at]
    if character == "'":
        return _string(text, at)
    if character == '"':
        end = text.find('"', at + 1)
        inside = text[at + 1 : end] if end >= 0 else ""
        if end < 0 or "\n" in inside:
            raise syntax_error(text, at, 'a name in double quotes does not end: the closing " is missing')
        return Token("quoted", inside, None, at), end + 1
    for kind, start, pattern, message in _KINDS:
        if text.startswith(start, at):
            match = pattern.match(text, at + len(start))
            if match is not None:
                return Token(kind, match.group(), None, at), match.end()
            if message:
                raise syntax_error(text, at, message)
    number = _NUMBER.match(text, at)
    if number is not None and character in "0123456789.":
        return _number(text, at, number.group())
    operator = _OPERATOR.match(text, at)
    if operator is not None:
        return Token("operator", operator.group(), None, at), operator.end()
    hint = _ADVICE.get(character, "")
    raise syntax_error(text, at, f"no word of a query begins with {character!r}{hint}")


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
        raise syntax_error(text, end, f"unexpected {text[end]!r} after a number")
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


_KINDS = (
    ("version", "@", _VERSION, "a branch, commit or tag must follow @"),
    ("parameter", "$", _NAME, "a name must follow $; write ? for values that are passed in order"),
    ("name", "", _NAME, ""),
)
"""Kind of token, its first character, the pattern of its text, and the message if the pattern does not match."""

_ADVICE = {
    "!": "; unequal is !=, and negation is NOT",
    "&": "; write AND",
    "|": "; write OR, and || to join texts",
    "#": "; a comment goes from -- to the end of its line",
    "`": "; a name with other characters needs double quotes",
    "_": '; a name that begins with an underscore needs double quotes: "_name"',
}
