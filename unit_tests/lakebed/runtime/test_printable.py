"""What may be printed of a text that somebody else wrote."""

from __future__ import annotations

import sys
import unicodedata

from lakebed.errors import InvalidInputError
from lakebed.runtime.printable import printable


def test_nothing_comes_out_that_a_terminal_obeys_or_hides() -> None:
    """Of all characters, no control, direction mark, separator of lines, tag or half of a pair stays."""
    text = "".join(map(chr, range(sys.maxunicode + 1)))
    left = [c for c in printable(text) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    signs_of_arabic = {c for c in left if unicodedata.bidirectional(c) in ("AN", "AL")}
    others = {c for c in set(left) - signs_of_arabic if not 0x13430 <= ord(c) <= 0x1345F}  # hieroglyphs
    assert others == {"\u200c", "\u200d", "\U000110bd", "\U000110cd"}  # joiners; numbers of a script of India


def test_it_is_seen_what_was_there() -> None:
    """Escaped as in Python's source; what people write stays as it is."""
    assert printable("a\x07\x9b\r\x7f\u202e\u2028\ud800\n\t") == r"a\x07\x9b\r\x7f\u202e\u2028\ud800\n\t"
    for text in ("plain", "Zoë", "数据", "नमस्ते", "و\u200cن", "👩\u200d🚀", "a b"):
        assert printable(text) == text


def test_text_in_lines_keeps_its_lines() -> None:
    """Line ends and tabs stay, and nothing else of the controls."""
    assert printable("a\n\tb\r\n\x1b", lines=True) == "a\n\tb\\r\n\\x1b"


def test_errors_show_no_control_characters() -> None:
    """A name in a message is escaped when the message is printed, in a traceback, too."""
    error = InvalidInputError("no tensor \x9b31m")
    assert str(error) == r"no tensor \x9b31m"
    assert error.message == "no tensor \x9b31m"
