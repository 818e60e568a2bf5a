"""``lakebed creds``: named credentials, for datasets that store only the names. Secrets are never shown.

Secrets are read from a prompt or from standard input, never from the command line, which other users can see.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn
from urllib.parse import urlsplit

import click

import lakebed
from lakebed.cli.commands import Commands, json_option, with_errors
from lakebed.cli.output import say, say_json, tell_table
from lakebed.credentials import plugins
from lakebed.credentials.base import OPTIONS, entry, parsed, plain
from lakebed.credentials.file import OwnersFile
from lakebed.credentials.named import MAKERS, PROVIDERS, Named, NamedCredentials, forget, look_up, named
from lakebed.credentials.system_keyring import SystemKeyring
from lakebed.documents.linked_creds import check_name
from lakebed.errors import KeyNotFound, LakebedError, StorageError, UnsupportedUrlError
from lakebed.links.fetch import fetch_part
from lakebed.storage.credentials import SETTINGS, Given
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.secret import Secret
from lakebed.storage.url import SCHEMES

PREVIOUS = "previous"
"""Key of an entry that holds its previous content until the new credentials are tested."""

_ASKED = {
    "s3": ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
    "gs": ("token",),
    "az": ("account_name", "account_key"),
    "http": ("Authorization",),
}
_OPTIONAL = frozenset({"aws_session_token"})
_OPEN = (OPTIONS - {PREVIOUS}) | (SETTINGS - {"creds_key"}) | {"hosts", "external_id"}
KINDS = tuple(_ASKED)


_OPTION = click.option(
    "-o",
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting that is not secret: endpoint_url, aws_region, profile_name, provider, urls, ...",
)
_KIND = click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="s3",
    show_default=True,
    help="Kind of credentials to ask for at a terminal; otherwise standard input is read as a JSON dictionary.",
)
_KEYRING = click.option(
    "--keyring",
    "in_keyring",
    is_flag=True,
    help="Use the keyring of the operating system instead of the file.",
)


@click.group(cls=Commands)
def creds() -> None:
    """Keep credentials under names, for datasets that store only the names. Nothing here shows a secret.

    For example: lakebed creds set lab
    """


# -- list --------------------------------------------------------------------------------------------------------


@creds.command(name="list")
@click.argument("url", required=False)
@json_option
@with_errors
def list_creds(url: str | None, as_json: bool) -> None:
    """List the names that are known here, or those in the dataset URL. Exit status 1: the dataset lacks some."""
    rows = _of_dataset(url) if url is not None else _of_providers()
    headings = ["name", *(("provider", "state") if url is None else ("managed", "used", "state"))]
    cells = [[_cell(row[heading]) for heading in headings] for row in rows]
    nothing = "no credentials" if url is None else f"no names of credentials in {url}"
    tell_table(rows, headings, cells, nothing, as_json=as_json)
    if any(row["state"] != "ok" for row in rows) and url is not None:
        sys.exit(1)


def _cell(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _of_providers() -> list[dict[str, Any]]:
    rows = []
    for provider in PROVIDERS:
        try:
            names = provider.names()
        except LakebedError as error:
            rows.append({"name": "-", "provider": provider.name, "state": str(error)})
            continue
        rows += [{"name": name, "provider": provider.name, "state": _state(name)} for name in names]
    rows += [
        {"name": "-", "provider": name, "state": "asked for other names"} for name in plugins.installed()
    ]
    return rows


def _of_dataset(url: str) -> list[dict[str, Any]]:
    names = lakebed.load(url, read_only=True).link_creds.names()
    return [
        {"name": name, "managed": name in names.managed, "used": name in names.used, "state": _state(name)}
        for name in names.names
    ]


def _state(name: str) -> str:
    try:
        Named(name).grant()
    except LakebedError as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


# -- set, remove, rotate -----------------------------------------------------------------------------------------


@creds.command(name="set")
@click.argument("name")
@_OPTION
@_KIND
@_KEYRING
@with_errors
def set_creds(name: str, options: tuple[str, ...], kind: str, in_keyring: bool) -> None:
    """Store credentials under NAME, read from a prompt or as JSON from standard input; they replace earlier ones."""
    check_name(name)
    values = _inputs(options, kind)
    _store(name, values, in_keyring=in_keyring)
    say(f"stored {name!r} in the {'keyring' if in_keyring else f'file {OwnersFile().place(name)}'}")
    provider = look_up(name).provider
    if provider != ("keyring" if in_keyring else "file"):
        say(f"warning: the {provider} has {name!r} too, and is asked first", err=True)


@creds.command(name="remove")
@click.argument("name")
@_KEYRING
@with_errors
def remove_creds(name: str, in_keyring: bool) -> None:
    """Remove what is stored under NAME."""
    if (SystemKeyring() if in_keyring else OwnersFile()).find(name) is None:
        raise click.ClickException(f"nothing is stored under {name!r}")
    _store(name, None, in_keyring=in_keyring)
    say(f"removed {name!r}")


@creds.command(name="rotate")
@click.argument("name")
@click.argument("url", required=False)
@click.option("--back", is_flag=True, help="Restore the credentials from before the last rotation.")
@_OPTION
@_KIND
@with_errors
def rotate_creds(name: str, url: str | None, back: bool, options: tuple[str, ...], kind: str) -> None:
    """Replace the credentials NAME; if URL refuses the new ones, the old ones stay."""
    where, old = _stored(name)
    if back:
        before = old.get(PREVIOUS)
        restored = parsed(before.reveal() if isinstance(before, Secret) else None)
        if restored is None:
            raise click.ClickException(f"{name!r} has no earlier credentials to restore")
        _store(name, restored, in_keyring=where == "keyring")
        say(f"{name!r} is what it was before it was last rotated")
        return
    kept_values = {key: value for key, value in old.items() if key != PREVIOUS}
    unchanged = {key: value for key, value in kept_values.items() if key in _OPEN}
    values = {**unchanged, **_inputs(options, kind), PREVIOUS: Secret(json.dumps(plain(kept_values)))}
    _store(name, entry(values), in_keyring=where == "keyring")
    if url is None:
        say(
            f"rotated {name!r}; `lakebed creds test {name} URL` drops what it was before, `--back` brings it back"
        )
        return
    problem = _probe(url, named(name))
    if problem is None:
        _drop_previous(name)
        say(f"rotated {name!r}: {url} lets it in")
        return
    _store(name, entry(kept_values), in_keyring=where == "keyring")
    _fail(f"{name!r} is what it was before, as the new credentials do not work", problem)


def _drop_previous(name: str) -> None:
    """Remove the former content of a rotated entry."""
    where, values = _stored(name)
    if PREVIOUS in values:
        rest = {key: value for key, value in values.items() if key != PREVIOUS}
        _store(name, entry(rest), in_keyring=where == "keyring")


def _stored(name: str) -> tuple[str, Given]:
    provider, found = look_up(name)
    if provider not in ("file", "keyring") or not isinstance(found, Given):
        raise click.ClickException(
            f"{name!r} comes from the {provider}, which this command cannot change; change it there"
        )
    return provider, found


def _store(name: str, values: Given | None, *, in_keyring: bool) -> None:
    if in_keyring:
        SystemKeyring().store(name, values)
    else:
        OwnersFile().change(name, lambda _: values)
    forget(name)


# -- test --------------------------------------------------------------------------------------------------------


@creds.command(name="test")
@click.argument("name")
@click.argument("url")
@json_option
@with_errors
def test_creds(name: str, url: str, as_json: bool) -> None:
    """Request one object, or one line of a list, from URL with the credentials NAME. Exit status 1: access refused."""
    problem = _probe(url, named(name))
    if as_json:
        found = None if problem is None else {"class": type(problem).__name__, "message": str(problem)}
        say_json({"name": name, "url": url, "ok": problem is None, "error": found})
        if problem is not None:
            sys.exit(1)
    elif problem is not None:
        _fail(f"{url} does not let {name!r} in", problem)
    else:
        say(f"{url} lets {name!r} in")
    held = look_up(name).found
    if isinstance(held, Given) and PREVIOUS in held:
        _drop_previous(name)


def _fail(what: str, problem: LakebedError) -> NoReturn:
    raise click.ClickException(f"{what}: {type(problem).__name__}: {problem}")


# -- one cheap request ------------------------------------------------------------------------------------------


def _probe(url: str, creds: NamedCredentials) -> LakebedError | None:
    """Request one object, or the beginning of a list; return the error, None if the server grants access.

    Parameters
    ----------
    url
        An object or a folder of a store, or a file on a web server.
    """
    try:
        creds.check(url)
        _ask(url, creds)
    except KeyNotFound:
        # A server that denied access would deny it to missing keys, too: KeyNotFound proves access.
        return None
    except LakebedError as error:
        return error
    except OSError as error:
        return StorageError(f"{url} can not be reached: {type(error).__name__}")
    return None


def _ask(url: str, creds: NamedCredentials) -> None:
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        raise UnsupportedUrlError(
            f"{url} is not an address that needs credentials; these begin with {', '.join(SCHEMES)}"
        )
    if scheme in ("http", "https"):
        fetch_part(url, 0, 1, creds=creds)
        return
    bucket, _, prefix = rest.partition("/")
    storage = ObjectStorage(SCHEMES[scheme], bucket, "", creds)
    if prefix and not prefix.endswith("/") and storage.stat(prefix) is not None:
        return
    next(iter(storage.list(prefix)), None)


# -- input -------------------------------------------------------------------------------------------------------


def _inputs(options: tuple[str, ...], kind: str) -> Given:
    """Return the entry to store, made from options, standard input and prompts."""
    values = _options(options)
    if not sys.stdin.isatty():
        text = Secret(sys.stdin.read())
        more = parsed(text.reveal()) if text.reveal().strip() else Given({})
        if more is None:
            raise click.ClickException(
                'standard input holds no JSON dictionary, such as {"aws_access_key_id": ..., ...}'
            )
        values |= more
    elif not any(key in values for key in ("provider", "profile_name")):
        values |= _answers(kind)
    found = entry(values)
    if found is None:
        raise click.UsageError(
            "pass credentials as a JSON dictionary on standard input, or name their source by -o"
        )
    return found


def _options(options: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or not key:
            raise click.UsageError("an option must have the form KEY=VALUE")
        if key not in _OPEN:
            raise click.UsageError(
                f"{key} may be secret, and others can read the command line: pass it on standard input or at the prompt"
            )
        if "://" in text and "@" in urlsplit(text).netloc:
            raise click.UsageError(f"{key} holds a password, and the command line can be read by others")
        values[key] = text.split(",") if key in ("urls", "hosts") else _number(text) if key == "ttl" else text
    provider = values.get("provider")
    if provider is not None and provider not in MAKERS and provider not in plugins.installed():
        raise click.UsageError(
            f"{provider!r} is not a provider; providers: {', '.join([*MAKERS, *plugins.installed()])}"
        )
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.UsageError("ttl must be a number of seconds") from None


def _answers(kind: str) -> dict[str, Any]:
    """Prompt for the credentials of a kind of store; secrets are not shown while they are typed."""
    found = {}
    for key in _ASKED[kind]:
        text = Secret(
            click.prompt(key, hide_input=key not in SETTINGS, default="" if key in _OPTIONAL else None)
        )
        if text:
            found[key] = text
    return {"headers": found} if kind == "http" else found
