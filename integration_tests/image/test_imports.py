"""`docker run IMAGE import FORMAT SRC DEST`: data sets come in and go out in a container, as its own user."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from integration_tests.image.containers import LAKE, Connector, Ended
from integration_tests.stores import servers

pytestmark = pytest.mark.image

SOURCE = "/source"


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Pictures of two classes in two splits, one of them cut off."""
    root = tmp_path / "pets"
    for number, name in enumerate(f"{split}/{kind}" for split in ("train", "val") for kind in ("cat", "dog")):
        (root / name).mkdir(parents=True)
        for index in range(5):
            pixels = np.full((8 + index, 9, 3), 10 * number + index, np.uint8)
            Image.fromarray(pixels).save(root / name / f"{index}.png")
    broken = root / "train/cat/0.png"
    broken.write_bytes(broken.read_bytes()[:20])
    return root


def mounts(connector: Connector, source: Path) -> dict[str, dict[str, str]]:
    """The lake, which may be written, and a source, which may not."""
    source.chmod(0o755)
    return connector.mounted({"destination_path": LAKE}) | {str(source): {"bind": SOURCE, "mode": "ro"}}


def imported(connector: Connector, source: Path, *command: str, **options: Any) -> Ended:
    return connector.run(["import", *command], volumes=mounts(connector, source), **options)


def test_a_folder_comes_in(connector: Connector, pets: Path) -> None:
    """Everything but the broken picture, which is told; the files are of the image's own user."""
    ended = imported(connector, pets, "folder", SOURCE, f"{LAKE}/pets").succeeded()
    said = b"\n".join(ended.output).decode() + ended.errors
    assert "19 rows written, 1 left out" in said
    assert "train/cat/0.png" in said
    ds = lakebed.load(connector.lake / "pets")
    assert len(ds) == 19
    assert {name: len(view) for name, view in ds.splits.items()} == {"train": 9, "val": 10}
    assert {path.stat().st_uid for path in (connector.lake / "pets").rglob("*")} == {1000}
    again = imported(connector, pets, "folder", SOURCE, f"{LAKE}/pets")
    assert again.status == 1
    assert "--append" in again.errors


def test_a_dry_run_and_a_report_for_programs(connector: Connector, pets: Path) -> None:
    ended = imported(connector, pets, "auto", SOURCE, f"{LAKE}/pets", "--dry-run", "--json").succeeded()
    assert json.loads(b"\n".join(ended.output))["format"] == "folder"
    assert not (connector.lake / "pets").exists()
    ended = imported(connector, pets, "auto", SOURCE, f"{LAKE}/pets", "--json").succeeded()
    told = json.loads(b"\n".join(ended.output))
    assert (told["written"], told["skipped"]) == (19, 1)


def test_formats_that_need_other_packages_come_in(connector: Connector, tmp_path: Path) -> None:
    """The image has the packages of YOLO, HDF5, Zarr, TFRecord, LMDB and LevelDB."""
    source = tmp_path / "yolo"
    (source / "images").mkdir(parents=True)
    (source / "labels").mkdir()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(source / "images/a.png")
    (source / "labels/a.txt").write_text("0 0.5 0.5 0.25 0.25\n")
    (source / "data.yaml").write_text("train: images\nnames: [cat]\n")
    imported(connector, source, "yolo", f"{SOURCE}/data.yaml", f"{LAKE}/yolo").succeeded()
    assert len(lakebed.load(connector.lake / "yolo")) == 1
    look = "import adbc_driver_postgresql.dbapi, google.protobuf, google_crc32c, h5py, lmdb, zarr"
    connector.run(["-c", look], entrypoint="/opt/connector/bin/python").succeeded()


def test_a_database_comes_in(connector: Connector, tmp_path: Path) -> None:
    source = tmp_path / "database"
    source.mkdir()
    with sqlite3.connect(source / "shop.db") as database:
        database.executescript(
            "CREATE TABLE orders (id INTEGER, note TEXT); INSERT INTO orders VALUES (1, 'a')"
        )
    database.close()
    command = ["sql", f"{SOURCE}/shop.db", f"{LAKE}/orders", "--table", "orders", "--key", "id"]
    imported(connector, source, *command).succeeded()
    assert lakebed.load(connector.lake / "orders").note.text() == ["a"]


def test_it_goes_out_again(connector: Connector, pets: Path) -> None:
    imported(connector, pets, "folder", SOURCE, f"{LAKE}/pets").succeeded()
    command = ["export", "parquet", f"{LAKE}/pets", f"{LAKE}/out"]
    connector.run(command, volumes=mounts(connector, pets)).succeeded()
    assert list((connector.lake / "out").rglob("*.parquet"))


def test_credentials_of_a_bucket_come_from_the_environment(connector: Connector, pets: Path) -> None:
    with servers.moto() as server:
        address = server.url("pets-of-a-container")
        command = ["folder", SOURCE, address]
        imported(connector, pets, *command, environment=server.environment, network_mode="host").succeeded()
        assert len(lakebed.load(address, creds=server.creds)) == 19


def test_credentials_of_a_bucket_come_from_a_mounted_file(
    connector: Connector, pets: Path, tmp_path: Path
) -> None:
    """As AWS has it: a file of profiles, which is named by a variable."""
    with servers.moto() as server:
        address = server.url("pets-of-a-file")
        profile = tmp_path / "credentials"
        profile.write_text(
            f"[default]\naws_access_key_id={server.creds['aws_access_key_id']}\n"
            f"aws_secret_access_key={server.creds['aws_secret_access_key']}\n"
        )
        profile.chmod(0o644)
        volumes = mounts(connector, pets) | {str(profile): {"bind": "/credentials", "mode": "ro"}}
        variables = {
            "AWS_SHARED_CREDENTIALS_FILE": "/credentials",
            "AWS_REGION": server.creds["aws_region"],
            "AWS_ENDPOINT_URL": server.endpoint,
        }
        command = ["import", "folder", SOURCE, address]
        connector.run(command, volumes=volumes, environment=variables, network_mode="host").succeeded()
        assert len(lakebed.load(address, creds=server.creds)) == 19
