"""Nothing that a dataset is called or holds reaches the terminal as a control character, by any command."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed import cli
from lakebed.cli import main
from lakebed.copying.resolve_links import BrokenLink
from lakebed.maintenance.check import Damage
from lakebed.maintenance.plan import Step
from lakebed.versions.gc.report import Kept, Removed

EVIL = "\x07\x08\x7f\x85\x9b31m\u200f\u202e\u2028\u2066\rx\x1b[31m\nforged"
"""Bell, backspace, DEL, NEL, CSI, marks and overrides of direction, separator of lines, CR, ESC, a line of its own."""

NO_JSON = ("view", "creds set", "creds remove", "creds rotate", "completion")

INVOCATIONS: dict[str, list[list[str]]] = {
    "ls": [["LAKE"], ["DS"], ["LAKE/nothing" + EVIL]],
    "info": [["DS"], ["DS@b" + EVIL], ["DS@no" + EVIL]],
    "head": [
        ["DS"],
        ["DS", "-t", "n" + EVIL],
        ["DS", "-t", "none" + EVIL],
        ["DS", "--vertical"],
        ["DS", "--images", "OUT"],
        ["DS", "--jsonl"],
    ],
    "du": [["DS"], ["BAD"], ["DS@no" + EVIL], ["NO"]],
    "completion": [["bash"], ["zsh"], ["fish"]],
    "query": [
        ["DS", "SELECT *"],
        ["DS", "SELECT *", "--csv"],
        ["DS", "SELECT *", "--explain"],
        ["DS", "SELECT * WHERE nothing" + EVIL],
        ["DS", "SELECT * WHERE x == '" + EVIL],
    ],
    "sql": [
        ["SELECT '" + EVIL + "' AS x"],
        ["SELECT 1", "--csv"],
        ["SELECT nothing" + EVIL],
        ["FROM lake('NO')"],
    ],
    "index": [["DS"], ["DS", "n" + EVIL, "bm25"], ["DS", "n" + EVIL, "bm25", "--drop"], ["NO"]],
    "statistics": [["DS"], ["DS", "n" + EVIL], ["NO"]],
    "log": [["DS"], ["DS", "--graph", "--all", "--stat"], ["DS@no" + EVIL]],
    "tag": [["DS"], ["DS", "t" + EVIL], ["DS", "-d", "t" + EVIL], ["DS", "good", "no" + EVIL]],
    "branch": [["DS"], ["DS", "new" + EVIL], ["DS", "-d", "no" + EVIL], ["DS", "-d", "c" + EVIL]],
    "commit": [["DS", "-m", EVIL], ["DS@b" + EVIL], ["DS@no" + EVIL], ["NO"]],
    "merge": [["DS", "b" + EVIL], ["DS", "no" + EVIL], ["DS", "c" + EVIL], ["NO", "main"]],
    "rename": [["DS", "n" + EVIL, "m" + EVIL], ["DS", "no" + EVIL, "m"], ["NO", "a", "b"]],
    "delete": [["DS", "-t", "n" + EVIL, "--yes"], ["DS", "-t", "no" + EVIL], ["DS"], ["DS", "--yes"], ["NO"]],
    "diff": [["DS"], ["DS", "b" + EVIL], ["DS", "main", "b" + EVIL], ["DS", "no" + EVIL]],
    "view": [["NO"]],
    "serve": [["NO", "--host", "x" + EVIL], ["NO", "--key", "no" + EVIL]],
    "views": [["DS"], ["DS", "-d", "no" + EVIL], ["DS", "--materialize", "v" + EVIL, "VIEW"], ["NO"]],
    "verify": [["DS"], ["DS", "--deep"], ["BAD"], ["DS@no" + EVIL]],
    "repair": [["BAD"], ["BAD", "--apply"], ["DS@no" + EVIL]],
    "materialize": [["DS", "OUT"], ["DS", "OUT2", "--ignore-errors"], ["DS", "OUT3", "-t", "no" + EVIL]],
    "gc": [["DS", "--dry-run", "--grace", "0"], ["DS", "--grace", "0" + EVIL], ["DS", "--grace", "0"]],
    "cp": [
        ["DS", "COPY"],
        ["DS", "DS"],
        ["DS", "FLAT", "--flat", "-t", "n" + EVIL],
        ["NO", "OUT"],
        ["DS:no" + EVIL, "OUT"],
    ],
    "pack": [["DS", "PACKED"], ["DS", "OUT"], ["BAD", "PACKED"], ["NO", "PACKED", "--overwrite"]],
    "upgrade": [["DS", "COPIED"], ["DS"], ["NO", "OUT"], ["BAD", "UPGRADED"]],
    "unpack": [["DS", "OUT"], ["NO", "OUT"]],
    "backup": [["DS", "BACKUPS"], ["BAD", "BACKUPS"], ["NO", "BACKUPS"]],
    "allow": [["DS"], ["--list"], ["DS", "--remove"], ["NO"]],
    "backups": [["KEPT"], ["KEPT", "--verify"], ["DS"], ["NO", "--verify"]],
    "restore": [["KEPT", "OUT"], ["KEPT", "OUT", "--at", "x" + EVIL], ["NO", "OUT"]],
    "doctor": [["DS"], ["NO"], ["DS", "--creds-key", "k" + EVIL]],
    "creds list": [["DS"]],
    "creds set": [["k" + EVIL], ["k" + EVIL, "-o", EVIL]],
    "creds remove": [["k" + EVIL]],
    "creds test": [["k" + EVIL, "s3://b" + EVIL]],
    "creds rotate": [["k" + EVIL]],
}


def _commands(group: click.Group, prefix: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dataset whose every name and text is hostile, and one that is damaged as well."""
    root = tmp_path_factory.mktemp("lake")
    ds = lakebed.empty(root / ("ds" + EVIL))
    ds.create_tensor("n" + EVIL, dtype="int32")
    ds.create_tensor("c" + EVIL, htype="class_label", class_names=["label" + EVIL])
    ds.create_tensor("text" + EVIL, htype="text")
    ds.create_tensor("json" + EVIL, htype="json")
    ds.create_tensor("l" + EVIL, htype="link[image]", sample_compression="jpeg", verify=False)
    ds["l" + EVIL].append(lakebed.link("nofile" + EVIL + ".jpg"))
    ds["n" + EVIL].append(1)
    ds["c" + EVIL].append(0)
    ds["text" + EVIL].append(EVIL)
    ds["json" + EVIL].append({"key" + EVIL: EVIL})
    ds["n" + EVIL].info["key" + EVIL] = EVIL
    ds.info["key" + EVIL] = EVIL
    ds.info["airbyte"] = {"stream": EVIL, "namespace": EVIL, "mode": EVIL}
    ds.commit("message" + EVIL)
    ds.create_tag("good", message=EVIL)
    ds[:1].save_view(message="message" + EVIL, id="v" + EVIL)
    ds.checkout("b" + EVIL, create=True)
    ds["n" + EVIL].append(2)
    ds.rename_tensor("n" + EVIL, "renamed" + EVIL)
    ds.delete_tensor("json" + EVIL)
    ds.commit("second" + EVIL)
    ds.checkout("main")
    ds.checkout("c" + EVIL, create=True)
    ds.checkout("main")
    ds["n" + EVIL].append(3)
    ds.close()
    lakebed.backup(ds.path, root / ("kept" + EVIL), progressbar=False)
    shutil.copytree(ds.path, root / ("bad" + EVIL))
    for chunk in (root / ("bad" + EVIL)).rglob("chunks/*"):
        chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    return root


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A copy that a command may change."""
    return Path(shutil.copytree(made, tmp_path / "lake"))


def _clean(text: str) -> bool:
    bad = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return not [c for c in text if c not in "\n\t" and unicodedata.category(c) in bad]


def _run(place: Path, name: str, arguments: list[str]) -> Result:
    paths = {"DS": "ds" + EVIL, "BAD": "bad" + EVIL, "LAKE": "", "NO": "none" + EVIL, "KEPT": "kept" + EVIL}
    paths |= {word: word + EVIL for word in ("OUT", "OUT2", "OUT3", "COPY", "FLAT", "BACKUPS", "VIEW")}

    paths["PACKED"] = f"packed{EVIL}.lake"

    def put_in(argument: str) -> str:
        word = re.match("[A-Z0-9]*", argument)[0]  # type: ignore[index]
        return f"{place / paths[word]}{argument[len(word) :]}" if word in paths else argument

    result = CliRunner().invoke(main, [*name.split(), *map(put_in, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("name", list(_commands(main)))
def test_no_command_prints_control_characters(
    place: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On stdout and stderr, when it works and when it fails, for people and as JSON, which reads back."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for arguments in INVOCATIONS[name]:
        for more in ([], ["--json"]) if name not in NO_JSON else ([],):
            result = _run(place, name, arguments + more)
            assert result.output or result.exit_code == 0
            for stream in (result.stdout, result.stderr):
                assert _clean(stream), ascii(stream)
                assert name == "diff" or not re.search("^forged", stream, re.MULTILINE), stream
            if more and result.stdout:
                json.loads("[" + result.stdout.replace("}\n{", "},{") + "]")


def test_json_reads_back_as_it_was(place: Path) -> None:
    """Programs get the very names, whatever is in them."""
    ds = place / ("ds" + EVIL)
    info = json.loads(_run(place, "info", ["DS", "--json"]).stdout)
    assert {tensor["name"] for tensor in info["tensors"]} >= {"n" + EVIL, "text" + EVIL}
    assert info["info"]["key" + EVIL] == EVIL
    assert json.loads(_run(place, "head", ["DS", "-t", "text" + EVIL, "-n", "1", "--jsonl"]).stdout) == {
        "text" + EVIL: EVIL
    }
    assert json.loads(_run(place, "log", ["DS", "--json"]).stdout)[0]["message"] == "message" + EVIL
    listed = json.loads(_run(place, "ls", ["LAKE", "--json"]).stdout)
    assert {(entry["path"], entry["branch"]) for entry in listed} >= {
        (ds.name, "main"),
        (ds.name, "b" + EVIL),
    }


def test_printed_forms_of_the_library(place: Path) -> None:
    """What `repr`, `summary`, `log` and `diff` print, and warnings, are as clean."""
    printed = io.StringIO()
    ds = lakebed.load(place / ("ds" + EVIL), read_only=True)
    with redirect_stdout(printed):
        ds.summary()
        ds.log()
        ds.diff("b" + EVIL)
        for tensor in ds.tensors.values():
            tensor.summary()
    shown = [ds, ds.info, lakebed.link("file" + EVIL), ds.branches, ds.get_tags(), *ds.tensors.values()]
    shown += [part for tensor in ds.tensors.values() for part in (tensor.info, tensor.meta, tensor[0])]
    shown.append(lakebed.read(f"http://localhost/{EVIL}", verify=False))
    assert all(_clean(repr(part)) for part in shown)
    texts = [
        part for part in shown if isinstance(part, lakebed.Tensor) and part.is_single and part.htype == "text"
    ]
    assert all(_clean(str(part)) for part in shown if part not in texts)
    assert all(str(part) == part.text() for part in texts)  # which is the value itself
    assert _clean(re.sub("\x1b\\[(?:0|9[34])m|\t", "", printed.getvalue())), ascii(printed.getvalue())


def test_a_mistake_of_ours_is_printed_as_clean() -> None:
    """Even the traceback of what nobody expected."""
    fails = "lakebed.verify = lambda *_, **__: open(sys.argv[1])"
    program = f"import sys, lakebed, lakebed.cli as c; {fails}; c.main(['verify', 'x'])"
    found = subprocess.run([sys.executable, "-c", program, EVIL], capture_output=True, check=False)
    assert found.returncode == 1
    assert b"Traceback" in found.stderr
    assert _clean(found.stderr.decode()), found.stderr


def test_warnings_are_printed_as_clean(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning that names what a dataset holds is one line without control characters."""

    collect = lakebed.gc

    def warned(*args: Any, **kwargs: Any) -> Any:
        warnings.warn("of " + EVIL, UserWarning, stacklevel=1)
        return collect(*args, **kwargs)

    monkeypatch.setattr(lakebed, "gc", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = _run(place, "gc", ["DS"])
    assert _clean(result.stderr)
    assert result.stderr.startswith("Warning: of \\x07")
    assert result.stderr.count("\n") == 1


def test_commands_print_by_one_module_only() -> None:
    """So that what is printed tomorrow is escaped as well."""
    folder = Path(str(cli.__file__)).parent
    prints = re.compile(r"\bprint\(|click\.s?echo|std(out|err)\.write")
    found = {path.name for path in folder.glob("*.py") if prints.search(path.read_text())}
    assert found == {"output.py"}


def test_reports_of_the_library_are_as_clean() -> None:
    """What is damaged, removed, kept, repaired or leads nowhere."""
    shown: list[object] = [
        Damage(EVIL, tensor=EVIL, branch=EVIL, version=EVIL, key=EVIL),
        Removed(EVIL, EVIL, 1, 1, EVIL),
        Kept(EVIL, EVIL, EVIL),
        Step("damage", EVIL, EVIL, EVIL, EVIL, lost_rows=1),
        BrokenLink(EVIL, 1, EVIL, EVIL),
    ]
    for report in shown:
        assert _clean(str(report).replace("\n", "\x0b"))
        assert _clean(repr(report))
