"""What the destinations on the Airbyte CDK have in common beside `write`: any configuration will do."""

from collections.abc import Mapping
from logging import Logger
from typing import Any

from airbyte_cdk.destinations import Destination
from airbyte_cdk.models import AirbyteConnectionStatus, ConnectorSpecification, Status


class CdkDestination(Destination):
    """A destination that is never wrong about its configuration."""

    def spec(self, logger: Logger) -> ConnectorSpecification:
        return ConnectorSpecification(connectionSpecification={"type": "object"})

    def check(self, logger: Logger, config: Mapping[str, Any]) -> AirbyteConnectionStatus:
        return AirbyteConnectionStatus(status=Status.SUCCEEDED)
