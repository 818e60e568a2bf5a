"""The two distributions, and what a release is made of, agree with each other."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import lakebed
from scripts import registry
from unit_tests.destination_deeplake.test_metadata import SCHEMA

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def project(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return found


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("format/lakebed/__init__.py", '__version__ = "{}"'),
        ("Dockerfile", "ARG VERSION={}"),
        ("metadata.yaml", "  dockerImageTag: {}"),
        ("recipe/recipe.yaml", "  version: {}"),
        ("registry/pyproject.toml", 'version = "{}"'),
        ("registry/pyproject.toml", 'destination-deeplake = "{}"'),
        ("mkdocs.yml", "copyright: destination-deeplake and lakebed {}, MIT licence"),
    ],
)
def test_the_version_is_the_same_everywhere(file: str, line: str) -> None:
    """`make version TO=...` writes it; lakebed.__version__ is where it comes from."""
    assert line.format(lakebed.__version__) in (ROOT / file).read_text().splitlines()


@pytest.mark.parametrize(
    ("command", "requirement"),
    [
        ("dist_info", f"lakebed @ {(ROOT / 'format').as_uri()}"),
        ("sdist", f"lakebed=={lakebed.__version__}"),
    ],
)
def test_the_connector_requires_the_library_beside_it_or_of_its_version(
    monkeypatch: pytest.MonkeyPatch, command: str, requirement: str
) -> None:
    """A checkout installs both; an index takes no addresses of files."""
    monkeypatch.setattr(sys, "argv", ["setup.py", command])
    assert runpy.run_path(str(ROOT / "setup.py"))["lakebed"]() == requirement


def test_whatever_repeats_what_the_library_requires_repeats_all_of_it() -> None:
    names = [re.split("[<>=]", requirement)[0] for requirement in project("format")["dependencies"]]
    makefile = (ROOT / "Makefile").read_text()
    assert f"NEEDED := {' '.join(names)}\n" in makefile
    (library, _) = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text())["outputs"]
    wanted = [text.replace("xxhash", "python-xxhash") for text in project("format")["dependencies"]]
    assert [text.replace(" ", "") for text in library["requirements"]["run"]] == ["python", *wanted]


def test_both_have_the_same_licence() -> None:
    for name in ("LICENSE", "NOTICE"):
        assert (ROOT / "format" / name).read_text() == (ROOT / name).read_text()
        assert name in project("format")["license-files"]
        assert name in project(".")["license-files"]
    assert project("format")["license"] == project(".")["license"] == "MIT"
    assert project("format")["requires-python"] == project(".")["requires-python"]


@pytest.mark.parametrize("folder", ["format", "."])
def test_the_page_on_the_index_has_no_link_into_the_checkout(folder: str) -> None:
    text = (ROOT / folder / project(folder)["readme"]).read_text(encoding="utf-8")
    assert f"pip install {project(folder)['name']}\n" in text
    links = re.findall(r"\]\(\s*<?([^)\s>]+)|^\[.+\]: (\S+)|(?:src|href)=.?([^\s>]+)", text, re.MULTILINE)
    assert [link for found in links for link in found if link and not link.startswith("https://")] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_actions_and_ask_for_no_more_than_they_need(workflow: Path) -> None:
    """A tag of an action can be moved by whoever owns it; a commit cannot."""
    text = workflow.read_text()
    for used in re.findall(r"uses: (.+)", text):
        assert re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used
    assert yaml.safe_load(text)["permissions"] == {}
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in re.findall(r"\bmake ([a-z -]+)", re.sub("#.*", "", text)):
        assert {word for word in words.split() if not word.startswith("-") and word != "s"} <= set(targets)


def test_only_a_tag_publishes() -> None:
    """Started by hand, also for a tag, the workflow is a dry run; a tag must name the version."""
    path, push = ROOT / ".github/workflows/release.yml", "github.event_name == 'push'"
    assert yaml.safe_load(path.read_text())[True]["push"] == {"tags": ["v*"]}  # to YAML, `on` is true
    release = jobs(path)
    for name, job in release.items():
        asks = set(job["permissions"].items())
        if (
            asks - {("contents", "read")} and name != "announce"
        ):  # which needs publish, and is skipped with it
            steps = [
                step
                for step in job["steps"]
                if "login" in step.get("uses", "") or "attest" in step.get("uses", "")
            ]
            assert job.get("if") == push or all(step["if"] == push for step in steps), name
    assert release["announce"]["needs"] == ["publish", "image"]
    assert release["image"]["needs"] == ["sources", "installed", "publish"], (
        "the index first, which is approved"
    )
    assert release["image"]["if"] == "${{ !failure() && !cancelled() }}", "publish is skipped by hand"
    assert push in release["image"]["steps"][4]["with"]["push"]
    assert any("v$version" in step.get("run", "") for step in release["sources"]["steps"])


def test_a_submission_to_the_registry_is_valid_and_requires_this_version(tmp_path: Path) -> None:
    folder = registry.write(tmp_path)
    metadata = yaml.safe_load((folder / "metadata.yaml").read_text())
    jsonschema.Draft7Validator(SCHEMA).validate(metadata)
    assert metadata["data"]["dockerRepository"] == "airbyte/destination-deeplake"
    theirs = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["poetry"]
    assert theirs["scripts"] == project(".")["scripts"]
    tests = yaml.safe_load((folder / "acceptance-test-config.yml").read_text())["acceptance_tests"]
    for test in [*tests["spec"]["tests"], *tests["connection"]["tests"]]:
        assert all((folder / path).is_file() for key, path in test.items() if key.endswith("_path"))
    assert (tmp_path / registry.PAGE).is_file()
