"""Weights of the library, measured on small files."""

from __future__ import annotations

import ast
from pathlib import Path

from scripts.cycles import _connected
from scripts.measures import broad_excepts, lines_of_code, repetitions

SOURCE = '''"""A module."""

import os  # a comment


def f(a: int) -> str:
    """Tell.

    More.
    """
    # a comment
    text = """two
lines"""
    try:
        return g(
            a,
        )
    except Exception:
        return text
'''


def test_lines_of_code_are_neither_docstrings_nor_imports_nor_comments() -> None:
    assert lines_of_code(SOURCE, ast.parse(SOURCE)) == [6, 12, 13, 14, 15, 16, 17, 18, 19]


def test_errors_of_every_kind_that_are_caught_are_counted() -> None:
    assert broad_excepts(ast.parse(SOURCE)) == 1
    assert broad_excepts(ast.parse("try: f()\nexcept: g()\ntry: f()\nexcept KeyError: g()")) == 1


def test_a_repetition_is_counted_once_however_long_it_is() -> None:
    same = [f"value_{n} = compute({n})" for n in range(9)]
    other = [f"other_{n} = compute({n})" for n in range(9)]
    found = list(repetitions({Path("a"): [*same, *other], Path("b"): ["x = 1", *same], Path("c"): same[:5]}))
    assert found == [("a:0", "b:1")]


def test_circles_are_the_groups_that_lead_back() -> None:
    below = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": ["d"], "f": ["a"]}
    assert sorted(sorted(group) for group in _connected(below)) == [["a", "b", "c"], ["d", "e"], ["f"]]
