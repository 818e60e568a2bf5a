"""Print the weight of the library: lines of code, classes, functions, folders, circles, repetitions, broad ``except``.

A line of code is one that holds a token of a statement: no docstring, import, comment or blank line. The viewer and the
verbs are counted apart.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.cycles import circles

LIBRARY = Path("format/lakebed")
APART = ("viewer", "verbs")
RUN = 6
"""Lines of code that stand in two places to count as a repetition."""

_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


def lines_of_code(source: str, tree: ast.Module) -> list[int]:
    """Return the numbers of the lines that hold code, of which docstrings and imports are none."""
    left_out: set[int] = set()
    for node in ast.walk(tree):
        is_text = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        if isinstance(node, ast.stmt) and (is_text or isinstance(node, ast.Import | ast.ImportFrom)):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SILENT:
            held |= set(range(token.start[0], token.end[0] + 1))
    return sorted(held - left_out)


def repetitions(codes: Mapping[Path, Iterable[str]]) -> Iterator[tuple[str, str]]:
    """Yield pairs of places (file, number of the code line) at which a run of `RUN` equal lines of code begins.

    Runs are as long as they can be, and counted once. Lines of brackets alone, and runs without a statement that calls,
    computes or compares, are boilerplate.
    """
    places: defaultdict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    texts = {path: list(code) for path, code in codes.items()}
    for path, code in texts.items():
        for at in range(len(code) - RUN + 1):
            places[tuple(code[at : at + RUN])].append((path, at))
    for run, found in places.items():
        if len(found) < 2 or _is_boilerplate(run):
            continue
        first, *others = found
        for other in others:
            before = [texts[p][at - 1] if at else None for p, at in (first, other)]
            if before[0] is None or before[0] != before[1]:
                yield f"{first[0]}:{first[1]}", f"{other[0]}:{other[1]}"


def _is_boilerplate(run: Iterable[str]) -> bool:
    telling = [
        line for line in run if len(line) > 4 and not line.startswith(("def ", "@", "class ", '"', "*"))
    ]
    return len(telling) < RUN - 2


def broad_excepts(tree: ast.AST) -> int:
    """Count handlers of every error."""
    broad = {"Exception", "BaseException"}
    return sum(
        isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in broad))
        for node in ast.walk(tree)
    )


def main() -> None:
    """Print the table."""
    paths = sorted(LIBRARY.rglob("*.py"))
    paths = [path for path in paths if "node_modules" not in path.parts]
    sources = {path: path.read_text(encoding="utf-8") for path in paths}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    numbers = {path: lines_of_code(sources[path], tree) for path, tree in trees.items()}
    rooms: Counter[str] = Counter()
    for path, held in numbers.items():
        parts = path.relative_to(LIBRARY).parts
        rooms[parts[0] if len(parts) > 1 else "top"] += len(held)
    house = sum(count for room, count in rooms.items() if room not in APART)
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    folders = Counter(path.parent for path in paths)
    largest, count = folders.most_common(1)[0]
    codes = {
        path: [sources[path].splitlines()[n - 1].strip() for n in held] for path, held in numbers.items()
    }
    twice = list(repetitions(codes))
    tests = [path for root in ("unit_tests", "integration_tests") for path in Path(root).rglob("*.py")]
    print(f"{house:8,} lines of code of {LIBRARY}, {' and '.join(APART)} not counted")
    print(f"{rooms['importers'] + rooms['exporters']:8,} of it importers and exporters")
    print("         " + ", ".join(f"{room} {count:,}" for room, count in rooms.most_common()))
    print(f"{sum(isinstance(node, ast.ClassDef) for node in nodes):8,} classes")
    print(f"{sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes):8,} functions")
    print(f"{count:8,} modules in the largest folder, {largest}")
    print(f"{folders[LIBRARY]:8,} loose modules at the top")
    print(f"{len(circles(types=True)):8,} circles, counting imports for types")
    print(f"{len(twice):8,} pairs of equal runs of {RUN} lines of code")
    print(f"{sum(map(broad_excepts, trees.values())):8,} broad excepts")
    print(f"{sum(path.read_text(encoding='utf-8').count(chr(10)) for path in tests):8,} lines of tests")
    if "--twice" in sys.argv:
        print(*(" = ".join(pair) for pair in twice), sep="\n")


if __name__ == "__main__":
    main()
