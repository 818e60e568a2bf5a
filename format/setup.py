"""How compiled cores are compiled, which pyproject.toml cannot say; the setup.py of the connector runs this, too."""

import os
import shutil
import sys

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

CHECKED = "LAKEBED_NATIVE_CHECKS"
"""With this variable set, the compiled core checks each index and each division, and is slow: to look for bugs."""

IS_CHECKED = bool(os.environ.get(CHECKED))

# A negative index is an error with `boundscheck`, and counts from the end with `wraparound`, which nothing here means.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": IS_CHECKED,
    "wraparound": False,
    "cdivision": not IS_CHECKED,
    "initializedcheck": IS_CHECKED,
    "autotestdict": False,
}
"""Of Cython, for all modules."""

SHARED = "lakebed.native._shared"
"""The module that holds what Cython writes for memory views; in each module of its own it took half of the time."""


class BuildExt(build_ext):
    """Builds the compiled core, or says what that needs."""

    def finalize_options(self) -> None:
        """Set the directives; the C code of a checked build does not lie where the next build would find it."""
        super().finalize_options()
        self.cython_directives = {**DIRECTIVES, **(self.cython_directives or {})}
        self.shared_utility_qualified_name = SHARED
        if IS_CHECKED:
            self.force = True
            self.cython_c_in_temp = True

    def build_extensions(self) -> None:
        """Look for the compiler before anything is built with it."""
        name = self.distribution.get_name()
        if sys.platform == "win32":
            raise PlatformError(
                f"{name} does not run on Windows yet: install it in WSL, or use the connector's image"
            )
        command = self.compiler.compiler_so
        if shutil.which(command[0]) is None:
            message = (
                f"{name} needs a C compiler, or the wheel: there is no {command[0]!r} here. "
                "A wheel installs without one (pip install --only-binary :all: ..., or a file that `make wheels` "
                "makes). Install a compiler: apt install gcc libc6-dev (Debian, Ubuntu), "
                "dnf install gcc (Fedora), apk add gcc musl-dev (Alpine), xcode-select --install (macOS)"
            )
            raise PlatformError(message + (", or correct CC" if os.environ.get("CC") else ""))
        super().build_extensions()


if __name__ == "__main__":
    setup(cmdclass={"build_ext": BuildExt})
