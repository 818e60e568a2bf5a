"""RESULTS.md, of which each program writes a part of its own between two marks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.inputs import ROOT

RESULTS = ROOT / "benchmarks/RESULTS.md"


def put(program: str, heading: str, lines: Sequence[str]) -> None:
    """Replace the part of a program, or add it at the end.

    Parameters
    ----------
    program
        ``benchmarks.query``.
    heading, lines
        What stands between the marks, in Markdown.
    """
    begin, end = f"<!-- begin: {program} -->", f"<!-- end: {program} -->"
    part = "\n".join([begin, "", f"## {heading}", "", *lines, "", end])
    before = RESULTS.read_text(encoding="utf-8")
    if begin in before:
        head, rest = before.split(begin, 1)
        after = head + part + rest.split(end, 1)[1]
    else:
        after = f"{before.rstrip()}\n\n{part}\n"
    RESULTS.write_text(after, encoding="utf-8")
