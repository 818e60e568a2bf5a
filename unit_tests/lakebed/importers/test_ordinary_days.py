"""What users have on an ordinary day: odd files, odd names, one bad thing among many good ones."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from PIL import Image

import lakebed
from lakebed.cli import main
from lakebed.errors import IngestionError
from lakebed.importers.core import importing
from lakebed.importers.core.plan import columns_of_rows
from lakebed.importers.core.source import Source
from lakebed.importers.folders import folder
from lakebed.importers.shards import webdataset
from lakebed.storage.memory import MemoryStorage
from lakebed.transforms.output import Skipped


def jpeg(path: Path | None = None, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (8, 6)).save(file, "JPEG")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.getvalue())
    return file.getvalue()


def brought(format: str, src: Path, dest: Any = "mem://", **options: Any) -> Any:  # noqa: A002 - the user's word
    return lakebed.import_from(format, src, dest, progressbar=False, **options)


# -- folders --------------------------------------------------------------------------------------------------------


def test_a_folder_as_systems_and_people_leave_it(tmp_path: Path) -> None:
    """Litter is passed over, an empty file is told once and in few words, names are what they are."""
    root = tmp_path / "Meine Fotos ü"
    for name, mode in (("a b/1.jpg", "RGB"), ("a b/2.JPG", "L"), ("ä/3.jpeg", "CMYK")):
        jpeg(root / name, mode)
    for litter in (".DS_Store", "a b/Thumbs.db", "ä/desktop.ini", "__MACOSX/x.jpg", "ä/@eaDir/3.jpeg"):
        (root / litter).parent.mkdir(exist_ok=True)
        (root / litter).write_bytes(b"x")
    (root / "ä/leer & kaputt.jpg").write_bytes(b"")
    report = brought("folder", root, tmp_path / "lake")
    assert (report.written, report.problems) == (3, [])
    assert report.left_out == [{"where": "ä/leer & kaputt.jpg", "reason": "an empty file, of 0 bytes"}]
    assert list(report.reasons) == ["an empty file, of ... bytes"]
    assert [image.shape for image in report.dataset.images.numpy(aslist=True)] == [
        (6, 8, 3),
        (6, 8, 1),
        (6, 8, 4),
    ]


def test_a_readme_among_images_is_no_row(tmp_path: Path) -> None:
    """It is told instead, and never lost in silence; captions beside their images stay in their rows."""
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/3.jpg"):
        jpeg(tmp_path / name)
    (tmp_path / "dog/3.txt").write_text("a dog")
    (tmp_path / "README.txt").write_text("read me")
    (tmp_path / "cat/meta.json").write_text("{}")
    report = brought("folder", tmp_path)
    assert [(p.where, p.rows, "--notes rows" in p.reason) for p in report.problems] == [
        ("README.txt", 0, True),
        ("cat/meta.json", 0, True),
    ]
    assert "README.txt" in str(report)
    assert report.written == 3
    assert set(report.dataset.tensors) == {"images", "text", "labels", "file"}
    assert report.dataset.text.data()["value"] == ["", "", "a dog"]
    with pytest.raises(IngestionError, match=r"README\.txt.*skip says that this is meant"):
        brought("folder", tmp_path, strict=True)
    report = brought("folder", tmp_path, strict=True, notes="skip")
    assert report.written == 3
    assert "2 texts and JSON files" in report.found
    report = brought("folder", tmp_path, notes="rows")
    assert (report.written, report.problems) == (5, [])
    assert "read me" in report.dataset.text.data()["value"]


def test_a_folder_of_texts_with_a_logo_is_one_of_texts(tmp_path: Path) -> None:
    """Texts that are as many as what is beside them are rows."""
    for name in ("good/1", "good/2", "bad/3"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text(name)
    jpeg(tmp_path / "logo.jpg")
    report = brought("folder", tmp_path)
    assert (report.written, report.problems) == (4, [])
    (tmp_path / "logo.jpg").unlink()
    assert brought("folder", tmp_path).dataset.text.data()["value"] == ["bad/3", "good/1", "good/2"]


def test_a_dataset_inside_of_the_source_is_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``cd photos && lakebed import folder . lake``, killed, again, appended and replaced, takes the photos alone."""
    for number in range(6):
        jpeg(tmp_path / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    rows = folder.rows

    def killed(item: Any, context: Any) -> Iterator[Any]:
        if item.files[0] == "4.jpg":
            raise KeyboardInterrupt
        yield from rows(item, context)

    monkeypatch.setattr(folder, "rows", killed)
    with pytest.raises(KeyboardInterrupt):
        brought("folder", Path(), "lake", checkpoint=2, workers=0)
    monkeypatch.setattr(folder, "rows", rows)
    report = brought("folder", Path(), "lake", checkpoint=2, workers=0)
    assert (report.written, len(report.dataset), report.problems) == (6, 6, [])
    report = brought("folder", Path(), "lake", append=True, strict=True)
    assert (report.written, len(report.dataset)) == (6, 12)
    report = brought("folder", Path(), "lake", overwrite=True)
    assert (report.written, report.skipped, report.problems) == (6, 0, [])
    (problem,) = brought("folder", Path(), "mem://").problems  # another one than what is written
    assert (problem.where, "dataset" in problem.reason) == ("lake", True)
    (tmp_path / "x").mkdir()
    (tmp_path / "lake").rename(tmp_path / "x/lake")
    with pytest.raises(lakebed.errors.LakebedError, match="no files; lake: a dataset"):
        brought("folder", tmp_path / "x")


def test_a_dataset_inside_of_a_source_in_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    for key in (
        "1.jpg",
        "lake/dataset_meta.json",
        "lake/version_control_info.json",
        "lake/versions/a.json",
        ".git/2.jpg",
        "notes/dataset_meta.json",
    ):
        storage.put(key, b"x")
    source = Source("s3://bucket/photos", dest="s3://bucket/photos/lake")
    monkeypatch.setattr(Source, "_storage", storage)
    monkeypatch.setattr(Source, "is_file", False)
    assert list(source.files) == ["1.jpg", "notes/dataset_meta.json"]
    assert list(source.left_out) == ["lake"]
    assert source.is_own("lake")
    assert not source.is_own("lake2")


def test_an_item_that_the_importer_does_not_reckon_with_costs_its_own_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are made many at a time: an exception there takes none of the others along, and none uncounted."""
    for number in range(9):
        jpeg(tmp_path / f"{number}.jpg")
    (tmp_path / "3.jpg").write_bytes(b"")
    rows = folder.rows

    def row(item: Any, context: Any) -> Iterator[Any]:
        if item.files[0] == "5.jpg":
            raise IndexError("a fault")
        yield from [Skipped("1.jpg", "a reason")] if item.files[0] == "1.jpg" else rows(item, context)

    def together(items: Sequence[Any], context: Any) -> Iterator[Any]:
        for at in (1, 2):
            for made in row(items[at], context):
                yield made if isinstance(made, Skipped) else ([at], columns_of_rows([made]))
        raise IndexError("a fault")

    monkeypatch.setattr(folder, "many", together, raising=False)
    monkeypatch.setattr(folder, "rows", row)
    report = brought("folder", tmp_path, workers=0)
    assert sorted((one["where"], one["reason"]) for one in report.left_out) == [
        ("1.jpg", "a reason"),
        ("3.jpg", "an empty file, of 0 bytes"),
        ("5.jpg", "unexpected IndexError: a fault"),
    ]
    assert (report.written, report.skipped) == (6, 3)
    assert sorted(report.dataset.file.text()) == [f"{number}.jpg" for number in (0, 2, 4, 6, 7, 8)]


def test_a_format_that_there_is_not_names_auto() -> None:
    result = CliRunner().invoke(main, ["import", "photos", "lake"])
    assert "no importer for 'photos'; auto detects the format. There are: bcolz" in result.output


# -- COCO -----------------------------------------------------------------------------------------------------------


def coco(root: Path, **changes: Any) -> Path:
    """Three pictures, the first two with an object each; changes are made to all annotations, or to ``whole``."""
    for number in (1, 2, 3):
        jpeg(root / f"images/{number}.jpg")
    whole: dict[str, Any] = {
        "images": [
            {"id": number, "file_name": f"{number}.jpg", "height": 6, "width": 8} for number in (1, 2, 3)
        ],
        "annotations": [
            {"id": 10 + number, "image_id": number, "category_id": 1, "bbox": [1, 2, 3, 4]}
            for number in (1, 2)
        ],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    whole.update(changes.pop("whole", {}))
    for one in whole["annotations"]:
        one.update(changes)
    (root / "annotations.json").write_text(json.dumps(whole))
    return root


def test_categories_as_programs_write_them(tmp_path: Path) -> None:
    """As floats they have their names; without a list of categories they are numbers; no row is lost of either."""
    report = brought("coco", coco(tmp_path / "a", category_id=1.0))
    assert (report.written, report.skipped) == (3, 0)
    assert report.dataset.category_id[0].data()["text"] == ["cat"]
    report = brought("coco", coco(tmp_path / "b", whole={"categories": []}))
    assert (report.written, report.skipped) == (3, 0)
    assert [one.tolist() for one in report.dataset.category_id.numpy(aslist=True)] == [[1], [1], []]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"category_id": 99}, "annotation 11: category_id 99 is not the id of a category"),
        ({"bbox": [1, 2, 3]}, "annotation 11: bbox is [1, 2, 3], not four numbers"),
        (
            {"segmentation": [[1, 1, 2]]},
            "annotation 11: its segmentation is left out: it is not a list of polygons, each of x and y in turns",
        ),
    ],
)
def test_what_is_wrong_with_an_annotation_is_told_with_its_id(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    report = brought("coco", coco(tmp_path / "a", **changes))
    assert report.written == 3, "pictures stay"
    assert report.left_out[0] == {"where": "images/1.jpg", "reason": reason}


def test_ids_of_pictures_that_are_texts_go_out_again(tmp_path: Path) -> None:
    images = [{"id": f"u-{one}", "file_name": f"{one}.jpg", "height": 6, "width": 8} for one in (1, 2)]
    annotations = [{"id": 1, "image_id": "u-2", "category_id": 2, "bbox": [1.0, 2.0, 3.0, 4.0]}]
    annotations[0] |= {"area": 12.0, "iscrowd": 0}
    src = coco(tmp_path / "a", whole={"images": images, "annotations": annotations})
    ds = brought("coco", src).dataset
    assert ds.image_id.text() == ["u-1", "u-2"]
    lakebed.export_to("coco", ds, tmp_path / "out", progressbar=False)
    (path,) = (tmp_path / "out").rglob("*.json")
    found = json.loads(path.read_text())
    assert [one["id"] for one in found["images"]] == ["u-1", "u-2"]
    assert found["annotations"] == annotations


def test_pictures_by_paths_of_another_machine(tmp_path: Path) -> None:
    """Of Windows, too; where no picture is found, the error says which was looked for."""
    images = [{"id": 1, "file_name": "C:\\data\\images\\1.jpg"}, {"id": 2, "file_name": "/home/bob/2.jpg"}]
    assert brought("coco", coco(tmp_path / "a", whole={"images": images})).written == 2
    images = [{"id": 1, "file_name": "1.JPG"}]
    with pytest.raises(IngestionError, match=r"0 images.*1\.JPG: the file '1\.JPG' is missing, and \d more"):
        brought("coco", coco(tmp_path / "b", whole={"images": images}))


def test_a_category_twice_in_one_file(tmp_path: Path) -> None:
    categories = [{"id": 1, "name": "cat"}, {"id": 1, "name": "dog"}]
    with pytest.raises(IngestionError, match="'cat' in the same file: give one of them another id"):
        brought("coco", coco(tmp_path / "a", whole={"categories": categories}))


# -- shards ---------------------------------------------------------------------------------------------------------


def shard(path: Path, members: Sequence[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize("bad", [b"", b"garbage", jpeg()[:40]])
@pytest.mark.parametrize("is_large", [False, True])
def test_a_bad_photo_in_a_shard_costs_its_own_sample(bad: bytes, is_large: bool, tmp_path: Path) -> None:
    """Whether its stretch is written at once or while it is read, and whatever is wrong with the photo."""
    count, text = (60, b"x" * 500_000) if is_large else (20, b"x")
    members = []
    for number in range(count):
        photo = bad if number == 7 else jpeg()
        members += [(f"{number:02}.jpg", photo), (f"{number:02}.txt", text)]
    src = shard(tmp_path / "a.tar", members)
    report = brought("webdataset", src, workers=0)
    assert (report.written, report.skipped) == (count - 1, 1)
    assert report.left_out[0]["where"] == "a.tar, row 7 of it"
    assert report.dataset.key.text() == [f"{number:02}" for number in range(count) if number != 7]
    with pytest.raises(IngestionError, match=r"a\.tar"):
        brought("webdataset", src, workers=0, strict=True)


def test_shards_as_macos_and_unsorted_lists_make_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that begin with a dot are no files of samples; files of a sample that lie apart are told."""
    src = shard(
        tmp_path / "a.tar", [("./._1.jpg", b"x"), ("./1.jpg", jpeg()), ("._1.cls", b"x"), ("1.cls", b"3")]
    )
    report = brought("webdataset", src)
    assert (set(report.dataset.tensors), report.problems) == ({"jpg", "cls", "key"}, [])
    members = [("1.jpg", jpeg()), ("2.jpg", jpeg()), ("1.cls", b"3"), ("2.cls", b"4")]
    src = shard(tmp_path / "b.tar", members)
    (problem,) = brought("webdataset", src).problems
    assert problem.reason.startswith("2 samples have the key of an earlier one")
    monkeypatch.setattr(webdataset, "_MOST_KEYS", 1)
    (problem,) = brought("webdataset", src).problems
    assert problem.reason.startswith("1 samples")


# -- tables ---------------------------------------------------------------------------------------------------------


def csv(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("a,b,a\n1,x,2\n", {"a": [1], "b": ["x"], "a_2": [2]}),
        ("a,a,a_2\n1,2,3\n", {"a": [1], "a_3": [2], "a_2": [3]}),
        ('a,a\n"x\ny",2\n3,"z\nw"\n', {"a": ["x\ny", "3"], "a_2": ["2", "z\nw"]}),
        ("phone,share\n+4912345,+1.5\n+1,2\n", {"phone": ["+4912345", "+1"], "share": ["+1.5", "2"]}),
        ("n\n-01\n2\n", {"n": ["-01", "2"]}),
        ("sep=;\r\nid;name\r\n1;ada\r\n", {"id": [1], "name": ["ada"]}),
        ("\ufeffsep=;\r\nid;name\r\n1;ada\r\n", {"id": [1], "name": ["ada"]}),
        ("\ufeffid;name\r\n1;bób\r\n", {"id": [1], "name": ["bób"]}),
        ("\n\nid,name\n1,ada\n", {"id": [1], "name": ["ada"]}),
        (
            'id,note\n1,"two\r\nlines"\n2,"ends with\n"\n',
            {"id": [1, 2], "note": ["two\r\nlines", "ends with\n"]},
        ),
    ],
)
def test_csv_files_of_spreadsheets(content: str, columns: dict[str, list[Any]], tmp_path: Path) -> None:
    report = brought("csv", csv(tmp_path / "a.csv", content))
    assert pa.table(report.dataset).to_pydict() == columns
    assert len(report.problems) == content.partition("\n")[0].split(",").count("a") // 2


def test_a_csv_file_without_rows_or_with_an_open_quote(tmp_path: Path) -> None:
    """An error that says so, and no dataset whose last value is the rest of the file."""
    with pytest.raises(IngestionError, match="holds nothing to import: no rows below the names"):
        brought("csv", csv(tmp_path / "a.csv", "id,name\n"))
    with pytest.raises(IngestionError, match=r"no rows below.*row 2: 2 fields in place of 1"):
        brought("csv", csv(tmp_path / "b.csv", "# made by me\nid,name\n"))
    with pytest.raises(IngestionError, match=r"the quote before 'x.n2,y.n' is not closed"):
        brought("csv", csv(tmp_path / "c.csv", 'a,b\n1,"x\n2,y\n'))
    report = brought("csv", tmp_path / "c.csv", quote="")
    assert report.dataset.b.text() == ['"x', "y"]


def test_lines_of_json_that_are_no_text(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.jsonl", '{"a": "\\ud83d\\ude00"}\n{"a": "\\ud800"}\n{"a": "\\\\ud800"}\n')
    report = brought("jsonl", path)
    assert report.dataset.a.text() == ["\U0001f600", "\\ud800"]
    assert report.left_out == [
        {"where": "a.jsonl, byte 22", "reason": "half of a surrogate pair, which is not text"}
    ]
    assert brought("jsonl", csv(tmp_path / "a.jsonl", '[{"a": 1},\n{"a": 2}]')).dataset.a.numpy(
        aslist=True
    ) == [1, 2]
    with pytest.raises(IngestionError, match=r"in one list\. a\.jsonl, byte 0: no object of JSON"):
        brought("jsonl", csv(tmp_path / "a.jsonl", "[1]"))


def test_parquet_files_with_ids_of_fixed_size_and_folders_that_tell_columns(tmp_path: Path) -> None:
    ids = pa.array([b"abc", None, b"xyz"], pa.binary(3))
    (tmp_path / "year=2024").mkdir()
    pq.write_table(pa.table({"id": ids}), tmp_path / "year=2024/a.parquet")
    report = brought("parquet", tmp_path)
    assert [bytes(one) for one in report.dataset.id.numpy(aslist=True)] == [b"abc", b"", b"xyz"]
    assert report.dataset.id.null_mask().tolist() == [False, True, False]
    (problem,) = report.problems
    assert (problem.where, "'year'" in problem.reason) == ("year=2024/a.parquet", True)


def test_a_bad_file_in_a_table_is_told_with_its_row_group(tmp_path: Path) -> None:
    photos = [jpeg(), b"nothing", jpeg()]
    pq.write_table(pa.table({"photo": photos}), tmp_path / "a.parquet")
    report = brought("parquet", tmp_path / "a.parquet", media={"photo": "image"})
    assert (report.written, report.left_out[0]["where"]) == (2, "a.parquet, row group 0, row 1 of it")
    assert importing.INFO in report.dataset.info


def test_classes_that_hugging_face_does_not_know(tmp_path: Path) -> None:
    """A test split has -1 in place of each class: its rows come in, without one."""
    told = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    schema = pa.schema([("label", pa.int64())], {"huggingface": json.dumps(told)})
    pq.write_table(pa.table({"label": [1, -1, None, 0]}, schema), tmp_path / "a.parquet")
    report = brought("parquet", tmp_path / "a.parquet")
    assert (report.written, report.skipped) == (4, 0)
    assert [row.data()["text"] for row in report.dataset.label] == [["dog"], [], [], ["cat"]]
    assert report.dataset.label.null_mask().tolist() == [False, True, True, False]
