"""Ask 3.9.52 again for the answers that ``unit_tests/lakebed/writing/test_answers.py`` compares ours with.

Run it with the Python that has Deep Lake 3.9.52, in the folder of the golden datasets (their files are appended)::

    cd golden && BUGGER_OFF=true PYTHON /repo/integration_tests/interop/answers.py /repo/unit_tests/data

The calls are those in the recorded files; only the answers are made anew.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import datetime as dt
import decimal
import fractions
import hashlib
import io
import json
import lzma
import pathlib
import sys
import typing
import warnings
from typing import Any

import deeplake
import numpy as np

DEFAULTS: dict[str, Any] = {
    "chunk_compression": None, "dtype": None, "hidden": False, "htype": None, "is_link": False, "is_sequence": False,
    "length": 0, "links": {}, "max_chunk_size": None, "max_shape": [], "min_shape": [], "sample_compression": None,
    "tiling_threshold": None, "typestr": None, "verify": True, "version": "3.9.52",
}  # fmt: skip


class Arr:
    """Something that NumPy can make an array of."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.values, dtype=dtype)


def noise(*shape: int) -> Any:
    """Return values that depend on nothing but the shape."""
    return np.random.default_rng(sum(shape)).integers(0, 256, shape).astype("u1")


NAMES: dict[str, Any] = {
    "np": np, "F": "_files/", "R": noise, "Arr": Arr, "read": deeplake.read, "link": deeplake.link,
    "link_tiled": deeplake.link_tiled, "tiled": deeplake.tiled, "decimal": decimal, "fractions": fractions,
    "datetime": dt, "pathlib": pathlib, **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional")},
}  # fmt: skip


def created(number: int, call: dict[str, Any]) -> Any:
    """Make a tensor in a new dataset."""
    call = copy.deepcopy(call)  # 3.9.52 appends new names to the list that it was given
    settings = {k: eval(v[1:], NAMES) if isinstance(v, str) and v[:1] == "@" else v for k, v in call.items()}
    with contextlib.redirect_stdout(io.StringIO()):
        ds = deeplake.empty(f"mem://{number}")
        ds.create_tensor("x", **settings)
        ds.flush()
    return ds


def document(ds: Any, key: str) -> Any:
    """Read a JSON file of a dataset; None if there is none."""
    try:
        stored = ds.storage[key]
    except KeyError:
        return None
    return json.loads(bytes(stored if isinstance(stored, bytes | memoryview) else stored.tobytes()))


def new_tensor(number: int, call: dict[str, Any]) -> Any:
    """Return settings and info of a tensor and its companions, or the class of the error."""
    try:
        ds = created(number, call)
    except Exception as error:  # noqa: BLE001 - the class is the answer
        return type(error).__name__
    answer = {}
    for key in ds.meta.tensors:
        meta = document(ds, f"{key}/tensor_meta.json")
        settings = {k: v for k, v in meta.items() if k != "name" and (k not in DEFAULTS or v != DEFAULTS[k])}
        answer[key] = [settings, document(ds, f"{key}/tensor_info.json")]
    return answer


def samples(number: int, call: dict[str, Any], actions: list[list[str]]) -> dict[str, Any]:
    """Return what became of each append, and what the tensor then holds."""
    ds = created(number, call)
    tensor = ds["x"]
    answer: dict[str, Any] = {"acts": []}
    with contextlib.redirect_stdout(io.StringIO()):
        for how, expression in actions:
            try:
                (tensor.append if how == "a" else tensor.extend)(eval(expression, NAMES))
                answer["acts"].append("ok")
            except Exception as error:  # noqa: BLE001 - the class is the answer
                cause = error.__cause__ or error.__context__
                named = type(error).__name__ == "SampleAppendError" and cause is not None
                answer["acts"].append(type(cause).__name__ if named else "error")
        ds.flush()
    meta = document(ds, "x/tensor_meta.json")
    if meta["length"]:
        answer |= {"htype": meta["htype"], "dtype": meta["dtype"], "length": meta["length"]}
        answer |= {"low": meta["min_shape"], "high": meta["max_shape"], **held(ds, meta)}
    return answer


def held(ds: Any, meta: dict[str, Any]) -> dict[str, Any]:
    """Return shapes, descriptions, tiles and stored bytes of all samples."""
    found: dict[str, Any] = {}
    if "_x_shape" in ds.meta.tensors and meta["max_shape"]:
        found["shapes"] = [shape.numpy().tolist() for shape in ds["_x_shape"]]
    if "_x_info" in ds.meta.tensors:
        found["infos"] = [info.dict() for info in ds["_x_info"]]
    tiles = ds["x"].chunk_engine.tile_encoder.entries
    if tiles:
        found["tiles"] = {str(k): [list(map(int, shape)) for shape in v] for k, v in tiles.items()}
    files = meta["sample_compression"] not in (None, "lz4") or meta["chunk_compression"] is not None
    if not (meta["is_sequence"] or meta["is_link"] or files):
        found["stored"] = [stored(ds["x"][i]) for i in range(meta["length"])]
    return found


def stored(sample: Any) -> str:
    """Return short bytes as base64, long ones as a hash."""
    try:
        data = sample.tobytes()
    except Exception as error:  # noqa: BLE001 - the class is the answer
        return f"!{type(error).__name__}"
    return base64.b64encode(data).decode() if len(data) < 200 else hashlib.sha1(data).hexdigest()


def main(folder: pathlib.Path) -> None:
    """Ask for everything again and write the files anew."""
    warnings.simplefilter("ignore")
    for name in ("create_tensor-3.9.52.json.xz", "samples-3.9.52.json.xz"):
        calls = json.loads(lzma.decompress((folder / name).read_bytes()))
        if name.startswith("create"):
            asked = [[call, new_tensor(i, call)] for i, (call, _) in enumerate(calls)]
        else:
            asked = [[call, acts, samples(-1 - i, call, acts)] for i, (call, acts, _) in enumerate(calls)]
        text = json.dumps(asked, separators=(",", ":"), default=lambda value: value.tolist())
        (folder / name).write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
