"""What the shell says: help, completion, advice in its own words, a page that names every command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main
from lakebed.cli.advice import PHRASES, in_shell
from lakebed.dataset.listing import Walk
from unit_tests.effort import PATIENCE

SOURCES = Path(lakebed.__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def run(*arguments: Any) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, [str(a) for a in arguments])


# -- help ------------------------------------------------------------------------------------------------------


def test_help_cuts_nothing() -> None:
    """The first sentence of every command is there, to its end."""
    text = " ".join(run("--help").output.partition("--help")[2].split())
    assert "..." not in text
    assert (
        text.index("Look:") < text.index("ls List") < text.index("Bring in and out:") < text.index("import")
    )
    for name, command in main.commands.items():
        first = command.get_short_help_str(limit=1_000)
        assert f"{name} {first}" in text


def test_every_command_has_an_example() -> None:
    """One that runs the command itself, with options that it has."""
    for name, command in main.commands.items():
        text = " ".join(run(name, "--help").output.split())
        example = re.search(rf"For example: \S*.*?lakebed {name} (.*?)(Options:|Formats:)", text)
        assert example, name
        known = {flag for one in command.params for flag in one.opts}
        if name not in ("import", "export", "creds"):  # whose options are those of their own commands
            assert set(re.findall(r"(?<=\s)--?[a-z-]+", f" {example[1]}")) <= known, name


def test_the_page_names_every_command() -> None:
    """docs/cli.md, and no command that is gone."""
    told = re.findall(r"^\$ lakebed (\w+)", PAGE.read_text(), re.MULTILINE)
    assert set(main.commands) <= set(told)
    assert set(told) <= set(main.commands)


def test_json_is_one_document_unless_lines_are_asked_for() -> None:
    """The help says so."""
    assert "Print one JSON document" in run("ls", "--help").output
    assert "--jsonl" in run("head", "--help").output


# -- completion ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script(shell: str) -> None:
    """It names the command and asks it by the variable that click goes by."""
    text = run("completion", shell).output
    assert f"_LAKEBED_COMPLETE={shell}_complete" in text
    assert "lakebed" in text


def test_bash_runs_it(tmp_path: Path) -> None:
    """Commands, options, and the tensors of a dataset on this machine."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("image")
    ds.create_tensor("imprint")
    ds.create_tensor("label")
    ds.close()
    command = tmp_path / "lakebed"
    command.write_text(f"#!{sys.executable}\nfrom lakebed.cli import main\nmain(prog_name='lakebed')\n")
    command.chmod(0o755)
    script = f"""
        eval "$(lakebed completion bash 2>/dev/null | sed '/^_lakebed_completion_setup;/d')"
        ask() {{
            COMPREPLY=(); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
            _lakebed_completion lakebed; echo "${{COMPREPLY[*]}}"
        }}
        ask lakebed he
        ask lakebed head --ver
        ask lakebed head {tmp_path}/ds -t im
    """
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCES.parent)},
    )
    assert done.stdout.splitlines() == ["head", "--vertical", "image imprint"], done.stderr


# -- advice ----------------------------------------------------------------------------------------------------


def messages() -> str:
    """All text in the library but the command itself, with parts of one text joined."""
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py") if "cli" not in path.parts)
    return re.sub(r'"\s*\n\s*f?r?"', "", text)


def test_every_phrase_is_one_that_the_library_says() -> None:
    """A message that is worded anew makes its translation here a dead one."""
    said = re.sub(r"\{[^{}]*\}", "x", messages()).replace('\\"', '"')
    assert [phrase for phrase, _ in PHRASES if not re.search(phrase, said)] == []


def test_no_advice_for_python_is_left() -> None:
    """In what places, copies, versions and locks say, which commands are told of most."""
    said = [
        line
        for path in SOURCES.rglob("*.py")
        if path.relative_to(SOURCES).parts[0] in ("session", "storage", "copying", "versions")
        for line in re.findall(r'"([^"\n]*\w=True[^"\n]*)"', path.read_text())
    ]
    assert len(said) > 8
    told = [line for line in said if re.search(r"(overwrite|read_only|create)=True", in_shell(line))]
    assert told == ["create=True)."]  # of changing the info of an old commit, which no command does


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["cp", "DS", "OTHER"], "--overwrite"),
        (["pack", "DS", "FILE"], "--overwrite"),
        (["head", "DS@nope"], "`lakebed branch URL NAME`"),
        (["info", "FOLDER"], "`lakebed ls FOLDER`"),
        (["branch", "DS", "-d", "merged"], "--force"),
    ],
)
def test_advice_is_in_the_words_of_a_shell(tmp_path: Path, arguments: list[str], advice: str) -> None:
    """Options, not arguments of functions."""
    for name in ("ds", "other"):
        ds = lakebed.empty(tmp_path / name)
        ds.create_tensor("x", dtype="int8")
        ds.checkout("merged", create=True)
        ds.x.append(1)
        ds.commit("one")
        ds.checkout("main")
        ds.merge("merged")
        ds.close()
    (tmp_path / "file.lake").write_bytes(b"")
    places = {"DS": "ds", "OTHER": "other", "FILE": "file.lake", "FOLDER": ""}
    given = [
        re.sub("|".join(places), lambda m: str(tmp_path / places[m[0]]), one)
        if one.isupper() or "@" in one
        else one
        for one in arguments
    ]
    result = run(*given)
    assert result.exit_code == 1, result.output
    assert advice in result.output
    assert not re.search(r"\w=True|lakebed\.\w+\(", result.output)


# -- ls --------------------------------------------------------------------------------------------------------


def test_a_long_walk_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, after a while; a short one is silent."""
    ds = lakebed.empty(tmp_path / "b" / "ds")
    ds.close()
    (tmp_path / "a").mkdir()
    assert run("ls", tmp_path).stderr == ""
    monkeypatch.setattr("lakebed.cli.look.ls._QUIET_SECONDS", 0.0)
    result = run("ls", tmp_path)
    assert f"looking through {tmp_path}: 2 folders so far, at {tmp_path}/a" in result.stderr
    assert "b/ds" in result.stdout


def test_an_interrupt_ends_a_walk_with_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows so far, the word that they are not all, and the status of an interrupt."""
    for name in ("a", "b", "c"):
        lakebed.empty(tmp_path / name).close()
    enter = Walk.enter

    def interrupted(walk: Walk, where: str) -> None:
        enter(walk, where)
        if where.endswith("/b"):
            raise KeyboardInterrupt

    monkeypatch.setattr(Walk, "enter", interrupted)
    result = run("ls", tmp_path)
    assert result.exit_code == 130
    assert [line.split()[0] for line in result.stdout.splitlines()[2:]] == ["a"]
    assert "the list is not complete" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folders_that_can_not_be_read_are_told(tmp_path: Path) -> None:
    """They are not passed over in silence."""
    (tmp_path / "closed").mkdir(mode=0)
    assert "1 folders can not be read" in run("ls", tmp_path).stderr


def test_the_branch_that_was_written_is_shown_where_main_is_empty(tmp_path: Path) -> None:
    """Of several the one that was committed to last, and the names of all."""
    ds = lakebed.empty(tmp_path / "ds")
    for name in ("old", "new"):
        ds.checkout(name, create=True)
        if "x" not in ds.tensors:
            ds.create_tensor("x", dtype="int8")
        ds.x.append(1)
        ds.commit(f"rows on {name}")
    ds.close()
    lines = run("ls", tmp_path).stdout.splitlines()
    assert lines[0].split()[:5] == ["dataset", "branch", "rows", "tensors", "branches"]
    assert lines[2].split()[:4] == ["ds", "new", "2", "1"]
    assert "main, old, new" in lines[2]
    assert lines[2].endswith("rows on new")
