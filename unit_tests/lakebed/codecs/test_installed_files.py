"""Files that other packages ship to test themselves with: each is stored byte for byte and decoded as they decode it.

Pillow, laspy and PyAV ship none in their wheels; should they begin to, the files are tried as well. What can not be
taken is listed here with its reason, and the lists are kept short by a test, too.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import nibabel
import numpy as np
import pydicom
import pytest

import lakebed
from lakebed.codecs import registry
from lakebed.errors import LakebedError

PACKAGES = ("pydicom", "nibabel", "laspy", "PIL", "av")

OF_OTHER_KINDS = {
    "*.PAR": "Philips PAR/REC scans are no kind of file of the format",
    "*.REC": "Philips PAR/REC scans",
    "*.HEAD": "AFNI scans",
    "*.BRIK*": "AFNI scans",
    "*.mnc": "MINC scans",
    "*.mgz": "FreeSurfer scans",
    "*.v": "ECAT scans",
    "*.t?k": "tracks of fibres",
    "*/tests/data/*.hdr": "the header of a scan in two files, without the data",
    "*.icc": "a colour profile",
    "*/zipMR.gz": "a gzip file with a DICOM file in it",
    "*.dcm.gz": "a gzip file with a DICOM file in it",
    "*.bin.gz": "a gzip file with a piece of a DICOM file in it",
    "*.gii*": "surfaces of a brain",
    "*.nc": "NetCDF tables",
    "*/nicom/tests/data/*.bin": "a piece of a DICOM file",
    "*/gifti/tests/data/*.dat": "a piece of a surface",
    "*.dump": "text",
    "*.ini": "text",
    "*.gitignore": "text",
    "*.m": "source code",
    "*.[ch]": "source code",
    "*.rst": "text",
    "*README": "text",
}
NO_PICTURE = {
    "*/DICOMDIR*": "a directory of other files",
    "*/TINY_ALPHA/*": "made for directories, without pixels",
    "*/palettes/*": "colours only",
    "*/charset_files/chrSQEncoding*": "names only",
    "*/no_meta.dcm": "without the DICM mark, which the standard asks for",
    "*/ExplVR_*EndNoMeta.dcm": "without the DICM mark",
    "*/rtstruct.dcm": "without the DICM mark",
    "*/badVR.dcm": "an invalid number where a number must be",
    "*/meta_missing_tsyntax.dcm": "header only",
    "*/UN_sequence.dcm": "a sequence only",
    "*/*priv_SQ.dcm": "a sequence only",
    "*/empty_charset_LEI.dcm": "names only",
    "*/no_meta_group_length.dcm": "names only",
    "*/report*.dcm": "a report",
    "*/test-SR.dcm": "a report",
    "*/rtplan*.dcm": "a plan of treatment",
    "*/waveform_ecg.dcm": "curves",
}


def _files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*")):
            code = (".py", ".pyc", ".pyi", ".so", ".pxd", ".typed", ".txt", ".md", ".json")
            if path.is_file() and path.suffix not in code:
                yield f"{package}/{path.relative_to(root)}", path


def _listed(name: str, patterns: dict[str, str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """pydicom tells of every file in what it breaks the standard."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def _htype(kind: str) -> str:
    for names, htype in (
        (registry.DICOM_NAMES, "dicom"),
        (registry.NIFTI_NAMES, "nifti"),
        (registry.POINT_CLOUD_NAMES, "point_cloud"),
        (registry.MESH_NAMES, "mesh"),
        (registry.VIDEO_NAMES, "video"),
        (registry.AUDIO_NAMES, "audio"),
    ):
        if kind in names:
            return htype
    return "image"


def test_every_file_is_stored_as_it_is_and_decoded_as_its_package_decodes_it(tmp_path: Path) -> None:
    """All that are pictures by the standard, in one dataset, whatever package wrote them."""
    ds = lakebed.empty(tmp_path / "ds")
    stored: dict[str, list[Path]] = {}
    refused = []
    with ds:
        for name, path in _files():
            if _listed(name, OF_OTHER_KINDS) or _listed(name, NO_PICTURE):
                continue
            try:
                sample = lakebed.read(path)
                kind = sample.compression
                rank = len(sample.shape)  # the samples of a tensor agree in it
                tensor = f"{kind.replace('.', '_')}_{rank}"
                if tensor not in stored:
                    ds.create_tensor(tensor, htype=_htype(kind), sample_compression=kind)
                    stored[tensor] = []
                ds[tensor].append(sample)
                stored[tensor].append(path)
            except LakebedError as error:
                refused.append(f"{name}: {error}")
    assert not refused, "\n".join(refused)
    ds = lakebed.load(ds.path, read_only=True)
    for tensor, paths in stored.items():
        for row, path in enumerate(paths):
            assert ds[tensor][row].tobytes() == path.read_bytes(), path
            _compare(ds[tensor][row], ds[tensor].meta.sample_compression, path)
    assert len(stored["dcm_3"] + stored["dcm_4"]) > 90
    assert sum(len(paths) for tensor, paths in stored.items() if tensor.startswith("nii")) > 6


def _compare(tensor: lakebed.Tensor, kind: str, path: Path) -> None:
    """Decode a row as the package does that ships it; where that can not, the row says so, too."""
    try:
        if kind == "dcm":
            expected = pydicom.dcmread(path).pixel_array
        elif kind in registry.NIFTI_NAMES:
            expected = np.asanyarray(nibabel.load(path).dataobj)
        else:
            tensor.numpy()
            return
    except (AttributeError, RuntimeError, ValueError, NotImplementedError):
        with pytest.raises(LakebedError):
            tensor.numpy()
        return
    found = tensor.numpy()
    assert found.size == expected.size, path
    np.testing.assert_array_equal(found.reshape(expected.shape), expected, str(path))


def test_what_is_listed_as_refused_is_refused() -> None:
    """Nothing is on the lists that could be stored; a file without a picture is told to be one."""
    for name, path in _files():
        if not (_listed(name, OF_OTHER_KINDS) or _listed(name, NO_PICTURE)):
            continue
        with pytest.raises(LakebedError) as caught:
            pytest.fail(f"{name} has the shape {lakebed.read(path).shape}")
        if "/DICOMDIR" in name:
            assert "the DICOM file has no picture; it may be a directory" in str(caught.value)
