"""Run the calls of this file under a library, named first; what they made goes into a JSON file, named last."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

warnings.simplefilter("ignore")

BOXES = {"a": "0 0.5 0.5 0.2 0.3\n1 0.25 0.25 0.1 0.1\n", "b": "1 0.123456 0.654321 0.111111 0.2", "c": ""}
POLYGONS = {
    "a": "0 0.1 0.1 0.2 0.3 0.4 0.5\n1 0.25 0.25 0.1 0.1 0.3 0.3 0.4 0.4\n",
    "b": "1 0.5 0.5 0.25 0.125",
}


def make(root: Path, labels: Mapping[str, str | None], suffix: str = ".jpg") -> str:
    """Make a folder of images with their label files."""
    root.mkdir()
    for number, (name, text) in enumerate(labels.items()):
        pixels = np.full((20 + number, 30, 3), 40 * number, np.uint8)
        Image.fromarray(pixels).save(root / f"{name}{suffix}")
        if text is not None:
            (root / f"{name}.txt").write_text(text)
    (root / "classes.names").write_text("cat\ndog\n")
    return str(root)


def dumped(ds: Any) -> dict[str, Any]:
    """Return the rows by the size of their image, whose order 3.x leaves to the folder, and the tensors."""
    images = next(name for name, tensor in ds.tensors.items() if "image" in tensor.htype)
    rows = {}
    for row in range(len(ds)):
        made = {}
        for name, tensor in ds.tensors.items():
            if name == images:
                pixels = np.asarray(tensor[row].numpy())
                made[name] = [list(pixels.shape), hashlib.sha256(pixels.tobytes()).hexdigest()]
            else:
                value = tensor[row].numpy(aslist=True)
                # Of an image without a label file 3.x has boxes of shape (4, 0).
                made[name] = [
                    np.asarray(one, np.float64).reshape(-1).tolist() for one in value if np.size(one)
                ]
        rows[str(made[images][0][0])] = made
    tensors = {
        name: [tensor.htype, str(tensor.dtype), tensor.meta.sample_compression, _plain(dict(tensor.info))]
        for name, tensor in ds.tensors.items()
    }
    return {"rows": rows, "tensors": tensors}


def _plain(info: dict[str, Any]) -> Any:
    return json.loads(
        json.dumps({key: value for key, value in info.items() if key in ("class_names", "coords")})
    )


def files(root: Path) -> dict[str, Any]:
    """Return what an export wrote; rows in the order of what they hold."""
    rows = []
    for path in sorted(root.glob("images/*")):
        beside = (root / f"annotations/{path.stem}.txt").read_text()
        rows.append([path.suffix, beside, hashlib.sha256(path.read_bytes()).hexdigest()])
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return {"rows": sorted(rows), "names": names, "classes": (root / "classes.names").read_text()}


def calls(lib: Any, root: Path) -> dict[str, Callable[[], Any]]:
    """Return what is compared."""
    boxes, polygons = make(root / "boxes", BOXES), make(root / "polygons", POLYGONS)
    missing = make(root / "missing", {"a": "0 0.5 0.5 0.2 0.3", "b": None}, ".png")
    empty = make(root / "empty", {}, ".png")
    apart = make(root / "apart", {"a": None, "b": None})
    classes = boxes + "/classes.names"
    taken = iter(range(100))

    def ingest(source: str, **options: Any) -> Any:
        return lib.ingest_yolo(source, str(root / f"lake{next(taken)}"), progressbar=False, **options)

    def export(ds: Any, **options: Any) -> Any:
        out = root / f"out{next(taken)}"
        assert lib.export_yolo(ds, str(out), progressbar=False, **options) is None
        return files(out)

    def pixels(**info: Any) -> Any:
        ds = lib.empty(str(root / f"lake{next(taken)}"))
        ds.create_tensor("im", htype="image", sample_compression="png")
        ds.create_tensor("bb", htype="bbox", **info)
        ds.create_tensor("cl", htype="class_label", class_names=["a", "b"])
        box = np.array([[2, 3, 4, 5]], np.float32)
        ds.append({"im": np.zeros((10, 20, 3), np.uint8), "bb": box, "cl": np.array([1], np.uint32)})
        return ds

    def without_boxes() -> Any:
        ds = pixels()
        ds.delete_tensor("bb")
        return export(ds)

    coords = {"type": "pixel", "mode": "LTRB"}
    return {
        "boxes": lambda: dumped(ingest(boxes)),
        "boxes and classes": lambda: dumped(ingest(boxes, class_names_file=classes)),
        "polygons": lambda: dumped(ingest(polygons, class_names_file=classes)),
        "polygons by htype": lambda: dumped(ingest(polygons, coordinates_params={"htype": "polygon"})),
        "boxes by htype": lambda: dumped(ingest(boxes, coordinates_params={"htype": "bbox", "name": "bb"})),
        "names and dtypes": lambda: dumped(
            ingest(
                boxes,
                image_params={"name": "g/photos"},
                label_params={"name": "cls", "class_names": ["x", "y"]},
                coordinates_params={"dtype": "float64", "coords": coords},
            )
        ),
        "png": lambda: dumped(ingest(boxes, image_params={"sample_compression": "png"})),
        "no label file": lambda: dumped(ingest(missing)),
        "no label file is allowed": lambda: dumped(ingest(missing, allow_no_annotation=True)),
        "labels apart": lambda: dumped(ingest(apart, annotations_directory=boxes, allow_no_annotation=True)),
        "no images": lambda: dumped(ingest(empty)),
        "no folder": lambda: dumped(ingest(str(root / "nowhere"))),
        "dest is there": lambda: (
            lib.empty(str(root / "there")),
            lib.ingest_yolo(boxes, str(root / "there")),
        )[1],
        "overwrite": lambda: dumped(
            lib.ingest_yolo(boxes, str(root / "there"), progressbar=False, overwrite=True)
        ),
        "shuffle and workers": lambda: dumped(ingest(boxes, shuffle=True, num_workers=2)),
        "links": lambda: dumped(ingest(boxes, image_params={"name": "l", "htype": "link[image]"}))["rows"],
        "export": lambda: export(ingest(boxes, class_names_file=classes)),
        "export some": lambda: export(ingest(boxes, class_names_file=classes), limit=1)["names"],
        "export of an address": lambda: export(ingest(boxes, class_names_file=classes).path),
        "export without classes": lambda: export(ingest(boxes)),
        "export of polygons": lambda: export(ingest(polygons, class_names_file=classes)),
        "export pixels": lambda: export(pixels(coords={"type": "pixel", "mode": "LTWH"})),
        "export corners": lambda: export(pixels(coords=coords)),
        "export centers": lambda: export(pixels(coords={"type": "pixel", "mode": "CCWH"})),
        "export without coords": lambda: export(pixels()),
        "export by names": lambda: export(pixels(), image_tensor="im", label_tensor="cl", box_tensor="bb"),
        "export without boxes": without_boxes,
    }


def main(library: str, folder: str, out: str) -> None:
    """Run all calls."""
    lib = importlib.import_module(library)
    found = {}
    for name, call in calls(lib, Path(folder)).items():
        try:
            found[name] = {"value": call()}
        except Exception as error:  # noqa: BLE001 - it is the result
            found[name] = {"error": [cls.__name__ for cls in type(error).__mro__], "text": str(error)}
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
