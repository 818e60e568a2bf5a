"""Text of unknown origin -> text that does nothing but show itself.

Names, messages, paths and links in a dataset are written by whoever made it. Printed as they are, control characters
ring, move the cursor, colour or overwrite what stands on the screen (ESC, and 0x9b, which many terminals take for
``ESC [``), and marks of writing direction and invisible characters make one name look like another. Everything that
is printed, logged or told in an error goes through `printable`.

Escaped are C0, DEL, C1, the controls of writing direction, separators of lines and paragraphs, characters without
width, tags, and halves of surrogate pairs, which no output can encode. The two joiners U+200C and U+200D stay: many
scripts and emoji are not written without them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNSAFE = (
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return text with everything escaped that would do more than show itself.

    Parameters
    ----------
    lines
        Keep line ends (``\n``) and tabs, of text that is laid out in lines.

    Examples
    --------
    >>> print(printable("a\x9b31m\u202e\nb"))
    a\x9b31m\u202e\nb
    """
    if text.isprintable():
        return text
    return re.sub(_UNSAFE, _but_layout if lines else _escaped, text)


def shortened(value: object, most: int = 40) -> str:
    """Return a value as text on one line, cut where it is longer than that many characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= most else text[: most - 3] + "..."


def _but_layout(found: re.Match[str]) -> str:
    return found[0] if found[0] in "\n\t" else _escaped(found)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, its columns one below the other."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return ["  ".join(cells).rstrip() for cells in padded]
