"""A destination on the plain Airbyte CDK that throws the records away: what the CDK alone costs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from airbyte_cdk.models import AirbyteMessage, ConfiguredAirbyteCatalog, Type

from benchmarks.cdk_destination import CdkDestination


class NoopDestination(CdkDestination):
    """Reads everything, keeps nothing, answers the states."""

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
