"""Text of unknown origin, made safe for terminals and logs.

Names, messages, paths and links in a dataset come from its writer. Control characters in them ring, move the cursor,
colour or overwrite the screen (ESC, and 0x9b, which many terminals read as ``ESC [``), and marks of writing direction
and invisible characters make one name look like another. All printed, logged and raised text goes through `printable`.

It escapes C0, DEL, C1, the controls of writing direction, separators of lines and paragraphs, characters without width,
tags, and halves of surrogate pairs, which no output can encode. The two joiners U+200C and U+200D stay, since many
scripts and emoji need them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNSAFE = (
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return text with all control and invisible characters escaped.

    Parameters
    ----------
    lines
        Keep line ends (``\n``) and tabs.

    Examples
    --------
    >>> print(printable("a\x9b31m\u202e\nb"))
    a\x9b31m\u202e\nb
    """
    if text.isprintable():
        return text
    return re.sub(_UNSAFE, _but_layout if lines else _escaped, text)


def shortened(value: object, most: int = 40) -> str:
    """Return a value as text on one line of at most `most` characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= most else text[: most - 3] + "..."


def _but_layout(found: re.Match[str]) -> str:
    return found[0] if found[0] in "\n\t" else _escaped(found)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return ["  ".join(cells).rstrip() for cells in padded]
