"""Another htype for a tensor that has samples."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    IncompatibleHtypeError,
    InvalidInputError,
    TensorMetaInvalidHtype,
    UnsupportedCompressionError,
)
from lakebed.htypes.change_htype import converted


def tensor(
    shape: tuple[int, ...], dtype: str = "float32", htype: str | None = "generic", **rest: Any
) -> TensorMeta:
    """A tensor of one sample."""
    return TensorMeta(length=1, htype=htype, dtype=dtype, min_shape=shape, max_shape=shape, **rest)


# What 3.9.52 allows for one sample of this shape and dtype.
ALLOWED = {
    ((2, 4), "float32"): "image bbox binary_mask instance_label segment_mask embedding",
    ((2, 8), "float32"): "image bbox.3d binary_mask instance_label segment_mask embedding",
    ((4, 5, 3), "uint8"): "image binary_mask instance_label segment_mask",
    ((3,), "uint32"): "class_label instance_label",
    ((6, 2), "int32"): "image binary_mask instance_label segment_mask keypoints_coco point",
    ((3, 3), "float32"): "image binary_mask instance_label segment_mask keypoints_coco point embedding",
    ((7,), "float32"): "class_label instance_label embedding",
    ((2, 4, 5, 3), "uint8"): "instance_label",
    ((20, 2), "float64"): "image binary_mask instance_label segment_mask point",
    ((4,), "float32"): "class_label bbox instance_label embedding",
}
CANDIDATES = """image class_label tag bbox bbox.3d binary_mask segment_mask instance_label keypoints_coco point
embedding""".split()


@pytest.mark.parametrize(("shape", "dtype"), ALLOWED)
def test_shape_and_dtype_decide(shape: tuple[int, ...], dtype: str) -> None:
    """Only the htype changes; samples, settings and info stay."""
    meta, info = tensor(shape, dtype), {"mine": 1}
    for htype in CANDIDATES:
        if htype in ALLOWED[shape, dtype].split():
            assert converted(meta, info, htype) == (meta.with_(htype=htype), info)
        else:
            with pytest.raises(IncompatibleHtypeError, match="Incompatible"):
                converted(meta, info, htype)


@pytest.mark.parametrize(
    ("meta", "htype", "error"),
    [
        (tensor((2, 4)), "text", NotImplementedError),
        (tensor((2, 4)), "generic", NotImplementedError),
        (tensor((2, 4)), "image.rgb", NotImplementedError),
        (tensor((2, 4), htype=None), "bbox", NotImplementedError),
        (tensor((2, 4), htype="bbox"), "image", NotImplementedError),
        (tensor((2, 4), is_sequence=True), "bbox", NotImplementedError),
        (tensor((2, 4), is_link=True, htype="image"), "bbox", NotImplementedError),
        (tensor((2, 4)), "sequence[image]", InvalidInputError),
        (tensor((2, 4)), "link[image]", InvalidInputError),
        (tensor((2, 4)), "no", TensorMetaInvalidHtype),
        (tensor((2, 4)), None, TensorMetaInvalidHtype),
        (
            tensor((4, 5, 3), htype="image", sample_compression="png"),
            "embedding",
            UnsupportedCompressionError,
        ),
    ],
    ids=str,
)
def test_other_changes_are_refused(meta: TensorMeta, htype: Any, error: type[Exception]) -> None:
    """With the errors of 3.9.52."""
    with pytest.raises(error):
        converted(meta, {}, htype)
