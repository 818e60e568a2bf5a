"""The `lakebed` command, run in this process by click's own runner."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import lakebed
import lakebed.cli
from lakebed.cli import main
from lakebed.cli.commands import Loaded
from unit_tests.effort import PATIENCE


def run(*arguments: Any, ok: bool = True) -> Result:
    """Run the command; unless told otherwise it must succeed."""
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert not ok or result.exit_code == 0, result.output
    if result.exception is not None:
        assert isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets, one below the other's folder, and things that are none."""
    root = tmp_path_factory.mktemp("lake")
    ds = lakebed.empty(root / "users")
    ds.create_tensor("id", dtype="int64")
    ds.create_tensor("name", htype="text")
    ds.create_tensor("tags", htype="json")
    ds.create_tensor("born")
    ds.create_tensor("vector")
    ds.create_tensor("kind", htype="class_label", class_names=["x", "y"])
    ds.extend(
        {
            "id": [1, 2, 3],
            "name": pa.array(["ann", None, "line\nbreak"]),
            "tags": [{"a": [1]}, None, "t"],
            "born": pa.array([0, None, 1], pa.date32()),
            "vector": np.arange(6, dtype="f4").reshape(3, 2),
            "kind": ["x", "y", "x"],
        }
    )
    ds.info["source"] = "test"
    ds.commit("first load")
    ds.append({"id": 4}, append_empty=True)
    ds.flush()
    ds.checkout("dev", create=True)
    ds.close()
    other = lakebed.empty(root / "deep" / "er" / "orders")
    other.close()
    (root / "deep" / "file.txt").write_text("no dataset")
    return root


def test_ls_finds_datasets_below_a_folder(lake: Path) -> None:
    """Path, rows, tensors, branches and last commit of each, and nothing else."""
    found = json.loads(run("ls", lake, "--json").output)
    assert [(e["path"], e["rows"], e["tensors"], e["branches"]) for e in found] == [
        ("deep/er/orders", 0, 0, 1),
        ("users", 4, 6, 2),
    ]
    assert found[1]["message"] == "auto commit before checkout to dev"
    assert found[0]["commit"] is None
    text = run("ls", lake).output
    assert "users" in text
    assert "orders" in text
    assert "versions" not in text
    assert [e["path"] for e in json.loads(run("ls", lake / "users", "--json").output)] == ["."]
    assert json.loads(run("ls", f"file://{lake}/users", "--json").output)[0]["rows"] == 4


def test_ls_shows_the_streams_that_syncs_fill(tmp_path: Path) -> None:
    """Namespace, name, mode, rows and the first line of what the last sync said, beside datasets of other origin."""
    lakebed.empty(tmp_path / "users").close()
    assert "namespace" not in run("ls", tmp_path).output
    ds = lakebed.empty(tmp_path / "public" / "a%2Fb")
    ds.create_tensor("id", dtype="int64")
    ds.info["airbyte"] = {"namespace": "public", "stream": "a/b", "mode": "append_dedup"}
    ds.extend({"id": [1, 2]})
    commit = ds.commit("Airbyte sync 7, complete: public.a/b 2 records\nstates 1, after 2 records")
    ds.close()
    lines = run("ls", tmp_path).output.splitlines()
    assert lines[0].split()[:5] == ["dataset", "namespace", "stream", "mode", "rows"]
    [line] = [line for line in lines if line.startswith("public")]
    assert line.split()[:4] == ["public/a%2Fb", "public", "a/b", "append_dedup"]
    assert commit[:12] in line
    assert line.endswith("Airbyte sync 7, complete: public.a/b 2 records ...")
    found = {entry["path"]: entry["stream"] for entry in json.loads(run("ls", tmp_path, "--json").output)}
    assert found["public/a%2Fb"] == {"namespace": "public", "stream": "a/b", "mode": "append_dedup"}
    assert found["users"] is None


def synced(path: Path, branch: str, *rows: int) -> None:
    """Do what a sync that writes to a branch does."""
    ds = lakebed.load(path) if lakebed.exists(path) else lakebed.empty(path)
    if branch != ds.branch:
        ds.checkout(branch, create=branch not in ds.branches)
    if "id" not in ds:
        ds.create_tensor("id", dtype="int64")
    ds.info["airbyte"] = {"namespace": None, "stream": path.name, "mode": "append"}
    ds.extend({"id": list(rows)})
    ds.commit(f"Airbyte sync to {branch}")
    ds.close()


def test_ls_shows_the_branches_that_syncs_write(tmp_path: Path) -> None:
    """Whoever writes to `staging` finds rows and message there; a main branch without anything is left out."""
    synced(tmp_path / "orders", "staging", 1, 2, 3)
    synced(tmp_path / "users", "main", 1)
    assert "branch" not in run("ls", tmp_path / "users").output.split()
    synced(tmp_path / "users", "staging", 2)
    synced(tmp_path / "users", "airbyte-overwrite", 3)
    found = json.loads(run("ls", tmp_path, "--json").output)
    assert [(e["path"], e["branch"], e["rows"], e["message"]) for e in found] == [
        ("orders", "staging", 3, "Airbyte sync to staging"),
        ("users", "main", 1, "Airbyte sync to main"),
        ("users", "staging", 2, "Airbyte sync to staging"),
    ]
    lines = run("ls", tmp_path).output.splitlines()
    assert lines[0].split()[:5] == ["dataset", "branch", "namespace", "stream", "mode"]
    assert lines[2].split()[:4] == ["orders", "staging", "orders", "append"]
    assert lines[2].endswith("Airbyte sync to staging")


def test_ls_of_nothing(tmp_path: Path) -> None:
    """An empty folder is no error, a missing one is."""
    assert json.loads(run("ls", tmp_path, "--json").output) == []
    assert "no datasets" in run("ls", tmp_path).output
    missing = run("ls", tmp_path / "missing", ok=False)
    assert missing.exit_code != 0
    assert "missing" in missing.output


def test_info_shows_schema_and_version(lake: Path) -> None:
    """Everything of `--json` is there for people too."""
    facts = json.loads(run("info", lake / "users", "--json").output)
    assert (facts["branch"], sorted(facts["branches"]), facts["rows"]) == ("main", ["dev", "main"], 4)
    assert facts["info"] == {"source": "test"}
    tensors = {t["name"]: t for t in facts["tensors"]}
    assert list(tensors) == ["id", "name", "tags", "born", "vector", "kind"]
    assert (tensors["name"]["htype"], tensors["born"]["logical_type"]) == ("text", "date32[day]")
    assert (tensors["vector"]["min_shape"], tensors["vector"]["max_shape"]) == ([0], [2])
    text = run("info", lake / "users").output
    for word in ("users", "branch main", "4 rows", "date32[day]", "class_label", "source: test"):
        assert word in text


def test_head_shows_rows_as_plain_data(lake: Path) -> None:
    """A row is an object: null for null, dates in ISO form, arrays as lists; one document, or a line for each."""
    lines = run("head", lake / "users", "--jsonl").output.splitlines()
    assert json.loads(run("head", lake / "users", "--json").output) == list(map(json.loads, lines))
    assert [json.loads(line) for line in lines] == [
        {"id": 1, "name": "ann", "tags": {"a": [1]}, "born": "1970-01-01", "vector": [0.0, 1.0], "kind": 0},
        {"id": 2, "name": None, "tags": None, "born": None, "vector": [2.0, 3.0], "kind": 1},
        {"id": 3, "name": "line\nbreak", "tags": "t", "born": "1970-01-02", "vector": [4.0, 5.0], "kind": 0},
        {"id": 4, "name": None, "tags": None, "born": None, "vector": None, "kind": None},
    ]
    two = run("head", lake / "users", "-n", 2, "-t", "name", "-t", "id", "--jsonl").output.splitlines()
    assert [json.loads(line) for line in two] == [{"name": "ann", "id": 1}, {"name": None, "id": 2}]
    text = run("head", lake / "users", "-n", 3, "-t", "name").output
    assert text.splitlines() == ["name", "-----------", "ann", "", "line\\nbreak"]
    assert json.loads(run("head", lake / "deep" / "er" / "orders", "--json").output) == []
    assert run("head", lake / "deep" / "er" / "orders", "--jsonl").output == ""
    assert "choose --json or --jsonl" in run("head", lake / "users", "--json", "--jsonl", ok=False).output


def test_versions_in_addresses(lake: Path) -> None:
    """`URL@commit` and `URL@branch` show that version."""
    commits = json.loads(run("log", lake / "users", "--json").output)
    assert [c["message"] for c in commits] == ["auto commit before checkout to dev", "first load"]
    first = commits[1]["commit"]
    assert json.loads(run("info", f"{lake / 'users'}@{first}", "--json").output)["rows"] == 3
    assert json.loads(run("info", f"{lake / 'users'}@dev", "--json").output)["branch"] == "dev"
    assert len(json.loads(run("log", f"{lake / 'users'}@{first}", "--json").output)) == 1


def test_log_for_people(lake: Path) -> None:
    """Newest first, with short ids; a dataset without commits says so."""
    lines = run("log", lake / "users").output.splitlines()
    assert lines[1::2] == ["    auto commit before checkout to dev", "    first load"]
    assert all(line.split()[0].isalnum() and "UTC" in line for line in lines[::2])
    assert "no commits yet" in run("log", lake / "deep" / "er" / "orders").output


@pytest.mark.parametrize("command", ["info", "head", "log"])
@pytest.mark.parametrize("address", ["missing", "users@nope", "users@"])
def test_errors_are_one_sentence(lake: Path, command: str, address: str) -> None:
    """What a user can act on comes without a traceback and with exit code 1."""
    result = run(command, lake / address, ok=False)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "Traceback" not in result.output


def test_unknown_tensors_are_named(lake: Path) -> None:
    """`head -t` of a tensor that is not there is an error that names it."""
    result = run("head", lake / "users", "-t", "nope", ok=False)
    assert result.exit_code == 1
    assert "nope" in result.output


def test_nothing_is_written(lake: Path) -> None:
    """Looking changes no file."""
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    for arguments in (
        ["ls", lake],
        ["info", lake / "users"],
        ["head", lake / "users"],
        ["log", lake / "users"],
    ):
        run(*arguments)
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*")} == before


def test_help_and_version() -> None:
    """Each command explains itself."""
    assert lakebed.__version__ in run("--version").output
    text = run("--help").output
    for command in ("ls", "info", "head", "log"):
        assert command in text
        assert "--json" in run(command, "--help").output
    done = subprocess.run(
        [sys.executable, "-m", "lakebed", "lsd"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: lakebed [OPTIONS] COMMAND")


def test_a_reader_that_leaves_early_is_no_error(lake: Path) -> None:
    """`lakebed head ... | head -1` ends quietly."""
    script = f"{sys.executable} -m lakebed head {lake}/users --jsonl | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["id"] == 1


def test_the_list_of_commands_is_that_of_the_commands() -> None:
    """The help prints it without loading them: each is where the list says, and begins with the same sentence."""
    fresh = Loaded("lakebed.cli", lakebed.cli._GROUPS)
    for name, command in main.commands.items():
        assert command.name == name
        assert fresh.sentence(name) == command.get_short_help_str(limit=1000)
    files = {path.stem.rstrip("_") for path in Path(lakebed.cli.__file__).parent.rglob("*.py")}
    assert {*main.commands} - {"unpack"} <= files


def test_one_command_loads_no_other() -> None:
    code = """
import sys
from lakebed.cli import main
from lakebed.cli.commands import Loaded
try:
    main(["--help"])
except SystemExit:
    print(sorted(name for name in sys.modules if name.startswith("lakebed.cli.")))
    print("pyarrow" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-2:] == ["['lakebed.cli.commands', 'lakebed.cli.output']", "False"]
