"""A dataset with something of everything, and whether two datasets are equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import lakebed
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named

ROWS = 24


@dataclass(frozen=True)
class Trip:
    """A format on its way out and in: options of the exporter, and tensors that it is known not to keep.

    ``lost`` are tensors that the report of the export must name; ``empties`` whether empty arrays keep their shapes.
    """

    format: str
    options: dict[str, Any] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    empties: bool = True
    suffix: str = ""

    def __str__(self) -> str:
        return "-".join([self.format, *map(str, self.options.values())])

    def there_and_back(self, ds: lakebed.Dataset, path: Path) -> tuple[Any, lakebed.Dataset]:
        """Export and import; return the report and the dataset."""
        out = path / f"out{self.suffix}"
        report = lakebed.export_to(self.format, ds, out, progressbar=False, workers=2, **self.options)
        back = lakebed.import_from(self.format, out, path / "back", progressbar=False, workers=1)
        assert back.skipped == 0, back
        return report, back.dataset


# Formats that keep everything but what is named; a new one is a line here, or, if it needs a package, in
# integration_tests/formats/test_round_trips.py.
TRIPS = (
    Trip("parquet", empties=False),
    Trip("huggingface", empties=False),
    Trip("webdataset", lost=("sequence/images",)),
    Trip("mds", empties=False),
)


def check(trip: Trip, ds: lakebed.Dataset, path: Path) -> None:
    """What comes back is what went out, but for what the report named."""
    report, back = trip.there_and_back(ds, path)
    assert (report.written, report.skipped) == (len(ds), 0)
    assert {where for where, _ in report.problems} == set(trip.lost)
    kept = [name for name in ds.tensors if name not in trip.lost]
    assert differences(back, ds, kept, empties=trip.empties) == []
    assert {name: list(view.sample_indices) for name, view in back.splits.items()} == {
        name: list(view.sample_indices) for name, view in ds.splits.items()
    }


def everything(path: Path) -> lakebed.Dataset:
    """Make a dataset with tensors of many kinds: nulls, empty samples, sequences, groups, splits."""
    rng = np.random.default_rng(0)
    ds = lakebed.empty(path)
    make = ds.create_tensor

    def filled(name: str, value: Any, **settings: Any) -> None:
        make(name, **settings).extend([value(row) for row in range(ROWS)])

    def some(value: Any) -> Any:
        return lambda row: None if row % 5 == 3 else value(row)

    def image(row: int) -> Any:
        return rng.integers(0, 255, (5, 6 + row % 3, 3), np.uint8)

    filled("images", some(image), htype="image", sample_compression="png")
    filled("photos", lambda row: image(row % 1), htype="image", sample_compression="jpeg")
    filled("raw", image, htype="image", sample_compression=None)
    filled("masks", lambda row: image(row)[..., :1] > 9, htype="binary_mask")
    filled("segments", lambda row: image(0)[..., 0].astype("u4"), htype="segment_mask")
    if find_spec("av"):
        filled("sound", lambda row: wav(row), htype="audio", sample_compression="wav")
    filled("label", lambda row: row % 2, htype="class_label", class_names=["cat", "dög"])
    filled("labels", lambda row: list(range(row % 3)), htype="class_label", class_names=["a", "b", "c"])
    filled("box/xy", lambda row: rng.random((row % 3, 4), np.float32), htype="bbox",
           coords={"type": "pixel", "mode": "LTRB"})  # fmt: skip
    filled("box/points", lambda row: np.full((4, row % 3), row, np.int32), htype="keypoints_coco",
           keypoints=["x"], connections=[[0, 1]])  # fmt: skip
    filled("polygons", some(lambda row: [rng.random((3 + at, 2), np.float32) for at in range(row % 3)]),
           htype="polygon")  # fmt: skip
    filled("text", some(lambda row: f'nº {row},\n"x"' if row % 4 else ""), htype="text")
    filled("about", some(lambda row: {"a": [row, None], "é": {}}), htype="json")
    filled("list", some(lambda row: [row, "x"][: row % 3]), htype="list")
    filled("tag", some(lambda row: ["x", "y"][: row % 3]), htype="tag")
    filled("embedding", some(lambda row: rng.random(4, np.float32)), htype="embedding")
    filled("number", some(lambda row: row - 7), dtype="int64")
    filled("share", some(lambda row: [0.1, np.nan, 1e300, -0.0][row % 4]), dtype="float64")
    filled("flag", some(lambda row: row % 2 == 0), dtype="bool")
    filled("even", some(lambda row: rng.random((2, 3), np.float32)), dtype="float32")
    filled("ragged", some(lambda row: rng.integers(0, 9, (row % 3, 2, row % 2), np.int16)), dtype="int16")
    filled("nothing", lambda _: None, dtype="float32")
    filled("sequence/boxes", lambda row: [rng.random((at, 4), np.float32) for at in range(row % 3)],
           htype="sequence[bbox]")  # fmt: skip
    filled("sequence/text", lambda row: ["a", ""][: row % 3], htype="sequence[text]")
    filled("sequence/images", lambda row: [image(at) for at in range(row % 3)], htype="sequence[image]",
           sample_compression="png")  # fmt: skip
    filled("größe", lambda row: np.float16(row / 2), dtype="float16")
    ds.info["about"] = {"by": "a test"}
    ds.save_split("train", slice(0, ROWS // 2))
    ds.save_split("val", slice(ROWS // 2, ROWS))
    ds.commit()
    return ds


def wav(row: int) -> Any:
    """Return a sound as a file."""
    import io
    import wave

    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.arange(10 + row, dtype="<i2").tobytes())
    return lakebed.read(out.getvalue())


def values_of(tensor: lakebed.Tensor) -> list[Any]:
    """Return what is in each row: bytes of files, values of all else, None for nulls."""
    compression = tensor.meta.sample_compression
    is_media = compression not in (None, "lz4") and htype_named(tensor.base_htype).storing is Storing.ARRAY
    if not is_media:
        return list(tensor.values())
    nulls = tensor.null_mask()
    found: list[Any] = []
    for row in range(len(tensor)):
        sample = tensor[row]
        if tensor.is_sequence:
            found.append([tensor[row, at].tobytes() for at in range(sample.shape[0] or 0)])
        elif (nulls is not None and nulls[row]) or 0 in sample.shape:
            found.append(None)
        else:
            found.append(_file(sample))
    return found


def _file(sample: lakebed.Tensor) -> Any:
    try:
        return sample.tobytes()
    except (NotImplementedError, lakebed.errors.InvalidInputError):  # it is cut into tiles
        return sample.numpy()


def same(found: Any, wanted: Any, empties: bool = True) -> bool:
    """Whether values are equal: dtypes, shapes (of empty arrays only if said so), and NaN too."""
    if isinstance(wanted, np.ndarray):
        if not isinstance(found, np.ndarray) or found.dtype != wanted.dtype:
            return False
        if not wanted.size and not empties:
            return not found.size
        return found.shape == wanted.shape and found.tobytes() == wanted.tobytes()
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(same(one, other, empties) for one, other in zip(found, wanted, strict=True))
        )
    if isinstance(wanted, dict):
        return (
            isinstance(found, dict)
            and found.keys() == wanted.keys()
            and all(same(found[key], wanted[key], empties) for key in wanted)
        )
    return type(found) is type(wanted) and bool(found == wanted)


def _same_pixels(one: lakebed.Tensor, other: lakebed.Tensor, row: int, found: Any, wanted: Any) -> bool:
    """Whether a sample that was cut into tiles is a file now, of the same pixels."""
    if not isinstance(found, bytes) or not isinstance(wanted, np.ndarray):
        return False
    return same(one[row].numpy(), other[row].numpy())


def differences(
    found: lakebed.Dataset, wanted: lakebed.Dataset, names: list[str] | None = None, *, empties: bool = True
) -> list[str]:
    """Return what of a dataset is not in another one as it was."""
    told: list[str] = []
    for name in list(wanted.tensors) if names is None else names:
        if name not in found.tensors:
            told.append(f"{name}: missing")
            continue
        one, other = found[name], wanted[name]
        facts = ((fact, getattr(one, fact), getattr(other, fact)) for fact in ("htype", "dtype"))
        told += [
            f"{name}: {fact} {is_}, not {was}"
            for fact, is_, was in facts
            if (is_ or "generic") != (was or "generic")
        ]
        info, said = dict(one.info), dict(other.info)
        told += [f"{name}: info {key}" for key in said if not same(info.get(key), said[key])]
        values, others = values_of(one), values_of(other)
        pairs = list(enumerate(zip(values, others, strict=False)))
        rows = [
            row
            for row, pair in pairs
            if not same(*pair, empties) and not _same_pixels(one, other, row, *pair)
        ]
        if len(values) != len(others):
            told.append(f"{name}: {len(values)} rows, not {len(others)}")
        if rows:
            told.append(f"{name}: rows {rows[:3]}: {values[rows[0]]!r:.60}, not {others[rows[0]]!r:.60}")
    return told


def golden_datasets_come_back(trip: Trip, golden: Path, path: Path, monkeypatch: Any) -> None:
    """Each dataset of 3.9.52 ends in a report or an error of ours; what the report does not name comes back."""
    monkeypatch.chdir(golden)
    monkeypatch.setattr(lakebed.config, "LINK_ROOTS", (str(golden),))
    seen = 0
    for expected in sorted(golden.glob("f*.expected.json")):
        name = expected.name.removesuffix(".expected.json")
        ds = lakebed.load(golden / name, read_only=True)
        (path / name).mkdir()
        try:
            report, back = trip.there_and_back(ds, path / name)
        except (lakebed.errors.ExportError, lakebed.errors.IngestionError, lakebed.errors.InvalidInputError):
            if ds.min_len:
                raise
            continue  # it has no rows
        told = {where for where, reason in report.problems if "of its" not in reason}
        kept = [one for one in ds.tensors if one not in told and (name[:3], one) not in _QUIRKS]
        assert differences(back, ds[: ds.min_len], kept, empties=trip.empties) == [], name
        seen += len(kept)
    assert seen > 100


# The shape of a gray image in a PNG chunk has an axis more than what is read; one that holds nothing has no dtype.
_QUIRKS = {("f04", "chunk_png_gray"), ("f16", "spi")}
