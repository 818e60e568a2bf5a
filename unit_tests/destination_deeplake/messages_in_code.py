"""The error messages of the connector, as its code has them: texts with `…` for what is filled in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import destination_deeplake

_ROOT = Path(destination_deeplake.__file__).parent
_FILLED = "…"
_NAMED = {"UNEXPECTED", "_CONFIG_ERRNO", "_OF_LAKEBED"}
"""Constants that hold messages, or parts of them."""
_RETURNED = {"_classified", "problem_with"}
"""Functions that return messages."""
_OURS_TO_PASS_ON = {"ValueError": "chosen.py"}
"""Errors of Python's that become messages, in the file where they do."""


_ERRORS = ("ConfigError", "SourceProtocolError", "IncompleteSourceError", "ConnectorError", "StagedFileError")


def messages() -> dict[str, str]:
    """Every error message -> where it is."""
    found: dict[str, str] = {}
    for path in sorted(_ROOT.rglob("*.py")):
        name = path.relative_to(_ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            for text in _messages(node, name):
                if len(text.strip(_FILLED + " .,:")) > 3:
                    found.setdefault(text, f"{name}:{getattr(node, 'lineno', 0)}")
    return found


def _messages(node: ast.AST, file: str) -> Iterator[str]:
    if isinstance(node, ast.Call) and node.args:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "error" and len(node.args) == 2:
            yield from _texts(node.args[1])
        elif called in _ERRORS or (_OURS_TO_PASS_ON.get(called) == file):
            yield from _texts(node.args[0])
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id in _NAMED for target in targets) and node.value:
            values = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
            for value in values:
                yield from _texts(value)
    elif isinstance(node, ast.FunctionDef) and node.name in _RETURNED:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield from _texts(inner.value)


def _texts(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may be: one for each branch of a condition, each part of a tuple."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else _FILLED
            for part in node.values
        )
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.Tuple):
        for element in node.elts[1:]:  # the first one is a type
            yield from _texts(element)
