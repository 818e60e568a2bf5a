"""The published script that makes a dataset of COCO with checkpoints, on the real ``pycocotools.coco.COCO`` and S3.

Pictures lie in one bucket and are linked from a dataset in another. Changed are names that the script misspells or
leaves open, the endpoint of the store, and how many there are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from PIL import Image

import lakebed as deeplake
from integration_tests.stores.servers import Server, copy_folder

coco_api = pytest.importorskip("pycocotools.coco", reason="needs pycocotools: pip install pycocotools")

COUNT = 23
PIXELS = (24, 32)
CATEGORIES = [{"id": 7, "name": "cat"}, {"id": 3, "name": "dog"}]
OUTLINES: list[Any] = [
    [[2, 2, 12, 2, 12, 9, 2, 9]],
    [[2, 2, 6, 2, 6, 6], [20.5, 10, 30, 10, 30, 20.25, 20.5, 20]],
    {"size": list(PIXELS), "counts": [30, 100, 638]},
]


@pytest.fixture
def coco_bucket(moto: Server, tmp_path: Path) -> str:
    """A bucket with pictures and their annotations: polygons, crowds as numbers and as text, pictures without any."""
    from pycocotools import mask

    packed = mask.frPyObjects(OUTLINES[2], *PIXELS)
    outlines = [*OUTLINES, {**packed, "counts": packed["counts"].decode()}]
    images = [{"id": 100 + n, "file_name": f"{n:012}.jpg", "height": 24, "width": 32} for n in range(COUNT)]
    annotations = [
        {"image_id": image["id"], "bbox": [n, 2, 10, 7.5], "segmentation": outlines[n], "area": 70.0,
         "category_id": CATEGORIES[n % 2]["id"], "iscrowd": int(n > 1)}
        for at, image in enumerate(images) for n in range(at % 5)
    ]  # fmt: skip
    annotations = [{"id": number, **one} for number, one in enumerate(annotations, 1)]
    folder = tmp_path / "coco"
    (folder / "train2017").mkdir(parents=True)
    (folder / "annotations").mkdir()
    for at, image in enumerate(images):
        picture = Image.fromarray(np.full((*PIXELS, 3), 8 * at, np.uint8))
        picture.save(folder / "train2017" / str(image["file_name"]), quality=95)
    content = {"images": images, "annotations": annotations, "categories": CATEGORIES}
    (folder / "annotations/instances_train2017.json").write_text(json.dumps(content))
    name = moto.new_bucket()
    copy_folder(moto, folder, f"s3://{name}/coco")
    return name


@deeplake.compute
def coco_2_deeplake(
    img_id: int,
    sample_out: Any,
    coco_api: Any,
    category_names: Any,
    category_info: Any,
    bucket: str,
    creds_key: str,
) -> None:
    anns = coco_api.loadAnns(coco_api.getAnnIds(img_id))
    img_coco = coco_api.loadImgs(img_id)[0]
    # First create empty arrays for all annotations
    categories = np.zeros((len(anns)), dtype=np.uint32)
    boxes = np.zeros((len(anns), 4), dtype=np.float32)
    masks = np.zeros((img_coco["height"], img_coco["width"], len(anns)), dtype=bool)
    # Then populate the arrays with the annotations data
    for i, ann in enumerate(anns):
        mask = coco_api.annToMask(ann)  # Convert annotation to binary mask
        masks[:, :, i] = mask
        boxes[i, :] = ann["bbox"]
        # Find the deep lake category_names index from the coco category_id
        names = [info["name"] for info in category_info if info["id"] == ann["category_id"]]
        categories[i] = category_names.index(names[0])
    # Append the data to a deeplake sample
    sample_out.append({"images": deeplake.link("s3://{}/coco/train2017/{}".format(bucket, img_coco["file_name"]), creds_key=creds_key),  # noqa: E501
                       "categories": categories,
                       "boxes": boxes,
                       "masks": masks})  # fmt: skip


@pytest.mark.parametrize("scheduler", [pytest.param("threaded", marks=pytest.mark.soak), "processed"])
def test_the_script_makes_what_coco_says(
    moto: Server, coco_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    creds, creds_key = moto.creds, "coco_creds"
    monkeypatch.setenv("LAKEBED_CREDS_COCO_CREDS", json.dumps(creds))
    deeplake_bucket = moto.new_bucket()
    s3 = boto3.resource("s3", endpoint_url=moto.endpoint, region_name="us-east-1",
                        aws_access_key_id=creds["aws_access_key_id"],
                        aws_secret_access_key=creds["aws_secret_access_key"])  # fmt: skip
    local_ann_path = str(tmp_path / "anns_train.json")
    s3.Bucket(coco_bucket).download_file("coco/annotations/instances_train2017.json", local_ann_path)
    s3.meta.client.close()
    coco = coco_api.COCO(local_ann_path)
    category_info = coco.loadCats(coco.getCatIds())

    ds = deeplake.empty(f"s3://{deeplake_bucket}/coco-train", creds=creds, overwrite=True)
    with pytest.warns(UserWarning, match="org_id"):
        ds.connect(org_id="org", creds_key=creds_key, token="token")
    ds.add_creds_key(creds_key, managed=True)
    category_names = [category["name"] for category in category_info]
    with ds:
        ds.create_tensor("images", htype="link[image]", sample_compression="jpg")
        ds.create_tensor("categories", htype="class_label", class_names=category_names)
        ds.create_tensor("boxes", htype="bbox")
        ds.create_tensor("masks", htype="binary_mask", sample_compression="lz4")

    img_ids = sorted(coco.getImgIds())
    coco_2_deeplake(
        coco_api=coco,
        bucket=coco_bucket,
        category_names=category_names,
        category_info=category_info,
        creds_key=creds_key,
    ).eval(img_ids, ds, num_workers=8, checkpoint_interval=10, scheduler=scheduler, progressbar=False)

    found = deeplake.load(
        f"s3://{deeplake_bucket}/coco-train", read_only=True, creds={"creds_key": creds_key}
    )
    assert len(found) == found.max_len == COUNT
    messages = [commit["message"] for commit in found.commits]
    assert "Auto-commit during deeplake.compute of coco_2_deeplake after 43.48% progress" in messages
    for row, img_id in enumerate(img_ids):
        anns = coco.loadAnns(coco.getAnnIds(img_id))
        assert len(anns) == row % 5
        assert found.boxes[row].numpy().tolist() == [one["bbox"] for one in anns]
        names = {one["id"]: one["name"] for one in CATEGORIES}
        assert found.categories[row].data()["text"] == [names[one["category_id"]] for one in anns]
        masks = found.masks[row].numpy()
        assert masks.shape == (*PIXELS, len(anns))
        for layer, one in enumerate(anns):
            assert np.array_equal(masks[..., layer], coco.annToMask(one).astype(bool))
        assert masks.any(axis=(0, 1)).all()
    picture = found.images[COUNT - 1]
    assert picture.creds_key() == creds_key
    assert np.abs(picture.numpy().astype(int) - 8 * (COUNT - 1)).max() < 4
    # The importer reads the same masks of the same bucket: counts as numbers and as text.
    report = deeplake.import_from(
        "coco", f"s3://{coco_bucket}/coco", "mem://", src_creds=creds, progressbar=False, strict=True
    )
    for row in range(COUNT):
        crowds = report.dataset.rle_object[row].numpy().tolist()
        assert crowds == [at for at in (2, 3) if at < row % 5]
        if crowds:
            assert np.array_equal(report.dataset.rle_mask[row].numpy(), found.masks[row].numpy()[..., crowds])
