"""``python -m lakebed.compat [--replace] SCRIPT [ARGUMENT...]``, or ``-m MODULE``: scripts of Deep Lake 3.x."""

from __future__ import annotations

import os
import runpy
import sys

from lakebed.compat import install

_USAGE = "usage: python -m lakebed.compat [--replace] (SCRIPT | -m MODULE) [ARGUMENT...]"


def main(words: list[str]) -> None:
    """Run a script, or a module, as Python itself would, with ``deeplake`` meaning lakebed."""
    if words[:1] == ["--replace"]:
        words = words[1:]
        os.environ["LAKEBED_COMPAT"] = "replace"  # inherited by processes that the script starts
    is_module = words[:1] == ["-m"]
    words = words[1:] if is_module else words
    if not words or words[0].startswith("-"):
        sys.exit(_USAGE)
    try:
        install()
    except ImportError as error:
        sys.exit(str(error))
    sys.argv = words
    if is_module:
        sys.path[0] = os.getcwd()  # noqa: PTH109
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))  # noqa: PTH100, PTH120
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
