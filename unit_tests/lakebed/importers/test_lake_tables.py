"""Tables of Delta Lake and Iceberg that their own packages write come in, at each version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main
from lakebed.errors import IngestionError
from lakebed.importers.core.registry import recognised
from lakebed.importers.core.source import Source
from lakebed.importers.tables import delta, iceberg

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "note": ["a", None, "c"],
        "at": pa.array([0, None, 2], pa.timestamp("us", "UTC")),
        "numbers": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
    }
)


def imported(format: str, src: Any, dest: Any = "mem://", **options: Any) -> Any:  # noqa: A002 - the user's word
    return lakebed.import_from(format, src, dest, progressbar=False, **options)


def ids(ds: lakebed.Dataset) -> list[int]:
    return sorted(ds.id.to_arrow().to_pylist())


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A Delta table of three versions: rows, one more, and others in their place."""
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "delta"
    deltalake.write_deltalake(path, TABLE)
    deltalake.write_deltalake(path, TABLE.slice(0, 1), mode="append")
    deltalake.write_deltalake(path, TABLE.slice(1, 2), mode="overwrite")
    return path


def test_a_delta_table_comes_in_at_any_version(written: Path) -> None:
    assert recognised(Source.of(written))[0].name == "delta"
    first = imported("delta", written, version=0)
    assert first.dataset.to_arrow().to_pylist() == TABLE.to_pylist()
    assert first.dataset.info["imports"][-1]["about"] == {"version": 0}
    assert ids(imported("delta", written, version=1).dataset) == [1, 1, 2, 3]
    report = imported("auto", written)
    assert ids(report.dataset) == [2, 3]
    assert "version 2" in str(report)
    with pytest.raises(IngestionError, match="9"):
        imported("delta", written, version=9)


def test_a_later_version_comes_in_by_key(written: Path, tmp_path: Path) -> None:
    imported("delta", written, tmp_path / "lake", version=1, key=["id"])
    command = [
        "import",
        "delta",
        str(written),
        str(tmp_path / "lake"),
        "--key",
        "id",
        "--append",
        "--no-progress",
    ]
    done = CliRunner().invoke(main, [*command, "--version", "2"])
    assert done.exit_code == 0, done.output
    assert "2 replaced" in done.output
    assert ids(lakebed.load(tmp_path / "lake")) == [1, 2, 3]


def test_a_delta_table_reads_no_file_outside(written: Path, tmp_path: Path) -> None:
    log = max((written / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            shutil.copy(written / line["add"]["path"], tmp_path / "outside.parquet")
            line["add"]["path"] = f"file://{tmp_path}/outside.parquet"
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(IngestionError, match=r"outside\.parquet not found"):
        imported("delta", written)


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A catalog in SQLite, whose table db.orders has two snapshots; the first has a tag."""
    found = pytest.importorskip("pyiceberg.catalog")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr(found, "_ENV_CONFIG", type(found._ENV_CONFIG)())
    opened = found.load_catalog("shop")
    opened.create_namespace("db")
    table = opened.create_table("db.orders", TABLE.schema)
    table.append(TABLE)
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "first").commit()
    table.append(TABLE.slice(0, 1))
    yield table
    opened.close()


def test_an_iceberg_table_comes_in_at_any_snapshot(catalog: Any, tmp_path: Path) -> None:
    first = catalog.snapshots()[0].snapshot_id
    folder = tmp_path / "warehouse/db/orders"
    for source in ("iceberg://shop/db.orders", folder, catalog.metadata_location):
        assert ids(imported("iceberg", source).dataset) == [1, 1, 2, 3]
        for snapshot in ("first", str(first)):
            ds = imported("iceberg", source, snapshot=snapshot).dataset
            assert ds.to_arrow().to_pylist() == TABLE.to_pylist()
            assert ds.info["imports"][-1]["about"] == {"snapshot": str(first)}
    assert recognised(Source.of(folder))[0].name == "iceberg"
    assert ids(imported("iceberg", folder, key=["id"]).dataset) == [1, 2, 3]
    with pytest.raises(IngestionError, match=f"no snapshot 'none'; snapshots: .*{first}"):
        imported("iceberg", folder, snapshot="none")
    with pytest.raises(IngestionError, match="does not exist"):
        imported("iceberg", "iceberg://shop/db.missing")
    with pytest.raises(IngestionError, match="no Iceberg table"):
        imported("iceberg", tmp_path / "warehouse/db/orders/data")


def test_an_iceberg_table_without_rows_is_a_dataset_without_rows(catalog: Any) -> None:
    catalog.catalog.create_table("db.empty", TABLE.schema)
    ds = imported("iceberg", "iceberg://shop/db.empty").dataset
    assert len(ds) == 0
    assert list(ds.tensors) == TABLE.schema.names


def test_an_iceberg_folder_names_no_file_outside(catalog: Any, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "warehouse/db/orders/metadata", tmp_path / "other/metadata")
    with pytest.raises(IngestionError, match="not below"):
        imported("iceberg", tmp_path / "other")


def test_missing_packages_name_their_extras(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("lakebed.importers.core.packages.is_installed", lambda package: False)
    for module, extra in ((delta, "delta"), (iceberg, "iceberg")):
        with pytest.raises(IngestionError, match=rf"pip install 'lakebed\[{extra}\]'"):
            module.plan(Source.of(tmp_path))
