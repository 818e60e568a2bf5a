"""No secret gets out: not into output, logs, tracebacks, errors, pickles or datasets, whatever is done or fails."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import lakebed
from lakebed import config
from lakebed.cli import main
from lakebed.credentials.named import forget, named
from lakebed.dataset.display.viewing import Viewer
from lakebed.errors import LakebedError
from lakebed.flight import LakeServer
from lakebed.links.http import HTTP
from lakebed.storage.auth import aws_chain
from lakebed.storage.credentials import Grant, kept
from lakebed.storage.secret import Secret
from lakebed.storage.url import open_storage, parse
from unit_tests.lakebed.canary import CANARY, Telltale, Watch, listening, telltale
from unit_tests.lakebed.no_credentials import nobody_knows

KEYS = {
    "aws_access_key_id": "id",
    "aws_secret_access_key": CANARY,
    "aws_session_token": CANARY,
    "aws_region": "r",
}
HEADERS = {"headers": {"Authorization": f"Bearer {CANARY}", "X-Key": CANARY}}
REFUSED = "http://127.0.0.1:1"

PLUGIN = f"""
def find(name, options):
    secret = "{CANARY}"
    if name == "raises":
        raise RuntimeError("the vault says " + secret)
    if name == "odd":
        return [secret]
    if name == "source":
        return Source()
class Source:
    name = "a source"
    def grant(self):
        secret = "{CANARY}"
        raise OSError(secret)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The owner's file; the environment holds the secret wherever clouds look for one."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": CANARY,
        "AWS_SESSION_TOKEN": CANARY,
        "AWS_DEFAULT_REGION": "r",
        "AWS_REGION": "r",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AZURE_STORAGE_ACCOUNT_NAME": "account",
        "AZURE_STORAGE_ACCOUNT_KEY": CANARY,
        "LAKEBED_CREDS_FROM_ENVIRONMENT": json.dumps(KEYS),
        "LAKEBED_CREDS_DAMAGED": f'{{"aws_secret_access_key": "{CANARY}"',
        "LAKEBED_CREDS_LIST": f'["{CANARY}"]',
        "HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws_chain, "ATTEMPTS", 1)
    for name, seconds in {
        "RETRY_SECONDS": 0.1,
        "STALL_SECONDS": 0.3,
        "REQUEST_SECONDS": 0.5,
        "HTTP_TIMEOUT": 0.5,
    }.items():
        monkeypatch.setattr(config, name, seconds)
    with nobody_knows(tmp_path / "credentials.toml", monkeypatch) as found:
        yield found


@pytest.fixture
def server() -> Iterator[Telltale]:
    with telltale() as found:
        yield found
        HTTP.close()


@pytest.fixture
def watch(capfd: pytest.CaptureFixture[str]) -> Iterator[Watch]:
    """What listens; at the end nothing may have been heard, on the standard streams neither."""
    found = Watch()
    with listening(found) as listener:
        yield found
    written = capfd.readouterr()
    found.see("standard output", written.out)
    found.see("standard error", written.err)
    assert found.hits() == []
    assert listener.records > 0


def write(place: Path, text: str, mode: int = 0o600) -> None:
    place.write_text(text)
    place.chmod(mode)
    forget()


def s3(url: str) -> dict[str, Any]:
    return {**KEYS, "endpoint_url": url}


# -- stores --------------------------------------------------------------------------------------------------


def test_stores_that_refuse_and_servers_that_tell(
    place: Path,
    server: Telltale,
    watch: Watch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every way of being refused, by every way of giving credentials, whatever is in the answer."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    modes = (
        "denied",
        "unknown key",
        "bad token",
        "expired",
        "no bucket",
        "broken",
        "slow down",
        "teapot",
        "garbage",
        "silent",
    )
    for mode in modes:
        server.mode = mode
        for call in (lakebed.load, lakebed.empty, lakebed.delete):
            watch.fails(f"s3, {mode}", call, "s3://bucket/ds", creds=s3(server.url))
        watch.fails(f"copy to s3, {mode}", lakebed.copy, ds, "s3://bucket/ds", dest_creds=s3(server.url))
    server.mode = "denied"
    keys, url = s3(server.url), "s3://bucket/ds"
    for call in (lakebed.exists, lakebed.dataset, lakebed.gc, lakebed.load):
        watch.tries(call.__name__, call, url, creds=keys)
    watch.tries("like", lakebed.like, url, ds, creds=keys)
    watch.tries("deepcopy there", lakebed.deepcopy, ds, url, dest_creds=keys)
    watch.tries("deepcopy here", lakebed.deepcopy, url, tmp_path / "copy", src_creds=keys)
    watch.tries("materialize", lakebed.materialize, url, tmp_path / "copy", src_creds=keys)
    watch.tries("read", lakebed.read, f"{url}/x.png", verify=True, creds=keys)
    monkeypatch.setenv("LAKEBED_CREDS_LAB", json.dumps(keys))
    watch.tries("connect", lakebed.connect, url, "lab")
    server.mode = "unauthorized"
    for scheme, creds in {
        "gs": {"bearer_token": CANARY, "endpoint_url": server.url},
        "az": {"account_name": "a", "account_key": "a2V5" + CANARY + "ab", "endpoint_url": server.url},
        "azure": {"account_name": "a", "sas_token": f"sig={CANARY}", "endpoint_url": server.url},
    }.items():
        watch.fails(scheme, lakebed.load, f"{scheme}://bucket/ds", creds=creds)
    watch.fails("web", lakebed.load, f"{server.url}/ds", creds=HEADERS)
    watch.fails("nobody there", lakebed.load, "s3://bucket/ds", creds=s3(REFUSED))
    assert watch.failures >= 40


def test_credentials_that_make_no_sense(place: Path, watch: Watch) -> None:
    """Unknown keys, wrong types, damaged files of services: what is wrong is told without what is in it."""
    for scheme, creds in [
        ("s3", {**KEYS, "password": CANARY}),
        ("s3", {"aws_secret_access_key": CANARY}),
        ("s3", {"aws_access_key_id": 5, "aws_secret_access_key": CANARY}),
        ("s3", {**KEYS, "endpoint_url": f"http://me:{CANARY}@127.0.0.1:1"}),
        ("s3", {**KEYS, "endpoint_url": "no address"}),
        ("s3", {**KEYS, "role_arn": "arn:aws:iam::1:role/r", "sts_endpoint_url": REFUSED}),
        ("gs", {"token": f'{{"private_key": "{CANARY}"'}),
        ("gs", {"token": {"type": "service_account", "private_key": CANARY, "client_email": "a@b"}}),
        ("gs", {"service_account": "/no/such/file"}),
        ("gs", {"token": CANARY, "bearer_token": CANARY}),
        ("gs", {"token": CANARY}),
        ("gs", {"token": f'{{"type": "x", "private_key": "{CANARY}"}}'}),
        ("gs", {"token": f'{{"type": "{CANARY[:0]}authorized_user", "refresh_token": "{CANARY}"}}'}),
        ("az", {"connection_string": f"AccountKey={CANARY};x"}),
        ("az", {"account_name": "a", "account_key": CANARY, "sas_token": CANARY}),
        ("az", {"account_name": "a", "account_key": f"a2V5{CANARY}"}),
        ("az", {"client_secret": CANARY}),
        ("https", {**HEADERS, "password": CANARY}),
    ]:
        watch.fails(f"{scheme} {max(creds)}", lakebed.load, f"{scheme}://bucket/ds", creds=creds)


def test_addresses_that_hold_secrets(place: Path, watch: Watch) -> None:
    """They are shown without them; the frames that they come through have them, as they are what is asked for."""
    for url in (
        f"ftp://me:{CANARY}@host/ds",
        f"https://127.0.0.1:1/ds?X-Amz-Signature={CANARY}",
        f"https://me:{CANARY}@127.0.0.1:1/ds",
    ):
        with pytest.raises(LakebedError) as caught:
            lakebed.load(url)
        watch.see(url[:5], str(caught.value))


# -- names and providers -------------------------------------------------------------------------------------


def test_providers_that_fail(
    place: Path, server: Telltale, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged entries, services that refuse, packages that raise: the name is told, and what to do."""
    site = tmp_path / "site"
    (site / "vault-1.0.dist-info").mkdir(parents=True)
    (site / "vault-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vault\nVersion: 1.0\n"
    )
    (site / "vault-1.0.dist-info" / "entry_points.txt").write_text(
        "[lakebed.credentials]\nvault = canary_vault:find\n"
    )
    (site / "canary_vault.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(site))
    for name in ("damaged", "list", "raises", "odd", "source", "unknown"):
        watch.fails(name, named(name).grant)
    sys.modules.pop("canary_vault", None)
    for text in (
        f'[k]\ntoken = "{CANARY}\n',
        f"[k]\ntoken = {CANARY}\n",
        f'{CANARY} = 1\n[k]\ntoken = "{CANARY}"\ntoken = "{CANARY}"\n',
        f"k = '{CANARY}'\n",
        f"[k]\ntoken = [['{CANARY}']]\n",
        f"[k]\ntoken = '{CANARY}'\nurls = '{CANARY}'\n",
        f"[k]\ntoken = '{CANARY}'\nttl = '{CANARY}'\n",
        f"[k]\ntoken = '{CANARY}'\nprovider = 'none'\n",
    ):
        write(place, text)
        watch.fails(text[:12], named("k").grant)
    write(place, f"[k]\ntoken = '{CANARY}'\n", 0o644)
    watch.fails("a file for all", named("k").grant)
    for provider, wanted, mode in (
        ("aws-secretsmanager", "secret_id", "secret"),
        ("aws-secretsmanager", "secret_id", "json"),
        ("aws-ssm", "parameter", "secret"),
        ("aws-ssm", "parameter", "garbage"),
    ):
        server.mode = mode
        entry = f"[k]\nprovider = '{provider}'\n{wanted} = 'x'\nmanager_endpoint = '{server.url}'\n"
        entry += f"token = '{CANARY}'\n"
        write(place, entry)
        watch.fails(f"{provider}, {mode}", named("k").grant)
    write(place, entry.replace(server.url, REFUSED))
    watch.fails("no manager", named("k").grant)
    write(place, entry.replace(server.url, "no address"))
    watch.fails("no address of a manager", named("k").grant)
    server.mode = "denied"
    role = {
        **s3(server.url),
        "role_arn": "arn:aws:iam::1:role/r",
        "sts_endpoint_url": server.url,
        "external_id": CANARY,
    }
    watch.fails("a role", lakebed.load, "s3://bucket/ds", creds=role)
    assert watch.failures >= 20


def test_what_is_shown_and_pickled(place: Path, watch: Watch, tmp_path: Path) -> None:
    """Objects that hold secrets say so by three asterisks, and leave them behind when they travel."""
    write(place, f"[k]\ntoken = '{CANARY}'\n")
    ds = lakebed.empty(tmp_path / "ds")
    ds.add_creds_key("a")
    ds.populate_creds("a", KEYS)
    given = kept({**KEYS, **HEADERS})
    source = named("k")
    things: dict[str, Any] = {
        "Secret": Secret(CANARY),
        "Given": given,
        "Grant": Grant(given or {}),
        "password in an address": kept({"endpoint_url": f"http://me:{CANARY}@host"}),
        "grant of a name": source.grant(),
        "NamedCredentials": source,
        "Location": parse("s3://bucket/ds", creds=KEYS),
        "ObjectStorage": open_storage(parse("s3://bucket/ds", creds=s3(REFUSED))),
        "LinkCredentials": ds.link_creds,
        "Dataset": ds,
        "Sample": lakebed.read(f"{REFUSED}/x.png", creds=HEADERS),
    }
    for name, thing in things.items():
        watch.shown(name, thing)
    again = pickle.loads(pickle.dumps(ds))
    watch.fails("in another process", again.link_creds.by_name, "a", "s3://b/x")
    watch.fails("JSON", json.dumps, {"creds": given}, default=vars)


# -- datasets ------------------------------------------------------------------------------------------------


def test_links_commits_and_damage(place: Path, server: Telltale, watch: Watch, tmp_path: Path) -> None:
    """A dataset whose links need credentials: everything that is done with it, and what fails in it."""
    folder = tmp_path / "ds"
    ds = lakebed.empty(folder)
    ds.create_tensor("l", htype="link[image]", sample_compression="png", verify=False)
    for name, creds in {
        "s3": s3(server.url),
        "web": {**HEADERS, "hosts": ["127.0.0.1"]},
        "bad": {"x": CANARY},
    }.items():
        ds.add_creds_key(name)
        ds.populate_creds(name, creds)
    ds.add_creds_key("from environment", managed=True)
    ds.add_creds_key("nobody")
    server.mode = "denied"
    web = f"{server.url}/x.png"
    links = [
        ("s3://b/x.png", "s3"),
        ("s3://b/x.png", "bad"),
        (web, "web"),
        ("gs://b/x", "web"),
        (f"{REFUSED}/x.png", "web"),
    ]
    for url, key in links:
        ds.l.append(lakebed.link(url, creds_key=key))
    ds.commit("links")
    with ds:
        ds.l.append(lakebed.link(f"{web}?sig={CANARY[:0]}", creds_key="web"))
    ds.commit("more links")
    for mode in ("denied", "unauthorized", "broken", "bad token", "garbage", "redirect", "silent"):
        server.mode = mode
        for row in range(len(ds.l)):
            watch.fails(f"link {row}, {mode}", ds.l[row].numpy)
    again = pickle.loads(pickle.dumps(ds))
    for row in range(3):
        watch.fails(f"link {row} elsewhere", again.l[row].numpy)
    verified = ds.create_tensor("v", htype="link[image]", sample_compression="png")
    for url, key in (*links, ("s3://b/x.png", "nobody"), ("s3://b/x.png", "undeclared")):
        watch.fails(f"append {key}", verified.append, lakebed.link(url, creds_key=key))
    watch.fails("populate", ds.populate_creds, "undeclared", KEYS)
    watch.fails("populate twice", ds.populate_creds, "s3", KEYS, from_environment=True)
    watch.fails("connect", ds.connect, creds_key="from environment")
    watch.fails("commit", lakebed.load(folder, read_only=True).commit, "x")
    ds.close()
    watch.see("log", str([entry["message"] for entry in ds.commits]))
    (folder / "linked_creds.json").write_text("{")
    watch.fails("damage", lakebed.load(folder).get_creds_keys)
    watch.files(folder)
    assert watch.failures >= 50


# -- commands ------------------------------------------------------------------------------------------------


def leaves(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command, with the words that lead to it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, (*path, name))


def test_every_command(
    place: Path, server: Telltale, watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever commands there are, on a store that refuses, on one that is not there and on a dataset with names."""
    write(
        place,
        f"[k]\naws_access_key_id = 'id'\naws_secret_access_key = '{CANARY}'\nendpoint_url = '{server.url}'\n",
    )
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.x.append(1)
    ds.add_creds_key("k", managed=True)
    ds.commit("one")
    ds.close()
    monkeypatch.setattr(Viewer, "wait", Viewer.close)  # or `view` would wait for Ctrl-C
    monkeypatch.setattr(LakeServer, "serve", LakeServer.shutdown)
    monkeypatch.setattr("webbrowser.open", lambda url: watch.see("address", url))
    found = dict(leaves(main))
    assert {("info",), ("creds", "set"), ("creds", "rotate")} <= found.keys()
    for words, command in found.items():
        for url, endpoint in (("s3://b/ds", server.url), ("s3://b/ds", REFUSED), (ds.path, REFUSED)):
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
            taken = [p for p in command.params if isinstance(p, click.Argument)]
            names = [p.name for p in taken if p.required or words in {("view",), ("serve",)}]
            values = [
                "k" if name == "name" else f"{tmp_path}/out" if name == "dest" else url for name in names
            ]
            given = (
                None if words == ("delete",) else json.dumps(KEYS)
            )  # the runner prints the answer to a question
            result = CliRunner().invoke(main, [*words, *values], input=given)
            watch.see(f"output of {' '.join(words)} {url}", result.output)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                watch.error(" ".join(words), result.exception)
    for arguments in (
        ["set", "k", "-o", "ttl=x"],
        ["test", "k", "s3://b/"],
        ["rotate", "k", "s3://b/"],
        ["list"],
        ["list", "s3://b"],
    ):
        for given in (CANARY, json.dumps([CANARY]), json.dumps(KEYS)):
            result = CliRunner().invoke(main, ["creds", *arguments], input=given)
            watch.see(f"creds {arguments[0]}", result.output)
    watch.files(tmp_path / "ds")
    CliRunner().invoke(main, ["creds", "set", "k"], input=json.dumps(KEYS))
    assert CANARY in place.read_text(), "it is where it belongs"
