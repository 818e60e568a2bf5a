"""Access to Google Cloud Storage.

===========================  ==========================================================================================
key                          meaning
===========================  ==========================================================================================
``token``                    as in 3.x: a service account (dictionary, its JSON, or the path of its file),
                             ``"google_default"``, or ``"anon"``; also the dictionary of a service account alone
``service_account``          path of the file of a service account
``bearer_token``             a token that is renewed elsewhere
``anonymous``                no signature, for public buckets
``requester_pays``           project that is billed
``endpoint_url``             address of an emulator; also ``STORAGE_EMULATOR_HOST``
``ca_bundle``, ``verify``    file of certificates; False to accept any
``proxy``                    address of a proxy
===========================  ==========================================================================================

If no credentials are given, they come from ``GOOGLE_APPLICATION_CREDENTIALS``, the file of ``gcloud auth
application-default login``, and the metadata of a virtual machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakebed.errors import InvalidInputError, MissingCredsError
from lakebed.storage.auth.client import Access
from lakebed.storage.auth.keys import flag, known, plain, secret
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.auth.transport import bundle, client_options, has_metadata
from lakebed.storage.credentials import Grant
from lakebed.storage.secret import Secret

KEYS = (
    *("token", "service_account", "bearer_token", "anonymous", "requester_pays", "endpoint_url"),
    *("ca_bundle", "verify", "proxy"),
)
ALIASES = {"endpoint": "endpoint_url"}

_DEFAULT, _ANONYMOUS = "google_default", "anon"
_METADATA_HOST = "metadata.google.internal"
_KINDS = ("service_account", "authorized_user")


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check a dictionary of credentials.

    Raises
    ------
    InvalidInputError
        If a key is unknown, or keys exclude each other.
    """
    if values.get("type") is not None:
        whole = {key: v.reveal() if isinstance(v, Secret) else v for key, v in values.items()}
        values = {"token": Secret(json.dumps(whole))}
    result = known(values, "Google Cloud Storage", KEYS, ALIASES)
    if isinstance(result.get("token"), Mapping):
        result["token"] = Secret(json.dumps(dict(result["token"])))
    if plain(result, "token") == _ANONYMOUS:
        del result["token"]
        result["anonymous"] = True
    ways = [key for key in ("token", "service_account", "bearer_token") if result.get(key)]
    if flag(result, "anonymous"):
        ways.append("anonymous")
    if len(ways) > 1:
        raise InvalidInputError(f"creds for Google Cloud Storage hold {' and '.join(ways)}: give one of them")
    return result


def access(chosen: Mapping[str, Any], bucket: str, renewal: Renewal | None) -> Access:  # noqa: ARG001
    """Return how to access a bucket.

    If the credentials are from a file or the metadata service, the client itself renews its tokens.
    """
    emulator = os.environ.get("STORAGE_EMULATOR_HOST") or None
    if emulator and "://" not in emulator:
        emulator = f"http://{emulator}"
    endpoint = plain(chosen, "endpoint_url") or emulator
    options = client_options(chosen, endpoint, bundle(chosen))
    config: dict[str, Any] = {} if endpoint is None else {"base_url": endpoint}
    payer = plain(chosen, "requester_pays")
    if payer:
        options["default_headers"] = {"x-goog-user-project": payer}
    if renewal is not None:
        return Access("", config, options, renewal, _shaped)
    if flag(chosen, "anonymous"):
        return _anonymous("anonymous", config, options)
    found = _file(chosen)
    if found is not None:
        return Access(found[0], config | _from_file(*found), options)
    if emulator and not plain(chosen, "endpoint_url"):
        return _anonymous("anonymous, as for every emulator", config, options)
    host = os.environ.get("GCE_METADATA_HOST") or _METADATA_HOST
    if has_metadata(host, "/", {"Metadata-Flavor": "Google"}, "Metadata-Flavor"):
        return Access("instance metadata", config, options)
    raise MissingCredsError(
        "no credentials for Google Cloud Storage: tried creds=, GOOGLE_APPLICATION_CREDENTIALS, the application "
        "default credentials of gcloud, and the metadata of a virtual machine, in this order; set one of them, or pass "
        "creds={'token': 'anon'} for a public bucket"
    )


def _anonymous(label: str, config: Mapping[str, Any], options: Mapping[str, Any]) -> Access:
    # To write, the client would ask the metadata service for a token, and on a machine without one wait for a minute.
    # With an empty token it neither asks for a token nor sends one.
    anonymous = Renewal(lambda: Grant({"bearer_token": ""}), label)
    return Access(label, {**config, "skip_signature": True}, options, anonymous, lambda _: {"token": ""})


def source(chosen: Mapping[str, Any], provider: str) -> Renewal | None:
    """Return the source of the token in a dictionary that :func:`settings` checked; None if it has no token."""
    if not plain(chosen, "bearer_token"):
        return None
    token = Secret(plain(chosen, "bearer_token") or "")
    return Renewal(lambda: Grant({"bearer_token": token}), provider)


def _file(chosen: Mapping[str, Any]) -> tuple[str, Secret] | None:
    """Find a file of credentials; return the setting that names it, and its path, or its text if that was given."""
    given = secret(chosen, "token")
    if given and given.reveal() != _DEFAULT:
        return "creds", given
    default = Path(os.environ.get("CLOUDSDK_CONFIG") or "~/.config/gcloud").expanduser()
    default /= "application_default_credentials.json"
    for who, path in (
        ("creds", plain(chosen, "service_account")),
        ("GOOGLE_APPLICATION_CREDENTIALS", os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")),
        ("gcloud", str(default) if default.is_file() else None),
    ):
        if path:
            return who, Secret(path)
    return None


def _from_file(who: str, named: Secret) -> dict[str, str]:
    """Return the settings for a file of credentials, or for its text."""
    is_text = named.reveal().lstrip().startswith("{")
    content = named if is_text else _content(named)
    if isinstance(content, str):
        raise MissingCredsError(f"the file of credentials named by {who} cannot be read: {content}")
    kind, is_key = _kind(content)
    if kind not in _KINDS and not is_key:
        raise InvalidInputError(
            f"credentials of Google from {who} are of type {kind!r}; known are {', '.join(_KINDS)}, as JSON. "
            "For others pass creds={'bearer_token': ...} or a source of credentials"
        )
    if kind != "authorized_user":
        return {"service_account_key": content.reveal()}
    if is_text:
        raise InvalidInputError(
            "credentials of Google of type 'authorized_user' are read from their file: name it, by "
            "creds={'service_account': PATH} or GOOGLE_APPLICATION_CREDENTIALS"
        )
    return {"application_credentials": str(Path(named.reveal()).expanduser())}


def _content(path: Secret) -> Secret | str:
    """Return the text of a file, or the problem: an exception would show the text or a mistaken path."""
    try:
        return Secret(Path(path.reveal()).expanduser().read_text("utf-8"))
    except OSError as error:
        return error.strerror or type(error).__name__
    except (ValueError, RuntimeError) as error:
        return type(error).__name__


def _kind(content: Secret) -> tuple[object, bool]:
    """Return the type that a file names, and whether the file holds a key."""
    try:
        found = json.loads(content.reveal())
    except ValueError:
        found = None
    return (found.get("type"), "private_key" in found) if isinstance(found, dict) else (None, False)


def _shaped(grant: Grant) -> dict[str, Any]:
    token = plain(grant.values, "bearer_token") or plain(grant.values, "token")
    if not token:
        raise MissingCredsError("the source of credentials returned no bearer_token for Google Cloud Storage")
    return {"token": token}
