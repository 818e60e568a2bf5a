"""Arrow columns of bytes and of addresses, as samples of tensors of files, bytes and links."""

import io
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import lakebed
from lakebed.errors import SampleAppendError
from unit_tests.effort import examples

_numbers = count()


def tensor(**settings: Any) -> lakebed.Tensor:
    dataset = lakebed.empty(f"mem://arrow-files-{next(_numbers)}")
    dataset.add_creds_key("KEY")
    return dataset.create_tensor("t", **settings)


def image(height: int, form: str = "JPEG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((height, 8, 3), height, np.uint8)).save(file, form)
    return file.getvalue()


def some(array: pa.Array) -> list[Any]:
    """Return an array as it is, as a part of another one, in chunks."""
    longer = pa.concat_arrays([array[:1], array, array[:1]])
    halves = pa.chunked_array([array[: len(array) // 2], array[len(array) // 2 :]], array.type)
    return [array, longer.slice(min(len(array), 1), len(array)), halves]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@settings(max_examples=examples(30))
@given(rows=st.lists(st.none() | st.binary(max_size=9), max_size=8))
def test_bytes_are_samples_of_uint8(kind: pa.DataType, rows: list[bytes | None]) -> None:
    for values in some(pa.array(rows, kind)):
        bytes_of = tensor(htype="generic", dtype="uint8")
        bytes_of.extend(values)
        assert [sample.tobytes() for sample in bytes_of.numpy(aslist=True)] == [row or b"" for row in rows]
        assert (bytes_of.null_mask() is not None) == (None in rows)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_files_of_the_compression_of_the_tensor_are_stored_as_they_are(kind: pa.DataType) -> None:
    rows = [image(3), None, image(5), b"", image(4, "PNG")]
    for values in some(pa.array(rows, kind)):
        images = tensor(htype="image", sample_compression="jpeg")
        images.extend(values)
        assert [images[row].tobytes() == rows[row] for row in (0, 2, 4)] == [True, True, False]
        assert [sample.shape[0] for sample in images.numpy(aslist=True)] == [3, 0, 5, 0, 4]


def test_bytes_below_a_null_are_nobodys() -> None:
    offsets = pa.py_buffer(np.array([0, 3, 6, 9], np.int32))
    buffers = [pa.py_buffer(b"\x05"), offsets, pa.py_buffer(b"abcXYZdef")]
    array = pa.Array.from_buffers(pa.binary(), 3, buffers)
    for compression in (None, "lz4"):
        bytes_of = tensor(htype="generic", dtype="uint8", chunk_compression=compression)
        bytes_of.extend(array)
        assert [sample.tobytes() for sample in bytes_of.numpy(aslist=True)] == [b"abc", b"", b"def"]


def test_a_damaged_file_takes_no_row_in() -> None:
    images = tensor(htype="image", sample_compression="jpeg")
    with pytest.raises(SampleAppendError):
        images.extend(pa.array([image(3), b"no picture"]))
    assert len(images) == 0


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_bytes_do_not_go_into_other_numbers(dtype: str) -> None:
    with pytest.raises(SampleAppendError, match="uint8"):
        tensor(htype="generic", dtype=dtype).extend(pa.array([b"abc"]))


def test_addresses_are_links_with_the_names_of_their_credentials() -> None:
    paths = ["https://e.org/1", None, "s3://b/2"]
    linked: dict[str, Any] = {"htype": "link[image]", "sample_compression": "jpeg", "verify": False}
    for values in some(pa.array(paths)):
        links = tensor(**linked)
        links.extend(values)
        assert [path[0] for path in links.path()] == [path or "" for path in paths]
    keyed = pa.StructArray.from_arrays(
        [pa.array(["https://e.org/1", "hidden", "s3://b/2"]), pa.array(["KEY", "KEY", None])],
        ["path", "creds_key"],
        mask=pa.array([False, True, False]),
    )
    for values in some(keyed):
        links = tensor(**linked)
        links.extend(values)
        assert [path[0] for path in links.path()] == [path or "" for path in paths]
        assert [links[row].creds_key() for row in range(3)] == ["KEY", None, None]
