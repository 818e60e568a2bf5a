"""The same small programs under Deep Lake 3.9.52 and under lakebed: script.py LIBRARY COMMAND PATH...

    dump    PATH OUT REF...   every visible tensor's samples at branches or commits, in a form that JSON holds
    history PATH OUT          commits, branches, groups
    extend  PATH BRANCH...    append the first two rows once more, commit
    branch  PATH NAME         make a branch, write to it and commit
    create  PATH              a dataset with groups, ragged samples, nulls and two commits

LIBRARY is the module to import. Run by the interpreter of either environment: NumPy and the standard library
are all that is there besides.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Json = Any
TEXT_LIKE = ("text", "json", "list", "tag")
ONE_BY_ONE = 500
deeplake: Any = importlib.import_module(sys.argv[1])


def encoded(sample: Any) -> Json:
    """An array as type, shape and bytes."""
    array = np.asarray(sample)
    if array.dtype.kind not in "biufc":
        return {"values": array.tolist()}
    content = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "bytes": content}


def samples(tensor: Any) -> Json:
    """Every sample of a tensor."""
    if not len(tensor):
        return []
    # 3.9.52 needs a second for all samples of many small chunks together; one at a time it is quick.
    small = len(tensor) <= ONE_BY_ONE
    found = [tensor[i].numpy() for i in range(len(tensor))] if small else tensor.numpy(aslist=True)
    if tensor.htype == "text":
        return [str(text[0]) for text in found]
    if tensor.htype == "json":
        return [value.tolist()[0] for value in found]
    if tensor.htype in TEXT_LIKE:
        return [value.tolist() for value in found]
    return [encoded(sample) for sample in found]


def content(path: str) -> Json:
    """All visible tensors of one version."""
    dataset = deeplake.load(path, read_only=True)
    tensors = {}
    for name, tensor in dataset.tensors.items():
        about = {"htype": tensor.htype, "length": len(tensor), "info": dict(tensor.info)}
        tensors[name] = {**about, "samples": samples(tensor)}
    return {"tensors": tensors, "info": dict(dataset.info), "length": dataset.min_len}


def dump(path: str, out: str, *refs: str) -> None:
    """Write the content of each version."""
    Path(out).write_text(json.dumps({ref: content(f"{path}@{ref}") for ref in refs}))


def history(path: str, out: str) -> None:
    """Write the version tree as the library shows it."""
    dataset = deeplake.load(path, read_only=True)
    commits = [{"commit": entry["commit"], "message": entry["message"]} for entry in dataset.commits]
    found = {"branches": list(dataset.branches), "commits": commits, "groups": list(dataset.groups)}
    Path(out).write_text(json.dumps(found))


def row(tensor: Any, index: int) -> Any:
    """One sample in the form in which it can be appended."""
    if tensor.htype == "text":
        return str(tensor[index].numpy()[0])
    if tensor.htype == "json":
        return tensor[index].numpy().tolist()[0]
    if tensor.htype in TEXT_LIKE:
        return tensor[index].numpy().tolist()
    return tensor[index].numpy()


def extend(path: str, *branches: str) -> None:
    """Append the first two rows again and commit, on each branch."""
    dataset = deeplake.load(path, read_only=False)
    for branch in branches:
        if dataset.branch != branch:
            dataset.checkout(branch)
        with dataset:
            for tensor in dataset.tensors.values():
                if len(tensor) >= 2:
                    tensor.extend([row(tensor, 0), row(tensor, 1)])
        dataset.commit(f"extended with {deeplake.__name__}")


def branch(path: str, name: str) -> None:
    """Make a branch, append to it, commit."""
    dataset = deeplake.load(path, read_only=False)
    dataset.checkout(name, create=True)
    extend(path, name)


def create(path: str) -> None:
    """Make a dataset from nothing."""
    dataset = deeplake.empty(path)
    with dataset:
        dataset.create_tensor("numbers", dtype="float32")
        dataset.create_tensor("texts", htype="text", chunk_compression="lz4")
        dataset.create_tensor("labels", htype="class_label", class_names=["cat", "dog"])
        dataset.create_tensor("group/documents", htype="json", sample_compression="lz4")
        for number in range(50):
            dataset.append(
                {
                    "numbers": np.full((number % 3, 2), number, dtype=np.float32),
                    "texts": f"text {number} é" if number % 5 else None,
                    "labels": ["dog", "cat"][number % 2],
                    "group/documents": {"n": number, "deep": [None, True, {"x": 1.5}]},
                }
            )
    dataset.commit("first")
    dataset.numbers.append(np.ones((1, 2), dtype=np.float32))
    dataset.texts.append("last")
    dataset.labels.append("dog")
    dataset["group/documents"].append({})
    dataset.commit("second")


if __name__ == "__main__":
    command, *arguments = sys.argv[2:]
    commands: dict[str, Callable[..., None]] = {
        "dump": dump,
        "history": history,
        "extend": extend,
        "branch": branch,
        "create": create,
    }
    commands[command](*arguments)
