"""A source that writes to sockets, as Airbyte's do in their fast mode, and what a destination must answer it."""
