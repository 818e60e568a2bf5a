"""What the viewer answers is what types.ts says, and what is in the datasets."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import lakebed
from lakebed.dataset.open import open_at
from lakebed.reading.tiles import TiledSample
from lakebed.viewer.asked import Asked
from lakebed.viewer.cells import cells
from lakebed.viewer.lake import Lake
from lakebed.viewer.pictures import picture
from unit_tests.lakebed.viewer.conftest import ROWS, birds, file_of
from unit_tests.lakebed.viewer.contract import Types
from unit_tests.lakebed.viewer.served import Served, Single, Told

TYPES = Types()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A viewer of a folder into which tests put datasets."""
    server = Served(tmp_path_factory.mktemp("shelf"))
    yield server
    assert server.close() == 0


@pytest.fixture
def path(shelf: Served, request: pytest.FixtureRequest) -> Path:
    """The place of a new dataset in that folder."""
    return shelf.folder / request.node.name


def checked(told: Told, name: str) -> Any:
    """Return an answer, whose keys and kinds are those of a type."""
    assert told.status == 200, told.body[:500]
    found = told.json
    assert TYPES.faults(found, name) == []
    return found


def pixels(told: Told) -> NDArray[Any]:
    assert told.status == 200, told.body[:500]
    return np.asarray(Image.open(io.BytesIO(told.body)))


# -- the contract --------------------------------------------------------------------------------------------------


def test_the_check_of_the_contract_finds_what_is_wrong() -> None:
    """Another key, a missing one, one of another kind."""
    sound = {"rate": 1, "channels": 1, "seconds": 1.0, "peaks": [[0, 1]], "spectrogram": None}
    assert TYPES.faults(sound, "Sound") == []
    for wrong in (
        {"rate": "1"},
        {"more": 1},
        {"peaks": [[0]]},
        {"spectrogram": {"width": 1}},
        {"channels": True},
    ):
        assert TYPES.faults({**sound, **wrong}, "Sound")
    assert TYPES.faults({name: value for name, value in sound.items() if name != "rate"}, "Sound")
    assert TYPES.faults("film", "Kind")


def test_every_htype(served: Served, lake: Path) -> None:
    """Rows, pictures and statistics of all tensors of all datasets that 3.9.52 wrote, and of ours."""
    htypes = set()
    datasets = checked(served.get("lake"), "Lake")["datasets"]
    assert {one["error"] for one in datasets} == {None}
    for dataset in datasets:
        number = dataset["id"]
        meta = checked(served.get(number, "meta"), "Meta")
        rows = checked(served.get(number, "rows", count=8), "Rows")
        ds = lakebed.load(lake / dataset["name"], read_only=True)
        assert list(rows["cells"]) == list(ds.tensors) == [one["name"] for one in meta["tensors"]]
        for tensor in meta["tensors"]:
            htypes.add(tensor["htype"])
            cells = rows["cells"][tensor["name"]]
            assert len(cells) == len(rows["ids"]) == min(8, meta["rows"])
            told = served.get(number, "stats", tensor["name"])
            if not tensor["link"]:
                assert [one for one in cells if one and "error" in one] == []
                checked(told, "Stats")
            if tensor["kind"] in ("image", "mask", "video") and not tensor["link"]:
                for row, one in enumerate(cells):
                    if one is not None:
                        shape = one["s"][-3:] if tensor["kind"] == "video" else one["s"]
                        if tensor["htype"] not in ("dicom", "nifti"):
                            found = pixels(served.get(number, "image", tensor["name"], row))
                            assert found.shape[:2] == tuple(shape[:2])
    assert {*lakebed.htypes} <= {name.rpartition("[")[2].rstrip("]") for name in htypes}


def test_rows_hold_what_is_stored(served: Served) -> None:
    """Numbers that JSON has not, or that a page would round, are texts; nulls are null; tensors come as asked for."""
    number = served.number("birds")
    rows = checked(
        served.get(number, "rows", start=2, count=3, tensors="span,big,about,note,kind,boxes"), "Rows"
    )
    assert rows["ids"] == [2, 3, 4]
    assert list(rows["cells"]) == ["span", "big", "about", "note", "kind", "boxes"]
    cells = rows["cells"]
    assert cells["span"] == [{"v": 0.5}, None, {"v": 1.0}]
    assert cells["big"][0] == {"v": str(2**60 + 2)}
    assert cells["about"][1] == {"v": {"n": [1, "NaN"], "deep": {"er": 3}}}
    assert cells["note"] == [{"v": "note 2"}, {"v": "note 3"}, {"v": "note 0"}]
    assert cells["kind"] == [{"v": [0]}, {"v": [1, 2]}, {"v": [0]}]
    assert cells["boxes"][0] == {"v": [[0.25] * 4, [0.25] * 4]}
    assert served.get(number, "rows", start=ROWS + 5).json["ids"] == []
    assert served.get(number, "rows", tensors="").json["cells"] == {}


def test_arrays_of_a_line_are_values(shelf: Served, path: Path) -> None:
    """Up to 256 numbers beside each other; of more, or of several lines of more than 64, the shape is told."""
    ds = lakebed.empty(path)
    shapes = {"line": (256,), "long": (257,), "lines": (8, 8), "more": (5, 13)}
    with ds:
        for name, shape in shapes.items():
            ds.create_tensor(name, dtype="float32")
            ds[name].append(np.zeros(shape, np.float32))
    ds.close()
    server = Single(shelf, path.name)
    cells = checked(server.get(0, "rows"), "Rows")["cells"]
    assert cells["line"] == [{"v": [0.0] * 256}]
    assert cells["lines"] == [{"v": [[0.0] * 8] * 8}]
    assert (cells["long"], cells["more"]) == ([{"s": [257]}], [{"s": [5, 13]}])


def test_the_schema(served: Served) -> None:
    meta = served.get(served.number("birds"), "meta").json
    tensors = {one["name"]: one for one in meta["tensors"]}
    assert {name: one["kind"] for name, one in tensors.items()} == {
        "photo": "image", "boxes": "bbox", "kind": "label", "mask": "mask", "span": "scalar", "big": "scalar",
        "note": "text", "about": "json", "layers": "image",
    }  # fmt: skip
    assert {one["over"] for one in tensors.values()} == {None, "photo"}
    assert tensors["boxes"]["coords"] == {"type": "fractional", "mode": "CCWH"}
    assert tensors["kind"]["class_names"] == ["wren", "kite", "it's"]
    assert meta["primary"] == "photo"
    assert sorted(meta["branches"]) == ["main", "side"]
    assert [one["message"] for one in meta["commits"]] == ["one less", "birds"]
    assert [one["name"] for one in meta["tags"]] == ["first"]
    assert [(one["id"], one["name"], one["text"]) for one in meta["views"]] == [
        ("two", "two of them", "view:two")
    ]


# -- pictures ------------------------------------------------------------------------------------------------------


def test_pictures_are_those_of_pillow(served: Served) -> None:
    """As stored where all is asked for; small ones within a few levels of Pillow's own."""
    number = served.number("birds")
    stored = file_of(3)
    assert served.get(number, "image", "photo", 3).body == stored
    for width in (64, 128, 256):
        found = pixels(served.get(number, "image", "photo", 3, w=width))
        assert found.shape == (width * 3 // 4, width, 3)
        expected = (
            Image.open(io.BytesIO(stored))
            .convert("L")
            .resize((width, width * 3 // 4), Image.Resampling.BILINEAR)
        )
        grey = np.asarray(Image.fromarray(found).convert("L")).astype(int)
        assert np.abs(grey - np.asarray(expected)).mean() < 2
    whole = np.asarray(Image.open(io.BytesIO(stored)))
    part = pixels(served.get(number, "image", "photo", 3, box="20,30,40,50"))
    assert np.abs(part.astype(int) - whole[30:80, 20:60]).max() <= 1


def test_a_file_that_its_exif_turns_is_not_handed_out(shelf: Served, path: Path) -> None:
    """A browser would turn it, and annotations would lie elsewhere."""
    image = Image.open(io.BytesIO(file_of(1)))
    exif = Image.Exif()
    exif[0x0112] = 6
    room = io.BytesIO()
    image.save(room, "JPEG", exif=exif)
    ds = lakebed.empty(path)
    ds.create_tensor("photo", htype="image", sample_compression="jpeg")
    ds.photo.append(lakebed.read(room.getvalue()))
    ds.close()
    server = Single(shelf, path.name)
    told = server.get(0, "image", "photo", 0)
    assert b"Exif" not in told.body[:200]
    assert pixels(told).shape == (240, 320, 3)


def test_tiles_are_decoded_no_larger_than_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those inside of the part that is asked for are read, and the picture is that of the whole image."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("photo", htype="image", sample_compression="jpeg", tiling_threshold=1 << 16)
    image = Image.open(io.BytesIO(file_of(3, 1600, 1200)))
    ds.photo.append(np.asarray(image))
    ds.close()
    read: list[int] = []
    content = TiledSample.content
    monkeypatch.setattr(TiledSample, "content", lambda *args: (read.append(args[1]), content(*args))[1])
    monkeypatch.setattr(TiledSample, "_joined", None)  # no tile is decoded as a whole
    opened = Lake(str(tmp_path / "ds"), {}).open(0)
    for box, tiles in (
        (None, 64),
        ((0, 0, 400, 300), 4),
        ((1250, 930, 300, 200), 4),
        ((210, 160, 150, 100), 1),
    ):
        read.clear()
        made, type_ = picture((opened, "photo", 0), Asked(w=100, box=box))
        assert (type_, len(read)) == ("image/jpeg", tiles)
        left, top, width, height = box or (0, 0, 1600, 1200)
        part = image.crop((left, top, left + width, top + height))
        expected = part.resize((100, round(100 * height / width)), Image.Resampling.BILINEAR)
        found = Image.open(io.BytesIO(made))
        assert found.size == expected.size
        difference = np.asarray(found.convert("L")).astype(int) - np.asarray(expected.convert("L"))
        assert np.abs(difference).mean() < 2


def test_stored_layers_are_used(served: Served, lake: Path) -> None:
    """A picture that is half as wide is the layer that is, not the image made smaller."""
    layer = lakebed.load(lake / "birds", read_only=True)["_layers_downsampled_2"][1].numpy()
    found = pixels(served.get(served.number("birds"), "image", "layers", 1, w=128))
    assert (found == layer).all()


def test_parts_of_stored_layers_are_used(served: Served, lake: Path) -> None:
    """Where a layer is as fine as the part is asked for; finer ones are those of the image."""
    number = served.number("birds")
    found = pixels(served.get(number, "image", "layers", 1, w=64, box="128,0,128,96"))
    layer = lakebed.load(lake / "birds", read_only=True)["_layers_downsampled_2"][1].numpy()
    assert (found == layer[:48, 64:]).all()
    found = pixels(served.get(number, "image", "layers", 1, w=100, box="128,0,128,96"))
    assert found.shape == (75, 100, 3)


def test_a_sequence_that_is_asked_for_alone_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the boxes of a film; among others it is cut."""
    ds = lakebed.empty(tmp_path / "ds")
    with ds:
        ds.create_tensor("boxes", htype="sequence[bbox]")
        for _ in range(2):
            ds.boxes.append([np.full((1, 4), at, np.float32) for at in range(2000)])
    opened = Lake(str(tmp_path / "ds"), {}).open(0).ds
    for found in cells(opened.boxes, [0, 1]):
        assert found["cut"]
    (found,) = cells(opened.boxes, [1])
    assert "cut" not in found
    assert (len(found["v"]), found["v"][1999]) == (2000, [[1999] * 4])
    monkeypatch.setattr("lakebed.viewer.cells._ALL", 5000)
    assert cells(opened.boxes, [1])[0]["cut"]


def test_masks_are_maps_of_labels(served: Served) -> None:
    """Each pixel is the number of a label, also in a small map."""
    number = served.number("birds")
    found = pixels(served.get(number, "image", "mask", 0))
    labels = found.astype(int) @ [1, 256, 65536]
    assert (labels[:20, :30] == 1).all()
    assert (labels[30:, 40:] == 2).all()
    assert (labels[40:, :30] == 0).all()
    small = pixels(served.get(number, "image", "mask", 0, w=16))
    assert set(np.unique(small)) == {0, 1, 2}


def test_a_window_of_values(shelf: Served, path: Path) -> None:
    """What is below is black, what is above is white; without one, all that there is."""
    ds = lakebed.empty(path)
    ds.create_tensor("deep", htype="image", dtype="uint16", sample_compression=None)
    ds.deep.append(np.linspace(0, 4000, 64 * 64).reshape(64, 64, 1).astype(np.uint16))
    ds.close()
    server = Single(shelf, path.name)
    whole = pixels(server.get(0, "image", "deep", 0))
    assert (whole.min(), whole.max()) == (0, 255)
    found = pixels(server.get(0, "image", "deep", 0, low=1000, high=2000))
    assert (found == 0).mean() == pytest.approx(0.25, abs=0.02)
    assert (found == 255).mean() == pytest.approx(0.5, abs=0.02)
    told = server.get(0, "array", "deep", 0)
    assert told.headers["x-shape"] == "[64, 64, 1]"
    assert np.frombuffer(told.body, told.headers["x-dtype"]).max() == 4000


# -- queries -------------------------------------------------------------------------------------------------------


def test_queries(served: Served) -> None:
    """Rows in their order, groups, computed columns, and pictures by the place in the answer."""
    number = served.number("birds")
    answer = checked(
        served.post(
            number, "query", text="SELECT photo, big - 1 AS less, kind WHERE span > 1 ARRANGE BY note"
        ),
        "Answer",
    )
    assert answer["groups"] is None  # by what is no column of the answer
    answer = checked(
        served.post(
            number,
            "query",
            text="SELECT note, span * 2 AS twice, photo[0:10] AS top WHERE span > 1 ARRANGE BY note",
        ),
        "Answer",
    )
    assert [one["label"] for one in answer["groups"]] == ["note 0", "note 1", "note 2", "note 3"]
    rows = checked(served.get(number, "rows", q=answer["q"]), "Rows")
    assert rows["ids"] == [8, 5, 9, 6, 10, 7, 11]
    assert np.frombuffer(served.get(number, "found", q=answer["q"]).body, "<i4").tolist() == rows["ids"]
    assert rows["groups"] == [0, 1, 1, 2, 2, 3, 3]
    assert rows["cells"]["twice"][0] == {"v": 4.0}
    assert rows["cells"]["top"][0] == {"s": [10, 320, 3]}
    assert pixels(served.get(number, "image", "top", 1, q=answer["q"])).shape == (10, 320, 3)
    stats = checked(served.get(number, "stats", "twice", q=answer["q"]), "Stats")
    assert (stats["min"], stats["max"], stats["rows"]) == (2.5, 5.5, 7)
    grouped = checked(served.post(number, "query", text="SELECT note, count(*) AS n GROUP BY note"), "Answer")
    rows = checked(served.get(number, "rows", q=grouped["q"]), "Rows")
    assert rows["ids"] == [-1] * 4
    assert served.get(number, "found", q=grouped["q"]).status == 204
    assert rows["cells"]["n"] == [{"v": 3}] * 4
    assert rows["cells"]["note"] == [{"v": f"note {one}"} for one in range(4)]


def test_columns_by_the_name_of_another_tensor(served: Served) -> None:
    """The page asks for them by their place: rows of the version would be others."""
    number = served.number("birds")
    answer = served.post(number, "query", text="SELECT layers AS photo LIMIT 1").json
    assert served.get(number, "rows", q=answer["q"]).json["ids"] == [-1]
    assert pixels(served.get(number, "image", "photo", 0, q=answer["q"])).shape == (192, 256, 3)
    answer = served.post(number, "query", text="SELECT big AS span LIMIT 1").json
    assert served.get(number, "rows", q=answer["q"]).json["cells"]["span"] == [{"v": str(2**60)}]


def test_an_error_of_a_query_has_its_place(served: Served) -> None:
    told = served.post(served.number("birds"), "query", text="SELECT *\nWHERE bogus > 1")
    assert (told.status, told.kind) == (400, "query")
    assert told.json["error"]["position"] == 15
    assert TYPES.faults(told.json, "Failure") == []
    assert "bogus" in told.json["error"]["message"]


def test_saved_views(shelf: Served, path: Path) -> None:
    """They are opened by their text, and saved by a handle of that moment."""
    birds(path)
    server = Single(shelf, path.name)
    answer = checked(server.post(0, "query", text="view:two"), "Answer")
    assert server.get(0, "rows", q=answer["q"], tensors="note").json["ids"] == [5, 2]
    assert server.post(0, "query", text="view:none").status == 404
    made = server.post(0, "views", name="wide", text="SELECT * WHERE span > 2")
    assert list(made.json) == ["id"]
    server.post(0, "views", name="rows", rows=[3, 1])
    views = {one["name"]: one["text"] for one in server.get(0, "meta").json["views"]}
    assert views["wide"] == "SELECT * WHERE span > 2"
    answer = server.post(0, "query", text=views["rows"]).json
    assert server.get(0, "rows", q=answer["q"], tensors="note").json["ids"] == [3, 1]
    for wrong in (
        {"name": ""},
        {"name": "x", "rows": [-1]},
        {"name": "x", "rows": "a"},
        {"name": "x", "text": 3},
    ):
        assert server.post(0, "views", **wrong).status == 400
    saved = lakebed.load(path, read_only=True).get_view(made.json["id"]).load(verbose=False)
    assert list(saved.sample_indices) == [9, 10, 11]


def test_computed_columns_of_lists(shelf: Served, path: Path) -> None:
    """Lists of anything are told, and neither counted nor handed out as numbers."""
    ds = lakebed.empty(path)
    ds.create_tensor("mixed", htype="list").extend([[1, "a", None, ["b"]], [2]])
    ds.close()
    server = Single(shelf, path.name)
    answer = server.post(0, "query", text="SELECT mixed AS some UNION ALL SELECT mixed AS some").json
    cells = checked(server.get(0, "rows", q=answer["q"]), "Rows")["cells"]["some"]
    assert cells == 2 * [{"v": [1, "a", None, ["b"]]}, {"v": [2]}]
    stats = checked(server.get(0, "stats", "some", q=answer["q"]), "Stats")
    assert (stats["rows"], stats["nulls"], stats["histogram"]) == (4, 0, None)
    assert server.get(0, "array", "some", 0, q=answer["q"]).kind == "missing"


@pytest.mark.filterwarnings("ignore:The tensors differ in length")
def test_rows_beyond_a_shorter_tensor(shelf: Served, path: Path) -> None:
    """Views and queries show them as the grid of all rows does: with nothing where a tensor has none."""
    ds = lakebed.empty(path)
    for name, length in (("x", 6), ("group/short", 2), ("nothing", 0)):
        ds.create_tensor(name, dtype="int64")
        ds[name].extend(10 * np.arange(length))
    ds.commit()
    ds.max_view[[4, 1]].save_view(id="two", verbose=False)
    ds.close()
    server = Single(shelf, path.name)
    made = server.post(0, "views", name="chosen", rows=[5, 0]).json["id"]
    for text, ids in (
        ("view:two", [4, 1]),
        (f"view:{made}", [5, 0]),
        ("SELECT * WHERE x > 30", [4, 5]),
        ("SELECT * WHERE x != 10 ORDER BY x DESC LIMIT 3", [5, 4, 3]),
        ('SELECT * ORDER BY "group/short" DESC', [1, 0]),
        ("SELECT * LIMIT 4", [0, 1, 2, 3]),
        ("SELECT * WHERE x > 30 ARRANGE BY x", [4, 5]),
        ('SELECT x, "group/short"', [0, 1]),
        ("SELECT x WHERE x > 30", [4, 5]),
    ):
        answer = checked(server.post(0, "query", text=text), "Answer")
        rows = checked(server.get(0, "rows", q=answer["q"], tensors="x,group/short"), "Rows")
        assert (answer["rows"], rows["ids"]) == (len(ids), ids), text
        assert rows["cells"]["x"] == [{"v": 10 * row} for row in ids]
        assert rows["cells"]["group/short"] == [{"v": 10 * row} if row < 2 else None for row in ids]
        assert server.get(0, "stats", "x", q=answer["q"]).json["max"] == 10 * max(ids)
    answer = server.post(0, "query", text="view:two").json
    stats = checked(server.get(0, "stats", "group/short", q=answer["q"]), "Stats")
    assert (stats["rows"], stats["max"]) == (1, 10)
    assert server.post(0, "query", text="SELECT DISTINCT * ").kind == "query"  # which all columns decide
    made = server.post(0, "views", name="of a query", text="SELECT * WHERE x > 30").json["id"]
    assert server.post(0, "query", text=f"view:{made}").json["rows"] == 2


# -- statistics and differences ------------------------------------------------------------------------------------


def test_statistics(served: Served) -> None:
    number = served.number("birds")
    span = checked(served.get(number, "stats", "span"), "Stats")
    assert (span["nulls"], span["min"], span["max"], span["distinct"]) == (1, 0.0, 2.75, 11)
    assert sum(span["histogram"]["counts"]) == 11
    kinds = checked(served.get(number, "stats", "kind"), "Stats")["top"]
    assert [(one["label"], one["count"]) for one in kinds] == [("wren", 6), ("kite", 6), ("it's", 6)]
    for one in kinds:  # each condition chooses the rows that were counted
        assert (
            served.post(number, "query", text=f"SELECT * WHERE {one['condition']}").json["rows"]
            == one["count"]
        )
    notes = checked(served.get(number, "stats", "note"), "Stats")["top"]
    assert served.post(number, "query", text=f"SELECT * WHERE {notes[0]['condition']}").json["rows"] == 3
    assert checked(served.get(number, "stats", "photo"), "Stats")["shapes"] == [
        {"shape": [240, 320, 3], "count": ROWS}
    ]


def test_differences(served: Served) -> None:
    """Rows are found by their ids: one that was removed before them moves none."""
    number = served.number("birds")
    found = checked(served.get(number, "diff", a="main", b="side"), "Diff")
    changes = {
        one["name"]: (one["added"]["count"], one["updated"]["rows"], one["removed"]["rows"])
        for one in found["tensors"]
    }
    assert changes.pop("note") == (0, [1], [4])
    assert all(one == (0, [], [4]) for one in changes.values())
    mine, theirs = (served.get(number, "ids", "span", at=at).body for at in ("main", "side"))
    assert mine[: 8 * 4] + mine[8 * 5 :] == theirs
    back = served.get(number, "diff", a="side", b="main").json
    assert {one["name"]: one["added"]["rows"] for one in back["tensors"]}["span"] == [4]
    assert served.get(number, "diff", a="main", b="main").json["tensors"] == []


# -- versions ------------------------------------------------------------------------------------------------------


def test_versions(tmp_path: Path) -> None:
    """A head is asked for again, and what was replaced is gone once it is let go of; commits may be kept."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.extend({"x": [1, 2]})
    ds.flush()
    server = Served(tmp_path / "ds")
    first = server.get(0, "meta").json
    assert (first["rows"], first["head"]) == (2, True)
    ds.extend({"x": [3]})
    ds.flush()
    assert server.get(0, "rows", at=f"id:{first['version']}").json["ids"] == [0, 1]
    second = server.get(0, "meta").json
    assert (second["rows"], second["version"] == first["version"]) == (3, False)
    assert server.get(0, "rows").headers["cache-control"] == "no-store"
    commit = ds.commit()
    told = server.get(0, "rows", at=commit)
    assert told.headers["cache-control"].startswith("private")
    same = server.get(0, "rows", at=commit, headers={"If-None-Match": told.headers["etag"]})
    assert (same.status, same.body) == (304, b"")
    server.close()
    server = Served(tmp_path / "ds")
    gone = server.get(0, "rows", at=f"id:{first['version']}")
    assert (gone.status, gone.kind) == (410, "gone")
    assert server.get(0, "rows", at="nothing").status == 404
    server.close()


# -- damage --------------------------------------------------------------------------------------------------------


def test_a_damaged_chunk_costs_its_cells(shelf: Served, path: Path) -> None:
    """Other tensors are read, and the message says what is wrong."""
    birds(path)
    chunks = [chunk for chunk in path.rglob("photo/chunks/*") if chunk.is_file()]
    for chunk in chunks:
        content = bytearray(chunk.read_bytes())
        content[len(content) // 2 :: 7] = b"x" * len(content[len(content) // 2 :: 7])
        chunk.write_bytes(content)
    for chunk in path.rglob("note/chunks/*"):
        chunk.unlink()
    server = Single(shelf, path.name)
    rows = checked(server.get(0, "rows"), "Rows")["cells"]
    assert all("row" in one["error"] for one in rows["note"])
    assert rows["span"][0] == {"v": 0.0}
    told = server.get(0, "image", "photo", ROWS - 1)
    assert (told.status, told.kind) == (422, "damaged")
    assert "Traceback" not in told.body.decode()
    assert server.get(0, "stats", "note").status == 422


def test_a_dataset_that_is_deleted_while_it_is_looked_at(tmp_path: Path) -> None:
    birds(tmp_path / "ds")
    server = Served(tmp_path)
    version = server.get(0, "meta").json["version"]
    server.get(0, "rows", at=f"id:{version}", tensors="span")
    lakebed.delete(tmp_path / "ds", large_ok=True)
    for told in (server.get(0, "meta"), server.get(0, "image", "photo", 7, at=f"id:{version}")):
        assert (told.status, told.kind) == (410, "gone")
    assert server.get("lake").json["datasets"] == []
    server.close()


def test_a_version_that_is_collected_while_it_is_looked_at(tmp_path: Path) -> None:
    """Either its rows can still be read, or the page is told to load the dataset again."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.x.extend(np.arange(100_000))
    ds.flush()
    server = Served(tmp_path / "ds")
    version = server.get(0, "meta").json["version"]
    ds.x[0] = 7
    ds.flush()
    ds.x[0] = 8
    ds.flush()
    lakebed.gc(tmp_path / "ds", grace=0)
    told = server.get(0, "rows", at=f"id:{version}", start=90_000, count=4)
    assert told.status in (200, 410)
    assert told.status == 410 or [one["v"] for one in told.json["cells"]["x"]] == list(range(90_000, 90_004))
    server.close()


def test_a_dataset_is_opened_once_and_again_after_a_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64").extend([1, 2])
    ds.commit()
    opened: list[object] = []

    def counted(place: object, **options: object) -> object:
        opened.append(place)
        return open_at(place, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("lakebed.viewer.lake.open_at", counted)
    lake = Lake(str(tmp_path / "ds"), {})
    assert lake.listed()["datasets"][0]["rows"] == 2
    version = lake.open(0).version
    assert lake.open(0, f"id:{version}").ds.x.numpy().ravel().tolist() == [1, 2]
    assert len(opened) == 1
    ds.x.append(3)
    ds.flush()
    assert lake.open(0).ds.x.numpy().ravel().tolist() == [1, 2, 3]
    assert len(opened) == 2
    early = Lake(str(tmp_path / "ds"), {})
    ds.x.append(4)
    ds.flush()
    assert early.open(0).ds.x.numpy().ravel().tolist() == [1, 2, 3, 4]
