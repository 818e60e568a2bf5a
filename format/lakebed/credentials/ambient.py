"""Credentials that are not in an entry: those that a cloud gives to this machine or account, and roles.

======================  ==============================================================================================
``aws-default``         profile, environment, web identity or instance metadata, as without credentials
``aws-assume-role``     the same, and then the role that ``role_arn`` names (``external_id``, ``duration_seconds``, ...)
``gcp-default``         application default credentials of Google Cloud
``azure-default``       environment, workload or managed identity, or the command line of Azure
======================  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.credentials.base import without_options
from lakebed.errors import InvalidInputError


def default(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an entry; the store asks the cloud for all else."""
    return without_options(entry)


def role(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a role that the store is to take on.

    Raises
    ------
    InvalidInputError
        If the entry names none.
    """
    if not entry.get("role_arn"):
        raise InvalidInputError("credentials of the provider 'aws-assume-role' need a role_arn")
    return without_options(entry)
