"""Change lines of the library one at a time, and print which changes the tests notice.

``python scripts/mutants.py format/lakebed/query unit_tests/lakebed/query --count 20 --seed 1 --write before.json``
draws 20 changes. ``--again before.json`` tries those that were caught once more: after the tests became fewer, each
that is still a line of the library must be caught again.

The tests run once with a profiler, which records the functions that each test enters. Each change is tried in a fork
of that process, by the shortest tests that enter its function: at most `MOST_TESTS`. Tests that start processes of
their own do not see the change.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest

MOST_TESTS = 60
"""Tests that are run for one change."""
SECONDS = 120
"""Time after which a change counts as caught: it made a loop endless."""

Key = tuple[str, str, int]
"""A function: its file, its qualified name, its first line."""
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_PYTEST = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]


class Recorder:
    """A plugin of pytest that records which functions of the library each test enters.

    For each function, ``tests`` holds the durations and names of the tests that enter it.
    """

    def __init__(self) -> None:
        self.tests: defaultdict[Key, list[tuple[float, str]]] = defaultdict(list)
        self._entered: set[CodeType] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record one test."""
        self._entered, began = set(), time.monotonic()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            result = yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        for code in list(self._entered):
            if "lakebed" in code.co_filename or "destination_deeplake" in code.co_filename:
                self.tests[_key(code)].append((time.monotonic() - began, item.nodeid))
        return result

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._entered.add(frame.f_code)


def _key(code: CodeType) -> Key:
    return os.path.relpath(code.co_filename), code.co_qualname, code.co_firstlineno


def changed(node: ast.AST) -> ast.AST | None:
    """Return a copy of ``node`` with another meaning, or None if it is of a kind that is not changed."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in _SWAPS:
        new.ops[0] = _SWAPS[type(new.ops[0])]()  # type: ignore[call-overload]
    elif isinstance(new, ast.BoolOp | ast.BinOp) and type(new.op) in _SWAPS:
        new.op = _SWAPS[type(new.op)]()  # type: ignore[assignment]
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        return new.operand
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        new.value = not new.value
    elif isinstance(new, ast.Constant) and isinstance(new.value, int):
        new.value += 1
    elif isinstance(new, ast.If | ast.IfExp):
        new.test = ast.copy_location(ast.UnaryOp(ast.Not(), new.test), new.test)
    elif isinstance(new, ast.Expr) and isinstance(new.value, ast.Call):
        new.value = ast.copy_location(ast.Constant(None), new.value)
    else:
        return None
    return new


def _functions(tree: ast.AST, scope: str = "") -> Iterator[tuple[str, int, ast.AST]]:
    """Yield the qualified name, the first line and the node of each function that is in no other one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield scope + node.name, first, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{scope}{node.name}.")


def places(path: Path, tree: ast.Module) -> Iterator[tuple[dict[str, object], Key, ast.AST, ast.AST]]:
    """Yield what can be changed in a file: a description that survives moved lines, the function, old and new node."""
    for name, first, function in _functions(tree):
        told: defaultdict[str, int] = defaultdict(int)
        for node in ast.walk(ast.Module(function.body, [])):  # type: ignore[attr-defined]
            new = changed(node)
            if new is not None:
                text = f"{_first_line(node)} -> {_first_line(new)}"
                told[text] += 1
                mutant = {"file": str(path), "function": name, "change": text, "nth": told[text]}
                yield mutant, (str(path), name, first), node, new


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).split("\n", 1)[0]


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _install(path: Path, tree: ast.Module) -> None:
    """Give the functions of this process that ``path`` defines the code of ``tree``."""
    compiled = compile(ast.fix_missing_locations(tree), str(path.resolve()), "exec", dont_inherit=True)
    new = {_key(code): code for code in _codes(compiled)}
    gc.unfreeze()
    for function in [each for each in gc.get_objects() if type(each) is FunctionType]:
        if os.path.relpath(function.__code__.co_filename) == str(path):
            function.__code__ = new.get(_key(function.__code__), function.__code__)


def is_caught(path: Path, tree: ast.Module, tests: list[str]) -> bool:
    """Run ``tests`` in a fork of this process in which ``path`` is the changed ``tree``."""
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        status = 3
        try:
            _install(path, tree)
            status = int(pytest.main([*_PYTEST, "-x", *tests]))
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def main() -> None:
    """Draw changes, or read them, and try them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="file for the changes and their fates")
    parser.add_argument("--again", type=Path, help="such a file: try those that were caught")
    options = parser.parse_args()
    recorder = Recorder()
    if pytest.main([*_PYTEST, *options.tests], plugins=[recorder]) != 0:
        sys.exit("the tests fail without any change")
    files = sorted(options.source.rglob("*.py")) if options.source.is_dir() else [options.source]
    drawn = [
        (mutant, key) for path in files for mutant, key, _, _ in places(path, ast.parse(path.read_bytes()))
    ]
    if options.again:
        wanted = [
            mutant for mutant in json.loads(options.again.read_text()) if mutant.pop("fate") == "caught"
        ]
        drawn = [each for each in drawn if each[0] in wanted]
        print(f"{len(wanted) - len(drawn)} of {len(wanted)} changes are no longer lines of the library")
    else:
        random.Random(options.seed).shuffle(drawn)
        drawn = drawn[: options.count]
    fates = []
    for mutant, key in drawn:
        tests = [name for _, name in sorted(recorder.tests.get(key, []))][:MOST_TESTS]
        path = Path(str(mutant["file"]))
        tree = ast.parse(path.read_bytes())
        old, new = next((old, new) for found, _, old, new in places(path, tree) if found == mutant)
        fate = "not entered"
        if tests:
            fails_alone = is_caught(path, tree, tests)  # such as tests of threads that a fork does not have
            _Replace(old, new).visit(tree)
            fate = "undecided" if fails_alone else "caught" if is_caught(path, tree, tests) else "missed"
        print(f"{fate:12} {mutant['file']} {mutant['function']}: {mutant['change']}", flush=True)
        fates.append({**mutant, "fate": fate})
    print(dict(Counter(each["fate"] for each in fates)))
    if options.write:
        options.write.write_text(json.dumps(fates, indent=1))


if __name__ == "__main__":
    main()
