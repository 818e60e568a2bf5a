"""Programs in forks of one process, which has imported what most of them need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

# Frozen objects stay out of collections of garbage: the first one in a fork, or its end, would copy all of them.
_SERVER = """
import gc, json, os, sys
{imports}
gc.collect()
gc.freeze()
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(asked["folder"])
    os.environ.update(asked["environment"])
    os.dup2(os.open(asked["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    break
else:
    sys.exit()
exec(compile(asked["text"], "the program", "exec"), globals())
"""


class Forks:
    """A process that runs programs in forks of itself, one after the other; closed at the end of a `with` statement."""

    def __init__(self, imports: str, *options: str) -> None:
        command = [sys.executable, *options, "-c", _SERVER.format(imports=imports)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", env=environment
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, text: str, folder: Path, environment: Mapping[str, str]) -> str | None:
        """Run a program in a folder; return its exit status and what it wrote on its errors, None if it succeeded."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        errors = folder / "errors"
        asked = {
            "text": text,
            "folder": str(folder),
            "errors": str(errors),
            "environment": dict(environment),
        }
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        status = self._process.stdout.readline().strip()
        return None if status == "0" else f"exit status {status}\n{errors.read_text()}"
