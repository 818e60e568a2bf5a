"""Programs as text: a way in, the kind of the values, the tensor that they meet, what happens next, and a way out.

Each runs alone, with `PYTHONPATH=format:.`; expected values are written into it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from unit_tests.proofs.crossings.covering import Row, Rule, Space
from unit_tests.proofs.everyday import constants
from unit_tests.proofs.everyday.doors import OURS, PLAIN
from unit_tests.proofs.everyday.kinds import CLASSES, DTYPES, Kind

KINDS: dict[str, Kind] = {
    **{dtype: Kind({"dtype": dtype}, "array", dtype, (None,)) for dtype in DTYPES},
    "text": Kind({"htype": "text"}, "text"),
    "json": Kind({"htype": "json"}, "json"),
    "list": Kind({"htype": "list"}, "list"),
    "tag": Kind({"htype": "tag"}, "tag"),
    "label": Kind({"htype": "class_label", "class_names": CLASSES}, "array", "uint32", (None,), labels=True),
    "bbox": Kind({"htype": "bbox"}, "array", "float32", (None, 4)),
    "polygon": Kind({"htype": "polygon"}, "polygon", "float32"),
    "embedding": Kind({"htype": "embedding"}, "array", "float32", (8,)),
    "image": Kind({"htype": "image"}, "array", "uint8", (None, None, 3), smooth=True),
    "jpeg": Kind({"htype": "image"}, "array", "uint8", (None, None, 3), smooth=True, lossy=True),
    "items": Kind({"htype": "sequence[generic]", "dtype": "int32"}, "array", "int32", (None,), True),
    "texts": Kind({"htype": "sequence[text]"}, "text", is_sequence=True),
}
TRANSFORMS = ("row", "tensor", "on", "returned", "columns")
MAPS = ("changed", "changed columns", "new")
IMPORTS = (
    *("import numpy", "import csv", "import jsonl", "import parquet", "import frame", "import folder"),
    "from rows",
)
COPIES = ("copy", "deepcopy", "backup", "concat")
UPDATES = ("update", "update row", "update rows", "update slice", "part", "set column", "set rows")
COLUMNS = ("add column", "new column")
INFERRED = ("from rows", "new column")
"""Values decide what the tensor is."""
DOORS = ("list", "stack", *OURS)
WAYS_IN = (
    *("append", "tensor append", *DOORS, *UPDATES, "transform", "map", "extend dataset", "merge"),
    *(*IMPORTS, *COPIES, *COLUMNS),
)
LOOKS = (
    "whole_as_list",
    "singly",
    "stored_values",
    "values_of_data",
    "typed",
    "batches",
    "arrow",
    "taken_over",
)
WHOLE = {
    "to_arrow": ("arrow_table", "ds.to_arrow(labels='names')", "ds.to_arrow(tensors=[name])"),
    "to_pandas": ("frame", "ds.to_pandas()", "ds.to_pandas(tensors=[name])"),
    "to_polars": ("frame", "ds.to_polars()", "ds.to_polars(tensors=[name])"),
    "to_duckdb": ("duckdb", "ds.to_duckdb()", "ds.to_duckdb(tensors=[name])"),
    "scanner": ("arrow_table", "ds.scanner().to_table()", "ds.scanner([name]).to_table()"),
    "query": ("view", "ds.query('SELECT *')", "ds.query(f'SELECT \"{name}\"')"),
    "rows": ("fields", "list(ds.rows())", "list(ds[[name]].rows())"),
    "head": ("document", "command('head', f'{place}@{home}', '--json', '-n', '9999')", ""),
    "head lines": ("json_lines", "command('head', f'{place}@{home}', '--jsonl', '-n', '9999')", ""),
    "query command": ("json_lines", "command('query', f'{place}@{home}', 'SELECT *', '--json')", ""),
    "parquet": ("parquet", "export(ds, 'parquet', base)", ""),
    "csv": ("csv", "export(ds, 'csv', base)", ""),
}
"""Way out -> how `Out` checks it, the whole dataset, and, where it can, the tensor alone."""
PARTS = {
    "filter": "out.view(ds[[name, 'id']].filter(lambda row: row['id'].numpy()[0] % 2 == 0, progressbar=False), even)",
    "filter compute": """\
keep = lakebed.compute(lambda row, modulus: bool(row["id"].numpy()[0] % modulus == 0))
out.view(ds[[name, "id"]].filter(keep(modulus=2), progressbar=False), even)
every = lakebed.compute(lambda row: bool(row["id"].numpy()[0] % 2 == 0))
try:
    found = ds[[name, "id"]].filter(every, progressbar=False)
except Exception as error:
    assert "call" in str(error), error
else:
    out.view(found, even)""",
    "nulls": 'out.nulls(ds.query(f\'SELECT id, "{name}" WHERE "{name}" IS NULL\'))',
    "texts": """\
out.texts(ds.query(f"SELECT id, \\"{name}\\" WHERE \\"{name}\\" = ''"), \
ds.query(f"SELECT id, \\"{name}\\" WHERE \\"{name}\\" LIKE '*'"))""",
    "groups": """\
asked = f'MAX("{name}") AS high, MIN("{name}") AS low, AVG("{name}") AS mean'
out.groups(ds.query(f"SELECT id[0] AS id, {asked} GROUP BY id"))""",
    "all": "out.truths(ds.query(f'SELECT all(\"{name}\" > 7) AS y'), lambda row: row > 7)",
    **{
        verbs: f"out.{verbs}(ds[columns])"
        for verbs in ("chosen", "handed_out", "counted", "joined", "grouped")
    },
    "loader": "out.loader(lakebed.Loader(ds, 3, tensors=columns, threads=0))",
    "loader threads": "out.loader(lakebed.Loader(ds, 2, tensors=columns, threads=3, shuffle=True))",
    "loader ranks": """\
out.loader(*[lakebed.Loader(ds, 2, tensors=columns, threads=1, rank=rank, world=2, tail="keep") for rank in (0, 1)])""",
    "loader epochs": "",
    "viewer": "out.viewer(f'{place}@{home}', STORED)",
}
OUTS = (*LOOKS, *WHOLE, *PARTS)
STORED = ("head", "head lines", "query command", "loader epochs")
"""Those that read, or change, what is stored, and not a view."""
VIEWS = ("renamed", "sorted", "selected")
NARROW = ("int8", "int16", "int32", "int64", "uint32", "float32")

# Those that rule each other out come first, so that few parts of rows turn out to be dead ends.
FACTORS = {
    "kind": tuple(KINDS),
    "way in": WAYS_IN,
    "hands": ("-", *TRANSFORMS, *MAPS),
    "meets": ("declared", "grown", "committed", "branch", "new"),
    "shape": ("scalar", "vector", "matrix", "ragged"),
    "missing": ("none", "null", "first null", "empty"),
    "way out": OUTS,
    "given": ("same", "plain", *NARROW),
    "scheduler": ("-", "serial", "threaded", "processed"),
    "place": ("mem", "folder"),
    "between": (
        *("nothing", "update", "pop", "remove", "cast", "rechunk", "merge", "commit", "copy", "reopen"),
        *VIEWS,
    ),
    "size": ("few", "lowered", "large", "long"),
    "compression": ("none", "sample", "chunk"),
    "beside": ("none", "empty", "nulls"),
    "info": ("none", "in place"),
    "name": ("x", "group/x"),
}  # fmt: skip


def _is_numbers(kind: str) -> bool:
    return kind in DTYPES


def _is_number(kind: str) -> bool:
    return _is_numbers(kind) or kind == "label"


def _is_empty_possible(kind: str, shape: str) -> bool:
    if _is_numbers(kind) or kind == "label":
        return shape != "scalar"
    return kind in ("text", "json", "list", "bbox", "items", "texts")


def _has_parts(kind: str, shape: str) -> bool:
    if KINDS[kind].form != "array" or kind in ("label", "jpeg", "items"):
        return False
    return shape != "scalar" or not _is_numbers(kind)


def _fits_door(way: str, kind: str, shape: str, missing: str) -> bool:
    if way not in DOORS or (missing == "empty" and not _is_empty_possible(kind, shape)):
        return True
    doors = {**PLAIN, **OURS}
    return doors[way][0](kind_of({"kind": kind, "shape": shape}), _rows(kind, shape, missing))


@cache
def _rows(kind: str, shape: str, missing: str) -> list[Any]:
    """Five rows, to ask doors whether these fit."""
    names: dict[str, Any] = {"np": np}
    exec(_value_text({"kind": kind, "shape": shape, "size": "few", "given": "same"}), names)
    rows: list[Any] = [names["value"](i) for i in range(5)]
    exec(_missing_text({"kind": kind, "missing": missing}), names | {"rows": rows})
    return rows


def _fits_import(way: str, kind: str, shape: str) -> bool:
    scalars = _is_numbers(kind) and shape == "scalar"
    if way == "import csv":
        return kind == "text" or (scalars and kind in ("int64", "float64"))
    if way == "import jsonl":
        return kind == "text" or (scalars and kind in ("int64", "float64", "bool"))
    if way in ("import parquet", "import frame"):
        return kind == "text" or (scalars and not kind.startswith("complex"))
    if way == "import numpy":
        return _is_numbers(kind) and shape != "ragged"
    if way in INFERRED:
        if kind.startswith("complex"):
            return way == "new column"  # Arrow has no such type
        return _is_numbers(kind) or kind in ("text", "json", "bbox", "embedding")
    return way != "import folder" or kind == "image"


def _is_computed(kind: str) -> bool:
    """Whether a column that queries compute is stored as what it was."""
    flat = not KINDS[kind].is_sequence and not KINDS[kind].smooth
    return flat and KINDS[kind].form in ("array", "text", "json")


def _has_nullable(way: str, kind: str, missing: str) -> bool:
    """Whether a column of pandas can hold what is missing."""
    return way != "import frame" or missing == "none" or kind not in ("bool", "float16")


def _can_cast(kind: str) -> bool:
    """Whether floats of at least 32 bits hold all values of a dtype."""
    return (
        _is_numbers(kind)
        and kind not in ("bool", "float32")
        and np.can_cast(kind, "float64", "safe")
        and np.dtype(kind).itemsize < 8
    )


def _can_convert(given: str, kind: str) -> bool:
    return given in ("same", "plain") or (
        _is_numbers(kind) and kind not in ("bool", given) and np.can_cast(given, kind, "safe")
    )


def _fits_out(out: str, kind: str, shape: str) -> bool:
    scalars = _is_numbers(kind) and shape == "scalar"
    real = not kind.startswith("complex")
    if out == "to_duckdb" and kind == "float16":
        return False  # DuckDB has no such type
    if out == "counted":
        return real and KINDS[kind].form in ("array", "text") and not KINDS[kind].smooth
    if out == "grouped":
        return (scalars and real) or kind == "text"
    if out == "groups":
        return scalars and real and kind not in ("bool", "float16")
    if out == "all":
        return _is_numbers(kind) and real and kind != "bool"
    if out == "texts":
        return kind == "text"
    if out == "typed":
        return kind in ("text", "json", "list", "tag")
    if out == "csv":
        return real and not KINDS[kind].smooth
    return real or out not in ("arrow", "joined", *(set(WHOLE) - {"query"}))


RULES = (
    Rule(("way in", "hands"), lambda way, hands: hands in {"transform": TRANSFORMS, "map": MAPS}.get(way, "-")),
    Rule(("way in", "scheduler"), lambda way, name: (name == "-") == (way not in ("transform", "map"))),
    Rule(("scheduler", "place"), lambda name, place: name != "processed" or place == "folder"),
    Rule(
        ("way in", "meets"),
        lambda way, meets: (meets == "new") == (way in (*IMPORTS, *COPIES, *COLUMNS))
        or (way, meets) == ("map", "new"),
    ),
    Rule(("hands", "meets"), lambda hands, meets: hands == "-" or (hands == "new") == (meets == "new")),
    Rule(("way in", "compression"), lambda way, name: way not in (*IMPORTS, *INFERRED) or name == "none"),
    Rule(("hands", "compression"), lambda hands, name: hands != "new" or name == "none"),
    Rule(("hands", "kind"), lambda hands, kind: hands != "new" or _is_numbers(kind)),
    Rule(("hands", "name"), lambda hands, name: hands != "new" or name == "x"),
    Rule(("way in", "between"), lambda way, between: way not in IMPORTS or between != "merge"),  # no ids
    Rule(("way in", "name"), lambda way, name: way not in IMPORTS or name == "x"),
    Rule(("way in", "kind", "shape"), _fits_import),
    Rule(("way in", "kind", "shape", "missing"), _fits_door),
    Rule(("way in", "missing"), lambda way, missing: missing == "none" or way not in ("import numpy", "import folder")),
    Rule(("way in", "missing"), lambda way, missing: way != "part" or missing == "none"),
    Rule(("way in", "kind", "shape"), lambda way, kind, shape: way != "part" or _has_parts(kind, shape)),
    Rule(("way in", "kind"), lambda way, kind: way != "update rows" or not KINDS[kind].is_sequence),
    Rule(("missing", "kind", "shape"), lambda name, kind, shape: name != "empty" or _is_empty_possible(kind, shape)),
    Rule(("given", "kind"), _can_convert),
    Rule(("given", "meets"), lambda given, meets: meets not in ("grown", "new") or given in ("same", "plain")),
    Rule(("given", "way in"), lambda given, way: given == "same" or way not in (*OURS, *IMPORTS, *INFERRED)),
    Rule(("given", "way in"), lambda given, way: given != "plain" or way not in ("stack", "part")),
    Rule(("way in", "kind", "missing"), _has_nullable),
    Rule(("given", "hands"), lambda given, hands: given == "same" or hands != "new"),
    Rule(
        ("size", "kind", "shape"),
        lambda size, kind, shape: (size, shape) != ("large", "scalar") or not _is_number(kind),
    ),
    Rule(("way in", "kind"), lambda way, kind: way != "concat" or _is_computed(kind)),
    Rule(("between", "kind"), lambda between, kind: between != "cast" or _can_cast(kind)),
    Rule(("between", "size"), lambda between, size: between != "cast" or size != "lowered"),  # tiles
    Rule(("between", "compression"), lambda between, name: between != "cast" or name != "sample"),
    Rule(("between", "beside"), lambda between, beside: between not in VIEWS or beside != "empty"),
    Rule(("between", "way out"), lambda between, out: between not in VIEWS or out not in STORED),
    Rule(("way out", "kind", "shape"), _fits_out),
    Rule(("way out", "missing"), lambda out, missing: out != "all" or missing == "none"),
)  # fmt: skip
SPACE = Space(FACTORS, RULES, frozenset({"processed", "long", "large"}))

FURTHER: dict[constants.Key, tuple[Any, ...]] = {
    ("loaders/spans.py", "SPAN_BYTES"): (30, 200, 20_000),
    ("loaders/columns.py", "RESIDENT_BYTES"): (0, 100, 4_000),
    ("loaders/columns.py", "RESIDENT_SMALL"): ((0, 0), (1_000, 10)),
    ("loaders/columns.py", "STREAMED_BYTES"): (0, 100, 4_000),
    ("loaders/order.py", "EASED_BYTES"): (0, 100, 4_000),
    ("loaders/loader.py", "WINDOW"): (1, 100, 4_000),
    ("loaders/plan.py", "_TOGETHER"): (1, 2, 5),
    ("query/relations/stored.py", "_MOST_ROWS"): (2, 4, 7),
    ("query/relations/stored.py", "_EVEN_ROWS"): (2, 3),
    ("query/relations/stored.py", "_FIRST_ROWS"): (2, 3),
    ("query/relations/stored.py", "_LEAST_ROWS"): (1, 2),
    ("query/relations/stored.py", "_WINDOW_BYTES"): (1, 100, 4_000),
    ("query/relations/relation.py", "_WINDOW_BYTES"): (1, 100, 4_000),
    ("query/relations/relation.py", "_LEAST_MEMBERS"): (1, 3),
    ("query/relations/relation.py", "_MOST_MEMBERS"): (3, 6),
    ("query/values/reductions.py", "_VALUES"): (1, 5, 20),
    ("query/values/limits.py", "_STRETCH_ROWS"): (1, 2, 5),
    ("query/engine/filtering.py", "_AROUND"): (1, 4),
    ("transforms/work.py", "_MOST_ROWS"): (1, 2, 5),
    ("transforms/work.py", "_BUFFER_BYTES"): (1, 100, 4_000),
    ("transforms/output.py", "_MOST"): (1, 2, 5),
    ("transforms/source.py", "PIECE_BYTES"): (1, 100, 4_000),
    ("copying/transfer.py", "_TOGETHER"): (1, 2),
    ("copying/transfer.py", "_TOGETHER_BYTES"): (1, 100, 4_000),
    ("session/incoming.py", "SMALL"): (1, 100, 4_000),
    ("dataset/queries.py", "_BATCH"): (1, 2, 5),
    ("engines/arrow_dataset.py", "_FIRST_ROWS"): (1, 2, 5),
    ("engines/arrow_dataset.py", "_DENSE"): (1, 100),
    ("engines/arrow_dataset.py", "_MOST_STRETCHES"): (1, 3),
    ("merging/merge.py", "_MOST_ROWS"): (1, 2),
}
"""Constants that everyday programs do not come to, and what these lower them to."""


_TILES = ("documents/tensor_meta.py", "TILING_THRESHOLD")


def lowered_in(row: Row, seed: int) -> dict[constants.Key, Any]:
    """Draw which constants a program lowers, and to what."""
    if row["size"] != "lowered":
        return {}
    rng = random.Random(seed)
    share = rng.choice([0.1, 0.5, 1])
    concerns = "loaders/" if row["way out"].startswith("loader") else "-"
    further = {
        key: rng.choice(values)
        for key, values in FURTHER.items()
        if rng.random() < share or key[0].startswith(concerns)
    }
    if concerns != "-":  # chunks of a few rows
        further["documents/tensor_meta.py", "MAX_CHUNK_SIZE"] = rng.choice([100, 500])
    if row["scheduler"] == "processed":  # workers, whose constants are those of the code, go by it, too
        further.pop(("session/incoming.py", "SMALL"), None)
    return constants.choice(seed) | further


def _shape(kind: str, shape: str, size: str) -> str:
    """The shape of the sample of row `i`."""
    large = size == "large"
    if kind in ("image", "jpeg"):
        side = "160" if large else "16"
        return (
            f"({side} + i % 3, 150, 3)"
            if shape == "ragged"
            else f"({side}, 150, 3)"
            if large
            else "(16, 16, 3)"
        )
    if kind == "bbox":
        count = 5_000 if large else {"scalar": 1, "vector": 2}.get(shape, 3)
        return f"({count} + i % 3, 4)" if shape == "ragged" else f"({count}, 4)"
    if kind == "embedding":
        return "(20_000,)" if large else "(8,)"
    if kind == "label":
        count = 17_000 if large else 2
        return {"scalar": "()", "ragged": f"({count} + i % 3,)"}.get(shape, f"({count},)")
    rows = 300 if large else 2
    plain = {"scalar": "()", "vector": "(70_000,)" if large else "(3,)"}
    columns = 200 if large else 3
    return plain.get(shape, f"({rows} + i % 3, {columns})" if shape == "ragged" else f"({rows}, {columns})")


def _value_text(row: Row) -> str:
    """The function that makes the sample of a row."""
    name, shape, size = row["kind"], row["shape"], row["size"]
    kind, large = KINDS[name], size == "large"
    length = 70_000 if large else {"scalar": 1, "vector": 2, "matrix": 3}.get(shape)
    points = 15_000 if large else 6
    text = f"f'{{i}} é' * {length or '(i % 3 + 1)'}"
    body = {
        "text": text,
        "json": f"{{'number': i, 'text': {text}, 'nothing': None}}",
        "list": f"[i, 'é', None, [{text}]]",
        "tag": f"[f'tag {{i}}', {text}]",
        "polygon": f"[np.arange(i, i + {points}).reshape(-1, 2).astype('float32')] * {2 if large else length or 2}",
        "texts": f"[{text}, 'b', str(i)]",
    }.get(name)
    if body is None:
        dtype = kind.dtype if row["given"] in ("same", "plain") else row["given"]
        array = f"np.resize(np.arange(i, i + 50), {_shape(name, shape, size)})"
        if name == "label":
            array += f" % {len(CLASSES)}"
        elif kind.smooth:
            array = f"np.full({_shape(name, shape, size)}, i % 250)"
        elif dtype == "bool":
            array += " % 3 == 0"
        elif row["given"] in ("same", "plain") and dtype in ("int64", "uint64"):
            array += " + 2**62"
        elif dtype.startswith(("float", "complex")):
            array += " / 4" + (" * (1 + 2j)" if dtype.startswith("c") else "")
        body = f"np.asarray({array}).astype({dtype!r})"
        if kind.is_sequence:
            body = f"[{body}] * (i % 3 + 1)"
    return f"def value(i):\n    return {body}\n"


def kind_of(row: Row) -> Kind:
    """The kind, with as many axes as the shape has, and the options of the tensor."""
    kind = KINDS[row["kind"]]
    axes = kind.axes
    if _is_numbers(row["kind"]) or kind.labels or row["kind"] == "items":
        axes = (None,) * {"scalar": 0, "vector": 1}.get(row["shape"], 1 if kind.labels else 2)
    return replace(kind, axes=axes, options=_options(row))


def _options(row: Row) -> dict[str, Any]:
    options, compression = dict(KINDS[row["kind"]].options), row.get("compression", "none")
    if row.get("meets") == "grown" and _is_numbers(row["kind"]):
        del options["dtype"]
    if row["kind"] == "jpeg":
        return {**options, "chunk_compression" if compression == "chunk" else "sample_compression": "jpeg"}
    if row["kind"] == "image":
        name = None if compression == "none" else "png"
        return {**options, "chunk_compression" if compression == "chunk" else "sample_compression": name}
    return options if compression == "none" else {**options, f"{compression}_compression": "lz4"}


EMPTY = {"text": "''", "json": "{}", "list": "[]", "items": "[]", "texts": "[]"}
SLOW = ("json", "list", "tag", "polygon", "image", "jpeg", "items", "texts")
FILL: dict[str, str | tuple[str, ...]] = {
    "append": "for number, sample in enumerate(given):\n    ds.append({name: sample, 'id': start + number})",
    "tensor append": "for sample in given:\n    ds[name].append(sample)\nds.id.extend(new)",
    "extend dataset": "ds.extend(source)",
    "merge": "ds.checkout('in', create=True)\nds.extend({name: given, 'id': new})\nds.checkout(home)\nds.merge('in')",
    "list": "ds.extend({name: given, 'id': new})",
    "stack": "ds.extend({name: np.stack(given), 'id': np.array(new)})",
    **{door: f"ds.extend({{name: OURS[{door!r}][1](kind, given), 'id': new}})" for door in OURS},
    "update": "for number, sample in enumerate(given):\n    ds[name][start + number] = sample",
    "update row": "for number, sample in enumerate(given):\n    ds[start + number].update({name: sample})",
    "update rows": "ds.update_rows(new, {name: given})",
    "update slice": "ds[name][start : start + len(given)] = given",
    "set column": (
        "ds[name] = before + given",
        "whole = before + given\nds[name] = lambda row: whole[int(row['id'])]",
    ),
    "set rows": (
        "ds[name][new] = given",
        "ds[name][ds['id'] >= start] = given",
        "for number, sample in enumerate(given):\n    ds[start + number] = {name: sample}",
    ),
    "add column": (
        "ds.add_column(name, given, **kind.options)",
        "ds.add_column(name, lambda row: given[int(row['id'])], **kind.options)",
    ),
    "new column": ("ds[name] = given", "ds[name] = lambda row: given[int(row['id'])]"),
    "from rows": (
        "ds = lakebed.from_rows(place, [{name: given[number], 'id': number} for number in new])",
        "ds = lakebed.from_dict(place, {name: given, 'id': new})",
    ),
    "part": """\
for number, sample in enumerate(given):
    half = len(sample) // 2
    ds[name][start + number][:half] = sample[:half]
    ds[name][start + number, half:] = sample[half:]""",
    "import numpy": """\
np.savez(f"{base}/in.npz", x=np.stack(given), id=np.array(new))
ds = lakebed.import_from("numpy", f"{base}/in.npz", place, progressbar=False).dataset""",
    "import csv": """\
with open(f"{base}/in.csv", "w") as file:
    print("x,id", file=file)
    for number, sample in enumerate(given):
        plain = sample.item() if isinstance(sample, np.ndarray) else sample
        print("" if plain is None else json.dumps(plain, ensure_ascii=False), number, sep=",", file=file)
ds = lakebed.import_from("csv", f"{base}/in.csv", place, progressbar=False).dataset""",
    "import jsonl": """\
with open(f"{base}/in.jsonl", "w") as file:
    for number, sample in enumerate(given):
        plain = sample.item() if isinstance(sample, np.ndarray) else sample
        print(json.dumps({"x": plain, "id": number}), file=file)
ds = lakebed.import_from("jsonl", f"{base}/in.jsonl", place, progressbar=False).dataset""",
    "import parquet": """\
import pyarrow as pa
from pyarrow import parquet
parquet.write_table(pa.table({"x": OURS["arrow"][1](kind, given), "id": new}), f"{base}/in.parquet")
ds = lakebed.import_from("parquet", f"{base}/in.parquet", place, progressbar=False).dataset""",
    "import frame": """\
import pandas
ds = lakebed.from_pandas(place, pandas.DataFrame({"x": OURS["pandas"][1](kind, given), "id": new}))""",
    "import folder": """\
from PIL import Image
os.mkdir(f"{base}/in")
for number, sample in enumerate(given):
    Image.fromarray(sample).save(f"{base}/in/{number:04}.png")
ds = lakebed.import_from("folder", f"{base}/in", place, progressbar=False).dataset
ds.rename_tensor("images", "x")
for other in {*ds.tensors} - {"x"}:
    ds.delete_tensor(other)
ds.create_tensor("id", dtype="int64").extend(new)""",
    "copy": "ds = lakebed.copy(source, place, progressbar=False)",
    "deepcopy": "ds = lakebed.deepcopy(source, place, progressbar=False)",
    "backup": """\
lakebed.backup(source, f"{base}/backup", progressbar=False)
ds = lakebed.restore(f"{base}/backup", place, progressbar=False)""",
    "concat": """\
create(rest := lakebed.empty(f"{place}-rest"))
rest.extend({name: given[2:], "id": new[2:]})
rest.flush()
ds = lakebed.concat([source[:2], rest]).materialize(place)""",
    "row": "def row(number, out):\n    out.append({name: given[number], 'id': start + number})\n",
    "tensor": "def row(number, out):\n    out[name].append(given[number])\n    out.id.append(start + number)\n",
    "on": "def row(sample, out):\n    out[name].append(sample[name])\n    out['id'].append(sample.id)\n",
    "returned": """\
def row(number):
    return {name: given[number], "id": start + number}
lakebed.transform(row, range(len(given)), ds, scheduler=SCHEDULER, num_workers=WORKERS)""",
    "columns": """\
def columns(numbers):
    return {name: [given[number] for number in numbers], "id": start + np.asarray(numbers)}
lakebed.transform(columns, np.arange(len(given)), ds, batch_size=3, scheduler=SCHEDULER, num_workers=WORKERS)""",
    "changed": """\
whole = before + given
ds.map(lambda row: {name: whole[np.ravel(row["id"])[0]]}, scheduler=SCHEDULER, num_workers=WORKERS)""",
    "changed columns": """\
whole = before + given
ds.map(lambda batch: {name: [whole[number] for number in np.ravel(batch["id"])]}, batch_size=3,
       scheduler=SCHEDULER, num_workers=WORKERS)""",
}
FILL["new"] = FILL["changed"]
EVAL = "lakebed.compute(row)().eval(INPUT, ds, scheduler=SCHEDULER, num_workers=WORKERS, progressbar=False)"
BETWEEN: dict[str, str | tuple[str, ...]] = {
    "nothing": "",
    "update": "ds[name][0] = value(9)\nexpected[0] = of_tensor(value(9))",
    "pop": "ds.pop(1)\ndel expected[1], ids[1]",
    "remove": tuple(
        f"{removed}\ndel expected[1], ids[1]"
        for removed in ("ds.remove(ds['id'] == ids[1])", "ds.pop(ds[ds['id'] == ids[1]])")
    ),
    "cast": """\
wider = str(np.promote_types(kind.dtype, "float32"))
ds.cast_column(name, wider)
kind = Kind({**kind.options, "dtype": wider}, kind.form, wider, kind.axes)
def of_tensor(sample):
    return None if sample is None else sample.astype(wider)
expected = [of_tensor(row) for row in expected]""",
    "rechunk": "ds.rechunk()",
    "merge": """\
ds.checkout("other")
ds.append({name: value(9), "id": 100_001})
expected.append(of_tensor(value(9)))
ids.append(100_001)
if len(ds.id) > 1:
    ds.id[0] = ids[0] = 100_000
ds.checkout(home)
ds.merge("other")""",
    "commit": "ds.commit(allow_empty=True)",
    "copy": "place, home = COPY, 'main'\nds = lakebed.copy(ds, place, progressbar=False)",
    "reopen": "ds.flush()\nds = source = None\nds = lakebed.load(f'{place}@{home}')",
    "renamed": "ds = ds.rename_column(name, 'shown')\nname = 'shown'",
    "sorted": "ds = ds.sort('id', descending=True)\nexpected.reverse()\nids.reverse()",
    "selected": """\
ds = ds.shuffle(seed=3)
order = [ids.index(number) for number in ds["id"].tolist()]
assert sorted(order) == list(range(len(ids))), order
ds = ds.select(range(1, len(ids)))
expected, ids = [expected[row] for row in order[1:]], [ids[row] for row in order[1:]]""",
}
EPOCHS = {
    0: """\
for row in range(0, len(ids), 3):
    ds[name][row] = value(5)
    expected[row] = of_tensor(value(5))""",
    1: "ds.rechunk()",
    2: """\
for new in range(100_002, 100_008):
    for tensor, sample in ((name, value(5)), ("id", new)):
        ds[tensor].pop(0)
        ds[tensor].append(sample)
    expected, ids = [*expected[1:], of_tensor(value(5))], [*ids[1:], new]""",
}
HEAD = """\
import json
import os
import shutil
import tempfile

import numpy as np

import lakebed
from lakebed.storage.memory import open_memory
from unit_tests.proofs.crossings.looks import Out, command, export, lower
from unit_tests.proofs.everyday.doors import OURS, respelled
from unit_tests.proofs.everyday.kinds import Kind

base = f"{tempfile.gettempdir()}/crossing-SEED"
shutil.rmtree(base, ignore_errors=True)
os.mkdir(base)
kept = [open_memory("crossing-SEED"), open_memory("crossing-SEED-copy")]
"""


def script(row: Row, seed: int, lowered: Mapping[constants.Key, Any] | None = None) -> str:
    """Return the program of a row as text.

    Parameters
    ----------
    seed
        Draws what no factor says, and names the place.
    lowered
        Constants of the library that it lowers.
    """
    kind, way, hands, n = kind_of(row), row["way in"], row["hands"], _count(row)
    copy = "mem://crossing-SEED-copy" if row["place"] == "mem" else "{base}/copy"
    place = "mem://crossing-SEED" if row["place"] == "mem" else "{base}/lake"
    made = row["meets"] == "new" and way not in ("map", *COLUMNS)
    told = ", ".join(f"{name}: {level}" for name, level in row.items())
    settings = {
        f"{holder}.{key[1]}": value
        for key, value in (lowered or {}).items()
        for holder in constants.holders(*key)
    }
    flags = (kind.is_sequence, kind.lossy, kind.labels, kind.smooth)
    parts = [
        f'"""{told}"""',
        HEAD,
        f"lower({settings!r})" if settings else "",
        f"name, home, place = {row['name']!r}, 'main', f'{place}'",
        f"kind = Kind{(kind.options, kind.form, kind.dtype, kind.axes, *flags)!r}",
        _value_text(row),
        _of_tensor(row),
        _samples(row, n),
        "def create(ds):\n    ds.create_tensor(name, **kind.options)\n    ds.create_tensor('id', dtype='int64')\n",
    ]
    if way in (*COPIES, "extend dataset") or hands == "on":
        parts += [
            f"source = lakebed.empty(f'{place}-source')",
            "create(source)\nsource.extend({name: given, 'id': new})\nsource.commit()",
        ]
    if not made:
        parts.append("ds = lakebed.empty(place)")
        if row["meets"] == "new":
            parts.append("ds.create_tensor('id', dtype='int64').extend(new)")
        else:
            parts.append("create(ds)")
    if row["meets"] in ("committed", "branch"):
        parts.append("ds.extend({name: before, 'id': range(start)})\nds.commit()")
    if row["meets"] == "branch":
        parts.append("home = 'side'\nds.checkout(home, create=True)")
    if way in UPDATES or hands in ("changed", "changed columns"):
        parts.append(
            "ds.extend({name: [value(start + number + 3) for number in range(len(rows))], 'id': new})"
        )
    fork = "ds.checkout('other', create=True)\nds.checkout(home)"
    log = "ds.info['log'] = ['made']\nds.commit(allow_empty=True)"
    after: list[str] = []
    if row["between"] == "merge":
        (after if row["meets"] == "new" else parts).append(fork)
    if row["info"] == "in place":
        (after if made else parts).append(log)
        after.append("ds.info['log'].append('filled')")
    fill = _spelled(FILL[way if hands == "-" else hands], seed)
    parts += [fill.replace("SCHEDULER", repr(row["scheduler"])), *after]
    if hands in ("row", "tensor", "on"):
        source = "source" if hands == "on" else "list(range(len(given)))"
        parts.insert(
            len(parts) - len(after),
            EVAL.replace("INPUT", source).replace("SCHEDULER", repr(row["scheduler"])),
        )
    between = _spelled(BETWEEN[row["between"]], seed).replace("COPY", f"f'{copy}'")
    if row["between"] not in VIEWS:
        parts.append(between)
    if row["beside"] == "nulls":
        parts.append("ds.create_tensor('gone', dtype='float32').extend([None] * len(ids))")
        parts.append("ds.create_tensor('some', dtype='int32').extend([None, *range(1, len(ids))])")
    elif row["beside"] == "empty":
        parts.append("ds.create_tensor('blank', dtype='float32')")
    parts += [
        between if row["between"] in VIEWS else "",
        f"out = Out(ds, name, kind, expected, ids, seed={seed})",
        "columns = [name, 'id', 'some']" if row["beside"] == "nulls" else "columns = [name, 'id']",
        _way_out(
            row, seed, has_tiles=_TILES in (lowered or {})
        ),  # the first to read: who has read has imported what reads
        "found = ds.id.numpy().ravel().tolist()\nassert found == ids, found",
        "assert ds.info['log'] == ['made', 'filled'], ds.info['log']" if row["info"] == "in place" else "",
        "ds.flush()\nshutil.rmtree(base, ignore_errors=True)",
    ]
    workers = 1 if row["scheduler"] == "processed" and seed % 4 else 2  # each costs a start
    text = "\n".join(part for part in parts if part)
    return text.replace("SEED", str(seed)).replace("WORKERS", str(workers)) + "\n"


def _spelled(texts: str | tuple[str, ...], seed: int) -> str:
    """Return one of several texts that do the same."""
    return texts if isinstance(texts, str) else texts[seed % len(texts)]


def _count(row: Row) -> int:
    """How many rows."""
    one_by_one = ("append", "part", "update", "update row", "transform", "map")
    slow = row["kind"] in SLOW or row["way in"] in one_by_one
    return {"few": 5, "lowered": 13, "large": 3, "long": 150 if slow else 1_300}[row["size"]]


def _samples(row: Row, n: int) -> str:
    """The rows, what is there before, what is given, and what must be there in the end."""
    before = 2 if row["meets"] in ("committed", "branch") else 0
    style = {"plain": "names" if row["kind"] == "label" else "plain"}.get(row["given"], "array")
    return "\n".join(
        [
            f"rows = [value({before} + i) for i in range({n})]",
            *_missing_text(row).splitlines(),
            f"given = respelled(kind, rows, {style!r})" if style != "array" else "given = rows",
            f"before = [of_tensor(value(i)) for i in range({before})]",
            "expected = before + [of_tensor(row) for row in rows]",
            f"start, ids, new = {before}, list(range({before + n})), list(range({before}, {before + n}))",
        ]
    )


def _missing_text(row: Row) -> str:
    """Some rows become null or empty."""
    empty = EMPTY.get(row["kind"], "value(1)[:0]")
    return {
        "none": "",
        "null": "rows[1] = rows[-1] = None",
        "first null": "rows[0] = None",
        "empty": f"rows[1] = {empty}",
    }[row["missing"]]


def _of_tensor(row: Row) -> str:
    """The function that turns a sample that is given to one of the dtype of the tensor."""
    if row["given"] in ("same", "plain"):
        return "def of_tensor(sample):\n    return sample\n"
    return "def of_tensor(sample):\n    return None if sample is None else sample.astype(kind.dtype)\n"


def _way_out(row: Row, seed: int, *, has_tiles: bool) -> str:
    out = row["way out"]
    if out in LOOKS:
        return f"out.{out}()"
    if out == "loader epochs":
        make = f"lakebed.Loader(ds, 2, tensors=columns, threads={seed % 2 * 2}, shuffle=True, seed=3)"
        return "\n".join(
            [
                f"loader = {make}\nout.loader(loader)",
                EPOCHS[seed % 3],
                f"out = Out(ds, name, kind, expected, ids, seed={seed})",
                f"out.loader(loader)\nout.resumed(loader, {make})",
            ]
        )
    if out == "viewer":
        short = "" if row["between"] in VIEWS else "ds.create_tensor('short', dtype='int8').extend([1])\n"
        return short * (seed % 2) + PARTS[out].replace("STORED", repr(row["name"]))
    if out in PARTS:
        even = "even = lambda number: ids[number] % 2 == 0\n" if out.startswith("filter") else ""
        return even + PARTS[out]
    way, whole, alone = WHOLE[out]
    if "place" in whole or "export" in whole:
        whole = f"(ds.flush(), {whole})[1]"
    if row["beside"] != "empty" or out.startswith("head"):
        return _looked(f"out.{way}({whole})", is_tiled=has_tiles and KINDS[row["kind"]].smooth)
    refused = f"out.refused(lambda: {whole})"
    looked = _looked(f"out.{way}({alone})", is_tiled=has_tiles and KINDS[row["kind"]].smooth)
    return f"{refused}\n{looked}" if alone else refused


def _looked(look: str, *, is_tiled: bool) -> str:
    """Look at a whole table, of whose pictures some may lie in tiles."""
    before, to, arguments = look.partition("ds.to_")
    if not is_tiled or not to:
        return look
    method, _, rest = arguments.partition("(")
    return f"out.tiled(lambda files: {before}ds.to_{method}(files=files, {rest})"
