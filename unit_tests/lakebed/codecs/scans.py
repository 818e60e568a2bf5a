"""Small DICOM, NIfTI, LAS, PLY and STL files, made by the libraries of their fields when a test asks for them."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Callable
from typing import Any

import laspy
import nibabel
import numpy as np
import plyfile
import pydicom
from numpy.typing import NDArray
from pydicom.dataset import FileDataset, FileMetaDataset


def dicom(values: NDArray[Any], *, frames: int | None = None, **fields: Any) -> bytes:
    """A DICOM file of ([frames,] rows, columns[, 3]) pixels, not compressed."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = pydicom.uid.UID("1.2.840.10008.5.1.4.1.1.7")
    meta.MediaStorageSOPInstanceUID = pydicom.uid.UID("1.2.3")
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    dataset = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    pixels = values.shape[1:] if frames else values.shape
    dataset.Rows, dataset.Columns = pixels[:2]
    dataset.SamplesPerPixel = 3 if len(pixels) == 3 else 1
    dataset.PhotometricInterpretation = "RGB" if len(pixels) == 3 else "MONOCHROME2"
    if len(pixels) == 3:
        dataset.PlanarConfiguration = 0
    if frames:
        dataset.NumberOfFrames = frames
    bits = values.dtype.itemsize * 8
    dataset.BitsAllocated = dataset.BitsStored = bits
    dataset.HighBit = bits - 1
    dataset.PixelRepresentation = int(values.dtype.kind == "i")
    for name, value in fields.items():
        setattr(dataset, name, value)
    dataset.PixelData = values.tobytes() + bytes(values.nbytes % 2)
    target = io.BytesIO()
    dataset.save_as(target, enforce_file_format=True)
    return target.getvalue()


def nifti(values: NDArray[Any], *, kind: type[Any] = nibabel.Nifti1Image, stored: str | None = None) -> bytes:
    """A NIfTI file, its values scaled to the dtype ``stored`` if that is given."""
    image = kind(values, np.diag([2.0, 3.0, 4.0, 1.0]))
    if stored is not None:
        image.set_data_dtype(stored)
    data: bytes = image.to_bytes()
    return data


def gzipped(data: bytes) -> bytes:
    """The file, compressed."""
    return gzip.compress(data)


def las(points: int, point_format: int = 2, version: str = "1.2", extra: str | None = None) -> bytes:
    """A LAS file of points (i + 1.5, 2 i, 3 i) with intensities and, where the format has them, colours."""
    header = laspy.LasHeader(point_format=point_format, version=version)
    header.scales, header.offsets = [0.01] * 3, [10, 20, 30]
    if extra:
        header.add_extra_dim(laspy.ExtraBytesParams("extra", extra))
    cloud = laspy.LasData(header)
    steps = np.arange(points)
    cloud.x, cloud.y, cloud.z = steps + 11.5, steps * 2.0, steps * 3.0
    cloud.intensity = steps
    cloud.classification = steps % 5
    cloud.red = steps * 10
    target = io.BytesIO()
    cloud.write(target)
    return target.getvalue()


def ply(
    faces: list[list[int]] | None, *, text: bool = False, order: str = "<", comments: tuple[str, ...] = ()
) -> bytes:
    """A PLY file of four coloured vertices and these faces."""
    vertices = np.array(
        [(0, 0, 0, 255, 0, 0), (1, 0, 0, 0, 255, 0), (0, 1, 0, 0, 0, 255), (0.5, 1, 1, 1, 2, 3)],
        dtype=[("x", "f4"), ("y", "f4"), ("z", "f4"), ("red", "u1"), ("green", "u1"), ("blue", "u1")],
    )
    elements = [plyfile.PlyElement.describe(vertices, "vertex")]
    if faces is not None:
        table = np.empty(len(faces), dtype=[("vertex_indices", "O"), ("shade", "u1")])
        table["vertex_indices"] = [np.array(face, dtype="i4") for face in faces]
        table["shade"] = np.arange(len(faces))
        elements.append(plyfile.PlyElement.describe(table, "face"))
    target = io.BytesIO()
    plyfile.PlyData(elements, text=text, byte_order=order, comments=comments).write(target)
    return target.getvalue()


def stl(corners: NDArray[np.float32], name: bytes = b"a mesh") -> bytes:
    """A binary STL file."""
    body = b"".join(bytes(12) + c.astype("<f4").tobytes() + b"\0\0" for c in corners)
    return name.ljust(80, b"\0") + struct.pack("<I", len(corners)) + body


def text_stl(corners: NDArray[np.float32], name: str = "a mesh") -> bytes:
    """A text STL file."""
    write: Callable[[Any], str] = lambda point: " ".join(f"{value:.9g}" for value in point)  # noqa: E731
    lines = [f"solid {name}"]
    for triangle in corners:
        lines += ["facet normal 0 0 1", "  outer loop", *(f"    vertex {write(p)}" for p in triangle)]
        lines += ["  endloop", "endfacet"]
    return ("\n".join([*lines, f"endsolid {name}", ""])).encode()
