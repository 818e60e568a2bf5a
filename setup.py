"""Which lakebed the connector needs, and how its compiled core is compiled."""

import re
import runpy
import sys
from pathlib import Path

from setuptools import setup

LIBRARY = Path(__file__).resolve().parent / "format"


def lakebed() -> str:
    """Requirement of the library: the one in this checkout; in a release, the one of the same version."""
    if (LIBRARY / "pyproject.toml").is_file() and "sdist" not in sys.argv:
        return f"lakebed @ {LIBRARY.as_uri()}"
    text = (LIBRARY / "lakebed/__init__.py").read_text(encoding="utf-8")
    return "lakebed==" + re.findall('^__version__ = "(.+)"$', text, re.MULTILINE)[0]


if __name__ == "__main__":
    compiled = runpy.run_path(str(LIBRARY / "setup.py"))
    setup(cmdclass={"build_ext": compiled["BuildExt"]}, install_requires=[lakebed()])
