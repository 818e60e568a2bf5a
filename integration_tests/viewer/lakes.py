"""Datasets to look at: a street of made-up photos with every annotation, and one for each kind."""

from __future__ import annotations

import datetime as dt
import io
import tempfile
import wave
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

import lakebed
from unit_tests.lakebed.codecs.scans import dicom, nifti

CLASSES = ["car", "person", "bicycle", "dog", "traffic light", "<b>sign</b>"]
Pixels = NDArray[np.uint8]


def photo(
    seed: int, width: int = 640, height: int = 480
) -> tuple[Pixels, NDArray[np.float32], NDArray[np.uint32]]:
    """Draw a sky, a street and some blocks; return the pixels, the boxes of the blocks (LTWH) and their classes."""
    draws = np.random.default_rng(seed)
    sky = np.linspace(0, 1, height)[:, None, None]
    top, bottom = draws.integers(90, 200, 3), draws.integers(170, 250, 3)
    image = Image.fromarray((top + (bottom - top) * sky + np.zeros((height, width, 1))).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, int(height * 0.62), width, height), fill=tuple(draws.integers(60, 110, 3).tolist()))
    boxes, classes = [], []
    for _ in range(int(draws.integers(2, 7))):
        w, h = (int(draws.integers(side // 12, side // 4)) for side in (width, height))
        x, y = int(draws.integers(0, width - w)), int(draws.integers(height // 4, height - h))
        draw.rounded_rectangle(
            (x, y, x + w - 1, y + h - 1), 8, fill=tuple(draws.integers(40, 230, 3).tolist())
        )
        boxes.append((x, y, w, h))
        classes.append(int(draws.integers(0, len(CLASSES))))
    return np.asarray(image), np.array(boxes, np.float32), np.array(classes, np.uint32)


def jpeg(pixels: Pixels, quality: int = 88) -> bytes:
    """Encode pixels as a file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=quality)
    return out.getvalue()


def street(path: Path, rows: int = 120) -> None:
    """Write photos with boxes, masks, polygons, key points, points, scores, labels, texts, documents; three commits."""
    ds = lakebed.empty(str(path), overwrite=True)
    with ds:
        ds.create_tensor("images", htype="image", sample_compression="jpeg")
        ds.create_tensor("boxes", htype="bbox", coords={"type": "pixel", "mode": "LTWH"})
        ds.create_tensor("labels", htype="class_label", class_names=CLASSES)
        ds.create_tensor("scores", dtype="float32")
        ds.create_tensor(
            "segments", htype="segment_mask", sample_compression="lz4", class_names=["", *CLASSES]
        )
        ds.create_tensor("outlines", htype="polygon")
        ds.create_tensor(
            "poses", htype="keypoints_coco", keypoints=["head", "hip", "foot"], connections=[[0, 1], [1, 2]]
        )
        ds.create_tensor("corners", htype="point")
        ds.create_tensor("scene", htype="class_label", class_names=["day", "dusk", "night"])
        ds.create_tensor("caption", htype="text")
        ds.create_tensor("about", htype="json")
        ds.create_tensor("taken", dtype="float64")
        ds.create_tensor("embedding", htype="embedding", dtype="float32")
        for row in range(rows):
            pixels, boxes, classes = photo(row, *((640, 480), (480, 640), (800, 450))[row % 3])
            segments = np.zeros(pixels.shape[:2], np.uint8)
            for (x, y, w, h), number in zip(boxes.astype(int).tolist(), classes.tolist(), strict=True):
                segments[y : y + h, x : x + w] = number + 1
            poses = [
                [
                    int(x + w / 2),
                    int(y + h * 0.1),
                    2,
                    int(x + w / 2),
                    int(y + h * 0.5),
                    2,
                    int(x + w / 2),
                    int(y + h * 0.95),
                    1,
                ]
                for x, y, w, h in boxes.tolist()[:2]
            ]
            bare = row % 17 == 16  # a photo that nobody annotated
            ds.append(
                {
                    "images": lakebed.read(jpeg(pixels)),
                    "boxes": boxes[:0] if bare else boxes,
                    "labels": classes[:0] if bare else classes,
                    "scores": np.linspace(0.98, 0.3, 0 if bare else len(boxes), dtype=np.float32),
                    "segments": segments,
                    "outlines": [
                        np.array([[x, y], [x + w, y], [x + w * 0.8, y + h], [x, y + h]], np.float32)
                        for x, y, w, h in ([] if bare else boxes.tolist())
                    ],
                    "poses": np.array(poses, np.int32).T,
                    "corners": boxes[:, :2].astype(np.int32),
                    "scene": np.uint32(row % 3),
                    "caption": f"Photo {row}: {len(boxes)} blocks on a street, seen from the <i>other</i> side.",
                    "about": {
                        "camera": {"make": "Block & Sons", "iso": 100 * (1 + row % 8)},
                        "tags": ["street", f"n{row}"],
                    },
                    "taken": 1.7e9 + 3600.0 * row,
                    "embedding": np.sin(np.arange(64, dtype=np.float32) * (1 + row % 5) / 9),
                }
            )
            if row == rows // 2:
                ds.commit("the first half")
    ds.commit("all photos")
    with ds:
        ds.labels[0] = np.roll(np.asarray(ds.labels[0].numpy()), 1)
        ds.pop(3)
    ds.commit("the first photo's labels, turned; one photo less")
    ds.checkout("review", create=True)
    with ds:
        ds.caption[1] = "Looked at again"
    ds.commit("captions of the review")
    ds.checkout("main")
    ds[ds["scene"] == "night"].save_view(id="nights", message="Photos at night")


def predictions(path: Path, rows: int = 60) -> None:
    """Write photos with what a model made of them: mostly right, some missed, some of another class or of nothing."""
    draws = np.random.default_rng(5)
    ds = lakebed.empty(str(path), overwrite=True)
    with ds:
        ds.create_tensor("images", htype="image", sample_compression="jpeg")
        for group in ("", "model/"):
            ds.create_tensor(f"{group}boxes", htype="bbox", coords={"type": "pixel", "mode": "LTWH"})
            ds.create_tensor(f"{group}labels", htype="class_label", class_names=CLASSES)
        ds.create_tensor("model/scores", dtype="float32")
        for row in range(rows):
            pixels, boxes, classes = photo(row)
            kept = draws.random(len(boxes)) < 0.88
            others = [[*draws.integers(0, 400, 2), *draws.integers(30, 90, 2)] for _ in range(row % 3 // 2)]
            found = boxes[kept] + draws.normal(0, 4, (kept.sum(), 4))
            found = np.concatenate([found, np.array(others, np.float64).reshape(-1, 4)])
            guesses = draws.integers(0, len(CLASSES), len(found))
            guesses[: kept.sum()] = np.where(
                draws.random(kept.sum()) < 0.1, guesses[: kept.sum()], classes[kept]
            )
            scores = np.where(np.arange(len(found)) < kept.sum(), 0.5, 0.1) + draws.random(len(found)) / 2
            ds.append(
                {
                    "images": lakebed.read(jpeg(pixels)),
                    "boxes": boxes,
                    "labels": classes,
                    "model/boxes": found.astype(np.float32),
                    "model/labels": guesses.astype(np.uint32),
                    "model/scores": scores.astype(np.float32),
                }
            )
    ds.commit("a model's boxes")


def table(path: Path, rows: int = 5000) -> None:
    """Write what a synced stream looks like."""
    day = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    lakebed.from_rows(
        str(path),
        [
            {
                "id": row,
                "name": ["Ada", "Grace", "Edsger", "Barbara", "Alan"][row % 5] + f" {row}",
                "email": f"user{row}@example.org" if row % 7 else None,
                "age": 18 + row * 7 % 60 if row % 11 else None,
                "balance": round(1000 * float(np.sin(row)), 2),
                "active": bool(row % 3),
                "joined": day + dt.timedelta(hours=row),
                "address": {"city": ["Oslo", "Lima", "Kyoto"][row % 3], "zip": f"{10000 + row}"},
            }
            for row in range(rows)
        ],
    )


def moving(path: Path, rows: int = 4, frames: int = 24) -> None:
    """Write sequences of pictures with boxes that move, a film and a sound of each."""
    ds = lakebed.empty(str(path), overwrite=True)
    with ds:
        ds.create_tensor("frames", htype="sequence[image]", sample_compression="jpeg")
        ds.create_tensor("tracks", htype="sequence[bbox]", coords={"type": "fractional", "mode": "CCWH"})
        ds.create_tensor("film", htype="video", sample_compression="mp4")
        ds.create_tensor("sound", htype="audio", sample_compression="wav")
        for row in range(rows):
            pictures, tracks = [], []
            for at in range(frames):
                x, y = 40 + 10 * at, 90 + int(50 * np.sin(at / 4 + row))
                image = Image.fromarray(photo(100 + row, 320, 240)[0])
                ImageDraw.Draw(image).ellipse((x, y, x + 39, y + 39), fill=(250, 220, 60))
                pictures.append(np.asarray(image))
                tracks.append(np.array([[(x + 20) / 320, (y + 20) / 240, 40 / 320, 40 / 240]], np.float32))
            ds.append(
                {
                    "frames": [lakebed.read(jpeg(one)) for one in pictures],
                    "tracks": tracks,
                    "film": lakebed.read(film(pictures)),
                    "sound": lakebed.read(sound(220.0 * (row + 1))),
                }
            )


def film(pictures: list[Pixels], rate: int = 12) -> bytes:
    """Encode pictures as an MP4 file whose index comes first, with a key frame each second."""
    import av

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "film.mp4")
        container = av.open(path, "w", options={"movflags": "faststart"})
        stream = container.add_stream("libx264", rate=rate, options={"g": str(rate)})
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for one in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(one, format="rgb24")))
        container.mux(stream.encode())
        container.close()
        return Path(path).read_bytes()


SIDE = 20  # half of what moves in a film
FILM = (320, 240)


def ball(at: int, frames: int, width: int = FILM[0], height: int = FILM[1]) -> tuple[int, int]:
    """Return where the middle of the ball of a film is in a frame."""
    share = at / max(1, frames - 1)
    return round(40 + (width - 80) * share), round(height / 2 + 60 * np.sin(6 * share))


def films(path: Path, rows: int = 2, frames: int = 60, is_film: bool = True) -> None:
    """Write films of a ball, or sequences of pictures, with what is known of each frame beside them."""
    width, height = FILM
    ds = lakebed.empty(str(path), overwrite=True)
    with ds:
        if is_film:
            ds.create_tensor("film", htype="video", sample_compression="mp4")
        else:
            ds.create_tensor("film", htype="sequence[image]", sample_compression="jpeg")
        ds.create_tensor("boxes", htype="sequence[bbox]", coords={"type": "pixel", "mode": "LTWH"})
        ds.create_tensor("labels", htype="sequence[class_label]", class_names=["ball", "late ball"])
        names = ["middle", "top"]
        ds.create_tensor("pose", htype="sequence[keypoints_coco]", keypoints=names, connections=[[0, 1]])
        ds.create_tensor("disc", htype="sequence[binary_mask]", sample_compression="lz4")
        for row in range(rows):
            ground = photo(300 + row, width, height)[0] // 3
            cells: dict[str, list[Any]] = {name: [] for name in ds.tensors}
            for at in range(frames):
                x, y = ball(at, frames)
                edges = (x - SIDE, y - SIDE, x + SIDE - 1, y + SIDE - 1)
                image, disc = Image.fromarray(ground), Image.new("1", FILM)
                ImageDraw.Draw(image).ellipse(edges, fill=(250, 250, 250))
                ImageDraw.Draw(disc).ellipse(edges, fill=1)
                cells["film"].append(np.asarray(image))
                cells["boxes"].append(np.array([[*edges[:2], 2 * SIDE, 2 * SIDE]], np.float32))
                cells["labels"].append(np.array([2 * at // frames], np.uint32))
                cells["pose"].append(np.array([[x], [y], [2], [x], [y - SIDE], [2]], np.int32))
                cells["disc"].append(np.asarray(disc)[:, :, None])
            shots = cells.pop("film")
            stored = lakebed.read(film(shots)) if is_film else [lakebed.read(jpeg(one)) for one in shots]
            ds.append({"film": stored, **cells})


def sound(pitch: float, seconds: float = 2.0, rate: int = 16000) -> bytes:
    """Encode a fading tone as a WAV file."""
    times = np.arange(int(seconds * rate)) / rate
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((20000 * np.exp(-times) * np.sin(2 * np.pi * pitch * times)).astype("<i2").tobytes())
    return out.getvalue()


def pictures(path: Path) -> None:
    """Write images of every form: channels, depths, numbers, orientations, empty; a scan and a large one in tiles."""
    ds = lakebed.empty(str(path), overwrite=True)
    ramp = (
        np.linspace(0, 1, 96, dtype=np.float32)[None, :] * np.linspace(0.2, 1, 64, dtype=np.float32)[:, None]
    )
    with ds:
        ds.create_tensor("any", htype="image", sample_compression="png")
        for channels in (1, 2, 3, 4):
            ds.any.append(np.repeat((ramp * 255).astype(np.uint8)[:, :, None], channels, 2))
        ds.any.append(None)
        ds.create_tensor("deep", htype="image", dtype="uint16", sample_compression=None)
        ds.create_tensor("numbers", htype="generic", dtype="float32")
        ds.create_tensor("stack", htype="generic", dtype="int16")
        ds.create_tensor("large", htype="image", sample_compression="jpeg", tiling_threshold=1 << 20)
        for row in range(5):
            ds.deep.append((ramp * (3000 if row % 2 else 65535)).astype(np.uint16)[:, :, None])
            ds.numbers.append(
                np.where(ramp > 0.9, np.nan, ramp * 10 - 3) if row else np.zeros((0, 5), np.float32)
            )
            ds["stack"].append((np.arange(6 * 32 * 48).reshape(6, 32, 48) % 400 - 200).astype(np.int16))
        big = np.kron(photo(7, 400, 300)[0], np.ones((8, 8, 1), np.uint8))
        for _ in range(5):
            ds.large.append(big)


def scans(path: Path, rows: int = 3) -> None:
    """Write slices of a made-up head as DICOM files with a window of their own, and volumes as NIfTI files."""
    ds = lakebed.empty(str(path), overwrite=True)
    with ds:
        ds.create_tensor("slices", htype="dicom", sample_compression="dcm")
        ds.create_tensor("volume", htype="nifti", sample_compression="nii")
        ds.create_tensor("kind", htype="text")
        for row in range(rows):
            values = head(row)
            tags = {"WindowCenter": 40, "WindowWidth": 160, "RescaleSlope": 1, "RescaleIntercept": -1024}
            ds.append(
                {
                    "slices": lakebed.read(
                        dicom(values + 1024, frames=len(values), **({} if row == 2 else tags))
                    ),
                    "volume": lakebed.read(nifti(values.transpose(1, 2, 0))),
                    "kind": ["with a window", "with a window", "without one"][row % 3],
                }
            )


def head(seed: int, slices: int = 24, size: int = 160) -> NDArray[np.int16]:
    """Return Hounsfield units of (slices, rows, columns): air, a skull, a brain, and a bright spot in the middle."""
    draws = np.random.default_rng(seed)
    z, y, x = np.meshgrid(*(np.linspace(-1, 1, side) for side in (slices, size, size)), indexing="ij")
    near = np.sqrt((x / 0.72) ** 2 + (y / 0.9) ** 2 + (z / 1.05) ** 2)
    found = np.full(near.shape, -1000.0)
    found[near < 1] = 1100
    found[near < 0.9] = 36
    found += np.where(near < 0.9, 10 * np.sin(9 * x) * np.cos(7 * y + 3 * z), 0)
    found[np.sqrt(((x - 0.12) / 0.1) ** 2 + ((y + 0.05) / 0.25) ** 2 + z**2) < 1] = 5
    found[np.sqrt((x + 0.25) ** 2 + (y - 0.2) ** 2 + (z - 0.1) ** 2) < 0.14] = 75
    return (found + draws.normal(0, 5, found.shape)).astype(np.int16)


def many(path: Path, rows: int, size: int = 96) -> None:
    """Write so many small photos, a thousand different ones, with a label and a number each."""
    files = [lakebed.read(jpeg(photo(one, size, size)[0])) for one in range(1000)]
    ds = lakebed.empty(str(path), overwrite=True)
    with ds:
        ds.create_tensor("images", htype="image", sample_compression="jpeg")
        ds.create_tensor("labels", htype="class_label", class_names=CLASSES)
        ds.create_tensor("number", dtype="int64")
        for start in range(0, rows, 10_000):
            count = min(10_000, rows - start)
            ds.images.extend([files[(start + at) % 1000] for at in range(count)])
            ds.labels.extend(np.arange(start, start + count, dtype=np.uint32)[:, None] % len(CLASSES))
            ds.number.extend(np.arange(start, start + count))


def lake(root: Path) -> None:
    """Write all of them but the large one into a folder."""
    street(root / "street")
    table(root / "crm" / "users")
    moving(root / "moving")
    pictures(root / "pictures")
    lakebed.empty(str(root / "nothing"), overwrite=True).flush()
