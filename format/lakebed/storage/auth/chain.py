"""Where credentials for AWS come from where none are given: botocore's sources, in our order.

===================  ==================================================================================
profile              ``profile_name``, ``AWS_PROFILE`` or ``default``: keys, role, SSO, login or a program
environment          ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``
web identity         ``AWS_WEB_IDENTITY_TOKEN_FILE`` and ``AWS_ROLE_ARN``
instance metadata    that of a container, then that of a virtual machine
===================  ==================================================================================

The first that has something is asked from then on. No object of botocore outlives a question, so that no lock of
one can be held while a process forks, and a file that was edited counts at the next question.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakebed.errors import (
    CredentialsRejectedError,
    LakebedError,
    MissingCredsError,
    StorageUnavailableError,
)
from lakebed.runtime import clock, process_hooks
from lakebed.storage.auth.log_filter import quiet
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.credentials import Grant
from lakebed.storage.secret import Secret, hidden

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

# Seconds for which a machine without metadata is taken to stay without.
METADATA_PAUSE = 300.0

# Seconds to wait for a service that hands out credentials, and how often it is asked.
CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0
ATTEMPTS = 3

_PROFILE_METHODS = (
    "assume-role",
    "assume-role-with-web-identity",
    "sso",
    "shared-credentials-file",
    "login",
    "custom-process",
    "config-file",
)

# When metadata was asked for in vain, by where; monotonic seconds.
_in_vain: dict[str, float] = {}


class Chain:
    """A source that looks in one place after the other, and stays with the first that has something.

    Parameters
    ----------
    profile
        Look nowhere but in this profile.
    region
        Region of services that are asked for credentials.
    ca_bundle
        File of certificates that they may have signed theirs with.
    """

    def __init__(
        self, profile: str | None = None, region: str | None = None, ca_bundle: str | None = None
    ) -> None:
        self._profile, self._region, self._ca_bundle = profile, region, ca_bundle
        self._won: Callable[[], tuple[str, Any] | None] | None = None
        self._name = f"profile {profile!r}" if profile else "nothing yet"

    @property
    def name(self) -> str:
        """Where the credentials came from."""
        return self._name

    def grant(self) -> Grant:
        """Return credentials of the first place that has some.

        Raises
        ------
        MissingCredsError
            If no place has any, or the one that should have some does not give them.
        """
        with quiet():
            for look in [self._won] if self._won is not None else self._places():
                found = _asked(look)
                if found is None:
                    continue
                name, credentials = found
                grant: Grant = _asked(partial(_frozen, credentials), name)
                if self._won is None:
                    log.debug("credentials for AWS come from %s", name)
                self._won, self._name = look, name
                return grant
        raise MissingCredsError(self._nothing())

    def _places(self) -> list[Callable[[], tuple[str, Any] | None]]:
        if self._profile:
            return [self._from_profile]
        return [self._from_profile, self._from_environment, self._from_web_identity, self._from_metadata]

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

    def _session(self, profile: str | None) -> Any:
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
        if self._ca_bundle:
            session.set_config_variable("ca_bundle", self._ca_bundle)
        if self._region or not session.get_config_variable("region"):
            session.set_config_variable("region", self._region or "us-east-1")
        return session

    def _from_profile(self) -> tuple[str, Any] | None:
        import botocore.session

        profile = self._profile or _profile_of_environment()
        if profile is None:
            if "default" not in botocore.session.Session().available_profiles:
                return None
            profile = "default"
        session = self._session(profile)
        for method in _PROFILE_METHODS:
            found = _load(session, method)
            if found is not None:
                return f"profile {profile!r} ({method})", found
        return None

    def _from_environment(self) -> tuple[str, Any] | None:
        found = _load(self._session(None), "env")
        return None if found is None else ("environment", found)

    def _from_web_identity(self) -> tuple[str, Any] | None:
        if not os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
            return None
        found = _load(self._session(None), "assume-role-with-web-identity")
        return None if found is None else ("web identity", found)

    def _from_metadata(self) -> tuple[str, Any] | None:
        session = self._session(None)
        found = _load(session, "container-role")
        if found is not None:
            return "container metadata", found
        where = str(session.get_config_variable("ec2_metadata_service_endpoint"))
        since = _in_vain.get(where)
        if since is not None and clock.monotonic() - since < METADATA_PAUSE:
            return None
        found = _load(session, "iam-role")
        if found is not None:
            return "instance metadata", found
        _in_vain[where] = clock.monotonic()
        return None


def profile_settings(profile: str | None) -> dict[str, Any]:
    """Return what a profile says beside its keys, such as ``region`` and ``endpoint_url``; nothing if there is none.

    ``AWS_PROFILE``, or ``default``, is the one that counts if none is named.
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


def _load(session: Any, method: str) -> Any:
    resolver = session.get_component("credential_provider")
    providers = [provider for provider in resolver.providers if method == provider.METHOD]
    return providers[0].load() if providers else None


def _frozen(credentials: Any) -> Grant:
    frozen = credentials.get_frozen_credentials()
    # botocore offers no other way to learn when they end; where it does not say, they are asked for again soon.
    expires = getattr(credentials, "_expiry_time", None)
    until = expires.timestamp() if expires is not None else None
    if until is None and hasattr(credentials, "refresh_needed"):
        until = clock.now() + 300
    return Grant(
        keys(frozen.access_key, frozen.secret_key, frozen.token),
        until,
    )


def keys(access_key: str, secret_key: str, token: str | None) -> dict[str, Secret]:
    """Return keys as the values of a grant."""
    values = {"aws_access_key_id": Secret(access_key), "aws_secret_access_key": Secret(secret_key)}
    return {**values, "aws_session_token": Secret(token)} if token else values


def _asked(ask: Callable[[], Any], name: str = "") -> Any:
    """Ask botocore; its errors become those of this package, with the place that failed."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return ask()
    except LakebedError:
        raise
    except (BotoCoreError, ClientError, OSError, RuntimeError, ValueError, KeyError) as error:
        # Not `from error`: its frames hold keys.
        raise explained(error, name or "the configuration of AWS") from None


def explained(error: Exception, name: str) -> LakebedError:
    """Return the error of this package that says what went wrong between botocore and a service."""
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004

    text = f"{name} gives no credentials: {type(error).__name__}: {hidden(str(error))}"
    if isinstance(error, (HTTPClientError, ConnectionError)):
        return StorageUnavailableError(f"{text}; try again later, or check the network and the address")
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status >= 500:
            return StorageUnavailableError(f"{text}; try again later")
        return CredentialsRejectedError(f"{text}; check who may assume the role, and by which means")
    return MissingCredsError(f"{text}; complete what it needs, or give other credentials")


_shared: dict[tuple[str, ...], Renewal] = {}
_mutex = threading.Lock()


def shared_chain(profile: str | None, region: str | None, ca_bundle: str | None) -> Renewal:
    """Return the chain for the present environment, one for all who ask from the same."""
    chosen = sorted((k, v) for k, v in os.environ.items() if k.startswith("AWS_") or k == "HOME")
    # A digest: no secret of the environment is kept as text.
    here = hashlib.sha256(repr(chosen).encode("utf-8", "surrogateescape")).hexdigest()
    place = (profile or "", region or "", ca_bundle or "", here)
    with _mutex:
        if place not in _shared:
            _shared[place] = Renewal(Chain(profile, region, ca_bundle))
        return _shared[place]


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603 - another thread of the parent may hold it
    _mutex = threading.Lock()


process_hooks.after_fork(_after_fork)
