"""Small sets of annotations, of which one annotation is spoiled: what remains, and what is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import lakebed
from lakebed.errors import IngestionError
from unit_tests.lakebed.importers.sources import imported

PICTURES = 4
EACH = 6  # annotations of a picture
SPOILED = (2, 1)  # picture and number of the annotation that is spoiled

OUT = "the annotation is left out"
TOLD = "a value of the annotation is left out or changed, which is told"
KEPT = "the annotation has the value that it plainly has"

# What is in place of a number in files of text, and what becomes of it.
NUMBERS: Mapping[str, str] = {
    **dict.fromkeys(
        ("abc", "nan", "NaN", "inf", "-inf", "1e999", "1e9999", "0x10", "1_0", "--1", "true"), OUT
    ),
    **dict.fromkeys(("[1]", "{}", "null", "None", "1..2", "½", "9" * 400), OUT),
    **dict.fromkeys(("2.0", "2e0", "+2", "02", "2.", "-3", "-3.5", "0", "1e300", ".5", "1e-320"), KEPT),
}

_OF_OBJECTS = (
    "labels",
    "boxes",
    "polygons",
    "attributes",
    "keypoints",
    "bbox",
    "category_id",
    "area",
    "score",
)


@dataclass(frozen=True)
class Spoil:
    """The text or value of an annotation that is spoiled, and what becomes of it."""

    how: str
    annotation: Any
    fate: str


@dataclass(frozen=True)
class Format:
    """A format: what writes a set whose one annotation is as given, and in what words it is told.

    Parameters
    ----------
    write
        Is given the folder, and the annotation that is spoiled; None writes the good one.
    where
        Parts of what the report says of it.
    """

    name: str
    write: Callable[[Path, Any], None]
    where: tuple[str, ...]
    spoils: Callable[[], Iterator[Spoil]]
    options: Mapping[str, Any] = field(default_factory=dict)


def pictures(root: Path) -> list[str]:
    """Write the pictures of a set once."""
    names = [f"{number}.jpg" for number in range(PICTURES)]
    for number, name in enumerate(names):
        path = root / "images" / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (40 + number, 30)).save(path)
    return names


def set_of(good: Callable[[int], Any], spoiled: Any) -> list[list[Any]]:
    """Return annotations by picture."""
    found = [[good(EACH * row + at) for at in range(EACH)] for row in range(PICTURES)]
    if spoiled is not None:
        found[SPOILED[0]][SPOILED[1]] = spoiled
    return found


def imported_set(one: Format, root: Path, *, strict: bool = False) -> Any:
    """Import a set; return the report."""
    return imported(one.name, root, strict=strict, **one.options)


def tensors(ds: lakebed.Dataset) -> dict[str, tuple[Any, ...]]:
    """Return what tensors there are, and of which types."""
    return {name: (ds[name].htype, ds[name].dtype, ds[name].meta.sample_compression) for name in ds.tensors}


def objects(ds: lakebed.Dataset) -> list[list[dict[str, str]]]:
    """Return by picture the values of each of its objects, as text, which tells NaN from none."""
    rows: list[list[dict[str, str]]] = [[] for _ in range(len(ds))]
    for name in ds.tensors:
        for row, made in enumerate(rows):
            if name.rpartition("/")[2] in _OF_OBJECTS:
                for at, value in enumerate(_values(ds[name][row])):
                    if at == len(made):
                        made.append({})
                    made[at][name] = repr(value)
    return rows


def _values(sample: Any) -> list[Any]:
    if sample.htype == "class_label":
        found = sample.data()
        return list(found.get("text") or found["value"].tolist())
    if sample.htype == "json":
        return list(sample.data()["value"] or [])
    if sample.htype == "polygon":
        return [points.tolist() for points in sample.numpy()]
    array = sample.numpy()
    return (array.T if sample.htype == "keypoints_coco" else array).tolist()  # type: ignore[no-any-return]


def told_of(report: Any) -> list[str]:
    """Return all that a report tells."""
    return [
        *(f"{one['where']}: {one['reason']}" for one in report.left_out),
        *(f"{one.where}: {one.reason}" for one in report.problems if not one.rows),
        *(f"{told['first']}: {what}" for what, told in report.changes.items()),
    ]


def failures(one: Format, root: Path, step: int = 1) -> list[str]:
    """Spoil an annotation in every way; return where anything else was lost, or nothing was told.

    Parameters
    ----------
    step
        Only every so many ways.
    """
    names = pictures(root)
    one.write(root, None)
    report = imported_set(one, root, strict=True)
    good, files, types = objects(report.dataset), report.dataset.file.text(), tensors(report.dataset)
    assert len(files) == len(names)
    assert [len(row) for row in good] == [EACH] * PICTURES
    found = []
    for spoil in islice(one.spoils(), 0, None, step):
        one.write(root, spoil.annotation)
        try:
            _check(one, root, spoil.fate, good, files, types)
        except (AssertionError, lakebed.errors.LakebedError) as error:
            found.append(f"{spoil.how} ({spoil.fate}): {type(error).__name__}: {str(error)[:400]}")
    return found


def _check(
    one: Format,
    root: Path,
    fate: str,
    good: list[list[dict[str, str]]],
    files: list[str],
    types: Mapping[str, Any],
) -> None:
    report = imported_set(one, root)
    ds = report.dataset
    assert ds.file.text() == files, f"pictures are {ds.file.text()}"
    assert tensors(ds) == types, f"tensors are {tensors(ds)}"
    row, at = SPOILED
    found = objects(ds)
    mine, wanted = found.pop(row), [*good]
    others = wanted.pop(row)
    assert found == wanted, "other pictures have other annotations"
    assert len(mine) == EACH - (fate == OUT), f"the picture has {len(mine)} annotations: {told_of(report)}"
    rest = mine if fate == OUT else [*mine[:at], *mine[at + 1 :]]
    assert rest == [*others[:at], *others[at + 1 :]], "other annotations of the picture differ"
    told = told_of(report)
    if fate == KEPT:
        assert not told, f"told {told}"
        imported_set(one, root, strict=True)
        return
    assert len(told) == 1, f"told {told}"
    assert all(part in told[0] for part in one.where), f"told {told}"
    assert report.skipped == (fate == OUT), f"{report.skipped} are left out"
    with pytest.raises(IngestionError):
        imported_set(one, root, strict=True)


# -- formats -----------------------------------------------------------------------------------------------------------


def _voc_object(number: int, **changes: str) -> str:
    parts = {
        "name": f"<name>{('cat', 'dog')[number % 2]}</name>",
        "pose": "<pose>Left</pose>",
        "difficult": "<difficult>0</difficult>",
        "bndbox": "",
    }
    sides = {"xmin": 1 + number, "ymin": 2, "xmax": 30.5, "ymax": 20}
    box = {side: f"<{side}>{value}</{side}>" for side, value in sides.items()}
    box |= {key: value for key, value in changes.items() if key in box}
    parts["bndbox"] = f"<bndbox>{''.join(box.values())}</bndbox>"
    parts |= {key: value for key, value in changes.items() if key in parts}
    return f"<object>{''.join(parts.values())}</object>"


def _write_voc(root: Path, spoiled: Any) -> None:
    for row, objects_of in enumerate(set_of(_voc_object, spoiled)):
        text = f"<annotation><filename>{row}.jpg</filename>{''.join(objects_of)}</annotation>"
        (root / "images" / f"{row}.xml").write_text(text, encoding="utf-8")


def _voc_spoils() -> Iterator[Spoil]:
    number = EACH * SPOILED[0] + SPOILED[1]

    def spoil(fate: str, **changes: str) -> Spoil:
        return Spoil(str(changes), _voc_object(number, **changes), fate)

    for text, fate in {**NUMBERS, "": OUT, " ": OUT, "1,5": OUT, "1 2": OUT, " 2\n": KEPT}.items():
        yield spoil(TOLD if text == "1e300" else fate, xmin=f"<xmin>{text}</xmin>")  # behind xmax
    for text in ("", "<xmin/>", "<xmin><v>1</v></xmin>", "<XMIN>1</XMIN>"):
        yield spoil(OUT, xmin=text)
    yield spoil(KEPT, xmin="<xmin>2</xmin><xmin>2</xmin>")
    yield spoil(TOLD, xmin="<xmin>2</xmin><xmin>3</xmin>")
    yield spoil(TOLD, xmin="<xmin>31</xmin>")  # behind xmax
    yield spoil(TOLD, ymax="<ymax>1</ymax>")
    yield spoil(KEPT, ymax="<ymax>2</ymax>")  # no height
    for text in (
        "",
        "<bndbox/>",
        "<bndbox>1 2 3 4</bndbox>",
        "<bndbox><xmin>1</xmin></bndbox>",
        "<robndbox/>",
    ):
        yield spoil(OUT, bndbox=text)
    yield spoil(OUT, name="")
    yield spoil(OUT, name="<name> </name>")
    yield spoil(OUT, name="<name><b>cat</b></name>")
    yield spoil(KEPT, name="<name> cat\n</name>")
    yield spoil(TOLD, name="<name>cat</name><name>dog</name>")
    yield spoil(KEPT, name="<name>unknown &amp; new</name>")
    for key in ("pose", "difficult"):
        for text in (
            "",
            f"<{key}/>",
            f"<{key}>{'9' * 400}</{key}>",
            f"<{key}>nan</{key}>",
            f"<{key}>1</{key}>" * 2,
        ):
            yield spoil(KEPT, **{key: text})
    yield Spoil("empty", "<object/>", OUT)
    yield Spoil("text", "<object>cat</object>", OUT)
    yield Spoil("more text", _voc_object(number).replace("</object>", "trailing</object>"), KEPT)


VOC = Format("voc", _write_voc, (f"{SPOILED[0]}.xml", f"object {SPOILED[1] + 1}"), _voc_spoils)


def _cvat_shape(number: int, tag: str = "box", inner: str = "", **changes: str | None) -> str:
    given: dict[str, Any] = {"label": ("cat", "dog")[number % 2], "occluded": 0, "z_order": 0}
    given |= {
        "box": {"xtl": 1.5 + number, "ytl": 2, "xbr": 30.5, "ybr": 20},
        "polygon": {"points": "1,2;30.5,2;30,20.25"},
        "ellipse": {"cx": 10, "cy": 10, "rx": 3, "ry": 2},
        "mask": {"rle": "1, 2, 1, 2", "left": 4, "top": 5, "width": 3, "height": 2},
        "points": {"points": "1,2"},
        "cuboid": {"xtl1": 1, "ytl1": 2, "xbl2": 3, "ybl2": 4},
        "skeleton": {},
    }.get(tag, {})
    given |= changes
    words = " ".join(f'{key}="{value}"' for key, value in given.items() if value is not None)
    inner = inner or f'<attribute name="age">{number}</attribute>'
    return f"<{tag} {words}>{inner}</{tag}>"


def _write_cvat(root: Path, spoiled: Any) -> None:
    def good(number: int) -> str:
        return _cvat_shape(number, ("box", "polygon", "mask")[number % 3])

    rows = [
        f'<image id="{row}" name="{row}.jpg" width="{40 + row}" height="30">{"".join(shapes)}</image>'
        for row, shapes in enumerate(set_of(good, spoiled))
    ]
    labels = "".join(f"<label><name>{name}</name></label>" for name in ("cat", "dog"))
    meta = f"<meta><job><labels>{labels}</labels></job></meta>"
    text = f"<annotations><version>1.1</version>{meta}{''.join(rows)}</annotations>"
    (root / "annotations.xml").write_text(text, encoding="utf-8")


def _cvat_spoils() -> Iterator[Spoil]:
    number = EACH * SPOILED[0] + SPOILED[1]

    def spoil(fate: str, tag: str, inner: str = "", **changes: str | None) -> Spoil:
        return Spoil(f"{tag} {inner} {changes}", _cvat_shape(number, tag, inner, **changes), fate)

    for text, fate in {**NUMBERS, "": OUT, " ": OUT, "1,5": OUT, "1 2": OUT, " 2 ": KEPT}.items():
        yield spoil(TOLD if text == "1e300" else fate, "box", xtl=text)  # behind xbr
        yield spoil(fate, "polygon", points=f"1,2;{text},3;5,6" if text != "1,5" else "1,2,3")
    yield spoil(OUT, "box", xtl=None)
    yield spoil(TOLD, "box", xtl="35")
    yield spoil(KEPT, "box", xbr=f"{1.5 + number}")  # no width
    yield spoil(OUT, "ellipse", rx="abc")
    yield spoil(TOLD, "ellipse", rx="-3")
    for points in ("", " ", "1", "1;2", ";", ",", "1,2;;3,4", "1,2;3", "1,2;3,4,5", None):
        yield spoil(OUT, "polygon", points=points)
    yield spoil(KEPT, "polygon", points="1,2;3,4;5,6;")
    yield spoil(KEPT, "polygon", points=" 1 , 2 ; 3,4;5,6\n")
    yield spoil(OUT, "cuboid", ytl1="x")
    for inner in ("<points/>", '<points points="1"/>', "<box/>"):
        yield spoil(OUT, "skeleton", inner)
    for tag in ("spline", "Box", "x"):
        yield spoil(OUT, tag)
    for label in ("", " ", None):
        yield spoil(OUT, "box", label=label)
    yield spoil(KEPT, "box", label="cat")
    yield spoil(KEPT, "box", label="unknown &quot;new&quot;")
    for rle in ("", "a", "1,2", "1,,2", "-1,7", "1e3", "1, 2, 1, 3", "9" * 400, None):
        yield spoil(TOLD, "mask", rle=rle)
    yield spoil(TOLD, "mask", left="41")  # beyond the picture
    yield spoil(OUT, "mask", left="x")
    for key in ("occluded", "z_order"):
        for value in ("", "abc", "nan", "1e999", "9" * 400, "1.0", None):
            yield spoil(KEPT, "box", **{key: value})
    for inner in ("<attribute/>", "<attribute>1</attribute>", '<attribute name="age"/>', "text", "<x><y/></x>",
                  '<attribute name="age">1</attribute><attribute name="age">2</attribute>'):  # fmt: skip
        yield spoil(KEPT, "box", inner)
    yield Spoil("empty", "<box/>", OUT)
    yield Spoil("a tag without a label", "<tag/>", OUT)


CVAT = Format(
    "cvat", _write_cvat, ("annotations.xml", f"{SPOILED[0]}.jpg", f"element {SPOILED[1] + 1}"), _cvat_spoils
)

# Values of any type for a member of a JSON object; strings stand for the text of what Python would not write.
MISSING = "missing"
ANY: tuple[Any, ...] = (
    MISSING, None, "", "x", [], {}, [[]], [{}], {"x": 1}, True, 0, 1.5, float("nan"), float("inf"), 10**400,
)  # fmt: skip


def changed(given: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**given, **changes}.items() if value is not MISSING}


def _labelme_shape(number: int) -> dict[str, Any]:
    points = [[1.5 + number, 2], [30, 2.25], [25, 20]]
    kind = {"shape_type": "polygon", "flags": {}, "group_id": None}
    return {"label": ("cat", "dog")[number % 2], "points": points, **kind}


def _write_labelme(root: Path, spoiled: Any) -> None:
    for row, shapes in enumerate(set_of(_labelme_shape, spoiled)):
        content = {
            "version": "5.5.0",
            "flags": {},
            "shapes": shapes,
            "imagePath": f"{row}.jpg",
            "imageData": None,
        }
        text = json.dumps(content).replace("Infinity", "1e999")
        (root / "images" / f"{row}.json").write_text(text)


def _labelme_spoils() -> Iterator[Spoil]:
    good = _labelme_shape(EACH * SPOILED[0] + SPOILED[1])

    def spoil(fate: str, **changes: Any) -> Spoil:
        return Spoil(str(changes)[:80], changed(good, **changes), fate)

    for value in ANY:
        kept = {"label": ("x", 0, 1.5, 10**400), "points": ()}
        for key in ("label", "points"):
            is_kept = any(type(value) is type(one) and value == one for one in kept[key])
            yield spoil(KEPT if is_kept else OUT, **{key: value})
        for key in ("flags", "group_id", "shape_type", "description"):
            yield spoil(KEPT, **{key: value})
        yield Spoil(f"{value!r:.40}", value if value not in (MISSING, None) else 7, OUT)
        if value not in (0, 1.5):  # numbers
            yield spoil(OUT, points=[[1, 2], [value, 4], [5, 6]])
    for points in ([1, 2, 3, 4], [[1, 2], [3]], [[1, 2, 3]] * 3, "1,2", ["1,2"], [[1, 2], None], [[[1, 2]], [[3, 4]]],
                   {"x": 1, "y": 2}, [{"x": 1, "y": 2}], [["1", "x"]]):  # fmt: skip
        yield spoil(OUT, points=points)
    for points in ([[1, 2]], [[-1, -2.5], [3e300, 4], [5, 6]], [["1", "2.5"]], [[1, 1], [1, 1], [1, 1]]):
        yield spoil(KEPT, points=points)
    for points in ([[1, 1]], [[1, 1], [2, 2], [3, 3]], [[1e308, 0], [-1e308, 0]]):
        yield spoil(OUT, points=points, shape_type="circle")
    yield spoil(KEPT, points=[[9, 8], [2, 3]], shape_type="rectangle")
    yield spoil(KEPT, label="café \u2028 \ud800")


LABELME = Format(
    "labelme", _write_labelme, (f"{SPOILED[0]}.json", f"shape {SPOILED[1] + 1}"), _labelme_spoils
)

_COLUMNS = ("ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsGroupOf").split(",")


def _open_images_line(number: int, **changes: str) -> str:
    given = {
        "ImageID": str(number // EACH),
        "Source": "xclick",
        "LabelName": ("/m/01yrx", "/m/0bt9lr")[number % 2],
        "Confidence": "1",
        "XMin": f"{(1 + number) / 100}",
        "XMax": "0.75",
        "YMin": "0.25",
        "YMax": "1",
        "IsOccluded": "0",
        "IsGroupOf": "-1",
    }
    return ",".join({**given, **changes}[column] for column in _COLUMNS)


def _write_open_images(root: Path, spoiled: Any) -> None:
    lines = [line for row in set_of(_open_images_line, spoiled) for line in row]
    text = "\n".join([",".join(_COLUMNS), *lines]) + "\n"
    (root / "train-annotations-bbox.csv").write_text(text, encoding="utf-8", newline="")
    (root / "class-descriptions-boxable.csv").write_text("/m/01yrx,Cat\n/m/0bt9lr,Dog\n")


def _open_images_spoils() -> Iterator[Spoil]:
    number = EACH * SPOILED[0] + SPOILED[1]
    good = _open_images_line(number)

    def spoil(fate: str, **changes: str) -> Spoil:
        return Spoil(str(changes), _open_images_line(number, **changes), fate)

    for text, fate in {
        **NUMBERS,
        "": OUT,
        " ": OUT,
        '"0.5"': KEPT,
        '"0,5"': OUT,
        " 0.5 ": KEPT,
        "\x00": OUT,
    }.items():
        turned = {"1e300", "2.0", "2e0", "+2", "02", "2."}  # beyond XMax
        yield spoil(TOLD if text in turned else fate, XMin=text)
    yield spoil(KEPT, XMax="-0.1", XMin="-0.5")
    for text in ("", " ", '""'):
        yield spoil(OUT, LabelName=text)
    yield spoil(KEPT, LabelName='"/m/01yrx"')
    yield spoil(KEPT, LabelName=" /m/01yrx ")
    yield spoil(KEPT, LabelName="/m/new")
    for column in ("Confidence", "IsOccluded", "Source"):
        for text in ("", "abc", "nan", "1e999", "9" * 400, '"a, b"', "1.0", "\u2028", "\x0b"):
            yield spoil(KEPT, **{column: text})
    cells = good.split(",")
    for count in range(1, 8):
        yield Spoil(f"{count} cells", ",".join(cells[:count]), OUT)
    for count in (8, 9):
        yield Spoil(f"{count} cells", ",".join(cells[:count]), TOLD)
    yield Spoil("one more", f"{good},1", OUT)
    yield Spoil("empty ones more", f"{good},,", KEPT)
    yield Spoil("semicolons", f"{cells[0]},{';'.join(cells[1:])}", OUT)
    yield Spoil("Windows", f"{good}\r", KEPT)
    yield Spoil("a quote", good.replace("xclick", '"xclick'), OUT)
    yield Spoil("a quote inside", good.replace("xclick", 'x"click'), KEPT)
    yield Spoil("all quoted", ",".join(f'"{cell}"' for cell in cells), KEPT)


OPEN_IMAGES = Format(
    "open_images",
    _write_open_images,
    ("train-annotations-bbox.csv", f"line {EACH * SPOILED[0] + SPOILED[1] + 2}"),
    _open_images_spoils,
)


def _yolo(
    task: str, good: Callable[[int], str], more: Callable[[str], Iterator[tuple[str, str]]], data: str = ""
) -> Format:
    def write(root: Path, spoiled: Any) -> None:
        (root / "labels").mkdir(exist_ok=True)
        (root / "data.yaml").write_text(f"train: images\nnames: [cat, dog]\n{data}")
        for row, lines in enumerate(set_of(good, spoiled)):
            (root / "labels" / f"{row}.txt").write_text("\n".join(lines), encoding="utf-8", newline="")

    def spoils() -> Iterator[Spoil]:
        line = good(EACH * SPOILED[0] + SPOILED[1])
        words = line.split()
        for text, fate in {**NUMBERS, "0,5": OUT}.items():
            for at in (2, len(words) - 1):
                if fate == OUT or not text.startswith("-") or at == 2 or task in ("segment", "obb"):
                    yield Spoil(f"{text[:40]} at {at}", " ".join([*words[:at], text, *words[at + 1 :]]), fate)
        for text in ("cat", "nan", "inf", "-1", "2", "0.5", "9" * 400, "1e300", "[0]"):
            yield Spoil(f"class {text[:40]}", " ".join([text, *words[1:]]), OUT)
        for text in ("1.0", "01", "0", "1e0", "+1"):
            yield Spoil(f"class {text}", " ".join([text, *words[1:]]), KEPT)
        for text in (
            "x",
            "0",
            "# a comment",
            "0 .5",
            "0 .5 .5",
            "0 .5 .5 .1",
            line.replace(" ", ","),
            "\x00",
            "½",
        ):
            yield Spoil(repr(text), text, OUT)
        for text in (
            f"  {line}\t",
            line.replace(" ", "\t"),
            line.replace(" ", "   "),
            f"{line}\r",
            f"\n\n{line}\n",
        ):
            yield Spoil(repr(text), text, KEPT)
        for text, fate in more(line):
            yield Spoil(text, text, fate)

    where = (f"labels/{SPOILED[0]}.txt", f"line {SPOILED[1] + 1}")
    return Format("yolo", write, where, spoils)


def _more_boxes(line: str) -> Iterator[tuple[str, str]]:
    for text in (
        f"{line} .5",
        f"{line} .5 .5",
        f"{line} x",
        f"{line} 0 .5 .5 .1 .1",
        "0 .5 .5 -.1 .1",
        "0 .5 .5 .1 -1e-9",
    ):
        yield text, OUT
    for text in ("0 .5 .5 0 0", "0 1.5 -.5 .1 .1", "0 .5 .5 3 3"):
        yield text, KEPT
    yield "0 .1 .1 .2 .1 .2 .2 .1 .2", TOLD  # a polygon


def _more_polygons(line: str) -> Iterator[tuple[str, str]]:
    for text in (f"{line} .5", f"{line} x"):
        yield text, OUT
    for text in (f"{line} .5 .5", "0 .5 .5 .1 .1", "0 .5 .5 .5 .5 .5 .5", "0 -1 2 .5 .5 .5 .5"):
        yield text, KEPT


def _more_poses(line: str) -> Iterator[tuple[str, str]]:
    for text in (f"{line} .5 .5", f"{line} .5 .5 2", "0 .5 .5 .1 .1", f"{line} x", f"{line} .5"):
        yield text, OUT


def _more_oriented(line: str) -> Iterator[tuple[str, str]]:
    for text in (f"{line} .5", f"{line} .5 .5", "0 .5 .5 .1 .1", "0 .5 .5 .1 .1 .3", "0 .1 .1 .2 .2 .3 .3"):
        yield text, OUT


YOLO = {
    "boxes": _yolo("detect", lambda n: f"{n % 2} 0.5 0.{n + 10} 0.1 0.125", _more_boxes),
    "polygons": _yolo(
        "segment",
        lambda n: f"{n % 2} 0.5 0.{n + 10} 0.1 0.125 0.3 0.4" + " 0.25 0.5" * (n % 4),
        _more_polygons,
    ),
    "poses": _yolo(
        "pose",
        lambda n: f"{n % 2} 0.5 0.{n + 10} 0.1 0.125 0.3 0.4 2 0.5 0.25 1",
        _more_poses,
        "kpt_shape: [2, 3]\n",
    ),
    "oriented boxes": _yolo(
        "obb", lambda n: f"{n % 2} 0.5 0.{n + 10} 0.1 0.125 0.3 0.4 0.25 0.5", _more_oriented
    ),
}


def _coco_annotation(number: int) -> dict[str, Any]:
    found = {
        "id": number + 1,
        "image_id": number // EACH,
        "category_id": 1 + number % 2,
        "area": 12.5,
        "iscrowd": 0,
    }
    return {**found, "bbox": [1.5, 2, 3, 4 + number], "segmentation": [[0, 0, 5, 0, 5, 5]]}


def _write_coco(root: Path, spoiled: Any) -> None:
    annotations = [one for row in set_of(_coco_annotation, spoiled) for one in row]
    images = [
        {"id": row, "file_name": f"{row}.jpg", "width": 40 + row, "height": 30} for row in range(PICTURES)
    ]
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    text = json.dumps({"images": images, "annotations": annotations, "categories": categories})
    (root / "instances.json").write_text(text.replace("Infinity", "1e999"))


def _coco_spoils() -> Iterator[Spoil]:
    good = _coco_annotation(EACH * SPOILED[0] + SPOILED[1])
    for value in ANY:
        for key, (kept, otherwise) in {
            "bbox": ((), OUT),
            "category_id": ((), OUT),
            "area": ((0, 1.5), TOLD),
            "segmentation": ((MISSING, None, []), TOLD),
        }.items():
            is_kept = any(type(value) is type(one) and value == one for one in kept)
            if key == "segmentation" and value in ([[]], True):  # true is none, as null is
                is_kept = True
            yield Spoil(f"{key} {value!r:.40}", changed(good, **{key: value}), KEPT if is_kept else otherwise)
    for box in ([1, 2, 3], [1, 2, 3, 4, 5], ["1", "2", "3", "4"], [1, 2, None, 4], [1, 2, True, 4], "1 2 3 4",
                [1, 2, float("nan"), 4], [1, 2, float("inf"), 4], {"x": 1}):  # fmt: skip
        yield Spoil(f"bbox {box}", changed(good, bbox=box), OUT)
    for box in ([1, 2, 0, 0], [-1, -2, 300, 4], [1e300, 2, 3, 4]):
        yield Spoil(f"bbox {box}", changed(good, bbox=box), KEPT)


COCO = Format(
    "coco",
    _write_coco,
    (f"{SPOILED[0]}.jpg", f"annotation {EACH * SPOILED[0] + SPOILED[1] + 1}"),
    _coco_spoils,
)

FORMATS = {
    "coco": COCO, "voc": VOC, "cvat": CVAT, "labelme": LABELME, "open images": OPEN_IMAGES,
    **{f"yolo {what}": one for what, one in YOLO.items()},
}  # fmt: skip
