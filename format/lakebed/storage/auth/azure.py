"""Access to Azure blob storage.

=================================  ====================================================================================
key                                meaning
=================================  ====================================================================================
``account_name``                   the storage account
``account_key``                    its key, or
``sas_token``                      a shared access signature, or
``bearer_token``                   a token that is renewed elsewhere, or
``tenant_id``, ``client_id``       of an application, with ``client_secret`` or ``federated_token_file``; and
                                   ``authority_host`` outside of the public cloud
``managed_identity``               True: the account of this machine; ``client_id`` chooses one
``use_azure_cli``                  True: the user who is logged in with ``az login``
``connection_string``              account, key or signature, and endpoint in one text
``endpoint_url``                   address that is not that of the account in Azure's public cloud
``use_emulator``                   True: Azurite on this machine
``anonymous``                      no signature, for public containers
``ca_bundle``, ``verify``          file of certificates; False to accept any
``proxy``                          address of a proxy
=================================  ====================================================================================

Missing values come from ``AZURE_STORAGE_CONNECTION_STRING``, ``AZURE_STORAGE_ACCOUNT_NAME`` (or ``_ACCOUNT``),
``AZURE_STORAGE_ACCOUNT_KEY`` (or ``_KEY``), ``AZURE_STORAGE_SAS_TOKEN``, ``AZURE_TENANT_ID``, ``AZURE_CLIENT_ID``,
``AZURE_CLIENT_SECRET``, ``AZURE_FEDERATED_TOKEN_FILE``, and last from the machine's managed identity.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any

from lakebed.errors import InvalidInputError, MissingCredsError
from lakebed.storage.auth.client import Access
from lakebed.storage.auth.keys import flag, known, plain, secret
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.auth.transport import bundle, client_options, has_metadata
from lakebed.storage.credentials import Grant
from lakebed.storage.secret import Secret

KEYS = (
    *("account_name", "account_key", "sas_token", "bearer_token", "tenant_id", "client_id", "client_secret"),
    *("federated_token_file", "authority_host", "managed_identity", "use_azure_cli", "connection_string"),
    *("endpoint_url", "use_emulator", "anonymous", "ca_bundle", "verify", "proxy"),
)
ALIASES = {"endpoint": "endpoint_url"}

# Keys that are sufficient to open a container, in the order of preference.
_KEYS_OF_ACCOUNT = ("account_key", "sas_token", "bearer_token")
_ENVIRONMENT = {
    "account_name": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"),
    "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY"),
    "sas_token": ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"),
    "tenant_id": ("AZURE_TENANT_ID", "AZURE_STORAGE_TENANT_ID"),
    "client_id": ("AZURE_CLIENT_ID", "AZURE_STORAGE_CLIENT_ID"),
    "client_secret": ("AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET"),
    "federated_token_file": ("AZURE_FEDERATED_TOKEN_FILE",),
    "authority_host": ("AZURE_AUTHORITY_HOST",),
    "endpoint_url": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_CONNECTION = {
    "accountname": "account_name",
    "accountkey": "account_key",
    "sharedaccesssignature": "sas_token",
    "blobendpoint": "endpoint_url",
}
_METADATA_HOST = "169.254.169.254"
_METADATA_PATH = "/metadata/instance?api-version=2019-06-01"


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check a dictionary of credentials and split its connection string.

    Raises
    ------
    InvalidInputError
        If a key is unknown, excludes another given key, or needs a key that is not given.
    """
    result = known(values, "Azure", KEYS, ALIASES)
    text = secret(result, "connection_string")
    if text is not None:
        del result["connection_string"]
        result = {**_taken_apart(text, "connection_string in creds"), **result}
    ways = [key for key in _KEYS_OF_ACCOUNT if result.get(key)]
    ways += ["client_secret"] if result.get("client_secret") else []
    ways += [key for key in ("anonymous", "managed_identity", "use_azure_cli") if flag(result, key)]
    if len(ways) > 1:
        raise InvalidInputError(f"creds for Azure hold {' and '.join(ways)}: give one of them")
    if result.get("client_secret") and not (result.get("client_id") and result.get("tenant_id")):
        raise InvalidInputError("creds for Azure hold client_secret, which needs tenant_id and client_id")
    return result


def _taken_apart(text: Secret, where: str) -> dict[str, Any]:
    """Return the values of a connection string; frames that raise errors hold none of its secrets in plain text."""
    parts = _parts(text)
    found: dict[str, Any] = {}
    for key, name in _CONNECTION.items():
        if key in parts:
            found[name] = parts[key] if name in _KEYS_OF_ACCOUNT else parts[key].reveal()
    if _said(parts, "usedevelopmentstorage").lower() == "true":
        found["use_emulator"] = True
    elif "account_name" not in found and "endpoint_url" not in found:
        raise InvalidInputError(f"{where} names no AccountName and no BlobEndpoint")
    suffix = _said(parts, "endpointsuffix")
    if "endpoint_url" not in found and suffix not in ("", "core.windows.net"):
        protocol = _said(parts, "defaultendpointsprotocol") or "https"
        found["endpoint_url"] = f"{protocol}://{found['account_name']}.blob.{suffix}"
    return found


def _parts(text: Secret) -> dict[str, Secret]:
    pairs = (part.split("=", 1) for part in text.reveal().split(";") if "=" in part)
    return {key.strip().lower(): Secret(value) for key, value in pairs}


def _said(parts: Mapping[str, Secret], key: str) -> str:
    return parts[key].reveal() if key in parts else ""


def source(chosen: Mapping[str, Any], provider: str) -> Renewal | None:
    """Return the source of the key, signature or token in a dictionary checked by :func:`settings`.

    None if the dictionary has none of these.

    Raises
    ------
    InvalidInputError
        If ``account_key`` is not base64. It is checked here, because the client would quote a part of it in its error.
    """
    for key in _KEYS_OF_ACCOUNT:
        text = secret(chosen, key)
        if text is not None:
            if key == "account_key" and not _is_base64(text):
                raise InvalidInputError(
                    f"account_key of {provider} is not valid base64: copy the whole key of the storage account"
                )
            values = {key: text}
            return Renewal(lambda values=values: Grant(values), provider)  # type: ignore[misc]
    return None


def _is_base64(text: Secret) -> bool:
    try:
        return bool(base64.b64decode(text.reveal(), validate=True))
    except ValueError:
        return False


def access(chosen: Mapping[str, Any], bucket: str, renewal: Renewal | None) -> Access:  # noqa: ARG001
    """Return the access to a container.

    Raises
    ------
    MissingCredsError
        If no account is named, or no credentials for it exist.
    """
    label = "creds"
    environment = _environment()
    full = {**environment, **{key: value for key, value in chosen.items() if value not in (None, "")}}
    endpoint = plain(full, "endpoint_url")
    config: dict[str, Any] = {"use_emulator": flag(full, "use_emulator")}
    options = client_options(chosen, endpoint, bundle(chosen))
    if config["use_emulator"]:
        options["allow_http"] = True
        if renewal is None:
            return Access("the emulator's own key", config, options)
    if endpoint is not None:
        config["endpoint"] = endpoint
    config["account_name"] = plain(full, "account_name")
    if config["account_name"] is None:
        raise MissingCredsError(
            "no storage account for Azure: pass creds={'account_name': ...} or set AZURE_STORAGE_ACCOUNT_NAME"
        )
    if renewal is not None:
        return Access("", config, options, renewal, _shaped)
    if flag(chosen, "anonymous"):
        return Access("anonymous", {**config, "skip_signature": True}, options)
    way = _application(chosen)
    if way is None:
        label = "environment"
        found = source(environment, label)
        if found is not None:
            return Access("", config, options, found, _shaped)
        way = _application(full) or _machine(full)
    return Access(f"{way['credential_type']} ({label})", config | way, options)


def _environment() -> dict[str, Any]:
    text = Secret(os.environ.get("AZURE_STORAGE_CONNECTION_STRING") or "")
    found = _taken_apart(text, "AZURE_STORAGE_CONNECTION_STRING") if text else {}
    for key, names in _ENVIRONMENT.items():
        value = next((os.environ[name] for name in names if os.environ.get(name)), None)
        if value is not None:
            found.setdefault(key, Secret(value) if key in (*_KEYS_OF_ACCOUNT, "client_secret") else value)
    return found


def _application(full: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return settings with which the client itself gets tokens; None if the values do not suffice."""
    names = ("tenant_id", "client_id", "authority_host")
    who = {key: plain(full, key) for key in names if plain(full, key)}
    if flag(full, "managed_identity"):
        return _identity(full)
    if flag(full, "use_azure_cli"):
        return {"credential_type": "azure_cli", "use_azure_cli": True}
    if "tenant_id" not in who or "client_id" not in who:
        return None
    hidden, file = plain(full, "client_secret"), plain(full, "federated_token_file")
    if hidden:
        return {"credential_type": "client_secret", "client_secret": hidden, **who}
    if file:
        return {"credential_type": "workload_identity", "federated_token_file": file, **who}
    return None


def _identity(full: Mapping[str, Any]) -> dict[str, Any]:
    chosen = plain(full, "client_id")
    return {"credential_type": "managed_identity", **({"client_id": chosen} if chosen else {})}


def _machine(full: Mapping[str, Any]) -> dict[str, Any]:
    has_endpoint = os.environ.get("IDENTITY_ENDPOINT") or os.environ.get("MSI_ENDPOINT")
    if has_endpoint or has_metadata(_METADATA_HOST, _METADATA_PATH, {"Metadata": "true"}):
        return _identity(full)
    raise MissingCredsError(
        "no credentials for Azure: tried creds=, the environment (AZURE_STORAGE_CONNECTION_STRING, "
        "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_SECRET, AZURE_FEDERATED_TOKEN_FILE), and "
        "the managed identity of a virtual machine, in this order; set one of them, or pass "
        "creds={'anonymous': True} for a public container"
    )


def _shaped(grant: Grant) -> dict[str, Any]:
    for key, name in (("account_key", "access_key"), ("sas_token", "sas_token"), ("bearer_token", "token")):
        text = plain(grant.values, key)
        if text:
            return {name: text.removeprefix("?") if name == "sas_token" else text}
    raise MissingCredsError(
        "the source of credentials returned no account_key, sas_token or bearer_token for Azure"
    )
