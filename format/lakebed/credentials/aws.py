"""Credentials kept by AWS: a secret of Secrets Manager, or a parameter of the Systems Manager, each a JSON dictionary.

An entry in the environment or in the file holds::

    provider = "aws-secretsmanager"     or "aws-ssm"
    secret_id = "prod/datasets"         parameter = "/prod/datasets"
    manager_region, manager_profile, manager_endpoint      place and account of the request, as in botocore

Other keys of the entry, such as ``aws_region`` and ``endpoint_url``, are for the store, like those of the secret, which
have priority. A secret must hold a dictionary, not a single text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakebed.credentials.base import option, parsed, without_options
from lakebed.errors import (
    InvalidInputError,
    LakebedError,
    ManagedCredentialsNotFoundError,
    MissingCredsError,
    StoragePermissionError,
    StorageUnavailableError,
)
from lakebed.storage.auth.aws_chain import botocore_session
from lakebed.storage.auth.log_filter import quiet

if TYPE_CHECKING:
    from lakebed.storage.credentials import Given

_log = logging.getLogger(__name__)

_ABSENT = frozenset({"ResourceNotFoundException", "ParameterNotFound", "ParameterVersionNotFound"})
_DENIED = frozenset(
    """
    AccessDeniedException AccessDenied UnrecognizedClientException InvalidSignatureException ExpiredTokenException
    InvalidClientTokenId ExpiredToken NotAuthorized
    """.split()
)


def secret(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the credentials that a secret of AWS Secrets Manager holds.

    Raises
    ------
    ManagedCredentialsNotFoundError
        If the secret does not exist.
    InvalidInputError
        If the entry names no secret, or the secret holds no dictionary.
    StoragePermissionError, MissingCredsError
        If this account may not read it, or credentials for AWS are missing.
    StorageUnavailableError
        If AWS cannot be reached.
    """
    name = _wanted(entry, "secret_id")

    def ask(client: Any) -> Given | None:
        return parsed(client.get_secret_value(SecretId=name).get("SecretString"))

    return _from_aws("secretsmanager", f"secret {name!r}", _region(entry, name), entry, ask)


def parameter(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the credentials that a parameter of the AWS Systems Manager holds; errors as for :func:`secret`."""
    name = _wanted(entry, "parameter")

    def ask(client: Any) -> Given | None:
        return parsed(client.get_parameter(Name=name, WithDecryption=True)["Parameter"].get("Value"))

    return _from_aws("ssm", f"parameter {name!r}", _region(entry, name), entry, ask)


def _wanted(entry: Mapping[str, Any], key: str) -> str:
    name = option(entry, key)
    if not name:
        raise InvalidInputError(f"credentials of the provider {option(entry, 'provider')!r} need a {key}")
    return name


def _region(entry: Mapping[str, Any], name: str) -> str | None:
    parts = name.split(":")
    in_name = parts[3] if name.startswith("arn:") and len(parts) > 4 else None
    return option(entry, "manager_region") or in_name or option(entry, "aws_region")


def _from_aws(
    service: str,
    what: str,
    region: str | None,
    entry: Mapping[str, Any],
    ask: Callable[[Any], Given | None],
) -> dict[str, Any]:
    endpoint, profile = option(entry, "manager_endpoint"), option(entry, "manager_profile")

    def asked() -> Given | None:
        return ask(botocore_session(profile, region).create_client(service, endpoint_url=endpoint))

    found = _answer(asked, what)
    if isinstance(found, LakebedError):
        raise found
    if found is None:
        raise InvalidInputError(f"the {what} of AWS does not hold a JSON dictionary of credentials")
    _log.debug("credentials come from the %s of AWS", what)
    return {**without_options(entry), **found}


def _answer(ask: Callable[[], Given | None], what: str) -> Given | LakebedError | None:
    """Call AWS; return errors instead of raising them, so that no traceback shows values of botocore."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        with quiet():
            return ask()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "error"))
    except NoCredentialsError:
        return MissingCredsError(
            f"the {what} of AWS cannot be requested: credentials for AWS itself are missing"
        )
    except (BotoCoreError, OSError) as error:
        return StorageUnavailableError(f"the {what} of AWS cannot be requested: {type(error).__name__}")
    except ValueError:
        return InvalidInputError(f"the {what} of AWS cannot be requested: manager_endpoint is not an address")
    if code in _ABSENT:
        return ManagedCredentialsNotFoundError(f"AWS has no {what} ({code})")
    if code in _DENIED:
        return StoragePermissionError(f"AWS does not allow this account to read the {what} ({code})")
    return StorageUnavailableError(f"AWS failed to return the {what} ({code})")
