"""Credentials by name: who is asked, in which order, what is kept for how long, and what other processes get."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.credentials import named as credentials
from lakebed.credentials.base import plain
from lakebed.credentials.environment import Environment
from lakebed.credentials.named import forget, look_up, named
from lakebed.credentials.system_keyring import SystemKeyring
from lakebed.errors import (
    InvalidInputError,
    LinkCredentialsError,
    ManagedCredentialsNotFoundError,
    StorageUnavailableError,
)
from lakebed.runtime import clock
from lakebed.storage.credentials import Given
from lakebed.storage.secret import Secret
from unit_tests.lakebed.no_credentials import InMemory, keeping, nobody_knows

CANARY = "c4n4ry"


@pytest.fixture(autouse=True)
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the owner's file goes, if there is to be one."""
    with nobody_knows(tmp_path / "credentials.toml", monkeypatch) as place:
        yield place


@pytest.fixture
def keyring_there() -> Iterator[dict[tuple[str, str], str]]:
    """What a keyring holds."""
    ring = InMemory()
    with keeping(ring):
        yield ring.held


def write(place: Path, text: str) -> None:
    place.touch(0o600)
    place.write_text(text)


def granted(name: str) -> dict[str, Any]:
    values = named(name).grant().values
    assert isinstance(values, Given)
    return plain(values)


# -- the environment -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("lab", "LAKEBED_CREDS_lab"),
        ("lab", "LAKEBED_CREDS_LAB"),
        ("Lab_1", "LAKEBED_CREDS_LAB_1"),
        ("team/prod-1", "LAKEBED_CREDS_TEAM_PROD_1"),
        ("ü", "LAKEBED_CREDS__"),
        ("my file", "LAKEBED_CREDS_MY_FILE"),
    ],
)
def test_names_of_variables(name: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, json.dumps({"aws_secret_access_key": CANARY}))
    assert granted(name) == {"aws_secret_access_key": CANARY}
    assert variable.removeprefix("LAKEBED_CREDS_") in Environment().names()


def test_the_variable_of_the_file_is_no_credentials() -> None:
    assert Environment().find("file") is None
    assert Environment().names() == []
    assert "FILE" not in Environment().place("file")


@pytest.mark.parametrize("value", [CANARY, f'"{CANARY}"', "[]", "{}", f'{{"a": [1, "{CANARY}"]}}', "{"])
def test_a_variable_that_holds_no_dictionary_is_not_shown(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBED_CREDS_LAB", value)
    with pytest.raises(InvalidInputError, match="LAKEBED_CREDS_LAB holds no JSON dictionary") as caught:
        look_up("lab")
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


# -- order ---------------------------------------------------------------------------------------------------


def test_the_first_provider_that_knows_a_name_decides(
    nothing_known: Path, keyring_there: dict[tuple[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environment before file before keyring; an unknown name says who was asked, and what to do."""
    SystemKeyring().store("lab", Given({"token": "from the keyring"}))
    assert (look_up("lab").provider, granted("lab")) == ("keyring", {"token": "from the keyring"})
    write(nothing_known, '[lab]\ntoken = "from the file"\n')
    forget()
    assert (look_up("lab").provider, granted("lab")) == ("file", {"token": "from the file"})
    monkeypatch.setenv("LAKEBED_CREDS_LAB", '{"token": "from the environment"}')
    forget()
    assert (look_up("lab").provider, granted("lab")) == ("environment", {"token": "from the environment"})
    with pytest.raises(ManagedCredentialsNotFoundError) as caught:
        named("other").grant()
    for part in ("'other'", "LAKEBED_CREDS_OTHER", str(nothing_known), "keyring", "lakebed creds set other"):
        assert part in str(caught.value)


def test_a_keyring_keeps_names_and_gives_them_up(keyring_there: dict[tuple[str, str], str]) -> None:
    ring = SystemKeyring()
    ring.store("a", Given({"token": CANARY}))
    ring.store("b", Given({"token": CANARY}))
    assert ring.names() == ["a", "b"]
    ring.store("a", None)
    ring.store("a", None)
    assert (ring.names(), ring.find("a")) == (["b"], None)
    keyring_there["lakebed", "c"] = CANARY
    with pytest.raises(InvalidInputError, match="the keyring holds no JSON dictionary") as caught:
        ring.find("c")
    assert CANARY not in str(caught.value)


def test_without_a_keyring_the_others_are_enough() -> None:
    """A server has none: nothing is found, and storing says so."""
    assert SystemKeyring().find("a") is None
    assert SystemKeyring().names() == []
    with pytest.raises(StorageUnavailableError, match="NoKeyringError") as caught:
        SystemKeyring().store("a", Given({"token": CANARY}))
    assert CANARY not in str(caught.value)


# -- entries that say who makes the credentials --------------------------------------------------------------


def test_settings_of_a_cloud_pass_through(nothing_known: Path) -> None:
    write(
        nothing_known,
        '[role]\nprovider = "aws-assume-role"\nrole_arn = "arn:aws:iam::1:role/r"\nduration_seconds = 900\n'
        '[none]\nprovider = "aws-assume-role"\n'
        '[gcp]\nprovider = "gcp-default"\nttl = 5\nproject = "p"\n',
    )
    assert granted("role") == {"role_arn": "arn:aws:iam::1:role/r", "duration_seconds": 900}
    assert granted("gcp") == {"project": "p"}
    with pytest.raises(InvalidInputError, match="need a role_arn"):
        named("none").grant()


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ('provider = "no-such"', "known are: aws-secretsmanager, aws-ssm"),
        ('provider = "aws-secretsmanager"', "need a secret_id"),
        ('provider = "aws-ssm"\nparameter = ""', "need a parameter"),
        ("provider = 5", "provider of credentials must be text"),
        ('a = "b"\nttl = 0', "ttl of the credentials 'k' must be a number of seconds above 0"),
        ('a = "b"\nttl = "x"', "ttl of the credentials 'k' must be a number of seconds above 0"),
        ('a = "b"\nurls = "s3://b"', "urls of the credentials 'k' must be a list of addresses"),
        ('a = "b"\nurls = ["b"]', "urls of the credentials 'k' must be a list of addresses"),
    ],
)
def test_entries_that_make_no_sense(nothing_known: Path, entry: str, what: str) -> None:
    write(nothing_known, f"[k]\n{entry}\n")
    with pytest.raises(InvalidInputError, match=what):
        named("k").grant()


# -- providers of other packages -----------------------------------------------------------------------------

PLUGIN = f"""
from lakebed.storage.credentials import Grant
asked = []
class Source:
    name = "a source"
    def grant(self):
        return Grant({{"token": "granted"}}, None)
def find(name, options):
    asked.append((name, dict(options)))
    if name == "broken":
        raise RuntimeError("{CANARY}")
    if name == "odd":
        return "{CANARY}"
    if name == "source":
        return Source()
    return {{"token": name + options.get("suffix", "")}} if name in ("lab", "other") else None
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that offers a provider."""
    site = tmp_path / "site"
    (site / "lab_vault-1.0.dist-info").mkdir(parents=True)
    (site / "lab_vault-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: lab-vault\nVersion: 1.0\n"
    )
    (site / "lab_vault-1.0.dist-info" / "entry_points.txt").write_text(
        "[lakebed.credentials]\nlab-vault = lab_vault:find\n"
    )
    (site / "lab_vault.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop("lab_vault", None)


@pytest.mark.usefixtures("plugin")
def test_providers_of_other_packages(nothing_known: Path) -> None:
    """They are asked for entries that name them, and for names that nobody else knows."""
    write(nothing_known, '[lab]\nprovider = "lab-vault"\nsuffix = "!"\n[none]\nprovider = "lab-vault"\n')
    assert (granted("lab"), granted("other")) == ({"token": "lab!"}, {"token": "other"})
    assert granted("source") == {"token": "granted"}
    assert "granted" not in repr(named("source").grant())
    for name in ("none", "unknown"):
        with pytest.raises(ManagedCredentialsNotFoundError):
            named(name).grant()


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(("name", "what"), [("broken", "RuntimeError"), ("odd", "it returned str")])
def test_what_goes_wrong_in_a_provider_is_not_shown(name: str, what: str) -> None:
    with pytest.raises(StorageUnavailableError, match=what) as caught:
        named(name).grant()
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


# -- how long, and where -------------------------------------------------------------------------------------


def test_a_provider_is_asked_again_after_a_while_or_a_rejection(
    monkeypatch: pytest.MonkeyPatch, nothing_known: Path
) -> None:
    write(nothing_known, '[k]\ntoken = "1"\nttl = 60\n')
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    assert granted("k") == {"token": "1"}
    write(nothing_known, '[k]\ntoken = "2"\nttl = 60\n')
    assert granted("k") == {"token": "1"}
    now += 61
    assert granted("k") == {"token": "2"}
    write(nothing_known, '[k]\ntoken = "3"\nttl = 60\n')
    rejected = named("k").grant()
    assert named("k").renew(rejected)
    assert granted("k") == {"token": "3"}
    assert not named("k").renew(named("k").grant()), "nothing else is there: asking once more is of no use"


def test_one_thread_asks_for_all(nothing_known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    found = credentials.look_up

    def counted(key: str) -> Any:
        asked.append(key)
        return found(key)

    monkeypatch.setattr(credentials, "look_up", counted)
    write(nothing_known, '[k]\ntoken = "1"\n')
    threads = [threading.Thread(target=granted, args=("k",)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == ["k"]


def test_only_the_name_is_pickled(nothing_known: Path) -> None:
    write(nothing_known, f'[k]\naws_secret_access_key = "{CANARY}"\n')
    source = named("k")
    source.grant()
    data = pickle.dumps(source)
    assert CANARY.encode() not in data
    assert pickle.loads(data) is source
    assert "'k'" in repr(source)
    assert CANARY not in repr(source) + repr(source.grant()) + str(vars(source))
    with pytest.raises(InvalidInputError, match="cannot be pickled"):
        pickle.dumps(Secret(CANARY))


@pytest.mark.parametrize(
    ("url", "is_for"),
    [
        ("s3://bucket/data/x.png", True),
        ("S3://Bucket/data/x.png", True),
        ("s3://bucket/data", True),
        ("s3://bucket/database/x", False),
        ("s3://bucket/data/../x", False),
        ("s3://bucket/data/%2e%2E/x", False),
        ("s3://bucket/data/..%5c/x", False),
        ("s3://other/data/x", False),
        ("https://host/any", True),
        ("https://host:444/any", False),
        ("https://host@evil/any", False),
        ("https://host.evil/any", False),
        ("http://host/any", False),
        ("x.png", False),
    ],
)
def test_credentials_may_be_for_some_addresses_only(nothing_known: Path, url: str, is_for: bool) -> None:
    """Whoever writes a dataset chooses names and addresses in it; who owns the credentials says where they go."""
    write(
        nothing_known,
        f'[k]\ntoken = "{CANARY}"\nurls = ["s3://bucket/data/", "https://host"]\n[free]\na = "b"\n',
    )
    named("free").check(url)
    if is_for:
        named("k").check(url)
        return
    with pytest.raises(LinkCredentialsError, match="'k' are not for") as caught:
        named("k").check(url)
    assert CANARY not in str(caught.value)


def test_headers_go_to_the_hosts_of_their_urls(nothing_known: Path) -> None:
    write(nothing_known, '[k]\nheaders = {A = "b"}\nurls = ["https://host:8/x/", "s3://b/"]\n')
    assert granted("k") == {"headers": '{"A": "b"}', "hosts": ["host:8"]}
