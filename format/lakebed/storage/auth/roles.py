"""Roles of AWS: the holder of credentials may ask the token service for those of a role."""

from __future__ import annotations

import getpass
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakebed.errors import InvalidInputError
from lakebed.storage.auth.chain import ATTEMPTS, CONNECT_SECONDS, READ_SECONDS, explained, keys
from lakebed.storage.auth.log_filter import quiet
from lakebed.storage.credentials import CredentialSource, Grant

if TYPE_CHECKING:
    from lakebed.storage.secret import Secret

_MIN_SECONDS, _MAX_SECONDS = 900, 43200


@dataclass(frozen=True, slots=True)
class Role:
    """A role, and how it is asked for.

    Parameters
    ----------
    arn
        Its name in the whole of AWS.
    external_id
        What the owner of the role wants to hear.
    session_name
        Name under which its use shows up in the owner's logs.
    seconds
        How long the credentials shall be valid: 900 to 43200; None lets the service decide.
    endpoint
        Address of the token service; None takes that of AWS in the region.
    region
        Where that is.
    verify
        File of certificates, or False to believe any.
    proxy
        Address of a proxy on the way to the service.
    """

    arn: str
    external_id: Secret | None = None
    session_name: str | None = None
    seconds: int | None = None
    endpoint: str | None = None
    region: str | None = None
    verify: bool | str | None = None
    proxy: Secret | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not _MIN_SECONDS <= self.seconds <= _MAX_SECONDS:
            raise InvalidInputError(
                f"duration_seconds is {self.seconds}; a role can be had for {_MIN_SECONDS} to {_MAX_SECONDS} seconds"
            )


class AssumedRole:
    """The credentials of a role, asked for with those of another source.

    No client outlives a question, so that a forked process never shares a connection or a lock.

    Parameters
    ----------
    base
        Who asks.
    role
        What for.
    """

    def __init__(self, base: CredentialSource, role: Role) -> None:
        self._base, self._role = base, role

    @property
    def name(self) -> str:
        """The role, and who asked for it."""
        return f"role {self._role.arn} through {self._base.name}"

    def grant(self) -> Grant:
        """Ask the token service.

        Raises
        ------
        CredentialsRejectedError
            If the role is not to be had.
        StorageUnavailableError
            If the service does not answer.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        base = self._base.grant().values
        with quiet():
            try:
                answer = self._client(base).assume_role(**self._question())
            except (BotoCoreError, ClientError) as error:
                raise explained(error, self.name) from None  # its frames hold keys
        given = answer["Credentials"]
        return Grant(
            keys(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"]),
            given["Expiration"].timestamp(),
        )

    def refresh(self) -> None:
        """Let go of what the one who asks holds, as it may be what was rejected."""
        refresh = getattr(self._base, "refresh", None)
        if refresh is not None:
            refresh()

    def _question(self) -> dict[str, Any]:
        role = self._role
        question: dict[str, Any] = {
            "RoleArn": role.arn,
            "RoleSessionName": role.session_name or _session_name(),
            "ExternalId": role.external_id.reveal() if role.external_id is not None else None,
            "DurationSeconds": role.seconds,
        }
        return {key: value for key, value in question.items() if value is not None}

    def _client(self, base: Any) -> Any:
        import botocore.config
        import botocore.session

        token, proxy = base.get("aws_session_token"), self._role.proxy
        return botocore.session.Session().create_client(
            "sts",
            region_name=self._role.region or "us-east-1",
            endpoint_url=self._role.endpoint,
            verify=self._role.verify,
            aws_access_key_id=base["aws_access_key_id"].reveal(),
            aws_secret_access_key=base["aws_secret_access_key"].reveal(),
            aws_session_token=None if token is None else token.reveal(),
            config=botocore.config.Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                proxies=None if proxy is None else dict.fromkeys(("http", "https"), proxy.reveal()),
                retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
            ),
        )


def _session_name() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "user"
    return re.sub(r"[^\w+=,.@-]", "-", f"lakebed-{user}-{os.getpid()}", flags=re.ASCII)[:64]
