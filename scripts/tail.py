"""Print the five largest modules, classes and functions: the tail is where a code base goes bad."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOTS = ("format/lakebed", "destination_deeplake", "benchmarks", "demo", "scripts")
LIMITS = {"module": 500, "class": 30, "function": 60}
"""Lines of a module, public methods of a class, lines of a function."""


class Size(NamedTuple):
    """How large one thing is, and where it is."""

    kind: str
    size: int
    where: str


def sizes(path: Path) -> Iterator[Size]:
    """Measure one Python file."""
    source = path.read_text(encoding="utf-8")
    yield Size("module", source.count("\n"), str(path))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
            yield Size("class", len(methods), f"{path}:{node.lineno} {node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Size("function", lines, f"{path}:{node.lineno} {node.name}")


def main() -> None:
    """Print the tables; a `!` marks what is over the limit."""
    paths = [path for root in ROOTS for path in sorted(Path(root).rglob("*.py"))]
    found = [size for path in paths for size in sizes(path)]
    for kind, unit in (("module", "lines"), ("class", "public methods"), ("function", "lines")):
        print(f"largest of each {kind} ({unit}, limit {LIMITS[kind]})")
        for size in sorted((s for s in found if s.kind == kind), key=lambda s: -s.size)[:5]:
            print(f"  {size.size:5}{'!' if size.size > LIMITS[kind] else ' '} {size.where}")


if __name__ == "__main__":
    main()
