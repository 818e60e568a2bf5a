r"""Names with wildcards: `*` is any text, `?` any character, `\*` and `\?` the characters themselves."""

import re
from functools import lru_cache

_PARTS = re.compile(r"\\[*?\\]|[*?]|[^*?\\]+|\\", re.DOTALL)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_translated(part) for part in _PARTS.findall(pattern)), re.DOTALL)


def _translated(part: str) -> str:
    if part == "*":
        return ".*"
    if part == "?":
        return "."
    return re.escape(part[1:] if part[0] == "\\" and len(part) > 1 else part)


def matches(pattern: str, name: str) -> bool:
    r"""Tell whether a pattern matches a whole name; upper and lower case differ.

    Examples
    --------
    >>> matches("public_*", "public_users"), matches("a?", "a"), matches(r"a\*", "a*")
    (True, False, True)
    """
    return _compiled(pattern).fullmatch(name) is not None


def is_open(pattern: str) -> bool:
    r"""Tell whether a pattern may match several names.

    Examples
    --------
    >>> is_open("public_*"), is_open(r"a\*")
    (True, False)
    """
    return any(part in ("*", "?") for part in _PARTS.findall(pattern))
