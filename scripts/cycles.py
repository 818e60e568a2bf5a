"""Fail when modules import each other in a circle.

import-linter's layers compare packages. This compares single modules, function-level imports included, so
that none hides in a function "because of a cycle".
"""

from __future__ import annotations

import graphlib
import sys

import grimp

PACKAGES = ("lakebed", "destination_deeplake")


def main() -> int:
    """Print a cycle if there is one, and exit with status 1."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=True)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        print("import cycle:", " <- ".join(error.args[1]))
        return 1
    print(f"no import cycle among {len(imports)} modules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
