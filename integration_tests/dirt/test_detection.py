"""Annotations as they are found: of other tools, other systems, edited by hand, cut off. What remains of each.

A case is the files of a source, and by picture the objects that must be there, as ``class box, class box``: None for a
picture of which nothing is known; a picture that is written and not listed has no row. Then what must be told, in
parts that are all in one line of the report; without any, nothing may be told, and ``strict`` must pass.
"""

# ruff: noqa: E501 - cases are lines
from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image

import lakebed
from lakebed.errors import IngestionError


class Case(NamedTuple):
    """Files of a source, and what must remain of them."""

    name: str
    files: Mapping[str, str | bytes]
    rows: Mapping[str, str | None]
    told: str = ""  # parts, separated by " & "
    lost: str = ""  # other pictures that are there


def picture(kind: str = "jpeg") -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (40, 30)).save(held, kind)
    return held.getvalue()


def remaining(ds: lakebed.Dataset) -> dict[str, str | None]:
    """Return the objects of each picture, as cases have them."""
    boxes = "bbox" if "bbox" in ds.tensors else "boxes"
    labels = "category_id" if "category_id" in ds.tensors else "labels"
    found: dict[str, str | None] = {}
    nulls = ds[boxes].null_mask()
    for row, file in enumerate(ds.file.text()):
        if nulls is not None and nulls[row]:
            found[file] = None
            continue
        sample = ds[labels][row].data()
        names = sample.get("text") or sample["value"].tolist()
        sides = [" ".join(f"{side:g}" for side in box) for box in ds[boxes][row].numpy().tolist()]
        found[file] = ", ".join(f"{name} {box}" for name, box in zip(names, sides, strict=True))
    return found


def told_of(report: Any) -> list[str]:
    return [
        *(f"{one['where']}: {one['reason']}" for one in report.left_out),
        *(f"{one.where}: {one.reason}" for one in report.problems),
        *(f"{told['first']}: {what}" for what, told in report.changes.items()),
    ]


def check(format_name: str, case: Case, root: Path) -> None:
    for name in [*case.rows, *case.lost.split()]:
        if name.lower().endswith(".jpg") and not {*"\\:"} & {*name} and not name.startswith("/"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(picture())
    for name, content in case.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(
            content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        )
    report = lakebed.import_from(format_name, root, "mem://", workers=0, progressbar=False)
    assert remaining(report.dataset) == case.rows, str(report)
    told = told_of(report)
    if not case.told:
        assert not told
        lakebed.import_from(format_name, root, "mem://", workers=0, progressbar=False, strict=True)
        return
    parts = case.told.split(" & ")
    assert any(all(part in line for part in parts) for line in told), told
    with pytest.raises(IngestionError):
        lakebed.import_from(format_name, root, "mem://", workers=0, progressbar=False, strict=True)


def ids(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


# -- Pascal VOC ----------------------------------------------------------------------------------------------------------


def box(numbers: str) -> str:
    sides = zip(("xmin", "ymin", "xmax", "ymax"), numbers.split(";"), strict=True)
    return f"<bndbox>{''.join(f'<{side}>{number}</{side}>' for side, number in sides)}</bndbox>"


def thing(numbers: str = "1;2;3;4", name: str = "<name>cat</name>", more: str = "") -> str:
    return f"<object>{name}{box(numbers)}{more}</object>"


def voc(*objects: str, head: str = "", file: str = "1.jpg") -> str:
    return f"{head}<annotation><filename>{file}</filename>{''.join(objects)}</annotation>"


CAT, GOOD = "cat 1 2 3 4", thing()
DECLARED = '<?xml version="1.0" encoding="{}"?>'

VOC = [
    Case("floats, as VoTT writes them", {"1.xml": voc(thing("45.70000076293945;1.5;60;20.25"))}, {"1.jpg": "cat 45.7 1.5 60 20.25"}),
    Case("integers as floats", {"1.xml": voc(thing("1.0;2.0;3.0;4.0"))}, {"1.jpg": CAT}),
    Case("exponents", {"1.xml": voc(thing("1e0;2E0;3.;4"))}, {"1.jpg": CAT}),
    Case("a decimal comma", {"1.xml": voc(thing("1,5;2;3;4"), GOOD)}, {"1.jpg": CAT}, "1.xml object 1 & xmin is '1,5'"),
    Case("a tuple for a number", {"1.xml": voc(thing("(88, 100);2;3;4"), GOOD)}, {"1.jpg": CAT}, "object 1 & (88, 100)"),
    Case("blanks and lines around numbers", {"1.xml": voc(thing("\n 1 ;\t2;3 ;4\r\n"))}, {"1.jpg": CAT}),
    Case("Windows line ends", {"1.xml": voc(GOOD).replace(">", ">\r\n")}, {"1.jpg": CAT}),
    Case("a byte order mark", {"1.xml": "\ufeff" + voc(GOOD, head=DECLARED.format("utf-8"))}, {"1.jpg": CAT}),
    Case("UTF-16", {"1.xml": voc(GOOD).encode("utf-16")}, {"1.jpg": CAT}),
    Case("Latin-1", {"1.xml": voc(thing(name="<name>Käse</name>"), head=DECLARED.format("iso-8859-1")).encode("latin-1")}, {"1.jpg": "Käse 1 2 3 4"}),
    Case("GB2312", {"1.xml": voc(thing(name="<name>猫</name>"), head=DECLARED.format("gb2312")).encode("gb2312")}, {"1.jpg": "猫 1 2 3 4"}),
    Case("another encoding than declared", {"1.xml": voc(thing(name="<name>狗</name>"), head=DECLARED.format("utf-8")).encode("gb2312"), "2.xml": voc(GOOD, file="2.jpg")}, {"2.jpg": CAT}, "1.xml & not XML", "1.jpg"),
    Case("a blank line before the declaration", {"1.xml": "\r\n" + voc(GOOD, head=DECLARED.format("utf-8"))}, {"1.jpg": CAT}),
    Case("labelImg, verified", {"1.xml": voc(thing(more="<pose>Unspecified</pose>")).replace("<annotation>", '<annotation verified="yes">')}, {"1.jpg": CAT}),
    Case("without a file name", {"1.xml": f"<annotation>{GOOD}</annotation>"}, {"1.jpg": CAT}),
    Case("a path of another system", {"a.xml": voc(GOOD, file="C:\\photos\\1.jpg")}, {"1.jpg": CAT}),
    Case("a file name without suffix", {"1.xml": voc(GOOD, file="1")}, {"1.jpg": CAT}),
    Case("a file name of another suffix", {"1.xml": voc(GOOD, file="1.png")}, {"1.jpg": CAT}),
    Case("upper-case suffixes", {"1.XML": voc(GOOD)}, {"1.JPG": CAT}),
    Case("blanks in names", {"a b.xml": voc(GOOD, file="a b.jpg")}, {"a b.jpg": CAT}),
    Case("sides in another order", {"1.xml": "<annotation><object><name>cat</name><bndbox><ymax>4</ymax><xmax>3</xmax><xmin>1</xmin><ymin>2</ymin></bndbox></object></annotation>"}, {"1.jpg": CAT}),
    Case("the box before the name", {"1.xml": f"<annotation><object>{box('1;2;3;4')}<name>cat</name></object></annotation>"}, {"1.jpg": CAT}),
    Case("corners swapped", {"1.xml": voc(thing("3;4;1;2"), GOOD)}, {"1.jpg": f"{CAT}, {CAT}"}, "1.xml object 1 & another order"),
    Case("outside of the picture", {"1.xml": voc(thing("-5;-1;400;300.5"))}, {"1.jpg": "cat -5 -1 400 300.5"}),
    Case("a box without size", {"1.xml": voc(thing("5;5;5;5"))}, {"1.jpg": "cat 5 5 5 5"}),
    Case("an empty side", {"1.xml": voc(thing(";2;3;4"), GOOD)}, {"1.jpg": CAT}, "object 1 & xmin is missing"),
    Case("nan", {"1.xml": voc(GOOD, thing("nan;2;3;4"))}, {"1.jpg": CAT}, "object 2 & xmin is 'nan'"),
    Case("a rotated box of roLabelImg", {"1.xml": voc("<object><name>x</name><robndbox><cx>1</cx></robndbox></object>", GOOD)}, {"1.jpg": CAT}, "object 1 & no bndbox"),
    Case("a polygon beside the box", {"1.xml": voc(thing(more="<polygon><x1>1</x1><y1>2</y1></polygon>"))}, {"1.jpg": CAT}),
    Case("parts of a person", {"1.xml": voc(thing(more=f"<part><name>head</name>{box('1;1;2;2')}</part>"))}, {"1.jpg": CAT}),
    Case("attributes of CVAT", {"1.xml": voc(thing(more="<attributes><attribute><name>rotation</name><value>0.0</value></attribute></attributes>"))}, {"1.jpg": CAT}),
    Case("an empty difficult", {"1.xml": voc(thing(more="<difficult/><truncated></truncated><occluded>?</occluded>"))}, {"1.jpg": CAT}),
    Case("a class that is a number", {"1.xml": voc(thing(name="<name>3</name>"))}, {"1.jpg": "3 1 2 3 4"}),
    Case("blanks around a class", {"1.xml": voc(thing(name="<name>\n cat </name>"))}, {"1.jpg": CAT}),
    Case("no class", {"1.xml": voc(thing(name="<name/>"), GOOD)}, {"1.jpg": CAT}, "object 1 & no class"),
    Case("an escaped class", {"1.xml": voc(thing(name="<name>R&amp;D</name>"))}, {"1.jpg": "R&D 1 2 3 4"}),
    Case("a bare ampersand", {"1.xml": voc(thing(name="<name>R&D</name>")), "2.xml": voc(GOOD, file="2.jpg")}, {"2.jpg": CAT}, "1.xml & not XML", "1.jpg"),
    Case("comments and CDATA", {"1.xml": voc("<!-- x -->", thing(name="<name><![CDATA[cat]]></name>"))}, {"1.jpg": CAT}),
    Case("no objects", {"1.xml": voc()}, {"1.jpg": ""}),
    Case("a size of none", {"1.xml": voc("<size><width>0</width><height/><depth/></size>", GOOD)}, {"1.jpg": CAT}),
    Case("a picture without a file", {"1.xml": voc(GOOD)}, {"1.jpg": CAT, "2.jpg": None}),
    Case("an empty file", {"1.xml": "", "2.xml": voc(GOOD, file="2.jpg")}, {"2.jpg": CAT}, "1.xml & not XML", "1.jpg"),
    Case("a file that is cut off", {"1.xml": voc(GOOD)[:-20], "2.xml": voc(GOOD, file="2.jpg")}, {"2.jpg": CAT}, "1.xml & not XML", "1.jpg"),
    Case("bytes of zero at the end", {"1.xml": voc(GOOD) + "\0\0", "2.xml": voc(GOOD, file="2.jpg")}, {"2.jpg": CAT}, "1.xml & not XML", "1.jpg"),
    Case("two files of one picture", {"1.xml": voc(GOOD), "copy.xml": voc(thing("5;6;7;8"))}, {"1.jpg": CAT}, "copy.xml & 1.xml is of the same image"),
    Case("a file of no picture", {"1.xml": voc(GOOD), "9.xml": voc(GOOD, file="9.jpg")}, {"1.jpg": CAT}, "9.xml & image is missing"),
]  # fmt: skip

# -- LabelMe -------------------------------------------------------------------------------------------------------------

OUTLINE = [[1, 2], [3, 2], [3, 4]]


def shape(**more: Any) -> dict[str, Any]:
    return {"label": "cat", "points": OUTLINE, "group_id": None, "shape_type": "polygon", "flags": {}, **more}


def labelme(*shapes: Any, **more: Any) -> str:
    given: dict[str, Any] = {
        "version": "5.0.1",
        "flags": {},
        "shapes": list(shapes),
        "imagePath": "1.jpg",
        "imageData": None,
    }
    return json.dumps({**given, **more}, ensure_ascii=False)


INSIDE = base64.b64encode(picture()).decode()
OLD = {"label": "cat", "line_color": None, "fill_color": None, "points": OUTLINE}

LABELME = [
    Case("version 3, without types of shapes", {"1.json": labelme(OLD, lineColor=[0, 255, 0, 128])}, {"1.jpg": CAT}),
    Case("flags that are null", {"1.json": labelme(shape(flags=None), flags=None)}, {"1.jpg": CAT}),
    Case("no flags, groups and types", {"1.json": labelme({"label": "cat", "points": OUTLINE})}, {"1.jpg": CAT}),
    Case("a byte order mark", {"1.json": "\ufeff" + labelme(shape())}, {"1.jpg": CAT}),
    Case("UTF-16", {"1.json": labelme(shape()).encode("utf-16"), "2.json": labelme(shape(), imagePath="2.jpg")}, {"1.jpg": CAT, "2.jpg": CAT}),
    Case("Latin-1 in place of UTF-8", {"1.json": labelme(shape(label="Käse")).encode("latin-1"), "2.json": labelme(shape(), imagePath="2.jpg")}, {"2.jpg": CAT}, "1.json & not JSON", "1.jpg"),
    Case("NaN of pandas", {"1.json": labelme(shape(group_id=float("nan")), shape(points=[[float("nan"), 1]]))}, {"1.jpg": CAT}, "1.json shape 2 & not finite"),
    Case("a path of Windows", {"a/1.json": labelme(shape(), imagePath="..\\b\\1.jpg")}, {"b/1.jpg": CAT}),
    Case("a path of another machine", {"1.json": labelme(shape(), imagePath="/home/ann/photos/1.jpg")}, {"1.jpg": CAT}),
    Case("no image path", {"1.json": labelme(shape(), imagePath=None)}, {"1.jpg": CAT}),
    Case("no image data at all", {"1.json": json.dumps({"shapes": [shape()], "imagePath": "1.jpg"})}, {"1.jpg": CAT}),
    Case("image data that is damaged beside the file", {"1.json": labelme(shape(), imageData="abc")}, {"1.jpg": CAT}),
    Case("an image inside", {"1.json": labelme(shape(), imageData=INSIDE)}, {"1.json": CAT}),
    Case("sorted keys, an image before the shapes", {"1.json": json.dumps(dict(sorted(json.loads(labelme(shape(), imageData=INSIDE * 40)).items())))}, {"1.jpg": CAT}),
    Case("renamed pictures", {"1.json": labelme(shape(), imagePath="old name.jpg")}, {"1.jpg": CAT}),
    Case("a copied file names the picture of the first", {"1.json": labelme(shape()), "0.json": labelme(shape(label="dog"))}, {"1.jpg": CAT}, "0.json & 1.json is of the same image"),
    Case("numbers as labels", {"1.json": labelme(shape(label=3))}, {"1.jpg": "3 1 2 3 4"}),
    Case("a label of null", {"1.json": labelme(shape(label=None), shape())}, {"1.jpg": CAT}, "shape 1 & no class"),
    Case("an empty label", {"1.json": labelme(shape(label=""), shape())}, {"1.jpg": CAT}, "shape 1 & no class"),
    Case("points of text", {"1.json": labelme(shape(points=[["1", "2"], ["3.0", "4"]]))}, {"1.jpg": CAT}),
    Case("points as objects", {"1.json": labelme(shape(points=[{"x": 1, "y": 2}]), shape())}, {"1.jpg": CAT}, "shape 1 & not a list of pairs"),
    Case("points in a row", {"1.json": labelme(shape(points=[1, 2, 3, 4]), shape())}, {"1.jpg": CAT}, "shape 1 & not a list of pairs"),
    Case("points of three numbers", {"1.json": labelme(shape(points=[[1, 2, 0]]), shape())}, {"1.jpg": CAT}, "shape 1 & not a list of pairs"),
    Case("no points", {"1.json": labelme(shape(points=[]), shape())}, {"1.jpg": CAT}, "shape 1 & no points"),
    Case("a rectangle from its lower right corner", {"1.json": labelme(shape(points=[[3, 4], [1, 2]], shape_type="rectangle"))}, {"1.jpg": CAT}),
    Case("a rectangle of four corners", {"1.json": labelme(shape(points=[[1, 2], [3, 2], [3, 4], [1, 4]], shape_type="rectangle"))}, {"1.jpg": CAT}),
    Case("a circle of one point", {"1.json": labelme(shape(points=[[1, 2]], shape_type="circle"), shape())}, {"1.jpg": CAT}, "shape 1 & circle"),
    Case("outside of the picture", {"1.json": labelme(shape(points=[[-1.5, 2], [900, 4]]))}, {"1.jpg": "cat -1.5 2 900 4"}),
    Case("a shape of an unknown type", {"1.json": labelme(shape(shape_type="spline"))}, {"1.jpg": CAT}),
    Case("a mask", {"1.json": labelme(shape(points=[[1, 2], [3, 4]], shape_type="mask", mask="iVBORw0"))}, {"1.jpg": CAT}),
    Case("a shape that is null", {"1.json": labelme(None, shape())}, {"1.jpg": CAT}, "shape 1"),
    Case("shapes that are null", {"1.json": labelme() .replace("[]", "null"), "2.json": labelme(shape(), imagePath="2.jpg")}, {"2.jpg": CAT}, "1.json & no list of shapes", "1.jpg"),
    Case("no shapes", {"1.json": labelme()}, {"1.jpg": ""}),
    Case("a file that is cut off", {"1.json": labelme(shape(), shape())[:-40], "2.json": labelme(shape(), imagePath="2.jpg")}, {"2.jpg": CAT}, "1.json & not JSON", "1.jpg"),
    Case("an empty file", {"1.json": "", "2.json": labelme(shape(), imagePath="2.jpg")}, {"2.jpg": CAT}, "1.json & not JSON", "1.jpg"),
    Case("JSON of something else beside a picture", {"1.json": "[]", "2.json": labelme(shape(), imagePath="2.jpg")}, {"1.jpg": None, "2.jpg": CAT}, "1.json & not a file of LabelMe"),
    Case("a comma too many", {"1.json": labelme(shape())[:-1] + ",}", "2.json": labelme(shape(), imagePath="2.jpg")}, {"2.jpg": CAT}, "1.json & not JSON", "1.jpg"),
    Case("JSON of something else", {"1.json": labelme(shape()), "settings.json": "{}"}, {"1.jpg": CAT}),
    Case("upper-case suffixes", {"1.JSON": labelme(shape(), imagePath="1.jpg")}, {"1.JPG": CAT}),
]  # fmt: skip

# -- CVAT ----------------------------------------------------------------------------------------------------------------

BOX = '<box label="cat" occluded="0" xtl="1.00" ytl="2.00" xbr="3.00" ybr="4.00" z_order="0"/>'


def cvat(*shapes: str, image: str = 'id="0" name="1.jpg" width="40" height="30"', meta: str = "") -> str:
    return f"<annotations><version>1.1</version>{meta}<image {image}>{''.join(shapes)}</image></annotations>"


def track(frame: str, label: str = "cat") -> str:
    sides = 'xtl="1" ytl="2" xbr="3" ybr="4"'
    return f'<track id="0" label="{label}"><box frame="{frame}" outside="0" occluded="0" keyframe="1" {sides}/></track>'


def video(*tracks: str) -> str:
    size = "<meta><task><original_size><width>40</width><height>30</height></original_size></task></meta>"
    return f"<annotations><version>1.1</version>{size}{''.join(tracks)}</annotations>"


FRAME = "images/frame_000000.jpg"

CVAT = [
    Case("labels that are empty", {"a.xml": cvat(BOX, meta="<meta><task><labels></labels></task></meta>")}, {"1.jpg": CAT}),
    Case("no meta", {"a.xml": cvat(BOX)}, {"1.jpg": CAT}),
    Case("a byte order mark and Windows line ends", {"a.xml": "\ufeff" + cvat(BOX).replace("><", ">\r\n<")}, {"1.jpg": CAT}),
    Case("folders in names", {"a.xml": cvat(BOX, image='id="0" name="day\\1.jpg"')}, {"images/day/1.jpg": CAT}),
    Case("no size of the picture", {"a.xml": cvat(BOX, image='name="1.jpg"')}, {"1.jpg": CAT}),
    Case("an id that is a float", {"a.xml": cvat(BOX, image='id="0.0" name="1.jpg"')}, {"1.jpg": CAT}),
    Case("a side that is empty", {"a.xml": cvat(BOX.replace("1.00", ""), BOX)}, {"1.jpg": CAT}, "a.xml image 1.jpg element 1 & xtl is missing"),
    Case("a side that is missing", {"a.xml": cvat(BOX, BOX.replace('xbr="3.00"', ""))}, {"1.jpg": CAT}, "element 2 & xbr is missing"),
    Case("a decimal comma", {"a.xml": cvat(BOX.replace("1.00", "1,00"), BOX)}, {"1.jpg": CAT}, "element 1 & '1,00'"),
    Case("corners swapped", {"a.xml": cvat(BOX.replace("1.00", "9"))}, {"1.jpg": "cat 3 2 9 4"}, "element 1 & another order"),
    Case("no label", {"a.xml": cvat(BOX.replace('label="cat"', ""), BOX)}, {"1.jpg": CAT}, "element 1 & no class"),
    Case("no occluded and no z_order", {"a.xml": cvat('<box label="cat" xtl="1" ytl="2" xbr="3" ybr="4"/>')}, {"1.jpg": CAT}),
    Case("an attribute without text", {"a.xml": cvat(BOX.replace("/>", '><attribute name="age"/></box>'))}, {"1.jpg": CAT}),
    Case("a rotation", {"a.xml": cvat(BOX.replace("/>", ' rotation="359.5"/>'))}, {"1.jpg": CAT}),
    Case("points that end with a semicolon", {"a.xml": cvat('<polygon label="cat" points="1,2;3,2;3,4;"/>')}, {"1.jpg": CAT}),
    Case("points with blanks", {"a.xml": cvat('<polygon label="cat" points="1, 2; 3, 2;3 ,4"/>')}, {"1.jpg": CAT}),
    Case("no points", {"a.xml": cvat('<polygon label="cat" points=""/>', BOX)}, {"1.jpg": CAT}, "element 1 & no points"),
    Case("half a point", {"a.xml": cvat('<polygon label="cat" points="1,2;3"/>', BOX)}, {"1.jpg": CAT}, "element 1 & '3'"),
    Case("a mask of other lengths", {"a.xml": cvat('<mask label="cat" rle="1,9" left="1" top="2" width="2" height="2"/>')}, {"1.jpg": CAT}, "element 1 & mask is left out"),
    Case("a mask of a picture without size", {"a.xml": cvat('<mask label="cat" rle="1,3" left="1" top="2" width="2" height="2"/>', image='name="1.jpg"')}, {"1.jpg": CAT}, "element 1 & height is missing"),
    Case("a mask of a picture whose size is a float", {"a.xml": cvat('<mask label="cat" rle="1,3" left="1.0" top="2" width="2" height="2"/>', image='name="1.jpg" width="40.0" height="30.0"')}, {"1.jpg": CAT}),
    Case("an unknown shape", {"a.xml": cvat('<ribbon label="cat"/>', BOX)}, {"1.jpg": CAT}, "element 1 & not a known shape"),
    Case("a picture that is not there", {"a.xml": cvat(BOX).replace("</annotations>", '<image name="9.jpg"/></annotations>')}, {"1.jpg": CAT}, "9.jpg & missing"),
    Case("a picture that is there twice", {"a.xml": cvat(BOX).replace("</annotations>", f'<image name="1.jpg">{BOX}</image></annotations>')}, {"1.jpg": CAT}, "1.jpg & listed twice"),
    Case("no shapes", {"a.xml": cvat()}, {"1.jpg": ""}),
    Case("an empty file beside", {"a.xml": cvat(BOX), "b.xml": ""}, {"1.jpg": CAT}, "2.jpg & no XML file lists", "2.jpg"),
    Case("one of two files is cut off", {"a.xml": cvat(BOX), "b.xml": cvat(BOX, image='name="2.jpg"')[:-9]}, {"1.jpg": CAT}, "b.xml & not XML", "2.jpg"),
    Case("a frame that is a float", {"a.xml": video(track("0.0"))}, {FRAME: CAT}),
    Case("a frame that is none", {"a.xml": video(track("x"), track("0"))}, {FRAME: CAT}, "a.xml line 1 & frame of a shape of track 0 is 'x'"),
    Case("a frame below zero", {"a.xml": video(track("-1"), track("0"))}, {FRAME: CAT}, "a.xml line 1 & '-1'"),
    Case("a track without a label", {"a.xml": video(track("0", ""), track("0"))}, {FRAME: CAT}, "track 0 & no class"),
    Case("a mask of a track", {"a.xml": video('<track id="0" label="cat"><mask frame="0" rle="1,3" left="1" top="2" width="2" height="2"/></track>')}, {FRAME: CAT}),
    Case("outside as a word", {"a.xml": video(track("0"), track("0").replace('outside="0"', 'outside="True"'))}, {FRAME: CAT}, "1 shapes of tracks are outside"),
]  # fmt: skip

# -- Open Images ---------------------------------------------------------------------------------------------------------

HEAD = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside"
LINE = "1,xclick,/m/01yrx,1,0.1,0.3,0.2,0.4,0,0,0,0,0"
NAMES = "/m/01yrx,cat\n"
OI = "cat 0.1 0.2 0.3 0.4"


def oi(*lines: str, head: str = HEAD, end: str = "\n", names: str = NAMES) -> dict[str, str | bytes]:
    return {
        "train-annotations-bbox.csv": end.join([head, *lines, ""]),
        "class-descriptions-boxable.csv": names,
    }


def quoted(line: str) -> str:
    return ",".join(f'"{cell}"' for cell in line.split(","))


OPEN_IMAGES = [
    Case("Windows line ends", oi(LINE, LINE, end="\r\n"), {"1.jpg": f"{OI}, {OI}"}),
    Case("a byte order mark", oi(LINE, head="\ufeff" + HEAD), {"1.jpg": OI}),
    Case("everything quoted", oi(quoted(LINE), head=quoted(HEAD)), {"1.jpg": OI}),
    Case("texts quoted", oi('"1","xclick","/m/01yrx",1,0.1,0.3,0.2,0.4,0,0,0,0,0'), {"1.jpg": OI}),
    Case("blanks after commas", oi(LINE.replace(",", ", "), head=HEAD.replace(",", ", ")), {"1.jpg": OI}),
    Case("blank lines", oi("", LINE, "  ", LINE, ""), {"1.jpg": f"{OI}, {OI}"}),
    Case("no line end at the end", {**oi(LINE), "train-annotations-bbox.csv": f"{HEAD}\n{LINE}"}, {"1.jpg": OI}),
    Case("the eight columns of version 4", oi("1,xclick,/m/01yrx,1,0.1,0.3,0.2,0.4", head=HEAD[: HEAD.index(",IsOcc")]), {"1.jpg": OI}),
    Case("columns in another order", oi("1,/m/01yrx,0.2,0.4,0.1,0.3", head="ImageID,LabelName,YMin,YMax,XMin,XMax"), {"1.jpg": OI}),
    Case("the clicks of version 6", oi(f"{LINE},0.1,0.2", head=f"{HEAD},XClick1X,XClick1Y"), {"1.jpg": OI}),
    Case("a line that is cut off", oi(LINE, LINE[:24]), {"1.jpg": OI}, "bbox.csv line 3 (image 1) & missing"),
    Case("a line without its last columns", oi(LINE[:-4]), {"1.jpg": OI}, "line 2 & IsDepiction is missing"),
    Case("commas at the end", oi(f"{LINE},,"), {"1.jpg": OI}),
    Case("a column too many", oi(LINE, f"{LINE},9"), {"1.jpg": OI}, "line 3 & 14 columns, not 13"),
    Case("an empty side", oi(LINE, LINE.replace("0.1", "")), {"1.jpg": OI}, "line 3 & XMin is missing"),
    Case("nan", oi(LINE, LINE.replace("0.1", "nan")), {"1.jpg": OI}, "line 3 & XMin is 'nan'"),
    Case("an empty attribute", oi(LINE.replace("xclick", "").replace(",0,0,0,0,0", ",,,,,")), {"1.jpg": OI}),
    Case("attributes of -1", oi(LINE.replace(",0,0,0,0,0", ",-1,-1,-1,-1,-1")), {"1.jpg": OI}),
    Case("attributes as floats", oi(LINE.replace(",0,0,0,0,0", ",0.0,1.0,0.0,0.0,0.0")), {"1.jpg": OI}),
    Case("corners swapped", oi(LINE.replace("0.1,0.3", "0.3,0.1")), {"1.jpg": OI}, "line 2 & another order"),
    Case("more than the whole picture", oi(LINE.replace("0.1", "-0.01").replace("0.3", "1.02")), {"1.jpg": "cat -0.01 0.2 1.02 0.4"}),
    Case("exponents", oi(LINE.replace("0.1,", "1e-1,")), {"1.jpg": OI}),
    Case("a class that is not described", oi(LINE, LINE.replace("/m/01yrx", "/m/zzz")), {"1.jpg": f"{OI}, /m/zzz 0.1 0.2 0.3 0.4"}),
    Case("no class", oi(LINE, LINE.replace("/m/01yrx", "")), {"1.jpg": OI}, "line 3 & no class"),
    Case("names with commas", oi(LINE, names='/m/01yrx,"cat, tame"\n'), {"1.jpg": "cat, tame 0.1 0.2 0.3 0.4"}),
    Case("names of Windows", oi(LINE, names="\ufeff/m/01yrx,cat\r\n/m/0,dog\r\n"), {"1.jpg": OI}),
    Case("a name that is missing among others", oi(LINE, names="/m/01yrx,cat\n/m/0b\n/m/0c,cow\n/m/0d,hen\n"), {"1.jpg": OI}, "descriptions-boxable.csv line 2 & not an id and a name"),
    Case("lines of an image apart", oi(LINE, LINE.replace("1,x", "2,x", 1), LINE), {"1.jpg": f"{OI}, {OI}", "2.jpg": OI}),
    Case("lines of pictures that are not there", oi(LINE, "gone" + LINE[1:]), {"1.jpg": OI}, "1 lines are of images that are not there & line 3"),
    Case("a line without its image", oi(LINE, LINE[1:]), {"1.jpg": OI}, "1 lines are of images that are not there & line 3"),
    Case("a picture without lines", oi(LINE), {"1.jpg": OI, "2.jpg": None}),
    Case("a table of Latin-1 beside it", {**oi(LINE), "notes.csv": "a,Käse\n".encode("latin-1")}, {"1.jpg": OI}, "notes.csv & not imported"),
    Case("a quote that is not closed", oi(LINE, LINE.replace("xclick", '"xclick'), LINE), {"1.jpg": f"{OI}, {OI}"}, "line 3"),
]  # fmt: skip

# -- YOLO ----------------------------------------------------------------------------------------------------------------

YAML = "train: images\nnames: [cat, dog]\n"
FEW = "0 .5 .5 .1 .2\n"
BOXES = "cat 0.5 0.5 0.1 0.2"


def yolo(text: str | bytes, name: str = "labels/1.txt", data: str = YAML) -> dict[str, str | bytes]:
    return {"data.yaml": data, name: text}


def many(line: str, usual: str = FEW) -> tuple[dict[str, str | bytes], str]:
    """A line after 40 usual ones, and what remains of these."""
    return yolo(usual * 40 + line), ", ".join([BOXES] * 40)


YOLO = [
    Case("a class as a float", yolo("0.0 .5 .5 .1 .2\n1.000000 .5 .5 .1 .2"), {"images/1.jpg": f"{BOXES}, dog 0.5 0.5 0.1 0.2"}),
    Case("exponents of numpy", yolo("0.000000000000000000e+00 5e-1 5.0e-01 .1 .2"), {"images/1.jpg": BOXES}),
    Case("tabs and blanks", yolo("  0\t.5  .5 .1\t.2 \n"), {"images/1.jpg": BOXES}),
    Case("Windows line ends", yolo(FEW.replace("\n", "\r\n") * 2), {"images/1.jpg": f"{BOXES}, {BOXES}"}),
    Case("old Mac line ends", yolo(FEW.replace("\n", "\r") * 2), {"images/1.jpg": f"{BOXES}, {BOXES}"}),
    Case("a byte order mark", yolo("\ufeff" + FEW), {"images/1.jpg": BOXES}),
    Case("blank lines", yolo(f"\n\n{FEW}\n \n"), {"images/1.jpg": BOXES}),
    Case("no line end", yolo(FEW.strip()), {"images/1.jpg": BOXES}),
    Case("an empty file", yolo(""), {"images/1.jpg": ""}),
    Case("blanks alone", yolo(" \n\n"), {"images/1.jpg": ""}),
    Case("the same line twice", yolo(FEW * 2), {"images/1.jpg": f"{BOXES}, {BOXES}"}),
    Case("beyond the picture", yolo("0 1.02 -.01 .1 .2"), {"images/1.jpg": "cat 1.02 -0.01 0.1 0.2"}),
    Case("pixels", yolo("0 320 240 64 48"), {"images/1.jpg": "cat 320 240 64 48"}),
    Case("a class of -1", yolo(f"-1 .5 .5 .1 .2\n{FEW}"), {"images/1.jpg": BOXES}, "labels/1.txt line 1 & -1 is not a class"),
    Case("classes from 1", yolo(f"2 .5 .5 .1 .2\n{FEW}"), {"images/1.jpg": BOXES}, "line 1 & class 2 has no name"),
    Case("the name of a class", yolo(f"cat .5 .5 .1 .2\n{FEW}"), {"images/1.jpg": BOXES}, "line 1 & 'cat' is not a number"),
    Case("commas", yolo(f"0,.5,.5,.1,.2\n{FEW}"), {"images/1.jpg": BOXES}, "line 1 & is not a number"),
    Case("decimal commas", yolo(f"0 0,5 0,5 0,1 0,2\n{FEW}"), {"images/1.jpg": BOXES}, "line 1 & '0,5'"),
    Case("nan", yolo(f"0 nan .5 .1 .2\n{FEW}"), {"images/1.jpg": BOXES}, "line 1 & 'nan'"),
    Case("inf", yolo(f"0 .5 .5 inf .2\n{FEW}"), {"images/1.jpg": BOXES}, "line 1 & 'inf'"),
    Case("a negative size", yolo(f"{FEW}0 .5 .5 -.1 .2"), {"images/1.jpg": BOXES}, "line 2 & negative size"),
    Case("no size", yolo("0 .5 .5 0 0"), {"images/1.jpg": "cat 0.5 0.5 0 0"}),
    Case("a line that is cut off", yolo(f"{FEW}0 .5 .5"), {"images/1.jpg": BOXES}, "line 2 & 4 numbers, not 2"),
    Case("a comment", yolo(f"# made by hand\n{FEW}"), {"images/1.jpg": BOXES}, "line 1 & is not a number"),
    Case("a confidence in one line of many", many(FEW.strip() + " .9")[0], {"images/1.jpg": many("")[1]}, "line 41 & 4 numbers, not 5"),
    Case("two lines in one", many(FEW.strip() + " " + FEW)[0], {"images/1.jpg": many("")[1]}, "line 41 & 4 numbers"),
    Case("one polygon among many boxes", many("0 .4 .3 .6 .3 .6 .7 .4 .7")[0], {"images/1.jpg": f"{many('')[1]}, cat 0.5 0.5 0.2 0.4"}, "line 41 & polygons among boxes"),
    Case("boxes among polygons, as Roboflow writes them", yolo(f"0 .4 .3 .6 .3 .5 .7\n{FEW}"), {"images/1.jpg": f"cat 0.5 0.5 0.2 0.4, {BOXES}"}),
    Case("half a point", yolo("0 .4 .3 .6 .3 .5 .7 .8 .9 .1\n" + "0 .4 .3 .6 .3 .5 .7\n" * 40), {"images/1.jpg": ", ".join(["cat 0.5 0.5 0.2 0.4"] * 40)}, "line 1 & even number"),
    Case("UTF-16", {**yolo(FEW.encode("utf-16"), "labels/1.txt"), "labels/2.txt": FEW}, {"images/2.jpg": BOXES}, "images/1.jpg & labels/1.txt is not text", "images/1.jpg"),
    Case("upper-case suffixes", yolo(FEW, "labels/1.TXT"), {"images/1.JPG": BOXES}),
    Case("blanks in names", yolo(FEW, "labels/a b (1).txt"), {"images/a b (1).jpg": BOXES}),
    Case("names as a mapping", yolo(FEW, data="train: images\nnames:\n  0: cat\n  1: dog\n"), {"images/1.jpg": BOXES}),
    Case("names as numbers", yolo(FEW, data="train: images\nnames: [0, 1]\n"), {"images/1.jpg": BOXES.replace("cat", "0")}),
    Case("more names than nc", yolo(FEW, data=YAML + "nc: 1\n"), {"images/1.jpg": BOXES}, "data.yaml & nc is 1"),
    Case("a picture without labels", yolo(FEW), {"images/1.jpg": BOXES, "images/2.jpg": None}),
    Case("labels of no picture", {**yolo(FEW), "labels/9.txt": FEW}, {"images/1.jpg": BOXES}, "1 label files are of no image & 9.txt"),
]  # fmt: skip

# -- COCO ----------------------------------------------------------------------------------------------------------------

ONE = {"id": 1, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}


def coco(*annotations: Any, image: Mapping[str, Any] | None = None, **more: Any) -> dict[str, str | bytes]:
    images = [{"id": 7, "file_name": "1.jpg", "width": 40, "height": 30, **(image or {})}]
    content = {"images": images, "annotations": list(annotations), "categories": [{"id": 1, "name": "cat"}]}
    return {"instances.json": json.dumps({**content, **more})}


def coco_many(**changes: Any) -> dict[str, str | bytes]:
    """Ten annotations, and one that is changed; None removes a key."""
    last = {key: value for key, value in {**ONE, "id": 99, **changes}.items() if value is not None}
    return coco(*[{**ONE, "id": number} for number in range(10)], last)


TEN = ", ".join([CAT] * 10)
SEGMENT = {key: value for key, value in ONE.items() if key != "image_id"}


def panoptic(*segments: Any) -> dict[str, str | bytes]:
    annotation = {"image_id": 7, "file_name": "1.png", "segments_info": list(segments)}
    return {"panoptic_train/1.png": picture("png"), "panoptic_train.json": coco(annotation)["instances.json"]}


COCO = [
    Case("segments", panoptic(SEGMENT), {"1.jpg": CAT}),
    Case("a segment without a category", panoptic(*[SEGMENT] * 9, {"id": 99, "bbox": [1, 2, 3, 4], "area": 1}), {"1.jpg": ", ".join([CAT] * 9)}, "1.jpg & annotation 99: category_id missing"),
    Case("a segment whose box is empty", panoptic(*[SEGMENT] * 9, {**SEGMENT, "id": 99, "bbox": []}), {"1.jpg": ", ".join([CAT] * 9)}, "1.jpg & annotation 99: bbox is []"),
    Case("a segment that is null", panoptic(*[SEGMENT] * 9, None), {"1.jpg": ", ".join([CAT] * 9)}, "1.jpg & None, not an object"),
    Case("empty segmentations, as of Roboflow", coco({**ONE, "segmentation": []}), {"1.jpg": CAT}),
    Case("no segmentation", coco(ONE), {"1.jpg": CAT}),
    Case("a flat outline, as of VIA", coco({**ONE, "segmentation": [1, 2, 3, 2, 3, 4]}), {"1.jpg": CAT}),
    Case("ids of text", coco({**ONE, "image_id": "7"}), {"1.jpg": CAT}),
    Case("ids of pictures of text", coco(ONE, image={"id": "7"}), {"1.jpg": CAT}),
    Case("ids of floats", coco({**ONE, "image_id": 7.0, "category_id": 1.0, "id": 1.0}), {"1.jpg": CAT}),
    Case("an empty box", coco_many(bbox=[]), {"1.jpg": TEN}, "1.jpg & annotation 99: bbox is []"),
    Case("no box", coco_many(bbox=None), {"1.jpg": TEN}, "1.jpg & annotation 99: bbox is missing"),
    Case("NaN in a box", coco_many(bbox=[float("nan"), 1, 2, 3]), {"1.jpg": TEN}, "annotation 99: bbox is [nan"),
    Case("a box of texts", coco_many(bbox=["1", "2", "3", "4"]), {"1.jpg": TEN}, "annotation 99: bbox"),
    Case("a category of another file", coco_many(category_id=5), {"1.jpg": TEN}, "annotation 99: category_id 5"),
    Case("an area of NaN", coco(*[{**ONE, "area": 1.5}] * 30, {**ONE, "id": 99, "area": float("nan")}), {"1.jpg": ", ".join([CAT] * 31)}, "annotation 99: area is nan"),
    Case("an outline of two points", coco_many(segmentation=[1, 2, 3, 4]), {"1.jpg": f"{TEN}, {CAT}"}, "annotation 99: its segmentation"),
    Case("a mask that is none", coco_many(segmentation={}), {"1.jpg": f"{TEN}, {CAT}"}, "annotation 99: its segmentation"),
    Case("an annotation that is null", coco(None, ONE, 5, [], "x"), {"1.jpg": CAT}, "annotations[0] & image_id None"),
    Case("a picture that is null", coco(ONE, images=[None, {"id": 7, "file_name": "1.jpg"}]), {"1.jpg": CAT}, "images[0] & no file_name"),
    Case("a picture without its file name", coco(ONE, images=[{"id": 8}, {"id": 7, "file_name": "1.jpg"}]), {"1.jpg": CAT}, "images[0] & no file_name"),
    Case("a picture without a size", coco(ONE, image={"width": None, "height": "30"}), {"1.jpg": CAT}),
    Case("a category that is null", coco(ONE, categories=[None, {"id": 1, "name": "cat"}, {"name": "x"}]), {"1.jpg": CAT}, "categories & None is no category"),
    Case("an annotation of no picture", coco(ONE, {**ONE, "image_id": 8}), {"1.jpg": CAT}, "annotations[1] & image_id 8"),
    Case("a byte order mark", {"instances.json": "\ufeff" + str(coco(ONE)["instances.json"])}, {"1.jpg": CAT}),
    Case("a path of Windows", coco(ONE, image={"file_name": "train\\1.jpg"}), {"train\\1.jpg": CAT}, lost="train/1.jpg"),
    Case("a path of another machine", coco(ONE, image={"file_name": "/data/coco/1.jpg"}), {"/data/coco/1.jpg": CAT}, lost="1.jpg"),
    Case("categories with a null", coco(ONE, categories=[{"id": 1, "name": "cat", "supercategory": None}]), {"1.jpg": CAT}),
    Case("info and licences that are null", coco(ONE, info=None, licenses=None), {"1.jpg": CAT}),
]  # fmt: skip


@pytest.mark.parametrize("case", VOC, ids=ids(VOC))
def test_voc(tmp_path: Path, case: Case) -> None:
    check("voc", case, tmp_path)


@pytest.mark.parametrize("case", LABELME, ids=ids(LABELME))
def test_labelme(tmp_path: Path, case: Case) -> None:
    check("labelme", case, tmp_path)


@pytest.mark.parametrize("case", CVAT, ids=ids(CVAT))
def test_cvat(tmp_path: Path, case: Case) -> None:
    check("cvat", case, tmp_path)


@pytest.mark.parametrize("case", OPEN_IMAGES, ids=ids(OPEN_IMAGES))
def test_open_images(tmp_path: Path, case: Case) -> None:
    check("open_images", case, tmp_path)


@pytest.mark.parametrize("case", YOLO, ids=ids(YOLO))
def test_yolo(tmp_path: Path, case: Case) -> None:
    check("yolo", case, tmp_path)


@pytest.mark.parametrize("case", COCO, ids=ids(COCO))
def test_coco(tmp_path: Path, case: Case) -> None:
    check("coco", case, tmp_path)
