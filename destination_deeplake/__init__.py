"""Airbyte destination that writes every stream as a versioned tensor dataset.

Importing the package reads nothing and imports nothing heavy; only access to `DestinationDeeplake` loads the Airbyte
CDK.
"""

from typing import Any

__all__ = ["DestinationDeeplake", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "DestinationDeeplake":
        from destination_deeplake.destination import DestinationDeeplake

        return DestinationDeeplake
    if name == "__version__":  # the same as the library's, which setup.py requires
        from lakebed import __version__

        return __version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
