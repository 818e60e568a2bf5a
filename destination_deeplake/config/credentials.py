"""Access to the bucket: `credentials`, and further settings of its server.

    method                  for          fields
    environment             every one    -                                  what the machine has
    aws_keys                s3           access key, perhaps a session token
    aws_profile             s3           a profile of the AWS configuration
    aws_role                s3           a role, perhaps an external id, perhaps keys that request it
    gcs_service_account     gs           the JSON key of a service account
    azure_key               az           account and its key
    azure_sas               az           account and a shared access signature
    azure_application       az           account and an application's secret
    named                   every one    a name under which lakebed keeps credentials

The fields have the names that `lakebed` gives them in `creds=`.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from destination_deeplake.config.place import scheme_of
from destination_deeplake.config.values import Section, one_of

if TYPE_CHECKING:
    from lakebed import Credentials

_FIELD, _METHOD = "credentials", "method"
_STORES = {"s3": "S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}


@dataclass(frozen=True, slots=True)
class Method:
    """A method of authentication.

    Attributes
    ----------
    schemes : tuple of str
        Stores for which it works.
    required, optional : tuple of str
        Fields of the form.
    """

    schemes: tuple[str, ...]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


METHODS: Mapping[str, Method] = {
    "environment": Method(("s3", "gs", "az")),
    "aws_keys": Method(("s3",), ("aws_access_key_id", "aws_secret_access_key"), ("aws_session_token",)),
    "aws_profile": Method(("s3",), ("profile_name",)),
    "aws_role": Method(
        ("s3",),
        ("role_arn",),
        (
            *("external_id", "role_session_name", "aws_access_key_id", "aws_secret_access_key"),
            *("aws_session_token", "sts_endpoint_url"),
        ),
    ),
    "gcs_service_account": Method(("gs",), ("service_account_json",)),
    "azure_key": Method(("az",), ("account_name", "account_key")),
    "azure_sas": Method(("az",), ("account_name", "sas_token")),
    "azure_application": Method(("az",), ("account_name", "tenant_id", "client_id", "client_secret")),
    "named": Method(("s3", "gs", "az"), ("creds_key",)),
}

SECRETS = frozenset(
    """
    aws_access_key_id aws_secret_access_key aws_session_token external_id service_account_json account_key sas_token
    client_secret tenant_id
    """.split()
)
"""Secret fields; the last one only by Airbyte's rules."""

_FIELDS = frozenset(field for method in METHODS.values() for field in (*method.required, *method.optional))
"""Fields of all methods. A form may still hold the fields of a method that was chosen earlier."""

ENCRYPTIONS = ("AES256", "aws:kms", "aws:kms:dsse")


def credentials(form: Section, url: str) -> "Credentials | None":
    """Return the credentials of a bucket; None for a folder.

    With the method "environment" the credentials are empty, but not None, because datasets that share credentials share
    connections.

    Raises
    ------
    ConfigError
        If fields are missing, or contradict each other or the address.
    """
    scheme = scheme_of(url)
    server = _server(form, scheme)
    chosen = form.section(_FIELD)
    method = "environment" if chosen is None else chosen.choice(_METHOD, METHODS)
    if chosen is not None and method is None:
        raise chosen.error(_METHOD, f"is missing; write {one_of(METHODS)}.")
    is_local = scheme == "file"
    if is_local and method != "environment":
        raise form.error(
            _FIELD,
            f"{method} opens buckets, but destination_path is a local folder; choose environment, or write "
            "the address of a bucket into destination_path.",
        )
    given = {} if is_local or chosen is None or method is None else _given(chosen, method, scheme)
    if chosen is not None:
        chosen.finish(also=_FIELDS)
    if is_local:
        return None
    # Imported here, because only buckets need it.
    import lakebed

    return lakebed.Credentials({**given, **server})


def _given(chosen: Section, method: str, scheme: str) -> dict[str, Any]:
    rule = METHODS[method]
    if scheme not in rule.schemes:
        opens = one_of([f"{_STORES[name]} ({name}://)" for name in rule.schemes])
        raise chosen.error(
            _METHOD,
            f"{method} opens {opens}, but destination_path begins with {scheme}://; choose another method.",
        )
    values: dict[str, Any] = {key: chosen.required(key, f"{method} needs it") for key in rule.required} | {
        key: found for key in rule.optional if (found := chosen.text(key)) is not None
    }
    if "service_account_json" in values:
        values["token"] = _service_account(chosen, values.pop("service_account_json"))
    if "account_key" in values and not _is_base64(values["account_key"]):
        raise chosen.error(
            "account_key",
            "is not a key of a storage account, which is base64; copy the whole key, without its name.",
        )
    if ("aws_access_key_id" in values) != ("aws_secret_access_key" in values):
        has_id = "aws_access_key_id" in values
        missing = "aws_secret_access_key" if has_id else "aws_access_key_id"
        raise chosen.error(missing, "is missing; the two keys go together, or leave both out.")
    if "aws_session_token" in values and "aws_access_key_id" not in values:
        raise chosen.error("aws_session_token", "belongs to two keys; give both keys, or leave it out.")
    arn = values.get("role_arn")
    if arn is not None and not arn.startswith("arn:"):
        raise chosen.error(
            "role_arn", f"{arn!r} is not an ARN; write for example arn:aws:iam::123456789012:role/lake."
        )
    _check_url(chosen, "sts_endpoint_url", values.get("sts_endpoint_url"))
    return values


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False


def _service_account(chosen: Section, text: str) -> str:
    """Return the JSON of a service account, which must not appear in a message."""
    key = "service_account_json"
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise chosen.error(key, "is not JSON; paste the whole file that Google gave for the key.")
    missing = [name for name in ("client_email", "private_key") if not isinstance(found.get(name), str)]
    if missing:
        raise chosen.error(key, f"has no {one_of(missing)}; paste the whole key file of a service account.")
    return text


def _server(form: Section, scheme: str) -> dict[str, Any]:
    """Return the settings of the store's server other than credentials."""
    endpoint, region = form.text("endpoint_url"), form.text("region")
    encryption, key = form.choice("encryption", ENCRYPTIONS), form.text("kms_key_id")
    _check_url(form, "endpoint_url", endpoint)
    given = {"endpoint_url": endpoint, "aws_region": region, "sse": encryption, "sse_kms_key_id": key}
    names = {"aws_region": "region", "sse": "encryption", "sse_kms_key_id": "kms_key_id"}
    found = {name: value for name, value in given.items() if value is not None}
    for name in found:
        if scheme == "file" or (scheme != "s3" and name in names):
            which = "a bucket" if name == "endpoint_url" else "S3"
            raise form.error(
                names.get(name, name),
                f"is for {which}, which destination_path does not name; leave it empty.",
            )
    if key is not None and encryption not in ("aws:kms", "aws:kms:dsse"):
        raise form.error("kms_key_id", "goes with encryption aws:kms or aws:kms:dsse; choose one of them.")
    return found


def _check_url(form: Section, key: str, value: str | None) -> None:
    if value is None:
        return
    try:
        parts = urlsplit(value)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname)
        has_password = parts.username is not None or bool(parts.query)
    except ValueError:
        is_whole, has_password = False, False
    if has_password:
        raise form.error(key, "must hold no user name, password or query; write secrets into credentials.")
    if not is_whole:
        # The value is not quoted, because a value that is not an address may be a secret.
        raise form.error(key, "is not an address of a server; write for example https://s3.example.org.")
