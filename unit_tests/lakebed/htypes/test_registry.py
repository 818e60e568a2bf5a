"""The table of htypes."""

from __future__ import annotations

import pytest

from lakebed.errors import TensorMetaInvalidHtype
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import HTYPES, htype_named, writable_htype


def test_every_htype_of_the_format_is_known() -> None:
    """The names of FORMAT.md 3.1."""
    assert set(HTYPES) == set(
        """generic image image.rgb image.gray class_label tag bbox bbox.3d video binary_mask instance_label segment_mask
        keypoints_coco point audio text json list dicom nifti point_cloud intrinsics polygon mesh embedding""".split()
    )


def test_none_is_generic() -> None:
    """A tensor whose first sample has not come yet behaves like a generic one."""
    assert htype_named(None).name == "generic"
    assert htype_named(None).storing is Storing.ARRAY


def test_unknown_htypes_are_named_in_the_error() -> None:
    """The message tells what can be chosen."""
    for find in (htype_named, writable_htype):
        with pytest.raises(TensorMetaInvalidHtype, match=r"'no'.*generic"):
            find("no")


@pytest.mark.parametrize(
    "name", ["image", "bbox", "tag", "video", "sequence[text]", "link[image]", "sequence"]
)
def test_htypes_that_this_release_does_not_write_are_refused(name: str) -> None:
    """Nothing half-right is written; the message lists what can be."""
    with pytest.raises(TensorMetaInvalidHtype, match=r"generic|choose"):
        writable_htype(name)
    assert [h.name for h in HTYPES.values() if h.writable] == [
        "generic",
        "text",
        "json",
        "list",
        "class_label",
    ]
