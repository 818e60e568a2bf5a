"""Credentials for AWS if the user gives none: the sources of botocore, tried in this order.

===================  ==================================================================================
profile              ``profile_name``, ``AWS_PROFILE`` or ``default``: keys, role, SSO, login or a program
environment          ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``
web identity         ``AWS_WEB_IDENTITY_TOKEN_FILE`` and ``AWS_ROLE_ARN``
instance metadata    that of a container, then that of a virtual machine
===================  ==================================================================================

No object of botocore is kept, so that no lock of it is held during a fork, and an edited file is read again.
"""

from __future__ import annotations

import getpass
import hashlib
import logging
import os
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakebed.errors import (
    CredentialsRejectedError,
    InvalidInputError,
    LakebedError,
    MissingCredsError,
    StorageUnavailableError,
)
from lakebed.runtime import clock, process_hooks
from lakebed.storage.auth.keys import plain, secret, whole
from lakebed.storage.auth.log_filter import quiet
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.credentials import CredentialSource, Grant
from lakebed.storage.secret import Secret, hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

# Seconds to wait for a service that issues credentials, and number of attempts.
CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
ATTEMPTS = 3

_ROLE_SECONDS = range(900, 43201)
_METADATA = ("container-role", "iam-role")
_NAMES = {
    "env": "environment",
    "assume-role-with-web-identity": "web identity",
    "container-role": "container metadata",
    "iam-role": "instance metadata",
}
"""Sources outside of profiles, by their names in botocore."""


class Chain:
    """Source of credentials that asks a profile first, then the other sources.

    Parameters
    ----------
    profile
        The only source to use; None for all sources.
    region
        Region of the services that supply credentials.
    ca_bundle
        File with certificates of these services.
    """

    def __init__(
        self, profile: str | None = None, region: str | None = None, ca_bundle: str | None = None
    ) -> None:
        self._profile, self._region, self._ca_bundle = profile, region, ca_bundle
        self.name = f"profile {profile!r}" if profile else "nothing yet"
        """Source that supplied the credentials."""

    def grant(self) -> Grant:
        """Return the credentials of the first source that has some.

        Raises
        ------
        MissingCredsError
            If no source has credentials, or a configured source does not supply them.
        """
        with quiet():
            for profile in dict.fromkeys((self._profile or _usual_profile(), self._profile)):
                found = _asked(lambda profile=profile: self._load(profile))  # type: ignore[misc]
                if found is not None:
                    other = _NAMES.get(found.method, found.method)
                    self.name = f"profile {profile!r} ({found.method})" if profile else other
                    grant: Grant = _asked(lambda found=found: _frozen(found), self.name)  # type: ignore[misc]
                    log.debug("credentials for AWS come from %s", self.name)
                    return grant
        raise MissingCredsError(self._nothing())

    def _load(self, profile: str | None) -> Any:
        session = botocore_session(profile, self._region, self._ca_bundle)
        if profile is not None:
            for method in _METADATA:
                session.get_component("credential_provider").remove(method)
        return session.get_credentials()

    def _nothing(self) -> str:
        if self._profile:
            return f"the AWS profile {self._profile!r} holds no credentials: complete it, e.g. by `aws configure`"
        return (
            "no credentials for AWS: tried creds=, "
            f"the profile {_profile_of_environment() or 'default'!r} (also SSO), "
            "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), "
            "web identity (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), "
            "and the metadata of a container or virtual machine, in this order; set one of them, "
            "or pass creds={'anonymous': True} for a public bucket"
        )


class AssumedRole:
    """Credentials of a role, which the token service of AWS gives to the holder of other credentials.

    Parameters
    ----------
    base
        Source of the credentials with which the role is requested.
    chosen
        Dictionary of credentials with ``role_arn``, see the table in `aws`.
    region
        Region of the token service.
    verify
        File with certificates of the service, or False to accept any.

    Raises
    ------
    InvalidInputError
        If ``duration_seconds`` is out of range.
    """

    def __init__(
        self, base: CredentialSource, chosen: Mapping[str, Any], region: str, verify: bool | str | None
    ) -> None:
        self._base, self._chosen, self._region, self._verify = base, chosen, region, verify
        seconds = whole(chosen, "duration_seconds")
        if seconds is not None and seconds not in _ROLE_SECONDS:
            raise InvalidInputError(
                f"duration_seconds is {seconds}; it must be from {_ROLE_SECONDS[0]} to {_ROLE_SECONDS[-1]} seconds"
            )

    @property
    def name(self) -> str:
        """Name of the role, and of the source of the credentials with which it is requested."""
        return f"role {plain(self._chosen, 'role_arn')} through {self._base.name}"

    def grant(self) -> Grant:
        """Request credentials from the token service.

        Raises
        ------
        CredentialsRejectedError
            If the service refuses the role.
        StorageUnavailableError
            If the service does not answer.
        """
        base = self._base.grant().values
        with quiet():
            return _asked(lambda: self._answer(base), self.name)  # type: ignore[no-any-return]

    def refresh(self) -> None:
        """Let the base source forget its credentials, which may be the rejected ones."""
        refresh = getattr(self._base, "refresh", None)
        if refresh is not None:
            refresh()

    def _answer(self, base: Mapping[str, Any]) -> Grant:
        import botocore.config

        chosen, proxy = self._chosen, secret(self._chosen, "proxy")
        proxies = None if proxy is None else dict.fromkeys(("http", "https"), proxy.reveal())
        client = botocore_session(region=self._region).create_client(
            "sts",
            endpoint_url=plain(chosen, "sts_endpoint_url") or os.environ.get("AWS_ENDPOINT_URL_STS") or None,
            verify=self._verify,
            aws_access_key_id=plain(base, "aws_access_key_id"),
            aws_secret_access_key=plain(base, "aws_secret_access_key"),
            aws_session_token=plain(base, "aws_session_token"),
            config=botocore.config.Config(proxies=proxies),
        )
        question = {
            "RoleArn": plain(chosen, "role_arn"),
            "RoleSessionName": plain(chosen, "role_session_name") or _session_name(),
            "ExternalId": plain(chosen, "external_id"),
            "DurationSeconds": whole(chosen, "duration_seconds"),
        }
        answer = client.assume_role(**{key: value for key, value in question.items() if value is not None})
        given = answer["Credentials"]
        return _granted(
            given["AccessKeyId"],
            given["SecretAccessKey"],
            given["SessionToken"],
            given["Expiration"].timestamp(),
        )


def botocore_session(
    profile: str | None = None, region: str | None = None, ca_bundle: str | None = None
) -> Any:
    """Return a new session of botocore whose clients do not wait long for an answer."""
    import botocore.config
    import botocore.session

    session = botocore.session.Session(profile=profile)
    session.set_default_client_config(
        botocore.config.Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        )
    )
    if ca_bundle:
        session.set_config_variable("ca_bundle", ca_bundle)
    if region or not session.get_config_variable("region"):
        session.set_config_variable("region", region or "us-east-1")
    return session


def profile_settings(profile: str | None) -> dict[str, Any]:
    """Return the settings of a profile except its keys, such as ``region``; {} if the profile does not exist.

    Without a name, the profile is that of ``AWS_PROFILE``, or ``default``.
    """
    place = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    if not place.is_file():
        return {}
    import botocore.session

    with quiet():
        found = _asked(lambda: botocore.session.Session().full_config.get("profiles", {}), "~/.aws/config")
    return dict(found.get(profile or _profile_of_environment() or "default", {}))


def _profile_of_environment() -> str | None:
    return os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or None


def _usual_profile() -> str | None:
    import botocore.session

    has_default = "default" in _asked(lambda: botocore.session.Session().full_config.get("profiles", {}))
    return _profile_of_environment() or ("default" if has_default else None)


def _frozen(credentials: Any) -> Grant:
    frozen = credentials.get_frozen_credentials()
    # botocore has no public attribute for the expiry; if it is not found, the credentials are requested again soon.
    expires = getattr(credentials, "_expiry_time", None)
    until = expires.timestamp() if expires is not None else None
    if until is None and hasattr(credentials, "refresh_needed"):
        until = clock.now() + 300
    return _granted(frozen.access_key, frozen.secret_key, frozen.token, until)


def _granted(access_key: str, secret_key: str, token: str | None, until: float | None) -> Grant:
    values = {"aws_access_key_id": Secret(access_key), "aws_secret_access_key": Secret(secret_key)}
    return Grant({**values, "aws_session_token": Secret(token)} if token else values, until)


def _session_name() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "user"
    return re.sub(r"[^\w+=,.@-]", "-", f"lakebed-{user}-{os.getpid()}", flags=re.ASCII)[:64]


def _asked(ask: Callable[[], Any], name: str = "the configuration of AWS") -> Any:
    """Call botocore; convert its errors to errors of this package that name the failed source."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return ask()
    except LakebedError:
        raise
    except (BotoCoreError, ClientError, OSError, RuntimeError, ValueError, KeyError) as error:
        failure = _explained(error, name)
    # Raise outside of the `except` block, because the frames of the original error contain keys.
    raise failure


def _explained(error: Exception, name: str) -> LakebedError:
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004

    text = f"{name} gives no credentials: {type(error).__name__}: {hidden(str(error))}"
    if isinstance(error, (HTTPClientError, ConnectionError)):
        return StorageUnavailableError(f"{text}; try again later, or check the network and the address")
    if isinstance(error, ClientError):
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
            return StorageUnavailableError(f"{text}; try again later")
        return CredentialsRejectedError(f"{text}; check who is allowed to assume the role")
    return MissingCredsError(f"{text}; complete its settings, or pass other credentials")


_shared: dict[tuple[str, ...], Renewal] = {}
_mutex = threading.Lock()


def shared_chain(profile: str | None, region: str | None, ca_bundle: str | None) -> Renewal:
    """Return the chain for the present environment, shared by all callers."""
    chosen = sorted((k, v) for k, v in os.environ.items() if k.startswith("AWS_") or k == "HOME")
    # Use a digest, so that secrets of the environment are not kept as text.
    here = hashlib.sha256(repr(chosen).encode("utf-8", "surrogateescape")).hexdigest()
    place = (profile or "", region or "", ca_bundle or "", here)
    with _mutex:
        if place not in _shared:
            _shared[place] = Renewal(Chain(profile, region, ca_bundle))
        return _shared[place]


process_hooks.new_lock_after_fork(sys.modules[__name__], "_mutex")
