"""Scripts of Deep Lake 3.x, unchanged: ``import deeplake`` and its submodules lead to lakebed.

    python -m lakebed.compat train.py --epochs 3

runs a script so, and in a program of one's own ``import lakebed.compat`` before the first ``import deeplake`` does. A
Deep Lake that is installed is never hidden without being told: where there is one, importing this raises, and
``LAKEBED_COMPAT=replace`` in the environment, or ``--replace`` on the command line, chooses lakebed.

docs/coming-from-deep-lake-3.md says name by name what is here; importing what is not says what to use instead.
"""

import sys

from lakebed.compat.finder import install, uninstall

__all__ = ["install", "uninstall"]

# As `python -m lakebed.compat` begins, Python imports this before the command line is read: `__main__` installs then.
if not (sys.argv[:1] == ["-m"] and "lakebed.compat" in sys.orig_argv):
    install()
