"""Fail when modules import each other in a circle.

import-linter's layers compare packages. This compares single modules, function-level imports included, so
that none hides in a function "because of a cycle".
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping

import grimp

PACKAGES = ("lakebed", "destination_deeplake")


def circles(*, types: bool) -> list[set[str]]:
    """Return the groups of modules that import each other, directly or not; imports for types count if ``types``."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=not types)
    below = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    return [group for group in _connected(below) if len(group) > 1]


def _connected(below: Mapping[str, Collection[str]]) -> Iterator[set[str]]:
    """Yield the strongly connected groups of a graph (Tarjan 1972), without recursion."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: dict[str, None] = {}
    for root in below:
        if root in order:
            continue
        walk = [(root, iter(below[root]))]
        order[root] = low[root] = len(order)
        stack[root] = None
        while walk:
            name, following = walk[-1]
            for other in following:
                if other not in order:
                    order[other] = low[other] = len(order)
                    stack[other] = None
                    walk.append((other, iter(below[other])))
                    break
                if other in stack:
                    low[name] = min(low[name], order[other])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[name])
                if low[name] == order[name]:
                    group = set()
                    while name not in group:
                        group.add(stack.popitem()[0])
                    yield group


def main() -> int:
    """Print the circles if there are any, and exit with status 1; circles of types are told and pass."""
    for group in circles(types=True):
        print("a circle of types:", ", ".join(sorted(group)))
    found = circles(types=False)
    for group in found:
        print("import cycle:", ", ".join(sorted(group)))
    if not found:
        print("no import cycle")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
