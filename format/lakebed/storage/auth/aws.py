"""Access to S3 and compatible stores.

===========================  ==========================================================================================
key                          meaning
===========================  ==========================================================================================
``aws_access_key_id``        with ``aws_secret_access_key``, and ``aws_session_token`` if they expire
``aws_region``               also ``region``, ``region_name``
``endpoint_url``             address of a store outside of AWS
``profile_name``             profile of ``~/.aws/config``, also one with SSO
``role_arn``                 role to assume, with ``external_id``, ``role_session_name``, ``duration_seconds`` and
                             ``sts_endpoint_url``
``anonymous``                no signature, for public buckets
``requester_pays``           the requester is billed
``sse``                      ``AES256``, ``aws:kms`` or ``aws:kms:dsse``, with ``sse_kms_key_id`` and
                             ``bucket_key_enabled``; ``sse_customer_key``: 32 bytes of your own in base64
``addressing_style``         ``path`` (default) or ``virtual``: the bucket as part of the host's name
``ca_bundle``, ``verify``    file of certificates; False to accept any
``proxy``                    address of a proxy
===========================  ==========================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from lakebed.errors import InvalidInputError, MissingCredsError
from lakebed.storage.auth.aws_chain import AssumedRole, profile_settings, shared_chain
from lakebed.storage.auth.client import Access
from lakebed.storage.auth.keys import flag, known, plain, secret
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.auth.transport import bundle, client_options
from lakebed.storage.credentials import CredentialSource, Grant

_SECRETS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
KEYS = (
    *(*_SECRETS, "aws_region", "endpoint_url"),
    *("profile_name", "role_arn", "external_id", "role_session_name", "duration_seconds", "sts_endpoint_url"),
    *("anonymous", "requester_pays", "sse", "sse_kms_key_id", "sse_customer_key", "bucket_key_enabled"),
    *("addressing_style", "ca_bundle", "verify", "proxy"),
)
ALIASES = {"region": "aws_region", "region_name": "aws_region"}
_STYLES = ("path", "virtual")


def settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check a dictionary of credentials and return it under one spelling of its keys.

    Raises
    ------
    InvalidInputError
        If a key is unknown, or a key is given without another key that it requires.
    """
    result = known(values, "S3", KEYS, ALIASES)
    has_id, has_secret = (bool(result.get(f"aws_{k}")) for k in ("access_key_id", "secret_access_key"))
    if has_id != has_secret:
        missing = "aws_secret_access_key" if has_id else "aws_access_key_id"
        raise InvalidInputError(f"creds for S3 lack {missing}: give both keys, or neither")
    if result.get("aws_session_token") and not has_id:
        raise InvalidInputError("creds for S3 hold aws_session_token without the two keys that it belongs to")
    if flag(result, "anonymous") and (has_id or result.get("role_arn") or result.get("profile_name")):
        raise InvalidInputError(
            "creds for S3 are anonymous and also hold keys, a role or a profile: leave one of them out"
        )
    if has_id and result.get("profile_name"):
        raise InvalidInputError("creds for S3 hold keys and profile_name: give one of them")
    if result.get("external_id") and not result.get("role_arn"):
        raise InvalidInputError("creds for S3 hold external_id without the role_arn that it belongs to")
    if result.get("addressing_style", "path") not in _STYLES:
        raise InvalidInputError(f"addressing_style in creds must be one of {', '.join(_STYLES)}")
    return result


def source(chosen: Mapping[str, Any], provider: str) -> CredentialSource | None:
    """Return the source of credentials for a dictionary checked by :func:`settings`; None for anonymous access."""
    if flag(chosen, "anonymous"):
        return None
    ca_bundle = _bundle(chosen)
    base = shared_chain(plain(chosen, "profile_name"), plain(chosen, "aws_region"), ca_bundle)
    if chosen.get("aws_access_key_id"):
        given = {key: value for key in _SECRETS if (value := secret(chosen, key)) is not None}
        base = Renewal(lambda: Grant(given), provider)
    if plain(chosen, "role_arn") is None:
        return base
    verify = False if chosen.get("verify") is False else ca_bundle
    return AssumedRole(base, chosen, plain(chosen, "aws_region") or _region(chosen), verify)


def access(chosen: Mapping[str, Any], bucket: str, renewal: Renewal | None) -> Access:
    """Return the access to a bucket.

    Parameters
    ----------
    chosen
        The dictionary, checked by :func:`settings`.
    bucket
        Name of the bucket.
    renewal
        Source of the credentials; None for requests without a signature.
    """
    endpoint = plain(chosen, "endpoint_url") or _endpoint(chosen)
    region = plain(chosen, "aws_region") or _region(chosen)
    options = client_options(chosen, endpoint, _bundle(chosen))
    config: dict[str, Any] = {"region": region, "skip_signature": renewal is None}
    if chosen.get("addressing_style") == "virtual":
        config["virtual_hosted_style_request"] = True
        endpoint = _with_bucket(endpoint, bucket)
    if endpoint is not None:
        # Set both names, because obstore prefers the second name, which it may take from the environment, to the first.
        config |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
    if flag(chosen, "requester_pays"):
        config["request_payer"] = True
    config |= _encryption(chosen)
    return Access("anonymous" if renewal is None else "", config, options, renewal, _shaped)


def _encryption(chosen: Mapping[str, Any]) -> dict[str, Any]:
    key, customer = plain(chosen, "sse_kms_key_id"), plain(chosen, "sse_customer_key")
    kind = plain(chosen, "sse") or ("aws:kms" if key else "sse-c" if customer else None)
    if key and kind not in ("aws:kms", "aws:kms:dsse"):
        raise InvalidInputError("sse_kms_key_id in creds needs sse='aws:kms' or 'aws:kms:dsse'")
    if kind not in (None, "AES256", "aws:kms", "aws:kms:dsse", "sse-c") or (kind == "sse-c") != bool(
        customer
    ):
        raise InvalidInputError(
            "sse in creds must be AES256, aws:kms or aws:kms:dsse; for a key of your own, pass only sse_customer_key"
        )
    found = {
        "server_side_encryption": kind,
        "sse_kms_key_id": key,
        "sse_customer_key_base64": customer,
        "sse_bucket_key_enabled": flag(chosen, "bucket_key_enabled") or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _shaped(grant: Grant) -> dict[str, Any]:
    values = grant.values
    key, hidden, token = (plain(values, name) for name in _SECRETS)
    if not key or not hidden:
        raise MissingCredsError(
            "the source of credentials returned no aws_access_key_id or aws_secret_access_key"
        )
    return {"access_key_id": key, "secret_access_key": hidden, "token": token}


def _bundle(chosen: Mapping[str, Any]) -> str | None:
    return bundle(chosen) or os.environ.get("AWS_CA_BUNDLE") or None


def _region(chosen: Mapping[str, Any]) -> str:
    given = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return given or _from_profile(chosen, "region") or "us-east-1"


def _from_profile(chosen: Mapping[str, Any], key: str) -> str | None:
    value = profile_settings(plain(chosen, "profile_name")).get(key)
    return value if isinstance(value, str) and value else None


def _endpoint(chosen: Mapping[str, Any]) -> str | None:
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return None
    given = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return given or _from_profile(chosen, "endpoint_url")


def _with_bucket(endpoint: str | None, bucket: str) -> str | None:
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    return urlunsplit(parts._replace(netloc=f"{bucket}.{parts.netloc}"))
