"""Run by both libraries, as ``programs.py LIBRARY FOLDER``: transforms, and what each of them leaves, as JSON."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

deeplake: Any = importlib.import_module(sys.argv[1])
compute: Callable[[Any], Any] = deeplake.compute
FOLDER = Path(sys.argv[2])
QUIET: dict[str, Any] = {"progressbar": False}
AB: dict[str, Any] = {"a": {}, "b": {}}


def plain(tensor: Any) -> list[Any]:
    found = []
    for i in range(len(tensor)):
        value = tensor[i].data(aslist=True)["value"] if tensor.htype in ("text", "json", "list") else None
        if value is None:
            value = tensor[i].numpy(aslist=tensor.is_sequence)
            value = (
                [np.asarray(one).tolist() for one in value]
                if tensor.is_sequence
                else np.asarray(value).tolist()
            )
        found.append(value)
    return found


def shown(ds: Any) -> dict[str, Any]:
    found: dict[str, Any] = {name: plain(tensor) for name, tensor in ds.tensors.items()}
    for name, tensor in ds.tensors.items():
        if tensor.htype == "class_label":
            names = tensor.info.class_names
            found[name] = [[names[number] for number in row] for row in found[name]]
    done = [(one["message"], one.get("total_samples_processed")) for one in ds.commits]
    return {"rows": found, "commits": done}


def new(name: str, tensors: dict[str, Any]) -> Any:
    ds = deeplake.empty(str(FOLDER / name), overwrite=True)
    for key, options in tensors.items():
        ds.create_tensor(key, **options)
    return ds


@compute
def one(x: Any, out: Any, k: int = 1) -> None:
    out.a.append(x * k)
    out.b.append(x + 1)


@compute
def doubled_both(x: Any, out: Any) -> None:
    out.append({"a": x * 2, "b": x})


@compute
def of_row(row: Any, out: Any) -> None:
    out.append({"a": row.a.numpy() if hasattr(row.a, "numpy") else row.a, "b": 7})


@compute
def many(x: Any, out: Any) -> None:
    for i in range(x):
        out.append({"a": x, "b": i})


@compute
def extended(x: Any, out: Any) -> None:
    out.a.extend([x] * 3)
    out.b.extend(np.arange(3))


@compute
def only_a(x: Any, out: Any) -> None:
    out.a.append(x)


@compute
def groups(x: Any, out: Any) -> None:
    out.g.a.append(x)
    out["g/b"].append(x)


@compute
def kinds(x: int, out: Any) -> None:
    out.append(
        {
            "t": f"text {x}",
            "j": {"x": x},
            "l": [x, "y"],
            "s": [np.full((2,), i, np.int64) for i in range(x % 3 + 1)],
            "c": f"class {x % 3}",
            "n": None if x == 2 else np.full((x,), x, np.int64),
        }
    )


@compute
def linked(path: str, out: Any) -> None:
    out.im.append(deeplake.link(path))


@compute
def failing(x: int, out: Any) -> None:
    if x == 7:
        raise ValueError("seven")
    out.append({"a": x, "b": x})


@compute
def plus(row: Any, out: Any) -> None:
    out.a.append(row.a.numpy() + 1)
    out.b.append(row.b.numpy())


@compute
def twice(row: Any, out: Any) -> None:
    for _ in range(2):
        out.append({"a": row.a.numpy(), "b": row.b.numpy()})


KINDS: dict[str, Any] = {
    "t": {"htype": "text"},
    "j": {"htype": "json"},
    "l": {"htype": "list"},
    "s": {"htype": "sequence"},
    "c": {"htype": "class_label"},
    "n": {"dtype": "int64"},
}
GROUPS: dict[str, Any] = {"g/a": {}, "g/b": {}}


def filled(name: str, count: int = 5, others: int = 5) -> Any:
    ds = new(name, {"a": {"dtype": "int64"}, "b": {"dtype": "int64"}})
    ds.a.extend(np.arange(count))
    ds.b.extend(np.arange(others) * 10)
    ds.commit("base")
    return ds


def into(name: str, tensors: dict[str, Any], function: Any, data: Any, **options: Any) -> Callable[[], Any]:
    def act() -> Any:
        ds = new(name, tensors)
        act.ds = ds  # type: ignore[attr-defined]
        function.eval(data() if callable(data) else data, ds, **QUIET, **options)

    return act


def in_place(name: str, function: Any, **options: Any) -> Callable[[], Any]:
    def act() -> Any:
        ds = filled(name)
        act.ds = ds  # type: ignore[attr-defined]
        function.eval(ds, **QUIET, **options)

    return act


def files() -> list[str]:
    return [str(path) for path in sorted(FOLDER.parent.glob("*.png"))]


CASES = {
    "one": into("one", AB, one(), [1, 2, 3]),
    "kwargs": into("kwargs", AB, one(k=10), [1, 2, 3]),
    "positional": into("positional", AB, one(10), [1, 2, 3]),
    "workers": into("workers", AB, one(), list(range(20)), num_workers=2),
    "many": into("many", AB, many(), [1, 2, 0, 3]),
    "extend": into("extend", AB, extended(), [1, 2]),
    "groups": into("groups", GROUPS, groups(), [1, 2]),
    "kinds": into("kinds", KINDS, kinds(), list(range(6))),
    "kinds workers": into("kinds2", KINDS, kinds(), list(range(12)), num_workers=2),
    "links": into("links", {"im": {"htype": "link[image]", "sample_compression": "png"}}, linked(), files),
    "pipeline": into("pipeline", AB, deeplake.compose([doubled_both(), of_row()]), [1, 2]),
    "skip_ok": into("skip", AB, only_a(), [1, 2], skip_ok=True),
    "left out": into("left", AB, only_a(), [1, 2]),
    "ignore": into("ignore", AB, failing(), list(range(10)), ignore_errors=True),
    "error": into("error", AB, failing(), [7]),
    "view": into("view", AB, plus(), lambda: filled("source")[[0, 3]]),
    "padded": into("padded", AB, plus(), lambda: filled("uneven", 5, 3), pad_data_in=True),
    "checkpoints": into("ck", AB, one(), list(range(5)), checkpoint_interval=2),
    "checkpoints even": into("ck4", AB, one(), list(range(4)), checkpoint_interval=2),
    "checkpoints error": into("cke", AB, failing(), list(range(10)), checkpoint_interval=4),
    "in place": in_place("place", plus()),
    "in place twice": in_place("place2", twice()),
}


def record(act: Callable[[], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"error": None}
    try:
        act()
    except Exception as error:  # noqa: BLE001
        cause = error.__cause__
        found["error"] = [
            type(error).__name__,
            str(error).partition(" Last checkpoint")[0].partition(" See ")[0],
        ]
        found["index"] = getattr(error, "index", None)
        found["cause"] = None if cause is None else type(cause).__name__
    ds = getattr(act, "ds", None)
    if ds is not None:
        ds.flush()
        found.update(shown(ds))
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answers = {name: record(act) for name, act in CASES.items()}
    (FOLDER / "answers.json").write_text(json.dumps(answers))
