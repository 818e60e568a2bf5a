"""The connector's image on a Docker engine: `make test-image`."""
