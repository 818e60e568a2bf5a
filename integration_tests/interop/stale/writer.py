"""A writer of Deep Lake 3.9.52 that does one thing after the other, as it is told on its standard input.

Every line that comes in is a JSON list, an operation and its arguments; a line goes out for each: `{"done": value}` or
`{"error": name of the class}`. Run by the interpreter that has Deep Lake.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import os
import sys
import warnings
from typing import Any

import deeplake

Json = Any


class Writer:
    """Holds one dataset open."""

    def __init__(self) -> None:
        self.dataset: Any = None

    def load(self, path: str) -> Json:
        """Open for writing, which takes the lock."""
        self.dataset = deeplake.load(path, read_only=False, verbose=False)

    def append(self, tensor: str, value: Json) -> Json:
        self.dataset[tensor].append(value)

    def append_row(self, row: Json) -> Json:
        self.dataset.append(row)

    def update(self, tensor: str, at: int, value: Json) -> Json:
        self.dataset[tensor][at] = value

    def commit(self, message: str) -> Json:
        return self.dataset.commit(message)

    def rows(self) -> Json:
        return {
            name: [v.ravel().tolist()[0] for v in t.numpy(aslist=True)]
            for name, t in self.dataset.tensors.items()
        }

    def messages(self) -> Json:
        return [entry["message"] for entry in self.dataset.commits]

    def pid(self) -> Json:
        return os.getpid()

    def close(self) -> Json:
        self.dataset = None
        gc.collect()


def main() -> None:
    """Do as told until the input ends."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    writer = Writer()
    for line in sys.stdin:
        operation, *arguments = json.loads(line)
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                found = {"done": getattr(writer, operation)(*arguments)}
            except Exception as raised:  # noqa: BLE001 (whatever comes is the result)
                found = {"error": type(raised).__name__}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
