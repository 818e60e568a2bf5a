"""TSV files of images come in: indexes, roles, shards, lists of lines, splits alone, links, and what is damaged."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source
from lakebed.importers.shards import tsv, tsv_layout
from lakebed.importers.shards.open_files import OpenFiles
from lakebed.links import policy
from unit_tests.lakebed.importers.sources import imported, photo

Line = Sequence[str | bytes]


def image(root: Path, number: int, suffix: str = "jpg") -> bytes:
    path = root / f"photo.{suffix}"
    photo(path, number)
    data = path.read_bytes()
    path.unlink()
    return data


def write(path: Path, lines: Sequence[Line], index: str = "text") -> None:
    """Write a file and its index: ``text``, ``8b``, ``both`` or ``none``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        b"\t".join(base64.b64encode(one) if isinstance(one, bytes) else one.encode() for one in line) + b"\n"
        for line in lines
    ]
    path.write_bytes(b"".join(rows))
    offsets = np.cumsum([0, *map(len, rows)])[:-1]
    if index in ("text", "both"):
        path.with_suffix(".lineidx").write_text("".join(f"{at}\n" for at in offsets))
    if index in ("8b", "both"):
        Path(f"{path.with_suffix('')}.lineidx.8b").write_bytes(offsets.astype("<i8").tobytes())


def label(number: int) -> list[dict[str, Any]]:
    return [
        {"class": f"class {(number + at) % 3}", "rect": [at, 1.5, 3 + number, 4], "conf": 0.5}
        for at in range(number % 3)
    ]


def lines(root: Path, first: int, count: int) -> list[Line]:
    return [(f"key {at}", image(root, at % 6)) for at in range(first, first + count)]


def detection(root: Path, split: str = "train", count: int = 7, index: str = "text") -> None:
    root.mkdir(parents=True, exist_ok=True)
    write(root / f"{split}.tsv", lines(root, 0, count), index)
    write(root / f"{split}.label.tsv", [(f"key {at}", json.dumps(label(at))) for at in range(count)], index)
    sizes = [(f"key {at}", json.dumps([{"height": at, "width": 9}])) for at in range(count)]
    write(root / f"{split}.hw.tsv", sizes, index)


load = partial(imported, "tsv")


def check_rows(ds: Any, root: Path, numbers: Sequence[int]) -> None:
    assert ds.key.text() == [f"key {number}" for number in numbers]
    for row, number in enumerate(numbers):
        assert ds.images[row].tobytes() == image(root, number % 6)


@pytest.mark.parametrize("index", ["text", "8b", "both", "none"])
def test_images_labels_sizes(tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsv, "_ITEM_BYTES", 3000)
    detection(tmp_path / "pets", index=index)
    report = imported("auto", tmp_path / "pets", strict=True, workers=2)
    ds = report.dataset
    assert (report.format, report.written, report.splits) == ("tsv", 7, {"train": 7})
    check_rows(ds, tmp_path, range(7))
    assert ds.images.meta.sample_compression == "jpeg"
    assert ds.boxes.info["coords"] == {"type": "pixel", "mode": "LTRB"}
    names = ds.labels.info["class_names"]
    for row in range(7):
        assert ds.boxes[row].numpy().tolist() == [one["rect"] for one in label(row)]
        assert [names[at] for at in ds.labels[row].numpy()] == [one["class"] for one in label(row)]
        assert ds.hw[row].numpy().tolist() == [row, 9]
        if label(row):
            assert ds.objects[row].data()["value"] == [{"conf": 0.5}] * len(label(row))


def test_places_of_lines_are_views_of_the_indexes(tmp_path: Path) -> None:
    """A plan of many rows holds each offset once, not again as the begin and the end of a line."""
    detection(tmp_path / "set")
    places = [lines for item in tsv.plan(Source.of(tmp_path / "set")).items for lines in item.lines]
    assert places
    assert all(np.shares_memory(lines.starts[1:], lines.stops[:-1]) for lines in places)


def test_the_plan_and_one_file(tmp_path: Path) -> None:
    detection(tmp_path / "pets")
    (tmp_path / "pets" / "README.md").write_text("about")
    report = load(tmp_path / "pets", dry_run=True)
    assert (report.planned, report.nbytes) == (
        7,
        sum(path.stat().st_size for path in (tmp_path / "pets").glob("*.tsv")),
    )
    assert [problem.where for problem in report.problems] == ["README.md"]
    report = load(tmp_path / "pets" / "train.tsv", strict=True)
    assert list(report.dataset.tensors) == ["key", "images", "hw", "boxes", "labels", "objects", "split"]
    assert report.written == 7


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda index: index.replace("0\n", "1\n", 1), "no offsets"),
        (lambda index: "x" + index, "no offsets"),
        (lambda index: "", "no offsets"),
        (lambda index: "\n".join(index.split()[:-2]), "ends before"),
        (lambda index: index + "99999999\n", "beyond"),
        (lambda index: index + "9" * 30, "no offsets"),
        (
            lambda index: f"0\n{int(index.split()[1]) + 3}\n" + "\n".join(index.split()[2:]),
            "beginning of a line",
        ),
    ],
)
def test_an_index_that_does_not_fit_is_made_anew(
    tmp_path: Path, damage: Callable[[str], str], reason: str
) -> None:
    write(tmp_path / "pets" / "train.tsv", lines(tmp_path, 0, 4))
    path = tmp_path / "pets" / "train.lineidx"
    path.write_text(damage(path.read_text()))
    report = load(tmp_path / "pets")
    assert reason in report.problems[0].reason
    check_rows(report.dataset, tmp_path, range(4))
    with pytest.raises(IngestionError, match="indexed anew"):
        load(tmp_path / "pets", strict=True)


def test_an_index_that_does_not_fit_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsv_layout, "_PROBES", 1)
    write(tmp_path / "pets" / "train.tsv", lines(tmp_path, 0, 5))
    path = tmp_path / "pets" / "train.lineidx"
    offsets = path.read_text().split()
    offsets[2] = str(int(offsets[2]) + 10)
    path.write_text("\n".join(offsets))
    for link in (False, True):
        report = load(tmp_path / "pets", link=link)
        assert (report.written, report.skipped) == (3, 2)
        assert report.dataset.key.text() == ["key 0", "key 3", "key 4"]
    del offsets[2]
    path.write_text("\n".join(offsets))
    report = load(tmp_path / "pets")
    assert "does not fit" in report.left_out[0]["reason"]


def composite(root: Path) -> list[int]:
    """Write three shards of four lines, and rows that are some of them; return the numbers of the rows."""
    for shard in range(3):
        write(root / "data" / f"part{shard}.tsv", lines(root, 4 * shard, 4), ("text", "8b", "none")[shard])
        labels = [(f"key {at}", json.dumps(label(at))) for at in range(4 * shard, 4 * shard + 4)]
        write(root / "data" / f"part{shard}.label.tsv", labels)
    rows = [(2, 3), (0, 0), (1, 2), (2, 3), (0, 1)]
    for role in ("", ".label"):
        (root / f"trainX{role}.tsv").write_text(
            "".join(f"data/part{shard}{role}.tsv\n" for shard in range(3))
        )
    (root / "train.shuffle.txt").write_text("".join(f"{shard}\t{line}\n" for shard, line in rows))
    (root / "train.caption.tsv").write_text(
        "".join(f"key {4 * s + n}\tcaption {at}\n" for at, (s, n) in enumerate(rows))
    )
    return [4 * shard + line for shard, line in rows]


def test_shards_with_a_list_and_an_index_of_rows(tmp_path: Path) -> None:
    root = tmp_path / "pets"
    numbers = composite(root)
    for source in (root, root / "trainX.tsv"):
        report = load(source, strict=True)
        ds = report.dataset
        check_rows(ds, tmp_path, numbers)
        assert ds.caption.text() == [f"caption {at}" for at in range(5)]
        assert [len(ds.boxes[row].numpy()) for row in range(5)] == [number % 3 for number in numbers]
    (root / "train.shuffle.txt").unlink()
    (root / "train.caption.tsv").unlink()
    check_rows(load(root, strict=True).dataset, tmp_path, range(12))


def test_a_list_of_rows_that_are_not_there(tmp_path: Path) -> None:
    root = tmp_path / "pets"
    numbers = composite(root)
    (root / "train.caption.tsv").unlink()
    with (root / "train.shuffle.txt").open("a") as file:
        file.write("0\t4\n-1\t0\n3\t0\n1\t1\n")
    report = load(root)
    assert (report.written, report.skipped) == (6, 3)
    check_rows(report.dataset, tmp_path, [*numbers, 5])
    (root / "train.shuffle.txt").write_text("1\t2\n3\n")
    with pytest.raises(IngestionError, match="for each row"):
        load(root)
    (root / "trainX.tsv").write_text("data/part0.tsv\n../part1.tsv\n")
    with pytest.raises(IngestionError, match="not below"):
        load(root / "trainX.tsv")


def described(root: Path, **entries: Any) -> None:
    (root / "train.yaml").write_text(json.dumps(entries))


def test_a_description(tmp_path: Path) -> None:
    root = tmp_path / "pets"
    detection(root / "data", "big")
    (root / "data" / "labelmap.json").write_text(json.dumps({"class 2": 1, "class 0": 2, "class 1": 3}))
    (root / "data" / "lines.tsv").write_text("5\n0\n")
    described(
        root,
        img="data/big.tsv",
        label="data/big.label.tsv",
        linelist="data/lines.tsv",
        labelmap="data/labelmap.json",
        version=3,
    )
    for source in (root, root / "train.yaml"):
        report = imported("auto", source, strict=True)
        assert (report.format, report.splits) == ("tsv", {"train": 2})
        check_rows(report.dataset, tmp_path, [5, 0])
        assert report.dataset.labels.info["class_names"] == ["class 2", "class 0", "class 1"]
        assert report.dataset.labels[0].numpy().tolist() == [0, 1]
        assert report.dataset.info["imports"][0]["about"]["version"] == 3
    described(root, img="data/none.tsv")
    with pytest.raises(IngestionError, match="not below"):
        load(root)


def test_a_description_of_shards(tmp_path: Path) -> None:
    root = tmp_path / "pets"
    numbers = composite(root)
    described(root, img="trainX.tsv", label="trainX.label.tsv", linelist="train.shuffle.txt", composite=True)
    check_rows(load(root, strict=True).dataset, tmp_path, numbers)
    files = [f"data/part{at}.tsv" for at in range(3)]
    described(root, img=files, caption="train.caption.tsv", linelist="train.shuffle.txt", composite=True)
    ds = load(root, strict=True).dataset
    check_rows(ds, tmp_path, numbers)
    assert ds.caption.text() == [f"caption {at}" for at in range(5)]


def test_a_split_is_taken_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "pets"
    for split, count in (("train", 4), ("val", 3)):
        detection(root, split, count, "none")
    opened, opening = [], Source.open

    def noted(self: Source, name: str = "") -> Any:
        opened.append(name)
        return opening(self, name)

    monkeypatch.setattr(Source, "open", noted)
    report = load(root, split="val", strict=True)
    assert report.written == 3
    assert {name.partition(".")[0] for name in opened} == {"val"}
    assert load(root, strict=True).splits == {"train": 4, "val": 3}
    with pytest.raises(IngestionError, match="no split"):
        load(root, split="test")
    assert load(root, splits=False).splits == {}
    assert load(root, split={"a": 0.5, "b": 0.5}).written == 7


def test_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsv, "_HEAD_BYTES", 100)
    root = tmp_path / "pets"
    root.mkdir()
    rows: list[Line] = [(f"key {at}", image(tmp_path, at % 6, "png" if at % 2 else "jpg")) for at in range(6)]
    write(root / "train.tsv", [*rows, ("key 6", "")])
    report = lakebed.import_from(
        "tsv", root, tmp_path / "ds", link=True, strict=True, progressbar=False, workers=0
    )
    ds = report.dataset
    assert (report.written, report.problems) == (7, [])
    assert ds.images.htype == "link[image]"
    for row, (_, data) in enumerate(rows):
        assert ds.images[row].tobytes() == data
        assert ds.images[row].shape == ds.images[row].numpy().shape
    assert ds.images[6].path().tolist() == [""]
    monkeypatch.setattr(policy, "_MEMORY", policy._Memory())
    there = lakebed.load(tmp_path / "ds")
    with pytest.raises(lakebed.errors.LinkForbiddenError):
        there.images[0].numpy()


def test_links_read_the_ends_of_lines_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "pets"
    root.mkdir()
    noise = np.random.default_rng(0).integers(0, 255, (300, 300, 3), np.uint8)
    PIL.Image.fromarray(noise).save(tmp_path / "noise.png")
    data = (tmp_path / "noise.png").read_bytes()
    write(root / "train.tsv", [(f"key {at}", "more", data) for at in range(20)])
    lengths = []

    class Counted(OpenFiles):
        def read(self, name: str, start: int, length: int) -> bytes:
            lengths.append(length)
            return super().read(name, start, length)

    monkeypatch.setattr(tsv, "_MOST_LOOKED_AT", 1)
    monkeypatch.setattr(tsv, "OpenFiles", Counted)
    ds = load(root, link=True, strict=True).dataset
    assert sum(lengths) < 20 * (70 << 10) + 2 * len(data)
    assert ds.images[19].tobytes() == data
    assert ds.column_1.text() == ["more"] * 20


def test_other_columns_and_other_labels(tmp_path: Path) -> None:
    root = tmp_path / "pets"
    root.mkdir()
    rows: list[Line] = [
        (f"k{at}", f"text {at}", json.dumps({"at": at}), image(tmp_path, at)) for at in range(4)
    ]
    write(root / "val.img.tsv", rows)
    write(root / "val.label.tsv", [(f"k{at}", str(at % 2)) for at in range(4)])
    write(root / "val.hw.tsv", [(f"k{at}", f"{at} 7") for at in range(3)])
    write(root / "val.caption.tsv", [(f"k{at}", json.dumps([f"caption {at}"])) for at in range(4)])
    (root / "labelmap.txt").write_text("cat\ndog\n")
    report = load(root)
    assert [problem.where for problem in report.problems] == ["val.hw.tsv"]
    ds = report.dataset
    assert ds.column_1.text() == [f"text {at}" for at in range(4)]
    assert ds.column_2[3].dict() == {"at": 3}
    assert ds.labels.info["class_names"] == ["cat", "dog"]
    assert ds.labels.numpy().ravel().tolist() == [0, 1, 0, 1]
    assert [ds.hw[row].numpy().tolist() for row in range(3)] == [[0, 7], [1, 7], [2, 7]]
    assert ds.hw.null_mask().tolist() == [False, False, False, True]
    assert ds.caption[2].dict() == ["caption 2"]


def test_what_the_user_says_that_columns_are(tmp_path: Path) -> None:
    """Files and arrays are in base64, anything else is as it stands there."""
    root = tmp_path / "pets"
    root.mkdir()
    file = io.BytesIO()
    np.save(file, np.arange(3))
    files = [image(tmp_path, 0), image(tmp_path, 1)]
    write(root / "x.tsv", [(f"k{at}", file.getvalue(), json.dumps([at]), files[at]) for at in range(2)])
    ds = load(root).dataset
    assert {name: ds[name].htype for name in ds.tensors} == {
        "key": "text",
        "column_1": "text",
        "column_2": "json",
        "images": "image",
    }
    kinds = {"column_1": "array", "column_2": "text", "images": "bytes"}
    ds = load(root, kinds=kinds).dataset
    assert ds.column_1[1].numpy().tolist() == [0, 1, 2]
    assert ds.column_2.text() == ["[0]", "[1]"]
    assert [one.numpy().tobytes() for one in ds.images] == files
    for wrong, words in (({"x": "text"}, "no column 'x'"), ({"images": "picture"}, "kinds are")):
        with pytest.raises(IngestionError, match=words):
            load(root, kinds=wrong)
    with pytest.raises(IngestionError, match="links to bytes"):
        load(root, kinds={"images": "bytes"}, link=True)
    write(root / "x.label.tsv", [(f"k{at}", str(at)) for at in range(2)])
    assert load(root, kinds={"label": "text"}).dataset.label.text() == ["0", "1"]


def test_lines_that_cannot_be_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "pets"
    detection(root, count=6)
    rows: list[Any] = lines(tmp_path, 0, 6)
    rows[1] = ("key 1", "no base64, but long enough to be some, if only it were; " * 2)
    rows[2] = ("key 2", image(tmp_path, 2), "too", "many")
    rows[3] = ("another key", image(tmp_path, 3))
    rows[4] = ("key 4", image(tmp_path, 4, "png"))
    write(root / "train.tsv", rows)
    report = load(root)
    assert (report.written, report.skipped) == (3, 3)
    assert report.dataset.images.meta.sample_compression == "jpeg"
    assert report.changes["PNG encoded anew as JPEG at quality 95"]["count"] == 1
    assert load(root, compression="lossless").dataset.images.meta.sample_compression == "png"
    monkeypatch.setattr(tsv, "_MOST_LOOKED_AT", 1)
    report = load(root)
    assert (report.written, report.skipped) == (3, 3)
    reasons = [entry["reason"] for entry in report.left_out]
    for reason, words in zip(reasons, ("base64", "4 fields", "the key in"), strict=True):
        assert words in reason
    assert load(root, compression="png").written == 3
    with pytest.raises(IngestionError):
        load(root, strict=True)


def test_long_indexes_are_parsed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsv_layout, "_PARSED_BYTES", 7)
    numbers = np.arange(0, 100_000, 997)
    for text in ("".join(f"{number}\n" for number in numbers), "\r\n".join(map(str, numbers))):
        assert np.array_equal(tsv_layout._numbers(text.encode()), numbers)
    assert len(tsv_layout._numbers(b"")) == 0


def test_tables_are_no_tsv_files_of_images(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("name\tnumber\na\t1\n")
    assert tsv.recognise(Source.of(tmp_path / "table.tsv")) is None
    assert tsv.recognise(Source.of(tmp_path)) is None
    write(tmp_path / "photos.tsv", lines(tmp_path, 0, 2), "none")
    assert tsv.recognise(Source.of(tmp_path / "photos.tsv")) == "a TSV file of media"
    (tmp_path / "photos.tsv").write_bytes(b"")
    with pytest.raises(IngestionError, match="nothing to import"):
        load(tmp_path / "photos.tsv")


def everything(root: Path) -> None:
    composite(root)
    described(root, img="trainX.tsv", label="trainX.label.tsv", linelist="train.shuffle.txt", composite=True)
