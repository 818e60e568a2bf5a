"""Metadata services of Google Cloud and Azure: tokens for the account that a virtual machine runs as."""

from __future__ import annotations

import http.client
import json
from typing import Any

from lakebed.errors import CredentialsRejectedError, StorageUnavailableError
from lakebed.runtime import clock

# Seconds to wait where there may be no such service at all; seconds for an answer once there is one; and seconds for
# which a machine without one is taken to stay without.
CONNECT_SECONDS = 1.0
READ_SECONDS = 10.0
PAUSE = 300.0

_OK = 200
_in_vain: dict[str, float] = {}


def is_there(host: str, path: str, headers: dict[str, str], sign: str | None = None) -> bool:
    """Tell whether a machine has such a service, without waiting long; no is remembered for a while.

    Parameters
    ----------
    host, path, headers
        What to ask for.
    sign
        Header that the answer has, as other clouds answer under the same address.
    """
    since = _in_vain.get(host + path)
    if since is not None and clock.monotonic() - since < PAUSE:
        return False
    connection = http.client.HTTPConnection(host, timeout=CONNECT_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        found = answer.status == _OK and (sign is None or answer.getheader(sign) is not None)
    except (OSError, http.client.HTTPException):
        found = False
    finally:
        connection.close()
    if not found:
        _in_vain[host + path] = clock.monotonic()
    return found


def ask(host: str, path: str, headers: dict[str, str], what: str) -> dict[str, Any]:
    """Return the answer of a metadata service.

    Raises
    ------
    StorageUnavailableError
        If it does not answer.
    CredentialsRejectedError
        If it answers, but with no token.
    """
    # http.client and no proxy: these addresses exist on this machine only.
    connection = http.client.HTTPConnection(host, timeout=READ_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        status, body = answer.status, answer.read(1 << 20)
    except (OSError, http.client.HTTPException) as error:
        raise StorageUnavailableError(
            f"{what} at {host} does not answer: {type(error).__name__}; try again later"
        ) from error
    finally:
        connection.close()
    if status != _OK:
        raise CredentialsRejectedError(
            f"{what} at {host} gives no token (HTTP status {status}): give the machine an account"
        )
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CredentialsRejectedError(f"{what} at {host} answers with something that is no token")
    return found
