"""Airbyte's own standard tests, run on this connector."""
