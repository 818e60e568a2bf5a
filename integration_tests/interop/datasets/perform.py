"""Make datasets step by step, or write down what is in them, under either library.

    perform.py LIBRARY JOBS OUT

JOBS is a list of `{"path", "steps"}` (go on with the dataset, or make it) and `{"path", "versions"}` (read it). OUT
gets a list of results: `{"commits": {label: id}}` or `{"versions": {version: content}}`, or `{"error": text}`.

Run by the interpreter of either environment: NumPy is all that is there besides.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Json = Any
DOCUMENTS = ("json", "list", "tag")
FILES = ("audio", "video", "dicom", "nifti", "point_cloud", "mesh")


def pack(value: Any) -> Json:
    """A sample as JSON: arrays, texts, documents, lists of samples, and files or links that were packed before."""
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"array": [value.dtype.name, list(value.shape), content]}
    if isinstance(value, list):
        return {"items": [pack(item) for item in value]}
    return value if isinstance(value, dict) else {"value": value}


def unpack(packed: Json, deeplake: Any) -> Any:
    """The sample as a library takes it."""
    ((kind, content),) = packed.items()
    if kind == "array":
        name, shape, data = content
        return np.frombuffer(base64.b64decode(data), name).reshape(shape).copy()
    if kind == "items":
        return [unpack(item, deeplake) for item in content]
    if kind == "file":
        return deeplake.read(content)
    return deeplake.link(content) if kind == "link" else content


class Maker:
    """One dataset that takes steps."""

    def __init__(self, deeplake: Any, path: str) -> None:
        self.deeplake = deeplake
        known = deeplake.exists(path)
        self.dataset = (deeplake.load if known else deeplake.empty)(path, verbose=False)
        self.path = path
        self.commits: dict[str, str] = {}

    def take(self, op: str, **given: Any) -> None:
        """Take one step."""
        getattr(self, op)(**given)

    def create(self, t: str, options: Json) -> None:
        options = {k: tuple(v) if k == "downsampling" else v for k, v in options.items()}
        self.dataset.create_tensor(t, **options)

    def append(self, t: str, value: Json) -> None:
        self.dataset[t].append(self._sample(value))

    def extend(self, t: str, values: Json) -> None:
        self.dataset[t].extend([self._sample(value) for value in values])

    def stack(self, t: str, value: Json) -> None:
        self.dataset[t].extend(self._sample(value))

    def row(self, row: Json) -> None:
        self.dataset.append({t: self._sample(value) for t, value in row.items()}, skip_ok=True)

    def rows(self, rows: Json) -> None:
        columns = {t: [self._sample(value) for value in values] for t, values in rows.items()}
        self.dataset.extend(columns, skip_ok=True)

    def update(self, t: str, at: int, value: Json) -> None:
        self.dataset[t][at] = self._sample(value)

    def update_many(self, t: str, start: int, values: Json) -> None:
        self.dataset[t][start : start + len(values)] = [self._sample(value) for value in values]

    def item(self, t: str, at: int, item: int, value: Json) -> None:
        self.dataset[t][at, item] = [self._sample(value)]

    def part(self, t: str, at: int, box: list[list[int]], value: Json) -> None:
        where = tuple(slice(start, stop) for start, stop in box)
        self.dataset[t][(at, *where)] = self._sample(value)

    def add(self, t: str, value: int) -> None:
        tensor = self.dataset[t]
        tensor += value

    def pop(self, t: str, at: Json) -> None:
        self.dataset[t].pop(at)

    def pop_row(self, at: int) -> None:
        self.dataset.pop(at)

    def clear(self, t: str) -> None:
        self.dataset[t].clear()

    def tensor_info(self, t: str, key: str, value: Json) -> None:
        self.dataset[t].info[key] = value

    def info(self, key: str, value: Json) -> None:
        self.dataset.info[key] = value

    def group(self, name: str) -> None:
        self.dataset.create_group(name)

    def rename(self, t: str, name: str) -> None:
        self.dataset.rename_tensor(t, name)

    def delete(self, t: str) -> None:
        self.dataset.delete_tensor(t)

    def commit(self, label: str) -> None:
        self.commits[label] = self.dataset.commit(label, allow_empty=True)

    def checkout(self, branch: str, create: bool = False) -> None:
        self.dataset.checkout(branch, create=create)

    def reopen(self) -> None:
        self.dataset = None
        self.dataset = self.deeplake.load(self.path, verbose=False)

    def rechunk(self) -> None:
        self.dataset.rechunk(progressbar=False, scheduler="serial")

    def together(self, steps: list[Json]) -> None:
        """Take several steps inside one `with` block."""
        with self.dataset:
            for step in steps:
                self.take(**step)

    def _sample(self, packed: Json) -> Any:
        return unpack(packed, self.deeplake)


def make(deeplake: Any, path: str, steps: list[Json]) -> Json:
    """Take the steps, beginning on branch main."""
    maker = Maker(deeplake, path)
    for number, step in enumerate(steps):
        try:
            maker.take(**step)
        except Exception:  # noqa: BLE001 (whatever comes is the result)
            return {"error": f"step {number}, {str(step)[:300]}\n{traceback.format_exc()[-3000:]}"}
    return {"commits": maker.commits}


def content(dataset: Any) -> Json:
    """Everything that one version shows."""
    tensors = {}
    for name, tensor in dataset.tensors.items():
        about = {"htype": tensor.htype, "length": len(tensor), "info": plain(dict(tensor.info))}
        rows = [tried(sample, tensor, row) for row in range(len(tensor))]
        tensors[name] = {
            **about,
            "rows": rows,
            "shapes": [tried(shape, tensor, row) for row in range(len(tensor))],
        }
    return {"tensors": tensors, "groups": sorted(dataset.groups), "info": plain(dict(dataset.info))}


def plain(info: Json) -> Json:
    """An info as JSON holds it."""
    return json.loads(json.dumps(info, sort_keys=True))


def tried(function: Callable[..., Json], *arguments: Any) -> Json:
    """The result, or the name of the error."""
    try:
        return function(*arguments)
    except Exception as raised:  # noqa: BLE001 (whatever comes is the result)
        return {"error": f"{type(raised).__name__}: {str(raised)[:300]} from {raised.__cause__!r:.200}"}


def shape(tensor: Any, row: int) -> Json:
    """The shape of one sample."""
    return list(tensor[row].shape)


def sample(tensor: Any, row: int) -> Json:
    """One sample as JSON."""
    base = tensor.meta.htype
    if tensor.meta.is_sequence:
        count = len(tensor[row].numpy(aslist=True))
        return {"items": [_flat(tensor[row, item], base) for item in range(count)]}
    return _flat(tensor[row], base)


def _flat(one: Any, base: str) -> Json:
    if base in FILES and one.meta.sample_compression is not None and not one.meta.is_link:
        return {"sha": hashlib.sha256(one.tobytes()).hexdigest()}
    if base == "polygon":
        return {"items": [pack(np.asarray(polygon)) for polygon in one.numpy()]}
    value = one.numpy()
    if base == "text":
        return {"value": str(np.asarray(value).ravel()[0])}
    if base == "json":
        return {"value": np.asarray(value).ravel().tolist()[0]}
    if base in DOCUMENTS:
        return {"value": np.asarray(value, object).tolist()}
    return pack(np.asarray(value))


def read(deeplake: Any, path: str, versions: list[str]) -> Json:
    """Read versions of a dataset; the check of its integrity comes with opening."""

    def one(version: str) -> Json:
        return content(deeplake.load(f"{path}@{version}", read_only=True, verbose=False))

    return {"versions": {version: tried(one, version) for version in versions}}


def main(library: str, jobs: str, out: str) -> None:
    """Do all jobs."""
    deeplake = importlib.import_module(library)
    warnings.simplefilter("ignore")
    results = []
    for job in json.loads(Path(jobs).read_text()):
        if "steps" in job:
            results.append(tried(make, deeplake, job["path"], job["steps"]))
        else:
            results.append(tried(read, deeplake, job["path"], job["versions"]))
    Path(out).write_text(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
