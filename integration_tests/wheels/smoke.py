"""What must work where wheels were installed: `python -I smoke.py lakebed [destination-deeplake]`.

No test runner and nothing of the checkout: it shows that the wheel holds what the programs need.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import lakebed

PROGRAMS = Path(sys.executable).parent


def main() -> None:
    """Import the compiled cores, write, read, commit, run the commands."""
    for name in sys.argv[1:]:
        native = importlib.import_module(name.replace("-", "_") + ".native")
        for module in pkgutil.iter_modules(native.__path__):
            importlib.import_module(f"{native.__name__}.{module.name}")
        assert importlib.metadata.version(name) == lakebed.__version__
    with tempfile.TemporaryDirectory() as folder:
        library(Path(folder, "lake"))
        assert json.loads(run("lakebed", "ls", folder, "--json"))
        if "destination-deeplake" in sys.argv:
            connector(Path(folder))


def library(path: Path) -> None:
    """Store arrays, pictures, texts and labels, and read them in two versions."""
    ds = lakebed.empty(path)
    ds.create_tensor("image", htype="image", sample_compression="jpeg")
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("vector", htype="embedding", dtype="float32")
    ds.create_tensor("title", htype="text", chunk_compression="lz4")
    picture = np.full((48, 64, 3), 128, np.uint8)
    for row in range(100):
        ds.append(
            {"image": picture, "label": row % 2, "vector": np.full(8, row, np.float32), "title": f"row {row}"}
        )
    first = ds.commit("a hundred rows")
    ds.label[0] = "dog"
    ds.commit("one label")
    ds.close()

    ds = lakebed.load(path, read_only=True)
    assert len(ds) == 100
    assert ds.image[7].numpy().shape == (48, 64, 3)
    assert ds.vector[99].numpy().tolist() == [99.0] * 8
    assert ds.title[5].data()["value"] == "row 5"
    assert ds.label[0].numpy().tolist() == [1]
    ds.checkout(first)
    assert ds.label[0].numpy().tolist() == [0]


def connector(folder: Path) -> None:
    """Sync three records."""
    stream = {"name": "users", "json_schema": {"type": "object", "properties": {"id": {"type": "integer"}}}}
    catalog = {
        "streams": [
            {
                "stream": {**stream, "supported_sync_modes": ["full_refresh"]},
                "sync_mode": "full_refresh",
                "destination_sync_mode": "append",
            }
        ]
    }
    Path(folder, "config.json").write_text(
        json.dumps({"destination_path": f"{folder}/synced"}), encoding="utf-8"
    )
    Path(folder, "catalog.json").write_text(json.dumps(catalog), encoding="utf-8")
    messages = [
        {"type": "RECORD", "record": {"stream": "users", "emitted_at": 0, "data": {"id": number}}}
        for number in range(3)
    ]
    messages.append(
        {"type": "STATE", "state": {"type": "STREAM", "stream": {"stream_descriptor": {"name": "users"}}}}
    )
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    assert '"SPEC"' in run("destination-deeplake", "spec")
    arguments = ("--config", Path(folder, "config.json"), "--catalog", Path(folder, "catalog.json"))
    assert '"STATE"' in run("destination-deeplake", "write", *arguments, text=lines)
    (dataset,) = (
        path.parent
        for path in Path(folder, "synced").rglob("dataset_meta.json")
        if "versions" not in path.parts
    )
    assert lakebed.load(dataset, read_only=True)["id"].numpy().reshape(-1).tolist() == [0, 1, 2]


def run(program: str, *arguments: object, text: str = "") -> str:
    """Run a command of this environment and return what it printed."""
    command = [str(PROGRAMS / program), *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    return done.stdout


if __name__ == "__main__":
    main()
