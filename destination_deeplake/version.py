"""The version of the connector."""

__version__ = "0.1.0"
