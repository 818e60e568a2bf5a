"""What pyproject.toml has no words for: what is missing when there is no C compiler."""

import os
import shutil

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError


class BuildExt(build_ext):
    """Builds the compiled core, or says what that needs."""

    def build_extensions(self) -> None:
        """Look for the compiler before anything is built with it."""
        command = getattr(self.compiler, "compiler_so", None)  # of Microsoft's, setuptools tells by itself
        if command and shutil.which(command[0]) is None:
            message = (
                f"destination-deeplake needs a C compiler to be built, and there is no {command[0]!r} here. "
                "Install one: apt install gcc libc6-dev (Debian, Ubuntu), dnf install gcc (Fedora), "
                "apk add gcc musl-dev (Alpine), xcode-select --install (macOS)"
            )
            raise PlatformError(message + (", or correct CC" if os.environ.get("CC") else ""))
        super().build_extensions()


setup(cmdclass={"build_ext": BuildExt})
