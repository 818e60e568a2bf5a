"""Connections to stores: certificates, proxies, encryption; and whether a machine has a metadata service."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lakebed.errors import InvalidInputError
from lakebed.storage.auth.keys import plain

KEYS = ("ca_bundle", "verify", "proxy")
"""Keys of a dictionary of credentials that concern connections, for every store."""

# Seconds to wait for a metadata service, which may not exist on this machine.
_METADATA_SECONDS = 1.0


def client_options(values: Mapping[str, Any], endpoint: str | None, ca_bundle: str | None) -> dict[str, Any]:
    """Return the options of a client of obstore.

    Parameters
    ----------
    values
        The dictionary of credentials: ``proxy`` and ``verify``.
    endpoint
        Address of the store, if it is not that of the cloud.
    ca_bundle
        File of certificates that are trusted beside those of the system.

    Raises
    ------
    InvalidInputError
        If the endpoint is not an http address, or the file cannot be read.
    """
    options: dict[str, Any] = {}
    if endpoint is not None:
        scheme = urlsplit(endpoint).scheme
        if scheme not in ("http", "https"):
            raise InvalidInputError("endpoint_url in creds must begin with http:// or https://")
        if scheme == "http":
            # Without encryption, certificates are not used, and reading those of the system takes long.
            options["allow_http"], ca_bundle = True, None
    if values.get("verify") is False:
        options["allow_invalid_certificates"] = True
    elif ca_bundle is not None:
        options["root_certificate"] = certificates(ca_bundle)
    proxy = plain(values, "proxy")
    if proxy is not None:
        options["proxy_url"] = proxy
    return options


def bundle(values: Mapping[str, Any]) -> str | None:
    """Return the given file of certificates: ``ca_bundle``, or ``verify`` as in boto3."""
    given = values.get("verify")
    if given is not None and not isinstance(given, (bool, str)):
        raise InvalidInputError("verify in creds must be True, False, or the path of a file of certificates")
    return plain(values, "ca_bundle") or (given if isinstance(given, str) else None)


def certificates(path: str) -> bytes:
    """Read a file of certificates.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, or holds no certificates.
    """
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"the certificates in {path} cannot be read: {error.strerror}; correct ca_bundle"
        ) from error
    if b"-----BEGIN CERTIFICATE-----" not in data:
        raise InvalidInputError(f"{path} holds no certificates in PEM form; correct ca_bundle")
    return data


def has_metadata(host: str, path: str, headers: dict[str, str], sign: str | None = None) -> bool:
    """Tell whether this machine has a metadata service, without waiting long.

    Parameters
    ----------
    host, path, headers
        Request that the service answers.
    sign
        Name of a header by which the service's answer is recognised, because other clouds answer at the same address.
    """
    # Do not use a proxy, because the address exists only on this machine.
    connection = http.client.HTTPConnection(host, timeout=_METADATA_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status == http.HTTPStatus.OK and (sign is None or answer.getheader(sign) is not None)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
