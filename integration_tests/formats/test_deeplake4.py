"""Datasets that Deep Lake 4 wrote come in as its package reads them: types, files, nulls, metadata, tags."""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.errors import DatasetExistsError, IngestionError
from unit_tests.lakebed.exporters.round_trips import differences

pytestmark = pytest.mark.formats

deeplake = pytest.importorskip("deeplake", minversion="4")
RNG = np.random.default_rng(0)
ROWS = 300


def image(kind: str, number: int) -> bytes:
    out = io.BytesIO()
    Image.fromarray(RNG.integers(0, 255, (4 + number % 3, 5, 3), np.uint8)).save(out, kind)
    return out.getvalue()


PNG = [image("PNG", row) for row in range(ROWS)]
JPEG = [image("JPEG", row) for row in range(ROWS)]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of most types, in two versions with a tag."""
    t = deeplake.types
    path = tmp_path_factory.mktemp("four") / "ds"
    ds = deeplake.create(str(path))
    columns: dict[str, tuple[Any, Any]] = {
        "img": (t.Image(sample_compression="png"), PNG),
        "jpg": (t.Image(sample_compression="jpeg"), JPEG),
        "raw": (t.Image(sample_compression="null"), [RNG.integers(0, 255, (3, 4, 1), np.uint8)] * ROWS),
        "label": (t.ClassLabel("int32"), [row % 2 for row in range(ROWS)]),
        "txt": (t.Text(), [f"nº {row}" for row in range(ROWS)]),
        "box": (t.BoundingBox("float32", "ltwh"), [np.ones((row % 3, 4), np.float32) for row in range(ROWS)]),
        "emb": (t.Embedding(4), [np.full(4, row, np.float32) for row in range(ROWS)]),
        "d": (t.Dict(), [{"a": row, "b": [1, {"c": "x"}]} for row in range(ROWS)]),
        "st": (t.Struct({"a": "int32", "b": "text"}), [{"a": row, "b": "x"} for row in range(ROWS)]),
        "arr": (t.Array("float64", dimensions=2), [np.full((2, 3), row, float) for row in range(ROWS)]),
        "seg": (t.SegmentMask(), [np.full((4, 5), row % 5, np.uint8) for row in range(ROWS)]),
        "bm": (t.BinaryMask(), [np.full((4, 5), row % 2, bool) for row in range(ROWS)]),
        "poly": (
            t.Polygon(),
            [[np.ones((3, 2), np.float32), np.ones((4 + row % 2, 2), np.float32)] for row in range(ROWS)],
        ),
        "pt": (t.Point(2), [np.full((3, 2), row, np.float32) for row in range(ROWS)]),
        "seq": (t.Sequence(t.Image(sample_compression="png")), [PNG[: 1 + row % 2] for row in range(ROWS)]),
        "words": (t.Sequence("text"), [["a"] * (1 + row % 3) for row in range(ROWS)]),
        "i": ("int64", list(range(ROWS))),
        "f": ("float32", [row / 2 for row in range(ROWS)]),
        "flag": ("bool", [row % 2 == 0 for row in range(ROWS)]),
        "by": (t.Bytes(), [bytes(range(row % 7 + 1)) for row in range(ROWS)]),
        "maybe": (t.Nullable("int32"), [None if row % 3 else row for row in range(ROWS)]),
        "maybe_text": (t.Nullable(t.Text()), [None if row % 3 else "x" for row in range(ROWS)]),
        "lnk": (t.Link(t.Image(sample_compression="png")), [str(path.parent / "linked.png")] * ROWS),
    }
    (path.parent / "linked.png").write_bytes(PNG[0])
    for name, (kind, _) in columns.items():
        ds.add_column(name, kind)
    ds.append({name: values[:100] for name, (_, values) in columns.items()})
    ds["label"].metadata["class_names"] = ["cat", "dog"]
    ds.metadata["by"] = {"a": "test"}
    ds.commit("first")
    ds.tag("v1")
    ds.append({name: values[100:] for name, (_, values) in columns.items()})
    ds.commit("second")
    return path


def test_every_type(theirs: Path, tmp_path: Path) -> None:
    report = lakebed.import_from("auto", theirs, tmp_path / "d", workers=2, progressbar=False)
    ds = report.dataset
    assert (report.format, report.written, report.skipped, report.left_out) == ("deeplake", ROWS, 0, [])
    other = deeplake.open_read_only(str(theirs))
    assert [ds.img[row].tobytes() for row in (0, 150, 299)] == [PNG[row] for row in (0, 150, 299)]
    assert ds.jpg[299].tobytes() == JPEG[299]
    assert np.array_equal(ds.raw[7].numpy(), other["raw"][7])
    assert ds.label.info["class_names"] == ["cat", "dog"]
    assert ds.label.numpy().ravel().tolist() == [row % 2 for row in range(ROWS)]
    assert ds.txt.text() == [f"nº {row}" for row in range(ROWS)]
    assert ds.box[5].numpy().tolist() == np.ones((2, 4)).tolist()
    assert ds.box.htype == "bbox"
    assert np.array_equal(ds.emb.numpy()[:, 0], np.arange(ROWS))
    assert ds.emb.htype == "embedding"
    assert ds.d[9].dict() == {"a": 9, "b": [1, {"c": "x"}]}
    assert ds.st[9].dict() == {"a": 9, "b": "x"}
    assert np.array_equal(ds.arr[8].numpy(), np.full((2, 3), 8.0))
    assert (ds.seg.htype, ds.bm.htype, ds.pt.htype) == ("segment_mask", "binary_mask", "point")
    assert np.array_equal(ds.seg[8].numpy(), np.full((4, 5), 3))
    assert ds.bm[1].numpy().all()
    assert [len(part) for part in ds.poly[1].numpy()] == [3, 5]
    assert np.array_equal(ds.pt[4].numpy(), np.full((3, 2), 4.0))
    assert len(ds.seq[1].numpy(aslist=True)) == 2
    assert ds.words[2].data()["value"] == ["a", "a", "a"]
    assert np.array_equal(ds.i.numpy().ravel(), np.arange(ROWS))
    assert ds.flag.dtype == np.bool_
    assert ds.by[3].numpy().tolist() == [0, 1, 2, 3]
    assert ds.maybe.null_mask().tolist() == [bool(row % 3) for row in range(ROWS)]
    assert ds.maybe_text.null_mask().tolist() == [bool(row % 3) for row in range(ROWS)]
    assert ds.lnk.htype == "link[image]"
    about = ds.info["imports"][0]["about"]
    assert about["metadata"]["dataset"] == {"by": {"a": "test"}}
    assert [one["message"] for one in about["versions"]][1:] == ["first", "second"]
    assert list(about["tags"]) == ["v1"]
    assert any("earlier version" in problem.reason for problem in report.problems)


def test_a_version_by_tag_and_some_columns(theirs: Path, tmp_path: Path) -> None:
    report = lakebed.import_from(
        "deeplake", theirs, tmp_path / "d", version="v1", columns=["i", "label"], progressbar=False
    )
    assert (report.written, set(report.dataset.tensors)) == (100, {"i", "label"})
    with pytest.raises(IngestionError, match="no version or tag"):
        lakebed.import_from("deeplake", theirs, "mem://", version="v9")
    with pytest.raises(IngestionError, match="no column"):
        lakebed.import_from("deeplake", theirs, "mem://", columns=["x"])


# -- all versions ------------------------------------------------------------------------------------------------


def test_the_last_commit_is_what_the_last_version_alone_is(theirs: Path, tmp_path: Path) -> None:
    """Every type, through two versions; the tag is that of a commit, and each commit says which version it is."""
    alone = lakebed.import_from("deeplake", theirs, tmp_path / "a", progressbar=False).dataset
    report = lakebed.import_from("deeplake", theirs, tmp_path / "b", history=True, progressbar=False)
    ds = report.dataset
    assert (report.written, report.problems, set(ds.tensors)) == (ROWS, [], set(alone.tensors))
    assert differences(ds, alone, [name for name in alone.tensors if name != "lnk"]) == []
    assert [one["message"] for one in ds.commits] == ["second", "first"]
    assert ds.info["imports"][0]["about"]["version"]["message"] == "second"
    tagged = lakebed.load(f"{tmp_path / 'b'}@v1", read_only=True)
    assert (len(tagged), tagged.img[99].tobytes()) == (100, PNG[99])
    assert tagged.info["imports"][0]["about"]["version"]["message"] == "first"
    dry = lakebed.import_from("deeplake", theirs, history=True, dry_run=True)
    assert (dry.dry_run, dry.planned) == (True, ROWS)
    with pytest.raises(DatasetExistsError):
        lakebed.import_from("deeplake", theirs, tmp_path / "b", history=True, progressbar=False)
    with pytest.raises(IngestionError, match="only one of these"):
        lakebed.import_from("deeplake", theirs, "mem://", history=True, version="v1")
    with pytest.raises(IngestionError, match="as a whole"):
        lakebed.import_from("deeplake", theirs, "mem://", history=True, append=True)


def changing(path: Path, versions: int, seed: int) -> None:
    """Make a dataset whose versions append, update, delete, add, drop and rename."""
    t, draw = deeplake.types, random.Random(seed)
    kinds: dict[str, Any] = {
        "number": "int64",
        "text": t.Text(),
        "img": t.Image(sample_compression="png"),
        "box": t.BoundingBox("float32", "ltwh"),
        "maybe": t.Nullable("float32"),
        "json": t.Dict(),
        "words": t.Sequence("text"),
    }

    def value(name: str) -> Any:
        number = draw.randrange(100)
        return {
            "number": number,
            "text": f"nº {number}" * (number % 3),
            "img": PNG[number],
            "box": np.full((number % 3, 4), number, np.float32),
            "maybe": None if number % 3 else number / 7,
            "json": {"a": number, "b": [None, "x" * (number % 4)]},
            "words": [f"{number}"] * (1 + number % 3),
        }[name.partition("_")[0]]

    ds = deeplake.create(str(path))
    names = list(kinds)
    for name in names:
        ds.add_column(name, kinds[name])
    for number in range(versions):
        for _ in range(draw.randint(1, 2)):
            what = draw.choice(["append", "append", "update", "delete", "drop", "add", "rename"])
            if what == "append" or not len(ds):
                count = draw.randint(1, 30)
                ds.append({name: [value(name) for _ in range(count)] for name in names})
            elif what == "update":
                for _ in range(draw.randint(1, 3)):
                    name = draw.choice([one for one in names if one.partition("_")[0] != "words"])
                    ds[draw.randrange(len(ds))][name] = value(name)
            elif what == "delete":
                ds.delete(draw.randrange(len(ds)))
            elif what == "drop" and len(names) > 3:
                ds.remove_column(names.pop(draw.randrange(len(names))))
            elif what == "add":
                name = draw.choice(["number", "maybe"]) + f"_{number}_{len(names)}"
                ds.add_column(name, kinds[name.partition("_")[0]])
                names.append(name)
            elif what == "rename":
                old = names.pop(draw.randrange(len(names)))
                names.append(f"{old.partition('_')[0]}_renamed_{number}_{len(names)}")
                ds.rename_column(old, names[-1])
        ds.commit(f"version {number}")


def changing_elsewhere(path: Path, versions: int, seed: int) -> None:
    """Do what :func:`changing` does in a process of its own: their package now and then crashes when it commits."""
    script = (
        "from integration_tests.formats.test_deeplake4 import changing; from pathlib import Path; "
        f"changing(Path({str(path)!r}), {versions}, {seed})"
    )
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode >= 0:
            break
        shutil.rmtree(path, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))]
)
def test_each_version_is_a_commit(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was done between two versions, and though the import was interrupted in the middle."""
    versions = 12
    changing_elsewhere(tmp_path / "theirs", versions, seed)
    history = deeplake.open_read_only(str(tmp_path / "theirs")).history
    # Where nothing was changed, their package makes no version.
    told = [history[number].message for number in range(1, len(history))]
    assert len(told) >= versions - 2
    assert told == [one for one in map("version {}".format, range(versions)) if one in told]
    real, left = lakebed.Dataset.commit, [versions // 2]

    def failing(ds: Any, *given: Any, **options: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return real(ds, *given, **options)

    monkeypatch.setattr(lakebed.Dataset, "commit", failing)
    with pytest.raises(KeyboardInterrupt):
        lakebed.import_from("deeplake", tmp_path / "theirs", tmp_path / "d", history=True, progressbar=False)
    report = lakebed.import_from(
        "deeplake", tmp_path / "theirs", tmp_path / "d", history=True, progressbar=False
    )
    commits = list(reversed(report.dataset.commits))
    assert [one["message"] for one in commits] == told
    for number, commit in enumerate(commits, start=1):
        wanted, ds = history[number].open(), lakebed.load(f"{tmp_path / 'd'}@{commit['commit']}")
        assert set(ds.tensors) == {column.name for column in wanted.schema.columns}
        assert {len(ds[name]) for name in ds.tensors} == {len(wanted)}
        for name in ds.tensors:
            assert shown(name, ds[name]) == [
                of_theirs(name, wanted[name], row) for row in range(len(wanted))
            ], name


def shown(name: str, tensor: lakebed.Tensor) -> list[Any]:
    """Return the values of a tensor as lists and bytes."""
    nulls = tensor.null_mask() if len(tensor) else None
    found: list[Any] = []
    for row in range(len(tensor)):
        if nulls is not None and nulls[row]:
            found.append(None)
        elif name.startswith("img"):
            found.append(tensor[row].tobytes())
        elif name.startswith(("json", "words", "text")):
            found.append(tensor[row].data()["value"])
        else:
            found.append(np.asarray(tensor[row].numpy()).ravel().tolist())
    return found


def of_theirs(name: str, column: Any, row: int) -> Any:
    """Return a value of their package as :func:`shown` has ours."""
    if name.startswith("img"):
        return bytes(column.get_bytes(row))
    value = column[row]
    if name.startswith("json"):
        return value.to_dict() if hasattr(value, "to_dict") else value
    if name.startswith("words"):
        return list(value)
    return value if value is None or name.startswith("text") else np.asarray(value).ravel().tolist()


def test_what_all_versions_cannot_bring_is_told(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that cannot be read are an error which names the version; branches are told."""
    from lakebed.importers.deeplake.deeplake_columns import Column

    real = Column.raw

    def raw(column: Column, ds: Any, start: int, stop: int) -> Any:
        if column.name == "txt" and stop > 150:
            raise RuntimeError("no such chunk")
        return real(column, ds, start, stop)

    monkeypatch.setattr(Column, "raw", raw)
    with pytest.raises(IngestionError, match=r"column 'txt': rows .* cannot be read: .*no such chunk"):
        lakebed.import_from("deeplake", theirs, tmp_path / "d", history=True, progressbar=False)
    report = lakebed.import_from(
        "deeplake", theirs, tmp_path / "e", history=True, columns=["i", "flag"], progressbar=False
    )
    assert (report.written, set(report.dataset.tensors)) == (ROWS, {"i", "flag"})
    ds = deeplake.create(str(tmp_path / "branched"))
    ds.add_column("i", "int64")
    ds.append({"i": [1, 2]})
    ds.commit("two")
    ds.branch("side")
    for history in (False, True):
        report = lakebed.import_from(
            "deeplake", tmp_path / "branched", "mem://", history=history, progressbar=False
        )
        assert "side" in next(one.reason for one in report.problems if one.where == "branches")


def test_damage_ends_no_process(theirs: Path, tmp_path: Path) -> None:
    """Damaged files are opened by their package in a process of its own here, so that a crash of it shows."""
    script = (
        "import lakebed, sys\n"
        "try: lakebed.import_from('deeplake', sys.argv[1], 'mem://', workers=0, progressbar=False)\n"
        "except lakebed.errors.LakebedError as error: print(error)\n"
    )
    broken = tmp_path / "broken"
    for path in theirs.rglob("*"):
        if path.is_file():
            target = broken / path.relative_to(theirs)
            target.parent.mkdir(parents=True, exist_ok=True)
            data = path.read_bytes()
            target.write_bytes(data if "_deeplake_log" in str(path) else data[: len(data) // 2])
    done = subprocess.run(
        [sys.executable, "-c", script, broken],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
