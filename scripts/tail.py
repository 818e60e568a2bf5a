"""Print both tails of the code: the largest modules, classes and functions, and the modules too small to stand alone.

A class counts with the methods that it inherits from classes of the packages, so that none becomes small by being cut
into a ladder of base classes. A facade whose chapters stand side by side counts chapter by chapter.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOTS = ("format/lakebed", "destination_deeplake", "benchmarks", "demo", "scripts")
PACKAGES = {"format/lakebed": "lakebed", "destination_deeplake": "destination_deeplake"}
LIMITS = {"module": 700, "class": 30, "function": 60}
"""Lines of a module, public methods of a class with its bases, lines of a function."""

CHAPTERS = 25
"""Methods of one chapter of a facade."""

SLIVER = 60
"""A module with fewer lines and one importer belongs into that importer.

Not if it is loaded when it is used, by an import in a function; nor a chapter of a facade (its name begins with `_`),
nor a command of a command line, which have files of their own however short they are.
"""


class Size(NamedTuple):
    """How large one thing is, and where it is."""

    kind: str
    size: int
    where: str


@dataclass(frozen=True, slots=True)
class Class:
    """One class of the packages.

    Parameters
    ----------
    bases
        Names of the classes that it names as its bases.
    methods
        Names of all its own methods.
    """

    name: str
    where: str
    bases: tuple[str, ...]
    methods: frozenset[str]

    @property
    def public(self) -> frozenset[str]:
        """Names of its own public methods."""
        return frozenset(name for name in self.methods if name[0] != "_")


def _foreign(tree: ast.Module) -> frozenset[str]:
    """Return the names that a file imports from elsewhere than these roots."""
    own = tuple(root.rpartition("/")[2] for root in ROOTS)
    return frozenset(
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in own
        for alias in node.names
    )


def classes(path: Path, tree: ast.Module) -> Iterator[Class]:
    """Yield the classes of one file; a base that another package defines is none that counts."""
    foreign = _foreign(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = frozenset(
                n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
            names = tuple(
                base.attr if isinstance(base, ast.Attribute) else base.id
                for base in bases
                if isinstance(base, ast.Attribute) or (isinstance(base, ast.Name) and base.id not in foreign)
            )
            yield Class(node.name, f"{path}:{node.lineno}", names, methods)


def functions(path: Path, tree: ast.Module) -> Iterator[Size]:
    """Yield the length of each function of one file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Size("function", lines, f"{path}:{node.lineno} {node.name}")


Known = Mapping[str, Sequence[Class]]
"""All classes of the packages by name."""


def bases_of(cls: Class, known: Known) -> list[Class]:
    """Return the bases of a class that the packages define; of several of a name that in the nearest file."""

    def nearness(other: Class) -> tuple[bool, int]:
        here, there = (c.where.partition(":")[0] for c in (cls, other))
        return here == there, len(os.path.commonpath([here, there]))

    return [max(known[name], key=nearness) for name in cls.bases if name in known]


def inherited(cls: Class, known: Known) -> list[Class]:
    """Return a class and all classes of the packages that it inherits from, each once."""
    found = {cls.where: cls}
    waiting = bases_of(cls, known)
    while waiting:
        base = waiting.pop(0)
        if base.where not in found:
            found[base.where] = base
            waiting += bases_of(base, known)
    return list(found.values())


def is_facade(cls: Class, known: Known) -> bool:
    """Whether a class is put together of chapters side by side: at least three, none of them on another."""
    chapters = bases_of(cls, known)
    above = [inherited(chapter, known)[1:] for chapter in chapters]
    return len(chapters) >= 3 and not any(base in chapters for bases in above for base in bases)


def class_sizes(found: Iterable[Class]) -> Iterator[Size]:
    """Measure classes by their public methods, those of their bases included.

    Facades that 3.x made large count by their largest chapter instead, private methods included, over `CHAPTERS`.
    """
    known: dict[str, list[Class]] = {}
    for cls in found:
        known.setdefault(cls.name, []).append(cls)
    for cls in (cls for several in known.values() for cls in several):
        family = inherited(cls, known)
        if is_facade(cls, known):
            largest = max(family, key=lambda part: len(part.methods))
            excess = max(0, len(largest.methods) - CHAPTERS)
            where = f"{cls.where} {cls.name} (facade of {len(family)} classes, the largest {largest.name})"
            yield Size("class", LIMITS["class"] + excess if excess else len(largest.public), where)
            continue
        count = len(frozenset().union(*(part.public for part in family)))
        bases = f" with {', '.join(part.name for part in family[1:])}" if len(family) > 1 else ""
        yield Size("class", count, f"{cls.where} {cls.name}{bases}")


# -- the small end -----------------------------------------------------------------------------------------------


def module_name(path: Path) -> str | None:
    """Return the name under which a file of the packages is imported."""
    for root, package in PACKAGES.items():
        if path.is_relative_to(root):
            parts = [package, *path.relative_to(root).with_suffix("").parts]
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return None


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the names of modules that one file may mean by its imports, in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def slivers(trees: Mapping[Path, ast.Module], lines: Mapping[Path, int]) -> Iterator[Size]:
    """Yield modules below `SLIVER` lines that one other module imports; those that begin a program are none."""
    paths = {name: path for path in trees if (name := module_name(path)) is not None}
    importers: dict[str, set[str]] = {name: set() for name in paths}
    later: set[str] = set()
    for name, path in paths.items():
        for other in set(imports(trees[path])) & importers.keys() - {name}:
            importers[other].add(name)
        inside = [node for node in ast.walk(trees[path]) if isinstance(node, ast.FunctionDef)]
        later |= {other for node in inside for other in imports(node)}
    for name, path in paths.items():
        stands_alone = path.stem[0] == "_" or path.parent.name == "cli" or name in later
        if lines[path] < SLIVER and not stands_alone and len(importers[name]) == 1:
            yield Size("sliver", lines[path], f"{path} -> {paths[min(importers[name])]}")


def measured() -> tuple[list[Size], list[Size]]:
    """Return the sizes of everything large, and the modules that are too small."""
    paths = [path for root in ROOTS for path in sorted(Path(root).rglob("*.py"))]
    sources = {path: path.read_text(encoding="utf-8") for path in paths}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    lines = {path: source.count("\n") for path, source in sources.items()}
    found = [Size("module", count, str(path)) for path, count in lines.items()]
    found += class_sizes(cls for path, tree in trees.items() for cls in classes(path, tree))
    found += [size for path, tree in trees.items() for size in functions(path, tree)]
    return found, sorted(slivers(trees, lines), key=lambda size: size.size)


def main() -> None:
    """Print the tables; a `!` marks what is over the limit."""
    found, small = measured()
    units = {"module": "lines", "class": "public methods with its bases", "function": "lines"}
    for kind, unit in units.items():
        sizes = sorted((s for s in found if s.kind == kind), key=lambda s: -s.size)
        print(f"largest of each {kind} ({unit}, limit {LIMITS[kind]})")
        over = sum(size.size > LIMITS[kind] for size in sizes)
        for size in sizes[: max(5, over)]:
            print(f"  {size.size:5}{'!' if size.size > LIMITS[kind] else ' '} {size.where}")
    print(f"modules below {SLIVER} lines with one importer, which should hold them: {len(small)}")
    for size in small:
        print(f"  {size.size:5}  {size.where}")


if __name__ == "__main__":
    main()
