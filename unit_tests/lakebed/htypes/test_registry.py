"""The table of htypes and the wrappers around them."""

from __future__ import annotations

import pytest

from lakebed.errors import InvalidInputError, TensorMetaInvalidHtype
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import HTYPES, full_name, htype_named, parse_htype


def test_every_htype_of_the_format_is_known() -> None:
    """The names of format.md 3.1."""
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
    with pytest.raises(TensorMetaInvalidHtype, match=r"'no'.*generic"):
        htype_named("no")


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        (None, (None, False, False)),
        ("unspecified", (None, False, False)),
        ("image.rgb", ("image.rgb", False, False)),
        ("sequence", (None, True, False)),
        ("sequence[]", (None, True, False)),
        ("sequence[generic]", ("generic", True, False)),
        ("sequence[bbox.3d]", ("bbox.3d", True, False)),
        ("link[image]", ("image", False, True)),
        ("sequence[link[image]]", ("image", True, True)),
        ("link[sequence[image]]", ("image", True, True)),
    ],
)
def test_wrappers_are_taken_off(name: str | None, parsed: tuple[str | None, bool, bool]) -> None:
    """Both orders of sequence and link mean the same; a bare sequence waits for its first sample."""
    assert parse_htype(name) == parsed
    base, is_sequence, is_link = parsed
    if base is not None:
        assert parse_htype(full_name(base, is_sequence=is_sequence, is_link=is_link)) == parsed


@pytest.mark.parametrize(
    "name",
    ["Image", "image[", "image]", "sequence[image", "list[image]", "mesh[]", " image", "link[None]",
     "sequence[sequence[image]]", "link[link[image]]", "sequence[link[sequence[image]]]"],
)  # fmt: skip
def test_what_is_no_htype_is_refused(name: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(TensorMetaInvalidHtype):
        parse_htype(name)


@pytest.mark.parametrize(
    "name", ["link", "link[]", "link[generic]", "sequence[link]", "link[sequence]", "sequence[tag]"]
)
def test_wrappings_that_make_no_sense_are_refused(name: str) -> None:
    """Links need to know what they lead to, and tags are many to begin with."""
    with pytest.raises(InvalidInputError):
        parse_htype(name)


def test_names_of_wrapped_htypes() -> None:
    """As 3.9.52 prints them."""
    assert full_name("image", is_sequence=True, is_link=True) == "link[sequence[image]]"
    assert full_name(None, is_sequence=True, is_link=False) == "sequence[None]"
    assert full_name(None, is_sequence=False, is_link=False) is None
