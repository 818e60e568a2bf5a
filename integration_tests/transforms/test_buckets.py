"""Worker processes read from a bucket and write to it themselves, by the credentials of the one that asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.stores.servers import Server
from lakebed.maintenance.verify import verify


@lakebed.compute
def halved(row: Any, out: Any) -> None:
    out.append({"im": row.im.numpy()[::2], "n": row.n.numpy()})


@pytest.mark.parametrize("scheduler", ["threaded", "processed"])
def test_from_bucket_to_bucket(moto: Server, scheduler: str) -> None:
    bucket = f"s3://{moto.new_bucket()}"
    source = lakebed.empty(f"{bucket}/from-{scheduler}", creds=moto.creds)
    source.create_tensor("im", htype="image", sample_compression="png")
    source.create_tensor("n")
    images = [np.full((20, 10 + i % 3, 3), i, np.uint8) for i in range(90)]
    source.extend({"im": images, "n": np.arange(90)})
    source.flush()
    ds = lakebed.empty(f"{bucket}/to-{scheduler}", creds=moto.creds)
    ds.create_tensor("im", htype="image", sample_compression="png")
    ds.create_tensor("n")
    halved().eval(source, ds, num_workers=2, scheduler=scheduler, checkpoint_interval=40, progressbar=False)
    found = lakebed.load(f"{bucket}/to-{scheduler}", read_only=True, creds=moto.creds)
    assert found.n.numpy().ravel().tolist() == list(range(90))
    assert all(np.array_equal(found.im[i].numpy(), images[i][::2]) for i in range(90))
    assert len(found.commits) == 3
    assert verify(found.storage, deep=True).is_sound
