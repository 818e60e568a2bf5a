"""Photos in one bucket, linked from a dataset in another by credentials with a name; labels, boxes and masks.

The way in which large sets of annotated photos are published: a function on several workers, with checkpoints, that
fails in the middle and is run again.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from integration_tests.stores.servers import Server
from lakebed.errors import TransformError
from lakebed.storage.url import open_storage, parse

NAMES = ["cat", "dog", "emu"]
COUNT = 30


def photo(number: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.full((24 + number % 3, 32, 3), 8 * number % 256, np.uint8)


@pytest.fixture
def bucket(moto: Server) -> str:
    """A bucket with photos."""
    name = moto.new_bucket()
    storage = open_storage(parse(f"s3://{name}", creds=moto.creds))
    for number in range(COUNT):
        file = io.BytesIO()
        Image.fromarray(photo(number)).save(file, "JPEG", quality=95)
        storage.put(f"train/{number:05}.jpg", file.getvalue())
    return name


@lakebed.compute
def annotated(number: int, sample_out: Any, bucket: str, creds_key: str, flag: str) -> None:
    """A photo with as many objects as its number says."""
    if number == 17 and not Path(flag).exists():
        raise OSError("upload error")
    height, width = photo(number).shape[:2]
    objects = number % 4
    masks = np.zeros((height, width, objects), bool)
    for i in range(objects):
        masks[i : i + 5, :10, i] = True
    sample_out.append(
        {
            "images": lakebed.link(f"s3://{bucket}/train/{number:05}.jpg", creds_key=creds_key),
            "categories": np.arange(objects, dtype=np.uint32) % 3,
            "boxes": np.array([[0, i, 10, 5] for i in range(objects)], np.float32).reshape(-1, 4),
            "masks": masks,
        }
    )


@pytest.mark.parametrize("scheduler", ["threaded", pytest.param("processed", marks=pytest.mark.soak)])
def test_linked_photos_with_objects(
    moto: Server, bucket: str, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBED_CREDS_LAB", json.dumps(moto.creds))
    url, flag = moto.url("annotated"), tmp_path / "mended"
    ds = lakebed.empty(url, creds=moto.creds)
    with pytest.warns(UserWarning, match="org_id and ds_name have no meaning"):
        ds.connect(creds_key="lab", org_id="org", token="token")
    ds.add_creds_key("lab", managed=True)
    with ds:
        ds.create_tensor("images", htype="link[image]", sample_compression="jpg")
        ds.create_tensor("categories", htype="class_label", class_names=NAMES)
        ds.create_tensor("boxes", htype="bbox")
        ds.create_tensor("masks", htype="binary_mask", sample_compression="lz4")
    numbers = list(range(COUNT))
    options: dict[str, Any] = {
        "num_workers": 2,
        "scheduler": scheduler,
        "checkpoint_interval": 5,
        "progressbar": False,
    }
    function = annotated(bucket=bucket, creds_key="lab", flag=str(flag))
    with pytest.raises(TransformError, match="Last checkpoint: 15 samples processed") as caught:
        function.eval(numbers, ds, **options)
    assert isinstance(caught.value.__cause__, OSError)

    flag.touch()
    again = lakebed.load(url, creds={"creds_key": "lab"})
    assert len(again) == 15
    assert function.eval(numbers, again, **options).resumed_at == 15

    found = lakebed.load(url, read_only=True, creds={"creds_key": "lab"})
    assert len(found) == found.max_len == COUNT
    assert found.commits[0]["message"] == (
        "Auto-commit during deeplake.compute of annotated after 83.33% progress"
    )
    for number in (0, 16, 29):
        assert found.images[number].creds_key() == "lab"
        assert np.abs(found.images[number].numpy().astype(int) - photo(number)).max() < 8
        assert found.boxes[number].numpy().shape == (number % 4, 4)
        assert found.masks[number].numpy().shape == (*photo(number).shape[:2], number % 4)
        assert found.categories[number].numpy().tolist() == [i % 3 for i in range(number % 4)]
