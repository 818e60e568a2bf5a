"""Access to web servers.

===========================  ==========================================================================================
key                          meaning
===========================  ==========================================================================================
``headers``                  headers of every request
``username``, ``password``   Basic authentication
``bearer_token``             also ``token``: ``Authorization: Bearer ...``
``ca_bundle``, ``verify``    file of certificates; False to accept any
``proxy``                    address of a proxy
===========================  ==========================================================================================
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from lakebed.errors import InvalidInputError
from lakebed.storage.auth.client import Access
from lakebed.storage.auth.keys import known, plain
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.auth.transport import bundle, client_options
from lakebed.storage.secret import Secret

KEYS = ("headers", "username", "password", "bearer_token", "ca_bundle", "verify", "proxy")
ALIASES = {"token": "bearer_token"}


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check a dictionary of credentials.

    Raises
    ------
    InvalidInputError
        If a key is unknown, excludes another given key, or needs a key that is not given.
    """
    result = known(values, "web servers", KEYS, ALIASES)
    if bool(result.get("username")) != bool(result.get("password")):
        raise InvalidInputError("creds for web servers hold one of username and password: give both, or none")
    if result.get("username") and result.get("bearer_token"):
        raise InvalidInputError("creds for web servers hold a password and a token: give one of them")
    return result


def source(chosen: Mapping[str, Any], provider: str) -> Renewal | None:  # noqa: ARG001
    """Return None: the headers for a web server are part of every connection, and need no source."""
    return None


def access(chosen: Mapping[str, Any], bucket: str, renewal: Renewal | None) -> Access:  # noqa: ARG001
    """Return the access to a web server."""
    options = client_options(chosen, None, bundle(chosen))
    # The scheme of the address already says whether the connection is encrypted.
    options["allow_http"] = True
    given = headers(chosen)
    if given:
        options["default_headers"] = given
    return Access("creds" if given else "anonymous", {}, options)


def headers(chosen: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers for a dictionary that :func:`settings` checked.

    Raises
    ------
    InvalidInputError
        If a header is not text, or holds a line break.
    """
    found = chosen.get("headers") or {}
    if isinstance(found, Secret):
        found = json.loads(found.reveal())
    if not isinstance(found, Mapping):
        raise InvalidInputError("headers in creds must be a dictionary")
    result = {str(name): plain(found, name) or "" for name in found}
    user, word, token = plain(chosen, "username"), plain(chosen, "password"), plain(chosen, "bearer_token")
    if user and word:
        both = base64.b64encode(f"{user}:{word}".encode()).decode("ascii")
        result["Authorization"] = f"Basic {both}"
    elif token:
        result["Authorization"] = f"Bearer {token}"
    if any(char in name + value for name, value in result.items() for char in "\r\n\0"):
        raise InvalidInputError("headers in creds hold a line break")
    return result
