"""Sixty mistakes of a first day, and the words that help: the value, the name, or what to write instead."""

from __future__ import annotations

import copy
import io
import itertools
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image

import lakebed
from lakebed.errors import LakebedError, UnusualSampleWarning

NUMBER = itertools.count()
Call = Callable[[lakebed.Dataset], Any]


@pytest.fixture
def ds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[lakebed.Dataset]:
    """A dataset with a tensor of most kinds, and a folder with what else the mistakes are about."""
    monkeypatch.chdir(tmp_path)
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, "jpeg")
    Path("cut.jpg").write_bytes(file.getvalue()[:300])
    Path("notes.txt").write_text("hi")
    Path("mine").mkdir()
    Path("mine/letter.txt").write_text("hi")
    stored = lakebed.empty("stored")
    stored.create_tensor("n", dtype="int32").extend([1, 2, 3])
    stored.close()
    ds = lakebed.empty(f"mem://sixty-{next(NUMBER)}")
    for name, options in TENSORS.items():
        ds.create_tensor(name, **options)
    ds.n.extend([1, 2, 3])
    yield ds
    os.chdir("/")


TENSORS: dict[str, dict[str, Any]] = {
    "n": {"dtype": "int32"},
    "f": {"dtype": "float32"},
    "img": {"htype": "image", "sample_compression": "jpeg"},
    "box": {"htype": "bbox"},
    "lab": {"htype": "class_label", "class_names": ["cat", "dog"]},
    "txt": {"htype": "text"},
    "doc": {"htype": "json"},
    "emb": {"htype": "embedding"},
    "poly": {"htype": "polygon"},
    "mask": {"htype": "binary_mask"},
    "lnk": {"htype": "link[image]", "sample_compression": "jpeg"},
    "aud": {"htype": "audio", "sample_compression": "wav"},
}


def _set(tensor: str, row: int, value: Any) -> Call:
    return lambda ds: ds[tensor].__setitem__(row, value)


MISTAKES: list[tuple[Call, str]] = [
    # values that a tensor does not take
    (lambda ds: ds.n.append(2**40), "tensor 'n': 1099511627776 does not fit int32"),
    (lambda ds: ds.n.append(1.5), "tensor 'n': 1.5 does not fit int32"),
    (lambda ds: ds.n.append("seven"), "tensor 'n': the tensor holds int32, not text"),
    (lambda ds: ds.n.append(b"x"), "the tensor holds int32, not bytes"),
    (lambda ds: ds.n.append({"a": 1}), "the tensor holds int32, not dict"),
    (lambda ds: ds.n.append([1, "x"]), "the tensor holds int32, not text"),
    (lambda ds: ds.n.extend(np.array([1, 2**40])), "1099511627776 does not fit int32"),
    (lambda ds: ds.n.extend(pa.array([1, 2**40])), "1099511627776 does not fit int32"),
    (lambda ds: ds.n.append(np.zeros((2, 2), "i4")), "expected to be 1, actual length is 2: (2, 2)"),
    (lambda ds: ds.n.extend([4, 2**40]), "1099511627776 does not fit int32"),
    (lambda ds: ds.n.extend(5), "a column of samples must be an array or a list, not a single int"),
    (lambda ds: ds.f.append(1e300), "1e+300 does not fit float32"),
    (lambda ds: ds.lab.append(1.5), "1.5 does not fit uint32"),
    (lambda ds: ds.lab.append(-1), "-1 does not fit uint32"),
    (lambda ds: ds.txt.append(b"abc"), "a text tensor takes strings, not bytes"),
    (lambda ds: ds.doc.append({1, 2}), "a json tensor takes JSON values: Object of type set"),
    (lambda ds: ds.emb.extend([np.zeros(3), np.zeros(2)]), "its vectors have 3 numbers, and a sample has 2"),
    (lambda ds: ds.emb.append("abc"), "the tensor holds float32, not text"),
    (lambda ds: ds.poly.append([[1, 2, 3]]), "a polygon is a list of points, shape (points, axes)"),
    (lambda ds: ds.mask.append(np.full((2, 2), 7, "u1")), "7 does not fit bool"),
    (_set("n", 0, "x"), "the tensor holds int32, not text"),
    (_set("n", 0, 2**40), "1099511627776 does not fit int32"),
    # pictures, files and links
    (lambda ds: ds.img.append("cut.jpg"), "To append data from a file, pass lakebed.read(path)"),
    (
        lambda ds: ds.img.append(lakebed.read("cut.jpg")),
        "sample cut.jpg: 300 bytes are not in the format jpeg",
    ),
    (lambda _: lakebed.read("cut.jpg", verify=True), "ends inside a marker segment"),
    (lambda _: lakebed.read("nofile.jpg"), "nofile.jpg: the file does not exist"),
    (
        lambda ds: ds.img.append(lakebed.read("notes.txt")),
        "notes.txt: 2 bytes are not a known kind of file",
    ),
    (
        lambda ds: ds.img.append(lakebed.read(b"\xff\xd8\xff" + b"0" * 200)),
        "203 bytes are not in the format jpeg",
    ),
    (
        lambda ds: ds.img.append(np.zeros((4, 4, 3), "f4")),
        "dtype float32 cannot be stored as jpeg; jpeg takes",
    ),
    (
        lambda ds: ds.img.append(np.zeros((4, 4, 4), "u1")),
        "shape (4, 4, 4) and dtype uint8 cannot be stored as jpeg",
    ),
    (lambda ds: ds.lnk.append("http://x/y.jpg"), "a link tensor takes lakebed.link(path), not str"),
    (lambda ds: ds.lnk.append(lakebed.link("nofile.jpg")), "the link to nofile.jpg"),
    (lambda ds: ds.aud.append(np.zeros(100, "f4")), "you should use `lakebed.read(path_to_file)`"),
    (lambda _: lakebed.link("a.jpg", 5), "a credentials key is text, not int"),
    # names
    (lambda ds: ds.imgs, "did you mean 'img'? Tensors: n, f, img"),
    (lambda ds: ds["imgs"], "Tensor 'imgs' does not exist; did you mean 'img'?"),
    (lambda ds: ds.append({"n": 1, "imgs": 2}), "did you mean 'img'?"),
    (lambda ds: ds.delete_tensor("nn"), "did you mean 'n'?"),
    (lambda ds: ds.rename_tensor("n", "f"), "Tensor 'f' already exists; choose another name"),
    (lambda ds: ds.to_pandas(["imgs"]), "did you mean 'img'?"),
    (lambda ds: ds.create_tensor("n"), "Tensor 'n' already exists. You can use the `exist_ok=True`"),
    (lambda ds: ds.create_tensor("index"), "reserved attribute 'index'"),
    (lambda ds: ds.create_tensor("a/.."), "has a part that stands for a folder"),
    (lambda ds: ds.create_group("n"), "Tensor 'n' already exists; choose another group name"),
    # options
    (lambda ds: ds.create_tensor("x", htype="image"), "Available compressors: ['bmp'"),
    (lambda ds: ds.create_tensor("x", htype="video"), "Available compressors: ['avi', 'mkv', 'mp4']"),
    (
        lambda ds: ds.create_tensor("x", htype="picture"),
        "Htype 'picture' does not exist; did you mean 'image'? Available htypes:",
    ),
    (lambda ds: ds.create_tensor("x", dtype="int33"), "Invalid value 'int33' for tensor meta key 'dtype'"),
    (
        lambda ds: ds.create_tensor("x", htype="image", sample_compression="jpg2"),
        "'jpg2' is not a compression; choose one of avi, bmp",
    ),
    (
        lambda ds: ds.create_tensor("x", htype="image", sample_compression="jpeg", chunk_compression="jpeg"),
        "leave one out",
    ),
    # rows
    (lambda ds: ds.append({"n": 1}), "Required tensors not provided: ['f', 'img'"),
    (
        lambda ds: ds.append([1, 2]),
        "a row is a dictionary from tensor names to samples, for example {'x': 1}, not list",
    ),
    (lambda ds: ds.extend([1, 2]), "a list of dictionaries; row 0 is of type int"),
    (lambda ds: ds.n[10].numpy(), "out of range for tensors with length 3"),
    (lambda ds: ds.n.pop(99), "Index 99 is out of range. The tensor has 3 samples"),
    (lambda ds: ds.pop(99), "Index 99 is out of range. The longest tensor has 3 samples"),
    (lambda ds: ds.take_rows([5, 0], ["n"]), "out of range: the shortest of the tensors has 3"),
    (lambda ds: ds.take_rows([0.5], ["n"]), "row numbers"),
    (lambda ds: ds.n["a"], "Item 'a' of type 'str' is not a valid key"),
    (lambda ds: ds[1.5], "Item 1.5 of type 'float' is not a valid key: rows are selected by"),
    (lambda ds: ds[0:2, "n"], "a column by its name, before its rows, as in ds['age'][0:3]"),
    (lambda ds: ds[(i for i in range(2))], "a list or array of whole numbers or booleans"),
    (lambda ds: ds["n"] * 2, "ds['n'].numpy(), or in a query, as in ds.query('SELECT n + 1"),
    (lambda ds: 1 - ds["n"], "columns are compared, but have no -"),
    (lambda ds: ds["n"] % ds["f"] == 0, "columns are compared, but have no %"),
    (lambda ds: -ds["n"], "columns are compared, but have no -"),
    (
        lambda ds: ds.query("n > 1 and f < 2"),
        "'n' stands where SELECT is expected; a condition goes to ds.filter",
    ),
    (lambda ds: ds.pop(-1), "Row -1 is row 2"),
    (lambda ds: ds.drop(0), "drop takes names of columns, not 0: ds.remove([0]) removes rows"),
    (lambda ds: ds.drop([1, 2]), "ds.remove([1, 2]) removes rows"),
    (lambda ds: ds.merge(ds, on="n"), "ds.join(other, on='id') joins rows"),
    (lambda ds: ds.create_tensor(5), "the name of a tensor is text, not 5"),
    (
        lambda ds: ds.n.extend(np.array([1, np.nan])),
        "nan does not fit int32; what is missing is None or pandas.NA",
    ),
    (lambda _: lakebed.from_pandas(pl.DataFrame({"a": [1]})), "as its second argument, not polars.DataFrame"),
    (lambda ds: bool(ds.n == 1), "join conditions with &, | and ~"),
    (lambda ds: ds.n == [1], "compare ds['n'].numpy() == [1]"),
    (lambda ds: ds.n == np.array([1]), "compare ds['n'].numpy() =="),
    (lambda ds: ds.n != [1], "cannot be compared with arrays"),
    (lambda ds: ds.n > np.array([1]), "cannot be compared with arrays"),
    (copy.deepcopy, "Use ds.copy(dest)"),
    (lambda ds: copy.deepcopy([ds[0:1]]), "Use ds.copy(dest)"),
    (lambda _: lakebed.Loader("stored"), "a loader reads a dataset or a view, not str: open it with"),  # type: ignore[arg-type]
    (lambda ds: list(ds.batches(0)), "batch_size is 0; it must be at least 1"),
    # places
    (lambda _: lakebed.empty("stored"), "use overwrite=True. To open it, use lakebed.load()"),
    (lambda _: lakebed.empty("mine"), "holds other files (letter.txt) and no dataset"),
    (lambda _: lakebed.load(__file__), "It is a file: lakebed.read(path) reads one"),
    (
        lambda _: lakebed.load(Path(__file__).parent),
        "Other files are there: lakebed.import_from('auto', path, dest)",
    ),
    (lambda ds: ds.create_tensor("odd", dtype="float23"), "Did you mean 'float32'?"),
    (lambda _: lakebed.load("nowhere"), "Check the path, or create one with lakebed.empty()"),
    (lambda _: lakebed.load("stored@nope"), "Address nope not found"),
    (
        lambda _: lakebed.load("stored", read_only=True).n.append(1),
        "was opened read-only; open it with read_only=False",
    ),
    (lambda _: lakebed.load("s4://x"), "no storage for s4:// addresses; use a local path"),
    (lambda _: lakebed.load("hub://a/b"), "Copy the dataset out once"),
    (lambda _: lakebed.load(5), "5 is not the path of a dataset"),  # type: ignore[arg-type]
    (
        lambda _: lakebed.deepcopy("stored", "stored"),
        "can not be copied onto itself; choose another destination",
    ),
    # versions
    (lambda ds: ds.checkout("nope"), "Branches are: main"),
    (lambda ds: ds.checkout("main", create=True), "'main' already exists"),
    (lambda ds: ds.delete_branch("nope"), "Branch nope does not exist"),
    (lambda ds: ds.merge("nope"), "nope does not exist in the dataset"),
]


@pytest.mark.parametrize(("mistake", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_the_message_helps(ds: lakebed.Dataset, mistake: Call, words: str) -> None:
    """One error of ours, in one sentence or two; what is there stays as it was."""
    with pytest.raises(Exception, match=re.escape(words)) as caught:
        mistake(ds)
    assert isinstance(caught.value, LakebedError | TypeError | KeyError | IndexError | AttributeError)
    assert "See more details" not in str(caught.value)
    assert [ds.n.numpy().ravel().tolist(), *(len(ds[name]) for name in TENSORS if name != "n")] == [
        [1, 2, 3],
        *[0] * (len(TENSORS) - 1),
    ]


WARNED: list[tuple[Call, str]] = [
    (lambda ds: ds.lab.append(99), "has names for 2 classes, and the label 99 has none"),
    (lambda ds: ds.lab.extend([2]), "the label 2 has none"),
    (lambda ds: ds.lab.extend([[0, 5]]), "the label 5 has none"),
    (lambda ds: ds.lab.extend([np.array([7], np.uint32)]), "the label 7 has none"),
    (lambda ds: ds.lab.extend(np.array([3], np.uint32)), "the label 3 has none"),
    (lambda ds: [ds.lab.append(1), ds.lab.append(3)], "the label 3 has none"),
    (lambda ds: ds.box.append(np.ones((2, 5), "f4")), "has 4 numbers, and a sample has the shape (2, 5)"),
]


@pytest.mark.parametrize(("mistake", "words"), WARNED, ids=[words for _, words in WARNED])
def test_what_is_taken_all_the_same_is_warned_of(ds: lakebed.Dataset, mistake: Call, words: str) -> None:
    """3.9.52 stores these, and so do datasets that people have."""
    with pytest.warns(UnusualSampleWarning, match=re.escape(words)):
        mistake(ds)
    assert len(ds.lab) + len(ds.box) > 0


def test_a_new_class_is_told(
    ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in 3.9.52; strict_labels=True refuses it."""
    monkeypatch.setattr(lakebed.config, "TELL_NEW_CLASSES", True)  # a connector of this process turns it off
    ds.lab.append("girafe")
    assert capsys.readouterr().out == "'girafe' added to lab.info.class_names at index 2\n"
    ds.create_tensor("strict", htype="class_label", class_names=["giraffe"], strict_labels=True)
    with pytest.raises(LakebedError, match="'giraffe'"):
        ds.strict.append("girafe")


def test_what_is_no_mistake_is_taken(ds: lakebed.Dataset) -> None:
    """Floats of another width, rows in any order, a None."""
    ds.f.append(np.array([0.1]))
    ds.box.append(np.array([[0.1, 0.2, 0.3, 0.4]]))
    ds.emb.append(np.zeros(3))
    ds.n.append(None)
    assert ds.n.null_mask().tolist() == [False, False, False, True]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.lab.extend([0, 1, "cat", None, [0, 1], np.zeros(0, np.uint32)])
        ds.create_tensor("good", htype="bbox").extend([np.ones((2, 4), "f4"), np.zeros((0, 4), "f4"), None])
        ds.create_tensor("free", htype="class_label").extend([7])
        ds.flush()


def test_tensors_compare_by_what_they_select(ds: lakebed.Dataset) -> None:
    assert ds.n == ds["n"]
    assert ds.n != ds.box
    assert ds.n is not None
    assert ds.n in [None, ds.box, ds.n]
    assert not ds.n == object()  # noqa: SIM201
    assert len(ds[["n"]][(ds.n.numpy() == 1).ravel()]) == 1
    assert copy.copy(ds[0:1]).n.numpy().tolist() == [[1]]


@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 0], [], [0, 2]], ids=str)
def test_rows_are_taken_in_any_order(ds: lakebed.Dataset, rows: list[int]) -> None:
    assert ds.take_rows(rows, ["n"])["n"].to_pylist() == [1 + row for row in rows]


def test_python_can_suggest_a_similar_attribute(ds: lakebed.Dataset) -> None:
    """An interpreter that shows the error looks for similar attributes of `obj`."""
    for owner, name in ((ds, "appned"), (lakebed, "laod")):
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        assert (caught.value.name, caught.value.obj) == (name, owner)


@pytest.mark.parametrize("name", ["readonly", "red_only"])
def test_options_of_load_are_suggested(ds: lakebed.Dataset, name: str) -> None:
    with pytest.raises(lakebed.UnsupportedParameterException, match="did you mean 'read_only'"):
        lakebed.load("stored", **{name: True})
