"""A destination on the plain Airbyte CDK that throws the records away: what the CDK alone costs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from logging import Logger
from typing import Any

from airbyte_cdk.destinations import Destination
from airbyte_cdk.models import (
    AirbyteConnectionStatus,
    AirbyteMessage,
    ConfiguredAirbyteCatalog,
    ConnectorSpecification,
    Status,
    Type,
)


class NoopDestination(Destination):
    """Reads everything, keeps nothing, answers the states."""

    def spec(self, logger: Logger) -> ConnectorSpecification:
        return ConnectorSpecification(connectionSpecification={"type": "object"})

    def check(self, logger: Logger, config: Mapping[str, Any]) -> AirbyteConnectionStatus:
        return AirbyteConnectionStatus(status=Status.SUCCEEDED)

    def write(
        self,
        config: Mapping[str, Any],
        configured_catalog: ConfiguredAirbyteCatalog,
        input_messages: Iterable[AirbyteMessage],
    ) -> Iterable[AirbyteMessage]:
        for message in input_messages:
            if message.type == Type.STATE:
                yield message


if __name__ == "__main__":
    NoopDestination().run(sys.argv[1:])
