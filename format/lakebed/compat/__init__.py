"""Scripts of Deep Lake 3.x, unchanged: ``import deeplake`` and its submodules lead to lakebed.

    python -m lakebed.compat train.py --epochs 3

runs a script in this way; ``import lakebed.compat`` before the first ``import deeplake`` does the same in a program. An
installed Deep Lake is hidden only on request: importing this module raises an error then, unless
``LAKEBED_COMPAT=replace`` is set in the environment, or ``--replace`` is given on the command line.

docs/coming-from-deep-lake-3.md lists all names; importing a missing one raises an error that names the alternative.
"""

import sys

from lakebed.compat.finder import install, uninstall

__all__ = ["install", "uninstall"]

# `python -m lakebed.compat` imports this file before its command line is parsed, and installs in `__main__`.
if not (sys.argv[:1] == ["-m"] and "lakebed.compat" in sys.orig_argv):
    install()
