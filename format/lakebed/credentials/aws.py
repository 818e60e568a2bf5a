"""Credentials kept by AWS: a secret of Secrets Manager, or a parameter of the Systems Manager, each a JSON dictionary.

What an entry in the environment or in the file says::

    provider = "aws-secretsmanager"     or "aws-ssm"
    secret_id = "prod/datasets"         parameter = "/prod/datasets"
    manager_region, manager_profile, manager_endpoint      where it is asked, and as whom; botocore's defaults else

Other keys of the entry, such as ``aws_region`` and ``endpoint_url``, are for the store, as those of the secret, which
come first. Secrets that hold no dictionary but one text are taken by no store: put a dictionary into them.
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
from lakebed.storage.auth.log_filter import quiet

if TYPE_CHECKING:
    from lakebed.storage.credentials import Given

_log = logging.getLogger(__name__)

ATTEMPTS = 4
"""Times that AWS is asked before that counts as a failure."""

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
        If there is no such secret.
    InvalidInputError
        If the entry names none, or it holds no dictionary.
    StoragePermissionError, MissingCredsError
        If AWS does not show it to this account, or there is no account.
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
    found = _asked(service, what, region, endpoint, profile, ask)
    if isinstance(found, LakebedError):
        raise found
    if found is None:
        raise InvalidInputError(f"the {what} of AWS holds no JSON dictionary of credentials")
    _log.debug("credentials come from the %s of AWS", what)
    return {**without_options(entry), **found}


def _asked(
    service: str,
    what: str,
    region: str | None,
    endpoint: str | None,
    profile: str | None,
    ask: Callable[[Any], Given | None],
) -> Given | LakebedError | None:
    """Ask AWS; errors are returned, so that what the library had in its hands is in no traceback."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    config = Config(
        connect_timeout=5, read_timeout=15, retries={"total_max_attempts": ATTEMPTS, "mode": "standard"}
    )
    try:
        with quiet():
            session = boto3.Session(profile_name=profile, region_name=region)
            return ask(session.client(service, endpoint_url=endpoint, config=config))
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "error"))
    except NoCredentialsError:
        return MissingCredsError(
            f"the {what} of AWS can not be asked for: there are no credentials for AWS itself"
        )
    except (BotoCoreError, OSError) as error:
        return StorageUnavailableError(f"the {what} of AWS can not be asked for: {type(error).__name__}")
    except ValueError:
        return InvalidInputError(f"the {what} of AWS can not be asked for: manager_endpoint is no address")
    if code in _ABSENT:
        return ManagedCredentialsNotFoundError(f"AWS has no {what} ({code})")
    if code in _DENIED:
        return StoragePermissionError(f"AWS does not show the {what} to this account ({code})")
    return StorageUnavailableError(f"AWS could not give the {what} ({code})")
