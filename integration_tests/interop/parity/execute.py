"""Run cases under a library and write down what each statement gave.

    execute.py LIBRARY CASES FILES OUT [NAME...]

A case is a titled stretch of a text file in the folder CASES; `## title` begins it. Its statements run one after
another in a folder of its own, after `import LIBRARY as deeplake` and `ds = deeplake.empty("ds")`; the folder FILES
is seen as `files/`. A statement that is an expression is recorded with its value, one that fails with its error, and
the next one runs all the same. What it prints is recorded, too.

Run by the interpreter of either environment: NumPy and Pillow are all that is there besides.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import gc
import importlib
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

# 3.9.52 tells of new classes on the standard output that it found when it was imported, where no case sees it.
os.environ["LAKEBED_TELL_NEW_CLASSES"] = "0"

Json = Any
SECONDS = 20
"""A statement that takes longer has hung."""

LONG = 512
"""Of longer bytes only the length and the ends are written down."""

IDENTIFIER = re.compile(r"firstdbf[0-9a-f]{32}|(?<![0-9a-f])(?:[0-9a-f]{40}|[0-9a-f]{64})(?![0-9a-f])")
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")


class Hung(BaseException):
    """A statement took too long."""


def cases(folder: Path) -> Iterator[tuple[str, str]]:
    """Titles (`file/title`) and sources of all cases."""
    for file in sorted(folder.glob("*.txt")):
        parts = re.split(r"^## *(.+)$", file.read_text(), flags=re.MULTILINE)
        for title, source in zip(parts[1::2], parts[2::2], strict=True):
            yield f"{file.stem}/{title.strip()}", source


class Scribe:
    """Writes values in a form that JSON holds; identifiers become numbers in the order of their appearance."""

    def __init__(self) -> None:
        self._identifiers: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Text without what differs from run to run."""
        text = IDENTIFIER.sub(lambda found: self._number(found[0]), text)
        return TIME.sub("<time>", text)

    def _number(self, identifier: str) -> str:
        return self._identifiers.setdefault(identifier, f"<id {len(self._identifiers)}>")

    def value(self, value: Any, depth: int = 0) -> Json:
        """Any value."""
        if value is None or isinstance(value, bool) or type(value) is int:
            return value
        if depth > 12:
            return {"object": "too deep"}
        if type(value) is float:
            return {"float": repr(value)}
        if type(value) in (str, np.str_):
            return self.text(str(value))
        if isinstance(value, bytes | bytearray | memoryview):
            content = bytes(value)
            return {"bytes": content.hex() if len(content) <= LONG else [len(content), content[:64].hex()]}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" and value.ndim == 0:
            value = value[()]
        if isinstance(value, np.ndarray):
            return self._array(value, depth)
        if isinstance(value, np.generic):
            return {"scalar": value.dtype.name, "value": str(value)}
        if isinstance(value, np.dtype):
            return {"dtype": value.name}
        return self._container(value, depth)

    def _array(self, array: Any, depth: int) -> Json:
        if array.dtype.kind in "biufc":
            content = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
            return {"array": array.dtype.name, "shape": list(array.shape), "data": content}
        values = [self.value(item, depth + 1) for item in array.ravel().tolist()]
        return {"array": array.dtype.str, "shape": list(array.shape), "values": values}

    def _container(self, value: Any, depth: int) -> Json:
        kind = type(value).__name__
        if kind == "Info":
            return {"object": kind}
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.value(item, depth + 1) for item in value]}
        if isinstance(value, Mapping):
            pairs = [[self.value(key, depth + 1), self.value(item, depth + 1)] for key, item in value.items()]
            return {"mapping": sorted(pairs, key=repr)}
        if isinstance(value, set | frozenset):
            return {"set": sorted(repr(item) for item in value)}
        if isinstance(value, type):
            return {"class": value.__name__}
        if isinstance(value, BaseException):
            return {"exception": error(value)}
        if isinstance(value, Image.Image):
            return {"image": value.mode, "size": list(value.size)}
        if kind == "Polygons":
            return {"polygons": [self.value(np.asarray(polygon)) for polygon in value]}
        if kind == "Polygon":
            return {"polygon": self.value(np.asarray(value))}
        if kind == "slice":
            return {"slice": repr(value)}
        return {"object": kind}


def error(raised: BaseException) -> Json:
    """The classes of an error and of what caused it, most special first, with its text for the reader."""
    chain: list[Json] = []
    current: BaseException | None = raised
    while current is not None and len(chain) < 6:
        classes = [c.__name__ for c in type(current).__mro__ if c not in (object, BaseException)]
        chain.append({"classes": classes, "text": str(current)[:300]})
        current = current.__cause__
    return chain


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of a call, or its error."""
    try:
        return function(*arguments, **options)
    except Exception as raised:  # noqa: BLE001 (whatever comes is the result)
        return raised


META = (
    *(
        "htype",
        "dtype",
        "typestr",
        "min_shape",
        "max_shape",
        "length",
        "is_sequence",
        "is_link",
        "hidden",
        "verify",
    ),
    *("sample_compression", "chunk_compression", "max_chunk_size", "tiling_threshold", "links", "name"),
)


def meta(tensor: Any) -> dict[str, Any]:
    """What the meta of a tensor says."""
    return {name: attempt(getattr, tensor.meta, name) for name in META}


def show(tensor: Any) -> dict[str, Any]:
    """A tensor from all sides."""
    facts = ("num_samples", "shape", "ndim", "dtype", "htype", "is_dynamic", "is_empty_tensor", "is_sequence")
    rows = range(attempt(len, tensor))
    return {
        **{name: attempt(getattr, tensor, name) for name in facts},
        "interval": attempt(lambda: str(tensor.shape_interval)),
        "samples": [attempt(lambda row=row: tensor[row].numpy()) for row in rows],
        "shapes": [attempt(lambda row=row: tensor[row].shape) for row in rows],
    }


def rgb(height: int, width: int, seed: int = 0) -> Any:
    """A smooth coloured image, so that lossy compressions change it little."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [(y * 3 + seed * 40) % 256, (x * 2 + seed * 10) % 256, (x + y + seed) % 256]
    return np.stack(planes, axis=-1).astype(np.uint8)


def gray(height: int, width: int, seed: int = 0) -> Any:
    """A smooth image without colours."""
    return rgb(height, width, seed)[..., 2]


def held(dataset: Any) -> dict[str, Any]:
    """All samples of all tensors, ids excepted."""
    return {
        name: [attempt(lambda t=tensor, row=row: t[row].numpy().tolist()) for row in range(len(tensor))]
        for name, tensor in sorted(dataset.tensors.items())
    }


HELPERS = {"attempt": attempt, "meta": meta, "show": show, "held": held, "rgb": rgb, "gray": gray}


def _alarm(*_: object) -> None:
    raise Hung


def step(statement: ast.stmt, source: str, names: dict[str, Any], scribe: Scribe) -> Json:
    """Run one statement."""
    found: dict[str, Json] = {"line": ast.get_source_segment(source, statement)}
    printed = io.StringIO()
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            if isinstance(statement, ast.Expr):
                code = compile(ast.Expression(statement.value), "<case>", "eval")
                found["value"] = scribe.value(eval(code, names))
            else:
                exec(compile(ast.Module([statement], []), "<case>", "exec"), names)
    except Hung:
        found["error"] = [{"classes": ["Hung"], "text": ""}]
    except Exception as raised:  # noqa: BLE001 (whatever comes is the result)
        found["error"] = error(raised)
    finally:
        signal.alarm(0)
    if printed.getvalue():
        found["out"] = scribe.text(printed.getvalue())
    return found


def run(source: str, files: Path, deeplake: Any) -> list[Json]:
    """Run one case in a folder of its own."""
    home = tempfile.mkdtemp(prefix="case-")
    os.chdir(home)
    Path("files").symlink_to(files)
    np.random.seed(0)  # noqa: NPY002 (the cases use the short form)
    scribe = Scribe()
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = deeplake.empty("ds", verbose=False)
    names = {"deeplake": deeplake, "np": np, "Image": Image, "ds": dataset, "os": os, "json": json, "io": io}
    names.update(HELPERS)
    del dataset
    try:
        return [step(statement, source, names, scribe) for statement in ast.parse(source).body]
    finally:
        names.clear()
        gc.collect()
        os.chdir("/")
        shutil.rmtree(home, ignore_errors=True)


def main(library: str, folder: str, files: str, out: str, *wanted: str) -> None:
    """Run all cases, or those whose names begin with one of the given ones."""
    signal.signal(signal.SIGALRM, _alarm)
    warnings.simplefilter("ignore")
    if library == "lakebed":  # by the name that scripts use
        importlib.import_module("lakebed.compat")
    deeplake = importlib.import_module("deeplake")
    warnings.simplefilter("ignore")
    results = {}
    for name, source in cases(Path(folder)):
        if not wanted or name.startswith(wanted):
            results[name] = run(source, Path(files).resolve(), deeplake)
    Path(out).write_text(json.dumps(results))


if __name__ == "__main__":
    out = str(Path(sys.argv[4]).resolve())
    main(sys.argv[1], str(Path(sys.argv[2]).resolve()), str(Path(sys.argv[3]).resolve()), out, *sys.argv[5:])
