"""`make tail` sees ladders of classes, facades and slivers."""

from __future__ import annotations

import ast
from pathlib import Path

from scripts import tail


def sizes(source: str) -> dict[str, int]:
    found = tail.class_sizes(tail.classes(Path("module.py"), ast.parse(source)))
    return {size.where.split()[1]: size.size for size in found}


def methods(*names: str) -> str:
    return "".join(f"    def {name}(self): ...\n" for name in names)


def test_a_ladder_counts_as_a_whole() -> None:
    source = f"class A:\n{methods('a', 'b', '_c')}class B(A):\n{methods('b', 'd')}class C(B):\n{methods('e')}"

    assert sizes(source) == {"A": 2, "B": 3, "C": 4}


def test_a_facade_counts_by_its_largest_chapter() -> None:
    chapters = "".join(
        f"class M{n}(Base):\n{methods(*(f'm{n}_{i}' for i in range(count)))}"
        for n, count in enumerate((20, 25, 5))
    )
    source = f"class Base:\n{methods('__init__', '_x')}{chapters}class Facade(M0, M1, M2):\n{methods('own')}"

    assert sizes(source)["Facade"] == 25
    grown = source.replace("    def m1_0(", "    def m1_25(self): ...\n    def m1_0(")
    assert sizes(grown)["Facade"] > tail.LIMITS["class"]
    on_another = source.replace("class M2(Base)", "class M2(M1)")
    assert sizes(on_another)["Facade"] == 51, "chapters on one another are a ladder"


def test_small_modules_with_one_importer_are_named() -> None:
    files = {
        "format/lakebed/small.py": "x = 1\n",
        "format/lakebed/shared.py": "x = 1\n",
        "format/lakebed/later.py": "x = 1\n",
        "format/lakebed/_chapter.py": "x = 1\n",
        "format/lakebed/large.py": "x = 1\n" * 70,
        "format/lakebed/a.py": "from lakebed import large, shared, _chapter\nfrom lakebed.small import x\n",
        "format/lakebed/b.py": "import lakebed.shared, lakebed.a\n" + "x = 1\n" * 70,
        "format/lakebed/c.py": "import lakebed.a\ndef f():\n    from lakebed import later\n",
    }
    trees = {Path(name): ast.parse(source) for name, source in files.items()}
    lines = {Path(name): source.count("\n") for name, source in files.items()}

    found = [size.where for size in tail.slivers(trees, lines)]

    assert found == ["format/lakebed/small.py -> format/lakebed/a.py"]


def test_the_library_keeps_to_the_rule_for_facades() -> None:
    """A chapter of `Dataset` or `Tensor` has at most 25 methods, and none stands on another."""
    found: dict[str, list[tail.Class]] = {}
    for path in sorted(Path("format/lakebed/dataset").rglob("*.py")):
        for cls in tail.classes(path, ast.parse(path.read_text())):
            found.setdefault(cls.name, []).append(cls)

    for name in ("Dataset", "Tensor"):
        (facade,) = found[name]
        assert tail.is_facade(facade, found)
        assert max(len(part.methods) for part in tail.inherited(facade, found)) <= tail.CHAPTERS
